"""What a spec says of a socket's life, in words."""

from collections.abc import Iterator

from streamlease.spec.model import ConnectionSpec
from streamlease.spec.session import Computed, Rule, Step, Then
from streamlease.spec.url import shortened

_DOES: dict[Then, str] = {
    "go_on": "goes on",
    "gap": "leaves a gap record and goes on",
    "retry": "dials again",
    "rotate": "changes to a new socket",
    "new_session": "forgets the session and the cursor, leaves a gap record and dials again",
    "live": "forgets the cursor, leaves a gap record and dials again",
    "refresh_secrets": "looks the secrets up anew, once, and dials again",
    "quarantine": "gives up for a while",
    "fatal": "gives up for good",
}


def before_dial(spec: ConnectionSpec) -> Iterator[str]:
    fetch = spec.fetch
    if fetch is not None:
        keeps = f", keeps {', '.join(fetch.capture)} of the answer" if fetch.capture else ""
        dials = f", and dials the URL at {fetch.next_url} of the answer" if fetch.next_url else ""
        yield f"calls {fetch.method} {shortened(fetch.url)} before each dial, within {fetch.within}{keeps}{dials}"
    if spec.proxy != "env":
        yield "goes through no proxy" if spec.proxy == "none" else "goes through the proxy that it names"
    if spec.tls.certificate:
        yield "shows a client certificate"
    if spec.tls.ca:
        yield "trusts its own certificates only"
    if spec.private_addresses:
        yield "asks for private addresses, which the worker has to allow"
    for name, value in spec.values.items():
        yield f"makes {name} for each dial and message: {_value(value)}"


def script(spec: ConnectionSpec) -> Iterator[str]:
    """The open script. A run of messages is one line."""
    messages = 0
    for index, entry in enumerate(spec.open):
        if not isinstance(entry, Step):
            messages += 1
            if index + 1 < len(spec.open) and not isinstance(spec.open[index + 1], Step):
                continue
            yield f"sends {messages} message{'' if messages == 1 else 's'} once the socket is open"
            messages = 0
            continue
        only = f" if there is a value of {entry.present}" if entry.present else ""
        only += f" if there is no value of {entry.absent}" if entry.absent else ""
        if "send" in entry.model_fields_set:
            yield f"sends open[{index}]{only}"
        if entry.expect or entry.answers:
            conditions = [f"{entry.expect} holds"] if entry.expect else []
            conditions += [f"{path} is what was sent" for path in entry.answers]
            keeps = f", and keeps {', '.join(entry.capture)} of it" if entry.capture else ""
            yield f"waits {entry.within} for a message of which {' and '.join(conditions)}{only}{keeps}"


def life(spec: ConnectionSpec) -> Iterator[str]:
    beat, rotate = spec.keepalive.message, spec.rotate
    if beat is not None:
        timed = beat.every[:1].isdigit()
        often = f"every {beat.every}" if timed else f"at the interval that the upstream names ({beat.every})"
        when = " when nothing was read for so long" if beat.if_silent else ""
        answer = f", and closes with {beat.close_code} unless {beat.answer} answers" if beat.answer else ""
        yield f"sends a keepalive message {often}{when}{answer}"
    if spec.keepalive.heartbeat:
        yield f"takes messages of which {spec.keepalive.heartbeat} holds for heartbeats, and does not deliver them"
    if rotate.after or rotate.order == "make_before_break":
        after = (
            f"after {rotate.after}" + (f" less up to {rotate.jitter}" if rotate.jitter else "") if rotate.after else ""
        )
        how = (
            "the new one is ready before the old one is closed"
            if rotate.order == "make_before_break"
            else "the old one is closed first"
        )
        yield f"replaces its socket {after or 'where a rule says so'}: {how}"
    if spec.pace is not None:
        counted = ", pings and pongs counted" if spec.pace.count_pings else ""
        yield f"sends at most {spec.pace.messages} messages in {spec.pace.per}{counted}"
    if spec.max_send is not None:
        yield "sends nothing" if spec.max_send == "never" else f"sends no message of more than {spec.max_send}"
    for rule in spec.rules:
        yield _rule(rule)


def _rule(rule: Rule) -> str:
    if rule.message:
        what = f"on a message of which {rule.message} holds"
    elif rule.close or rule.reason:
        codes = f" with {', '.join(map(str, rule.close))}" if rule.close else ""
        what = f"on a close{codes}" + (f" that says {rule.reason!r}" if rule.reason else "")
    else:
        statuses = f" {', '.join(map(str, rule.http))}" if rule.http else ""
        what = f"on HTTP{statuses}" + (f" whose body has {rule.body}" if rule.body else "")
    does = [f"keeps {', '.join(rule.capture)}"] if rule.capture else []
    does += ["answers"] if "send" in rule.model_fields_set else []
    does += [] if rule.then == "go_on" and does else [_DOES[rule.then]]
    if rule.after:
        timed = rule.after[:1].isdigit()
        does.append(f"after {rule.after} at least" if timed else f"after the seconds at {rule.after}")
    times = f"; after {rule.times} in a row it {_DOES[rule.otherwise]}" if rule.times else ""
    return f"{what}: {', '.join(does)}{times}"


def _value(value: Computed) -> str:
    match value.kinds[0]:
        case "now":
            return f"the time in {value.now}" + (f", {value.plus} later" if value.plus else "")
        case "random":
            return f"{value.random} random digits"
        case "base64":
            return "a text in base64"
        case "jwt":
            return f"a token signed by {value.jwt} with {value.key}"
        case kind:
            return f"{kind} with {value.key}"

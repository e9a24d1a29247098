"""What does not fit together in what a spec says of a socket's life, one sentence each."""

from collections.abc import Iterator
from typing import Protocol

from streamlease.spec import session
from streamlease.spec.adapters import Adapter
from streamlease.spec.placeholders import NAME, RESERVED
from streamlease.spec.record import Ack, Record
from streamlease.spec.session import Computed, Entry, Fetch, Pace, Rotate, Rule, Step, Tls
from streamlease.spec.stream import Keepalive, Resume


class Whole(Protocol):
    """The spec, as far as it matters here."""

    @property
    def open(self) -> list[Entry]: ...
    @property
    def values(self) -> dict[str, Computed]: ...
    @property
    def fetch(self) -> Fetch | None: ...
    @property
    def rules(self) -> list[Rule]: ...
    @property
    def record(self) -> Record: ...
    @property
    def resume(self) -> Resume: ...
    @property
    def keepalive(self) -> Keepalive: ...
    @property
    def rotate(self) -> Rotate: ...
    @property
    def pace(self) -> Pace | None: ...
    @property
    def max_send(self) -> str | int | None: ...
    @property
    def ack(self) -> Ack | None: ...
    @property
    def adapter(self) -> Adapter | None: ...
    @property
    def tls(self) -> Tls: ...
    @property
    def takes_cursor(self) -> bool: ...


def problems(spec: Whole) -> list[str]:
    return [*_names(spec), *_steps(spec), *_rules(spec), *_keepalive(spec), *_position(spec), *_sending(spec)]


def captured(spec: Whole) -> frozenset[str]:
    """The names that the upstream's words give values to."""
    found = {name for step in spec.open if isinstance(step, Step) for name in step.capture}
    found |= {name for rule in spec.rules for name in rule.capture}
    found |= set(spec.adapter.keeps) if spec.adapter else set()
    return frozenset(found | (set(spec.fetch.capture) if spec.fetch else set()))


def _names(spec: Whole) -> Iterator[str]:
    names = captured(spec)
    for name, value in spec.values.items():
        if NAME.fullmatch(f"{{{name}}}") is None:
            yield f"values has {name!r}; a name is letters, digits and _, not beginning with a digit"
        elif name in RESERVED or name in names:
            yield f"values has {name}, which means something else already; choose another name"
        yield from session.problems(name, value)
    wanted = [
        ("resume.token", spec.resume.token),
        ("resume.url", spec.resume.url),
        *((f"open[{i}].present", s.present) for i, s in enumerate(spec.open) if isinstance(s, Step)),
        *((f"open[{i}].absent", s.absent) for i, s in enumerate(spec.open) if isinstance(s, Step)),
    ]
    for field, wants in wanted:
        if wants is not None and wants not in names and not (wants == "sequence" and field.startswith("open")):
            yield f"{field} is {wants}, which nothing captures: name it under a capture of open, rules or fetch"


def _steps(spec: Whole) -> Iterator[str]:
    for index, step in enumerate(spec.open):
        if not isinstance(step, Step):
            continue
        waits = step.expect is not None or bool(step.answers)
        for field in ("within", "capture"):
            if field in step.model_fields_set and not waits:
                yield f"open[{index}].{field} says nothing without open[{index}].expect or answers"
        if "send" not in step.model_fields_set and not waits:
            yield f"open[{index}] neither sends nor expects anything"


def _rules(spec: Whole) -> Iterator[str]:
    for index, rule in enumerate(spec.rules):
        name = f"rules[{index}]"
        kinds = _kinds(rule)
        if len(kinds) != 1:
            said = " and ".join(kinds) if kinds else "nothing"
            yield f"{name} is about {said}; it must be about a message, a close (or its reason), or an http answer"
            continue
        about_message = kinds[0] == "message"
        for field in ("url", "capture", "send"):
            if field in rule.model_fields_set and not about_message:
                yield f"{name}.{field} needs {name}.message, the message that it is about"
        for field, does in (("then", rule.then), ("otherwise", rule.otherwise)):
            if does in ("go_on", "gap") and not about_message:
                yield f"{name}.{field} is {does}, which goes with a message only; say retry, fatal or another"
        if rule.times is None and "otherwise" in rule.model_fields_set:
            yield f"{name}.otherwise needs {name}.times, the number after which it holds"
        if rule.after is not None and rule.then in ("go_on", "gap", "fatal", "rotate"):
            yield f"{name}.after says nothing with then: {rule.then}"
        if rule.after is not None and not session.is_duration(rule.after) and kinds[0] == "close":
            yield f"{name}.after must be a duration: a close frame has no fields"
        if "new_session" in (rule.then, rule.otherwise) and not spec.takes_cursor:
            yield f"{name} begins a new session, but nothing is ever resumed: say retry"


def _kinds(rule: Rule) -> list[str]:
    kinds = ["message"] if rule.message is not None else []
    kinds += ["close"] if rule.close or rule.reason is not None else []
    return kinds + (["http"] if rule.http or rule.body is not None else [])


def _keepalive(spec: Whole) -> Iterator[str]:
    beat = spec.keepalive.message
    if beat is None:
        return
    if not session.is_duration(beat.every) and beat.every not in captured(spec):
        yield f"keepalive.message.every is {beat.every}, which is no duration such as 30s, and nothing captures it"
    if "unit" in beat.model_fields_set and session.is_duration(beat.every):
        yield "keepalive.message.unit says nothing where every has its own unit"
    if beat.answer is None and (beat.answer_within is not None or "close_code" in beat.model_fields_set):
        yield "keepalive.message.answer is missing: what answers the keepalive"


def _position(spec: Whole) -> Iterator[str]:
    resume = spec.resume
    if resume.reaches_back is not None and spec.record.sequence_unit is None:
        yield "resume.reaches_back needs record.sequence_unit: only a cursor that is a time has an age"
    if "too_old" in resume.model_fields_set and resume.reaches_back is None:
        yield "resume.too_old needs resume.reaches_back; a cursor that is refused in words is a matter for rules"
    for field, value in (("token", resume.token), ("url", resume.url)):
        if value is not None and not spec.takes_cursor:
            yield f"resume.{field} needs a cursor to go with it: put {{sequence}} into an open message"
    rotate = spec.rotate
    if rotate.order == "make_before_break" and resume.order == "newest_first":
        yield "rotate.order make_before_break does not go with resume.order newest_first"
    if rotate.jitter is not None and rotate.after is None:
        yield "rotate.jitter says nothing without rotate.after"
    if "overlap" in rotate.model_fields_set and rotate.order != "make_before_break":
        yield "rotate.overlap needs rotate.order make_before_break"


def _sending(spec: Whole) -> Iterator[str]:
    if spec.max_send == "never":
        sent = "open" if any(_sends(entry) for entry in spec.open) else None
        sent = sent or ("keepalive.message" if spec.keepalive.message else None) or ("ack" if spec.ack else None)
        sent = sent or next((f"rules[{i}].send" for i, rule in enumerate(spec.rules) if rule.send is not None), None)
        if sent is not None:
            yield f"max_send is never, but {sent} sends something"
    if (spec.tls.certificate is None) != (spec.tls.key is None):
        yield "tls.certificate and tls.key go together: a client certificate and its private key"
    if spec.pace is not None and spec.pace.count_pings and spec.pace.messages < 2:
        yield "pace.messages must be 2 or more with count_pings: one is kept free for pongs"


def _sends(entry: object) -> bool:
    return not isinstance(entry, Step) or "send" in entry.model_fields_set

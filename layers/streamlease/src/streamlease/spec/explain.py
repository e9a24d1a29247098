"""A spec's plan in words, for `streamlease check`: what will be done, what follows, and what to look out for."""

from collections.abc import Iterator
from typing import Any

from streamlease.feed import secrets
from streamlease.spec import explain_session
from streamlease.spec.adapters import installed
from streamlease.spec.bounds import bounds
from streamlease.spec.compile import compile_spec
from streamlease.spec.dial import explained
from streamlease.spec.model import ConnectionSpec
from streamlease.spec.record import is_of_message
from streamlease.spec.session import Step
from streamlease.spec.url import shortened


def explain(spec: ConnectionSpec) -> list[str]:
    """One sentence a line. Shows no secret and no query."""
    return [*_dial(spec), *_records(spec), *_resume(spec), *_life(spec), *_warnings(spec)]


def _dial(spec: ConnectionSpec) -> Iterator[str]:
    yield f"dials {shortened(spec.url)} and gives the handshake {spec.open_within}"
    yield from explained(spec.dial)
    if spec.subprotocols:
        yield f"offers the subprotocols {', '.join(spec.subprotocols)}"
    found = sorted(secrets.references(compile_spec(spec)))
    if found:
        yield f"looks up at each dial: {', '.join(found)}"
    yield from explain_session.before_dial(spec)
    yield from explain_session.script(spec)
    if spec.ready is None:
        waits = any(isinstance(entry, Step) and (entry.expect or entry.answers) for entry in spec.open)
        yield f"counts as streaming as soon as {'all of that is done' if waits else 'the socket is open'}"
    else:
        yield f"counts as streaming once {spec.ready.when} holds of a message, for which it waits {spec.ready.within}"


def _records(spec: ConnectionSpec) -> Iterator[str]:
    record = spec.record
    if spec.adapter is not None:
        factory, problem = installed(spec.adapter.name)
        yield f"has its messages made by the adapter {spec.adapter.name}"
        if factory is None:
            yield f"warning: {problem}; a worker has to have it"
    if spec.unwrap:
        yield f"unwraps each message: {', then '.join(map(_step, spec.unwrap))}"
    which = f"messages of which {record.when} holds" if record.when else "every message"
    if record.each:
        what = f"{record.payload} of each" if record.payload else "each"
        yield f"takes the entries of {record.each} in {which} for records and delivers {what} to the sink {spec.sink}"
    else:
        what = f"{record.payload} of them" if record.payload else "the whole of them"
        yield f"takes {which} for records and delivers {what} to the sink {spec.sink}"
    if record.sequence:
        yield f"reads a {record.type} from {record.sequence} as the sequence"
    if record.id:
        yield f"tells records apart by {record.id}"
    elif record.unique:
        below = " and their place in the message" if record.each and is_of_message(record.sequence or "") else ""
        yield f"tells records apart by their sequence{below}"
    else:
        yield "cannot tell a duplicate from another record, without record.id and with record.unique false"
    yield from _proofs(spec)
    if spec.ack is not None:
        when = "once all that came of them is in the sink" if spec.ack.at == "durable" else "as soon as they are read"
        named = ", ".join(spec.ack.capture.values())
        yield f"acknowledges messages that have {named} to the upstream, {when}"


def _proofs(spec: ConnectionSpec) -> Iterator[str]:
    series, dedupe = spec.record.series, spec.record.dedupe
    if series is not None:
        number = series.number or spec.record.sequence
        of = f" for each {series.key}, of up to {series.keys}" if series.key else ""
        how = f"follows {series.previous}" if series.previous else "rises by one"
        yield f"leaves a gap record where {number}{of} no longer {how}"
    if dedupe is not None:
        within = f" within {dedupe.within}" if dedupe.within else ""
        key = dedupe.key or spec.record.id or spec.record.sequence
        yield f"drops what has the same {key} as one of the last {dedupe.most} records{within}"


def _step(step: str | dict[str, Any]) -> str:
    if isinstance(step, str):
        return "each entry of a list is a message" if step == "each" else step
    if "each" in step:
        return f"each entry of {step['each']} is a message"
    if "json" in step:
        return f"JSON in {step['json']}"
    codecs = step["as"] if isinstance(step["as"], list) else [step["as"]]
    return f"{', '.join(codecs)} in {step['at']}"


def _resume(spec: ConnectionSpec) -> Iterator[str]:
    resume, record = spec.resume, spec.record
    if not spec.takes_cursor:
        if resume.without_cursor == "all":
            yield "cannot ask the upstream to go on from a place, but gets everything again at each dial"
        else:
            yield "cannot resume: every reconnect and every change of owner leaves a gap record"
        return
    unit = f" in {record.sequence_unit}" if record.sequence_unit else ""
    rewind = f" less {resume.rewind:g}{unit}" if resume.rewind else ""
    again = "again" if resume.inclusive else "no more"
    yield f"resumes from the last durable sequence{rewind}; the upstream sends the records of that sequence {again}"
    if not resume.inclusive and not record.unique:
        yield "stays one sequence behind, because records may share one and the upstream goes on after it"
    if resume.order == "newest_first":
        yield f"moves the position only once a replay is complete ({resume.complete}) and all of it is durable"
    if resume.at_most is not None:
        yield f"leaves a gap record after a replay of {resume.at_most} records, for there may have been more"
    if resume.token is not None:
        kept = " and ".join(name for name in (resume.token, resume.url) if name is not None)
        yield f"keeps {kept} with the position, and resumes only with it"
    if resume.reaches_back is not None:
        what = "leaves a gap record" if resume.too_old == "live" else "gives up for good"
        yield f"{what} where the cursor is older than {resume.reaches_back}"
    if resume.without_cursor == "live":
        yield "leaves a gap record where a connection breaks before its first sequence is known"


def _life(spec: ConnectionSpec) -> Iterator[str]:
    keepalive, retry = spec.keepalive, spec.retry
    if keepalive.ping_every != "off":
        yield f"pings every {keepalive.ping_every}; dials again without a sign of life within {keepalive.pong_within}"
    if keepalive.stale_after:
        yield f"dials again after {keepalive.stale_after} without a message"
    yield (
        f"waits up to {retry.first} before it dials again, doubling up to {retry.longest};"
        f" starts over after {retry.proven_after} of streaming or durable records"
    )
    yield from explain_session.life(spec)
    statuses = ", ".join(str(status) for status in retry.fatal_http_statuses) or "no HTTP status"
    codes = ", ".join(str(code) for code in retry.fatal_close_codes) or "no close code"
    yield f"gives up for good on HTTP {statuses} and on {codes}"
    yield f"refuses messages of more than {spec.max_message}"
    yield from _bounds(spec)
    if spec.checkpoint.model_fields_set:
        yield (
            f"stores a position that moved every {spec.checkpoint.every}, which a crash may repeat;"
            " in connection mode with each renewal instead"
        )


def _bounds(spec: ConnectionSpec) -> Iterator[str]:
    """What one frame may hold, so that no look at one takes long."""
    found, parts = bounds(spec), []
    values, looks = spec.max_values, found.most_values
    if looks is not None and looks < values:
        values = looks
    parts.append(f"{values:,} values and names")
    entries = found.most_entries
    if entries is not None and entries < values:
        parts.append(f"{entries:,} entries of lists")
    if spec.adapter is not None or spec.unwrap:
        parts.append(f"{found.most_messages:,} messages")
    if spec.record.each is not None:
        parts.append(f"{found.most_records:,} records")
    yield f"takes no frame apart that holds more than {' or '.join(parts)}: it is delivered as it came"
    if values < spec.max_values or (entries is not None and entries < values):
        yield (
            "note: some of its expressions look through whole messages (filters, projections, functions), which bounds"
            " how large those may be"
        )


def _warnings(spec: ConnectionSpec) -> Iterator[str]:
    beat = spec.keepalive.message
    answered = beat is not None and beat.answer is not None
    if spec.keepalive.ping_every == "off" and spec.keepalive.stale_after is None and not answered:
        yield "warning: with ping_every off and no stale_after, a dead upstream is noticed late or never"
    if spec.url.startswith("ws://") and secrets.references(compile_spec(spec)):
        yield "warning: ws:// carries its secrets in the clear; use wss:// where the upstream has it"
    if spec.takes_cursor and spec.record.id is None and not spec.record.unique:
        yield "warning: a resume may repeat records that nobody can tell are the same; set record.id or record.unique"
    if spec.rotate.order == "make_before_break" and spec.record.id is None and not spec.record.unique:
        yield "warning: two open sockets give records twice, and nobody can tell them; set record.id or record.unique"
    if spec.resume.query and any(name in spec.query for name in spec.resume.query):
        yield "note: resume.query replaces the parameter of the same name in query while there is a cursor"

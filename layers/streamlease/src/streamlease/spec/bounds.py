"""How long a look at a frame of a spec's feed takes, reckoned from all that the spec looks at (`feed.bounds`).

The figures are what `python -m bench.hostile_frames` shows on one core of two shared ones, rounded up.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Final

from streamlease.feed.bounds import Bounds
from streamlease.spec import record as model
from streamlease.spec.effort import Effort
from streamlease.spec.expression import effort
from streamlease.spec.model import ConnectionSpec
from streamlease.spec.record import is_of_message, within
from streamlease.spec.session import Rule, Step, is_duration

_MESSAGE: Final = Effort(1.0)
_RECORD: Final = Effort(3.5)
"""Numbered, entered into the ledger, and written out; the writing goes by its size, which is the frame's."""
_PART: Final = Effort(0.3)
"""Of a record: made of what its path gives."""
_SERIES: Final = Effort(3.0)
_ANSWER: Final = Effort(9.0)
"""A message of the spec that is filled in and sent."""
_KEPT: Final = Effort(1.0)
"""Of a variable that is captured."""
_SESSION: Final = Effort(5.0)
"""A new one begins, with a gap: what resuming needs was captured."""
_GAP: Final = Effort(7.0)
"""That a rule tells of."""
_NOTHING: Final = Effort()


def bounds(spec: ConnectionSpec) -> Bounds:
    message = sum([*_control(spec), *_opening(spec)], _MESSAGE)
    of_message, of_record = _record(spec)
    message = sum(of_message, message)
    if spec.record.each is None:
        message += of_record
        return _one_of(message, 0.0)
    return _one_of(message + replace(of_record, per_message_us=0.0), of_record.per_message_us)


@lru_cache(1_024)
def _one_of(message: Effort, per_record_us: float) -> Bounds:
    """The same object for all that are alike: a worker holds thousands of feeds."""
    return Bounds(
        round(message.per_message_us, 1),
        round(message.per_value_us, 2),
        round(message.per_entry_us, 2),
        round(per_record_us, 1),
    )


def _control(spec: ConnectionSpec) -> Iterator[Effort]:
    """What any message meets before it is data."""
    for rule in spec.rules:
        if rule.message is not None:
            yield effort(rule.message, as_condition=True)
    # Of several rules only one is followed.
    yield _most([sum(_follows(rule, spec.resume.token), _NOTHING) for rule in spec.rules])
    if spec.keepalive.heartbeat is not None:
        yield effort(spec.keepalive.heartbeat, as_condition=True)
    beat = spec.keepalive.message
    if beat is not None and beat.answer is not None:
        yield effort(beat.answer, as_condition=True)


def _follows(rule: Rule, token: str | None) -> Iterator[Effort]:
    for path in rule.capture.values():
        yield effort(path) + _KEPT
    if token in rule.capture:
        yield _SESSION
    if rule.then == "gap":
        yield _GAP
    if rule.after is not None and not is_duration(rule.after):
        yield effort(rule.after)
    if rule.url is not None:
        yield effort(rule.url)
    if "send" in rule.model_fields_set:
        yield _ANSWER


def _opening(spec: ConnectionSpec) -> Iterator[Effort]:
    """What a message meets before the socket is ready: one step of the script, and readiness."""
    yield _most([sum(_step(step), _NOTHING) for step in spec.open if isinstance(step, Step)])
    if spec.ready is not None:
        yield effort(spec.ready.when, as_condition=True)


def _step(step: Step) -> Iterator[Effort]:
    if step.expect is not None:
        yield effort(step.expect, as_condition=True)
    for path in step.answers:  # what is sent and captured, is so once
        yield effort(path)


def _record(spec: ConnectionSpec) -> tuple[list[Effort], Effort]:
    """Of a message, and of each record in it."""
    record, resume, ack = spec.record, spec.resume, spec.ack
    of_message: list[Effort] = []
    if record.when is not None:
        of_message.append(effort(record.when, as_condition=True))
    if record.each is not None:
        of_message.append(effort(record.each))
    if resume.complete is not None:
        of_message.append(effort(resume.complete, as_condition=True))
    if resume.floor is not None:
        of_message.append(effort(resume.floor))
    if ack is not None:
        of_message.append(sum((effort(path) for path in ack.capture.values()), _ANSWER))
        if ack.when is not None:
            of_message.append(effort(ack.when, as_condition=True))
    of_record = _RECORD
    if record.series is not None:
        of_record += _SERIES
        if record.series.restart is not None:
            of_record += effort(record.series.restart, as_condition=True)
    for path in _parts(record):
        of_record += _PART
        if is_of_message(path) and record.each is not None:
            of_message.append(effort(within(path)))  # read once
        else:
            of_record += effort(within(path))
    return of_message, of_record


def _parts(record: model.Record) -> Iterator[str]:
    series, dedupe = record.series, record.dedupe
    number = None if series is None else series.number or record.sequence
    of_series = () if series is None else (number, series.first, series.previous, series.key)
    key = None if dedupe is None else dedupe.key
    for path in (record.payload, record.sequence, record.id, record.event_at, key, *of_series):
        if path is not None:
            yield path


def _most(efforts: list[Effort]) -> Effort:
    return Effort(
        max((each.per_message_us for each in efforts), default=0.0),
        max((each.per_value_us for each in efforts), default=0.0),
        max((each.per_entry_us for each in efforts), default=0.0),
    )

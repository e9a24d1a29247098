"""Which records may be missing at the reader: those that a gap record tells of, and those nobody could ask for."""

from streamlease.feed.events import Gap, Record
from tests.simulation.sink import Reader
from tests.simulation.upstream import Emitted, Upstream


def may_be_missing(record: Emitted, upstream: Upstream, reader: Reader) -> bool:
    """Whether the reader was told that it does not get this record, or the upstream has not kept it."""
    if record.instance < upstream.instance:
        return True  # Gone with its instance: nobody can ask for it again.
    if record.instance > 0 and _before_first_of_instance(record, upstream, reader):
        return any(isinstance(d, Gap) for d in reader.log)
    if upstream.nature.resumes and record.instance == 0:
        return reader.excuses(record.sequence)
    return reader.excuses(record.sequence) or _gap_between(record, upstream, reader)


def _before_first_of_instance(record: Emitted, upstream: Upstream, reader: Reader) -> bool:
    for other in upstream.emitted:
        if other.instance == record.instance and other.record_id in reader.records:
            return record.sequence <= other.sequence
    return True


def _gap_between(record: Emitted, upstream: Upstream, reader: Reader) -> bool:
    """A feed that cannot resume is told in order: a gap record lies between the neighbours that arrived."""
    place = {id(d): n for n, d in enumerate(reader.log)}
    number = upstream.emitted.index(record)
    before = next((e for e in reversed(upstream.emitted[:number]) if e.record_id in reader.records), None)
    after = next((e for e in upstream.emitted[number:] if e.record_id in reader.records), None)
    start = 0 if before is None else place[id(reader.records[before.record_id])]
    end = len(reader.log) if after is None else place[id(reader.records[after.record_id])]
    return any(not isinstance(d, Record) for d in reader.log[start:end])

"""`apply`'s plan: what files want, against what is stored, and what a prune would delete. No writes here."""

import json
from collections.abc import Iterable, Mapping, Sequence

from streamlease.write import Value
from streamlease_cli.difference import FieldChange
from streamlease_cli.errors import BadInput
from streamlease_cli.output import note_malformed, some
from streamlease_cli.procedures import Settled
from streamlease_cli.progress import Outcome
from streamlease_cli.selection import Chosen, Stored, carries
from streamlease_cli.session import Session
from streamlease_cli.wanted import Wanted


def owned_by(labels: Mapping[str, str], wanted: Sequence[Wanted]) -> None:
    """That the labels of a prune describe these files. Raises BadInput where the prune would not be safe to do."""
    if not wanted:
        raise BadInput(
            "the files say of no connection, so a prune would delete everything its label covers:"
            " if that is meant, say `streamlease rm -l …`"
        )
    if not labels:
        shared = [f"{key}={value}" for key, value in wanted[0].labels.items() if all_carry(wanted, {key: value})]
        hint = f": all of them carry {' and '.join(shared)}" if shared else ": give them one, under `labels`"
        raise BadInput(f"--prune needs -l KEY=VALUE, the label that says which connections these files own{hint}")
    without = [one for one in wanted if not carries(one.labels, labels)]
    if without:
        label = ",".join(f"{key}={value}" for key, value in labels.items())
        names = some([f"{one.connection_id} in {one.source}" for one in without], 3)
        raise BadInput(f"a prune by {label} needs every connection of the files to carry it, and these do not: {names}")


def all_carry(wanted: Iterable[Wanted], labels: Mapping[str, str]) -> bool:
    return all(carries(one.labels, labels) for one in wanted)


def to_prune(session: Session, labels: Mapping[str, str], wanted: Sequence[Wanted]) -> tuple[Chosen, ...]:
    """Stored connections that carry the labels and that no file speaks of. Raises Fault."""
    spoken_of = {one.connection_id for one in wanted}
    stored = Stored(session)
    doomed = tuple(
        Chosen(found.connection_id, found)
        for found in stored
        if carries(found.labels, labels) and found.connection_id not in spoken_of
    )
    for problem in stored.malformed:
        note_malformed(problem)
    return doomed


def applied(wanted: Wanted, settled: Settled) -> Outcome:
    fields = [change.field for change in settled.changes] if settled.outcome == "changed" else []
    return Outcome(
        wanted.connection_id, settled.outcome, some(fields, 8) or None, _more(settled.changes, dry_run=False)
    )


def would_apply(wanted: Wanted, settled: Settled) -> Outcome:
    below = tuple(_told(change) for change in settled.changes) if settled.outcome == "changed" else ()
    told = "unchanged" if settled.outcome == "unchanged" else f"would be {settled.outcome}"
    return Outcome(wanted.connection_id, settled.outcome, None, _more(settled.changes, dry_run=True), below, told)


def would_prune(one: Chosen) -> Outcome:
    return Outcome(one.connection_id, "deleted", None, _more((), dry_run=True), in_words="would be deleted")


def pruned(outcome: Outcome) -> Outcome:
    return Outcome(outcome.connection_id, outcome.outcome, outcome.detail, _more((), dry_run=False))


def _more(changes: Sequence[FieldChange], *, dry_run: bool) -> Mapping[str, object]:
    return {"dry_run": dry_run, "changes": [change.as_json() for change in changes]}


def _told(change: FieldChange) -> str:
    if change.before is None:
        return f"+ {change.field}: {_value(change.after)}"
    if change.after is None:
        return f"- {change.field}: {_value(change.before)}"
    return f"~ {change.field}: {_value(change.before)} → {_value(change.after)}"


def _value(value: Value) -> str:
    return value if isinstance(value, str) and value.isprintable() and value else json.dumps(value, ensure_ascii=False)

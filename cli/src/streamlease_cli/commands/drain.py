"""`streamlease drain`: ask workers to give everything up and end, as SIGTERM does, from wherever a person is."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import click

from streamlease.errors import Fault
from streamlease.model import Member, MemberState
from streamlease_cli import procedures
from streamlease_cli.errors import BadInput, Failed, sentence
from streamlease_cli.invocation import Invocation, pass_invocation, target_options, yes_option
from streamlease_cli.output import clean, confirm, count, note, note_malformed, print_json, some
from streamlease_cli.session import Session

RUNNING = (MemberState.LIVE, MemberState.DRAINING)
LOOK_EVERY_S = 1.0
TELL_EVERY_S = 5.0

type Outcome = Literal["asked", "drained", "already_gone", "failed"]


@dataclass(frozen=True, slots=True)
class Told:
    """What became of one worker. `owned`: what it held when it was seen last."""

    worker_id: str
    outcome: Outcome
    owned: int
    detail: str | None = None


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="WORKER...")
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="Return when they have ended, or after so long (exit code 1). Without it: once they are asked.",
)
@yes_option
@target_options
@pass_invocation
def drain(invocation: Invocation, names: tuple[str, ...], wait_s: float, *, yes: bool) -> None:
    """Let workers give up all that they hold, each connection once and with its newest position, and end.

    WORKER is an id of `streamlease workers`, or the beginning of one; one that several ids begin with is refused,
    unless --yes says that all of them are meant. Each learns of it at its next heartbeat, takes nothing from then on,
    and exits with code 0; ECS starts another in its place. What they held goes to the others. There is no way back.
    Asks first where no other worker would be there to take over.

    \b
    Examples:
      streamlease drain 4f2a9c --wait 180
      streamlease drain 4f2a9c 77b01d --yes --json
    """
    session = invocation.session()
    found = session.run(procedures.fleet())
    members = found.members
    for problem in found.malformed:
        note_malformed(problem)
    chosen = _choose(names, members, session, several=yes)
    ended = [member for member in chosen if member.state not in RUNNING]
    chosen = [member for member in chosen if member.state in RUNNING]
    going = {member.worker_id for member in chosen}
    staying = [m for m in members if m.state is MemberState.LIVE and m.worker_id not in going]
    if chosen and not staying:
        held = sum(member.owned for member in chosen)
        confirm(
            f"No other worker of {session.place} is LIVE: {count(held, 'connection')} would wait for one to start."
            f" Drain {some(sorted(going))}?",
            yes=yes,
            stdin_is_terminal=invocation.stdin_is_terminal,
        )
    told = [Told(member.worker_id, "already_gone", 0) for member in ended]
    if chosen:
        asked_by = session.caller()
        told += [_ask(session, member, asked_by) for member in chosen]
    if wait_s:
        told = _wait(invocation, session, told, wait_s)
    for one in told:
        _print(one, as_json=invocation.as_json)
    if any(one.outcome == "failed" for one in told):
        raise Failed("not every worker has been drained: see above")


def _choose(names: Sequence[str], members: Iterable[Member], session: Session, *, several: bool) -> list[Member]:
    """Those who run and, of a name that is nobody's who runs, who has ended. Raises BadInput where a name is nobody's,
    or that of several where only one may be meant: nothing is done then."""
    known = {member.worker_id: member for member in members}
    running = {worker_id for worker_id, member in known.items() if member.state in RUNNING}
    chosen: dict[str, Member] = {}
    for name in names:
        found = _named(name, running) or _named(name, known)
        if not found:
            raise BadInput(
                f"no worker of {session.place} has an id that is, or begins with, {clean(name)!r}:"
                " see `streamlease workers`"
            )
        if len(found) > 1 and not several:
            raise BadInput(
                f"{clean(name)!r} is the beginning of {len(found)} workers' ids ({some(sorted(found), 10)}):"
                " say more of the one that is meant, name each, or say --yes for all of them"
            )
        chosen |= {worker_id: known[worker_id] for worker_id in found}
    return [chosen[worker_id] for worker_id in sorted(chosen)]


def _named(name: str, worker_ids: Collection[str]) -> list[str]:
    """The worker of that id, else those whose ids begin so."""
    return [name] if name in worker_ids else [each for each in worker_ids if name and each.startswith(name)]


def _ask(session: Session, member: Member, asked_by: str) -> Told:
    try:
        is_there = session.run(procedures.ask_to_drain(member.worker_id, asked_by=asked_by))
    except Fault as fault:
        return Told(member.worker_id, "failed", member.owned, sentence(fault))
    return Told(member.worker_id, "asked" if is_there else "already_gone", member.owned)


def _wait(invocation: Invocation, session: Session, told: list[Told], wait_s: float) -> list[Told]:
    """What has become of those that were asked, when all have ended or the time is up."""
    until_s = invocation.monotonic_s() + wait_s
    next_line_s = invocation.monotonic_s() + TELL_EVERY_S
    while True:
        found = {member.worker_id: member for member in session.run(procedures.fleet()).members}
        told = [_seen(one, found.get(one.worker_id)) for one in told]
        waiting = [one for one in told if one.outcome == "asked"]
        now_s = invocation.monotonic_s()
        if not waiting:
            return told
        if now_s >= until_s:
            late = f"it has not ended after {wait_s:g} s: see its state in `streamlease workers`, and its log"
            return [Told(one.worker_id, "failed", one.owned, late) if one in waiting else one for one in told]
        if now_s >= next_line_s:
            next_line_s = now_s + TELL_EVERY_S
            held = sum(one.owned for one in waiting)
            note(f"{count(len(waiting), 'worker')} draining, {count(held, 'connection')} held yet")
        invocation.sleep(LOOK_EVERY_S)


def _seen(one: Told, member: Member | None) -> Told:
    if one.outcome != "asked":
        return one
    if member is None or member.state not in RUNNING:
        return Told(one.worker_id, "drained", 0)
    return Told(one.worker_id, "asked", member.owned)


def _print(one: Told, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {"worker_id": one.worker_id, "outcome": one.outcome, "owned": one.owned, "detail": one.detail},
        )
        return
    words = {
        "asked": f"asked to drain, with {count(one.owned, 'connection')}",
        "drained": "drained",
        "already_gone": "had ended already",
        "failed": f"failed: {one.detail}",
    }
    click.echo(clean(f"{one.worker_id}: {words[one.outcome]}"))

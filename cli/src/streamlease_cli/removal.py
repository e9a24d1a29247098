"""Delete connections for good, as `rm` and `apply --prune` do: stop them where asked to, wait until their owners have
let go, then delete. Whatever is interrupted is gone through again by the same command."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import click

from streamlease.flow import Flow
from streamlease.flows import control
from streamlease.flows.control import Operator
from streamlease.lease import Absentee, Busy, Done
from streamlease.model import DesiredState
from streamlease_cli import procedures
from streamlease_cli.errors import stored_wrong
from streamlease_cli.invocation import Invocation
from streamlease_cli.progress import Outcome, failed
from streamlease_cli.selection import Chosen

ROUND_S = 1.0
"""Between two looks at what is still held. An owner lets go at its next renewal."""


@dataclass(frozen=True, slots=True)
class Terms:
    """How to delete: whether a started connection is stopped first, and how long to wait for owners to let go."""

    stop: bool
    wait_s: float
    parallel: int


def wait_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--wait",
        "wait_s",
        type=click.FloatRange(min=0),
        default=90.0,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait for owners to let go of what is deleted.",
    )(command)


def remove(invocation: Invocation, chosen: Sequence[Chosen], terms: Terms) -> Iterator[Outcome]:
    """One outcome each: `deleted`, `already_gone` or `failed`. Raises Fault, as `bulk.each` does."""
    session, sleep = invocation.session(), invocation.sleep
    operator = session.operator()
    until_s = invocation.monotonic_s() + terms.wait_s

    def stop_and_delete(one: Chosen) -> Done | Busy | Absentee:
        return session.run(_stop_and_delete(one.connection_id, operator))

    def delete(one: Chosen) -> Done | Busy | Absentee:
        return session.run(control.delete(one.connection_id, operator=operator))

    act = stop_and_delete if terms.stop else delete
    pending: Sequence[Chosen] = chosen
    while True:
        held: list[Chosen] = []
        for tried in invocation.each(pending, act, terms.parallel):
            one = tried.subject
            match tried.result:
                case None:
                    yield failed(one.connection_id, stored_wrong(tried.problem))
                case Done():
                    yield Outcome(one.connection_id, "deleted")
                case Absentee():
                    yield Outcome(one.connection_id, "already_gone")
                case Busy("started"):
                    yield failed(one.connection_id, _started(terms.stop))
                case Busy():
                    held.append(one)
        if invocation.interruption():
            return
        if not held or invocation.monotonic_s() >= until_s:
            break
        sleep(ROUND_S)
        pending, act = held, delete
    for one in held:
        yield failed(
            one.connection_id,
            "it is stopped, but still held by its owner: an owner lets go within two heartbeats, and a dead one's"
            f" lease runs out; run the same command again (waited {terms.wait_s:.0f} s)",
        )


def _stop_and_delete(connection_id: str, operator: Operator) -> Flow[Done | Busy | Absentee]:
    yield from procedures.switch(connection_id, DesiredState.STOPPED, operator)
    return (yield from control.delete(connection_id, operator=operator))


def _started(was_to_be_stopped: bool) -> str:
    if was_to_be_stopped:
        return "it was started again meanwhile, and is left alone"
    return "it is STARTED: stop it first, or say --stop to stop it, wait and delete it"

"""Which connections a command is about: ids, ids from standard input, labels, or all of them."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from streamlease import items
from streamlease.errors import Malformed
from streamlease.flow import Flow, page
from streamlease.model import Connection
from streamlease.write import Item, Scan, Table
from streamlease_cli.output import note_malformed
from streamlease_cli.session import Session


@dataclass(frozen=True, slots=True)
class Selection:
    """What was asked for. Exactly one of ids, labels and everything, where a selection is required."""

    ids: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    everything: bool = False

    def __str__(self) -> str:
        if self.ids:
            return "the connections named"
        return " and ".join(f"{key}={value}" for key, value in self.labels.items()) or "all connections"


@dataclass(frozen=True, slots=True)
class Chosen:
    """One connection to act upon. `seen` is what a scan showed of it; None where only its id is known."""

    connection_id: str
    seen: Connection | None = None


def labels_option(purpose: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`-l key=value`, parsed to a mapping called `labels`."""
    return click.option(
        "-l", "--label", "labels", multiple=True, metavar="KEY=VALUE", callback=_parsed_labels, help=purpose
    )


def selection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """IDs, `-l` and `--all`, of which one must be there; the command gets a `Selection` as `selection`."""
    wrapped = _selecting(command, required=True)
    everything = click.option("--all", "everything", is_flag=True, help="Every connection of the system.")
    return _ids(
        labels_option("Those with this label (repeat it, or key=a,key2=b, for all of them).")(everything(wrapped))
    )


def listing_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """IDs and `-l`; neither means everything. The command gets a `Selection` as `selection`."""
    return _ids(
        labels_option("Those with this label (repeat it for all of them).")(_selecting(command, required=False))
    )


def _ids(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.argument("ids", nargs=-1, metavar="[ID]...")(command)


def _selecting(command: Callable[..., Any], *, required: bool) -> Callable[..., Any]:
    def selecting(ids: tuple[str, ...], labels: Mapping[str, str], *, everything: bool = False, **rest: Any) -> Any:
        given = sum((bool(ids), bool(labels), everything))
        if given > 1:
            raise click.UsageError("IDs, -l and --all say different things: give one of them.")
        if required and not given:
            raise click.UsageError(
                "Say which connections: IDs, - to read IDs from standard input, -l KEY=VALUE or --all."
            )
        selection = Selection(_read_ids(ids), labels, everything or not given)
        return command(selection=selection, **rest)

    selecting.__name__, selecting.__doc__ = command.__name__, command.__doc__
    # click collects the options of decorators below this one here.
    selecting.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    return selecting


def _read_ids(given: Sequence[str]) -> tuple[str, ...]:
    """Without doubles, in order; `-` stands for the lines of standard input."""
    found: dict[str, None] = {}
    for word in given:
        for connection_id in (line.strip() for line in sys.stdin) if word == "-" else (word,):
            if connection_id:
                found[connection_id] = None
    if given and not found:
        raise click.UsageError("Standard input names no connection: it takes one ID a line.")
    return tuple(found)


def _parsed_labels(_context: click.Context, parameter: click.Parameter, given: Sequence[str]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for pair in (part for word in given for part in word.split(",")):
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not key or not value:
            raise click.BadParameter(f"{pair!r} is not KEY=VALUE, as in -l team=feeds.", param=parameter)
        if found.get(key, value) != value:
            raise click.BadParameter(f"{key} cannot be both {found[key]!r} and {value!r}.", param=parameter)
        found[key] = value
    return found


def carries(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Whether `labels` has all of `wanted`."""
    return all(labels.get(key) == value for key, value in wanted.items())


@dataclass(slots=True)
class Stored:
    """Every connection of the table, a page at a time; what cannot be read is left out and kept in `malformed`."""

    session: Session
    malformed: list[Malformed] = field(default_factory=list)
    unreadable_ids: list[str] = field(default_factory=list)

    def __iter__(self) -> Iterator[Connection]:
        cursor: Item | None = None
        while True:
            found = self.session.run(_page_after(cursor))
            yield from self._readable(found.items)
            cursor = found.cursor
            if cursor is None:
                return

    def _readable(self, found: Iterable[Item]) -> Iterator[Connection]:
        for item in found:
            try:
                yield items.connection(item)
            except Malformed as problem:
                self.malformed.append(problem)
                self.unreadable_ids.append(str(item.get("connection_id")))


def _page_after(cursor: Item | None) -> Flow[Any]:
    return page(Scan(Table.CONNECTIONS, cursor=cursor, consistent=True))


def choose(session: Session, selection: Selection, malformed: Callable[[Malformed], None]) -> tuple[Chosen, ...]:
    """The connections selected, by a consistent scan unless ids name them. What cannot be read is told of."""
    if selection.ids:
        return tuple(Chosen(connection_id) for connection_id in selection.ids)
    stored = Stored(session)
    found = tuple(Chosen(c.connection_id, c) for c in stored if carries(c.labels, selection.labels))
    for problem in stored.malformed:
        malformed(problem)
    return found


def choose_to_act(session: Session, selection: Selection) -> tuple[Chosen, ...]:
    """As `choose`. By labels, what cannot be read is told of and left out. Of everything it is a part: it is chosen,
    too, so that acting upon it fails with a sentence, and the command with it."""
    if not selection.everything:
        return choose(session, selection, note_malformed)
    stored = Stored(session)
    found = tuple(Chosen(c.connection_id, c) for c in stored)
    return found + tuple(map(Chosen, stored.unreadable_ids))

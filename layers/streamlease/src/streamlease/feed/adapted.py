"""An adapter under guard: its hooks are timed, its answers bounded, and its errors are faults of one connection.

A hook that never returns cannot be stopped from within its own thread: the worker's watchdog ends the process, and the
connection's crashes are counted as any owner's death.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, Final

import msgspec

from streamlease.feed.adapter import (
    Adapting,
    Context,
    End,
    Hear,
    Keep,
    Raw,
    Reaction,
    Say,
    Seal,
    Wake,
)
from streamlease.feed.computed import Made, Moment
from streamlease.feed.decoding import MOST_ENTRIES
from streamlease.feed.events import Send

MOST_OVERRUNS: Final = 3
"""Of one connection, until it is quarantined; a single one of `FAR_OVER` budgets does too."""
FAR_OVER: Final = 10
LONGEST_KEPT: Final = 4_096
_REACTIONS: Final = (Hear, Raw, Say, Seal, Keep, Wake, End)

_encode = msgspec.json.Encoder().encode

type Clock = Callable[[], float]


class AdapterFault(Exception):
    """What is wrong with an adapter, in a sentence that shows nothing of what it was given."""


class Watch:
    """How long an adapter's calls took, over all sockets of one connection. `clock` is the shell's monotonic one; None
    measures nothing."""

    def __init__(self, adapting: Adapting, clock: Clock | None) -> None:
        self._adapting = adapting
        self._clock = clock
        self._overran = 0
        self._longest_s = 0.0

    def now_s(self) -> float:
        return 0.0 if self._clock is None else self._clock()

    def spent(self, since_s: float) -> bool:
        """A call that began at `since_s` has ended. Whether it took longer than it may."""
        if self._clock is None:
            return False
        took_s = self._clock() - since_s
        budget_s = self._adapting.budget_s
        if took_s <= budget_s:
            return False
        self._longest_s = max(self._longest_s, took_s)
        self._overran += MOST_OVERRUNS if took_s > FAR_OVER * budget_s else 1
        return True

    @property
    def fault(self) -> str | None:
        """Why the connection is to be quarantined, if it is."""
        if self._overran < MOST_OVERRUNS:
            return None
        return (
            f"the adapter {self._adapting.name} took {self._longest_s * 1_000:.0f} ms for a call"
            f" that may take {self._adapting.budget_s * 1_000:.0f} ms"
        )


class Adapted:
    """One socket's adapter. Raises AdapterFault, and nothing else."""

    def __init__(self, adapting: Adapting, watch: Watch, *, most_send_bytes: int | None) -> None:
        self._name = adapting.name
        self._watch = watch
        self._keeps = adapting.keeps
        self._most_send_bytes = most_send_bytes
        if adapting.factory is None:
            raise AdapterFault(adapting.problem)
        factory, options = adapting.factory, adapting.options
        try:
            self._adapter = factory(options)
        except Exception as error:  # whatever it is, it is this connection's alone
            raise AdapterFault(f"the adapter {self._name} cannot be made ({type(error).__name__})") from error

    def opened(self, context: Context) -> list[Reaction]:
        return self._answers(lambda: self._adapter.opened(context), heard=False)

    def received(self, context: Context, data: str | bytes) -> list[Reaction]:
        return self._answers(lambda: self._adapter.received(context, data), heard=True)

    def woke(self, context: Context) -> list[Reaction]:
        return self._answers(lambda: self._adapter.woke(context), heard=False)

    def _answers(self, hook: Callable[[], Iterable[Reaction]], *, heard: bool) -> list[Reaction]:
        began_s = self._watch.now_s()
        try:
            reactions = list(islice(hook(), MOST_ENTRIES + 1))
        except Exception as error:  # as above
            raise AdapterFault(f"the adapter {self._name} failed ({type(error).__name__})") from error
        if len(reactions) > MOST_ENTRIES:
            raise AdapterFault(f"the adapter {self._name} answered with more than {MOST_ENTRIES} reactions")
        problem = next((found for each in reactions if (found := self._problem(each, heard=heard)) is not None), None)
        self._watch.spent(began_s)  # with the look at what it answered, which takes as long as that is large
        if problem is not None:
            raise AdapterFault(f"the adapter {self._name} answered with {problem}")
        return reactions

    def _problem(self, reaction: object, *, heard: bool) -> str | None:
        if not isinstance(reaction, _REACTIONS):
            return f"a {type(reaction).__name__}, which is no reaction"
        if not heard and isinstance(reaction, Hear | Raw):
            return "a message, though none was received"
        said: Any = reaction  # an adapter's author may not have a type checker
        match reaction:
            case Raw():
                return None if isinstance(said.data, str | bytes) else "a Raw of what is neither text nor bytes"
            case Say():
                is_fit = isinstance(said.message, str | bytes) or _is_json(said.message)
                return None if is_fit else "a Say of what is no JSON"
            case Hear():
                return None if _is_json(said.message) else "a Hear of what is no JSON"
            case Wake():
                is_fit = isinstance(said.after_s, int | float) and math.isfinite(said.after_s) and said.after_s >= 0
                return None if is_fit else "a Wake that is not after some seconds"
            case Keep():
                if said.name not in self._keeps:
                    return f"a Keep of {said.name!r}, which adapter.keeps does not name"
                is_text = isinstance(said.value, str) and len(said.value) <= LONGEST_KEPT
                is_fit = is_text or isinstance(said.value, bool | int | float)
                return (
                    None if is_fit else f"a Keep of what is no number, and no text of up to {LONGEST_KEPT} characters"
                )
            case _:
                return None

    def send(self, reaction: Say | Seal, socket: int) -> Send:
        """What goes out for it. Nothing in a `Say` is taken for a reference to a secret, whoever its text is from."""
        if isinstance(reaction, Seal):
            write, secrets = reaction.write, reaction.secrets
        else:
            message = reaction.message
            if isinstance(message, bytes):
                return Send(message, socket=socket, most_bytes=self._most_send_bytes)
            text = message if isinstance(message, str) else json_text(message)
            write, secrets = (lambda _, __: text), {}
        made = Made(self._timed(write), secrets)
        most_bytes = self._most_send_bytes
        return Send("{=adapter}", json=False, socket=socket, most_bytes=most_bytes, computed={"adapter": made})

    def _timed(self, write: Callable[[Mapping[str, str], Moment], str]) -> Callable[[Mapping[str, str], Moment], str]:
        def timed(secrets: Mapping[str, str], moment: Moment) -> str:
            began_s = self._watch.now_s()
            try:
                text = write(secrets, moment)
            except Exception as error:  # noqa: BLE001  # as above
                raise ValueError(f"the adapter {self._name} failed ({type(error).__name__})") from None
            finally:
                self._watch.spent(began_s)
            written: object = text
            if not isinstance(written, str):
                raise ValueError(f"the adapter {self._name} did not write a text")  # noqa: TRY004  # one kind of fault
            return text

        return timed


def json_text(message: object) -> str:
    return _encode(message).decode()


def _is_json(value: object) -> bool:
    try:
        json_text(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return isinstance(value, dict | list | str | int | float | None)

"""An example of docs/examples, as a worker runs it: the file itself, compiled, with a real runner and transport.

Only hosts are replaced, by the fixture's. Times are the example's own: the loop's time is virtual.
"""

import asyncio
import socket
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import yaml
from aiohappyeyeballs import AddrInfoType

from streamlease.envelope import decode
from streamlease.feed.events import Gap, Record
from streamlease.feed.feed import Feed
from streamlease.feed.secrets import missing
from streamlease.model import Position, StatusState
from streamlease.spec import compile_spec, load
from streamlease.spec.document import merged
from streamlease_worker.addresses import Resolver, allowed
from streamlease_worker.log import Log
from streamlease_worker.routes import Routes
from streamlease_worker.runner import Ended, Runner, Surroundings
from streamlease_worker.transport import WebSockets
from tests.protocols.upstream import Upstream
from tests.worker.sinking import MemorySink, OpenFence
from tests.worker.turning import now, turns

EXAMPLES = Path(__file__).parents[2] / "docs/examples"


def example(name: str, upstream: Upstream, connection_id: str | None = None, **changed: Any) -> Feed:
    """The connection of that file (its first, without an id), with the fixture's hosts. `changed` is merged over it, as
    a document is over its defaults."""
    file = EXAMPLES / f"{name}.yaml"
    document = yaml.safe_load(file.read_text())
    specs = load([(name, document)], lambda _, path: (EXAMPLES / path).read_text())
    spec = specs[0] if connection_id is None else next(each for each in specs if each.id == connection_id)
    fields = merged({**spec.stored(), "id": spec.id, "url": _there(spec.url, upstream)}, changed)
    if "fetch" in fields:
        fields["fetch"]["url"] = _there(fields["fetch"]["url"], upstream)
    (there,) = load([(name, [fields])], lambda _, path: path)
    return compile_spec(there)


def _there(url: str, upstream: Upstream) -> str:
    parts = urlsplit(url)
    assert parts.scheme in ("wss", "https"), "an example's traffic is encrypted"
    origin = upstream.origin if parts.scheme == "wss" else upstream.http_origin
    return origin + url.removeprefix(f"{parts.scheme}://{parts.netloc}")


class _Here(Resolver):
    """All hosts are addresses already: no thread is asked, whose time is not virtual."""

    async def addresses(
        self, host: str, port: int, *, judged: bool = True, private: bool = True, literal: bool = True
    ) -> list[AddrInfoType]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port))]


class Streaming:
    """One owner's run of a feed. Leaving the `async with` stops it."""

    def __init__(
        self,
        feed: Feed,
        *,
        secrets: Mapping[str, str] | None = None,
        position: Position | None = None,
        draw: float = 0.25,
        sink: MemorySink | None = None,
    ) -> None:
        """`secrets`: values by reference."""
        self.sink = sink or MemorySink()
        self.positions: list[Position] = []
        self.states: list[tuple[StatusState, str | None]] = []
        self.counts: Counter[str] = Counter()
        self.secrets = dict(secrets or {})
        self.fence = OpenFence(feed.connection_id)
        self.runner = Runner(
            feed,
            position,
            fence=self.fence,
            around=Surroundings(
                transport=WebSockets(Routes(resolver=_Here(allowed("loopback")))),
                sink=self.sink,
                turns=turns(),
                secrets=self._secrets,
                wall_ms=lambda: now().wall_ms,
                draw=lambda: draw,
                counts=self.counts,
            ),
            advanced=self.positions.append,
            reported=lambda state, reason: self.states.append((state, reason)),
            log=Log(),
        )
        self._running: asyncio.Task[Ended] | None = None

    async def _secrets(self, references: Iterable[str], *, fresh: bool = False) -> Mapping[str, str]:
        for reference in references:
            if reference not in self.secrets:
                raise missing(reference)
        return self.secrets

    async def __aenter__(self) -> Self:
        self._running = asyncio.create_task(self.runner.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> Ended:
        assert self._running is not None
        self.runner.stop("it was stopped", flush=True)
        return await self._running

    async def ended(self) -> Ended:
        """How it ended by itself."""
        assert self._running is not None
        async with asyncio.timeout(60):
            return await self._running

    # --- what it did --------------------------------------------------------------------------------------------------

    @property
    def delivered(self) -> list[Record | Gap]:
        return [decode(line).delivery for line in self.sink.lines]

    @property
    def records(self) -> list[Record]:
        return [each for each in self.delivered if isinstance(each, Record)]

    @property
    def gaps(self) -> list[Gap]:
        return [each for each in self.delivered if isinstance(each, Gap)]

    @property
    def sequences(self) -> list[object]:
        return [record.sequence for record in self.records]

    @property
    def ids(self) -> list[str | None]:
        return [record.record_id for record in self.records]

    @property
    def is_streaming(self) -> bool:
        return self.runner.connected

    def reasons(self, state: StatusState) -> list[str]:
        return [reason or "" for each, reason in self.states if each is state]

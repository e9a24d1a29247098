"""From a URL and a route to a socket that leads there: addresses judged, proxies passed, TLS made ready.

What sockets and HTTP calls have in common. Handshakes with one host are limited in number: a thousand dials at once
would make each other miss their deadlines, and a host that answers none keeps only its own connections waiting.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from streamlease.feed.events import Route
from streamlease_worker import proxy
from streamlease_worker.addresses import Allowed, Resolver
from streamlease_worker.tls import Contexts

HANDSHAKES_A_HOST = 32
PORTS = {"ws": 80, "wss": 443, "http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Way:
    """A connected socket, and what TLS there is to speak over it."""

    sock: socket.socket
    context: ssl.SSLContext | None
    server_name: str | None


@dataclass(slots=True)
class Progress:
    """How far a dial has come, for the sentence where its time is up."""

    late: str = "was not dialled"


@dataclass(slots=True)
class _Slots:
    free: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(HANDSHAKES_A_HOST))
    users: int = 0


class Routes:
    """For one event loop. `environment` names proxies; `context` makes the TLS context that trusts what the system
    trusts."""

    def __init__(
        self,
        permitted: Allowed | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        context: Callable[[], ssl.SSLContext] = ssl.create_default_context,
        resolver: Resolver | None = None,
    ) -> None:
        self._resolver = resolver or Resolver(permitted or Allowed())
        self._environment = environment or {}
        self._contexts = Contexts(context)
        self._slots: dict[tuple[str, int], _Slots] = {}

    @contextlib.asynccontextmanager
    async def to(self, url: str, route: Route, progress: Progress) -> AsyncIterator[Way]:
        """A way to the URL's host; whoever asks closes its socket. The handshakes of the block, TLS's and its own,
        count as one of those that may be under way with that host. Raises OSError, AddressRefused, ProxyFailed, BadTls,
        and ValueError for a URL that cannot be."""
        parts = urlsplit(url)
        host = parts.hostname
        if not host or parts.scheme not in PORTS:
            raise ValueError("no host, or a scheme that is none of ws, wss, http, https")
        port = parts.port or PORTS[parts.scheme]
        context = self._contexts.of(route.tls) if parts.scheme in ("wss", "https") else None
        progress.late = f"was waited for by {HANDSHAKES_A_HOST} other dials"
        async with self._slot(host, port):
            middle = proxy.chosen(route.proxy, url, self._environment)
            progress.late = "could not be reached" + (f" through {middle.name}" if middle else "")
            private, literal = route.private_addresses, not route.announced
            if middle is None:
                sock = await self._resolver.connect(host, port, private=private, literal=literal)
            else:
                sock = await proxy.through(middle, host, port, self._resolver, private=private, literal=literal)
            progress.late = "did not complete the handshake"
            yield Way(sock, context, None if context is None else route.tls.server_name or host)

    @contextlib.asynccontextmanager
    async def _slot(self, host: str, port: int) -> AsyncIterator[None]:
        slots = self._slots.setdefault((host, port), _Slots())
        slots.users += 1
        try:
            async with slots.free:
                yield
        finally:
            slots.users -= 1
            if not slots.users:
                self._slots.pop((host, port), None)

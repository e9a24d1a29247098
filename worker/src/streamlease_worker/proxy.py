"""Which proxy a dial goes through, and the way through it: HTTP CONNECT or SOCKS 4 and 5.

Through a proxy, names are looked up by the proxy, which has rules of its own; what they stand for here is judged all
the same, where DNS says anything. What is said of a proxy is its host and port, never its credentials.
"""

import asyncio
import base64
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote, urlsplit

import h11
from python_socks import ProxyError as SocksError
from python_socks import ProxyType
from python_socks.async_.asyncio import Proxy as SocksProxy

from streamlease.errors import StreamleaseError
from streamlease_worker.addresses import Resolver

PORTS = {"http": 80, "socks4": 1080, "socks4a": 1080, "socks5": 1080, "socks5h": 1080}
MOST_ANSWER_BYTES = 16 << 10
MOST_ANSWERS_BYTES = 64 << 10
"""Of an answer and all interim ones before it, which may come without end, and without a pause to time out in."""

type Reach = Callable[[], Awaitable[socket.socket]]
"""A socket to the proxy itself."""

_SOCKS = {"socks4": ProxyType.SOCKS4, "socks4a": ProxyType.SOCKS4}
_VARIABLES = {
    "wss": ("wss_proxy", "https_proxy", "all_proxy"),
    "ws": ("ws_proxy", "http_proxy", "all_proxy"),
    "https": ("https_proxy", "all_proxy"),
    "http": ("http_proxy", "all_proxy"),
}


class ProxyFailed(StreamleaseError):
    """The proxy is not to be had, or refuses. Names it without its credentials."""

    retryable = True


@dataclass(frozen=True, slots=True, repr=False)
class Proxy:
    """`repr` would show the password."""

    scheme: Literal["http", "socks4", "socks4a", "socks5", "socks5h"]
    host: str
    port: int
    user: str | None
    password: str | None
    judged: bool
    """Whether its own address has to be one that may be dialled: a spec's proxy is a spec's host like any other."""

    @property
    def name(self) -> str:
        return f"the proxy {self.host}:{self.port}"


def chosen(asked: str | None, url: str, environment: Mapping[str, str]) -> Proxy | None:
    """`asked` is the spec's: None for none, `env` for whatever the environment names, else a proxy's URL. Raises
    ProxyFailed for one that cannot be used."""
    if asked != "env":
        return None if asked is None else parsed(asked, "the spec's proxy", judged=True)
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme in ("wss", "https") else 80)
    for variable in _VARIABLES[parts.scheme]:
        found = environment.get(variable) or environment.get(variable.upper())
        if found and not _excepted(host, port, environment.get("no_proxy") or environment.get("NO_PROXY") or ""):
            return parsed(found, f"the worker's {variable.upper()}", judged=False)
    return None


def parsed(url: str, whose: str, *, judged: bool) -> Proxy:
    """Raises ProxyFailed, with nothing of the URL in it but its scheme."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ProxyFailed(f"{whose} is no URL") from None
    scheme = "socks5h" if parts.scheme == "socks" else parts.scheme
    match scheme:
        case "http" | "socks4" | "socks4a" | "socks5" | "socks5h" if host:
            user = None if parts.username is None else unquote(parts.username)
            password = None if parts.password is None else unquote(parts.password)
            return Proxy(scheme, host, port or PORTS[scheme], user, password, judged)
        case _:
            raise ProxyFailed(f"{whose} must be http://HOST:PORT, socks5://… or socks5h://…, not {scheme[:20]}://")


def _excepted(host: str, port: int, exceptions: str) -> bool:
    """Whether NO_PROXY names the host; this machine itself is never dialled through a proxy of the environment."""
    ip = _literal(host)
    if host == "localhost" or (ip is not None and ip.is_loopback):
        return True
    for entry in exceptions.lower().replace(" ", ",").split(","):
        name, _, only_port = entry.partition(":") if entry.count(":") == 1 else (entry, "", "")
        if not name or (only_port and only_port != str(port)):
            continue
        if name == "*" or (ip is not None and _in_network(ip, name)):
            return True
        suffix = name.removeprefix("*").removeprefix(".")
        if host == suffix or host.endswith(f".{suffix}"):
            return True
    return False


def _in_network(ip: ipaddress.IPv4Address | ipaddress.IPv6Address, name: str) -> bool:
    try:
        return ip in ipaddress.ip_network(name.strip("[]"), strict=False)
    except ValueError:
        return False


def _literal(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


async def through(
    proxy: Proxy, host: str, port: int, resolver: Resolver, *, private: bool = True, literal: bool = True
) -> socket.socket:
    """A socket that leads to the host. Raises ProxyFailed, and what `Resolver.addresses` raises of either host, for
    which `private` counts; `literal` does for `host` alone."""
    target = await _judged(proxy, host, port, resolver, private=private, literal=literal)

    async def reach() -> socket.socket:
        return await resolver.connect(proxy.host, proxy.port, judged=proxy.judged, private=private)

    try:
        if proxy.scheme == "http":
            return await _connect(proxy, target, port, reach)
        return await _Socks(proxy, reach).connect(target, port)
    except SocksError as refusal:
        raise ProxyFailed(f"{proxy.name} did not connect to {host}:{port}: {_words(refusal)}") from None
    except OSError as error:
        raise ProxyFailed(f"{proxy.name} could not be reached ({error.strerror or type(error).__name__})") from None


async def _judged(proxy: Proxy, host: str, port: int, resolver: Resolver, *, private: bool, literal: bool) -> str:
    """What to ask the proxy for: the name, or for a proxy that is given addresses, the judged address."""
    try:
        addresses = await resolver.addresses(host, port, private=private, literal=literal)
    except socket.gaierror:
        if proxy.scheme in ("socks4", "socks5"):
            raise
        return host  # many a worker behind a proxy has no DNS of the outer world
    return str(addresses[0][4][0]) if proxy.scheme in ("socks4", "socks5") else host


class _Socks(SocksProxy):
    def __init__(self, proxy: Proxy, reach: Reach) -> None:
        rdns = proxy.scheme in ("socks4a", "socks5h")
        kind = _SOCKS.get(proxy.scheme, ProxyType.SOCKS5)
        super().__init__(kind, proxy.host, proxy.port, proxy.user, proxy.password, rdns, forward=_Reached(reach))


class _Reached(SocksProxy):
    """What python-socks takes for a proxy before the proxy: it only connects, the way every dial here does."""

    def __init__(self, reach: Reach) -> None:
        super().__init__(ProxyType.SOCKS5, "", 0)
        self._reach = reach

    async def connect(self, *_: object, **__: object) -> socket.socket:
        return await self._reach()


async def _connect(proxy: Proxy, host: str, port: int, reach: Reach) -> socket.socket:
    sock = await reach()
    try:
        status = await _ask_for(f"[{host}]:{port}" if ":" in host else f"{host}:{port}", proxy, sock)
    except BaseException:
        sock.close()
        raise
    if 200 <= status < 300:
        return sock
    sock.close()
    hint = ": its credentials are missing or wrong" if status == 407 else ""
    raise ProxyFailed(f"{proxy.name} refused to connect to {host}:{port} with HTTP {status}{hint}")


async def _ask_for(authority: str, proxy: Proxy, sock: socket.socket) -> int:
    """The HTTP status of the answer to CONNECT."""
    loop = asyncio.get_running_loop()
    headers = [("Host", authority)]
    if proxy.user is not None:
        basic = base64.b64encode(f"{proxy.user}:{proxy.password or ''}".encode()).decode()
        headers.append(("Proxy-Authorization", f"Basic {basic}"))
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=MOST_ANSWER_BYTES)
    request = connection.send(h11.Request(method="CONNECT", target=authority, headers=headers))
    await loop.sock_sendall(sock, request or b"")
    connection.send(h11.EndOfMessage())
    left_bytes = MOST_ANSWERS_BYTES
    try:
        while not isinstance(answer := connection.next_event(), h11.Response):
            if answer is h11.NEED_DATA:
                data = await loop.sock_recv(sock, 4096)
                left_bytes -= len(data)
                if left_bytes < 0:
                    raise ProxyFailed(f"{proxy.name} answered with more than {MOST_ANSWERS_BYTES:,} bytes")
                connection.receive_data(data)
    except h11.RemoteProtocolError:
        raise ProxyFailed(f"{proxy.name} did not answer in HTTP") from None
    return answer.status_code


def _words(refusal: SocksError) -> str:
    text = str(refusal)[:100]
    return "".join(char if char.isprintable() else " " for char in text) or "it hung up"

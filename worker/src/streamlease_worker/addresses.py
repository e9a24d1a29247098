"""Which addresses may be dialled, and how a host's name becomes a connected TCP socket.

A spec names hosts, and whoever writes specs need not be trusted with what only this task can reach: its credentials
endpoint, its VPC, itself. So addresses are judged after DNS, in each dial, and the dial goes to the judged address.
"""

import asyncio
import contextlib
import ipaddress
import re
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aiohappyeyeballs import AddrInfoType, start_connection

from streamlease.errors import StreamleaseError
from streamlease.settings import Misconfigured

ALLOW_VARIABLE = "STREAMLEASE_ALLOW_ADDRESSES"
DNS_THREADS = 16
"""Of their own: names that no server answers must not keep secrets or files waiting."""
NEXT_ADDRESS_AFTER_S = 0.25
"""RFC 8305: a second address is tried beside the first after so long."""
MOST_ADDRESSES = 16

type Ip = ipaddress.IPv4Address | ipaddress.IPv6Address
type Network = ipaddress.IPv4Network | ipaddress.IPv6Network
type GetAddrInfo = Callable[..., Sequence[AddrInfoType]]

_WORDS: dict[str, tuple[str, ...]] = {
    "loopback": ("127.0.0.0/8", "::1/128"),
    "private": ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"),
}
_METADATA = tuple(map(ipaddress.ip_network, ("169.254.0.0/16", "fe80::/10", "fd00:ec2::/32", "100.100.100.200/32")))
"""Where clouds hand out credentials. Only an entry that lies within one of these allows anything of it."""
_CARRIES_IPV4 = tuple(map(ipaddress.IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "::/96")))
"""IPv6 addresses that end in the IPv4 address they stand for (NAT64, and an old form)."""


class AddressRefused(StreamleaseError):
    """A host stands for an address that no connection may go to. Tried again: DNS may say otherwise then."""

    retryable = True


@dataclass(frozen=True, slots=True)
class Allowed:
    """What may be dialled beside public addresses."""

    networks: tuple[Network, ...] = ()

    def permits(self, ip: Ip) -> bool:
        ip = _meant(ip)
        guarded = next((network for network in _METADATA if ip in network), None)
        if guarded is None and ip.is_global and not ip.is_multicast:
            return True
        return any(ip in network and (guarded is None or _within(network, guarded)) for network in self.networks)


ANYTHING_BUT_METADATA = Allowed((ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0")))


def allowed(text: str | None) -> Allowed:
    """From words (loopback, private), addresses and networks, separated by commas or blanks. Raises Misconfigured."""
    networks: list[Network] = []
    for word in re.split(r"[\s,]+", (text or "").strip()):
        try:
            networks += [ipaddress.ip_network(each) for each in _WORDS.get(word, (word,)) if each]
        except ValueError as error:
            raise Misconfigured(
                ALLOW_VARIABLE,
                f"has {word[:60]!r} ({error}); it must hold loopback, private, or networks such as 10.2.0.0/16",
            ) from None
    return Allowed(tuple(networks))


def kind(ip: Ip) -> str:
    """What an address is that is not public, in words."""
    meant = _meant(ip)
    if any(meant in network for network in _METADATA):
        return "a link-local or metadata address"
    for test, words in (
        (meant.is_unspecified, "this machine itself"),
        (meant.is_loopback, "a loopback address"),
        (meant.is_multicast, "a multicast address"),
        (meant.is_private, "a private address"),
    ):
        if test:
            return words
    return "no public address"


class Resolver:
    """Names to addresses that may be dialled. For one event loop; asked anew in each dial."""

    def __init__(self, permitted: Allowed, getaddrinfo: GetAddrInfo = socket.getaddrinfo) -> None:
        self.permitted = permitted
        self._getaddrinfo = getaddrinfo
        self._threads = asyncio.Semaphore(DNS_THREADS)
        self._asking: dict[tuple[str, int], asyncio.Task[Sequence[AddrInfoType]]] = {}

    async def addresses(
        self, host: str, port: int, *, judged: bool = True, private: bool = True, literal: bool = True
    ) -> list[AddrInfoType]:
        """At least one. Raises AddressRefused where none of them may be dialled, OSError where there is none at all.

        Without `judged`, whatever DNS says: for hosts that only the worker's own settings name. Without `private`, what
        is allowed beside public addresses is not: nobody said that this name should lead there. An address in place
        of a name says so itself, but not without `literal`: where it is an upstream's word.
        """
        found = (await self._ask(host, port))[:MOST_ADDRESSES]
        permitted = self.permitted if private or (literal and is_address(host)) else Allowed()
        good = [info for info in found if not judged or permitted.permits(_ip(info))]
        if not good:
            raise AddressRefused(_refusal(host, _ip(found[0]), allowed_here=self.permitted.permits(_ip(found[0]))))
        return good

    async def connect(
        self, host: str, port: int, *, judged: bool = True, private: bool = True, literal: bool = True
    ) -> socket.socket:
        """A connected socket to one of the host's addresses, tried side by side (RFC 8305). Raises as `addresses`."""
        addresses = await self.addresses(host, port, judged=judged, private=private, literal=literal)
        return await start_connection(addresses, happy_eyeballs_delay=NEXT_ADDRESS_AFTER_S)

    async def _ask(self, host: str, port: int) -> Sequence[AddrInfoType]:
        # A thousand connections to one host ask at once: one question is under way.
        asking = self._asking.get((host, port))
        if asking is None:
            asking = asyncio.create_task(self._in_a_thread(host, port))
            self._asking[host, port] = asking
            asking.add_done_callback(lambda task: self._answered((host, port), task))
        return await asyncio.shield(asking)

    def _answered(self, name: tuple[str, int], task: asyncio.Task[Sequence[AddrInfoType]]) -> None:
        self._asking.pop(name, None)
        if not task.cancelled():
            task.exception()  # looked at here, for all who asked may have given up meanwhile

    async def _in_a_thread(self, host: str, port: int) -> Sequence[AddrInfoType]:
        # Daemons, not a pool: a name server that never answers must not hold up the process's end.
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Sequence[AddrInfoType]] = loop.create_future()

        def tell(found: Sequence[AddrInfoType] | Exception) -> None:
            if answer.done():
                return
            if isinstance(found, Exception):
                answer.set_exception(found)
            else:
                answer.set_result(found)

        def ask() -> None:
            try:
                found: Sequence[AddrInfoType] | Exception = self._found(host, port)
            except Exception as error:  # noqa: BLE001  # raised where it is waited for
                found = error
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(tell, found)

        async with self._threads:
            threading.Thread(target=ask, name=f"dns {host}", daemon=True).start()
            return await answer

    def _found(self, host: str, port: int) -> Sequence[AddrInfoType]:
        try:
            found = self._getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except UnicodeError:  # a label that is empty or too long for IDNA
            raise socket.gaierror(socket.EAI_NONAME, "not a name that DNS can hold") from None
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "no address")
        return found


def is_address(host: str) -> bool:
    """Whether a host says itself where it leads: an address, or this machine by its usual name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return True


def _refusal(host: str, ip: Ip, *, allowed_here: bool) -> str:
    what = f"is {kind(ip)}" if host.strip("[]") == str(ip) else f"stands for {ip}, {kind(ip)}"
    if allowed_here and is_address(host):
        return f"{host} {what}, where no upstream leads unless the spec says private_addresses: true"
    if allowed_here:
        return f"{host} {what}, where no name leads unless the spec says private_addresses: true"
    return f"{host} {what}, which is not dialled unless the worker's {ALLOW_VARIABLE} has it"


def _ip(info: AddrInfoType) -> Ip:
    return ipaddress.ip_address(str(info[4][0]))


def _meant(ip: Ip) -> Ip:
    """The address that packets go to in the end."""
    if isinstance(ip, ipaddress.IPv4Address):
        return ip
    inner = ip.ipv4_mapped or ip.sixtofour
    if inner is None and int(ip) > 1 and any(ip in network for network in _CARRIES_IPV4):
        inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return inner or ip


def _within(network: Network, guarded: Network) -> bool:
    if isinstance(network, ipaddress.IPv4Network) and isinstance(guarded, ipaddress.IPv4Network):
        return network.subnet_of(guarded)
    if isinstance(network, ipaddress.IPv6Network) and isinstance(guarded, ipaddress.IPv6Network):
        return network.subnet_of(guarded)
    return False

"""Which addresses may be dialled: judged after DNS, however they are written; the dial goes where the judge looked."""

import asyncio
import ipaddress
import socket
import threading
from collections.abc import Sequence

import pytest
from aiohappyeyeballs import AddrInfoType

from streamlease.settings import Misconfigured
from streamlease_worker import addresses
from streamlease_worker.addresses import ANYTHING_BUT_METADATA, AddressRefused, Allowed, Resolver, allowed
from tests.protocols import loopback
from tests.protocols.loopback import AsksHere

PUBLIC = ("8.8.8.8", "2606:4700::1111", "64:ff9b::8.8.8.8", "::ffff:1.1.1.1")
GUARDED = (
    "169.254.170.2",
    "169.254.169.254",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "::ffff:169.254.170.2",
    "64:ff9b::a9fe:aa02",
    "2002:a9fe:aa02::1",
    "::169.254.170.2",
    "100.100.100.200",
)
OURS = (
    "127.0.0.1",
    "127.8.8.8",
    "::1",
    "::ffff:127.0.0.1",
    "10.0.0.1",
    "172.31.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "fd12::1",
)
NEITHER = ("0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255", "240.0.0.1", "192.0.2.1", "2001:db8::1")  # noqa: S104


def permits(permitted: Allowed, text: str) -> bool:
    return permitted.permits(ipaddress.ip_address(text))


@pytest.mark.parametrize("text", PUBLIC)
def test_a_public_address_is_dialled(text: str) -> None:
    assert permits(allowed(None), text)


@pytest.mark.parametrize("text", GUARDED + OURS + NEITHER)
def test_no_other_is_unless_the_owner_allows_it(text: str) -> None:
    assert not permits(allowed(""), text)


@pytest.mark.parametrize("text", OURS)
def test_words_allow_what_they_say(text: str) -> None:
    assert permits(allowed("loopback, private"), text)


@pytest.mark.parametrize("text", GUARDED)
def test_no_wide_network_allows_where_credentials_are_handed_out(text: str) -> None:
    for wide in ("0.0.0.0/0 ::/0", "private loopback", "169.0.0.0/8 fc00::/7 fe00::/8"):
        assert not permits(allowed(wide), text)
    assert not permits(ANYTHING_BUT_METADATA, text)


def test_an_entry_for_that_very_address_does() -> None:
    assert permits(allowed("169.254.170.2"), "169.254.170.2")
    assert permits(allowed("169.254.170.2"), "::ffff:169.254.170.2")
    assert not permits(allowed("169.254.170.2"), "169.254.169.254")


@pytest.mark.parametrize("text", ["localhost", "10.0.0.1/8", "10.0.0.0/33", "private;loopback"])
def test_what_is_no_address_is_refused_with_its_word(text: str) -> None:
    with pytest.raises(Misconfigured, match="STREAMLEASE_ALLOW_ADDRESSES has") as refusal:
        allowed(text)
    assert text.partition(" ")[0] in str(refusal.value)


class Names:
    """DNS as the test would have it: what each name stands for, in turn."""

    def __init__(self, **answers: str) -> None:
        self.answers = {name.replace("_", "."): texts.split() for name, texts in answers.items()}
        self.asked: list[str] = []

    def __call__(self, host: str, port: int, **_: object) -> Sequence[AddrInfoType]:
        self.asked.append(host)
        found = self.answers[host]
        text = found.pop(0) if len(found) > 1 else found[0]
        return [_info(each, port) for each in text.split("+")]


def _info(text: str, port: int) -> AddrInfoType:
    if ":" in text:
        return (socket.AF_INET6, socket.SOCK_STREAM, 6, "", (text, port, 0, 0))
    return (socket.AF_INET, socket.SOCK_STREAM, 6, "", (text, port))


async def _dialled(resolver: Resolver, host: str) -> list[str]:
    return [str(info[4][0]) for info in await resolver.addresses(host, 443)]


def test_a_name_is_judged_by_what_it_stands_for() -> None:
    resolver = Resolver(Allowed(), Names(inner_example="169.254.170.2"))
    with pytest.raises(AddressRefused) as refusal:
        asyncio.run(_dialled(resolver, "inner.example"))
    assert str(refusal.value) == (
        "inner.example stands for 169.254.170.2, a link-local or metadata address, which is not dialled unless the"
        " worker's STREAMLEASE_ALLOW_ADDRESSES has it"
    )


def test_of_several_addresses_only_the_good_are_dialled() -> None:
    resolver = Resolver(Allowed(), Names(mixed_example="10.0.0.1+8.8.8.8+::1+2606:4700::1111"))
    assert asyncio.run(_dialled(resolver, "mixed.example")) == ["8.8.8.8", "2606:4700::1111"]


def test_no_name_leads_to_what_only_the_stack_allows_unless_the_spec_asks_for_it() -> None:
    async def main() -> None:
        resolver = Resolver(allowed("private"), Names(inner_example="10.0.0.1", **{"10.0.0.1": "10.0.0.1"}))
        assert await resolver.addresses("inner.example", 443, private=True)
        assert await resolver.addresses("10.0.0.1", 443, private=False), "an address says itself where it leads"
        with pytest.raises(AddressRefused, match="unless the spec says private_addresses: true"):
            await resolver.addresses("inner.example", 443, private=False)
        with pytest.raises(AddressRefused, match="no upstream leads unless the spec says private_addresses: true"):
            await resolver.addresses("10.0.0.1", 443, private=False, literal=False)
        assert await resolver.addresses("10.0.0.1", 443, private=True, literal=False)

    asyncio.run(main())


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1", "0x7f000001", "2130706433", "::1", "localhost"])
def test_no_way_of_writing_an_address_gets_around_it(host: str) -> None:
    with pytest.raises(AddressRefused, match="a loopback address"):
        asyncio.run(_dialled(Resolver(Allowed()), host))


def test_a_name_that_changes_between_look_and_dial_is_dialled_where_it_was_looked_at() -> None:
    """Rebinding: one question a dial, and the socket goes to its answer."""

    async def main() -> tuple[str, list[str]]:
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        names = Names(rebinding_example="127.0.0.1 169.254.170.2")
        async with server:
            with await Resolver(allowed("loopback"), names).connect("rebinding.example", port) as sock:
                return sock.getpeername()[0], names.asked

    assert asyncio.run(main()) == ("127.0.0.1", ["rebinding.example"])


def test_it_is_asked_anew_in_each_dial() -> None:
    async def main() -> list[list[str]]:
        resolver = Resolver(Allowed(), Names(moving_example="8.8.8.8 1.1.1.1"))
        return [await _dialled(resolver, "moving.example") for _ in range(2)]

    assert asyncio.run(main()) == [["8.8.8.8"], ["1.1.1.1"]]


def test_a_thousand_dials_at_once_ask_once() -> None:
    names = Names(busy_example="8.8.8.8")

    async def main() -> None:
        resolver = Resolver(Allowed(), names)
        await asyncio.gather(*(_dialled(resolver, "busy.example") for _ in range(1_000)))

    asyncio.run(main())
    assert names.asked == ["busy.example"]


def test_a_name_server_that_never_answers_keeps_no_other_name_waiting() -> None:
    hangs = threading.Event()

    def getaddrinfo(host: str, port: int, **_: object) -> Sequence[AddrInfoType]:
        if host == "hanging.example":
            hangs.wait(60)
        return [_info("8.8.8.8", port)]

    async def main() -> list[str]:
        resolver = Resolver(Allowed(), getaddrinfo)
        hanging = [asyncio.create_task(_dialled(resolver, "hanging.example")) for _ in range(100)]
        await asyncio.sleep(0)
        found = await _dialled(resolver, "good.example")
        for task in hanging:
            task.cancel()
        hangs.set()
        return found

    assert asyncio.run(main()) == ["8.8.8.8"]


def test_a_host_that_no_longer_listens_on_its_first_address_is_reached_on_its_second() -> None:
    """Happy eyeballs: the first address is silent, the second answers."""

    async def main() -> str:
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        # A listener whose backlog is full answers no connection attempt.
        with socket.socket() as silent:
            silent.bind(("127.0.0.2", port))
            silent.listen(0)
            fillers = [socket.socket() for _ in range(4)]
            for filler in fillers:
                filler.setblocking(False)
                filler.connect_ex(("127.0.0.2", port))
            async with server:
                resolver = AsksHere(allowed("loopback"), Names(two_example="127.0.0.2+127.0.0.1"))
                with await resolver.connect("two.example", port) as sock:
                    found: str = sock.getpeername()[0]
            for filler in fillers:
                filler.close()
            return found

    assert loopback.run(main()) == "127.0.0.1"


def test_names_that_no_dns_can_hold_are_no_crash() -> None:
    for host in ("a" * 64 + ".example", "..", "no-such-host.invalid"):
        with pytest.raises(OSError):
            asyncio.run(_dialled(Resolver(Allowed()), host))


def test_so_many_questions_are_under_way_at_most() -> None:
    under_way, most = 0, 0
    lock, go = threading.Lock(), threading.Event()

    def getaddrinfo(host: str, port: int, **_: object) -> Sequence[AddrInfoType]:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
            if under_way == addresses.DNS_THREADS:
                go.set()
        go.wait(60)
        with lock:
            under_way -= 1
        return [_info("8.8.8.8", port)]

    async def main() -> None:
        resolver = Resolver(Allowed(), getaddrinfo)
        await asyncio.gather(*(_dialled(resolver, f"host{number}.example") for number in range(100)))

    asyncio.run(main())
    assert most == addresses.DNS_THREADS

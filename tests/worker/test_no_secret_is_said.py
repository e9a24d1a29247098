"""No secret is said, whatever the upstream says: not in the log, the status, the end, the position or an exception.

The upstreams here give back all they were told, in every place from which words are taken.
"""

import asyncio
import base64
import itertools
import json
import logging
import struct
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from streamlease.feed.computed import Encoded, Hmac
from streamlease.feed.events import Route, Tls
from streamlease.feed.feed import Feed, Fetching, Keepalive, Retry
from streamlease.model import Position, StatusState
from streamlease_worker.log import LOGGER, JsonLines, Log
from streamlease_worker.runner import Runner, Surroundings
from streamlease_worker.transport import WebSockets
from tests.protocols.loopback import routes, run
from tests.worker import hostile
from tests.worker.sinking import MemorySink, OpenFence
from tests.worker.turning import turns

KNOWN = {
    "env:TOKEN": "tok/en+0123456789 äß",
    "env:HEADER": "header-9876543210",
    "env:KEY": 'k"ey\\0123456789',
    "env:PEM": "-----BEGIN PRIVATE KEY-----\nprivate0123456789\n-----END PRIVATE KEY-----",
    "env:PROXY": "http://user:proxypass0123@127.0.0.1:1",
}
NEEDLES = ("0123456789", "9876543210", "proxypass0123", "BEGIN PRIVATE")


class Kept(logging.Handler):
    """Every line, as it would go out."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.setFormatter(JsonLines())
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


async def told(feed: Feed, *, for_s: float = 1.0) -> list[str]:
    """All that anybody gets to read of a connection to this feed."""
    kept, said = Kept(), [""]
    loggers = (LOGGER, logging.getLogger())
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(kept)
        logger.setLevel(logging.DEBUG)
    failed = asyncio.Event()

    async def secrets(references: Iterable[str], *, fresh: bool = False) -> Mapping[str, str]:
        return {reference: KNOWN[reference] for reference in references}

    def reported(state: StatusState, reason: str | None) -> None:
        said.append(f"{state} {reason}")
        if state in (StatusState.BACKOFF, StatusState.FAILED):
            failed.set()

    def advanced(position: Position) -> None:
        said.append(repr(position))

    try:
        runner = Runner(
            feed,
            None,
            fence=OpenFence(),
            around=Surroundings(
                transport=WebSockets(routes()),
                sink=MemorySink(),
                turns=turns(),
                secrets=secrets,
                wall_ms=itertools.count(1_800_000_000_000).__next__,
                draw=lambda: 0.5,
            ),
            advanced=advanced,
            reported=reported,
            log=Log(),
        )
        running = asyncio.create_task(runner.run())
        async with asyncio.timeout(15):
            await failed.wait()
        runner.stop("the test is over", flush=False)
        said.append(repr(await running))
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.removeHandler(kept)
            logger.setLevel(level)
    return said + kept.lines


def feed_at(url: str) -> Feed:
    return Feed(
        connection_id="a",
        url=f"{url}stream?token={{env:TOKEN}}",
        headers={"Authorization": "Bearer {env:HEADER}"},
        computed={"signature": Hmac("{env:KEY}", "text")},
        open_messages=({"auth": "{env:TOKEN}", "key": "{env:KEY}", "signature": "{=signature}"}, "raw {env:TOKEN}"),
        keepalive=Keepalive(ping_every_s=None),
        retry=Retry(first_s=30.0, longest_s=60.0),
        open_timeout_s=1.0,
        close_within_s=0.1,
    )


async def refuses_with_all_it_heard(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    heard = await hostile.request(reader)
    words = heard.replace(b"\r\n", b" ").strip()
    writer.write(b"HTTP/1.1 403 " + words + b"\r\nLocation: ws://" + words.split(b" ")[1] + b"/\r\nX: " + words)
    writer.write(b"\r\nContent-Length: %d\r\n\r\n" % len(words) + words)
    await writer.drain()


async def closes_with_all_it_heard(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    asked = await hostile.handshake(reader, writer)
    heard = bytearray()
    while len(heard) < 60:
        heard += await reader.read(1_000)
    words = asked.split(b" ")[1][-60:] + b" " + asked.partition(b"Bearer ")[2][:40]
    writer.write(hostile.frame(struct.pack("!H", 1008) + words[:120], opcode=0x8))
    await writer.drain()
    await reader.read()


@pytest.mark.parametrize("deed", [refuses_with_all_it_heard, closes_with_all_it_heard, hostile.deaf])
def test_w34_no_secret_is_said_whatever_the_upstream_gives_back(deed: hostile.Deed) -> None:
    async def main() -> list[str]:
        async with hostile.upstream(deed) as url:
            feed = feed_at(url)
            return await told(replace(feed, keepalive=Keepalive(ping_every_s=0.1, pong_within_s=0.1)))

    heard = run(main())
    assert any("BACKOFF" in line or "FAILED" in line for line in heard)
    assert [line for line in heard if any(needle in line for needle in NEEDLES)] == []


def test_w34_nor_what_was_computed_of_one_such_as_basic_authentication() -> None:
    async def main() -> list[str]:
        async with hostile.upstream(refuses_with_all_it_heard) as url:
            basic = {"basic": Encoded("user:{env:HEADER}")}
            headers = {"Authorization": "Basic {=basic}"}
            return await told(replace(feed_at(url), url=url, headers=headers, computed=basic, open_messages=()))

    heard = run(main())
    assert any("Basic ***" in line for line in heard)
    assert [line for line in heard if base64.b64encode(b"user:header")[:12].decode() in line] == []


@pytest.mark.parametrize(
    "change",
    [
        {"route": Route(proxy="{env:PROXY}")},
        {"url": "wss://127.0.0.1:1/", "route": Route(tls=Tls(certificate="{env:PEM}", key="{env:PEM}"))},
        {"url": "wss://127.0.0.1:1/", "route": Route(tls=Tls(ca="{env:PEM}"))},
        {"url": "ws://127.0.0.1:1/?t={env:TOKEN}"},
        {"headers": {"X": "{env:TOKEN}"}},
        {"headers": {"X": "{env:PEM}"}},
        {"fetch": Fetching("http://127.0.0.1:1/?t={env:TOKEN}", headers={"X": "{env:HEADER}"})},
        {"fetch": Fetching("http://127.0.0.1:1/", headers={"X": "{env:PEM}"})},
        {"fetch": Fetching("http://127.0.0.1:x{env:TOKEN}/")},
    ],
    ids=lambda change: json.dumps(sorted(change)),
)
def test_no_secret_is_said_where_a_dial_cannot_even_begin(change: Mapping[str, object]) -> None:
    heard = run(told(replace(feed_at("ws://127.0.0.1:1/"), **change)))  # type: ignore[arg-type]  # fields of it
    assert any("BACKOFF" in line or "FAILED" in line for line in heard)
    assert [line for line in heard if any(needle in line for needle in NEEDLES)] == []

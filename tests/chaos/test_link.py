"""What a link does to requests, against a small service that counts them."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.chaos.link import HOST, Link, Way

Scenario = Callable[["Bench"], Awaitable[None]]
BATCH = "DynamoDB_20120810.BatchExecuteStatement"
READ = "DynamoDB_20120810.GetItem"


class Bench:
    """A service behind a link."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.came = asyncio.Event()
        self.link = Link(0)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                fields = dict(line.split(b": ", 1) for line in head.strip().split(b"\r\n")[1:])
                await reader.readexactly(int(fields[b"content-length"]))
                self.asked.append(fields[b"x-amz-target"].decode())
                self.came.set()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        except (EOFError, ConnectionError):
            writer.close()

    async def ask(self, target: str = READ) -> tuple[int, Any]:
        """Status and body, on a connection of its own. Raises EOFError or OSError where it is reset."""
        reader, writer = await asyncio.open_connection(HOST, self.link.port)
        try:
            writer.write(f"POST / HTTP/1.1\r\nx-amz-target: {target}\r\ncontent-length: 2\r\n\r\n{{}}".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            return int(head.split()[1]), json.loads(await reader.readexactly(length))
        finally:
            writer.close()


def on_a_bench(scenario: Scenario) -> None:
    async def main() -> None:
        bench = Bench()
        async with asyncio.timeout(20), await asyncio.start_server(bench.serve, HOST, 0) as server:
            bench.link = await Link(server.sockets[0].getsockname()[1]).open()
            try:
                await scenario(bench)
            finally:
                await bench.link.close()

    asyncio.run(main())


def test_what_is_well_is_passed_on_and_batches_are_kept() -> None:
    async def scenario(bench: Bench) -> None:
        assert await bench.ask(READ) == (200, {})
        assert await bench.ask(BATCH) == (200, {})
        assert bench.asked == [READ, BATCH]
        assert [batch.request for batch in bench.link.batches] == [b"{}"]

    on_a_bench(scenario)


def test_a_cut_resets_what_comes_and_what_is_under_way() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.link.begin(Way.SLOW, 5.0)
        asking = asyncio.create_task(bench.ask())
        await bench.came.wait()
        spell = await bench.link.begin(Way.CUT)
        with pytest.raises((EOFError, OSError)):
            await asking
        with pytest.raises((EOFError, OSError)):
            await bench.ask()
        assert spell.hits == 2
        await bench.link.end()
        assert await bench.ask() == (200, {})

    on_a_bench(scenario)


def test_a_throttled_request_is_refused_as_the_service_would_and_not_passed_on() -> None:
    async def scenario(bench: Bench) -> None:
        spell = await bench.link.begin(Way.THROTTLED)
        status, body = await bench.ask(READ)
        assert (status, body["__type"].rpartition("#")[2]) == (400, "ProvisionedThroughputExceededException")
        status, body = await bench.ask("AmazonSQS.ReceiveMessage")
        assert (status, body["__type"].rpartition("#")[2]) == (400, "ThrottlingException")
        assert (bench.asked, spell.hits) == ([], 2)

    on_a_bench(scenario)


def test_an_answer_is_dropped_only_of_a_write_and_after_it_was_carried_out() -> None:
    async def scenario(bench: Bench) -> None:
        spell = await bench.link.begin(Way.UNANSWERED)
        assert await bench.ask(READ) == (200, {})
        with pytest.raises((EOFError, OSError)):
            await bench.ask(BATCH)
        assert (bench.asked, spell.hits) == ([READ, BATCH], 1)
        assert len(bench.link.batches) == 1

    on_a_bench(scenario)


def test_a_late_request_lands_though_its_sender_has_gone() -> None:
    async def scenario(bench: Bench) -> None:
        spell = await bench.link.begin(Way.LATE, 0.05)
        asking = asyncio.create_task(bench.ask(BATCH))
        await spell.met.wait()
        asking.cancel()
        await bench.came.wait()
        assert bench.asked == [BATCH]

    on_a_bench(scenario)


def test_a_silent_link_passes_nothing_on_and_answers_nothing_until_it_is_over() -> None:
    async def scenario(bench: Bench) -> None:
        spell = await bench.link.begin(Way.SILENT, operations=frozenset({"GetItem"}))
        assert await bench.ask(BATCH) == (200, {})
        asking = asyncio.create_task(bench.ask(READ))
        await spell.met.wait()
        assert not asking.done()
        await bench.link.end()
        with pytest.raises((EOFError, OSError)):
            await asking
        assert bench.asked == [BATCH]

    on_a_bench(scenario)

"""HTTP calls before a dial, against servers on loopback: what is asked, what is made of the answer, and every bound."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from streamlease.feed.events import Fetch, Fetched, Route, Tls
from streamlease_worker.fetch import Unfetched, fetch
from tests.protocols.loopback import routes, run
from tests.worker import hostile
from tests.worker.certificates import Authority

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n" + b'{"url":"wss:/"}'


def fetched(deed: hostile.Deed, call: Callable[[str], Fetch] | None = None) -> Fetched:
    """What a call to a server that does this deed gives. Raises Unfetched."""

    async def main() -> Fetched:
        async with hostile.upstream(deed) as url:
            url = url.replace("ws://", "http://")
            asked = Fetch(3, "GET", url, timeout_s=1.0, max_body_bytes=1_000) if call is None else call(url)
            return await fetch(asked, routes())

    return run(main())


def test_an_answer_keeps_its_status_and_its_body() -> None:
    assert fetched(hostile.answers(OK)) == Fetched(3, 200, '{"url":"wss:/"}')
    refusal = b"HTTP/1.1 429 Slow down\r\nRetry-After: 7\r\nContent-Length: 2\r\n\r\nno"
    assert fetched(hostile.answers(refusal)) == Fetched(3, 429, "no", retry_after_s=7.0)


def test_chunks_and_a_body_that_ends_with_the_connection_are_read() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    assert fetched(hostile.answers(chunked)).body == "abcde"

    async def ends(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hostile.request(reader)
        writer.write(b"HTTP/1.0 200 OK\r\n\r\nto the end")
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    assert fetched(ends).body == "to the end"


def test_what_is_asked_is_what_the_call_says() -> None:
    seen: list[bytes] = []

    async def see(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await hostile.request(reader)
        seen.append(head + await reader.readexactly(7))
        writer.write(OK)
        await reader.read()

    fetched(see, lambda url: Fetch(1, "POST", f"{url}open?a=%20b", {"Authorization": "Bearer t"}, '{"a":1}'))
    head, _, body = seen[0].partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /open?a=%20b HTTP/1.1"
    assert {"authorization: Bearer t", "content-type: application/json", "content-length: 7"} <= set(lines)
    assert json.loads(body) == {"a": 1}


@pytest.mark.parametrize(
    ("deed", "sentence", "counted"),
    [
        (hostile.answers(), "127.0.0.1 did not answer within 1 s", "dial_timeout"),
        (hostile.drips(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1_000, 0.02), "did not answer within 1 s", "dial_timeout"),
        (hostile.drips(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1_000, 0.02), "did not answer within 1 s", "dial_timeout"),
        (
            hostile.answers(b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n" + b"x" * 10_000),
            "127.0.0.1 answered with more than 1,000 bytes",
            "oversized_answer",
        ),
        (hostile.answers(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1_000_000), "did not answer in HTTP", None),
        (hostile.answers(b"SSH-2.0-OpenSSH\r\n\r\n"), "127.0.0.1 did not answer in HTTP", None),
    ],
    ids=["silence", "dripping headers", "dripping body", "a long body", "long headers", "no HTTP"],
)
def test_an_answer_that_is_none_is_a_sentence_in_time(deed: hostile.Deed, sentence: str, counted: str | None) -> None:
    with pytest.raises(Unfetched) as failure:
        fetched(deed)
    assert sentence in str(failure.value)
    assert failure.value.counted == counted


def test_a_redirect_is_an_answer_and_is_not_followed() -> None:
    moved = b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n"
    assert fetched(hostile.answers(moved)).status == 302


def test_an_address_that_may_not_be_dialled_may_not_be_called() -> None:
    with pytest.raises(Unfetched, match="a link-local or metadata address") as refusal:
        run(fetch(Fetch(1, "GET", "http://169.254.170.2/v2/credentials"), routes()))
    assert refusal.value.counted == "address_refused"


def test_a_url_that_cannot_be_shows_nothing_of_itself() -> None:
    for url, headers in (("ftp://127.0.0.1/s3cr3t", {}), ("http://127.0.0.1:1/", {"X": "s3cr3t\r\nbreak"})):
        with pytest.raises(Unfetched) as failure:
            run(fetch(Fetch(1, "GET", url, headers, timeout_s=1.0), routes()))
        assert "s3cr3t" not in str(failure.value)


def test_https_trusts_what_the_route_says(tmp_path: Path) -> None:
    ours = Authority()

    async def main(tls: Tls) -> Fetched:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await hostile.request(reader)
            writer.write(OK)
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=ours.server(tmp_path, "127.0.0.1"))
        port = server.sockets[0].getsockname()[1]
        async with server:
            return await fetch(Fetch(1, "GET", f"https://127.0.0.1:{port}/", route=Route(tls=tls)), routes())

    assert run(main(Tls(ca=ours.pem))).status == 200
    with pytest.raises(Unfetched, match="cannot be trusted"):
        run(main(Tls()))

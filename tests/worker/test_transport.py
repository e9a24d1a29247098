"""The WebSocket transport against real servers on loopback: what it opens, and the sentence for each way it fails."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from streamlease.feed.events import Closed, Dial
from streamlease_worker.transport import Socket, SocketEnded, WebSockets
from tests.protocols.loopback import in_time, passes, routes, run

type Handler = Callable[[ServerConnection], Awaitable[None]]


@contextlib.asynccontextmanager
async def upstream(handler: Handler, **options: object) -> AsyncIterator[str]:
    """A server that runs `handler` for each connection; its URL."""
    async with serve(handler, "127.0.0.1", 0, **options) as server:  # type: ignore[arg-type]
        yield f"ws://127.0.0.1:{port_of(server)}/"


def port_of(server: Server | asyncio.Server) -> int:
    port: int = next(iter(server.sockets)).getsockname()[1]
    return port


@contextlib.asynccontextmanager
async def raw(answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> AsyncIterator[str]:
    """A TCP server that says what it likes."""
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"ws://127.0.0.1:{port_of(server)}/"


async def refused(url: str, **options: object) -> Closed:
    """How dialling `url` fails."""
    with pytest.raises(SocketEnded) as ended:
        await WebSockets(routes()).dial(Dial(url, **options))  # type: ignore[arg-type]
    return ended.value.closed


async def end_of(socket: Socket) -> Closed:
    """Read on until the end."""
    try:
        while True:
            await socket.recv()
    except SocketEnded as ended:
        return ended.closed


async def _echo(connection: ServerConnection) -> None:
    async for message in connection:
        await connection.send(message)


async def _silent(connection: ServerConnection) -> None:
    await connection.wait_closed()


# --- open sockets -----------------------------------------------------------------------------------------------------


@in_time
async def test_messages_go_both_ways_with_headers_and_subprotocol() -> None:
    seen: list[ServerConnection] = []

    async def handler(connection: ServerConnection) -> None:
        seen.append(connection)
        await _echo(connection)

    async with upstream(handler, subprotocols=["v2"]) as url:
        socket = await WebSockets(routes()).dial(Dial(url, headers={"X-Key": "k"}, subprotocols=("v2",)))
        await socket.send("ünï")
        assert await socket.recv() == "ünï"
        await socket.close(1000, "done")
        assert (await end_of(socket)).code == 1000
    request = seen[0].request
    assert request is not None
    assert request.headers["X-Key"] == "k"
    assert request.headers["User-Agent"] == "streamlease"
    assert "Sec-WebSocket-Extensions" not in request.headers
    assert seen[0].subprotocol == "v2"


@in_time
async def test_a_ping_is_answered_and_the_socket_sends_none_of_its_own() -> None:
    async with upstream(_silent) as url:
        socket = await WebSockets(routes()).dial(Dial(url))
        ponged = asyncio.Event()
        await socket.ping(ponged.set)
        await ponged.wait()
        await socket.close(1000, "")


@in_time
async def test_calls_on_a_socket_that_is_gone_are_quiet_and_reading_tells() -> None:
    async def handler(connection: ServerConnection) -> None:
        await connection.close(1008, "policy")

    async with upstream(handler) as url:
        socket = await WebSockets(routes()).dial(Dial(url))
        closed = await end_of(socket)
        assert closed == Closed("the upstream closed with 1008: policy", code=1008, reason="policy")
        await socket.send("x")
        await socket.ping(lambda: pytest.fail("nobody answers"))
        await socket.close(1000, "")
        assert await end_of(socket) == closed


@in_time
async def test_an_abort_drops_it_at_once() -> None:
    async with upstream(_silent) as url:
        socket = await WebSockets(routes()).dial(Dial(url))
        socket.abort()
        assert (await end_of(socket)).code == 1006


@in_time
async def test_not_reading_reaches_the_upstream() -> None:
    sent = 0

    async def handler(connection: ServerConnection) -> None:
        nonlocal sent
        with contextlib.suppress(Exception):
            while sent < 1_000:
                await connection.send("x" * 100_000)
                sent += 1

    async with upstream(handler) as url:
        socket = await WebSockets(routes()).dial(Dial(url))
        await passes(60)
        before = sent
        await passes(3_600)
        assert sent == before
        assert 0 < sent < 200
        for _ in range(sent + 10):
            await socket.recv()
        socket.abort()


# --- bad upstreams ----------------------------------------------------------------------------------------------------


@in_time
async def test_20_mb_are_refused_before_they_are_in_memory() -> None:
    async def handler(connection: ServerConnection) -> None:
        with contextlib.suppress(Exception):
            await connection.send("x" * 20_000_000)
        await connection.wait_closed()

    async with upstream(handler) as url:
        socket = await WebSockets(routes()).dial(Dial(url))
        closed = await end_of(socket)
    assert closed == Closed("the upstream sent a message of more than 1,048,576 bytes", code=1009)


@in_time
async def test_invalid_utf8_is_named() -> None:
    async def handler(connection: ServerConnection) -> None:
        await connection.send(b"\xff\xfe", text=True)
        await connection.wait_closed()

    async with upstream(handler) as url:
        closed = await end_of(await WebSockets(routes()).dial(Dial(url)))
    assert closed == Closed("the upstream sent text that is not UTF-8", code=1007)


@in_time
async def test_a_broken_protocol_is_named() -> None:
    async def handler(connection: ServerConnection) -> None:
        connection.transport.write(b"\xff\x00")
        await connection.wait_closed()

    async with upstream(handler) as url:
        closed = await end_of(await WebSockets(routes()).dial(Dial(url)))
    assert closed.code == 1002
    assert closed.error.startswith("the upstream broke the WebSocket protocol")


@in_time
async def test_a_close_of_ones_own_is_told_from_the_upstreams() -> None:
    async with upstream(_silent) as url:
        socket = await WebSockets(routes()).dial(Dial(url))
        await socket.close(1000, "")
        closed = await end_of(socket)
    assert closed == Closed("this side closed, and was answered, with 1000", code=1000)


@in_time
async def test_a_lost_socket_is_told_from_a_closed_one() -> None:
    async def handler(connection: ServerConnection) -> None:
        connection.transport.abort()

    async with upstream(handler) as url:
        closed = await end_of(await WebSockets(routes()).dial(Dial(url)))
    assert closed.code == 1006
    assert closed.error.startswith("the socket was lost without a close frame")


@in_time
async def test_a_refused_handshake_keeps_its_status_and_its_wish() -> None:
    def refuse(connection: ServerConnection, request: Request) -> Response:
        return Response(429, "Too Many Requests", Headers({"Retry-After": "17"}))

    async with upstream(_silent, process_request=refuse) as url:
        closed = await refused(url)
    assert closed == Closed(
        "the upstream refused the handshake with HTTP 429 Too Many Requests", http_status=429, retry_after_s=17.0
    )


@pytest.mark.parametrize(
    ("value", "wait_s"),
    [("Wed, 21 Oct 2026 07:28:30 GMT", 30.0), ("Wed, 21 Oct 2026 07:27:00 GMT", 0.0), ("soon", None), ("-3", None)]
    + [
        (date, None)
        for date in ("Wed, 9999999999999 Oct 2026 07:28:30 GMT", "Wed, 21 Oct 2026 07:28:30 +99999999999999")
    ],
)
def test_a_retry_after_may_be_a_date_or_nothing_to_go_by(value: str, wait_s: float | None) -> None:
    async def main() -> None:
        def refuse(connection: ServerConnection, request: Request) -> Response:
            date = "Wed, 21 Oct 2026 07:28:00 GMT"
            return Response(503, "Busy", Headers({"Retry-After": value, "Date": date}))

        async with upstream(_silent, process_request=refuse) as url:
            assert (await refused(url)).retry_after_s == wait_s

    run(main())


@in_time
async def test_a_redirect_is_not_followed_and_names_its_host_alone() -> None:
    def refuse(connection: ServerConnection, request: Request) -> Response:
        return Response(301, "Moved", Headers({"Location": "ws://other.example/path?token=s3cr3t"}))

    async with upstream(_silent, process_request=refuse) as url:
        closed = await refused(url)
    assert closed.http_status == 301
    assert "other.example" in closed.error
    assert "s3cr3t" not in closed.error


@in_time
async def test_a_redirect_within_the_host_or_to_nowhere_is_not_followed_either() -> None:
    for location in ("/elsewhere", "ws://[::1/x", ""):

        def refuse(connection: ServerConnection, request: Request, to: str = location) -> Response:
            return Response(HTTPStatus.FOUND, "Found", Headers({"Location": to}))

        async with upstream(_silent, process_request=refuse) as url:
            assert (await refused(url)).error.endswith("redirects are not followed")


@in_time
async def test_an_upstream_that_never_answers_is_given_up_in_time() -> None:
    async def nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with raw(nothing) as url:
        closed = await refused(url, open_timeout_s=0.2)
    assert closed == Closed("127.0.0.1 did not complete the handshake within 0.2 s")


@in_time
async def test_an_upstream_that_closes_at_once_or_speaks_no_http_is_named() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.9\r\n\r\n")
        await writer.drain()
        writer.close()

    for answer in (hang_up, babble):
        async with raw(answer) as url:
            assert (await refused(url)).error == "127.0.0.1 did not answer in HTTP"


@in_time
async def test_a_web_server_that_is_no_websocket_server_is_named() -> None:
    async def web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: other\r\nConnection: Upgrade\r\n\r\n")
        await writer.drain()
        writer.close()

    async with raw(web) as url:
        assert "not as a WebSocket server" in (await refused(url)).error


@in_time
async def test_a_subprotocol_nobody_offered_is_named() -> None:
    def choose(connection: ServerConnection, request: Request, response: Response) -> None:
        response.headers["Sec-WebSocket-Protocol"] = "v9"

    async with upstream(_silent, process_response=choose) as url:
        assert "not offered" in (await refused(url, subprotocols=("v2",))).error


@in_time
async def test_a_port_where_nobody_listens_a_host_that_does_not_exist_a_url_that_cannot_be() -> None:
    async with raw(lambda _r, _w: asyncio.sleep(0)) as url:
        pass
    port = url.rstrip("/").rpartition(":")[2]
    assert await refused(url) == Closed(f"nothing accepts connections at 127.0.0.1:{port}")
    assert (await refused("ws://no-such-host.invalid/?token=s3cr3t")).error.startswith("no-such-host.invalid could not")
    broken = await refused("ws://127.0.0.1:1/", headers={"X-Key": "line\r\nbreak"})
    assert "break" not in broken.error


@in_time
async def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    key, certificate = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    async with upstream(_silent, ssl=context) as url:
        secure = url.replace("ws://127.0.0.1", "wss://localhost")
        assert "showed a TLS certificate that cannot be trusted" in (await refused(secure)).error
        trusting = ssl.create_default_context(cafile=str(certificate))
        trusting.check_hostname = False
        socket = await WebSockets(routes(context=lambda: trusting)).dial(Dial(secure))
        await socket.close(1000, "")


@in_time
async def test_a_port_that_speaks_no_tls_is_named() -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()
        writer.close()

    async with raw(plain) as url:
        assert "could not agree on TLS" in (await refused(url.replace("ws://", "wss://"))).error


@in_time
async def test_a_port_that_hangs_up_on_tls_is_asked_about() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.transport.abort()

    async with raw(hang_up) as url:
        assert await refused(url.replace("ws://", "wss://")) == Closed(
            "127.0.0.1 ended the connection during the handshake: does it speak ws:// rather than wss://?"
        )


def self_signed(folder: Path) -> tuple[Path, Path]:
    """A key and a certificate for localhost that nobody vouches for."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(days=1), now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    )
    (folder / "certificate.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return folder / "key.pem", folder / "certificate.pem"

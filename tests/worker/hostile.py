"""Upstreams that do what no upstream should, on loopback: each is a function of a connection's reader and writer."""

import asyncio
import base64
import contextlib
import hashlib
import struct
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable

type Deed = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
type Listening = Callable[[str], str]

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


@contextlib.asynccontextmanager
async def upstream(deed: Deed, address: str = "127.0.0.1") -> AsyncIterator[str]:
    """Does its deed to every connection, for as long as it is needed; its URL."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await deed(reader, writer)
        except asyncio.CancelledError:
            return
        finally:
            tasks.discard(task)
            writer.transport.abort()

    server = await asyncio.start_server(serve, address, 0)
    try:
        yield f"ws://{address}:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()
        server.abort_clients()  # also those whose task has not begun yet, and so will close nothing
        for task in list(tasks):
            task.cancel()
        if tasks:
            await asyncio.wait(list(tasks))


async def request(reader: asyncio.StreamReader) -> bytes:
    return await reader.readuntil(b"\r\n\r\n")


async def handshake(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, headers: bytes = b"", deflate: bool = False
) -> bytes:
    """What a good upstream does first. Returns the request."""
    asked = await request(reader)
    lines = (line.partition(b":") for line in asked.split(b"\r\n")[1:])
    key = next(value.strip() for name, _, value in lines if name.lower() == b"sec-websocket-key")
    accept = base64.b64encode(hashlib.sha1(key + GUID, usedforsecurity=False).digest())
    extension = b"Sec-WebSocket-Extensions: permessage-deflate\r\n" if deflate else b""
    writer.write(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
        + accept
        + b"\r\n"
        + extension
        + headers
        + b"\r\n"
    )
    return asked


def frame(payload: bytes, *, opcode: int = 0x1, fin: bool = True, reserved: int = 0, masked: bool = False) -> bytes:
    """One frame, as right or wrong as asked."""
    first = (0x80 if fin else 0) | reserved | opcode
    mask = 0x80 if masked else 0
    size = len(payload)
    if size < 126:
        head = bytes((first, mask | size))
    elif size < 65_536:
        head = struct.pack("!BBH", first, mask | 126, size)
    else:
        head = struct.pack("!BBQ", first, mask | 127, size)
    return head + (b"\0\0\0\0" if masked else b"") + payload


def says(*frames: bytes, deflate: bool = False, stays: bool = False) -> Deed:
    """Handshakes, says these, and goes at the first word it hears; or never, where it `stays`."""

    async def deed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await handshake(reader, writer, deflate=deflate)
        for each in frames:
            writer.write(each)
            await writer.drain()
        while await reader.read(65_536) and stays:
            pass

    return deed


def answers(*pieces: bytes) -> Deed:
    """Answers the handshake with these bytes, and keeps the connection."""

    async def deed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        await reader.read()

    return deed


def drips(answer: bytes, every_s: float) -> Deed:
    """Answers the handshake a byte at a time."""

    async def deed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        for byte in answer:
            writer.write(bytes((byte,)))
            await writer.drain()
            await asyncio.sleep(every_s)

    return deed


async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Handshakes, then neither reads nor writes: as a host behind a firewall that drops all."""
    await handshake(reader, writer)
    writer.transport.pause_reading()  # type: ignore[attr-defined]  # a transport of a socket reads, too
    await asyncio.Event().wait()


async def closes_at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await handshake(reader, writer)
    writer.write(frame(struct.pack("!H", 1000), opcode=0x8))
    await writer.drain()


async def asks_and_never_reads(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await handshake(reader, writer)
    writer.transport.pause_reading()  # type: ignore[attr-defined]  # as above
    while True:
        writer.write(frame(b'{"seq": 1}') * 100)
        await writer.drain()


async def pings_and_never_reads(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await handshake(reader, writer)
    writer.transport.pause_reading()  # type: ignore[attr-defined]  # as above
    ping = frame(b"x" * 125, opcode=0x9) * 500
    while True:
        writer.write(ping)
        await writer.drain()


def bomb(size: int) -> bytes:
    """A text frame that inflates to so many bytes."""
    deflater = zlib.compressobj(9, wbits=-15)
    # After a full flush nothing refers to what was before, so that one megabyte may stand there as often as wanted.
    megabyte = deflater.compress(b"x" * (1 << 20)) + deflater.flush(zlib.Z_FULL_FLUSH)
    return frame((megabyte * (size >> 20)).removesuffix(b"\0\0\xff\xff"), reserved=0x40)

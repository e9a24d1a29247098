"""An upstream that sends as fast as it is read: numbered messages of about 200 bytes, framed beforehand.

    python -m bench.flood [--messages 400000]

Prints its URL in one line, then serves each client that comes all of them, from the first on; it ends with its standard
input. Not the `websockets` server, so that the side that is measured is never the one that waits.
"""

import argparse
import asyncio
import base64
import contextlib
import hashlib
import struct
import sys

MESSAGE_BYTES = 200
CHUNK_BYTES = 64 << 10
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def frames(messages: int) -> bytes:
    """All messages, each a text frame without a mask."""
    made = bytearray()
    for number in range(1, messages + 1):
        text = (
            b'{"did":"did:plc:6zg3pu4bhpkmm4xk","time_us":%d,"kind":"commit","commit":{"operation":"create",'
            b'"collection":"app.bsky.feed.post","record":{"text":"' % (1_800_000_000_000_000 + number)
        )
        text += b"x" * (MESSAGE_BYTES - len(text) - 4) + b'"}}}'
        made += struct.pack("!BBH", 0x81, 126, len(text)) + text
    return bytes(made)


async def handshake(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    request = await reader.readuntil(b"\r\n\r\n")
    lines = (line.partition(b":") for line in request.split(b"\r\n")[1:])
    key = next(value.strip() for name, _, value in lines if name.lower() == b"sec-websocket-key")
    accept = base64.b64encode(hashlib.sha1(key + GUID, usedforsecurity=False).digest())
    writer.write(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
    )


async def main(messages: int) -> None:
    stream = frames(messages)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await handshake(reader, writer)
            for begin in range(0, len(stream), CHUNK_BYTES):
                writer.write(stream[begin : begin + CHUNK_BYTES])
                await writer.drain()
            await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/", flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.flood", description=__doc__.partition("\n")[0])
    parser.add_argument("--messages", type=int, default=400_000)
    asyncio.run(main(parser.parse_args().messages))

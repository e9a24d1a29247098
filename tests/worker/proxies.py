"""Proxies on loopback, as strict as real ones: what they were asked is kept."""

import asyncio
import base64
import contextlib
import socket
import struct
from collections.abc import AsyncIterator


class Proxying:
    """`asked` is each target as the client wrote it; `credentials` what it showed."""

    def __init__(self, *, answer: bytes | None = None, user: str | None = None, leads_to: int | None = None) -> None:
        self.asked: list[str] = []
        self.credentials: list[str | None] = []
        self.port = 0
        self._answer = answer
        self._user = user
        self._leads_to = leads_to

    async def http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        lines = head.split("\r\n")
        self.asked.append(lines[0].split(" ")[1])
        shown = next((line.partition(": ")[2] for line in lines if line.lower().startswith("proxy-auth")), None)
        self.credentials.append(None if shown is None else base64.b64decode(shown.removeprefix("Basic ")).decode())
        if self._user is not None and self.credentials[-1] != self._user:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            return
        if self._answer is not None:
            writer.write(self._answer)
            return
        # In two pieces, as a network may deliver it.
        writer.write(b"HTTP/1.1 200 Connection")
        await writer.drain()
        await asyncio.sleep(0)
        writer.write(b" established\r\nVia: test\r\n\r\n")
        await self._relay(reader, writer, self.asked[-1].rpartition(":")[2])

    async def socks5(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, methods = await reader.readexactly(2)
        offered = await reader.readexactly(methods)
        if self._user is None:
            self.credentials.append(None)
            writer.write(b"\x05\x00")
        elif 2 not in offered:
            writer.write(b"\x05\xff")
            return
        else:
            writer.write(b"\x05\x02")
            _, length = await reader.readexactly(2)
            user = await reader.readexactly(length)
            password = await reader.readexactly((await reader.readexactly(1))[0])
            self.credentials.append(f"{user.decode()}:{password.decode()}")
            good = self.credentials[-1] == self._user
            writer.write(b"\x01\x00" if good else b"\x01\x01")
            if not good:
                return
        _, _, _, kind = await reader.readexactly(4)
        if kind == 3:
            host = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
        else:
            size, family = (4, socket.AF_INET) if kind == 1 else (16, socket.AF_INET6)
            host = socket.inet_ntop(family, await reader.readexactly(size))
        (port,) = struct.unpack("!H", await reader.readexactly(2))
        self.asked.append(f"{host}:{port}")
        writer.write(b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00")
        await self._relay(reader, writer, str(port))

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: str) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._leads_to or int(port))

        async def move(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            try:
                while data := await source.read(65_536):
                    target.write(data)
                    await target.drain()
            except ConnectionError:
                return
            finally:
                target.close()

        await asyncio.gather(move(reader, back), move(there, writer))


@contextlib.asynccontextmanager
async def proxying(proxy: Proxying, scheme: str) -> AsyncIterator[str]:
    """Its URL, without credentials."""
    tasks: set[asyncio.Task[None]] = set()
    serve = proxy.http if scheme == "http" else proxy.socks5

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await serve(reader, writer)
            await writer.drain()
        except (asyncio.CancelledError, ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(one, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield f"{scheme}://127.0.0.1:{proxy.port}"
    finally:
        server.close()
        server.abort_clients()  # also those whose task has not begun yet, and so will close nothing
        for task in list(tasks):
            task.cancel()
        if tasks:
            await asyncio.wait(list(tasks))

"""One HTTP call before a dial: a ticket, a token, the upstream's own URL. HTTP/1.1 by h11, over the way of every dial.

Bounded in time and size. Redirects are not followed: the answer is theirs to be judged by.
"""

import asyncio
import ssl
from urllib.parse import urlsplit

import h11

from streamlease.errors import StreamleaseError
from streamlease.feed.events import Fetch, Fetched
from streamlease_worker import endings
from streamlease_worker.addresses import AddressRefused
from streamlease_worker.routes import PORTS, Progress, Routes, Way

USER_AGENT = "streamlease"
MOST_HEADER_BYTES = 64 << 10
READ_BYTES = 16 << 10


class Unfetched(Exception):
    """There is no answer, or none to use. `counted` is a key of `endings.COUNTED`, where it is worth one."""

    def __init__(self, sentence: str, counted: str | None = None) -> None:
        super().__init__(sentence)
        self.counted = counted


async def fetch(call: Fetch, routes: Routes) -> Fetched:
    """The answer, whatever its status. Secrets are filled in already. Raises Unfetched."""
    host = urlsplit(call.url).hostname or "its host"
    progress = Progress()
    try:
        async with asyncio.timeout(call.timeout_s), routes.to(call.url, call.route, progress) as way:
            progress.late = "did not answer"
            return await _exchange(call, way)
    except TimeoutError:
        raise Unfetched(f"{host} {progress.late} within {call.timeout_s:g} s", "dial_timeout") from None
    except StreamleaseError as error:
        raise Unfetched(str(error), "address_refused" if isinstance(error, AddressRefused) else None) from None
    except ssl.SSLCertVerificationError as error:
        words = endings.plain(error.verify_message)
        raise Unfetched(f"{host} showed a TLS certificate that cannot be trusted: {words}") from None
    except ssl.SSLError as error:
        raise Unfetched(f"{host} could not agree on TLS ({endings.plain(error.reason or 'no reason given')})") from None
    except OSError as error:
        words = endings.plain(error.strerror or type(error).__name__)
        raise Unfetched(f"{host} could not be reached ({words})") from None
    except h11.RemoteProtocolError:
        raise Unfetched(f"{host} did not answer in HTTP") from None
    except (h11.LocalProtocolError, ValueError):
        raise Unfetched("the URL of an HTTP call, or a header of it, cannot be used once filled in") from None


async def _exchange(call: Fetch, way: Way) -> Fetched:
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=MOST_HEADER_BYTES)
    body = None if call.body is None else call.body.encode()
    reader, writer = await asyncio.open_connection(
        sock=way.sock, ssl=way.context, server_hostname=way.server_name, limit=READ_BYTES
    )
    try:
        writer.write(connection.send(_request(call, body)) or b"")
        if body:
            writer.write(connection.send(h11.Data(data=body)) or b"")
        writer.write(connection.send(h11.EndOfMessage()) or b"")
        await writer.drain()
        return await _answer(call, connection, reader)
    finally:
        writer.transport.abort()


def _request(call: Fetch, body: bytes | None) -> h11.Request:
    url = urlsplit(call.url)
    port = url.port or PORTS[url.scheme]
    host = f"[{url.hostname}]" if ":" in (url.hostname or "") else url.hostname or ""
    headers = {
        "host": host if port == PORTS[url.scheme] else f"{host}:{port}",
        "user-agent": USER_AGENT,
        "accept": "*/*",
        "accept-encoding": "identity",
        "connection": "close",
    }
    if body is not None:
        headers["content-type"] = "application/json" if call.json else "text/plain; charset=utf-8"
    headers |= {name.lower(): value for name, value in call.headers.items()}
    if body is not None or call.method != "GET":
        headers["content-length"] = str(len(body or b""))
    target = (url.path or "/") + (f"?{url.query}" if url.query else "")
    return h11.Request(method=call.method, target=target, headers=list(headers.items()))


async def _answer(call: Fetch, connection: h11.Connection, reader: asyncio.StreamReader) -> Fetched:
    status, waits_s, body = 0, None, bytearray()
    while True:
        event = connection.next_event()
        match event:
            case h11.Response():
                headers = {bytes(name): bytes(value).decode("latin-1") for name, value in event.headers}
                status = event.status_code
                waits_s = endings.retry_after_s(headers.get(b"retry-after", ""), headers.get(b"date", ""))
            case h11.Data():
                body += event.data
                if len(body) > call.max_body_bytes:
                    host = urlsplit(call.url).hostname
                    raise Unfetched(f"{host} answered with more than {call.max_body_bytes:,} bytes", "oversized_answer")
            case h11.EndOfMessage():
                return Fetched(call.socket, status, body.decode(errors="replace"), retry_after_s=waits_s)
            case h11.ConnectionClosed():
                raise ConnectionResetError
            case h11.NEED_DATA:
                connection.receive_data(await reader.read(READ_BYTES))
            case _:
                pass

"""An upstream that takes any number of connections, answers pings and closes, and says nothing else.

    python -m bench.idle_upstream [--tls FOLDER]

Listens on several addresses of this machine, so that nobody runs out of ports; prints `PORT ADDRESS...` in one line,
and ends with its standard input. With --tls, FOLDER gets a certificate that it signs itself, `certificate.pem`.
"""

import argparse
import asyncio
import base64
import hashlib
import ipaddress
import resource
import ssl
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from streamlease_worker import tls

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
ADDRESSES = tuple(f"127.0.0.{number}" for number in range(1, 9))
_CLOSE, _PING, _PONG = 0x8, 0x9, 0xA


class Upstream(asyncio.Protocol):
    """One connection. Small, for the machine's memory is the worker's to use."""

    __slots__ = ("_data", "_open", "_transport")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._data = b""
        self._open = False

    def opened(self, request: bytes) -> None:
        """The handshake is answered. For moodier upstreams."""

    def data_received(self, data: bytes) -> None:
        self._data += data
        if not self._open:
            if b"\r\n\r\n" not in self._data:
                return
            request, _, self._data = self._data.partition(b"\r\n\r\n")
            self._transport.write(accepted(request))
            self._open = True
            self.opened(request)
        while len(self._data) >= 6:
            opcode, size = self._data[0] & 0x0F, self._data[1] & 0x7F
            if size > 125:
                self._transport.abort()  # nobody here says so much
                return
            if len(self._data) < 6 + size:
                return
            mask, payload, self._data = self._data[2:6], self._data[6 : 6 + size], self._data[6 + size :]
            plain = bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))
            if opcode == _PING:
                self._transport.write(bytes((0x80 | _PONG, size)) + plain)
            elif opcode == _CLOSE:
                self._transport.write(bytes((0x80 | _CLOSE, size)) + plain)
                self._transport.close()


def accepted(request: bytes) -> bytes:
    """The answer to a handshake."""
    lines = (line.partition(b":") for line in request.split(b"\r\n")[1:])
    key = next(value.strip() for name, _, value in lines if name.lower() == b"sec-websocket-key")
    accept = base64.b64encode(hashlib.sha1(key + GUID, usedforsecurity=False).digest())
    return (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
        + accept
        + b"\r\n\r\n"
    )


def certificate(folder: Path) -> ssl.SSLContext:
    """A context with a certificate for all the addresses, which is left in `folder` for clients to trust."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bench")])
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address)) for address in ADDRESSES])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(days=1), now + timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    (folder / "certificate.pem").write_bytes(made.public_bytes(pem))
    (folder / "key.pem").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    return context


async def main(folder: Path | None) -> None:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    tls.lighten()
    context = None if folder is None else certificate(folder)
    loop = asyncio.get_running_loop()
    port = 0
    for address in ADDRESSES:
        server = await loop.create_server(Upstream, address, port, ssl=context, backlog=4096)
        port = server.sockets[0].getsockname()[1]
    print(port, *ADDRESSES, flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.idle_upstream", description=__doc__.partition("\n")[0])
    parser.add_argument("--tls", type=Path)
    asyncio.run(main(parser.parse_args().tls))

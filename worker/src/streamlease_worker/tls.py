"""TLS contexts, shared: one for each set of trust and client certificate, since each weighs most of a megabyte.

How little memory a TLS connection takes is set once for the process: asyncio would keep a read buffer of 256 KiB each.
"""

import asyncio.sslproto
import contextlib
import hashlib
import os
import ssl
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterator

from streamlease.errors import StreamleaseError
from streamlease.feed.events import Tls

BUFFER_BYTES = 16 << 10
"""Of each TLS connection: as large as TLS makes its records, so that a busy one is read at the usual pace."""
MOST_CONTEXTS = 256
"""Beyond this the one that was used longest ago is made anew when it is needed: a worker's memory is bounded."""


class BadTls(StreamleaseError):
    """A certificate or key that cannot be used. Shows nothing of it. Tried again: somebody may put another there."""

    retryable = True


def lighten() -> None:
    """For the whole process, before the first TLS connection."""
    asyncio.sslproto.SSLProtocol.max_size = BUFFER_BYTES


class Contexts:
    def __init__(self, default: Callable[[], ssl.SSLContext] = ssl.create_default_context) -> None:
        self._default = default
        self._made: OrderedDict[bytes, ssl.SSLContext] = OrderedDict()

    def of(self, tls: Tls) -> ssl.SSLContext:
        """The context for PEM texts, with secrets filled in. Raises BadTls."""
        digest = hashlib.sha256(repr((tls.ca, tls.certificate, tls.key)).encode()).digest()
        context = self._made.get(digest)
        if context is None:
            context = self._made[digest] = self._make(tls)
            if len(self._made) > MOST_CONTEXTS:
                self._made.popitem(last=False)
        self._made.move_to_end(digest)
        return context

    def _make(self, tls: Tls) -> ssl.SSLContext:
        context = self._default()
        if tls.ca is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            try:
                context.load_verify_locations(cadata=tls.ca)
            except (ssl.SSLError, ValueError):
                raise BadTls("the spec's tls.ca is not a certificate in PEM") from None
        if tls.certificate is not None:
            pem = tls.certificate if tls.key is None else f"{tls.certificate}\n{tls.key}"
            try:
                with _file_of(pem) as path:
                    context.load_cert_chain(path, password=_no_password)
            except (ssl.SSLError, ValueError):
                raise BadTls(
                    "the spec's tls.certificate and tls.key are not a certificate in PEM and the key that belongs to it"
                ) from None
        return context


def _no_password() -> str:
    """Instead of asking on the terminal."""
    raise ValueError("the key is encrypted")


@contextlib.contextmanager
def _file_of(pem: str) -> Iterator[str]:
    """A path to read `pem` from, since OpenSSL takes a client's certificate from files only: one in memory where the
    system has such, so that a key is on no disk."""
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("pem"), "wb") as file:
            file.write(pem.encode())
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.NamedTemporaryFile(suffix=".pem") as file:  # readable by its owner alone
            file.write(pem.encode())
            file.flush()
            yield file.name

"""What became of a socket, in a sentence: how a dial failed, how an open connection ended.

Sentences name hosts, never URLs, whose rest may hold secrets; the upstream's own words come bounded and printable.
"""

import email.utils
import ssl
from urllib.parse import urlsplit

from websockets.exceptions import (
    ConnectionClosed,
    InvalidHandshake,
    InvalidMessage,
    InvalidStatus,
    InvalidURI,
    NegotiationError,
    SecurityError,
    TooManyFragments,
)

from streamlease.errors import StreamleaseError
from streamlease.feed.events import Closed, Dial
from streamlease_worker.addresses import AddressRefused

LONGEST_TEXT = 200
LONGEST_BODY = 4 << 10
COUNTED = {
    "address_refused": "a dial or HTTP call whose host stands for addresses that may not be dialled",
    "dial_timeout": "a dial or HTTP call that was not over in time",
    "oversized_answer": "an HTTP call answered with more than is read",
    "oversized_handshake": "a handshake answered with more headers or body than is read",
    "redirect": "a handshake answered with a redirect, which is not followed",
    "unread": "an open socket whose upstream makes the worker write and reads nothing",
}
"""What is counted of dials, beside what the machine counts (`streamlease.feed.events.COUNTED`)."""


class Unread(Exception):
    """An upstream that makes the worker write and never reads."""


def ended(closed: ConnectionClosed, most_bytes: int) -> Closed:
    """What the end of an open socket was."""
    sent, received = closed.sent, closed.rcvd
    if sent is not None and not closed.rcvd_then_sent:
        match sent.code:
            case 1009 if isinstance(closed.__cause__, TooManyFragments):
                return Closed("the upstream sent a message in too many fragments", code=1009)
            case 1009:
                return Closed(f"the upstream sent a message of more than {most_bytes:,} bytes", code=1009)
            case 1007:
                return Closed("the upstream sent text that is not UTF-8", code=1007)
            case 1002:
                return Closed(f"the upstream broke the WebSocket protocol: {plain(sent.reason)}", code=1002)
            case _:
                pass
    if received is not None:
        said = f": {plain(received.reason)}" if received.reason else ""
        who = "the upstream closed" if sent is None or closed.rcvd_then_sent else "this side closed, and was answered,"
        return Closed(f"{who} with {received.code}{said}", code=received.code, reason=received.reason)
    cause = closed.__cause__
    if isinstance(cause, Unread):
        return Closed(f"the socket was dropped: {cause}", code=1006)
    why = f" ({plain(str(cause))})" if isinstance(cause, OSError) and str(cause) else ""
    return Closed(f"the socket was lost without a close frame{why}", code=1006)


def failed(error: Exception, dial: Dial, late: str) -> Closed:
    """What a dial failed for. `late` says of the host what it did not do in time."""
    url = urlsplit(dial.url)
    host = url.hostname or "its host"
    match error:
        case InvalidStatus():
            return _refused(error)
        case StreamleaseError():
            return Closed(str(error))
        case TimeoutError():
            return Closed(f"{host} {late} within {dial.open_timeout_s:g} s")
        case ssl.SSLCertVerificationError():
            return Closed(f"{host} showed a TLS certificate that cannot be trusted: {plain(error.verify_message)}")
        case ssl.SSLError():
            return Closed(f"{host} could not agree on TLS ({plain(error.reason or 'no reason given')})")
        case ConnectionRefusedError():
            return Closed(f"nothing accepts connections at {host}{f':{url.port}' if url.port else ''}")
        case ConnectionResetError() | BrokenPipeError():
            hint = ": does it speak ws:// rather than wss://?" if url.scheme == "wss" else ""
            return Closed(f"{host} ended the connection during the handshake{hint}")
        case OSError():
            return Closed(f"{host} could not be reached ({plain(error.strerror or type(error).__name__)})")
        case SecurityError() | InvalidMessage(__cause__=SecurityError()):
            return Closed(f"{host} answered the handshake with more than is read of it (128 headers, 8 KiB each)")
        case InvalidMessage():
            return Closed(f"{host} did not answer in HTTP")
        case NegotiationError():
            return Closed(f"{host} chose an extension or subprotocol that was not offered")
        case InvalidHandshake():
            return Closed(f"{host} answered, but not as a WebSocket server at that URL does")
        case InvalidURI() | ValueError():
            return Closed("its URL or a header of it cannot be used once its secrets are filled in")
        case _:
            return Closed(f"{host} could not be dialled ({type(error).__name__})")


def _refused(error: InvalidStatus) -> Closed:
    response = error.response
    said = f"the upstream refused the handshake with HTTP {response.status_code} {plain(response.reason_phrase)}"
    location = response.headers.get("Location")
    if location is not None and 300 <= response.status_code < 400:
        try:
            target = urlsplit(location).hostname
        except ValueError:  # such as "ws://[::1/"
            target = None
        said += f", towards {plain(target)}: write that URL into the spec" if target else ": redirects are not followed"
    body = bytes(response.body[:LONGEST_BODY]).decode(errors="replace")
    waits_s = retry_after_s(response.headers.get("Retry-After", ""), response.headers.get("Date", ""))
    return Closed(said, http_status=response.status_code, retry_after_s=waits_s, body=body)


def counted(error: Exception) -> str | None:
    """What of `COUNTED` it was."""
    match error:
        case AddressRefused():
            return "address_refused"
        case TimeoutError():
            return "dial_timeout"
        case SecurityError() | InvalidMessage(__cause__=SecurityError()):
            return "oversized_handshake"
        case InvalidStatus() if 300 <= error.response.status_code < 400:
            return "redirect"
        case ConnectionClosed(__cause__=Unread()):
            return "unread"
        case _:
            return None


def retry_after_s(value: str, date: str) -> float | None:
    """The wait that a Retry-After asks for; one that is a date counts from the answer's own."""
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        until = email.utils.parsedate_to_datetime(value)
        since = email.utils.parsedate_to_datetime(date)
        return max(0.0, (until - since).total_seconds())
    except (ValueError, TypeError, OverflowError):  # the last for a day or a year of twenty digits
        return None


def plain(text: str) -> str:
    """Upstream's words, in one printable line of bounded length."""
    return "".join(char if char.isprintable() else " " for char in text[:LONGEST_TEXT])

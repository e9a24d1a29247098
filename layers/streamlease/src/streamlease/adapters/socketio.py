"""Socket.IO (protocol 5 over Engine.IO 4), whose messages are JSON behind digits, and acknowledge each other.

    url: wss://feed.example/socket.io/?EIO=4&transport=websocket
    adapter: {name: socketio, options: {auth: {token: "env:TOKEN"}}}
    ready: connected
    open: ['42["subscribe","BTC-USD"]']
    record: {when: event=='trade', payload: data[0]}

What the spec gets to see: `{"open": {sid, pingInterval, …}}`, `{"connected": {…}}`, and for each event
`{"event": name, "data": [arguments]}`. The server's pings are answered, its acknowledgement requests too. A server that
is silent for longer than it said it would be is given up. Known limits: the default namespace unless `namespace` is
given; binary attachments are delivered as they come.
"""

import json
from collections.abc import Iterator, Mapping
from typing import ClassVar

import msgspec

from streamlease.feed.adapter import Adapter, Context, End, Hear, Raw, Reaction, Say, Seal, Wake
from streamlease.feed.computed import Moment
from streamlease.write import Value

_decode = msgspec.json.Decoder().decode


class SocketIo(Adapter):
    version: ClassVar[int] = 1

    def __init__(self, options: Mapping[str, Value]) -> None:
        unknown = set(options) - {"auth", "namespace"}
        if unknown:
            raise ValueError(f"have {min(unknown)}, which is not known; there are auth and namespace")
        namespace, auth = options.get("namespace", "/"), options.get("auth", {})
        if not isinstance(namespace, str) or not namespace.startswith("/") or "," in namespace:
            raise ValueError("namespace must be a text that begins with a slash")
        if not isinstance(auth, Mapping) or not all(isinstance(value, str) for value in auth.values()):
            raise ValueError("auth must be a map of names and texts")
        self._in_namespace = "" if namespace == "/" else f"{namespace},"
        self._auth = {name: str(value) for name, value in auth.items()}
        self._silent_for_s = 0.0
        self._heard_at_s = 0.0

    def received(self, context: Context, data: str | bytes) -> Iterator[Reaction]:
        self._heard_at_s = context.now_s
        if isinstance(data, bytes):
            yield Raw(data)
            return
        kind, rest = data[:1], data[1:]
        if kind == "2":  # the server's ping
            yield Say(f"3{rest}")
        elif kind == "0":
            yield from self._opened(rest)
        elif kind == "1":
            yield End("the server closed the session")
        elif kind == "4":
            yield from self._message(data, rest)
        elif kind not in ("3", "6"):  # a pong, a no-op
            yield Raw(data)

    def woke(self, context: Context) -> Iterator[Reaction]:
        left_s = self._heard_at_s + self._silent_for_s - context.now_s
        if left_s > 0:
            yield Wake(left_s)
        else:
            yield End(f"no ping from the server for {self._silent_for_s:g} s")

    def _opened(self, rest: str) -> Iterator[Reaction]:
        handshake = _json(rest)
        if not isinstance(handshake, dict):
            yield End("the server opened its session with what is no JSON")
            return
        interval, timeout = handshake.get("pingInterval"), handshake.get("pingTimeout")
        if isinstance(interval, int | float) and isinstance(timeout, int | float) and interval + timeout > 0:
            self._silent_for_s = (interval + timeout) / 1_000
            yield Wake(self._silent_for_s)
        yield Hear({"open": handshake})
        yield Seal(self._connect, self._auth)

    def _connect(self, secrets: Mapping[str, str], moment: Moment) -> str:
        del moment
        auth = json.dumps(secrets, separators=(",", ":")) if secrets else ""
        return f"40{self._in_namespace}{auth}"

    def _message(self, data: str, rest: str) -> Iterator[Reaction]:
        kind, body = rest[:1], rest[1:]
        if body.startswith("/"):
            namespace, _, body = body.partition(",")
            if f"{namespace}," != self._in_namespace:
                return
        elif self._in_namespace:
            return
        digits = len(body) - len(body.lstrip("0123456789"))
        wanted, body = body[:digits], body[digits:]
        value = _json(body) if body else {}
        match kind, value:
            case "0", dict():
                yield Hear({"connected": value or {"sid": ""}})
            case "1", _:
                yield End("the server disconnected this client")
            case "2", [str(name), *arguments]:
                yield Hear({"event": name, "data": arguments})
                if wanted:
                    yield Say(f"43{self._in_namespace}{wanted}[]")
            case "4", _:
                yield Hear({"refused": value})
                yield End("the server refused the connection to its namespace", "retry")
            case _:
                yield Raw(data)


def _json(text: str) -> Value:
    try:
        value: Value = _decode(text)
    except (ValueError, RecursionError):
        return None
    return value

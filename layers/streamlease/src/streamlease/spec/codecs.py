"""What may be wrapped around a message's JSON, one function for each: bytes → bytes, text → bytes, either → a value.

Every one is bounded: what it gives is no larger than the room there is, in bytes and, of msgpack and CBOR, in items,
which is checked before it is made; and it is nested no deeper than `decoding.DEEPEST`. What cannot be read is
`Undecodable`. Binary inside of msgpack and CBOR has no place in JSON: it becomes `{"$bytes": base64}`, a CBOR link
`{"$link": "b…"}`, a msgpack timestamp a text in ISO 8601.
"""

import base64
import binascii
import io
import math
import zlib
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, cast

import cbor2
import ormsgpack
from backports import zstd

from streamlease.feed.decoding import DEEPEST, MOST_ENTRIES, Undecodable, json_value
from streamlease.spec.items import CBOR, MSGPACK, Heads, count
from streamlease.write import Value

type Wrapped = str | bytes


class Room:
    """For what one frame unfolds to."""

    __slots__ = ("most_bytes", "most_items", "most_values")

    def __init__(self, most_bytes: int, most_values: int) -> None:
        self.most_bytes = most_bytes
        """That the next codec may give."""
        self.most_values = most_values
        """In a JSON text."""
        self.most_items = most_values // 2
        """In all the msgpack and CBOR that is still to come: half as many, for each is made one by one in Python."""

    def take(self, data: bytes, heads: Heads) -> None:
        """Before any of the items in `data` is made. Raises Undecodable."""
        self.most_items -= count(data, heads, self.most_items)
        if self.most_items < 0:
            raise Undecodable("too_many")


type Codec = Callable[[Wrapped, Room], Any]
"""What it gives of what it is given. Raises Undecodable."""

_LARGEST_INTEGER: Final = 10**400
"""Beyond this JSON encoders refuse to write a number out, or take long over it."""
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  # UTC, but to be written without saying so
_MOST_FRAMES: Final = 16
"""Of zstd, in one message: each is a decoder of its own, and a copy of all that comes after it."""


def _bytes(data: Wrapped) -> bytes:
    return data.encode(errors="surrogatepass") if isinstance(data, str) else data


def _inflate(data: Wrapped, room: Room, *, window: int) -> bytes:
    inflater = zlib.decompressobj(window)
    try:
        found = inflater.decompress(_bytes(data), room.most_bytes + 1)
    except zlib.error:
        raise Undecodable("undecodable") from None
    if len(found) > room.most_bytes:
        raise Undecodable("too_large")
    if not inflater.eof or inflater.unused_data:
        raise Undecodable("undecodable")
    return found


def _deflate(data: Wrapped, room: Room) -> bytes:
    """Raw deflate. Upstreams that flush instead of finishing leave the last block out, so an end is not asked for."""
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        found = inflater.decompress(_bytes(data), room.most_bytes + 1)
    except zlib.error:
        raise Undecodable("undecodable") from None
    if len(found) > room.most_bytes:
        raise Undecodable("too_large")
    if inflater.unconsumed_tail or inflater.unused_data or not found:
        raise Undecodable("undecodable")
    return found


def _zstd(data: Wrapped, room: Room) -> bytes:
    """One frame or a few, without a dictionary."""
    rest, found, frames = _bytes(data), b"", 0
    while rest:
        frames += 1
        if frames > _MOST_FRAMES:
            raise Undecodable("too_many")
        inflater = zstd.ZstdDecompressor(
            options={zstd.DecompressionParameter.window_log_max: _window_log(room.most_bytes)}
        )
        try:
            found += inflater.decompress(rest, room.most_bytes + 1 - len(found))
        except (zstd.ZstdError, ValueError):
            raise Undecodable("undecodable") from None
        if len(found) > room.most_bytes:
            raise Undecodable("too_large")
        if not inflater.eof:
            raise Undecodable("undecodable")
        rest = inflater.unused_data
    return found


def _window_log(most_bytes: int) -> int:
    """How much a frame may make the decoder hold, as a power of two: as much as a message, and at least 8 MiB, which
    every encoder may take for granted."""
    return min(max(most_bytes.bit_length(), 23), 27)


def _base64(data: Wrapped, room: Room) -> bytes:
    plain = _bytes(data).rstrip(b"=\r\n").replace(b"-", b"+").replace(b"_", b"/")
    if len(plain) * 3 // 4 > room.most_bytes:
        raise Undecodable("too_large")
    try:
        return base64.b64decode(plain + b"=" * (-len(plain) % 4), validate=True)
    except binascii.Error:
        raise Undecodable("undecodable") from None


def _hex(data: Wrapped, room: Room) -> bytes:
    if len(data) // 2 > room.most_bytes:
        raise Undecodable("too_large")
    try:
        return binascii.unhexlify(_bytes(data))
    except binascii.Error:
        raise Undecodable("undecodable") from None


def _json(data: Wrapped, room: Room) -> Value:
    return json_value(data, room.most_values)


def _lines(data: Wrapped, room: Room) -> Value:
    """JSON texts, each on a line of its own or ended by a record separator."""
    try:
        text = data if isinstance(data, str) else data.decode()
    except UnicodeDecodeError:
        raise Undecodable("not_json") from None
    if text.count("\n") + text.count("\x1e") > MOST_ENTRIES:
        raise Undecodable("too_many")
    return [json_value(line, room.most_values) for line in text.replace("\x1e", "\n").split("\n") if line.strip()]


# --- msgpack and CBOR -------------------------------------------------------------------------------------------------


def _msgpack(data: Wrapped, room: Room) -> Value:
    packed = _bytes(data)
    room.take(packed, MSGPACK)
    try:
        found = ormsgpack.unpackb(packed, ext_hook=_extension, option=ormsgpack.OPT_NON_STR_KEYS)
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise Undecodable("undecodable") from None
    return json_ready(found)


def _extension(kind: int, data: bytes) -> object:
    if kind != -1:
        return data
    match len(data):
        case 4:
            seconds, nanoseconds = int.from_bytes(data), 0
        case 8:
            both = int.from_bytes(data)
            seconds, nanoseconds = both & ((1 << 34) - 1), both >> 34
        case 12:
            seconds, nanoseconds = int.from_bytes(data[4:], signed=True), int.from_bytes(data[:4])
        case _:
            return data
    try:
        time = (_EPOCH + timedelta(seconds=seconds)).isoformat()
    except OverflowError:
        return data
    fraction = f".{nanoseconds:09d}".rstrip("0") if nanoseconds else ""
    return f"{time}{fraction}Z"


def _cbor(data: Wrapped, room: Room) -> Value:
    """One item, and nothing after it."""
    found = _items(_bytes(data), room, most=1)
    if len(found) != 1:
        raise Undecodable("undecodable")
    return found[0]


def _cbor_sequence(data: Wrapped, room: Room) -> Value:
    """All items, as a list: atproto's header and body, say."""
    return _items(_bytes(data), room, most=MOST_ENTRIES)


def _items(data: bytes, room: Room, *, most: int) -> list[Value]:
    room.take(data, CBOR)
    source = io.BytesIO(data)
    found: list[Value] = []
    while source.tell() < len(data):
        if len(found) >= most:
            raise Undecodable("too_many" if most > 1 else "undecodable")
        decoder = cbor2.CBORDecoder(
            source, tag_hook=_tag, semantic_decoders=_TAGS, max_depth=DEEPEST, read_size=1, allow_duplicate_keys=False
        )
        try:
            item = decoder.decode()
        except (cbor2.CBORError, ValueError, TypeError, ArithmeticError, RecursionError, MemoryError):
            raise Undecodable("undecodable") from None
        found.append(json_ready(item))
    return found


class _Link:
    __slots__ = ("cid",)

    def __init__(self, cid: bytes) -> None:
        self.cid = cid


def _tag(tag: cbor2.CBORTag, immutable: bool) -> object:  # the library's signature
    """A link, or what an unknown tag is put on."""
    del immutable
    value: object = tag.value
    if tag.tag == 42 and isinstance(value, bytes) and value[:1] == b"\0":
        return _Link(value[1:])
    return value


def _as_it_is(value: object, immutable: bool) -> object:  # the library's signature
    del immutable
    return value


def _no_more_than_once(value: object, immutable: bool) -> object:  # the library's signature
    """References to what stands elsewhere let a short message unfold without end."""
    del value, immutable
    raise ValueError("shared values are not read")


_REFERENCES: Final = (25, 28, 29, 256)
_PLAIN: Final = (0, 1, 4, 5, 30, 35, 36, 37, 52, 54, 100, 258, 260, 261, 1004, 43000)
_TAGS: Final[Mapping[int, Callable[[Any, bool], object]]] = {
    **dict.fromkeys(_REFERENCES, _no_more_than_once),
    **dict.fromkeys(_PLAIN, _as_it_is),
}


def json_ready(value: object, depth: int = 0) -> Value:
    """What msgpack or CBOR can say as JSON can say it. Raises Undecodable for what is too deep or too large."""
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return cast("Value", value)
    if kind is dict or isinstance(value, Mapping):
        if depth >= DEEPEST:
            raise Undecodable("undecodable")
        below = depth + 1
        return {
            name if type(name) is str else _name(name): entry if type(entry) is str else json_ready(entry, below)
            for name, entry in cast("Mapping[object, object]", value).items()
        }
    if kind is list or kind is tuple:
        if depth >= DEEPEST:
            raise Undecodable("undecodable")
        below = depth + 1
        return [json_ready(entry, below) for entry in cast("list[object]", value)]
    return _scalar(value)


def _scalar(value: object) -> Value:
    if isinstance(value, int):
        if abs(value) > _LARGEST_INTEGER:
            raise Undecodable("undecodable")
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode().rstrip("=")}
    if isinstance(value, _Link):
        return {"$link": "b" + base64.b32encode(value.cid).decode().rstrip("=").lower()}
    return None


def _name(name: object) -> str:
    if isinstance(name, str):
        return name
    if isinstance(name, bytes):
        return name.hex()
    if isinstance(name, bool) or name is None:
        return {True: "true", False: "false", None: "null"}[name]
    if isinstance(name, int) and abs(name) <= _LARGEST_INTEGER:
        return str(name)
    if isinstance(name, float):
        return repr(name)
    raise Undecodable("undecodable")


def unbinary(value: object) -> Wrapped | None:
    """What a codec can take of a place in a message: a text, or binary as msgpack and CBOR left it; else None."""
    if isinstance(value, str | bytes):
        return value
    if isinstance(value, dict) and len(value) == 1 and isinstance(value.get("$bytes"), str):
        text = cast("str", value["$bytes"])
        try:
            return base64.b64decode(text + "=" * (-len(text) % 4))
        except ValueError:
            return None
    return None


CODECS: Final[Mapping[str, Codec]] = {
    "gzip": partial(_inflate, window=16 + zlib.MAX_WBITS),
    "zlib": partial(_inflate, window=zlib.MAX_WBITS),
    "deflate": _deflate,
    "zstd": _zstd,
    "msgpack": _msgpack,
    "cbor": _cbor,
    "cbor_sequence": _cbor_sequence,
    "base64": _base64,
    "hex": _hex,
    "json": _json,
    "lines": _lines,
}
"""`unwrap` says which take what."""

"""What may be wrapped around a message's JSON, one function for each: bytes → bytes, text → bytes, either → a value.

Every one is bounded: what it gives is no larger than `most_bytes`, which is checked before it is made, and nested no
deeper than `decoding.DEEPEST`. What cannot be read is `Undecodable`. Binary inside of msgpack and CBOR has no place in
JSON: it becomes `{"$bytes": base64}`, a CBOR link `{"$link": "b…"}`, a msgpack timestamp a text in ISO 8601.
"""

import base64
import binascii
import io
import math
import zlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, cast

import cbor2
import ormsgpack
from backports import zstd

from streamlease.feed.decoding import DEEPEST, MOST_ENTRIES, Undecodable, json_value
from streamlease.write import Value

type Wrapped = str | bytes
type Codec = Callable[[Wrapped, int], Any]
"""What it gives of what it is given, and the most bytes it may give. Raises Undecodable."""

_LARGEST_INTEGER: Final = 10**400
"""Beyond this JSON encoders refuse to write a number out, or take long over it."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_FRAMES: Final = 16
"""Of zstd, in one message: each is a decoder of its own, and a copy of all that comes after it."""


def _bytes(data: Wrapped) -> bytes:
    return data.encode(errors="surrogatepass") if isinstance(data, str) else data


def _inflate(data: Wrapped, most_bytes: int, *, window: int) -> bytes:
    inflater = zlib.decompressobj(window)
    try:
        found = inflater.decompress(_bytes(data), most_bytes + 1)
    except zlib.error:
        raise Undecodable("undecodable") from None
    if len(found) > most_bytes:
        raise Undecodable("too_large")
    if not inflater.eof or inflater.unused_data:
        raise Undecodable("undecodable")
    return found


def _deflate(data: Wrapped, most_bytes: int) -> bytes:
    """Raw deflate. Upstreams that flush instead of finishing leave the last block out, so an end is not asked for."""
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        found = inflater.decompress(_bytes(data), most_bytes + 1)
    except zlib.error:
        raise Undecodable("undecodable") from None
    if len(found) > most_bytes:
        raise Undecodable("too_large")
    if inflater.unconsumed_tail or inflater.unused_data or not found:
        raise Undecodable("undecodable")
    return found


def _zstd(data: Wrapped, most_bytes: int) -> bytes:
    """One frame or a few, without a dictionary."""
    rest, found, frames = _bytes(data), b"", 0
    while rest:
        frames += 1
        if frames > _MOST_FRAMES:
            raise Undecodable("too_many")
        inflater = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _window_log(most_bytes)})
        try:
            found += inflater.decompress(rest, most_bytes + 1 - len(found))
        except (zstd.ZstdError, ValueError):
            raise Undecodable("undecodable") from None
        if len(found) > most_bytes:
            raise Undecodable("too_large")
        if not inflater.eof:
            raise Undecodable("undecodable")
        rest = inflater.unused_data
    return found


def _window_log(most_bytes: int) -> int:
    """How much a frame may make the decoder hold, as a power of two: as much as a message, and at least 8 MiB, which
    every encoder may take for granted."""
    return min(max(most_bytes.bit_length(), 23), 27)


def _base64(data: Wrapped, most_bytes: int) -> bytes:
    plain = _bytes(data).rstrip(b"=\r\n").replace(b"-", b"+").replace(b"_", b"/")
    if len(plain) * 3 // 4 > most_bytes:
        raise Undecodable("too_large")
    try:
        return base64.b64decode(plain + b"=" * (-len(plain) % 4), validate=True)
    except binascii.Error:
        raise Undecodable("undecodable") from None


def _hex(data: Wrapped, most_bytes: int) -> bytes:
    if len(data) // 2 > most_bytes:
        raise Undecodable("too_large")
    try:
        return binascii.unhexlify(_bytes(data))
    except binascii.Error:
        raise Undecodable("undecodable") from None


def _json(data: Wrapped, most_bytes: int) -> Value:
    del most_bytes  # JSON takes no fewer bytes than what it says
    return json_value(data)


def _lines(data: Wrapped, most_bytes: int) -> Value:
    """JSON texts, each on a line of its own or ended by a record separator."""
    del most_bytes
    try:
        text = data if isinstance(data, str) else data.decode()
    except UnicodeDecodeError:
        raise Undecodable("not_json") from None
    if text.count("\n") + text.count("\x1e") > MOST_ENTRIES:
        raise Undecodable("too_many")
    return [json_value(line) for line in text.replace("\x1e", "\n").split("\n") if line.strip()]


# --- msgpack and CBOR -------------------------------------------------------------------------------------------------


def _msgpack(data: Wrapped, most_bytes: int) -> Value:
    del most_bytes  # as for JSON: a container is no longer than the bytes that are there for it
    try:
        found = ormsgpack.unpackb(_bytes(data), ext_hook=_extension, option=ormsgpack.OPT_NON_STR_KEYS)
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
        time = (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    except OverflowError:
        return data
    fraction = f".{nanoseconds:09d}".rstrip("0") if nanoseconds else ""
    return f"{time}{fraction}Z"


def _cbor(data: Wrapped, most_bytes: int) -> Value:
    """One item, and nothing after it."""
    del most_bytes
    found = _items(_bytes(data), most=1)
    if len(found) != 1:
        raise Undecodable("undecodable")
    return found[0]


def _cbor_sequence(data: Wrapped, most_bytes: int) -> Value:
    """All items, as a list: atproto's header and body, say."""
    del most_bytes
    return _items(_bytes(data), most=MOST_ENTRIES)


def _items(data: bytes, *, most: int) -> list[Value]:
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
    if isinstance(value, str) or value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if abs(value) > _LARGEST_INTEGER:
            raise Undecodable("undecodable")
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth >= DEEPEST:
        raise Undecodable("undecodable")
    if isinstance(value, Mapping):
        return {_name(name): json_ready(entry, depth + 1) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(entry, depth + 1) for entry in value]
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

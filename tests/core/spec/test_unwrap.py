"""What lies around messages comes off; what cannot be read is one known fault; nothing unfolds without bound."""

import base64
import gzip
import json
import tracemalloc
import zlib
from typing import Any

import cbor2
import ormsgpack
import pytest
from backports import zstd
from hypothesis import example, given
from hypothesis import strategies as st

from streamlease.feed.decoding import DEEPEST, MOST_ENTRIES, Undecodable
from streamlease.spec.unfit import Unfit
from streamlease.spec.unwrap import _checked, decoder

MIB = 1 << 20
TRADE = {"e": "trade", "p": 1.5, "q": None, "s": "BTC€"}
TEXT = json.dumps(TRADE)


def unwrapped(steps: Any, data: str | bytes, most_bytes: int = MIB) -> Any:
    found = decoder(_checked(steps), most_bytes)(data)
    return found[0] if len(found) == 1 else list(found)


def trouble(steps: Any, data: str | bytes, most_bytes: int = MIB) -> str:
    with pytest.raises(Undecodable) as raised:
        decoder(_checked(steps), most_bytes)(data)
    return raised.value.trouble


def gzipped(data: bytes, level: int = 9) -> bytes:
    """The same at any time: what a test is parametrized with is part of its id, and parallel runs compare ids."""
    return gzip.compress(data, level, mtime=0)


def raw_deflate(data: bytes) -> bytes:
    deflater = zlib.compressobj(wbits=-15)
    return deflater.compress(data) + deflater.flush()


@pytest.mark.parametrize(
    ("steps", "data"),
    [
        (["gzip"], gzipped(TEXT.encode())),
        (["zlib"], zlib.compress(TEXT.encode())),
        (["deflate"], raw_deflate(TEXT.encode())),
        (["zstd"], zstd.compress(TEXT.encode())),
        (["zstd"], zstd.compress(TEXT[:9].encode()) + zstd.compress(TEXT[9:].encode())),
        (["msgpack"], ormsgpack.packb(TRADE)),
        (["cbor"], cbor2.dumps(TRADE)),
        (["base64"], base64.b64encode(TEXT.encode()).decode()),
        (["base64"], base64.urlsafe_b64encode(TEXT.encode()).decode().rstrip("=")),
        (["hex"], TEXT.encode().hex()),
        (["base64", "gzip", "json"], base64.b64encode(gzipped(TEXT.encode())).decode()),
        (["gzip", "msgpack"], gzipped(ormsgpack.packb(TRADE))),
        ("gzip", TEXT),
        ("msgpack", TEXT),
    ],
)
def test_what_lies_around_a_message_comes_off_and_text_frames_pass_the_binary_codecs_by(
    steps: Any, data: str | bytes
) -> None:
    assert unwrapped(steps, data) == TRADE


def test_a_list_of_messages_becomes_its_messages_and_what_is_no_list_stays() -> None:
    assert unwrapped("each", '[{"T":"t"},{"T":"q"}]') == [{"T": "t"}, {"T": "q"}]
    assert unwrapped("each", '{"T":"t"}') == {"T": "t"}
    assert unwrapped([{"each": "data"}], '{"data":[1,2]}') == [1, 2]
    assert unwrapped([{"each": "data"}], '{"type":"ping"}') == {"type": "ping"}
    assert decoder(["each"], MIB)("[]") == []
    assert unwrapped(["lines", "each"], '{"a":1}\n\n{"b":2}\x1e') == [{"a": 1}, {"b": 2}]


def test_what_is_wrapped_within_a_message_is_unwrapped_in_its_place() -> None:
    assert unwrapped([{"json": "data"}], json.dumps({"t": 1, "data": TEXT})) == {"t": 1, "data": TRADE}
    assert unwrapped([{"json": "[2].x"}], json.dumps([0, 1, {"x": TEXT}])) == [0, 1, {"x": TRADE}]
    assert unwrapped([{"json": "data"}], '{"type":"ping"}') == {"type": "ping"}
    assert unwrapped([{"json": "data"}], '{"data":7}') == {"data": 7}
    packed = base64.b64encode(raw_deflate(TEXT.encode())).decode()
    steps = [{"at": "M[0].A", "as": ["base64", "deflate"]}, {"each": "M"}]
    assert unwrapped(steps, json.dumps({"M": [{"A": packed}]})) == {"A": TRADE}
    assert unwrapped(["msgpack", {"at": "d", "as": "gzip"}], ormsgpack.packb({"d": gzipped(b"[1]")})) == {"d": [1]}


def test_two_cbor_items_of_one_frame_are_a_header_and_a_body_with_links_and_bytes_as_json_has_them() -> None:
    link = cbor2.CBORTag(42, b"\0\x01\x71\x12\x20" + bytes(32))
    frame = cbor2.dumps({"op": 1, "t": "#commit"}) + cbor2.dumps({"seq": 7, "blocks": b"\x01\x02", "commit": link})
    assert unwrapped("cbor_sequence", frame) == [
        {"op": 1, "t": "#commit"},
        {
            "seq": 7,
            "blocks": {"$bytes": "AQI"},
            "commit": {"$link": "bafyreiaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
        },
    ]
    assert trouble("cbor", frame) == "undecodable"


def test_msgpack_says_times_as_text_and_names_as_text() -> None:
    def time(data: bytes) -> Any:
        return unwrapped("msgpack", {4: b"\xd6", 8: b"\xd7", 12: b"\xc7\x0c"}[len(data)] + b"\xff" + data)

    assert time((1_613_000_000).to_bytes(4)) == "2021-02-10T23:33:20Z"
    assert time(((5 << 34) | 1_613_000_000).to_bytes(8)) == "2021-02-10T23:33:20.000000005Z"
    assert time((500_000_000).to_bytes(4) + (-1).to_bytes(8, signed=True)) == "1969-12-31T23:59:59.5Z"
    assert time(b"\xff" * 4 + b"\x7f" * 8) == {"$bytes": base64.b64encode(b"\xff" * 4 + b"\x7f" * 8).decode()}
    odd = ormsgpack.packb({7: "a", None: "b", True: "c"}, option=ormsgpack.OPT_NON_STR_KEYS)
    assert unwrapped("msgpack", odd) == {"7": "a", "null": "b", "true": "c"}
    assert unwrapped("msgpack", ormsgpack.packb([float("nan"), float("inf"), b"x"])) == [None, None, {"$bytes": "eA"}]


@pytest.mark.parametrize(
    ("steps", "data"),
    [
        ("gzip", gzipped(bytes(64 * MIB), 1)),
        ("zlib", zlib.compress(bytes(64 * MIB), 1)),
        ("deflate", raw_deflate(bytes(64 * MIB))),
        ("zstd", zstd.compress(bytes(64 * MIB))),
        ("zstd", zstd.compress(bytes(MIB // 2)) * 9),
        (
            [{"at": "d", "as": ["base64", "gzip"]}],
            json.dumps({"d": base64.b64encode(gzipped(bytes(64 * MIB))).decode()}),
        ),
    ],
)
def test_w37_a_bomb_is_stopped_before_what_it_unfolds_to_is_there(steps: Any, data: str | bytes) -> None:
    tracemalloc.start()
    try:
        assert trouble(steps, data) == "too_large"
        assert tracemalloc.get_traced_memory()[1] < 6 * MIB
    finally:
        tracemalloc.stop()


def test_w37_many_small_bombs_in_one_message_share_one_bound() -> None:
    one = base64.b64encode(gzipped(b'"' + b"x" * (MIB // 2) + b'"')).decode()
    steps = ["each", {"at": "d", "as": ["base64", "gzip"]}]
    assert len(decoder(steps, MIB)(json.dumps([{"d": one}]))) == 1
    assert trouble(steps, json.dumps([{"d": one}] * 3)) == "too_large"


@pytest.mark.parametrize(
    ("steps", "data", "says"),
    [
        (["gzip"], b"{}", "undecodable"),
        (["gzip"], gzipped(b"{}")[:-4], "undecodable"),
        (["gzip"], gzipped(b"{}") + b"x", "undecodable"),
        (["gzip"], gzipped(b"no json"), "not_json"),
        (["deflate"], b"", "undecodable"),
        (["zstd"], zstd.compress(b"{}")[:-1], "undecodable"),
        (["zstd"], b"", "not_json"),
        (["zstd"], zstd.compress(b"") * 100_000, "too_many"),  # a copy of the rest after each would take seconds
        (["base64"], "?", "undecodable"),
        (["hex"], "abc", "undecodable"),
        (["msgpack"], bytes.fromhex("ddffffffff"), "undecodable"),
        (["msgpack"], b"\x91" * 300 + b"\xc0", "undecodable"),
        (["msgpack"], bytes.fromhex("8191c001"), "undecodable"),
        (["cbor"], bytes.fromhex("9b00000fffffffffff"), "undecodable"),
        (["cbor"], b"\x81" * 300 + b"\xf6", "undecodable"),
        (["cbor"], bytes.fromhex("c25903e8") + b"\xff" * 1000, "undecodable"),
        (["cbor"], bytes.fromhex("d81c80"), "undecodable"),
        (["cbor"], bytes.fromhex("d901008261616161"), "undecodable"),
        (["cbor_sequence"], b"\x80" * (MOST_ENTRIES + 1), "too_many"),
        (["each"], json.dumps([0] * (MOST_ENTRIES + 1)), "too_many"),
        (["lines"], "1\n" * (MOST_ENTRIES + 1), "too_many"),
        (["lines"], "1\nx", "not_json"),
        (["json"], "[" * (DEEPEST + 1) + "]" * (DEEPEST + 1), "not_json"),
        ([{"json": "a"}], '{"a":"x"}', "not_json"),
    ],
)
def test_what_cannot_be_read_is_one_known_fault(steps: Any, data: str | bytes, says: str) -> None:
    assert trouble(steps, data) == says


MANY = 1_000


def bounded(steps: Any, data: str | bytes) -> str | None:
    """The trouble with it, where no more than MANY values and names are read."""
    try:
        decoder(_checked(steps) if steps else (), MIB, MANY)(data)
    except Undecodable as error:
        return error.trouble
    return None


def listed(steps: Any, values: int) -> tuple[Any, str | bytes]:
    """A list of this many values, itself among them, so wrapped."""
    made: list[Any] = [{}] * (values - 1)
    text = json.dumps(made)
    wrapped: dict[str, str | bytes] = {
        "": text,
        "msgpack": ormsgpack.packb(made),
        "cbor": cbor2.dumps(made),
        "lines": "{}\n" * (values - 1),
        "gzip": gzipped(text.encode()),
    }
    return [steps] if steps else [], wrapped[steps]


@pytest.mark.parametrize(("steps", "most"), [("", MANY), ("gzip", MANY), ("msgpack", MANY // 2), ("cbor", MANY // 2)])
def test_w37_as_many_values_are_read_as_the_spec_says_and_not_one_more(steps: str, most: int) -> None:
    assert bounded(*listed(steps, most)) is None
    assert bounded(*listed(steps, most + 1)) == "too_many"


def test_w37_names_count_and_what_stands_in_texts_does_not() -> None:
    assert bounded([], json.dumps({f"a{index}": 0 for index in range(MANY // 2)})) == "too_many"
    assert bounded([], json.dumps({f"a{index}": 0 for index in range(MANY // 2 - 1)})) is None
    assert bounded([], json.dumps(["[{,:" * MIB])) is None
    assert bounded(["lines"], "{}\n" * MANY) == "too_many"


@pytest.mark.parametrize("codec", ["json", "msgpack", "cbor"])
def test_w37_values_of_many_parts_of_one_frame_are_counted_together(codec: str) -> None:
    made: list[Any] = [{}] * 40
    packed = {"json": json.dumps(made).encode(), "msgpack": ormsgpack.packb(made), "cbor": cbor2.dumps(made)}
    part = {"d": base64.b64encode(packed[codec]).decode()}
    steps = ["each", {"at": "d", "as": ["base64", codec]}]
    assert bounded(steps, json.dumps([part] * 10)) is None
    assert bounded(steps, json.dumps([part] * 30)) == "too_many"


def test_w37_binary_is_counted_before_any_of_it_is_made() -> None:
    # A decoder would say that it is cut off.
    assert bounded(["msgpack"], b"\xdd\xff\xff\xff\xff" + b"\x80" * MANY) == "too_many"
    assert bounded(["cbor"], b"\x9a\xff\xff\xff\xff" + b"\xa0" * MANY) == "too_many"


def test_w37_lists_that_an_expression_is_to_find_are_not_looked_for_in_what_is_too_large_for_it() -> None:
    steps = [{"each": "[?a=='x'].d[]"}]
    assert decoder(_checked(steps), MIB, MIB)(json.dumps([{"a": "x", "d": [7]}])) == [7]
    with pytest.raises(Undecodable, match="too_many"):
        decoder(_checked(steps), 64 * MIB, MIB)(json.dumps([{}] * 200_000))


codecs = st.sampled_from(
    ["gzip", "zlib", "deflate", "zstd", "msgpack", "cbor", "cbor_sequence", "base64", "hex", "json", "lines"]
)
places = st.sampled_from(["a", "a.b", "[0]", "[0].a"])
within = st.one_of(
    st.just("each"),
    st.builds(lambda place: {"each": place}, places),
    st.builds(lambda place: {"json": place}, places),
    st.builds(lambda place, codec: {"at": place, "as": codec}, places, codecs),
)
plans = st.one_of(
    st.builds(lambda first, rest: [first, *rest], codecs, st.lists(within, max_size=3)),
    st.lists(within, min_size=1, max_size=3),
)
values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-5, 2**64 - 1), st.floats(), st.text(max_size=5), st.binary(max_size=5)
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2)
    ),
    max_leaves=8,
)
frames = st.one_of(
    st.binary(max_size=40),
    st.text(max_size=20),
    st.builds(cbor2.dumps, values),
    st.builds(ormsgpack.packb, values),
    st.builds(lambda value: gzipped(json.dumps(value, default=repr).encode()), values),
    st.builds(lambda value: zstd.compress(json.dumps(value, default=repr).encode()), values),
    st.builds(lambda value: json.dumps(value, default=repr), values),
)


@given(plans, frames)
@example(["cbor"], bytes.fromhex("d81d00"))
def test_any_bytes_under_any_steps_are_values_that_json_can_say_or_one_known_fault(
    steps: Any, frame: str | bytes
) -> None:
    try:
        found = decoder(_checked(steps), 4_096)(frame)
    except Undecodable:
        return
    json.dumps(list(found))


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ([], "has 0 steps"),
        (["gzip"] * 9, "1 to 8 are possible"),
        ("brotli", "'brotli' as step 1; known are gzip"),
        (["json", "gzip"], "gzip as step 2, but the message is a value by then"),
        ([{"at": "a"}], "step 1 with at; it must be"),
        ([{"at": "a", "as": ["json", "gzip"]}], "gzip after json in step 1"),
        ([{"json": "a[*]"}], "a path of fields and indexes"),
        ([{"each": "a["}], "a step 1 that is not a JMESPath expression"),
        ([3], "no codec and no map"),
    ],
)
def test_steps_that_make_no_sense_are_refused_with_what_would(steps: Any, says: str) -> None:
    with pytest.raises(Unfit, match=says):
        _checked(steps)

"""How long one frame of a hostile upstream holds the worker's loop: the longest of many kinds, none above the default
`max_message`.

    python -m bench.hostile_frames [--runs 3] [--json]

Each frame goes the way it goes in a worker, from the bytes to the envelopes; what counts is the CPU time between, the
least of several runs. Some frames are as large as a message may be, others just as large as their feed's bounds let
them be taken apart. Exit code 1 where one takes longer than 150 ms: the goal is about 100.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bench.holding import EPOCH, feed_of, say
from streamlease import envelope
from streamlease.feed.bounds import LONGEST_US
from streamlease.feed.decoding import MOST_VALUES
from streamlease.feed.events import Command, Count, Deliver, Gap, Message, Opened, Record
from streamlease.feed.feed import Feed
from streamlease.feed.machine import Machine

MIB: Final = 1 << 20
MOST_MS: Final = 150
WALL_MS: Final = 1_700_000_000_000

type Made = Callable[[Feed], str | bytes]


@dataclass(frozen=True, slots=True)
class Kind:
    name: str
    frame: Made
    spec: Mapping[str, Any]


def full(entry: str, around: str = "[%s]", size: int = MIB) -> Made:
    """As many of these as a message has room for."""
    return lambda _: around % ",".join([entry] * ((size - len(around)) // (len(entry) + 1)))


def packed(head: bytes, item: bytes) -> Made:
    """A list, by its head, of as many of these."""
    number = (MIB - 5) // len(item)
    return lambda _: head + number.to_bytes(4) + item * number


def items(head: bytes, item: bytes, each: int = 1) -> Made:
    """The same, of no more items than are read. `each`: so many items in one of these."""
    number = (MOST_VALUES // 2 - 1) // each
    return lambda _: head + number.to_bytes(4) + item * number


def messages(entry: str) -> Made:
    """As many of these as are taken apart."""

    def made(feed: Feed) -> str:
        bounds, values = feed.bounds, entry.count(":") * 2 + 1
        number = min(bounds.most_messages, int(LONGEST_US / (bounds.per_message_us + bounds.per_value_us * values)))
        return f"[{','.join(_numbered(entry, number))}]"

    return made


def records(entry: str, around: str) -> Made:
    """A message with as many records as are taken apart."""
    return lambda feed: around % ",".join(_numbered(entry, feed.bounds.records_left(1)))


def values(entry: str, each: int, around: str = "[%s]") -> Made:
    """A list with as many of these as are looked at. `each`: so many values and names in one of these."""

    def made(feed: Feed) -> str:
        bounds = feed.bounds
        one_us = bounds.per_value_us * each + bounds.per_entry_us
        number = int((LONGEST_US - bounds.per_message_us) / one_us) if one_us else MOST_VALUES
        return around % ",".join([entry] * (min(number, MOST_VALUES // each) - 8))

    return made


def _numbered(entry: str, number: int) -> Iterator[str]:
    return (entry.replace("#", str(1_000_000 + index)) for index in range(number))


def rules(number: int, message: str) -> dict[str, Any]:
    return {"rules": [{"message": message, "then": "fatal"} for _ in range(number)]}


EACH: Final = {"unwrap": ["each"]}
TRADE: Final = '{"a":#,"s":"BTC"}'
RECORD: Final = {"sequence": "a", "id": ["s", "a"]}
KEYED: Final = RECORD | {"series": {"number": "a", "key": "a", "keys": 100_000}}


def sequence(feed: Feed) -> bytes:
    number = min(feed.bounds.most_messages, MOST_VALUES // 2 // 5)
    return b"".join(b"\xa2\x61a\x1a" + index.to_bytes(4) + b"\x61s\x63BTC" for index in range(number))


def behind(_: Feed) -> str:
    """The first is the highest: all after it hold the position back."""
    pairs = ",".join(f'{{"d":[{{"a":{2 * index}}},{{"a":{2 * index + 1}}}]}}' for index in range(1, 5_000))
    return f'[{{"d":[{{"a":1000000000}},{{"a":1}}]}},{pairs}]'


RESUMED: Final = {"query": {"cursor": "{sequence}"}}
TEXTS: Final = {"sequence": "a", "type": "string"}
KINDS: Final = (
    Kind("JSON, empty maps", full("{}"), {}),
    Kind("JSON, empty lists in lists", full("[[[[]]]]"), {}),
    Kind("JSON, as deep as is read", full("[" * 190 + "]" * 190), {}),
    Kind("JSON, maps in maps", full('{"a":{"a":{}}}'), {}),
    Kind("JSON, nothing but numbers", full("0"), {}),
    Kind("JSON, the longest numbers", full("1" * 4_299), {}),
    Kind("JSON, open lists", lambda _: "[" * MIB, {}),
    Kind("JSON, broken at its end", lambda _: full("{}")(_)[:-1], {}),
    Kind("JSON, half of a surrogate pair", full("{}", '["\\ud800",%s]'), {}),
    Kind("JSON, as many values as are read", values("{}", 1), {}),
    Kind("JSON in JSON", lambda _: json.dumps([{"d": full("{}")(_)[:MIB]}]), {"unwrap": ["each", {"json": "d"}]}),
    Kind("msgpack, empty maps", packed(b"\xdd", b"\x80"), {"unwrap": "msgpack"}),
    Kind("msgpack, times", packed(b"\xdd", b"\xd6\xff\0\0\0\0"), {"unwrap": "msgpack"}),
    Kind("msgpack, as many maps as are read", items(b"\xdd", b"\x80"), {"unwrap": "msgpack"}),
    Kind("msgpack, as many times as are read", items(b"\xdd", b"\xd6\xff\0\0\0\0"), {"unwrap": "msgpack"}),
    Kind("msgpack, as many binaries as are read", items(b"\xdd", b"\xc4\x01a"), {"unwrap": "msgpack"}),
    Kind("CBOR, empty maps", packed(b"\x9a", b"\xa0"), {"unwrap": "cbor"}),
    Kind("CBOR, as many maps as are read", items(b"\x9a", b"\xa0"), {"unwrap": "cbor"}),
    Kind("CBOR, as many lists as are read", items(b"\x9a", b"\x80"), {"unwrap": "cbor"}),
    Kind("CBOR, as many links as are read", items(b"\x9a", b"\xd8\x2a\x42\0\0", 2), {"unwrap": "cbor"}),
    Kind("CBOR, as many binaries as are read", items(b"\x9a", b"\x41a"), {"unwrap": "cbor"}),
    Kind("CBOR, many small items", lambda _: b"\xa0" * 16_384, {"unwrap": ["cbor_sequence", "each"]}),
    Kind("CBOR, as many messages as are read", sequence, {"unwrap": ["cbor_sequence", "each"], "record": KEYED}),
    Kind("messages", messages(TRADE), EACH),
    Kind("messages, ids", messages(TRADE), EACH | {"record": RECORD}),
    Kind("messages, window", messages(TRADE), EACH | {"record": RECORD | {"dedupe": {"most": 100_000}}}),
    Kind("messages, series of each key", messages(TRADE), EACH | {"record": KEYED}),
    Kind(
        "messages, a gap before each", messages(TRADE), EACH | {"record": {"series": {"number": "a", "previous": "s"}}}
    ),
    Kind("messages, 5 rules of paths", messages(TRADE), EACH | rules(5, "x=='y'")),
    Kind("messages, 5 rules of functions", messages(TRADE), EACH | rules(5, "starts_with(topic || '', 'trade.')")),
    Kind("messages, 5 rules of functions, whole", full('{"a":1,"s":"BTC"}'), EACH | rules(5, "starts_with(s, 'x')")),
    Kind(
        "messages, each answered",
        messages(TRADE),
        EACH | {"rules": [{"message": "a", "then": "go_on", "send": {"a": "{x}"}, "capture": {"x": "a"}}]},
    ),
    Kind(
        "messages, each acknowledged",
        messages(TRADE),
        EACH | {"ack": {"capture": {"x": "a"}, "send": {"a": "{x}"}, "at": "receipt"}},
    ),
    Kind(
        "messages, a session begins with each",
        messages('{"a":#,"t":"T#"}'),
        EACH
        | {
            "headers": {"X": "{sequence}{token}"},
            "rules": [{"message": "t", "then": "go_on", "capture": {"token": "t"}}],
            "record": {"sequence": "a"},
            "resume": {"token": "token"},
        },
    ),
    Kind(
        "messages, a rule tells of a gap in each",
        messages(TRADE),
        EACH | {"rules": [{"message": "a", "then": "gap"}], "record": {"sequence": "a"}, "resume": RESUMED},
    ),
    Kind("messages, texts for sequences", messages('{"a":"#"}'), EACH | {"record": TEXTS, "resume": RESUMED}),
    Kind(
        "messages, sequences far behind", behind, EACH | {"record": {"each": "d", "sequence": "a"}, "resume": RESUMED}
    ),
    Kind("records", records(TRADE, '{"d":[%s]}'), {"record": RECORD | {"each": "d"}}),
    Kind(
        "records, times in ISO 8601",
        records('{"t":"2026-01-01T00:00:00Z"}', '{"d":[%s]}'),
        {"record": {"each": "d", "event_at": "t", "event_at_unit": "iso"}},
    ),
    Kind(
        "records, a long key of the message",
        records("#", f'{{"k":[{",".join(["0"] * 50_000)}],"d":[%s]}}'),
        {"record": {"each": "d", "dedupe": {"key": "$.k"}}},
    ),
    Kind("records in messages", full(f'{{"d":[{",".join(["0"] * 1_000)}]}}'), EACH | {"record": {"each": "d"}}),
    Kind("a message, 5 filters", values('{"a":1}', 3), rules(5, "[?a=='x']")),
    Kind("a message, 5 filters of empty maps", values("{}", 1), rules(5, "[?a=='x']")),
    Kind("a message, 5 filters, whole", full("{}"), rules(5, "[?a=='x']")),
    Kind("a message, 5 projections", values("{}", 1, '{"d":[%s]}'), rules(5, "d[].a[]")),
    Kind("a message, values of maps", values('{"a":{}}', 3), rules(5, "[].*.b")),
    Kind("a message, sorted", values("0", 1), rules(5, "sort(@)[0]==`1`")),
    Kind("a message, sorted by", values('{"a":0}', 3), rules(5, "sort_by(@, &a)[0].a==`1`")),
    Kind("a message, written out", values("{}", 1), rules(5, "contains(to_string(@), 'x')")),
    Kind("a message, mapped", values("{}", 1), rules(5, "map(&not_null(a, b, 'c'), @)[0]=='x'")),
    Kind("a message, compared", values("0", 1, '{"a":[%s]}'), rules(5, "a==a.b")),
)


@dataclass(frozen=True, slots=True)
class Held:
    ms: float
    records: int
    counted: str


def held(kind: Kind, runs: int) -> Held:
    feed = feed_of("hostile", "ws://127.0.0.1/", **kind.spec)
    data = kind.frame(feed)
    found: list[float] = []
    commands: list[Command] = []
    deliveries: list[Record | Gap] = []
    for _ in range(runs):
        machine = Machine(feed, None)
        machine.start(0.0)
        machine.handle(Opened(1), 0.0, 0.5)
        began_s = time.process_time()
        commands = machine.handle(Message(data, WALL_MS, 1), 1.0, 0.5)
        deliveries = [each for command in commands if isinstance(command, Deliver) for each in command.deliveries]
        for each in deliveries:
            envelope.encode("hostile", EPOCH, each)
        found.append((time.process_time() - began_s) * 1_000)
    counted = sorted({command.what for command in commands if isinstance(command, Count)})
    return Held(min(found), len(deliveries), ", ".join(counted))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.hostile_frames", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    figures: dict[str, float] = {}
    for kind in KINDS:
        one = held(kind, asked.runs)
        figures[kind.name] = round(one.ms, 1)
        print(f"{kind.name:40} {one.ms:8.1f} ms {one.records:7} records  {one.counted}", file=sys.stderr, flush=True)
    worst = max(figures, key=lambda name: figures[name])
    if asked.json:
        say(worst_ms=figures[worst], worst=worst, kinds=figures)
    return 0 if figures[worst] <= MOST_MS else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

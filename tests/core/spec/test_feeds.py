"""The record side of real upstreams, in their own messages: a spec says enough to read, prove and acknowledge."""

import gzip
import json
from typing import Any

import cbor2
import ormsgpack
import pytest

from streamlease.feed.events import Message, Record, Send
from streamlease.feed.secrets import resolved
from streamlease.spec.compile import compile_spec
from streamlease.spec.model import ConnectionSpec
from tests.core.feed.driver import WALL_MS, Driver


def play(spec: dict[str, Any], frames: list[Any]) -> Driver:
    driver = Driver(compile_spec(ConnectionSpec.model_validate({"id": "x", "url": "wss://feed.example/", **spec})))
    driver.stream()
    for frame in frames:
        data = frame if isinstance(frame, str | bytes) else json.dumps(frame)
        driver.on(Message(data, WALL_MS))
    return driver


def told(driver: Driver) -> list[Any]:
    """The sequences and ids of records, and the edges of gaps, in the order of delivery."""
    return [
        (each.sequence, each.record_id) if isinstance(each, Record) else ("gap", each.from_sequence, each.to_sequence)
        for each in driver.deliveries
    ]


ALPACA = {
    "unwrap": ["msgpack", "each"],
    "record": {"when": "T=='t'", "id": "[S, i]", "event_at": "t", "event_at_unit": "iso", "dedupe": {"within": "1h"}},
}
FINNHUB = {"record": {"when": "type=='trade'", "each": "data", "payload": "@", "event_at": "t"}}
BINANCE_DEPTH = {
    "record": {
        "when": "ends_with(stream, '@depth')",
        "payload": "data",
        "event_at": "data.E",
        "series": {"number": "data.u", "first": "data.U", "key": "data.s"},
    }
}
COINBASE = {
    "record": {
        "when": "channel=='market_trades'",
        "each": "events[].trades[]",
        "id": "[product_id, trade_id]",
    }
}
COINBASE_NUMBERS = {
    "keepalive": {"heartbeat": "channel=='heartbeats'"},
    "record": {
        "when": "channel=='ticker'",
        "payload": "events",
        "series": {"number": "sequence_num", "of": "messages", "per_socket": True},
    },
}
KRAKEN = {
    "record": {
        "when": "channel=='trade'",
        "each": "data",
        "id": "[symbol, trade_id]",
        "series": {"number": "trade_id", "key": "symbol"},
    }
}
OKX = {
    "record": {
        "when": "arg.channel=='books'",
        "each": "data",
        "series": {"number": "seqId", "previous": "prevSeqId", "key": "$.arg.instId"},
    }
}
BYBIT = {
    "record": {
        "when": "topic",
        "payload": "data",
        "series": {"number": "data.u", "restart": "data.u==`1`", "key": "topic"},
    }
}
ATPROTO = {
    "unwrap": "cbor_sequence",
    "record": {"when": "[0].op==`1`", "payload": "[1]", "sequence": "[1].seq", "unique": True},
    "resume": {"query": {"cursor": "{sequence}"}, "inclusive": False},
}
JETSTREAM = {
    "record": {"when": "\"$type\"=='message'", "payload": "payload", "sequence": "payload.seq", "unique": True},
    "resume": {"query": {"cursor": "{sequence}"}},
}
HUOBI = {"unwrap": "gzip", "record": {"when": "tick", "each": "tick.data", "id": "id"}}
SIGNALR = {
    "unwrap": ["lines", "each", {"json": "arguments[0]"}],
    "record": {"when": "type==`1`", "payload": "arguments[0]"},
}


def trade(symbol: str, number: int) -> dict[str, Any]:
    return {"symbol": symbol, "trade_id": number}


@pytest.mark.parametrize(
    ("spec", "frames", "expected"),
    [
        (
            ALPACA,
            [
                ormsgpack.packb([{"T": "success", "msg": "connected"}]),
                ormsgpack.packb([{"T": "t", "S": "AAPL", "i": 1}, {"T": "t", "S": "MSFT", "i": 1}]),
                json.dumps([{"T": "t", "S": "AAPL", "i": 1}]),
            ],
            [(None, "AAPL/1"), (None, "MSFT/1")],
        ),
        (
            FINNHUB,
            [{"type": "ping"}, {"type": "trade", "data": [{"s": "A", "t": 5}, {"s": "B", "t": 5}]}],
            [(None, None)] * 2,
        ),
        (
            BINANCE_DEPTH,
            [
                {"result": None, "id": 1},
                {"stream": "a@depth", "data": {"s": "A", "U": 1, "u": 5}},
                {"stream": "b@depth", "data": {"s": "B", "U": 900, "u": 905}},
                {"stream": "a@depth", "data": {"s": "A", "U": 6, "u": 9}},
                {"stream": "a@depth", "data": {"s": "A", "U": 12, "u": 13}},
            ],
            [(None, None), (None, None), (None, None), ("gap", 9, 12), (None, None)],
        ),
        (
            COINBASE,
            [
                {"channel": "heartbeats", "events": [{"heartbeat_counter": 1}]},
                {
                    "channel": "market_trades",
                    "events": [
                        {"trades": [{"product_id": "A", "trade_id": "1"}, {"product_id": "A", "trade_id": "2"}]},
                        {"trades": [{"product_id": "B", "trade_id": "1"}]},
                    ],
                },
            ],
            [(None, "A/1"), (None, "A/2"), (None, "B/1")],
        ),
        (
            COINBASE_NUMBERS,
            [
                {"channel": "subscriptions", "sequence_num": 0, "events": []},
                {"channel": "ticker", "sequence_num": 1, "events": []},
                {"channel": "heartbeats", "sequence_num": 2, "events": []},
                {"channel": "ticker", "sequence_num": 3, "events": []},
                {"channel": "heartbeats", "sequence_num": 6, "events": []},
            ],
            [(None, None), (None, None), ("gap", 3, 6)],
        ),
        (
            KRAKEN,
            [
                {"channel": "heartbeat"},
                {"channel": "trade", "data": [trade("BTC/USD", 7), trade("ETH/USD", 70)]},
                {"channel": "trade", "data": [trade("BTC/USD", 8), trade("ETH/USD", 72)]},
            ],
            [(None, "BTC/USD/7"), (None, "ETH/USD/70"), (None, "BTC/USD/8"), ("gap", 70, 72), (None, "ETH/USD/72")],
        ),
        (
            OKX,
            [
                {"event": "subscribe", "arg": {"channel": "books", "instId": "A"}, "data": []},
                {"arg": {"channel": "books", "instId": "A"}, "data": [{"seqId": 10, "prevSeqId": -1}]},
                {"arg": {"channel": "books", "instId": "A"}, "data": [{"seqId": 15, "prevSeqId": 10}]},
                {"arg": {"channel": "books", "instId": "A"}, "data": [{"seqId": 15, "prevSeqId": 15}]},
                {"arg": {"channel": "books", "instId": "A"}, "data": [{"seqId": 30, "prevSeqId": 20}]},
            ],
            [(None, None), (None, None), (None, None), ("gap", 15, 30), (None, None)],
        ),
        (
            BYBIT,
            [
                {"topic": "b", "data": {"u": 5}},
                {"topic": "b", "data": {"u": 6}},
                {"topic": "b", "data": {"u": 1}},
                {"topic": "b", "data": {"u": 3}},
            ],
            [(None, None), (None, None), (None, None), ("gap", 1, 3), (None, None)],
        ),
        (
            ATPROTO,
            [
                cbor2.dumps({"op": 1, "t": "#commit"}) + cbor2.dumps({"seq": 7, "blocks": b"\0"}),
                cbor2.dumps({"op": -1}) + cbor2.dumps({"error": "ConsumerTooSlow"}),
            ],
            [(7, "7")],
        ),
        (
            JETSTREAM,
            [{"$type": "message", "payload": {"seq": 5}}, {"$type": "error", "error": "ConsumerTooSlow"}],
            [(5, "5")],
        ),
        (
            HUOBI,
            [gzip.compress(b'{"ping":1}'), gzip.compress(b'{"tick":{"data":[{"id":1},{"id":2}]}}')],
            [(None, "1"), (None, "2")],
        ),
        (SIGNALR, ['{"type":6}\x1e{"type":1,"arguments":["{\\"p\\":1}"]}\x1e'], [(None, None)]),
    ],
    ids=lambda value: str(next(iter(value["record"].values()))) if isinstance(value, dict) else "",
)
def test_an_upstreams_messages_become_the_records_and_gaps_that_they_are(
    spec: dict[str, Any], frames: list[Any], expected: list[Any]
) -> None:
    assert told(play(spec, frames)) == expected


def test_slack_envelopes_are_acknowledged_when_durable_and_its_other_messages_are_not_data() -> None:
    spec = {
        "record": {"when": "envelope_id", "payload": "payload", "id": "envelope_id"},
        "ack": {"capture": {"id": "envelope_id"}, "send": {"envelope_id": "{id}"}},
    }
    envelope = {"envelope_id": "e1", "type": "events_api", "payload": {"a": 1}}
    driver = play(spec, [{"type": "hello"}, envelope, {**envelope, "retry_attempt": 1}])
    assert told(driver) == [(None, "e1")]
    assert driver.sent == []
    driver.acknowledge_all()
    assert [resolved(send, {}).text for send in driver.all(Send)] == ['{"envelope_id":"e1"}'] * 2

"""The fixtures see the rules that their clients break: each example with one thing taken out of it or done wrong."""

from typing import Any

import pytest

from tests.protocols import alpaca, bybit, coinbase, discord, finnhub, kraken, okx, slack
from tests.protocols.alpaca import Alpaca
from tests.protocols.atproto import Repos
from tests.protocols.binance import Binance
from tests.protocols.bybit import Bybit
from tests.protocols.coinbase import Coinbase
from tests.protocols.discord import Discord
from tests.protocols.finnhub import Finnhub
from tests.protocols.jetstream import Jetstream
from tests.protocols.kraken import Kraken
from tests.protocols.loopback import in_time, passes
from tests.protocols.nostr import Relay
from tests.protocols.okx import Okx
from tests.protocols.slack import Slack
from tests.protocols.streaming import Streaming, example
from tests.protocols.upstream import Upstream
from tests.worker.sinking import MemorySink

_OURS = "secretsmanager:streamlease/"
SECRETS = {
    f"{_OURS}alpaca#key": alpaca.KEY,
    f"{_OURS}alpaca#secret": alpaca.SECRET,
    f"{_OURS}bybit#key": bybit.KEY,
    f"{_OURS}bybit#secret": bybit.SECRET,
    f"{_OURS}coinbase#name": coinbase.NAME,
    f"{_OURS}discord#token": discord.TOKEN,
    f"{_OURS}finnhub#token": finnhub.TOKEN,
    f"{_OURS}kraken#key": kraken.KEY,
    f"{_OURS}kraken#secret": kraken.SECRET,
    f"{_OURS}okx#key": okx.KEY,
    f"{_OURS}slack#app_token": slack.APP_TOKEN,
}
SUBSCRIBE = [{"method": "SUBSCRIBE", "params": [f"s{index}@trade"], "id": index} for index in range(9)]
TRADES = {"type": "subscribe", "channel": "market_trades", "product_ids": ["BTC-USD"], "jwt": "{token}"}
SAME_TOKEN = {"nonce": {"random": 32}, "token": {"headers": {"kid": f"{_OURS}coinbase#name", "nonce": "always"}}}
IDENTIFY = {"op": 2, "d": {"token": f"{_OURS}discord#token", "intents": 1, "padding": "x" * 5_000}}
HELLO = {"expect": "op==`10`", "capture": {"interval": "d.heartbeat_interval"}}
SILENT = {"expect": "T=='never'", "within": "20s"}
NEVER = {"present": "session", "send": ["{sequence}"]}
RESUME = {"op": 6, "d": {"token": f"{_OURS}discord#token", "session_id": "s", "seq": 1}}
PRIVATE = {"method": "subscribe", "params": {"channel": "executions", "token": "{connection_id}"}, "req_id": 1}

BROKEN: list[tuple[type[Upstream], str, str | None, dict[str, Any], float, str]] = [
    (Jetstream, "jetstream", "jetstream-events", {"open": ["hello"], "max_send": None}, 1, "the client said"),
    (Repos, "atproto", None, {"open": ["hello"], "max_send": None}, 1, "the client said"),
    (Binance, "binance", None, {"open": SUBSCRIBE, "pace": None}, 1, "more than 5 messages in a second"),
    (Binance, "binance", None, {"keepalive": {"ping_every": "100ms"}, "pace": None}, 2, "more than 5 messages"),
    (
        Binance,
        "binance",
        None,
        {"dial": [], "rules": [{"message": "id", "then": "retry"}]},
        100,
        "more than 300 connects",
    ),
    (Coinbase, "coinbase", None, {"open": [], "ready": None}, 6, "no subscription within 5 s"),
    (Coinbase, "coinbase", None, {"open": [TRADES], "keepalive": {"stale_after": None}}, 80, "no heartbeats"),
    (Coinbase, "coinbase", None, {"values": SAME_TOKEN}, 1, "a token was used twice"),
    (Coinbase, "coinbase", None, {"open": [{**TRADES, "channel": ["a", "b"]}]}, 1, "one channel a message"),
    (Kraken, "kraken", "kraken-executions", {"fetch": None, "open": [PRIVATE]}, 1, "without a token that is good"),
    (Okx, "okx", None, {"keepalive": {"message": None}}, 40, "silent for 30 s"),
    (Okx, "okx", None, {"open": ["x" * 70_000], "max_send": "1MiB", "ready": None}, 1, "a message over 64 KB"),
    (Bybit, "bybit", None, {"keepalive": {"message": None}}, 40, "no ping for 30 s"),
    (Bybit, "bybit", "bybit-orders", {"query": {"max_active_time": "900s"}}, 1, "max_active_time is 900s"),
    (Alpaca, "alpaca", None, {"open": [SILENT], "dial": []}, 15, "no authentication within 10 s"),
    (Finnhub, "finnhub", None, {"open": [{"type": "hello"}]}, 1, "finnhub got"),
    (Discord, "discord", None, {"keepalive": {"message": None}}, 60, "no heartbeat in time"),
    (Discord, "discord", None, {"query": {"v": 9}}, 1, "without version or encoding"),
    (Discord, "discord", None, {"open": [HELLO, IDENTIFY, NEVER], "max_send": 8_192}, 1, "over 4,096 bytes"),
    (Discord, "discord", None, {"open": [HELLO, RESUME, NEVER]}, 1, "resumed at another URL"),
    (Slack, "slack", None, {"ack": {"send": {"id": "{id}", "envelope_id": "{id}"}}}, 5, "sent {"),
    (Slack, "slack", None, {"fetch": None, "dial": []}, 1, "a ticket that was used, or is none"),
    (Slack, "slack", None, {"dial": [], "rules": [{"message": "type", "then": "retry"}]}, 20, "more than 50 calls"),
    (Slack, "slack", None, {"ack": None}, 65, "was never acknowledged"),
    (Relay, "nostr", None, {"open": [["EVENT", "{sequence}"]]}, 1, "sent ["),
]


@pytest.mark.parametrize(
    ("kind", "name", "connection_id", "changed", "lasts_s", "sentence"),
    BROKEN,
    ids=[f"{each[1]}-{each[-1].replace(' ', '-')}" for each in BROKEN],
)
@in_time
async def test_a_client_that_breaks_a_rule_is_seen(
    kind: type[Upstream], name: str, connection_id: str | None, changed: dict[str, Any], lasts_s: float, sentence: str
) -> None:
    async with kind() as upstream:
        secrets = {**SECRETS, f"{_OURS}coinbase#key": upstream.key} if isinstance(upstream, Coinbase) else SECRETS
        quick = {"retry": {"first": "1s", "longest": "1s"}}
        feed = example(name, upstream, connection_id, **quick, **changed)
        async with Streaming(feed, secrets=secrets):
            await passes(0.1)
            if isinstance(upstream, Slack) and upstream.lines:
                await upstream.event("e1")
            await passes(lasts_s)
        assert sentence in " ".join(upstream.forgives())


@in_time
async def test_a_ping_that_is_not_answered_is_seen() -> None:
    """A worker whose sink takes nothing reads nothing once so much waits, and so it answers nothing either."""
    async with Jetstream() as upstream:
        sink = MemorySink()
        async with Streaming(example("jetstream", upstream, "jetstream-events"), sink=sink):
            sink.open.clear()
            await passes(1)
            upstream.happen(10_000)
            await passes(61)
            sink.open.set()
        assert upstream.forgives() == ["a ping was not answered within 30 s"]

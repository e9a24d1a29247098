"""Times, random texts, signatures and tokens, made for the message or dial that they stand in."""

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlease.feed.computed import Computed, Encoded, Hmac, Jwt, Moment, Now, Random
from streamlease.feed.events import Dial, Fetch, Route, Send, Tls
from streamlease.feed.secrets import NotSent, SecretError, resolved
from streamlease.spec import BadSpec, compile_spec
from tests.core.feed.driver import Driver
from tests.core.spec.files import one

WALL_NS = 1_764_000_000_123_456_789
VALUES = {"env:KEY": 'k"1', "env:SECRET": "s3cret", "ssm:/pem": "PEM"}


def sign(algorithm: str, key: str, headers: Mapping[str, Any], claims: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps([algorithm, key, headers, claims]).encode()).decode()


MOMENT = Moment(WALL_NS, "0123456789abcdef" * 4, sign)


def sent(text: str, *, json_: bool = True, **computed: Computed) -> str:
    return str(resolved(Send(text, json_, computed=computed), VALUES, MOMENT).text)


def test_a_time_is_a_number_where_it_is_a_whole_value_and_digits_inside_a_text() -> None:
    assert sent('{"a":"{=t}","b":"at {=t}"}', t=Now("ms")) == '{"a":1764000000123,"b":"at 1764000000123"}'
    assert sent('["{=t}"]', t=Now("s", 10)) == "[1764000010]"
    assert sent('["{=t}"]', t=Now("us")) == "[1764000000123456]"
    assert sent('["{=t}"]', t=Now("s", as_text=True)) == '["1764000000"]'
    assert sent('["{=t}"]', t=Now("iso")) == '["2025-11-24T16:00:00.123Z"]'


@given(st.integers(0, 4_000_000_000_000))
def test_iso_times_are_those_of_the_calendar(at_ms: int) -> None:
    moment = Moment(at_ms * 1_000_000, "", sign)
    text = str(resolved(Send("{=t}", json=False, computed={"t": Now("iso")}), {}, moment).text)
    assert datetime.fromisoformat(text) == datetime.fromtimestamp(at_ms // 1_000, UTC).replace(
        microsecond=at_ms % 1_000 * 1_000
    )


def test_signatures_are_those_of_the_standard_and_may_hold_secrets_and_other_values() -> None:
    text = "GET/realtime1764000010123"
    for algorithm in ("sha256", "sha384", "sha512"):
        digest = hmac.new(b"s3cret", text.encode(), algorithm).digest()
        for encoding, written in (("hex", digest.hex()), ("base64", base64.b64encode(digest).decode())):
            made = Hmac("{env:SECRET}", "GET/realtime{=t}", algorithm, encoding)  # type: ignore[arg-type]
            assert sent('["{=s}"]', s=made, t=Now("ms", 10)) == f'["{written}"]'
    key = base64.b64encode(b"\x00\xff").decode()
    digest = hmac.new(b"\x00\xff", b"x", hashlib.sha256).digest()
    assert sent("{=s}", json_=False, s=Hmac(key, "x", key_encoding="base64")) == digest.hex()


def test_a_text_may_be_signed_by_its_digest_after_another() -> None:
    made = Hmac("{env:SECRET}", "/path", "sha512", digested="{=t}nonce={=t}")
    nonce, signature = sent('["{=t}","{=s}"]', t=Now("ms", as_text=True), s=made)[2:-2].split('","')
    digest = hashlib.sha256(f"{nonce}nonce={nonce}".encode()).digest()
    assert signature == hmac.new(b"s3cret", b"/path" + digest, "sha512").hexdigest()


def test_the_digest_of_a_text_is_signed_and_goes_with_nothing_else() -> None:
    feed = compile_spec(one(values={"s": {"hmac_sha512": "a", "and_sha256": "{env:KEY}", "key": "env:SECRET"}}))
    assert feed.computed == {"s": Hmac("{env:SECRET}", "a", "sha512", digested="{env:KEY}")}
    with pytest.raises(BadSpec, match=r"values\.s\.and_sha256 goes with hmac_sha256 or hmac_sha384 or hmac_sha512"):
        one(values={"s": {"random": 4, "and_sha256": "x"}})


def test_a_value_is_made_once_for_a_message_and_anew_for_the_next() -> None:
    made = Hmac("{env:SECRET}", "{=t}")
    first = json.loads(sent('["{=t}","{=s}"]', t=Now("ms"), s=made))
    assert first[1] == hmac.new(b"s3cret", str(first[0]).encode(), "sha256").hexdigest()
    later = Moment(WALL_NS + 10**9, "f" * 64, sign)
    command = Send('["{=r}"]', computed={"r": Random(4)})
    assert [resolved(command, VALUES, moment).text for moment in (MOMENT, later)] == ['["0123"]', '["ffff"]']


def test_tokens_have_their_headers_and_claims_filled_in_with_types_kept() -> None:
    made = Jwt("{ssm:/pem}", "ES256", {"kid": "{env:KEY}", "nonce": "{=n}"}, {"exp": "{=e}", "aud": ["a"], "n": 1})
    token = json.loads(sent('["{=j}"]', j=made, e=Now("s", 120), n=Random(6)))[0]
    assert json.loads(base64.urlsafe_b64decode(token)) == [
        "ES256",
        "PEM",
        {"kid": 'k"1', "nonce": "012345"},
        {"exp": 1_764_000_120, "aud": ["a"], "n": 1},
    ]


def test_basic_authentication_goes_into_a_header_and_signatures_into_a_url() -> None:
    computed: dict[str, Computed] = {
        "basic": Encoded("{env:SECRET}:pw"),
        "sig": Hmac("{env:SECRET}", "x", encoding="base64"),
    }
    dial = resolved(
        Dial("wss://a.test/?s={=sig}", {"Authorization": "Basic {=basic}"}, computed=computed), VALUES, MOMENT
    )
    assert dial.headers == {"Authorization": "Basic " + base64.b64encode(b"s3cret:pw").decode()}
    digest = base64.b64encode(hmac.new(b"s3cret", b"x", "sha256").digest()).decode()
    assert dial.url == "wss://a.test/?s=" + digest.replace("+", "%2B").replace("/", "%2F").replace("=", "%3D")


def test_a_route_and_a_call_have_their_secrets_filled_in_too() -> None:
    route = Route(Tls("{ssm:/pem}", "{ssm:/pem}", "{ssm:/pem}"), "http://u:{env:KEY}@proxy.test:1")
    fetch = resolved(Fetch(1, "POST", "https://a.test", body='{"k":"{env:KEY}"}', route=route), VALUES)
    assert fetch.body == '{"k":"k\\"1"}'
    assert fetch.route == Route(Tls("PEM", "PEM", "PEM"), "http://u:k%221@proxy.test:1")


def test_what_cannot_be_made_is_told_without_the_secret() -> None:
    for computed, says in (
        ({"s": Hmac("{env:SECRET}", "x", key_encoding="hex")}, "the value s cannot be made: its key is not hex"),
        ({"s": Encoded("{=s}")}, "made of others more than 4 deep, or of itself"),
        ({}, "s is not among the spec's values"),
    ):
        with pytest.raises(NotSent, match=says) as caught:
            sent('["{=s}"]', **computed)
        assert "s3cret" not in str(caught.value)
    with pytest.raises(SecretError, match="env:NONE"):
        sent('["{=s}"]', s=Encoded("{env:NONE}"))


def test_a_message_above_max_send_is_not_sent_and_bytes_go_as_they_are() -> None:
    with pytest.raises(NotSent, match="a message of 12 bytes is above the 8 that max_send allows"):
        resolved(Send("{env:SECRET}{env:SECRET}", json=False, most_bytes=8), VALUES)
    assert resolved(Send(b"{env:SECRET}"), VALUES).text == b"{env:SECRET}"


@given(st.text(max_size=20))
def test_nothing_that_an_upstream_says_is_taken_for_a_secret_or_a_value(said: str) -> None:
    fields: dict[str, Any] = {
        "values": {"sig": {"now": "s"}},
        "open": [
            {"expect": "x", "capture": {"word": "x"}},
            {"send": {"w": "{word}", "in": "a {word} b", "k": "env:KEY"}},
            "text {word}",
            '{"raw": "{word}"}',
        ],
    }
    for word in (said, f"{{env:KEY}}{said}", f"{{=sig}}{said}", f"\ufdd0{said}"):
        driver = Driver(compile_spec(one(**fields)))
        driver.stream()
        driver.message({"x": word})
        out = [resolved(send, VALUES, MOMENT) for send in driver.all(Send)]
        if not out or not word.isprintable() or "\ufdd0" in word:
            continue
        assert json.loads(out[0].text) == {"w": word, "in": f"a {word} b", "k": VALUES["env:KEY"]}
        assert json.loads(out[2].text) == {"raw": word}
        assert VALUES["env:KEY"] not in str(out[1].text) or VALUES["env:KEY"] in word

"""What is dialled and sent, with a cursor and without one."""

import json

from hypothesis import given
from hypothesis import strategies as st

from streamlease.feed import template
from streamlease.feed.events import Send
from streamlease.feed.feed import Feed, Resume, Step
from streamlease.feed.secrets import references, resolved
from streamlease.feed.template import Templates


def texts(feed: Feed, cursor: float | str | None) -> list[str]:
    return [str(send.text) for send in sends(feed, cursor)]


def sends(feed: Feed, cursor: float | str | None) -> list[Send]:
    templates = Templates(feed)
    made = (
        templates.send(message, {"sequence": cursor}) for message in feed.open_messages if not isinstance(message, Step)
    )
    return [send for send in made if send is not None]


def feed_that_sends(*messages: object) -> Feed:
    return Feed("x", "ws://x.test/", open_messages=messages)  # type: ignore[arg-type]


def test_a_whole_cursor_keeps_its_type_and_one_inside_a_text_is_written_out() -> None:
    feed = feed_that_sends({"since": "{sequence}", "note": "from {sequence} on"})
    assert texts(feed, 5) == ['{"since":5,"note":"from 5 on"}']
    assert texts(feed, 5.0) == ['{"since":5,"note":"from 5 on"}']
    assert texts(feed, "abc") == ['{"since":"abc","note":"from abc on"}']


def test_what_needs_a_cursor_is_left_out_while_there_is_none_and_nothing_else_is() -> None:
    feed = feed_that_sends(
        ["a", "{sequence}", {"b": 1, "c": "{sequence}", "d": None, "e": [], "f": False}], "at {sequence}"
    )
    assert texts(feed, None) == ['["a",{"b":1,"d":null,"e":[],"f":false}]']


def test_a_text_message_is_sent_as_it_is() -> None:
    assert sends(feed_that_sends("ping", '{"op": "sub"}'), None) == [
        Send("ping", json=False),
        Send('{"op": "sub"}', json=True),
    ]


def test_headers_and_query_carry_the_cursor_or_are_left_out() -> None:
    feed = Feed(
        "x",
        "wss://x.test/p?a=1&cursor=0",
        headers={"Last-Event-ID": "{sequence}", "Accept": "json"},
        resume=Resume(query={"cursor": "{sequence}", "replay": "yes"}),
    )
    first, later = Templates(feed).dial({}), Templates(feed).dial({"sequence": 12})
    assert (first.url, dict(first.headers)) == ("wss://x.test/p?a=1&cursor=0", {"Accept": "json"})
    assert later.url == "wss://x.test/p?a=1&cursor=12&replay=yes"
    assert dict(later.headers) == {"Last-Event-ID": "12", "Accept": "json"}


def test_a_feed_resumes_if_any_part_of_it_takes_a_cursor() -> None:
    assert template.needs_cursor(Feed("x", "ws://x.test", resume=Resume(query={"c": "{sequence}"})))
    assert template.needs_cursor(Feed("x", "ws://x.test", headers={"H": "{sequence}"}))
    assert template.needs_cursor(feed_that_sends([{"a": ["{sequence}"]}]))
    assert not template.needs_cursor(feed_that_sends([{"a": 1}], "hello", None, 1))


printable = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=30)


@given(st.one_of(printable, st.just("{env:SECRET}"), st.just('x"{env:SECRET}')))
def test_nothing_in_a_cursor_is_taken_for_a_reference_to_a_secret(cursor: str) -> None:
    feed = Feed(
        "x",
        "wss://x.test/p",
        headers={"H": "{sequence}", "T": "{env:SECRET}"},
        open_messages=({"a": "{sequence}", "b": "-{sequence}-"}, '{"a": "{sequence}"}', "at {sequence}"),
        resume=Resume(query={"c": "{sequence}"}),
    )
    values = {"env:SECRET": "hunter2"}
    assert references(feed) == {"env:SECRET"}
    dial = resolved(Templates(feed).dial({"sequence": cursor}), values)
    sent = [resolved(send, values).text for send in sends(feed, cursor)]
    assert "hunter2" not in dial.url
    assert dict(dial.headers)["T"] == "hunter2"
    assert "hunter2" not in dict(dial.headers)["H"]
    assert json.loads(sent[0]) == {"a": cursor, "b": f"-{cursor}-"}
    assert json.loads(sent[1]) == {"a": cursor}
    assert "hunter2" not in sent[2]

"""What the upstream is told of its messages: in order, when it is true, on the socket that asked, and never lost."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from streamlease.feed import acks as acks_module
from streamlease.feed.acks import AckBook
from streamlease.feed.events import Closed, Message, Reading, Send
from streamlease.feed.feed import Feed, RecordShape
from streamlease.feed.shape import Acks
from tests.core.feed.driver import WALL_MS, Driver, path, ticker


def slack(**how: Any) -> Feed:
    return replace(
        ticker(),
        record=RecordShape(when=path("envelope_id"), record_id=path("envelope_id")),
        acks=Acks({"envelope_id": "{id}"}, {"id": path("envelope_id")}, **how),
    )


def envelope(id_: str) -> dict[str, str]:
    return {"envelope_id": id_, "type": "events_api"}


def said(driver: Driver) -> list[Any]:
    return [message["envelope_id"] for message in driver.sent if isinstance(message, dict)]


def test_a_message_is_acknowledged_once_all_that_came_of_it_is_durable() -> None:
    driver = Driver(slack())
    driver.stream()
    for id_ in "abc":
        driver.message(envelope(id_))
    assert said(driver) == []
    driver.acknowledge(2)
    assert said(driver) == ["a", "b"]
    driver.acknowledge(2)
    driver.acknowledge(3)
    assert said(driver) == ["a", "b", "c"]


def test_a_message_may_be_acknowledged_as_soon_as_it_was_read() -> None:
    driver = Driver(slack(on="receipt"))
    driver.stream()
    driver.message(envelope("a"))
    assert said(driver) == ["a"]


def test_a_message_that_has_nothing_to_repeat_is_not_acknowledged() -> None:
    driver = Driver(slack(when=lambda message: path("type")(message) == "events_api", on="receipt"))
    driver.stream()
    for message in ({"type": "hello"}, envelope(""), envelope("x" * 5_000), {"envelope_id": "b", "type": "other"}):
        driver.message(message)
    assert said(driver) == []


def test_a_message_that_gave_no_record_is_acknowledged_in_its_turn() -> None:
    feed = slack()
    driver = Driver(
        replace(feed, record=replace(feed.record, when=lambda message: path("envelope_id")(message) != "b"))
    )
    driver.stream()
    driver.message(envelope("b"))
    assert said(driver) == ["b"]
    driver.message(envelope("a"))
    driver.message(envelope("b"))
    assert said(driver) == ["b"]
    driver.acknowledge_all()
    assert said(driver) == ["b", "a", "b"]


def test_what_becomes_durable_at_one_time_can_be_said_in_one_message_or_by_its_last() -> None:
    for gather, told in (("list", [["a", "b"], ["c"]]), ("latest", ["b", "c"])):
        driver = Driver(slack(gather=gather))
        driver.stream()
        for id_ in "abc":
            driver.message(envelope(id_))
        driver.acknowledge(2)
        driver.acknowledge(3)
        assert said(driver) == told


def test_what_a_lost_socket_left_unsaid_is_said_when_it_is_sent_again_and_not_delivered_twice() -> None:
    driver = Driver(slack())
    driver.stream()
    driver.message(envelope("a"))
    driver.message(envelope("b"))
    driver.acknowledge(1)
    driver.again()
    driver.stream()
    driver.acknowledge(2)  # it becomes durable, but who asked is gone
    assert said(driver) == ["a"]
    driver.message(envelope("b"))
    assert [record.record_id for record in driver.records] == ["a", "b"]
    assert driver.counted("duplicate") == 1
    driver.acknowledge_all()
    assert said(driver) == ["a", "b"]


def test_acknowledgements_go_out_while_the_sink_is_full_and_nothing_is_read() -> None:
    driver = Driver(slack())
    driver.stream()
    driver.message(envelope("a"))
    driver.on(Reading(on=False))
    driver.acknowledge(1)
    assert said(driver) == ["a"]


def test_an_upstreams_text_names_no_secret_when_it_is_said_back() -> None:
    driver = Driver(slack(on="receipt", gather="list"))
    driver.stream()
    driver.message(envelope("{env:TOKEN}"))
    assert said(driver) == [["{env:TOKEN}"]]
    assert "{env:TOKEN}" not in str(driver.last(Send).text)


def test_waiting_acknowledgements_are_bounded_and_those_left_out_are_counted(monkeypatch: Any) -> None:
    monkeypatch.setattr(acks_module, "MOST", 2)
    driver = Driver(slack())
    driver.stream()
    for id_ in "abcd":
        driver.message(envelope(id_))
    assert driver.counted("ack_left_out") == 2
    driver.acknowledge_all()
    assert said(driver) == ["a", "b"]


steps = st.lists(
    st.one_of(
        st.sampled_from(["send", "send", "again", "noise", "close"]),
        st.integers(1, 4),
    ),
    max_size=50,
)


@given(steps, st.sampled_from(["durable", "receipt"]), st.sampled_from(["each", "list"]))
def test_every_message_is_acknowledged_once_on_its_socket_in_order_and_never_before_it_is_durable(
    steps: list[Any], on: Any, gather: Any
) -> None:
    driver = Driver(slack(on=on, gather=gather))
    driver.stream()
    asked: list[str] = []  # on this socket
    durable_from: dict[str, int] = {}
    answered: list[str] = []
    next_id, acknowledged, sent_before = 0, 0, 0
    for step in [*steps, 99]:
        if step in ("send", "again"):
            next_id += step == "send"
            id_ = f"e{next_id}"
            driver.message(envelope(id_))
            durable_from.setdefault(id_, driver.machine.delivered)
            asked.append(id_)
        elif step == "noise":
            driver.message({"type": "hello"})
        elif step == "close":
            driver.on(Closed("gone", code=1006))
            driver.wake()
            driver.stream()
            asked, sent_before = [], len(driver.sent)
        else:
            acknowledged = min(acknowledged + step, driver.machine.delivered)
            driver.acknowledge(acknowledged)
        answered = []
        for id_ in said(driver)[sent_before:]:
            answered.extend(id_ if isinstance(id_, list) else [id_])
        assert answered == asked[: len(answered)]
        if on == "durable":
            assert all(durable_from[id_] <= acknowledged for id_ in answered)
    assert answered == asked


def test_a_book_says_nothing_twice_and_nothing_of_a_closed_socket() -> None:
    book = AckBook(Acks("{id}", {"id": lambda value: value}))
    book.received("a", 1, delivered=1, durable=0)
    book.received("b", 2, delivered=2, durable=0)
    book.received("c", 1, delivered=3, durable=0)
    book.durable(1)
    book.closed(1)
    assert len(book) == 1
    assert book.take() == []
    book.durable(2)
    assert [due.values for due in book.take()] == [{"id": "b"}]
    assert book.take() == []
    assert len(book) == 0


def test_what_no_socket_can_carry_is_not_said_back() -> None:
    driver = Driver(slack(on="receipt"))
    driver.stream()
    driver.on(Message('{"envelope_id": "\\ud800"}', WALL_MS))
    driver.message(envelope("a"))
    assert said(driver) == ["a"]

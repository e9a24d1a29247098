"""The same thing done to many connections."""

import threading

import pytest

from streamlease.errors import Denied, Malformed, Throttled
from streamlease_cli.bulk import TRIES, GivenUp, each


def no_sleep(seconds: float) -> None:
    assert seconds >= 0


def test_every_subject_is_tried_once_and_answered() -> None:
    found = {tried.subject: tried.result for tried in each(range(1_000), lambda n: n * 2, parallel=8, sleep=no_sleep)}
    assert found == {number: number * 2 for number in range(1_000)}


def test_no_more_than_the_parallelism_run_at_once() -> None:
    lock, running, most = threading.Lock(), 0, 0
    everybody_here = threading.Barrier(4)

    def act(_: int) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        everybody_here.wait(timeout=60)  # all four at once, or this fails
        with lock:
            running -= 1

    list(each(range(40), act, parallel=4, sleep=no_sleep))
    assert most == 4


def test_what_may_pass_is_tried_again_with_growing_pauses() -> None:
    pauses: list[float] = []
    tries = 0

    def act(_: str) -> str:
        nonlocal tries
        tries += 1
        if tries < TRIES:
            raise Throttled("slow down")
        return "done"

    (tried,) = each(["a"], act, parallel=1, sleep=pauses.append)
    assert tried.result == "done"
    assert len(pauses) == TRIES - 1


def test_what_does_not_pass_ends_as_a_problem() -> None:
    def act(subject: str) -> str:
        raise Throttled("slow down") if subject == "a" else Malformed("item", "is odd")

    problems = {tried.subject: tried.problem for tried in each(["a", "b"], act, parallel=2, sleep=no_sleep)}
    assert isinstance(problems["a"], Throttled)
    assert isinstance(problems["b"], Malformed)


def test_it_gives_up_where_nothing_works() -> None:
    tried: list[int] = []

    def act(number: int) -> None:
        tried.append(number)
        raise Denied("no permission")

    with pytest.raises(GivenUp, match="no permission; 20 in a row failed"):
        list(each(range(1_000), act, parallel=2, sleep=no_sleep))
    assert len(tried) <= 30


def test_one_success_among_failures_keeps_it_going() -> None:
    def act(number: int) -> None:
        if number % 3:
            raise Denied("not this one")

    assert len(list(each(range(300), act, parallel=2, sleep=no_sleep))) == 300


def test_a_fault_of_the_program_is_not_taken_for_one_of_the_connection() -> None:
    def act(_: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(each([1], act, parallel=1, sleep=no_sleep))


def test_who_stops_listening_leaves_the_rest_undone() -> None:
    done: list[int] = []
    attempts = each(range(1_000), done.append, parallel=2, sleep=no_sleep)
    next(attempts)
    attempts.close()  # type: ignore[attr-defined]
    assert len(done) <= 10


def test_once_interrupted_what_is_on_its_way_is_answered_and_nothing_more_is_begun() -> None:
    begun, may_end, came = threading.Barrier(5), threading.Event(), threading.Event()
    done: list[int] = []

    def act(number: int) -> int:
        if number < 4:
            begun.wait(timeout=60)
            assert may_end.wait(timeout=60)
        done.append(number)
        return number

    def interrupt() -> None:
        begun.wait(timeout=60)
        came.set()
        may_end.set()

    person = threading.Thread(target=interrupt)
    person.start()
    answered = list(each(range(1_000), act, parallel=4, sleep=no_sleep, is_interrupted=came.is_set))
    person.join()
    assert sorted(tried.subject for tried in answered) == sorted(done), "each that was done is told of"
    assert {0, 1, 2, 3} <= set(done)
    assert len(done) <= 2 * 4, "at most what had been handed to the pool"


def test_what_fails_after_the_interruption_is_not_tried_again() -> None:
    tries: list[str] = []

    def act(subject: str) -> None:
        tries.append(subject)
        raise Throttled("slow down")

    (tried,) = each(["a"], act, parallel=1, sleep=no_sleep, is_interrupted=lambda: bool(tries))
    assert isinstance(tried.problem, Throttled)
    assert len(tries) == 1

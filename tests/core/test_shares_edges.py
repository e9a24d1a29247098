"""Shares at their edges: the millisecond and the connection at which each rule begins to hold, and what is kept."""

import pytest

from streamlease.model import Member, MemberState, Shares
from streamlease.shares import (
    AHEAD_MS,
    HALF_PACE,
    LATELY_MS,
    LESS_MS,
    LONGEST_DEPLOYMENT_MS,
    NO_PACE,
    STUBBORN_MS,
    ahead,
    divide,
    pace,
    rank,
    silent,
    target,
    too_many,
    weight,
)
from tests.core.test_shares import LEASE_MS, NEW, NOW_MS, OLD, fleet, member, shared, targets

LOW, NEXT = "pod-us2636s", "pod-xsx8fd7"
"""Two of which one's rank follows upon the other's."""


def at_rest(**changes: object) -> Shares:
    """Ten for each, and somebody lacks enough for anything to move."""
    values: dict[str, object] = {
        "generation": NEW,
        "level": 10,
        "one_more_below": 0,
        "whole": 40,
        "total": 40,
        "total_at_ms": NOW_MS,
        "more_since_ms": 0,
        "grew_at_ms": 0,
        "stubborn": 0,
        "least_unowned": 0,
        "least_since_ms": NOW_MS,
        "movable": True,
        "all_unwell": False,
        "lacking": 9,
        **changes,
    }
    return Shares(**values)  # type: ignore[arg-type]


def counted(total: int, **changes: object) -> Shares:
    """What was counted a second ago."""
    values: dict[str, object] = {"total": total, "total_at_ms": NOW_MS - 1_000, "lacking": 0, **changes}
    return at_rest(**values)


def just_buried() -> Member:
    return member("late", state=MemberState.DEAD, buried_at_ms=NOW_MS - 1_000)


# --- a member by itself -----------------------------------------------------------------------------------------------


def test_a_clock_is_ahead_by_more_than_any_two_may_differ() -> None:
    furthest_ms = NOW_MS + LEASE_MS + AHEAD_MS
    assert not ahead(member("a", lease_expires_at_ms=furthest_ms), now_ms=NOW_MS)
    assert ahead(member("a", lease_expires_at_ms=furthest_ms + 1), now_ms=NOW_MS)
    assert ahead(member("a", lease_ms=1, lease_expires_at_ms=NOW_MS + AHEAD_MS + 2), now_ms=NOW_MS)


def test_a_worker_that_does_not_say_how_long_its_leases_last_is_not_taken_to_be_ahead() -> None:
    assert not ahead(member("a", lease_ms=0, lease_expires_at_ms=NOW_MS + 3_600_000), now_ms=NOW_MS)


def test_a_worker_is_silent_from_less_than_a_third_of_its_lease_on_in_whole_milliseconds() -> None:
    third_ms = 3_333
    assert not silent(member("a", lease_ms=10_000, lease_expires_at_ms=NOW_MS + third_ms), now_ms=NOW_MS)
    assert silent(member("a", lease_ms=10_000, lease_expires_at_ms=NOW_MS + third_ms - 1), now_ms=NOW_MS)


def test_the_least_that_is_carried_beyond_the_number_counts() -> None:
    assert weight(member("a", 4, load={"extra": 1})) == 5


@pytest.mark.parametrize(("said", "believed"), [(0, 0), (50, 50), (100, 100), (101, 100), (-1, 100), ("50", 100)])
def test_a_pace_is_a_per_cent_or_nothing_that_was_said(said: int | str, believed: int) -> None:
    assert pace(member("a", load={"pace": said})) == believed


# --- one more, and one too many ---------------------------------------------------------------------------------------


def test_a_rank_is_low_only_below_the_mark() -> None:
    shares = at_rest(one_more_below=rank(NEXT))
    assert rank(NEXT) == rank(LOW) + 1
    assert (target(shares, LOW), target(shares, NEXT)) == (11, 10)


def test_the_mark_is_right_above_the_rank_of_the_last_that_has_one_more() -> None:
    shares = shared([member(LOW, 3), member(NEXT, 2)])
    assert (shares.level, shares.one_more_below) == (2, rank(LOW) + 1)
    assert targets([member(LOW), member(NEXT)], shares) == [3, 2]


def test_what_goes_up_evenly_leaves_nobody_one_more() -> None:
    shares = shared(fleet([7, 5, 3]))
    assert (shares.level, shares.one_more_below) == (5, 0)


def test_a_worker_with_one_more_than_its_own_share_gives_it_up_only_where_all_have_the_same() -> None:
    assert too_many(at_rest(), LOW, weighs=11) == 1
    marked = at_rest(one_more_below=rank(NEXT))
    assert [too_many(marked, LOW, weighs=weighs) for weighs in (11, 12)] == [0, 1]
    assert [too_many(marked, NEXT, weighs=weighs) for weighs in (11, 12)] == [0, 2]
    assert too_many(at_rest(one_more_below=1), NEXT, weighs=11) == 0


def test_where_somebody_is_below_the_level_one_more_than_the_own_share_is_given_up_too() -> None:
    assert too_many(at_rest(one_more_below=rank(NEXT), short=True), NEXT, weighs=11) == 1


def test_a_single_one_that_is_lacking_is_given_up() -> None:
    assert too_many(at_rest(lacking=1), LOW, weighs=12) == 1


def test_a_slow_worker_gives_up_what_is_beyond_its_part_and_an_unwell_one_its_last() -> None:
    assert too_many(at_rest(), LOW, weighs=10) == 0
    assert too_many(at_rest(), LOW, weighs=10, own_pace=HALF_PACE) == 5
    assert too_many(at_rest(one_more_below=rank(LOW)), LOW, weighs=1, own_pace=NO_PACE) == 1


# --- what was said before ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("age_ms", "whole"), [(-1, 80), (0, 100), (1, 100), (LATELY_MS - 1, 100), (LATELY_MS, 80), (LATELY_MS + 1, 80)]
)
def test_a_summary_says_something_for_a_quarter_of_a_minute_and_never_before_its_time(age_ms: int, whole: int) -> None:
    before = counted(100, total_at_ms=NOW_MS)
    found = divide(fleet([80]), unowned=0, before=before, before_ms=NOW_MS - age_ms, now_ms=NOW_MS)
    assert found is not None
    assert found.whole == whole


def test_a_worker_that_is_there_to_its_last_millisecond_has_shares_if_nobody_else_is() -> None:
    last = member("a", 3, lease_expires_at_ms=NOW_MS)
    assert shared([last]).whole == 3
    assert divide([last], unowned=0, before=None, before_ms=0, now_ms=NOW_MS + 1) is None


def test_what_a_dead_worker_left_is_looked_for_a_quarter_of_a_minute_and_a_heartbeat_of_the_longest_lease() -> None:
    members = [member("a", 60, lease_ms=10_000), member("b", 20, lease_ms=6_000), just_buried()]
    heartbeat_ms = 3_333
    for waited_ms, whole in ((LATELY_MS + heartbeat_ms - 1, 100), (LATELY_MS + heartbeat_ms, 80)):
        before = counted(100, total_at_ms=NOW_MS - waited_ms)
        assert shared(members, before=before).whole == whole


def test_a_total_that_grew_by_a_tenth_has_not_grown_by_much() -> None:
    assert shared(fleet([20, 2]), before=counted(20)).movable
    assert not shared(fleet([20, 3]), before=counted(20)).movable


def test_where_there_was_nothing_everything_counts_at_once_whoever_goes() -> None:
    assert shared([*fleet([3, 2]), just_buried()], before=counted(0)).whole == 5


# --- what is kept for the next ----------------------------------------------------------------------------------------


def kept(shares: Shares) -> tuple[int, int, int]:
    return shares.total, shares.total_at_ms, shares.more_since_ms


def test_the_same_count_again_makes_it_new() -> None:
    """Or a count that stood for long would give way to the first one that is short of some."""
    assert kept(shared(fleet([60, 40]), before=counted(100, more_since_ms=NOW_MS - 500))) == (100, NOW_MS, 0)


def test_a_larger_count_that_holds_is_as_new_and_waits_for_nothing() -> None:
    assert kept(shared(fleet([60, 45]), before=counted(100))) == (105, NOW_MS, 0)


def test_a_larger_count_that_may_be_of_some_twice_is_remembered_by_when_it_was_first_seen() -> None:
    moving = counted(100, lacking=5)
    assert kept(shared(fleet([60, 45]), before=moving)) == (100, NOW_MS, NOW_MS)
    again = counted(100, lacking=5, more_since_ms=NOW_MS - 700)
    assert kept(shared(fleet([60, 45]), before=again)) == (100, NOW_MS, NOW_MS - 700)


def test_a_smaller_count_leaves_the_larger_as_old_as_it_is_until_it_holds() -> None:
    assert kept(shared(fleet([60, 35]), before=counted(100, more_since_ms=5))) == (100, NOW_MS - 1_000, 0)
    old = counted(100, total_at_ms=NOW_MS - LESS_MS, more_since_ms=5)
    assert kept(shared(fleet([60, 35]), before=old)) == (95, NOW_MS, 0)


def test_while_somebody_drains_the_whole_stays_new() -> None:
    draining = member("c", 1, state=MemberState.DRAINING)
    assert kept(shared([*fleet([60, 35]), draining], before=counted(100, more_since_ms=5))) == (100, NOW_MS, 0)


# --- who counts -------------------------------------------------------------------------------------------------------


def older(owned: int) -> Member:
    return member("old", owned, generation=OLD)


def test_the_newer_count_alone_while_they_have_room_for_all_that_is_not_the_olders() -> None:
    shares = shared([older(100), member("new", capacity=50)], unowned=10)
    assert (shares.generation, shares.whole) == (NEW, 10)


def test_the_newer_count_alone_where_all_of_it_just_fits() -> None:
    assert shared([older(10), member("new", 5, capacity=10)], unowned=5).generation == NEW


def test_the_older_count_with_the_newer_not_instead_of_them() -> None:
    shares = shared([older(10), member("new", 10, capacity=10)], unowned=4)
    assert (shares.generation, shares.whole) == (OLD, 24)


def test_the_older_count_where_the_newer_have_some_room_but_not_for_all() -> None:
    assert shared([older(10), member("new", 5, capacity=10)], unowned=50).generation == OLD


def test_the_older_count_where_the_newer_are_full() -> None:
    assert shared([older(10), member("new", 10, capacity=10)]).generation == OLD


@pytest.mark.parametrize(("off_ms", "movable"), [(-1, False), (0, True)])
def test_a_deployment_is_over_when_it_has_lasted_for_its_longest(off_ms: int, movable: bool) -> None:
    began_ms = NOW_MS - LONGEST_DEPLOYMENT_MS - off_ms
    assert shared([member("new", 9, started_at_ms=began_ms), older(3)]).movable is movable


@pytest.mark.parametrize(("off_ms", "movable"), [(0, False), (1, True)])
def test_a_burial_by_the_furthest_clock_that_may_write_counts_as_recent(off_ms: int, movable: bool) -> None:
    buried = member("late", state=MemberState.DEAD, buried_at_ms=NOW_MS + AHEAD_MS + off_ms)
    assert shared([*fleet([9, 3]), buried]).movable is movable


# --- what nobody can take ---------------------------------------------------------------------------------------------


def unowned_for(age_ms: int, members: list[Member], unowned: int) -> int:
    """How much of it is taken for what nobody can take, when it has been unowned for so long."""
    before = counted(20, least_unowned=unowned, least_since_ms=NOW_MS - age_ms)
    return shared(members, unowned, before=before).stubborn


def test_what_is_unowned_for_half_a_minute_is_not_waited_for() -> None:
    assert unowned_for(STUBBORN_MS - 1, fleet([9, 9]), 2) == 0
    assert unowned_for(STUBBORN_MS, fleet([9, 9]), 2) == 2


def test_there_was_room_for_it_where_all_of_it_would_just_have_fit() -> None:
    assert unowned_for(STUBBORN_MS, [member("a", 10, capacity=15)], 5) == 5
    assert unowned_for(STUBBORN_MS, [member("a", 10, capacity=14)], 5) == 0


def test_a_full_worker_has_no_room_for_a_single_one() -> None:
    assert unowned_for(STUBBORN_MS, [member("a", 10, capacity=10)], 1) == 0


# --- the level --------------------------------------------------------------------------------------------------------


def test_where_there_is_nothing_the_level_is_nothing() -> None:
    assert shared([member("slow", load={"pace": HALF_PACE})]).level == 0


def test_the_level_is_no_more_than_all_there_is_where_all_of_it_fits() -> None:
    assert shared([member("a", 5, capacity=5)]).level == 5


def test_where_it_does_not_fit_the_level_is_no_more_than_twice_of_all() -> None:
    assert shared([member("a", 2, capacity=2)], unowned=10).level == 24


@pytest.mark.parametrize(("slow", "capacity", "extra"), [(HALF_PACE, 12, 0), (10, 1_000, 100)])
def test_a_slow_worker_alone_is_to_take_all_of_it(slow: int, capacity: int, extra: int) -> None:
    alone = member("a", capacity=capacity, load={"pace": slow, "extra": extra})
    shares = shared([alone], unowned=0 if extra else 10)
    assert target(shares, "a", own_pace=slow) == shares.whole == (extra or 10)


def test_an_unwell_worker_of_low_rank_takes_nobodys_one_more() -> None:
    unwell, well = member(LOW, load={"pace": NO_PACE}), [member(NEXT, 2), member("a", 3)]
    shares = shared([unwell, *well])
    assert rank(LOW) < min(rank(m.worker_id) for m in well)
    assert sum(targets(well, shares)) == 5


# --- what is lacking --------------------------------------------------------------------------------------------------


def test_what_nobody_owns_is_not_lacking() -> None:
    assert shared(fleet([14, 10, 0]), unowned=10).lacking == 2
    assert shared(fleet([10, 10, 0]), unowned=10).lacking == 0


def test_a_slow_worker_that_has_its_part_lacks_nothing() -> None:
    shares = shared([member("a", 20), member("slow", 10, load={"pace": HALF_PACE})])
    assert (shares.lacking, shares.short) == (0, False)


def test_short_is_who_has_less_than_the_level_whether_or_not_of_low_rank() -> None:
    assert shared([member(LOW, 4), member(NEXT, 1)]).short
    assert not shared([member(LOW, 2), member(NEXT, 3)]).short

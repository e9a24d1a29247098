"""Shares: everything fits, it comes to rest, nobody is asked for what moves already, nothing moves twice."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from streamlease import items, plan
from streamlease.membership import summarise
from streamlease.model import FleetSummary, Member, MemberState, Shares
from streamlease.shares import (
    CALM_MS,
    GREW_MS,
    HALF_PACE,
    LATELY_MS,
    LEARNT_MS,
    LESS_MS,
    MORE_MS,
    NO_PACE,
    SETTLED_MS,
    STUBBORN_MS,
    divide,
    rank,
    silent,
    target,
    too_many,
    weight,
)
from streamlease.write import Value, apply

NOW_MS = 1_800_000_000_000
LEASE_MS = 30_000
OLD, NEW = 1, 2


def member(name: str, owned: int = 0, *, capacity: int = 1_000, generation: int = NEW, **more: object) -> Member:
    values: dict[str, object] = {
        "worker_id": name,
        "state": MemberState.LIVE,
        "heartbeat": 1,
        "lease_expires_at_ms": NOW_MS + LEASE_MS,
        "generation": generation,
        "capacity": capacity,
        "owned": owned,
        "started_at_ms": NOW_MS - 60_000,
        "lease_ms": LEASE_MS,
        **more,
    }
    return Member(**values)  # type: ignore[arg-type]


def shared(members: list[Member], unowned: int = 0, before: Shares | None = None, at_ms: int = NOW_MS) -> Shares:
    found = divide(members, unowned=unowned, before=before, before_ms=at_ms - 1_000, now_ms=at_ms)
    assert found is not None
    if before is None and found.grew_at_ms == at_ms:  # as if it had been so for long
        peace = replace(found, grew_at_ms=0)
        found = divide(members, unowned=unowned, before=peace, before_ms=at_ms - 1_000, now_ms=at_ms)
        assert found is not None
    return found


def targets(members: list[Member], shares: Shares) -> list[int]:
    return [target(shares, m.worker_id) for m in members]


OWNED = st.lists(st.integers(0, 40), min_size=1, max_size=12)


def fleet(owned: list[int]) -> list[Member]:
    return [member(f"w{number}", count) for number, count in enumerate(owned)]


# --- how it is divided ------------------------------------------------------------------------------------------------


@given(OWNED, st.integers(0, 50))
def test_shares_add_up_to_the_whole_and_differ_by_one_at_most(owned: list[int], unowned: int) -> None:
    members = fleet(owned)
    wanted = targets(members, shared(members, unowned))
    assert sum(wanted) == sum(owned) + unowned
    assert max(wanted) - min(wanted) <= 1


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 30)), min_size=1, max_size=8), st.integers(0, 200))
def test_who_has_less_capacity_has_less_and_the_others_have_more(some: list[tuple[int, int]], unowned: int) -> None:
    members = [member(f"w{n}", min(owned, cap), capacity=cap) for n, (cap, owned) in enumerate(some)]
    whole = sum(m.owned for m in members) + unowned
    shares = shared(members, unowned)
    fits = [min(m.capacity, target(shares, m.worker_id)) for m in members]
    assert sum(fits) == min(whole, sum(m.capacity for m in members))


def test_a_slow_worker_has_half_a_share_an_unwell_one_none_and_if_all_are_it_is_as_if_none_were() -> None:
    well, slow = member("a", 10), member("b", 10, load={"pace": HALF_PACE})
    unwell = member("c", 10, load={"pace": NO_PACE})
    shares = shared([well, slow, unwell])
    halves = [target(shares, "a"), target(shares, "b", own_pace=HALF_PACE), target(shares, "c", own_pace=NO_PACE)]
    assert halves == [20, 10, 0]
    all_unwell = shared([replace(m, load={"pace": NO_PACE}) for m in (well, slow, unwell)])
    assert [target(all_unwell, name, own_pace=NO_PACE) for name in "abc"] == [10, 10, 10]


def test_a_busy_worker_has_fewer_connections_for_its_share() -> None:
    busy, idle = member("a", 10, load={"extra": 10}), member("b", 10)
    shares = shared([busy, idle])
    assert weight(busy) == 20
    assert targets([busy, idle], shares) == [15, 15]
    assert too_many(shares, "a", weighs=20) == 5


def test_what_a_load_says_that_makes_no_sense_counts_for_nothing() -> None:
    odd: list[dict[str, Value]] = [{"extra": "7", "pace": "slow"}, {"extra": -3, "pace": 700}, {"extra": None}]
    members = [member(f"w{n}", 5, load=load) for n, load in enumerate(odd)]
    assert targets(members, shared(members)) == [5, 5, 5]


def test_the_summary_keeps_the_shares_in_less_than_a_kilobyte() -> None:
    fleet = plan.summary([member(f"w{n}", 999) for n in range(500)], unowned=77, shards=16, now_ms=NOW_MS)
    stored = apply(summarise(fleet), None)
    assert stored is not None
    assert items.fleet_summary({**stored, "shards": 16}) == fleet
    assert len(repr(stored)) < 700


def test_a_summary_without_shares_removes_those_of_before() -> None:
    stored = apply(summarise(plan.summary([member("a")], unowned=1, shards=1, now_ms=NOW_MS)), None)
    emptied = apply(summarise(FleetSummary(NOW_MS + 1, 0, 0, 0, 0)), stored)
    assert emptied is not None
    assert "shares" not in emptied


# --- what is counted --------------------------------------------------------------------------------------------------


def test_what_was_counted_lately_is_not_forgotten_while_it_moves() -> None:
    """What was freed after the shards were read, and by whom it was taken has not been told yet: in no count."""
    settled = shared(fleet([100, 100, 100]))
    going = member("w2", 100, state=MemberState.DRAINING)
    moving = shared([*fleet([110, 120]), going], unowned=5, before=settled)
    assert moving.whole == 300
    at_ms = NOW_MS + LATELY_MS + LEASE_MS // 3
    gone = replace(going, lease_expires_at_ms=at_ms)
    assert shared([*later(fleet([110, 120]), at_ms), gone], unowned=5, before=moving, at_ms=at_ms).whole == 235


def test_while_somebody_drains_the_whole_is_what_it_was_however_long_that_takes() -> None:
    before = shared(fleet([100, 100]))
    drains = member("w1", 90, state=MemberState.DRAINING)
    for second in range(1, 120):
        at_ms = NOW_MS + 1_000 * second
        members = later([member("w0", 100 + second // 2), drains], at_ms)
        before = shared(members, before=before, at_ms=at_ms)
        assert targets([members[0]], before) == [200], second
    gone = later([member("w0", 160)], NOW_MS + 120_000)
    before = shared(gone, before=before, at_ms=NOW_MS + 120_000)
    assert targets(gone, before) == [200], "some that it left may be in no count yet"
    shares = shared(later(gone, NOW_MS + 130_000), before=before, at_ms=NOW_MS + 130_000)
    assert targets(gone, shares) == [160]


def test_a_smaller_count_holds_soon_when_nobody_goes() -> None:
    """Some were stopped; or somebody has just claimed them, and tells of it within a second."""
    settled = shared(fleet([100, 100]))
    assert shared(fleet([80, 100]), before=settled, at_ms=NOW_MS + LESS_MS - 1).whole == 200
    assert shared(fleet([80, 100]), before=settled, at_ms=NOW_MS + LESS_MS).whole == 180


def test_while_a_total_grows_nothing_is_given_up_by_it() -> None:
    """In a cold start some have told what they took, and others not yet."""
    first = divide(fleet([6, 6]), unowned=0, before=None, before_ms=0, now_ms=NOW_MS)
    assert first is not None
    assert not first.movable
    grown = shared(fleet([11, 4]), unowned=0, before=first, at_ms=NOW_MS + 1_000)
    assert (grown.movable, grown.total) == (False, 15)
    assert not shared(fleet([11, 4]), before=grown, at_ms=NOW_MS + 999 + GREW_MS).movable
    assert shared(fleet([11, 4]), before=grown, at_ms=NOW_MS + 1_000 + GREW_MS).movable


def test_a_trickle_of_new_connections_keeps_nothing_from_moving() -> None:
    settled = shared(fleet([20, 4]))
    assert shared(fleet([20, 4]), unowned=2, before=settled, at_ms=NOW_MS + 1_000).movable


def test_a_larger_count_holds_at_once_in_peace_and_soon_while_something_moves() -> None:
    """What moves is counted twice, while its last owner's count is older than its next one's."""
    settled = shared(fleet([10, 10]))
    assert shared(fleet([10, 10]), unowned=7, before=settled).whole == 27
    moving = shared(fleet([20, 0]))
    assert moving.lacking
    twice = shared(fleet([20, 1]), unowned=3, before=moving)
    assert twice.total == 20
    soon = shared(fleet([20, 1]), unowned=3, before=twice, at_ms=NOW_MS + MORE_MS)
    assert soon.whole == 24


def later(members: list[Member], at_ms: int) -> list[Member]:
    return [replace(m, lease_expires_at_ms=at_ms + LEASE_MS) for m in members]


def test_what_a_drainer_still_has_is_shared_among_those_that_stay() -> None:
    """Its count is older than those of who has taken some already: the sum of all would have these twice."""
    stay = fleet([100, 100])
    before = shared([*stay, member("c", 100)])
    drainer = member("c", 100, state=MemberState.DRAINING)
    assert sum(targets(stay, shared([*stay, drainer], before=before))) == 300
    assert sum(targets(stay, shared([*fleet([130, 130]), drainer], unowned=40, before=before))) == 300


def test_a_worker_that_missed_two_heartbeats_is_not_waited_for() -> None:
    """In connection mode its connections run out up to a heartbeat before its membership does."""
    stay = fleet([100, 100])
    gone = member("c", 100, lease_expires_at_ms=NOW_MS + LEASE_MS // 3 - 1)
    before = shared([*stay, member("c", 100)])
    shares = shared([*stay, gone], unowned=20, before=before)
    assert silent(gone, now_ms=NOW_MS)
    assert targets(stay, shares) == [150, 150]
    assert not shares.movable


def test_a_worker_whose_clock_was_ahead_counts_for_nothing_and_holds_up_nothing() -> None:
    """Its item stands for as long as that, whether or not there is anybody."""
    ghost = member("c", 0, lease_expires_at_ms=NOW_MS + 3_600_000)
    shares = shared([*fleet([12, 4]), ghost])
    assert targets(fleet([12, 4]), shares) == [8, 8]
    assert too_many(shares, "w0", weighs=12) == 4


def test_a_worker_of_a_shorter_lease_is_judged_by_its_own() -> None:
    brief = member("c", lease_ms=6_000, lease_expires_at_ms=NOW_MS + 5_000)
    assert not silent(brief, now_ms=NOW_MS)


def test_what_nobody_can_take_is_no_part_of_the_shares_and_keeps_nothing_from_moving() -> None:
    members, before, at_ms = fleet([4, 4, 0]), None, NOW_MS
    for second in range(2 * STUBBORN_MS // 1_000 + 2):
        at_ms = NOW_MS + 1_000 * second
        before = shared(later(members, at_ms), unowned=3, before=before, at_ms=at_ms)
    assert before is not None
    assert before.stubborn == 3
    at_ms += LESS_MS
    shares = shared(later(members, at_ms), unowned=3, before=before, at_ms=at_ms)
    assert (shares.whole, shares.lacking) == (8, 2)


def test_what_waits_only_because_nobody_has_room_is_not_taken_for_unreadable() -> None:
    full, before = [member("a", 10, capacity=10)], None
    for second in range(90):
        at_ms = NOW_MS + 1_000 * second
        before = shared(later(full, at_ms), unowned=5, before=before, at_ms=at_ms)
    assert before is not None
    assert before.stubborn == 0


# --- generations ------------------------------------------------------------------------------------------------------


def test_l28_what_a_deployment_frees_is_shared_among_the_newer_alone() -> None:
    old = [member("o1", 100, generation=OLD), member("o2", 100, generation=OLD)]
    new = [member("n1"), member("n2")]
    before = shared([*old, *new])
    assert (before.generation, before.whole) == (NEW, 0)
    shares = shared([old[0], replace(old[1], state=MemberState.DRAINING), *new], before=before)
    assert targets(new, shares) == [50, 50]
    freed = shared([old[0], *new], unowned=100)
    assert targets(new, freed) == [50, 50]


def test_older_workers_take_again_where_the_newer_have_no_room() -> None:
    old = member("o1", 10, generation=OLD)
    full = member("n1", 10, capacity=10)
    shares = shared([old, full], unowned=4)
    assert shares.generation == OLD
    assert target(shares, "o1") >= 14


def test_a_newer_generation_that_crashed_on_its_start_outranks_nobody() -> None:
    old = member("o1", 10, generation=OLD)
    crashed = member("n1", state=MemberState.DEAD, buried_at_ms=NOW_MS - 1_000)
    hanging = member("n2", lease_expires_at_ms=NOW_MS + LEASE_MS // 3 - 1)
    assert shared([old, crashed]).generation == OLD
    assert shared([old, hanging]).generation == OLD


def test_l28_nothing_moves_for_balance_until_a_deployment_is_over() -> None:
    """What the older give up moves by itself, and what the newer took has moved already."""
    new = [member("n1", 30), member("n2", 10)]
    older = member("o1", 20, generation=OLD)
    assert not shared([*new, older]).movable
    gone = replace(older, state=MemberState.DEAD, owned=0, buried_at_ms=NOW_MS)
    assert not shared(later([*new, gone], NOW_MS + CALM_MS - 1), at_ms=NOW_MS + CALM_MS - 1).movable
    over = shared(later([*new, gone], NOW_MS + CALM_MS), at_ms=NOW_MS + CALM_MS)
    assert too_many(over, "n1", weighs=30) == 10


def test_a_deployment_that_never_ends_keeps_nobody_from_balance() -> None:
    new = [member("n1", 30), member("n2", 10)]
    assert shared([*new, member("forgotten", 20, generation=OLD)]).movable is False
    began_ms = NOW_MS - 16 * 60_000
    assert shared([*(replace(m, started_at_ms=began_ms) for m in new), member("forgotten", 20, generation=OLD)]).movable


def test_two_generations_that_disagree_about_the_mode_share_as_any_two() -> None:
    """Nothing here knows of a mode: a worker of either counts by its member item, and its own lease's length."""
    old = member("o1", 10, generation=OLD, lease_ms=30_000)
    new = member("n1", 0, lease_ms=6_000, lease_expires_at_ms=NOW_MS + 5_000)
    shares = shared([replace(old, state=MemberState.DRAINING), new], before=shared([old, new]))
    assert (shares.generation, target(shares, "n1")) == (NEW, 10)


# --- balance ----------------------------------------------------------------------------------------------------------


@given(st.sampled_from(["draining", "silent", "just buried", "buried meanwhile"]))
def test_nothing_moves_for_balance_while_somebody_goes(how: str) -> None:
    going = {
        "draining": member("c", 5, state=MemberState.DRAINING),
        "silent": member("c", 5, lease_expires_at_ms=NOW_MS + 1),
        "just buried": member("c", state=MemberState.DEAD, buried_at_ms=NOW_MS - SETTLED_MS + 1),
        "buried meanwhile": member("c", state=MemberState.DEAD, buried_at_ms=NOW_MS + 1_000),
    }
    shares = shared([*fleet([10, 0]), going[how]])
    assert too_many(shares, "w0", weighs=10) == 0


def test_l4_orphans_come_before_balance() -> None:
    """What nobody owns fills who lacks something: nothing else is given up for that."""
    assert too_many(shared(fleet([10, 10, 0]), unowned=10), "w0", weighs=10) == 0
    assert too_many(shared(fleet([10, 10, 0]), unowned=2), "w0", weighs=10) > 0


def test_an_unwell_worker_gives_up_no_more_than_the_well_have_room_for() -> None:
    """The rest would lie there until somebody takes it beyond its share: the unwell one itself, most likely."""
    members = [member("well", 18, capacity=20), member("unwell", 36, capacity=50, load={"pace": 0})]
    assert too_many(shared(members), "unwell", weighs=36, own_pace=0) == 2


def test_l4_workers_at_their_share_have_room_for_what_a_dead_one_leaves() -> None:
    dead = member("w3", 10, lease_expires_at_ms=NOW_MS - 2_000)
    survivors = fleet([10, 10, 10])
    shares = shared([*survivors, dead], unowned=10, before=shared([*survivors, member("w3", 10)]))
    assert sum(targets(survivors, shares)) == 40


@given(st.integers(0, 30), st.integers(1, 12))
def test_l33_at_a_difference_of_one_nothing_moves(level: int, many: int) -> None:
    for more in range(many + 1):
        owned = [level + (number < more) for number in range(many)]
        shares = shared(fleet(owned))
        assert all(too_many(shares, f"w{n}", weighs=count) == 0 for n, count in enumerate(owned))


@settings(max_examples=200)
@given(OWNED, st.data())
def test_l33_any_fleet_comes_to_rest_within_one_whatever_comes_and_goes(owned: list[int], data: st.DataObject) -> None:
    """Joins, ends and new connections in any order; then it rests, and nothing has been moved that need not be."""
    counts = {f"w{n}": count for n, count in enumerate(owned)}
    for number in range(data.draw(st.integers(0, 4))):
        match data.draw(st.sampled_from(["join", "leave", "add", "stop"])):
            case "join":
                counts[f"j{number}"] = 0
            case "leave" if len(counts) > 1:
                counts, left = dict(list(counts.items())[1:]), next(iter(counts.values()))
                settle(counts, unowned=left)
            case "add":
                settle(counts, unowned=data.draw(st.integers(0, 9)))
            case _:
                name = data.draw(st.sampled_from(sorted(counts)))
                counts[name] = counts[name] // 2
        before = dict(counts)
        moved = settle(counts, unowned=0)
        assert max(counts.values()) - min(counts.values()) <= 1
        mean = sum(before.values()) / len(before)
        needed = sum(max(0, count - int(mean)) for count in before.values())
        assert moved <= needed, "what is above the least share may move, once"


def settle(counts: dict[str, int], *, unowned: int) -> int:
    """Rounds of giving up and taking, until nobody does either. How many were given up in all."""
    moved = 0
    for _ in range(10):
        shares = shared([member(name, count) for name, count in counts.items()], unowned)
        given = {name: too_many(shares, name, weighs=count) for name, count in counts.items()}
        for name, count in given.items():
            counts[name] -= count
            unowned += count
            moved += count
        taken = 0
        for name, count in counts.items():
            room = 0 if given[name] else plan.room(held=count, capacity=1_000, share=target(shares, name), stale=False)
            took = min(room, unowned)
            counts[name] += took
            unowned -= took
            taken += took
        if not taken and not sum(given.values()):
            assert unowned == 0
            return moved
    raise AssertionError("it does not come to rest")


def test_l34_a_newcomer_that_has_never_won_anything_counts_from_its_join_on() -> None:
    shares = shared([*fleet([12, 12, 12]), member("new")])
    assert target(shares, "new") == 9
    assert [too_many(shares, f"w{n}", weighs=12) for n in range(3)] == [3, 3, 3]


def test_a_newcomer_among_many_is_filled_by_some_of_them_and_by_the_same_ones_whoever_looks_when() -> None:
    """Fifty with 20 each, and one more worker: 19 or 20 of them give one, once."""
    many = fleet([20] * 50)
    shares = shared([*many, member("new")])
    givers = {m.worker_id for m in many if too_many(shares, m.worker_id, weighs=20)}
    assert len(givers) == target(shares, "new")
    assert all(too_many(shares, name, weighs=19) == 0 for name in givers)
    again = shared([*many, member("new")], before=shares, at_ms=NOW_MS + 1)
    assert {m.worker_id for m in many if too_many(again, m.worker_id, weighs=20)} == givers


def test_ranks_are_spread() -> None:
    assert len({rank(f"task-{n}") for n in range(10_000)}) > 9_990


def test_a_band_lets_weights_waver() -> None:
    members = [member("a", 10, load={"extra": 12}), member("b", 10, load={"extra": 8})]
    shares = shared(members)
    assert too_many(shares, "a", weighs=22) == 2
    assert too_many(shares, "a", weighs=22, band=2) == 0


def _carrying(extra: int) -> list[Member]:
    return [member("w0", 10, load={"extra": extra}), member("w1", 10)]


def test_a_measured_weight_that_is_gone_holds_until_a_new_owner_would_have_learnt_it() -> None:
    before = shared(_carrying(100))
    for at_ms in range(NOW_MS + 1_000, NOW_MS + LEARNT_MS, 10_000):
        before = shared(later(_carrying(0), at_ms), before=before, at_ms=at_ms)
        assert (before.total, before.extra, before.extra_at_ms) == (120, 100, NOW_MS)
    at_ms = NOW_MS + LEARNT_MS
    before = shared(later(_carrying(0), at_ms), before=before, at_ms=at_ms)
    assert (before.extra, before.extra_at_ms) == (0, at_ms)
    assert shared(later(_carrying(0), at_ms + 1_000), before=before, at_ms=at_ms + 1_000).total == 20


def test_a_measured_weight_that_wavers_is_as_new_as_the_last_look_and_a_larger_one_counts_at_once() -> None:
    before = shared(_carrying(100))
    at_ms = NOW_MS + 1_000
    wavers = shared(later(_carrying(90), at_ms), before=before, at_ms=at_ms)
    assert (wavers.extra, wavers.extra_at_ms) == (100, at_ms)
    fell = shared(later(_carrying(89), at_ms), before=before, at_ms=at_ms)
    assert (fell.extra, fell.extra_at_ms) == (100, NOW_MS)
    grew = shared(later(_carrying(101), at_ms), before=before, at_ms=at_ms)
    assert (grew.extra, grew.extra_at_ms) == (101, at_ms)


def test_fewer_connections_hold_as_soon_as_ever_beside_a_measured_weight_that_is_gone() -> None:
    before = shared(_carrying(100))
    fewer = [member("w0", 10), member("w1", 5)]
    for at_ms in range(NOW_MS + 1_000, NOW_MS + LESS_MS + 1_000, 1_000):
        before = shared(later(fewer, at_ms), before=before, at_ms=at_ms)
    assert before.total == 115


def test_a_summary_of_an_earlier_release_says_nothing_of_measured_weights() -> None:
    stored = apply(summarise(plan.summary(_carrying(100), unowned=1, shards=1, now_ms=NOW_MS)), None)
    assert stored is not None
    told = dict(stored["shares"])  # type: ignore[arg-type]
    del told["extra"], told["extra_at_ms"]
    found = items.fleet_summary({**stored, "shares": told}).shares
    assert found is not None
    assert (found.extra, found.extra_at_ms) == (0, 0)

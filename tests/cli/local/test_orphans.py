"""What a dead worker held, between its death and the sweep that finds it."""

from streamlease_cli.local.orphans import Orphans


def test_what_a_dead_worker_held_counts_until_another_owns_it() -> None:
    orphans = Orphans(kept_s=15)
    orphans.left(["a", "b"], now_s=100)
    assert orphans.count([], now_s=101) == 2
    assert orphans.count(["b", "c"], now_s=102) == 1
    assert orphans.count([], now_s=103) == 1, "b was taken: who lets it go now is no dead worker"


def test_it_counts_no_longer_than_until_sweeps_do_however_often_the_death_is_told() -> None:
    orphans = Orphans(kept_s=15)
    for now_s in (100, 110):
        orphans.left(["a"], now_s=now_s)
    assert orphans.count([], now_s=114.9) == 1
    assert orphans.count([], now_s=115) == 0

"""`streamlease reconcile`."""

from streamlease.flow import SendOffers
from streamlease.write import Table
from tests.cli.system import System
from tests.fakes.trouble import is_write


def lapsed() -> System:
    """Two connections free, one whose owner is gone."""
    system = System()
    system.add("free", "also-free", "lost")
    system.join("worker-a")
    system.claim("lost")
    system.clock.advance(20_000)
    return system


def test_what_nobody_holds_is_offered_and_the_dead_are_buried() -> None:
    system = lapsed()
    result = system.run("reconcile")
    assert result.exit_code == 0
    assert "3 connections held by nobody" in result.stdout
    assert "1 worker buried" in result.stdout
    assert sorted(offer.connection_id for offer in system.store.offers) == ["also-free", "free", "lost"]


def test_the_report_as_json_has_the_documented_keys() -> None:
    report = lapsed().json("reconcile")[0]
    assert (report["dry_run"], report["unowned"], report["offered"], report["complete"]) == (False, 3, 3, True)
    assert set(report) == {
        "dry_run", "unowned", "offered", "untaken_offers", "oldest_unowned_ms", "started_not_streaming",
        "live_members", "buried", "orphaned", "walked_owners", "complete", "malformed",
    }  # fmt: skip


def test_a_dry_run_counts_the_same_and_writes_nothing() -> None:
    system = lapsed()
    before = system.store.items(Table.MEMBERS)
    system.troubled.performed.clear()
    assert system.json("reconcile", "--dry-run") == [
        {"dry_run": True, "unowned": 3, "expired_members": 1, "live_members": 0, "malformed": 0}
    ]
    assert not any(is_write(r) or isinstance(r, SendOffers) for r in system.troubled.performed)
    assert system.store.items(Table.MEMBERS) == before


def test_a_full_queue_is_told_of() -> None:
    system = lapsed()
    system.store.full = True
    result = system.run("reconcile")
    assert result.exit_code == 0
    assert "the queue did not take 3 offers" in result.stderr

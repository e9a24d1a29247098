"""An upstream that stays open, answers pings and says nothing: to one worker, and to all of them (design §6)."""

from dataclasses import replace

import pytest

from streamlease.model import LeaseMode
from tests.simulation.clock import true_ms
from tests.simulation.kernel import S
from tests.simulation.scenario import BUSIEST, Scenario, UpstreamTrouble
from tests.simulation.staged import BEGINS_US, Stage, play, scenario
from tests.simulation.store import Landing

both = pytest.mark.parametrize("mode", list(LeaseMode))
STALE_AFTER_S = 10.0


def _watched(mode: LeaseMode, *, who: str, lasts_us: int) -> Scenario:
    """All of a fleet's upstreams fall silent to `who`, for as long as anything goes wrong."""
    plan = tuple(UpstreamTrouble(BEGINS_US, f"c{n}", "mute", lasts_us, who) for n in range(6))
    staged = scenario(mode, *plan, lasts_us=lasts_us)
    natures = {name: replace(nature, stale_after_s=STALE_AFTER_S) for name, nature in staged.connections.items()}
    return replace(staged, connections=natures)


def _state(landing: Landing) -> str:
    status = (landing.after or {}).get("status")
    return str(status["state"]) if isinstance(status, dict) else ""


def _states(stage: Stage) -> dict[str, set[str]]:
    """What statuses said of each connection, once nothing came any more."""
    found: dict[str, set[str]] = {}
    for each in stage.landed:
        if each.at_us > BEGINS_US and _state(each):
            found.setdefault(each.key[0], set()).add(_state(each))
    return found


@both
def test_what_is_silent_to_one_worker_is_yielded_once_and_streams_at_another(mode: LeaseMode) -> None:
    stage = play(_watched(mode, who=BUSIEST, lasts_us=60 * S))
    assert stage.violations == []
    assert not any("QUARANTINED" in states for states in _states(stage).values())
    given_up = [each for each in stage.writes("release", after_us=BEGINS_US) if _state(each) == "YIELDED"]
    assert given_up
    names = [each.key[0] for each in given_up]
    assert sorted(names) == sorted(set(names)), "once each"
    for each in given_up:
        after = next(claim for claim in stage.writes("claim", after_us=each.at_us) if claim.key == each.key)
        assert after.origin != each.origin
        assert after.at_us - each.at_us < 10 * S


@both
def test_what_is_silent_to_everybody_is_put_off_and_claimed_by_nobody_meanwhile(mode: LeaseMode) -> None:
    stage = play(_watched(mode, who="*", lasts_us=100 * S))
    assert stage.violations == []
    for item in stage.simulation.store.connections():
        status, not_before_ms = item["status"], item["not_before_ms"]
        assert isinstance(status, dict)
        assert status["state"] == "QUARANTINED"
        assert "lease_owner" not in item
        assert isinstance(not_before_ms, int)
        assert not_before_ms > true_ms(stage.simulation.kernel.now_us)
        claims = [each for each in stage.writes("claim", after_us=BEGINS_US) if each.key[0] == item["connection_id"]]
        assert len(claims) == 1, "by the worker that was to try"


@both
def test_what_was_put_off_is_put_off_again_at_its_first_silence_and_not_tried_elsewhere_once_more(
    mode: LeaseMode,
) -> None:
    stage = play(_watched(mode, who="*", lasts_us=400 * S))
    assert stage.violations == []
    for item in stage.simulation.store.connections():
        given_up = [
            _state(each) for each in stage.writes("release", after_us=BEGINS_US) if each.key[0] == item["connection_id"]
        ]
        assert given_up.count("QUARANTINED") > 1
        assert given_up.count("YIELDED") == 1

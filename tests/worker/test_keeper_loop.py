"""The keeper as the watchdog of the event loop."""

from streamlease_worker import keeper as keeper_module
from streamlease_worker.keeper_events import (
    EndProcess,
    Fence,
    Heartbeat,
    LoopTicked,
    Renew,
    Tick,
)
from tests.worker.keeping import Bench

# --- the event loop ---------------------------------------------------------------------------------------------------


def test_nothing_is_renewed_unless_the_loop_has_ticked_since_the_last_renewal() -> None:
    bench = Bench()
    claimed = bench.hold()
    bench.do(LoopTicked())
    bench.live(1_000)
    renewals = len(bench.all(Renew))
    said = bench.live(4_000, loop=False)
    assert len(bench.all(Renew)) <= renewals + 1
    assert [fence.reason for fence in bench.all(Fence)] == ["loop_blocked"]
    assert claimed.lease.epoch == bench.all(Fence)[0].epoch
    assert any(isinstance(command, EndProcess) for command in said)


def test_a_heartbeat_too_waits_for_the_loop() -> None:
    bench = Bench()
    bench.live(3_000)
    bench.live(5_000, loop=False)
    beats = len(bench.all(Heartbeat))
    bench.live(5_000, loop=False)
    assert len(bench.all(Heartbeat)) == beats


def test_a_pause_of_the_whole_process_is_not_taken_for_a_blocked_loop() -> None:
    bench = Bench()
    bench.hold()
    bench.live(1_000)
    bench.clock.advance(60_000)
    said = [*bench.do(Tick()), *bench.do(LoopTicked())]
    assert any(isinstance(command, Fence) for command in said)
    bench.live(3_000)
    assert bench.all(EndProcess) == []


def test_a_tick_that_lay_in_the_queue_while_the_process_stood_still_lets_nothing_be_renewed() -> None:
    """The loop has been blocked since: simulated seed 340410."""
    bench = Bench()
    bench.hold()
    bench.live(2_000)
    ticked_s = bench.clock().mono_s
    bench.live(1_500, loop=False)
    sent = len(bench.all(Renew)), len(bench.all(Heartbeat))
    bench.do(LoopTicked(ticked_s))
    bench.live(1_500, loop=False)
    assert (len(bench.all(Renew)), len(bench.all(Heartbeat))) == sent


def test_a_blocked_loop_without_a_lease_that_runs_out_ends_nothing() -> None:
    bench = Bench()
    bench.live(10_000, loop=False)
    assert bench.all(EndProcess) == []


def test_the_process_ends_only_once_the_loop_has_had_its_grace() -> None:
    bench = Bench()
    bench.hold()
    bench.live(1_000)
    silent_ms = 0
    while not bench.all(EndProcess):
        bench.live(100, loop=False)
        silent_ms += 100
        assert silent_ms < 10_000
    assert bench.all(Fence)
    assert silent_ms >= keeper_module.GRACE_S * 1_000

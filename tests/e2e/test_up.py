"""`streamlease up`, whole: the emulator, the real SAM CLI, the deployed functions, workers, a relay nobody here wrote.

One system for all tests of this file; the last one ends it.
"""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamlease_cli.local.checkout import REGION, clean_environment, find_checkout
from streamlease_cli.local.process import is_open
from tests.e2e.running import (
    WITHIN_S,
    Running,
    copy_of_the_checkout,
    descendants,
    start_up,
    still_there,
    until,
    when_ready,
)

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.emulator,
    pytest.mark.xdist_group("e2e"),
    pytest.mark.timeout(600),
]
FEEDS = 20
EVENTS = Path(__file__).parents[2] / "events"
SAMPLES = sorted((*EVENTS.glob("stream/*.json"), *EVENTS.glob("reconcile/*.json")))
FUNCTIONS = {"stream": "StreamFunction", "reconcile": "ReconcileFunction"}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Two workers, a relay, and twenty feeds of it that stream."""
    checkout = copy_of_the_checkout(tmp_path_factory.mktemp("e2e") / "checkout")
    arguments = ("--workers", "2", "--heartbeat", "2s", "--lease", "12s", "--relay")
    running = when_ready(start_up(checkout, *arguments))
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(checkout)
            assert {line["outcome"] for line in running.lines("apply", "-f", str(running.feeds))} == {"created"}
            until(lambda: running.streaming(FEEDS), "all feeds stream")
        yield running
    finally:
        running.kill()


@pytest.fixture(autouse=True)
def _in_the_checkout(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(running.checkout)


def test_a_feed_s_records_arrive_at_the_sink_with_the_upstream_s_own_ids(running: Running) -> None:
    def newest() -> dict[str, Any]:
        return {record["connection_id"]: record for record in running.records()}

    def of_this_epoch() -> dict[str, Any]:
        """It may have moved since."""
        one: dict[str, Any] = newest()["notes-01"]
        return one if one["epoch"] == running.lines("describe", "notes-01")[0]["lease_epoch"] else {}

    until(lambda: len(newest()) == FEEDS, "a record of each feed")
    one = until(of_this_epoch, "a record in its owner's epoch")
    assert one["record_id"] == one["payload"]["id"]
    assert one["sequence"] == one["payload"]["created_at"]


def test_what_a_worker_logs_holds_no_record(running: Running) -> None:
    content = running.records()[0]["payload"]["content"]
    assert not [log for log in running.folder.glob("worker-*.log") if content in log.read_text()]


def test_renewals_do_not_invoke_the_stream_function(running: Running) -> None:
    def leases(column: str) -> dict[str, int]:
        return {one["connection_id"]: one[column] for one in running.lines("ls")}

    def all_renew() -> None:
        before = leases("lease_expires_at_ms")
        until(
            lambda: all(expires > before[name] for name, expires in leases("lease_expires_at_ms").items()),
            "every lease is renewed",
        )

    def renewed_without_any() -> bool:
        """Not while the creation is still being handed on, or where a lease moved, which is no renewal."""
        epochs, batches = leases("lease_epoch"), running.stream_batches()
        all_renew()
        all_renew()
        return running.stream_batches() == batches and leases("lease_epoch") == epochs

    assert running.stream_batches() > 0  # those of the creation
    until(renewed_without_any, "all are renewed twice, and the stream function is not invoked")


def test_a_connection_is_added_stopped_started_and_removed_by_hand(running: Running) -> None:
    added = running.lines("add", "by-hand", "ws://127.0.0.1:1/nobody", "-l", "kind=test")
    assert added[0]["outcome"] == "created"

    def status() -> str:
        described = running.lines("describe", "by-hand")[0]
        return str((described["status"] or {}).get("state"))

    until(lambda: status() == "BACKOFF", "its owner says that nobody listens there")
    assert running.lines("describe", "by-hand")[0]["updated_by"].startswith("arn:aws:")
    assert running.lines("stop", "by-hand")[0]["outcome"] == "stopped"
    until(lambda: running.lines("describe", "by-hand")[0]["lease_owner"] is None, "its owner lets go")
    assert running.lines("start", "-l", "kind=test")[0]["outcome"] == "started"
    until(lambda: running.lines("describe", "by-hand")[0]["lease_owner"], "somebody takes it again")
    assert running.lines("rm", "by-hand", "--stop", "--yes")[0]["outcome"] == "deleted"
    assert running.lines("ls", "-l", "kind=test") == []


def test_a_stop_of_the_upstream_s_own_feed_ends_its_records_and_a_start_goes_on(running: Running) -> None:
    running.lines("stop", "notes-02")
    until(lambda: running.lines("describe", "notes-02")[0]["lease_owner"] is None, "its owner lets go")
    before = sum(record["connection_id"] == "notes-02" for record in running.records())
    running.lines("start", "notes-02")
    until(lambda: running.streaming(FEEDS), "it streams again")
    until(
        lambda: sum(record["connection_id"] == "notes-02" for record in running.records()) > before,
        "what was published meanwhile, and what is now, arrives",
    )


def test_a_killed_worker_is_followed_by_a_new_one_and_its_connections_move(running: Running) -> None:
    victim = running.about["workers"][0]
    owned = {one["connection_id"] for one in running.lines("ls") if one["lease_owner"] == victim["worker_id"]}
    assert owned
    epochs = {one["connection_id"]: one["lease_epoch"] for one in running.lines("ls")}
    os.kill(victim["pid"], signal.SIGKILL)

    def moved() -> bool:
        every = running.streaming(FEEDS)
        return bool(every) and all(
            one["lease_epoch"] > epochs[one["connection_id"]] and one["lease_owner"] != victim["worker_id"]
            for one in every
            if one["connection_id"] in owned
        )

    until(moved, "all stream again, under somebody else")

    def followed() -> bool:
        """A new one may live before the old one is known to be dead."""
        live = {worker["worker_id"] for worker in running.lines("workers") if worker["state"] == "LIVE"}
        return len(live) == 2 and victim["worker_id"] not in live

    until(followed, "two live, and the victim is none of them")
    assert "worker-1 was killed by signal 9" in running.said.read_text()


def test_reconciling_by_hand_finds_nothing_left_to_do(running: Running) -> None:
    until(lambda: running.streaming(FEEDS), "all stream")
    nothing = {"unowned": 0, "live_members": 2, "complete": True}
    until(lambda: nothing.items() <= running.lines("reconcile")[0].items(), "nothing is left to do")


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{sample.parent.name}/{sample.stem}")
def test_a_sample_event_runs_in_the_deployed_function(running: Running, sample: Path, tmp_path: Path) -> None:
    answer = remote_invoke(running, FUNCTIONS[sample.parent.name], sample, tmp_path)
    if sample.parent.name == "stream":
        assert answer == {"batchItemFailures": []}
    else:
        assert answer["complete"] is True
        assert answer["live_members"] == 2


def test_the_schedule_runs_the_reconcile_function(running: Running) -> None:
    samples = {json.loads(path.read_text()).get("id") for path in SAMPLES}
    logs = running.client("logs")
    [group] = [
        group["logGroupName"]
        for group in logs.describe_log_groups()["logGroups"]
        if "ReconcileLogs" in group["logGroupName"]
    ]

    def scheduled() -> list[dict[str, Any]]:
        lines = [event["message"] for event in logs.filter_log_events(logGroupName=group)["events"]]
        runs = [json.loads(line) for line in lines if line.startswith("{") and '"reconciled"' in line]
        return [run for run in runs if run["trigger"] == "aws.scheduler" and run["trigger_id"] not in samples]

    until(
        lambda: any(run["live_members"] == 2 for run in scheduled()),
        "a minute has passed, and in the log is a run of the schedule's that saw both workers",
        2 * WITHIN_S,
    )


def test_ctrl_c_ends_everything_and_leaves_nothing_running(running: Running) -> None:
    processes = descendants(running.process.pid)
    assert len(processes) >= 8  # the emulator, two functions, two workers, the relay, the publisher, and guards
    port = int(running.about["endpoint_url"].rpartition(":")[2])
    assert running.interrupt() == 0
    until(lambda: not still_there(processes), "the last guard has ended")
    assert not is_open(port)
    assert list(running.temporary.iterdir()) == []
    assert not (running.checkout / ".local" / "run" / "current.json").exists()
    assert '"drained"' in (running.folder / "worker-2.log").read_text()
    assert running.streamlease("ls").exit_code == 2


def test_ctrl_c_while_it_starts_leaves_nothing_either(tmp_path: Path) -> None:
    starting = start_up(copy_of_the_checkout(tmp_path / "checkout"))
    try:
        until(lambda: "the embedded AWS answers" in starting.said.read_text(), "the emulator runs")
        processes = descendants(starting.process.pid)
        assert processes
        assert starting.interrupt() == 130
        until(lambda: not still_there(processes), "the last guard has ended")
        assert list(starting.temporary.iterdir()) == []
    finally:
        starting.kill()


def remote_invoke(running: Running, function: str, event: Path, scratch: Path) -> dict[str, Any]:
    """By the real SAM CLI: what the function answers."""
    sam = find_checkout().tool("sam", "sam")
    environment = clean_environment({"AWS_ENDPOINT_URL": running.about["endpoint_url"], "SAM_CLI_TELEMETRY": "0"})
    command = [sam, "remote", "invoke", function, "--stack-name", running.about["stack"], "--region", REGION]
    ran = subprocess.run(  # noqa: S603 - the project's own
        [*command, "--event-file", event, "--output", "json"],
        env=environment,
        cwd=scratch,
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
    )
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert "FunctionError" not in told, told
    answer: dict[str, Any] = json.loads(told["Payload"]) if isinstance(told["Payload"], str) else told["Payload"]
    return answer

"""`streamlease describe`."""

import json

import pytest

from streamlease import flow
from streamlease.flows.pages import PageWrite, save
from streamlease.lease import Checkpoint
from streamlease.model import DesiredState, LeaseMode, Position, Saved, Status, StatusState
from streamlease.write import Always, Put, Table
from tests.cli.system import System


def described_system() -> System:
    system = System()
    system.add(
        "a",
        labels={"team": "feeds"},
        spec={"headers": {"Authorization": "Bearer {env:FEED_TOKEN}"}, "resume": {"rewind": 1}},
    )
    system.join("worker-a", heartbeats=2, owned=1)
    claimed = system.claim("a")
    position = Position(sequence=42, instance="feed.example", resume_url="wss://r.example/x?session=s3", token="t0k3n")
    system.checkpoint(claimed, Checkpoint(3, position, Status(StatusState.STREAMING, system.clock.wall_ms)))
    system.clock.advance(2_000)
    return system


def test_everything_is_said_with_the_position_and_the_lease_time_left() -> None:
    found = described_system().json("describe", "a")[0]
    assert found["spec"] == {"headers": {"Authorization": "Bearer {env:FEED_TOKEN}"}, "resume": {"rewind": 1}}
    assert found["lease_left_ms"] == 7_000
    assert found["position"]["sequence"] == 42
    assert found["checkpoint_no"] == 3
    assert found["worker"]["worker_id"] == "worker-a"
    assert found["worker"]["heartbeat_age_ms"] == 2_000
    assert set(found) == {
        "connection_id", "desired_state", "upstream_url", "labels", "lease_owner", "lease_epoch",
        "lease_expires_at_ms", "unowned", "status", "last_sequence", "lease_left_ms", "worker", "spec", "spec_version",
        "position", "checkpoint_no", "crashes", "not_before_ms", "created_at_ms", "updated_at_ms", "updated_by",
    }  # fmt: skip


def test_in_worker_mode_the_position_is_that_of_the_owners_page_where_it_is_newer() -> None:
    system = System()
    system.add("a")
    system.join("worker-a")
    claimed = system.claim("a", mode=LeaseMode.WORKER)
    system.checkpoint(claimed, Checkpoint(1, Position(sequence=41)))
    assert system.json("describe", "a")[0]["position"]["sequence"] == 41
    for number, sequence in ((2, 42), (1, 40)):
        entry = Saved("a", claimed.lease.epoch, number, 1, Position(sequence=sequence, token="t0k3n"))
        flow.run(save("worker-a", (PageWrite(number, 1, (entry,), fresh=True),)), system.store.perform)
    found = system.json("describe", "a")[0]
    assert (found["position"]["sequence"], found["last_sequence"], found["checkpoint_no"]) == (42, "42", 2)
    assert found["lease_expires_at_ms"] is None
    assert "t0k3n" not in system.run("describe", "a").stdout
    system.release(claimed)
    assert system.json("describe", "a")[0]["position"]["sequence"] == 41, "as the release left it"


def test_no_secret_no_nonce_and_no_resume_token_is_printed() -> None:
    system = described_system()
    system.add("b", spec={"headers": {"X-Api-Key": "hunter2"}, "open": [{"auth": ["hunter2"]}]})
    for arguments in (["describe", "a", "b"], ["describe", "a", "b", "--json"]):
        printed = system.run(*arguments).stdout
        for secret in ("t0k3n", "session=s3", "nonce-worker-a", "hunter2"):
            assert secret not in printed


def test_a_person_reads_dates_and_distances() -> None:
    text = described_system().run("describe", "a").stdout
    assert "lease_left_ms: 7s" in text
    assert "updated_at_ms: 2027-01-15T08:00:00+00:00 (2s ago)" in text
    assert "lease_expires_at_ms: 2027-01-15T08:00:09+00:00 (in 7s)" in text


def test_a_connection_that_nobody_holds_has_no_lease() -> None:
    system = System()
    system.add("a", state=DesiredState.STOPPED)
    found = system.json("describe", "a")[0]
    assert (found["lease_owner"], found["lease_left_ms"], found["worker"]) == (None, None, None)
    assert found["position"] is None


def test_an_id_that_is_not_there_fails_after_the_others_were_shown() -> None:
    system = System()
    system.add("a")
    result = system.run("describe", "nosuch", "a", "--json")
    assert result.exit_code == 1
    missed, found = map(json.loads, result.stdout.splitlines())
    assert missed["connection_id"] == "nosuch"
    assert f"{missed['error']}\n" == result.stderr
    assert found["connection_id"] == "a"
    assert result.stderr == "nosuch: there is no connection of that id in the test system: see `streamlease ls`\n"


@pytest.mark.parametrize("command", ["describe", "ls"])
def test_an_item_that_cannot_be_read_is_one_sentence_that_says_what_to_do_and_is_in_nobody_s_way(command: str) -> None:
    system = System()
    system.add("a")
    system.put({"connection_id": "broken", "desired_state": "STARTED"})
    result = system.run(command, "broken", "a", "--json")
    assert result.exit_code == 1
    lines = {line["connection_id"]: line for line in map(json.loads, result.stdout.splitlines())}
    assert set(lines) == {"a", "broken"}
    assert lines["broken"]["error"] == (
        "connection 'broken': upstream_url must be a non-empty string, not absent: no release of this project wrote it"
        " so; mend that item in its table, or delete it with `streamlease rm --malformed ID`"
    )
    assert result.stderr == f"{lines['broken']['error']}\n"


def test_an_owner_whose_item_cannot_be_read_hides_no_connection_and_is_named() -> None:
    system = described_system()
    system.store.perform(Put(Table.MEMBERS, {"worker_id": "worker-a", "state": "TIRED"}, Always()))
    system.store.perform(Put(Table.MEMBERS, {"worker_id": "worker-b", "state": "TIRED"}, Always()))
    described = system.run("describe", "a", "--json")
    assert (described.exit_code, json.loads(described.stdout)["worker"]) == (0, None)
    assert json.loads(described.stdout)["lease_owner"] == "worker-a"
    assert described.stderr.startswith("left out, since it cannot be read: member 'worker-a': ")
    listed = system.run("ls", "--json")
    assert (listed.exit_code, json.loads(listed.stdout)["lease_owner"], listed.stderr) == (0, "worker-a", "")
    workers = system.run("workers", "--json")
    assert workers.exit_code == 0
    assert [line.split(": ")[1] for line in workers.stderr.splitlines()] == ["member 'worker-a'", "member 'worker-b'"]
    drained = system.run("drain", "worker-b", "--yes")
    assert drained.exit_code == 2
    assert "member 'worker-b'" in drained.stderr


@pytest.mark.parametrize("command", ["stop", "rm --yes", "apply -"])
def test_what_acts_upon_an_item_that_cannot_be_read_says_what_to_do(command: str) -> None:
    system = System()
    system.put({"connection_id": "broken", "desired_state": "STARTED"})
    named = [] if command == "apply -" else ["broken"]
    result = system.run(*command.split(), *named, typed="{id: broken, url: 'wss://x.example/'}")
    assert result.exit_code == 1
    assert "mend that item in its table, or delete it with `streamlease rm --malformed ID`" in result.stdout


@pytest.mark.parametrize("command", ["stop", "rm --stop"])
def test_all_is_not_done_where_one_cannot_be_read(command: str) -> None:
    system = System()
    system.add("a")
    system.put({"connection_id": "broken", "desired_state": "STARTED"})
    result = system.run(*command.split(), "--all", "--yes", "--json")
    assert result.exit_code == 1
    outcomes = {line["connection_id"]: line["outcome"] for line in map(json.loads, result.stdout.splitlines())}
    assert outcomes == {"a": "deleted" if command.startswith("rm") else "stopped", "broken": "failed"}

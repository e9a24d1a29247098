"""`streamlease ls`."""

import dataclasses

from streamlease import items
from streamlease.errors import Denied
from streamlease.lease import Checkpoint
from streamlease.model import DesiredState, LeaseMode, Position, Status, StatusState
from streamlease.write import Scan
from tests.cli.system import SETTINGS, System


def streaming(system: System, connection_id: str, *, worker_id: str = "worker-a", ago_ms: int = 63_000) -> None:
    claimed = system.claim(connection_id, worker_id)
    status = Status(StatusState.STREAMING, system.clock.wall_ms - ago_ms)
    system.checkpoint(claimed, Checkpoint(1, Position(sequence=1_725_911_162_329_308), status))


def test_a_row_says_what_is_wanted_who_holds_it_and_how_it_is() -> None:
    system = System()
    system.add("jetstream")
    streaming(system, "jetstream")
    header, row = system.run("ls").stdout.splitlines()
    assert header.split("  ")[0] == "ID"
    epoch = str(system.connection("jetstream")["lease_epoch"])
    assert row.split() == [
        "jetstream", "STARTED", "worker-a", epoch, "STREAMING", "1m03s", "1725911162329308", "-",
    ]  # fmt: skip


def test_in_worker_mode_it_says_that_the_item_s_position_is_not_the_newest() -> None:
    system = System()
    system.settings = dataclasses.replace(SETTINGS, mode=LeaseMode.WORKER)
    system.add("jetstream")
    assert system.run("ls").stderr == "", "nobody owns it: there is none that is newer"
    system.claim("jetstream", mode=LeaseMode.WORKER)
    assert "`describe ID` has the newest" in system.run("ls").stderr
    assert "describe" not in system.run("ls", "--json").stderr
    system.settings = SETTINGS
    assert system.run("ls").stderr == ""


def test_an_owner_is_named_by_its_id_or_by_the_beginning_of_it() -> None:
    system = System()
    system.add("a", "b", "c", "d")
    for connection_id, owner in (("a", "task-1"), ("b", "task-1-b"), ("c", "task-2")):
        system.claim(connection_id, owner)
    for name, ids in (("task", "abc"), ("task-1", "a"), ("task-1-", "b"), ("ask", ""), ("", "")):
        assert [row["connection_id"] for row in system.json("ls", "--owner", name)] == list(ids)


def test_the_json_has_the_documented_keys() -> None:
    system = System()
    system.add("jetstream", labels={"team": "feeds"})
    streaming(system, "jetstream")
    assert system.json("ls") == [
        {
            "connection_id": "jetstream",
            "desired_state": "STARTED",
            "upstream_url": "wss://feed.example/stream",
            "labels": {"team": "feeds"},
            "lease_owner": "worker-a",
            "lease_epoch": system.connection("jetstream")["lease_epoch"],
            "lease_expires_at_ms": system.clock.wall_ms + 9_000,
            "unowned": False,
            "status": {
                "state": "STREAMING",
                "since_ms": system.clock.wall_ms - 63_000,
                "reason": None,
                "until_ms": None,
            },
            "last_sequence": "1725911162329308",
        }
    ]


def test_it_lists_every_page_of_the_table_in_order() -> None:
    system = System()
    names = [f"c{number:04}" for number in range(2_500)]
    system.add(*reversed(names))
    assert [line["connection_id"] for line in system.json("ls")] == names


def test_states_are_of_what_is_wanted_or_of_what_is() -> None:
    system = System()
    system.add("streams", "waits")
    system.add("stopped", state=DesiredState.STOPPED)
    streaming(system, "streams")

    def shown(*states: str) -> list[str]:
        return [line["connection_id"] for line in system.json("ls", *(f"--state={state}" for state in states))]

    assert shown("stopped") == ["stopped"]
    assert shown("STREAMING") == ["streams"]
    assert shown("streaming", "stopped") == ["stopped", "streams"]


def test_unowned_are_the_started_without_an_owner_or_with_a_lease_that_ran_out() -> None:
    system = System()
    system.add("free", "expired", "held")
    system.add("stopped", state=DesiredState.STOPPED)
    system.claim("expired")
    system.clock.advance(9_500)
    system.claim("held")
    unowned = [line["connection_id"] for line in system.json("ls", "--unowned")]
    assert unowned == ["free"], "within the allowance of clocks a lease still stands"
    system.clock.advance(600)
    assert [line["connection_id"] for line in system.json("ls", "--unowned")] == ["expired", "free"]


def test_rows_are_sorted_by_what_is_asked_for() -> None:
    system = System()
    system.add("a", "b", "c")
    streaming(system, "a", ago_ms=1_000)
    streaming(system, "b", ago_ms=5_000)
    streaming(system, "c", ago_ms=3_000)

    def order(*options: str) -> str:
        return "".join(line["connection_id"] for line in system.json("ls", *options))

    assert order("--sort", "since") == "bca"
    assert order("--reverse") == "cba"


def test_ids_and_labels_narrow_the_list() -> None:
    system = System()
    system.add("a", labels={"team": "feeds"})
    system.add("b")
    assert [line["connection_id"] for line in system.json("ls", "b")] == ["b"]
    assert [line["connection_id"] for line in system.json("ls", "-l", "team=feeds")] == ["a"]


def test_an_id_that_is_not_there_fails_and_the_others_are_listed() -> None:
    system = System()
    system.add("a")
    result = system.run("ls", "a", "nosuch")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[1].startswith("a ")
    assert result.stderr == "nosuch: there is no connection of that id\n"


def test_an_empty_system_says_how_to_begin() -> None:
    result = System().run("ls")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "add one with `streamlease add`" in result.stderr


def test_what_an_upstream_wrote_does_not_steer_the_terminal() -> None:
    system = System()
    system.add("a")
    claimed = system.claim("a")
    system.checkpoint(
        claimed, Checkpoint(1, status=Status(StatusState.FAILED, 0, "closed: \x1b[2J\nfoo \u202ebar\u2028"))
    )
    result = system.run("ls")
    assert "\x1b" not in result.stdout
    assert "foo \N{REPLACEMENT CHARACTER}bar\N{REPLACEMENT CHARACTER}" in result.stdout
    assert len(result.stdout.splitlines()) == 2


def test_credentials_in_a_url_are_not_printed() -> None:
    system = System()
    system.add("a", url="wss://ada:hunter2@feed.example/?token=abcdef&since=3")
    line = system.json("ls")[0]
    assert line["upstream_url"] == "wss://feed.example/?token=(not%20shown)&since=3".replace("%20", " ")


def test_a_table_that_may_not_be_read_is_one_sentence() -> None:
    system = System()
    denied = Denied("Scan on table 'x' in eu-west-1 is not allowed: the caller's role needs dynamodb:Scan on it")
    system.troubled.trouble(denied, when=lambda request: isinstance(request, Scan))
    result = system.run("ls")
    assert result.exit_code == 1
    assert result.stderr == f"Error: {denied}\n"


def test_what_is_put_off_says_why_and_for_how_long() -> None:
    system = System()
    system.add("a")
    claimed = system.claim("a")
    now_ms = system.clock.wall_ms
    status = Status(StatusState.QUARANTINED, now_ms, "no message for 60 s", now_ms + 300_000)
    system.put({**system.connection("a"), **items.status_attributes(status)})
    assert claimed.lease.epoch == system.connection("a")["lease_epoch"]
    assert "no message for 60 s; again in 5m00s" in system.run("ls", "--state", "quarantined").stdout

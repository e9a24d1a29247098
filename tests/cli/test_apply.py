"""`streamlease apply`."""

import json
from pathlib import Path

import pytest

from streamlease.errors import Denied
from streamlease.lease import Checkpoint
from streamlease.model import DesiredState, Position
from streamlease.write import Put, Update
from tests.cli.system import ARN, System
from tests.fakes.trouble import is_write

FEEDS = """
defaults:
  labels: {team: feeds}
connections:
  - id: posts
    url: wss://jetstream.example/subscribe
    resume: {query: {cursor: "{sequence}"}, rewind: 1}
    record: {sequence: time_us}
  - id: likes
    url: wss://jetstream.example/likes
"""


@pytest.fixture
def feeds(tmp_path: Path) -> Path:
    file = tmp_path / "feeds.yaml"
    file.write_text(FEEDS)
    return file


def test_new_connections_are_created_started_with_their_spec_and_labels(feeds: Path) -> None:
    system = System()
    result = system.run("apply", "-f", str(feeds))
    assert result.exit_code == 0, result.stderr
    assert sorted(result.stdout.splitlines()) == ["likes: created", "posts: created"]
    posts = system.connection("posts")
    assert posts["upstream_url"] == "wss://jetstream.example/subscribe"
    assert posts["desired_state"] == "STARTED"
    assert posts["labels"] == {"team": "feeds"}
    assert posts["spec"] == {
        "resume": {"query": {"cursor": "{sequence}"}, "rewind": 1},
        "record": {"sequence": "time_us"},
    }
    assert posts["updated_by"] == ARN


def test_applying_again_changes_and_writes_nothing(feeds: Path) -> None:
    system = System()
    system.run("apply", "-f", str(feeds))
    system.troubled.performed.clear()
    assert {line["outcome"] for line in system.json("apply", "-f", str(feeds))} == {"unchanged"}
    assert not any("connection_id" in r.key for r in system.troubled.performed if isinstance(r, Put | Update))


def test_only_what_is_different_is_changed_and_said(feeds: Path) -> None:
    system = System()
    system.run("apply", "-f", str(feeds))
    feeds.write_text(FEEDS.replace("rewind: 1", "rewind: 2"))
    lines = {line["connection_id"]: line for line in system.json("apply", "-f", str(feeds))}
    assert lines["likes"]["outcome"] == "unchanged"
    assert lines["posts"] == {
        "connection_id": "posts",
        "outcome": "changed",
        "detail": "spec.resume.rewind",
        "dry_run": False,
        "changes": [{"field": "spec.resume.rewind", "from": 1, "to": 2}],
    }
    assert system.connection("posts")["spec_version"] == 2


def test_a_stopped_connection_stays_stopped_and_a_position_stays_where_it_is(feeds: Path) -> None:
    system = System()
    system.run("apply", "-f", str(feeds))
    system.checkpoint(system.claim("posts"), Checkpoint(1, Position(sequence=7)))
    system.run("stop", "posts")
    feeds.write_text(FEEDS.replace("rewind: 1", "rewind: 2"))
    assert system.run("apply", "-f", str(feeds)).exit_code == 0
    assert system.connection("posts")["desired_state"] == "STOPPED"
    assert system.connection("posts")["position"] == {"sequence": 7}


def test_a_file_that_says_the_state_has_its_way() -> None:
    system = System()
    system.add("a")
    document = {"id": "a", "url": "wss://feed.example/stream", "desired_state": "STOPPED"}
    line = system.json("apply", "-f", "-", typed=json.dumps(document))[0]
    assert line["changes"] == [{"field": "desired_state", "from": "STARTED", "to": "STOPPED"}]
    assert system.connection("a")["desired_state"] == "STOPPED"


def test_new_ones_can_be_left_stopped_and_old_ones_are_not_touched_by_that(feeds: Path) -> None:
    system = System()
    system.add("likes", url="wss://jetstream.example/likes", labels={"team": "feeds"})
    lines = {line["connection_id"]: line["outcome"] for line in system.json("apply", "-f", str(feeds), "--stopped")}
    assert lines == {"likes": "unchanged", "posts": "created"}
    assert system.connection("posts")["desired_state"] == "STOPPED"
    assert system.connection("likes")["desired_state"] == "STARTED"


def test_a_dry_run_shows_each_field_and_writes_nothing(feeds: Path) -> None:
    system = System()
    system.add("posts", url="wss://old.example/", labels={"team": "feeds", "env": "dev"})
    system.troubled.performed.clear()
    result = system.run("apply", "-f", str(feeds), "--dry-run")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "posts: would be changed",
        "  - labels.env: dev",
        "  + spec.record.sequence: time_us",
        "  + spec.resume.query.cursor: {sequence}",
        "  + spec.resume.rewind: 1",
        "  ~ upstream_url: wss://old.example/ → wss://jetstream.example/subscribe",
        "likes: would be created",
    ]
    assert result.stderr == "1 would be changed, 1 would be created\nnothing was written: this was a dry run\n"
    assert not any(is_write(request) for request in system.troubled.performed)
    assert system.callers == 0


def test_a_dry_run_in_json_says_that_it_is_one(feeds: Path) -> None:
    lines = System().json("apply", "-f", str(feeds), "--dry-run")
    assert [(line["connection_id"], line["outcome"], line["dry_run"]) for line in lines] == [
        ("posts", "created", True),
        ("likes", "created", True),
    ]


def test_files_folders_and_standard_input_come_together(feeds: Path) -> None:
    system = System()
    (feeds.parent / "more.json").write_text('[{"id": "j", "url": "wss://j.example/"}]')
    (feeds.parent / "notes.txt").write_text("not one of ours")
    (feeds.parent / "deep").mkdir()
    (feeds.parent / "deep" / "d.yml").write_text("id: d\nurl: wss://d.example/\n")
    typed = "---\nid: s1\nurl: wss://s.example/\n---\nid: s2\nurl: wss://s.example/\n"
    lines = system.json("apply", "-f", str(feeds.parent), "-f", "-", typed=typed)
    assert {line["connection_id"] for line in lines} == {"posts", "likes", "j", "s1", "s2"}
    assert {line["connection_id"] for line in system.json("apply", "-R", "-f", str(feeds.parent))} == {
        "posts", "likes", "j", "d",
    }  # fmt: skip


def test_a_csv_beside_the_file_makes_a_connection_of_each_row(tmp_path: Path) -> None:
    (tmp_path / "rooms.csv").write_text("room,lang\nlobby,en\nsalon,fr\n")
    file = tmp_path / "rooms.yaml"
    file.write_text('id: "room-{room}"\nurl: "wss://chat.example/{room}?lang={lang}"\nfor_each: rooms.csv\n')
    system = System()
    assert system.run("apply", str(file)).exit_code == 0
    assert system.connection("room-salon")["upstream_url"] == "wss://chat.example/salon?lang=fr"


# --- bad input ---


def _bomb(seed: str, level: str) -> str:
    """A small document that stands for ten thousand million times its seed."""
    levels = [f"- &a0 {seed}"]
    levels += [f"- &a{n} {level.format(', '.join([f'*a{n - 1}'] * 10))}" for n in range(1, 11)]
    return "\n".join(levels) + "\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("id: a\nurl: http://a.example/\n", "must begin with ws:// or wss://"),
        ("id: a\nurl: wss://a.example/\nrecrod: {}\n", "field recrod is not known; did you mean record?"),
        ("- {id: a, url: 'wss://a.example/'}\n- {id: a, url: 'wss://a.example/'}\n", "id a is there twice"),
        ("id: a\nid: b\n", "line 2, column 1 is not YAML: 'id' is there twice"),
        ("id: [a\n", "is not YAML"),
        ("", "is empty"),
        ("a: &a [*a]\n", "refers to itself"),
        (_bomb("[1, 2]", "[{}]"), "aliases (*name) that stand for more than 4,000,000 values"),
        (_bomb("{k: '" + "x" * 999 + "'}", "{{a: [{}]}}"), "aliases (*name) that stand for more than"),
        (_bomb("{k: 1}", "{{[{}]: 1}}"), "is not YAML"),
    ],
)
def test_a_file_with_anything_wrong_is_one_sentence_and_nothing_is_done(
    tmp_path: Path, feeds: Path, text: str, sentence: str
) -> None:
    system = System()
    bad = tmp_path / "bad.yaml"
    bad.write_text(text)
    result = system.run("apply", "-f", str(feeds), "-f", str(bad))
    assert result.exit_code == 2
    assert f"Error: {bad}" in result.stderr
    assert sentence in result.stderr
    assert "nothing was done" in result.stderr
    assert system.targets == [], "no system was even looked for"


@pytest.mark.parametrize(
    ("arguments", "typed", "sentence"),
    [
        (["/dev/zero"], None, "Error: /dev/zero cannot be read: it is larger than 64 MiB; split it"),
        (["-"], "#" * (1 << 26) + "\n", "standard input cannot be read: it is larger than 64 MiB; split it"),
        (
            ["-"],
            "id: '{a}'\nurl: 'ws://x/'\nfor_each: /dev/zero\n",
            "names /dev/zero, which cannot be read: it is larger",
        ),
    ],
)
def test_a_text_without_an_end_is_refused(arguments: list[str], typed: str | None, sentence: str) -> None:
    result = System().run("apply", *arguments, typed=typed)
    assert result.exit_code == 2
    assert sentence in result.stderr


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("- {id: a, url: nonsense}\n- {id: b, url: 'wss://b.example/', foo: 1}\n")
    (tmp_path / "b.json").write_text('{"id": "c",}')
    result = System().run("apply", "-f", str(tmp_path))
    assert result.exit_code == 2
    assert 'a.yaml: connection "a"' in result.stderr
    assert "field foo is not known" in result.stderr
    assert "b.json line 1, column 11 is not JSON" in result.stderr
    assert result.stderr.endswith("3 problems in the files; nothing was done\n")


def test_an_id_in_two_files_is_refused_with_both_names(feeds: Path) -> None:
    other = feeds.parent / "other.yaml"
    other.write_text("id: posts\nurl: wss://b.example/\n")
    result = System().run("apply", "-f", str(feeds), "-f", str(other))
    assert result.exit_code == 2
    assert f"{other}: connection 'posts' is in {feeds}, too" in result.stderr


def test_a_file_that_is_not_there_is_named_with_what_is_there(feeds: Path) -> None:
    result = System().run("apply", "-f", str(feeds.parent / "feed.yaml"))
    assert result.exit_code == 2
    assert "there is no file or folder" in result.stderr
    assert "there is feeds.yaml" in result.stderr


def test_an_empty_folder_and_no_file_at_all_are_bad_input(tmp_path: Path) -> None:
    assert "holds no file named *.yaml, *.yml, *.json" in System().run("apply", "-f", str(tmp_path)).stderr
    assert System().run("apply").exit_code == 2


def test_one_that_cannot_be_written_fails_and_the_others_are_applied(feeds: Path) -> None:
    system = System()
    system.troubled.trouble(
        Denied("PutItem on table 'x' was refused as invalid"),
        when=lambda r: isinstance(r, Put) and r.item.get("connection_id") == "posts",
    )
    result = system.run("apply", "-f", str(feeds), "--json")
    assert result.exit_code == 1
    lines = {line["connection_id"]: line for line in map(json.loads, result.stdout.splitlines())}
    assert lines["likes"]["outcome"] == "created"
    assert (lines["posts"]["outcome"], lines["posts"]["changes"]) == ("failed", [])


# --- prune ---


def pruned_system() -> System:
    system = System()
    system.add("posts", "old", labels={"team": "feeds"})
    system.add("other", labels={"team": "trades"})
    return system


def test_a_prune_deletes_what_carries_the_label_and_is_in_no_file(feeds: Path) -> None:
    system = pruned_system()
    lines = {
        line["connection_id"]: line["outcome"]
        for line in system.json("apply", "-f", str(feeds), "--prune", "-l", "team=feeds", "--yes")
    }
    assert lines == {"posts": "changed", "likes": "created", "old": "deleted"}
    assert not system.has("old")
    assert system.has("other")


def test_a_prune_asks_before_anything_is_written(feeds: Path) -> None:
    system = pruned_system()
    arguments = ("apply", "-f", str(feeds), "--prune", "-l", "team=feeds")
    assert system.run(*arguments).exit_code == 2
    system.terminal = True
    declined = system.run(*arguments, typed="n\n")
    assert declined.exit_code == 1
    assert "Delete 1 connection of the test system that the files do not speak of" in declined.stderr
    assert not system.has("likes")
    assert system.run(*arguments, typed="y\n").exit_code == 0
    assert not system.has("old")


def test_a_dry_run_shows_what_a_prune_would_delete(feeds: Path) -> None:
    system = pruned_system()
    result = system.run("apply", "-f", str(feeds), "--prune", "-l", "team=feeds", "--dry-run")
    assert result.exit_code == 0
    assert "old: would be deleted" in result.stdout.splitlines()
    assert system.has("old")


def test_a_prune_without_a_label_is_refused_and_suggests_one(feeds: Path) -> None:
    result = System().run("apply", "-f", str(feeds), "--prune", "--yes")
    assert result.exit_code == 2
    assert "--prune needs -l KEY=VALUE" in result.stderr
    assert "all of them carry team=feeds" in result.stderr


def test_a_prune_by_a_label_that_a_file_lacks_is_refused(feeds: Path) -> None:
    system = pruned_system()
    feeds.write_text(FEEDS + "  - {id: odd, url: 'wss://o.example/', labels: {team: odd}}\n")
    result = system.run("apply", "-f", str(feeds), "--prune", "-l", "team=feeds", "--yes")
    assert result.exit_code == 2
    assert f"odd in {feeds}" in result.stderr
    assert system.has("old")


def test_files_without_a_connection_prune_nothing(tmp_path: Path) -> None:
    system = pruned_system()
    file = tmp_path / "none.yaml"
    file.write_text("connections: []\n")
    result = system.run("apply", "-f", str(file), "--prune", "-l", "team=feeds", "--yes")
    assert result.exit_code == 2
    assert "would delete everything its label covers" in result.stderr
    assert system.has("old")


def test_nothing_is_pruned_where_something_could_not_be_applied(feeds: Path) -> None:
    system = pruned_system()
    system.troubled.trouble(Denied("no"), when=lambda r: isinstance(r, Put) and r.item.get("connection_id") == "likes")
    result = system.run("apply", "-f", str(feeds), "--prune", "-l", "team=feeds", "--yes")
    assert result.exit_code == 1
    assert "nothing is deleted, since not everything could be applied" in result.stderr
    assert system.has("old")


def test_a_label_without_a_prune_is_refused(feeds: Path) -> None:
    assert System().run("apply", "-f", str(feeds), "-l", "team=feeds").exit_code == 2


def test_a_pruned_connection_that_is_held_is_stopped_and_waited_for(feeds: Path) -> None:
    system = pruned_system()
    claimed = system.claim("old")
    system.while_sleeping = lambda: system.release(claimed)
    assert system.run("apply", "-f", str(feeds), "--prune", "-l", "team=feeds", "--yes").exit_code == 0
    assert not system.has("old")


def test_add_creates_one_connection_and_says_when_it_is_there() -> None:
    system = System()
    assert system.json("add", "t", "wss://feed.example/t", "-l", "team=feeds")[0]["outcome"] == "created"
    assert system.connection("t")["labels"] == {"team": "feeds"}
    assert system.connection("t")["desired_state"] == "STARTED"
    assert system.json("add", "t", "wss://feed.example/t", "-l", "team=feeds")[0]["outcome"] == "already_there"


def test_add_can_leave_it_stopped() -> None:
    system = System()
    system.run("add", "t", "wss://feed.example/t", "--stopped")
    assert system.connection("t")["desired_state"] == DesiredState.STOPPED


def test_add_leaves_a_connection_that_says_something_else_alone() -> None:
    system = System()
    system.add("t")
    result = system.run("add", "t", "wss://other.example/")
    assert result.exit_code == 1
    assert "there is a connection of that id with another upstream_url" in result.stdout
    assert system.connection("t")["spec_version"] == 1


@pytest.mark.parametrize("url", ["http://feed.example/", "feed.example", "wss://"])
def test_add_refuses_what_is_no_websocket_url(url: str) -> None:
    system = System()
    result = system.run("add", "t", url)
    assert result.exit_code == 2
    assert "url" in result.stderr
    assert not system.has("t")

"""The relay's authors as connections."""

from pathlib import Path

import pytest

from streamlease.model import DesiredState
from streamlease_cli.documents import load_or_refuse
from streamlease_cli.local.fault import LocalFault
from streamlease_cli.local.feeds import apply, connection_ids, write_feeds
from streamlease_cli.session import Session
from tests.cli.system import ARN, SETTINGS, System

AUTHORS = tuple(f"{number:064x}" for number in range(12))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write_feeds(tmp_path / "feeds.yaml", "ws://127.0.0.1:1/", connection_ids(AUTHORS))
    return tmp_path / "feeds.yaml"


def test_each_author_is_a_connection_of_its_own_with_ids_that_sort() -> None:
    feeds = connection_ids(AUTHORS)
    assert list(feeds)[:2] == ["notes-01", "notes-02"]
    assert sorted(feeds) == list(feeds)
    assert tuple(feeds.values()) == AUTHORS


def test_the_file_says_what_the_relay_needs(file: Path) -> None:
    first = load_or_refuse([str(file)], recursive=False)[0]
    assert first.connection_id == "notes-01"
    assert first.labels == {"kind": "notes"}
    assert first.spec["open"] == [
        ["REQ", "notes", {"authors": [AUTHORS[0]], "kinds": [1], "since": "{sequence}"}],
    ]


def test_applying_it_makes_the_connections(file: Path) -> None:
    system = System()
    session = Session(SETTINGS, system.store.perform, lambda: ARN, "the test system")
    assert apply(session, file) == len(AUTHORS)
    assert system.connection("notes-12")["desired_state"] == DesiredState.STARTED.value


def test_a_connection_that_cannot_be_made_is_named(file: Path) -> None:
    system = System()
    system.put({"connection_id": "notes-05", "schema": 1, "desired_state": "nonsense"})
    session = Session(SETTINGS, system.store.perform, lambda: ARN, "the test system")
    with pytest.raises(LocalFault, match=r"connection notes-05 could not be made: .*desired_state"):
        apply(session, file)

from pathlib import Path

import pytest

from streamlease_cli.configuration import find_local_system
from streamlease_cli.local.checkout import Checkout
from streamlease_cli.local.fault import LocalFault
from streamlease_cli.local.runs import describe, new_run, only_system

OUTPUTS = {"ConnectionsTable": "c", "MembersTable": "m"}


def test_other_commands_find_what_was_described_until_it_ends(tmp_path: Path) -> None:
    below = tmp_path / "some" / "folder"
    below.mkdir(parents=True)
    with only_system(Checkout(tmp_path)) as file:
        assert find_local_system(below) is None
        describe(file, "http://127.0.0.1:4566", "local", OUTPUTS)
        found = find_local_system(below)
        assert found is not None
        assert (found.endpoint_url, found.stack, found.outputs) == ("http://127.0.0.1:4566", "local", OUTPUTS)
    assert find_local_system(below) is None


def test_a_checkout_has_one_system_at_a_time(tmp_path: Path) -> None:
    with only_system(Checkout(tmp_path)) as file:
        describe(file, "http://127.0.0.1:4566", "local", OUTPUTS)
        with pytest.raises(LocalFault, match="already runs"), only_system(Checkout(tmp_path)):
            pass
        assert find_local_system(tmp_path) is not None
    with only_system(Checkout(tmp_path)):
        pass


def test_what_a_killed_system_left_is_not_found_once_another_begins(tmp_path: Path) -> None:
    with only_system(Checkout(tmp_path)) as file:
        describe(file, "http://127.0.0.1:4566", "local", OUTPUTS)
        left = file.read_text()
    file.write_text(left)
    with only_system(Checkout(tmp_path)):
        assert find_local_system(tmp_path) is None


def test_old_runs_make_room_for_new_ones(tmp_path: Path) -> None:
    runs = Checkout(tmp_path).runs
    for number in range(30):
        (runs / f"2020-{number:02}").mkdir(parents=True)
    (runs / "current.json").write_text("{}")
    new = new_run(Checkout(tmp_path))
    assert new.is_dir()
    assert sorted(path.name for path in runs.iterdir() if path.is_dir()) == [
        *(f"2020-{number:02}" for number in range(10, 30)),
        new.name,
    ]
    assert (runs / "current.json").exists()

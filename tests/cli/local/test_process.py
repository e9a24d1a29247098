"""Real processes, and no clock: a pipe that everything started holds open ends when the last of it has ended."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from streamlease_cli.local import process
from streamlease_cli.local.fault import LocalFault
from streamlease_cli.local.process import Command, Process, free_port, is_open

# Holds the pipe, starts a child that holds it too, says that both are there, and waits for ever.
FAMILY = """
import os, subprocess, sys, time
pipe = os.open(sys.argv[1], os.O_WRONLY)
hold = "import time; print('child', flush=True); time.sleep(300)"
child = subprocess.Popen([sys.executable, "-c", hold], pass_fds=[pipe], stdout=pipe)
time.sleep(300)
"""
# The same, deaf to SIGTERM.
DEAF_FAMILY = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + FAMILY

OWNER = """
import os, sys
from pathlib import Path
from streamlease_cli.local.process import Command, Process
folder, pipe, script = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
owned = folder / "owned"
owned.mkdir()
arguments = [sys.executable, "-c", script, pipe]
process = Process(Command("family", arguments, dict(os.environ), folder, folder / "log", [owned], grace_s=0.2))
print(process.pid, flush=True)
sys.stdin.read()
"""


def command(folder: Path, script: str, *arguments: str) -> Command:
    return Command("it", [sys.executable, "-c", script, *arguments], dict(os.environ), folder, folder / "log")


class Family:
    """Reads the pipe that a family of processes holds."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "pipe"
        os.mkfifo(self.path)
        self._reader = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        os.set_blocking(self._reader, True)

    def is_there(self) -> None:
        # A pipe that nobody has opened yet reads as ended.
        while not os.read(self._reader, 100):
            pass

    def is_gone(self) -> None:
        while os.read(self._reader, 100):
            pass
        os.close(self._reader)


@pytest.mark.parametrize("script", [FAMILY, DEAF_FAMILY], ids=["obedient", "deaf"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_nothing_outlives_an_owner_that_a_signal_ends(tmp_path: Path, number: signal.Signals, script: str) -> None:
    family = Family(tmp_path)
    # Under nohup, or in the background of a shell, a process begins with these ignored.
    heeding = f"import signal; signal.signal({number}, signal.SIG_DFL)\n" if number != signal.SIGKILL else ""
    arguments = [sys.executable, "-c", heeding + OWNER, str(tmp_path), str(family.path), script]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:  # noqa: S603 - this Python
        family.is_there()
        owner.send_signal(number)
        assert owner.wait() == -number
        family.is_gone()


def test_nothing_outlives_an_owner_that_just_ends_and_its_folder_is_removed(tmp_path: Path) -> None:
    family = Family(tmp_path)
    arguments = [sys.executable, "-W", "ignore", "-c", OWNER, str(tmp_path), str(family.path), FAMILY]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:  # noqa: S603 - this Python
        family.is_there()
        assert owner.stdin is not None
        owner.stdin.close()
        assert owner.wait() == 0
        family.is_gone()
    while (tmp_path / "owned").exists():  # the guard removes it last
        pass


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG is Linux's")
def test_a_killed_guard_takes_its_command_with_it(tmp_path: Path) -> None:
    family = Family(tmp_path)
    process = Process(
        command(
            tmp_path,
            "import os, sys, time; os.write(os.open(sys.argv[1], os.O_WRONLY), b'x'); time.sleep(300)",
            str(family.path),
        )
    )
    guard = int(Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    family.is_there()
    os.kill(guard, signal.SIGKILL)
    process.wait(60)
    family.is_gone()


def test_stopping_ends_the_whole_group(tmp_path: Path) -> None:
    family = Family(tmp_path)
    with Process(command(tmp_path, FAMILY, str(family.path))):
        family.is_there()
    family.is_gone()


def test_what_is_deaf_to_sigterm_is_killed(tmp_path: Path) -> None:
    family = Family(tmp_path)
    process = Process(command(tmp_path, DEAF_FAMILY, str(family.path)))
    family.is_there()
    assert process.stop(within_s=0.1) == -signal.SIGKILL
    family.is_gone()


def test_killing_is_sigkill_and_says_so(tmp_path: Path) -> None:
    process = Process(command(tmp_path, "import time; time.sleep(300)"))
    assert process.poll() is None
    process.kill()
    assert process.wait(60) == -signal.SIGKILL


def test_an_exit_code_is_the_commands_own(tmp_path: Path) -> None:
    process = Process(command(tmp_path, "import sys; sys.exit(7)"))
    assert process.wait(60) == 7
    assert process.poll() == 7
    assert process.stop() == 7


def test_what_a_command_leaves_behind_is_killed_when_it_ends(tmp_path: Path) -> None:
    family = Family(tmp_path)
    script = FAMILY.replace("time.sleep(300)\n", "").replace("child = ", "os.write(pipe, b'x'); child = ")
    process = Process(command(tmp_path, script, str(family.path)))
    family.is_there()
    process.wait(60)
    family.is_gone()


def test_files_and_folders_that_were_only_for_a_command_go_with_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inner").write_text("x")
    removed = [tmp_path / name for name in ("file", "folder", "never made")]
    Process(replace(command(tmp_path, ""), remove=removed)).wait(60)
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_a_command_may_open_as_many_files_as_this_machine_allows(tmp_path: Path) -> None:
    process = Process(command(tmp_path, "import resource; print(*resource.getrlimit(resource.RLIMIT_NOFILE))"))
    assert process.wait(60) == 0
    soft, hard = map(int, process.log.read_text().split())
    assert soft == min(hard, 65_536)


def test_a_command_that_does_not_exist_is_named(tmp_path: Path) -> None:
    missing = Command("the relay", ["/no/such/program"], dict(os.environ), tmp_path, tmp_path / "log")
    with pytest.raises(LocalFault, match="the relay could not be started: No such file or directory: /no/such/program"):
        Process(missing)


def test_one_that_ends_before_it_is_ready_is_reported_with_its_last_words(tmp_path: Path) -> None:
    process = Process(command(tmp_path, "import sys; print('port 1 is taken'); sys.exit(3)"))
    with pytest.raises(LocalFault, match=r"it ended with 3 before it could get ready: port 1 is taken \(log: .*/log\)"):
        process.wait_until(lambda: False, 60)


def test_one_that_is_never_ready_is_reported(tmp_path: Path) -> None:
    process = Process(command(tmp_path, "import time; time.sleep(300)"))
    with process, pytest.raises(LocalFault, match="it did not get ready within 0 s"):
        process.wait_until(lambda: False, 0)


def test_a_free_port_is_closed() -> None:
    assert not is_open(free_port())


def test_who_waits_long_is_told_that_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_TELL_EVERY_S", 0.01)
    told: list[float] = []
    with Process(command(tmp_path, "import signal; signal.pause()")) as waiting:
        with pytest.raises(LocalFault, match=r"it did not end within 0\.03 s"):
            waiting.wait(0.03, told.append)
        waiting.kill()
    assert told == [0.01, 0.02]

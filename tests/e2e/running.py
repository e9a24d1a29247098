"""`streamlease up` as a process of its own, in a checkout of its own, and what it leaves behind."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import boto3
from click.testing import CliRunner, Result

from streamlease_cli.commandline import cli
from streamlease_cli.local.checkout import REGION, find_checkout
from streamlease_cli.local.emulator import DIRECT

STARTED_WITHIN_S = 300.0
ENDED_WITHIN_S = 120.0
WITHIN_S = 120.0
"""Nets, far wider than anything takes: what is slow is not wrong."""
_POLL_S = 0.1
_DEPLOYED = ("functions", "layers", "requirements", "scripts")


def until[T](found: Callable[[], T], what: str, within_s: float = WITHIN_S) -> T:
    """What `found()` gives once that is true. Fails after `within_s`."""
    deadline_s = time.monotonic() + within_s
    while True:
        value = found()
        if value:
            return value
        assert time.monotonic() < deadline_s, f"not within {within_s:g} s: {what}; the last answer was {value!r}"
        time.sleep(_POLL_S)


def copy_of_the_checkout(folder: Path) -> Path:
    """What a deployment reads, so that a system that runs in the real one is left alone. Environments and builds are
    shared with it."""
    root = find_checkout().root
    folder.mkdir()
    shutil.copy(root / "template.yaml", folder)
    for name in _DEPLOYED:
        shutil.copytree(root / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".layer"))
    (folder / ".local").mkdir()
    (root / ".local" / "sam").mkdir(exist_ok=True)
    for name in ("envs", "sam"):
        (folder / ".local" / name).symlink_to(root / ".local" / name)
    return folder


@dataclass(slots=True)
class Running:
    """A `streamlease up`. `temporary` is its temporary folder, `said` the file that has its standard error."""

    process: subprocess.Popen[str]
    checkout: Path
    temporary: Path
    said: Path
    about: dict[str, Any]

    # --- the command line, as somebody in the checkout uses it ---

    def streamlease(self, *arguments: str) -> Result:
        return CliRunner().invoke(cli, arguments, catch_exceptions=False)

    def lines(self, *arguments: str) -> list[dict[str, Any]]:
        """The JSON lines of a command that is to succeed."""
        result = self.streamlease(*arguments, "--json")
        assert result.exit_code == 0, result.output
        return [json.loads(line) for line in result.stdout.splitlines()]

    def streaming(self, count: int) -> list[dict[str, Any]]:
        """All connections, if that is how many stream; else nothing."""
        every = self.lines("ls")
        streaming = [one for one in every if one["status"] and one["status"]["state"] == "STREAMING"]
        return streaming if len(streaming) == count else []

    # --- what it is made of ---

    @property
    def folder(self) -> Path:
        return Path(self.about["folder"])

    @property
    def feeds(self) -> Path:
        return self.folder / "feeds.yaml"

    def records(self) -> list[dict[str, Any]]:
        path = Path(self.about["sink"].removeprefix("jsonl:"))
        if not path.exists():
            return []
        lines = path.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def function(self, output: str) -> str:
        return str(self.about["outputs"][output])

    def client(self, service: str) -> Any:
        session = boto3.Session("local", "local", region_name=REGION)
        return session.client(cast("Any", service), endpoint_url=self.about["endpoint_url"], config=DIRECT)

    def aws_log(self) -> list[str]:
        return (self.folder / "aws.log").read_text(errors="replace").splitlines()

    def stream_batches(self) -> int:
        """How often the emulator has handed records of a stream to the stream function."""
        handed = f"ESM: Lambda {self.function('StreamFunction')} processed "
        return sum(handed in line for line in self.aws_log())

    # --- its end ---

    def kill(self) -> None:
        """Whatever it does; its guards end the rest."""
        with self.process:  # closes what it spoke through
            self.process.kill()

    def interrupt(self) -> int:
        """Ctrl-C. Its exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(ENDED_WITHIN_S)


def start_up(checkout: Path, *arguments: str) -> Running:
    """Starts it and returns at once; `about` is empty until `when_ready`."""
    temporary = checkout.parent / "temporary"
    temporary.mkdir()
    said = checkout.parent / "said"
    command = [sys.executable, "-m", "streamlease_cli", "up", "--checkout", str(checkout), "--json", *arguments]
    with said.open("w") as errors:
        process = subprocess.Popen(  # noqa: S603 - this Python
            command,
            cwd=checkout,
            env={**os.environ, "TMPDIR": str(temporary)},
            stdout=subprocess.PIPE,
            stderr=errors,
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
    return Running(process, checkout, temporary, said, {})


def when_ready(running: Running) -> Running:
    """Once it has said that it runs. Fails with what it said if it ends or is late."""
    file = running.checkout / ".local" / "run" / "current.json"
    try:
        until(lambda: file.exists() or running.process.poll() is not None, "the system runs", STARTED_WITHIN_S)
        line = cast("IO[str]", running.process.stdout).readline()
        assert line, running.said.read_text()
    except BaseException:
        running.kill()
        raise
    running.about.update(json.loads(line))
    return running


def descendants(pid: int) -> dict[int, str]:
    """Every process below `pid`, by its id, with what tells it from a later one of that id: when it started."""
    parents: dict[int, list[int]] = {}
    started: dict[int, str] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(folder.name))
        started[int(folder.name)] = fields[19]
    found: dict[int, str] = {}
    below = list(parents.get(pid, []))
    while below:
        one = below.pop()
        found[one] = started[one]
        below += parents.get(one, [])
    return found


def still_there(processes: dict[int, str]) -> list[int]:
    """Those of them that run yet."""
    left = []
    for pid, started in processes.items():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if fields[19] == started and fields[0] != "Z":
            left.append(pid)
    return left

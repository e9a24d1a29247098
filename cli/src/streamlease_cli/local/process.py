"""Processes this one owns: each under a guard, so that none outlives it (see `guard`)."""

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self, cast

from streamlease_cli.local.fault import LocalFault

_GUARD = Path(__file__).with_name("guard.py")
_POLL_S = 0.02
_KILLED_WITHIN_S = 10.0
_TELL_EVERY_S = 10.0


@dataclass(frozen=True, slots=True)
class Command:
    """What to run. `log` takes its standard output and error; `remove` are paths to delete once it has ended."""

    name: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    folder: Path
    log: Path
    remove: Sequence[Path] = ()
    grace_s: float = 5.0


class Process:
    """A running command and all that it started, as one. A context manager: leaving it stops them."""

    def __init__(self, command: Command) -> None:
        """Starts it. Raises LocalFault where it cannot be started at all."""
        self._command = command
        self._exit_code: int | None = None
        guarded = [sys.executable, "-I", "-S", str(_GUARD), "--grace", str(command.grace_s)]
        for path in command.remove:
            guarded += ["--remove", str(path)]
        with command.log.open("ab") as log:
            self._guard = subprocess.Popen(
                [*guarded, "--", *command.arguments],
                env=command.environment,
                cwd=command.folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        self._orders = cast("IO[bytes]", self._guard.stdin)
        self._answers = cast("IO[bytes]", self._guard.stdout)
        word, _, rest = self._answer().partition(" ")
        if word != "pid":
            self._ended()
            raise LocalFault(f"{command.name} could not be started: {rest or 'its guard died'}")
        self.pid = int(rest)
        """Also the id of its process group."""

    @property
    def name(self) -> str:
        return self._command.name

    @property
    def log(self) -> Path:
        return self._command.log

    def terminate(self) -> None:
        """SIGTERM to the whole group; nothing if it has ended."""
        self._send(b"TERM\n")

    def kill(self) -> None:
        """SIGKILL to the whole group; nothing if it has ended."""
        self._send(b"KILL\n")

    def poll(self) -> int | None:
        """The exit code (negative: the signal that ended it), None while it runs."""
        return None if self._guard.poll() is None else self._ended()

    def wait(self, within_s: float, tell: Callable[[float], None] = lambda _: None) -> int:
        """The exit code. `tell` is told every ten seconds for how long it has been waited for. Raises LocalFault if it
        runs for longer."""
        waited_s = 0.0
        while True:
            step_s = min(_TELL_EVERY_S, within_s - waited_s)
            try:
                self._guard.wait(step_s)
            except subprocess.TimeoutExpired:
                waited_s += step_s
                if waited_s >= within_s:
                    raise LocalFault(f"{self.name} did not end within {within_s:g} s (log: {self.log})") from None
                tell(waited_s)
            else:
                return self._ended()

    def stop(self, within_s: float = 5.0) -> int:
        """SIGTERM, then SIGKILL if it has not ended in time. The exit code."""
        self.terminate()
        return self.wait_or_kill(within_s)

    def wait_or_kill(self, within_s: float) -> int:
        """The exit code; SIGKILL if it has not ended in time."""
        with contextlib.suppress(LocalFault):
            return self.wait(within_s)
        self.kill()
        return self.wait(_KILLED_WITHIN_S)

    def wait_until(self, ready: Callable[[], bool], within_s: float, what: str = "get ready") -> None:
        """Returns once `ready()` holds. Raises LocalFault, with its last words, if it ends or is late."""
        deadline_s = time.monotonic() + within_s
        while not ready():
            code = self.poll()
            if code is not None:
                raise LocalFault(f"{self.name} ended with {code} before it could {what}: {self.last_words()}")
            if time.monotonic() >= deadline_s:
                raise LocalFault(f"{self.name} did not {what} within {within_s:g} s: {self.last_words()}")
            time.sleep(_POLL_S)

    def last_words(self) -> str:
        """The last line of its log, and where the log is: the end of a sentence about its end."""
        lines = self.log.read_text(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
        return f"{last} (log: {self.log})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _send(self, order: bytes) -> None:
        with contextlib.suppress(BrokenPipeError, ValueError):  # it has ended
            self._orders.write(order)
            self._orders.flush()

    def _answer(self) -> str:
        return self._answers.readline().decode().strip()

    def _ended(self) -> int:
        if self._exit_code is None:
            guard_code = self._guard.wait()
            word, _, rest = self._answer().partition(" ")
            # No last word: the guard was killed, and its command with it.
            self._exit_code = int(rest) if word == "exit" else guard_code
            self._answers.close()
            with contextlib.suppress(BrokenPipeError):
                self._orders.close()
        return self._exit_code


def free_port() -> int:
    """A loopback port nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def is_open(port: int) -> bool:
    """True if something on this machine accepts connections on the port."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def run(command: Command, within_s: float, say: Callable[[str], None] = lambda _: None) -> None:
    """Runs it to its end; where that takes long, says every ten seconds that it goes on. Raises LocalFault, with its
    last words, unless that is a success, in time."""
    with Process(command) as process:
        code = process.wait(within_s, lambda waited_s: say(f"{command.name} goes on ({waited_s:.0f} s)"))
    if code != 0:
        raise LocalFault(f"{command.name} failed with {code}: {process.last_words()}")

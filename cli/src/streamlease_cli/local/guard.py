"""Runs one command and sees to it that nothing of it outlives its owner, however the owner ends.

    python -I -S guard.py [--grace SECONDS] [--remove PATH ...] -- COMMAND ...

Stand-alone: only the standard library, run by path, so that it starts in some 30 ms. The command gets a session, and so
a process group, of its own; a terminal's Ctrl-C does not reach it, and whatever it starts itself is in that group.

- Standard input is a pipe whose other end only the owner holds. A line on it, `TERM` or `KILL`, is sent to the group.
  Its end means that the owner is gone (finished, crashed, killed): SIGTERM, and SIGKILL after the grace.
- When the command has ended, what is left of its group is killed and the paths are removed.
- Standard output says `pid N` at the start and `exit N` at the end (negative: the signal). Standard error is the
  command's log.

A guard that is itself killed takes the command with it on Linux (PR_SET_PDEATHSIG); elsewhere it cannot.
"""

import argparse
import contextlib
import ctypes
import os
import resource
import selectors
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_OPEN_FILES = 65_536


def main() -> int:
    parser = argparse.ArgumentParser(prog="guard")
    parser.add_argument("--grace", type=float, default=5.0, metavar="SECONDS")
    parser.add_argument("--remove", action="append", default=[], metavar="PATH")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    try:
        code = _guard(options.command, options.grace)
    except OSError as error:
        _say(f"failed {error.strerror}: {error.filename}")
        return 1
    finally:
        for path in options.remove:
            _remove(path)
    _say(f"exit {code}")
    return 0


def _guard(command: list[str], grace_s: float) -> int:
    wake_reader, wake_writer = os.pipe()
    os.set_blocking(wake_writer, False)
    signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
    asked_to_end = []
    # Handlers, not SIG_IGN: an ignored signal would stay ignored in the command.
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, lambda *_: None)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: asked_to_end.append(True))

    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        stderr=sys.stderr,
        start_new_session=True,
        preexec_fn=_prepare,  # safe: this process has one thread
    )
    _say(f"pid {child.pid}")

    kill_at_s: float | None = None
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        selector.register(wake_reader, selectors.EVENT_READ)
        while not _has_ended(child.pid):
            wait_s = None if kill_at_s is None else max(0.0, kill_at_s - time.monotonic())
            for key, _ in selector.select(wait_s):
                asked = os.read(key.fd, 4096)
                if key.fd == wake_reader:
                    continue
                if not asked:
                    selector.unregister(0)
                    asked_to_end.append(True)
                for line in asked.decode().split():
                    _signal_group(child.pid, signal.SIGKILL if line == "KILL" else signal.SIGTERM)
            if asked_to_end and kill_at_s is None:
                kill_at_s = time.monotonic() + grace_s
                _signal_group(child.pid, signal.SIGTERM)
            elif kill_at_s is not None and time.monotonic() >= kill_at_s:
                _signal_group(child.pid, signal.SIGKILL)
                kill_at_s = time.monotonic() + grace_s
    _signal_group(child.pid, signal.SIGKILL)
    return child.wait()


def _has_ended(pid: int) -> bool:
    # WNOWAIT: not reaped until its group has been killed, so the number cannot have passed to somebody else.
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS says EPERM where all are zombies
        os.killpg(group, number)


def _prepare() -> None:
    """Runs in the command's process, before the command."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # A socket each: the usual soft limit of 1,024 is less than a large demonstration needs.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if most == resource.RLIM_INFINITY else min(most, _OPEN_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def _remove(path: str) -> None:
    shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):  # a folder, by now gone
        Path(path).unlink()


def _say(line: str) -> None:
    with contextlib.suppress(BrokenPipeError):  # the owner is gone
        os.write(1, line.encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main())

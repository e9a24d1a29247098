import signal
import subprocess
import sys

import pytest

from streamlease_cli.local.interrupt import Interrupted, interruptible


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_an_ending_signal_is_raised_with_its_exit_code(number: signal.Signals, code: int) -> None:
    with pytest.raises(Interrupted) as raised, interruptible():
        signal.raise_signal(number)
    assert raised.value.exit_code == code


def test_what_handles_faults_does_not_catch_it() -> None:
    caught = []

    def careful() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        except Exception as fault:  # noqa: BLE001 - the point
            caught.append(fault)

    with pytest.raises(Interrupted), interruptible():
        careful()
    assert caught == []


def test_it_is_told_of_at_once_and_a_line_it_came_amidst_does_not_hinder_it() -> None:
    said: list[str] = []

    def amidst(line: str) -> None:
        said.append(line)
        raise RuntimeError("reentrant call")

    with pytest.raises(Interrupted), interruptible(amidst):
        signal.raise_signal(signal.SIGINT)
    assert len(said) == 1
    assert said[0].startswith("stopping: ")


IMPATIENT = """
import signal
from streamlease_cli.local.interrupt import interruptible
with interruptible():
    try:
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.raise_signal(signal.SIGINT)
        print("it waited")
"""


def test_a_second_signal_is_the_end_then_and_there() -> None:
    ended = subprocess.run([sys.executable, "-c", IMPATIENT], capture_output=True, text=True, check=False)  # noqa: S603
    assert (ended.returncode, ended.stdout) == (130, "")
    assert ended.stderr == "not waited for: what still runs is stopped\n"


def test_afterwards_everything_is_as_it_was() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with interruptible():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before

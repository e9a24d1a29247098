import signal

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


def test_a_second_signal_has_its_usual_effect() -> None:
    def impatient() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), interruptible():
        impatient()


def test_afterwards_everything_is_as_it_was() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with interruptible():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before

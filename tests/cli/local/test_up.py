"""What `streamlease up` says while something is waited for."""

from typing import Any, cast

from streamlease.errors import Unreachable
from streamlease.flow import Request
from streamlease_cli.local.system import System
from streamlease_cli.local.up import _started
from streamlease_cli.session import Session
from tests.cli.system import SETTINGS


class Emulated:
    """A system whose emulator answers, or has ended."""

    def __init__(self) -> None:
        self.answers = False
        self.patience: list[bool] = []

    def session(self, *, patient: bool = True) -> Session:
        self.patience.append(patient)
        return Session(SETTINGS, self.perform, lambda: "", "the local system")

    def perform(self, request: Request) -> object:
        if not self.answers:
            raise Unreachable("no answer")
        return None


class Said:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)

    def show(self, picture: Any) -> None:
        raise AssertionError("nothing is shown here")

    def clear(self) -> None:
        raise AssertionError("nothing is shown here")


def test_an_emulator_that_gives_no_answer_is_said_at_once_and_once_and_is_not_waited_for() -> None:
    system, said = Emulated(), Said()
    started = _started(cast("System", system), said)
    assert [started(), started()] == [0, 0]
    assert said.lines == ["the embedded AWS gives no answer: workers go on until their leases run out"]
    assert system.patience == [False], "a person's patience would be four attempts of ten seconds"
    system.answers = True
    started()
    system.answers = False
    started()
    assert len(said.lines) == 2

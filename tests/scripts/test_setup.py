"""`make setup`: what is made anew, what is brought up to date, and what is left alone."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "setup.py"


class Checkout:
    """A folder with a tool environment, in which what uv is told to do is only noted, and done in small."""

    def __init__(self, root: Path, setup: ModuleType) -> None:
        self.setup = setup
        self.commands: list[str] = []
        self.place = root / "envs" / "emulator"
        self.requirements = root / "requirements"
        self.requirements.mkdir()
        (self.requirements / "emulator.txt").write_text("ministack==1\n")
        for name, value in {
            "LOCAL": root,
            "STAMPS": root / "stamps",
            "REQUIREMENTS": self.requirements,
            "ENVIRONMENTS": {"emulator": self.place},
            "find_uv": lambda: "uv",
            "find_python": lambda uv: "python3",
            "works": lambda *command: Path(command[0]).exists(),
            "run": self._run,
        }.items():
            setattr(setup, name, value)

    def _run(self, *command: str) -> None:
        did = "made" if "venv" in command else "synced"
        self.commands.append(did)
        (self.place / "bin").mkdir(parents=True, exist_ok=True)
        # uv puts no program back that an installed package has lost.
        for program in ("python", "ministack") if did == "made" else ():
            (self.place / "bin" / program).touch()

    def make(self) -> list[str]:
        self.commands.clear()
        assert self.setup.main(["emulator"]) == 0
        return list(self.commands)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    spec = importlib.util.spec_from_file_location("setup_under_test", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return Checkout(tmp_path, module)


def test_an_environment_is_made_once(checkout: Checkout) -> None:
    assert checkout.make() == ["made", "synced"]
    assert checkout.make() == []


def test_a_new_lock_brings_it_up_to_date(checkout: Checkout) -> None:
    checkout.make()
    (checkout.requirements / "emulator.txt").write_text("ministack==2\n")
    assert checkout.make() == ["synced"]


def _lose_a_program(checkout: Checkout) -> None:
    (checkout.place / "bin" / "ministack").unlink()


def _be_interrupted(checkout: Checkout) -> None:
    (checkout.setup.STAMPS / "emulator").unlink()


@pytest.mark.parametrize("happen", [_lose_a_program, _be_interrupted])
def test_one_that_is_only_half_there_is_made_anew(checkout: Checkout, happen: Callable[[Checkout], None]) -> None:
    checkout.make()
    happen(checkout)
    assert checkout.make() == ["made", "synced"]
    assert checkout.make() == []

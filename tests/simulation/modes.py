"""Which fleets a run is about: one mode throughout, or fleets that are redeployed from one to the other meanwhile."""

from typing import Literal, get_args

from streamlease.model import LeaseMode
from tests.simulation.draw import scenario
from tests.simulation.scenario import Scenario

type Mode = Literal["connection", "worker", "changing"]
MODES: tuple[Mode, ...] = get_args(Mode.__value__)


def mode_of(seed: int, asked: Mode | None) -> Mode:
    """As asked for, or each in its turn."""
    return asked or MODES[seed % len(MODES)]


def scenario_of(seed: int, mode: Mode) -> Scenario:
    return scenario(seed, None if mode == "changing" else LeaseMode(mode))

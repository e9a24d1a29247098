"""A short run of `make chaos` in each mode, and what its command line says."""

import json
import sys

import pytest

from streamlease.model import LeaseMode
from tests.chaos import chaos
from tests.chaos.arena import Arena
from tests.chaos.run import play

FAULTS = 6
"""In each mode."""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a full disk is made by prlimit")
@pytest.mark.chaos
@pytest.mark.e2e
@pytest.mark.emulator
@pytest.mark.xdist_group("chaos")
@pytest.mark.timeout(240)
@pytest.mark.parametrize("mode", list(LeaseMode))
def test_whatever_befalls_real_workers_nothing_overlaps_and_nothing_is_missing(
    place: Arena, mode: LeaseMode, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        outcome = play(place, mode, faults=FAULTS, seed=1, workers=3, connections=12, say=lambda line: None)
    assert outcome.violations == ()
    said = chaos.line([outcome], seed=1, took_s=1.0)
    assert (said["overlaps"], said["missing"], said["violations"]) == (0, 0, 0)
    assert said["faults"] == sum(outcome.hits.values()) >= FAULTS
    assert json.dumps(said)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--faults", "1"], "--faults is 1: say 2 or more"),
        (["--faults", "many"], "invalid int value: 'many'"),
        (["--mode", "none"], "invalid choice: 'none'"),
        (["--workers", "1"], "--workers is 2 to 8"),
        (["--seed", "-1"], "--seed is -1: say 0 or more"),
    ],
)
def test_arguments_that_cannot_be_meant_are_refused_with_exit_code_2(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        chaos.main(arguments)
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err

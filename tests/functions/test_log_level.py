"""What is wrong with a function's settings is a sentence in its log."""

import os
import subprocess
import sys

import pytest

from tests.template.document import ROOT


@pytest.mark.parametrize("name", ["stream", "reconcile"])
def test_a_log_level_that_is_none_is_one_clear_sentence(name: str) -> None:
    environment = {**os.environ, "POWERTOOLS_LOG_LEVEL": "LOUD"}
    command = [sys.executable, "-c", f"import functions.{name}.app"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    last = done.stderr.splitlines()[-1]
    assert "POWERTOOLS_LOG_LEVEL is 'LOUD'; it must be one of DEBUG, INFO, WARNING, ERROR, CRITICAL" in last

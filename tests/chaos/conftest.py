"""One deployed system for all chaos tests of a process."""

import sys
from collections.abc import Iterator

import pytest

from streamlease_cli.local.progress import PlainLines
from tests.chaos.arena import Arena, arena


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    with arena(tmp_path_factory.mktemp("chaos"), PlainLines(sys.stderr)) as found:
        yield found

"""Each test of the contract runs on every store there is: one emulator and one dynalite for the whole run."""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamlease_cli.local.checkout import find_checkout
from tests.contract.stores import Store, dynalite, emulator, has_dynalite, in_memory, on_endpoint

ENDPOINT = os.environ.get("STREAMLEASE_TEST_ENDPOINT")


# A group is one process of a parallel run, so that each server is started once.
MEMORY = pytest.param("memory", marks=pytest.mark.xdist_group("memory"))
EMULATOR = pytest.param("emulator", marks=[pytest.mark.emulator, pytest.mark.xdist_group("emulator")])
DYNALITE = pytest.param("dynalite", marks=[pytest.mark.dynalite, pytest.mark.xdist_group("dynalite")])
GIVEN = pytest.param("endpoint", marks=[pytest.mark.endpoint, pytest.mark.xdist_group("endpoint")])
IF_GIVEN = [GIVEN] if ENDPOINT else []


@pytest.fixture(params=[MEMORY, EMULATOR, DYNALITE, *IF_GIVEN])
def store(request: pytest.FixtureRequest) -> Store:
    """Each of them."""
    return _started(request)


@pytest.fixture(params=[MEMORY, EMULATOR, *IF_GIVEN])
def batching_store(request: pytest.FixtureRequest) -> Store:
    """Each that knows batches: dynalite has no PartiQL."""
    return _started(request)


@pytest.fixture(params=[EMULATOR, DYNALITE, *IF_GIVEN])
def remote_store(request: pytest.FixtureRequest) -> Store:
    """Each that is behind the executor."""
    return _started(request)


@pytest.fixture(params=[EMULATOR, *IF_GIVEN])
def whole_store(request: pytest.FixtureRequest) -> Store:
    """Each that is behind the executor and has batches, a queue and consumed capacity."""
    return _started(request)


def _started(request: pytest.FixtureRequest) -> Store:
    found: Store = request.getfixturevalue(f"{request.param}_store")
    return found


@pytest.fixture
def fresh() -> str:
    """An id that no other test uses, and that no ASCII-only code survives."""
    return f"feed/ü☃𝄞#{uuid.uuid4().hex}"


@pytest.fixture(scope="session")
def memory_store() -> Store:
    return in_memory()


@pytest.fixture(scope="session")
def emulator_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with emulator(_log(tmp_path_factory, "emulator")) as store:
        yield store


@pytest.fixture(scope="session")
def dynalite_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    if not has_dynalite(find_checkout()):
        pytest.skip("dynalite is not here: install Node.js 18 or newer and run `make setup`")
    with dynalite(_log(tmp_path_factory, "dynalite")) as store:
        yield store


@pytest.fixture(scope="session")
def endpoint_store() -> Iterator[Store]:
    assert ENDPOINT
    with on_endpoint("endpoint", ENDPOINT) as store:
        yield store


def _log(factory: pytest.TempPathFactory, name: str) -> Path:
    return factory.mktemp(name) / "log"

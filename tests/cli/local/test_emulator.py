"""The embedded AWS as a process: what starting it gives, and what ending it leaves."""

import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamlease_cli.local.checkout import Checkout, find_checkout
from streamlease_cli.local.emulator import DIRECT, Emulator, start_emulator
from streamlease_cli.local.fault import LocalFault
from streamlease_cli.local.process import is_open

pytestmark = pytest.mark.emulator


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this process, and what it starts, makes its temporary folders."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def emulator(temporary: Path, tmp_path: Path) -> Iterator[Emulator]:
    with start_emulator(find_checkout(), tmp_path / "log") as emulator:
        yield emulator


def test_it_answers_aws_calls_on_loopback_and_leaves_nothing(temporary: Path, tmp_path: Path) -> None:
    with start_emulator(find_checkout(), tmp_path / "log") as emulator:
        emulator.process.wait_until(emulator.is_healthy, 60)
        assert list(temporary.iterdir())
        queues = emulator.session().client("sqs", endpoint_url=emulator.endpoint, config=DIRECT)
        assert queues.create_queue(QueueName="q")["QueueUrl"].startswith(f"http://127.0.0.1:{emulator.port}/")
    assert not emulator.is_healthy()
    assert not is_open(emulator.port)
    assert list(temporary.iterdir()) == []


def test_the_callers_own_account_is_out_of_reach(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("AWS_PROFILE", "production"),
        ("AWS_ACCESS_KEY_ID", "real"),
        ("AWS_ENDPOINT_URL_SQS", "http://127.0.0.1:1"),
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:1"),
        ("HTTP_PROXY", "http://127.0.0.1:1"),
    ):
        monkeypatch.setenv(name, value)
    queues = emulator.session().client("sqs", endpoint_url=emulator.endpoint, config=DIRECT)
    assert "QueueUrls" in queues.list_queues()
    inherited = emulator.client_environment()
    assert inherited["AWS_ACCESS_KEY_ID"] == "local"
    assert inherited["AWS_ENDPOINT_URL"] == emulator.endpoint
    assert not {"AWS_PROFILE", "AWS_ENDPOINT_URL_SQS"} & inherited.keys()


def test_a_taken_port_is_refused_by_name(emulator: Emulator, tmp_path: Path) -> None:
    with pytest.raises(LocalFault, match=f"port {emulator.port} is taken"):
        start_emulator(find_checkout(), tmp_path / "other.log", port=emulator.port)


def test_an_environment_that_was_never_made_names_the_command_that_makes_it(tmp_path: Path) -> None:
    with pytest.raises(LocalFault, match="run `make setup`"):
        start_emulator(Checkout(tmp_path), tmp_path / "log")


OWNER = """
import sys, tempfile
from pathlib import Path
from streamlease_cli.local.checkout import find_checkout
from streamlease_cli.local.emulator import start_emulator
tempfile.tempdir = sys.argv[1]
emulator = start_emulator(find_checkout(), Path(sys.argv[2]))
print(emulator.port, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_its_owner(temporary: Path, tmp_path: Path, number: signal.Signals) -> None:
    arguments = [sys.executable, "-c", OWNER, str(temporary), str(tmp_path / "log")]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:  # noqa: S603 - this Python
        assert owner.stdout is not None
        port = int(owner.stdout.readline())
        assert is_open(port)
        owner.send_signal(number)
        owner.wait()
    while list(temporary.iterdir()):  # its guard removes its folder last
        pass
    assert not is_open(port)

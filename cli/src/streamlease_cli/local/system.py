"""The system but for its workers: the embedded AWS with this checkout's stack in it, and how to work with it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, time

from streamlease import settings
from streamlease.model import LeaseMode
from streamlease.timing import Timing
from streamlease_cli.aws import IMPATIENCE, PATIENCE, Aws
from streamlease_cli.local.build import build
from streamlease_cli.local.checkout import Checkout
from streamlease_cli.local.deploy import Stack, deploy
from streamlease_cli.local.emulator import Emulator, start_emulator
from streamlease_cli.local.progress import Progress
from streamlease_cli.session import Session

STACK = "local"
_SHARDS = 4
"""More than one, so that everything is as it would be, and few, since each sweep asks for each of them."""
_STOP_TIMEOUT_S = 15
"""ECS gives 120 s. Here a person waits; what is not flushed by then is released as it is."""


@dataclass(frozen=True, slots=True)
class Leases:
    """How the stack's leases are kept."""

    mode: LeaseMode
    timing: Timing

    def parameters(self) -> dict[str, str]:
        """Of the template."""
        return {
            "LeaseMode": self.mode.value,
            "HeartbeatMs": str(self.timing.heartbeat_ms),
            "LeaseMs": str(self.timing.lease_ms),
        }

    def __str__(self) -> str:
        heartbeat_s, lease_s = self.timing.heartbeat_ms / 1000, self.timing.lease_ms / 1000
        return f"{self.mode.value} mode, heartbeat {heartbeat_s:g} s, lease {lease_s:g} s"


@dataclass(frozen=True, slots=True)
class System:
    """A deployed stack in a running emulator."""

    emulator: Emulator
    stack: Stack

    def worker_environment(self, *, sink: str, capacity: int) -> dict[str, str]:
        """Of workers that belong to one deployment, of now."""
        return {
            **self.emulator.client_environment(),
            **self.stack.settings(),
            "STREAMLEASE_SINK": sink,
            "STREAMLEASE_CAPACITY": str(capacity),
            "STREAMLEASE_ALLOW_ADDRESSES": "loopback",
            "STREAMLEASE_GENERATION": str(int(time())),
            "STREAMLEASE_STOP_TIMEOUT_S": str(_STOP_TIMEOUT_S),
        }

    def session(self, *, patient: bool = True) -> Session:
        """To work with it as the command line does; not `patient`: what is not answered at once has no answer. Raises
        Misconfigured where the stack's outputs are not whole."""
        resolved = settings.settings(self.stack.settings())
        aws = Aws(self.emulator.session(), self.emulator.endpoint, PATIENCE if patient else IMPATIENCE)
        return Session(resolved, aws.executor(resolved).perform, aws.caller, "the local system")


@contextmanager
def deployed(
    checkout: Checkout,
    folder: Path,
    leases: Leases,
    shown: Progress,
    *,
    port: int | None = None,
    remove: Sequence[Path] = (),
) -> Iterator[System]:
    """Builds the checkout's template and deploys it into an emulator of its own, which ends with this.

    `folder` takes the logs; `remove` are files that go when the emulator does. Raises LocalFault.
    """
    built = build(checkout, folder / "build.log", shown.say)
    said = "built before, nothing has changed since" if built.reused else f"sam build took {built.took_s:.1f} s"
    shown.say(f"template.yaml and functions: {said}")
    began_s = monotonic()
    shown.say("the embedded AWS starts")
    with start_emulator(checkout, folder / "aws.log", port=port, remove=remove) as emulator:
        shown.say(f"the embedded AWS answers at {emulator.endpoint} ({monotonic() - began_s:.1f} s)")
        began_s = monotonic()
        shown.say("sam deploy: makes the tables, the queues and the functions, some ten seconds")
        parameters = {**leases.parameters(), "Shards": str(_SHARDS)}
        stack = deploy(checkout, built, emulator, STACK, parameters, folder / "deploy.log")
        shown.say(f"sam deploy: stack {STACK!r}, {leases} ({monotonic() - began_s:.1f} s)")
        yield System(emulator, stack)

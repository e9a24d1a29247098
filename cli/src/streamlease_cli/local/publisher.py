"""The owner's side of `publish`: starts it, reads what it tells, stops it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from streamlease_cli.local.checkout import Checkout, clean_environment
from streamlease_cli.local.fault import LocalFault
from streamlease_cli.local.process import Command, Process
from streamlease_cli.local.relay import Relay

_SCRIPT = Path(__file__).with_name("publish.py")
_READY_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class Published:
    """Notes so far: stored by the relay (it said so), refused by it, and not yet answered."""

    stored: int = 0
    refused: int = 0
    unanswered: int = 0


@dataclass(frozen=True, slots=True)
class Publisher:
    """A running publisher. `feeds` are its authors' public keys, one for each feed."""

    process: Process
    feeds: tuple[str, ...]

    def published(self) -> Published:
        """As of its last word, at most half a second old. Raises LocalFault if it has failed."""
        code = self.process.poll()
        if code not in (None, 0):
            raise LocalFault(f"the publisher ended with {code}: {self.process.last_words()}")
        last = _said(self.process.log)[-1]
        return Published(last["published"], last["refused"], last["unanswered"])

    def stop(self) -> Published:
        """Ends it once the relay has answered for every note, and gives the final numbers."""
        self.process.stop(within_s=70.0)
        return self.published()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop()


def start_publisher(checkout: Checkout, relay: Relay, feeds: int, rate: float, log: Path) -> Publisher:
    """Publishes `rate` notes a second in all, over `feeds` authors in turn. Returns once it has begun.

    Raises LocalFault if it cannot reach the relay.
    """
    python = checkout.tool("relay", "python")
    # Isolated: this folder's modules are not to be found by it.
    arguments = [str(python), "-I", str(_SCRIPT), "--url", relay.url, "--feeds", str(feeds), "--rate", str(rate)]
    process = Process(Command("the publisher", arguments, clean_environment({}), log.parent, log, grace_s=2.0))
    try:
        process.wait_until(lambda: bool(_said(log)), _READY_WITHIN_S)
    except BaseException:
        process.stop()
        raise
    return Publisher(process, tuple(_said(log)[0]["feeds"]))


def _said(log: Path) -> list[dict[str, Any]]:
    lines = log.read_text().splitlines(keepends=True)
    # What has no end of line is still being written.
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]

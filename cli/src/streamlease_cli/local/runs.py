"""What a run keeps on disk: its folder of logs, and the file by which other commands find the running system."""

import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from streamlease_cli.configuration import LOCAL_FILE
from streamlease_cli.local.checkout import REGION, Checkout
from streamlease_cli.local.fault import LocalFault

_KEPT = 20


def new_run(checkout: Checkout) -> Path:
    """A new folder for one run's logs and records. Of earlier ones the newest twenty are kept."""
    runs = checkout.runs
    runs.mkdir(parents=True, exist_ok=True)
    for old in sorted(path for path in runs.iterdir() if path.is_dir())[:-_KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    folder = runs / time.strftime(f"%Y%m%d-%H%M%S-{os.getpid()}", time.gmtime())
    folder.mkdir()
    return folder


@contextmanager
def only_system(checkout: Checkout) -> Iterator[Path]:
    """Holds this checkout's place for a system that other commands find, and gives the file to describe it in.

    Raises LocalFault while another process holds it. The place frees itself when its holder ends, however that is.
    """
    with place_if_free(checkout) as file:
        if file is None:
            raise LocalFault(
                f"a local system already runs in {checkout.root}: use that one, or end it with Ctrl-C first"
            )
        yield file


@contextmanager
def place_if_free(checkout: Checkout) -> Iterator[Path | None]:
    """As `only_system`; None, and nothing held, while another process holds it."""
    file = checkout.root / LOCAL_FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        file.unlink(missing_ok=True)  # of a holder that was killed
        try:
            yield file
        finally:
            file.unlink(missing_ok=True)


def describe(file: Path, endpoint: str, stack: str, outputs: Mapping[str, str]) -> None:
    """Says in `file` how to reach the system: whole or not at all."""
    unfinished = file.with_suffix(".new")
    fields = {"endpoint_url": endpoint, "region": REGION, "stack": stack, "outputs": dict(outputs)}
    unfinished.write_text(json.dumps(fields, indent=2) + "\n")
    unfinished.replace(file)

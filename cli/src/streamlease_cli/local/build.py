"""`sam build` of this checkout, kept by what went into it: the same sources are built once."""

import fcntl
import hashlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from streamlease_cli.local.checkout import Checkout, clean_environment
from streamlease_cli.local.fault import LocalFault
from streamlease_cli.local.process import Command, run

# Everything that `sam build` reads. The worker runs from the checkout, not from the stack.
_INPUTS = ("template.yaml", "functions", "layers", "requirements/sam.txt")
_MADE = {"__pycache__", ".layer", "build", "dist"}
_KEPT = 3
_LISTING = "listing"
_WITHIN_S = 300.0


@dataclass(frozen=True, slots=True)
class Build:
    """A finished build. `template` is what `sam deploy` takes; `reused` says that nothing had to be built."""

    template: Path
    reused: bool
    took_s: float


def build(checkout: Checkout, log: Path, say: Callable[[str], None] = lambda _: None) -> Build:
    """The build of the checkout as it is now: an earlier one of the same content, or a new one.

    An earlier one of which anything has gone or has another size is made anew. `say` is told what is waited for. Raises
    LocalFault, with what SAM said, where it fails. An interrupted build leaves nothing that looks finished.
    """
    began_s = time.monotonic()
    sam = checkout.tool("sam", "sam")
    place = checkout.local / "sam"
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w") as lock:
        _take(lock, say)  # two runs at once build once
        finished = place / content_hash(checkout.root)
        reused = _is_whole(finished)
        if not reused:
            if finished.exists():
                say(f"the build in {finished} is damaged, and is made anew")
                shutil.rmtree(finished)
            unfinished = place / "unfinished"
            shutil.rmtree(unfinished, ignore_errors=True)
            say(f"sam build: packs the functions and their library, minutes where nothing is cached (log: {log})")
            run(_command(checkout, sam, unfinished / "build", log), _WITHIN_S, say)
            (unfinished / _LISTING).write_text(_listing(unfinished / "build"))
            unfinished.rename(finished)
            _prune(place, finished)
    return Build(finished / "build" / "template.yaml", reused, time.monotonic() - began_s)


def _take(lock: IO[str], say: Callable[[str], None]) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say("waiting for another run's sam build")
        fcntl.flock(lock, fcntl.LOCK_EX)


def _is_whole(finished: Path) -> bool:
    try:
        return (finished / _LISTING).read_text() == _listing(finished / "build")
    except OSError:
        return False


def _listing(built: Path) -> str:
    """Every file of a build with its size. Raises OSError."""
    files = sorted(folder / file for folder, _, names in built.walk() for file in names)
    return "".join(f"{file.stat().st_size} {file.relative_to(built)}\n" for file in files)


def content_hash(root: Path) -> str:
    """Names the content of everything a build reads; what a build or an import makes there does not count.

    Raises LocalFault where there is no template.
    """
    if not (root / "template.yaml").is_file():
        raise LocalFault(f"{root} has no template.yaml to build: is the checkout complete?")
    digest = hashlib.sha256()
    for path in sorted(_files(root)):
        digest.update(f"{path.relative_to(root)}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _files(root: Path) -> Iterator[Path]:
    for name in _INPUTS:
        top = root / name
        if top.is_file():
            yield top
        for folder, folders, files in top.walk():
            folders[:] = [inner for inner in folders if inner not in _MADE and not inner.endswith(".egg-info")]
            yield from (folder / file for file in files)


def _command(checkout: Checkout, sam: Path, into: Path, log: Path) -> Command:
    # Its own python3.13 must be the first on PATH: SAM and the layer's Makefile build with that one.
    scratch = Path(tempfile.mkdtemp(prefix="streamlease-sam-"))  # where SAM and pip leave folders
    more = {"SAM_CLI_TELEMETRY": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "TMPDIR": str(scratch)}
    environment = clean_environment(more)
    environment["PATH"] = f"{sam.parent}:{environment.get('PATH', '')}"
    arguments = [str(sam), "build", "--template-file", str(checkout.root / "template.yaml"), "--build-dir", str(into)]
    # Not SAM's own cache, which overlooks a changed library under an unchanged requirements file.
    arguments += ["--no-cached", "--parallel"]
    return Command("sam build", arguments, environment, checkout.root, log, remove=[scratch])


def _prune(place: Path, finished: Path) -> None:
    builds = sorted((path for path in place.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime)
    for old in builds[:-_KEPT]:
        if old != finished:
            shutil.rmtree(old, ignore_errors=True)

#!/usr/bin/env python3
"""Makes the environments the project runs in, and does nothing where they are up to date.

Usage: python3 scripts/setup.py [main|emulator|relay|sam|dynalite ...]   (all of them when none is named)
       python3 scripts/setup.py bench|mutants                            (what the benches, and `make mutants`, need)
       python3 scripts/setup.py lock [--upgrade]                        (renew the locks they are made from)

Needs only Python 3.9 and the registries. Every environment is known by a hash of what it is made from; the hash is
written last, so an interrupted run is simply run again. One run at a time, by a lock on `.local/setup.lock`.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Iterator

ROOT = Path(__file__).resolve().parent.parent
LOCAL = ROOT / ".local"
STAMPS = LOCAL / "stamps"
REQUIREMENTS = ROOT / "requirements"
PYTHON_VERSION = (ROOT / ".python-version").read_text().strip()

PACKAGES = ("layers/streamlease", "worker", "cli")
ENVIRONMENTS = {
    "main": ROOT / ".venv",
    "emulator": LOCAL / "envs/emulator",
    "relay": LOCAL / "envs/relay",
    "sam": LOCAL / "envs/sam",
    "bench": LOCAL / "envs/bench",
    "mutants": LOCAL / "envs/mutants",
}
ON_DEMAND = ("bench", "mutants")
"""Made only where they are named: nothing but the benches and `make mutants` needs them."""
# What the project runs of each: an environment without it is no environment, whatever its stamp says.
PROGRAMS = {
    "main": ("python", "streamlease", "pytest"),
    "emulator": ("python", "ministack"),
    "relay": ("python", "nostr-relay"),
    "sam": ("python", "sam", "cfn-lint"),
    "bench": ("python",),
    "mutants": ("python", "mutmut"),
}
DYNALITE = "dynalite"
LOCKS = ("main", "worker", "build", "emulator", "relay", "sam", "bench", "mutants", "uv")


class SetupError(Exception):
    """What is missing and what to do, in one sentence."""


def main(names: list[str]) -> int:
    if names in (["lock"], ["lock", "--upgrade"]):
        try:
            lock(upgrade="--upgrade" in names)
        except SetupError as error:
            print(f"setup: {error}", file=sys.stderr)
            return 1
        return 0
    known = [*ENVIRONMENTS, DYNALITE]
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"setup: no environment is called {unknown[0]}; there are {', '.join(known)}.", file=sys.stderr)
        return 2
    try:
        for name in names or [name for name in known if name not in ON_DEMAND]:
            if not is_current(name):
                with one_setup_at_a_time():
                    if not is_current(name):
                        make(name)
    except SetupError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("setup: interrupted; run it again to finish.", file=sys.stderr)
        return 130
    return 0


def make(name: str) -> None:
    say(f"{name} ...")
    began_s = time.monotonic()
    fingerprint = fingerprint_of(name)  # before the work: what changes meanwhile counts as not done
    stamp = STAMPS / name
    # Of one that was interrupted, or that lost a program, uv would take what is half there for installed.
    whole = stamp.exists() and all(place.exists() for place in programs_of(name))
    stamp.unlink(missing_ok=True)
    if name == DYNALITE:
        if not make_dynalite():
            return
    else:
        make_environment(name, afresh=not whole)
    STAMPS.mkdir(parents=True, exist_ok=True)
    unfinished = stamp.with_suffix(".new")
    unfinished.write_text(fingerprint)
    unfinished.replace(stamp)
    say(f"{name} ready in {time.monotonic() - began_s:.1f} s")


def is_current(name: str) -> bool:
    """True if the environment was finished from the very inputs that are there now."""
    try:
        return all(place.exists() for place in programs_of(name)) and (STAMPS / name).read_text() == fingerprint_of(
            name
        )
    except FileNotFoundError:
        return False


def fingerprint_of(name: str) -> str:
    inputs = [Path(__file__)]
    if name == DYNALITE:
        inputs += [REQUIREMENTS / "dynalite/package.json", REQUIREMENTS / "dynalite/package-lock.json"]
    else:
        inputs += [REQUIREMENTS / f"{name}.txt", ROOT / ".python-version"]
    if name == "main":
        inputs += [ROOT / package / "pyproject.toml" for package in PACKAGES]
    digest = hashlib.sha256(str(ROOT).encode())  # an environment that was moved with its folder no longer works
    for path in inputs:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def make_environment(name: str, *, afresh: bool) -> None:
    place = ENVIRONMENTS[name]
    uv = find_uv()
    if afresh or not works(str(python_of(name))):
        run(uv, "venv", "--quiet", "--clear", "--python", find_python(uv), str(place))
    requirements = str(REQUIREMENTS / f"{name}.txt")
    run(uv, "pip", "sync", "--quiet", "--require-hashes", "--python", str(python_of(name)), requirements)
    if name == "main":
        # No dependencies: the lock has them. No isolation: the build backend is in the lock too.
        editable = [part for package in PACKAGES for part in ("--editable", str(ROOT / package))]
        flags = ("--quiet", "--no-deps", "--no-build-isolation", "--python", str(python_of(name)))
        run(uv, "pip", "install", *flags, *editable)


def make_dynalite() -> bool:
    """False, with a sentence, where there is no npm: only the contract tests on dynalite need it, and they skip."""
    npm = shutil.which("npm")
    if npm is None:
        say("dynalite left out: no npm on PATH; install Node.js 18 or newer to run the contract tests on dynalite too.")
        return False
    place = LOCAL / "dynalite"
    place.mkdir(parents=True, exist_ok=True)
    for source in (REQUIREMENTS / "dynalite").iterdir():
        shutil.copy(source, place / source.name)
    # No install scripts: the one native module is only for databases on disk, and ships built.
    run(npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error", "--prefix", str(place))
    return True


def lock(upgrade: bool) -> None:
    """Renews requirements/*.txt, the layer's constraints and dynalite's lock. No file of them names a registry."""
    uv = find_uv()
    newer = ("--upgrade",) if upgrade else ()
    flags = ("--quiet", "--python", find_python(uv), "--no-header", "--no-annotate", "--no-emit-index-url")
    for name in LOCKS:
        # Universal: one lock for every platform. Several are constrained by main.txt, so main comes first.
        source, target = f"requirements/{name}.in", f"requirements/{name}.txt"
        run(uv, "pip", "compile", *flags, "--universal", "--generate-hashes", *newer, source, "-o", target)
        say(target)
    # All that the layer installs besides the package itself: its Makefile takes these by hash, the package alone.
    target = "layers/streamlease/constraints.txt"
    pinned = ("--universal", "--generate-hashes", "--constraint", "requirements/main.txt", "--upgrade")
    run(uv, "pip", "compile", *flags, *pinned, "layers/streamlease/pyproject.toml", "-o", target)
    say(target)
    npm = shutil.which("npm")
    if npm is None:
        say("dynalite's lock left as it is: no npm on PATH.")
        return
    place = ("--prefix", str(REQUIREMENTS / "dynalite"))
    quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error")
    run(npm, "install", "--package-lock-only", "--omit-lockfile-registry-resolved", *quiet, *place)
    say("requirements/dynalite/package-lock.json")


def programs_of(name: str) -> list[Path]:
    if name == DYNALITE:
        return [LOCAL / "dynalite/node_modules/.bin/dynalite"]
    return [ENVIRONMENTS[name] / "bin" / program for program in PROGRAMS[name]]


def python_of(name: str) -> Path:
    return ENVIRONMENTS[name] / "bin/python"


def find_uv() -> str:
    """uv from PATH, else the pinned one, fetched into `.local/uv` once."""
    found = shutil.which("uv")
    if found:
        return found
    place = LOCAL / "uv"
    uv = place / "bin/uv"
    if not uv.exists():
        say("no uv on PATH, fetching it ...")
        unfinished = LOCAL / "uv.new"
        shutil.rmtree(unfinished, ignore_errors=True)
        pinned = ("--quiet", "--disable-pip-version-check", "--require-hashes", "-r", str(REQUIREMENTS / "uv.txt"))
        # --target needs no ensurepip, which some distributions leave out of their python3.
        if works(sys.executable, "-m", "pip", "--version"):
            run(sys.executable, "-m", "pip", "install", *pinned, "--target", str(unfinished))
        elif works(sys.executable, "-m", "ensurepip", "--version"):
            run(sys.executable, "-m", "venv", str(LOCAL / "uv.pip"))
            run(str(LOCAL / "uv.pip/bin/python"), "-m", "pip", "install", *pinned, "--target", str(unfinished))
        else:
            raise SetupError(
                f"there is neither uv on PATH nor pip for {sys.executable}; install either (Debian: python3-pip)."
            )
        shutil.rmtree(place, ignore_errors=True)
        unfinished.rename(place)
    return str(uv)


def find_python(uv: str) -> str:
    """A Python of the project's version: named, on PATH, pyenv's, one uv knows, or one uv can fetch."""
    named = os.environ.get("STREAMLEASE_PYTHON")
    if named:
        if is_wanted(named):
            return named
        raise SetupError(f"STREAMLEASE_PYTHON={named} is not a working Python {PYTHON_VERSION}.")
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [shutil.which(f"python{PYTHON_VERSION}"), shutil.which("python3"), sys.executable]
    candidates += sorted(map(str, pyenv.glob(f"versions/{PYTHON_VERSION}*/bin/python")), reverse=True)
    for candidate in candidates:
        if candidate and is_wanted(candidate):
            return candidate
    environment = {**os.environ, "UV_PYTHON_INSTALL_DIR": str(LOCAL / "python")}
    for flags in (("--no-python-downloads",), ()):
        if flags == ():
            say(f"no Python {PYTHON_VERSION} here, fetching it ...")
            subprocess.run([uv, "python", "install", "--quiet", PYTHON_VERSION], env=environment, check=False)
        found = subprocess.run(
            [uv, "python", "find", "--no-project", "--no-python-downloads", PYTHON_VERSION],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        ).stdout.strip()
        if found and is_wanted(found):
            return found
    raise SetupError(
        f"Python {PYTHON_VERSION} was not found and could not be fetched; "
        f"install it, or set STREAMLEASE_PYTHON to its path, and run this again."
    )


def is_wanted(python: str) -> bool:
    # A version manager's shim may be on PATH and yet refuse to run, so ask it.
    return works(python, "-c", f"import sys; sys.exit('%d.%d' % sys.version_info[:2] != '{PYTHON_VERSION}')")


def works(*command: str) -> bool:
    if len(command) == 1:
        command = (*command, "--version")
    try:
        return subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False


def run(*command: str) -> None:
    environment = {**os.environ, "PIP_ROOT_USER_ACTION": "ignore"}
    done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, cwd=str(ROOT), env=environment)
    if done.returncode != 0:
        raise SetupError(f"`{' '.join(command)}` ended with {done.returncode}; what it printed above says why.")


@contextlib.contextmanager
def one_setup_at_a_time() -> Iterator[None]:
    LOCAL.mkdir(exist_ok=True)
    with (LOCAL / "setup.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another setup is running in this checkout, waiting for it ...")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def say(line: str) -> None:
    print(f"setup: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

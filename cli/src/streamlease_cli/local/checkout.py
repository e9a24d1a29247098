"""Where things are in a checkout of this project. All that a machine makes stays under its `.local/`."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from streamlease_cli.local.fault import LocalFault


@dataclass(frozen=True, slots=True)
class Checkout:
    """A checkout at `root`, and the tool environments that `make setup` put into it."""

    root: Path

    @property
    def local(self) -> Path:
        return self.root / ".local"

    @property
    def runs(self) -> Path:
        """Logs and records of each run, one folder a run."""
        return self.local / "run"

    def tool(self, environment: str, program: str) -> Path:
        """A program of one of the tool environments.

        Raises LocalFault where the environment has not been made.
        """
        place = self.local / "envs" / environment / "bin" / program
        if not place.exists():
            raise LocalFault(
                f"the {environment} environment has no {program} ({place} is missing): run `make setup` in {self.root}"
            )
        return place


def find_checkout() -> Checkout:
    """The checkout this code is installed from (it is installed editable), else the one the current folder is in.

    Raises LocalFault where there is none, as when the command was installed from a wheel elsewhere.
    """
    for start in (Path(__file__).resolve(), Path.cwd()):
        for folder in (start, *start.parents):
            if (folder / "requirements" / "emulator.txt").is_file() and (folder / "scripts" / "setup.py").is_file():
                return Checkout(folder)
    raise LocalFault(
        "the local system is built from a checkout of the project, and there is none here: "
        "clone the repository, run `make setup` in it, and start this from there"
    )


REGION = "eu-west-1"
_FOREIGN = ("AWS_", "STREAMLEASE_", "POWERTOOLS_", "SAM_CLI_", "PYTHON")


def clean_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """This process's environment without anybody's AWS account, other settings of ours, or Python paths, plus `extra`.

    Nothing the local system starts can reach a real account: credentials are dummies, and no profile is read.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    return {
        **kept,
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_REGION": REGION,
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
        "PYTHONUNBUFFERED": "1",
        **extra,
    }

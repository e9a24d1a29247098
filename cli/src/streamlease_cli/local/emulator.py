"""The embedded AWS: ministack, a process of this machine that speaks AWS's APIs and runs the deployed functions.

Its state lives in memory and ends with it. Functions run as subprocesses of its interpreter, in its process group, from
copies of their bundles under its own temporary folder; so its guard ends and removes them too.
"""

import http.client
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import boto3
import botocore.session
from botocore.config import Config

from streamlease_cli.local.checkout import REGION, Checkout, clean_environment
from streamlease_cli.local.fault import LocalFault
from streamlease_cli.local.process import Command, Process, free_port, is_open

_READY_WITHIN_S = 120.0
_KILLED_WITHIN_S = 60.0
"""With the removal of its folder: thousands of files, the functions' bundles, which take seconds on a busy disk."""
_HOST = "127.0.0.1"

DIRECT = Config(proxies={})  # past any proxy that the environment names


@dataclass(frozen=True, slots=True)
class Emulator:
    """A running embedded AWS. A context manager: leaving it ends it and removes its folder."""

    process: Process
    port: int

    @property
    def endpoint(self) -> str:
        return f"http://{_HOST}:{self.port}"

    def is_healthy(self) -> bool:
        """True if it answers its health check."""
        return self.process.poll() is None and _answers(self.port)

    def client_environment(self) -> dict[str, str]:
        """The environment of a process that is to use it: this one's, with no way to any other AWS."""
        return clean_environment({"AWS_ENDPOINT_URL": self.endpoint})

    def session(self) -> boto3.session.Session:
        """For clients in this process: `session().client(service, endpoint_url=endpoint, config=DIRECT)`.

        Blind to the caller's profile, region and credentials.
        """
        bare = botocore.session.Session(
            session_vars={
                "profile": (None, None, None, None),
                "config_file": (None, None, os.devnull, None),
                "credentials_file": (None, None, os.devnull, None),
            }
        )
        return boto3.session.Session(
            aws_access_key_id="local",
            aws_secret_access_key="local",  # noqa: S106 - it takes any
            region_name=REGION,
            botocore_session=bare,
        )

    def stop(self) -> None:
        # Not SIGTERM: it would wait for every idle connection of its clients, and has nothing to save.
        self.process.kill()
        self.process.wait(_KILLED_WITHIN_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start_emulator(checkout: Checkout, log: Path, port: int | None = None, remove: Sequence[Path] = ()) -> Emulator:
    """Starts it on loopback only, and returns once it answers (a third of a second).

    `remove` are files that mean nothing without it: they go when it ends, however that is.

    Raises LocalFault if the port is taken, or if it does not come up.
    """
    program = checkout.tool("emulator", "ministack")
    if port is not None and is_open(port):
        raise LocalFault(f"port {port} is taken, so the embedded AWS cannot have it: choose another, or none")
    chosen = port if port is not None else free_port()
    folder = Path(tempfile.mkdtemp(prefix="streamlease-aws-"))
    environment = clean_environment(
        {
            "GATEWAY_PORT": str(chosen),
            "BIND_HOST": _HOST,  # its default is every interface
            "MINISTACK_HOST": _HOST,  # what queue URLs say; its default, localhost, may mean IPv6 first
            "MINISTACK_REGION": REGION,
            "IOT_MTLS_ENABLED": "0",  # or it opens one more port
            "LAMBDA_EXECUTOR": "local",
            "PERSIST_STATE": "0",
            "S3_PERSIST": "0",
            "TMPDIR": str(folder),
            "STATE_DIR": str(folder / "state"),
            "S3_DATA_DIR": str(folder / "s3"),
        }
    )
    command = Command("the embedded AWS", [str(program)], environment, folder, log, remove=[folder, *remove])
    emulator = Emulator(Process(command), chosen)
    try:
        emulator.process.wait_until(lambda: _answers(emulator.port), _READY_WITHIN_S)
    except BaseException:
        emulator.stop()
        raise
    return emulator


def _answers(port: int) -> bool:
    # Not urllib: it would ask a proxy, where the environment names one.
    connection = http.client.HTTPConnection(_HOST, port, timeout=2)
    try:
        connection.request("GET", "/_ministack/health")
        return isinstance(json.load(connection.getresponse()).get("services"), dict)
    except (OSError, ValueError, http.client.HTTPException):
        return False
    finally:
        connection.close()

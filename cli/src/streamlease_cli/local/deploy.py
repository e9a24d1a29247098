"""`sam deploy` of a build into the embedded AWS, by the real SAM CLI, and what the stack then offers."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from streamlease_cli.local.build import Build
from streamlease_cli.local.checkout import REGION, Checkout, clean_environment
from streamlease_cli.local.emulator import DIRECT, Emulator
from streamlease_cli.local.process import Command, run

_WITHIN_S = 180.0

# Which output of the stack is which setting of a worker, a function, or the command line.
_SETTINGS = {
    "ConnectionsTable": "STREAMLEASE_CONNECTIONS_TABLE",
    "MembersTable": "STREAMLEASE_MEMBERS_TABLE",
    "WorkerItemsTable": "STREAMLEASE_WORKER_ITEMS_TABLE",
    "OffersQueueUrl": "STREAMLEASE_OFFERS_QUEUE_URL",
    "RecordsStream": "STREAMLEASE_RECORDS_STREAM",
    "LeaseMode": "STREAMLEASE_LEASE_MODE",
    "HeartbeatMs": "STREAMLEASE_HEARTBEAT_MS",
    "LeaseMs": "STREAMLEASE_LEASE_MS",
    "Shards": "STREAMLEASE_SHARDS",
}


@dataclass(frozen=True, slots=True)
class Stack:
    """A deployed stack: its name and its outputs as CloudFormation tells them."""

    name: str
    outputs: Mapping[str, str]

    def settings(self) -> dict[str, str]:
        """The `STREAMLEASE_*` environment of whatever is to work with this stack."""
        return {setting: self.outputs[output] for output, setting in _SETTINGS.items() if output in self.outputs}


def deploy(
    checkout: Checkout, built: Build, emulator: Emulator, name: str, parameters: Mapping[str, str], log: Path
) -> Stack:
    """Creates or updates the stack `name`. Raises LocalFault, with what SAM said, where that fails."""
    sam = checkout.tool("sam", "sam")
    # SAM waits this long between two looks; its default of 5 s is half of a local deployment.
    waiting = {"AWS_ENDPOINT_URL": emulator.endpoint, "SAM_CLI_TELEMETRY": "0", "SAM_CLI_POLL_DELAY": "0.1"}
    scratch = Path(tempfile.mkdtemp(prefix="streamlease-sam-"))  # where SAM leaves folders
    environment = clean_environment({**waiting, "TMPDIR": str(scratch)})
    arguments = [str(sam), "deploy", "--template-file", str(built.template), "--stack-name", name]
    arguments += ["--region", REGION, "--resolve-s3", "--capabilities", "CAPABILITY_IAM"]
    arguments += ["--no-confirm-changeset", "--no-fail-on-empty-changeset", "--no-progressbar"]
    if parameters:
        arguments += ["--parameter-overrides", *(f"{key}={value}" for key, value in parameters.items())]
    # In the build's folder there is no samconfig.toml, whose settings are for real accounts.
    run(Command("sam deploy", arguments, environment, built.template.parent, log, remove=[scratch]), _WITHIN_S)
    return Stack(name, _outputs(emulator, name))


def _outputs(emulator: Emulator, name: str) -> dict[str, str]:
    client = emulator.session().client("cloudformation", endpoint_url=emulator.endpoint, config=DIRECT)
    stack = client.describe_stacks(StackName=name)["Stacks"][0]
    return {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}

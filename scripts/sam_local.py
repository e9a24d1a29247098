"""Runs each function over its sample events in Lambda's own container image, against the embedded AWS.

Usage: .venv/bin/python scripts/sam_local.py      (`make sam-local` makes its environments first)

Every events/<folder of the function>/*.json goes through `sam local invoke`, with the environment that the deployed
function has. Exit code 1 if a function fails. Needs a container engine; where none answers it says so and exits 0.
The containers reach the embedded AWS over the host's network on Linux, through host.docker.internal elsewhere.
"""

import contextlib
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

import boto3
from types_boto3_cloudformation.client import CloudFormationClient
from types_boto3_lambda.client import LambdaClient

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENTS = ROOT / ".local/envs"
SAM = ENVIRONMENTS / "sam/bin/sam"
STACK = "sam-local"
REGION = "eu-west-1"
FUNCTIONS = {"stream": "StreamFunction", "reconcile": "ReconcileFunction"}
EMULATOR_READY_S = 30


def main() -> int:
    if not container_engine_answers():
        print(
            "sam-local skipped: `sam local invoke` needs a container engine, and none answers here "
            "(DOCKER_HOST or the default socket).\n"
            "`make test` runs the same events through the same handlers, in process and in the embedded AWS."
        )
        return 0
    events = sorted((folder, event) for folder in FUNCTIONS for event in (ROOT / "events" / folder).glob("*.json"))
    if not events:
        print("sam-local: there is no event under events/stream or events/reconcile.", file=sys.stderr)
        return 1
    sam("build")
    with tempfile.TemporaryDirectory(prefix="streamlease-sam-local-") as scratch, emulator(Path(scratch)) as port:
        endpoint = f"http://127.0.0.1:{port}"
        deploy(endpoint)
        variables = Path(scratch) / "variables.json"
        variables.write_text(json.dumps(deployed_variables(endpoint, port)))
        failed = [event for folder, event in events if not invoke(FUNCTIONS[folder], event, variables)]
    for event in failed:
        print(f"sam-local: {event.relative_to(ROOT)} failed, its output is above.", file=sys.stderr)
    print(f"sam-local: {len(events) - len(failed)} of {len(events)} events ran.")
    return 1 if failed else 0


def container_engine_answers() -> bool:
    """Asks in the way the SAM CLI itself would find the engine."""
    question = "import docker; docker.from_env().ping()"
    return subprocess.run([ENVIRONMENTS / "sam/bin/python", "-c", question], capture_output=True).returncode == 0


@contextlib.contextmanager
def emulator(scratch: Path) -> Iterator[int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    settings = {
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "IOT_MTLS_ENABLED": "0",
        "TMPDIR": str(scratch),
    }
    with (scratch / "emulator.log").open("w") as log:
        process = subprocess.Popen(
            [ENVIRONMENTS / "emulator/bin/ministack"],
            env={**os.environ, **settings},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until_ready(port, process, scratch / "emulator.log")
        yield port
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until_ready(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline_s = monotonic() + EMULATOR_READY_S
    while monotonic() < deadline_s and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/_ministack/health"):
            return
        sleep(0.1)
    raise SystemExit(f"sam-local: the embedded AWS did not start; it said:\n{log.read_text()}")


def sam(*arguments: str, endpoint: str | None = None, capture: bool = False) -> subprocess.CompletedProcess[str]:
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AWS_") or name == "AWS_CA_BUNDLE"},
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_DEFAULT_REGION": REGION,
        "PATH": f"{SAM.parent}{os.pathsep}{os.environ['PATH']}",  # sam build runs the python3.13 of PATH
        "SAM_CLI_TELEMETRY": "0",
    }
    if endpoint:
        environment["AWS_ENDPOINT_URL"] = endpoint
    # A configuration environment that nobody has: samconfig.toml speaks of stacks on AWS.
    command = [str(SAM), *arguments, "--config-env", "sam-local"]
    output = subprocess.PIPE if capture else None
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=output, text=True)
    if done.returncode != 0 and not capture:
        raise SystemExit(
            f"sam-local: `sam {arguments[0]}` ended with {done.returncode}; what it printed above says why."
        )
    return done


def deploy(endpoint: str) -> None:
    flags = ("--no-confirm-changeset", "--resolve-s3", "--capabilities", "CAPABILITY_IAM", "--no-progressbar")
    sam("deploy", "--stack-name", STACK, *flags, endpoint=endpoint)


def deployed_variables(endpoint: str, port: int) -> dict[str, dict[str, str]]:
    """The environment of the deployed functions by logical id, as `sam local invoke --env-vars` takes it."""
    session = boto3.Session("local", "local", region_name=REGION)
    cloudformation: CloudFormationClient = session.client("cloudformation", endpoint_url=endpoint)
    functions: LambdaClient = session.client("lambda", endpoint_url=endpoint)
    inside = "127.0.0.1" if platform.system() == "Linux" else "host.docker.internal"
    variables = {}
    for logical_id in FUNCTIONS.values():
        resource = cloudformation.describe_stack_resource(StackName=STACK, LogicalResourceId=logical_id)
        name = resource["StackResourceDetail"]["PhysicalResourceId"]
        configuration = functions.get_function_configuration(FunctionName=name)
        variables[logical_id] = {
            **configuration.get("Environment", {}).get("Variables", {}),
            "AWS_ENDPOINT_URL": f"http://{inside}:{port}",
        }
    return variables


def invoke(logical_id: str, event: Path, variables: Path) -> bool:
    """False if the function raised: Lambda then answers with an errorMessage, and SAM may exit with 0 all the same."""
    print(f"sam-local: {logical_id} {event.relative_to(ROOT)}", flush=True)
    network = ("--docker-network", "host") if platform.system() == "Linux" else ()
    flags = ("--event", str(event), "--env-vars", str(variables), *network)
    done = sam("local", "invoke", logical_id, *flags, capture=True)
    print(done.stdout, flush=True)
    return done.returncode == 0 and '"errorMessage"' not in done.stdout


if __name__ == "__main__":
    sys.exit(main())

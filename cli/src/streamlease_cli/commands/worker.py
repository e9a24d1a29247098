"""`streamlease worker`: what the container runs. Its settings are the environment's, or those of the stack named."""

import os

import click

from streamlease_cli.configuration import Deployment
from streamlease_cli.invocation import Invocation, pass_invocation, target_options
from streamlease_cli.output import note
from streamlease_cli.session import find_deployment


@click.command()
@click.option("--health", is_flag=True, help="Say whether the worker that runs beside this is well, by the exit code.")
@target_options
@pass_invocation
def worker(invocation: Invocation, *, health: bool) -> None:
    """Run one worker until SIGTERM, at which it gives up its connections and ends with 0.

    The container runs this, with all settings in its environment (docs/worker.md). Elsewhere, settings come from the
    stack named or from the local system, and the environment's own stand over them.

    \b
    Examples:
      streamlease worker
      streamlease worker --health
      STREAMLEASE_SINK=stdout streamlease worker --stack streamlease-dev
    """
    if health:
        from streamlease_worker.health import main as ask

        raise click.exceptions.Exit(ask())
    deployment = find_deployment(invocation.target)
    if deployment.local is not None:
        note(
            f"this worker joins the local system that runs in {deployment.local.file.parents[2]}: --stack NAME, or"
            " STREAMLEASE_* variables, for another"
        )
    os.environ.update(_environment(deployment))
    from streamlease_worker.main import main

    raise click.exceptions.Exit(main([]))


def _environment(deployment: Deployment) -> dict[str, str]:
    """What the worker reads, and what boto3 reads, which looks nowhere but at the process's own environment."""
    found = dict(deployment.environment)
    if deployment.region is not None:
        found["AWS_REGION"] = found["AWS_DEFAULT_REGION"] = deployment.region
    if deployment.profile is not None:
        found["AWS_PROFILE"] = deployment.profile
    if deployment.local is not None:
        found |= {
            "AWS_ENDPOINT_URL": deployment.local.endpoint_url,
            "AWS_ACCESS_KEY_ID": "local",
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }
    return found

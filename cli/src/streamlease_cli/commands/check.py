"""`streamlease check`: validate files and explain them, and try them where asked. Needs no AWS."""

import os
from collections.abc import Mapping, Sequence
from urllib.parse import parse_qsl, urlsplit

import click

from streamlease.feed import secrets
from streamlease.spec import ConnectionSpec, compile_spec, explain
from streamlease_cli import dialling
from streamlease_cli.documents import read_specs, wanted
from streamlease_cli.errors import BAD_INPUT, FAILED, BadInput
from streamlease_cli.invocation import Invocation, pass_invocation, printing_options
from streamlease_cli.output import clean, count, note, print_json
from streamlease_cli.redaction import without_credentials
from streamlease_worker.trial import Trial

_ENVIRONMENT = "env:"
_REFERENCES = (_ENVIRONMENT, "ssm:", "secretsmanager:")


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="FILE...")
@click.option("-R", "--recursive", is_flag=True, help="Folders within folders, too.")
@click.option(
    "--secrets",
    "on_missing",
    type=click.Choice(("warn", "error", "ignore")),
    default="warn",
    show_default=True,
    help="What an env: secret is that is not set here.",
)
@click.option("--dial", is_flag=True, help="Dial each connection once from here, and show the handshake.")
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(0, 300),
    default=5.0,
    show_default=True,
    help="With --dial: seconds to wait for a first message, once a connection is ready.",
)
@click.option("-q", "--quiet", is_flag=True, help="Say what is wrong, explain nothing.")
@printing_options
@pass_invocation
def check(
    invocation: Invocation,
    paths: tuple[str, ...],
    on_missing: str,
    *,
    recursive: bool,
    quiet: bool,
    dial: bool,
    wait_s: float,
) -> None:
    """Validate connection files, and explain what each connection will do. Works without AWS.

    FILE is a file, a folder, or - for standard input.

    \b
    Examples:
      streamlease check feeds.yaml
      streamlease check feeds/ --secrets error --quiet
      streamlease check feeds.yaml --dial
    """
    loaded = read_specs(paths, recursive=recursive)
    problems, warnings = list(loaded.problems), []
    for spec, where in loaded.specs:
        missing = [f"{where}: connection {spec.id!r}: {said}" for said in _missing(spec, os.environ)]
        warnings += [f"{where}: connection {spec.id!r}: {said}" for said in _as_written(spec.url)]
        if on_missing == "error":
            problems += missing
        elif on_missing == "warn":
            warnings += missing
    trials = _tried(loaded.specs, wait_s) if dial and not problems else []
    for (spec, where), trial in zip(loaded.specs, trials, strict=False):
        warnings += [f"{where}: connection {spec.id!r}: {said}" for said in dialling.warnings(trial)]
    failed = sum(not trial.streaming for trial in trials)
    if invocation.as_json:
        document: dict[str, object] = {
            "ok": not problems and not failed,
            "problems": problems,
            "warnings": warnings,
            "connections": [_fields(spec, where) for spec, where in loaded.specs],
        }
        if dial:
            document["dialled"] = [
                dialling.fields(spec.id, trial) for (spec, _), trial in zip(loaded.specs, trials, strict=False)
            ]
        print_json(document)
    else:
        if not quiet:
            _explain(loaded.specs, trials)
        for warning in warnings:
            note(clean(f"warning: {warning}"))
        for problem in problems:
            note(clean(problem))
    if problems:
        note(f"{count(len(problems), 'problem')}")
        raise click.exceptions.Exit(BAD_INPUT)
    if failed:
        note(f"{failed} of {count(len(trials), 'connection')} could not be opened")
        raise click.exceptions.Exit(FAILED)
    if not invocation.as_json:
        note(f"{count(len(loaded.specs), 'connection')}, {'all ready' if dial else 'nothing wrong'}")


def _tried(specs: Sequence[tuple[ConnectionSpec, str]], wait_s: float) -> list[Trial]:
    if len(specs) > dialling.MOST:
        raise BadInput(
            f"these are {len(specs)} connections, and --dial tries {dialling.MOST} at most: name a file with fewer"
        )
    return dialling.dial([spec for spec, _ in specs], os.environ, wait_s)


def _explain(specs: Sequence[tuple[ConnectionSpec, str]], trials: Sequence[Trial]) -> None:
    for number, (spec, where) in enumerate(specs):
        click.echo(clean(f"{spec.id} ({where})"))
        for line in explain(spec):
            click.echo(clean(f"  {line}"))
        if trials:
            for line in dialling.lines(trials[number]):
                click.echo(clean(f"  {line}"))


def _fields(spec: ConnectionSpec, where: str) -> Mapping[str, object]:
    one = wanted(spec, where)
    return {
        "connection_id": one.connection_id,
        "source": where,
        "upstream_url": without_credentials(one.upstream_url),
        "labels": dict(one.labels),
        "desired_state": one.desired_state.value if one.desired_state else None,
        "secrets": sorted(secrets.references(compile_spec(spec))),
        "explained": list(explain(spec)),
    }


def _as_written(url: str) -> list[str]:
    """A sentence for each part of a URL's query that looks like a reference to a secret and is none."""
    bare = [value for _, value in parse_qsl(urlsplit(url).query) if value.startswith(_REFERENCES)]
    return [f"its url sends {value!r} as it stands: for the secret of that name write {{{value}}}" for value in bare]


def _missing(spec: ConnectionSpec, environment: Mapping[str, str]) -> list[str]:
    """A sentence for each secret that would come from the environment and is not in this one."""
    found = sorted(secrets.references(compile_spec(spec)))
    return [
        str(secrets.missing(reference))
        for reference in found
        if reference.startswith(_ENVIRONMENT) and reference.removeprefix(_ENVIRONMENT) not in environment
    ]

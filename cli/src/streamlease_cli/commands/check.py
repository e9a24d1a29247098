"""`streamlease check`: validate files and explain them. Needs no AWS."""

import os
from collections.abc import Mapping, Sequence

import click

from streamlease.feed import secrets
from streamlease.spec import ConnectionSpec, compile_spec, explain
from streamlease_cli.documents import read_specs, wanted
from streamlease_cli.errors import BAD_INPUT
from streamlease_cli.invocation import Invocation, pass_invocation, printing_options
from streamlease_cli.output import clean, count, note, print_json
from streamlease_cli.redaction import without_credentials

_ENVIRONMENT = "env:"


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
@click.option("-q", "--quiet", is_flag=True, help="Say what is wrong, explain nothing.")
@printing_options
@pass_invocation
def check(invocation: Invocation, paths: tuple[str, ...], on_missing: str, *, recursive: bool, quiet: bool) -> None:
    """Validate connection files, and explain what each connection will do. Works without AWS.

    FILE is a file, a folder, or - for standard input.

    \b
    Examples:
      streamlease check feeds.yaml
      streamlease check feeds/ --secrets error --quiet
    """
    loaded = read_specs(paths, recursive=recursive)
    problems, warnings = list(loaded.problems), []
    for spec, where in loaded.specs:
        missing = [f"{where}: connection {spec.id!r}: {sentence}" for sentence in _missing(spec, os.environ)]
        if on_missing == "error":
            problems += missing
        elif on_missing == "warn":
            warnings += missing
    if invocation.as_json:
        print_json(
            {
                "ok": not problems,
                "problems": problems,
                "warnings": warnings,
                "connections": [_fields(spec, where) for spec, where in loaded.specs],
            }
        )
    else:
        if not quiet:
            _explain(loaded.specs)
        for warning in warnings:
            note(clean(f"warning: {warning}"))
        for problem in problems:
            note(clean(problem))
    if problems:
        note(f"{count(len(problems), 'problem')}")
        raise click.exceptions.Exit(BAD_INPUT)
    if not invocation.as_json:
        note(f"{count(len(loaded.specs), 'connection')}, nothing wrong")


def _explain(specs: Sequence[tuple[ConnectionSpec, str]]) -> None:
    for spec, where in specs:
        click.echo(clean(f"{spec.id} ({where})"))
        for line in explain(spec):
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


def _missing(spec: ConnectionSpec, environment: Mapping[str, str]) -> list[str]:
    """A sentence for each secret that would come from the environment and is not in this one."""
    found = sorted(secrets.references(compile_spec(spec)))
    return [
        str(secrets.missing(reference))
        for reference in found
        if reference.startswith(_ENVIRONMENT) and reference.removeprefix(_ENVIRONMENT) not in environment
    ]

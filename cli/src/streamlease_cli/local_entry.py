"""Hands a command over to the local system's own entry, imported only then: it is large, and not needed elsewhere."""

from collections.abc import Callable, Sequence
from importlib import import_module

import click


def hand_over(name: str, arguments: Sequence[str]) -> None:
    """Runs `streamlease_cli.local.<name>.main(arguments)`, and exits with the code it returns."""
    entry: Callable[[Sequence[str]], int] = import_module(f"streamlease_cli.local.{name}").main
    raise click.exceptions.Exit(entry(list(arguments)))

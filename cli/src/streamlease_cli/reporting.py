"""Turns whatever a command raises into one sentence on standard error and an exit code; with `--json`, also into an
object on standard output, so that a program that reads it is never left without an answer (decision 154)."""

import sys
import traceback
from collections.abc import Sequence
from typing import override

import click

from streamlease_cli.errors import ReportedInterruption, reported, sentence
from streamlease_cli.invocation import Invocation
from streamlease_cli.output import print_json

_ASKED = "streamlease.json"


class Reporting(click.Command):
    """A command, or as a base of `click.Group` all commands of a group, that shows no traceback unless asked to."""

    @override
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # Looked for here, since what cannot be parsed is an error before any option has been told to anybody.
        if ctx.parent is None:
            ctx.meta[_ASKED] = _asks_for_json(args)
        try:
            return super().parse_args(ctx, args)
        except click.ClickException as error:
            _tell(ctx, error)
            raise
        except KeyboardInterrupt as interrupt:
            raise _interrupted(ctx, interrupt) from None

    @override
    def invoke(self, ctx: click.Context) -> object:
        # Before anything runs: what a command is told, and finds out, is to be seen here, too.
        invocation = ctx.ensure_object(Invocation)
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except click.ClickException as error:
            _tell(ctx, error)
            raise
        except KeyboardInterrupt as interrupt:
            raise _interrupted(ctx, interrupt) from None
        except Exception as error:  # noqa: BLE001 - nobody else would turn it into a sentence
            if invocation.debug:
                traceback.print_exc(file=sys.stderr)
            told = reported(error, unreachable_hint=invocation.unreachable_hint)
            _tell(ctx, told)
            raise told from None


def _interrupted(ctx: click.Context, interrupt: KeyboardInterrupt) -> click.ClickException:
    told = ReportedInterruption(": ".join(("interrupted", *map(str, interrupt.args))))
    _tell(ctx, told)
    return told


def _asks_for_json(args: Sequence[str]) -> bool:
    options = args[: args.index("--")] if "--" in args else args
    return "--json" in options


def _tell(ctx: click.Context, error: click.ClickException) -> None:
    """Once, by the outermost command: an error passes through each of them."""
    if ctx.parent is not None or not ctx.meta.get(_ASKED):
        return
    print_json({"error": sentence(error.format_message()), "exit_code": error.exit_code})

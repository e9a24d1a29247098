"""Turns whatever a command raises into one sentence on standard error and an exit code."""

import sys
import traceback
from typing import override

import click

from streamlease_cli.errors import reported
from streamlease_cli.invocation import Invocation


class Reporting(click.Command):
    """A command, or as a base of `click.Group` all commands of a group, that shows no traceback unless asked to."""

    @override
    def invoke(self, ctx: click.Context) -> object:
        # Before anything runs: what a command is told, and finds out, is to be seen here, too.
        invocation = ctx.ensure_object(Invocation)
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception as error:  # noqa: BLE001 - nobody else would turn it into a sentence
            if invocation.debug:
                traceback.print_exc(file=sys.stderr)
            raise reported(error, unreachable_hint=invocation.unreachable_hint) from None

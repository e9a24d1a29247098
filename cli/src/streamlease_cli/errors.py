"""What the command line itself finds wrong, and the sentence and exit code of every error that may reach it."""

from typing import IO, Any, override

import click

from streamlease.errors import Malformed, StreamleaseError, Unreachable
from streamlease.settings import Misconfigured

FAILED = 1
"""It was tried and failed, in whole or in part."""
BAD_INPUT = 2
"""Usage, a file, a setting, or the name of a stack, profile or region cannot be right: nothing was done."""

INTERRUPTED = 130
"""Ctrl-C: what a shell says of a process that SIGINT ended."""


class BadInput(StreamleaseError):
    """What was asked for cannot be right; nothing was done. The text is one sentence that says what to do."""


class Failed(StreamleaseError):
    """It was tried and failed. The text is one sentence that says what to do."""


class ReportedFailure(click.ClickException):
    """A failure as a person reads it: one sentence on standard error."""

    exit_code = FAILED


class ReportedBadInput(click.ClickException):
    """Bad input as a person reads it: one sentence on standard error."""

    exit_code = BAD_INPUT


class ReportedInterruption(click.ClickException):
    """Ctrl-C, as a person reads it: how far it came, where that is known, and no error."""

    exit_code = INTERRUPTED

    @override
    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(self.format_message(), file=file, err=file is None)


def reported(error: Exception, *, unreachable_hint: str = "") -> click.ClickException:
    """`error` for a person. `unreachable_hint` follows the sentence of a service that gave no answer."""
    match error:
        case click.ClickException():
            return error
        case BadInput() | Misconfigured():
            return ReportedBadInput(sentence(error))
        case Unreachable():
            return ReportedFailure(sentence(error) + unreachable_hint)
        case StreamleaseError():
            return ReportedFailure(sentence(error))
        case OSError():
            named = f"{error.filename}: " if error.filename else ""
            return ReportedFailure(f"{named}{error.strerror or type(error).__name__}")
    return ReportedFailure(
        _of_boto(error)
        or f"this is a fault of streamlease itself ({type(error).__name__}: {sentence(error)}):"
        " run it again with --debug, and report what that prints"
    )


def stored_wrong(problem: Exception | None) -> str:
    """What stood in the way of one connection, as a sentence; of an item that cannot be read, also what to do."""
    if isinstance(problem, Malformed):
        return (
            f"{problem}: no release of this project wrote it so; mend that item in its table, or delete it with"
            " `streamlease rm --malformed ID`"
        )
    return str(problem)


def sentence(error: Exception | str) -> str:
    """The text of an error on one line."""
    return " ".join(str(error).split())


def _of_boto(error: Exception) -> str | None:
    # By name, so that an error that has nothing to do with AWS does not load the SDK.
    if not any(kind.__module__.startswith("botocore.") for kind in type(error).__mro__):
        return None
    from streamlease.dynamodb.faults import Place, of_error

    place = Place("a call", "AWS", "the action that was denied", None, "the region", "https://.amazonaws.com")
    return str(of_error(error, place))

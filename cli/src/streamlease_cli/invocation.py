"""What one run of the command is told before it does anything: where to work, how to print, and how to ask."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import click

from streamlease_cli import bulk
from streamlease_cli.configuration import Target
from streamlease_cli.interruption import Interruption
from streamlease_cli.session import Session, open_session

MOST_AT_ONCE = 32


@dataclass(slots=True)
class Invocation:
    """Filled in by the options that every command has; the rest is what a test puts in place of the outside."""

    stack: str | None = None
    region: str | None = None
    profile: str | None = None
    as_json: bool = False
    debug: bool = False
    open_session: Callable[[Target], Session] = open_session
    sleep: Callable[[float], None] = time.sleep
    monotonic_s: Callable[[], float] = time.monotonic
    interruption: Interruption = field(default_factory=Interruption)
    stdin_is_terminal: Callable[[], bool] = field(default=lambda: sys.stdin.isatty())
    _session: Session | None = field(default=None, init=False)

    @property
    def target(self) -> Target:
        return Target(self.stack, self.region, self.profile)

    def session(self) -> Session:
        """The system to work with, resolved at the first call. Raises BadInput, Misconfigured, Fault."""
        if self._session is None:
            self._session = self.open_session(self.target)
        return self._session

    def each[T, R](self, subjects: Iterable[T], act: Callable[[T], R], parallel: int) -> Iterator[bulk.Tried[T, R]]:
        """`bulk.each`, with this run's patience and interruption."""
        return bulk.each(subjects, act, parallel=parallel, sleep=self.sleep, is_interrupted=self.interruption)

    @property
    def unreachable_hint(self) -> str:
        """What to say beside a service that gave no answer."""
        deployment = self._session.deployment if self._session else None
        if deployment is None or deployment.local is None:
            return ""
        return (
            f"; it is the local system that {deployment.local.file} names:"
            " if `streamlease up` has ended, start it again, or name a stack with --stack"
        )


pass_invocation = click.make_pass_decorator(Invocation, ensure=True)

type Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    # Also given to the group before the command's name; the command's own word is the last.
    if value is not None and value is not False:
        setattr(context.ensure_object(Invocation), str(parameter.name), value)
    return value


def _option(*names: str, **more: Any) -> Decorator:
    return click.option(*names, expose_value=False, callback=_keep, **more)


_stack = _option("--stack", metavar="NAME", help="The deployed stack to work with.")
_region = _option("--region", metavar="REGION", help="Its AWS region.")
_profile = _option("--profile", metavar="PROFILE", help="The AWS profile to use.")
_json = _option("--json", "as_json", is_flag=True, default=None, help="Print JSON, with the keys of docs/cli.md.")
_debug = _option("--debug", is_flag=True, default=None, help="Show a traceback with an error.")


def target_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--stack, --region, --profile, --json, --debug, for a command that works with a system."""
    return _stack(_region(_profile(printing_options(command))))


def printing_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--json and --debug, for a command that works with none."""
    return _json(_debug(command))


def parallel_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--parallel",
        type=click.IntRange(1, MOST_AT_ONCE),
        default=16,
        show_default=True,
        metavar="N",
        help="Connections worked on at once.",
    )(command)


def yes_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--yes", "-y", is_flag=True, help="Do not ask.")(command)

"""What `up` and the demonstration both ask on their command lines, and how either is run."""

import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, override

import click

from streamlease.model import LeaseMode
from streamlease.spec import units
from streamlease.spec.unfit import Unfit
from streamlease.timing import Timing
from streamlease_cli.errors import BadInput
from streamlease_cli.local.checkout import Checkout, find_checkout
from streamlease_cli.local.system import Leases

_USUAL = {
    LeaseMode.CONNECTION: Timing(heartbeat_ms=3_000, lease_ms=9_000),
    LeaseMode.WORKER: Timing(heartbeat_ms=2_000, lease_ms=6_000),
}
"""Shorter than a deployed stack's in connection mode, so that a person sees what happens; writes cost nothing here."""
_LEAST_HEARTBEAT_MS = 1_000  # the template's


class _Milliseconds(click.ParamType[int]):
    name = "duration"

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return round(units.seconds(str(value)) * 1_000)
        except Unfit as unfit:
            self.fail(str(unfit), param, ctx)


def local_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--mode --heartbeat --lease`, as `leases`; `--checkout`, as `checkout`."""

    def with_leases(mode: str, heartbeat_ms: int | None, lease_ms: int | None, folder: Path | None, **rest: Any) -> Any:
        leases = intervals(LeaseMode(mode), heartbeat_ms, lease_ms)
        if folder is not None and not (folder / "template.yaml").is_file():
            raise BadInput(f"--checkout: {folder} has no template.yaml, so it is no checkout of this project")
        return command(leases=leases, checkout=Checkout(folder) if folder else find_checkout(), **rest)

    with_leases.__name__, with_leases.__doc__ = command.__name__, command.__doc__
    # click collects the options of decorators below this one here.
    with_leases.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    for option in reversed(_OPTIONS):
        option(with_leases)
    return with_leases


_OPTIONS = (
    click.option(
        "--mode",
        type=click.Choice([mode.value for mode in LeaseMode]),
        default=LeaseMode.CONNECTION.value,
        show_default=True,
        help="Whose lease is renewed: each connection's, or one of its worker.",
    ),
    click.option(
        "--heartbeat",
        "heartbeat_ms",
        type=_Milliseconds(),
        metavar="DURATION",
        help="Between two renewals.  [default: 3s; in worker mode 2s]",
    ),
    click.option(
        "--lease",
        "lease_ms",
        type=_Milliseconds(),
        metavar="DURATION",
        help="How long a lease lasts unrenewed.  [default: 9s; in worker mode 6s]",
    ),
    click.option(
        "--checkout",
        "folder",
        type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
        metavar="FOLDER",
        help="Whose template and functions to deploy.  [default: the checkout this command is installed from]",
    ),
)


def intervals(mode: LeaseMode, heartbeat_ms: int | None, lease_ms: int | None) -> Leases:
    """What is not said follows from what is. Raises BadInput."""
    usual = _USUAL[mode]
    if heartbeat_ms is None:
        heartbeat_ms = min(usual.heartbeat_ms, max(_LEAST_HEARTBEAT_MS, (lease_ms or usual.lease_ms) // 3))
    if heartbeat_ms < _LEAST_HEARTBEAT_MS:
        raise BadInput(f"--heartbeat is {heartbeat_ms} ms, less than the template allows: say 1s or more")
    if lease_ms is None:
        lease_ms = max(usual.lease_ms, 3 * heartbeat_ms)
    try:
        return Leases(mode, Timing(heartbeat_ms=heartbeat_ms, lease_ms=lease_ms))
    except ValueError as error:
        raise BadInput(f"--heartbeat and --lease do not go together: a {error}") from None


def run(command: click.Command, arguments: Sequence[str] | None, name: str) -> int:
    """Runs it as the process's command (None: with the process's arguments) and returns the exit code."""
    try:
        command.main(args=None if arguments is None else list(arguments), prog_name=name)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(bool(ended.code))


def our_command() -> str:
    """What a person types for `streamlease` where they are now."""
    if shutil.which("streamlease"):
        return "streamlease"
    return near(Path(sys.executable).with_name("streamlease"))


def near(path: Path) -> str:
    """A path as one types it from the current folder."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)

"""`make demo`: the whole system on real input, a worker killed, a worker drained, and what that cost.

python -m streamlease_cli.local.demo --seconds 90 --workers 3 --connections 200 --report FILE
"""

import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import click

from streamlease_cli.errors import BadInput
from streamlease_cli.invocation import Invocation, pass_invocation, printing_options
from streamlease_cli.local import feeds
from streamlease_cli.local.checkout import Checkout
from streamlease_cli.local.fleet import Fleet
from streamlease_cli.local.interrupt import Interrupted, interruptible
from streamlease_cli.local.options import local_options, near, run
from streamlease_cli.local.printing import print_report
from streamlease_cli.local.progress import Progress, progress
from streamlease_cli.local.publisher import start_publisher
from streamlease_cli.local.relay import launch_relay
from streamlease_cli.local.report import Limits, Report, as_json, report, unmet
from streamlease_cli.local.runs import describe, new_run, place_if_free
from streamlease_cli.local.scenario import Plan, Scenario, Setting
from streamlease_cli.local.system import Leases, deployed
from streamlease_cli.output import count, note, print_json
from streamlease_cli.reporting import Reporting

_MOST_OVER_LEASE_S = 5.0
"""After a kill every connection streams again within lease + skew + this."""
_DRAIN_GAP_P99_S = 3.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for."""

    checkout: Checkout
    leases: Leases
    seconds: int
    workers: int
    connections: int
    rate: float

    @property
    def limits(self) -> Limits:
        timing = self.leases.timing
        return Limits((timing.lease_ms + timing.skew_ms) / 1000 + _MOST_OVER_LEASE_S, _DRAIN_GAP_P99_S)


@click.command(
    "demo", cls=Reporting, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.option(
    "--seconds",
    type=click.IntRange(10, 3_600),
    default=90,
    show_default=True,
    metavar="N",
    help="From when all connections stream until the publisher stops.",
)
@click.option(
    "--workers", type=click.IntRange(2, 32), default=3, show_default=True, metavar="N", help="Workers at the start."
)
@click.option(
    "--connections",
    type=click.IntRange(1, 2_000),
    default=200,
    show_default=True,
    metavar="N",
    help="Each has a subscription of its own.",
)
@click.option(
    "--rate",
    type=click.FloatRange(1, 300),
    default=50,
    show_default=True,
    metavar="N",
    help="Notes published a second, over all connections.",
)
@click.option(
    "--report",
    "report_file",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="Write the report here, as JSON.",
)
@click.option("--verbose", "-v", is_flag=True, help="Also print a row for each connection.")
@local_options
@printing_options
@pass_invocation
def demo(
    invocation: Invocation,
    leases: Leases,
    checkout: Checkout,
    seconds: int,
    workers: int,
    connections: int,
    rate: float,
    report_file: Path | None,
    *,
    verbose: bool,
) -> None:
    """Run the whole system on real input, kill a worker, drain another and start a new one; then report how many moved,
    how long the gaps were, and whether anything was lost: in total, and per connection in FILE or with --verbose.

    Exit code 1 where the report falls short of what is promised.

    \b
    Examples:
      make demo
      make demo ARGS='--seconds 60 --workers 4 --connections 400 --report report.json'
    """
    if report_file is not None and not report_file.absolute().parent.is_dir():
        raise BadInput(f"--report: there is no folder {report_file.absolute().parent}: make it, or choose another")
    wanted = Wanted(checkout, leases, seconds, workers, connections, rate)
    try:
        with progress(sys.stderr) as shown, interruptible(shown.say):
            result, names, shortcomings, ran = _demonstrate(wanted, shown)
    except Interrupted as interrupted:
        note("stopped before its end, so there is no report")
        raise click.exceptions.Exit(interrupted.exit_code) from None
    document = {**as_json(result), "run": ran, "unmet": shortcomings}
    if report_file is not None:
        _write(report_file, document)
    if invocation.as_json:
        print_json(document)
    else:
        print_report(result, wanted.limits, leases, names, rows=verbose)
    if report_file is not None:
        note(f"the report is in {report_file}")
    for sentence in shortcomings:
        note(f"not met: {sentence}")
    if shortcomings:
        note(of_the_machine(os.getloadavg()[0], os.process_cpu_count() or 1))
        raise click.exceptions.Exit(1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0 if everything promised was kept to."""
    return run(demo, arguments, "make demo")


def of_the_machine(load: float, cores: int) -> str:
    """Whether a shortage of CPU may be why a limit was missed. `load`: the mean of the last minute."""
    told = f"this machine has {count(cores, 'core')} and had a load of {load:.1f} in the last minute"
    if load > cores:
        return f"{told}: a shortage of CPU does this, so run it again on a quieter machine, or with fewer --connections"
    return f"{told}: a shortage of CPU does this, but is not likely here; the workers' logs are in the run's folder"


def _demonstrate(wanted: Wanted, shown: Progress) -> tuple[Report, dict[str, str], list[str], dict[str, object]]:
    """The report, the workers' names by id, what is not met, and what was run. Raises LocalFault, Fault."""
    began_s = time.monotonic()
    folder = new_run(wanted.checkout)
    shown.say(f"logs and records are in {near(folder)}")
    sink = folder / "records.jsonl"
    with ExitStack() as stack:
        place = stack.enter_context(place_if_free(wanted.checkout))
        remove = [place] if place is not None else []
        relay = stack.enter_context(launch_relay(wanted.checkout, folder / "relay.log"))
        system = stack.enter_context(deployed(wanted.checkout, folder, wanted.leases, shown, remove=remove))
        environment = system.worker_environment(sink=f"jsonl:{sink}", capacity=wanted.connections)
        fleet = stack.enter_context(Fleet(folder, environment))
        fleet.start(wanted.workers)
        if place is not None:
            describe(place, system.emulator.endpoint, system.stack.name, system.stack.outputs)
        log = folder / "publisher.log"
        publisher = stack.enter_context(
            start_publisher(wanted.checkout, relay.when_ready(), wanted.connections, wanted.rate, log)
        )
        shown.say(f"{wanted.workers} workers run; {wanted.rate:g} notes a second are published to {relay.url}")
        authors = feeds.connection_ids(publisher.feeds)
        feeds.write_feeds(folder / "feeds.yaml", relay.url, authors)
        shown.say(f"{feeds.apply(system.session(), folder / 'feeds.yaml')} connections applied, one an author")
        setting = Setting(system.emulator, relay, publisher, fleet, sink, authors)
        ready_s = time.monotonic()
        played = Scenario(setting, Plan(wanted.seconds, wanted.limits), shown).play()
        names = {worker.worker_id: worker.name for worker in fleet.workers}
        ended_s = time.monotonic()
    result = report(played.evidence)
    ran: dict[str, object] = {
        "mode": wanted.leases.mode.value,
        "heartbeat_ms": wanted.leases.timing.heartbeat_ms,
        "lease_ms": wanted.leases.timing.lease_ms,
        "seconds": wanted.seconds,
        "rate": wanted.rate,
        "set_up_seconds": round(ready_s - began_s, 1),
        "scenario_seconds": round(ended_s - ready_s, 1),
        "total_seconds": round(time.monotonic() - began_s, 1),
    }
    return result, names, [*unmet(result, wanted.limits), *played.complaints], ran


def _write(file: Path, document: dict[str, object]) -> None:
    """Whole or not at all."""
    unfinished = file.with_name(f".{file.name}.new")
    unfinished.write_text(json.dumps(document, indent=2) + "\n")
    unfinished.replace(file)


if __name__ == "__main__":
    sys.exit(main())

"""`streamlease up`: the whole system on this machine, until Ctrl-C."""

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import click

from streamlease.errors import Fault, Malformed
from streamlease.flows.sweep import stored_fleet
from streamlease_cli.errors import BadInput
from streamlease_cli.invocation import Invocation, pass_invocation, printing_options
from streamlease_cli.local import feeds
from streamlease_cli.local.checkout import REGION, Checkout
from streamlease_cli.local.fault import LocalFault
from streamlease_cli.local.fleet import Fleet
from streamlease_cli.local.interrupt import Interrupted, interruptible
from streamlease_cli.local.options import local_options, near, our_command, run
from streamlease_cli.local.orphans import Orphans
from streamlease_cli.local.progress import Picture, Progress, progress
from streamlease_cli.local.publisher import Publisher, start_publisher
from streamlease_cli.local.relay import Relay, launch_relay
from streamlease_cli.local.runs import describe, new_run, only_system
from streamlease_cli.local.service import Service
from streamlease_cli.local.system import Leases, System, deployed
from streamlease_cli.local.watch import Watch
from streamlease_cli.output import count, print_json
from streamlease_cli.reporting import Reporting

_LOOK_EVERY_S = 0.25
_SWEPT_WITHIN_S = 5.0
"""After a lease has run out a sweep has found it, and its summary is there to be read."""
_RELAY_FEEDS = 20
_RELAY_RATE = 10.0
_FILE_SINK = "jsonl:"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for."""

    checkout: Checkout
    leases: Leases
    workers: int
    capacity: int
    port: int | None
    sink: str | None
    relay: bool
    as_json: bool


@click.command("up", cls=Reporting, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--workers", type=click.IntRange(1, 64), default=3, show_default=True, metavar="N", help="How many workers to keep."
)
@local_options
@click.option(
    "--capacity",
    type=click.IntRange(1, 100_000),
    default=1_000,
    show_default=True,
    metavar="N",
    help="Connections that one worker holds at most.",
)
@click.option(
    "--port", type=click.IntRange(1, 65_535), metavar="PORT", help="Of the embedded AWS.  [default: any that is free]"
)
@click.option(
    "--sink",
    metavar="SINK",
    help="Where records go: jsonl:PATH, or kinesis for the stack's own stream.  [default: a file in the run's folder]",
)
@click.option("--relay", is_flag=True, help="Also run an upstream: a relay, with a publisher that writes to it.")
@printing_options
@pass_invocation
def up(
    invocation: Invocation,
    leases: Leases,
    checkout: Checkout,
    workers: int,
    capacity: int,
    port: int | None,
    sink: str | None,
    *,
    relay: bool,
) -> None:
    """Run the whole system on this machine until Ctrl-C: the embedded AWS with the checkout's template in it, and
    workers, of which one that ends is replaced.

    Other commands, run anywhere in the checkout, then work with it. What is in its tables is gone when it ends; the
    records and logs stay in .local/run.

    \b
    Examples:
      streamlease up
      streamlease up --workers 5 --heartbeat 2s --lease 6s
      streamlease up --relay
    """
    wanted = Wanted(checkout, leases, workers, capacity, port, _checked(sink), relay, invocation.as_json)
    try:
        with progress(sys.stderr) as shown, interruptible(shown.say), only_system(checkout) as file:
            folder = new_run(checkout)
            try:
                _bring_up(wanted, file, folder, shown)
            finally:
                shown.say(f"everything has ended; records and logs are in {near(folder)}")
    except Interrupted as interrupted:
        raise click.exceptions.Exit(interrupted.exit_code) from None


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0 if it ran until it was told to end."""
    return run(up, arguments, "streamlease up")


def _checked(sink: str | None) -> str | None:
    """Raises BadInput."""
    if sink is None or sink == "kinesis":
        return sink
    path = Path(sink.removeprefix(_FILE_SINK))
    if not sink.startswith(_FILE_SINK) or path == Path():
        raise BadInput(f"--sink is {sink!r}: say jsonl:PATH for a file, or kinesis")
    if not path.absolute().parent.is_dir():
        raise BadInput(f"--sink: there is no folder {path.absolute().parent}: make it, or choose another")
    return f"{_FILE_SINK}{path.absolute()}"


def _bring_up(wanted: Wanted, file: Path, folder: Path, shown: Progress) -> None:
    """Everything, until Ctrl-C once it runs. Raises LocalFault, and Interrupted before that."""
    sink = wanted.sink or f"{_FILE_SINK}{folder / 'records.jsonl'}"
    with ExitStack() as stack:
        relay = stack.enter_context(launch_relay(wanted.checkout, folder / "relay.log")) if wanted.relay else None
        system = stack.enter_context(
            deployed(wanted.checkout, folder, wanted.leases, shown, port=wanted.port, remove=[file])
        )
        publisher = stack.enter_context(_publishing(wanted.checkout, relay, folder, shown)) if relay else None
        environment = system.worker_environment(sink=sink, capacity=wanted.capacity)
        fleet = stack.enter_context(Fleet(folder, environment))
        shown.say(f"{count(wanted.workers, 'worker')} start and join")
        service = Service(fleet, wanted.workers)
        describe(file, system.emulator.endpoint, system.stack.name, system.stack.outputs)
        _introduce(wanted, system, fleet, folder, sink, shown)
        watch = Watch(Path(sink.removeprefix(_FILE_SINK)) if sink.startswith(_FILE_SINK) else None, shown.say)
        with suppress(Interrupted):  # the workers drain as after any other end
            _stay(wanted.leases, system, service, watch, publisher, shown)
        shown.clear()


def _publishing(checkout: Checkout, relay: Relay, folder: Path, shown: Progress) -> Publisher:
    log = folder / "publisher.log"
    publisher = start_publisher(checkout, relay.when_ready(), _RELAY_FEEDS, _RELAY_RATE, log)
    feeds.write_feeds(folder / "feeds.yaml", relay.url, feeds.connection_ids(publisher.feeds))
    shown.say(f"a relay at {relay.url}, to which {_RELAY_FEEDS} authors write {_RELAY_RATE:g} notes a second in all")
    return publisher


def _introduce(wanted: Wanted, system: System, fleet: Fleet, folder: Path, sink: str, shown: Progress) -> None:
    """What there is now, and what to type next."""
    if wanted.as_json:
        workers = [
            {"name": worker.name, "worker_id": worker.worker_id, "pid": worker.process.pid} for worker in fleet.workers
        ]
        print_json(
            {
                "endpoint_url": system.emulator.endpoint,
                "region": REGION,
                "stack": system.stack.name,
                "outputs": dict(system.stack.outputs),
                "sink": sink,
                "folder": str(folder),
                "workers": workers,
            }
        )
    command = our_command()
    path = near(Path(sink.removeprefix(_FILE_SINK)))
    is_file = sink.startswith(_FILE_SINK)
    shown.say(
        f"{wanted.workers} workers run. Records go to "
        + (path if is_file else f"the stream {system.stack.outputs['RecordsStream']}")
    )
    shown.say(f"logs are in {near(folder)}. In another terminal, anywhere in this checkout:")
    if wanted.relay:
        shown.say(f"  {command} apply -f {near(folder / 'feeds.yaml')}")
    else:
        shown.say(f"  {command} add ticker wss://feed.example/ticker")
    shown.say(f"  {command} ls        (or workers, describe ID, stop ID, rm ID --stop; {command} --help)")
    if is_file:
        shown.say(f"  tail -f {path}")
    shown.say(f"  kill -9 $(cat {near(folder / 'worker-1.pid')})        (worker-1 dies: watch others take over)")
    shown.say("Ctrl-C ends everything, and empties the tables")


def _stay(
    leases: Leases, system: System, service: Service, watch: Watch, publisher: Publisher | None, shown: Progress
) -> None:
    """Raises LocalFault when the emulator or the upstream has ended."""
    began_s = time.monotonic()
    started = _started(system, shown)
    orphans = Orphans((leases.timing.lease_ms + leases.timing.skew_ms) / 1000 + _SWEPT_WITHIN_S)
    while True:
        code = system.emulator.process.poll()
        if code is not None:
            raise LocalFault(f"the embedded AWS ended with {code}: {system.emulator.process.last_words()}")
        # Looked at first: what a worker wrote last is to be seen before its place is another's.
        before = service.workers
        watch.look(before)
        for sentence in service.tend():
            shown.say(sentence)
        now_s = time.monotonic()
        for worker in before:
            if worker not in service.workers:
                orphans.left(watch.owned(worker), now_s)
        rows = tuple(watch.row(worker) for worker in service.workers)
        owned = frozenset[str]().union(*(watch.owned(worker) for worker in service.workers if worker.is_running))
        shown.show(
            Picture(
                elapsed_s=time.monotonic() - began_s,
                phase="running",
                connections=max(len(owned) + orphans.count(owned, now_s), started()),
                workers=rows,
                published=publisher.published().stored if publisher else None,
                delivered=watch.delivered,
            )
        )
        time.sleep(_LOOK_EVERY_S)


def _started(system: System, shown: Progress) -> Callable[[], int]:
    """How many connections are to stream, by the summary that the workers' sweeps leave; the last known one where it
    cannot be read just now."""
    session = system.session(patient=False)
    last, answers = 0, True

    def ask() -> int:
        nonlocal last, answers
        try:
            fleet = session.run(stored_fleet())
        except Malformed:
            return last
        except Fault:
            if answers:
                shown.say("the embedded AWS gives no answer: workers go on until their leases run out")
            answers = False
            return last
        answers = True
        last = fleet.owned + fleet.unowned if fleet else 0
        return last

    return ask

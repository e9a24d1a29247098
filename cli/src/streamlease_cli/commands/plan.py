"""`streamlease plan`: what a fleet costs, how quickly it fails over, and what it meets first. Needs no AWS."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, override

import click

from streamlease.model import LeaseMode
from streamlease.settings import MOST_SHARDS, SHARDS, TIMINGS
from streamlease.spec import units
from streamlease.spec.unfit import Unfit
from streamlease.timing import Timing
from streamlease_cli.capacity import (
    LEAST_HEARTBEAT_MS,
    Window,
    dial_queue_s,
    limits,
    shards_advice,
    shards_needed,
    timing_for,
    window,
)
from streamlease_cli.costing import Bill, Fleet, bill, flow, positions_on_a_page, provisioned_kinesis
from streamlease_cli.errors import BadInput
from streamlease_cli.invocation import Invocation, pass_invocation, printing_options
from streamlease_cli.output import count, note, print_json, print_table
from streamlease_cli.pricing import Prices, load_prices

MOST_CONNECTIONS = 100_000_000
_PER_WORKER = 500
_GIB = 1_024
_FARGATE_MIB: Mapping[int, Sequence[int]] = {
    256: (512, 1 * _GIB, 2 * _GIB),
    512: range(1 * _GIB, 4 * _GIB + 1, _GIB),
    1_024: range(2 * _GIB, 8 * _GIB + 1, _GIB),
    2_048: range(4 * _GIB, 16 * _GIB + 1, _GIB),
    4_096: range(8 * _GIB, 30 * _GIB + 1, _GIB),
    8_192: range(16 * _GIB, 60 * _GIB + 1, 4 * _GIB),
    16_384: range(32 * _GIB, 120 * _GIB + 1, 8 * _GIB),
}
"""Memory by CPU units: https://docs.aws.amazon.com/AmazonECS/latest/developerguide/fargate-tasks-services.html"""
LEFT_OUT = (
    "not in it: NAT or public addresses, data transfer, logs, metrics, alarms, traces, secrets, the image, support,"
    " taxes, and what free tiers and discounts take off"
)


class _Seconds(click.ParamType[float]):
    name = "duration"

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        text = str(value)
        try:
            return units.seconds(f"{text}s" if text.replace(".", "", 1).isdecimal() else text)
        except Unfit as unfit:
            self.fail(str(unfit), param, ctx)


@click.command()
@click.option(
    "--connections",
    type=click.IntRange(1, MOST_CONNECTIONS),
    metavar="N",
    help="Started connections.  [needed]",
)
@click.option(
    "--failover", "failover_s", type=_Seconds(), metavar="SECONDS", help="Stream again within this, in both modes."
)
@click.option(
    "--mode",
    type=click.Choice([*(mode.value for mode in LeaseMode), "both"]),
    default="both",
    show_default=True,
    help="Whose leases.",
)
@click.option(
    "--heartbeat", "heartbeat_s", type=_Seconds(), metavar="DURATION", help="Between renewals.  [the mode's own]"
)
@click.option("--lease", "lease_s", type=_Seconds(), metavar="DURATION", help="How long one lasts.  [the mode's own]")
@click.option(
    "--workers", type=click.IntRange(1, 1_000_000), metavar="N", help="Workers.  [from --per-worker, at least 2]"
)
@click.option(
    "--per-worker",
    type=click.IntRange(1, 20_000),
    metavar="N",
    help="Connections of each.  [500; not with --workers]",
)
@click.option(
    "--cpu",
    type=click.IntRange(256, 16_384),
    default=512,
    show_default=True,
    metavar="UNITS",
    help="A worker's, as Fargate has them.",
)
@click.option(
    "--memory", type=click.IntRange(512, 122_880), default=1_024, show_default=True, metavar="MIB", help="Its memory."
)
@click.option(
    "--shards",
    type=click.IntRange(1, MOST_SHARDS),
    default=SHARDS,
    show_default=True,
    metavar="N",
    help="Of the expiry index.",
)
@click.option(
    "--records-per-s",
    type=click.FloatRange(0, 1e9),
    metavar="N",
    help="Records of the whole fleet.  [one in ten seconds for each connection]",
)
@click.option(
    "--record-bytes", type=click.IntRange(0, 1 << 20), default=500, show_default=True, metavar="N", help="A payload."
)
@click.option(
    "--checkpoint-every",
    "checkpoint_s",
    type=_Seconds(),
    default=10.0,
    metavar="DURATION",
    help="Of positions, in worker mode.  [default: 10s]",
)
@click.option(
    "--item-bytes",
    type=click.IntRange(100, 400 << 10),
    default=900,
    show_default=True,
    metavar="N",
    help="A connection's item: each renewal writes it whole.",
)
@click.option(
    "--deploys",
    type=click.FloatRange(0, 100_000),
    default=30.0,
    metavar="N",
    help="Deployments a month; each moves every connection once.  [default: 30]",
)
@click.option(
    "--dials-per-s",
    type=click.FloatRange(0.001, 100_000),
    metavar="N",
    help="What an upstream host allows the fleet, if all connections go to one.  [no limit]",
)
@click.option(
    "--prices",
    "prices_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Other prices, as JSON (see --show-prices).",
)
@click.option("--show-prices", is_flag=True, help="Print the prices that are reckoned with, for a file of your own.")
@printing_options
@pass_invocation
def plan(
    invocation: Invocation,
    connections: int | None,
    failover_s: float | None,
    mode: str,
    heartbeat_s: float | None,
    lease_s: float | None,
    workers: int | None,
    per_worker: int | None,
    cpu: int,
    memory: int,
    shards: int,
    records_per_s: float | None,
    record_bytes: int,
    checkpoint_s: float,
    item_bytes: int,
    deploys: float,
    dials_per_s: float | None,
    prices_file: Path | None,
    *,
    show_prices: bool,
) -> None:
    """Reckon what a fleet of so many connections costs a month in each lease mode, how quickly it fails over, how many
    shards it needs, and which limit it meets first. Works without AWS.

    \b
    Examples:
      streamlease plan --connections 10000
      streamlease plan --connections 10000 --failover 8 --records-per-s 2000 --record-bytes 700
      streamlease plan --connections 200000 --mode worker --per-worker 4000 --cpu 1024 --memory 4096 --json
    """
    prices = load_prices(prices_file)
    if show_prices:
        click.echo(prices.model_dump_json(indent=2))
        return
    if connections is None:
        raise BadInput("say how many connections there are to be: streamlease plan --connections 10000")
    if workers is not None and per_worker is not None:
        raise BadInput("--workers and --per-worker each say how many workers there are: leave one of them out")
    _of_fargate(cpu, memory)
    fleet = Fleet(
        connections=connections,
        workers=workers or max(2, math.ceil(connections / (per_worker or _PER_WORKER))),
        vcpu=cpu / 1_024,
        memory_gb=memory / 1_024,
        shards=shards,
        records_per_s=connections / 10 if records_per_s is None else records_per_s,
        record_bytes=record_bytes,
        checkpoint_s=checkpoint_s,
        item_bytes=item_bytes,
        moves_per_month=connections * deploys,
    )
    modes = list(LeaseMode) if mode == "both" else [LeaseMode(mode)]
    bills = [bill(each, _timing(each, failover_s, heartbeat_s, lease_s), fleet, prices) for each in modes]
    windows = [window(each.timing, queue_s=dial_queue_s(fleet, dials_per_s)) for each in bills]
    if invocation.as_json:
        print_json(_as_json(bills, windows, fleet, prices))
    else:
        _print(bills, windows, fleet, prices)


def _of_fargate(cpu: int, memory: int) -> None:
    """Raises BadInput for a size that Fargate does not have."""
    sizes = _FARGATE_MIB.get(cpu)
    if sizes is None:
        raise BadInput(f"Fargate has no task of --cpu {cpu}: it has {', '.join(map(str, _FARGATE_MIB))}")
    if memory not in sizes:
        step = sizes[1] - sizes[0]
        told = ", ".join(map(str, sizes)) if len(sizes) <= 4 else f"{sizes[0]} to {sizes[-1]} in steps of {step}"
        raise BadInput(f"Fargate has no task of --cpu {cpu} and --memory {memory}: with that CPU it has {told} MiB")


def _timing(mode: LeaseMode, failover_s: float | None, heartbeat_s: float | None, lease_s: float | None) -> Timing:
    """Raises BadInput."""
    if failover_s is not None:
        if heartbeat_s is not None or lease_s is not None:
            raise BadInput("--failover says the lease and the heartbeat: leave out --heartbeat and --lease, or it")
        return timing_for(failover_s)
    usual = TIMINGS[mode]
    if heartbeat_s is None:
        heartbeat_ms = usual.heartbeat_ms if lease_s is None else min(usual.heartbeat_ms, round(lease_s * 1_000 / 3))
    else:
        heartbeat_ms = round(heartbeat_s * 1_000)
    lease_ms = max(usual.lease_ms, 3 * heartbeat_ms) if lease_s is None else round(lease_s * 1_000)
    if heartbeat_ms < LEAST_HEARTBEAT_MS:
        raise BadInput(
            f"a heartbeat of {heartbeat_ms} ms is less than the template allows: say 1s or more, and a lease of 3s"
        )
    try:
        return Timing(heartbeat_ms=heartbeat_ms, lease_ms=lease_ms)
    except ValueError as error:
        raise BadInput(f"--heartbeat and --lease do not go together: a {error}") from None


# --- for people ------------------------------------------------------------------------------------------------------


def _print(bills: list[Bill], windows: list[Window], fleet: Fleet, prices: Prices) -> None:
    money = _money(prices)
    per_worker = math.ceil(fleet.connections / fleet.workers)
    click.echo(
        f"{count(fleet.connections, 'connection')} over {count(fleet.workers, 'worker')} ({per_worker:,} each),"
        f" {fleet.records_per_s:,.0f} records a second of {fleet.record_bytes:,} bytes"
    )
    for each, seen in zip(bills, windows, strict=True):
        name, heartbeat_s = each.mode.value, each.timing.heartbeat_ms / 1_000
        click.echo("")
        click.echo(f"{name} mode, heartbeat {heartbeat_s:g} s, lease {seen.lease_s:g} s")
        print_table(("A MONTH", "USES", "COSTS"), [(line.name, line.usage, money(line.cost)) for line in each.lines])
        click.echo(f"  in all {money(each.cost)}; of it leases {money(each.lease_cost)}")
        click.echo(
            f"  reads and writes provisioned, at 70 % use: {money(each.provisioned_dynamodb)};"
            f" on demand they are {money(_throughput(each))}"
        )
        click.echo(
            f"  failover at most {seen.at_most_s:g} s, usually {seen.usual_s:.1f}: lease {seen.lease_s:g}, clocks"
            f" {seen.skew_s:g}, sweep {seen.sweep_s:g}, dial {seen.dial_s:g}. A death moves {per_worker:,} connections"
        )
        click.echo(f"  shards: {shards_advice(each.mode, each.timing, fleet.connections)}")
        for limit in limits(each.mode, each.timing, fleet)[:3]:
            state = "met already" if limit.connections < fleet.connections else f"at {limit.connections:,}"
            click.echo(f"  limit {state}: {limit.name}. Then: {limit.remedy}")
    taken = flow(fleet)
    click.echo("")
    click.echo(
        f"the records stream takes {taken.bytes / (1 << 20):,.2f} MiB a second; provisioned,"
        f" {count(taken.shards, 'shard')} at {money(provisioned_kinesis(fleet, prices))} a month"
    )
    note(f"prices of {prices.date}, {prices.region}; check them ({prices.source})")
    note(LEFT_OUT)


def _throughput(each: Bill) -> float:
    return sum(line.cost for line in each.lines[:4])


def _money(prices: Prices) -> Any:
    sign = "$" if prices.currency == "USD" else f"{prices.currency} "

    def shown(amount: float) -> str:
        return f"{sign}{amount:,.2f}" if amount < 100 else f"{sign}{amount:,.0f}"

    return shown


# --- for programs ----------------------------------------------------------------------------------------------------


def _as_json(bills: list[Bill], windows: list[Window], fleet: Fleet, prices: Prices) -> Mapping[str, object]:
    taken = flow(fleet)
    return {
        "connections": fleet.connections,
        "workers": fleet.workers,
        "prices": {"region": prices.region, "date": prices.date, "source": prices.source, "currency": prices.currency},
        "fleet": asdict(fleet),
        "modes": {each.mode.value: _mode_json(each, seen, fleet) for each, seen in zip(bills, windows, strict=True)},
        "records_stream": {
            "bytes_per_s": round(taken.bytes, 1),
            "kinesis_records_per_s": round(taken.kinesis_records, 1),
            "shards_if_provisioned": taken.shards,
            "provisioned_cost_per_month": round(provisioned_kinesis(fleet, prices), 2),
        },
    }


def _mode_json(each: Bill, seen: Window, fleet: Fleet) -> Mapping[str, object]:
    return {
        "heartbeat_ms": each.timing.heartbeat_ms,
        "lease_ms": each.timing.lease_ms,
        "write_units_per_s": {
            "leases": round(each.writes.leases, 2),
            "checkpoints": round(each.writes.checkpoints, 2),
            "moves": round(each.writes.moves, 2),
            "sweeps": round(each.writes.sweeps, 2),
            "total": round(each.writes.total, 2),
        },
        "read_units_per_s": round(each.read_units_per_s, 2),
        "cost_per_month": {line.name: round(line.cost, 2) for line in each.lines},
        "total_cost_per_month": round(each.cost, 2),
        "lease_cost_per_month": round(each.lease_cost, 2),
        "dynamodb_throughput_provisioned_per_month": round(each.provisioned_dynamodb, 2),
        "failover_s": {
            "lease": seen.lease_s,
            "skew": seen.skew_s,
            "sweep": seen.sweep_s,
            "dial": seen.dial_s,
            "usual": round(seen.usual_s, 2),
            "at_most": seen.at_most_s,
        },
        "shards_needed": shards_needed(each.mode, each.timing, fleet.connections),
        "positions_on_a_page": positions_on_a_page() if each.mode is LeaseMode.WORKER else None,
        "limits": [asdict(limit) for limit in limits(each.mode, each.timing, fleet)],
    }

"""The claim race: many contenders reach for one connection at the same instant, round after round. One may win.

    python -m bench.claim_race [--store emulator|dynalite|memory] [--contenders 32] [--rounds 200] [--json]

Half of the rounds are over a connection that is nobody's, half over one whose lease ran out. Exit code 1 if any round
had not exactly one winner, or if the table says otherwise than the winner.
"""

import argparse
import json
import os
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from streamlease import lease
from streamlease.errors import StreamleaseError
from streamlease.lease import Claimed
from streamlease.model import LeaseMode
from streamlease.write import Table, Value
from streamlease_cli.local.checkout import clean_environment, find_checkout
from tests.contract.connection_cases import EPOCH, EXPIRED, SENT, TIMING, free, owned
from tests.contract.stores import Store, dynalite, emulator, has_dynalite, in_memory, on_endpoint

STORES = ("emulator", "dynalite", "memory")


@dataclass(frozen=True, slots=True)
class Result:
    """`winners` is how many rounds had how many winners; `wrong` are rounds whose item names another owner or epoch."""

    store: str
    rounds: int
    contenders: int
    winners: dict[int, int]
    wrong: int
    seconds: float

    @property
    def is_fair(self) -> bool:
        return self.winners == {1: self.rounds} and self.wrong == 0


def race(store: Store, *, contenders: int, rounds: int) -> Result:
    """Every contender is a thread; all of them send their claims at once in each round."""
    if store.executor is not None:
        # Not what reads back after a refusal: between the two, somebody wins.
        store = replace(store, perform=store.executor.perform)
    prefix = uuid.uuid4().hex
    ids = [f"race-{prefix}-{number}" for number in range(rounds)]
    for number, connection_id in enumerate(ids):
        store.put(Table.CONNECTIONS, _prize(connection_id, number))

    won: list[list[int]] = [[] for _ in ids]
    failures: list[BaseException] = []
    start = threading.Barrier(contenders)

    def contend(contender: int) -> None:
        try:
            for number, connection_id in enumerate(ids):
                start.wait()
                if _claims(store, connection_id, contender):
                    won[number].append(contender)
        except BaseException as failure:  # noqa: BLE001 - told in the main thread
            failures.append(failure)
            start.abort()

    began_s = time.monotonic()
    threads = [threading.Thread(target=contend, args=(contender,)) for contender in range(contenders)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - began_s
    if failures:
        raise next((f for f in failures if not isinstance(f, threading.BrokenBarrierError)), failures[0])

    wrong = sum(not _belongs_to(store, each, winners) for each, winners in zip(ids, won, strict=True))
    histogram = Counter(len(winners) for winners in won)
    return Result(store.name, rounds, contenders, dict(sorted(histogram.items())), wrong, round(seconds, 2))


def _prize(connection_id: str, number: int) -> dict[str, Value]:
    return free(connection_id) if number % 2 else owned(connection_id, "dead", lease_expires_at_ms=EXPIRED)


def _claims(store: Store, connection_id: str, contender: int) -> bool:
    name = f"contender-{contender}"
    request = lease.claim(
        connection_id, worker_id=name, nonce=name, sent=SENT, timing=TIMING, mode=LeaseMode.CONNECTION
    )
    outcome = lease.claimed(store.write(request), worker_id=name, nonce=name, sent=SENT, timing=TIMING)
    return isinstance(outcome, Claimed)


def _belongs_to(store: Store, connection_id: str, winners: list[int]) -> bool:
    item = store.read(Table.CONNECTIONS, connection_id=connection_id) or {}
    owners = [f"contender-{winner}" for winner in winners]
    return [item.get("lease_owner")] == owners and item.get("lease_epoch") == EPOCH + 1


def _opened(name: str, folder: Path) -> AbstractContextManager[Store]:
    match name:
        case "emulator":
            return emulator(folder / name)
        case "dynalite":
            return dynalite(folder / name)
        case _:
            return nullcontext(in_memory())


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.claim_race", description=__doc__.partition("\n")[0])
    parser.add_argument("--store", choices=STORES, action="append", help="which to race on (all of them)")
    parser.add_argument("--endpoint", help="a DynamoDB endpoint to race on instead, with your own credentials")
    parser.add_argument("--contenders", type=_some, default=32)
    parser.add_argument("--rounds", type=_some, default=200)
    parser.add_argument("--json", action="store_true", help="one JSON object for each store")
    options = parser.parse_args(arguments)
    if not options.endpoint:
        os.environ.update(clean_environment({}))
    fair = True
    with tempfile.TemporaryDirectory(prefix="streamlease-race-") as folder:
        for name in ["endpoint"] if options.endpoint else options.store or STORES:
            if name == "dynalite" and not has_dynalite(find_checkout()):
                sys.stderr.write("dynalite is not here: install Node.js 18 or newer and run `make setup`\n")
                fair = False
                continue
            opened = on_endpoint(name, options.endpoint) if options.endpoint else _opened(name, Path(folder))
            with opened as store:
                result = race(store, contenders=options.contenders, rounds=options.rounds)
            fair = fair and result.is_fair
            sys.stdout.write(_told(result, as_json=options.json) + "\n")
            sys.stdout.flush()
    return 0 if fair else 1


def _some(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, not {number}")
    return number


def _told(result: Result, *, as_json: bool) -> str:
    if as_json:
        fields = ("store", "rounds", "contenders", "winners", "wrong", "seconds")
        return json.dumps({name: getattr(result, name) for name in fields} | {"fair": result.is_fair})
    verdict = "one winner in each" if result.is_fair else f"winners: {result.winners}, wrong items: {result.wrong}"
    return f"{result.store}: {result.rounds} rounds of {result.contenders} in {result.seconds} s, {verdict}"


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except StreamleaseError as error:
        sys.exit(f"claim_race: {error}")

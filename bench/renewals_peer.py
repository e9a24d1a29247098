"""The peer's side of the renewals bench: python-dynamodb-lock renews its locks by its own thread, and what that costs
this process is printed as JSON. Runs in the benches' environment, and imports nothing of this project.

    python -m bench.renewals_peer ENDPOINT LOCKS SECONDS
"""

import json
import sys
import time
from datetime import timedelta
from typing import Any

import boto3
from python_dynamodb_lock.python_dynamodb_lock import DynamoDBLockClient  # type: ignore[import-not-found, unused-ignore]

TABLE = "bench-locks"
PER_S = 300
"""Renewals a second that the emulator is thought to take from one thread: the period follows from it."""


def main(endpoint: str, locks: int, seconds: float) -> None:
    session = boto3.Session("local", "local", region_name="us-east-1")
    resource: Any = session.resource("dynamodb", endpoint_url=endpoint)
    client: Any = session.client("dynamodb", endpoint_url=endpoint)
    if TABLE not in client.list_tables()["TableNames"]:
        DynamoDBLockClient.create_dynamodb_table(client, TABLE)
    landed = 0

    def count(http_response: Any, **_: Any) -> None:
        nonlocal landed
        landed += http_response.status_code == 200

    period = timedelta(seconds=-(-locks // PER_S))  # whole: it cannot store a fraction
    holder = DynamoDBLockClient(
        resource,
        table_name=TABLE,
        heartbeat_period=period,
        safe_period=period * 10,
        lease_duration=period * 20,
        heartbeat_tps=100_000,  # as quickly as it can, without a sleep between two
    )
    for number in range(locks):
        holder.acquire_lock(f"lock-{time.time_ns()}-{number}")
    resource.meta.client.meta.events.register("after-call.dynamodb.UpdateItem", count)
    landed, cpu_s, until_s = 0, time.process_time(), time.monotonic() + seconds
    while time.monotonic() < until_s:
        time.sleep(0.1)
    spent_s, renewed = time.process_time() - cpu_s, landed
    print(json.dumps({"renewed": renewed, "cpu_s": round(spent_s, 3)}), flush=True)
    holder.close(release_locks=False)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))

"""`check --dial`: tries connections from this machine, and says what happened."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from streamlease.settings import optional_text
from streamlease.spec import ConnectionSpec, compile_spec
from streamlease_worker.addresses import ALLOW_VARIABLE, ANYTHING_BUT_METADATA, allowed
from streamlease_worker.secrets import Secrets
from streamlease_worker.trial import Trial, tried

MOST = 20
"""Connections that one command tries: it is for looking at some, not for a fleet's worth of dials."""


def dial(specs: Sequence[ConnectionSpec], environment: Mapping[str, str], wait_s: float) -> list[Trial]:
    """All side by side; each as it went. Raises Misconfigured for a list of addresses that is none."""
    listed = optional_text(environment, ALLOW_VARIABLE)
    permitted = ANYTHING_BUT_METADATA if listed is None else allowed(listed)

    async def all_of_them() -> list[Trial]:
        secrets = Secrets(environment)
        return await asyncio.gather(
            *(
                tried(
                    compile_spec(spec),
                    permitted=permitted,
                    secrets=secrets.values,
                    environment=environment,
                    wait_s=wait_s,
                )
                for spec in specs
            )
        )

    return asyncio.run(all_of_them())


def lines(trial: Trial) -> Iterator[str]:
    """What happened, for a person."""
    for line in trial.lines:
        yield f"{line.at_ms:>6} ms  {line.what}"
    for name, value in trial.headers:
        yield f"           {name}: {value}"
    if trial.streaming:
        yield f"ready after {trial.ready_ms} ms; {trial.messages} messages read, {trial.records} records delivered"
        if trial.first_message is None:
            yield "no message yet: nothing wrong, if this upstream has nothing to say"
    else:
        yield f"failed: {trial.reason}"


def warnings(trial: Trial) -> Iterator[str]:
    if trial.private:
        yield (
            f"{trial.peer} is no public address: workers dial it only where {ALLOW_VARIABLE} allows it"
            " (the template's AllowAddresses)"
        )


def fields(connection_id: str, trial: Trial) -> Mapping[str, object]:
    """For JSON."""
    return {"connection_id": connection_id, **asdict(trial), "headers": dict(trial.headers)}

"""Asks ECS not to end this task while it drains by itself: by its agent's endpoint, where there is one.

A scale-in or a deployment that picked the task meanwhile would only hurry it. Nothing is asked for otherwise: a task
that holds connections may always be ended, since it drains; and ECS waits for protected tasks, so that a deployment
would never end.
"""

import json
import math
import urllib.request
from collections.abc import Callable, Mapping

from streamlease.errors import Unreachable

AGENT_VARIABLE = "ECS_AGENT_URI"
PATH = "/task-protection/v1/state"
WITHIN_S = 5.0
LEAST_MINUTES = 1

type Protect = Callable[[float], None]
"""Called with how many seconds it is for. Blocks for some seconds at most. Raises Unreachable, with a sentence."""


def unprotected(_seconds: float) -> None:
    """Outside of ECS nobody ends it but by a signal that somebody means."""


def protector(environment: Mapping[str, str]) -> Protect:
    base = environment.get(AGENT_VARIABLE, "")
    if not base.startswith("http://"):
        return unprotected

    def protect(seconds: float) -> None:
        wanted = {"ProtectionEnabled": True, "ExpiresInMinutes": max(LEAST_MINUTES, math.ceil(seconds / 60))}
        request = urllib.request.Request(  # noqa: S310  # http, as seen above
            f"{base}{PATH}", json.dumps(wanted).encode(), {"Content-Type": "application/json"}, method="PUT"
        )
        try:
            with urllib.request.urlopen(request, timeout=WITHIN_S) as answer:  # noqa: S310  # as above
                said = json.load(answer)
            failure = said.get("failure") or said.get("error")
            if failure:
                reason = failure.get("Reason") or failure.get("Message")
                raise Unreachable(f"ECS does not protect this task from being ended while it drains: {reason}")
        except (OSError, ValueError, AttributeError) as error:
            raise Unreachable(f"ECS was not asked to protect this task while it drains ({error})") from error

    return protect

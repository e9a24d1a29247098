"""How heavy a worker's connections are, and how much of a share it can bear. Part of the supervisor.

Whoever runs the step measures (`Measured`); what comes of it goes out with the heartbeat, and into the fleet's shares.
"""

from streamlease.shares import EXTRA, HALF_PACE, NO_PACE, PACE, WHOLE_PACE
from streamlease.write import Value
from streamlease_worker.supervisor_events import Measured

RECORDS_PER_EXTRA = 50.0
"""A connection of so many records a second weighs one more than a silent one."""
SMOOTHING_S = 60.0
BAND = 0.1
"""Of the measured part of the weight: so much above its share is let be."""
SLOW_MS = 500
"""An event loop that comes so late, or later, each time for `SOON_S`, has too much to do."""
SOON_S = 10.0
WELL_AGAIN_S = 120.0
"""Twelve times as long, so that a worker that sheds because it is slow is not filled again as soon as that helps."""


class Load:
    """Mutable, owned by one `Supervisor`."""

    def __init__(self) -> None:
        self.pace = WHOLE_PACE
        self.why = ""
        self._extra: dict[str, int] = {}
        self._rates: dict[str, float] = {}
        self._lag_ms = 0
        self._measured_s: float | None = None
        self._worse_since_s: float | None = None
        self._better_since_s: float | None = None

    @property
    def extra(self) -> int:
        return sum(self._extra.values())

    @property
    def band(self) -> int:
        return round(BAND * self.extra)

    def extra_of(self, connection_id: str) -> int:
        return self._extra.get(connection_id, 0)

    def forget(self, connection_id: str) -> None:
        """It is somebody else's now."""
        self._rates.pop(connection_id, None)
        self._extra.pop(connection_id, None)

    def measured(self, event: Measured, now_s: float, *, unfit: str | None = None) -> None:
        """`unfit`: what the worker's own requests say of it."""
        elapsed_s = SMOOTHING_S if self._measured_s is None else now_s - self._measured_s
        self._measured_s = now_s
        part = min(1.0, elapsed_s / SMOOTHING_S)
        self._rates = {
            name: (1 - part) * self._rates.get(name, 0.0) + part * rate for name, rate in event.records_per_s.items()
        }
        extras = {name: int(rate / RECORDS_PER_EXTRA) for name, rate in self._rates.items()}
        self._extra = {name: extra for name, extra in extras.items() if extra}
        self._lag_ms = event.loop_lag_ms
        self._judge(event.unfit or unfit, now_s)

    def said(self) -> dict[str, Value]:
        """What the heartbeat says of it."""
        found: dict[str, Value] = {
            "records_per_s": round(sum(self._rates.values())),
            "lag_ms": self._lag_ms,
            EXTRA: self.extra,
        }
        return found if self.pace == WHOLE_PACE else {**found, PACE: self.pace, "why": self.why}

    def _judge(self, unfit: str | None, now_s: float) -> None:
        pace, why = WHOLE_PACE, ""
        if unfit is not None:
            pace, why = NO_PACE, unfit
        elif self._lag_ms >= SLOW_MS:
            pace, why = HALF_PACE, f"its event loop comes {self._lag_ms} ms late"
        if pace < self.pace:
            self._better_since_s = None
            self._worse_since_s = now_s if self._worse_since_s is None else self._worse_since_s
            if now_s - self._worse_since_s >= SOON_S:
                self.pace, self.why, self._worse_since_s = pace, why, None
        elif pace > self.pace:
            self._worse_since_s = None
            self._better_since_s = now_s if self._better_since_s is None else self._better_since_s
            if now_s - self._better_since_s >= WELL_AGAIN_S:
                self.pace, self.why, self._better_since_s = pace, why, None
        else:
            self._worse_since_s = self._better_since_s = None

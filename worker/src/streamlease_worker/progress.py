"""Whether a worker gets anywhere, where its peers do: one that does not had better go (design §6). Part of the
supervisor.

A fault that strikes all alike, an upstream that is down or a table that throttles, is no reason: elsewhere it would be
no better.
"""

from collections.abc import Iterable

from streamlease.model import Member

STUCK_S = 90.0
"""Longer than a lease and a dial with its backoff take."""
FAULTS = 5
UNFIT_S = 10.0
LATELY_S = 30.0
"""What was asked longer ago says nothing of now. Who takes nothing asks for nothing: it would else be held for ever to
what a moment's faults had told it, and would go for that, together with all others that had asked in that moment."""
AGAIN_S = 600.0
"""Yet who fares no better when it asks again within this gets nowhere. It has its share again after some minutes, and
others give up for it each time what it cannot take."""


class Attempts:
    """Requests of one kind, as far as they had no answer."""

    def __init__(self) -> None:
        self._faults = 0
        self._since_s = 0.0
        self._last_s = 0.0
        self._first_s = 0.0
        """Of those since when none had an answer, silences within `AGAIN_S` included."""
        self._answered = True

    def had(self, *, fault: bool, now_s: float) -> None:
        if not self._faults or now_s - self._last_s > LATELY_S:
            self._faults, self._since_s = 0, now_s
        if self._answered or now_s - self._last_s > AGAIN_S:
            self._first_s = now_s
        self._faults = self._faults + 1 if fault else 0
        self._answered = not fault
        self._last_s = now_s

    def failing(self, now_s: float, *, for_s: float) -> bool:
        lately = now_s - self._last_s <= LATELY_S
        return lately and self._faults >= FAULTS and now_s - self._since_s >= for_s

    def failed_again(self, now_s: float, *, after_s: float) -> bool:
        """Whether they have failed for a while, and had for a while so long before, and none had an answer between."""
        failed = self._faults >= FAULTS and self._last_s - self._since_s >= UNFIT_S and now_s - self._last_s <= AGAIN_S
        return failed and self._last_s - self._first_s >= after_s


class Progress:
    """Mutable, owned by one `Supervisor`."""

    def __init__(self, worker_id: str) -> None:
        self._worker_id = worker_id
        self._dark_since_s: float | None = None
        self._claims = Attempts()
        self._looks = Attempts()

    def claimed(self, *, fault: bool, now_s: float) -> None:
        """A claim had an answer, or none."""
        self._claims.had(fault=fault, now_s=now_s)

    def looked(self, *, fault: bool, now_s: float) -> None:
        """A sweep, or a reading of the fleet summary, had an answer, or none."""
        self._looks.had(fault=fault, now_s=now_s)

    def unfit(self, now_s: float) -> str | None:
        """Why this worker can take nothing on, as far as it knows: its share is for others then."""
        if self._claims.failing(now_s, for_s=UNFIT_S):
            return "its claims have no answer"
        return "it cannot read the tables" if self._looks.failing(now_s, for_s=UNFIT_S) else None

    def swept(self, living: Iterable[Member], now_s: float) -> str | None:
        """Why this worker is to drain by itself; None: it is not."""
        living = tuple(living)
        me = next((member for member in living if member.worker_id == self._worker_id), None)
        peers = [member for member in living if member.worker_id != self._worker_id]
        owned, streaming = sum(member.owned for member in peers), sum(map(_streaming, peers))
        if me is None or 2 * streaming < owned or not streaming:
            self._dark_since_s = None
            return None
        if not me.owned or _streaming(me):
            self._dark_since_s = None
        else:
            self._dark_since_s = now_s if self._dark_since_s is None else self._dark_since_s
            if now_s - self._dark_since_s >= STUCK_S:
                return f"none of its {me.owned} connections has streamed for {STUCK_S:.0f} s, and its peers' do"
        if self._claims.failing(now_s, for_s=STUCK_S) or self._claims.failed_again(now_s, after_s=STUCK_S):
            return f"its claims have had no answer for {STUCK_S:.0f} s, and its peers stream"
        return None


def _streaming(member: Member) -> int:
    found = member.load.get("streaming")
    return found if isinstance(found, int) else 0

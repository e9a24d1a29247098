"""What is read and not yet durable: bounded per connection and per worker (invariant 7). When full, reading stops."""

from collections import deque

from streamlease_worker.gate import Gate

MOST_LINES = 5_000
MOST_BYTES = 4 << 20
MOST_BYTES_OF_ALL = 256 << 20
LINE_COST = 128
"""What an envelope costs beside its own bytes, roughly."""


class Budget:
    """The bytes pending in the whole worker. Whoever has nothing pending may always read one message more."""

    def __init__(self, limit_bytes: int = MOST_BYTES_OF_ALL) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.waiting: set[Pending] = set()
        """Those that have something pending."""

    @property
    def exhausted(self) -> bool:
        return self.used_bytes >= self.limit_bytes

    def lag_ms(self, now_ms: int) -> int:
        """How long the oldest of all that is pending has waited to be durable; 0 where nothing waits."""
        oldest = [at_ms for pending in self.waiting if (at_ms := pending.oldest_ms) is not None]
        return max(0, now_ms - min(oldest)) if oldest else 0

    @property
    def stalled(self) -> int:
        """How many connections are not read, since what was read of them is not durable yet."""
        return sum(not pending.room.is_set() for pending in self.waiting)


class Pending:
    """One connection's envelopes in order, each with its delivery number. For one event loop."""

    def __init__(self, budget: Budget, *, most_lines: int = MOST_LINES, most_bytes: int = MOST_BYTES) -> None:
        self._budget = budget
        self._most_lines = most_lines
        self._most_bytes = most_bytes
        self._lines: deque[tuple[int, bytes, int]] | tuple[()] = ()
        self._bytes = 0
        self._taken = 0
        self._closed = False
        self._changed = Gate()
        self.room = Gate(is_set=True)
        """Set while there is room to read more."""

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def oldest_ms(self) -> int | None:
        """When the oldest that waits was received (wall clock); None where nothing waits."""
        return self._lines[0][2] if self._lines else None

    def put(self, number: int, line: bytes, received_at_ms: int) -> None:
        """Never refuses: whoever reads stops reading when `full`."""
        lines, budget = self._lines, self._budget
        if not isinstance(lines, deque):  # not there while nothing waits, for an empty one weighs as much as 60 lines
            lines = self._lines = deque()
            budget.waiting.add(self)
        lines.append((number, line, received_at_ms))
        cost = len(line) + LINE_COST
        self._bytes += cost
        budget.used_bytes += cost
        if len(lines) >= self._most_lines or self._bytes >= self._most_bytes or budget.exhausted:
            self.room.clear()
        self._changed.set()

    async def some(self, most_lines: int, most_bytes: int) -> tuple[bytes, ...]:
        """The next envelopes, at least one; they stay pending until `done`. Empty once closed and nothing is left."""
        while not self._lines:
            if self._closed:
                return ()
            self._changed.clear()
            await self._changed.wait()
        taken: list[bytes] = []
        size = 0
        for _, line, _ in self._lines:
            size += len(line) + 1
            if taken and (len(taken) >= most_lines or size > most_bytes):
                break
            taken.append(line)
        self._taken = len(taken)
        return tuple(taken)

    def done(self) -> int:
        """What `some` gave last is durable. Returns its last delivery number."""
        number, lines = 0, self._lines
        if isinstance(lines, deque):
            for _ in range(self._taken):
                number, line, _ = lines.popleft()
                self._free(line)
        self._taken = 0
        if not lines:
            self._nothing_waits()
        half = len(self._lines) <= self._most_lines // 2 and self._bytes <= self._most_bytes // 2
        if half and not (self._budget.exhausted and self._lines):
            self.room.set()
        return number

    def close(self) -> None:
        """Nothing more will be put; what is there may still be taken."""
        self._closed = True
        self._changed.set()

    def abandon(self) -> None:
        """Drop what is there. It was acknowledged to nobody."""
        for _, line, _ in self._lines:
            self._free(line)
        self._nothing_waits()
        self._taken = 0
        self.close()
        self.room.set()

    def _nothing_waits(self) -> None:
        self._lines = ()
        self._budget.waiting.discard(self)

    def _free(self, line: bytes) -> None:
        cost = len(line) + LINE_COST
        self._bytes -= cost
        self._budget.used_bytes -= cost

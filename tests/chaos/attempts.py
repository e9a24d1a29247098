"""What the workers' journals say of their attempts at the sink."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

_BLOCK_BYTES = 256 << 10


class What(StrEnum):
    BEGAN = "began"
    """The fence was passed."""
    DURABLE = "durable"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Told:
    """One line. It happened between `from_s` and `until_s` on the leases' clock, which all processes share, and not
    before `wall_ms`. `first` and `last` are the batch's sequences, None for gaps."""

    what: What
    pid: int
    connection_id: str
    epoch: int
    from_s: float
    until_s: float
    wall_ms: int
    first: int | None
    last: int | None


class Journals:
    """The journals of a folder, read on as they grow."""

    def __init__(self, folder: Path) -> None:
        self.told: list[Told] = []
        """All so far; of each process in its order."""
        self._folder = folder
        self._read: dict[Path, int] = {}

    def read_on(self) -> list[Told]:
        """What is new."""
        new = [told for path in sorted(self._folder.glob("attempts-*")) for told in self._more_of(path)]
        self.told += new
        return new

    def of(self, pid: int) -> list[Told]:
        """All of one process so far."""
        return [*decoded(_whole_lines(self._folder / f"attempts-{pid}", 0), pid)]

    def _more_of(self, path: Path) -> Iterator[Told]:
        start = self._read.get(path, 0)
        lines = _whole_lines(path, start)
        self._read[path] = start + sum(map(len, lines))
        yield from decoded(lines, int(path.name.rpartition("-")[2]))


def _whole_lines(path: Path, start: int) -> list[bytes]:
    """From a line's beginning on, until the first zero byte, which nobody has written yet."""
    data = bytearray()
    with path.open("rb") as file:
        file.seek(start)
        while block := file.read(_BLOCK_BYTES):
            data += block
            if 0 in block:
                break
    written = data[: data.find(0)] if 0 in data else data
    return bytes(written[: written.rfind(b"\n") + 1]).splitlines(keepends=True)


def decoded(lines: Iterable[bytes], pid: int) -> Iterator[Told]:
    """The lines of one process."""
    for line in lines:
        what, from_s, wall_ms, until_s, connection_id, epoch, first, last = json.loads(line)
        yield Told(What(what), pid, connection_id, epoch, from_s, until_s, wall_ms, first, last)

"""Which position stands on which page, and when a page is written (worker mode, design §2, §3). Part of the keeper.

A connection keeps its page while it is held, and what is freed is used again. A page is written once in an interval at
most, only when a position on it has advanced, and one write at a time; its versions are never used twice, also where an
answer was lost. A page that outgrows one write unit gives entries away: each stays where it was, as last stored, until
the other page with its newer value has landed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import batched
from typing import Literal

from streamlease import pages
from streamlease.errors import Fault
from streamlease.flow import BATCH_WRITES
from streamlease.flows.pages import PageWrite
from streamlease.model import Saved
from streamlease.pages import PAGE_BYTES, Overtaken, Unwritable, Written
from streamlease_worker.held import Held, Phase
from streamlease_worker.jitter import backoff_s, draw
from streamlease_worker.keeper_events import PagesAnswered, SavePages

type Key = tuple[str, int]
"""Connection id and epoch."""


@dataclass(slots=True)
class Sheet:
    """One page. Mutable, owned by one `Paging`. Seconds are monotonic."""

    number: int
    every_s: float
    """Those that ask for another interval are on another page, so that the quick ones do not have the rest written."""
    due_s: float
    size: int
    """Of its item as last written, less an estimate of what was freed since."""
    version: int = 0
    """The highest used or seen."""
    fresh: bool = True
    """No write of it has landed yet, as far as is known."""
    sealed: bool = False
    in_flight: bool = False
    failures: int = 0
    entries: dict[Key, Saved] = field(default_factory=dict)
    coming: dict[Key, int] = field(default_factory=dict)
    """Estimated sizes of what is to be written into it for the first time."""


@dataclass(frozen=True, slots=True)
class Sent:
    sheet: Sheet
    revisions: Mapping[Key, int]
    """What the write stores of each connection that had news; see `Held.paged`."""


class Paging:
    """All pages of one worker id. Mutable, owned by one `Keeper`."""

    def __init__(self, worker_id: str, *, every_s: float, parallel: int) -> None:
        self._worker_id = worker_id
        self._every_s = every_s
        self._parallel = parallel
        self._sheets: list[Sheet] = []
        self._sheet_of: dict[Key, Sheet] = {}
        self._left_behind: dict[Key, list[Sheet]] = {}
        self._in_flight: dict[int, tuple[Sent, ...]] = {}
        self._last = 0

    def due(self, held: Iterable[Held], now_s: float) -> list[SavePages]:
        """The pages to be written now, with what has advanced among the `held`."""
        news: dict[int, list[Held]] = {}
        for each in held:
            if each.phase is Phase.HELD and each.position_unsaved:
                sheet = self._sheet_for(each, now_s)
                if sheet.due_s <= now_s and not sheet.in_flight and not sheet.sealed:
                    news.setdefault(sheet.number, []).append(each)
        room = (self._parallel - len(self._in_flight)) * BATCH_WRITES
        soonest = sorted(news, key=lambda number: self._sheets[number].due_s)[: max(0, room)]
        sent = [self._fill(self._sheets[number], news[number], now_s) for number in soonest]
        return [
            self._begin(group, now_s) for group in batched([s for s in sent if s.revisions], BATCH_WRITES, strict=False)
        ]

    def free(self, key: Key) -> None:
        """Its lease is over: the item says all there is to say of it."""
        sheet = self._sheet_of.pop(key, None)
        if sheet is not None:
            sheet.coming.pop(key, None)
            _drop(key, sheet)
        self._forget_old(key)

    def answered(self, event: PagesAnswered, held: Mapping[Key, Held], now_s: float) -> Literal["sealed"] | None:
        """`sealed`: somebody has buried this worker."""
        found: Literal["sealed"] | None = None
        for sent, answer in zip(self._in_flight.pop(event.batch, ()), event.answers, strict=False):
            sheet = sent.sheet
            sheet.in_flight = False
            if isinstance(answer, Fault):
                self._again_soon(sheet, now_s)
                continue
            match pages.written(answer):
                case Written():
                    self._landed(sent, held)
                case Overtaken(version):
                    sheet.version = max(sheet.version, version)
                    self._again_soon(sheet, now_s)
                case Unwritable("missing"):
                    sheet.fresh = True
                    self._again_soon(sheet, now_s)
                case Unwritable():
                    sheet.sealed = True
                    found = "sealed"
        return found

    # --- which page ----------------------------------------------------------------------------------------------

    def _sheet_for(self, held: Held, now_s: float) -> Sheet:
        sheet = self._sheet_of.get(held.key)
        if sheet is not None and sheet.every_s != self._interval_s(held):  # its spec was changed
            sheet.coming.pop(held.key, None)
            if held.key in sheet.entries:
                self._left_behind.setdefault(held.key, []).append(sheet)
            sheet = None
        return sheet or self._assign(held, now_s)

    def _interval_s(self, held: Held) -> float:
        return self._every_s if held.every_s is None else held.every_s

    def _assign(self, held: Held, now_s: float, other_than: Sheet | None = None) -> Sheet:
        size = pages.estimate(held.entry())
        every_s = self._interval_s(held)
        sheet = next(
            (
                each
                for each in self._sheets
                if each.every_s == every_s and each is not other_than and _has_room(each, size)
            ),
            None,
        )
        if sheet is None:
            number = len(self._sheets)
            wait_s = every_s * (0.5 + draw(self._worker_id, number) / 2)  # for others to come to it
            sheet = Sheet(number, every_s, now_s + wait_s, pages.size(self._worker_id, number, 0))
            self._sheets.append(sheet)
        sheet.coming[held.key] = size
        self._sheet_of[held.key] = sheet
        return sheet

    def _fill(self, sheet: Sheet, news: list[Held], now_s: float) -> Sent:
        """Take the news into the page; what makes it outgrow a write unit goes to another one."""
        before = dict(sheet.entries)
        revisions: dict[Key, int] = {}
        for held in news:
            sheet.entries[held.key], revisions[held.key] = held.turning()
            sheet.coming.pop(held.key, None)
        largest = sorted(news, key=lambda held: pages.estimate(sheet.entries[held.key]))
        while (size := self._size(sheet)) > PAGE_BYTES and len(sheet.entries) > 1 and largest:
            held = largest.pop()
            del revisions[held.key]
            if held.key in before:
                sheet.entries[held.key] = before[held.key]
                self._left_behind.setdefault(held.key, []).append(sheet)
            else:
                del sheet.entries[held.key]
            other = self._assign(held, now_s, other_than=sheet)
            other.due_s = min(other.due_s, now_s + other.every_s / 10)  # it has waited here
        sheet.size = size
        return Sent(sheet, revisions)

    def _size(self, sheet: Sheet) -> int:
        return pages.size(self._worker_id, sheet.number, len(pages.pack(sheet.entries.values())))

    # --- writing it ----------------------------------------------------------------------------------------------

    def _begin(self, group: tuple[Sent, ...], now_s: float) -> SavePages:
        self._last += 1
        self._in_flight[self._last] = group
        writes = []
        for sheet in (sent.sheet for sent in group):
            sheet.version += 1
            sheet.in_flight = True
            sheet.due_s = now_s + sheet.every_s
            writes.append(PageWrite(sheet.number, sheet.version, tuple(sheet.entries.values()), sheet.fresh))
        return SavePages(self._last, self._worker_id, tuple(writes))

    def _landed(self, sent: Sent, held: Mapping[Key, Held]) -> None:
        sent.sheet.fresh = False
        sent.sheet.failures = 0
        for key, revision in sent.revisions.items():
            if key in held:
                held[key].paged(revision)
            if self._sheet_of.get(key) is sent.sheet:
                self._forget_old(key)

    def _forget_old(self, key: Key) -> None:
        for sheet in self._left_behind.pop(key, ()):
            if self._sheet_of.get(key) is not sheet:
                _drop(key, sheet)

    def _again_soon(self, sheet: Sheet, now_s: float) -> None:
        sheet.failures += 1
        every_s = min(sheet.every_s, self._every_s)
        wait_s = backoff_s(sheet.failures, every_s / 20, every_s / 2, self._worker_id, sheet.number)
        sheet.due_s = min(sheet.due_s, now_s + wait_s)


def _has_room(sheet: Sheet, size: int) -> bool:
    return not sheet.sealed and sheet.size + sum(sheet.coming.values()) + size <= PAGE_BYTES


def _drop(key: Key, sheet: Sheet) -> None:
    entry = sheet.entries.pop(key, None)
    if entry is not None:
        sheet.size -= pages.estimate(entry)

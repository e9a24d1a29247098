"""What moves by weight where a connection carries much: real loads, real shares, and no more than a move or two."""

from streamlease import plan, shares
from streamlease.model import FleetSummary, Member, MemberState
from streamlease_worker.load import Load
from streamlease_worker.supervisor_events import Measured

NOW_MS = 1_800_000_000_000
MEASURED_EACH_S = 5
RATES = {"heavy": 4_950.0}
"""It weighs as much as all the others."""


class Worker:
    def __init__(self, name: str, connections: list[str]) -> None:
        self.name = name
        self.held = set(connections)
        self.load = Load()

    def measure(self, at_s: float) -> None:
        rates = {name: RATES[name] for name in self.held if name in RATES}
        self.load.measured(Measured(rates, 0, None), at_s)

    def member(self, now_ms: int) -> Member:
        return Member(
            worker_id=self.name,
            state=MemberState.LIVE,
            heartbeat=1,
            lease_expires_at_ms=now_ms + 30_000,
            generation=1,
            capacity=1_000,
            started_at_ms=0,
            owned=len(self.held),
            load=self.load.said(),
            lease_ms=30_000,
        )

    def gives(self, fleet: FleetSummary) -> list[str]:
        assert fleet.shares is not None
        weighs = len(self.held) + self.load.extra
        excess = shares.too_many(fleet.shares, self.name, weighs=weighs, band=self.load.band)
        given = []
        for name in sorted(self.held, key=lambda name: (-self.load.extra_of(name), name)):
            weight = 1 + self.load.extra_of(name)
            if weight <= excess:
                excess -= weight
                given.append(name)
                self.load.forget(name)
        self.held.difference_update(given)
        return given

    def takes(self, fleet: FleetSummary, unowned: list[str]) -> None:
        share = plan.share(fleet, self.name)
        assert share is not None
        room = plan.room(held=len(self.held), capacity=1_000, share=share - self.load.extra, stale=False)
        self.held.update(unowned[:room])
        del unowned[:room]


def test_l33_a_heavy_connection_moves_alone_and_the_light_ones_stay_while_its_new_owner_learns_its_weight() -> None:
    workers = [Worker("wa", ["heavy", *(f"light-{n}" for n in range(100))]), Worker("wb", [])]
    fleet: FleetSummary | None = None
    unowned: list[str] = []
    moved: list[str] = []
    for second in range(1_200):
        now_ms = NOW_MS + 1_000 * second
        if second % MEASURED_EACH_S == 0:
            for worker in workers:
                worker.measure(second)
        members = [worker.member(now_ms) for worker in workers]
        fleet = plan.summary(members, unowned=len(unowned), shards=1, now_ms=now_ms, before=fleet)
        for worker in workers:
            given = worker.gives(fleet)
            unowned += given
            moved += given
        for worker in workers:
            worker.takes(fleet, unowned)
    assert moved == ["heavy"]
    assert [len(worker.held) for worker in workers] == [100, 1]

"""Invariant 3 in worker mode: position pages only rise, stay as they are once sealed, and are carried if they count."""

from dataclasses import dataclass

from streamlease import pages
from streamlease.flows.pages import decoded
from streamlease.write import Table
from tests.simulation.kernel import Kernel
from tests.simulation.network import label
from tests.simulation.store import Landing, Store
from tests.simulation.violation import Violated, Violation


@dataclass(slots=True)
class PageChecker:
    kernel: Kernel
    store: Store

    def observe(self, landing: Landing) -> None:
        if not landing.applied:
            return
        if landing.write.table is Table.WORKER_ITEMS and landing.key[1].startswith(pages.PREFIX):
            self._page(landing)
        elif label(landing.write) == "inbox delete" and landing.stamp is not None:
            self._forgotten(landing, landing.stamp[1])
        elif landing.write.table is Table.CONNECTIONS and label(landing.write) == "orphan":
            self._orphaned(landing)

    def _page(self, landing: Landing) -> None:
        before, after = landing.before, landing.after
        if before is None or after is None:
            return
        if "sealed" in before:
            self._fail("a sealed page is closed", "", f"{landing.key} was written by {landing.origin}")
        was, now = before.get("version"), after.get("version")
        if isinstance(was, int) and (not isinstance(now, int) or now < was):  # else somebody wrote it by hand
            self._fail("a page never goes back", "", f"{landing.key} went from version {was} to {now}")

    def _forgotten(self, landing: Landing, acted_on: int) -> None:
        found = (landing.before or {}).get("spec_version")
        if found is not None and found != acted_on:
            self._fail("a notice not acted on stays", "", f"{landing.key} of version {found} went with {acted_on}")

    def _orphaned(self, landing: Landing) -> None:
        """What the dead worker's sealed pages say of this epoch is in the item now."""
        before, after = landing.before or {}, landing.after or {}
        sealed = tuple(
            item
            for key, item in self.store.tables[Table.WORKER_ITEMS].items()
            if key[0] == before.get("lease_owner") and pages.is_page(item) and "sealed" in item
        )
        readable, _ = decoded(sealed)
        saved = pages.newest(readable).get(landing.key[0])
        number = after.get("checkpoint_no")
        if saved is None or saved.epoch != before.get("lease_epoch") or not isinstance(number, int):
            return
        if saved.checkpoint_no > number:
            what = f"{before.get('lease_owner')} had saved checkpoint {saved.checkpoint_no}, and the item has {number}"
            self._fail("the orphaning carries the page's position", landing.key[0], what)

    def _fail(self, rule: str, connection_id: str, what: str) -> None:
        raise Violated(Violation(3, rule, self.kernel.now_us, connection_id, what))

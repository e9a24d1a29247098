"""One change of a connection item, as the stream tells of it: an offer, a notice to its owner, or nothing."""

from streamlease import inbox, plan
from streamlease.errors import Unreachable
from streamlease.flow import Flow, SendOffers, now, write
from streamlease.model import Offer
from streamlease.plan import Notice
from streamlease.write import Item


def react(image: Item | None) -> Flow[Offer | Notice | None]:
    """Raises Malformed for a poisoned image, Fault where the hint was not handed on (the event is then retried)."""
    instant = yield from now()
    found = plan.reaction(image, now_ms=instant.wall_ms)
    match found:
        case Offer():
            untaken: tuple[Offer, ...] = yield SendOffers((found,))
            if untaken:
                raise Unreachable(f"the offers queue did not take the offer of connection {found.connection_id!r}")
        case Notice():
            yield from write(inbox.put(found))
        case None:
            pass
    return found

"""An offer as the body of an SQS message, and back."""

import json
from typing import cast, get_args

from streamlease.errors import Malformed
from streamlease.model import Offer, OfferReason

VERSION = 1


def body(offer: Offer) -> str:
    """ASCII: SQS refuses some characters that a connection id may hold."""
    return json.dumps(
        {
            "v": VERSION,
            "connection_id": offer.connection_id,
            "reason": offer.reason,
            "offered_at_ms": offer.offered_at_ms,
        },
        separators=(",", ":"),
    )


def offer(text: str) -> Offer:
    """Raises Malformed for a message of another kind or version: it is reported and deleted."""
    where = "offer message"
    try:
        fields = json.loads(text)
    except ValueError:
        raise Malformed(where, "it is not JSON") from None
    if not isinstance(fields, dict):
        raise Malformed(where, "it is not a JSON object")
    if fields.get("v") != VERSION:
        raise Malformed(where, f"it is of version {fields.get('v')!r}; this release reads {VERSION}")
    connection_id, reason, offered_at_ms = (fields.get(name) for name in ("connection_id", "reason", "offered_at_ms"))
    if not isinstance(connection_id, str) or not connection_id:
        raise Malformed(where, "it has no connection_id")
    if reason not in get_args(OfferReason.__value__):
        raise Malformed(where, f"it has the reason {reason!r}, which this release does not know")
    if isinstance(offered_at_ms, bool) or not isinstance(offered_at_ms, int):
        raise Malformed(where, "it has no offered_at_ms in whole milliseconds")
    return Offer(connection_id, cast("OfferReason", reason), offered_at_ms)

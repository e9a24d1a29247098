"""What the end of a socket means for its connection: tried again, from where, or given up."""

from dataclasses import dataclass

from streamlease.feed.events import Closed
from streamlease.feed.feed import Action, Feed
from streamlease.feed.rules import Rules, Ruling
from streamlease.feed.secrets import references

_REFUSED_FOR_WHO_ASKS = 401


@dataclass(frozen=True, slots=True)
class End:
    action: Action
    reason: str
    after_s: float | None = None
    url: str | None = None
    ruled: bool = False
    """Whether a rule decided it."""


class Endings:
    """Of one connection."""

    def __init__(self, feed: Feed, rules: Rules) -> None:
        self._retry = feed.retry
        self._rules = rules
        self._has_secrets = bool(references(feed))
        self._refreshed = False

    def proven(self) -> None:
        """The connection was good: what follows is no repetition of what was before."""
        self._rules.proven()
        self._refreshed = False

    def of(self, closed: Closed, why: str, *, ruling: Ruling | None, ours: bool, announced: bool = False) -> End:
        """`why`: in words. `ruling`: what a message has already decided. `ours`: this side closed it. `announced`: it
        was dialled at a URL that the upstream named, whose refusal says nothing of the spec's own."""
        if ruling is None and not ours:
            ruling = self._rules.ended(closed)
        after_s = _longer(closed.retry_after_s, None if ruling is None else ruling.after_s)
        if ruling is not None:
            action, url = ruling.action, ruling.url
            if ruling.rule.times is not None and ruling.exhausted:
                why = f"{why}; {ruling.rule.name} was followed {ruling.rule.times} times in a row"
        else:
            action, url = ("retry" if ours else self._by_itself(closed, announced=announced)), None
        if action == "refresh_secrets":
            if self._refreshed:
                return End("fatal", f"{why}; its secrets were looked up anew, and are refused as well")
            self._refreshed = True
        elif action == "fatal":
            why = f"{why}; {self._names(closed, ruling)} is final for this feed"
        return End(action, why, after_s, url, ruled=ruling is not None)

    def _by_itself(self, closed: Closed, *, announced: bool) -> Action:
        """Without a rule that says otherwise."""
        status = closed.http_status
        if status is not None and status in self._retry.fatal_http_statuses:
            can_refresh = status == _REFUSED_FOR_WHO_ASKS and self._has_secrets
            if can_refresh:
                return "refresh_secrets"
            return "retry" if announced else "fatal"
        return "fatal" if closed.code is not None and closed.code in self._retry.fatal_close_codes else "retry"

    def _names(self, closed: Closed, ruling: Ruling | None) -> str:
        if ruling is not None and ruling.rule.message is not None:
            return f"what {ruling.rule.name} says"
        if closed.http_status is not None:
            return f"HTTP {closed.http_status}"
        return f"close code {closed.code}"


def _longer(first_s: float | None, second_s: float | None) -> float | None:
    if first_s is None or second_s is None:
        return second_s if first_s is None else first_s
    return max(first_s, second_s)

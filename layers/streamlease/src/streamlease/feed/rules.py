"""What is to be done about what an upstream says: by message, close code, or HTTP answer. The first rule that fits."""

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass

from streamlease.feed import reader
from streamlease.feed.decoding import Undecodable, json_value
from streamlease.feed.events import Closed
from streamlease.feed.feed import Action, Feed, Rule
from streamlease.write import Value

_POLICY = Rule(name="retrying 1008", close_codes=frozenset({1008}), action="retry", times=2, otherwise="fatal")
"""Policy violations: twice may be chance or a bad moment, a third time in a row is meant."""
_OVERSIZED = Rule(name="retrying 1009", close_codes=frozenset({1009}), action="retry", times=2, otherwise="quarantine")
"""A message that is too large stands where it stands: each dial that resumes would meet it again."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a rule comes to this time."""

    action: Action
    rule: Rule
    after_s: float | None = None
    url: str | None = None
    exhausted: bool = False
    """It has come to `otherwise`."""


class Rules:
    """Of one connection, over all its sockets: it counts how often each rule was followed in a row."""

    def __init__(self, feed: Feed) -> None:
        self._messages = tuple(rule for rule in feed.rules if rule.message is not None)
        self._ends = (*(rule for rule in feed.rules if rule.message is None), _POLICY, _OVERSIZED)
        self._followed: Counter[int] = Counter()

    def proven(self) -> None:
        """A connection has proven itself: nothing is in a row any more."""
        self._followed.clear()

    def said(self, value: Value) -> Ruling | None:
        for rule in self._messages:
            if rule.message is not None and rule.message(value):
                return self._ruling(rule, value)
        return None

    def ended(self, closed: Closed) -> Ruling | None:
        body: Value = None
        if closed.body:
            with suppress(Undecodable):
                body = json_value(closed.body)
        for rule in self._ends:
            if _fits(rule, closed, body):
                return self._ruling(rule, body)
        return None

    def _ruling(self, rule: Rule, value: Value) -> Ruling:
        url = None if rule.url is None else rule.url(value)
        after_s = rule.after_s
        if rule.after is not None:
            asked_s = reader.number(rule.after(value))
            after_s = max(after_s or 0.0, float(asked_s or 0.0)) or None
        found = url if isinstance(url, str) else None
        if rule.times is None:
            return Ruling(rule.action, rule, after_s, found)
        self._followed[id(rule)] += 1
        exhausted = self._followed[id(rule)] > rule.times
        if exhausted:
            self._followed[id(rule)] = 0  # what `otherwise` begins has the same chances
        return Ruling(rule.otherwise if exhausted else rule.action, rule, after_s, found, exhausted)


def _fits(rule: Rule, closed: Closed, body: Value) -> bool:
    if rule.close_codes or rule.reason is not None:
        return (
            closed.http_status is None
            and closed.code is not None
            and (not rule.close_codes or closed.code in rule.close_codes)
            and (rule.reason is None or rule.reason.lower() in closed.reason.lower())
        )
    return (
        closed.http_status is not None
        and (not rule.http_statuses or closed.http_status in rule.http_statuses)
        and (rule.body is None or bool(rule.body(body)))
    )

"""What is heard on a socket: frames become messages, by decoder or adapter, and a message is control or data.

Control is heartbeats, rules, the open script and readiness. What follows for the connection as a whole is its
machine's, which is called back.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import MappingProxyType

from streamlease.feed.adapted import Adapted, AdapterFault, Clock, Watch, json_text
from streamlease.feed.adapter import Context, End, Hear, Keep, Raw, Reaction, Say, Seal, Wake
from streamlease.feed.decoding import Trouble, Undecodable
from streamlease.feed.events import Command, Message
from streamlease.feed.feed import Feed, Rule
from streamlease.feed.intake import LONGEST_REASON, Intake
from streamlease.feed.rules import Rules, Ruling
from streamlease.feed.script import capture
from streamlease.feed.session import Phase, Session
from streamlease.feed.template import RECEIVED
from streamlease.write import Value


@dataclass(frozen=True, slots=True)
class Follows:
    """What the machine does about what was heard."""

    ready: Callable[[Session, float, float, list[Command]], None]
    """The socket stands, at this time, with this draw."""
    data: Callable[[Session, Value, Message, Trouble | None, float, list[Command]], None]
    """A message that is data; with a trouble, one that cannot be read."""
    numbered: Callable[[Session, Value, list[Command]], None]
    """Every message that can be read, before it is anything else, where all are numbered."""
    kept: Callable[[Session, list[Command]], None]
    """Variables changed."""
    rotates: Callable[[Session, str | None, float, float, list[Command]], bool]
    """The upstream asks for a new socket, at a URL perhaps. Whether this one goes on meanwhile."""
    faulty: Callable[[str, float, list[Command]], None]
    """The adapter is not to be trusted any more."""


class Hearing:
    """Of one connection."""

    def __init__(self, feed: Feed, rules: Rules, intake: Intake, clock: Clock | None, follows: Follows) -> None:
        self._feed = feed
        self._rules = rules
        self._intake = intake
        self._follows = follows
        self._bounds = feed.bounds
        self._looks_at_values = feed.bounds.looks_through
        self._gives_many = feed.record.each is not None
        """Whether a message may be several records."""
        self._watch = None if feed.adapter is None else Watch(feed.adapter, clock)
        beat, self._heartbeat = feed.keepalive.beat, feed.keepalive.heartbeat
        self.controlled = beat is not None or self._heartbeat is not None or any(rule.message for rule in feed.rules)
        """Whether a message may be more than data, also once the socket is ready."""

    def decoded(self, session: Session, message: Message, now_s: float, draw: float, commands: list[Command]) -> None:
        """Every message in what came, one after the other."""
        trouble: Trouble | None = None
        try:
            values = self._feed.decode(message.data)
        except Undecodable as error:
            values, trouble = (message.data if isinstance(message.data, str) else None,), error.trouble
        if (self._looks_at_values or len(values) > 1) and trouble is None and self._bounds.exceeded(values):
            values, trouble = (message.data if isinstance(message.data, str) else None,), "too_many"
        if self._gives_many:
            self._intake.frame(len(values))
        if len(values) == 1:
            self._heard(session, values[0], message, trouble, now_s, draw, commands)
            return
        first = self._intake.delivered + 1
        for value in values:
            if session.is_open:
                self._heard(session, value, message, trouble, now_s, draw, commands)
        self._intake.together(first, whole=session.is_open)

    def _heard(
        self,
        session: Session,
        value: Value,
        message: Message,
        trouble: Trouble | None,
        now_s: float,
        draw: float,
        commands: list[Command],
    ) -> None:
        """One message. `trouble`: it cannot be read, and `value` is what there is of it."""
        if self._intake.numbers_messages and trouble is None:
            self._follows.numbered(session, value, commands)
        if self.controlled and not self._control(session, value, now_s, draw, commands):
            return
        if session.phase is Phase.OPENING and session.heard(value, now_s, draw, commands):
            self._follows.ready(session, now_s, draw, commands)
        self._follows.data(session, value, message, trouble, now_s, commands)

    def adapt(
        self, session: Session, message: Message | None, now_s: float, draw: float, commands: list[Command]
    ) -> None:
        """What the adapter answers: to a message, or without one to being opened or woken."""
        adapting, watch = self._feed.adapter, self._watch
        if adapting is None or watch is None:
            return
        context = Context(self._feed.connection_id, now_s, MappingProxyType(session.variables), self._intake.received)
        try:
            if session.adapted is None:
                session.adapted = Adapted(adapting, watch, most_send_bytes=self._feed.max_send_bytes)
                reactions = session.adapted.opened(context)
            elif message is not None:
                reactions = session.adapted.received(context, message.data)
            else:
                reactions = session.adapted.woke(context)
            first = self._intake.delivered + 1
            heard = [reaction.message for reaction in reactions if isinstance(reaction, Hear)]
            self._intake.frame(len(heard))
            if message is not None and self._bounds.exceeded(heard):
                reactions = [reaction for reaction in reactions if not isinstance(reaction, Hear)]
                # Not the frame: parts of what the adapter made may have come before it.
                made = json_text(heard[0] if len(heard) == 1 else heard)
                self._unread(session, replace(message, data=made), "too_many", now_s, draw, commands)
            for reaction in reactions:
                if session.is_open:
                    self._react(session, session.adapted, reaction, message, now_s, draw, commands)
            self._intake.together(first, whole=session.is_open)
            fault = watch.fault
        except AdapterFault as error:
            fault = str(error)
        if fault is not None:
            self._follows.faulty(fault, now_s, commands)

    def _react(
        self,
        session: Session,
        adapted: Adapted,
        reaction: Reaction,
        message: Message | None,
        now_s: float,
        draw: float,
        commands: list[Command],
    ) -> None:
        match reaction:
            case Hear(value):
                if message is not None:
                    self._heard(session, value, message, None, now_s, draw, commands)
            case Raw(data):
                if message is not None:
                    self._unread(session, replace(message, data=data), "undecodable", now_s, draw, commands)
            case Say() | Seal():
                session.send(adapted.send(reaction, session.number), now_s, commands)
            case Keep(name, kept):
                session.variables[name] = kept
                session.captured(now_s, draw)
                self._follows.kept(session, commands)
            case Wake(after_s):
                session.adapter_at_s = now_s + after_s
            case End(why, action, after_s):
                name = "the adapter" if self._feed.adapter is None else f"the adapter {self._feed.adapter.name}"
                session.ruling = Ruling(action, Rule(message=lambda _: True, name=name), after_s)
                session.close(why[:LONGEST_REASON], now_s, commands, code=self._feed.close_code)

    def _unread(
        self,
        session: Session,
        message: Message,
        trouble: Trouble,
        now_s: float,
        draw: float,
        commands: list[Command],
    ) -> None:
        """A message that is not taken apart."""
        value = message.data if isinstance(message.data, str) else None
        self._heard(session, value, message, trouble, now_s, draw, commands)

    def _control(self, session: Session, value: Value, now_s: float, draw: float, commands: list[Command]) -> bool:
        """Do what a message asks for; whether it may be data."""
        if session.answers(value) or (self._heartbeat is not None and self._heartbeat(value)):
            return False
        session.fresh(now_s)
        ruling = self._rules.said(value)
        if ruling is None:
            return True
        if capture(ruling.rule.capture, value, session.variables):
            session.captured(now_s, draw)
            self._follows.kept(session, commands)
        for message in ruling.rule.sends:
            session.say(message, now_s, commands, more={RECEIVED: self._intake.received})
        if ruling.action == "gap":
            self._intake.cut_short(f"the upstream sent what {ruling.rule.name} is for", commands)
        if ruling.action in ("go_on", "gap"):
            return True
        if ruling.action == "rotate" and self._follows.rotates(session, ruling.url, now_s, draw, commands):
            return False
        if session.is_open:
            session.ruling = ruling
            session.close(
                f"the upstream sent what {ruling.rule.name} is for", now_s, commands, code=self._feed.close_code
            )
        return False

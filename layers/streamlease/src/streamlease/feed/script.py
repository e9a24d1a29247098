"""The open script of one socket: send, wait for an answer, keep what it says, go on."""

from streamlease.feed.feed import Captures, Feed, Step
from streamlease.feed.template import Templates
from streamlease.write import Value

LONGEST_CAPTURED = 4_096


def capture(captures: Captures, value: Value, variables: dict[str, Value]) -> bool:
    """Keeps what a message says, texts, numbers and booleans only. Whether there was anything."""
    found = False
    for name, extract in captures.items():
        kept = extract(value)
        if isinstance(kept, bool | int | float) or (
            isinstance(kept, str) and 0 < len(kept) <= LONGEST_CAPTURED and kept.isprintable()
        ):
            variables[name] = kept
            found = True
    return found


class Script:
    def __init__(self, feed: Feed, templates: Templates, variables: dict[str, Value]) -> None:
        self._steps = feed.open_messages
        self._templates = templates
        self._variables = variables
        self._at = 0
        self._waiting: Step | None = None

    @property
    def done(self) -> bool:
        return self._waiting is None and self._at >= len(self._steps)

    @property
    def within_s(self) -> float | None:
        """How long the answer that is waited for may take; None: none is."""
        return None if self._waiting is None else self._waiting.within_s

    def next(self) -> tuple[Value, ...]:
        """The messages of the next step, which may be none. Not while one is waited for, nor when all is done."""
        step = self._steps[self._at]
        self._at += 1
        if not isinstance(step, Step):
            return (step,)
        if step.present is not None and self._variables.get(step.present) is None:
            return ()
        if step.absent is not None and self._variables.get(step.absent) is not None:
            return ()
        if step.waits:
            self._waiting = step
        return step.sends

    def heard(self, value: Value) -> bool:
        """Whether this is what was waited for."""
        step = self._waiting
        if step is None or (step.expect is not None and not step.expect(value)):
            return False
        for extract, template in step.answers:
            meant = self._templates.means(template, self._variables)
            if meant is None or extract(value) != meant:
                return False
        capture(step.capture, value, self._variables)
        self._waiting = None
        return True

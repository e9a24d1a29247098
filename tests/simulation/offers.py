"""SQS, standard queue: at least once, in no order, short retention; a hint may be doubled or lost."""

from collections.abc import Callable
from dataclasses import dataclass

from streamlease.model import Offer
from tests.simulation.kernel import MS, Kernel, S
from tests.simulation.ledger import Ledger

RETENTION_US = 120 * S
VISIBILITY_US = 15 * S
RECEIVES = 5
"""After so many receives a message goes to the dead letters (template.yaml)."""


@dataclass(slots=True)
class Message:
    number: int
    offer: Offer
    sent_us: int
    hidden_until_us: int
    receives: int = 0


@dataclass(frozen=True, slots=True)
class Delivery:
    """A received message: `receipt` deletes it."""

    offer: Offer
    receipt: int


@dataclass(slots=True)
class Mischief:
    """What a fault makes of messages sent while it lasts."""

    until_us: int = 0
    loss: float = 0.0
    double: float = 0.0
    delay_us: int = 0
    cause: int = 0


class OffersQueue:
    def __init__(self, kernel: Kernel, ledger: Ledger) -> None:
        self.kernel = kernel
        self.ledger = ledger
        self.mischief = Mischief()
        self.messages: dict[int, Message] = {}
        self.dead_letters = 0
        self._numbers = 0
        self._draws = kernel.draws("offers")
        self._waiting: list[tuple[int, int, Callable[[tuple[Delivery, ...]], None]]] = []

    def send(self, offers: tuple[Offer, ...]) -> tuple[Offer, ...]:
        """Answers with the offers not taken: none, here."""
        mischief = self.mischief
        bad = mischief.until_us > self.kernel.now_us
        for offer in offers:
            copies = 1
            if bad and self._draws.random() < mischief.loss:
                copies = 0
                self.ledger.hit("offer lost", offer.connection_id, "sqs", mischief.cause)
            elif bad and self._draws.random() < mischief.double:
                copies = 2
                self.ledger.hit("offer doubled", offer.connection_id, "sqs", mischief.cause)
            for _ in range(copies):
                self._numbers += 1
                delay_us = self._draws.randint(0, 50 * MS) + (mischief.delay_us * (copies == 1) if bad else 0)
                if bad and mischief.delay_us:
                    self.ledger.hit("offer delayed", offer.connection_id, "sqs", mischief.cause)
                message = Message(self._numbers, offer, self.kernel.now_us, self.kernel.now_us + delay_us)
                self.messages[message.number] = message
                self.kernel.at(message.hidden_until_us, self._hand_out)
        return ()

    def receive(self, most: int, wait_us: int, then: Callable[[tuple[Delivery, ...]], None]) -> None:
        """Long polling: `then` is called with up to `most` messages once there are any, or with none in the end."""
        until_us = self.kernel.now_us + wait_us
        self._waiting.append((until_us, most, then))
        self.kernel.at(until_us, self._give_up)
        self._hand_out()

    def delete(self, receipt: int) -> None:
        self.messages.pop(receipt, None)

    def give_back(self, receipt: int) -> None:
        """Visible again at once."""
        message = self.messages.get(receipt)
        if message is not None:
            message.hidden_until_us = self.kernel.now_us
            self.kernel.at(self.kernel.now_us, self._hand_out)

    def _visible(self) -> list[Message]:
        now_us = self.kernel.now_us
        for message in [m for m in self.messages.values() if m.sent_us + RETENTION_US <= now_us]:
            del self.messages[message.number]
        for message in [m for m in self.messages.values() if m.hidden_until_us <= now_us and m.receives >= RECEIVES]:
            del self.messages[message.number]
            self.dead_letters += 1
        return [m for m in self.messages.values() if m.hidden_until_us <= now_us]

    def _hand_out(self) -> None:
        while self._waiting:
            visible = self._visible()
            if not visible:
                return
            self._draws.shuffle(visible)
            _, most, then = self._waiting.pop(0)
            taken = visible[:most]
            for message in taken:
                message.hidden_until_us = self.kernel.now_us + VISIBILITY_US
                message.receives += 1
                self.kernel.at(message.hidden_until_us, self._hand_out)
            then(tuple(Delivery(m.offer, m.number) for m in taken))

    def _give_up(self) -> None:
        now_us = self.kernel.now_us
        for waiting in [w for w in self._waiting if w[0] <= now_us]:
            self._waiting.remove(waiting)
            waiting[2](())

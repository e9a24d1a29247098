"""One item and its writes, one at a time: the smallest store there is."""

from dataclasses import dataclass

from streamlease.write import Answer, Applied, Item, Refused, Write, apply, holds


@dataclass(slots=True)
class Cell:
    """`put` is what a store does with a conditional write of this one item."""

    item: Item | None = None

    def put(self, write: Write) -> Answer:
        if not holds(write.condition, self.item):
            return Refused(self.item)
        self.item = apply(write, self.item)
        return Applied(self.item)

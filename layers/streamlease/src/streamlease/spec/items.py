"""How many items msgpack or CBOR holds, before any of it is made: by their heads alone, which say how long each is.

Names count as items, and so does each part of a text or binary in parts. Where the data is not what it should be, the
number is of no meaning, and the decoder will say so.
"""

from typing import Final


class Heads:
    """What follows each head. Containers are followed by their items, so by nothing."""

    __slots__ = ("fixed", "length")

    def __init__(self, fixed: list[int], length: list[int]) -> None:
        self.fixed = fixed
        """So many bytes that are no items."""
        self.length = length
        """So many bytes that say how many bytes more."""


def count(data: bytes, heads: Heads, most: int) -> int:
    """Up to one more than `most`."""
    fixed, length = heads.fixed, heads.length
    at, found, end = 0, 0, len(data)
    while at < end and found <= most:
        head = data[at]
        found += 1
        says = length[head]
        at += 1 + fixed[head] + says
        if says:
            start = at - fixed[head] - says
            at += int.from_bytes(data[start : start + says])
    return found


def _msgpack() -> Heads:
    fixed, length = [0] * 256, [0] * 256
    fixed[0xA0:0xC0] = range(32)  # short texts
    fixed[0xCA:0xD4] = (4, 8, 1, 2, 4, 8, 1, 2, 4, 8)  # numbers
    fixed[0xD4:0xD9] = (2, 3, 5, 9, 17)  # extensions of one length, with their type
    fixed[0xDC:0xE0] = (2, 4, 2, 4)  # containers
    fixed[0xC7:0xCA] = (1, 1, 1)  # an extension's type
    length[0xC4:0xCA] = (1, 2, 4, 1, 2, 4)
    length[0xD9:0xDC] = (1, 2, 4)
    return Heads(fixed, length)


def _cbor() -> Heads:
    fixed, length = [0] * 256, [0] * 256
    for head in range(256):
        kind, low = divmod(head, 32)
        argument = 1 << (low - 24) if 24 <= low < 28 else 0
        if kind in (2, 3):  # binary and text
            fixed[head] = low if low < 24 else 0
            length[head] = argument
        else:
            fixed[head] = argument
    return Heads(fixed, length)


MSGPACK: Final = _msgpack()
CBOR: Final = _cbor()

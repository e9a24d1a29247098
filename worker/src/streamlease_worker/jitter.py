"""Spread without randomness: steps stay functions of their input, and yet no two leases or workers march in step."""

from zlib import crc32

_MIX = 2_654_435_761  # Knuth's multiplicative hash: neighbouring sums land far apart
_RANGE = 1 << 32


def draw(*parts: str | int) -> float:
    """A number in [0, 1) that looks random and is always the same for the same parts."""
    return (crc32(":".join(map(str, parts)).encode()) * _MIX % _RANGE) / _RANGE


def backoff_s(failures: int, first_s: float, longest_s: float, *parts: str | int) -> float:
    """Equal-jitter backoff: between half of `first_s` doubled for each failure after the first, and all of it."""
    full_s = min(longest_s, first_s * float(1 << min(max(failures, 1) - 1, 16)))
    return full_s * (0.5 + draw(failures, *parts) / 2)

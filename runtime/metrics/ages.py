"""How old rows of state are when they are used: histograms of ages, which add up over tasks and micro-batches.

A bucket is a thirty-second of a power of two wide, so no age in it is further than 1.6 % from its middle. The number of
a bucket is the upper end of the age as a double: exponent and five bits of the fraction. That takes one shift per row.
Source of the layout: HdrHistogram.

Workers count uses in numpy (:func:`count_ages`), figures carry them by name, and records keep them as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Literal, TypeAlias

from stateplan.common.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Use: TypeAlias = Literal["refreshed", "joined", "deduplicated", "retracted"]
"""What the rows of a table are found for. Each loses something else when the row is gone: a refreshed row starts again,
a join misses a match, a deduplication emits a duplicate, a retraction finds nothing to retract."""

AGES = "ages"
"""The figure ``ages.<state>.<use>.<bucket>``: rows found."""

_SHIFT = 47
"""Bits of a double's fraction that a bucket does not distinguish."""
_FIRST = 0x3FF << 5
"""The bucket of 1 ms; ages below are 0."""


def count_ages(ages: npt.NDArray[np.int64]) -> dict[int, int]:
    """Rows by bucket.

    Args:
        ages: ms; one below 0, of a clock that went back, counts as 0.
    """
    import numpy as np

    if not len(ages):
        return {}
    buckets = ages.astype(np.float64).view(np.int64)
    buckets >>= _SHIFT
    try:
        counts = np.bincount(buckets)
    except ValueError:  # one of them is below 0
        return count_ages(np.maximum(ages, 0))
    filled_buckets = np.flatnonzero(counts)
    numbers = np.maximum(filled_buckets - (_FIRST - 1), 0)
    return dict(zip(numbers.tolist(), counts[filled_buckets].tolist(), strict=True))


def bounds(bucket: int) -> tuple[int, int]:
    """The least and the greatest age in a bucket, ms."""
    if bucket <= 0:
        return 0, 0
    return -(-_edge(bucket)[0] // _edge(bucket)[1]), -(-_edge(bucket + 1)[0] // _edge(bucket + 1)[1]) - 1


def _edge(bucket: int) -> tuple[int, int]:
    """Where a bucket begins, as a fraction."""
    power, part = divmod(bucket - 1, 32)
    return (32 + part) << power, 32


@dataclass
class Histogram:
    """Uses by age.

    Attributes:
        counts: rows by bucket; see :func:`bounds`.
    """

    counts: dict[int, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """Rows."""
        return sum(self.counts.values())

    @property
    def oldest(self) -> int:
        """The greatest age there may be, ms; 0 without any."""
        return max((bounds(b)[1] for b, n in self.counts.items() if n), default=0)

    def add(self, counts: Mapping[int, int]) -> None:
        """Adds rows by bucket."""
        for bucket, n in counts.items():
            self.counts[bucket] = self.counts.get(bucket, 0) + n

    def missed(self, ttl: int) -> int:
        """How many of the rows would have expired under a TTL (ms; 0 is none): those of that age and older.

        Ages that share the TTL's bucket count as older, unless the TTL is its end.
        """
        return 0 if ttl <= 0 else sum(n for bucket, n in self.counts.items() if bounds(bucket)[1] >= ttl)

    def ttl_for(self, miss_limit: int) -> int:
        """The shortest TTL (ms) at which at most this number of rows would have expired; at least 1."""
        left = miss_limit
        for bucket in sorted(self.counts, reverse=True):
            left -= self.counts[bucket]
            if left < 0:
                return bounds(bucket)[1] + 1
        return 1

    def to_text(self) -> str:
        """A few characters per bucket: counts in base 36, ascending, each with what its bucket is more than one
        behind the one before; what :meth:`from_text` reads."""
        parts, last = [], -1
        for bucket in sorted(b for b, n in self.counts.items() if n):
            gap = bucket - last - 1
            parts.append((f"{_base36(gap)}:" if gap else "") + _base36(self.counts[bucket]))
            last = bucket
        return ",".join(parts)

    @staticmethod
    def from_text(text: str) -> Histogram:
        """Raises ValueError for another text."""
        out, last = Histogram(), -1
        for part in text.split(",") if text else ():
            gap, _, count = part.rpartition(":")
            last += 1 + (int(gap, 36) if gap else 0)
            out.counts[last] = int(count, 36)
        return out


_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def _base36(number: int) -> str:
    digits = ""
    while True:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
        if not number:
            return digits


Ages: TypeAlias = dict[str, dict[str, Histogram]]
"""Operator uid -> ``<state>.<use>`` -> histogram."""


def age_figures(state: int, use: Use, counts: Mapping[int, int]) -> Iterator[tuple[str, int]]:
    """Counts of :func:`count_ages` as figures of an operator."""
    return ((f"{AGES}.{state}.{use}.{bucket}", n) for bucket, n in counts.items())


def take_ages(operators: Mapping[str, dict[str, float]]) -> Ages:
    """Takes the ages out of the figures of a micro-batch."""
    out: Ages = {}
    for uid, figures in operators.items():
        for name in [name for name in figures if name.startswith(f"{AGES}.")]:
            _, state, use, bucket = name.split(".")
            histogram = out.setdefault(uid, {}).setdefault(f"{state}.{use}", Histogram())
            histogram.add({int(bucket): int(figures.pop(name))})
    return out


def add_ages(into: Ages, more: Mapping[str, Mapping[str, Histogram]]) -> Ages:
    """Adds all histograms of ``more``; gives ``into``."""
    for uid, of in more.items():
        for key, histogram in of.items():
            into.setdefault(uid, {}).setdefault(key, Histogram()).add(histogram.counts)
    return into

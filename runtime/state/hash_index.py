"""Finds hashes in a run with fewer looks at memory than a binary search, which waits for memory at most of its steps.

Hashes are even, so a value tells about where it stands. A *mark* is a bit for a small range of values, and says whether
any hash is in it: of several runs, most do not have the hash that is sought. A *start* says at which row a larger range
begins, where a search of a few steps remains.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stateplan.runtime.hashing import Hashes

_MARKS = 8
"""Marks for each hash, about; one in nine of them is set."""
_START_BITS = 6
"""A start is for 64 marks, so about eight hashes."""
_MOST_STEPS = 7
"""If a search in a range may take more steps, many rows have the same hash, and a binary search of all is as fast."""


class HashIndex:
    """The marks and starts of ``hashes``, ascending and at least one. They take 0.7 to 3 bytes for each hash."""

    __slots__ = ("_bits", "_first", "_hashes", "_shift", "_starts", "_steps")

    def __init__(self, hashes: Hashes) -> None:
        span = int(hashes[-1]) - int(hashes[0])
        self._hashes = hashes
        self._first = hashes[0]
        self._shift = np.uint64(max(0, span.bit_length() - (_MARKS * len(hashes)).bit_length()))
        ranges = self._ranges(hashes)
        marks = np.zeros(int(ranges[-1]) + 1, bool)
        marks[ranges] = True
        self._bits = np.packbits(marks, bitorder="little")
        counts = np.bincount(ranges >> _START_BITS)
        self._steps = int(counts.max()).bit_length()
        self._starts = (np.cumsum(counts) - counts).astype(np.uint32)

    def _ranges(self, hashes: Hashes) -> npt.NDArray[np.int64]:
        ranges: npt.NDArray[np.int64] = ((hashes - self._first) >> self._shift).view(np.int64)
        return ranges

    def find(self, sought: Hashes) -> tuple[npt.NDArray[np.int64], Hashes]:
        """Of the hashes that are there: the first row of each, and the hash.

        Args:
            sought: ascending, each once; none is before the first of the hashes, or behind the last one.
        """
        ranges = self._ranges(sought)
        bits = self._bits.take(ranges >> 3) >> (ranges & 7).astype(np.uint8)
        may_be_there = (bits & 1).view(bool)
        sought, ranges = sought[may_be_there], ranges[may_be_there]
        if self._steps > _MOST_STEPS:
            rows = np.searchsorted(self._hashes, sought)
        else:
            rows = self._starts.take(ranges >> _START_BITS).astype(np.int64)
            for step in reversed(range(self._steps)):
                is_less = self._hashes.take(rows + ((1 << step) - 1), mode="clip") < sought
                rows += is_less.astype(np.int64) << step
        is_there = self._hashes.take(rows, mode="clip") == sought
        return rows[is_there], sought[is_there]

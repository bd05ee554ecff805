"""How many files of a table a micro-batch reads, where the log of the table says how large they are."""

from __future__ import annotations

from stateplan.common.lazy_dataclass import dataclass
from stateplan.connectors.pace import Pace

_ROW_BYTES = 64
"""Bytes of a row in a file of which the log does not say how many it has."""


@dataclass(frozen=True)
class Limits:
    """How much a micro-batch reads at most, but one file at least."""

    files: int | None = None
    bytes: int | None = None


class Budget:
    """What a micro-batch may still read.

    Args:
        limits: of the table.
        pace: of the job; None for none.
    """

    def __init__(self, limits: Limits, pace: Pace | None) -> None:
        self.files = limits.files
        self.bytes = limits.bytes
        self.rows = None
        if pace is not None:
            self.rows = pace.rows()
            self.bytes = min((n for n in (limits.bytes, pace.max_bytes) if n is not None), default=None)
        self.is_fresh = True

    @property
    def is_used_up(self) -> bool:
        """Whether the next file has to wait."""
        return not self.is_fresh and any(left is not None and left <= 0 for left in (self.files, self.bytes, self.rows))

    def take(self, size: int, count: int | None) -> None:
        """Counts a file.

        Args:
            size: in bytes.
            count: of its rows; None where it is not known.
        """
        self.is_fresh = False
        if self.files is not None:
            self.files -= 1
        if self.bytes is not None:
            self.bytes -= size
        if self.rows is not None:
            self.rows -= size // _ROW_BYTES if count is None else count

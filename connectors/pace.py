"""How much a micro-batch may read of each table of a job that has a target for its latency, or a limit of its memory.

The driver decides it after each micro-batch (:mod:`runtime.pacing`). Sources that plan in processes of their own read
it from a small file on the driver's machine. It decides what is read next, not what a repeated micro-batch reads:
Spark's log has that before the first row is read.
"""

from __future__ import annotations

from pathlib import Path

from stateplan.common.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Pace:
    """The number of rows, where the driver and the sources of a job find it.

    Attributes:
        path: the file; None for a job without a target.
        max_bytes: bytes that a micro-batch may read of a table, about; None for any number.
    """

    path: Path | None = None
    max_bytes: int | None = None

    def rows(self) -> int | None:
        """Rows that a micro-batch may read of a table; None while that is not decided."""
        if self.path is None:
            return None
        try:
            return int(self.path.read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None

    def decide(self, rows: int) -> None:
        """Sets the number for the micro-batches from now on. Raises OSError."""
        if self.path is None:
            return
        hidden_file = self.path.with_name(f".{self.path.name}")
        hidden_file.write_text(str(rows), encoding="ascii")
        hidden_file.replace(self.path)

"""Frames of OVER windows."""

from __future__ import annotations

from typing import Literal as LiteralType

from stateplan.common.lazy_dataclass import dataclass
from stateplan.functions.rex import Literal


@dataclass(frozen=True)
class Bound:
    """One end of a frame; ``offset`` is how far it is from the current row."""

    kind: LiteralType["UNBOUNDED_PRECEDING", "UNBOUNDED_FOLLOWING", "CURRENT_ROW", "PRECEDING", "FOLLOWING"]
    offset: Literal | None = None

    @property
    def text(self) -> str:
        """``2 PRECEDING``, ``CURRENT ROW``."""
        words = self.kind.replace("_", " ")
        return words if self.offset is None else f"{self.offset.value} {words}"


@dataclass(frozen=True)
class Frame:
    """The rows around a row that a window function sees: counted (ROWS), or by their order (RANGE)."""

    rows: bool
    lower: Bound
    upper: Bound

    @property
    def text(self) -> str:
        """``ROWS BETWEEN 2 PRECEDING AND CURRENT ROW``."""
        return f"{'ROWS' if self.rows else 'RANGE'} BETWEEN {self.lower.text} AND {self.upper.text}"


CURRENT_ROW = Bound("CURRENT_ROW")
_BEFORE = Bound("UNBOUNDED_PRECEDING")

DEFAULT = Frame(False, _BEFORE, CURRENT_ROW)
"""What ORDER BY means without a frame."""
SO_FAR = Frame(True, _BEFORE, CURRENT_ROW)
WHOLE_PARTITION = Frame(False, _BEFORE, Bound("UNBOUNDED_FOLLOWING"))
"""What is meant without ORDER BY and without a frame."""

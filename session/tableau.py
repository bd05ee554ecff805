"""The rows of a query as a table that is written while they come: the result mode ``tableau`` of Flink's SQL client.

How wide a column is follows from its type, because the rows are not known yet. Source: Flink's ``TableauStyle``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from stateplan.common.changelog import KIND, RowKind, column
from stateplan.common.readable import NULL, amount, cell, display_width, fitted
from stateplan.common.types import LogicalType

if TYPE_CHECKING:
    import polars as pl

MAX_WIDTH = 30
"""A column is not wider than this, but for a name that is; longer values end in ``...``. As Flink's
``sql-client.display.max-column-width``."""

_DIGITS = {"TINYINT": 4, "SMALLINT": 6, "INTEGER": 11, "BIGINT": 20, "BOOLEAN": 5, "DATE": 10}


def column_width(kind: LogicalType, limit: int = MAX_WIDTH) -> int:
    """Columns of a terminal that values of a type take, at most ``limit``."""
    if kind.root == "DECIMAL":
        return min(limit, (kind.precision or 0) + 2)
    if kind.root.startswith("TIMESTAMP"):
        return 20 + kind.precision if kind.precision else 19
    if kind.root.startswith("TIME"):
        return 9 + kind.precision if kind.precision else 8
    return min(limit, _DIGITS.get(kind.root, limit))


def texts(frame: pl.DataFrame, types: Sequence[LogicalType], zone: str) -> list[list[str | None]]:
    """The values of a frame of changes as Flink prints them, row by row; None for NULL.

    Args:
        frame: ``c0, c1, ...``.
        types: the types of these columns.
        zone: the time zone of the session, for points in time.
    """
    import polars as pl

    from stateplan.common.values.codecs import codec

    cells = frame.select(codec(kind).display(pl.col(column(i)), zone).alias(str(i)) for i, kind in enumerate(types))
    return [list(row) for row in cells.rows()] if types else [[] for _ in range(frame.height)]


class Tableau:
    """A table with columns of fixed width.

    Args:
        names: the names of the columns.
        types: the types of these columns.
        zone: the time zone of the session, for points in time.
        insert_only: whether there is no column for the kind of change.
        max_width: the maximum width of a column.
    """

    def __init__(
        self,
        names: Sequence[str],
        types: Sequence[LogicalType],
        zone: str,
        insert_only: bool = False,
        max_width: int = MAX_WIDTH,
    ) -> None:
        self._types = types
        self._zone = zone
        self._ops = not insert_only
        self._names = [*(["op"] if self._ops else []), *map(cell, names)]
        widths = [*([2] if self._ops else []), *(column_width(kind, max_width) for kind in types)]
        self._widths = [max(width, display_width(name)) for width, name in zip(widths, self._names, strict=True)]
        self._rule = "+" + "".join("-" * (width + 2) + "+" for width in self._widths) + "\n"

    def _line(self, cells: Sequence[str]) -> str:
        cells_text = (f" {fitted(text, width)} |" for text, width in zip(cells, self._widths, strict=True))
        return "|" + "".join(cells_text) + "\n"

    def head(self) -> str:
        """The names of the columns, between rules."""
        return self._rule + self._line(self._names) + self._rule

    def lines(self, frame: pl.DataFrame) -> str:
        """A line for each row of a frame of changes."""
        kinds = frame[KIND].to_list() if KIND in frame.columns else [0] * frame.height
        return self.text_lines(zip(map(RowKind, kinds), texts(frame, self._types, self._zone), strict=True))

    def text_lines(self, changes: Iterable[tuple[RowKind, Sequence[str | None]]]) -> str:
        """A line for each change, whose values are texts already."""
        return "".join(
            self._line([*([kind.short] if self._ops else []), *(NULL if text is None else cell(text) for text in row)])
            for kind, row in changes
        )

    def foot(self, rows: int) -> str:
        """The end of the table."""
        return f"{self._rule}Received a total of {amount(rows, 'row')}\n"

    def stream(self, frames: Iterable[pl.DataFrame]) -> Iterator[str]:
        """The table piece by piece, while the frames come."""
        count = 0
        for frame in frames:
            if count == 0:
                yield self.head()
            count += frame.height
            yield self.lines(frame)
        yield self.foot(count) if count else "Empty set\n"

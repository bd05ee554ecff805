"""The built-in functions between rows and their changes, and updates without their old rows.

Source: Flink's ``FromChangelogFunction`` and ``ToChangelogFunction``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

import numpy as np
import polars as pl

from stateplan.common.changelog import KIND, RowKind, columns
from stateplan.common.errors import DataError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.runtime.kernel import Transform


@dataclass(frozen=True)
class FromChangelogTransform(Transform):
    """Rows with a column that says what change each is, as these changes without the column.

    Attributes:
        op: position of the column.
        width: number of columns of the rows.
        codes: what the column may hold, and the kinds that are meant.
    """

    op: int
    width: int
    codes: Mapping[str, RowKind] = field(hash=False)

    def __call__(self, frame: pl.DataFrame, now: int) -> pl.DataFrame:
        """The changes: ``c0, c1, ...`` and ``kind``.

        Raises:
            DataError: DATA321, for a row whose code is NULL or unknown.
        """
        codes = frame[columns(self.width)[self.op]]
        kinds = codes.replace_strict(
            list(self.codes), [int(k) for k in self.codes.values()], default=None, return_dtype=pl.Int8
        )
        if kinds.null_count():
            code = codes.filter(kinds.is_null())[0]
            raise DataError(
                "DATA321",
                value="NULL" if code is None else repr(code),
                codes=", ".join(f"'{c}'" for c in sorted(self.codes)),
            )
        names = [c for i, c in enumerate(columns(self.width)) if i != self.op]
        out = frame[names]
        out.columns = columns(len(names))
        return out.with_columns(kinds.alias(KIND))


@dataclass(frozen=True)
class ToChangelogTransform(Transform):
    """Changes as insertions with a first column that says what change each was; kinds without a code are omitted.

    Attributes:
        width: number of columns of the changes.
        codes: kind to what the column holds.
    """

    width: int
    codes: Mapping[RowKind, str] = field(hash=False)

    def __call__(self, frame: pl.DataFrame, now: int) -> pl.DataFrame:
        """The rows: ``c0`` with the code, then the columns of the changes."""
        kinds = frame[KIND].to_numpy() if KIND in frame.columns else np.zeros(frame.height, np.int8)
        names = np.array([self.codes.get(kind, "") for kind in RowKind], dtype=object)
        has_code = np.array([kind in self.codes for kind in RowKind])
        rows = frame[columns(self.width)]
        rows.columns = columns(range(1, self.width + 1))
        out = rows.insert_column(0, pl.Series("c0", names[kinds], dtype=pl.String))
        return out if has_code.all() else out.filter(pl.Series(has_code[kinds]))


@dataclass(frozen=True)
class DropUpdateBeforeTransform(Transform):
    """Keeps all changes but -U, as Flink's ``DropUpdateBeforeFunction``."""

    def __call__(self, frame: pl.DataFrame, now: int) -> pl.DataFrame:
        if KIND not in frame.columns:
            return frame
        return frame.filter(pl.col(KIND) != RowKind.UPDATE_BEFORE)

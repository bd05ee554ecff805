"""What a sink's columns demand of the rows written to it: NOT NULL, and the length of texts and bytes.

Source of the semantics: Flink's ``ConstraintEnforcer`` and its ``ConstraintEnforcerExecutor``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from stateplan.common.changelog import column
from stateplan.common.errors import DataError
from stateplan.common.frozen_dataclass import FrozenDataclass
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.runtime.kernel import Transform

Bools = npt.NDArray[np.bool_]

_TEXTS = ("CHAR", "VARCHAR")
_BYTES = ("BINARY", "VARBINARY")
_FIXED_LENGTH = ("CHAR", "BINARY")
_MAPS = ("MAP", "MULTISET")


@dataclass(frozen=True)
class _Finding:
    """Rows whose value at ``path`` is not what ``data_type`` demands; ``null`` says which demand it is."""

    rows: Bools
    path: str
    data_type: LogicalType
    null: bool
    values: pl.Series | None = None


@dataclass(frozen=True)
class ConstraintTransform(FrozenDataclass, Transform):
    """Checks the rows of a sink, changes of every kind alike.

    Attributes:
        table: the table of the sink, for messages.
        fields: name and declared type of the columns of a row.
        nulls: what a NULL in a NOT NULL column does: ERROR or DROP (the row is omitted).
        lengths: what a text or bytes of the wrong length do: IGNORE, TRIM_PAD (they are cut, those of fixed length
            filled with blanks or zeros) or ERROR.
        nested: whether to look into values: IGNORE, ROWS or ROWS_AND_COLLECTIONS.
    """

    table: str
    fields: tuple[tuple[str, LogicalType], ...]
    nulls: str = "ERROR"
    lengths: str = "IGNORE"
    nested: str = "IGNORE"

    @cached_property
    def demands_something(self) -> bool:
        """Whether any row may be refused or changed."""
        return any(self._demands(data_type) for _, data_type in self.fields)

    def _demands(self, data_type: LogicalType) -> bool:
        if not data_type.nullable or (self.lengths != "IGNORE" and _limit(data_type) is not None):
            return True
        return any(self._demands(part) for part in self._parts(data_type))

    def _parts(self, data_type: LogicalType) -> Iterator[LogicalType]:
        """The types inside a type that are looked at."""
        if self.nested != "IGNORE" and data_type.root == "ROW":
            yield from (f.type for f in data_type.fields)
        elif self.nested == "ROWS_AND_COLLECTIONS" and data_type.root in ("ARRAY", *_MAPS):
            yield from data_type.children

    def __call__(self, frame: pl.DataFrame, now: int) -> pl.DataFrame:
        """The rows that are written.

        Raises:
            DataError: DATA202, a NULL in a NOT NULL column; DATA203, a value of the wrong length.
        """
        series = [frame[column(i)] for i in range(len(self.fields))]
        alive = np.ones(frame.height, bool)
        errors: list[tuple[int, _Finding]] = []
        for finding in self._findings(series):
            rows = finding.rows & alive
            if not rows.any():
                continue
            if finding.null and self.nulls == "DROP":
                alive &= ~finding.rows
            else:
                errors.append((int(rows.argmax()), finding))
        if errors:
            raise self._error(*min(errors, key=lambda e: e[0]))
        out = frame
        if self.lengths == "TRIM_PAD":
            columns = [
                self._fit_length(s, data_type, top=True) for s, (_, data_type) in zip(series, self.fields, strict=True)
            ]
            out = frame.with_columns(s.alias(column(i)) for i, s in enumerate(columns))
        return out if alive.all() else out.filter(pl.Series(alive))

    # what is wrong

    def _findings(self, series: Sequence[pl.Series]) -> Iterator[_Finding]:
        """What is wrong with columns, in the order in which it counts: NULLs, texts, bytes, then what is inside."""
        columns = [(s, data_type, name) for s, (name, data_type) in zip(series, self.fields, strict=True)]
        for s, data_type, name in columns:
            yield from self._null(s, data_type, name)
        for roots in (_TEXTS, _BYTES):
            for s, data_type, name in columns:
                if data_type.root in roots:
                    yield from self._length(s, data_type, name)
        for inside in (("ROW",), ("ARRAY",), _MAPS):
            for s, data_type, name in columns:
                if data_type.root in inside:
                    yield from self._inside(s, data_type, name)

    def _all(self, series: pl.Series, data_type: LogicalType, path: str) -> Iterator[_Finding]:
        yield from self._null(series, data_type, path)
        yield from self._length(series, data_type, path)
        yield from self._inside(series, data_type, path)

    def _null(self, series: pl.Series, data_type: LogicalType, path: str) -> Iterator[_Finding]:
        if not data_type.nullable and series.null_count():
            yield _Finding(series.is_null().to_numpy(), path, data_type, null=True)

    def _length(self, series: pl.Series, data_type: LogicalType, path: str) -> Iterator[_Finding]:
        limit = _limit(data_type)
        if self.lengths != "ERROR" or limit is None:
            return
        lengths = _lengths(series)
        wrong = lengths > limit
        if data_type.root in _FIXED_LENGTH:
            wrong |= lengths < limit
        if wrong.any():
            yield _Finding(wrong.fill_null(False).to_numpy(), path, data_type, null=False, values=lengths)

    def _inside(self, series: pl.Series, data_type: LogicalType, path: str) -> Iterator[_Finding]:
        if not any(self._demands(part) for part in self._parts(data_type)):
            return
        if data_type.root == "ROW":
            has_value = series.is_not_null()
            origin = np.flatnonzero(has_value.to_numpy())
            inner = series.filter(has_value)
            parts = [(inner.struct.field(f.name), f.type, f"{path}.{f.name}") for f in data_type.fields]
        else:
            counts = series.list.len().fill_null(0).to_numpy()
            origin = np.repeat(np.arange(len(series)), counts)
            inner = series.filter(pl.Series(counts > 0)).explode()
            if data_type.root == "ARRAY":
                parts = [(inner, data_type.children[0], f"{path}[]")]
            else:
                entry = zip(("key", "value"), data_type.children, strict=False)
                parts = [(inner.struct.field(name), of, f"{path}.{name}") for name, of in entry]
        for part, of, name in parts:
            for finding in self._all(part, of, name):
                rows = np.zeros(len(series), bool)
                rows[origin[finding.rows]] = True
                values = None
                if finding.values is not None:
                    lengths: list[int | None] = [None] * len(series)
                    for at in np.flatnonzero(finding.rows)[::-1]:
                        lengths[int(origin[at])] = finding.values[int(at)]
                    values = pl.Series(lengths, dtype=pl.UInt32)
                yield _Finding(rows, finding.path, finding.data_type, finding.null, values)

    def _error(self, row: int, finding: _Finding) -> DataError:
        place = f"the column '{finding.path}' of '{self.table}'"
        if finding.null:
            return DataError("DATA202", where=place, declared=finding.data_type.summary())
        assert finding.values is not None
        noun, unit = ("bytes", "bytes") if finding.data_type.root in _BYTES else ("a text", "characters")
        type_text = finding.data_type.as_nullable().summary()
        return DataError(
            "DATA203",
            where=place,
            declared=type_text,
            what=noun,
            values=finding.values[row],
            size=finding.data_type.length,
            unit=unit,
            wording="exactly" if finding.data_type.root in _FIXED_LENGTH else "at most",
        )

    # what is made to fit

    def _fit_length(self, series: pl.Series, data_type: LogicalType, top: bool = False) -> pl.Series:
        limit = _limit(data_type)
        if limit is not None:
            has_fixed_length = data_type.root in _FIXED_LENGTH
            lengths = _lengths(series)
            if not (lengths > limit).any() and not (has_fixed_length and (lengths < limit).any()):
                return series
            if data_type.root in _TEXTS:
                cut = series.str.slice(0, limit)
                return cut.str.pad_end(limit, " ") if has_fixed_length else cut
            cut = series.bin.slice(0, limit)
            if not has_fixed_length:
                return cut
            return pl.Series([None if v is None else v.ljust(limit, b"\0") for v in cut.to_list()], dtype=pl.Binary)
        if data_type.root != "ROW" or self.nested == "IGNORE" or not any(map(self._demands, self._parts(data_type))):
            return series
        parts = [self._fit_length(series.struct.field(f.name), f.type).alias(f.name) for f in data_type.fields]
        rows = pl.DataFrame(parts).to_struct()
        if not series.null_count():
            return rows
        return pl.select(pl.when(series.is_not_null()).then(rows)).to_series()


def _limit(data_type: LogicalType) -> int | None:
    """The length of a type that has one."""
    if data_type.root not in (*_TEXTS, *_BYTES):
        return None
    length = 1 if data_type.length is None else data_type.length
    return length if length < 2**31 - 1 else None


def _lengths(series: pl.Series) -> pl.Series:
    return series.str.len_chars() if series.dtype == pl.String else series.bin.size().cast(pl.UInt32)

"""Columns as the Python values that user-defined functions accept and return, type by type as in PyFlink.

NULL is None, MAP a dict, ROW a :class:`Row`, DECIMAL a ``Decimal``, TIMESTAMP_LTZ a datetime in UTC. Going out, a value
that does not fit its type is an error of the function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from stateplan.common.types import LogicalType
from stateplan.common.values.codecs import codec
from stateplan.common.values.nanoseconds import has_fine
from stateplan.functions.user import UserFunction

_PLAIN: dict[str, type] = {
    "BOOLEAN": bool,
    "INTEGER": int,
    "BIGINT": int,
    "FLOAT": float,
    "DOUBLE": float,
    "CHAR": str,
    "VARCHAR": str,
    "BINARY": bytes,
    "VARBINARY": bytes,
}
"""Types whose columns hold values of this class as they are."""


def python_values(series: pl.Series, t: LogicalType) -> list[Any]:
    """The values of a column, NULL as None."""
    cells, decode = series.to_list(), codec(t).decoder()
    return cells if decode is None else [None if v is None else decode(v) for v in cells]


def column_of(values: Sequence[Any], t: LogicalType, function: UserFunction) -> pl.Series:
    """The column of a function's results.

    Raises:
        DataError: DATA311, for a value that is none of type ``t``.
    """
    plain = _PLAIN.get(t.root)
    if plain is not None:
        classes = set(map(type, values))
        if classes <= {plain, type(None)} and (t.nullable or type(None) not in classes):
            try:
                return pl.Series(values, dtype=t.polars(), strict=True)
            except (TypeError, OverflowError, pl.exceptions.PolarsError):
                pass
    encode = codec(t).encode
    out = []
    for value in values:
        try:
            out.append(encode(value))
        except (TypeError, ValueError, ArithmeticError):
            raise function.wrong_result(value, t) from None
    return pl.Series(out, dtype=t.polars(), strict=False)


def row_cells(result: Any, function: UserFunction, row: LogicalType) -> Sequence[Any]:
    """The fields of a row that a function gave for ``row``. Raises DataError DATA311."""
    count = len(row.fields)
    cells: Sequence[Any] = [result]
    if isinstance(result, dict) and row.fields[0].type.root != "MAP":
        cells = [result.get(f.name) for f in row.fields]
    elif count > 1 or (isinstance(result, tuple) and row.fields[0].type.root != "ROW"):
        if not isinstance(result, (tuple, list)) or len(result) != count:
            raise function.wrong_result(result, row)
        cells = result
    if function.vector == "general":
        return cells
    return [plain_value(c, f.type) for c, f in zip(cells, row.fields, strict=True)]


def vector_column(series: pl.Series, t: LogicalType) -> Any:
    """A column as ``pyarrow.Array``. Raises DataError DATA345."""
    if not has_fine(t):
        return series.to_arrow()
    from stateplan.common.values.arrow import arrow_column

    return arrow_column(series, t, lambda array, _: array)


def vector_columns(function: UserFunction, columns: Sequence[pl.Series], types: Sequence[LogicalType]) -> list[Any]:
    """The columns as the function wants them: ``pandas.Series`` or ``pyarrow.Array``."""
    out: list[Any] = [vector_column(c, t) for c, t in zip(columns, types, strict=True)]
    return [c.to_pandas() for c in out] if function.vector == "pandas" else out


def plain_value(value: Any, t: LogicalType) -> Any:
    """A value out of NumPy, pandas or PyArrow as Python has it for the type ``t``; None for what they have for NULL."""
    if hasattr(value, "as_py"):
        value = value.as_py()
    elif hasattr(value, "tolist"):
        value = value.tolist()
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, float):
        if value != value:
            return None
        # pandas has whole numbers with NULLs as floats
        return int(value) if t.is_integer and value.is_integer() else value
    return value

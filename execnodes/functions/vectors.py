"""Functions that take whole columns: what they are given, and what of theirs is a plain value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from stateplan.execnodes.functions.user import UserFunction
from stateplan.execnodes.types import LogicalType


def vector_columns(function: UserFunction, columns: Sequence[pl.Series]) -> list[Any]:
    """The columns as the function wants them: ``pandas.Series`` or ``pyarrow.Array``."""
    out: list[Any] = [c.to_arrow() for c in columns]
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

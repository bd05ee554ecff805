"""Rows of the function table: JSON text."""

from __future__ import annotations

from collections.abc import Sequence

from execnodes.functions.table import ScalarFunction, fixed, forced_nullable, register
from execnodes.rex import Call, Rex
from execnodes.types import BOOLEAN, STRING, LogicalType

__all__ = ["json_value"]


def json_value(operands: Sequence[Rex], returning: LogicalType | None = None) -> Rex:
    """``JSON_VALUE(text, path RETURNING type ...)``: operands as in the plan, that is text, path and the symbols and
    defaults of ON EMPTY and ON ERROR."""
    return Call((returning or STRING).as_nullable(), tuple(operands), "$JSON_VALUE$1")


_C = "CHARACTER"
_CERTAIN = fixed(BOOLEAN, False)

register([
    ScalarFunction("JSON_VALUE", (_C, _C, "ANY"), forced_nullable(STRING), optional=1, variadic=True, nulls=True),
    ScalarFunction("JSON_EXISTS", (_C, _C, "SYMBOL"), forced_nullable(BOOLEAN), optional=1),
    ScalarFunction("JSON_QUERY", (_C, _C, "SYMBOL"), forced_nullable(STRING), optional=1, variadic=True),
    *(ScalarFunction(f"IS {n}JSON {kind}", (_C,), _CERTAIN, syntax="POSTFIX",
                     aliases=(f"IS {n}JSON",) if kind == "VALUE" else ())
      for n in ("", "NOT ") for kind in ("VALUE", "OBJECT", "ARRAY", "SCALAR")),
    ScalarFunction("JSON_STRING", ("ANY",), fixed(STRING)),
    ScalarFunction("JSON_QUOTE", (_C,), fixed(STRING)),
    ScalarFunction("JSON_UNQUOTE", (_C,), fixed(STRING)),
    ScalarFunction("JSON_OBJECT", ("SYMBOL", "ANY"), fixed(STRING, False), optional=1, variadic=True, nulls=True),
    ScalarFunction("JSON_ARRAY", ("SYMBOL", "ANY"), fixed(STRING, False), optional=1, variadic=True, nulls=True),
])

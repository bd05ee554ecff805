"""Rows of the function table: JSON text."""

from __future__ import annotations

from collections.abc import Sequence

from stateplan.common.errors import Place, SqlError
from stateplan.common.types import BOOLEAN, STRING, VARIANT
from stateplan.functions.literals import symbol
from stateplan.functions.rex import Call, Rex
from stateplan.functions.table import Rewrite, ScalarFunction, always, forced_nullable, register


def is_json(rex: Rex) -> bool:
    """Whether ``rex`` is a call that returns JSON, which other JSON is made of as it is. Other texts are quoted
    there."""
    return isinstance(rex, Call) and rex.name in ("JSON", "JSON_OBJECT", "JSON_ARRAY")


def _constructor(name: str, on_null: str) -> Rewrite:
    """JSON_OBJECT of (key, value)... and JSON_ARRAY of values; the ON NULL flag, first in the plan, may be omitted."""

    def rewrite(operands: Sequence[Rex], place: Place | None) -> Rex:
        has_flag = bool(operands) and operands[0].type.root == "SYMBOL"
        values = operands[1:] if has_flag else operands
        if name == "JSON_OBJECT" and len(values) % 2:
            raise SqlError("SQL202.takes", name="JSON_OBJECT", what="(key, value) pairs", place=place)
        flag = operands[0] if has_flag else symbol("JSON_ON_NULL", on_null)
        return Call(STRING.not_null(), (flag, *values), f"${name}$1")

    return rewrite


_C, _J = "CHARACTER", "CHARACTER|VARIANT"
_CERTAIN, _TEXT = always(BOOLEAN, False), always(STRING, False)

register(
    [
        ScalarFunction("JSON_VALUE", (_J, _C, "ANY"), forced_nullable(STRING), optional=1, variadic=True, nulls=True),
        ScalarFunction("JSON_EXISTS", (_C, "CHAR", "SYMBOL"), forced_nullable(BOOLEAN), optional=1),
        ScalarFunction("JSON_QUERY", (_J, _C, "SYMBOL"), forced_nullable(STRING), optional=1, variadic=True),
        *(
            ScalarFunction(
                f"IS {n}JSON {kind}",
                (_C,),
                _CERTAIN,
                syntax="POSTFIX",
                aliases=(f"IS {n}JSON",) if kind == "VALUE" else (),
            )
            for n in ("", "NOT ")
            for kind in ("VALUE", "OBJECT", "ARRAY", "SCALAR")
        ),
        ScalarFunction("JSON_STRING", ("JSON",), always(STRING)),
        ScalarFunction("JSON", (_C,), always(STRING)),
        ScalarFunction("PARSE_JSON", (_C, "BOOLEAN"), always(VARIANT), optional=1),
        ScalarFunction("TRY_PARSE_JSON", (_C, "BOOLEAN"), forced_nullable(VARIANT), optional=1),
        ScalarFunction("JSON_QUOTE", (_C,), always(STRING)),
        ScalarFunction("JSON_UNQUOTE", (_C,), always(STRING)),
        *(
            ScalarFunction(
                name,
                ("JSON|SYMBOL",),
                _TEXT,
                optional=1,
                variadic=True,
                nulls=True,
                rewrite=_constructor(name, on_null),
            )
            for name, on_null in (("JSON_OBJECT", "NULL"), ("JSON_ARRAY", "ABSENT"))
        ),
    ]
)

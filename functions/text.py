"""Rows of the function table: character strings, regular expressions, encodings and digests."""

from __future__ import annotations

from collections.abc import Sequence

from stateplan.common.errors import SqlError
from stateplan.common.types import BIGINT, BOOLEAN, INT, MAX_LENGTH, STRING, LogicalType
from stateplan.functions.rex import Literal, Rex
from stateplan.functions.table import (
    ScalarFunction,
    TypeRule,
    always,
    any_nullable,
    argument,
    forced_nullable,
    register,
)
from stateplan.functions.typerules import char, common_type, family, varbinary, varchar

_STRING = always(STRING)
_NULLABLE = forced_nullable(STRING)
_INT = always(INT)
_BOOLEAN = always(BOOLEAN)
_STRINGS = LogicalType("ARRAY", children=(STRING,))


def _as_varchar(index: int, nullable: bool | None = None) -> TypeRule:
    """VARCHAR of the length of operand ``index``."""

    def rule(operands: Sequence[Rex]) -> LogicalType:
        return varchar(operands[index].type.length or 1, any_nullable(operands) if nullable is None else nullable)

    return rule


def _concatenated(operands: Sequence[Rex]) -> LogicalType:
    """``a || b``: the lengths add up, CHAR stays CHAR. Raises SqlError SQL203 for a text and bytes."""
    types = [o.type for o in operands]
    if len({family(t) for t in types}) > 1:
        type_names = ", ".join(t.summary() for t in types)
        raise SqlError("SQL203", types=type_names, name="||")
    kind = "BINARY" if types[0].root.endswith("BINARY") else "CHAR"
    root = kind if all(t.root == kind for t in types) else f"VAR{kind}"
    length = min(sum(t.length or 1 for t in types), MAX_LENGTH)
    return LogicalType(root, any(t.nullable for t in types), length=length)


def _overlaid(operands: Sequence[Rex]) -> LogicalType:
    length = min(sum(o.type.length or 1 for o in operands[:2]), MAX_LENGTH)
    return varchar(length, any(o.type.nullable for o in operands))


def _type_of_elt(operands: Sequence[Rex]) -> LogicalType:
    """ELT: the common type of the texts. Raises SqlError SQL203 for a constant index below 0."""
    index = operands[0]
    if isinstance(index, Literal) and isinstance(index.value, int) and index.value < 0:
        raise SqlError("SQL203.out_of_range", what="the number of ELT", value=index.value)
    common = common_type([o.type for o in operands[1:]])
    assert common is not None
    return common.as_nullable()


_C, _I, _N = "CHARACTER", "INTEGER", "INT"

register(
    [
        *(ScalarFunction(name, (_C,), argument(0)) for name in ("UPPER", "LOWER", "INITCAP")),
        ScalarFunction("TRIM", ("SYMBOL", _C, _C), _as_varchar(2)),
        ScalarFunction("LTRIM", (_C, _C), _as_varchar(0), optional=1),
        ScalarFunction("RTRIM", (_C, _C), _as_varchar(0), optional=1),
        ScalarFunction("BTRIM", (_C, _C), _STRING, optional=1),
        ScalarFunction("SUBSTRING", (_C, _N, _N), _as_varchar(0, True), optional=1),
        ScalarFunction("SUBSTR", (_C, _N, _N), _as_varchar(0, True), optional=1),
        ScalarFunction("LEFT", (_C, _N), _as_varchar(0, True)),
        ScalarFunction("RIGHT", (_C, _N), _as_varchar(0, True)),
        ScalarFunction("CHAR_LENGTH", (_C,), _INT, aliases=("CHARACTER_LENGTH",)),
        ScalarFunction("POSITION", (_C, _C), _INT),
        ScalarFunction("LOCATE", (_C, _C, _N), _INT, optional=1),
        ScalarFunction("INSTR", (_C, _C, _N, _N), _INT, optional=2),
        ScalarFunction("REPLACE", (_C, _C, _C), _STRING),
        ScalarFunction("OVERLAY", (_C, _C, _I, _I), _overlaid, optional=1),
        ScalarFunction("||", ("CHARACTER|BINARY", "CHARACTER|BINARY"), _concatenated, syntax="BINARY"),
        ScalarFunction("CONCAT", (_C,), _STRING, variadic=True),
        ScalarFunction("CONCAT_WS", (_C, _C), _STRING, variadic=True),
        ScalarFunction("LPAD", (_C, _N, _C), _STRING),
        ScalarFunction("RPAD", (_C, _N, _C), _STRING),
        ScalarFunction("REPEAT", (_C, _N), _STRING),
        ScalarFunction("REVERSE", (_C,), _NULLABLE),
        ScalarFunction("SPLIT_INDEX", (_C, "CHARACTER|INT", "INT"), _NULLABLE),
        ScalarFunction("SPLIT", (_C, _C), always(_STRINGS)),
        ScalarFunction(
            "STR_TO_MAP", (_C, _C, _C), forced_nullable(LogicalType("MAP", children=(STRING, STRING))), optional=2
        ),
        ScalarFunction("ELT", (_I, _C), _type_of_elt, variadic=True),
        ScalarFunction("STARTSWITH", (_C, _C), _BOOLEAN),
        ScalarFunction("ENDSWITH", (_C, _C), _BOOLEAN),
        ScalarFunction("TRANSLATE", (_C, _C, _C), _STRING, plan="TRANSLATE3", aliases=("TRANSLATE3",)),
        ScalarFunction("REGEXP", (_C, _C), _BOOLEAN),
        ScalarFunction("REGEXP_EXTRACT", (_C, _C, _I), _NULLABLE, optional=1),
        ScalarFunction("REGEXP_EXTRACT_ALL", (_C, _C, _I), forced_nullable(_STRINGS), optional=1),
        ScalarFunction("REGEXP_REPLACE", (_C, _C, _C), _STRING),
        ScalarFunction("REGEXP_COUNT", (_C, _C), forced_nullable(INT)),
        ScalarFunction("REGEXP_INSTR", (_C, _C), forced_nullable(INT)),
        ScalarFunction("REGEXP_SUBSTR", (_C, _C), _NULLABLE),
        ScalarFunction("ASCII", (_C,), _INT),
        ScalarFunction("CHR", (_I,), _NULLABLE),
        *(
            ScalarFunction(name, (_C,), always(char(length)))
            for name, length in {"MD5": 32, "SHA1": 40, "SHA224": 56, "SHA256": 64, "SHA384": 96, "SHA512": 128}.items()
        ),
        ScalarFunction("SHA2", (_C, _I), always(varchar(128))),
        ScalarFunction("TO_BASE64", (_C,), _STRING),
        ScalarFunction("FROM_BASE64", (_C,), _STRING),
        ScalarFunction("ENCODE", (_C, _C), always(varbinary())),
        ScalarFunction("DECODE", ("BINARY", _C), _STRING),
        ScalarFunction("URL_ENCODE", (_C,), _NULLABLE),
        ScalarFunction("URL_DECODE", (_C,), _NULLABLE),
        ScalarFunction("PARSE_URL", (_C, _C, _C), _NULLABLE, optional=1),
        ScalarFunction("HASH_CODE", ("BOOLEAN|EXACT|FLOAT|DOUBLE|CHARACTER|DATE",), _INT),
        *(ScalarFunction(name, (_C,), always(BOOLEAN, False)) for name in ("IS_ALPHA", "IS_DIGIT", "IS_DECIMAL")),
        ScalarFunction("TYPEOF", ("ANY",), _NULLABLE),
        ScalarFunction("INET_ATON", (_C,), forced_nullable(BIGINT)),
        ScalarFunction("INET_NTOA", (_I,), _NULLABLE),
    ]
)

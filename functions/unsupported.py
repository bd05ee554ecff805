"""Rows of the function table: functions of Flink that are not supported here yet, each with the reason."""

from __future__ import annotations

from stateplan.common.types import STRING
from stateplan.functions.table import ScalarFunction, always, register

_BITMAP = "the BITMAP type is not available"
_STRUCTURED = "structured types are not available"
_WATERMARK = "event time is not available yet"

_BITMAPS = ("AND", "ANDNOT", "BUILD", "FROM_BYTES", "OR", "XOR")
_OF_BITMAPS = ("CARDINALITY", "TO_ARRAY", "TO_BYTES", "TO_STRING")

_REASONS = {
    **{f"BITMAP_{name}": _BITMAP for name in (*_BITMAPS, *_OF_BITMAPS)},
    "OBJECT_OF": _STRUCTURED,
    "OBJECT_UPDATE": _STRUCTURED,
    "STREAMRECORD_TIMESTAMP": _WATERMARK,
    "PRINTF": "Java's format strings are not implemented",
    "CURRENT_DATABASE": "a plan does not record the session's current database",
    "GROUPING": "it requires GROUPING SETS, CUBE or ROLLUP",
    "GROUPING_ID": "it requires GROUPING SETS, CUBE or ROLLUP",
    "GROUP_ID": "it requires GROUPING SETS, CUBE or ROLLUP",
    **{
        f"{window}{part}": f"use {window} in GROUP BY, or in FROM as TABLE({window}(TABLE t, ...))"
        for window in ("TUMBLE", "HOP", "SESSION")
        for part in ("", "_START", "_END", "_ROWTIME", "_PROCTIME")
    },
    **dict.fromkeys(
        ("ROW_NUMBER", "RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST", "NTILE", "LEAD", "LAG"),
        "it requires an OVER window",
    ),
    **dict.fromkeys(("MATCH_PROCTIME", "MATCH_ROWTIME"), "use it in MEASURES of MATCH_RECOGNIZE"),
    "CLASSIFIER": "Flink does not run it either",
    "ML_PREDICT": "models are not available",
    "AGG_DECIMAL_PLUS": "internal to Flink",
    "AGG_DECIMAL_MINUS": "internal to Flink",
}

register(ScalarFunction(name, (), always(STRING), reason=reason) for name, reason in _REASONS.items())

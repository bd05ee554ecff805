"""What the tables and columns of state are called when people look at them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from stateplan.execnodes.runtime.kernel import StateTable
from stateplan.execnodes.specs import AggCall
from stateplan.execnodes.support import agg_text, field_names
from stateplan.execnodes.types import LogicalType

MAIN_TABLE = "rows"
"""The short name of the table that holds what a state is about."""

_FIELD = re.compile(r"c(\d+)")
_CALL = re.compile(r"([abd-z])(\d+)")
_VALUES = re.compile(r".*\.(?:distinct|values)(\d+)(?:\.c\d+)?(?:\.order)?")

_PARTS = {
    "n": "count",
    "s": "sum",
    "m": "extreme",
    "a": "mean",
    "q": "squared differences",
    "p": "separator",
    "x": "text",
    "l": "values",
    "k": "values",
    "j": "entries",
    "f": "value",
    "v": "value",
    "u": "accumulator",
}
"""What the columns of a call hold, where it has several, by their letter."""

_RENAMED = {
    "@s": "arrival",
    "@c": "copies",
    "@d": "sign",
    "@kind": "row_kind",
    "@met": "matched",
    "born": "first_row_at",
}
_SIDES = {"left": 0, "right": 1}


def short_names(tables: Sequence[StateTable]) -> dict[str, str]:
    """For the name of each table a short one: the first table of a state is :data:`MAIN_TABLE`, where the others are
    named after it."""
    out: dict[str, str] = {}
    for slot in dict.fromkeys(t.slot for t in tables):
        mine = [t.name for t in tables if t.slot == slot]
        main = next((n for n in mine if all(o == n or o.startswith((f"{n}.", f"{n}-")) for o in mine)), None)
        for name in mine:
            out[name] = name if main is None else MAIN_TABLE if name == main else name[len(main) + 1 :]
    return out


def column_labels(kernel: object, table: StateTable) -> dict[str, str]:
    """For the columns of a table, in their order, what people call them; each name once.

    Fields have the names of the plan, what an aggregate function keeps is named after its call. A column that is left
    out says nothing to anybody: the random number by which a join tells equal rows apart.
    """
    fields = _fields(kernel, table)
    calls = _calls(kernel, table)
    joins = hasattr(kernel, "left_type") or getattr(kernel, "input_types", None) is not None
    values = _VALUES.fullmatch(table.name)
    out: dict[str, str] = {}
    for name in table.schema:
        if name == "@s" and joins:
            continue
        field, call = _FIELD.fullmatch(name), _CALL.fullmatch(name)
        if field is not None and int(field[1]) < len(fields):
            label = fields[int(field[1])]
        elif call is not None and int(call[2]) < len(calls):
            label = _call_label(name, table.schema, calls[int(call[2])])
        elif name == "v" and values and int(values[1]) < len(fields):
            label = fields[int(values[1])]
        elif call is not None and values:
            label = "count" if call[2] == "0" else f"count_{call[2]}"
        elif name == "@n" and table.due is None and len(table.schema) > 1 and joins:
            label = "matches"
        else:
            label = _RENAMED.get(name, name.removeprefix("@"))
        while label in out.values():
            label += "_"
        out[name] = label
    return out


def _call_label(name: str, schema: Mapping[str, Any], text: str) -> str:
    siblings = [n for n in schema if (found := _CALL.fullmatch(n)) and found[2] == name[1:]]
    return text if len(siblings) == 1 else f"{text} {_PARTS.get(name[0], name[0])}"


def _aggregate(kernel: object) -> Any:
    """The kernel that keeps the accumulators, of an aggregate in several phases or over windows."""
    found: Any = kernel
    for step in ("inner", "partials", "kernel"):
        found = getattr(found, step, found)
    return found


def _fields(kernel: object, table: StateTable) -> Sequence[str]:
    """The names of ``c0, c1, ...`` in a table."""
    of: Any = _aggregate(kernel)
    rows: Sequence[LogicalType] | None = getattr(of, "input_types", None)
    if rows is not None:
        return field_names(rows[table.slot]) if table.slot < len(rows) else ()
    side = next((n for word, n in _SIDES.items() if table.name.startswith(word)), None)
    if hasattr(of, "left_type"):
        return () if side is None else field_names((of.left_type, of.right_type)[side])
    row: LogicalType | None = getattr(of, "input_type", None)
    found: LogicalType | None = getattr(of, "found_type", None)
    return (*(field_names(row) if row else ()), *(field_names(found) if found else ()))


def _calls(kernel: object, table: StateTable) -> Sequence[str]:
    """The texts of the calls whose accumulators a table holds."""
    of: Any = _aggregate(kernel)
    calls: Sequence[AggCall] = getattr(of, "agg_calls", ())
    if _VALUES.fullmatch(table.name) or getattr(of, "input_type", None) is None:
        return ()
    names = field_names(of.input_type)
    return [agg_text(call, names) for call in calls]

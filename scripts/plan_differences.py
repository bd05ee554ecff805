"""Accidents of Flink's planner that random queries meet: plans that do the same, each difference with its name.

An accident hides nothing else: without it, the two plans are equal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from scripts.flink_faults import FAULTS, Answer
from stateplan.common.types import LogicalType, row_type, type_from_json

Plan: TypeAlias = Mapping[str, Any]


def _equal_without(change: Callable[[Any], Any]) -> Callable[[Plan, Plan], bool]:
    """Whether two plans are equal once ``change`` is applied to each node."""

    def same(ours: Plan, theirs: Plan) -> bool:
        here, there = ([change(node) for node in plan["nodes"]] for plan in (ours, theirs))
        return here == there and ours["edges"] == theirs["edges"]

    return same


def _equal_but_for_names(ours: Plan, theirs: Plan) -> bool:
    """Whether two plans are equal, descriptions too, once no field has a name."""
    text = json.dumps([ours, theirs])
    names = {*re.findall(r"`([^`]+)`", text), *re.findall(r'"name": "([^"]+)", "fieldType"', text)}
    any_name = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    # Names that occur twice get a number, also where only a description has them; fields without a name are one.
    field = re.compile(rf"(?<![\w$])(?:(?:{any_name})\d*|\$\d+)(?![\w$])")

    def change(node: Plan) -> Any:
        description = re.sub("# AS #", "#", field.sub("#", node["description"]))
        return [_nameless(node), description]

    return _equal_without(change)(ours, theirs)


def _nameless(value: Any, key: str = "") -> Any:
    """A node without its description and the names of its fields."""
    if isinstance(value, dict):
        if "fields" in value and value.get("type") == "ROW":
            return {**value, "fields": [_nameless(f) for f in value["fields"]]}
        return {k: _nameless(v, k) for k, v in value.items() if k not in ("description", "name", "fieldName")}
    if isinstance(value, list):
        return [_nameless(v, key) for v in value]
    return re.sub(r"`[^`]*` ", "` ", value) if key == "outputType" and isinstance(value, str) else value


def _without_alias(node: Plan) -> Plan:
    return {**node, "description": re.sub(r", hints=\[\[\[ALIAS options:\[\w+\]\]\]\]", "", node["description"])}


def _with_sum(node: Plan) -> Any:
    return json.loads(re.sub(r"\$\$SUM0\$1|\$SUM0|\$SUM\$1", "SUM", json.dumps(node)))


def _equal_but_for_passed_columns(ours: Plan, theirs: Plan) -> bool:
    """Whether two plans have the same operators with the same expressions, once the columns that are only passed on
    are left out. They decide where columns stand, and whether a join has a unique key."""

    def change(node: Plan) -> list[Any]:
        text = re.sub(r", (left|right)InputSpec=\[\w+\]|project=\[[^]]*\]", "", node["description"])
        head, select, rest = text.partition("select=[")
        items, end = _list_items(rest)
        computed = [item for item in items if not re.fullmatch(r"[\w$]+", item)]
        return [node["type"], node.get("state"), head, select and [computed, end]]

    both = zip(ours["nodes"], theirs["nodes"], strict=False)
    types = ((_field_types(mine), _field_types(other)) for mine, other in both)
    agree = all(mine[name] == other[name] for mine, other in types for name in mine.keys() & other.keys())
    return agree and _equal_without(change)(ours, theirs)


def _list_items(text: str) -> tuple[list[str], str]:
    """The items of a list in a description, without its opening bracket, and what follows the list."""
    items, depth = [""], 0
    for at, sign in enumerate(text):
        depth += (sign in "([") - (sign in ")]")
        if depth < 0:
            return [item.strip() for item in items], text[at:]
        if sign == "," and depth == 0:
            items.append("")
        else:
            items[-1] += sign
    return [item.strip() for item in items], ""


def _field_types(node: Plan) -> dict[str, LogicalType]:
    """The fields of the rows that a node emits, and their types."""
    row = type_from_json(node["outputType"]) if "outputType" in node else row_type([])
    return {f.name: f.type for f in row.fields}


ACCIDENTS: dict[str, Callable[[Plan, Plan], bool]] = {
    # Calcite takes relations for equal whose fields have other names, and goes on with the one that it met first.
    "only names of fields differ": _equal_but_for_names,
    # The hint of a table that a correlated query gives an alias is in the description, where no rule copied the scan.
    "an alias is shown as a hint": _equal_without(_without_alias),
    # Its cost model does not count columns, so one of two plans remains that differ only by them.
    "only columns that nobody reads differ": _equal_but_for_passed_columns,
    # Both cost the same where the values are never NULL.
    "SUM of values that are never NULL is $SUM0": _equal_without(_with_sum),
}
"""Name -> whether it is all that two plans, this project's and Flink's, differ by."""

_OF_SESSIONS = "sessions are made after the sets of groups, so rows of other keys join them"


def accident_of(folder: Path) -> str:
    """The name of the accident by which the plans in ``folder`` differ, ``ours.json`` and ``plan.json``; of a fault of
    Flink that is in its plan; empty where none is known."""
    ours, theirs = (json.loads((folder / name).read_text()) for name in ("ours.json", "plan.json"))
    name = next((name for name, is_all in ACCIDENTS.items() if is_all(ours, theirs)), "")
    return name or (_OF_SESSIONS if FAULTS[_OF_SESSIONS](Answer(folder)) else "")

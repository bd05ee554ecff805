"""How state of an operator follows from the state of another one, as far as plans tell.

Each rule here is exact: the state that it gives is the state that the new operator would have after all rows that the
old one has seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from stateplan.common.types import LogicalType
from stateplan.execnodes.nodes.base import field_types
from stateplan.execnodes.nodes.group_aggregate import GroupAggregate
from stateplan.execnodes.specs import AggCall
from stateplan.functions.rex import Call, InputRef, Rex
from stateplan.functions.rex import Literal as Constant
from stateplan.functions.rex_text import rex_text
from stateplan.plans.lineage import CallMeaning, Condition, Lineage
from stateplan.plans.verdicts import Verdict

Form = Literal["columns", "keys", "first", "values", "groups", "rows"]
"""How state is moved: only its columns; rows, which may come to another key group; of these only the first of each
partition; groups with tables of single values; groups, which may come to another key group, or be merged; or rows of an
input, which pass through the new operator once more."""


@dataclass(frozen=True)
class CallSource:
    """Where an aggregate call finds what it keeps.

    Attributes:
        call: number of the old call; None for the number of rows of the group.
        parts: for what it keeps, by label, the label of what the old call keeps; empty for the same.
    """

    call: int | None
    parts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TableSource:
    """Where a state table finds its rows.

    Attributes:
        table: the name of the old table.
        columns: for each column the old one.
    """

    table: str
    columns: Mapping[str, str]


@dataclass(frozen=True)
class StateMove:
    """Where state finds what it needs in the old state.

    Attributes:
        fields: per input, for each of its fields the field of the old input that holds it; None for one that is not
            stored.
        calls: for each aggregate call its source.
        form: how it is moved.
        inputs: per input, the input of the old operator whose rows are used; empty for the same.
        filters: per input, conditions on the fields of the old input that rows of the state have to meet.
        tables: per state table its source, where that does not follow from the fields and calls.
    """

    fields: tuple[tuple[int | None, ...], ...]
    calls: tuple[CallSource, ...] = ()
    form: Form = "columns"
    inputs: tuple[int, ...] = ()
    filters: tuple[tuple[Rex, ...], ...] = ()
    tables: tuple[TableSource, ...] = ()


Outcome: TypeAlias = tuple[Verdict, list[str], StateMove | None]
"""The verdict on the state of an operator, what led to it, and how the state is moved."""


_SIMPLE = frozenset({"COUNT", "SUM", "$SUM0", "AVG", "MIN", "MAX"})
"""Aggregate functions whose state is columns of the group's row."""


def is_simple(call: AggCall, retracts: bool) -> bool:
    """Whether all that a call keeps is columns of the group's row."""
    return call.function in _SIMPLE and not call.distinct and not (retracts and call.function in ("MIN", "MAX"))


def keeps_numbers(call: AggCall) -> bool:
    """Whether all that a call keeps is columns of the group's row and, if need be, single values."""
    return call.function in _SIMPLE


def merges_exactly(call: AggCall) -> bool:
    """Whether the results of several groups give that of their union, whatever the order of the rows was. Sums of
    floating-point numbers depend on it, and so do MIN and MAX with NaN."""
    return call.function == "COUNT" or call.type.root not in ("FLOAT", "DOUBLE")


@dataclass(frozen=True)
class OldGroups:
    """An aggregate that has kept state.

    Attributes:
        calls: what it keeps.
        counts_rows: whether it keeps the number of rows of each group.
        never_null: the fields of its input that are never NULL.
    """

    calls: Sequence[CallMeaning]
    counts_rows: bool
    never_null: frozenset[str]


def old_groups(node: GroupAggregate, row: LogicalType, rows: Lineage, calls: Sequence[CallMeaning]) -> OldGroups:
    """What an aggregate keeps.

    Args:
        node: the aggregate.
        row: the type of its input.
        rows: the lineage of its input.
        calls: what its calls compute.
    """
    never_null = (h for h, t in zip(rows.fields, field_types(row), strict=True) if not t.nullable)
    return OldGroups(calls, node.need_retraction, frozenset(never_null))


def call_source(call: CallMeaning, old: OldGroups) -> CallSource | None:
    """Where a call finds what it keeps in the state of an aggregate of the same rows; None where it is not there.

    COUNT is kept with every SUM and AVG of the same argument, and a COUNT(*) with the number of rows. SUM and AVG keep
    the same sum of BIGINT and DOUBLE. Narrower numbers add up in wider ones for AVG, and DECIMAL sums that overflow are
    treated otherwise by both: there neither gives the other.
    """
    if call in old.calls:
        return CallSource(old.calls.index(call))
    same = [(i, c) for i, c in enumerate(old.calls) if (c.condition, c.rest) == (call.condition, call.rest)]
    if call.function == "COUNT" and not call.arguments:
        if old.counts_rows and call.condition is None:
            return CallSource(None, {"count": "rows"})
        same = [(i, c) for i, c in same if set(c.arguments) <= old.never_null and c.function in _COUNTING]
    else:
        same = [(i, c) for i, c in same if c.arguments == call.arguments]
    if call.function == "COUNT":
        return next((CallSource(i, {"count": "count"}) for i, c in same if c.function in _COUNTING), None)
    if call.function in _SUMS:
        share = call.type in ("BIGINT", "DOUBLE")
        alike = [i for i, c in same if c.type == call.type and c.function in (_SUMS if share else _SUMS - {"AVG"})]
        return CallSource(alike[0]) if alike and (share or call.function != "AVG") else None
    return None


_SUMS = frozenset({"SUM", "$SUM0", "AVG"})
"""Functions that keep a sum."""

_COUNTING = frozenset({"COUNT", "SUM", "$SUM0", "AVG"})
"""Functions that keep how many values they have seen."""


def filters_over(
    old: Lineage, new: Lineage, stored_fields: Iterable[int], types: Sequence[LogicalType]
) -> tuple[Rex, ...] | None:
    """The conditions that rows have to meet now and had not to meet before, over the fields of the old rows.

    Args:
        old, new: the rows before and now.
        stored_fields: the fields of the old rows that state has.
        types: of all fields of the old rows.

    Returns:
        None where the rows differ in more, or state lacks what a condition reads.
    """
    if old.origin != new.origin or not old.conditions <= new.conditions:
        return None
    return over_stored(new.conditions - old.conditions, old, stored_fields, types)


def over_stored(
    conditions: Iterable[Condition], old: Lineage, stored_fields: Iterable[int], types: Sequence[LogicalType]
) -> tuple[Rex, ...] | None:
    """Conditions over the fields of the old rows; None where state lacks what one of them reads.

    Args:
        conditions: the conditions.
        old: the rows before.
        stored_fields: the fields of them that state has.
        types: of all their fields.
    """
    places = set(stored_fields)
    fields = tuple(field if i in places else "" for i, field in enumerate(old.fields))
    filters = []
    for condition in sorted(conditions, key=lambda c: c.text):
        is_stored = condition.fields <= set(fields) and condition.settings == "{}"
        rex = condition.over(fields, types) if is_stored else None
        if rex is None or not _is_fixed(rex):
            return None
        filters.append(rex)
    return tuple(filters)


def left_out(filters: Sequence[Rex], names: Sequence[str], rows: str) -> list[str]:
    """What becomes of rows of state under conditions on fields with these names, in words; nothing without any."""
    text = " and ".join(rex_text(f, names) for f in filters)
    return [f"{rows} that do not meet {text} are left out"] if filters else []


def _is_fixed(rex: Rex) -> bool:
    """Whether an expression always gives the same for the same row: made of fields, constants and built-in functions of
    these. A call without operands may read the clock."""
    if isinstance(rex, (InputRef, Constant)):
        return True
    fixed = isinstance(rex, Call) and not rex.is_user_defined and bool(rex.children)
    return fixed and all(map(_is_fixed, rex.children))


@dataclass(frozen=True)
class JoinSide:
    """An input of a join.

    Attributes:
        rows: its lineage.
        types: of its fields.
        keys: the fields of the join key.
    """

    rows: Lineage
    types: Sequence[LogicalType]
    keys: tuple[int, ...]


def kept_rows(old: Sequence[JoinSide], new: Sequence[JoinSide]) -> StateMove | None:
    """How a join gets the rows of its inputs from those that another join has kept; None where that one lacks any. The
    sides may have been swapped, further conditions may hold, and columns may be gone."""
    for order in ((0, 1), (1, 0)):
        filters = [
            filters_over(old[j].rows, side.rows, range(len(old[j].types)), old[j].types)
            for j, side in zip(order, new, strict=True)
        ]
        if all(f is not None for f in filters) and all(
            set(side.rows.fields) <= set(old[j].rows.fields) for j, side in zip(order, new, strict=True)
        ):
            fields = tuple(
                tuple(old[j].rows.fields.index(h) for h in side.rows.fields) for j, side in zip(order, new, strict=True)
            )
            return StateMove(fields, form="rows", inputs=order, filters=tuple(f for f in filters if f is not None))
    return None


def lost_rows(
    old: Sequence[JoinSide], new: Sequence[JoinSide], move: StateMove, filters: Sequence[Sequence[bool]]
) -> str | None:
    """Why a join may have kept too few rows for another key; None where it has not. Rows whose key is NULL match
    nothing, and are not kept.

    Args:
        old, new: the inputs.
        move: how the rows come from the old ones.
        filters: of the old join and of the new one, for each key whether NULL matches nothing.
    """
    now = [new[i] for i in (move.inputs if move.inputs == (0, 1) else (1, 0))]
    keys = [
        {
            (sides[0].rows.fields[a], sides[1].rows.fields[b], is_filter)
            for a, b, is_filter in zip(sides[0].keys, sides[1].keys, some, strict=True)
        }
        for sides, some in zip((old, now), filters, strict=True)
    ]
    if keys[0] == keys[1]:
        return None
    nullable = any(
        side.types[k].nullable for side in old for k, is_filter in zip(side.keys, filters[0], strict=True) if is_filter
    )
    return "rows whose key was NULL were not kept" if nullable else None

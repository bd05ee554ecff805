"""How state of an operator follows from the state of another one, as far as plans tell.

Each rule here is exact: the state that it gives is the state that the new operator would have after all rows that the
old one has seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, TypeAlias

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import BIGINT, LogicalType
from stateplan.execnodes.nodes.base import field_types
from stateplan.execnodes.specs import AggCall
from stateplan.functions.rex import Call, InputRef, Rex
from stateplan.functions.rex import Literal as Constant
from stateplan.functions.rex_text import rex_text
from stateplan.functions.varying import varies
from stateplan.plans.meanings import CallMeaning, Expression, FieldMeanings, Lineage
from stateplan.plans.sums import LinearForm, factors, linear_form
from stateplan.plans.verdicts import Verdict

Form = Literal["columns", "keys", "first", "values", "groups", "merged values", "frames", "slices", "timed", "rows"]
"""How state is moved: only its columns; rows, which may come to another key group; of these only the first of each
partition; groups with tables of single values; groups, which may come to another key group, or be merged; both; rows of
frames, of which calls are computed; slices of windows, which may be merged; rows that wait for a time; or rows of an
input, which pass through the new operator once more."""


@dataclass(frozen=True)
class CallSource:
    """Where an aggregate call finds what it keeps.

    Attributes:
        call: number of the old call; None for the number of rows of the group.
        parts: for what it keeps, by label, the label of what the old call keeps; empty for the same.
        converts: whether it keeps other values, or values of another type.
        factor, addend: by what the digits of a sum are multiplied, and what is added for each value.
        values: the single values that it is computed from; None where it is not.
    """

    call: int | None
    parts: Mapping[str, str] = field(default_factory=dict)
    converts: bool = False
    factor: int = 1
    addend: int = 0
    values: ValueOrigin | None = None


@dataclass(frozen=True)
class ValueOrigin:
    """The single values that an old call has kept.

    Attributes:
        table: the name of their table.
        keys: its columns of the group key.
        count: its column with the number of rows of each value, or whether there are any; None where there are rows of
            each.
    """

    table: str
    keys: tuple[str, ...]
    count: str | None


@dataclass(frozen=True)
class TableSource:
    """Where a state table finds its rows.

    Attributes:
        table: the name of the old table.
        columns: for each column the old one.
        counts: old columns, one of which is neither 0 nor false in each row that is taken over; empty for all rows.
        is_not_null: an old column that is not NULL in these rows; None for all rows.
    """

    table: str
    columns: Mapping[str, str]
    counts: tuple[str, ...] = ()
    is_not_null: str | None = None


@dataclass(frozen=True)
class StateMove:
    """Where state finds what it needs in the old state.

    Attributes:
        fields: per input, for each of its fields the field of the old input that holds it; None for one that is not
            stored. Of slices, for each key the place among the old keys.
        calls: for each aggregate call its source.
        form: how it is moved.
        inputs: per input, the input of the old operator whose rows are used; empty for the same.
        nodes: per input, the id of that old operator; empty where it is the counterpart.
        filters: per input, conditions on the fields of the old input that rows of the state have to meet.
        tables: per state table its source, where that does not follow from the fields and calls.
        watermark: of slices, the one at which this holds; None for any.
        exprs: per input, by field, what computes those that the old input does not have from its fields.
    """

    fields: tuple[tuple[int | None, ...], ...]
    calls: tuple[CallSource, ...] = ()
    form: Form = "columns"
    inputs: tuple[int, ...] = ()
    nodes: tuple[int, ...] = ()
    filters: tuple[tuple[Rex, ...], ...] = ()
    tables: tuple[TableSource, ...] = ()
    exprs: tuple[Mapping[int, Rex], ...] = ()
    watermark: int | None = None


Outcome: TypeAlias = tuple[Verdict, list[str], StateMove | None]
"""The verdict on the state of an operator, what led to it, and how the state is moved."""


_SIMPLE = frozenset({"COUNT", "SUM", "$SUM0", "AVG", "MIN", "MAX"})
"""Aggregate functions whose state is columns of the group's row."""


def keeps_values(call: AggCall, retracts: bool) -> bool:
    """Whether a call keeps single values, beside columns of the group's row."""
    if call.function in ("MIN", "MAX"):
        return retracts
    return call.distinct and bool(call.arg_list)


def is_simple(call: AggCall, retracts: bool) -> bool:
    """Whether all that a call keeps is numbers and extremes in the group's row."""
    return keeps_numbers(call) and not keeps_values(call, retracts)


def keeps_numbers(call: AggCall) -> bool:
    """Whether all that a call keeps is columns of the group's row and, if need be, single values."""
    return call.function in _SIMPLE


def merges_exactly(call: AggCall) -> bool:
    """Whether the results of several groups give that of their union, whatever the order of the rows was. Sums of
    floating-point numbers depend on it, and so do MIN and MAX with NaN."""
    return keeps_numbers(call) and (call.function == "COUNT" or call.type.root not in ("FLOAT", "DOUBLE"))


@dataclass(frozen=True)
class GroupCalls:
    """What an aggregate keeps.

    Attributes:
        calls: what it computes.
        forms: per call what it adds up or compares, as an expression of a field; None for anything else.
        counts_rows: whether it keeps the number of rows of each group.
        never_null: the values of fields of its input that are never NULL.
    """

    calls: Sequence[CallMeaning]
    forms: Sequence[LinearForm | None]
    counts_rows: bool
    never_null: frozenset[str]

    @staticmethod
    def of(
        agg_calls: Sequence[AggCall],
        counts_rows: bool,
        row: LogicalType,
        rows: Lineage,
        calls: Sequence[CallMeaning],
    ) -> GroupCalls:
        """
        Args:
            agg_calls: the calls of the aggregate.
            counts_rows: as :attr:`counts_rows`.
            row: the type of its input.
            rows: the lineage of its input.
            calls: what its calls compute.
        """
        values = rows.meanings.values
        never_null = (values(h) for h, t in zip(rows.fields, field_types(row), strict=True) if not t.nullable)
        forms = [
            linear_form(rows.fields[c.arg_list[0]], rows.meanings) if len(c.arg_list) == 1 and not c.distinct else None
            for c in agg_calls
        ]
        return GroupCalls(calls, forms, counts_rows, frozenset(never_null))


def call_source(call: CallMeaning, form: LinearForm | None, old: GroupCalls) -> CallSource | None:
    """Where a call finds what it keeps in the state of an aggregate of the same rows; None where it is not there.

    COUNT is kept with every SUM and AVG of the same argument, and a COUNT(*) with the number of rows. SUM and AVG keep
    the same sum of DOUBLE. For sums of other numbers, see :mod:`plans.sums`.

    Args:
        call: the call.
        form: what it adds up or compares.
        old: what the other aggregate keeps.
    """
    if call in old.calls:
        return CallSource(old.calls.index(call))
    alike = [i for i, c in enumerate(old.calls) if (c.condition, c.rest) == (call.condition, call.rest)]
    if call.function == "COUNT" and set(call.arguments) <= old.never_null:
        if old.counts_rows and call.condition is None:
            return CallSource(None, {"count": "rows"})
        same = [i for i in alike if set(old.calls[i].arguments) <= old.never_null]
    else:
        same = [i for i in alike if _same_values(call, form, i, old)]
    if call.function == "COUNT":
        return next((CallSource(i, {"count": "count"}) for i in same if old.calls[i].function in _COUNTING), None)
    if call.function in ("MIN", "MAX"):
        extremes = [i for i in same if old.calls[i].function == call.function]
        return CallSource(extremes[0], converts=True) if extremes else None
    sums = [i for i in same if old.calls[i].function in _SUMS] if call.function in _SUMS else []
    return next((source for i in sums if (source := _sum_source(call, form, i, old)) is not None), None)


def _same_values(call: CallMeaning, form: LinearForm | None, number: int, old: GroupCalls) -> bool:
    """Whether a call is about the values of an old one, or of an expression of the same field."""
    old_form = old.forms[number]
    if old.calls[number].arguments == call.arguments:
        return True
    if form is None or old_form is None or form.field != old_form.field:
        return False
    return call.function not in ("MIN", "MAX") or (form.is_field and old_form.is_field)


def _sum_source(call: CallMeaning, form: LinearForm | None, number: int, old: GroupCalls) -> CallSource | None:
    """How a sum follows from that of an old call; None where it does not."""
    old_form, old_call = old.forms[number], old.calls[number]
    if form is None or old_form is None:  # sums of FLOAT are FLOAT in one, and DOUBLE in the other
        is_double = old_call.arguments == call.arguments and old_call.type == call.type == "DOUBLE"
        return CallSource(number) if is_double else None
    widths = [
        BIGINT if c.function == "AVG" and f.type.is_integer else f.type for c, f in ((old_call, old_form), (call, form))
    ]
    numbers = factors(old_form, form, (widths[0], widths[1]))
    if numbers is None:
        return None
    same = numbers == (1, 0) and (widths[0].root, old_form.scale) == (widths[1].root, form.scale)
    return CallSource(number, {}, not same, *numbers)


_SUMS = frozenset({"SUM", "$SUM0", "AVG"})
"""Functions that keep a sum."""

_COUNTING = frozenset({"COUNT", "SUM", "$SUM0", "AVG"})
"""Functions that keep how many values they have seen."""


@dataclass(frozen=True)
class StoredFields:
    """The fields of old rows that state has.

    Attributes:
        fields: of each field of the rows its hash; empty for one that state lacks.
        types: the types of all fields.
        old, new: what hashes of the fields of both plans stand for.
    """

    fields: Sequence[str]
    types: Sequence[LogicalType]
    old: FieldMeanings
    new: FieldMeanings

    @staticmethod
    def of(old: Lineage, new: Lineage, places: Iterable[int], types: Sequence[LogicalType]) -> StoredFields:
        """
        Args:
            old, new: the rows before and now.
            places: the places of the fields of the old rows that state has.
            types: of all their fields.
        """
        stored_places = set(places)
        fields = tuple(field if i in stored_places else "" for i, field in enumerate(old.fields))
        return StoredFields(fields, types, old.meanings, new.meanings)

    def rex(self, field_hash: str) -> Rex | None:
        """What computes a field of the new plan from those that state has; None where state lacks what it reads."""
        return self.over(Expression.of({"field": field_hash}, {}))

    def over(self, expression: Expression) -> Rex | None:
        """An expression of the new plan over the fields that state has; None where state lacks what it reads."""
        if expression.settings != "{}":
            return None
        try:
            rex = expression.over(self._field_json)
        except KeyError:
            return None
        return rex if rex is not None and _is_fixed(rex) else None

    def _field_json(self, field_hash: str) -> Any:
        """The JSON of what computes a field. Raises KeyError where state lacks what it reads."""
        if field_hash in self.fields:
            place = self.fields.index(field_hash)
            return {"kind": "INPUT_REF", "inputIndex": place, "type": self.types[place].to_json()}
        if field_hash in self.new.integers:
            values, kind = self.new.integers[field_hash]
            return self._widened(values, kind)
        rex = self.over(self.new.expressions[field_hash])
        if rex is None:
            raise KeyError(field_hash)
        return rex.to_json()

    def _widened(self, values: str, kind: LogicalType) -> Any:
        """The JSON of what makes whole numbers wider. Raises KeyError where state lacks them."""
        for place, stored_field in enumerate(self.fields):
            origin, narrow = self.old.integers.get(stored_field, ("", kind))
            if origin == values and narrow.is_narrower(kind):
                operand = {"kind": "INPUT_REF", "inputIndex": place, "type": self.types[place].to_json()}
                cast = {"kind": "CALL", "syntax": "SPECIAL", "internalName": "$CAST$1", "operands": [operand]}
                return {**cast, "type": kind.as_nullable(self.types[place].nullable).to_json()}
        raise KeyError(values)

    def fields_of(self, new_fields: Iterable[tuple[int, str]]) -> tuple[dict[int, int], dict[int, Rex]] | None:
        """Where fields of the new rows are, and what computes the others, by their positions; None where neither is
        known of one. ``new_fields`` are positions and hashes."""
        places: dict[int, int] = {}
        expressions: dict[int, Rex] = {}
        for position, field_hash in new_fields:
            if field_hash in self.fields:
                same = position < len(self.fields) and self.fields[position] == field_hash
                places[position] = position if same else self.fields.index(field_hash)
                continue
            rex = self.rex(field_hash)
            if rex is None:
                return None
            expressions[position] = rex
        return places, expressions


def filters_over(
    old: Lineage, new: Lineage, stored_fields: Iterable[int], types: Sequence[LogicalType]
) -> tuple[Rex, ...] | None:
    """The conditions that rows have to meet now and had not to meet before, over the fields of the old rows.

    Args:
        old, new: the rows before and now.
        stored_fields: the fields of the old rows that state has.
        types: the types of all fields of the old rows.

    Returns:
        None where the rows differ in more, or state lacks what a condition reads.
    """
    if old.origin != new.origin or not old.conditions <= new.conditions:
        return None
    return over_stored(new.conditions - old.conditions, StoredFields.of(old, new, stored_fields, types))


def over_stored(conditions: Iterable[Expression], stored_fields: StoredFields) -> tuple[Rex, ...] | None:
    """Conditions over the fields of the old rows; None where state lacks what one of them reads."""
    filters = [stored_fields.over(condition) for condition in sorted(conditions, key=lambda c: c.text)]
    return None if None in filters else tuple(rex for rex in filters if rex is not None)


def left_out(filters: Sequence[Rex], names: Sequence[str], rows: str) -> list[str]:
    """What becomes of rows of state under conditions on fields with these names, in words; nothing without any."""
    text = " and ".join(rex_text(f, names) for f in filters)
    return [f"{rows} that do not meet {text} are left out"] if filters else []


def _is_fixed(rex: Rex) -> bool:
    """Whether an expression always gives the same for the same row: made of fields, constants and built-in functions of
    these. A call without operands may read the clock."""
    if isinstance(rex, (InputRef, Constant)):
        return True
    is_fixed_call = isinstance(rex, Call) and not rex.is_user_defined and bool(rex.children) and not varies(rex)
    return is_fixed_call and all(map(_is_fixed, rex.children))


@dataclass(frozen=True)
class JoinSide:
    """An input of a join, whose rows it keeps.

    Attributes:
        rows: its lineage.
        types: the types of its fields.
        dropped_keys: fields of which no row is kept where one is NULL, as such a row matches nothing.
        node: the id of the join.
        number: the number of the input.
    """

    rows: Lineage
    types: Sequence[LogicalType]
    dropped_keys: tuple[int, ...]
    node: int
    number: int


def kept_rows(old: Sequence[JoinSide], new: Sequence[JoinSide]) -> tuple[StateMove | None, str | None]:
    """How a join gets the rows of its inputs from those that old joins have kept. Further conditions may hold, and
    columns may be gone or follow from others.

    Args:
        old: the inputs of old joins. Those at the same place come first.
        new: the inputs of the join.

    Returns:
        None where an input was not kept, and why.
    """
    origins: list[JoinSide] = []
    parts: list[tuple[tuple[int | None, ...], tuple[Rex, ...], Mapping[int, Rex]]] = []
    reason = None
    for side in new:
        for origin in old:
            places = range(len(origin.types))
            side_filters = filters_over(origin.rows, side.rows, places, origin.types)
            if side_filters is None:
                continue
            stored_fields = StoredFields.of(origin.rows, side.rows, places, origin.types)
            derived_fields = stored_fields.fields_of(enumerate(side.rows.fields))
            if derived_fields is None:
                continue
            if not _has_all_rows(origin, side):
                reason = "rows whose key was NULL were not kept"
                continue
            fields = tuple(derived_fields[0].get(i) for i in range(len(side.rows.fields)))
            origins.append(origin)
            parts.append((fields, side_filters, derived_fields[1]))
            break
        else:
            return None, reason
    fields_of_inputs, filters, expressions = zip(*parts, strict=True)
    inputs, nodes = tuple(o.number for o in origins), tuple(o.node for o in origins)
    move = StateMove(fields_of_inputs, form="rows", inputs=inputs, nodes=nodes, filters=filters, exprs=expressions)
    return move, None


def _has_all_rows(origin: JoinSide, side: JoinSide) -> bool:
    """Whether an old join has kept all rows that an input of another one would have kept."""
    dropped_now = {side.rows.meanings.values(side.rows.fields[k]) for k in side.dropped_keys}
    dropped_before = {k for k in origin.dropped_keys if origin.types[k].nullable}
    return {origin.rows.meanings.values(origin.rows.fields[k]) for k in dropped_before} <= dropped_now

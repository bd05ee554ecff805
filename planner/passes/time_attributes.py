"""Turns time attributes into timestamps where something other than an operator on time reads them.

Source: Flink's ``RelTimeIndicatorConverter``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stateplan.common.errors import SqlError
from stateplan.common.types import LogicalType
from stateplan.functions.rex import Call, InputRef, Literal, PatternInputRef, Rex
from stateplan.planner.algebra.base import AggCall
from stateplan.planner.algebra.match import Match
from stateplan.planner.algebra.over import OverAggregate
from stateplan.planner.algebra.relations import (
    Aggregate,
    Calc,
    Join,
    MultiJoin,
    Rank,
    Rel,
    Sink,
    Union,
    field_names,
    replace_inputs,
)
from stateplan.planner.algebra.table_functions import FunctionCorrelate, TableAggregate
from stateplan.planner.algebra.temporal import TemporalJoin
from stateplan.planner.algebra.windows import GroupWindowAggregate, WindowTable
from stateplan.planner.expressions.ops import call, kind, substitute, with_operands
from stateplan.planner.metadata.window_properties import window_properties
from stateplan.planner.passes.joins import to_interval_join, to_window_join

_TIMESTAMP = LogicalType("TIMESTAMP_WITH_LOCAL_TIME_ZONE", nullable=False, precision=3)


def materialize_time_attributes(rel: Rel) -> Rel:
    """Raises SqlError SQL112, for a UNION of a time attribute and a time computed from one."""
    inputs = [materialize_time_attributes(i) for i in rel.inputs]
    if isinstance(rel, Sink):
        return replace(rel, input=_materialized(inputs[0], range(rel.width), ("PROCTIME",)))
    if isinstance(rel, Aggregate):
        windows = window_properties(inputs[0])
        kept_times = windows.times if windows is not None and windows.grouped_by(rel.group) else ()
        used_fields = [*(g for g in rel.group if g not in kept_times), *(a for c in rel.calls for a in c.args)]
        return replace(rel, input=_materialized(inputs[0], used_fields), calls=_plain_calls(rel.calls))
    if isinstance(rel, GroupWindowAggregate):
        args = {*rel.group, *(a for c in rel.calls for a in c.args)}
        return replace(rel, input=_materialized(inputs[0], sorted(args)), calls=_plain_calls(rel.calls))
    if isinstance(rel, OverAggregate):
        return replace(rel, input=inputs[0], calls=_plain_calls(rel.calls))
    if isinstance(rel, TableAggregate):
        return replace(rel, input=_materialized(inputs[0], range(rel.input.width)))
    if isinstance(rel, Join):
        timed = to_interval_join(rel, *inputs) or to_window_join(rel, *inputs)
        if timed is not None:
            return timed
        left, right = (_materialized(i, range(i.width)) for i in inputs)
        fields = [*left.fields, *right.fields]
        return replace(rel, left=left, right=right, condition=_retyped(rel.condition, fields))
    if isinstance(rel, TemporalJoin):
        left, right = (_materialized(i, range(i.width), ("PROCTIME",)) for i in inputs)
        join = replace(rel, left=left, right=right)
        return _materialized(join, range(left.width, left.width + right.width))
    if isinstance(rel, MultiJoin):
        sources = tuple(_materialized(i, range(i.width)) for i in inputs)
        fields = [f for s in sources for f in s.fields]
        return replace(rel, sources=sources, conditions=tuple(_call(_retyped(c, fields)) for c in rel.conditions))
    if isinstance(rel, Calc):
        fields = list(inputs[0].fields)
        exprs = tuple(_call(_retyped(e, fields)) for e in rel.exprs)
        condition = None if rel.condition is None else _call(_retyped(rel.condition, fields))
        if condition is None and list(exprs) == _refs(fields):
            return inputs[0]  # its casts were of times that are timestamps below; its names go with it, as in Flink
        return replace(rel, input=inputs[0], exprs=exprs, condition=condition)
    if isinstance(rel, Union):
        _check_union(rel, inputs)
        return replace(rel, sources=tuple(inputs))
    if isinstance(rel, FunctionCorrelate):
        function = _retyped(rel.call, inputs[0].fields)
        assert isinstance(function, Call)
        return replace(rel, input=inputs[0], call=function)
    if isinstance(rel, Match):
        below = inputs[0]
        return replace(rel.mapped(lambda rex: _with_field_types(rex, below.fields)), input=below)
    if isinstance(rel, WindowTable):
        return _with_types_of_before(rel, inputs[0])
    if isinstance(rel, Rank):
        return replace(rel, input=inputs[0])
    return replace_inputs(rel, inputs)


def _plain_calls(calls: Sequence[AggCall]) -> tuple[AggCall, ...]:
    """Calls whose results are no time attributes."""
    return tuple(replace(c, type=replace(c.type, kind=None)) for c in calls)


def _with_types_of_before(rel: WindowTable, below: Rel) -> WindowTable:
    """``rel`` over its new input. Its fields stay the time attributes that they were, but for the time of its windows:
    the converter of Flink keeps the row type of the call of a table function."""
    pairs = zip(rel.input.fields, below.fields, strict=True)
    types = tuple(t if i != rel.time else new for i, ((_, t), (_, new)) in enumerate(pairs))
    differ = types != tuple(t for _, t in below.fields)
    return replace(rel, input=below, types=types if differ else ())


def _check_union(rel: Union, inputs: Sequence[Rel]) -> None:
    """Raises SqlError SQL112, where a column is a time attribute of one input and computed from one in another."""
    for position, column in enumerate(zip(*(i.fields for i in inputs), strict=True), 1):
        kinds = {t.kind for _, t in column}
        if len(kinds) > 1:
            name, first_type = column[0]
            timestamp = replace(first_type, kind=None)
            raise SqlError("SQL112.time", position=position, name=name, timestamp=timestamp, place=rel.last_place)


def _refs(fields: Sequence[tuple[str, LogicalType]]) -> list[Rex]:
    return [InputRef(t, i) for i, (_, t) in enumerate(fields)]


def _retyped(rex: Rex, fields: Sequence[tuple[str, LogicalType]]) -> Rex:
    return substitute(rex, _refs(fields))


def _stamp(rex: Rex) -> Rex:
    if rex.type.kind == "ROWTIME":
        return call("CAST", (rex,), replace(rex.type, kind=None))
    if isinstance(rex, Literal):  # NULL is not the clock, as it is in Flink
        return replace(rex, type=replace(rex.type, kind=None))
    return Call(_TIMESTAMP.as_nullable(rex.type.nullable), (rex,), "$PROCTIME_MATERIALIZE$1")


def _call(rex: Rex) -> Rex:
    """``rex`` with time attributes materialized inside of calls; an attribute itself stays one.

    So does the CAST that makes one of a timestamp (of a metadata column, or of a column of a UNION), and the
    REINTERPRET of a column by which a source makes watermarks.
    """
    if not rex.children or rex.type is None:
        return rex
    if isinstance(rex, Call) and rex.name == "PROCTIME_MATERIALIZE":
        return rex
    operands = [_call(c) for c in rex.children]
    if kind(rex) == "CAST" and rex.type.kind is not None and operands[0].type.kind == rex.type.kind:
        return with_operands(rex, operands)  # it only says that the time is never NULL
    makes_one = kind(rex) == "REINTERPRET" or (kind(rex) == "CAST" and all(o.type.kind is None for o in operands))
    new = with_operands(rex, [_stamp(o) if o.type.kind is not None else o for o in operands])
    if isinstance(new, Call) and new.type.kind is not None and not makes_one:
        new = replace(new, type=replace(new.type, kind=None))
    inner = new.children[0]
    return inner if kind(new) == "CAST" and inner.type == new.type else new


_NAVIGATION = ("FINAL", "LAST", "FIRST", "PREV", "NEXT")
_MATCH_TIMES = ("MATCH_ROWTIME", "MATCH_PROCTIME")


def _with_field_types(rex: Rex, fields: Sequence[tuple[str, LogicalType]]) -> Rex:
    """A condition or a measure of MATCH_RECOGNIZE with time attributes materialized, but for the time of the match."""
    if isinstance(rex, PatternInputRef):
        return replace(rex, type=fields[rex.index][1])
    if not isinstance(rex, Call) or rex.name in _MATCH_TIMES:
        return rex
    operands = [_with_field_types(o, fields) for o in rex.operands]
    keeps = rex.name == "FINAL" and kind(operands[0]) in _MATCH_TIMES
    operands = [_stamp(o) if o.type.kind is not None and not keeps else o for o in operands]
    new = with_operands(rex, operands)
    return replace(new, type=operands[0].type if rex.name in _NAVIGATION else replace(new.type, kind=None))


def _materialized(rel: Rel, indexes: Sequence[int] | range, kinds: tuple[str, ...] = ("PROCTIME", "ROWTIME")) -> Rel:
    """``rel`` with the time attributes of these kinds among ``indexes`` as timestamps."""
    fields = rel.fields
    time_fields = {i for i in indexes if fields[i][1].kind in kinds}
    if not time_fields:
        return rel
    new = [_stamp(e) if i in time_fields else e for i, e in enumerate(_refs(fields))]
    if isinstance(rel, Calc):
        return replace(rel, exprs=tuple(_stamp(e) if i in time_fields else e for i, e in enumerate(rel.exprs)))
    return Calc(rel, tuple(new), tuple(field_names(rel)))

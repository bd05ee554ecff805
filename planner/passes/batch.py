"""Batch mode: a streaming plan over bounded input that gives its final rows as insertions, when the input has ended.

Event time does not advance until the end, so no row is late. An aggregate without groups has a row for no input.
Changes are kept, and what is left of them at the end is passed on: above all sinks, and below operators that take
insertions only. Source of what a query gives: Flink's ``BatchPlanner``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from stateplan.common.errors import SqlError
from stateplan.common.types import BOOLEAN
from stateplan.connectors.registry import find_connector
from stateplan.functions.rex import Literal
from stateplan.planner.algebra.relations import (
    Aggregate,
    Calc,
    FullSort,
    Project,
    Rel,
    Scan,
    Sink,
    SortLimit,
    Union,
    Values,
    field_names,
    refs_to,
    replace_inputs,
    transform_up,
    unique_names,
    walk,
)
from stateplan.planner.algebra.temporal import WatermarkAssigner
from stateplan.planner.algebra.windows import WindowTable
from stateplan.planner.expressions.ops import Over
from stateplan.planner.expressions.ops import walk as parts
from stateplan.planner.operators import operator_of
from stateplan.planner.operators.base import INSERT
from stateplan.planner.physical import Physical

_FLAG = BOOLEAN.not_null()


def bounded_input(sink: Sink) -> Rel:
    """``sink`` over input that ends, without event time before that, and with aggregates of nothing.

    Raises:
        SqlError: SQL170, a table that does not end; SQL171, a window of processing time; SQL162, a RANK or DENSE_RANK,
            which in Flink's batch mode distinguishes rows of equal order from others, and on a stream does not.
    """
    for rel in walk(sink):
        if isinstance(rel, Scan) and not find_connector(rel.table.options).is_bounded(rel.table.options):
            raise SqlError("SQL170", summary=rel.table.identifier.summary, place=rel.place)
        if isinstance(rel, WindowTable) and rel.input.fields[rel.time][1].kind == "PROCTIME":
            raise SqlError("SQL171", place=rel.place)
        for over in _ranks(rel):
            raise SqlError("SQL162.in_batch_mode", name=over.function, place=over.place)

    def change(rel: Rel) -> Rel | None:
        if isinstance(rel, WatermarkAssigner):
            return replace(rel, watermark=Literal(rel.watermark.type.as_nullable(), None))
        return _of_nothing(rel) if isinstance(rel, Aggregate) and not rel.group else None

    return transform_up(sink, change)


def _ranks(rel: Rel) -> Iterator[Over]:
    """The calls of RANK and DENSE_RANK."""
    for rex in rel.exprs if isinstance(rel, Project) else ():
        yield from (e for e in parts(rex) if isinstance(e, Over) and e.function in ("RANK", "DENSE_RANK"))


def _of_nothing(rel: Aggregate) -> Rel | None:
    """An aggregate of all rows, with one more row that no call takes: its group is never empty. One value is left
    alone: whoever asks for it takes NULL for no row."""
    if any(call.function == "SINGLE_VALUE" for call in rel.calls):
        return None
    below = rel.input
    used_fields = sorted({i for call in rel.calls for i in (*call.args, call.filter) if i >= 0})
    field_map = {field: i for i, field in enumerate(used_fields)}
    names = unique_names([*(field_names(below)[i] for i in used_fields), "$counts"])
    rows = Project(below, (*refs_to(below, used_fields), Literal(_FLAG, True)), tuple(names))
    filters = {field_map[call.filter] for call in rel.calls if call.filter >= 0} | {len(used_fields)}
    fields = tuple((n, t if i in filters else t.as_nullable()) for i, (n, t) in enumerate(rows.fields))
    fields = tuple((n, replace(t, kind=None)) for n, t in fields)
    nothing = Values(fields, (tuple(Literal(t, False if i in filters else None) for i, (_, t) in enumerate(fields)),))
    calls = tuple(
        replace(
            call,
            args=tuple(field_map[a] for a in call.args),
            filter=field_map[call.filter] if call.filter >= 0 else len(used_fields),
        )
        for call in rel.calls
    )
    return replace(rel, input=Union((rows, nothing), row=fields), calls=calls)


def final_rows(sink: Sink) -> Rel:
    """``sink`` over the rows that are left when its input has ended. Those of an ORDER BY with a LIMIT are in its
    order."""
    below = _final_below(sink.input)
    return replace(sink, input=below.rel if below.is_insert_only else _final(below.rel))


def _final_below(rel: Rel) -> Physical:
    """``rel`` with final rows for operators that take no others, and the modifications that it emits."""
    inputs = tuple(_final_below(i) for i in rel.inputs)
    try:
        kinds = operator_of(type(rel)).provided(rel, inputs, mini_batch=False)
    except SqlError as error:
        if error.code != "SQL140":
            raise
        inputs = tuple(i if i.is_insert_only else Physical(_final(i.rel), (i,), INSERT, "NONE") for i in inputs)
        kinds = operator_of(type(rel)).provided(rel, inputs, mini_batch=False)
    return Physical(replace_inputs(rel, [i.rel for i in inputs]), inputs, kinds, "NONE")


def _final(rel: Rel) -> Rel:
    """What is left of the rows of ``rel``, in order where the query says one."""
    below: Rel = rel
    calcs: list[Calc] = []
    while isinstance(below, Calc):
        calcs.append(below)
        below = below.input
    if not isinstance(below, SortLimit):
        return FullSort(rel, ())
    final_rel: Rel = FullSort(below, below.order, place=below.place)
    for calc in reversed(calcs):
        final_rel = replace(calc, input=final_rel)
    return final_rel

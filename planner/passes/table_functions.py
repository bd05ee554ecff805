"""Moves filters below table functions, and what is no Python out of the arguments of Python table functions.

Source: Calcite's ``FilterCorrelateRule``, Flink's ``PythonCorrelateSplitRule``.
"""

from __future__ import annotations

from dataclasses import replace

from stateplan.execnodes.rex import Call, InputRef
from stateplan.planner.algebra.relations import Calc, Filter, Rel, field_names, refs_to, unique_names
from stateplan.planner.algebra.table_functions import FunctionCorrelate
from stateplan.planner.expressions.ops import and_, conjunctions, input_refs, is_deterministic, shift, with_operands
from stateplan.planner.passes.build import filtered
from stateplan.planner.passes.split_python_calcs import Splitter, is_async, is_other


def filter_through_function(rel: Rel) -> Rel | None:
    """What a filter asks of the input's fields only is asked before the function is called."""
    if not isinstance(rel, Filter) or not isinstance(rel.input, FunctionCorrelate):
        return None
    correlate = rel.input
    width = correlate.input.width
    terms = conjunctions(rel.condition)
    pushed = [t for t in terms if is_deterministic(t) and all(i < width for i in input_refs(t))]
    inside = []
    if correlate.is_unnest and correlate.join_type == "INNER":
        inside = [t for t in terms if t not in pushed and all(i >= width for i in input_refs(t))]
    if not pushed and not inside:
        return None
    if pushed:
        correlate = replace(correlate, input=filtered(correlate.input, pushed))
    if inside:
        own = [*conjunctions(correlate.condition), *(shift(t, -width) for t in inside)]
        correlate = replace(correlate, condition=and_(own))
    return filtered(correlate, [t for t in terms if t not in pushed and t not in inside])


def split_python_function(rel: Rel) -> Rel | None:
    """Arguments that are no fields, constants or Python calls are computed below (``PythonCorrelateSplitRule``), and
    asynchronous ones."""
    if not isinstance(rel, FunctionCorrelate) or rel.call.internal_name is not None:
        return None
    source = rel.input
    width = source.width
    splitter = Splitter(width, lambda e: is_other(e) or is_async(e))
    operands = [splitter(o) for o in rel.call.operands]
    if not splitter.taken:
        return None
    names = unique_names([*field_names(source), *(f"f{n}" for n in range(len(splitter.taken)))])
    below = Calc(source, (*refs_to(source), *splitter.taken), tuple(names))
    call = with_operands(rel.call, operands)
    assert isinstance(call, Call)
    wide = replace(rel, input=below, call=call)
    kept = [*range(width), *range(below.width, wide.width)]
    fields = wide.fields
    return Calc(wide, tuple(InputRef(fields[i][1], i) for i in kept), tuple(field_names(rel)))

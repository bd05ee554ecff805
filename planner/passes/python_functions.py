"""Python functions and table functions run in operators of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from stateplan.functions.rex import Call, FieldAccess, InputRef, Literal, Rex, input_refs, remap, shift
from stateplan.planner.algebra.relations import (
    Calc,
    Filter,
    Join,
    Rel,
    field_names,
    refs_to,
    replace_inputs,
    unique_names,
)
from stateplan.planner.algebra.table_functions import FunctionCorrelate
from stateplan.planner.expressions.ops import and_, conjunctions, has_user_call, is_deterministic, walk, with_operands
from stateplan.planner.passes.build import filtered
from stateplan.planner.positions import not_supported

# Takes calcs apart until Python functions are alone: a calc with them has nothing but fields and their calls, fields
# first, and no condition.
#
# Source: Flink's ``PythonCalcSplitRule`` (conditions, projections, pandas functions, conditions below projections) and
# ``PythonCalcRewriteProjectionRule``. Each rule makes two calcs of one: the lower one computes what was taken out, as
# fields f0, f1 ... behind the fields that are needed above.


def split_python_calcs(rel: Rel) -> Rel:
    rel = replace_inputs(rel, [split_python_calcs(i) for i in rel.inputs])
    return _split(rel) if isinstance(rel, Calc) and not rel.python else rel


def _split(calc: Calc, allows_any_order: bool = False) -> Rel:
    """``calc`` split; ``allows_any_order`` says that its fields and calls may appear in any order."""
    rexes = [*calc.exprs, *([calc.condition] if calc.condition is not None else [])]
    if not any(map(has_user_call, rexes)):
        return calc
    if calc.condition is not None and has_user_call(calc.condition):
        return _split_condition(calc)
    python = [e for e in calc.exprs if has_user_call(e)]
    if any(map(_has_other, calc.exprs)):
        # Python calls go down from under other functions, else other functions from under Python calls.
        other_on_top = any(not isinstance(e, InputRef) and not _is_python(e) for e in calc.exprs)
        return _split_projection(calc, _is_python if other_on_top else is_other)
    vectors = [c for e in python for c in walk(e) if _is_python(c) and _vector(c)]
    plain = [c for e in python for c in walk(e) if _is_python(c) and not _vector(c)]
    if vectors and plain:
        plain_on_top = any(_is_python(e) and not _vector(e) for e in calc.exprs)
        return _split_projection(calc, lambda e: _is_python(e) and _vector(e) == plain_on_top)
    if calc.condition is not None:
        return _two(calc, (), calc.condition, calc.exprs, None)
    kinds = [_is_python(e) for e in calc.exprs]
    if (kinds != sorted(kinds) and not allows_any_order) or any(isinstance(e, Literal) for e in calc.exprs):
        return _split_projection(calc, _is_python)
    return _split_asynchronous(calc, python) or replace(calc, python=True)


def _split_asynchronous(calc: Calc, calls: Sequence[Rex]) -> Rel | None:
    """A calc with asynchronous functions has one call of one, over fields (Flink's ``AsyncCalcSplitRule``); None for
    one that is so.

    Args:
        calls: the expressions of ``calc`` that call functions.
    """
    inner = [c for e in calls for c in walk(e) if _is_python(c)]
    if not any(map(is_async, inner)):
        return None
    if not all(map(is_async, inner)):
        if all(map(is_async, calls)):
            return _split_projection(calc, lambda e: _is_python(e) and not is_async(e))
        return _split_projection(calc, is_async, allows_any_order=True)
    if len(inner) > len(calls):
        splitter = Splitter(calc.input.width, is_async)
        exprs = [with_operands(e, [splitter(o) for o in e.children]) if e.children else e for e in calc.exprs]
        return _two(calc, splitter.calls, None, exprs, None)
    first = calls[0]
    return None if len(calls) == 1 else _split_projection(calc, lambda e: e is first or _same_call(e, first))


def _is_python(rex: Rex) -> bool:
    return isinstance(rex, Call) and rex.is_user_defined


def is_async(rex: Rex) -> bool:
    """Whether it calls an asynchronous function."""
    return isinstance(rex, Call) and rex.function is not None and rex.function.asynchronous is not None


def _same_call(a: Rex, b: Rex) -> bool:
    """Whether both are one asynchronous call that need be made only once."""
    return is_async(a) and a == b and is_deterministic(a)


def _vector(rex: Rex) -> bool:
    return isinstance(rex, Call) and rex.function is not None and rex.function.vector != "general"


def is_other(rex: Rex) -> bool:
    """Whether it is computed by something that is not a Python function."""
    return isinstance(rex, FieldAccess) or (isinstance(rex, Call) and not rex.is_user_defined)


def _has_other(rex: Rex) -> bool:
    return any(map(is_other, walk(rex)))


class Splitter:
    """Extracts the outermost expressions for which ``is_extracted`` is true, in order; equal asynchronous calls
    once."""

    def __init__(self, width: int, is_extracted: Callable[[Rex], bool]) -> None:
        self.width = width
        self.is_extracted = is_extracted
        self.calls: list[Rex] = []

    def __call__(self, rex: Rex) -> Rex:
        if self.is_extracted(rex):
            same = [n for n, other in enumerate(self.calls) if _same_call(rex, other)]
            if same:
                return InputRef(rex.type, self.width + same[0])
            self.calls.append(rex)
            return InputRef(rex.type, self.width + len(self.calls) - 1)
        if not rex.children:
            return rex
        return with_operands(rex, [self(c) for c in rex.children])


def _two(
    calc: Calc,
    calls: Sequence[Rex],
    below: Rex | None,
    exprs: Sequence[Rex],
    condition: Rex | None,
    allows_any_order: bool = False,
) -> Rel:
    """The lower calc, with the condition ``below``, and the upper one over it."""
    source, width = calc.input, calc.input.width
    tops = [*exprs, *([condition] if condition is not None else [])]
    kept_fields = list(dict.fromkeys(i for e in tops for i in input_refs(e) if i < width))
    names = field_names(source)
    fields = unique_names([*(names[i] for i in kept_fields), *(f"f{n}" for n in range(len(calls)))])
    refs = [InputRef(source.fields[i][1], i) for i in kept_fields]
    field_map = {i: n for n, i in enumerate(kept_fields)} | {width + n: len(kept_fields) + n for n in range(len(calls))}
    lower = _split(Calc(source, (*refs, *calls), tuple(fields), below))
    upper = Calc(
        lower,
        tuple(remap(e, field_map) for e in exprs),
        calc.names,
        None if condition is None else remap(condition, field_map),
    )
    return _split(upper, allows_any_order)


def _split_condition(calc: Calc) -> Rel:
    assert calc.condition is not None
    splitter = Splitter(calc.input.width, _is_python)
    condition = splitter(calc.condition)
    exprs = []
    for e in calc.exprs:
        same = [n for n, t in enumerate(splitter.calls) if t == e]
        exprs.append(InputRef(e.type, calc.input.width + same[0]) if same else e)
    return _two(calc, splitter.calls, None, exprs, condition)


def _split_projection(calc: Calc, is_extracted: Callable[[Rex], bool], allows_any_order: bool = False) -> Rel:
    splitter = Splitter(calc.input.width, is_extracted)
    exprs = [splitter(e) for e in calc.exprs]
    return _two(calc, splitter.calls, calc.condition, exprs, None, allows_any_order)


def split_python_join(rel: Rel) -> Rel | None:
    """Moves what calls Python functions from the condition of an inner join to a filter above it.

    Source: Flink's ``SplitPythonConditionFromJoinRule``. Joins of other types cannot have them, as in Flink.
    """
    if not isinstance(rel, Join) or not has_user_call(rel.condition):
        return None
    if rel.join_type != "INNER":
        raise not_supported(
            f"a Python function in the condition of a {rel.join_type} join",
            rel.place,
            "compute it in a subquery below the join",
        )
    terms = conjunctions(rel.condition)
    below = replace(rel, condition=and_(t for t in terms if not has_user_call(t)))
    condition = and_(t for t in terms if has_user_call(t))
    return Calc(below, tuple(refs_to(below)), tuple(field_names(below)), condition)


# Moves filters below table functions, and what is not Python out of the arguments of Python table functions.
#
# Source: Calcite's ``FilterCorrelateRule``, Flink's ``PythonCorrelateSplitRule``.


def filter_through_function(rel: Rel) -> Rel | None:
    """Evaluates the conditions that read only fields of the input before the function is called."""
    if not isinstance(rel, Filter) or not isinstance(rel.input, FunctionCorrelate):
        return None
    correlate = rel.input
    width = correlate.input.width
    terms = conjunctions(rel.condition)
    pushed_terms = [t for t in terms if is_deterministic(t) and all(i < width for i in input_refs(t))]
    inside = []
    if correlate.is_unnest and correlate.join_type == "INNER" and width:
        inside = [t for t in terms if t not in pushed_terms and all(i >= width for i in input_refs(t))]
    if not pushed_terms and not inside:
        return None
    if pushed_terms:
        correlate = replace(correlate, input=filtered(correlate.input, pushed_terms))
    if inside:
        own = [*conjunctions(correlate.condition), *(shift(t, -width) for t in inside)]
        correlate = replace(correlate, condition=and_(own))
    return filtered(correlate, [t for t in terms if t not in pushed_terms and t not in inside])


def split_python_function(rel: Rel) -> Rel | None:
    """Arguments that are not fields, constants or Python calls are computed below (``PythonCorrelateSplitRule``), and
    asynchronous ones."""
    if not isinstance(rel, FunctionCorrelate) or rel.call.internal_name is not None:
        return None
    source = rel.input
    width = source.width
    splitter = Splitter(width, lambda e: is_other(e) or is_async(e))
    operands = [splitter(o) for o in rel.call.operands]
    if not splitter.calls:
        return None
    names = unique_names([*field_names(source), *(f"f{n}" for n in range(len(splitter.calls)))])
    below = Calc(source, (*refs_to(source), *splitter.calls), tuple(names))
    call = with_operands(rel.call, operands)
    assert isinstance(call, Call)
    wide = replace(rel, input=below, call=call)
    kept_fields = [*range(width), *range(below.width, wide.width)]
    fields = wide.fields
    return Calc(wide, tuple(InputRef(fields[i][1], i) for i in kept_fields), tuple(field_names(rel)))

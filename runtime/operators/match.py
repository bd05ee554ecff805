"""The operator of MATCH_RECOGNIZE."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stateplan.common.types import LogicalType
from stateplan.common.zone import local_time_zone
from stateplan.execnodes.nodes.base import not_supported
from stateplan.execnodes.nodes.match import Match
from stateplan.functions.rex import Call, Literal, Rex
from stateplan.runtime.kernels.common.automaton import Automaton, Skip, Variable, malformed
from stateplan.runtime.kernels.common.match_expressions import Condition, Measures, unsupported
from stateplan.runtime.kernels.match import MatchKernel
from stateplan.runtime.operators.base import Options, Rows, Stateful, operator_of


@operator_of.register
def match(node: Match, inputs: Rows, session: Options) -> Stateful:
    spec, keys = node.match_spec, node.match_spec.partition.fields
    if spec.all_rows:
        raise not_supported(node, "ALL ROWS PER MATCH")
    if spec.subsets:
        raise not_supported(node, "SUBSET in MATCH_RECOGNIZE")
    variables = tuple(_variables(node, spec.pattern))
    problem = malformed(variables)
    if problem is not None:
        raise not_supported(node, problem)
    names = tuple(v.name for v in variables)
    measures = [spec.measures.get(f.name) for f in node.output_type.fields[len(keys) :]]
    for rex in (*spec.pattern_definitions.values(), *measures):
        reason = "a column that is no measure" if rex is None else unsupported(rex, names)
        if reason is not None:
            raise not_supported(node, reason)
    zone = local_time_zone(session)
    within = node.within(spec.interval)
    kind, target = _after(node, spec.after, names)
    definitions = spec.pattern_definitions
    conditions = tuple(
        Condition(definitions[n], n, names, inputs[0], zone) if n in definitions else None for n in names
    )
    return Stateful(
        MatchKernel(
            inputs[0],
            keys,
            Automaton(variables, kind, target, within),
            conditions,
            Measures(tuple(m for m in measures if m is not None), names, inputs[0], zone),
            spec.order_by,
            _is_rowtime(node, inputs[0]),
        ),
        (keys,),
    )


def _is_rowtime(node: Match, row: LogicalType) -> bool:
    fields = node.match_spec.order_by.fields
    kind = row.fields[fields[0].index].type.kind if fields else None
    if kind is None or not fields[0].is_ascending:
        raise not_supported(node, "MATCH_RECOGNIZE in another order than that of a time attribute")
    return kind == "ROWTIME"


def _variables(node: Match, rex: Rex) -> Iterator[Variable]:
    """The variables of a pattern, in order."""
    if isinstance(rex, Literal) and isinstance(rex.value, str):
        yield Variable(rex.value)
    elif isinstance(rex, Call) and rex.sql_kind == "PATTERN_CONCAT" and rex.operands:
        for part in rex.operands:
            yield from _variables(node, part)
    elif isinstance(rex, Call) and rex.name == "PATTERN_QUANTIFIER" and len(rex.operands) == 4:
        name, *bounds = (o.value if isinstance(o, Literal) else None for o in rex.operands)
        low, high, reluctant = bounds
        if not isinstance(name, str) or not isinstance(low, int) or not isinstance(high, int):
            raise not_supported(node, "a quantifier behind a group of a pattern")
        yield Variable(name, low, None if high == -1 else high, not reluctant)
    else:
        function_name = rex.sql_kind or rex.name if isinstance(rex, Call) else type(rex).__name__
        raise not_supported(node, f"{function_name} in a pattern")


def _after(node: Match, rex: Rex, names: Sequence[str]) -> tuple[Skip, int]:
    """Where the next match begins: how, and the position of the variable that it begins at."""
    if isinstance(rex, Literal) and rex.value in ("SKIP_TO_NEXT_ROW", "SKIP_PAST_LAST_ROW"):
        return ("NEXT" if rex.value == "SKIP_TO_NEXT_ROW" else "PAST"), -1
    if isinstance(rex, Call) and rex.name in ("SKIP TO FIRST", "SKIP TO LAST") and len(rex.operands) == 1:
        target = rex.operands[0]
        if isinstance(target, Literal) and target.value in names:
            return ("FIRST" if rex.name == "SKIP TO FIRST" else "LAST"), names.index(target.value)
    raise not_supported(node, "this AFTER MATCH SKIP")

"""The texts by which Flink's plans describe operators and expressions.

Source: Flink's ``RelDescriptionWriterImpl``, ``RelExplainUtil`` and ``FlinkRexUtil``; Calcite's ``RexLiteral``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from stateplan.execnodes.rex import Literal, Rex
from stateplan.execnodes.types import LogicalType
from stateplan.planner.algebra.over import OverAggregate
from stateplan.planner.algebra.phased import GlobalAggregate, IncrementalAggregate, LocalAggregate
from stateplan.planner.algebra.relations import (
    Aggregate,
    Calc,
    ChangelogFunction,
    ChangelogNormalize,
    DropUpdateBefore,
    Exchange,
    Expand,
    FilterAbility,
    FullSort,
    Join,
    Limit,
    LimitAbility,
    MiniBatchAssigner,
    MultiJoin,
    PartitionAbility,
    Rank,
    Rel,
    Scan,
    Sink,
    Sort,
    SortLimit,
    TemporalSort,
    Union,
    Values,
    field_names,
    unique_names,
)
from stateplan.planner.algebra.table_aggregates import TableAggregate, table_aggregate
from stateplan.planner.algebra.table_functions import FunctionCorrelate
from stateplan.planner.algebra.temporal import IntervalJoin, LookupJoin, TemporalJoin, WatermarkAssigner
from stateplan.planner.algebra.windows import (
    GlobalWindowAggregate,
    LocalWindowAggregate,
    WindowAggregate,
    WindowJoin,
    WindowTable,
)
from stateplan.planner.digest.calcite_types import PHYSICAL, calcite_type
from stateplan.planner.digest.expressions import (
    JOIN_NAMES,
    call_name,
    call_text,
    expression,
    order_text,
    physical_expression,
)
from stateplan.planner.digest.literals import charset, plain_literal
from stateplan.planner.digest.over import over_aggregate
from stateplan.planner.digest.phased import (
    global_aggregate,
    grouped,
    incremental_aggregate,
    local_aggregate,
    mini_batch,
)
from stateplan.planner.digest.temporal import interval_join, lookup_join, temporal_join, watermark_assigner
from stateplan.planner.digest.windows import (
    global_window_aggregate,
    local_window_aggregate,
    window_aggregate,
    window_join,
    window_table,
)
from stateplan.planner.expressions.ops import rewrite
from stateplan.planner.physical import Deduplicate, Physical, execution_type
from stateplan.planner.python_operators import is_asynchronous, is_python

# operators


def scan_arguments(scan: Scan) -> list[str]:
    """``filter=[...]``, ``project=[...]``, ``metadata=[...]`` and ``limit=[...]`` of a scan."""
    out = []
    for ability in scan.abilities:
        if isinstance(ability, FilterAbility):
            text = ""
            for p in ability.predicates:
                shown = physical_expression(p, ability.names)
                text = shown if not text else f"and({text}, {shown})"
            out.append(f"filter=[{text}]")
            continue
        if isinstance(ability, LimitAbility):
            out.append(f"limit=[{ability.limit}]")
            continue
        if isinstance(ability, PartitionAbility):
            shown = ", ".join("{" + ", ".join(f"{k}={v or 'null'}" for k, v in p) + "}" for p in ability.partitions)
            out.append(f"partitions=[{shown}]")
            continue
        columns = [c.name for c in scan.table.schema.physical]
        if ability.projects:
            read = [n for n, _ in ability.produced] if ability.merged else [columns[i] for i in ability.physical]
            out.append(f"project=[{', '.join(read)}]")
        out.append(f"metadata=[{', '.join(ability.metadata)}]")
    return out


def _table(rel: Scan) -> str:
    return ", ".join([*rel.table.identifier.parts, *scan_arguments(rel)])


def _scan(node: Physical) -> list[str]:
    rel = node.rel
    assert isinstance(rel, Scan)
    out = [f"table=[[{_table(rel)}]]", f"fields=[{', '.join(rel.names)}]"]
    hints = []
    if rel.hints:
        options = ", ".join(f"{k}={v}" for k, v in rel.hints)
        hints.append(f"[OPTIONS options:{{{options}}}]")
    if rel.alias is not None:
        hints.append(f"[ALIAS options:[{rel.alias}]]")
    if hints:
        out.append(f"hints=[[{''.join(hints)}]]")
    return out


def _as(text: str, name: str) -> str:
    return text if text == name else f"{text} AS {name}"


def _calc(node: Physical) -> list[str]:
    rel = node.rel
    assert isinstance(rel, Calc)
    names = field_names(rel.input)
    shown = ", ".join(_as(expression(e, names), n) for e, n in zip(rel.exprs, rel.names, strict=True))
    out = [f"select=[{shown}]"]
    if rel.condition is not None:
        out.append(f"where=[{expression(rel.condition, names)}]")
    return out


def _values(node: Physical) -> list[str]:
    rel = node.rel
    assert isinstance(rel, Values)
    rows = ", ".join("{ " + ", ".join(_constant(v) for v in row) + " }" for row in rel.tuples)
    return [f"tuples=[[{rows}]]"]


def _constant(literal: Literal) -> str:
    """A constant of VALUES: text with its character set."""
    if literal.value is None:
        return "null"
    return charset(literal.value) if literal.type.is_string else plain_literal(literal)


def _expand(node: Physical) -> list[str]:
    rel = node.rel
    assert isinstance(rel, Expand)
    names = field_names(rel.input)
    shown = (
        "{" + ", ".join(_expanded(e, n, names) for e, n in zip(row, rel.names, strict=True)) + "}"
        for row in rel.projects
    )
    return [f"projects=[{', '.join(shown)}]"]


def _expanded(rex: Rex, name: str, names: Sequence[str]) -> str:
    text = "null" if isinstance(rex, Literal) and rex.value is None else expression(rex, names)
    return _as(text, name)


def _keys(keys: Iterable[int], rel: Rel) -> str:
    names = field_names(rel)
    return ", ".join(names[k] for k in keys)


def _exchange(node: Physical) -> list[str]:
    rel = node.rel
    assert isinstance(rel, Exchange)
    spread = f"hash[{_keys(rel.keys, rel.input)}]" if rel.keys else "single"
    return [f"distribution=[{spread}]"]


def needed_retractions(node: Physical) -> list[bool]:
    """Per call of an aggregate, whether it must be able to take back values."""
    from stateplan.planner.metadata.monotonicity import monotonicity

    rel = node.rel
    assert isinstance(rel, Aggregate)
    out = [not node.input.is_insert_only] * len(rel.calls)
    known = monotonicity(rel) if any(out) else None
    if known is not None:
        for i, c in enumerate(rel.calls):
            change = known[len(rel.group) + i]
            if (c.function, change) in (("MIN", "DECREASING"), ("MAX", "INCREASING")):
                out[i] = False
    return out


def _aggregate(node: Physical) -> list[str]:
    rel = node.rel
    assert isinstance(rel, Aggregate)
    names = field_names(rel.input)
    outputs = field_names(rel)
    parts = [_as(names[g], o) for g, o in zip(rel.group, outputs, strict=False)]
    for c, o, r in zip(rel.calls, outputs[len(rel.group) :], needed_retractions(node), strict=True):
        parts.append(f"{call_text(c, names, r)} AS {o}")
    return [*grouped(rel.group, rel.input, rel.level), f"select=[{', '.join(parts)}]"]


def _join(node: Physical) -> list[str]:
    rel = node.rel
    assert isinstance(rel, Join)
    names = field_names(rel)
    both = unique_names([*field_names(rel.left), *field_names(rel.right)])
    sides = [_input_spec(rel, side) for side in (0, 1)]
    return [
        f"joinType=[{JOIN_NAMES[rel.join_type]}]",
        f"where=[{expression(rel.condition, both)}]",
        f"select=[{', '.join(names)}]",
        f"leftInputSpec=[{sides[0]}]",
        f"rightInputSpec=[{sides[1]}]",
        *(["miniBatch=[true]"] if rel.mini_batch else []),
    ]


def _multi_join(node: Physical) -> list[str]:
    from stateplan.planner.algebra.join_keys import common_keys
    from stateplan.planner.metadata.unique_keys import join_input_keys

    rel = node.rel
    assert isinstance(rel, MultiJoin)
    shared = common_keys(rel)
    keys = []
    for source, own in zip(rel.sources, shared, strict=True):
        found = [f"({_keys(k, source)})" for k in join_input_keys(source, own)]
        keys.append(", ".join(found) or "noUniqueKey")
    out = [
        f"commonJoinKey=[{_keys(shared[0], rel) or 'noCommonJoinKey'}]",
        f"joinTypes=[{', '.join(rel.join_types[1:])}]",
        f"inputUniqueKeys=[{', '.join(keys)}]",
    ]
    if any(rel.ttl_texts):
        out.append(f"stateTtlHints=[[[STATE_TTL options:[{', '.join(t or '0s' for t in rel.ttl_texts)}]]]]")
    conditions = ", ".join(expression(c, rel.names) for c in rel.conditions[1:])
    select = ",".join(rel.names)
    return [*out, f"joinConditions=[{conditions}]", f"select=[{select}]", f"rowType=[{_record(rel)}]"]


def _changelog_function(node: Physical) -> list[str]:
    rel = node.rel
    assert isinstance(rel, ChangelogFunction)
    op = "DEFAULT()" if rel.op is None else f"DESCRIPTOR({charset(rel.op)})"
    mapping = "DEFAULT()" if rel.mapping is None else physical_expression(rel.mapping, ())
    return [
        f"invocation=[{rel.name}(TABLE(#0), {op}, {mapping}, DEFAULT(), DEFAULT())]",
        "uid=[null]",
        f"select=[{','.join(n for n, _ in rel.fields)}]",
        f"rowType=[{_record(rel)}]",
    ]


def _function_correlate(node: Physical) -> list[str]:
    rel = node.rel
    assert isinstance(rel, FunctionCorrelate)
    names = field_names(rel.input)
    row = ", ".join(f"{_shown_type(t)} {n}" for n, t in rel.fields)
    if rel.is_unnest:
        return _unnest(rel, row)
    name = rel.call.internal_name or call_name(rel.call)
    given = [physical_expression(o, [f"${i}" for i in range(len(names))]) for o in rel.call.operands]
    return [
        f"invocation=[{name}({', '.join(given)})]",
        f"correlate=[table({name}({','.join(expression(o, names) for o in rel.call.operands)}))]",
        f"select=[{','.join(field_names(rel))}]",
        f"rowType=[RecordType({row})]",
        f"joinType=[{rel.join_type}]",
    ]


def _unnest(rel: FunctionCorrelate, row: str) -> list[str]:
    outer = rel.row.fields if rel.row is not None else ()
    called = ", ".join(expression(o, [f"{rel.correl}.{f.name}" for f in outer]) for o in rel.call.operands)
    text = f"{rel.call.internal_name}({called})"
    given = [f"${i}" for i in range(len(rel.call.type.fields))]
    return [
        f"invocation=[{text}]",
        f"correlate=[table({text})]",
        f"select=[{','.join(field_names(rel))}]",
        f"rowType=[{'RecordType' if rel.input.width else 'RecordType:peek_no_expand'}({row})]",
        f"joinType=[{rel.join_type}]",
        *(f"condition=[{physical_expression(rewrite(c, _bare), given)}]" for c in [rel.condition] if c is not None),
    ]


def _bare(rex: Rex) -> Rex | None:
    """Text of exactly its length, which is shown without its type."""
    if not isinstance(rex, Literal) or not rex.type.is_string or rex.value is None:
        return None
    length = len(str(rex.value).encode("utf-16-le")) // 2
    return replace(rex, type=LogicalType("CHAR", False, length=length))


def _shown_type(t: LogicalType) -> str:
    return calcite_type(t).replace("RecordType(", "RecordType:peek_no_expand(")


def _record(rel: Rel) -> str:
    return "RecordType(" + ", ".join(f"{calcite_type(t)} {n}" for n, t in rel.fields) + ")"


def _input_spec(rel: Join, side: int) -> str:
    from stateplan.planner.algebra.join_keys import equi_keys
    from stateplan.planner.metadata.unique_keys import join_input_keys

    keys = [p[side] for p in equi_keys(rel.condition, rel.left.width)]
    unique = join_input_keys(rel.inputs[side], keys)
    if not unique:
        return "NoUniqueKey"
    return "JoinKeyContainsUniqueKey" if any(set(k) <= set(keys) for k in unique) else "HasUniqueKey"


def _union(node: Physical) -> list[str]:
    return ["all=[true]", f"union=[{', '.join(field_names(node.rel))}]"]


def _deduplicate(node: Physical) -> list[str]:
    rel = node.rel
    assert isinstance(rel, Rank)
    return [
        f"keep=[{'LastRow' if rel.keeps_last else 'FirstRow'}]",
        f"key=[{_keys(rel.partition, rel.input)}]",
        f"order=[{rel.fields[rel.order[0][0]][1].kind}]",
        f"outputInsertOnly=[{'true' if node.is_insert_only else 'false'}]",
    ]


def _rank(node: Physical) -> list[str]:
    rel = node.rel
    assert isinstance(rel, Rank)
    order = order_text(rel.order, rel.input)
    if any(rel.fields[i][1].kind == "ROWTIME" for i, _, _ in rel.order):
        order = f"ROWTIME {order}"
    end = rel.end if rel.end_index is None else field_names(rel.input)[rel.end_index]
    start = f"rankStart={rel.start}, " if rel.end_index is None else ""
    return [
        f"strategy=[{rel.strategy or 'UndefinedStrategy'}]",
        "rankType=[ROW_NUMBER]",
        f"rankRange=[{start}rankEnd={end}]",
        f"partitionBy=[{_keys(rel.partition, rel.input)}]",
        f"orderBy=[{order}]",
        f"select=[{', '.join(field_names(rel))}]",
    ]


def _limits(node: Physical) -> list[str]:
    rel = node.rel
    assert isinstance(rel, Sort)
    out = [] if isinstance(rel, Limit) else [f"orderBy=[{order_text(rel.order, rel)}]"]
    if not isinstance(rel, (TemporalSort, FullSort)):
        out += [f"offset=[{rel.offset}]", f"fetch=[{rel.fetch}]"]
    if isinstance(rel, SortLimit):
        out.append(f"strategy=[{rel.strategy or 'UndefinedStrategy'}]")
    return out


def _sink(node: Physical) -> list[str]:
    rel = node.rel
    assert isinstance(rel, Sink)
    out = [f"table=[{rel.table.identifier.summary}]"]
    if rel.targets is not None:
        out.append("targetColumns=[" + ",".join(f"[{i}]" for i in rel.targets) + "]")
    out.append(f"fields=[{', '.join(field_names(rel.input))}]")
    if rel.materialize:
        out.append("upsertMaterialize=[true]")
    if rel.conflict is not None:
        out.append(f"conflictStrategy=[{rel.conflict}]")
    return out


def _normalize(node: Physical) -> list[str]:
    rel = node.rel
    assert isinstance(rel, ChangelogNormalize)
    out = [f"key=[{_keys(rel.key, rel)}]"]
    if rel.condition is not None:
        out.append(f"condition=[{expression(rel.condition, field_names(rel))}]")
    return out


_DESCRIPTIONS: dict[type[Rel], tuple[str, Callable[[Physical], list[str]]]] = {
    Scan: ("TableSourceScan", _scan),
    Values: ("Values", _values),
    Expand: ("Expand", _expand),
    Calc: ("Calc", _calc),
    ChangelogFunction: ("ProcessTableFunction", _changelog_function),
    Exchange: ("Exchange", _exchange),
    Aggregate: ("GroupAggregate", _aggregate),
    TableAggregate: ("GroupTableAggregate", table_aggregate),
    LocalAggregate: ("LocalGroupAggregate", local_aggregate),
    GlobalAggregate: ("GlobalGroupAggregate", global_aggregate),
    IncrementalAggregate: ("IncrementalGroupAggregate", incremental_aggregate),
    MiniBatchAssigner: ("MiniBatchAssigner", mini_batch),
    Join: ("Join", _join),
    FunctionCorrelate: ("Correlate", _function_correlate),
    MultiJoin: ("MultiJoin", _multi_join),
    Union: ("Union", _union),
    OverAggregate: ("OverAggregate", over_aggregate),
    Deduplicate: ("Deduplicate", _deduplicate),
    Rank: ("Rank", _rank),
    Limit: ("Limit", _limits),
    SortLimit: ("SortLimit", _limits),
    TemporalSort: ("TemporalSort", _limits),
    FullSort: ("Sort", _limits),
    Sink: ("Sink", _sink),
    ChangelogNormalize: ("ChangelogNormalize", _normalize),
    TemporalJoin: ("TemporalJoin", temporal_join),
    IntervalJoin: ("IntervalJoin", interval_join),
    LookupJoin: ("LookupJoin", lookup_join),
    WatermarkAssigner: ("WatermarkAssigner", watermark_assigner),
    DropUpdateBefore: ("DropUpdateBefore", lambda node: []),
    WindowTable: ("WindowTableFunction", window_table),
    WindowJoin: ("WindowJoin", window_join),
    WindowAggregate: ("WindowAggregate", window_aggregate),
    LocalWindowAggregate: ("LocalWindowAggregate", local_window_aggregate),
    GlobalWindowAggregate: ("GlobalWindowAggregate", global_window_aggregate),
}


def describe(node: Physical) -> str:
    """The ``description`` of a plan's node: ``Calc(select=[a, b], where=[(a > 1)])``."""
    return _described(node, execution_type(node))


def describe_physical(node: Physical) -> str:
    """A node as EXPLAIN shows it in the physical plan: ``Calc(select=[a, b], where=[>(a, 1)])``."""
    token = PHYSICAL.set(True)
    try:
        return _described(node, type(node.rel))
    finally:
        PHYSICAL.reset(token)


def _described(node: Physical, kind: type[Rel]) -> str:
    name, arguments = _DESCRIPTIONS[kind]
    if is_python(node.rel):
        name = f"PythonAsync{name}" if is_asynchronous(node.rel) else f"Python{name}"
    shown = ", ".join(arguments(node))
    return f"{name}({shown})" if shown else name

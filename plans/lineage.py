"""What the rows and the fields of each operator's output are, as hashes that two plans can be compared by.

Two operators with equal ``rows`` emit the same changes, as far as their common fields go; two fields of them with equal
hashes hold the same values. The hashes do not depend on where a field is, nor on which other fields are there. So state
can be determined to mean the same although a projection in front of it changed.

Everything that is not known to be without meaning goes into the hashes: they may differ where nothing changed, and
must not be equal where something did.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType, type_from_json
from stateplan.connectors.history import BACKFILL
from stateplan.connectors.registry import known_connector, known_format
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.nodes.base import ExecNode, field_types
from stateplan.execnodes.nodes.changelog_normalize import ChangelogNormalize
from stateplan.execnodes.nodes.deduplicate import Deduplicate
from stateplan.execnodes.nodes.group_aggregate import GroupAggregate
from stateplan.execnodes.nodes.interval_join import IntervalJoin
from stateplan.execnodes.nodes.join import Join
from stateplan.execnodes.nodes.over_aggregate import OverAggregate
from stateplan.execnodes.nodes.rank import Rank
from stateplan.execnodes.nodes.table_source_scan import TableSourceScan, ability_meaning
from stateplan.execnodes.nodes.temporal_join import TemporalJoin
from stateplan.execnodes.nodes.window_aggregates import GlobalWindowAggregate, WindowedAggregate
from stateplan.execnodes.nodes.window_join import WindowJoin
from stateplan.execnodes.nodes.window_table_function import WindowTableFunction
from stateplan.execnodes.ranking import ConstantRange, RetractStrategy
from stateplan.execnodes.specs import AggCall, ContextResolvedTable
from stateplan.plans.changes import meaningful
from stateplan.plans.jsontext import split_pointer
from stateplan.plans.meanings import CallMeaning, Expression, FieldMeanings, Lineage, hashed, is_field, layout_type


@dataclass(frozen=True)
class PastTables:
    """What the tables of a plan have let in.

    Attributes:
        lenient: the tables that read what is not of the type of its column as NULL, by :func:`lineage_of_table`.
        nullable: table and name of the columns that can be NULL.
        tables: all of them; None where the plan does not say which data some have.
    """

    lenient: frozenset[str]
    nullable: frozenset[tuple[str, str]]
    tables: frozenset[str] | None

    @staticmethod
    def of(graph: ExecGraph) -> PastTables:
        scans = [(node, lineage_of_table(node)) for node in graph.nodes if isinstance(node, TableSourceScan)]
        return PastTables(
            frozenset(table for node, table in scans if _ignores_errors(node.scan_table_source.table)),
            frozenset(
                (table, column.name)
                for node, table in scans
                for column in node.output_type.fields
                if column.type.nullable
            ),
            frozenset(table for _, table in scans) if all(_says_its_data(node) for node, _ in scans) else None,
        )

    def is_new(self, node: ExecNode) -> bool:
        """Whether a node reads a table of which no row has been read."""
        if self.tables is None or not isinstance(node, TableSourceScan) or not _says_its_data(node):
            return False
        return lineage_of_table(node) not in self.tables


def lineage(graph: ExecGraph, past_tables: PastTables | None = None) -> dict[int, Lineage]:
    """The lineage of each operator, by id.

    Args:
        graph: the plan.
        past_tables: what the tables of the plan that wrote the state have let in; None for those of ``graph``.
    """
    past_tables = past_tables or PastTables.of(graph)
    lineages: dict[int, Lineage] = {}
    meanings = FieldMeanings()
    for node in graph.nodes:
        inputs, types = [lineages[i.id] for i in graph.inputs(node)], graph.input_types(node)
        is_empty = past_tables.is_new(node) or (bool(inputs) and all(i.is_empty for i in inputs))
        own_lineage = _of(node, inputs, types, meanings, past_tables)
        lineages[node.id] = replace(own_lineage, meanings=meanings, is_empty=is_empty)
        meanings.types.update(zip(lineages[node.id].fields, field_types(node.output_type), strict=False))
    return lineages


def _of(
    node: ExecNode,
    inputs: Sequence[Lineage],
    types: Sequence[LogicalType],
    meanings: FieldMeanings,
    past_tables: PastTables,
) -> Lineage:
    if isinstance(node, TableSourceScan):
        return _scan(node, meanings, past_tables)
    if node.title == "union" and all(f.type.kind != "ROWTIME" for f in node.output_type.fields):
        inputs = [i for i in inputs if not i.is_empty] or inputs  # event time waits for all of them
    if node.title in ("exchange", "mini-batch-assigner") or (
        node.title == "union" and len(inputs) == 1
    ):  # every micro-batch is a mini-batch
        return replace(inputs[0], state="", calls=(), groups="", row_conditions=frozenset())
    own = _json_of_hashes(node, _meaningful(node), inputs, meanings)
    if own is None:
        return _opaque(node, _meaningful(node), inputs)
    kind = node.title
    input_rows = [i.rows for i in inputs]
    if kind == "calc":
        projection, condition = _nullable(own.pop("projection")), _nullable(own.pop("condition", None))
        settings = own.get("configuration") or {}
        rows = input_rows[0] if condition is None else hashed("calc", own, condition, input_rows)
        fields = tuple(p["field"] if is_field(p) else _expression_hash(p, settings, meanings) for p in projection)
        return Lineage(rows, fields, "", (), inputs[0].origin, inputs[0].conditions | _conditions(condition, settings))
    if kind == "union":
        order = sorted(range(len(inputs)), key=lambda i: inputs[i].rows)
        fields = tuple(
            hashed("union", [inputs[i].fields[f] for i in order]) for f in range(min(len(i.fields) for i in inputs))
        )
        return Lineage(hashed("union", own, [input_rows[i] for i in order]), fields, "")
    return _of_operator(node, own, inputs, types, meanings)


def _of_operator(
    node: ExecNode,
    own: dict[str, Any],
    inputs: Sequence[Lineage],
    types: Sequence[LogicalType],
    meanings: FieldMeanings,
) -> Lineage:
    """An operator that may keep state. ``own`` is its JSON with hashes of fields."""
    input_rows = [i.rows for i in inputs]
    cosmetic = {key: own.pop(key) for key in node.cosmetic_keys() if key in own}
    if isinstance(node, GroupAggregate):
        pairs = list(zip(own.pop("aggCalls"), own.pop("aggCallNeedRetractions"), strict=True))
        kinds = field_types(types[0])
        calls = tuple(_call(call, *pair, kinds) for call, pair in zip(node.agg_calls, pairs, strict=True))
        state = hashed("state", own, input_rows)
        rows = hashed("rows", state, cosmetic)
        keys = [meanings.passed_on("key", inputs[0].fields[k]) for k in node.grouping]
        fields = (*keys, *(hashed("call", hashed(*pair)) for pair in pairs))
        own.pop("grouping")
        return Lineage(rows, fields, state, calls, groups=hashed("groups", own, inputs[0].origin))
    if isinstance(node, Deduplicate) and node.is_rowtime:  # its time is a field that it does not name
        clock = next((i for i, f in enumerate(node.output_type.fields) if f.type.kind == "ROWTIME"), None)
        own["clock"] = None if clock is None else inputs[0].fields[clock]
        own["waits"] = bool(node.output_insert_only)  # for the watermark, with rows in a state of their own
    if isinstance(node, OverAggregate) and node.time_kind is not None:
        return _over(own, inputs[0], types[0], node)
    state = hashed("state", own, input_rows)
    rows = hashed("rows", state, cosmetic)
    if isinstance(node, (Join, *_TIMED_JOINS)):
        sides = [meanings.passed_on(side, f) for side, i in zip("LR", inputs, strict=True) for f in i.fields]
        meaning = Lineage(rows, tuple(sides[: len(node.output_type.fields)]), state)
        return _timed(meaning, node, own, inputs) if isinstance(node, _TIMED_JOINS) else meaning
    if isinstance(node, WindowTableFunction) and not node.keeps_state:
        window = (hashed("window", own, i) for i in range(len(node.output_type.fields) - len(inputs[0].fields)))
        before = hashed("rows", hashed("state", own, [inputs[0].origin]), cosmetic)
        return Lineage(rows, (*inputs[0].fields, *window), state, (), before, inputs[0].conditions)
    if node.PASSES_ROWS:
        added_fields = range(len(inputs[0].fields), len(node.output_type.fields))
        fields = (*inputs[0].fields, *(hashed("more", rows, i - len(inputs[0].fields)) for i in added_fields))
        return Lineage(
            rows, fields, state, groups=_groups(node, own, inputs), row_conditions=_row_conditions(node, own)
        )
    meaning = _opaque(node, own | cosmetic, inputs, own)
    if isinstance(node, WindowedAggregate) and not isinstance(node, GlobalWindowAggregate):
        return _windows(meaning, node, own, inputs, types)
    return meaning


def _windows(
    meaning: Lineage,
    node: WindowedAggregate,
    own: Mapping[str, Any],
    inputs: Sequence[Lineage],
    types: Sequence[LogicalType],
) -> Lineage:
    """An aggregate of windows over rows, with what its state means but for its calls."""
    kinds, parts = field_types(types[0]), dict(own)
    data = zip(node.agg_calls, parts.pop("aggCalls"), strict=True)
    named_calls = ((call, {k: v for k, v in values.items() if k != "name"}) for call, values in data)
    retracts = bool(parts.get("needRetraction"))
    calls = tuple(_call(call, values, retracts, kinds) for call, values in named_calls)
    parts.pop("namedWindowProperties", None)
    return replace(meaning, calls=calls, groups=hashed("windows", node.name, parts, [i.rows for i in inputs]))


_TIMED_JOINS = IntervalJoin, TemporalJoin, WindowJoin
"""Joins that keep rows until a time, whatever columns these have."""


def _timed(meaning: Lineage, node: ExecNode, own: Mapping[str, Any], inputs: Sequence[Lineage]) -> Lineage:
    """A join of rows that wait. Temporal joins and window joins ask for type and condition only when they emit a row.
    In an outer interval join, rows that have met another row are marked."""
    parts: dict[str, Any] = json.loads(json.dumps(own))
    spec = parts["intervalJoinSpec"]["joinSpec"] if isinstance(node, IntervalJoin) else parts["joinSpec"]
    kind, condition = spec.pop("joinType"), spec.pop("nonEquiCondition", None)
    marks = [kind, condition] if isinstance(node, IntervalJoin) and kind != "INNER" else []
    state = hashed("state", parts, marks, [i.rows for i in inputs])
    if isinstance(node, IntervalJoin):
        bounds = parts["intervalJoinSpec"]["windowBounds"]
        del bounds["leftLowerBound"], bounds["leftUpperBound"]
    groups = hashed("timed", parts, [i.origin for i in inputs])
    return replace(meaning, state=state, groups=groups, row_conditions=_conditions(condition, {}))


def _over(own: dict[str, Any], rows: Lineage, row: LogicalType, node: OverAggregate) -> Lineage:
    """An operator of OVER in the order of time: it emits each row once, with the results of its calls."""
    spec, cosmetic = own.pop("overSpec"), {key: own.pop(key) for key in node.cosmetic_keys() if key in own}
    width, constants = len(row.fields), spec.pop("constants")
    del spec["originalInputFields"]

    def with_constants(value: Any) -> Any:
        if isinstance(value, dict) and value.get("kind") == "INPUT_REF":
            return constants[value["inputIndex"] - width]
        if isinstance(value, dict):
            return {key: with_constants(inner) for key, inner in value.items()}
        return [with_constants(inner) for inner in value] if isinstance(value, list) else value

    calls: list[CallMeaning] = []
    types = [*field_types(row), *(type_from_json(c["type"]) for c in constants)]
    for group, specs in zip(spec["groups"], node.over_spec.groups, strict=True):
        for call, data in zip(specs.agg_calls, group.pop("aggCalls"), strict=True):
            arguments = [
                a if is_field(a) else {"field": hashed("constant", constants[a - width])} for a in data["argList"]
            ]
            parts = {key: part for key, part in data.items() if key != "name"}
            calls.append(_call(call, {**parts, "argList": arguments}, False, types))
    state = hashed("over", own, with_constants(spec), rows.rows)
    results = [hashed("call", state, *vars(call).values()) for call in calls]
    groups = ""
    if all(group.is_rows and group.lower_bound.kind == "BOUNDED_WINDOW" for group in node.over_spec.groups):
        for group in spec["groups"]:
            del group["lowerBound"]["offset"]
        groups = hashed("rows of frames", own, with_constants(spec), rows.rows)
    return Lineage(hashed("rows", state, cosmetic), (*rows.fields, *results), state, tuple(calls), groups=groups)


def _groups(node: ExecNode, own: Mapping[str, Any], inputs: Sequence[Lineage]) -> str:
    """What the state of an operator whose rows have a key means, but for the key; empty for other operators.

    A ranking of an input with retractions keeps all rows, whatever is emitted of them.
    """
    parts = dict(own)
    if isinstance(node, (Deduplicate, ChangelogNormalize)):
        del parts["uniqueKeys"]
        parts.pop("filterCondition", None)
    elif isinstance(node, Rank):
        del parts["partition"]
        if isinstance(node.rank_range, ConstantRange):
            del parts["rankRange"], parts["outputRowNumber"]
            if isinstance(node.rank_strategy, RetractStrategy):
                del parts["orderBy"]
    else:
        return ""
    return hashed("keyed", parts, inputs[0].origin)


def _row_conditions(node: ExecNode, own: Mapping[str, Any]) -> frozenset[Expression]:
    """The conditions that the rows that an operator keeps have to meet."""
    if not isinstance(node, ChangelogNormalize):
        return frozenset()
    return _conditions(own.get("filterCondition"), own.get("configuration") or {})


def _nullable(value: Any) -> Any:
    """Expressions without NOT NULL: what they compute does not depend on it."""
    if isinstance(value, dict):
        parts = {key: _nullable(inner) for key, inner in value.items()}
        if "kind" in parts and isinstance(parts.get("type"), str):
            parts["type"] = parts["type"].removesuffix(" NOT NULL")
        return parts
    return [_nullable(inner) for inner in value] if isinstance(value, list) else value


def _expression_hash(value: Any, settings: Mapping[str, str], meanings: FieldMeanings) -> str:
    """The hash of a field that is an expression. A cast of whole numbers to a wider type leaves them as they are."""
    operand: Any = next(iter(value.get("operands", ())), None)
    if value.get("internalName") == "$CAST$1" and is_field(operand) and not settings:
        values, narrow = meanings.integers.get(operand["field"], ("", None))
        kind = type_from_json(value["type"])
        if narrow is not None and narrow.is_narrower(kind):
            return meanings.typedhashed(values, kind)
    name = hashed("expression", value, settings)
    meanings.expressions[name] = Expression.of(value, settings)
    return name


def _conditions(condition: Any, settings: Mapping[str, str]) -> frozenset[Expression]:
    """The terms of a condition."""
    if condition is None:
        return frozenset()
    if isinstance(condition, dict) and condition.get("internalName") == "$AND$1":
        return frozenset(c for operand in condition.get("operands", ()) for c in _conditions(operand, settings))
    return frozenset((Expression.of(condition, settings),))


def _call(call: AggCall, data: Mapping[str, Any], retracts: bool, kinds: Sequence[LogicalType]) -> CallMeaning:
    """What a call computes, from its JSON with hashes of fields. ``kinds`` are the types of its input."""
    arguments = tuple(str(a["field"]) for a in data["argList"])
    condition = data["filterArg"]["field"] if is_field(data["filterArg"]) else None
    rest = {k: v for k, v in data.items() if k not in ("argList", "filterArg", "type", "internalName", "syntax")}
    value_kinds = () if call.function == "COUNT" and not call.distinct else (kinds[a] for a in call.arg_list)
    kind, *argument_kinds = (str(layout_type(t)) for t in (call.type, *value_kinds))
    return CallMeaning(call.function, arguments, condition, kind, tuple(argument_kinds), hashed(rest, retracts))


def call_meaning(call: AggCall, rows: Lineage, kinds: Sequence[LogicalType], retracts: bool) -> CallMeaning:
    """What a call over rows with these types computes."""
    values = [{"field": rows.meanings.values(rows.fields[a])} for a in call.arg_list]
    condition: Any = {"field": rows.fields[call.filter_arg]} if call.filter_arg >= 0 else -1
    data = {**call.to_json(), "argList": values, "filterArg": condition}
    return _call(call, {k: v for k, v in data.items() if k != "name"}, retracts, kinds)


def _opaque(
    node: ExecNode, own: Any, inputs: Sequence[Lineage], without_cosmetic: Mapping[str, Any] | None = None
) -> Lineage:
    """An operator of which nothing is known: all that comes in counts, in its order."""
    types = [f.type.to_json() for f in node.output_type.fields]
    input_parts = [[i.rows, list(i.fields)] for i in inputs]
    rows = hashed("rows", own, input_parts, types)
    state = hashed("state", own if without_cosmetic is None else without_cosmetic, input_parts, types)
    return Lineage(rows, tuple(hashed("field", rows, i) for i in range(len(types))), state)


def _meaningful(node: ExecNode) -> dict[str, Any]:
    """The node's JSON that matters; of the options of a table that it looks up or writes, those that name it."""
    data = meaningful(node)
    table_part = data.get("dynamicTableSink") or (data.get("temporalTable") or {}).get("lookupTableSource") or {}
    resolved_table = (table_part.get("table") or {}).get("resolvedTable") or {}
    if resolved_table.get("options"):
        resolved_table["options"] = data_identity(resolved_table["options"]) or resolved_table["options"]
    return data


def data_identity(options: Mapping[str, str]) -> Mapping[str, str] | None:
    """The options of a table that say which data it has; None where its connector does not say that."""
    connector = known_connector(options)
    options = {key: text for key, text in options.items() if not key.startswith(BACKFILL)}
    return options if connector is None else connector.identity(options)


def lineage_of_table(node: TableSourceScan) -> str:
    """Which data the table of a scan holds, as a hash."""
    table = node.scan_table_source.table
    options = table.resolved_table.options if table.resolved_table is not None else None
    own_data = data_identity(options or {})
    return hashed("table", own_data if options and own_data is not None else [table.identifier, options])


def _scan(node: TableSourceScan, meanings: FieldMeanings, past_tables: PastTables) -> Lineage:
    spec = node.scan_table_source
    own = meaningful(node)
    table = own.pop("scanTableSource")["table"]
    resolved_table = table.get("resolvedTable") or {}
    options = resolved_table.get("options") or {}
    schema = spec.table.resolved_table.table_schema.columns if spec.table.resolved_table else ()
    physical = tuple(c.name for c in schema if c.kind == "PHYSICAL")
    metadata = {c.name: c.metadata_key or c.name for c in schema if c.kind == "METADATA"}
    fmt = known_format(options)
    own_data = data_identity(options)
    identity = own_data if options and own_data is not None else [table["identifier"], options]
    abilities = ability_meaning(spec.abilities, physical)
    rows = hashed("scan", own, identity, abilities)
    by_name = fmt is not None and fmt.by_name
    table_hash = lineage_of_table(node)
    fields = []
    for column in node.output_type.fields:
        place = None if by_name or column.name not in physical else physical.index(column.name)
        values = hashed("column", identity, column.name, metadata.get(column.name), place)
        if not column.type.nullable and (table_hash, column.name) in past_tables.nullable:
            values = hashed("not null", values)
        # What is no number of a column's type may be NULL, and be one of a wider type.
        widens = column.name in physical and table_hash not in past_tables.lenient
        fields.append(meanings.typedhashed(values, column.type, widens))
    return Lineage(rows, tuple(fields), "", (), *_before_filters(node, abilities, own, identity, physical, fields))


def _says_its_data(node: TableSourceScan) -> bool:
    table = node.scan_table_source.table.resolved_table
    return table is not None and table.options is not None


def _ignores_errors(table: ContextResolvedTable) -> bool:
    """Whether a table may read values that are not of their type."""
    options = table.resolved_table.options if table.resolved_table else None
    return options is None or any(
        key.endswith("ignore-parse-errors") and text.lower() == "true" for key, text in options.items()
    )


def _before_filters(
    node: TableSourceScan,
    abilities: Sequence[Mapping[str, Any]],
    own: Any,
    identity: Any,
    physical: Sequence[str],
    fields: Sequence[str],
) -> tuple[str, frozenset[Expression]]:
    """The rows of a scan before the conditions that were pushed into it, and these. A pushed condition on a column that
    the scan does not give cannot be told from those of other plans: then nothing."""
    predicates = [p for a in abilities if a.get("type") == "FilterPushDown" for p in a.get("predicates", ())]
    others = [a for a in abilities if a.get("type") != "FilterPushDown"]
    by_name = {f.name: field for f, field in zip(node.output_type.fields, fields, strict=True)}
    conditions: set[Expression] = set()
    for predicate in predicates:
        condition = _with_hashes(predicate, by_name)
        if condition is None:
            return "", frozenset()
        conditions |= _conditions(condition, {})
    return hashed("scan", own, identity, others), frozenset(conditions)


def _with_hashes(value: Any, by_name: Mapping[str, str]) -> Any:
    """A pushed condition with the hash of the column in place of every reference to one; None when that fails."""
    if isinstance(value, dict):
        if value.get("kind") == "INPUT_REF":
            name = value.get("inputIndex")
            return {"field": by_name[name]} if isinstance(name, str) and name in by_name else None
        parts = {key: _with_hashes(inner, by_name) for key, inner in value.items()}
        return None if any(p is None and value[k] is not None for k, p in parts.items()) else parts
    if isinstance(value, list):
        items = [_with_hashes(inner, by_name) for inner in value]
        return None if any(i is None and v is not None for i, v in zip(items, value, strict=True)) else items
    return value


def _json_of_hashes(
    node: ExecNode, data: dict[str, Any], inputs: Sequence[Lineage], meanings: FieldMeanings
) -> dict[str, Any] | None:
    """The node's JSON with the hash of the field in place of every reference to one, in expressions with its type; None
    when that fails."""
    all_fields = [f for i in inputs for f in i.fields]
    for ref in node.field_refs():
        if ref.pointer.startswith("/inputProperties/"):
            continue
        fields: Sequence[str] = all_fields if ref.input is None else inputs[ref.input].fields
        *path, last = split_pointer(ref.pointer)
        target: Any = data
        try:
            for step in path:
                target = target[int(step)] if isinstance(target, list) else target[step]
            key: Any = int(last) if isinstance(target, list) else last
            name = fields[ref.field]
            target[key] = {"field": name if isinstance(target[key], dict) else meanings.values(name)}
        except (KeyError, IndexError, TypeError, ValueError):
            return None
    return data

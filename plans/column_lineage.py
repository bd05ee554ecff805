"""Which columns of the tables that a plan reads each column that it writes is computed from, and which columns decide
about its rows.

The annotations of a node's fields (:mod:`execnodes.field_refs`) say which input fields it refers to, and where: that
decides what a field is used for. ``computed_types`` says which fields it passes on. The words are OpenLineage's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import field, replace
from typing import NamedTuple

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.execnodes.field_refs import FieldRef, rex_refs
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.nodes.base import ExecNode, field_types
from stateplan.execnodes.nodes.calc import Calc
from stateplan.execnodes.nodes.correlate import Correlate, PythonCorrelate
from stateplan.execnodes.nodes.group_aggregate import Aggregation
from stateplan.execnodes.nodes.group_table_aggregate import GroupTableAggregate
from stateplan.execnodes.nodes.lookup_join import LookupJoin
from stateplan.execnodes.nodes.opaque import OpaqueNode
from stateplan.execnodes.nodes.over_aggregate import OverNode
from stateplan.execnodes.nodes.phased_aggregates import (
    GlobalGroupAggregate,
    IncrementalGroupAggregate,
    LocalGroupAggregate,
)
from stateplan.execnodes.nodes.process_table_function import ProcessTableFunction
from stateplan.execnodes.nodes.sink import Sink
from stateplan.execnodes.nodes.table_source_scan import TableSourceScan
from stateplan.execnodes.nodes.window_aggregates import GlobalWindowAggregate, LocalWindowAggregate, WindowedAggregate
from stateplan.execnodes.specs import AggCall, FilterPushDown, ProjectPushDown, ReadingMetadata
from stateplan.functions.rex import Call, CorrelVariable, FieldAccess, InputRef, Rex

IDENTITY, TRANSFORMATION, AGGREGATION = "IDENTITY", "TRANSFORMATION", "AGGREGATION"
DIRECT = (IDENTITY, TRANSFORMATION, AGGREGATION)
"""How a value is made of another one; of two in a row, the later one of this list counts."""
JOIN, GROUP_BY, FILTER, SORT, WINDOW, CONDITIONAL = "JOIN", "GROUP_BY", "FILTER", "SORT", "WINDOW", "CONDITIONAL"
"""How a value decides about others: about rows, or about a value that is computed."""


class Column(NamedTuple):
    """A column of a table that a plan reads.

    Attributes:
        node: the id of the node that reads it.
        name: of the column.
    """

    node: int
    name: str


Uses = Mapping[Column, frozenset[str]]
"""Columns, and how they are used."""


@dataclass(frozen=True)
class Flow:
    """Where the rows of a node are from.

    Attributes:
        fields: of each of its fields.
        rows: of the rows as a whole.
        partial: where the rows are from that the partial results in it were made of; None for other rows.
    """

    fields: tuple[Uses, ...]
    rows: Uses = field(default_factory=dict)
    partial: Flow | None = None


def column_lineage(graph: ExecGraph) -> dict[int, Flow]:
    """Where the rows of each sink are from, by its id. Its fields are in the order of its columns."""
    flows: dict[int, Flow] = {}
    for node in graph.nodes:
        inputs = [flows[i.id] for i in graph.inputs(node)]
        flows[node.id] = _flow(node, inputs, graph.input_types(node))
    return {node.id: flows[node.id] for node in graph.nodes if isinstance(node, Sink)}


def _flow(node: ExecNode, inputs: Sequence[Flow], types: Sequence[LogicalType]) -> Flow:
    if isinstance(node, TableSourceScan):
        return _scan(node)
    uses = _Uses(node, inputs, types)
    rows = merge([*(i.rows for i in inputs), *(uses.deciding(ref) for ref in node.field_refs())])
    if node.KEEPS_FIELDS:  # of several inputs, one below the other
        fields = tuple(merge(i.fields[n] for i in inputs) for n in range(len(node.output_type.fields)))
        return replace(inputs[0], fields=fields, rows=merge([rows, _clock(node, fields)]))
    if isinstance(node, (GlobalGroupAggregate, GlobalWindowAggregate)) and inputs[0].partial is not None:
        fields = _global(node, inputs[0], inputs[0].partial, uses)
    else:
        passed_fields = _passed_fields(node, types)
        fields = tuple(
            uses.fields[passed_fields[n]] if n in passed_fields else uses.of_result(n)
            for n in range(len(node.output_type.fields))
        )
    if isinstance(node, LookupJoin):
        width = len(uses.fields)
        looked_up = tuple(_looked_up(node))
        fields = (*fields[:width], *looked_up)
        rows = merge([rows, *_lookup_conditions(node)])
    is_local = isinstance(node, (LocalGroupAggregate, LocalWindowAggregate))
    return Flow(fields, rows, inputs[0] if is_local else None)


def merge(parts: Iterable[Uses]) -> Uses:
    """All uses."""
    out: dict[Column, frozenset[str]] = {}
    for part in parts:
        for column, kinds in part.items():
            out[column] = out.get(column, frozenset()) | kinds
    return out


def _transform(uses: Uses, kind: str) -> Uses:
    """The uses of columns in a value that is made of one with ``uses``."""

    def of(earlier: str) -> str:
        return earlier if earlier not in DIRECT else DIRECT[max(DIRECT.index(earlier), DIRECT.index(kind))]

    return {column: frozenset(map(of, kinds)) for column, kinds in uses.items()}


def _by(uses: Uses, kind: str) -> Uses:
    """The same of a value that ``kind`` decides about."""
    return dict.fromkeys(uses, frozenset((kind,)))


# ---- tables ----------------------------------------------------------------------------------------------------------


def _scan(node: TableSourceScan) -> Flow:
    """Fields are columns of the table, or parts of such. Conditions that were pushed into it decide about its rows."""
    spec = node.scan_table_source
    columns = spec.table.resolved_table.table_schema.columns if spec.table.resolved_table else ()
    physical = [c.name for c in columns if c.kind == "PHYSICAL"]
    metadata = {c.metadata_key or c.name: c.name for c in columns if c.kind == "METADATA"}
    source_columns = list(physical)  # of each field, the column that it is, or is a part of
    parts: set[int] = set()
    rows: list[Uses] = []
    for ability in spec.abilities:
        if isinstance(ability, ProjectPushDown):
            source_columns = [physical[path[0]] if path[0] < len(physical) else "" for path in ability.projected_fields]
            parts = {n for n, path in enumerate(ability.projected_fields) if len(path) > 1}
        elif isinstance(ability, ReadingMetadata):
            source_columns = [*source_columns, *(metadata.get(key, key) for key in ability.metadata_keys)]
        elif isinstance(ability, FilterPushDown):
            refs = [ref for predicate in ability.predicates for ref in rex_refs(predicate, "")]
            rows += [
                _by(_column(node, source_columns[ref.field]), FILTER) for ref in refs if ref.field < len(source_columns)
            ]
    output_names = [f.name for f in node.output_type.fields]
    if len(source_columns) != len(output_names):
        source_columns = output_names
    fields = [
        _transform(_column(node, name), TRANSFORMATION if n in parts else IDENTITY)
        for n, name in enumerate(source_columns)
    ]
    return Flow(tuple(fields), merge(rows))


def _column(node: ExecNode, name: str) -> Uses:
    return {Column(node.id, name): frozenset((IDENTITY,))}


def _looked_up(node: LookupJoin) -> Iterator[Uses]:
    """The fields that a lookup adds."""
    table = node.temporal_table
    names = [f.name for f in table.output_type.fields]
    projection: Sequence[Rex | None] = node.projection_on_temporal_table or [None] * len(node.found_type.fields)
    for position, rex in enumerate(projection):
        if rex is None:
            yield _column(node, names[position])
            continue
        kind = IDENTITY if isinstance(rex, InputRef) else TRANSFORMATION
        yield merge(_transform(_column(node, names[ref.field]), kind) for ref in rex_refs(rex, ""))


def _lookup_conditions(node: LookupJoin) -> Iterator[Uses]:
    """The columns of a looked-up table that decide which of its rows match."""
    names = [f.name for f in node.temporal_table.output_type.fields]
    for key in node.lookup_keys:
        yield _by(_column(node, names[int(key)]), JOIN)
    if node.filter_on_temporal_table is not None:
        for ref in rex_refs(node.filter_on_temporal_table, ""):
            yield _by(_column(node, names[ref.field]), JOIN)


# ---- operators -------------------------------------------------------------------------------------------------------

_DECIDING = {
    "condition": FILTER,
    "filterCondition": FILTER,
    "preFilterCondition": JOIN,
    "joinSpec": JOIN,
    "intervalJoinSpec": JOIN,
    "joinConditions": JOIN,
    "joinAttributeMap": JOIN,
    "lookupKeys": JOIN,
    "leftWindowing": JOIN,
    "rightWindowing": JOIN,
    "leftTimeAttributeIndex": JOIN,
    "grouping": GROUP_BY,
    "partialAggGrouping": GROUP_BY,
    "finalAggGrouping": GROUP_BY,
    "partition": WINDOW,
    "partitionSpec": WINDOW,
    "partitionKeys": WINDOW,
    "orderBy": SORT,
    "sortSpec": WINDOW,
    "orderKey": WINDOW,
    "rankRange": FILTER,
}
"""What the part of a node decides about its rows in which the fields are that it refers to."""

_DECIDING_OF = {
    "deduplicate": {"uniqueKeys": WINDOW},
    "rank": {"orderBy": WINDOW},
    "window-deduplicate": {"windowing": WINDOW},
    "window-rank": {"windowing": WINDOW},
    "window-aggregate": {"windowing": GROUP_BY},
    "local-window-aggregate": {"windowing": GROUP_BY},
    "global-window-aggregate": {"windowing": GROUP_BY},
    "group-window-aggregate": {"window": GROUP_BY},
    "match": {"matchSpec/partition": WINDOW, "matchSpec/orderBy": WINDOW, "matchSpec/patternDefinitions": FILTER},
}
"""The same of single nodes."""


def _clock(node: ExecNode, fields: Sequence[Uses]) -> Uses:
    """The event time by which a deduplication chooses a row: a field that it does not name."""
    if node.title != "deduplicate":
        return {}
    times = [n for n, f in enumerate(node.output_type.fields) if f.type.kind == "ROWTIME"]
    return merge(_by(fields[n], WINDOW) for n in times)


def _passed_fields(node: ExecNode, types: Sequence[LogicalType]) -> dict[int, int]:
    """Output fields that are fields of the inputs, by position: that one over all inputs. Such a field has the very
    object that is its type there, so each gets one of its own."""
    rows = [replace(row, fields=tuple(replace(f, type=copy(f.type)) for f in row.fields)) for row in types]
    places = {id(kind): n for n, kind in enumerate(kind for row in rows for kind in field_types(row))}
    computed_types = node.computed_types(rows) or ()
    matches = {n: places[id(kind)] for n, kind in enumerate(computed_types) if id(kind) in places}
    if not computed_types:  # of a node that does not say so: the keys of an aggregate
        matches = dict(enumerate(_grouping(node)))
    return {n: place for n, place in matches.items() if n < len(node.output_type.fields)}


_AGGREGATES = (Aggregation, WindowedAggregate, GroupTableAggregate)


def _grouping(node: ExecNode) -> tuple[int, ...]:
    """The keys of an aggregate; nothing for other nodes."""
    return node.grouping if isinstance(node, _AGGREGATES) else ()


def _calls(node: ExecNode) -> tuple[AggCall, ...]:
    """The calls of an aggregate; nothing for other nodes."""
    return node.agg_calls if isinstance(node, _AGGREGATES) else ()


def _global(
    node: GlobalGroupAggregate | GlobalWindowAggregate, flow: Flow, before: Flow, uses: _Uses
) -> tuple[Uses, ...]:
    """The fields of a global aggregate: its calls refer to the fields in front of the local one."""
    keys = [flow.fields[key] for key in node.grouping]
    calls = [
        merge(
            [
                *(_transform(before.fields[a], AGGREGATION) for a in call.arg_list),
                *(_by(before.fields[a], CONDITIONAL) for a in (call.filter_arg,) if a >= 0),
            ]
        )
        for call in node.agg_calls
    ]
    windows = len(node.output_type.fields) - len(keys) - len(calls)
    return (*keys, *calls, *[uses.window()] * windows)


class _Uses:
    """How a node uses the fields of its inputs.

    Args:
        node: the node.
        inputs: where the rows of its inputs are from.
        types: of its inputs.

    Attributes:
        fields: the fields of all inputs.
    """

    def __init__(self, node: ExecNode, inputs: Sequence[Flow], types: Sequence[LogicalType]) -> None:
        self._node, self._inputs, self._types = node, inputs, types
        self.fields = [uses for flow in inputs for uses in flow.fields]
        self._refs = [(ref.pointer.split("/")[1:], ref) for ref in node.field_refs()]
        self._deciding = {**_DECIDING, **_DECIDING_OF.get(node.title, {})}

    def of(self, ref: FieldRef) -> Uses:
        """Where the field is from that a reference is to; nothing for a constant."""
        fields: Sequence[Uses] = self.fields if ref.input is None else self._inputs[ref.input].fields
        return fields[ref.field] if ref.field < len(fields) else {}

    def deciding(self, ref: FieldRef) -> Uses:
        """What a reference decides about the rows of the node."""
        path = ref.pointer.split("/")[1:]
        kind = self._deciding.get(path[0]) or self._deciding.get("/".join(path[:2]))
        return {} if kind is None else _by(self.of(ref), kind)

    def of_result(self, position: int) -> Uses:
        """Where an output field is from that the node computes."""
        if isinstance(self._node, _OPAQUE):
            return merge(_transform(uses, TRANSFORMATION) for uses in self.fields)
        if isinstance(self._node, (Correlate, PythonCorrelate)):
            places = {f.name: n for n, f in enumerate(self._types[0].fields)}
            names = _outer_fields(self._node.function_call)
            return merge(_transform(self.fields[places[name]], TRANSFORMATION) for name in names if name in places)
        return merge(
            _transform(self.of(ref), kind) if kind in DIRECT else _by(self.of(ref), kind)
            for path, ref in self._refs
            if (kind := self._kind(path, position)) is not None
        )

    def window(self) -> Uses:
        """Where the bounds of windows are from."""
        return merge(
            _transform(self.of(ref), TRANSFORMATION) for path, ref in self._refs if path[0].startswith("window")
        )

    def _kind(self, path: Sequence[str], position: int) -> str | None:
        """How a reference is used in an output field; None if it is not."""
        node = self._node
        if path[0] == "projection":
            if path[1] != str(position):
                return None
            is_value = isinstance(node, Calc) and _is_cast_to_nullable(node.projection[position])
            return IDENTITY if is_value else _in_expression(path[2:])
        if path[0] == "projects":
            return _in_expression(path[3:]) if path[2] == str(position) else None
        if path[:2] == ["matchSpec", "measures"]:
            return TRANSFORMATION if path[2] == node.output_type.fields[position].name else None
        if path[0] == "overSpec":
            return self._of_over(path[1:], position)
        is_local = isinstance(node, (LocalGroupAggregate, LocalWindowAggregate))
        grouping = _grouping(node)
        calls = _calls(node)
        if path[0] == "aggCalls":
            is_window = isinstance(node, LocalWindowAggregate) and position == len(node.output_type.fields) - 1
            if isinstance(node, GroupTableAggregate):  # all its fields are of one call
                return _in_call(path[2:])
            is_this = not is_window if is_local else path[1] == str(position - len(grouping))
            return _in_call(path[2:]) if is_this else None
        if path[0] in ("windowing", "window"):  # its bounds are behind all other fields
            behind = len(node.output_type.fields) - 1 if is_local else len(grouping) + len(calls)
            return TRANSFORMATION if position >= behind else None
        return None

    def _of_over(self, path: Sequence[str], position: int) -> str | None:
        """The same in OVER: of a partition and an order, which all calls have, or of one of the calls."""
        if path[0] == "partition" or (path[0] == "groups" and path[2] == "orderBy"):
            return WINDOW
        assert isinstance(self._node, OverNode)
        groups = self._node.over_spec.groups
        before = sum(len(group.agg_calls) for group in groups[: int(path[1])])
        is_this = path[2] == "aggCalls" and position == len(self.fields) + before + int(path[3])
        return _in_call(path[4:]) if is_this else None


_OPAQUE = (OpaqueNode, ProcessTableFunction, IncrementalGroupAggregate)
"""Nodes that do not say which input fields they compute an output field from: from all of them."""


def _outer_fields(rex: Rex) -> Iterator[str]:
    """The fields of the outer row that the function of a correlate reads."""
    if isinstance(rex, FieldAccess) and isinstance(rex.expr, CorrelVariable):
        yield rex.name
    for part in rex.children:
        yield from _outer_fields(part)


def _is_cast_to_nullable(rex: Rex) -> bool:
    """Whether an expression is a field as it is, but for NOT NULL."""
    if not isinstance(rex, Call) or rex.name != "CAST":
        return False
    (operand,) = rex.operands
    return isinstance(operand, InputRef) and operand.type.as_nullable() == rex.type.as_nullable()


def _in_expression(rest: Sequence[str]) -> str:
    """How a field is used in an expression: as all of it, or as an operand."""
    return TRANSFORMATION if rest else IDENTITY


def _in_call(rest: Sequence[str]) -> str:
    """How a field is used in a call of an aggregate function."""
    return CONDITIONAL if rest[0] == "filterArg" else AGGREGATION

"""Which fields of updates must be the same when they are retracted, and which are not.

Source: Flink's ``StreamNonDeterministicUpdatePlanVisitor``, without what only its physical plan knows (whether a table
that is looked up changes, whether a function of a user is deterministic).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch

from stateplan.common.changelog import INSERT_ONLY
from stateplan.common.lazy_dataclass import dataclass
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.calc import Calc
from stateplan.execnodes.nodes.changelog_normalize import ChangelogNormalize
from stateplan.execnodes.nodes.correlate import Correlate, PythonCorrelate
from stateplan.execnodes.nodes.expand import Expand
from stateplan.execnodes.nodes.group_aggregate import Aggregation
from stateplan.execnodes.nodes.join import Join
from stateplan.execnodes.nodes.lookup_join import LookupJoin
from stateplan.execnodes.nodes.opaque import OpaqueNode
from stateplan.execnodes.nodes.over_aggregate import OverNode
from stateplan.execnodes.nodes.phased_aggregates import GlobalGroupAggregate
from stateplan.execnodes.nodes.process_table_function import ProcessTableFunction
from stateplan.execnodes.nodes.python_calc import AsyncCalc, PythonAsyncCalc, PythonCalc
from stateplan.execnodes.nodes.rank import RankBase
from stateplan.execnodes.nodes.sink import Sink
from stateplan.execnodes.nodes.sort import Sort
from stateplan.execnodes.nodes.table_source_scan import TableSourceScan
from stateplan.execnodes.nodes.temporal_join import TemporalJoin
from stateplan.execnodes.nodes.window_aggregates import GlobalWindowAggregate, WindowedAggregate
from stateplan.execnodes.nodes.window_table_function import WindowTableFunction
from stateplan.execnodes.ranking import UpdateFastStrategy
from stateplan.execnodes.specs import ReadingMetadata
from stateplan.functions.rex import Call, CorrelVariable, FieldAccess, Rex, input_refs
from stateplan.functions.varying import varies
from stateplan.plans.lint.fields import primary_key
from stateplan.plans.lint.subject import Subject

Fields = frozenset[int]


@dataclass(frozen=True)
class Varying:
    """A value that can differ between the insertion of a row and its retraction.

    Attributes:
        node: the operator that computes it.
        call: the value in words, such as ``UUID()``.
        field: the name of the field that holds it, None for a condition.
        pointer: JSON pointer of the expression within the node.
    """

    node: ExecNode
    call: str
    field: str | None
    pointer: str


def varying(subject: Subject) -> Iterator[Varying]:
    """What varies in updates of a plan, and is needed to take rows back; inputs before their consumers."""
    graph = subject.graph
    needed_fields: dict[int, Fields] = {}
    varying_by_node: dict[int, list[Varying]] = {}
    for node in reversed(graph.nodes):
        wanted_fields = needed_fields.get(node.id, frozenset())
        input_retracts = [subject.retracts(node, position) for position in range(len(graph.inputs(node)))]
        if not graph.inputs(node):
            varying_by_node[node.id] = list(_metadata(subject, node, wanted_fields))
        elif any(input_retracts) and (wanted_fields or _ends_changes(node)):
            varying_by_node[node.id] = list(_varying_calls(node, wanted_fields, len(graph.input_types(node)[0].fields)))
        for position, source in enumerate(graph.inputs(node)):
            if input_retracts[position] and (wanted_fields or _ends_changes(node)):
                every_field = frozenset(range(len(source.output_type.fields)))
                fields = every_field & _fields_to_repeat(node, _Input(graph, position, wanted_fields, every_field))
                needed_fields[source.id] = needed_fields.get(source.id, frozenset()) | fields
    for node in graph.nodes:
        yield from varying_by_node.get(node.id, ())


def _ends_changes(node: ExecNode) -> bool:
    """Whether an operator takes rows back, and sends nobody changes: a sink, or one that emits insertions alone."""
    return isinstance(node, Sink) or node.EMITS == INSERT_ONLY


def _calls(rex: Rex, pointer: str) -> Iterator[tuple[str, str]]:
    """The innermost varying calls in an expression, and where each has its name."""
    inside = [call for i, operand in enumerate(rex.children) for call in _calls(operand, f"{pointer}/operands/{i}")]
    yield from inside
    if isinstance(rex, Call) and not inside and varies(rex):
        yield f"{rex.name}()", pointer if rex.is_user_defined else f"{pointer}/internalName"


def _varying_calls(node: ExecNode, wanted_fields: Fields, width: int) -> Iterator[Varying]:
    names = [f.name for f in node.output_type.fields]
    if isinstance(node, (Calc, PythonCalc, AsyncCalc, PythonAsyncCalc)):
        for field in sorted(wanted_fields):
            for expression, pointer in _calls(node.projection[field], f"/projection/{field}"):
                yield Varying(node, expression, names[field], pointer)
        condition = node.condition if isinstance(node, Calc) else None
        for expression, pointer in _calls(condition, "/condition") if condition is not None else ():
            yield Varying(node, expression, None, pointer)
    elif isinstance(node, (Correlate, PythonCorrelate)):
        for field in sorted(f for f in wanted_fields if f >= width)[:1]:
            for expression, pointer in _calls(node.function_call, "/functionCall"):
                yield Varying(node, expression, names[field], pointer)
    elif isinstance(node, LookupJoin) and not node.require_upsert_materialize:
        for field in sorted(f for f in wanted_fields if f >= width)[:1]:
            yield Varying(node, "the row that is looked up", names[field], "/temporalTable")


def _metadata(subject: Subject, node: ExecNode, wanted_fields: Fields) -> Iterator[Varying]:
    """Metadata of a table with changes: of another event than the row that is retracted."""
    mode = subject.modes.get(node.id)
    if not isinstance(node, TableSourceScan) or mode is None or len(mode) < 2:
        return
    for number, ability in enumerate(node.scan_table_source.abilities):
        read = ability.metadata_keys if isinstance(ability, ReadingMetadata) else ()
        first = len(node.output_type.fields) - len(read)
        for position, key in enumerate(read):
            if first + position in wanted_fields:
                name = node.output_type.fields[first + position].name
                pointer = f"/scanTableSource/abilities/{number}/metadataKeys/{position}"
                yield Varying(node, f"the metadata '{key}'", name, pointer)


@dataclass(frozen=True)
class _Input:
    """An input that takes rows back, as its reader sees it.

    Attributes:
        graph: the graph of the plan.
        position: the position of the input.
        needed_fields: fields of the reader that its own readers need.
        every_field: the fields of the input.
    """

    graph: ExecGraph
    position: int
    needed_fields: Fields
    every_field: Fields

    def first_field(self, node: ExecNode) -> int:
        """Where its fields begin among those of all inputs of ``node``."""
        return sum(len(row.fields) for row in self.graph.input_types(node)[: self.position])

    def references(self, node: ExecNode) -> Fields:
        """Its fields to which ``node`` refers."""
        first = self.first_field(node)
        refs = [ref for ref in node.field_refs() if ref.input in (None, self.position)]
        return frozenset(ref.field - (first if ref.input is None else 0) for ref in refs)

    def own_fields(self, node: ExecNode) -> Fields:
        """Those that ``node`` appends to the fields of the inputs before it, and its readers need."""
        first = self.first_field(node)
        return frozenset(field - first for field in self.needed_fields)


@singledispatch
def _fields_to_repeat(node: ExecNode, source: _Input) -> Fields:
    """The fields of an input that must have the same values when a row is taken back: of a type of nodes without a
    function of its own, what its class says of the fields that it passes on; whole rows where it says nothing."""
    if node.FORWARDS_ROWS:
        return source.needed_fields
    if node.KEEPS_FIELDS or node.PASSES_ROWS:
        return source.own_fields(node) | source.references(node)
    return source.every_field


@_fields_to_repeat.register
def _opaque(node: OpaqueNode, source: _Input) -> Fields:
    return frozenset()


def _refs(*expressions: Rex | None) -> Fields:
    return frozenset(index for rex in expressions if rex is not None for index in input_refs(rex))


@_fields_to_repeat.register
def _sink(node: Sink, source: _Input) -> Fields:
    key = frozenset(primary_key(node))
    if not key:
        return source.every_field
    if not node.require_upsert_materialize:
        return key
    return key | frozenset(node.input_upsert_key) if node.input_upsert_key else source.every_field


@_fields_to_repeat.register
def _calc(node: Calc, source: _Input) -> Fields:
    return _refs(*(node.projection[field] for field in source.needed_fields), node.condition)


@_fields_to_repeat.register
def _function_calc(node: PythonCalc | AsyncCalc | PythonAsyncCalc, source: _Input) -> Fields:
    return _refs(*(node.projection[field] for field in source.needed_fields))


@_fields_to_repeat.register
def _expand(node: Expand, source: _Input) -> Fields:
    return _refs(*(row[field] for row in node.projects for field in source.needed_fields))


def _outer_fields(rex: Rex) -> Iterator[str]:
    """The names of the fields of the outer row in the call of a correlate."""
    if isinstance(rex, FieldAccess) and isinstance(rex.expr, CorrelVariable):
        yield rex.name
    for child in rex.children:
        yield from _outer_fields(child)


@_fields_to_repeat.register
def _correlate(node: Correlate | PythonCorrelate, source: _Input) -> Fields:
    """With other arguments, the function returns other rows."""
    arguments = set(_outer_fields(node.function_call))
    names = [field.name for field in source.graph.input_types(node)[0].fields]
    return source.own_fields(node) | source.references(node) | {i for i, name in enumerate(names) if name in arguments}


@_fields_to_repeat.register
def _passed_and_referenced(node: OverNode | TemporalJoin | WindowTableFunction, source: _Input) -> Fields:
    return source.own_fields(node) | source.references(node)


@_fields_to_repeat.register
def _process_table(node: ProcessTableFunction, source: _Input) -> Fields:
    """A function of the user's sees whole rows."""
    call = node.function_call
    return source.every_field if isinstance(call, Call) and call.is_user_defined else frozenset()


@_fields_to_repeat.register
def _aggregate(node: Aggregation | WindowedAggregate, source: _Input) -> Fields:
    return source.references(node)


@_fields_to_repeat.register
def _whole_rows(node: GlobalGroupAggregate | GlobalWindowAggregate | Sort, source: _Input) -> Fields:
    return source.every_field


@_fields_to_repeat.register
def _join(node: Join, source: _Input) -> Fields:
    spec = node.join_spec
    upsert_keys = (node.left_upsert_keys, node.right_upsert_keys)[source.position]
    if not upsert_keys:
        return source.every_field
    offset = source.first_field(node)
    mine = {field - offset for field in source.needed_fields | _refs(spec.non_equi_condition) if field >= offset}
    smallest = min(upsert_keys, key=len)
    return frozenset(mine | set(smallest) | set(spec.right_keys if source.position else spec.left_keys))


@_fields_to_repeat.register
def _rank(node: RankBase, source: _Input) -> Fields:
    if not isinstance(node.rank_strategy, UpdateFastStrategy):
        return source.every_field
    key = node.rank_strategy.primary_keys
    order = {field.index for field in node.order_by.fields}
    return source.needed_fields | frozenset(key) | frozenset(node.partition.fields) | frozenset(order)


@_fields_to_repeat.register
def _normalize(node: ChangelogNormalize, source: _Input) -> Fields:
    return frozenset(node.unique_keys) | _refs(node.filter_condition)


@_fields_to_repeat.register
def _lookup(node: LookupJoin, source: _Input) -> Fields:
    return source.needed_fields | frozenset(key.index for key in node.lookup_keys.values() if key.index is not None)

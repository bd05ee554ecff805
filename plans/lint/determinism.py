"""Which fields of updates must be the same when they are taken back, and which are not.

Source: Flink's ``StreamNonDeterministicUpdatePlanVisitor``, without what only its physical plan knows (whether a table
that is looked up changes, whether a function of a user is deterministic).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.calc import Calc
from stateplan.execnodes.nodes.lookup_join import LookupJoin
from stateplan.execnodes.nodes.opaque import OpaqueNode
from stateplan.execnodes.nodes.table_source_scan import TableSourceScan
from stateplan.execnodes.ranking import UpdateFastStrategy
from stateplan.execnodes.specs import ReadingMetadata
from stateplan.functions.rex import Call, Rex, input_refs
from stateplan.plans.lint.fields import primary_key
from stateplan.plans.lint.subject import Subject

_VARYING = frozenset(
    {
        "RAND",
        "RAND_INTEGER",
        "UUID",
        "NOW",
        "CURRENT_TIMESTAMP",
        "CURRENT_ROW_TIMESTAMP",
        "CURRENT_DATE",
        "CURRENT_TIME",
        "LOCALTIME",
        "LOCALTIMESTAMP",
        "PROCTIME",
        "PROCTIME_MATERIALIZE",
        "CURRENT_WATERMARK",
    }
)

Fields = frozenset[int]


@dataclass(frozen=True)
class Varying:
    """A value that can differ between the insertion of a row and its retraction.

    Attributes:
        node: the operator that computes it.
        what: the value in words, such as ``UUID()``.
        field: the name of the field that holds it, None for a condition.
        pointer: JSON pointer of the expression within the node.
    """

    node: ExecNode
    what: str
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
        elif any(input_retracts) and (wanted_fields or node.title == "sink"):
            varying_by_node[node.id] = list(_varying_calls(node, wanted_fields, len(graph.input_types(node)[0].fields)))
        for position, source in enumerate(graph.inputs(node)):
            if input_retracts[position] and (wanted_fields or node.title == "sink"):
                fields = _asks(subject, node, position, wanted_fields)
                needed_fields[source.id] = needed_fields.get(source.id, frozenset()) | fields
    for node in graph.nodes:
        yield from varying_by_node.get(node.id, ())


def _calls(rex: Rex, pointer: str) -> Iterator[tuple[str, str]]:
    """The innermost varying calls in an expression, and where each has its name."""
    inside = [found for i, operand in enumerate(rex.children) for found in _calls(operand, f"{pointer}/operands/{i}")]
    yield from inside
    if isinstance(rex, Call) and not inside:
        if rex.name in _VARYING or (rex.name == "UNIX_TIMESTAMP" and not rex.operands):
            yield f"{rex.name}()", f"{pointer}/internalName"
        elif rex.function is not None and not rex.function.deterministic:
            yield f"{rex.name}()", pointer


def _varying_calls(node: ExecNode, wanted_fields: Fields, width: int) -> Iterator[Varying]:
    names = [f.name for f in node.output_type.fields]
    if isinstance(node, Calc):
        for field in sorted(wanted_fields):
            for expression, pointer in _calls(node.projection[field], f"/projection/{field}"):
                yield Varying(node, expression, names[field], pointer)
        condition = node.condition
        for expression, pointer in _calls(condition, "/condition") if condition is not None else ():
            yield Varying(node, expression, None, pointer)
    elif isinstance(node, LookupJoin) and not node.require_upsert_materialize:
        for field in sorted(f for f in wanted_fields if f >= width)[:1]:
            yield Varying(node, "the row that is looked up", names[field], "/temporalTable")


def _metadata(subject: Subject, node: ExecNode, wanted_fields: Fields) -> Iterator[Varying]:
    """Metadata of a table with changes: of another event than the row that is taken back."""
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


def _asks(subject: Subject, node: ExecNode, position: int, wanted_fields: Fields) -> Fields:
    """The fields of an input that must be the same when a row is taken back."""
    if isinstance(node, OpaqueNode):
        return frozenset()
    every = frozenset(range(len(subject.graph.input_types(node)[position].fields)))
    ask = _BY_TITLE.get(node.title)
    return (ask(subject, node, position, wanted_fields, every) if ask is not None else frozenset()) & every


def _refs(*expressions: Rex | None) -> Fields:
    return frozenset(index for rex in expressions if rex is not None for index in input_refs(rex))


def _sink(subject: Subject, node: Any, position: int, wanted_fields: Fields, every: Fields) -> Fields:
    key = frozenset(primary_key(node))
    if not key:
        return every
    if not node.require_upsert_materialize:
        return key
    return key | frozenset(node.input_upsert_key) if node.input_upsert_key else every


def _calc(subject: Subject, node: Any, position: int, wanted_fields: Fields, every: Fields) -> Fields:
    return _refs(*(node.projection[field] for field in wanted_fields), node.condition)


def _expand(subject: Subject, node: Any, position: int, wanted_fields: Fields, every: Fields) -> Fields:
    return _refs(*(row[field] for row in node.projects for field in wanted_fields))


def _same_fields(subject: Subject, node: Any, position: int, wanted_fields: Fields, every: Fields) -> Fields:
    return wanted_fields


def _all(subject: Subject, node: Any, position: int, wanted_fields: Fields, every: Fields) -> Fields:
    return every


def _process_table(subject: Subject, node: Any, position: int, wanted_fields: Fields, every: Fields) -> Fields:
    """A function of the user's sees whole rows."""
    return every if node.function_call.is_user_defined else frozenset()


def _aggregate(subject: Subject, node: Any, position: int, wanted_fields: Fields, every: Fields) -> Fields:
    arguments = {argument for call in node.agg_calls for argument in call.arg_list}
    arguments |= {call.filter_arg for call in node.agg_calls if call.filter_arg >= 0}
    return frozenset(arguments | set(node.grouping))


def _join(subject: Subject, node: Any, position: int, wanted_fields: Fields, every: Fields) -> Fields:
    spec = node.join_spec
    upsert_keys = (node.left_upsert_keys, node.right_upsert_keys)[position]
    if not upsert_keys:
        return every
    offset = len(subject.graph.input_types(node)[0].fields) if position else 0
    mine = {field - offset for field in wanted_fields | _refs(spec.non_equi_condition) if field >= offset}
    smallest = min(upsert_keys, key=len)
    return frozenset(mine | set(smallest) | set(spec.right_keys if position else spec.left_keys))


def _rank(subject: Subject, node: Any, position: int, wanted_fields: Fields, every: Fields) -> Fields:
    if not isinstance(node.rank_strategy, UpdateFastStrategy):
        return every
    key = node.rank_strategy.primary_keys
    order = {field.index for field in node.order_by.fields}
    return wanted_fields | frozenset(key) | frozenset(node.partition.fields) | frozenset(order)


def _normalize(subject: Subject, node: Any, position: int, wanted_fields: Fields, every: Fields) -> Fields:
    return frozenset(node.unique_keys) | _refs(node.filter_condition)


def _lookup(subject: Subject, node: Any, position: int, wanted_fields: Fields, every: Fields) -> Fields:
    return wanted_fields | frozenset(key.index for key in node.lookup_keys.values() if key.index is not None)


_BY_TITLE: dict[str, Callable[[Subject, Any, int, Fields, Fields], Fields]] = {
    "sink": _sink,
    "calc": _calc,
    "expand": _expand,
    **dict.fromkeys(
        ("exchange", "union", "watermark-assigner", "mini-batch-assigner", "drop-update-before"), _same_fields
    ),
    **dict.fromkeys(("correlate", "sort"), _same_fields),
    **dict.fromkeys(("group-aggregate", "local-group-aggregate", "python-group-aggregate"), _aggregate),
    **dict.fromkeys(("group-table-aggregate",), _aggregate),
    **dict.fromkeys(("global-group-aggregate", "incremental-group-aggregate", "multi-join"), _all),
    "process-table-function": _process_table,
    "join": _join,
    **dict.fromkeys(("rank", "limit", "sort-limit"), _rank),
    "changelog-normalize": _normalize,
    "lookup-join": _lookup,
}
"""What each operator asks of the inputs that bring updates; of others, which get none or are not known, nothing."""

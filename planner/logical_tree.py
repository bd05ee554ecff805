"""The relations of a bound statement as Flink's ``== Abstract Syntax Tree ==`` shows them.

The binder makes what Calcite's ``SqlToRelConverter`` makes. Where it makes one relation of several of Calcite's, such
as a temporal join, they are shown apart.

Source: Calcite's logical relational expressions (``explainTerms``), Flink's ``LogicalSink``,
``LogicalWatermarkAssigner`` and ``FlinkRelOptUtil.toString``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.redaction import redacted_value
from stateplan.functions.rex import InputRef, Rex
from stateplan.planner.algebra.groupings import Grouping
from stateplan.planner.algebra.match import Match
from stateplan.planner.algebra.relations import (
    AggCall,
    Aggregate,
    ChangelogFunction,
    Correlate,
    Filter,
    Join,
    Project,
    ProjectAbility,
    Rel,
    Scan,
    SetOperation,
    Sink,
    Sort,
    Union,
    Values,
    field_names,
    is_identity,
    walk,
)
from stateplan.planner.algebra.table_functions import FunctionCorrelate, ProcessTable, TableAggregate
from stateplan.planner.algebra.temporal import Snapshot, TemporalJoin, WatermarkAssigner
from stateplan.planner.algebra.windows import WindowTable
from stateplan.planner.digest.literals import charset
from stateplan.planner.digest.logical_expressions import LogicalNotation, record, value
from stateplan.planner.expressions import ops
from stateplan.planner.expressions.ops import SubQuery, is_always_true, outer_of, seen_from_right
from stateplan.planner.expressions.simplify import simplify_preserving_type
from stateplan.planner.operators.process_tables import invocation
from stateplan.planner.passes.filters import push_join_expressions
from stateplan.planner.passes.hep import Rule, sequence
from stateplan.planner.passes.simplify import simplify_bound_join

_AT_ONCE: tuple[Rule, ...] = (simplify_bound_join, push_join_expressions)
"""What Calcite does to a join as it makes it."""


@dataclass(frozen=True)
class TreeNode:
    """A line of the tree, and what is below it."""

    name: str
    arguments: tuple[str, ...]
    inputs: tuple[TreeNode, ...] = ()

    @property
    def line(self) -> str:
        return f"{self.name}({', '.join(self.arguments)})" if self.arguments else self.name


def logical_tree(top: Rel) -> str:
    """The tree of a bound INSERT or query: a line per relation, its inputs below it."""
    return "".join(_branches(_Logical().tree_of(sequence(top, _AT_ONCE))))


def _branches(top: TreeNode) -> Iterator[str]:
    stack: list[tuple[TreeNode, tuple[bool, ...]]] = [(top, ())]
    while stack:
        node, lasts = stack.pop()
        above = "".join("   " if last else ":  " for last in lasts[:-1])
        yield f"{above}{'' if not lasts else '+- ' if lasts[-1] else ':- '}{node.line}\n"
        end = len(node.inputs) - 1
        stack += [(node.inputs[i], (*lasts, i == end)) for i in range(end, -1, -1)]


def _indented(top: TreeNode, depth: int = 0) -> Iterator[str]:
    """As it is within an expression: ``RelOptUtil.toString``."""
    yield f"{'  ' * depth}{top.line}\n"
    for below in top.inputs:
        yield from _indented(below, depth + 1)


@dataclass
class _Row:
    """A row around a query that refers to it: ``name`` is that of the first of the references, once there is one."""

    fields: Sequence[str]
    name: str = ""


class _Logical:
    """Shows relations; knows the rows around those that are within expressions.

    References to such rows are numbered as Calcite meets them: what a query reads before what it does with that.
    """

    def __init__(self) -> None:
        self._around: dict[int, _Row] = {}
        self._references = 0

    def text(self, rex: Rex, below: Rel | None = None) -> str:
        """``rex`` over the rows of ``below``."""
        return LogicalNotation(_fields_of(below), self._outer_field, self._within).text(rex)

    def _outer_field(self, number: int, index: int) -> str:
        row = self._around[number]
        row.name = row.name or f"$cor{self._references}"
        self._references += 1
        return f"{row.name}.{row.fields[index]}"

    def _within(self, rel: Rel) -> str:
        return "".join(_indented(self.tree_of(sequence(rel, _AT_ONCE))))

    def _row_around(self, rel: Rel, expressions: Iterable[Rex]) -> _Row:
        """The row of ``rel``, which queries within ``expressions`` may refer to."""
        row = _Row(field_names(rel))
        for rex in expressions:
            for part in ops.walk(rex):
                if isinstance(part, SubQuery):
                    self._around[part.number] = row
        return row

    def _alone(self, rel: Rel) -> tuple[_Row, int]:
        """The row of ``rel``, and a number of its own by which something beside it refers to it."""
        row, number = _Row(field_names(rel)), -1 - len(self._around)
        self._around[number] = row
        return row, number

    def tree_of(self, rel: Rel) -> TreeNode:
        """``rel`` and all below."""
        return _WRITERS[type(rel)](self, rel)

    # one method per relation

    def sink(self, rel: Sink) -> TreeNode:
        arguments = [f"table=[{'.'.join(rel.table.identifier.parts)}]"]
        if rel.targets is not None:
            arguments.append(f"targetColumns=[{','.join(f'[{i}]' for i in rel.targets)}]")
        arguments.append(f"fields=[{', '.join(field_names(rel.input))}]")
        return TreeNode("LogicalSink", (arguments[0], *arguments[1:]), (self.tree_of(rel.input),))

    def scan(self, rel: Scan) -> TreeNode:
        read = [f"metadata=[{', '.join(a.metadata)}]" for a in rel.abilities if isinstance(a, ProjectAbility)]
        arguments = [f"table=[[{', '.join([*rel.table.identifier.parts, *read])}]]"]
        options = ", ".join(f"{key}={redacted_value(key, text)}" for key, text in rel.hints)
        hints = [] if rel.alias_in_text is None else [f"[ALIAS inheritPath:[] options:[{rel.alias_in_text}]]"]
        hints += [f"[OPTIONS inheritPath:[] options:{{{options}}}]"] if options else []
        if hints:
            arguments.append(f"hints=[[{', '.join(hints)}]]")
        return TreeNode("LogicalTableScan", tuple(arguments))

    def values(self, rel: Values) -> TreeNode:
        rows = ", ".join("{ " + ", ".join(map(value, row)) + " }" for row in rel.tuples)
        return TreeNode("LogicalValues", (f"tuples=[[{rows}]]",))

    def project(self, rel: Project) -> TreeNode:
        if rel.grouping is not None:
            return self._grouped(rel.grouping)
        if isinstance(rel.input, FunctionCorrelate) and is_identity(rel.exprs, rel.input):
            return self.function(rel.input, rel.names)
        below, row = self.tree_of(rel.input), self._row_around(rel.input, rel.exprs)
        exprs = [simplify_preserving_type(e, "UNKNOWN") for e in rel.exprs]
        columns = [f"{n}=[{self.text(e, rel.input)}]" for n, e in zip(rel.names, exprs, strict=True)]
        return TreeNode("LogicalProject", (*_variables(row), *columns), (below,))

    def filter(self, rel: Filter) -> TreeNode:
        below, row = self.tree_of(rel.input), self._row_around(rel.input, [rel.condition])
        condition = f"condition=[{self.text(rel.condition, rel.input)}]"
        return TreeNode("LogicalFilter", (condition, *_variables(row)), (below,))

    def join(self, rel: Join) -> TreeNode:
        if isinstance(rel.right, Snapshot):
            return self._versions(rel, rel.right.time or 0, rel.right.input)
        arguments = (f"condition=[{self.text(rel.condition)}]", f"joinType=[{rel.join_type.lower()}]")
        return TreeNode("LogicalJoin", (*arguments, *_hints(rel)), (self.tree_of(rel.left), self.tree_of(rel.right)))

    def temporal(self, rel: TemporalJoin) -> TreeNode:
        return self._versions(rel, rel.left_time, rel.right)

    def _versions(self, rel: Join | TemporalJoin, time: int, right: Rel) -> TreeNode:
        """A join with the versions of ``right`` at the field ``time`` of the left rows."""
        width, left = rel.left.width, self.tree_of(rel.left)
        row, number = self._alone(rel.left)
        period = self._outer_field(number, time)
        before = self._references  # the condition is read with both sides in sight
        condition = seen_from_right(rel.condition, width, number)
        versions = TreeNode("LogicalSnapshot", (f"period=[{period}]",), (self.tree_of(right),))
        if not is_always_true(condition):
            versions = TreeNode("LogicalFilter", (f"condition=[{self.text(condition)}]",), (versions,))
        self._references = before
        used_fields = {time, *(i for i in ops.refs(rel.condition) if i < width)}
        return _correlated(row, rel.join_type, used_fields, left, versions)

    def correlate(self, rel: Correlate) -> TreeNode:
        left, row = self.tree_of(rel.left), _Row(field_names(rel.left))
        self._around[rel.number] = row
        right = self.tree_of(rel.right)
        return _correlated(row, rel.join_type, _outer_columns(rel.right, rel.number), left, right)

    def function(self, rel: FunctionCorrelate, names: Sequence[str] | None = None) -> TreeNode:
        width = rel.input.width
        left, (row, around) = self.tree_of(rel.input), self._alone(rel.input)
        used_fields = {i for o in rel.call.operands for i in ops.refs(o)}
        operands = [self.text(seen_from_right(o, width, around)) for o in rel.call.operands]
        fields = (names or field_names(rel))[width:]
        if rel.is_unnest:
            right = self._unnested(rel, operands, fields)
            if not width:
                return right
        else:
            call = rel.call.catalog_name or rel.call.system_name or rel.call.name
            result_fields = [(f.name, f.type) for f in rel.call.type.fields]
            arguments = (f"invocation=[{call}({', '.join(operands)})]", f"rowType=[{record(result_fields)}]")
            right = TreeNode("LogicalTableFunctionScan", arguments)
        return _correlated(row, rel.join_type, used_fields, left, right)

    def _unnested(self, rel: FunctionCorrelate, operands: Sequence[str], fields: Sequence[str]) -> TreeNode:
        one = TreeNode("LogicalValues", ("tuples=[[{ 0 }]]",))
        (operand,) = rel.call.operands
        name = field_names(rel.input)[operand.index] if isinstance(operand, InputRef) else "EXPR$0"
        collection = TreeNode("LogicalProject", (f"{name}=[{operands[0]}]",), (one,))
        numbered = ("withOrdinality=[true]",) if "ORDINALITY" in rel.call.name else ()
        elements = TreeNode("Uncollect", numbered, (collection,))
        columns = tuple(f"{n}=[${i}]" for i, n in enumerate(fields))
        return TreeNode("LogicalProject", columns, (elements,))

    def aggregate(self, rel: Aggregate) -> TreeNode:
        group = f"group=[{{{', '.join(map(str, rel.group))}}}]"
        return TreeNode("LogicalAggregate", (group, *_calls(rel.calls), *_hints(rel)), (self.tree_of(rel.input),))

    def _grouped(self, grouping: Grouping) -> TreeNode:
        all_keys = tuple(range(grouping.keys))
        below = self.tree_of(grouping.input) if grouping.window is None else self._windowed(grouping)
        arguments = [f"group=[{{{', '.join(map(str, all_keys))}}}]"]
        if grouping.sets != (all_keys,):
            sets = (f"{{{', '.join(map(str, sorted(keys)))}}}" for keys in grouping.sets)
            arguments.append(f"groups=[[{', '.join(sets)}]]")
        return TreeNode("LogicalAggregate", (*arguments, *_calls(grouping.calls)), (below,))

    def _windowed(self, grouping: Grouping) -> TreeNode:
        """The projection below an aggregate by windows, with the call of the window."""
        rel = grouping.input
        assert isinstance(rel, Project) and grouping.window is not None
        at, window = grouping.window
        columns = [f"{n}=[{self.text(e, rel.input)}]" for n, e in zip(rel.names, rel.exprs, strict=True)]
        columns[at] = f"$f{at}=[{self.text(window, rel.input)}]"
        return TreeNode("LogicalProject", tuple(columns), (self.tree_of(rel.input),))

    def union(self, rel: Union) -> TreeNode:
        return TreeNode("LogicalUnion", (f"all=[{str(rel.all).lower()}]",), tuple(map(self.tree_of, rel.sources)))

    def set_operation(self, rel: SetOperation) -> TreeNode:
        name = "LogicalIntersect" if rel.operator == "INTERSECT" else "LogicalMinus"
        return TreeNode(name, (f"all=[{str(rel.all).lower()}]",), (self.tree_of(rel.left), self.tree_of(rel.right)))

    def sort(self, rel: Sort) -> TreeNode:
        arguments = [f"sort{k}=[${i}]" for k, (i, _, _) in enumerate(rel.order)]
        arguments += [f"dir{k}=[{_direction(*o, '-')}]" for k, o in enumerate(rel.order)]
        if rel.offset:
            arguments.append(f"offset=[{rel.offset}]")
        if rel.fetch is not None:
            arguments.append(f"fetch=[{rel.fetch}]")
        below = self.tree_of(rel.input)
        if isinstance(rel.input, (Union, SetOperation, Values)):
            below = _all_fields(rel.input, below)  # ORDER BY of what is not a SELECT is that of a SELECT * over it
        return TreeNode("LogicalSort", tuple(arguments), (below,))

    def watermark(self, rel: WatermarkAssigner) -> TreeNode:
        name = field_names(rel)[rel.rowtime]
        arguments = (f"rowtime=[{name}]", f"watermark=[{self.text(rel.watermark)}]")
        return TreeNode("LogicalWatermarkAssigner", arguments, (self.tree_of(rel.input),))

    def window_table(self, rel: WindowTable) -> TreeNode:
        keys = f" PARTITION BY(${', $'.join(map(str, rel.window.keys))})" if rel.window.keys else ""
        time = charset(field_names(rel.input)[rel.time])
        arguments = [f"TABLE(#0){keys}", f"DESCRIPTOR({time})", *(self.text(e) for e in rel.lengths)]
        return self._call_of_tables(f"{rel.window.kind}({', '.join(arguments)})", rel)

    def process_table(self, rel: ProcessTable | ChangelogFunction) -> TreeNode:
        return self._call_of_tables(invocation(rel), rel)

    def _call_of_tables(self, call: str, rel: Rel) -> TreeNode:
        """A function of tables, of which it reads all columns."""
        below = tuple(_all_fields(source, self.tree_of(source)) for source in rel.inputs)
        return TreeNode("LogicalTableFunctionScan", (f"invocation=[{call}]", f"rowType=[{record(rel.fields)}]"), below)

    def table_aggregate(self, rel: TableAggregate) -> TreeNode:
        group = f"group=[{{{', '.join(map(str, rel.group))}}}]"
        arguments = (group, f"tableAggregate=[[{_call_text(rel.call)}]]")
        return TreeNode("LogicalTableAggregate", arguments, (self.tree_of(rel.input),))

    def match(self, rel: Match) -> TreeNode:
        below = field_names(rel.input)
        order = ", ".join(f"{i} {_direction(i, up, last, '-')}" for i, up, last in rel.order)
        defines = ", ".join(self.text(e) for _, e in rel.defines)
        interval = () if rel.interval is None else (f"interval=[{self.text(rel.interval)}]",)
        arguments = (
            *([f"partition=[[{', '.join(map(str, rel.partition))}]]"]),
            f"order=[[{order}]]",
            f"outputFields=[[{', '.join(field_names(rel))}]]",
            "allRows=[false]",
            f"after=[{_after(self.text(rel.after))}]",
            f"pattern=[{self.text(rel.pattern)}]",
            "isStrictStarts=[false]",
            "isStrictEnds=[false]",
            *interval,
            "subsets=[[]]",
            f"patternDefinitions=[[{defines}]]",
            f"inputFields=[[{', '.join(below)}]]",
        )
        return TreeNode("LogicalMatch", arguments, (self.tree_of(rel.input),))


def _variables(row: _Row) -> tuple[str, ...]:
    """The argument that names the row, where a query within the expressions refers to it."""
    return (f"variablesSet=[[{row.name}]]",) if row.name else ()


def _correlated(row: _Row, kind: str, used_fields: Iterable[int], left: TreeNode, right: TreeNode) -> TreeNode:
    columns = ", ".join(map(str, sorted(used_fields)))
    arguments = (f"correlation=[{row.name}]", f"joinType=[{kind.lower()}]", f"requiredColumns=[{{{columns}}}]")
    return TreeNode("LogicalCorrelate", arguments, (left, right))


def _all_fields(rel: Rel, tree: TreeNode) -> TreeNode:
    """The projection of all fields of ``rel``, which is ``tree``."""
    return TreeNode("LogicalProject", tuple(f"{n}=[${i}]" for i, n in enumerate(field_names(rel))), (tree,))


def _fields_of(below: Rel | None) -> Callable[[int], str]:
    """How fields of ``below`` are written. A property of a window is a call over the key that is the window."""
    while isinstance(below, Filter):
        below = below.input
    grouping = below.grouping if isinstance(below, Project) else None
    if grouping is None or grouping.window is None:
        return lambda index: f"${index}"
    keys, property_names, (at, _) = grouping.keys, grouping.property_names, grouping.window

    def field(index: int) -> str:
        if index < keys:
            return f"${index}"
        number = index - keys
        return f"{property_names[number]}(${at})" if number < len(property_names) else f"${index - len(property_names)}"

    return field


def _outer_columns(rel: Rel, number: int) -> list[int]:
    """The fields of the row around the subquery ``number`` that its relation refers to."""
    columns: set[int] = set()
    stack: list[Any] = [rel]
    while stack:
        for part in walk(stack.pop()):
            for rex in _expressions(part):
                for inner in ops.walk(rex):
                    outer = outer_of(inner)
                    if outer is not None and outer[0] == number:
                        columns.add(outer[1])
                    if isinstance(inner, SubQuery):
                        stack.append(inner.rel)
    return sorted(columns)


def _expressions(rel: Rel) -> Iterator[Rex]:
    """The expressions of a relation that the binder makes."""
    if isinstance(rel, Project):
        yield from rel.exprs
    elif isinstance(rel, (Filter, Join, TemporalJoin)):
        yield rel.condition
    elif isinstance(rel, FunctionCorrelate):
        yield from rel.call.operands


def _after(text: str) -> str:
    """Where the next match begins; of an enum the words of the SQL."""
    return text.replace("_", " ") if text.startswith("FLAG(") else text


def _hints(rel: Join | Aggregate) -> Iterator[str]:
    """The hints of the SELECT that a join or an aggregate is of."""
    query_hints = rel.query_hints
    if query_hints is None:
        return
    path = f"inheritPath:[{', '.join(map(str, query_hints.path))}] " if query_hints.path else ""
    if query_hints.multi and isinstance(rel, Join):
        yield f"joinHints=[[[MULTI_JOIN {path}options:[{', '.join(query_hints.multi)}]]]]"
    if query_hints.ttls:
        options = ", ".join(f"{name}={text}" for name, text in query_hints.ttls)
        yield f"stateTtlHints=[[[STATE_TTL {path}options:{{{options}}}]]]"


def _direction(_: int, ascending: bool, last: bool, joint: str) -> str:
    return f"{'ASC' if ascending else 'DESC'}{joint}nulls-{'last' if last else 'first'}"


def _calls(calls: Sequence[AggCall]) -> list[str]:
    return [f"{call.name or f'agg#{i}'}=[{_call_text(call)}]" for i, call in enumerate(calls)]


def _call_text(call: AggCall) -> str:
    arguments = ", ".join(f"${a}" for a in call.args)
    text = f"{call.function}({'DISTINCT ' if call.distinct else ''}{arguments})"
    return text + (f" FILTER ${call.filter}" if call.filter >= 0 else "")


_WRITERS: dict[type[Rel], Callable[[_Logical, Any], TreeNode]] = {
    Sink: _Logical.sink,
    Scan: _Logical.scan,
    Values: _Logical.values,
    Project: _Logical.project,
    Filter: _Logical.filter,
    Join: _Logical.join,
    Aggregate: _Logical.aggregate,
    Union: _Logical.union,
    SetOperation: _Logical.set_operation,
    Sort: _Logical.sort,
    WatermarkAssigner: _Logical.watermark,
    WindowTable: _Logical.window_table,
    ChangelogFunction: _Logical.process_table,
    ProcessTable: _Logical.process_table,
    TableAggregate: _Logical.table_aggregate,
    TemporalJoin: _Logical.temporal,
    Correlate: _Logical.correlate,
    FunctionCorrelate: _Logical.function,
    Match: _Logical.match,
}

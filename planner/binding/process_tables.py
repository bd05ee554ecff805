"""FROM with a process table function: ``f(input => TABLE t PARTITION BY k, step => 2, uid => 'steps')``.

Source: FLIP-440; Flink's ``SystemTypeInference`` for the arguments that every function has and the columns of its
result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from stateplan.common.errors import nearest
from stateplan.common.types import LogicalType
from stateplan.functions.casting import cast_rex
from stateplan.functions.process import ON_TIME, UID, ArgumentTrait, DeclaredArgument
from stateplan.functions.rex import InputRef, Literal, Rex
from stateplan.functions.typerules import is_implicit
from stateplan.planner.algebra.relations import Field, Rel, unique_names
from stateplan.planner.algebra.table_functions import ProcessTable, TableInput
from stateplan.planner.binding.expressions import ExpressionBinder
from stateplan.planner.binding.scope import Scope
from stateplan.planner.binding.table_calls import TableCall, descriptor
from stateplan.planner.catalog.functions import FoundFunction, require_kind
from stateplan.planner.dialect import nodes
from stateplan.planner.positions import place_of

_UID = re.compile(r"[A-Za-z_][A-Za-z_0-9-]*")
_TIME_ROOTS = ("TIMESTAMP_WITHOUT_TIME_ZONE", "TIMESTAMP_WITH_LOCAL_TIME_ZONE")


def bind_process_table(
    function_match: FoundFunction,
    node: exp.Anonymous,
    table: Callable[[exp.Expr], tuple[Rel, Scope]],
    constant: Callable[[exp.Expr], Rex],
    source: str,
) -> ProcessTable:
    """The relation that a call stands for.

    Args:
        table: binds the table of a table argument.
        constant: binds an expression without columns.
        source: the text that positions point into.

    Raises:
        SqlError: SQL119, for arguments that do not fit what the function declares; SQL212, for a function of another
            kind.
    """
    function = require_kind(function_match, "PROCESS_TABLE", place_of(node, source), "in FROM over a table")
    process = function.process
    assert process is not None
    table_call = TableCall(node, function.name, source, function.signature)
    arguments = {k: v for k, v in table_call.arguments(process.names).items() if not _is_default(v)}
    missing_argument = next((a for a in process.arguments if not a.is_optional and a.name not in arguments), None)
    if missing_argument is not None:
        raise table_call.wrong(f"{function.name} needs the argument '{missing_argument.name}'", node)
    sources: list[Rel] = []
    tables: list[TableInput] = []
    for argument in process.tables:
        rel, table_input = _table(table_call, argument, arguments[argument.name], table)
        sources.append(rel)
        tables.append(table_input)
    if len(tables) > 1:
        _check_partitions(table_call, sources, tables, arguments)
    times = _times(table_call, sources, tables, arguments.get(ON_TIME))
    scalars = tuple(
        _scalar(table_call, a, arguments[a.name], constant) if a.name in arguments else None for a in process.scalars
    )
    uid = _uid(table_call, arguments[UID], constant) if UID in arguments else None
    fields: list[Field] = []
    if process.passes_through:
        fields += sources[0].fields
    else:
        fields += [
            rel.fields[k] for rel, table_input in zip(sources, tables, strict=True) for k in table_input.partition
        ]
    fields += [(f.name, f.type) for f in function.result.fields]
    if times:
        first = next(t for n, t in sources[0].fields if n in times)
        fields.append(("rowtime", replace(first, nullable=False, kind="ROWTIME")))
    names = unique_names([n for n, _ in fields])
    row = tuple((n, t) for n, (_, t) in zip(names, fields, strict=True))
    return ProcessTable(tuple(sources), function_match, tuple(tables), scalars, times, uid, row, table_call.place)


def _is_default(node: exp.Expr) -> bool:
    return isinstance(node, exp.Var) and node.name == "DEFAULT"


def _table(
    table_call: TableCall, argument: DeclaredArgument, node: exp.Expr, table: Callable[[exp.Expr], tuple[Rel, Scope]]
) -> tuple[Rel, TableInput]:
    name = f"the table '{argument.name}' of {table_call.name}"
    if not isinstance(node, (nodes.TableArgument, exp.Subquery)):
        raise table_call.wrong(f"'{argument.name}' of {table_call.name} must be a table", node, argument.summary)
    rel, scope = table(node if isinstance(node, exp.Subquery) else node.this)
    partition = list(node.args.get("partition_by") or ())
    order = node.args.get("order")
    if not argument.is_set and (partition or order is not None):
        clause_name = "partitioned" if partition else "ordered"
        clause = partition[0] if partition else order
        raise table_call.wrong(
            f"{name} has row semantics and cannot be {clause_name}", clause, f"{argument.name} => TABLE t"
        )
    if argument.is_set and not partition and not argument.has(ArgumentTrait.OPTIONAL_PARTITION_BY):
        raise table_call.wrong(f"{name} needs PARTITION BY", node, argument.summary)
    keys = [_column(table_call, scope, k) for k in partition]
    twice = next((n for n, k in enumerate(keys) if k in keys[:n]), None)
    if twice is not None:
        raise table_call.wrong(f"a column of PARTITION BY comes twice in {name}", partition[twice], "each once")
    order_columns = [] if order is None else [(o, _column(table_call, scope, o.this)) for o in order.expressions]
    if order_columns:
        _check_order(table_call, name, rel, order_columns[0])
    words = tuple(
        f"{'DESC' if o.args.get('desc') else 'ASC'}_NULLS_{'FIRST' if o.args.get('nulls_first') else 'LAST'}"
        for o, _ in order_columns
    )
    return rel, TableInput(argument, tuple(keys), tuple(k for _, k in order_columns), words)


def _check_order(table_call: TableCall, name: str, rel: Rel, first: tuple[exp.Expr, int]) -> None:
    node, key = first
    column, t = rel.fields[key]
    if t.kind != "ROWTIME":
        raise table_call.wrong(
            f"{name} is ordered first by '{column}', of type {t.summary()}", node, "a column with a WATERMARK", None
        )
    if node.args.get("desc"):
        raise table_call.wrong(f"{name} is ordered by falling time, which never comes", node, f"ORDER BY {column}")


def _column(table_call: TableCall, scope: Scope, node: exp.Expr) -> int:
    bound_column = ExpressionBinder(scope, "an argument").bind(node) if isinstance(node, exp.Column) else None
    if not isinstance(bound_column, InputRef):
        hint = "compute it in a query: (SELECT .. AS x FROM t)"
        raise table_call.wrong(f"{table_call.name} takes columns here, and this is none", node, "a column", hint)
    return bound_column.index


def _check_partitions(
    table_call: TableCall, sources: Sequence[Rel], tables: Sequence[TableInput], arguments: dict[str, exp.Expr]
) -> None:
    """Whether several tables are partitioned alike."""
    types = [
        [rel.fields[k][1] for k in table_input.partition] for rel, table_input in zip(sources, tables, strict=True)
    ]
    for table_input, mine in zip(tables[1:], types[1:], strict=True):
        if [t.as_nullable() for t in mine] != [t.as_nullable() for t in types[0]]:
            type_names = ", ".join(t.summary() for t in mine) or "nothing"
            raise table_call.wrong(
                f"the table '{table_input.argument.name}' of {table_call.name} is partitioned by {type_names}",
                arguments[table_input.argument.name],
                f"{', '.join(t.summary() for t in types[0])}, as '{tables[0].argument.name}' is",
            )


def _times(
    table_call: TableCall, sources: Sequence[Rel], tables: Sequence[TableInput], on_time: exp.Expr | None
) -> tuple[str, ...] | None:
    """The columns of ``on_time``; None without it."""
    if on_time is None:
        timed_table = next((t for t in tables if t.argument.has(ArgumentTrait.REQUIRE_ON_TIME)), None)
        if timed_table is not None:
            raise table_call.wrong(
                f"the table '{timed_table.argument.name}' of {table_call.name} needs a time",
                table_call.node,
                "on_time => DESCRIPTOR(ts)",
            )
        return None
    columns = descriptor(on_time)
    if not columns or not all(isinstance(c, exp.Column) and not c.table for c in columns):
        raise table_call.wrong("'on_time' names columns", on_time, "on_time => DESCRIPTOR(ts)")
    names = [str(c.name) for c in columns]
    for table_input, rel in zip(tables, sources, strict=True):
        mine = [(n, t) for n, t in rel.fields if n in names]
        if len(mine) != 1:
            problem = "is no column" if not mine else "are several columns"
            raise table_call.wrong(
                f"of 'on_time' there {problem} in the table '{table_input.argument.name}'",
                columns[0],
                "one column of each table",
                None if mine else nearest(names[0], [n for n, _ in rel.fields]),
            )
        ((name, t),) = mine
        if t.root not in _TIME_ROOTS or (t.precision or 0) > 3:
            raise table_call.wrong(
                f"'on_time' is the column '{name}' of type {t.summary()}",
                columns[names.index(name)],
                "a TIMESTAMP or TIMESTAMP_LTZ of precision 3 at most",
            )
    unused_name = next((n for n in names if all(n not in dict(rel.fields) for rel in sources)), None)
    if unused_name is not None:
        raise table_call.wrong(
            f"no table has the column '{unused_name}' of 'on_time'", columns[names.index(unused_name)]
        )
    return tuple(names)


def _scalar(
    table_call: TableCall, argument: DeclaredArgument, node: exp.Expr, constant: Callable[[exp.Expr], Rex]
) -> Rex:
    """A constant of the declared type."""
    declared_type = argument.type
    assert declared_type is not None
    if isinstance(node, (nodes.TableArgument, exp.Subquery)):
        raise table_call.wrong(f"'{argument.name}' of {table_call.name} is no table", node, argument.summary)
    rex = constant(node)
    if _same(rex.type, declared_type):
        return rex
    if rex.type.root != "NULL" and not is_implicit(rex.type, declared_type):
        problem = (
            f"'{argument.name}' of {table_call.name} is {declared_type.summary()}, and this is {rex.type.summary()}"
        )
        raise table_call.wrong(problem, node, argument.summary)
    return cast_rex(rex, declared_type, place_of(node, table_call.source))


def _same(actual_type: LogicalType, declared_type: LogicalType) -> bool:
    if actual_type.as_nullable() == declared_type.as_nullable():
        return True
    return (
        declared_type.root == "VARCHAR"
        and actual_type.root in ("CHAR", "VARCHAR")
        and (actual_type.length or 1) <= (declared_type.length or 1)
    )


def _uid(table_call: TableCall, node: exp.Expr, constant: Callable[[exp.Expr], Rex]) -> str:
    """The identifier that a call has."""
    rex = constant(node)
    value = rex.value if isinstance(rex, Literal) and rex.type.is_string else None
    if not isinstance(value, str) or not _UID.fullmatch(value):
        raise table_call.wrong("'uid' is no identifier", node, "a text of letters, digits, underscores and hyphens")
    return value

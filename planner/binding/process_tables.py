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
    found: FoundFunction,
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
    function = require_kind(found, "PROCESS_TABLE", place_of(node, source), "in FROM over a table")
    process = function.process
    assert process is not None
    called = TableCall(node, function.name, source, function.signature)
    given = {k: v for k, v in called.arguments(process.names).items() if not _is_default(v)}
    missing = next((a for a in process.arguments if not a.is_optional and a.name not in given), None)
    if missing is not None:
        raise called.wrong(f"{function.name} needs the argument '{missing.name}'", node)
    sources: list[Rel] = []
    tables: list[TableInput] = []
    for argument in process.tables:
        rel, made = _table(called, argument, given[argument.name], table)
        sources.append(rel)
        tables.append(made)
    if len(tables) > 1:
        _check_partitions(called, sources, tables, given)
    times = _times(called, sources, tables, given.get(ON_TIME))
    scalars = tuple(_scalar(called, a, given[a.name], constant) if a.name in given else None for a in process.scalars)
    uid = _uid(called, given[UID], constant) if UID in given else None
    fields: list[Field] = []
    if process.passes_through:
        fields += sources[0].fields
    else:
        fields += [rel.fields[k] for rel, made in zip(sources, tables, strict=True) for k in made.partition]
    fields += [(f.name, f.type) for f in function.result.fields]
    if times:
        first = next(t for n, t in sources[0].fields if n in times)
        fields.append(("rowtime", replace(first, nullable=False, kind="ROWTIME")))
    names = unique_names([n for n, _ in fields])
    row = tuple((n, t) for n, (_, t) in zip(names, fields, strict=True))
    return ProcessTable(tuple(sources), found, tuple(tables), scalars, times, uid, row, called.place)


def _is_default(node: exp.Expr) -> bool:
    return isinstance(node, exp.Var) and node.name == "DEFAULT"


def _table(
    called: TableCall, argument: DeclaredArgument, given: exp.Expr, table: Callable[[exp.Expr], tuple[Rel, Scope]]
) -> tuple[Rel, TableInput]:
    name = f"the table '{argument.name}' of {called.name}"
    if not isinstance(given, (nodes.TableArgument, exp.Subquery)):
        raise called.wrong(f"'{argument.name}' of {called.name} must be a table", given, argument.summary)
    rel, scope = table(given if isinstance(given, exp.Subquery) else given.this)
    partition = list(given.args.get("partition_by") or ())
    order = given.args.get("order")
    if not argument.is_set and (partition or order is not None):
        what = "partitioned" if partition else "ordered"
        where = partition[0] if partition else order
        raise called.wrong(f"{name} has row semantics and cannot be {what}", where, f"{argument.name} => TABLE t")
    if argument.is_set and not partition and not argument.has(ArgumentTrait.OPTIONAL_PARTITION_BY):
        raise called.wrong(f"{name} needs PARTITION BY", given, argument.summary)
    keys = [_column(called, scope, k) for k in partition]
    twice = next((n for n, k in enumerate(keys) if k in keys[:n]), None)
    if twice is not None:
        raise called.wrong(f"a column of PARTITION BY comes twice in {name}", partition[twice], "each once")
    ordered = [] if order is None else [(o, _column(called, scope, o.this)) for o in order.expressions]
    if ordered:
        _check_order(called, name, rel, ordered[0])
    words = tuple(
        f"{'DESC' if o.args.get('desc') else 'ASC'}_NULLS_{'FIRST' if o.args.get('nulls_first') else 'LAST'}"
        for o, _ in ordered
    )
    return rel, TableInput(argument, tuple(keys), tuple(k for _, k in ordered), words)


def _check_order(called: TableCall, name: str, rel: Rel, first: tuple[exp.Expr, int]) -> None:
    node, key = first
    column, t = rel.fields[key]
    if t.kind != "ROWTIME":
        raise called.wrong(
            f"{name} is ordered first by '{column}', of type {t.summary()}", node, "a column with a WATERMARK", None
        )
    if node.args.get("desc"):
        raise called.wrong(f"{name} is ordered by falling time, which never comes", node, f"ORDER BY {column}")


def _column(called: TableCall, scope: Scope, node: exp.Expr) -> int:
    found = ExpressionBinder(scope, "an argument").bind(node) if isinstance(node, exp.Column) else None
    if not isinstance(found, InputRef):
        hint = "compute it in a query: (SELECT .. AS x FROM t)"
        raise called.wrong(f"{called.name} takes columns here, and this is none", node, "a column", hint)
    return found.index


def _check_partitions(
    called: TableCall, sources: Sequence[Rel], tables: Sequence[TableInput], given: dict[str, exp.Expr]
) -> None:
    """Whether several tables are partitioned alike."""
    types = [[rel.fields[k][1] for k in made.partition] for rel, made in zip(sources, tables, strict=True)]
    for made, mine in zip(tables[1:], types[1:], strict=True):
        if [t.as_nullable() for t in mine] != [t.as_nullable() for t in types[0]]:
            shown = ", ".join(t.summary() for t in mine) or "nothing"
            raise called.wrong(
                f"the table '{made.argument.name}' of {called.name} is partitioned by {shown}",
                given[made.argument.name],
                f"{', '.join(t.summary() for t in types[0])}, as '{tables[0].argument.name}' is",
            )


def _times(
    called: TableCall, sources: Sequence[Rel], tables: Sequence[TableInput], given: exp.Expr | None
) -> tuple[str, ...] | None:
    """The columns of ``on_time``; None without it."""
    if given is None:
        needed = next((t for t in tables if t.argument.has(ArgumentTrait.REQUIRE_ON_TIME)), None)
        if needed is not None:
            raise called.wrong(
                f"the table '{needed.argument.name}' of {called.name} needs a time",
                called.node,
                "on_time => DESCRIPTOR(ts)",
            )
        return None
    found = descriptor(given)
    if not found or not all(isinstance(c, exp.Column) and not c.table for c in found):
        raise called.wrong("'on_time' names columns", given, "on_time => DESCRIPTOR(ts)")
    names = [str(c.name) for c in found]
    for made, rel in zip(tables, sources, strict=True):
        mine = [(n, t) for n, t in rel.fields if n in names]
        if len(mine) != 1:
            what = "is no column" if not mine else "are several columns"
            raise called.wrong(
                f"of 'on_time' there {what} in the table '{made.argument.name}'",
                found[0],
                "one column of each table",
                None if mine else nearest(names[0], [n for n, _ in rel.fields]),
            )
        ((name, t),) = mine
        if t.root not in _TIME_ROOTS or (t.precision or 0) > 3:
            raise called.wrong(
                f"'on_time' is the column '{name}' of type {t.summary()}",
                found[names.index(name)],
                "a TIMESTAMP or TIMESTAMP_LTZ of precision 3 at most",
            )
    unused = next((n for n in names if all(n not in dict(rel.fields) for rel in sources)), None)
    if unused is not None:
        raise called.wrong(f"no table has the column '{unused}' of 'on_time'", found[names.index(unused)])
    return tuple(names)


def _scalar(called: TableCall, argument: DeclaredArgument, given: exp.Expr, constant: Callable[[exp.Expr], Rex]) -> Rex:
    """A constant of the declared type."""
    wanted = argument.type
    assert wanted is not None
    if isinstance(given, (nodes.TableArgument, exp.Subquery)):
        raise called.wrong(f"'{argument.name}' of {called.name} is no table", given, argument.summary)
    rex = constant(given)
    if _same(rex.type, wanted):
        return rex
    if rex.type.root != "NULL" and not is_implicit(rex.type, wanted):
        what = f"'{argument.name}' of {called.name} is {wanted.summary()}, and this is {rex.type.summary()}"
        raise called.wrong(what, given, argument.summary)
    return cast_rex(rex, wanted, place_of(given, called.source))


def _same(given: LogicalType, wanted: LogicalType) -> bool:
    if given.as_nullable() == wanted.as_nullable():
        return True
    return (
        wanted.root == "VARCHAR" and given.root in ("CHAR", "VARCHAR") and (given.length or 1) <= (wanted.length or 1)
    )


def _uid(called: TableCall, given: exp.Expr, constant: Callable[[exp.Expr], Rex]) -> str:
    """The identifier that a call has."""
    rex = constant(given)
    value = rex.value if isinstance(rex, Literal) and rex.type.is_string else None
    if not isinstance(value, str) or not _UID.fullmatch(value):
        raise called.wrong("'uid' is no identifier", given, "a text of letters, digits, underscores and hyphens")
    return value

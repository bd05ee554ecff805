"""The side outputs that a session and its tables ask for, as sinks of a plan; see :mod:`execnodes.side_outputs`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

from stateplan.common.errors import OptionError, SqlError
from stateplan.common.settings import is_batch
from stateplan.connectors.registry import connectors, known_connector
from stateplan.connectors.rejects import ERRORS as KEYS
from stateplan.connectors.rejects import without_errors_table
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.node_tables import table_of, with_options
from stateplan.execnodes.nodes.table_source_scan import TableSourceScan
from stateplan.execnodes.side_outputs import (
    ERRORS,
    KEY,
    LATE,
    LATE_OF,
    LATE_ROWS,
    check_columns,
    columns_of,
    late_table,
    may_drop,
)
from stateplan.planner.binding.hints import LATE_ROWS as HINT
from stateplan.planner.catalog.manager import CatalogManager
from stateplan.planner.catalog.objects import CatalogTable
from stateplan.planner.dialect import parse
from stateplan.planner.positions import place_of

SideInsert = tuple[str, exp.Expr, str]
"""What goes there, the INSERT, and its text."""


def side_inserts(graph: ExecGraph, catalog: CatalogManager, options: Mapping[str, str]) -> list[SideInsert]:
    """INSERTs without rows into the tables of the side outputs of a plan.

    Args:
        graph: the plan without them.
        catalog: where the tables are looked up.
        options: the options of the session.

    Raises:
        CatalogError: CAT002 to CAT004, there is no such table.
        OptionError: OPT008, the rows do not fit into it; OPT009, a table whose invalid input cannot be kept.
        SqlError: an option is not a name of a table.
    """
    if is_batch(options):
        return []
    late, dropping = options.get(LATE_ROWS), [node for node in graph.nodes if may_drop(node, graph.inputs(node))]
    hinted = [[late_table(node, i) for i in range(len(graph.inputs(node)))] for node in dropping]
    inserts = [_insert(LATE, late, LATE_ROWS, catalog)] if late and not all(all(names) for names in hinted) else []
    for name in dict.fromkeys(name for names in hinted for name in names if name):
        inserts.append(_insert(f"{LATE_OF}{name}", name, HINT, catalog))
    return [*inserts, *(_insert(f"{ERRORS}{table}", name, key, catalog) for table, key, name in _errors(graph))]


def check_hints(node: exp.Expr, source: str, graph: ExecGraph, options: Mapping[str, str]) -> None:
    """Whether each hint for late rows is about an operator that drops some.

    Args:
        node: a statement, whose positions point into ``source``.
        graph: its plan, with those that run with it.
        options: the options of the session.

    Raises:
        SqlError: SQL124, none of its operators does.
    """
    tables_in_use = {late_table(n, i) for n in graph.nodes for i in range(len(graph.inputs(n)))}
    items = (item for hint in node.find_all(exp.Hint) for item in hint.expressions)
    for item in items if not is_batch(options) else ():
        if item.name.upper() == HINT:
            for argument in item.expressions:
                table_node = argument.expression if isinstance(argument, exp.EQ) else argument
                if table_node.name not in tables_in_use:
                    raise SqlError("SQL124", name=table_node.name, place=place_of(item, source))


def _insert(kind: str, name: str, key: str, catalog: CatalogManager) -> SideInsert:
    table_node = parse(f"INSERT INTO {name} SELECT * FROM {name}")[0].this
    table = catalog.resolve([part.name for part in table_node.parts]) if isinstance(table_node, exp.Table) else None
    if not isinstance(table, CatalogTable):
        problem, form = "it is no table that rows can be written to", f"'{key}' = 'name', a table of the catalog"
        raise OptionError("OPT008", what=f"'{key}'", table=name, problem=problem, expected=form)
    fields = [(column.name, column.type) for column in table.schema.columns if not column.is_computed]
    check_columns(kind, table.identifier.summary, fields)
    available_columns = columns_of(kind)
    nulls = ", ".join(f"CAST(NULL AS {available_columns[column].summary()}) AS `{column}`" for column, _ in fields)
    text = f"INSERT INTO {name} SELECT {nulls} FROM (VALUES (1)) WHERE FALSE"
    return kind, parse(text)[0], text


def _errors(graph: ExecGraph) -> Iterator[tuple[str, str, str]]:
    """The tables whose invalid input is kept, each once: its name, the option, and where the input goes."""
    names: set[str] = set()
    for node in graph.nodes:
        table = table_of(node) if isinstance(node, TableSourceScan) else None
        if table is None or table.resolved_table is None or table.summary in names:
            continue
        table_options = table.resolved_table.options or {}
        keys = [key for key in table_options if key.endswith(KEYS)]
        for key in keys:
            _check(table.summary, key, table_options)
        if keys:
            names.add(table.summary)
            if len({table_options[key] for key in keys}) > 1:
                raise _unusable(table.summary, keys[1], f"'{keys[0]}' names another table")
            yield table.identifier, keys[0], table_options[keys[0]]


def _check(table: str, key: str, options: Mapping[str, str]) -> None:
    ignore = f"{key.removesuffix(KEYS)}.ignore-parse-errors"
    if options.get(ignore, "").lower() != "true":
        raise _unusable(table, key, f"'{ignore}' is not 'true', so that invalid input fails the job")
    connector = known_connector(options)
    if connector is None or not connector.keeps_invalid:
        names = ", ".join(sorted(c.name for c in connectors() if c.keeps_invalid))
        raise _unusable(table, key, f"its connector is none of {names}")


def _unusable(table: str, key: str, problem: str) -> OptionError:
    return OptionError("OPT009", key=key, table=table, problem=problem)


def with_marks(graph: ExecGraph, kinds: Sequence[str]) -> ExecGraph:
    """The plan whose last sinks are those of side outputs, ``kinds`` in order."""
    sinks = sorted(graph.sinks, key=lambda node: node.id)[-len(kinds) :]
    return graph.replace(
        [s.replace(stateplan={**(s.stateplan or {}), KEY: kind}) for s, kind in zip(sinks, kinds, strict=True)]
    )


def as_flink_knows(graph: ExecGraph) -> ExecGraph:
    """The plan whose tables have the options that Flink knows: what others ask for is in its sinks."""
    return with_options(graph, lambda table, options: without_errors_table(options))

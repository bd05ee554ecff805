"""The side outputs that a session asks for, as sinks of a plan; see :mod:`execnodes.side_outputs`."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from stateplan.execnodes.errors import OptionError
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.settings import is_batch
from stateplan.execnodes.side_outputs import KEY, LATE, LATE_COLUMNS, LATE_ROWS, check_late_columns, may_drop
from stateplan.planner.catalog.manager import CatalogManager
from stateplan.planner.catalog.objects import CatalogTable
from stateplan.planner.dialect import parse

_FORM = f"'{LATE_ROWS}' = 'name', a table of the catalog"


def late_rows_insert(
    graph: ExecGraph, catalog: CatalogManager, options: Mapping[str, str]
) -> tuple[exp.Expr, str] | None:
    """An INSERT without rows into the table for late rows, and its text; None where no operator may drop any.

    Args:
        graph: the plan without it.
        catalog: where the table is looked up.
        options: of the session.

    Raises:
        CatalogError: CAT002 to CAT004, there is no such table.
        OptionError: OPT008, late rows do not fit into it.
        ParseError: the option is no name of a table.
    """
    name = options.get(LATE_ROWS)
    if not name or is_batch(options) or not any(may_drop(node, graph.inputs(node)) for node in graph.nodes):
        return None
    text = f"INSERT INTO {name} SELECT * FROM {name}"
    insert = parse(text)[0]
    named = insert.this
    table = catalog.resolve([part.name for part in named.parts]) if isinstance(named, exp.Table) else None
    if not isinstance(table, CatalogTable):
        raise OptionError("OPT008", table=name, problem="it is no table that rows can be written to", expected=_FORM)
    fields = [(column.name, column.type) for column in table.schema.columns if not column.is_computed]
    check_late_columns(table.identifier.summary, fields)
    nulls = ", ".join(f"CAST(NULL AS {LATE_COLUMNS[column].summary()})" for column, _ in fields)
    text = f"INSERT INTO {name} SELECT {nulls} FROM (VALUES (1)) WHERE FALSE"
    return parse(text)[0], text


def marked(graph: ExecGraph) -> ExecGraph:
    """The plan whose last sink is the one for late rows."""
    sink = max(graph.sinks, key=lambda node: node.id)
    return graph.replace([sink.replace(stateplan={**(sink.stateplan or {}), KEY: LATE})])

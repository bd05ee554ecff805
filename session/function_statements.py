"""CREATE, ALTER, DROP, SHOW and DESCRIBE FUNCTION."""

from __future__ import annotations

from typing import Any

from stateplan.common.errors import SqlError
from stateplan.planner.catalog import ddl
from stateplan.planner.catalog.functions import CatalogFunction
from stateplan.planner.dialect import nodes
from stateplan.session.context import Context
from stateplan.session.results import TableResult, content, ok


def _function_name(c: Context, node: nodes.FunctionStatement) -> CatalogFunction:
    parts = ddl.parts_of(node.this)
    place = c.place(node.this)
    identifier = None if node.args.get("system") else c.catalog.qualify(parts, place)
    if identifier is not None and node.args["action"] == "CREATE":
        c.catalog.require_database(identifier.catalog, identifier.database, place)
    text = node.args.get("expression")
    language = node.args.get("language") or "JAVA"
    return CatalogFunction(
        parts[-1], identifier, None if text is None else text.name, language, bool(node.args.get("temporary"))
    )


def run_function_statement(c: Context, node: nodes.FunctionStatement) -> TableResult:
    """Raises CatalogError CAT060, CAT061; SqlError SQL211 for a language that cannot be run."""
    action, place = node.args["action"], c.place(node.this)
    function = _function_name(c, node)
    functions = c.catalog.functions
    words = f"{action} {'SYSTEM ' if function.identifier is None else ''}FUNCTION"
    exists = bool(node.args.get("exists"))
    if action == "DROP":
        functions.drop(function, if_exists=exists, place=place)
        return ok(words)
    if function.language != "PYTHON":
        raise SqlError(
            "SQL211",
            name=function.summary,
            language=function.language.capitalize(),
            place=c.place(node.args["expression"]),
            hint="without LANGUAGE it is Java; AS 'module.name' LANGUAGE PYTHON names an object of a Python module",
        )
    c.session.host.check_function(function, place)
    is_there = functions.has(function)
    if action == "ALTER":
        if not is_there:
            functions.drop(function, if_exists=exists, place=place)
            return ok(words)
        functions.create(function, overwrite=True)
        return ok(words)
    if is_there and exists:
        return ok(words, [f"'{function.summary}' already exists; kept unchanged"])
    functions.create(function, place=place)
    return ok(words)


def user_functions(c: Context) -> list[str]:
    """Names of the user-defined functions that are known without a database before them."""
    return c.catalog.functions.names(c.catalog.current_catalog, c.catalog.current_database)


def describe_function(c: Context, node: nodes.DescribeTable) -> TableResult:
    """Raises CatalogError CAT061; SqlError SQL210, SQL214 when it cannot be imported."""
    parts, place = ddl.parts_of(node.this), c.place(node.this)
    functions = c.catalog.functions
    definition = functions.system(parts[-1]) if len(parts) == 1 else None
    definition = definition or functions.of_catalog(c.catalog.qualify(parts, place))
    rows: list[tuple[Any, ...]]
    if definition is None:
        row = _built_in(parts[-1]) if len(parts) == 1 else None
        if row is None:
            placeholder = CatalogFunction(parts[-1], c.catalog.qualify(parts, place), None, "PYTHON", False)
            functions.drop(placeholder, place=place)
        return content("DESCRIBE FUNCTION", ["info name", "info value"], row or [])
    rows = [
        ("is system function", str(definition.identifier is None).lower()),
        ("is temporary", str(definition.temporary).lower()),
        (
            "class name",
            definition.reference or (type(definition.function.body).__name__ if definition.function else ""),
        ),
        ("function language", definition.language),
        ("resource uris", ""),
    ]
    if node.args.get("extended"):
        function = functions.load_function(definition, place)
        rows += [
            ("kind", function.kind),
            ("requirements", "[]"),
            ("is deterministic", str(function.deterministic).lower()),
            ("supports constant folding", "false"),
            ("signature", function.signature),
        ]
    return content("DESCRIBE FUNCTION", ["info name", "info value"], rows)


def _built_in(name: str) -> list[tuple[Any, ...]] | None:
    from stateplan.functions.aggregates import find_aggregate
    from stateplan.functions.table import find_scalar

    row = find_scalar(name) or find_aggregate(name)
    return None if row is None else [("is system function", "true"), ("is temporary", "false")]

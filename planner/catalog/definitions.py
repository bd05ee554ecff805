"""Definitions of tables, views, functions and databases as files keep them: the statement that would create them.

The first line of a file says in which format it is; the statement is as SHOW CREATE writes it, with the name alone, so
that a catalog can be copied and mounted under another name:

    -- stateplan catalog, format 1
    CREATE TABLE `orders` (
      `id` BIGINT
    )
    WITH (
      'connector' = 'print'
    )

A view has three more lines: the database where the names in its query are looked up, the types of its columns, and the
names of the query's columns. A file that was written by hand does not need these lines.

Codes: CAT111, CAT112, CAT114.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from sqlglot import exp

from stateplan.common.errors import CatalogError, Place, StateplanError
from stateplan.common.redaction import secret_parts, secret_spans
from stateplan.common.types import LogicalType, type_from_json
from stateplan.planner.catalog import ddl
from stateplan.planner.catalog.catalogs import Database
from stateplan.planner.catalog.functions import CatalogFunction
from stateplan.planner.catalog.manager import CatalogManager
from stateplan.planner.catalog.objects import CatalogObject, CatalogTable, CatalogView, ObjectIdentifier, quote
from stateplan.planner.catalog.show_create import options_clause, show_create, text_literal
from stateplan.planner.dialect import nodes, parse
from stateplan.planner.positions import text_of

FORMAT = 1
"""The format of the files that are written; files of this and of lower numbers are read."""

_FIRST = re.compile(r"-- stateplan catalog, format (\d+)\s*$", re.M)
_NAMES = re.compile(r"-- names are those of (?:`((?:[^`]|``)*)`\.)?`((?:[^`]|``)*)`\s*$", re.M)
_COLUMNS = re.compile(r"-- columns: (\[.*\])\s*$", re.M)
_QUERY_NAMES = re.compile(r"-- columns of the query: (\[.*\])\s*$", re.M)

_WORDS: dict[type[exp.Expr], str] = {
    nodes.CreateTable: "CREATE TABLE",
    nodes.CreateView: "CREATE VIEW",
    nodes.FunctionStatement: "CREATE FUNCTION",
    nodes.CreateDatabase: "CREATE DATABASE",
}

N = TypeVar("N", bound=exp.Expr)


def require_references(options: Mapping[str, str], subject: str, places: Mapping[str, Place] | None = None) -> None:
    """Raises CatalogError CAT114 when a definition that is kept has a secret in it that is not a reference.

    Args:
        options: the options of the definition.
        subject: the object as the message names it, such as ``the table 'c.d.t'``.
        places: where the options are written, by key.
    """
    for key, value in options.items():
        if secret_parts(key, value):
            variable = re.sub(r"\W+", "_", key).upper()
            raise CatalogError("CAT114", key=key, what=subject, variable=variable, place=(places or {}).get(key))


# ---- writing ---------------------------------------------------------------------------------------------------


def header() -> str:
    """The first line of a file."""
    return f"-- stateplan catalog, format {FORMAT}\n"


def object_text(item: CatalogObject) -> str:
    """The file of a table or view. Raises CatalogError CAT114."""
    lines = header()
    if isinstance(item, CatalogTable):
        require_references(item.options, f"the table '{item.identifier.summary}'", item.option_places)
    else:
        if secret_spans(item.sql):
            raise CatalogError("CAT114.in_query", what=f"the view '{item.identifier.summary}'")
        owner = "" if item.catalog == item.identifier.catalog else f"{quote(item.catalog)}."
        columns = [[column.name, column.type.to_json()] for column in item.schema.columns]
        lines += f"-- names are those of {owner}{quote(item.database)}\n"
        lines += f"-- columns: {json.dumps(columns, ensure_ascii=False)}\n"
        if item.query_names:
            lines += f"-- columns of the query: {json.dumps(item.query_names, ensure_ascii=False)}\n"
    return f"{lines}{show_create(item, quote(item.identifier.name))}\n"


def function_text(function: CatalogFunction) -> str:
    """The file of a function."""
    reference = text_literal(function.reference or "")
    return f"{header()}CREATE FUNCTION {quote(function.name)} AS {reference} LANGUAGE {function.language}\n"


def database_text(database: Database) -> str:
    """The file of a database. Raises CatalogError CAT114."""
    require_references(database.options, f"the database '{database.name}'")
    comment = [] if database.comment is None else [f"COMMENT {text_literal(database.comment)}"]
    lines = [f"CREATE DATABASE {quote(database.name)}", *comment, *options_clause(database.options)]
    return header() + "\n".join(lines) + "\n"


# ---- reading ---------------------------------------------------------------------------------------------------


def read_object(
    text: str, file: str, identifier: ObjectIdentifier, kind: str, session: CatalogManager
) -> CatalogObject:
    """The table or view that a file defines.

    Args:
        text: the text of the file.
        file: its path.
        identifier: the identifier of the object.
        kind: ``TABLE`` or ``VIEW``.
        session: the catalogs of the session. Expressions may call their functions.

    Raises:
        CatalogError: CAT111, the file is not such a definition; CAT112, a newer release wrote it.
    """
    if kind == "VIEW":
        return _view(text, file, identifier, session)
    node = _statement(text, file, identifier, nodes.CreateTable)
    context = session.seen_from(identifier.catalog, identifier.database)
    try:
        return ddl.create_table(node, context, text, file)
    except StateplanError as error:
        raise _wrong(identifier.summary, file, text, error) from error


def _view(text: str, file: str, identifier: ObjectIdentifier, session: CatalogManager) -> CatalogView:
    node = _statement(text, file, identifier, nodes.CreateView)
    query = node.expression
    names = _NAMES.search(text)
    catalog, database = identifier.catalog, identifier.database
    if names is not None:
        catalog = (names[1] or "").replace("``", "`") or catalog
        database = names[2].replace("``", "`")
    context = session.seen_from(catalog, database)
    try:
        recorded_fields = _recorded_fields(text, node)
        view = ddl.create_view(node, context, recorded_fields or session.query_fields(query, context, text), text, file)
    except StateplanError as error:
        raise _wrong(identifier.summary, file, text, error) from error
    return CatalogView(
        identifier,
        query,
        text_of(query, text),
        view.schema,
        comment=view.comment,
        source=text,
        catalog=catalog,
        database=database,
        query_names=view.query_names if recorded_fields is None else _query_names(text, len(recorded_fields)),
    )


def _recorded_fields(text: str, node: nodes.CreateView) -> list[tuple[str, LogicalType]] | None:
    """The columns that a file says a view has, if they fit the names in its statement."""
    match = _COLUMNS.search(text)
    if match is None:
        return None
    try:
        fields = [(str(name), type_from_json(kind)) for name, kind in json.loads(match[1])]
    except (ValueError, TypeError, StateplanError):
        return None
    names = node.args.get("columns")
    return fields if names and [name.name for name in names] == [name for name, _ in fields] else None


def _query_names(text: str, width: int) -> tuple[str, ...]:
    """The names that a file says the query of a view gives its columns; nothing if it does not say it."""
    match = _QUERY_NAMES.search(text)
    if match is None:
        return ()
    try:
        own = tuple(map(str, json.loads(match[1])))
    except (ValueError, TypeError):
        return ()
    return own if len(own) == width else ()


def read_function(text: str, file: str, identifier: ObjectIdentifier) -> CatalogFunction:
    """The function that a file defines; it is not imported. Raises the same errors as :func:`read_object`."""
    node = _statement(text, file, identifier, nodes.FunctionStatement, fold=True)
    expression = node.args.get("expression")
    if node.args["action"] != "CREATE" or expression is None:
        raise CatalogError("CAT111.other_name", name=identifier.summary, place=Place(file), expected="CREATE FUNCTION")
    language = node.args.get("language") or "JAVA"
    return CatalogFunction(node.this.name, _with_name(identifier, node.this.name), expression.name, language, False)


def _with_name(identifier: ObjectIdentifier, name: str) -> ObjectIdentifier:
    return ObjectIdentifier(identifier.catalog, identifier.database, name)


def read_database(text: str, file: str, name: str) -> Database:
    """The database that a file defines. Raises the same errors as :func:`read_object`."""
    node = _statement(text, file, ObjectIdentifier("", "", name), nodes.CreateDatabase)
    comment = node.args.get("comment")
    return Database(name, None if comment is None else comment.name, ddl.options_of(node.args.get("options")))


def _statement(text: str, file: str, identifier: ObjectIdentifier, statement_type: type[N], fold: bool = False) -> N:
    """The one statement of a file, which creates what the file is called after."""
    summary = identifier.summary.lstrip(".")
    number = _FIRST.match(text)
    if number is not None and int(number[1]) > FORMAT:
        raise CatalogError("CAT112", name=summary, number=int(number[1]), most=FORMAT, place=Place(file))
    try:
        statements = parse(text, file)
    except StateplanError as error:
        raise _wrong(summary, file, text, error) from error
    expected = f"one statement, {_WORDS[statement_type]} {quote(identifier.name)}"
    if len(statements) != 1 or not isinstance(statements[0], statement_type):
        raise CatalogError("CAT111.other_name", name=summary, place=Place(file), expected=expected)
    node: Any = statements[0]
    parts = ddl.parts_of(node.this)
    same = parts[-1].lower() == identifier.name.lower() if fold else parts[-1] == identifier.name
    if len(parts) != 1 or not same or node.args.get("temporary"):
        raise CatalogError("CAT111.other_name", name=summary, place=Place(file), expected=expected)
    return statements[0]


def _wrong(name: str, file: str, text: str, error: StateplanError) -> CatalogError:
    place = error.place
    if place is None or place.source != text:
        place = Place(file)
    reason = f"[{error.code}] {error.message}"
    file_place = replace(place, file=file)
    return CatalogError(
        "CAT111", name=f"'{name}'", reason=reason, place=file_place, expected=error.expected, hint=error.hint
    )

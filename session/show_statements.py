"""SHOW and DESCRIBE, with Flink's columns. Jobs are in :mod:`session.job_statements`."""

from __future__ import annotations

import re
from collections.abc import Callable

from stateplan.common.errors import CatalogError
from stateplan.common.redaction import redacted_options, redacted_value
from stateplan.common.settings import OPTIONS
from stateplan.connectors.registry import default_partition, partitions_of
from stateplan.planner.binding.sinks import partition_texts
from stateplan.planner.catalog import ddl
from stateplan.planner.catalog.manager import CatalogDescriptor
from stateplan.planner.catalog.objects import CatalogTable
from stateplan.planner.catalog.show_create import show_create, show_create_catalog
from stateplan.planner.dialect import nodes
from stateplan.session.context import Context
from stateplan.session.describe import describe
from stateplan.session.function_statements import describe_function, user_functions
from stateplan.session.job_statements import show_jobs
from stateplan.session.module_statements import MODULES
from stateplan.session.results import TableResult, content

_INFO = ("info name", "info value")


def run_show(c: Context, node: nodes.ShowObjects) -> TableResult:
    """SHOW. Raises StateplanError."""
    kind = node.args["kind"]
    title = f"SHOW {kind}"
    if kind in ("CURRENT CATALOG", "CURRENT DATABASE"):
        name = c.catalog.current_catalog if kind.endswith("CATALOG") else c.catalog.current_database
        return content(title, [f"current {kind[8:].lower()} name"], [(name,)])
    if kind in ("CREATE TABLE", "CREATE VIEW"):
        return _show_create(c, node, kind[7:])
    if kind == "CREATE CATALOG":
        return content(title, ["result"], [(show_create_catalog(*_catalog(c, node)),)])
    if kind == "COLUMNS":
        columns, rows = describe(c.catalog.resolve(ddl.parts_of(node.this), c.place(node.this)))
        return content(title, columns, [row for row in rows if _matches(node, str(row[0]))])
    if kind == "JOBS":
        return show_jobs(c)
    if kind == "FULL MODULES":
        return content(title, ["module name", "used"], [(name, True) for name in MODULES])
    if kind == "PARTITIONS":
        return _partitions(c, node)
    if kind == "OPTIONS":
        return _options(c, node)
    if kind == "JARS":
        return content(title, ["jars"], [])
    names = [name for name in _LISTINGS[kind](c, node) if _matches(node, name)]
    return content(title, [f"{kind.split(' ')[-1].lower()[:-1]} name"], [(name,) for name in names])


def _show_create(c: Context, node: nodes.ShowObjects, kind: str) -> TableResult:
    place = c.place(node.this)
    catalog_object = c.catalog.resolve(ddl.parts_of(node.this), place)
    if catalog_object.kind != kind:
        raise CatalogError(
            "CAT011",
            item=catalog_object.kind.lower(),
            kind=kind.lower(),
            summary=catalog_object.identifier.summary,
            place=place,
            hint=f"SHOW CREATE {catalog_object.kind} {catalog_object.identifier.name}",
        )
    return content(f"SHOW CREATE {kind}", ["result"], [(show_create(catalog_object),)])


def _options(c: Context, node: nodes.ShowObjects) -> TableResult:
    config = c.session.config
    keys = sorted(key for key in {*OPTIONS, *config} if _matches(node, key))
    rows = [(key, None if (text := config.get(key)) is None else redacted_value(key, text)) for key in keys]
    return content("SHOW OPTIONS", ["key", "value", "set"], [(*row, row[0] in config) for row in rows])


def _database_of(c: Context, node: nodes.ShowObjects) -> tuple[str, str]:
    if node.this is None:
        return c.catalog.current_catalog, c.catalog.current_database
    catalog, database = [c.catalog.current_catalog, *ddl.parts_of(node.this)][-2:]
    c.catalog.require_database(catalog, database, c.place(node.this))
    return catalog, database


def _functions(c: Context, node: nodes.ShowObjects) -> list[str]:
    from stateplan.functions.aggregates import aggregates
    from stateplan.functions.table import functions

    names = [row.name for row in functions() if row.supported]
    names += [row.name for row in aggregates() if row.supported]
    return sorted({name.lower() for name in names if name.isidentifier()} | set(user_functions(c)))


def _none(c: Context, node: nodes.ShowObjects) -> list[str]:
    """There are none, in any database."""
    _database_of(c, node)
    return []


def _partitions(c: Context, node: nodes.ShowObjects) -> TableResult:
    """The partitions that are there now: of files, those of their folders.

    Raises:
        CatalogError: CAT011, CAT062, when it is a view, or not partitioned.
        SqlError: SQL132, SQL135, SQL136, for what PARTITION says.
    """
    place = c.place(node.this)
    table = c.catalog.resolve(ddl.parts_of(node.this), place)
    summary = table.identifier.summary
    if not isinstance(table, CatalogTable):
        raise CatalogError("CAT011", summary=summary, item="view", kind="table", place=place)
    if not table.partition_keys:
        raise CatalogError("CAT062", summary=summary, place=place)
    wanted_values = partition_texts(node.args.get("partition"), table, c.source)
    options = table.options
    partitions = partitions_of(options, table.partition_keys)
    rows = [
        {key: default_partition(options) if text is None else text for key, text in p.items()} for p in partitions or ()
    ]
    names = ["/".join(f"{k}={v}" for k, v in p.items()) for p in rows if wanted_values.items() <= p.items()]
    notes = [] if partitions is not None else [f"the partitions of '{summary}' cannot be listed, or it has none yet"]
    return content("SHOW PARTITIONS", ["partition name"], [(name,) for name in names], notes)


def _catalog(c: Context, node: nodes.ShowObjects) -> tuple[str, CatalogDescriptor]:
    (name,) = ddl.parts_of(node.this)
    return name, c.catalog.describe_catalog(name, c.place(node.this))


_LISTINGS: dict[str, Callable[[Context, nodes.ShowObjects], list[str]]] = {
    "CATALOGS": lambda c, node: c.catalog.list_catalogs(),
    "DATABASES": lambda c, node: c.catalog.list_databases(
        ddl.parts_of(node.this)[0] if node.this is not None else None, c.place(node)
    ),
    "TABLES": lambda c, node: c.catalog.list_tables(*_database_of(c, node)),
    "VIEWS": lambda c, node: c.catalog.list_views(*_database_of(c, node)),
    "FUNCTIONS": _functions,
    "USER FUNCTIONS": lambda c, node: user_functions(c),
    "MODULES": lambda c, node: list(MODULES),
    "PROCEDURES": _none,
    "MODELS": _none,
}


def _matches(node: nodes.ShowObjects, name: str) -> bool:
    like = node.args.get("like")
    if like is None:
        return True
    pattern = re.sub(r"\\.|.", lambda m: {"%": ".*", "_": "."}.get(m[0], re.escape(m[0][-1])), like.name, flags=re.S)
    flags = re.S | (re.I if node.args.get("operator") == "ILIKE" else 0)
    return bool(re.fullmatch(pattern, name, flags)) != bool(node.args.get("negated"))


def run_describe(c: Context, node: nodes.DescribeTable) -> TableResult:
    """DESCRIBE of a table or view, a catalog, a database or a function. Raises StateplanError."""
    place = c.place(node.this)
    parts = ddl.parts_of(node.this)
    kind = node.args.get("kind")
    if kind == "FUNCTION":
        return describe_function(c, node)
    if kind == "CATALOG":
        about = c.catalog.describe_catalog(parts[0], place)
        facts = [("name", parts[0]), ("type", about.options["type"]), ("comment", about.comment)]
        if node.args.get("extended"):
            options = sorted(redacted_options(about.options).items())
            facts += [(f"option:{key}", text) for key, text in options if key != "type"]
        return content("DESCRIBE CATALOG", _INFO, facts)
    if kind == "DATABASE":
        catalog, name = [c.catalog.current_catalog, *parts][-2:]
        database = c.catalog.require_database(catalog, name, place)
        return content("DESCRIBE DATABASE", _INFO, [("name", name), ("comment", database.comment)])
    columns, rows = describe(c.catalog.resolve(parts, place))
    return content("DESCRIBE", columns, rows)

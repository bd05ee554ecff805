"""``FOR SYSTEM_TIME AS OF`` a constant behind a table whose connector has versions of it: a time, or the number of a
version.

Codes: SQL146.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from datetime import UTC, datetime

from sqlglot import exp

from stateplan.common.errors import Place, SqlError, StateplanError
from stateplan.common.zone import tz_of
from stateplan.connectors.registry import known_connector
from stateplan.connectors.time_travel import TimeTravel
from stateplan.functions.rex import Rex
from stateplan.planner.catalog.manager import CatalogManager
from stateplan.planner.catalog.objects import CatalogTable
from stateplan.planner.positions import place_of

AS_OF = "as_of"
"""The argument of an item of FROM that holds the constant of its version."""


def with_versions(
    first: exp.Expr, joins: Sequence[exp.Expr], catalog: CatalogManager, queries: Container[str], source: str
) -> tuple[exp.Expr, Sequence[exp.Expr]]:
    """The items of FROM, those that are tables as of a version with the constant as :data:`AS_OF`. What is behind the
    others stays for temporal joins.

    Args:
        first: the first item.
        joins: the others, in their joins.
        catalog: where tables are.
        queries: the names of queries of WITH.
        source: the text of the statement.

    Raises:
        CatalogError: CAT002, there is no such table.
        SqlError: SQL146, the first item has a version, and is no table with versions, or this is no constant.
    """

    def has_version(node: exp.Expr) -> bool:
        return node.args.get("version") is not None and _has_versions(node, catalog, queries, source)

    def as_version(node: exp.Expr) -> exp.Expr:
        node = node.copy()
        node.set(AS_OF, node.args["version"].expression)
        node.set("version", None)
        return node

    if has_version(first):
        first = as_version(first)
    elif first.args.get("version") is not None:
        raise SqlError("SQL146.misplaced", place=place_of(first.args["version"], source))
    if any(has_version(join.this) for join in joins):
        joins = [join.copy() for join in joins]
        for join in joins:
            if has_version(join.this):
                join.set("this", as_version(join.this))
    return first, joins


def _has_versions(node: exp.Expr, catalog: CatalogManager, queries: Container[str], source: str) -> bool:
    """Whether an item of FROM is a table with versions, and a constant is behind it."""
    if not isinstance(node, exp.Table) or node.args["version"].expression.find(exp.Column) is not None:
        return False
    parts = [p.name for p in (node.args.get(k) for k in ("catalog", "db", "this")) if p is not None]
    if len(parts) == 1 and parts[0] in queries:
        return False
    table = catalog.resolve(parts, place_of(node, source))
    return isinstance(table, CatalogTable) and isinstance(known_connector(table.options), TimeTravel)


def as_of(
    constant: exp.Expr, table: CatalogTable, bind: Callable[[exp.Expr], Rex], time_zone: str, source: str
) -> CatalogTable:
    """A table as of a version.

    Args:
        constant: the time or number of the version.
        table: the table, with the options of its hint.
        bind: binds a constant.
        time_zone: of the session: that of a TIMESTAMP.
        source: the text of the statement.

    Raises:
        SqlError: SQL146, it is neither a time nor a number.
        StateplanError: the connector has no such version, or has it no more.
    """
    connector, place = known_connector(table.options), place_of(constant, source)
    assert isinstance(connector, TimeTravel)
    value = _value(bind(constant), time_zone, place)
    try:
        if isinstance(value, int):
            return table.with_options(connector.as_of_version(table.options, value))
        return table.with_options(connector.as_of_time(table.options, _millis(value, time_zone)))
    except StateplanError as error:
        error.place = error.place or place
        raise


def _value(constant: Rex, time_zone: str, place: Place) -> int | datetime:
    from stateplan.functions.program import evaluate

    if constant.type.is_integer or constant.type.is_timestamp:
        value = evaluate(constant, now=int(datetime.now(UTC).timestamp() * 1000), time_zone=time_zone)
        if constant.type.is_timestamp and isinstance(value, int):  # nanoseconds
            return datetime.fromtimestamp(value // 10**9, UTC).replace(microsecond=value % 10**9 // 1000, tzinfo=None)
        if isinstance(value, (int, datetime)):
            return value
    raise SqlError("SQL146.no_version", type=constant.type.summary(), place=place)


def _millis(moment: datetime, time_zone: str) -> int:
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=tz_of(time_zone))
    return int(aware.timestamp() * 1000)

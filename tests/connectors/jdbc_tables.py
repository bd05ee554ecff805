"""Tables of the connector ``jdbc`` for tests, and what their sources and sinks do."""

from __future__ import annotations

from typing import Any

import polars as pl

from stateplan.common.changelog import KIND
from stateplan.common.options import Role
from stateplan.common.types import parse_type
from stateplan.connectors.jdbc import Jdbc
from stateplan.connectors.jdbc.lookup import JdbcLookup
from stateplan.connectors.jdbc.scan import JdbcSource
from stateplan.connectors.jdbc.sink import JdbcSink
from stateplan.connectors.protocol import SinkTable, SourceTable
from stateplan.connectors.registry import validate_table
from tests.support.postgres import Database

Fields = tuple[tuple[str, Any], ...]


def fields(columns: str) -> Fields:
    """Fields of a text such as ``a INT, b STRING``."""
    return tuple((f.name, f.type) for f in parse_type(f"ROW<{columns}>").fields)


def options(database: Database, name: str, more: dict[str, str] | None = None) -> dict[str, str]:
    """Options of a table of a database."""
    return {**database.options, "table-name": name, **(more or {})}


def source_table(
    database: Database, name: str, columns: str, more: dict[str, str] | None = None, **attributes: Any
) -> SourceTable:
    """A table that is read, all its columns unless ``projection`` is given."""
    declared, given = fields(columns), options(database, name, more)
    validate_table(given, Role.SOURCE, schema=declared)
    attributes.setdefault("projection", tuple(range(len(declared))))
    return SourceTable(name, Jdbc(), given, declared, **attributes)


def source(database: Database, name: str, columns: str, more: dict[str, str] | None = None, **a: Any) -> JdbcSource:
    """The source of a table."""
    made = Jdbc().source(source_table(database, name, columns, more, **a))
    assert isinstance(made, JdbcSource)
    return made


def lookup(database: Database, name: str, columns: str, more: dict[str, str] | None = None, **a: Any) -> JdbcLookup:
    """The lookup of a table."""
    made = Jdbc().lookup(source_table(database, name, columns, more, **a))
    assert isinstance(made, JdbcLookup)
    return made


def sink(
    database: Database,
    name: str,
    columns: str,
    key: tuple[str, ...] = (),
    uid: str = "sink-1",
    more: dict[str, str] | None = None,
    **attributes: Any,
) -> JdbcSink:
    """The sink of a table."""
    declared, given = fields(columns), options(database, name, more)
    validate_table(given, Role.SINK, schema=declared)
    made = Jdbc().sink(SinkTable(name, Jdbc(), given, declared, primary_key=key, uid=uid, **attributes))
    assert isinstance(made, JdbcSink)
    return made


def read(found: JdbcSource) -> list[tuple[Any, ...]]:
    """All rows of a source that has no checkpoint."""
    start = found.initial_offset()
    splits = found.plan(start, found.latest_offset(start))
    return [row for split in splits for frame in found.read(split) for row in frame.rows()]


def changes(columns: str, *rows: tuple[Any, ...], kinds: str = "") -> pl.DataFrame:
    """Rows as a sink gets them.

    Args:
        columns: of the table.
        rows: their values.
        kinds: the short names of their kinds, such as ``+I -U +U -D``; all are insertions without.
    """
    schema = {f"c{i}": declared.polars() for i, (_, declared) in enumerate(fields(columns))}
    frame = pl.DataFrame(list(rows), schema=schema, orient="row")
    if not kinds:
        return frame
    numbers = [["+I", "-U", "+U", "-D"].index(kind) for kind in kinds.split()]
    return frame.with_columns(pl.Series(KIND, numbers, pl.Int8))


def write(target: JdbcSink, epoch: int, *frames: pl.DataFrame) -> None:
    """Writes a micro-batch, a part for each frame."""
    target.prepare(epoch)
    target.commit([target.write(frame, epoch, f"part-{i}") for i, frame in enumerate(frames)], epoch)

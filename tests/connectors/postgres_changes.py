"""Reads ``postgres-cdc`` tables as a job does, without Spark."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl

from stateplan.common.changelog import RowKind
from stateplan.common.options import Role
from stateplan.common.types import parse_type
from stateplan.connectors import registry
from stateplan.connectors.postgres_cdc.source import ChangeSource
from stateplan.connectors.protocol import Offset, SourceTable
from tests.support.postgres import PASSWORD, USER, Database

ITEMS = "id INT NOT NULL, note STRING"


def options(database: Database, table: str = "items", **more: str) -> dict[str, str]:
    return {
        "connector": "postgres-cdc",
        "hostname": database.server.host,
        "port": str(database.server.port),
        "username": USER,
        "password": PASSWORD,
        "database-name": database.name,
        "schema-name": "public",
        "table-name": table,
        "slot.name": f"{database.name}_slot",
        "connect.timeout": "5 s",
        **{key.replace("_", "-") if key == "changelog_mode" else key: text for key, text in more.items()},
    }


def source_of(
    given: dict[str, str],
    columns: str = ITEMS,
    key: tuple[str, ...] = ("id",),
    metadata: tuple[str, ...] = (),
    projection: tuple[int, ...] | None = None,
) -> ChangeSource:
    fields = tuple((f.name, f.type) for f in parse_type(f"ROW<{columns}>").fields)
    registry.validate_table(given, Role.SOURCE, schema=fields)
    wanted = tuple(range(len(fields))) if projection is None else projection
    table = SourceTable("items", registry.find_connector(given), given, fields, None, (), key, wanted, metadata)
    source = table.connector.source(table)
    assert isinstance(source, ChangeSource)
    return source


class Job:
    """Reads a source as a job does, and adds up what comes."""

    def __init__(self, source: ChangeSource, folder: Path) -> None:
        self.source = source
        self.source.folder = folder
        self.folder = folder
        self.offset: Offset = source.initial_offset()
        self.changes: list[tuple[Any, ...]] = []

    def read(self, start: Offset, end: Offset) -> list[tuple[Any, ...]]:
        worker = pickle.loads(pickle.dumps(self.source))
        frames = [frame for split in self.source.plan(start, end) for frame in worker.read(split)]
        return [(RowKind(kind).short, *rest) for *rest, kind in pl.concat(frames).rows()] if frames else []

    def step(self) -> list[tuple[Any, ...]]:
        """The changes of the next micro-batch."""
        end = self.source.latest_offset(self.offset)
        if end == self.offset:
            return []
        found = self.read(self.offset, end)
        self.source.committed(end)
        self.offset = end
        self.changes += found
        return found

    def until_quiet(self) -> list[tuple[Any, ...]]:
        """The changes of all micro-batches until there is nothing more."""
        found: list[tuple[Any, ...]] = []
        while True:
            before = self.offset
            found += self.step()
            if self.offset == before:
                return found

    def rows(self) -> list[tuple[Any, ...]]:
        """What all changes add up to."""
        left: Counter[tuple[Any, ...]] = Counter()
        for kind, *row in self.changes:
            left[tuple(row)] += 1 if kind[0] == "+" and kind != "-U" else -1
            assert left[tuple(row)] >= 0, f"{kind}{row} takes back what is not there"
        return sorted((+left).elements(), key=repr)

    def by_key(self) -> list[tuple[Any, ...]]:
        """What upserts add up to; the key is first."""
        left: dict[Any, tuple[Any, ...]] = {}
        for kind, *row in self.changes:
            if kind == "-D":
                del left[row[0]]
            else:
                left[row[0]] = tuple(row)
        return sorted(left.values(), key=repr)


@contextmanager
def job(given: dict[str, str], folder: Path, *args: Any, **more: Any) -> Iterator[Job]:
    """A job, whose connection ends with it; and with it the database has no slot that keeps its log."""
    found = Job(source_of(given, *args, **more), folder)
    try:
        yield found
    finally:
        found.source.close()


def first_offset(given: dict[str, str], folder: Path, *args: Any) -> Offset:
    with job(given, folder, *args) as mine:
        mine.source.check("items")
        return mine.source.latest_offset({})

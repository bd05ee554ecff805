"""Iceberg tables for tests: sources and sinks as jobs have them, and what other writers do."""

from __future__ import annotations

import json
import pickle
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from stateplan.connectors.iceberg.source import IcebergSource, IcebergSplit
from stateplan.connectors.protocol import Offset, Sink, SinkTable
from stateplan.connectors.registry import find_connector
from tests.connectors.connector_tables import fields, source_table
from tests.support.delta import COLUMNS


def options(folder: object, table: str = "t", **more: str) -> dict[str, str]:
    return {"connector": "iceberg", "warehouse": str(folder), "catalog-table": table, **more}


def catalog(folder: object) -> SqlCatalog:
    """The catalog as the library itself opens it."""
    Path(str(folder)).mkdir(parents=True, exist_ok=True)
    return SqlCatalog("default", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))


def opened(folder: object, table: str = "t") -> Table:
    return catalog(folder).load_table(("default", table))


def source_of(
    folder: object,
    columns: str = COLUMNS,
    metadata: Sequence[str] = (),
    more: Mapping[str, Any] | None = None,
    **given_: str,
) -> IcebergSource:
    """A source of all columns, as a worker gets it."""
    declared = fields(columns)
    named = {key.replace("_", "-"): text for key, text in given_.items()}
    table = source_table(options(folder, **named), declared, range(len(declared)), metadata, **(more or {}))
    made = find_connector(table.options).source(table)
    assert isinstance(made, IcebergSource)
    return pickle.loads(pickle.dumps(made))


def rows_of(source: IcebergSource, start: Offset, end: Offset) -> list[tuple[Any, ...]]:
    """The rows between two offsets; the plan is the same when it is asked for again."""
    texts = [json.dumps(split.to_json()) for split in source.plan(start, end)]
    splits = [IcebergSplit.from_json(json.loads(text)) for text in texts]
    assert splits == pickle.loads(pickle.dumps(source)).plan(start, end)
    return [row for split in splits for part in source.read(split) for row in part.rows()]


def drained(source: IcebergSource, start: Offset | None = None) -> tuple[list[tuple[Any, ...]], Offset]:
    """All rows that there are, micro-batch by micro-batch, and the offset behind them."""
    position = source.initial_offset() if start is None else start
    rows: list[tuple[Any, ...]] = []
    while (end := json.loads(json.dumps(source.latest_offset(position)))) != position:
        rows += rows_of(source, position, end)
        position = end
    return rows, position


def append(
    folder: object,
    *rows: tuple[Any, ...],
    table: str = "t",
    columns: str = "k v",
    lake: Catalog | None = None,
) -> Table:
    """Adds rows as another writer does, by default to a catalog on disk; the table is made by the first."""
    names, kinds = columns.split(), {int: pa.int64(), str: pa.string()}
    types = [kinds[type(next(v for v in values if v is not None))] for values in zip(*rows, strict=True)]
    data = pa.table({n: pa.array([r[i] for r in rows], types[i]) for i, n in enumerate(names)})
    lake = lake or catalog(folder)
    lake.create_namespace_if_not_exists("default")
    made = lake.create_table_if_not_exists(("default", table), data.schema)
    made.append(data)
    return made


def contents(folder: object, table: str = "t") -> list[tuple[Any, ...]]:
    """The rows as the library itself reads them."""
    return sorted(pl.DataFrame(pl.from_arrow(opened(folder, table).scan().to_arrow())).rows(), key=repr)


def sink_of(
    folder: object,
    columns: str = COLUMNS,
    keys: Sequence[str] = (),
    partitions: Sequence[str] = (),
    uid: str = "job/sink",
    overwrite: bool = False,
    **given_: str,
) -> Sink:
    named = options(folder, **{key.replace("__", ".").replace("_", "-"): text for key, text in given_.items()})
    connector, declared = find_connector(named), tuple(fields(columns))
    table = SinkTable("t", connector, named, declared, None, tuple(partitions), tuple(keys), uid, overwrite)
    return connector.sink(table)


def add_deletes(folder: object, rows: pa.Table, equality: Sequence[int] = (), table: str = "t") -> None:
    """Commits a file of deletes as other engines do. The library cannot, so its manifests are written here."""
    import pyarrow.parquet as pq
    from pyiceberg.manifest import (
        DataFile,
        DataFileContent,
        FileFormat,
        ManifestContent,
        ManifestEntry,
        ManifestEntryStatus,
        ManifestWriterV2,
    )
    from pyiceberg.typedef import Record

    class Deletes(ManifestWriterV2):
        def content(self) -> ManifestContent:
            return ManifestContent.DELETES

        @property
        def _meta(self) -> dict[str, str]:
            return {**super()._meta, "content": "deletes"}

    made = opened(folder, table)
    path = f"{made.location()}/data/deletes-{uuid.uuid4()}.parquet"
    ids = {"file_path": 2147483546, "pos": 2147483545, "k": 1}
    named = [f.with_metadata({"PARQUET:field_id": str(ids[f.name])}) for f in rows.schema]
    pq.write_table(rows.cast(pa.schema(named)), path)
    file = DataFile.from_args(
        content=DataFileContent.EQUALITY_DELETES if equality else DataFileContent.POSITION_DELETES,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=rows.num_rows,
        file_size_in_bytes=Path(path).stat().st_size,
        equality_ids=list(equality) or None,
    )
    transaction = made.transaction()
    with transaction.update_snapshot().fast_append() as snapshot:
        output = made.io.new_output(f"{made.location()}/metadata/{uuid.uuid4()}.avro")
        with Deletes(made.spec(), made.schema(), output, snapshot.snapshot_id, "null") as manifest:
            status = ManifestEntryStatus.ADDED
            entry = ManifestEntry.from_args(status=status, snapshot_id=snapshot.snapshot_id, data_file=file)
            manifest.add(entry)
        added = manifest.to_manifest_file()
        before = snapshot._existing_manifests()
        snapshot._existing_manifests = lambda: [*before, added]  # type: ignore[method-assign]
    transaction.commit_transaction()

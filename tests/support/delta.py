"""Delta tables for tests: sources and sinks as jobs have them, and what other writers do."""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from stateplan.common.changelog import KIND
from stateplan.connectors.delta.source import DeltaSource, DeltaSplit
from stateplan.connectors.protocol import Offset, Sink, SinkTable
from stateplan.connectors.registry import find_connector
from tests.connectors.connector_tables import fields, source_table

COLUMNS = "k BIGINT, v STRING"


def options(path: object, **more: str) -> dict[str, str]:
    return {"connector": "delta", "table-path": str(path), **more}


def source_of(
    path: object,
    columns: str = COLUMNS,
    metadata: Sequence[str] = (),
    more: Mapping[str, Any] | None = None,
    **given_: str,
) -> DeltaSource:
    """A source of all columns, as a worker gets it."""
    declared = fields(columns)
    table = source_table(options(path, **given_), declared, range(len(declared)), metadata, **(more or {}))
    made = find_connector(table.options).source(table)
    assert isinstance(made, DeltaSource)
    return pickle.loads(pickle.dumps(made))


def rows_of(source: DeltaSource, start: Offset, end: Offset) -> list[tuple[Any, ...]]:
    """The rows between two offsets; the plan is the same when it is asked for again."""
    texts = [json.dumps(split.to_json()) for split in source.plan(start, end)]
    splits = [DeltaSplit.from_json(json.loads(text)) for text in texts]
    assert splits == pickle.loads(pickle.dumps(source)).plan(start, end)
    return [row for split in splits for frame in source.read(split) for row in frame.rows()]


def drained(source: DeltaSource, start: Offset | None = None) -> tuple[list[tuple[Any, ...]], Offset]:
    """All rows that there are, micro-batch by micro-batch, and the offset behind them."""
    position = source.initial_offset() if start is None else start
    rows: list[tuple[Any, ...]] = []
    while (end := json.loads(json.dumps(source.latest_offset(position)))) != position:
        rows += rows_of(source, position, end)
        position = end
    return rows, position


def append(path: object, *rows: tuple[int, str], **more: Any) -> None:
    """Adds rows ``k, v`` as another writer does."""
    data = pa.table({"k": pa.array([k for k, _ in rows], pa.int64()), "v": pa.array([v for _, v in rows], pa.string())})
    write_deltalake(str(path), data, mode="append", **more)


def contents(path: object) -> list[tuple[Any, ...]]:
    """The rows as ``deltalake`` itself reads them."""
    return sorted(pl.DataFrame(pl.from_arrow(pa.table(DeltaTable(str(path)).scan()))).rows(), key=repr)


def sink_of(
    path: object,
    columns: str = COLUMNS,
    keys: Sequence[str] = (),
    partitions: Sequence[str] = (),
    uid: str = "job/sink",
    overwrite: bool = False,
    **given_: str,
) -> Sink:
    table = SinkTable(
        "t",
        find_connector(options(path)),
        options(path, **given_),
        tuple(fields(columns)),
        None,
        tuple(partitions),
        tuple(keys),
        uid,
        overwrite,
    )
    return table.connector.sink(table)


def write(sink: Sink, epoch: int, *frames: pl.DataFrame) -> None:
    """A micro-batch; parts are written by a copy of the sink, as in a worker."""
    sink.prepare(epoch)
    worker = pickle.loads(pickle.dumps(sink))
    parts = [worker.write(frame, epoch, str(i)) for i, frame in enumerate(frames)]
    sink.commit([part for part in parts if part], epoch)


def frame(*rows: tuple[Any, ...], columns: str = COLUMNS, kinds: Sequence[int] | None = None) -> pl.DataFrame:
    schema = {f"c{i}": declared.polars() for i, (_, declared) in enumerate(fields(columns))}
    made = pl.DataFrame(list(rows), schema=schema, orient="row")
    return made if kinds is None else made.with_columns(pl.Series(KIND, kinds, pl.Int8))


def log(path: object, version: int) -> list[dict[str, Any]]:
    text = (Path(str(path)) / "_delta_log" / f"{version:020d}.json").read_text()
    return [json.loads(line) for line in text.splitlines()]


def race(sink_of: Callable[[str], Sink]) -> list[BaseException]:
    """Three writers at the same time, each with a sink for each micro-batch: two micro-batches of one job, the same in
    all writers, and one of a job of its own. A row is the number of its micro-batch and the uid of its sink.

    Args:
        sink_of: the sink with a uid.

    Returns:
        What writers failed with.
    """
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            for uid, epoch in (("same", 0), (str(number), 0), ("same", 1)):
                sink = sink_of(uid)
                sink.commit([sink.write(frame((epoch, uid)), epoch, "p")], epoch)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures

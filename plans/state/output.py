"""Rows of state as a table, as JSON lines, or as a Parquet file.

Codes: RUN091, RUN092.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from stateplan.common.errors import RunError
from stateplan.common.readable import NULL, cell, render

if TYPE_CHECKING:
    import pyarrow as pa


class Limited:
    """Batches up to a number of rows, 0 for all; ``more`` says, at the end, whether there were more."""

    def __init__(self, batches: Iterable[pa.RecordBatch], most: int) -> None:
        self.more = False
        self._batches = batches
        self._most = most

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        left = self._most
        for batch in self._batches:
            if not self._most:
                yield batch
                continue
            if left:
                yield batch.slice(0, left)
            self.more = batch.num_rows > left
            left = max(0, left - batch.num_rows)
            if self.more:
                return


def table_text(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> str:
    """A table in the style of Flink's SQL client."""
    names = schema.names
    return render(names, [[_cell(row[name]) for name in names] for batch in batches for row in batch.to_pylist()])


def _cell(value: object) -> object:
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat(" ", "milliseconds").removesuffix(".000")
        return text if value.microsecond % 1000 == 0 else value.replace(tzinfo=None).isoformat(" ")
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inner, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}={_inner(v)}" for k, v in value.items()) + "}"
    return value


def _inner(value: object) -> str:
    return NULL if value is None else cell(_cell(value))


def json_lines(batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """A JSON object per row, each with the end of its line: instants in ISO 8601, decimals as texts, bytes in base 64,
    and what is not a number in JSON as a text."""
    for batch in batches:
        for row in batch.to_pylist():
            yield json.dumps({k: _plain(v) for k, v in row.items()}, ensure_ascii=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return {k: _plain(v) for k, v in value.items()} if isinstance(value, dict) else value


def write_rows(
    path: str, kind: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch], *, overwrite: bool = False
) -> int:
    """Writes rows to a file, whole or not at all, and says how many.

    Args:
        path: the file.
        kind: ``text``, ``json`` (lines) or ``parquet``.
        overwrite: whether a file that is there may be replaced.

    Raises:
        RunError: RUN091, the file cannot be written; RUN092, it exists.
    """
    target = Path(path)
    check_target(path, overwrite=overwrite)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        try:
            with temporary.open("wb") as file:
                count = _write(file, kind, schema, batches)
            temporary.replace(target)
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink()
    except OSError as cause:
        raise RunError("RUN091", path=target, reason=(cause.strerror or str(cause)).lower()) from cause
    return count


def check_target(path: str, *, overwrite: bool) -> None:
    """Whether a file may be written, before work is done for it. Raises RunError RUN091, RUN092."""
    target = Path(path)
    if target.exists() and not overwrite:
        raise RunError("RUN092", path=path)
    if not target.absolute().parent.is_dir() or target.is_dir():
        raise RunError("RUN091", path=path, reason="it is a folder" if target.is_dir() else "there is no such folder")


def _write(file: IO[bytes], kind: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    count = 0

    def counted_batches() -> Iterator[pa.RecordBatch]:
        nonlocal count
        for batch in batches:
            count += batch.num_rows
            yield batch

    if kind == "parquet":
        import pyarrow.parquet as pq

        with pq.ParquetWriter(file, schema) as writer:
            for batch in counted_batches():
                writer.write_batch(batch)
    elif kind == "json":
        for line in json_lines(counted_batches()):
            file.write(line.encode("utf-8", "surrogatepass"))
    else:
        file.write(table_text(schema, counted_batches()).encode("utf-8", "backslashreplace"))
    return count

"""Sources: what feeds each connector from Spark, and how a worker reads a split.

Spark's file source decides which files, or which *marker files*, make up a micro-batch, and logs it: a marker is a
small file that stands for an instant of the replay clock or a range of generated rows. Contents are read by the
Python workers alone.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from stateplan.execnodes.changelog import column
from stateplan.execnodes.errors import CheckpointError, OptionError, RunError
from stateplan.execnodes.rex import Rex
from stateplan.execnodes.runtime.jobgraph import JobGraph, SourceSpec
from stateplan.execnodes.types import LogicalType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FILE_SCHEMA = "path string, modificationTime timestamp, length long, content binary"

_CLOSING = "closing"

_TASK_BYTES = 128 << 20
"""Bytes of files that a micro-batch has for each of its parallel tasks, where the table says nothing else; as much as
Spark packs into one partition. An operator with state has all its rows of a key group in memory at once."""

_TASK_BYTES_STATELESS = 256 << 20
"""The same for a plan without state, whose rows only pass through."""


class _EachRow:
    """A reader for which every row of the Spark source is one split."""

    def splits(self, batch: pa.RecordBatch) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = batch.to_pylist()
        return rows


@dataclass(frozen=True)
class FileReader(_EachRow):
    """Reads whole files with a format's decoder; ``pattern`` is ``source.path.regex-pattern``. Of each file no more
    than ``limit`` rows are needed."""

    decoder: Any
    pattern: str | None = None
    limit: int | None = None

    def read(self, split: dict[str, Any]) -> Iterator[pl.DataFrame]:
        path = _plain(split["path"])
        if self.pattern is not None and not re.fullmatch(self.pattern, path):
            return
        left = self.limit
        for frame in self.decoder.read(path):
            if left is None:
                yield frame
                continue
            yield frame.head(left)
            left -= frame.height
            if left <= 0:
                return


@dataclass(frozen=True)
class ReplayReader(_EachRow):
    """Reads the rows of one instant of a replay table."""

    table: Any

    def read(self, split: dict[str, Any]) -> Iterator[pl.DataFrame]:
        yield self.table.read_at(split["now"])


@dataclass(frozen=True)
class RangeReader:
    """Makes a range of rows of a datagen table."""

    generator: Any
    step: int = 65536

    def splits(self, batch: pa.RecordBatch) -> list[dict[str, Any]]:
        merged: list[dict[str, Any]] = []
        for row in sorted(batch.to_pylist(), key=lambda r: r["start"]):
            if merged and merged[-1]["stop"] == row["start"]:
                merged[-1]["stop"] = row["stop"]
            else:
                merged.append(row)
        return merged

    def read(self, split: dict[str, Any]) -> Iterator[pl.DataFrame]:
        for start in range(split["start"], split["stop"], self.step):
            yield self.generator.rows(start, min(start + self.step, split["stop"]))


@dataclass(frozen=True)
class ValuesReader(_EachRow):
    """Gives the constant rows of a plan; on the replay clock at the instant 0, before all others."""

    rows: tuple[tuple[Rex, ...], ...]
    types: tuple[LogicalType, ...]

    @property
    def table(self) -> ValuesReader:
        return self

    def instants(self) -> list[int]:
        return [0]

    def read(self, split: dict[str, Any]) -> Iterator[pl.DataFrame]:
        from stateplan.execnodes.runtime.transforms.calc import CalcTransform

        if split["now"] and "start" not in split:
            return
        one = pl.DataFrame({"@one": [0]})
        if not self.types:
            yield pl.DataFrame(height=len(self.rows))
        elif self.rows:
            schema = {column(i): t.polars() for i, t in enumerate(self.types)}
            casts = [pl.col(name).cast(kind) for name, kind in schema.items()]
            yield pl.concat([CalcTransform(row)(one, 0).select(casts) for row in self.rows])


def _plain(path: str) -> str:
    """Spark's URI of a local file as a plain path."""
    if path.startswith("file:"):
        from urllib.parse import unquote, urlsplit

        return unquote(urlsplit(path).path)
    return path


class Sources:
    """The Spark frames of splits of a job's sources.

    Args:
        graph: the job graph.
        options: session options.
        markers: local folder for marker files; part of the checkpoint.
    """

    def __init__(self, graph: JobGraph, options: Mapping[str, str], markers: Path) -> None:
        self._graph = graph
        self._options = options
        self._markers = markers
        kinds = {s.connector for s in graph.sources if s.connector != "values"}
        self._replays = "replay" in kinds
        if "replay" in kinds and kinds != {"replay"}:
            other = next(s for s in graph.sources if s.connector not in ("replay", "values"))
            raise RunError("RUN020", name=other.name, connector=other.connector)

    def bounded(self) -> bool:
        """Whether every source ends."""
        from stateplan.execnodes.connectors.registry import is_bounded

        return all(s.connector == "values" or is_bounded(s.options) for s in self._graph.sources)

    def trigger_interval(self) -> int:
        """Milliseconds between micro-batches of an unbounded job."""
        from stateplan.execnodes.ttl import parse_ttl

        given = self._options.get("execution.checkpointing.interval")
        if given:
            return parse_ttl(given)
        monitors = [
            parse_ttl(s.options["source.monitor-interval"])
            for s in self._graph.sources
            if "source.monitor-interval" in s.options
        ]
        return min(monitors, default=1000)

    def closing_frame(self, spark: SparkSession) -> DataFrame:
        """The streaming frame of the ends of bounded input: column ``now``. Each marker written by :meth:`close` is one
        row."""
        from pyspark.sql import functions as F  # noqa: N812

        folder = self._markers / _CLOSING
        folder.mkdir(parents=True, exist_ok=True)
        frame = spark.readStream.format("binaryFile").schema(_FILE_SCHEMA).load(str(folder))
        return frame.select(F.regexp_extract("path", r"[^/]*_([^/]*)$", 1).cast("long").alias("now"))

    @property
    def closed(self) -> bool:
        """Whether input has ended before, in this run or an earlier one."""
        folder = self._markers / _CLOSING
        return folder.exists() and any(not p.name.startswith(".") for p in folder.iterdir())

    def close(self) -> None:
        """Marks the end of bounded input: a query started after it gets one more micro-batch, at the time of the last
        instant of a replay, else now."""
        instants = self._instants()
        now = instants[-1] if instants else time.time_ns() // 1_000_000
        folder = self._markers / _CLOSING
        count = sum(not p.name.startswith(".") for p in folder.iterdir())
        hidden = folder / f".{count:010d}_{now}"
        hidden.write_text("end")
        hidden.rename(folder / f"{count:010d}_{now}")

    def prepare(self) -> None:
        """Checks that input exists and writes the marker files.

        Raises:
            OptionError: OPT040, a path that does not exist.
            CheckpointError: CKPT020, an instant that lies before those already played.
        """
        for source in self._graph.sources:
            if source.connector in ("filesystem", "replay"):
                _require(source)
        if any(s.connector == "replay" for s in self._graph.sources):
            self._write_markers("replay", [(f"{at}", 0) for at in self._instants()])
        for source in self._graph.sources:
            if source.connector == "values":
                self._write_markers(source.marks, [("0-1", 0)])
            if source.connector == "datagen" and source.reader.generator.bounded is not None:  # type: ignore[attr-defined]
                total = source.reader.generator.bounded  # type: ignore[attr-defined]
                made = self._made(source.marks)
                parts = max(1, min(int(self._options.get("parallelism.default", "2")), total - made))
                edges = [made + (total - made) * i // parts for i in range(parts + 1)]
                self._write_markers(source.marks, [(f"{a}-{b}", 0) for a, b in pairwise(edges) if a < b])

    def _made(self, name: str) -> int:
        """How many rows the ranges stand for whose markers an earlier run wrote, whatever its parallelism was."""
        folder = self._markers / name
        names = (p.name for p in folder.iterdir()) if folder.is_dir() else ()
        return max((int(n.rpartition("-")[2]) for n in names if not n.startswith(".")), default=0)

    def _instants(self) -> list[int]:
        """The distinct instants of all replay tables, ascending."""
        readers = [s.reader for s in self._graph.sources if isinstance(s.reader, ReplayReader)]
        return sorted({at for r in readers for at in r.table.instants()})

    def _write_markers(self, name: str, wanted: list[tuple[str, int]]) -> None:
        """One file per entry, in order of their modification times."""
        import os

        folder = self._markers / name
        folder.mkdir(parents=True, exist_ok=True)
        there = sorted(p.name for p in folder.iterdir() if not p.name.startswith("."))
        known = [n.split("_", 1)[1] for n in there]
        texts = [t for t, _ in wanted]
        if known == texts[: len(known)]:
            fresh = texts[len(known) :]
        else:
            late = [t for t in texts if t not in set(known)]
            fresh = [t for t in late if not known or int(t.split("-")[0]) > int(known[-1].split("-")[0])]
            if len(fresh) < len(late):
                raise CheckpointError("CKPT020", late=next(t for t in late if t not in fresh), known=known[-1])
        for n, text in enumerate(fresh, start=len(known)):
            path = folder / f"{n:010d}_{text}"
            hidden = folder / f".{path.name}"
            hidden.write_text(text)  # Spark passes over files of no length
            os.utime(hidden, (1_000_000_000 + n, 1_000_000_000 + n))
            hidden.rename(path)

    def frame(self, spark: SparkSession, index: int) -> DataFrame:
        """The streaming frame of splits of source ``index``: columns of its reader's split, ``seq`` and ``now``."""
        from pyspark.sql import functions as F  # noqa: N812

        source = self._graph.sources[index]
        order = f"{index:04d}/"
        if source.connector == "filesystem":
            reader = spark.readStream.format("binaryFile").schema(_FILE_SCHEMA).option("recursiveFileLookup", "true")
            files = source.options.get("source.max-files-per-trigger")
            if files:
                reader = reader.option("maxFilesPerTrigger", files)
            else:
                tasks = int(self._options.get("parallelism.default", "2"))
                limit = _TASK_BYTES if self._graph.levels else _TASK_BYTES_STATELESS
                reader = reader.option("maxBytesPerTrigger", limit * tasks)
            return reader.load(source.options["path"]).select(
                F.col("path"),
                F.concat(
                    F.lit(order), F.format_string("%016d/", F.unix_millis("modificationTime")), F.col("path")
                ).alias("seq"),
                F.unix_millis(F.current_timestamp()).alias("now"),
            )
        if source.connector == "datagen" and source.reader.generator.bounded is None:  # type: ignore[attr-defined]
            rate = int(source.options.get("rows-per-second", "10000"))
            rows = max(1, rate * self.trigger_interval() // 1000)
            return (
                spark.readStream.format("rate-micro-batch")
                .option("rowsPerBatch", rows)
                .option("numPartitions", self._options.get("parallelism.default", "2"))
                .load()
                .select(
                    F.col("value").alias("start"),
                    (F.col("value") + 1).alias("stop"),
                    F.format_string("%s%020d", F.lit(order), F.col("value")).alias("seq"),
                    F.unix_millis(F.current_timestamp()).alias("now"),
                )
            )
        frame = (
            spark.readStream.format("binaryFile")
            .schema(_FILE_SCHEMA)
            .option("maxFilesPerTrigger", 1 if source.connector == "replay" else 1_000_000)
            .load(str(self._markers / source.marks))
        )
        text = F.regexp_extract("path", r"[^/]*_([^/]*)$", 1)
        seq = F.concat(F.lit(order), F.regexp_extract("path", r"([^/]*)$", 1)).alias("seq")
        if source.connector == "replay":
            return frame.select(seq, text.cast("long").alias("now"))
        return frame.select(
            F.split(text, "-")[0].cast("long").alias("start"),
            F.split(text, "-")[1].cast("long").alias("stop"),
            seq,
            (F.lit(0).cast("long") if self._replays else F.unix_millis(F.current_timestamp())).alias("now"),
        )


def _require(source: SourceSpec) -> None:
    path = source.options["path"]
    if "://" in path and not path.startswith("file:"):
        return
    if not Path(_plain(path)).exists():
        raise OptionError("OPT040", name=source.name, path=path)

"""Sources: what feeds each kind of source (:mod:`connectors.protocol`) from Spark.

Spark decides and logs which splits make up a micro-batch. Its file source does so for files, and for *marker files*: a
marker is a small file that stands for an instant of a virtual clock, a range of generated rows, or files that the
driver lists. Splits that a source plans itself come by :mod:`runtime.spark.split_source`. Contents are read
by the Python workers alone.

When bounded input ends, event time does. Where the driver lists all of the input, the last micro-batch is marked. Other
input has ended when Spark's query has; then :meth:`Sources.close` writes a marker for a query of one more micro-batch.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from stateplan.common.errors import CheckpointError, OptionError, StateplanError
from stateplan.common.files import hadoop_lists, has_pattern_signs, is_reached, literal_for_hadoop, local_path
from stateplan.common.paths import AnyPath
from stateplan.common.settings import parallelism
from stateplan.common.ttl import parse_ttl
from stateplan.connectors.alignment import ALIGNMENT, PartWatermarks
from stateplan.connectors.pace import Pace
from stateplan.connectors.protocol import FileSource, InstantSource, OffsetSource, RangeSource, Source
from stateplan.runtime.active_plan import IdleSource
from stateplan.runtime.beginnings import forget_beginning
from stateplan.runtime.clocks import instants, is_virtual
from stateplan.runtime.file_lists import FileLists, Watch, ends_with_files
from stateplan.runtime.jobgraph import JobGraph, SourceSpec, first_level
from stateplan.runtime.markers import Markers
from stateplan.runtime.memory import TOTAL, task_bytes
from stateplan.runtime.metrics.records import BatchMetrics
from stateplan.runtime.pacing import TARGET, Pacer
from stateplan.runtime.scratch import scratch
from stateplan.runtime.spark.checkpoint_files import CLOSING, INSTANTS, SparkCheckpoint
from stateplan.runtime.spark.hadoop import table_path
from stateplan.runtime.spark.split_source import split_frame

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamReader

    from stateplan.common.secrets import Environment

FILE_SCHEMA = "path string, modificationTime timestamp, length long, content binary"
"""Spark's schema of files that it lists."""

TASK_BYTES = 128 << 20
"""Bytes of files that a micro-batch has for each of its parallel tasks, where the table says nothing else; as much as
Spark packs into one partition. An operator with state has all its rows of a key group in memory at once."""

_TASK_BYTES_STATELESS = 256 << 20
"""The same for a plan without state, whose rows only pass through."""


class Sources:
    """The Spark frames of splits of a job's sources.

    Args:
        graph: the job graph.
        options: session options.
        markers: folder for marker files; part of the checkpoint.
        spark: what Spark wrote of it.
        environment: the environment that references of sources need in the processes that plan.
        counts_batches: whether it counts the micro-batches of several sources, to mark the last one.

    Attributes:
        end_themselves: whether the last micro-batch of the input brings event time to its end.
        target: ms that a micro-batch should take; 0 for no such target.
    """

    def __init__(
        self,
        graph: JobGraph,
        options: Mapping[str, str],
        markers: AnyPath,
        spark: SparkCheckpoint,
        environment: Environment | None = None,
        counts_batches: bool = True,
    ) -> None:
        self._environment = environment
        self._counts_batches = counts_batches
        self._graph = graph
        self._options = options
        self._markers = markers
        self._spark = spark
        self._lists: dict[str, FileLists] = {}
        self._end_marks: str | None = None
        self.end_themselves = False
        self._watch: Watch | None = None
        self._virtual = is_virtual(graph)
        self._part_watermarks: PartWatermarks | None = None
        self.target = parse_ttl(options[TARGET]) if options.get(TARGET) else 0
        self._pacer = Pacer(self.target, {source.uid for source in graph.sources}) if self.target else None
        self._pace = self._job_pace()

    def _job_pace(self) -> Pace | None:
        """What sources that plan themselves learn of the limits of the job."""
        limit = task_bytes(self._options, TASK_BYTES) * parallelism(self._options) if TOTAL in self._options else None
        if limit is None and not self.target:
            return None
        return Pace(scratch("pace") / "rows" if self.target else None, limit)

    def instants(self) -> int:
        """How many instants the tables on the virtual clock have."""
        return len(Markers(self._markers / INSTANTS).names()) if self._virtual else 0

    def trigger_interval(self) -> int:
        """Milliseconds between micro-batches of an unbounded job."""
        interval = self._options.get("execution.checkpointing.interval")
        if interval:
            return parse_ttl(interval)
        least = min((s.reader.interval for s in self._graph.sources if s.reader.interval is not None), default=1000)
        return min(least, self.target) if self.target else least

    def closing_frame(self, spark: SparkSession) -> DataFrame:
        """The streaming frame of the ends of bounded input: column ``now``. Each marker written by :meth:`close` is one
        row."""
        from pyspark.sql import functions as F  # noqa: N812

        markers = Markers(self._markers / CLOSING)
        markers.make()
        frame = spark.readStream.format("binaryFile").schema(FILE_SCHEMA).load(folder_for_spark(markers.folder))
        return frame.select(F.regexp_extract("path", r"[^/]*_([^/]*)$", 1).cast("long").alias("now"))

    def _is_listed(self, source: SourceSpec) -> bool:
        """Whether the driver lists the files of a source: always, once it has."""
        if not isinstance(source.reader, FileSource):
            return False
        if not hadoop_lists(source.reader.path):
            return True
        if (self._markers / source.marks).is_dir():
            return True
        # What looks like a pattern, Spark cannot list where names have colons. With roots, Spark would record the names
        # in a folder elsewhere if a link to it appeared.
        is_confined = self._graph.roots is not None and local_path(source.reader.path) is not None
        is_paced = self._pacer is not None and not source.reader.bounded
        uses_listing = has_pattern_signs(source.reader.path) or ends_with_files(self._graph) or is_confined or is_paced
        return uses_listing and self._spark.last_planned < 0

    @property
    def has_ended(self) -> bool:
        """Whether the last micro-batch that Spark has recorded is marked as the end of input."""
        with contextlib.suppress(OSError, ValueError):  # of a damaged log, Spark's query tells
            return self._spark.input_ended(self._spark.last_planned)
        return False

    def close(self) -> None:
        """Marks the end of bounded input: a query started after it gets one more micro-batch, at the time of the last
        instant of a replay, else now."""
        replay_times = instants(self._graph)
        now = replay_times[-1] if replay_times else time.time_ns() // 1_000_000
        markers = Markers(self._markers / CLOSING)
        markers.add(len(markers.names()), [str(now)])

    def prepare(self) -> None:
        """Checks that input exists and writes the marker files.

        Raises:
            OptionError: OPT040, a path that does not exist.
            DataError: DATA105, files that cannot be listed.
            CheckpointError: CKPT020, an instant that lies before those already played; CKPT001, the checkpoint cannot
                be written.
        """
        for source in self._graph.sources:
            if isinstance(source.reader, OffsetSource):
                source.reader.folder = self._markers / source.marks
                source.reader.pace = self._pace
                if self._spark.last_planned < 0:
                    forget_beginning(source.reader.folder)
            source.reader.check(source.name)
            self._require_file_system(source.reader)
        self._align()
        if self._virtual:
            self._write_markers(INSTANTS, [f"{at}" for at in instants(self._graph)])
        for source in self._graph.sources:
            reader = source.reader
            if isinstance(reader, FileSource) and self._is_listed(source):
                self._lists[source.marks] = self._file_lists(source.name, reader, source.marks)
            if isinstance(reader, RangeSource) and reader.total is not None:
                total, marker_count = reader.total, self._marker_rows(source.marks)
                parts = max(1, min(parallelism(self._options), total - marker_count))
                edges = [marker_count + (total - marker_count) * i // parts for i in range(parts + 1)]
                self._write_markers(source.marks, [f"{a}-{b}" for a, b in pairwise(edges) if a < b])
        self._end()

    def _require_file_system(self, reader: Source[Any]) -> None:
        """Raises DataError DATA107, DATA108 for files on a file system that Spark does not reach: it has many texts
        for that."""
        if isinstance(reader, FileSource) and hadoop_lists(reader.path) and local_path(reader.path) is None:
            table_path(reader.path, self._options)

    @property
    def plan_in_python(self) -> bool:
        """Whether Spark starts Python for a source, to have it plan its splits."""
        return any(isinstance(source.reader, OffsetSource) for source in self._graph.sources)

    @property
    def modules(self) -> set[str]:
        """What the planning of sources imports."""
        readers = (source.reader for source in self._graph.sources)
        return {name for reader in readers if isinstance(reader, OffsetSource) for name in reader.modules}

    def _end(self) -> None:
        """Marks the last micro-batch as the end of input, where the driver lists all of it."""
        lists = list(self._lists.values())
        if not ends_with_files(self._graph) or len(lists) < len(self._graph.sources):
            return
        batches = [files.batches for files in lists]
        is_counted = len(lists) > 1 and max(batches) > 1
        if is_counted and not self._counts_batches:
            return
        if not any(batches) and self.has_ended:
            self.end_themselves = True
            return
        # What a source sends reaches all operators from its own first level on.
        first = min(range(len(lists)), key=lambda index: (first_level(self._graph, index), -batches[index]))
        self.end_themselves = lists[first].end(max(batches))
        if is_counted and self.end_themselves:
            self._end_marks = list(self._lists)[first]

    def begin(self) -> bool:
        """Checks the micro-batch that Spark has planned last.

        Returns:
            False if it was marked as the last one, and is not: Spark has taken other numbers of markers than was
            counted. The mark is taken back, so that a query of its own ends event time.
        """
        if self._end_marks is None:
            return True
        taken_markers = {marks: self._recorded_markers(marks) for marks in self._lists}
        if all(lists.has_all_taken(taken_markers[marks]) for marks, lists in self._lists.items()):
            return True
        if self._lists[self._end_marks].take_back(taken_markers[self._end_marks]):
            self._end_marks, self.end_themselves = None, False
        return self.end_themselves

    def _align(self) -> None:
        """Tells aligned sources where they find each other. Raises CheckpointError CKPT001."""
        folder = self._markers / ALIGNMENT
        aligned_sources = []
        for source in self._graph.sources:
            reader = source.reader
            if isinstance(reader, OffsetSource) and reader.alignment is not None:
                reader.alignment = replace(reader.alignment, folder=folder)
                aligned_sources.append(reader.alignment.source)
        if aligned_sources:
            self._part_watermarks = PartWatermarks(folder, aligned_sources)

    def recall(self, records: Sequence[BatchMetrics]) -> None:
        """Takes in the micro-batches of earlier runs, oldest first."""
        if self._pacer is not None:
            self._pacer.recall(records)
            self._decide(self._pacer.rows)

    def _decide(self, rows: int) -> None:
        """Tells sources how many rows a micro-batch may read. Without disk space, the last number holds."""
        if self._pace is not None:
            with contextlib.suppress(OSError):
                self._pace.decide(rows)

    @property
    def unpaced_tables(self) -> list[str]:
        """The tables with new files of which Spark takes as many as there are, in spite of a target."""
        if self._pacer is None:
            return []
        files = (s for s in self._graph.sources if isinstance(s.reader, FileSource) and not s.reader.bounded)
        return [source.name for source in files if source.marks not in self._lists]

    def advance(self, record: BatchMetrics, parts: Mapping[str, Mapping[str, int]]) -> None:
        """Tells sources what the next micro-batch may read, and aligned ones how far watermarks have advanced.

        Args:
            record: the micro-batch that has ended.
            parts: its parts: source uid -> part -> its watermark, ms since 1970.

        Raises:
            CheckpointError: CKPT001, the checkpoint cannot be written.
            OSError: markers of files cannot be written.
        """
        if self._pacer is not None:
            rows = self._pacer.look(record)
            self._decide(rows)
            for source in self._graph.sources:
                figures = record.operators.get(source.uid, {})
                if source.marks in self._lists and not source.reader.bounded and figures.get("rows_in"):
                    bytes_read = figures.get("bytes_read", 0)
                    self._lists[source.marks].advance(int(bytes_read), int(bytes_read / figures["rows_in"] * rows))
        if self._part_watermarks is not None and parts:
            self._part_watermarks.advance({s.marks: parts[s.uid] for s in self._graph.sources if s.uid in parts})

    def _marker_rows(self, name: str) -> int:
        """How many rows the ranges stand for whose markers an earlier run wrote, whatever its parallelism was."""
        return max((int(text.rpartition("-")[2]) for text in Markers(self._markers / name).texts()), default=0)

    def _file_lists(self, table: str, reader: FileSource, marks: str) -> FileLists:
        """Markers for the files that a source has now."""
        markers = Markers(self._markers / marks)
        markers.make()
        lists = FileLists(
            table,
            reader,
            markers,
            parallelism(self._options),
            self._task_bytes,
            partial(self._recorded_markers, marks),
            is_paced=self._pacer is not None and not reader.bounded,
        )
        lists.reopen()
        lists.look()
        return lists

    def _recorded_markers(self, marks: str) -> set[str]:
        """The markers of a source that Spark has recorded for a micro-batch."""
        last = self._spark.last_planned
        if last < 0:
            return set()
        try:
            paths = [path.rpartition(f"/{marks}/") for path in self._spark.files_read(last)]
        except (OSError, ValueError):  # of a damaged log, Spark's query tells
            return set(Markers(self._markers / marks).names())
        return {name for _, is_match, name in paths if is_match}

    @property
    def _task_bytes(self) -> int:
        return task_bytes(self._options, TASK_BYTES if self._graph.levels else _TASK_BYTES_STATELESS)

    def start(self, fail: Callable[[StateplanError], None]) -> None:
        """Looks for new files from now on, where Spark does not. ``fail`` receives the error that prevents it."""
        unbounded_lists = [lists for lists in self._lists.values() if not lists.source.bounded]
        if unbounded_lists:
            self._watch = Watch(unbounded_lists, fail)

    def stop(self) -> None:
        """Looks for new files no more."""
        if self._watch is not None:
            self._watch.stop()

    def _write_markers(self, name: str, texts: list[str]) -> None:
        """One marker for each text, unless it is there."""
        markers = Markers(self._markers / name)
        markers.make()
        old_texts = markers.texts()
        if old_texts == texts[: len(old_texts)]:
            fresh = texts[len(old_texts) :]
        else:
            late = [t for t in texts if t not in set(old_texts)]
            fresh = [t for t in late if not old_texts or int(t.split("-")[0]) > int(old_texts[-1].split("-")[0])]
            if len(fresh) < len(late):
                raise CheckpointError("CKPT020", late=next(t for t in late if t not in fresh), known=old_texts[-1])
        markers.add(len(old_texts), fresh)

    def frame(self, spark: SparkSession, index: int) -> DataFrame:
        """The streaming frame of splits of source ``index``: columns of its reader's split, ``seq`` and ``now``."""
        source = self._graph.sources[index]
        order = f"{index:04d}/"
        match source.reader:
            case IdleSource() if self._has_file_log(index):
                return self._no_files(spark)
            case OffsetSource() as reader:
                return self._planned_splits(spark, source, reader, order)
            case FileSource() if source.marks in self._lists:
                return self._listed_files(spark, source, order)
            case FileSource() as reader:
                return self._files(spark, source, reader, order)
            case RangeSource(bounded=False) as reader:
                return self._rate(spark, reader, order)
        return self._marked_ranges(spark, source, order)

    def _has_file_log(self, index: int) -> bool:
        """Whether Spark has read files for a source."""
        last = self._spark.last_planned
        return last >= 0 and self._spark.offsets(last).log_offset(self._graph.order.index(index)) >= 0

    def _no_files(self, spark: SparkSession) -> DataFrame:
        """The files of a source that reads none any more. The log of Spark has files of another folder, which Spark
        accepts where the path is a pattern."""
        (self._markers / "idle").mkdir(parents=True, exist_ok=True)
        pattern = f"{folder_for_spark(self._markers)}/idl[e]"
        return spark.readStream.format("binaryFile").schema(FILE_SCHEMA).load(pattern)

    def _planned_splits(
        self, spark: SparkSession, source: SourceSpec, reader: OffsetSource[Any], order: str
    ) -> DataFrame:
        """Splits that a source plans itself."""
        from pyspark.sql import functions as F  # noqa: N812

        frame = split_frame(spark, source.marks, reader, parallelism(self._options), self._environment)
        return frame.select(F.col("split"), F.concat(F.lit(order), F.col("seq")).alias("seq"), _now_column())

    def _listed_files(self, spark: SparkSession, source: SourceSpec, order: str) -> DataFrame:
        """Files that the driver lists."""
        from pyspark.sql import functions as F  # noqa: N812

        lists = self._lists[source.marks]
        marks = spark.readStream.format("binaryFile").schema(FILE_SCHEMA)
        marks = marks.option("maxBytesPerTrigger", lists.bytes_per_trigger).load(folder_for_spark(lists.folder))
        return marks.select(F.col("content"), F.lit(order).alias("seq"), _now_column())

    def _files(self, spark: SparkSession, source: SourceSpec, reader: FileSource, order: str) -> DataFrame:
        """Files that Spark lists."""
        from pyspark.sql import functions as F  # noqa: N812

        files = spark.readStream.format("binaryFile").schema(FILE_SCHEMA).option("recursiveFileLookup", "true")
        if reader.max_files:
            files = files.option("maxFilesPerTrigger", reader.max_files)
        else:
            files = files.option("maxBytesPerTrigger", self._task_bytes * parallelism(self._options))
        seq = F.concat(F.lit(order), F.format_string("%016d/", F.unix_millis("modificationTime")), F.col("path"))
        # Of a file system that Python does not reach, the JVM reads the files.
        read = (
            []
            if is_reached(reader.path)
            else [F.col("content").alias("data"), F.col("modificationTime").alias("modified")]
        )
        file_frame = _load_files(files, source.name, reader.path)
        return file_frame.select(F.col("path"), seq.alias("seq"), _now_column(), *read)

    def _rate(self, spark: SparkSession, reader: RangeSource, order: str) -> DataFrame:
        """Numbers without end."""
        from pyspark.sql import functions as F  # noqa: N812

        rows = max(1, reader.per_second * self.trigger_interval() // 1000)
        frame = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows)
        numbers = frame.option("numPartitions", parallelism(self._options)).load()
        return numbers.select(
            F.col("value").alias("start"),
            (F.col("value") + 1).alias("stop"),
            F.format_string("%s%020d", F.lit(order), F.col("value")).alias("seq"),
            _now_column(),
        )

    def _marked_ranges(self, spark: SparkSession, source: SourceSpec, order: str) -> DataFrame:
        """Ranges of numbers, or instants, each of which has a marker file."""
        from pyspark.sql import functions as F  # noqa: N812

        on_instants = isinstance(source.reader, InstantSource)
        frame = (
            spark.readStream.format("binaryFile")
            .schema(FILE_SCHEMA)
            .option("maxFilesPerTrigger", 1 if on_instants else 1_000_000)
            .load(folder_for_spark(self._markers / source.marks))
        )
        text = F.regexp_extract("path", r"[^/]*_([^/]*)$", 1)
        seq = F.concat(F.lit(order), F.regexp_extract("path", r"([^/]*)$", 1)).alias("seq")
        if on_instants:
            frame = frame.select(seq, text.cast("long").alias("now"))
            tasks = source.reader.tasks if isinstance(source.reader, InstantSource) else 1
            if tasks == 1:
                return frame
            parts = F.explode(F.array(*map(F.lit, range(tasks)))).alias("part")
            return frame.select("seq", "now", parts).repartition(tasks, "part")
        return frame.select(
            F.split(text, "-")[0].cast("long").alias("start"),
            F.split(text, "-")[1].cast("long").alias("stop"),
            seq,
            F.lit(0).cast("long").alias("now") if self._virtual else _now_column(),
        )


def _now_column() -> Column:
    """The time of a micro-batch by Spark's clock, ms."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.unix_millis(F.current_timestamp()).alias("now")


def folder_for_spark(folder: AnyPath) -> str:
    """A folder of the checkpoint as the path of a streaming source. Raises CheckpointError CKPT015."""
    path = str(folder)
    if has_pattern_signs(path):  # Spark reads the files of such a folder twice, or not at all
        raise CheckpointError("CKPT015", folder=folder)
    return literal_for_hadoop(path)


def _load_files(files: DataStreamReader, name: str, path: str) -> DataFrame:
    """The files of a table. Raises OptionError OPT040."""
    from pyspark.errors import AnalysisException

    try:
        return files.load(literal_for_hadoop(path))
    except AnalysisException as cause:
        if cause.getCondition() == "PATH_NOT_FOUND":
            raise OptionError("OPT040", name=name, path=path) from cause
        raise

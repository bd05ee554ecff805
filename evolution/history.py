"""What the sources of a job have read up to a micro-batch, read once more: by a job that makes state of it.

The rows come on a virtual clock. Each is read at the time when it arrived: a file when it was last modified, a row of a
replay at its instant, a message of Kafka at its time, a file of a Delta table when its version was committed. So state
has the ages that it would have if the new plan had always run. Where nothing expires, the clock goes in steps as large
as fit into a micro-batch.

Codes: CKPT054.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from stateplan.common.errors import CheckpointError, DataError, StateplanError
from stateplan.common.files import HADOOP, local_path, scheme_of
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.settings import parallelism
from stateplan.connectors.blackhole import Nothing
from stateplan.connectors.history import HistoryLost, PositionedSource, RepeatableSource
from stateplan.connectors.listing import FileEntry, entries_in
from stateplan.connectors.protocol import FileSource, InstantSource, RangeSource, Sink, Source
from stateplan.connectors.splits import AssignedSplit, FileSplit, InstantSplit, RangeSplit, Split
from stateplan.evolution.history_tables import HistoryTables
from stateplan.evolution.kept_rows import KeptFile, KeptRows, kept_sources, without_ways_to
from stateplan.runtime.beginnings import beginning
from stateplan.runtime.checkpoint.directory import Checkpoint
from stateplan.runtime.checkpoint.slots import Continuation
from stateplan.runtime.inspect.inspection import Snapshot
from stateplan.runtime.jobgraph import JobGraph, Pipeline, SourceSpec, ToOperator, ToReader, ToSink, targets
from stateplan.runtime.markers import END, Markers
from stateplan.runtime.sources import TASK_BYTES
from stateplan.runtime.spark.checkpoint_files import CLOSING, INSTANTS

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

_TTL_PARTS = 1000
"""Where rows expire, the clock goes in steps of at most a thousandth of the shortest TTL."""

_SPLITS = 4
"""A task reads about this number of splits of a source in a micro-batch, where a source cuts them."""


@dataclass(frozen=True)
class Piece:
    """A part of what a source has read.

    Attributes:
        at: when it arrived, ms since 1970.
        size: its bytes; 0 where they are few.
        split: what is read.
        seq: orders it among those of the same instant.
        rest: a split of the same part without rows; None for a source without parts.
    """

    at: int
    size: int
    split: Split
    seq: str
    rest: Split | None = None


@dataclass(frozen=True)
class HistorySource(InstantSource):
    """A source that reads again what another one has read.

    Attributes:
        reader: the other one.
        pieces: what it reads, by instant.
        tasks: in how many tasks.
    """

    reader: Source[Any]
    pieces: Mapping[int, Sequence[Piece]]
    tasks: int

    def check(self, name: str) -> None:
        self.reader.check(name)

    def instants(self) -> list[int]:
        return sorted(self.pieces)

    def bytes_to_read(self) -> int | None:
        sizes = [piece.split.byte_count for some in self.pieces.values() for piece in some if piece.size]
        return sum(sizes) if all(sizes) else None

    def splits(self, batch: pa.RecordBatch) -> Sequence[AssignedSplit[Any]]:
        return [
            AssignedSplit(piece.split, f"{row['seq']}/{piece.seq}", row["now"])
            for row in batch.to_pylist()
            for number, piece in enumerate(self.pieces.get(row["now"], ()))
            if number % self.tasks == row.get("part", 0)  # a single task has no number
        ]

    def read(self, split: Split) -> Iterator[pl.DataFrame]:
        return self.reader.read(split)


@dataclass(frozen=True)
class History:
    """What the sources of a plan have read before, for the operators of a new plan.

    Attributes:
        old: the checkpoint of the old plan.
        sources: for each source of the new plan that continues from one of the old plan, that one.
        operators: the operators of the new plan, those whose state is made anew.
        tasks: parallel tasks.
        batch_bytes: bytes of files for each of them in a micro-batch.
        sinks: what takes the place of sinks, by node of the plan; the others get nothing.
        begins: for each source of the new plan whose history begins later than the source, when; ms.
        tables: the tables that hold rows of its sources.
        keepers: inputs of operators of the new plan, as node and number, that are given rows that were kept.
    """

    old: Snapshot
    sources: Mapping[int, int]
    operators: frozenset[int]
    tasks: int
    batch_bytes: int
    sinks: Mapping[int, Sink] = field(default_factory=dict)
    begins: Mapping[int, int] = field(default_factory=dict)
    tables: HistoryTables = field(default_factory=lambda: HistoryTables({}))
    keepers: frozenset[tuple[int, int]] = frozenset()

    @staticmethod
    def of(
        old: Snapshot, continuation: Continuation, options: Mapping[str, str], tables: HistoryTables | None = None
    ) -> History:
        """What the state is made from that a continuation makes anew, but for that from kept rows. ``tables`` are those
        of the continuation; None for no copies of their rows."""
        anew = continuation.anew - continuation.keepers.keys()
        tasks, tables = parallelism(options), tables or HistoryTables(continuation.tables)
        return History(old, continuation.sources, anew, tasks, TASK_BYTES, begins=continuation.begins, tables=tables)

    @staticmethod
    def all_of(
        old: Snapshot, continuation: Continuation, options: Mapping[str, str], tables: HistoryTables | None = None
    ) -> tuple[History, ...]:
        """As :meth:`of`, and what the state is made from that follows from kept rows; those that make any state."""
        history, operators = History.of(old, continuation, options, tables), frozenset(continuation.keepers)
        keepers = frozenset[tuple[int, int]]().union(*continuation.keepers.values())
        histories = (history, replace(history, operators=operators, keepers=keepers))
        return tuple(history for history in histories if history.operators)

    def of_operators(self, job: JobGraph) -> Iterator[tuple[int, JobGraph | CheckpointError]]:
        """By node of the operators, the part of a job that makes the state of this one, or the error CKPT054 that says
        why its history cannot be read again."""
        for node in sorted(self.operators):
            try:
                yield node, replace(self, operators=frozenset({node})).job(job)
            except CheckpointError as error:
                yield node, error

    def job(self, job: JobGraph, files: Sequence[KeptFile] = ()) -> JobGraph:
        """The part of a job that makes the state, and writes to sinks, over the history of its sources.

        Args:
            job: the job.
            files: with the rows that the keepers have kept.

        Raises:
            CheckpointError: CKPT054, a source cannot be read again.
        """
        numbers = {n for n, spec in enumerate(job.operators) if spec.node in self.operators}
        sinks = frozenset(n for n, sink in enumerate(job.sinks) if sink.node in self.sinks)
        keepers = {(n, i) for n, spec in enumerate(job.operators) for node, i in self.keepers if node == spec.node}
        whole_job, job = job, without_ways_to(keepers, job) if keepers else job
        upstream = _upstream(job, numbers, sinks)
        for n in sorted(upstream):
            if job.operators[n].kernel.by_clock:
                raise self._history_error(job.operators[n].name, "its result depends on the clock")
        # What kept rows are enough for does not use event time.
        has_ended = self._has_ended(not keepers and any(job.operators[n].event_time for n in upstream))
        sources = [replace(s, pipeline=_cut(s.pipeline, upstream, sinks), errors=None) for s in job.sources]
        sources = [s for s in sources if s.pipeline.outputs and s.node in self.sources]
        lifetimes = [config.ttl for n in upstream for config in job.operators[n].ttl if config.ttl]
        step = min(lifetimes) // _TTL_PARTS if lifetimes else None
        pieces = {s.node: list(self.pieces(s, step)) for s in sources}
        row_sources = kept_sources(whole_job, (key for key in keepers if key[0] in upstream), files)
        pieces |= {s.node: list(self._kept_pieces(s)) for s in row_sources}
        steps = _steps(pieces, step, self.batch_bytes * self.tasks)
        operators = tuple(replace(o, pipeline=_cut(o.pipeline, upstream, sinks), late=()) for o in job.operators)
        return replace(
            job,
            sources=tuple(
                replace(
                    s,
                    reader=HistorySource(self._reader(s, step), with_all_parts(steps[s.node]), self.tasks),
                    marks=INSTANTS,
                )
                for s in (*sources, *row_sources)
            ),
            operators=operators,
            sinks=tuple(replace(sink, writer=self.sinks.get(sink.node, Nothing())) for sink in job.sinks),
            open_ended=not has_ended,
        )

    def _reader(self, source: SourceSpec, step: int | None) -> Source[Any]:
        """What reads the rows of a source again."""
        if source.node not in self.tables.tables:
            return source.reader
        return self.tables.source(source.node, step, source.reader)

    def _has_ended(self, uses_event_time: bool) -> bool:
        """Whether input, and with it event time, had ended with the last micro-batch. Raises CheckpointError CKPT005,
        CKPT054."""
        has_ended = Checkpoint.look(self.old.folder).input_ended(self.old.batch)
        if uses_event_time and not has_ended:
            splits = self.old.folder / "splits"
            folders = (splits / name for name in {CLOSING, *(entry.markers for entry in self.old.layout.sources)})
            for folder in folders:
                if any(folder.name == CLOSING or name.endswith(END) for name in Markers(folder).names()):
                    raise self._history_error(
                        "the job", "event time came to its end with the input, and then more rows came"
                    )
        return has_ended

    def pieces(self, source: SourceSpec, step: int | None) -> Iterator[Piece]:
        """What the old job has read of a source. Raises CheckpointError CKPT054.

        Args:
            source: the source of the new plan.
            step: over how much time the rows of a piece may have arrived, ms; None for any.
        """
        old = self.sources[source.node]
        number = next(n for n, entry in enumerate(self.old.layout.sources) if entry.node == old)
        end, since = self.old.spark.offsets(self.old.batch), self.begins.get(source.node)
        reader, markers = source.reader, self.old.layout.sources[number].markers
        if isinstance(reader, FileSource):
            for file in self._files(source, reader, number, since or 0):
                split = FileSplit(file.path, file.size or None)
                yield Piece(file.modified, file.size, split, f"{file.modified:016d}/{file.path}")
            return
        if isinstance(reader, RepeatableSource):
            yield from self._planned_pieces(source, reader, number, step, since)
            return
        names = Markers(self.old.folder / "splits" / markers).names()[: end.log_offset(number) + 1]
        texts = [name.split("_", 1)[1] for name in names]
        if isinstance(reader, InstantSource):
            instants = set(reader.instants())
            yield from (
                Piece(at, 0, InstantSplit(at), "") for at in map(int, texts) if at in instants and at >= (since or at)
            )
        elif isinstance(reader, RangeSource) and reader.total is not None:
            for text in texts:
                start, _, stop = text.partition("-")
                yield Piece(0, 0, RangeSplit(int(start), int(stop)), f"{int(start):020d}")
        else:
            raise self._history_error(
                f"table '{source.name}'", f"the connector '{source.connector}' does not read it again"
            )

    def _kept_pieces(self, source: SourceSpec) -> Iterator[Piece]:
        """The rows that an operator has kept, as if they had just been accessed."""
        assert isinstance(source.reader, KeptRows)
        files = source.reader.files
        now = self.old.spark.offsets(self.old.batch).time - len(files)
        for number, file in enumerate(files):
            yield Piece(now + number, file.size, RangeSplit(number, number + 1), f"{number:010d}")

    def _planned_pieces(
        self, source: SourceSpec, reader: RepeatableSource[Any], number: int, step: int | None, since: int | None
    ) -> Iterator[Piece]:
        """What a source has read whose splits the connector plans. Raises CheckpointError CKPT054."""
        table = f"table '{source.name}'"
        offsets = self.old.spark.offsets(self.old.batch)
        end = offsets.sources[number] if number < len(offsets.sources) else None
        if end is None:
            return
        begin = beginning(self.old.folder / "splits" / self.old.layout.sources[number].markers)
        if begin is None:
            raise self._history_error(table, "the checkpoint does not say where the old job began to read it")
        try:
            size = max(1, self.batch_bytes // _SPLITS)
            if source.node in self.tables.tables and isinstance(reader, PositionedSource):
                splits = self.tables.history(source.node, reader, begin, end, step, size, since)
            else:
                splits = reader.history(begin, end, step, size, since)
            for turn, past in enumerate(splits):
                if past.at is None and (step is not None or since is not None):
                    need = "state of the plan expires" if since is None else "its history begins at a time"
                    raise self._history_error(table, f"it does not say when its rows arrived, and {need}")
                # Nothing arrives later than it is read.
                at = turn if past.at is None else min(past.at, offsets.time)
                yield Piece(at, past.size, past.split, past.seq, past.rest)
        except HistoryLost as reason:
            raise self._history_error(table, str(reason)) from reason
        except StateplanError as cause:
            raise self._history_error(table, f"{cause.code} {cause.message}") from cause

    def _files(self, source: SourceSpec, reader: FileSource, number: int, since: int) -> Iterator[FileEntry]:
        """The files that a source has read and that arrived since some time, each once, and as it was read. Raises
        CheckpointError CKPT054."""
        table = f"table '{source.name}'"
        remote: dict[str, FileEntry] | None = None
        for file in (file for file in self._files_read(number) if file.modified >= since):
            place = local_path(file.path)
            try:
                if place is not None:
                    same = os.stat(place).st_mtime_ns // 1_000_000 == file.modified
                elif scheme_of(file.path) in HADOOP:
                    raise self._history_error(table, f"changes of {file.path} go unnoticed, as it is in HDFS")
                else:
                    remote = {f.path: f for f in reader.files()} if remote is None else remote
                    if file.path not in remote:
                        raise self._history_error(table, f"{file.path} is gone")
                    now = remote[file.path]
                    same = (now.modified, now.size) == (file.modified, file.size)
            except OSError as cause:
                raise self._history_error(table, f"{file.path}: {cause.strerror or cause}") from cause
            except DataError as cause:
                raise self._history_error(table, f"{cause.code} {cause.message}") from cause
            if not same:
                raise self._history_error(table, f"{file.path} was modified after it was read")
            yield file

    def _files_read(self, number: int) -> Iterator[FileEntry]:
        spark = self.old.spark
        for path, modified in spark.files_of(number, self.old.batch):
            marker = spark.marker(path)
            if marker is None:
                yield FileEntry(path, _size(path), modified)
            else:
                yield from entries_in(marker.read_bytes())

    def _history_error(self, subject: str, why: str) -> CheckpointError:
        return CheckpointError("CKPT054", what=subject, why=why, folder=self.old.folder)


def with_all_parts(steps: Mapping[int, Sequence[Piece]]) -> dict[int, list[Piece]]:
    """Pieces by instant, with one without rows for each part that has none then: an operator forgets parts that a
    micro-batch does not name."""
    rests = {p.rest.part: replace(p, split=p.rest, size=0) for some in steps.values() for p in some if p.rest}
    out: dict[int, list[Piece]] = {}
    for at, pieces in steps.items():
        named_parts = {piece.split.part for piece in pieces}
        out[at] = [*pieces, *(rest for part, rest in sorted(rests.items()) if part not in named_parts)]
    return out


def _size(path: str) -> int:
    place = local_path(path)
    try:
        return os.path.getsize(place) if place is not None else 0
    except OSError:
        return 0


def _upstream(job: JobGraph, numbers: set[int], sinks: Collection[int]) -> set[int]:
    """The given operators, and all from which rows reach them or the given sinks."""
    upstream = set(numbers)
    for number in sorted(range(len(job.operators)), key=lambda n: -job.operators[n].level):
        if any(_is_kept(target, upstream, sinks) for target in targets(job.operators[number].pipeline)):
            upstream.add(number)
    return upstream


def _is_kept(target: ToOperator | ToSink | ToReader, operators: Collection[int], sinks: Collection[int]) -> bool:
    """Whether rows go to one of these operators or sinks."""
    if isinstance(target, ToOperator):
        return target.operator in operators
    return isinstance(target, ToSink) and target.sink in sinks


def _cut(pipeline: Pipeline, operators: Collection[int], sinks: Collection[int]) -> Pipeline:
    """A pipeline without what leads to other sinks and operators."""
    outputs: list[Any] = []
    for output in pipeline.outputs:
        if isinstance(output, Pipeline):
            inner = _cut(output, operators, sinks)
            outputs += [inner] if inner.outputs else []
        elif isinstance(output, ToReader) or _is_kept(output, operators, sinks):
            outputs.append(output)
    return Pipeline(pipeline.transforms, tuple(outputs))


def _steps(
    pieces: Mapping[int, Sequence[Piece]], width: int | None, batch_bytes: int
) -> dict[int, dict[int, list[Piece]]]:
    """The instants of the clock, each with what every source reads at it. An instant is the time of the last arrival.

    Args:
        pieces: by source.
        width: how much time an instant may stand for, ms; None for any.
        batch_bytes: how many bytes it may have.
    """
    arrivals = sorted(((p.at, p.seq, node, p) for node, some in pieces.items() for p in some), key=lambda x: x[:3])
    exact = any(isinstance(p.split, InstantSplit) for _, _, _, p in arrivals)
    steps: dict[int, dict[int, list[Piece]]] = {node: {} for node in pieces}
    group: list[tuple[int, Piece]] = []
    first, size = 0, 0

    def close() -> None:
        at = max((p.at for _, p in group), default=0)
        for node, piece in group:
            steps[node].setdefault(at, []).append(piece)

    for at, _, node, piece in arrivals:
        grows = group and at != group[-1][1].at
        full = size + piece.size > batch_bytes or (width is not None and at - first > width)
        if grows and (exact or full):
            close()
            group, size = [], 0
        if not group:
            first = at
        group.append((node, piece))
        size += piece.size
    close()
    return steps

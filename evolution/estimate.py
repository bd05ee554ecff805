"""What it costs to make a checkpoint for a changed plan, and whether it can be made. Nothing is written, and neither
state nor history is read.

The old job may run meanwhile: its last finished micro-batch counts.

Codes: CKPT004, CKPT024, CKPT050, CKPT054, and those of :mod:`runtime.inspect.inspection`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from stateplan.common.errors import CheckpointError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.paths import AnyPath
from stateplan.common.zone import local_time_zone
from stateplan.connectors.splits import FileSplit
from stateplan.evolution.history import History, HistorySource, Piece
from stateplan.evolution.history_tables import HistoryTables
from stateplan.evolution.origins import Origins
from stateplan.evolution.positions import TableSplit
from stateplan.evolution.rates import Rates, reached_operators
from stateplan.runtime.checkpoint.directory import Checkpoint
from stateplan.runtime.checkpoint.rescale import check_key_groups
from stateplan.runtime.checkpoint.slots import OperatorEntry, laid_out
from stateplan.runtime.failures import coded_error
from stateplan.runtime.hashing import slot_label
from stateplan.runtime.inspect.inspection import Snapshot
from stateplan.runtime.inspect.stored_state import run_on_spark, stored_manifests
from stateplan.runtime.jobgraph import JobGraph, OperatorSpec
from stateplan.runtime.metrics.log import recent_metrics
from stateplan.runtime.spark.session import session
from stateplan.runtime.spark.tweaks import Tweaks
from stateplan.runtime.start import Submission, find_place
from stateplan.runtime.state.runs import RunInfo
from stateplan.runtime.translate import translate


@dataclass(frozen=True)
class Cost:
    """What is read to make state.

    Attributes:
        rows, state_bytes: of old state, as it is stored. Older versions of rows and expired rows count.
        files: the files of history.
        table_rows, table_bytes: the rows of tables that hold history of topics, and about their size.
        parts: the other parts of history that is not in files: instants of a replay, ranges of rows.
        history_bytes: of these files.
        seconds: how long it takes, by the metrics of the old job; None where they do not say it.
    """

    rows: int = 0
    state_bytes: int = 0
    files: int = 0
    table_rows: int = 0
    table_bytes: int = 0
    parts: int = 0
    history_bytes: int = 0
    seconds: float | None = None


@dataclass(frozen=True)
class Estimate:
    """What it costs to make a checkpoint.

    Attributes:
        batch: the micro-batch of the old checkpoint that it would be made from.
        costs: by node of the new plan, of each operator that gets state. History that several operators need counts
            for each of them.
        losses: by node of each operator that begins empty because its history cannot be read again, the reason.
        total: of all of them. State and history that several operators need are read once.
    """

    batch: int
    costs: Mapping[int, Cost]
    losses: Mapping[int, str]
    total: Cost


class Survey:
    """A checkpoint that a plan is to continue from.

    Args:
        submission: the plan; its check says which state it can use.
        origin: the checkpoint, or a savepoint.

    Raises:
        CheckpointError: CKPT001, CKPT002, CKPT041, it is no checkpoint, or has no finished micro-batch; CKPT005, it is
            damaged; CKPT004, CKPT050, the options do not fit its key groups; CKPT024, state does not fit; CKPT054,
            history cannot be read again.
        StateplanError: what keeps the plan from being translated, and from ``check_restart``.
    """

    @coded_error()
    def __init__(self, submission: Submission, origin: AnyPath) -> None:
        options = submission.options
        self.options = options
        self.old = Snapshot.open(origin)
        check_key_groups(options, self.old.key_groups, origin)
        self.continuation = submission.check_restart(self.old.plan_text)
        job = translate(
            find_place(submission, Tweaks(options, submission.console)).graph,
            options,
            self.old.key_groups,
            job_id="survey",
            start_time=Checkpoint.look(origin).created,
            secrets=submission.secrets,
        )
        job, layout = laid_out(job, None, None, 1, str(origin))
        old_nodes = {
            *self.continuation.old_operators,
            *(node for node, _ in self.continuation.comparisons.values()),
        }
        self.entries = [entry for entry in self.old.layout.operators if entry.node in old_nodes]
        Origins(self.continuation, self.entries, str(origin)).loads(job, layout, local_time_zone(options))
        self.losses: dict[int, str] = {}
        self._pieces: dict[int, Mapping[int, Sequence[Piece]]] = {}
        self._makers: dict[int, Sequence[OperatorSpec]] = {}
        histories = History.all_of(self.old, self.continuation, options, HistoryTables(self.continuation.tables))
        self._begins = {source for history in histories for source in history.begins}
        for node, part in (each for history in histories for each in history.of_operators(job)):
            if not isinstance(part, CheckpointError):
                self._pieces[node] = _pieces(part)
                self._makers[node] = reached_operators(part)
            elif self.continuation.may_begin_empty:
                self.losses[node] = part.message
            else:
                raise part

    def estimate(self) -> Estimate:
        """What it costs. The sizes of state are those of the metrics of the job, or else of the lists of stored runs,
        which Spark reads. Raises CheckpointError CKPT045."""
        sizes = state_sizes(self.old, self.entries, self.options)
        rates = Rates.of(self.old)
        costs: dict[int, Cost] = {}
        for node, origin in self.continuation.operators.items():
            move = self.continuation.moves.get(node)
            parts = [sizes.get(old, (0, 0)) for old in {origin, *(move.nodes if move is not None else ())}]
            rows, size = (sum(both[place] for both in parts) for place in (0, 1))
            costs[node] = Cost(rows, size, seconds=rates.writing_time(origin, size))
        reading_times: dict[int, float | None] = {}
        running_times: list[float | None] = [cost.seconds for cost in costs.values()]
        for node, sources in self._pieces.items():
            keepers = self.continuation.keepers_of(self.continuation.keepers.get(node, frozenset()))
            nodes = [*keepers]
            nodes += [was for was, _ in [self.continuation.comparisons.get(node, (None, ()))] if was is not None]
            kept_sizes = [sizes.get(was, (0, 0)) for was in nodes]
            read = history_cost(piece for pieces in sources.values() for piece in pieces)
            rows, size = (sum(both[place] for both in kept_sizes) for place in (0, 1))
            origins = {
                source: self.continuation.sources[source] for source in sources if source in self.continuation.sources
            }
            heights = {
                source: _rows(rates, origin, sources[source], source not in self._begins)
                for source, origin in origins.items()
            }
            times = {source: rates.reading_time(origin, heights[source]) for source, origin in origins.items()}
            rows_kept = sum(sizes.get(keeper, (0, 0))[0] for keeper in keepers)
            time = rates.running_time(self._makers[node], _sum([rows_kept, *heights.values()]))
            reading_times |= times
            running_times.append(time)
            costs[node] = replace(read, rows=rows, state_bytes=size, seconds=_sum([time, *times.values()]))
        history = {source: pieces for sources in self._pieces.values() for source, pieces in sources.items()}
        total = history_cost(piece for pieces in history.values() for piece in pieces)
        rows, size = (sum(both[place] for both in sizes.values()) for place in (0, 1))
        return Estimate(
            self.old.batch,
            costs,
            self.losses,
            replace(total, rows=rows, state_bytes=size, seconds=_sum([*reading_times.values(), *running_times])),
        )


def _rows(rates: Rates, origin: int, pieces: Sequence[Piece], is_whole: bool) -> float | None:
    """As :meth:`Rates.rows`, but for pieces of tables, which have as many rows as positions."""
    rows = sum(piece.split.stop - piece.split.start for piece in pieces if isinstance(piece.split, TableSplit))
    others = [piece for piece in pieces if not isinstance(piece.split, TableSplit)]
    more_rows = rates.rows(origin, others, is_whole and not rows) if others or not rows else 0
    return None if more_rows is None else rows + more_rows


def _sum(numbers: Sequence[float | None]) -> float | None:
    """None if one of them is not known, or there are none."""
    return None if None in numbers or not numbers else sum(number for number in numbers if number is not None)


def _pieces(history: JobGraph) -> dict[int, Sequence[Piece]]:
    """What a job that makes state reads, by node of the source."""
    return {
        source.node: [piece for pieces in source.reader.pieces.values() for piece in pieces]
        for source in history.sources
        if isinstance(source.reader, HistorySource)
    }


def history_cost(pieces: Iterable[Piece]) -> Cost:
    """What is read of history, without a time."""
    files = rows = table_size = parts = size = 0
    for piece in pieces:
        if isinstance(piece.split, TableSplit):
            rows, table_size = rows + piece.split.stop - piece.split.start, table_size + piece.size
        else:
            is_file = isinstance(piece.split, FileSplit)
            files, parts, size = files + is_file, parts + (not is_file), size + piece.size
    return Cost(files=files, table_rows=rows, table_bytes=table_size, parts=parts, history_bytes=size)


def _logged_sizes(old: Snapshot, entries: Sequence[OperatorEntry]) -> dict[int, tuple[int, int]] | None:
    """Rows and bytes by node of the old plan, as the metrics of its job say; None where they do not say it of all."""
    record = next((r for r in reversed(recent_metrics(old.folder)) if r.batch == old.batch), None)
    sizes: dict[int, tuple[int, int]] = {}
    for entry in entries:
        size = None if record is None else record.state.get(entry.uid)
        if size is None or size.partial:
            return None
        sizes[entry.node] = sum(size.rows), sum(size.bytes)
    return sizes


def state_sizes(
    old: Snapshot, entries: Sequence[OperatorEntry], options: Mapping[str, str]
) -> dict[int, tuple[int, int]]:
    """Rows and bytes of state by node of the plan of a checkpoint. Raises CheckpointError CKPT045."""
    sizes = _logged_sizes(old, entries)
    return _listed_sizes(old, entries, options) if sizes is None else sizes


def _listed_sizes(
    old: Snapshot, entries: Sequence[OperatorEntry], options: Mapping[str, str]
) -> dict[int, tuple[int, int]]:
    """Rows and bytes by node of the old plan, from the lists of stored runs of its key groups."""
    owners = {slot_label(entry.first + group): entry.node for entry in entries for group in range(old.key_groups)}
    if not owners:
        return {}

    def work() -> dict[int, tuple[int, int]]:
        sizes = dict.fromkeys((entry.node for entry in entries), (0, 0))
        for _, slot, text in stored_manifests(session(options), old):
            if slot in owners:
                rows, size = sizes[owners[slot]]
                runs = _runs(text)
                sizes[owners[slot]] = rows + sum(run.stored_rows for run in runs), size + sum(run.size for run in runs)
        return sizes

    return run_on_spark(old, work)


def _runs(manifest: str) -> Collection[RunInfo]:
    """The parts of runs that a manifest lists, each stored frame once."""
    lists = json.loads(manifest)["tables"].values()
    return {run.id: run for entries in lists for run in (RunInfo(*entry) for entry in entries)}.values()

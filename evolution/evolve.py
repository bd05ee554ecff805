"""A new checkpoint for a changed plan, from the checkpoint of the plan before.

The new plan gets a query of its own. Its first micro-batch loads the state that the new plan can use, in the layout of
the new plan; no row of input is read, and nothing is written to a sink. Its sources then continue where those of the
old query stand. So neither the list of sources nor the chain of operators is fixed, and the old checkpoint stays as it
is.

``stateplan.json`` is written last: a folder without it is no checkpoint, and is filled anew.

Codes: CKPT001, CKPT004, CKPT005, CKPT024, CKPT041, CKPT050, CKPT053 to CKPT056, CKPT070 to CKPT072.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from stateplan.common.changelog import RowKind, column
from stateplan.common.errors import CheckpointError, find_encoded
from stateplan.common.failure_reasons import reason_of, text_of
from stateplan.common.files import HADOOP, scheme_of
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.paths import AnyPath, copy_tree, remove_tree, write_whole
from stateplan.common.readable import amount
from stateplan.common.settings import parallelism
from stateplan.common.zone import local_time_zone
from stateplan.evolution.comparison import DIFFERS
from stateplan.evolution.conversion import StateLoad, loading
from stateplan.evolution.corrections import Recorder, correcting, corrections, recorded_changes, write_files
from stateplan.evolution.history import History, HistorySource
from stateplan.evolution.history_tables import COPIES, CopyRows, HistoryTables, JoinedSource
from stateplan.evolution.kept_rows import FILES, KeptFile, WriteRows
from stateplan.evolution.load_tasks import Receivers, SendState, SendTimes
from stateplan.evolution.loading import load_state
from stateplan.evolution.origins import Origins
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.nodes.sink import Sink as SinkNode
from stateplan.runtime.beginnings import forget_beginning
from stateplan.runtime.checkpoint.directory import Checkpoint, lock_folder
from stateplan.runtime.checkpoint.filling import BACKFILL, CORRECTIONS
from stateplan.runtime.checkpoint.live_ttl import Record, editing, read_ttls
from stateplan.runtime.checkpoint.record import BatchRecord
from stateplan.runtime.checkpoint.rescale import PARALLELISM, check_key_groups, wanted_parallelism
from stateplan.runtime.checkpoint.savepoint import (
    FACTS,
    RECOVERY_PATH,
    begin_filling,
    end_filling,
    other_checkpoint,
    usable_facts,
)
from stateplan.runtime.checkpoint.slots import Continuation, Layout, OperatorEntry, SourceEntry, laid_out
from stateplan.runtime.failures import coded_error
from stateplan.runtime.hashing import slot_label
from stateplan.runtime.inspect.inspection import OperatorState, Snapshot, operator_states
from stateplan.runtime.inspect.stored_state import run_on_spark, stored_runs
from stateplan.runtime.jobgraph import CLOCK, JobGraph, SinkSpec
from stateplan.runtime.memory import CacheSettings, limited
from stateplan.runtime.plan_tables import corrected_kinds
from stateplan.runtime.readers import keep_times
from stateplan.runtime.spark.checkpoint_files import INSTANTS, SparkCheckpoint, spark_operator
from stateplan.runtime.spark.cluster import check_python
from stateplan.runtime.spark.hadoop import CHECKPOINT_DIR, checkpoint_path
from stateplan.runtime.spark.jvm_loss import is_of_spark
from stateplan.runtime.spark.local_spark import compiled
from stateplan.runtime.spark.query import Shipment, Task
from stateplan.runtime.spark.repartition import copy_state
from stateplan.runtime.spark.session import job_session, spark_of
from stateplan.runtime.spark.tweaks import Tweaks
from stateplan.runtime.spark.worker_python import serve_forks
from stateplan.runtime.start import Submission, execute, find_place, require_own_spark
from stateplan.runtime.translate import translate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_WRITER_FOLDER = "written"
"""The folder, there, of the checkpoint of the job that writes corrections."""


@dataclass(frozen=True)
class Evolved:
    """A checkpoint that was made from another one.

    Attributes:
        folder: the folder of the new one.
        batch: the last micro-batch of the old one.
        operators: the operators of the new plan, those that got state.
        seconds: how long it took.
        corrected: by table that got corrections, the number of changes.
    """

    folder: AnyPath
    batch: int
    operators: tuple[str, ...]
    seconds: float
    corrected: Mapping[str, int]


@coded_error()
def evolve(submission: Submission, origin: AnyPath, old_plan: Callable[[str], Submission]) -> Evolved:
    """Fills the checkpoint directory of a job that has not begun from the checkpoint of another one.

    Args:
        submission: the plan; its check says which state it can use.
        origin: the checkpoint or savepoint of a job that has ended.
        old_plan: makes a submission of the text of the old plan.

    Raises:
        CheckpointError: CKPT070, there is none; CKPT071, the directory has a checkpoint; CKPT072, the old job runs, or
            ended in the middle of a micro-batch; CKPT004, CKPT050, the options do not fit its key groups; CKPT024,
            state does not fit; CKPT054, history cannot be read again; CKPT055, an earlier attempt has begun other
            corrections; CKPT056, history gives other values than state; CKPT001, CKPT005, CKPT041, files cannot be
            read or written; CKPT053, Spark cannot write the state.
        OptionError: OPT002, the limit of memory is less than a job takes.
        StateplanError: what keeps the plan from being translated, and from ``check_restart``.
    """
    began = time.monotonic()
    submission = replace(submission, options=limited(submission.options))
    folder = checkpoint_path(submission.options[CHECKPOINT_DIR], submission.options)
    with ExitStack() as undo:
        undo.callback(lock_folder(folder, submission.tell).release)
        if (folder / FACTS).exists():
            is_made = Checkpoint.look(folder).recovered == str(origin)
            raise other_checkpoint(folder, f"{'has been made' if is_made else 'did not start'} from {origin}")
        usable_facts(origin, str(origin))
        old = Snapshot.open(origin)
        check_key_groups(submission.options, old.key_groups, origin)
        continuation = submission.check_restart(old.plan_text)
        try:
            evolution = _Evolution(submission, folder, old, continuation, old_plan)
            operators = evolution.run()
        except OSError as cause:
            raise CheckpointError("CKPT001", folder=folder, strerror=reason_of(cause)) from cause
    return Evolved(folder, old.batch, operators, time.monotonic() - began, evolution.corrected)


@dataclass(frozen=True)
class _Stock:
    """State that the new plan uses.

    Attributes:
        snapshot: the checkpoint that has it.
        states: its operators that are used.
        origins: which operator of the new plan uses which.
    """

    snapshot: Snapshot
    states: Sequence[OperatorState]
    origins: Origins

    def without(self, nodes: Collection[int], options: Mapping[str, str], ttls: Record) -> _Stock:
        """This state, without what operators of the new plan use."""
        continuation = self.origins.continuation
        operators = {node: old for node, old in continuation.operators.items() if node not in nodes}
        return _Stock.of(self.snapshot, replace(continuation, operators=operators), options, ttls)

    @staticmethod
    def of(snapshot: Snapshot, continuation: Continuation, options: Mapping[str, str], ttls: Record) -> _Stock:
        """The state of the operators in a checkpoint that a continuation uses. Raises CheckpointError CKPT024."""
        old_nodes = set(continuation.old_operators)
        old_nodes |= {was for node, (was, _) in continuation.comparisons.items() if node not in continuation.operators}
        states = operator_states(snapshot, continuation.graph, options, ttls)
        states = tuple(state for state in states if state.node.id in old_nodes)
        return _Stock(snapshot, states, Origins(continuation, [s.entry for s in states], str(snapshot.folder)))


class _Evolution:
    """Makes one checkpoint from another.

    Args:
        submission: the plan.
        folder: the folder of the new checkpoint; its lock is held.
        old: the other checkpoint.
        continuation: how the plan continues from its state.
        old_plan: as of :func:`evolve`.
    """

    def __init__(
        self,
        submission: Submission,
        folder: AnyPath,
        old: Snapshot,
        continuation: Continuation,
        old_plan: Callable[[str], Submission],
    ) -> None:
        self.submission = submission
        self.folder = folder
        self.old = old
        if scheme_of(str(folder)) in HADOOP:  # tasks cannot write files there, so that history is read in their place
            continuation = replace(continuation, keepers={})
        self.continuation = continuation
        self.options = limited(self._with_parallelism(submission.options))
        self.tweaks = Tweaks(submission.options, submission.console)
        facts = Checkpoint.look(old.folder)
        self.checkpoint = Checkpoint(
            folder, uuid.uuid4().hex[:12], facts.created, old.key_groups, False, False, submission.plan_text
        )
        self.checkpoint.recovered, self.checkpoint.has_ended = str(old.folder), facts.input_ended(old.batch)
        self.ttls = read_ttls(old.folder)
        self.tables = self._tables(continuation, "new")
        self.old_submission = old_plan(old.plan_text) if continuation.corrected else None
        self.corrected: dict[str, int] = {}

    def _with_parallelism(self, options: Mapping[str, str]) -> dict[str, str]:
        """The options with the parallelism of the old checkpoint, where they say none."""
        if wanted_parallelism(options):
            return dict(options)
        return {PARALLELISM: str(self.old.spark.offsets(self.old.batch).partitions), **options}

    def _tables(self, continuation: Continuation, plan: str) -> HistoryTables:
        """The tables that hold rows of the sources of the old plan, or of the new one."""
        names = partial(self._name, BACKFILL)
        return HistoryTables(continuation.tables, lambda key: self.folder / names([plan, key]), self.submission.tell)

    def run(self) -> tuple[str, ...]:
        """Fills the folder. Returns the names of the operators that got state."""
        place = find_place(self.submission, self.tweaks)
        require_own_spark(self.submission, place)
        job = self._translated(self.submission, place.graph)
        stock = _Stock.of(self.old, self.continuation, self.options, self.ttls)
        copies = stock.origins.copies(job)
        job, layout = laid_out(job, None, self.continuation, 1, str(self.folder), copies)
        zone = local_time_zone(self.options)
        all_loads = stock.origins.loads(job, layout, zone)  # refuses what does not fit before anything is read
        self._forget_results()
        histories = self._histories(job)
        results = self._results(job)
        begin_filling(self.folder, self.old.folder)
        backfills = [folder for history in histories for folder in self._backfill_folders(history)]
        tables = (self.tables, *(history.tables for history in results or ()))
        self._forget(BACKFILL, but=[*backfills, *(folder for some in tables for folder in some.folders)])
        spark = place.spark or self.submission.spark or spark_of(self.options, tweaks=self.tweaks)
        if copies and not self.tweaks.works("stored-state", compiled, spark, "stored-state"):
            copies = {}
        stocks = [stock.without(copies, self.options, self.ttls)]
        for history in histories:
            names = ", ".join(spec.name for spec in job.operators if spec.node in history.operators)
            origin = "rows that others have kept" if history.keepers else "history"
            self.submission.tell(f"making the state of {names} from {origin}")
            files = self._kept_files(spark, job, stock, history) if history.keepers else ()
            self._copy_tables(spark, history, job)
            stocks += self._backfill(place.graph, history, files)
        loads = [stock.origins.loads(job, layout, zone) for stock in stocks]
        self.submission.tell("writing the state into the new checkpoint")
        self._load(spark, job, list(zip(stocks, loads, strict=True)), copies)
        self._correct(spark, place.graph, job, results)
        layout = self._go_on(job, layout)
        self._keep_ttls(job, stock.origins)
        self.checkpoint.record = BatchRecord.of(self.folder, self.checkpoint.id)
        self.checkpoint.layout = layout
        write_whole(self.folder / "plan.json", self.submission.plan_text)
        self.checkpoint.adopt()
        end_filling(self.folder)
        return tuple(
            o.name
            for o, *some in zip(job.operators, all_loads, *loads, strict=True)
            if any(load is not None for load in some)
        )

    # -- state -------------------------------------------------------------------------------------------------------

    def _histories(self, job: JobGraph) -> tuple[History, ...]:
        """What state is made from. Operators whose history cannot be read again begin empty if the user accepts that.
        Raises CheckpointError CKPT054."""
        histories = []
        if self.continuation.tables and scheme_of(str(self.folder)) in HADOOP:
            reason = "rows of other tables are copied, and tasks write no files in HDFS"
            raise CheckpointError("CKPT054", what="tables", why=reason, folder=self.old.folder)
        for history in History.all_of(self.old, self.continuation, self.options, self.tables):
            if not self.continuation.may_begin_empty:
                history.job(job)  # tells what is lost before anything is written
                histories.append(history)
                continue
            losses = {node: part for node, part in history.of_operators(job) if isinstance(part, CheckpointError)}
            for spec in (spec for spec in job.operators if spec.node in losses):
                self.submission.tell(f"{spec.name} starts with empty state: {losses[spec.node].message}")
            if history.operators - losses.keys():
                histories.append(replace(history, operators=history.operators - losses.keys()))
        return tuple(histories)

    def _backfill_folders(self, history: History) -> tuple[AnyPath, AnyPath]:
        """The checkpoint of the job that makes state, and a folder for rows that operators have kept. They have names
        of their own for all that decides what the job reads."""
        name = self._name(BACKFILL, [sorted(history.operators), sorted(history.keepers)])
        return self.folder / name, self.folder / f"{name}-rows"

    def _kept_files(self, spark: SparkSession, job: JobGraph, stock: _Stock, history: History) -> Sequence[KeptFile]:
        """The rows that operators have kept, in files. If all were written by an earlier attempt, they stay. Raises
        CheckpointError CKPT045, CKPT054."""
        _, folder = self._backfill_folders(history)
        listing = folder / "files.json"
        if not listing.exists():
            folder.mkdir(parents=True, exist_ok=True)
            loads = stock.origins.kept_inputs(job, history.keepers, local_time_zone(self.options))
            runs = stored_runs(job_session(spark, self.options), stock.snapshot, stock.states)
            task = WriteRows(runs.slots, job.operators, loads, folder)
            frame = runs.frame
            rows = () if frame is None else run_on_spark(self.old, lambda: frame.mapInArrow(task, FILES).collect())
            write_whole(listing, json.dumps([[operator, number, name, size] for operator, number, name, size in rows]))
        listed_files = json.loads(listing.read_text())
        return [KeptFile(operator, number, folder / name, size) for operator, number, name, size in listed_files]

    def _copy_tables(self, spark: SparkSession, history: History, job: JobGraph) -> None:
        """Copies the rows that a history has in other tables. Raises CheckpointError CKPT045, CKPT054, and what keeps
        the tables from being read."""
        session = job_session(spark, self.options)

        def run(task: CopyRows) -> list[tuple[str, str, int, int, int, int]]:
            tasks = min(len(task.splits), 4 * parallelism(self.options))
            numbers = session.range(0, len(task.splits), 1, max(1, tasks))
            return [tuple(row) for row in numbers.mapInArrow(task, COPIES).collect()]

        for source in history.job(job).sources if history.tables.tables else ():
            reader = source.reader.reader if isinstance(source.reader, HistorySource) else None
            if isinstance(reader, JoinedSource):
                run_on_spark(self.old, partial(history.tables.copy, reader.key, run))

    def _backfill(self, graph: ExecGraph, history: History, files: Sequence[KeptFile]) -> list[_Stock]:
        """State that is made from history, by a job with a checkpoint of its own. If it is killed, the next attempt
        continues there, unless it would read other history, or otherwise. Raises CheckpointError CKPT054, and what
        makes the job fail."""
        folder, _ = self._backfill_folders(history)
        self._run(replace(self.submission, graph=graph), folder, lambda job: history.job(job, files))
        if SparkCheckpoint.of(folder).last_done < 0:
            return []
        own_operators = {node: node for node in history.operators}
        same = Continuation(graph, own_operators, {}, comparisons=self.continuation.comparisons)
        return [_Stock.of(Snapshot.open(folder), same, self.options, Record())]

    def _run(self, submission: Submission, folder: AnyPath, adapt: Callable[[JobGraph], JobGraph]) -> None:
        """Runs another job for this one, with a checkpoint of its own. Raises what makes it fail."""
        settings = {
            CHECKPOINT_DIR: str(folder),
            "pipeline.max-parallelism": str(self.old.key_groups),
            RECOVERY_PATH: "",
        }
        submission = replace(
            submission,
            options={**self.options, **settings},
            check_restart=lambda _: Continuation.same(submission.graph),
            adapt=adapt,
        )
        execute(submission).wait()

    def _name(self, prefix: str, more: object) -> str:
        """A name of its own for all that decides which rows another job reads in which micro-batch."""
        old = Checkpoint.look(self.old.folder)
        facts = (
            str(self.old.folder),
            old.id,
            self.old.batch,
            self.submission.plan_text,
            sorted(self.options.items()),
            more,
        )
        return f"{prefix}-{hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]}"

    def _forget(self, prefix: str, but: Collection[AnyPath]) -> None:
        """Removes the folders of other jobs. ``but`` are kept."""
        for folder in self.folder.glob(f"{prefix}-*"):
            if folder not in but:
                remove_tree(folder)

    def _translated(self, submission: Submission, graph: ExecGraph) -> JobGraph:
        return translate(
            graph,
            self.options,
            self.old.key_groups,
            job_id=self.checkpoint.id,
            start_time=self.checkpoint.created,
            secrets=submission.secrets,
        )

    # -- corrections -------------------------------------------------------------------------------------------------

    @property
    def _corrections_folder(self) -> AnyPath:
        return self.folder / self._name(CORRECTIONS, None)

    def _forget_results(self) -> None:
        """Removes the results of an attempt that was another one. Raises CheckpointError CKPT055 if it has begun to
        write corrections."""
        folder = self._corrections_folder
        if any(other != folder for other in self.folder.glob(f"{CORRECTIONS}-*") if (other / _WRITER_FOLDER).exists()):
            raise CheckpointError("CKPT055.begun", folder=self.folder)
        self._forget(CORRECTIONS, but=[folder])

    def _results(self, job: JobGraph) -> tuple[History, History] | None:
        """What the old plan and the new one have written for the sinks that get corrections; None without any. Raises
        CheckpointError CKPT054."""
        if self.old_submission is None:
            return None
        folder = self._corrections_folder
        pairs = {sink.node: self.continuation.corrected[sink.node] for sink in self._corrected_sinks(job)}
        graph = find_place(self.old_submission, self.tweaks).graph
        self.old_submission = replace(self.old_submission, graph=graph)
        same = replace(Continuation.same(graph), tables=self.old_submission.check_restart(self.old.plan_text).tables)
        old_sinks = {was: Recorder(folder / "old", was) for was in pairs.values() if was is not None}
        new_sinks = {now: Recorder(folder / "new", now) for now in pairs}
        old = replace(History.of(self.old, same, self.options, self._tables(same, "old")), sinks=old_sinks)
        new = History.of(self.old, self.continuation, self.options, self.tables)
        new = replace(new, operators=frozenset(), sinks=new_sinks)
        old.job(self._translated(self.old_submission, graph))
        new.job(job)
        return old, new

    def _corrected_sinks(self, job: JobGraph) -> Iterator[SinkSpec]:
        """The sinks that get corrections. The user is told of those that cannot."""
        for sink in job.sinks:
            if sink.node not in self.continuation.corrected or not sink.writer.needs_rows:
                continue
            kinds = corrected_kinds(_sink(self.submission.graph, sink.node))
            if self.continuation.corrected[sink.node] is not None and RowKind.DELETE not in kinds:
                self.submission.tell(f"table '{sink.name}' gets no corrections: it takes only new rows")
            else:
                yield sink

    def _correct(
        self, spark: SparkSession, graph: ExecGraph, job: JobGraph, results: tuple[History, History] | None
    ) -> None:
        """Brings the rows of sinks to those of the new plan. Raises what makes a job fail."""
        if results is None:
            return
        assert self.old_submission is not None
        folder = self._corrections_folder
        new_submission = replace(self.submission, graph=graph)
        submissions = {"old": self.old_submission, "new": new_submission}
        jobs = {"old": self._translated(self.old_submission, self.old_submission.graph), "new": job}
        for (name, submission), history in zip(submissions.items(), results, strict=True):
            (folder / name).mkdir(parents=True, exist_ok=True)
            if history.sinks:
                self.submission.tell(f"computing the results of the {name} plan from history, for corrections")
                self._copy_tables(spark, history, jobs[name])
                self._run(submission, folder / f"{name}-run", history.job)
        files: dict[int, tuple[AnyPath, ...]] = {}
        for sink in (sink for sink in job.sinks if sink.node in results[1].sinks):
            was, node = self.continuation.corrected[sink.node], _sink(graph, sink.node)
            old = None if was is None else recorded_changes(folder / "old", was)
            takes_before = RowKind.UPDATE_BEFORE in corrected_kinds(node)
            changes = corrections(old, recorded_changes(folder / "new", sink.node), _key(node), takes_before)
            if changes is not None:
                files[sink.node] = write_files(folder, sink.node, changes)
            self.corrected[sink.name] = 0 if changes is None else changes.height
        if files:
            self.submission.tell("writing corrections")
            self._run(new_submission, folder / _WRITER_FOLDER, lambda job: correcting(job, files))
        for table, count in self.corrected.items():
            self.submission.tell(f"table '{table}' got {amount(count, 'correction')}")

    def _load(
        self,
        spark: SparkSession,
        job: JobGraph,
        stocks: Sequence[tuple[_Stock, tuple[StateLoad | None, ...]]],
        copies: Mapping[int, OperatorEntry],
    ) -> None:
        """Runs the micro-batch that loads the state, and copies what stays as it is stored. Raises CheckpointError
        CKPT053."""
        if job.operators:
            check_python(spark)
            serve_forks(spark.sparkContext.pythonExec, self.tweaks)
        session = job_session(spark, self.options)
        receivers = Receivers(tuple(job.slot(n, 0) for n in range(len(job.operators))), job.key_groups)
        times: dict[int, str] = {}
        parts: list[tuple[DataFrame | None, Task]] = []
        for stock, loads in stocks:
            runs = stored_runs(session, stock.snapshot, stock.states)
            times |= stock.origins.times(job, runs.times)
            if runs.frame is not None:
                parts.append((runs.frame, SendState(runs.slots, receivers, loads)))
        parts.append((None, SendTimes(receivers, times)))
        shipment = Shipment(loading(job, [loads for _, loads in stocks]), CacheSettings(None, 0, None, 0))
        markers = self.folder / "splits" / "loading"
        try:
            load_state(session, shipment, job.levels, parts, markers, self.checkpoint.spark.folder)
            self._copy(session, job, copies, {n for _, loads in stocks for n, load in enumerate(loads) if load})
        except Exception as cause:
            coded = find_encoded(text_of(cause))
            if coded is not None:
                if coded.code == DIFFERS:  # the history may be another one when the command runs again
                    self._forget(BACKFILL, but=[])
                raise coded from cause
            if not is_of_spark(cause):
                raise
            raise CheckpointError("CKPT053", folder=self.folder, reason=text_of(cause)[:500]) from cause
        finally:
            remove_tree(markers)

    def _copy(self, session: SparkSession, job: JobGraph, copies: Mapping[int, OperatorEntry], loads: set[int]) -> None:
        """Copies stored state of the old operators to the slots of the new ones; ``loads`` have state already."""
        slots: dict[int, dict[int, list[int]]] = {}
        for spec in (spec for spec in job.operators if spec.node in copies):
            entry = copies[spec.node]
            origin = spark_operator(entry.level, self.old.layout.levels)
            labels = slots.setdefault(spark_operator(spec.level, job.levels), {}).setdefault(origin, [])
            labels += [slot_label(entry.first + group) for group in range(job.key_groups)]
        if slots:
            stateful = {spark_operator(job.operators[number].level, job.levels) for number in loads}
            copy_state(session, self.checkpoint.spark, self.old.spark, self.old.batch, slots, stateful)

    # -- what belongs to it ------------------------------------------------------------------------------------------

    def _go_on(self, job: JobGraph, layout: Layout) -> Layout:
        """Puts the sources of the new query where those of the old one stand. Returns the layout that says so."""
        old_numbers = {entry.node: number for number, entry in enumerate(self.old.layout.sources)}
        origins: dict[int | None, int | None] = {None: None, CLOCK: CLOCK}
        origins.update(self.continuation.sources.items())
        entries: list[SourceEntry] = []
        numbers: list[int | None] = []
        folders: list[tuple[str, str]] = []
        splits = self.folder / "splits"
        copy_tree(self.old.folder / "splits", splits)
        for entry in layout.sources:
            number = old_numbers.get(origins[entry.node]) if entry.node in origins else None
            before = entry.markers if number is None else self.old.layout.sources[number].markers
            if number is not None and number in numbers and before != INSTANTS:  # another source has taken its markers
                copy_tree(self.old.folder / "splits" / before, splits / entry.markers)
            elif number is not None:
                entry = replace(entry, markers=before)
            else:
                forget_beginning(splits / entry.markers)  # of a source of the old plan that has the same name
            numbers.append(number)
            folders.append((before, entry.markers))
            entries.append(entry)
        spark = self.checkpoint.spark
        spark.go_on_from(self.old.spark, self.old.batch, numbers, folders)
        spark.relocate()
        uids = {reader.uid for reader in job.readers}.intersection(self.old.layout.readers)
        readers = keep_times(self.old.folder, self.folder, uids, 1)
        return replace(layout, sources=tuple(entries), readers=readers)

    def _keep_ttls(self, job: JobGraph, origins: Origins) -> None:
        """What was set live continues from the first micro-batch."""
        with editing(self.folder) as record:
            for spec in job.operators:
                for index in range(len(spec.ttl)):
                    key = origins.old_state(spec, index)
                    old = None if key is None else self.ttls.get(key)
                    if old is not None:
                        record[spec.uid, index] = old.for_state((spec.uid, index))


def _sink(graph: ExecGraph, node: int) -> SinkNode:
    sink = graph.node(node)
    assert isinstance(sink, SinkNode)
    return sink


def _key(sink: SinkNode) -> list[str]:
    """The columns of the primary key of a sink's table."""
    names = [name for name, _ in sink.written_fields]
    return [column(names.index(name)) for name in sink.meaning()["primaryKey"]]

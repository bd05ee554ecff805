"""The checkpoint directory of a job: the plan that wrote it, the facts that state depends on, and Spark's own part.

``plan.json`` is the plan of the last run, ``stateplan.json`` what must not change over the life of the state and, for
that plan, which slots of Spark's state belong to which operator (see :mod:`runtime.checkpoint.slots`),
``spark/`` Spark's checkpoint, ``splits/`` marker files of sources without files.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from stateplan.common.errors import CheckpointError, StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.paths import AnyPath, nearest_folder, remove_tree, sorted_paths, write_whole
from stateplan.common.settings import parallelism
from stateplan.execnodes.graph import ExecGraph
from stateplan.runtime.checkpoint.filling import RECOVERING
from stateplan.runtime.checkpoint.live_ttl import LiveTtls, read_ttls
from stateplan.runtime.checkpoint.locks import WRITER_LOCK, WRITERS, FileLock, Lease, writer_lock
from stateplan.runtime.checkpoint.record import LAST_EPOCH, BatchRecord
from stateplan.runtime.checkpoint.rescale import (
    PARALLELISM,
    Rescale,
    check_key_groups,
    check_parallelism,
    last_of_job,
    plan_rescale,
    wanted_groups,
    wanted_parallelism,
)
from stateplan.runtime.checkpoint.savepoint import FACTS, RECOVERY_PATH, end_filling, recover
from stateplan.runtime.checkpoint.slots import AT_RESTART, LAYOUTS, Continuation, Layout, laid_out
from stateplan.runtime.jobgraph import JobGraph
from stateplan.runtime.kernel import END_OF_TIME, NO_WATERMARK
from stateplan.runtime.metrics.log import recent_metrics
from stateplan.runtime.readers import KeptReaders, last_known
from stateplan.runtime.scratch import scratch
from stateplan.runtime.spark.checkpoint_files import SparkCheckpoint
from stateplan.runtime.spark.damage import check_blocks
from stateplan.runtime.spark.hadoop import CHECKPOINT_DIR, checkpoint_path

__all__ = ["Checkpoint", "Continuation", "RestartCheck", "default_key_groups"]

MIN_KEY_GROUPS = 8
"""Fewest key groups of a job that does not set ``pipeline.max-parallelism``."""


def default_key_groups(parallelism: int) -> int:
    """Key groups of a job that does not set ``pipeline.max-parallelism``: four per task, so that the job can grow to
    four times its parallelism. Each one costs some milliseconds per operator and micro-batch."""
    return max(MIN_KEY_GROUPS, 4 * parallelism)


RestartCheck = Callable[[str], Continuation]
"""Given the text of the plan that wrote the checkpoint; raises CheckpointError when the new one must not continue from
it."""

_BEGUN = {WRITER_LOCK, WRITERS, "stateplan.tmp"}
"""What a start that was killed at once leaves in an empty directory."""

_FORMAT = 3
_READABLE = (2, 3)
"""Formats that are read. Format 2 has the types of state columns as Polars describes them."""

_ADOPTIONS = 5
"""How often a checkpoint is looked at again whose plan is being replaced."""


@dataclass
class Checkpoint:
    """An opened checkpoint directory.

    Attributes:
        folder: the directory.
        id: the id of the checkpoint, for the names of files that its jobs write.
        created: when it was made, in milliseconds since 1970.
        key_groups: into which state is split.
        temporary: whether it is removed when the job ends.
        resumed: whether an earlier run wrote to it.
        plan_text: the plan that is to run.
        lock: the right to write to it; :meth:`close` gives it back.
        recovered: the savepoint that it began as a copy of.
        has_ended: of one that was made for a changed plan, whether the input of the old plan had ended.
        place: where its directory was when the last run began.
        savepoint: whether it is one, which no job writes to.
        layouts: what the checkpoint holds, the layout of its plan first; empty before the first run.
        continuation: how the plan continues from the one before; None without one.
        parallelism: the parallelism of the job, if the checkpoint or the user sets it. The state has it after
            ``rescale``.
        record: which micro-batch its jobs have begun last; None for a temporary one.
        rescale: what brings the state to that parallelism; None if it has it.
    """

    folder: AnyPath
    id: str
    created: int
    key_groups: int
    temporary: bool
    resumed: bool
    plan_text: str = ""
    layouts: tuple[Layout, ...] = ()
    recovered: str | None = None
    place: str | None = None
    savepoint: bool = False
    has_ended: bool | None = None
    continuation: Continuation | None = None
    layout: Layout | None = None
    parallelism: int | None = None
    rescale: Rescale | None = None
    lock: FileLock | Lease | None = field(default=None, repr=False)
    record: BatchRecord | None = field(default=None, repr=False)
    _facts: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def spark(self) -> SparkCheckpoint:
        """Spark's part of it."""
        return SparkCheckpoint.of(self.folder)

    @property
    def splits(self) -> AnyPath:
        return self.folder / "splits"

    @staticmethod
    def open(
        options: Mapping[str, str],
        plan_text: str,
        graph: ExecGraph,
        check: RestartCheck,
        tell: Callable[[str], None] | None = None,
        cores: int | None = None,
    ) -> Checkpoint:
        """Opens ``execution.checkpointing.dir``, or a temporary directory where it is not set.

        Args:
            options: the options of the session.
            plan_text, graph: the plan that is to run.
            check: says how it continues from another plan.
            tell: receives a line when another writer may still be there.
            cores: of a cluster: the parallelism of a job for which nobody says another one.

        Raises:
            CheckpointError: CKPT001, the directory cannot be used; CKPT002, it is not a checkpoint; CKPT003, it was
                written by another plan (from ``check``); CKPT004, another number of key groups; CKPT005, damaged;
                CKPT006, Spark has no such file system; CKPT030, another query writes to it; CKPT050, fewer key groups
                than the parallelism; CKPT070 to CKPT073, it cannot begin as a copy of
                ``execution.state-recovery.path``.
        """
        tell = tell or (lambda text: None)
        path = options.get(CHECKPOINT_DIR)
        folder = checkpoint_path(path, options) if path else scratch("checkpoint")
        with ExitStack() as undo:
            lock = lock_folder(folder, tell)
            undo.callback(lock.release)
            if _is_new(folder, options, tell):
                checkpoint = Checkpoint._begun(folder, options, plan_text, cores)
            else:
                checkpoint = Checkpoint._resumed_checkpoint(folder, options, plan_text)
                checkpoint.continuation = checkpoint._go_on(graph, check)  # noqa: SLF001 - of the same class
                checkpoint._scale(options, cores)  # noqa: SLF001 - of the same class
            checkpoint.lock = lock
            undo.pop_all()
        return checkpoint

    @staticmethod
    def _begun(folder: AnyPath, options: Mapping[str, str], plan_text: str, cores: int | None) -> Checkpoint:
        """A new checkpoint. Raises CheckpointError CKPT001, CKPT050."""
        groups = wanted_groups(options) or default_key_groups(wanted_parallelism(options) or cores or parallelism({}))
        check_parallelism(options, groups, is_resumed=False)
        temporary = not options.get(CHECKPOINT_DIR)
        fresh = Checkpoint(folder, uuid.uuid4().hex[:12], _now(), groups, temporary, False, plan_text)
        fresh.parallelism = min(cores, groups) if cores else None
        if not temporary:
            fresh.record = BatchRecord.of(folder, fresh.id)
        fresh._write_facts(())
        write_whole(folder / "plan.json", plan_text)
        return fresh

    @staticmethod
    def _resumed_checkpoint(folder: AnyPath, options: Mapping[str, str], plan_text: str) -> Checkpoint:
        """A checkpoint that an earlier run wrote to, all of whose parts are there. Raises the same errors as
        :meth:`open`."""
        checkpoint = _read(folder, plan_text)
        if checkpoint.savepoint:
            raise CheckpointError("CKPT073", folder=folder, key=CHECKPOINT_DIR, recovery=RECOVERY_PATH)
        checkpoint._compare()  # noqa: SLF001 - of the same class
        checkpoint._settle_in()  # noqa: SLF001 - of the same class
        check_key_groups(options, checkpoint.key_groups, folder)
        return checkpoint

    def settings(self, options: Mapping[str, str]) -> dict[str, str]:
        """The session options with the parallelism that the job runs with: without one, that of the checkpoint."""
        return {**({PARALLELISM: str(self.parallelism)} if self.parallelism else {}), **options}

    def _compare(self) -> None:
        """Compares the parts of the directory with each other. Raises CheckpointError CKPT001, CKPT005, CKPT014,
        CKPT016, CKPT031."""
        self.record = BatchRecord.of(self.folder, self.id)
        with _usable(self.folder):
            self.record.check(self.spark, self._facts, read_ttls(self.folder).writes, last_known(self.folder))

    def begin(self, epoch: int, ttls: LiveTtls, readers: KeptReaders) -> str:
        """A micro-batch begins. Returns the digest of what it reads; nothing for a temporary checkpoint, to which no
        job comes back. Raises the same errors as :meth:`BatchRecord.begin`; CheckpointError CKPT005."""
        if self.record is None:
            return ""
        try:
            return self.record.begin(epoch, self.spark, ttls.writes, readers.last)
        except ValueError as cause:
            raise _damaged(self.spark.folder, str(cause)) from cause

    def _settle_in(self) -> None:
        """Rewrites recorded paths where the directory was moved, copied, or rescaled under another name, or that were
        damaged; removes what a killed job had begun to plan. Raises CheckpointError CKPT001."""
        with _usable(self.folder):
            local = isinstance(self.folder, Path)
            if local or self.place != str(self.folder) or not self.spark.is_plainly_named:
                self.spark.relocate()
            self.spark.forget_unplanned()

    def _scale(self, options: Mapping[str, str], cores: int | None) -> None:
        """Says with which parallelism the job runs. Raises CheckpointError CKPT005."""
        try:
            partitions, rescale = plan_rescale(self.spark, wanted_parallelism(options))
        except (OSError, ValueError) as cause:
            raise _damaged(self.spark.offset_log, str(cause)) from cause
        self.parallelism = partitions or (min(cores, self.key_groups) if cores else None)
        self.rescale = rescale if any(x.levels for x in self.layouts) else None

    @staticmethod
    def look(folder: AnyPath) -> Checkpoint:
        """An existing checkpoint with the plan that it belongs to, to look at: nothing is written, and a job may be
        running on it. Of ``layouts`` there is the one of this plan alone.

        Raises:
            CheckpointError: CKPT001, CKPT002, it does not exist; CKPT005, it is damaged or of another version.
        """
        expectation = "the directory that 'execution.checkpointing.dir' named when a job ran"
        try:
            entries = {p.name for p in folder.iterdir()}
        except OSError as cause:
            raise CheckpointError(
                "CKPT001",
                folder=folder,
                strerror=cause.strerror or cause,
                expected=expectation,
                hint=nearest_folder(folder),
            ) from cause
        if FACTS not in entries:
            inside = next((p.parent for p in sorted_paths(folder.glob(f"*/{FACTS}"))), None)
            raise CheckpointError(
                "CKPT002", folder=folder, hint=None if inside is None else f"did you mean '{inside}'?"
            )
        plan_file = folder / "plan.json"
        for attempt in range(_ADOPTIONS):
            checkpoint = _read(folder, "")
            try:
                checkpoint.plan_text = plan_file.read_text() if plan_file.exists() else ""
            except (OSError, ValueError) as cause:
                raise _damaged(plan_file, str(cause)) from cause
            if not checkpoint.layouts:
                return checkpoint
            checkpoint.layouts = tuple(x for x in checkpoint.layouts if x.plan == _digest(checkpoint.plan_text))[:1]
            if checkpoint.layouts:
                return checkpoint
            time.sleep(0.05 * attempt)  # a job may be putting another plan in its place just now
        raise _damaged(plan_file, "it is not the plan that the checkpoint was written with")

    def input_ended(self, batch: int) -> bool:
        """Whether bounded input had ended with a micro-batch. Raises CheckpointError CKPT005."""
        if batch == 0 and self.has_ended is not None:
            return self.has_ended
        try:
            return self.spark.input_ended(batch)
        except (OSError, ValueError) as cause:
            raise _damaged(self.spark.offset_log, str(cause)) from cause

    def past_ttls(self) -> dict[int, list[int]]:
        """By node of its plan, the shortest TTL that each state has had, ms; 0 for one whose rows have never expired.
        Raises CheckpointError CKPT031."""
        record = read_ttls(self.folder)
        ttls: dict[int, list[int]] = {}
        for entry in (entry for layout in self.layouts[:1] for entry in layout.operators):
            indices = [index for uid, index in record if uid == entry.uid]
            states = [record.get((entry.uid, index)) for index in range(max(indices, default=-1) + 1)]
            ttls[entry.node] = [0 if state is None else state.shortest for state in states]
        return ttls

    def watermarks(self) -> dict[int, int]:
        """By node of its plan, up to where event time has come with the last micro-batch; nothing where the metrics of
        its job do not say it."""
        batches = self.spark.committed_batches
        record = next((r for r in reversed(recent_metrics(self.folder)) if batches and r.batch == batches[-1]), None)
        entries = [entry for layout in self.layouts[:1] for entry in layout.operators if entry.channels]
        if record is None:
            return {}
        return {e.node: min(record.watermarks.get(e.uid, NO_WATERMARK), END_OF_TIME) for e in entries}

    def _go_on(self, graph: ExecGraph, check: RestartCheck) -> Continuation:
        if not self.layouts:  # no run has come as far as to state
            return Continuation.same(graph)
        plan_file = self.folder / "plan.json"
        if not plan_file.exists():
            raise _damaged(plan_file, "it is missing")
        try:
            old = plan_file.read_text()
        except (OSError, ValueError) as cause:
            raise _damaged(plan_file, str(cause)) from cause
        self.layouts = tuple(layout for layout in self.layouts if layout.plan == _digest(old))
        if not self.layouts:
            raise _damaged(plan_file, "it is not the plan that the checkpoint was written with")
        if old == self.plan_text:
            return Continuation.same(graph)
        try:
            return check(old)
        except CheckpointError:
            if not self._is_unused:
                raise
            self._begin_anew()
            return Continuation.same(graph)
        except StateplanError as cause:
            raise _damaged(plan_file, cause.message) from cause

    @property
    def _is_unused(self) -> bool:
        """Whether no run has come as far as to its first micro-batch, so that there is no position and no state."""
        try:
            return self.spark.is_unused
        except OSError:  # of a damaged log, Spark's query tells
            return False

    def _begin_anew(self) -> None:
        """Removes what sources have prepared for a first micro-batch."""
        self.layouts = ()
        remove_tree(self.splits)
        self.spark.forget_sources()

    def fit(self, job: JobGraph) -> JobGraph:
        """The job with the slots that the checkpoint has for its operators.

        Raises:
            CheckpointError: CKPT014, a part of the state is damaged; CKPT021, CKPT022, CKPT024, it has no place for
                them.
        """
        before = self.layouts[0] if self.layouts else None
        continuation = None if before is None else self.continuation
        job, self.layout = laid_out(job, before, continuation, self.next_batch(), str(self.folder))
        with _usable(self.folder):
            check_blocks(self.spark, job.operators)
        return job

    def followed_by(self, plan_text: str, continuation: Continuation) -> Checkpoint:
        """The checkpoint of a job that continues with another plan while it runs: with the next micro-batch, as soon as
        it is adopted.

        Args:
            plan_text: the plan.
            continuation: how it continues from the plan that runs.
        """
        assert self.layout is not None
        layout = replace(self.layout, plan=_digest(self.plan_text))
        return replace(self, plan_text=plan_text, layouts=(layout,), continuation=continuation, rescale=None)

    def keep_dropped(self) -> None:
        """Says that the state of operators that are gone is dropped when a job starts again, and not before."""
        assert self.layout is not None
        dropped = tuple(replace(d, since=AT_RESTART) for d in self.layout.dropped)
        self.layout = replace(self.layout, dropped=dropped)

    def next_batch(self) -> int:
        """The first micro-batch of the job that will run."""
        return self.spark.last_done + 1 if self.rescale is None else self.rescale.next_batch

    def last_batch(self) -> int:
        """The last micro-batch of the job that has been committed, -1 for none."""
        return last_of_job(self.spark)

    def require_unfinished(self) -> None:
        """Of a batch job: its input must not have been brought to its end.

        Raises:
            CheckpointError: CKPT060; CKPT005, it is damaged.
        """
        if self.input_ended(self.spark.last_done):
            raise CheckpointError("CKPT060", folder=self.folder)

    def adopt(self) -> None:
        """From now on the checkpoint is that of the new plan."""
        assert self.layout is not None
        layout = replace(self.layout, plan=_digest(self.plan_text))
        # Should the machine fail between the two writes, the old plan is there with its layout.
        self._write_facts((layout, *self.layouts[:1]))
        write_whole(self.folder / "plan.json", self.plan_text)

    def _write_facts(self, layouts: tuple[Layout, ...]) -> None:
        facts: dict[str, Any] = {"format": _FORMAT, "id": self.id, "created": self.created, "place": str(self.folder)}
        if self.recovered is not None:
            facts["recovered"] = self.recovered
        if self.has_ended is not None:
            facts["ended"] = self.has_ended
        facts |= {"keyGroups": self.key_groups, "layouts": LAYOUTS.dump_python(layouts, mode="json")}
        if self.record is not None:
            facts[LAST_EPOCH] = self.record.last
            if layouts:  # the first file of a new directory is stateplan.json
                self.record.adopt(self._facts, facts)
        write_whole(self.folder / FACTS, json.dumps(facts, indent=1) + "\n")
        self._facts = facts

    def ttls(self, job: JobGraph, graph: ExecGraph, tell: Callable[[str], None]) -> LiveTtls:
        """How long the states of ``job`` live from which micro-batch on, as the checkpoint and its plan have it.

        Args:
            job, graph: the plan that is to run.
            tell: receives notes for the user, a line each.

        Raises:
            CheckpointError: CKPT031 to CKPT033.
        """
        ttls = LiveTtls(self.folder, job.operators, self.spark.last_planned, tell)
        before = {o.node: o.uid for o in self.layouts[0].operators} if self.layouts else {}
        went_on = self.continuation.operators if self.continuation else {}
        came = {o.uid: before[went_on[o.node]] for o in job.operators if went_on.get(o.node) in before}
        names = {
            (o.uid, i): f"{o.name}.{name}"
            for o in job.operators
            for i, name in enumerate(graph.node(o.node).state_names)
        }
        ttls.begin(came, names)
        return ttls

    def readers(self, job: JobGraph) -> KeptReaders:
        """What the steps of ``job`` read that read how far event time has advanced. Raises CheckpointError CKPT005."""
        before = self.layouts[0].readers if self.layouts else ()
        return KeptReaders(job.readers, self.folder, before, self.next_batch())

    def close(self) -> None:
        """Lets others write to it; removes a temporary one."""
        if self.lock is not None:
            self.lock.release()
        if self.temporary:
            remove_tree(self.folder)


def lock_folder(folder: AnyPath, tell: Callable[[str], None]) -> FileLock | Lease:
    """The right to write to a directory, which is made if need be. Raises CheckpointError CKPT001, CKPT002, CKPT030."""
    with _usable(folder):
        folder.mkdir(parents=True, exist_ok=True)
        entries = {p.name for p in folder.iterdir()}
        if entries - _BEGUN and entries.isdisjoint((FACTS, RECOVERING)):
            raise _no_checkpoint(folder)
        return writer_lock(folder, tell)


def _is_new(folder: AnyPath, options: Mapping[str, str], tell: Callable[[str], None]) -> bool:
    """Whether a directory holds no checkpoint, once it has become a copy of the savepoint that the options name. Raises
    CheckpointError CKPT001, CKPT070 to CKPT073, CKPT075."""
    with _usable(folder):
        if options.get(RECOVERY_PATH):
            recover(options[RECOVERY_PATH], folder, options, tell)
        elif (folder / RECOVERING).exists() and not (folder / FACTS).exists():
            origin = (folder / RECOVERING).read_text().strip()
            raise CheckpointError("CKPT075", folder=folder, origin=origin, dir_key=CHECKPOINT_DIR, key=RECOVERY_PATH)
        is_new = not (folder / FACTS).exists()
        if not is_new and (folder / RECOVERING).exists():  # it was filled, and then its process was killed
            end_filling(folder)
        return is_new


@contextmanager
def _usable(folder: AnyPath) -> Iterator[None]:
    """Raises CheckpointError CKPT001 for what the file system refuses within."""
    try:
        yield
    except OSError as cause:
        raise CheckpointError("CKPT001", folder=folder, strerror=cause.strerror or cause) from cause


def _read(folder: AnyPath, plan_text: str) -> Checkpoint:
    """The checkpoint in ``folder``, without a look at its plan."""
    file = folder / FACTS
    try:
        facts = json.loads(file.read_text())
        version = facts["format"]
        if version not in _READABLE:
            raise CheckpointError("CKPT005", folder=folder, version=version, format=_FORMAT)
        layouts = LAYOUTS.validate_python([_with_former_columns(layout) for layout in facts["layouts"]])
        name, created_at, groups = str(facts["id"]), int(facts["created"]), int(facts["keyGroups"])
        origin, place = facts.get("recovered"), facts.get("place")
        if LAST_EPOCH in facts:
            facts[LAST_EPOCH] = int(facts[LAST_EPOCH])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as cause:
        raise _damaged(file, str(cause)) from cause
    checkpoint = Checkpoint(
        folder, name, created_at, groups, False, True, plan_text, layouts, origin, place, "savepoint" in facts
    )
    checkpoint.has_ended = facts.get("ended")
    checkpoint._facts = facts  # noqa: SLF001 - of the same class
    return checkpoint


def _with_former_columns(layout: Mapping[str, Any]) -> Mapping[str, Any]:
    """The JSON of a layout. In earlier releases, state got the columns of its plan in the first micro-batch of a run,
    which may not have come."""
    operators = [
        {**entry, "former_columns": {entry["version"] - 1: entry["rewrite"]}} if entry.get("rewrite") else entry
        for entry in layout["operators"]
    ]
    return {**layout, "operators": operators}


def _no_checkpoint(folder: AnyPath) -> CheckpointError:
    return CheckpointError(
        "CKPT002",
        folder=folder,
        expected="an empty directory, or one that an earlier run wrote",
        hint="set another 'execution.checkpointing.dir'",
    )


def _damaged(file: AnyPath, why: str) -> CheckpointError:
    return CheckpointError("CKPT005.damaged_file", file=file, why=why)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _now() -> int:
    return time.time_ns() // 1_000_000

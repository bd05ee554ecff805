"""Savepoints: what a job has kept by the end of a micro-batch, copied, for other jobs to start from.

A savepoint has what a checkpoint directory has, without locks and metrics. ``stateplan.json`` is written last: a folder
without it is what a copy left that was cut off. A job that starts from a savepoint copies it into its own checkpoint
directory, and is a new job: it has another id, in Spark and in the names of the files that it writes.

Source: Flink's savepoints (``STOP JOB ... WITH SAVEPOINT``, ``execution.state-recovery.path``), always in the claim
mode NO_CLAIM of FLIP-203.

Codes: CKPT005, CKPT070 to CKPT074, RUN058.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from stateplan.common.errors import CheckpointError, RunError, nearest
from stateplan.common.failure_reasons import reason_of
from stateplan.common.paths import AnyPath, copy_tree, create, remove_tree, sorted_paths, write_whole
from stateplan.runtime.checkpoint.filling import BACKFILL, CORRECTIONS, RECOVERING
from stateplan.runtime.checkpoint.live_ttl import read_ttls
from stateplan.runtime.checkpoint.locks import running_writer
from stateplan.runtime.checkpoint.record import LAST_EPOCH, RECORD, BatchRecord
from stateplan.runtime.readers import forget_later, last_known
from stateplan.runtime.spark.checkpoint_files import SparkCheckpoint
from stateplan.runtime.spark.hadoop import CHECKPOINT_DIR, checkpoint_path

FACTS = "stateplan.json"
"""The file of a checkpoint with what must not change over the life of its state."""
SAVEPOINT_DIR = "execution.checkpointing.savepoint-dir"
RECOVERY_PATH = "execution.state-recovery.path"

_COPIES = 5
"""How often a checkpoint is copied whose job is faster."""

PARTS = ("plan.json", "ttl.json", "watermarks.json", "splits", "spark", RECORD)
"""What is copied of a checkpoint, besides its facts."""


def new_savepoint(options: Mapping[str, str], job_id: str) -> AnyPath:
    """The folder of a new savepoint, in ``execution.checkpointing.savepoint-dir``. Its name is as Flink's.

    Args:
        options: the options of the session.
        job_id: the id of the job.

    Raises:
        RunError: RUN058, the option is not set.
        CheckpointError: CKPT001, CKPT006, the directory cannot be reached.
    """
    directory = options.get(SAVEPOINT_DIR)
    if not directory:
        raise RunError("RUN058", key=SAVEPOINT_DIR)
    return checkpoint_path(directory, options) / f"savepoint-{job_id[:6]}-{uuid.uuid4().hex[:12]}"


def write_savepoint(checkpoint: AnyPath, savepoint: AnyPath, is_drained: bool = False) -> None:
    """Copies a checkpoint. Nothing may write to it meanwhile, and its last micro-batch must be finished.

    Args:
        checkpoint: its directory.
        savepoint: a folder that does not exist.
        is_drained: whether event time was brought to its end.

    Raises:
        CheckpointError: CKPT074, it cannot be written; nothing is left of it.
    """
    try:
        facts = _read_facts(checkpoint)
        spark = SparkCheckpoint.of(checkpoint)
        facts["savepoint"] = {
            "micro-batch": spark.last_done,
            "at": time.time_ns() // 1_000_000,
            "drained": is_drained,
        }
        _copy(checkpoint, savepoint)
        SparkCheckpoint.of(savepoint).relocate()
        _write_facts(savepoint, facts)
    except (OSError, ValueError) as cause:
        remove_tree(savepoint)
        raise CheckpointError("CKPT074", folder=savepoint, reason=reason_of(cause)) from cause
    except BaseException:
        remove_tree(savepoint)
        raise


def recover(text: str, folder: AnyPath, options: Mapping[str, str], tell: Callable[[str], None]) -> None:
    """Makes a checkpoint directory begin as a copy of a savepoint, or of the checkpoint of a job that has ended. One
    that has begun so before stays as it is.

    Args:
        text: the path of the savepoint.
        folder: the checkpoint directory; its lock is held.
        options: the options of the session.
        tell: receives a note for the user.

    Raises:
        CheckpointError: CKPT070, it is not a savepoint; CKPT071, the directory has another checkpoint; CKPT072, it is
            the checkpoint of a running job, or of one that was stopped in the middle of a micro-batch; CKPT001,
            CKPT005, CKPT006, CKPT014, CKPT016, files cannot be read or written.
    """
    origin = checkpoint_path(text, options)
    try:
        if (folder / FACTS).exists():
            if _read_facts(folder).get("recovered") != str(origin):
                raise other_checkpoint(folder, f"did not start from {text}")
            return
        facts = usable_facts(origin, text)
        savepoint_facts: Mapping[str, Any] = facts.pop("savepoint", {})
        facts.pop(LAST_EPOCH, None)  # the record is of another job
        begin_filling(folder, origin)
        _copy(origin, folder)
        SparkCheckpoint.of(folder).forget_id()
        (folder / RECORD).unlink(missing_ok=True)
        _write_facts(folder, {**facts, "id": uuid.uuid4().hex[:12], "recovered": str(origin)})
        end_filling(folder)
    except (OSError, ValueError, KeyError, TypeError) as cause:
        raise CheckpointError("CKPT005.savepoint", path=text, why=reason_of(cause)) from cause
    tell(f"starting from {'the savepoint' if savepoint_facts else 'the checkpoint'} {origin}")
    if savepoint_facts.get("drained"):
        tell(
            "the savepoint was taken WITH DRAIN: windows that were written before their end are written again if more "
            "rows come for them"
        )


def copy_finished(text: str, folder: AnyPath, options: Mapping[str, str]) -> int:
    """Copies a checkpoint or savepoint as of its last finished micro-batch. A job may write to it meanwhile: files of
    a finished micro-batch stay as they are, for as long as Spark knows the micro-batch.

    Args:
        text: the path of the checkpoint.
        folder: the folder of the copy; a checkpoint as of a job that has ended.
        options: the options of the session.

    Returns:
        The micro-batch.

    Raises:
        CheckpointError: CKPT070, there is none; CKPT041, no micro-batch has finished; CKPT072, its job does not leave
            the time to copy it; CKPT001, CKPT005, CKPT006, CKPT014, files cannot be read or written.
    """
    origin = checkpoint_path(text, options)
    try:
        for _ in range(_COPIES):
            remove_tree(folder)
            facts = _facts_of(origin, text)
            batch = SparkCheckpoint.of(origin).last_done
            if batch < 0:
                raise CheckpointError("CKPT041", folder=origin)
            _copy(origin, folder, changing=True)
            spark = SparkCheckpoint.of(folder)
            spark.forget_after(batch)
            is_whole = forget_later(folder, batch + 1) and spark.last_done == batch == spark.last_planned
            if is_whole and batch in SparkCheckpoint.of(origin).committed_batches:
                (folder / RECORD).unlink(missing_ok=True)
                spark.forget_id()
                spark.relocate()
                _write_facts(folder, {key: fact for key, fact in facts.items() if key not in (LAST_EPOCH, "savepoint")})
                return batch
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as cause:
        raise CheckpointError("CKPT005.savepoint", path=text, why=reason_of(cause)) from cause
    raise CheckpointError("CKPT072", path=text, why="its job finishes micro-batches faster than it can be copied")


def other_checkpoint(folder: AnyPath, origin: str) -> CheckpointError:
    """The error of a directory that is to be filled and holds a checkpoint, with where that is from."""
    return CheckpointError("CKPT071", folder=folder, key=RECOVERY_PATH, origin=origin, dir_key=CHECKPOINT_DIR)


def usable_facts(origin: AnyPath, text: str) -> dict[str, Any]:
    """The facts of a savepoint, or of the checkpoint of a job that has ended, all of whose parts are there.

    Args:
        origin: its folder.
        text: its path as the user gave it.

    Raises:
        CheckpointError: as :func:`recover`.
        OSError, ValueError: it cannot be read.
    """
    facts = _facts_of(origin, text)
    if "savepoint" not in facts:
        _require_ended(origin, text)
    record = BatchRecord.of(origin, str(facts.get("id")))
    record.check(SparkCheckpoint.of(origin), facts, read_ttls(origin).writes, last_known(origin))
    return facts


def begin_filling(folder: AnyPath, origin: AnyPath) -> None:
    """A checkpoint directory is about to be filled from ``origin``: removes what an attempt that was killed has left.
    Until it has ``stateplan.json``, the file ``recovering`` says so. Raises OSError."""
    create(folder / RECOVERING, f"{origin}\n".encode())
    for name in PARTS:
        part = folder / name
        remove_tree(part) if part.is_dir() else part.unlink(missing_ok=True)


def end_filling(folder: AnyPath) -> None:
    """A checkpoint directory is filled: removes what only its filling needed. Raises OSError."""
    for part in (part for name in (BACKFILL, CORRECTIONS) for part in sorted_paths(folder.glob(f"{name}-*"))):
        remove_tree(part)
    (folder / RECOVERING).unlink(missing_ok=True)


def _facts_of(origin: AnyPath, text: str) -> dict[str, Any]:
    """The facts of a savepoint or checkpoint. Raises CheckpointError CKPT070, OSError, ValueError."""
    if (origin / FACTS).is_file():
        return _read_facts(origin)
    hint = None
    if origin.is_dir():
        inner = next((p.parent for p in sorted_paths(origin.glob(f"*/{FACTS}"))), None)
        hint = None if inner is None else f"did you mean '{inner}'?"
    elif origin.parent.is_dir():
        hint = nearest(origin.name, (p.name for p in origin.parent.iterdir()))
    problem = "holds no savepoint" if origin.is_dir() else "is no folder" if origin.exists() else "does not exist"
    raise CheckpointError("CKPT070", path=text, what=problem, key=RECOVERY_PATH, hint=hint)


def _require_ended(origin: AnyPath, text: str) -> None:
    """Of a checkpoint: no job runs on it, and its last micro-batch is finished, so that no other job repeats it.

    Raises:
        CheckpointError: CKPT072.
        OSError: it cannot be read.
    """
    writer = running_writer(origin)
    if writer is not None:
        raise CheckpointError("CKPT072", path=text, why=f"a job runs on it ({writer})")
    spark = SparkCheckpoint.of(origin)
    if spark.last_planned != spark.last_done:
        why = f"its job ended in the middle of micro-batch {spark.last_planned}"
        raise CheckpointError("CKPT072", path=text, why=why)


def _read_facts(folder: AnyPath) -> dict[str, Any]:
    facts = json.loads((folder / FACTS).read_text())
    if not isinstance(facts, dict):
        raise ValueError(f"{FACTS} is not an object")
    return facts


def _write_facts(folder: AnyPath, facts: Mapping[str, Any]) -> None:
    write_whole(folder / FACTS, json.dumps(facts, indent=1) + "\n")


def _copy(source: AnyPath, target: AnyPath, changing: bool = False) -> None:
    """Copies the parts of a checkpoint, with the times of files: Spark takes marker files in their order."""
    target.mkdir(parents=True, exist_ok=True)
    for name in PARTS:
        copy_tree(source / name, target / name, changing)

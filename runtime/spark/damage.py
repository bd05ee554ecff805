"""Exceptions of Spark as coded errors; which file of a checkpoint is damaged, when Spark fails over one.

Spark's messages say it somewhere in an exception of the file system, or not at all. So the checkpoint itself is asked:
files have checksums, and it is known which files the state of a micro-batch consists of: a snapshot, the SST files that
it names, and a changelog for each micro-batch after it.

Code: CKPT014.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import re
import shutil
import struct
import tempfile
import zipfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from stateplan.common.disk import FULL, existing_folder, full_error, is_full
from stateplan.common.errors import CheckpointError, RunError, StateplanError, find_encoded
from stateplan.common.failure_reasons import REASONS, kind_in, text_of
from stateplan.common.paths import AnyPath, inside, sorted_paths
from stateplan.runtime.spark.checkpoint_files import (
    RESTORE,
    BatchOffsets,
    SparkCheckpoint,
    Stateful,
    content_of,
    damage_of,
)
from stateplan.runtime.spark.jvm_loss import jvm_loss_behind
from stateplan.runtime.spark.session import keep_log, last_printed

_SIGNS = (
    "CANNOT_LOAD_STATE_STORE",
    "STREAMING_CHECKPOINT_MISSING_METADATA_FILE",
    "STDS_FAILED_TO_READ_OPERATOR_METADATA",
    "Checksum",
    "Failed to read log file",
    "Incomplete log file",
    "FileNotFoundException",
    "doesn't exist",
    "does not exist",
    "MISSING_STATE_DIRECTORY",
    "[INTERNAL_ERROR]",
    "terminated with exception:  SQLSTATE",
    "EOFException",
    "Unexpected character",
    "Unrecognized token",
    "JsonParseException",
    "No usable value",
    "Illegal unquoted character",
    "Illegal character",
    "RocksDBException",
    ".sst",
    "MalformedInputException",
    "OutOfMemoryError",
    "STATE_STORE_INCORRECT_NUM_PREFIX_COLS_FOR_PREFIX_SCAN",
    "UNSUPPORTED_DATATYPE",
)
"""What Spark's messages hold when a file of a checkpoint cannot be read."""

_OF_STATE = {
    "CANNOT_LOAD_STATE_STORE": "cannot be loaded by Spark",
    "STATE_STORE_INCORRECT_NUM_PREFIX_COLS_FOR_PREFIX_SCAN": "has a schema that Spark cannot read",
    "UNSUPPORTED_DATATYPE": "has a schema that Spark cannot read",
}
"""What is wrong with the state where Spark's message names one of these, and no file is known to be damaged."""

_OWN_FILES = re.compile(r"metadata|(offsets|commits)/\d+|sources/\d+/\d+(\.compact)?|state/.*")
_JSON = re.compile(r"commits/\d+|offsets/\d+")
_CHANGELOG = ".changelog"
_MAGIC, _HEADER = b"LZ4Block", struct.Struct("<8sBIII")
_SST = re.compile(rb"[0-9]{6}-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.sst")


def explain_damage(text: str, spark: SparkCheckpoint, operators: Sequence[Stateful]) -> CheckpointError | None:
    """The error for a failure of Spark that is due to damaged files of a checkpoint; None for any other.

    Args:
        text: Spark's message.
        spark: what Spark wrote of the checkpoint.
        operators: those with state, for the names in the message.
    """
    if not any(sign in text for sign in _SIGNS):
        return None
    path_and_reason = next(find_damage(spark, {o.level - 1 for o in operators}), None)
    why = next((words for name, words in _OF_STATE.items() if name in text), None)
    if path_and_reason is None and why is not None:
        path_and_reason = spark.state, why
    if path_and_reason is None:
        return None
    path, why = path_and_reason
    place = inside(path, spark.folder)
    newest = max(spark.committed_batches, default=-1)
    hint = RESTORE
    if place == f"commits/{newest}":
        hint = f"remove it, and .{newest}.crc beside it: micro-batch {newest} is then run once more"
    return CheckpointError("CKPT014", path=path, why=why, content=content_of(place, operators), hint=hint)


def find_damage(spark: SparkCheckpoint, levels: Collection[int] = ()) -> Iterator[tuple[AnyPath, str]]:
    """The damaged and missing files of a checkpoint, and what is wrong with each.

    Args:
        spark: what Spark wrote of it.
        levels: Spark's numbers of the stateful operators that there must be, where they are known.
    """
    logs, identity = [spark.offset_log, spark.commit_log], spark.folder / "metadata"
    if not identity.exists() and any(folder.is_dir() and any(folder.iterdir()) for folder in logs):
        yield identity, "is missing"
    for path in sorted_paths(spark.folder.rglob("*")):
        place = inside(path, spark.folder)
        if path.name.startswith(".") or not path.is_file() or not _OWN_FILES.fullmatch(place):
            continue
        try:
            why = damage_of(path) or (_misread(path) if _JSON.fullmatch(place) else None)
            if why is None and isinstance(path, Path) and path.name.endswith(_CHANGELOG):
                why = _outgrown(path)
        except OSError as cause:
            why = f"cannot be read ({cause.strerror})"
        if why is not None:
            yield path, why
    newest = max(spark.committed_batches, default=_last_planned(spark) - 1)
    if newest < 0:
        return
    yield from ((spark.state / str(n), "is missing") for n in sorted(levels) if not (spark.state / str(n)).is_dir())
    offsets: BatchOffsets | None = None
    with contextlib.suppress(OSError, ValueError):
        offsets = spark.offsets(newest)
    for source in sorted_paths((spark.folder / "sources").glob("*")):
        end = -1 if offsets is None else offsets.log_offset(int(source.name))
        yield from ((path, "is missing") for path in _missing_of_source(source, newest, end))
    partitions: float = math.inf  # there may have been more before
    with contextlib.suppress(ValueError):
        partitions = math.inf if offsets is None else offsets.partitions
    for level in sorted_paths(spark.state.glob("[0-9]*")):
        if not any((level / "_metadata").rglob("[0-9]*")):
            yield level / "_metadata" / "v2" / "0", "is missing"
        yield from ((path, "is missing") for path in spark.schemas(int(level.name)) if not path.exists())
        for partition in sorted_paths(p for p in level.glob("[0-9]*") if p.is_dir() and int(p.name) < partitions):
            lost_files = _missing_of_state(partition, newest + 1)
            if lost_files is None:
                yield partition, "has no snapshot"
            else:
                yield from ((path, "is missing") for path in lost_files)


def _misread(path: AnyPath) -> str | None:
    """What is wrong with a log whose lines after the first one are JSON, or "-". Raises OSError."""
    try:
        for line in path.read_text(encoding="utf-8").splitlines()[1:]:
            if line.strip() not in ("", "-"):
                json.loads(line)
    except ValueError as cause:
        return f"is not JSON ({cause})"
    return None


def check_blocks(spark: SparkCheckpoint, operators: Sequence[Stateful]) -> None:
    """Looks at how long the blocks of changelogs of state say that they are. Spark takes as much memory, and its
    process ends if there is not so much. Nothing for a checkpoint elsewhere: file systems of clusters have checksums.

    Args:
        spark: what Spark wrote of the checkpoint.
        operators: those with state, for the names in the message.

    Raises:
        CheckpointError: CKPT014.
        OSError: a file cannot be read.
    """
    if not isinstance(spark.folder, Path):
        return
    version = spark.last_done + 1
    for partition in sorted((spark.folder / "state").glob("[0-9]*/[0-9]*")):
        base = max((n for p in partition.glob("*.zip") if (n := _number(p)) <= version), default=0)
        for path in sorted(partition.glob(f"*{_CHANGELOG}")):
            why = _outgrown(path) if _number(path) > base else None  # Spark begins with the snapshot
            if why is not None:
                content = content_of(inside(path, spark.folder), operators)
                raise CheckpointError("CKPT014", path=path, why=why, content=content, hint=RESTORE)


def _outgrown(path: Path) -> str | None:
    """Whether a block of a changelog is longer than the file. Blocks are those of lz4-java, which have a magic word, a
    byte for the method, the length in the file, that of the content, and a checksum. Raises OSError."""
    size = path.stat().st_size
    with path.open("rb") as file:
        at = 0
        while at + _HEADER.size <= size:
            file.seek(at)
            magic, _, length, _, _ = _HEADER.unpack(file.read(_HEADER.size))
            if magic != _MAGIC:
                return None  # another codec, or a damage that Spark reports
            at += _HEADER.size + length
            if at > size:
                return f"has a block of {length} bytes, and is only {size} bytes long"
    return None


def _last_planned(spark: SparkCheckpoint) -> int:
    with contextlib.suppress(OSError):
        return spark.last_planned
    return -1


def _missing_of_source(source: AnyPath, newest: int, end: int) -> Iterator[AnyPath]:
    """The files that a log of sources needs, up to the entry ``end``, and does not have: it has no gaps after the last
    compact one."""
    numbers = {int(p.name.split(".")[0]) for p in source.glob("[0-9]*")}
    compact = max((int(p.name.split(".")[0]) for p in source.glob("*.compact")), default=-1)
    last_logged = max(newest, *numbers) if numbers else newest
    needed_numbers = range(max(0, compact), min(last_logged, end) + 1)
    yield from (source / str(n) for n in needed_numbers if n not in numbers)


def _missing_of_state(partition: AnyPath, version: int) -> list[AnyPath] | None:
    """The files that a partition needs for the state of a version and does not have, going from the snapshot for which
    the fewest are missing; None without any: changelogs alone do not say which column families there are."""
    changes = {_number(p) for p in partition.glob("*.changelog")}
    lists = sorted(((n, p) for p in partition.glob("*.zip") if 0 < (n := _number(p)) <= version), reverse=True)
    best: list[AnyPath] | None = None
    for start, snapshot in lists:
        lost_files = [partition / f"{n}.changelog" for n in range(start + 1, version + 1) if n not in changes]
        lost_files += _missing_tables(partition, snapshot)
        if best is None or len(lost_files) < len(best):
            best = lost_files
    return best


def _missing_tables(partition: AnyPath, snapshot: AnyPath) -> list[AnyPath]:
    """The SST files that a snapshot names and that are not there."""
    names: set[bytes] = set()
    try:
        with zipfile.ZipFile(io.BytesIO(snapshot.read_bytes())) as parts:
            for name in parts.namelist():
                if name.endswith("metadata"):
                    names.update(_SST.findall(parts.read(name)))
    except (OSError, zipfile.BadZipFile):
        return [snapshot]
    return [p for n in sorted(names) if not (p := partition / "SSTs" / n.decode()).exists()]


def _number(path: AnyPath) -> int:
    """Of a file of state its version, which the id of an attempt may follow."""
    text = path.name.split(".")[0].split("_")[0]
    return int(text) if text.isdecimal() else -1


_WORKER_GONE = ("IOException: Broken pipe", "SocketException: Connection reset", "EOFException", "exited unexpectedly")
"""Spark's messages when the process at the other end has ended."""

_DAEMON_GONE = "IOException: Stream closed", "PythonWorkerFactory.stopWorker"
"""Where the process that forks Python workers has ended, Spark fails to inform it of workers that have ended too: once
for each of them, and a task is tried twice. The message, and the place where Spark says it."""


_OF_JAVA = re.compile(r"\b(?:java|javax|org|com|io)\.[\w.$]+(?:Exception|Error)\b")
"""An exception of a library of Spark."""

_AT = re.compile(rf"(?:{'|'.join(FULL)}): '(/[^'\n]+)'|(/[^\n()]+) \((?:{'|'.join(FULL)})\)")
"""The file that Python or Java could not write to."""

_LAST = 1 << 18
"""How many bytes at the end of the output of Spark are searched for the failure."""

_ALMOST = 1 << 20
"""A disk with fewer free bytes, or a hundredth of its size, counts as full: what failed may have given back some."""


def explain_full_disk(text: str, checkpoint: SparkCheckpoint, log_text: str) -> RunError | None:
    """The error for a failure of Spark for want of disk space; None for any other.

    A full disk often shows in the log alone: Spark ends the connection to a Python worker, which knows no more.

    Args:
        text: Spark's message.
        checkpoint: the checkpoint of the query.
        log_text: the end of what Spark printed.
    """
    disk_text = next((t for t in (text, log_text) if is_full(t)), None)
    if disk_text is None:
        return None
    places: list[AnyPath] = [Path(a or b) for a, b in _AT.findall(disk_text)]
    places += [checkpoint.folder, Path(tempfile.gettempdir())]
    disks = {folder: shutil.disk_usage(folder) for place in places if (folder := existing_folder(place)) is not None}
    if not disks:
        return None
    folder, usage = min(disks.items(), key=lambda disk: disk[1].free)
    if disk_text is log_text and usage.free > max(_ALMOST, usage.total // 100):
        return None  # the log speaks of an earlier failure
    return full_error(folder)


def explain(failure: Exception, checkpoint: SparkCheckpoint, operators: Sequence[Stateful]) -> StateplanError:
    """The error for a failed query: the coded error in Spark's message, a full disk, a damaged file of the checkpoint,
    RUN019 where Spark is gone, RUN094 where a library of Spark reaches no server, or RUN001 with the most specific line
    of the message.

    Args:
        checkpoint: the checkpoint of the query.
        operators: the stateful ones.
    """
    jvm_error = jvm_loss_behind(failure)
    if jvm_error is not None:
        return jvm_error
    text = text_of(failure)
    coded_error = (
        find_encoded(text)
        or explain_full_disk(text, checkpoint, last_printed(_LAST))
        or explain_damage(text, checkpoint, operators)
    )
    if coded_error is not None:
        return coded_error
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    cause = next((line for line in reversed(lines) if line.startswith(("Caused by:", "pyspark.errors"))), "")
    python = [line for line in lines if "Error:" in line or "Exception:" in line]
    detail = (python[-1] if python else cause or (lines[0] if lines else "no message"))[:500]
    sign_of_daemon, place = _DAEMON_GONE
    if any(sign in detail for sign in _WORKER_GONE) or (sign_of_daemon in detail and place in text):
        return RunError(
            "RUN001",
            detail=f"a Python worker died ({detail})",
            hint="the system kills processes when memory runs out; start the job again to continue from its checkpoint",
        )
    kind = kind_in([detail]) if _OF_JAVA.search(detail) else None
    if kind is not None:
        return RunError("RUN094", why=REASONS[kind], what=detail.removeprefix("Caused by: ")[:300])
    log = keep_log()
    hint = f"--debug shows Spark's whole message; everything that Spark printed is in {log}" if log else None
    return RunError("RUN001", detail=detail, hint=hint)

"""The records of micro-batches in a checkpoint's folder ``metrics/``: bounded in size, for the whole life of the job.

Files are JSON lines, named ``<level>-<first batch>.jsonl``. A line is a record (:class:`BatchMetrics`), or
``{"batch": n, "spark": {...}}``, which adds Spark's phases to the record of that micro-batch; of two records of one
micro-batch, which has run again after a failure, the later one counts. New records go to level 0. When a level has
more than ``FILES`` full files, its oldest becomes one of the next level, with one record in place of every ``THINNING``
successive ones: a level holds four times the time of the one before in the same space. ``job.json`` says what the
records are about.

Readers may look at any time: files appear whole, lines are appended whole, and a record that a higher level covers is
omitted.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from stateplan.common.errors import CheckpointError
from stateplan.common.paths import AnyPath, append, write_whole
from stateplan.runtime.metrics.records import BatchMetrics, JobInfo

FOLDER = "metrics"

FILE_BYTES = 256 << 10
"""A file is full with this number of bytes."""
FILES = 4
"""Full files of a level."""
THINNING = 4
"""Successive records that become one."""

_DAMAGED = (ValueError, KeyError, TypeError, AttributeError)


def _level(path: AnyPath) -> int:
    return int(path.name.split("-")[0])


def _files(folder: AnyPath) -> list[AnyPath]:
    """All files of records, oldest first: a higher level is older than all of a lower one."""
    paths = [p for p in folder.glob("*-*.jsonl") if p.stem.replace("-", "").isdecimal()]
    return sorted(paths, key=lambda p: (-_level(p), p.name))


def _lines(path: AnyPath) -> Iterator[dict[str, Any]]:
    """The lines of a file that can be read: of a line that a crash has cut off, nothing depends."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:  # thinned out since it was listed
        return
    for line in data.split(b"\n"):
        with contextlib.suppress(ValueError, RecursionError):
            line_data = json.loads(line) if line else None
            if isinstance(line_data, dict):
                yield line_data


def _records(paths: Iterable[AnyPath]) -> list[BatchMetrics]:
    """The records of files of any level, oldest first."""
    records: dict[int, BatchMetrics] = {}
    last_covered, level = -1, -1
    for path in paths:
        if _level(path) != level:
            last_covered, level = max(records, default=-1), _level(path)
        for line in _lines(path):
            with contextlib.suppress(*_DAMAGED):
                if int(line["batch"]) <= last_covered:
                    continue
                if "operators" in line:
                    record = BatchMetrics.from_json(line)
                    # A micro-batch that is repeated after others is of a checkpoint that was rolled back.
                    for newer in [b for b in records if b >= record.batch]:
                        del records[newer]
                    records[record.batch] = record
                elif int(line["batch"]) in records:
                    records[int(line["batch"])].spark = {n: float(v) for n, v in line["spark"].items()}
    return list(records.values())


def read_metrics(checkpoint: AnyPath) -> list[BatchMetrics]:
    """All records of the checkpoint in the folder ``checkpoint``, oldest first; none if no run has left any.

    Raises:
        CheckpointError: CKPT001, when the folder cannot be read; CKPT002, when it is not a checkpoint.
    """
    return _read(checkpoint, _files)


def recent_metrics(checkpoint: AnyPath) -> list[BatchMetrics]:
    """As :func:`read_metrics`, the newest ones alone: some hundreds, where there are so many."""
    return _read(checkpoint, lambda folder: _files(folder)[-2:])


def _read(checkpoint: AnyPath, choose: Callable[[AnyPath], list[AnyPath]]) -> list[BatchMetrics]:
    _require(checkpoint)
    try:
        return _records(choose(checkpoint / FOLDER))
    except OSError as cause:
        raise CheckpointError("CKPT001.metrics", checkpoint=checkpoint, strerror=cause.strerror) from cause


def read_job(checkpoint: AnyPath) -> JobInfo | None:
    """What the records are about; None if no run has said so. Raises the same errors as :func:`read_metrics`."""
    _require(checkpoint)
    with contextlib.suppress(OSError, ValueError):
        return JobInfo.from_text((checkpoint / FOLDER / "job.json").read_text(encoding="utf-8"))
    return None


def _require(folder: AnyPath) -> None:
    try:
        is_folder = folder.is_dir()
        is_checkpoint = is_folder and (folder / "stateplan.json").is_file()
    except OSError as cause:
        raise CheckpointError("CKPT001", folder=folder, strerror=cause.strerror or cause) from cause
    if not is_folder:
        raise CheckpointError("CKPT001", folder=folder, strerror="it does not exist")
    if not is_checkpoint:
        raise CheckpointError("CKPT002", folder=folder)


class MetricsLog:
    """Writes the records of one run.

    Args:
        folder: ``metrics/`` of the checkpoint.
        file_bytes: when a file is full.

    Every method may raise OSError; what was written before is never harmed by it.
    """

    def __init__(self, folder: AnyPath, file_bytes: int = FILE_BYTES) -> None:
        self._folder = folder
        self._file_bytes = file_bytes
        self._path: AnyPath | None = None
        self._size = 0

    def begin(self, job: JobInfo) -> None:
        """Says what the records to come are about."""
        self._folder.mkdir(exist_ok=True)
        write_whole(self._folder / "job.json", job.to_text())

    def append(self, record: BatchMetrics) -> None:
        """Adds the record of a micro-batch."""
        self._append(record.batch, record.to_json())

    def annotate(self, batch: int, spark: dict[str, float]) -> None:
        """Adds Spark's phases to the record of a micro-batch."""
        self._append(batch, {"batch": batch, "spark": spark})

    def _append(self, batch: int, data: dict[str, Any]) -> None:
        line = json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
        path = self._path
        if path is None or (self._size + len(line) > self._file_bytes and "operators" in data):
            if path is None:
                line = b"\n" + line  # ends a line that a crash may have cut off
            path = self._path = self._next(batch)
            self._size = path.stat().st_size if path.exists() else 0
        append(path, line)
        self._size += len(line)

    def _next(self, batch: int) -> AnyPath:
        """The newest file, while it has room, or another one."""
        self._folder.mkdir(exist_ok=True)
        current = next((p for p in reversed(_files(self._folder)) if _level(p) == 0), None)
        path = self._folder / f"0-{batch:012d}.jsonl"
        if current is not None and current.stat().st_size < self._file_bytes * 3 // 4:
            return current
        self._thin()
        return path

    def _thin(self) -> None:
        """Makes room for another file of level 0."""
        level = 0
        while True:
            files = [p for p in _files(self._folder) if _level(p) == level]
            if len(files) <= FILES:
                return
            self._promote(files[0], level + 1)
            level += 1

    def _promote(self, path: AnyPath, level: int) -> None:
        """Brings the records of the oldest file of a level to the next one, thinned out."""
        records = _records([path])
        thin: list[BatchMetrics] = []
        for start in range(0, len(records), THINNING):
            sum_of_records = records[start]
            for record in records[start + 1 : start + THINNING]:
                sum_of_records = sum_of_records.followed_by(record)
            thin.append(sum_of_records)
        text = "".join(json.dumps(r.to_json(), separators=(",", ":"), ensure_ascii=False) + "\n" for r in thin)
        newest = next((p for p in reversed(_files(self._folder)) if _level(p) == level), None)
        if newest is not None and newest.stat().st_size + len(text) <= self._file_bytes:
            write_whole(newest, newest.read_text(encoding="utf-8") + text)
        elif thin:
            write_whole(self._folder / f"{level}-{thin[0].batch:012d}.jsonl", text)
        path.unlink()

"""Checksums of the logs of Spark that a micro-batch builds on.

Code: CKPT014.
"""

from __future__ import annotations

import contextlib
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any
from urllib.parse import unquote

from stateplan.common.errors import CheckpointError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.paths import AnyPath
from stateplan.runtime.spark.checkpoint_files import (
    COMPACT,
    RESTORE,
    BatchOffsets,
    SparkCheckpoint,
    content_of,
    damage_of,
)

_SUMS = 1 << 48


@dataclass(frozen=True)
class LogSums:
    """What Spark had written when a micro-batch began.

    Attributes:
        files: checksums of files by their places in Spark's folder: the entries of this micro-batch and of the one
            before, and the identity of the query.
        sources: per source of files, the last entry of its log, and a checksum of all that the log says up to it.
    """

    files: Mapping[str, int] = field(default_factory=dict)
    sources: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    def at(self, epoch: int, entry: bytes, spark: SparkCheckpoint) -> LogSums:
        """Those of a later micro-batch, of which files are read that are not known yet.

        Args:
            epoch: the epoch of the micro-batch.
            entry: what the offset log has of it.
            spark: what Spark has written.

        Raises:
            OSError, ValueError: a file cannot be read, or is damaged.
        """
        files = {f"offsets/{epoch}": zlib.crc32(entry)}
        for name in (f"offsets/{epoch - 1}", f"commits/{epoch - 1}", "metadata"):
            with contextlib.suppress(FileNotFoundError):
                old_sum = self.files.get(name)
                files[name] = zlib.crc32((spark.folder / name).read_bytes()) if old_sum is None else old_sum
        offsets = BatchOffsets.of(entry)
        ends = {source: offsets.log_offset(source) for source in range(len(offsets.sources))}
        sources = {n: _source_sum(spark, n, end, self.sources.get(n)) for n, end in ends.items() if end >= 0}
        return LogSums(files, sources)

    def check(self, spark: SparkCheckpoint) -> None:
        """Compares Spark's files with the checksums.

        Raises:
            CheckpointError: CKPT014, they differ.
            OSError: a file cannot be read.
        """
        # Spark looks at the last two entries of the one log and at the last one of the other. Others may be removed.
        last_numbers = {spark.offset_log: spark.last_planned - 1, spark.commit_log: spark.last_done}
        for name, value in self.files.items():
            path = spark.folder / name
            try:
                data = path.read_bytes()
            except FileNotFoundError:
                if path.parent in last_numbers and int(path.name) < last_numbers[path.parent]:
                    continue
                raise _damaged(path, name, "is missing") from None
            if zlib.crc32(data) != value:
                raise _damaged(path, name, damage_of(path) or "is not what the job wrote: it was changed or replaced")
        for source, (end, value) in self.sources.items():
            self._check_source(spark, source, end, value)

    @staticmethod
    def _check_source(spark: SparkCheckpoint, source: int, end: int, value: int) -> None:
        log = _log_of(spark, source)
        try:
            if _source_sum(spark, source, end)[1] == value:
                return
            path, why = log, "is not what the job wrote: files in it, or marker files that it names, were changed"
        except FileNotFoundError as cause:
            path, why = cause.filename or log, "is missing"
        except ValueError as cause:
            path, why = log, f"is damaged ({cause})"
        raise _damaged(path, f"sources/{source}/{end}", why)


def _damaged(path: AnyPath, name: str, why: str) -> CheckpointError:
    return CheckpointError("CKPT014", path=path, why=why, content=content_of(name), hint=RESTORE)


def _log_of(spark: SparkCheckpoint, source: int) -> AnyPath:
    return spark.folder / "sources" / str(source)


def _source_sum(
    spark: SparkCheckpoint, source: int, end: int, before: tuple[int, int] | None = None
) -> tuple[int, int]:
    """A checksum of what the log of a source says up to an entry, and of the marker files that it names. It stays the
    same when Spark compacts the log, and when the checkpoint is moved.

    Args:
        spark: what Spark has written.
        source: number of the source.
        end: the entry.
        before: the same up to an earlier entry, from where on it is brought up to date.

    Returns:
        The entry and the checksum.

    Raises:
        OSError: a file cannot be read; FileNotFoundError, where the log has a gap.
        ValueError: a file is damaged.
    """
    after, total = (-1, 0) if before is None or before[0] > end else before
    for entry in _entries(spark, source, after, end):
        marker = spark.marker(unquote(str(entry["path"])))
        if marker is None:
            entry_name, content = entry["path"], b""
        else:
            entry_name, content = f"{marker.parent.name}/{marker.name}", marker.read_bytes()
        text = json.dumps([entry_name, entry["timestamp"], entry["batchId"]])
        total = (total + zlib.crc32(text.encode() + content)) % _SUMS
    return end, total


def _entries(spark: SparkCheckpoint, source: int, after: int, end: int) -> Iterator[dict[str, Any]]:
    """What the log of a source says behind an entry and up to another one. Raises the same errors as
    :func:`_source_sum`."""
    if after >= end:
        return
    log = _log_of(spark, source)
    for name, data in _files(log, after, end):
        begin = data.find(b"\n") + 1 or len(data) + 1
        if not re.fullmatch(rb"v\d+", data[: begin - 1]):
            raise ValueError(f"{name} does not begin with its version")
        stop = len(data.rstrip())
        while stop >= begin:  # a compact file ends with what is new, and may be long
            start = max(begin, data.rfind(b"\n", begin, stop) + 1)
            entry = json.loads(data[start:stop])
            if not isinstance(entry, dict) or not {"path", "timestamp", "batchId"} <= entry.keys():
                raise ValueError(f"{name} has a line that names no file")
            if entry["batchId"] <= after:
                break
            if entry["batchId"] <= end:
                yield entry
            stop = start - 1


def _files(log: AnyPath, after: int, end: int) -> list[tuple[str, bytes]]:
    """The files of a log of a source that have what it says behind an entry and up to another one, and their content.
    Raises OSError."""
    if after >= 0:
        with contextlib.suppress(FileNotFoundError):
            return _newest(log, after, end)
    compacts = sorted(int(p.name.removesuffix(COMPACT)) for p in log.glob(f"[0-9]*{COMPACT}")) if log.is_dir() else []
    # A compact file has all before it, and what it has may be removed.
    names = [f"{next(n for n in compacts if n >= end)}{COMPACT}"] if compacts and compacts[-1] >= end else []
    if not names:
        base = compacts[-1] if compacts and compacts[-1] > after else after
        names = [f"{base}{COMPACT}"] if base > after else []
        names += [str(number) for number in range(base + 1, end + 1)]
    return [(name, (log / name).read_bytes()) for name in names]


def _newest(log: AnyPath, after: int, end: int) -> list[tuple[str, bytes]]:
    """The same where the log ends with the entry ``end``, without a look at what else it has. Raises
    FileNotFoundError, it does not; OSError."""
    entries: list[tuple[str, bytes]] = []
    for number in range(end, after, -1):
        try:
            entries.append((str(number), (log / str(number)).read_bytes()))
        except FileNotFoundError:
            name = f"{number}{COMPACT}"
            return [(name, (log / name).read_bytes()), *entries]
    return entries

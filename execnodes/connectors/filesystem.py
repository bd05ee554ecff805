"""The ``filesystem`` connector: the files of a folder.

A source reads every file below ``path`` (a file, a folder, or a URL such as ``s3://bucket/folder``) once. Without
``source.monitor-interval`` it is bounded: the files that are there when the job starts. With it the folder is watched
for new files. Files and folders whose names start with ``.`` or ``_`` are invisible.

A sink appends files to the folder ``path``, exactly once: each micro-batch stages hidden files and renames them when
it commits.

The options are the rows of :data:`CONNECTOR`.
"""

from __future__ import annotations

import contextlib
import json
import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from stateplan.execnodes.connectors.files import filesystem_of, local_path
from stateplan.execnodes.connectors.options import Connector, Option, OptionType, Role
from stateplan.execnodes.errors import DataError, Place, RunError, nearest

_ONE_COMMIT = "files are committed once per micro-batch"
_NO_COMMIT = "partitions are not announced: the files of a micro-batch appear all at once when it ends"

_FORMATS = ("json", "csv", "parquet", "debezium-json", "canal-json", "maxwell-json", "ogg-json", "op-json")

CONNECTOR = Connector(
    "filesystem",
    "The files of a folder, local or on an object store.",
    (
        Option("path", OptionType.STRING, "Folder or file; a plain path or a URL.", required=True),
        Option(
            "source.monitor-interval",
            OptionType.DURATION,
            "How often to look for new files. Not set: the files present at the start are read, and the source ends.",
            role=Role.SOURCE,
            minimum=1,
        ),
        Option(
            "source.path.regex-pattern",
            OptionType.REGEX,
            "Only files whose absolute path matches are read.",
            role=Role.SOURCE,
        ),
        Option(
            "lookup.cache",
            OptionType.ENUM,
            "Whether the rows of a table that is looked up (FOR SYSTEM_TIME AS OF a processing time) are kept. NONE: "
            "its files are looked at in every micro-batch, and read again when they have changed. FULL: what was read "
            "is used until the reload interval has passed.",
            default="NONE",
            values=("NONE", "FULL"),
            role=Role.SOURCE,
        ),
        Option(
            "lookup.full-cache.periodic-reload.interval",
            OptionType.DURATION,
            "How long rows that were read are used with `lookup.cache` FULL. Not set: as long as the job runs.",
            role=Role.SOURCE,
            minimum=1,
        ),
        Option(
            "source.max-files-per-trigger",
            OptionType.INTEGER,
            "How many new files a micro-batch reads at most. Not set: 128 MiB for each parallel task, 256 MiB in a "
            "plan without state.",
            role=Role.SOURCE,
            minimum=1,
        ),
        Option(
            "source.report-statistics",
            OptionType.ENUM,
            "Which statistics the source gives to the planner.",
            default="ALL",
            values=("NONE", "ALL"),
            role=Role.SOURCE,
            no_effect="the planner uses no statistics",
        ),
        Option(
            "sink.parallelism",
            OptionType.INTEGER,
            "Number of parallel writers.",
            role=Role.SINK,
            minimum=1,
            no_effect="the number of files follows the partitions of the micro-batch",
        ),
        Option(
            "sink.rolling-policy.file-size",
            OptionType.MEMORY_SIZE,
            "Size at which a file is closed.",
            default=134217728,
            role=Role.SINK,
            no_effect=_ONE_COMMIT,
        ),
        Option(
            "sink.rolling-policy.rollover-interval",
            OptionType.DURATION,
            "Longest time a file stays open.",
            default=1800000,
            role=Role.SINK,
            no_effect=_ONE_COMMIT,
        ),
        Option(
            "sink.rolling-policy.inactivity-interval",
            OptionType.DURATION,
            "Longest time a file stays inactive.",
            default=1800000,
            role=Role.SINK,
            no_effect=_ONE_COMMIT,
        ),
        Option(
            "sink.rolling-policy.check-interval",
            OptionType.DURATION,
            "How often the rolling policy is checked.",
            default=60000,
            role=Role.SINK,
            no_effect=_ONE_COMMIT,
        ),
        Option(
            "auto-compaction",
            OptionType.BOOLEAN,
            "Whether files are merged after a checkpoint.",
            default=False,
            role=Role.SINK,
            refused="files are not merged after they are written",
        ),
        Option(
            "compaction.file-size",
            OptionType.MEMORY_SIZE,
            "Target size of merged files.",
            role=Role.SINK,
            no_effect="files are not merged after they are written",
        ),
        Option(
            "partition.default-name",
            OptionType.STRING,
            "Partition name for NULL.",
            default="__DEFAULT_PARTITION__",
        ),
        Option(
            "partition.time-extractor.kind",
            OptionType.STRING,
            "How partition times are found.",
            default="default",
            no_effect=_NO_COMMIT,
        ),
        Option(
            "partition.time-extractor.class",
            OptionType.STRING,
            "Class that finds partition times.",
            no_effect=_NO_COMMIT,
        ),
        Option(
            "partition.time-extractor.timestamp-pattern",
            OptionType.STRING,
            "Pattern of partition times.",
            no_effect=_NO_COMMIT,
        ),
        Option(
            "partition.time-extractor.timestamp-formatter",
            OptionType.STRING,
            "Formatter of partition times.",
            no_effect=_NO_COMMIT,
        ),
        Option(
            "sink.shuffle-by-partition.enable",
            OptionType.BOOLEAN,
            "Shuffle rows by partition before writing.",
            default=False,
            role=Role.SINK,
            no_effect=_NO_COMMIT,
        ),
        Option(
            "sink.partition-commit.trigger",
            OptionType.ENUM,
            "When a partition is complete.",
            default="process-time",
            values=("partition-time", "process-time"),
            role=Role.SINK,
            no_effect=_NO_COMMIT,
        ),
        Option(
            "sink.partition-commit.delay",
            OptionType.DURATION,
            "How long to wait before a partition is complete.",
            default=0,
            role=Role.SINK,
            no_effect=_NO_COMMIT,
        ),
        Option(
            "sink.partition-commit.watermark-time-zone",
            OptionType.STRING,
            "Zone of the watermark.",
            default="UTC",
            role=Role.SINK,
            no_effect=_NO_COMMIT,
        ),
        Option(
            "sink.partition-commit.policy.kind",
            OptionType.STRING,
            "How readers learn of a complete partition.",
            role=Role.SINK,
            no_effect=_NO_COMMIT,
        ),
        Option(
            "sink.partition-commit.policy.class",
            OptionType.STRING,
            "Class of a custom commit policy.",
            role=Role.SINK,
            no_effect=_NO_COMMIT,
        ),
        Option(
            "sink.partition-commit.policy.class.parameters",
            OptionType.STRING,
            "Parameters of that class.",
            role=Role.SINK,
            no_effect=_NO_COMMIT,
        ),
        Option(
            "sink.partition-commit.success-file.name",
            OptionType.STRING,
            "Name of the success file.",
            default="_SUCCESS",
            role=Role.SINK,
            no_effect=_NO_COMMIT,
        ),
    ),
    roles=(Role.SOURCE, Role.SINK),
    source_formats=_FORMATS,
    sink_formats=_FORMATS,
    abilities=frozenset({"PartitionPushDown", "ProjectPushDown", "FilterPushDown", "LimitPushDown", "ReadingMetadata"}),
    sink_abilities=frozenset({"Partitioning", "Overwrite"}),
    metadata=(
        ("file.path", "STRING NOT NULL"),
        ("file.name", "STRING NOT NULL"),
        ("file.size", "BIGINT NOT NULL"),
        ("file.modification-time", "TIMESTAMP_LTZ(3) NOT NULL"),
    ),
)


@dataclass(frozen=True)
class FileEntry:
    """A file of a source: its path (a plain path when local), size in bytes and modification time in ms."""

    path: str
    size: int
    modified: int


def natural_key(path: str) -> tuple[tuple[int, int, str], ...]:
    """Sorts ``part-2`` before ``part-10``."""
    return tuple(
        (0, int(part), part) if part.isdigit() else (1, 0, part) for part in re.split(r"([0-9]+)", path) if part
    )


def is_hidden(name: str) -> bool:
    """Whether a file or folder of this name is invisible to sources."""
    return name.startswith((".", "_"))


def _missing(path: str, fs: Any, inner: str) -> DataError:
    folder, name = posixpath.split(inner.rstrip("/"))
    try:
        siblings = [posixpath.basename(p.rstrip("/")) for p in fs.ls(folder or "/", detail=False)]
    except (OSError, ValueError):
        siblings = []
    return DataError("DATA104", path=path, place=Place(file=path), hint=nearest(name, siblings))


def _walk(fs: Any, inner: str) -> Iterator[dict[str, Any]]:
    for info in fs.ls(inner, detail=True):
        name = posixpath.basename(info["name"].rstrip("/"))
        if is_hidden(name):
            continue
        if info["type"] == "directory":
            if info["name"].rstrip("/") != inner.rstrip("/"):
                yield from _walk(fs, info["name"])
        else:
            yield info


def _modified(info: dict[str, Any]) -> int:
    """Modification time in ms of what fsspec says of a file, under whichever name the filesystem gives it."""
    for key in ("mtime", "LastModified", "last_modified", "updated", "created"):
        value = info.get(key)
        if isinstance(value, (int, float)):
            return int(value * 1000)
        if isinstance(value, datetime):
            return int(value.timestamp() * 1000)
    return 0


def file_entries(path: str, regex: str | None = None) -> list[FileEntry]:
    """The files that a source with this path sees now, in natural order of their paths.

    Args:
        path: a file or a folder, which is searched with its folders; a plain path or a URL.
        regex: only files whose whole absolute path matches (``source.path.regex-pattern``).

    Raises:
        DataError: DATA104 when the path does not exist, DATA105 when it cannot be listed.
    """
    fs, inner = filesystem_of(path)
    local = local_path(path) is not None
    if local:
        inner = os.path.abspath(inner)
    pattern = re.compile(regex) if regex is not None else None
    try:
        if not fs.exists(inner):
            raise _missing(path, fs, inner)
        infos = list(_walk(fs, inner)) if fs.isdir(inner) else [fs.info(inner)]
    except OSError as error:
        raise DataError("DATA105", path=path, strerror=error.strerror or error, place=Place(file=path)) from error
    entries = []
    for info in infos:
        name = info["name"]
        if pattern is not None and not pattern.fullmatch(name if name.startswith("/") else "/" + name):
            continue
        entries.append(
            FileEntry(name if local else fs.unstrip_protocol(name), int(info.get("size") or 0), _modified(info))
        )
    return sorted(entries, key=lambda e: natural_key(e.path))


def list_files(path: str, regex: str | None = None) -> list[str]:
    """The paths of :func:`file_entries`."""
    return [entry.path for entry in file_entries(path, regex)]


# The sink. A batch is written in three steps: its files are staged in a hidden folder; a marker that lists them is
# written there, which decides that the batch counts; they are moved to their places. Whatever stops in between, the
# next `clean` of the batch either takes everything back or finishes it; a batch that counts is not written again.

_STAGED = ".staged-"


def part_name(uid: str, batch_id: int, part: int | str, extension: str) -> str:
    """Name of a file of a micro-batch of the sink ``uid``: ``part-<uid>-<batch>-<part>.<extension>``."""
    return f"part-{uid}-{batch_id}-{part}" + (f".{extension}" if extension else "")


@dataclass(frozen=True)
class _Sink:
    """The places of one sink: its folder, and in it the hidden folder of what is not committed."""

    fs: Any
    folder: str
    local: bool
    uid: str

    @classmethod
    def at(cls, path: str, uid: str) -> _Sink:
        fs, inner = filesystem_of(path)
        return cls(fs, inner.rstrip("/") or "/", local_path(path) is not None, uid)

    @property
    def hidden(self) -> str:
        return f"{self.folder}/{_STAGED}{self.uid}"

    def batch(self, batch_id: int) -> str:
        return f"{self.hidden}/{batch_id}"

    def marker(self, batch_id: int) -> str:
        return f"{self.hidden}/{batch_id}.committed"

    def write(self, target: str, data: bytes) -> None:
        if not self.local:
            with self.fs.open(target, "wb") as out:
                out.write(data)
            return
        with open(target, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())

    def move(self, source: str, target: str) -> None:
        if self.local:
            os.replace(source, target)
        else:
            self.fs.mv(source, target)

    def finish(self, batch_id: int) -> None:
        """Moves what is still staged of a batch that counts."""
        with self.fs.open(self.marker(batch_id), "rb") as source:
            names = json.loads(source.read())
        for name in names:
            staged = f"{self.batch(batch_id)}/{name}"
            if self.fs.exists(staged):
                if "/" in name:
                    self.fs.makedirs(posixpath.dirname(f"{self.folder}/{name}"), exist_ok=True)
                self.move(staged, f"{self.folder}/{name}")
        self.remove(self.batch(batch_id))

    def forget(self, batch_id: int) -> None:
        """Removes what earlier batches left in the hidden folder: nobody asks for them any more."""
        for path in self.fs.ls(self.hidden, detail=False):
            if int(posixpath.basename(path.rstrip("/")).partition(".")[0]) < batch_id:
                self.remove(path)

    def remove(self, path: str) -> None:
        if self.fs.exists(path):
            self.fs.rm(path, recursive=True)


@contextlib.contextmanager
def _writing(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunError("RUN151", path=path, strerror=error.strerror or error, place=Place(file=path)) from error


def stage(path: str, uid: str, batch_id: int, part: int | str, extension: str, data: bytes, partition: str = "") -> str:
    """Writes a file of a micro-batch where readers do not see it. The same part again replaces the file.

    Args:
        path: folder of the table; made when it does not exist.
        uid: of the sink in this run's checkpoint: another checkpoint must have another one.
        batch_id: of the micro-batch.
        part: tells the files of the micro-batch apart.
        extension: of the file, without the dot.
        data: the whole file.
        partition: folder of its partition within the table's.

    Returns:
        What :func:`commit` wants of it: its place within the folder.

    Raises:
        RunError: RUN151, when it cannot be written.
    """
    sink = _Sink.at(path, uid)
    name = posixpath.join(partition, part_name(uid, batch_id, part, extension))
    with _writing(path):
        if not sink.fs.exists(sink.marker(batch_id)):
            sink.fs.makedirs(posixpath.join(sink.batch(batch_id), partition), exist_ok=True)
            sink.write(f"{sink.batch(batch_id)}/{name}", data)
    return f"{_STAGED}{uid}/{batch_id}/{name}"


def commit(path: str, staged: Sequence[str]) -> None:
    """Makes the staged files of a micro-batch visible: all of them or, after a failure and :func:`clean`, none.

    Args:
        path: folder of the table.
        staged: what :func:`stage` gave for each file of one micro-batch; nothing for one without rows.

    Raises:
        RunError: RUN151, when the folder cannot be written.
    """
    if not staged:
        return
    hidden, batch, _ = staged[0].split("/", 2)
    sink, batch_id = _Sink.at(path, hidden.removeprefix(_STAGED)), int(batch)
    with _writing(path):
        marker = sink.marker(batch_id)
        if not sink.fs.exists(marker):
            sink.write(marker + ".tmp", json.dumps([s.split("/", 2)[2] for s in staged]).encode())
            sink.move(marker + ".tmp", marker)
        sink.finish(batch_id)
        sink.forget(batch_id)


def clean(path: str, uid: str, batch_id: int) -> bool:
    """Brings the folder into order before a micro-batch is written, for the first time or again.

    Returns:
        Whether the batch has already been committed: its files are all visible then, and what is staged for it from
        now on is ignored. Otherwise nothing of it, nor of a later batch, is left.

    Raises:
        RunError: RUN151, when the folder cannot be written.
    """
    sink = _Sink.at(path, uid)
    with _writing(path):
        sink.fs.invalidate_cache()
        if not sink.fs.exists(sink.hidden):
            return False
        if sink.fs.exists(sink.marker(batch_id)):
            sink.finish(batch_id)
            return True
        for leftover in sink.fs.ls(sink.hidden, detail=False):
            name = posixpath.basename(leftover.rstrip("/"))
            if not name.endswith(".committed") and int(name.partition(".")[0]) >= batch_id:
                sink.remove(leftover)
        return False

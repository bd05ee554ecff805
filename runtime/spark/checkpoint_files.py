"""Reads Spark's part of a checkpoint from its files. Loads no engine.

Spark writes ``offsets/`` and ``commits/`` (a file per micro-batch that was planned, and that is done), ``sources/`` and
``state/`` (a folder per source and per stateful operator) and ``metadata`` (the query's id). An entry of the offset log
has a version, a JSON object with the time and the settings of the micro-batch, and a line per source.
"""

from __future__ import annotations

import contextlib
import json
import re
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, unquote

from stateplan.common.errors import CheckpointError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.paths import AnyPath, copy_tree, inside, remove_tree, sorted_paths, write_whole
from stateplan.runtime.markers import END

PARTITIONS = "spark.sql.shuffle.partitions"
"""The setting that fixes the number of partitions of state."""

INSTANTS = "instants"
"""The folder of marker files for the instants of a virtual clock, next to Spark's part: a number and the instant."""

CLOSING = "closing"
"""The folder of marker files that say that input has ended: a number and the time."""

COMPACT = ".compact"
"""How the name of a file in the log of a source ends that has all before it."""

RESTORE = "restore the checkpoint directory from a copy, or start from an empty one"
"""What to do about a file that is missing or damaged."""

_NOTHING = "-"
"""The line of a source that has read nothing yet."""

_MARKER = re.compile(r"/splits/([^/]+/[0-9]{10}_[^/]+)$")
_SCHEMA = re.compile(r"/spark/state/([0-9]+/_stateSchema/.+)$")
_LOCAL = "file:"
_LEGAL = "/;:@&=+$,-_.!~*'()"
"""What Java's ``URI`` leaves as it is in a path, besides letters, digits and what is not ASCII."""


class Stateful(Protocol):
    """An operator with state: :class:`runtime.jobgraph.OperatorSpec`."""

    @property
    def name(self) -> str: ...

    @property
    def level(self) -> int: ...


@dataclass(frozen=True)
class BatchOffsets:
    """What Spark planned for a micro-batch.

    Attributes:
        facts: its time and its settings.
        sources: per source, where reading it ends; None if it has read nothing yet.
    """

    facts: dict[str, Any]
    sources: tuple[Any, ...]

    @staticmethod
    def of(entry: bytes) -> BatchOffsets:
        """An entry of the log. Raises ValueError, it is damaged."""
        lines = entry.decode().splitlines()
        facts = json.loads(lines[1]) if len(lines) > 1 else None
        if not isinstance(facts, dict):
            raise ValueError("its second line is not an object")
        return BatchOffsets(facts, tuple(_parse(line) for line in lines[2:]))

    @property
    def time(self) -> int:
        """When Spark planned the micro-batch, ms since 1970."""
        return int(self.facts.get("batchTimestampMs", 0))

    @property
    def partitions(self) -> int:
        """Into how many partitions state is split. Raises ValueError when the entry does not say."""
        try:
            return int(self.facts["conf"][PARTITIONS])
        except (KeyError, TypeError) as cause:
            raise ValueError(f"it has no {PARTITIONS}: {cause!r}") from cause

    def log_offset(self, source: int) -> int:
        """The last entry of the log of a source of files; -1 where the source has none."""
        end = self.sources[source] if source < len(self.sources) else None
        offset = end.get("logOffset") if isinstance(end, dict) else None
        return offset if isinstance(offset, int) else -1


@dataclass(frozen=True)
class SparkCheckpoint:
    """Spark's part of a checkpoint, at ``folder``."""

    folder: AnyPath

    @staticmethod
    def of(checkpoint: AnyPath) -> SparkCheckpoint:
        """That of our checkpoint in the folder ``checkpoint``."""
        return SparkCheckpoint(checkpoint / "spark")

    def query_id(self, new_id: str | None = None) -> str:
        """The id of the query. A checkpoint without one gets ``new_id``, by default a new one, before Spark does.

        Raises:
            OSError: a file cannot be read or written.
            CheckpointError: CKPT014, the file of the id does not hold one.
        """
        file = self.folder / "metadata"
        if not file.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(file, json.dumps({"id": new_id or str(uuid.uuid4())}))
        with contextlib.suppress(ValueError, KeyError, TypeError):
            return str(json.loads(file.read_bytes())["id"])
        raise CheckpointError("CKPT014", path=file, why="holds no id", content="the identity of the query")

    @property
    def is_plainly_named(self) -> bool:
        """Whether its path reads the same as a URI."""
        return _as_spark(self.folder).endswith(str(self.folder))

    def forget_id(self) -> None:
        """From now on it is the checkpoint of another query. Raises OSError."""
        for name in ("metadata", ".metadata.crc"):
            (self.folder / name).unlink(missing_ok=True)

    def forget_after(self, batch: int) -> None:
        """Removes what is known of micro-batches after this one, of a copy that was made meanwhile. Raises OSError."""
        for log in (self.commit_log, self.offset_log):
            for number in (number for number in _numbers(log) if number > batch):
                for name in (str(number), f".{number}.crc"):
                    (log / name).unlink(missing_ok=True)
        self.forget_unplanned()

    def forget_unplanned(self) -> None:
        """Removes the log entries of file sources for a micro-batch that was never planned, because its job was killed
        first. Spark would read their files together with those of the next micro-batch.

        Raises:
            OSError: a log cannot be changed.
        """
        last = self.last_planned
        if last < 0:
            return
        try:
            offsets = self.offsets(last)
        except ValueError:
            return
        for source in range(len(offsets.sources)):
            log, end = self.folder / "sources" / str(source), offsets.log_offset(source)
            # Spark keeps what it has made a compact entry of for longer than that, so the compact one may go too.
            for entry in sorted_paths(log.glob("[0-9]*")) if end >= 0 else ():
                number = entry.name.removesuffix(COMPACT)
                if number.isdecimal() and int(number) > end:
                    for path in (log / f".{entry.name}.crc", entry):
                        path.unlink(missing_ok=True)

    def go_on_from(
        self,
        origin: SparkCheckpoint,
        batch: int,
        sources: Sequence[int | None],
        folders: Sequence[tuple[str, str]],
    ) -> None:
        """Makes the query of this checkpoint, which has read nothing yet, continue where that of another one stands.

        Args:
            origin: the other one, of a job that has ended.
            batch: its last micro-batch.
            sources: for each source of this query, the number of that one of the other; None for one that begins.
            folders: for each, the name of its folder of markers before and now.

        Raises:
            OSError, ValueError: a log cannot be read or written.
        """
        ends = (origin.offset_log / str(batch)).read_text(encoding="utf-8").splitlines()[2:]
        self.forget_sources()
        lines = []
        for number, source in enumerate(sources):
            lines.append(_NOTHING if source is None or source >= len(ends) else ends[source])
            if source is not None:
                log = self.folder / "sources" / str(number)
                copy_tree(origin.folder / "sources" / str(source), log)
                before, now = (f"/splits/{quote(name, safe=_LEGAL)}/" for name in folders[number])
                for part in sorted_paths(log.glob("[0-9]*")) if before != now else ():
                    self._rewrite(part, lambda line, old=before, new=now: line.replace(old, new))  # type: ignore[misc]
        for entry in [self.offset_log / str(number) for number in _numbers(self.offset_log)]:
            head = entry.read_text(encoding="utf-8").splitlines()[:2]
            entry.with_name(f".{entry.name}.crc").unlink(missing_ok=True)
            write_whole(entry, "\n".join((*head, *lines)))
        self.forget_id()

    def plan_again(self, batch: int) -> None:
        """Plans a micro-batch like the one before it. Raises OSError."""
        write_whole(self.offset_log / str(batch), (self.offset_log / str(batch - 1)).read_text(encoding="utf-8"))

    def commit_again(self, batch: int, store_ids: Mapping[str, Sequence[Sequence[str]]]) -> None:
        """Commits a micro-batch like the one before it.

        Args:
            batch: its number.
            store_ids: by operator and partition, what distinguishes the state that it wrote; empty if nothing does.

        Raises:
            OSError, ValueError: the entry of the one before it cannot be read.
        """
        version, text = (self.commit_log / str(batch - 1)).read_text(encoding="utf-8").splitlines()
        facts = json.loads(text) | ({"stateUniqueIds": store_ids} if store_ids else {})
        write_whole(self.commit_log / str(batch), f"{version}\n{json.dumps(facts, separators=(',', ':'))}")

    def forget_sources(self) -> None:
        """Removes the logs of all sources, of a checkpoint that is unused."""
        remove_tree(self.folder / "sources")

    def relocate(self) -> None:
        """Rewrites the absolute paths of the checkpoint's own files that Spark has recorded, after the checkpoint was
        moved or copied: of marker files, which Spark would read again as new ones, and of schemas of state.

        Raises:
            OSError: a log cannot be read or written.
            CheckpointError: CKPT014, a log has an earlier path, and its checksums do not match or cannot be read.
        """
        for log in sorted_paths((self.folder / "sources").glob("*/[0-9]*")):
            self._rewrite(log, self._with_marker)
        for facts in sorted_paths(self.state.glob("*/_metadata/*/[0-9]*")):
            self._rewrite(facts, self._with_schemas)

    def _rewrite(self, log: AnyPath, change: Callable[[str], str]) -> None:
        """Changes the lines of a file of Spark's after that of its version. One that cannot be parsed stays as it is,
        for Spark to find. Raises the same errors as :meth:`relocate`."""
        try:
            before = log.read_text(encoding="utf-8")
            version, *lines = before.split("\n")
            after = "\n".join((version, *(change(line) if line.strip() else line for line in lines)))
        except (ValueError, AttributeError, TypeError):
            return
        if after == before:
            return
        # Hadoop reads a file without a word when the header of its checksums is damaged, and so would read old paths.
        why = damage_of(log)
        if why is not None:
            content = content_of(inside(log, self.folder))
            raise CheckpointError("CKPT014", path=log, why=why, content=content, hint=RESTORE)
        log.with_name(f".{log.name}.crc").unlink(missing_ok=True)
        write_whole(log, after)

    def _with_marker(self, line: str) -> str:
        """A line of the log of a source of files."""
        if "/splits/" not in line:
            return line
        entry = json.loads(line)
        marker = self.marker(unquote(str(entry.get("path"))))
        if marker is None:
            return line
        if entry["path"] == _as_spark(marker):
            return line
        entry["path"] = _as_spark(marker)
        return json.dumps(entry, separators=(",", ":"))

    def _with_schemas(self, line: str) -> str:
        """What Spark knows of a stateful operator, as JSON."""
        facts, has_changes = json.loads(line), False
        for store in facts.get("stateStoreInfo", ()):
            paths = store.get("stateSchemaFilePaths", ())
            store["stateSchemaFilePaths"] = [self._schema(path) for path in paths]
            has_changes = has_changes or store["stateSchemaFilePaths"] != paths
        if not has_changes:
            return line
        return json.dumps(facts, separators=(",", ":"))

    def schemas(self, operator: int) -> Iterator[AnyPath]:
        """The files in which Spark recorded the schemas of the state of an operator. Metadata that cannot be read is
        ignored."""
        for facts in sorted_paths((self.state / str(operator)).glob("_metadata/*/[0-9]*")):
            with contextlib.suppress(OSError, ValueError, AttributeError, TypeError):
                for line in facts.read_text(encoding="utf-8").splitlines()[1:]:
                    for store in json.loads(line).get("stateStoreInfo", ()):
                        matches = (_SCHEMA.search(str(path)) for path in store.get("stateSchemaFilePaths", ()))
                        yield from (self.state / match[1] for match in matches if match is not None)

    def _schema(self, path: str) -> str:
        """The place of a schema, from an earlier one."""
        match = _SCHEMA.search(path)
        if match is None:
            return path
        return f"{_LOCAL if isinstance(self.state, Path) else ''}{self.state / match[1]}"

    @property
    def offset_log(self) -> AnyPath:
        return self.folder / "offsets"

    @property
    def commit_log(self) -> AnyPath:
        return self.folder / "commits"

    @property
    def state(self) -> AnyPath:
        return self.folder / "state"

    @property
    def last_planned(self) -> int:
        """The last micro-batch that was planned, -1 for none. Raises OSError when the log cannot be read."""
        return _last(self.offset_log)

    @property
    def last_done(self) -> int:
        """The last micro-batch that was committed, -1 for none. Raises OSError when the log cannot be read."""
        return _last(self.commit_log)

    @property
    def is_unused(self) -> bool:
        """Whether no micro-batch was planned. Raises OSError when a log cannot be read."""
        return self.last_planned < 0 and self.last_done < 0 and not self.operators

    @property
    def committed_batches(self) -> list[int]:
        """The micro-batches that are known to be committed, ascending; none where the log cannot be read."""
        return _numbers(self.commit_log)

    @property
    def operators(self) -> list[int]:
        """Spark's numbers of its stateful operators."""
        return _numbers(self.state)

    def offsets(self, batch: int) -> BatchOffsets:
        """What was planned for a micro-batch.

        Raises:
            OSError: the entry cannot be read.
            ValueError: it is damaged.
        """
        return BatchOffsets.of((self.offset_log / str(batch)).read_bytes())

    def files_read(self, batch: int, after: int = -1) -> Iterator[str]:
        """The files that sources of files have read up to a micro-batch: local ones as paths, others as URLs.

        Args:
            batch: the micro-batch.
            after: omits what was read up to this one; -1 for nothing.

        Raises:
            OSError, ValueError: a log cannot be read.
        """
        for source in range(len(self.offsets(batch).sources)):
            for path, _ in self.files_of(source, batch, after):
                yield path

    def files_of(self, source: int, batch: int, after: int = -1) -> Iterator[tuple[str, int]]:
        """The files that one source has read, and when each was last modified, ms since 1970. As :meth:`files_read`."""
        last, first = self.offsets(batch).log_offset(source), -1
        if after >= 0:
            first = self.offsets(after).log_offset(source)
        files: dict[str, int] = {}
        for log in (self.folder / "sources" / str(source)).glob("[0-9]*"):
            for line in log.read_text(encoding="utf-8").splitlines()[1:]:
                entry = json.loads(line)
                if first < entry["batchId"] <= last:
                    files[_from_spark(entry["path"])] = int(entry["timestamp"])
        yield from files.items()

    def input_ended(self, batch: int) -> bool:
        """Whether input ended with a micro-batch. One that read nothing counts as the one before it.

        Raises:
            OSError, ValueError: a log cannot be read.
        """
        while batch > 0 and self.offsets(batch).sources == self.offsets(batch - 1).sources:
            batch -= 1  # it has no input: the number of partitions was changed
        markers = map(self.marker, self.files_read(batch, batch - 1) if batch >= 0 else ())
        return any(m is not None and (m.name.endswith(END) or m.parent.name == CLOSING) for m in markers)

    def marker(self, path: str) -> AnyPath | None:
        """The marker file of this checkpoint that a path recorded by Spark stands for; None for a file of a table."""
        match = _MARKER.search(path)
        marker = None if match is None else self.folder.parent / "splits" / match[1]
        return marker if marker is not None and marker.exists() else None

    def planned_at(self, batch: int) -> float:
        """When the entry of a micro-batch was written, seconds since 1970. Raises OSError."""
        return (self.offset_log / str(batch)).stat().st_mtime

    def has_store_ids(self, batch: int) -> bool:
        """Whether state that a committed micro-batch wrote is distinguished by the attempt that wrote it.

        Raises:
            OSError, ValueError: the entry of the micro-batch cannot be read.
        """
        lines = (self.commit_log / str(batch)).read_text(encoding="utf-8").splitlines()
        return len(lines) > 1 and bool(json.loads(lines[1]).get("stateUniqueIds"))

    def sweep(self, partitions: int) -> None:
        """Removes what partitions that no longer exist have left, which Spark never does: the folders whose number is
        at least ``partitions``. Call it one start after a repartition: a power failure may undo its commit."""
        for operator in self.state.iterdir() if self.state.is_dir() else ():
            for number in _numbers(operator):
                if number >= partitions:
                    remove_tree(operator / str(number))


def _parse(line: str) -> Any:
    with contextlib.suppress(ValueError):
        return json.loads(line)
    return None  # _NOTHING


def spark_operator(level: int, levels: int) -> int:
    """Spark's number of its stateful operator that holds a level: it counts from the last one, which has the number
    0."""
    return levels - level


def content_of(place: str, operators: Sequence[Stateful] = ()) -> str:
    """What a file or folder of Spark's checkpoint contains, in words for messages.

    Args:
        place: path below the checkpoint.
        operators: the operators of the job, to name those whose state it is.
    """
    kind, *rest = place.split("/")
    if not rest and kind == "state":
        return "the state of all operators"
    if kind == "metadata":
        return "the identity of the query"
    number = re.split("[._]", rest[-1])[0]
    if kind == "offsets":
        return f"what micro-batch {number} reads"
    if kind == "commits":
        return f"that micro-batch {number} is done"
    if kind == "sources":
        return f"which files of source {rest[0]} micro-batch {number} reads"
    levels = max((o.level for o in operators), default=0)
    names = [o.name for o in operators if rest[0] == str(spark_operator(o.level, levels))]
    state = f"state of {', '.join(names) or ('no operator of the plan' if operators else 'an operator')}"
    if len(rest) == 1:
        return state
    if not rest[1].isdecimal():
        return f"what Spark knows of the {state}"
    version = f", as of version {number}" if len(rest) == 3 else ""
    return f"{state}, partition {rest[1]}{version}"


def damage_of(path: AnyPath) -> str | None:
    """What is wrong with a file that Spark wrote; None if its checksums show no damage. Raises OSError.

    They are beside it (``.<name>.crc``, of Hadoop's ``ChecksumFileSystem``): "crc", a zero byte, the bytes per checksum
    as a 32-bit integer, and a CRC-32 for each block of that size.
    """
    data = path.read_bytes()
    sums = path.with_name(f".{path.name}.crc")
    if not sums.exists():
        return "is empty" if not data else None
    facts = sums.read_bytes()
    step = int.from_bytes(facts[4:8], "big")
    if facts[:4] != b"crc\0" or len(facts) < 8 or len(facts) % 4 or step <= 0:
        return f"has a damaged file of checksums beside it (.{path.name}.crc)"
    checksums = [int.from_bytes(facts[n : n + 4], "big") for n in range(8, len(facts), 4)]
    most, least = len(checksums) * step, max(0, (len(checksums) - 1) * step)
    if len(data) > most or (checksums and len(data) <= least):
        return f"is too {'long' if len(data) > most else 'short'} ({len(data)} bytes)"
    for number, value in enumerate(checksums):
        if zlib.crc32(data[number * step : (number + 1) * step]) != value:
            return f"is damaged at byte {number * step} to {min(len(data), (number + 1) * step)}"
    return None


def _as_spark(path: AnyPath) -> str:
    """A path as a URI, as Java writes one."""
    url = f"{_LOCAL}//{path}" if isinstance(path, Path) else str(path)
    return "".join(quote(c, safe=_LEGAL) if c.isascii() else c for c in url)


def _from_spark(uri: str) -> str:
    """The path or URL of a URI that Java wrote."""
    text = unquote(uri)
    return f"/{text.removeprefix(_LOCAL).lstrip('/')}" if text.startswith(_LOCAL) else text


def _last(log: AnyPath) -> int:
    return max((int(p.name) for p in log.iterdir() if p.name.isdecimal()), default=-1) if log.is_dir() else -1


def _numbers(folder: AnyPath) -> list[int]:
    """The numbers that entries of a folder have for names, ascending; none where it cannot be read."""
    with contextlib.suppress(OSError):
        return sorted(int(p.name) for p in folder.iterdir() if p.name.isdecimal())
    return []

"""Watermark alignment: parts of sources wait while their watermark is too far ahead of the slowest one of their group.

A group is the sources of one job that name it, and all their parts. The driver and the sources, which plan in processes
of their own, know of each other by small files in one folder of the checkpoint. After each micro-batch the driver
writes the watermarks of all parts (:class:`PartWatermarks`). Whenever a source plans, it notes for which of its parts
the others have to wait (:class:`Aligner`). These files decide what is read next. They do not change what a repeated
micro-batch reads: Spark's log has that before the first row is read.

Source: Flink's FLIP-182 and FLIP-217, ``SourceCoordinator``, ``SourceOperator`` and ``WatermarkParams``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

from stateplan.common.errors import CheckpointError, OptionError, Place
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.paths import AnyPath, write_whole

ALIGNMENT = "alignment"
"""Name of the folder."""

_MARKS = "watermarks.json"
_NONE = -(2**63)
"""The watermark of a part before its first one."""

_STEP = 10_000
"""Rows of a part that a micro-batch may read however far they go: fewer would not be worth a micro-batch."""

_GROUP, _DRIFT, _INTERVAL = (f"scan.watermark.alignment.{name}" for name in ("group", "max-drift", "update-interval"))

Parts: TypeAlias = Mapping[str, Mapping[str, int]]
"""Name of a source -> part -> its watermark, ms since 1970."""


def check_alignment(options: Mapping[str, str], place: Place | None) -> None:
    """Checks that the options about alignment are complete. Raises OptionError OPT101.

    Source: Flink's ``FactoryUtil.checkWatermarkOptions``.
    """
    keys = [key for key in (_GROUP, _DRIFT, _INTERVAL) if key in options]
    for key, expectation in ((_GROUP, "the name of a group"), (_DRIFT, "a duration such as '1 min'")):
        if keys and key not in keys:
            raise OptionError("OPT101", key=key, expectation=expectation, user=f"the option '{keys[0]}'", place=place)


@dataclass(frozen=True)
class Alignment:
    """How a source is aligned.

    Attributes:
        group: the group that the source belongs to.
        max_drift: how far a part may be ahead of the slowest one, ms.
        source: distinguishes the sources of the job.
        folder: with the files of all sources; None before the job starts.
    """

    group: str
    max_drift: int
    source: str
    folder: AnyPath | None = None


class PartWatermarks:
    """The watermarks of the parts of aligned sources, as the driver keeps them.

    Args:
        folder: with the files.
        sources: the names of the aligned sources. What others have left, of an earlier plan, is forgotten.

    Raises:
        CheckpointError: CKPT001, the folder cannot be written.
    """

    def __init__(self, folder: AnyPath, sources: Collection[str]) -> None:
        self._path = folder / _MARKS
        content = _content(self._path)
        self._marks: dict[str, dict[str, int]] = {name: dict(content.get(name, {})) for name in sources}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            existing_files: list[AnyPath] = [*folder.glob("*.json")]
            for path in existing_files:
                if path.name != _MARKS and path.stem not in sources:
                    path.unlink(missing_ok=True)
        except OSError as cause:
            raise _unusable(folder, cause) from cause

    def advance(self, parts: Parts) -> None:
        """Takes in the watermarks that a micro-batch has made. Raises CheckpointError CKPT001."""
        has_advanced = False
        for source, marks in parts.items():
            marks_of_source = self._marks.setdefault(source, {})
            for part, mark in marks.items():
                has_advanced |= mark > marks_of_source.get(part, _NONE)
                marks_of_source[part] = max(mark, marks_of_source.get(part, _NONE))
        if has_advanced:
            _write(self._path, self._marks)


@dataclass
class _Pace:
    """How fast event time goes in a part.

    Attributes:
        at: up to where it had been read when ``mark`` was its watermark.
        per_row: ms of event time that a row has brought lately; None while nobody knows.
        trusted: for how many rows that is taken to hold: twice as many as it is known from.
    """

    at: int
    mark: int
    per_row: float | None = None
    trusted: int = _STEP

    def look(self, at: int, mark: int) -> None:
        """Notes how far the part has advanced."""
        if at > self.at and self.mark > _NONE:
            self.per_row, self.trusted = (mark - self.mark) / (at - self.at), 2 * (at - self.at)
        if at != self.at:
            self.at, self.mark = at, mark

    def rows(self, room: int | None) -> int:
        """How many rows bring event time about ``room`` ms further, at least a few; a few where ``room`` is None."""
        if room is None or self.per_row is None:
            return _STEP
        return max(_STEP, min(int(room / self.per_row), self.trusted) if self.per_row > 0 else self.trusted)


class Aligner:
    """Aligns a source, where it plans.

    Args:
        alignment: the alignment of the source.
        idle_timeout: a part that has had no rows to read for this long holds nobody back, ms; 0 is never.
        is_bounded: whether the source ends. Then nobody waits for a part that has reached its end.
        clock: seconds.
    """

    def __init__(
        self, alignment: Alignment, idle_timeout: int, is_bounded: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        assert alignment.folder is not None
        self._alignment, self._folder = alignment, alignment.folder
        self._idle = idle_timeout / 1000
        self._bounded = is_bounded
        self._clock = clock
        self._quiet: dict[str, float] = {}
        self._pace: dict[str, _Pace] = {}
        self._recorded_parts: Mapping[str, Any] | None = None

    def open(self, at: Mapping[str, int], behind: Mapping[str, int]) -> dict[str, int]:
        """The parts that a micro-batch may read, and how many rows of each at most.

        Args:
            at: of all parts, how many rows have been read; any count that rows move on about one by one.
            behind: of the parts that have rows to read, how many.

        Returns:
            Some parts of ``behind``. The others wait, while a part with rows or one that is not idle is behind.
        """
        now = self._clock()
        self._quiet = {part: self._quiet.get(part, now) for part in at if part not in behind}
        marks = _content(self._folder / _MARKS)
        own = marks.get(self._alignment.source, {})
        part_marks = {("", part): own.get(part, _NONE) for part in at if self._counts(part, behind, now)}
        # A bounded job ends when no source reads: nobody may wait for what a source has recorded in an earlier run.
        if not self._bounded or self._recorded_parts is not None:
            part_marks |= self._of_others(marks)
        lowest = sorted(part_marks.items(), key=lambda one: one[1])[:2]
        out: dict[str, int] = {}
        for part, rows in behind.items():
            mark = own.get(part, _NONE)
            pace = self._pace.setdefault(part, _Pace(at[part], mark))
            pace.look(at[part], mark)
            others = next((least for key, least in lowest if key != ("", part)), None)
            if others is None:
                out[part] = rows
            elif mark <= others + self._alignment.max_drift:
                has_marks = mark > _NONE and others > _NONE
                out[part] = min(rows, pace.rows(others + self._alignment.max_drift - mark if has_marks else None))
        return out

    def note(self, left: Mapping[str, int], at: Collection[str]) -> None:
        """Notes for which parts the other sources have to wait, before the micro-batch is in Spark's log.

        Args:
            left: of the parts that have rows after the micro-batch, how many.
            at: all parts.

        Raises:
            CheckpointError: CKPT001, the folder cannot be written.
        """
        now = self._clock()
        parts = sorted(part for part in at if self._counts(part, left, now))
        content = {"group": self._alignment.group, "parts": parts}
        if content != self._recorded_parts:
            _write(self._folder / f"{self._alignment.source}.json", content)
            self._recorded_parts = content

    def _counts(self, part: str, behind: Mapping[str, int], now: float) -> bool:
        """Whether others have to wait for a part."""
        if part in behind:
            return True
        return not self._bounded and (not self._idle or now - self._quiet.get(part, now) < self._idle)

    def _of_others(self, marks: Mapping[str, Any]) -> dict[tuple[str, str], int]:
        """The watermarks of the parts of other sources that count, by source and part."""
        out: dict[tuple[str, str], int] = {}
        for path in self._folder.glob("*.json"):
            if path.name == _MARKS or path.stem == self._alignment.source:
                continue
            content = _content(path)
            if content.get("group") == self._alignment.group:
                source_marks = marks.get(path.stem, {})
                out |= {(path.stem, part): source_marks.get(part, _NONE) for part in content["parts"]}
        return out


def _content(path: AnyPath) -> dict[str, Any]:
    """What a file of the folder has; nothing if there is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _write(path: AnyPath, content: Mapping[str, Any]) -> None:
    try:
        write_whole(path, json.dumps(content))
    except OSError as cause:
        raise _unusable(path.parent, cause) from cause


def _unusable(folder: AnyPath, cause: OSError) -> CheckpointError:
    return CheckpointError("CKPT001", folder=folder, strerror=cause.strerror or cause)

"""Sources of the connectors ``kafka`` and ``upsert-kafka``.

Planning, in :mod:`.planning`, asks the brokers. A split is a range of offsets of a partition; it is read by
:mod:`.split_reader`, and its messages become rows in :mod:`.rows`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import field
from typing import TYPE_CHECKING, Any

from stateplan.common.errors import RunError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.connectors.alignment import Aligner
from stateplan.connectors.history import PastSplit, PositionedSource
from stateplan.connectors.kafka.client import Brokers, forget_consumers
from stateplan.connectors.kafka.history import past_splits
from stateplan.connectors.kafka.planning import FIRST, LAST, Planner, offsets_as, offsets_of, part_of, splits_between
from stateplan.connectors.kafka.rows import Rows
from stateplan.connectors.kafka.split_reader import fetch_group, read_split, read_whole
from stateplan.connectors.kafka.splits import KafkaSplit, merge_splits
from stateplan.connectors.kafka.tables import END, START, Bound, Limits, topics_of
from stateplan.connectors.protocol import Offset, OffsetSource, SourceTable
from stateplan.connectors.splits import AssignedSplit

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

_MESSAGE_BYTES = 1 << 10
"""How many bytes a message counts as, where nobody has read it."""

_AT_START = 10.0
"""For how many seconds brokers may be silent before the job has started."""


@dataclass
class KafkaSource(OffsetSource[KafkaSplit], PositionedSource[KafkaSplit]):
    """The partitions of topics.

    Attributes:
        brokers: the brokers of the table.
        rows: makes rows of messages; None where only offsets are planned.
        topics: the topics that are read; empty for a pattern.
        pattern: the pattern that names of topics match; None for a list.
        start, end: where partitions begin and end.
        discovery: after how many milliseconds to look for new partitions; 0 is never.
        limits: the limits of a micro-batch.
    """

    brokers: Brokers
    rows: Rows | None
    topics: tuple[str, ...]
    pattern: str | None
    start: Bound
    end: Bound
    discovery: int
    limits: Limits
    _planner: Planner | None = field(default=None, repr=False, compare=False)
    _coming: list[KafkaSplit] = field(default_factory=list, repr=False, compare=False)
    _ahead: dict[KafkaSplit, Iterator[pl.DataFrame]] = field(default_factory=dict, repr=False, compare=False)
    split_type = KafkaSplit
    modules = ("confluent_kafka.admin", __name__)
    part_keys, position_key, time_key = ("topic", "partition"), "offset", "timestamp"

    @staticmethod
    def of(table: SourceTable, upsert: bool) -> KafkaSource:
        """The source of a table, whose options have been checked."""
        start = Bound("earliest-offset") if upsert else Bound.of(table.options, START)
        return KafkaSource(
            Brokers.of(table),
            Rows.of(table, upsert),
            topics_of(table.options),
            table.options.get("topic-pattern"),
            start,
            Bound.of(table.options, END),
            300_000 if upsert else table.value("scan.topic-partition-discovery.interval"),
            Limits.of(table),
        )

    @property
    def bounded(self) -> bool:  # type: ignore[override] # whether it ends is a matter of the options
        return self.end.mode != "unbounded"

    @property
    def planner(self) -> Planner:
        """Plans in this process."""
        if self._planner is None:
            is_aligned = self.alignment is not None and self.alignment.folder is not None
            self._planner = Planner(
                self.brokers,
                self.topics,
                self.pattern,
                self.start,
                self.end,
                self.discovery / 1000,
                self.limits,
                self.idle_timeout / 1000,
                Aligner(self.alignment, self.idle_timeout, self.bounded) if self.alignment and is_aligned else None,
                self.acknowledges,
                self.pace,
            )
        return self._planner

    def __getstate__(self) -> Mapping[str, Any]:
        return {**self.__dict__, "_planner": None, "_coming": [], "_ahead": {}}

    def check(self, name: str) -> None:
        try:
            self.planner.partitions(min(_AT_START, self.brokers.time_out))
        finally:
            self._end_clients()  # another process plans

    def size(self) -> int | None:
        """A kibibyte for each message that is there. None for bounded input with a consumer group, as only a job in
        Spark commits its offsets."""
        if self.bounded and self.brokers.group is not None:
            return None
        try:
            begins = offsets_of(self.planner.initial())
            ends = self.planner.offsets_at(sorted(begins), LAST)
        finally:
            self._end_clients()
        return _MESSAGE_BYTES * sum(max(0, ends[place] - begin) for place, begin in begins.items())

    def close(self) -> None:
        self._end_clients()

    def for_planning(self) -> KafkaSource:
        source = copy(self)
        source.rows = None
        return source

    def initial_offset(self) -> Offset:
        with self._refusable():
            return self.planner.initial()

    def latest_offset(self, start: Offset) -> Offset:
        with self._refusable():
            return self.planner.latest(start)

    def plan(self, start: Offset, end: Offset) -> list[KafkaSplit]:
        if self.planner.marks is None:  # a micro-batch that an earlier run has planned
            with self._refusable():
                self.planner.same_topics(start)
        return splits_between(start, end)

    def history(
        self, begin: Offset, end: Offset, step: int | None, size: int, since: int | None = None
    ) -> Iterator[PastSplit[KafkaSplit]]:
        try:
            yield from past_splits(self.planner, begin, end, step, size, since)
        finally:
            self._end_clients()  # other processes read

    @property
    def row_types(self) -> tuple[LogicalType, ...]:
        assert self.rows is not None
        return self.rows.types

    def spans(self, begin: Offset, end: Offset) -> dict[str, tuple[int, int]]:
        begins = offsets_of(begin)
        # A partition that was discovered later began at its first message.
        return {part_of(place): (begins.get(place, 0), stop) for place, stop in offsets_of(end).items()}

    def first_positions(self, end: Offset) -> dict[str, int]:
        try:
            places = self.planner.offsets_at(sorted(offsets_of(end)), FIRST)
        finally:
            self._end_clients()  # other processes read
        return {part_of(place): first for place, first in places.items()}

    def rest(self, begin: Offset, end: Offset, positions: Mapping[str, int]) -> tuple[Offset, Offset] | None:
        stops = {place: stop for place, stop in offsets_of(end).items() if positions[part_of(place)] < stop}
        starts = {place: positions[part_of(place)] for place in stops}
        return (begin | offsets_as(starts), end | offsets_as(stops)) if stops else None

    def committed(self, end: Offset) -> None:
        self.planner.commit(end)

    def splits(self, batch: pa.RecordBatch) -> Sequence[AssignedSplit[KafkaSplit]]:
        return merge_splits(super().splits(batch))

    def expect(self, splits: Sequence[KafkaSplit]) -> None:
        self._coming, self._ahead = list(splits), {}

    def read(self, split: KafkaSplit) -> Iterator[pl.DataFrame]:
        assert self.rows is not None
        with self._refusable():
            if split.start < split.stop and split not in self._ahead and split in self._coming:
                self._fetch(split, self.rows)
            frames = self._ahead.pop(split, None)
            if frames is None:
                frames = map(self.rows.frame, read_split(self.brokers, split, self.rows.metadata_keys))
            yield from frames

    def _fetch(self, split: KafkaSplit, rows: Rows) -> None:
        """Fetches the messages of a split with those of the splits behind it, if they are few."""
        del self._coming[: self._coming.index(split)]
        group = fetch_group(self._coming)
        del self._coming[: self._coming.index(group[-1]) + 1]
        read = read_whole(self.brokers, group, rows.metadata_keys) if len(group) > 1 else {}
        self._ahead = dict(zip(read, rows.frames(list(read.values())), strict=True))

    @contextmanager
    def _refusable(self) -> Iterator[None]:
        """Closes the clients that brokers refuse: they would log in again and again, with the password that they
        were made with."""
        try:
            yield
        except RunError as error:
            if error.code == "RUN111":
                self._end_clients()
            raise

    def _end_clients(self) -> None:
        self._planner = None
        forget_consumers(self.brokers)

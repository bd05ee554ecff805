"""Sources that plan their own splits, and can read once more what a job has read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Generic, TypeVar

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.options import Option, OptionType, Role, flag
from stateplan.common.types import LogicalType
from stateplan.connectors.splits import Split

S = TypeVar("S", bound=Split)

BACKFILL = "backfill."
"""How the options begin that say what the history of a table is. They are about state that is made of it alone."""
BACKFILL_FROM = Option(
    f"{BACKFILL}from",
    OptionType.BEGIN,
    "Where the history begins from which `plan evolve` makes state. Earlier rows are omitted, and may be gone. "
    "`earliest`, the default, or a time in UTC such as `2026-01-31 08:00:00`. See "
    "[history](../plans/plan-diff.md#history).",
    role=Role.SOURCE,
)
BACKFILL_TABLE = Option(
    f"{BACKFILL}table",
    OptionType.STRING,
    "A table that holds the messages of this one as rows, from which `plan evolve` makes state if the topic has lost "
    "them. See [history in another table](../plans/plan-diff.md#history-in-another-table).",
    role=Role.SOURCE,
)

IGNORE_GAPS = flag(
    f"{BACKFILL}table.ignore-gaps",
    "Whether offsets that neither this topic nor its `backfill.table` has count as offsets without a row: of messages "
    "that a format skips or that a compacted topic has removed, and of the ends of transactions. By default, they are "
    "an error.",
    Role.SOURCE,
)


class HistoryLost(Exception):  # noqa: N818 - a fact about the other system
    """Why what a source has read cannot be read again, as a part of a sentence."""


@dataclass(frozen=True)
class PastSplit(Generic[S]):
    """A split that a job has read.

    Attributes:
        split: what is read.
        at: when its rows arrived, ms since 1970; None where the other system does not say.
        size: about how many bytes it has.
        seq: orders it among those of the same time.
        rest: a split of the same part without rows; None for a source without parts.
    """

    split: S
    at: int | None
    size: int
    seq: str
    rest: S | None = None


class RepeatableSource(ABC, Generic[S]):
    """What an :class:`connectors.protocol.OffsetSource` is besides, whose rows can be read again."""

    @abstractmethod
    def history(
        self, begin: dict[str, Any], end: dict[str, Any], step: int | None, size: int, since: int | None = None
    ) -> Iterator[PastSplit[S]]:
        """On the driver: what a job that began at ``begin`` has read up to ``end``, once more, and no other rows.

        Args:
            begin: what ``initial_offset`` returned to the job.
            end: an offset of the job.
            step: over how much time the rows of a split may have arrived, ms; None for any.
            size: about how many bytes a split may have.
            since: rows that arrived before are left out, and may be gone; ms since 1970, None for no time.

        Raises:
            HistoryLost: the rows are not there any more, or may be others.
            StateplanError: as the methods that plan.
        """


class PositionedSource(RepeatableSource[S]):
    """What a source is besides, whose rows can be identified by metadata: another table may hold them, too.

    A part of the source is named by its values of ``part_keys``, separated by slashes.

    Attributes:
        part_keys: the metadata keys that say of which part a row is.
        position_key: the metadata key of its position in that part, a number.
        time_key: the metadata key of the time when it arrived.
    """

    part_keys: ClassVar[tuple[str, ...]]
    position_key: ClassVar[str]
    time_key: ClassVar[str]

    @property
    @abstractmethod
    def row_types(self) -> tuple[LogicalType, ...]:
        """The types of the columns that it yields."""

    @abstractmethod
    def spans(self, begin: dict[str, Any], end: dict[str, Any]) -> dict[str, tuple[int, int]]:
        """On the driver: what a job has read between two offsets: by part, the first position, and the one behind the
        last."""

    @abstractmethod
    def first_positions(self, end: dict[str, Any]) -> dict[str, int]:
        """On the driver: by part, the first position that there is now. Raises as the methods that plan."""

    @abstractmethod
    def rest(
        self, begin: dict[str, Any], end: dict[str, Any], positions: Mapping[str, int]
    ) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """On the driver: the offsets between which the rows are that follow the positions of the parts; None if there
        are none."""

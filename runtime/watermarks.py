"""How far event time has advanced at one operator: the watermarks of its inputs, and how they travel.

A watermark is an instant in milliseconds since 1970: no row with a time at or before it is expected any more. Each task
of a source sends the largest one it has made to every key group of the operators that use event time, so all key groups
of an operator know the same; one of them passes the operator's own on. A *channel* is one way on which rows reach an
input (a UNION in front of it has several): the watermark of an operator is the least of its channels.

A source whose rows come in several streams, such as the partitions of a topic, makes a watermark for each of these
*parts*. The watermark of its channel is the least of them.

Source: Flink's ``StatusWatermarkValve`` and ``IdlenessManager``; for parts FLIP-27's watermarks per split.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias

from stateplan.common.lazy_dataclass import dataclass
from stateplan.runtime.kernel import END_OF_TIME, NO_WATERMARK, Watermark

_CODE = struct.Struct("<qi?")

READER = -1
"""In place of an operator: a step without state that reads watermarks, whose number stands for the input."""


@dataclass(frozen=True)
class Mark:
    """A watermark on its way: to a channel of an input of an operator (or :data:`READER`), of a part of the source."""

    operator: int
    input: int
    channel: int
    part: str = ""


@dataclass(frozen=True)
class PartWatermark:
    """A watermark as an input receives it.

    Attributes:
        channel: on which it comes.
        value: ms; :data:`NO_WATERMARK` of a part that has none so far.
        part: the part of the source; empty for a source without parts.
        rows: whether the part had rows, or has some that wait.
    """

    channel: int
    value: int
    part: str = ""
    rows: bool = True

    def packed(self) -> bytes:
        """As a blob has it."""
        return _CODE.pack(self.value, self.channel, self.rows) + self.part.encode()

    @staticmethod
    def unpacked(data: bytes) -> PartWatermark:
        """What :meth:`packed` was made of."""
        value, channel, rows = _CODE.unpack(data[: _CODE.size])
        return PartWatermark(channel, value, data[_CODE.size :].decode(), rows)


Channel: TypeAlias = tuple[int, int]
"""Number of the input, and of the channel there."""


@dataclass
class EventTime:
    """What an operator keeps about event time, with its state.

    Attributes:
        watermark: the watermark of the operator.
        since: the time of its first micro-batch, ms; None before it.
        parts: (input, channel) -> part of the source -> its watermark, and the time of the micro-batch that last
            brought rows, ms.
        advanced: the time of the micro-batch that last advanced the watermark, ms; None where that is not known.
    """

    watermark: int = NO_WATERMARK
    since: int | None = None
    parts: dict[Channel, dict[str, tuple[int, int]]] = field(default_factory=dict)
    advanced: int | None = None

    def advance(
        self,
        marks_received: Iterable[tuple[int, PartWatermark]],
        channels: Sequence[int],
        now: int,
        idle_timeout: int = 0,
        idle_timeouts: Mapping[Channel, int] | None = None,
    ) -> Watermark:
        """Takes in the watermarks of a micro-batch.

        The watermark that ends bounded input holds for this micro-batch only: should the job be started again on more
        input, its rows are not all late. A part that a micro-batch with rows of its channel does not name is gone.

        Args:
            marks_received: number of the input, and the watermark.
            channels: number of channels per input.
            now: the micro-batch's time, ms.
            idle_timeout: a part without rows for this long does not hold back the others, ms; 0 is never.
            idle_timeouts: the same for channels that have one of their own.
        """
        before = self.watermark
        self.since = now if self.since is None else self.since
        ended_channels: set[Channel] = set()
        named_parts: dict[Channel, dict[str, tuple[int, int]]] = {}
        for number, mark in marks_received:
            key = number, mark.channel
            if mark.value == END_OF_TIME:
                ended_channels.add(key)
                continue
            last_value, touched_at = self.parts.get(key, {}).get(mark.part, (NO_WATERMARK, now))
            other, later = named_parts.setdefault(key, {}).get(mark.part, (NO_WATERMARK, touched_at))
            named_parts[key][mark.part] = max(last_value, other, mark.value), now if mark.rows else later
        self.parts.update(named_parts)
        active: list[int] = []
        closing: list[int] = []
        for key in ((i, c) for i, count in enumerate(channels) for c in range(count)):
            parts = self.parts.get(key) or {"": (NO_WATERMARK, self.since)}
            wait = (idle_timeouts or {}).get(key, idle_timeout)
            marks = [at for at, touched_at in parts.values() if not 0 < wait <= now - touched_at]
            if marks:
                active.append(min(marks))
            if key in ended_channels or marks:
                closing.append(END_OF_TIME if key in ended_channels else min(marks))
        self.watermark = max(before, min(active, default=before))
        if self.watermark > before:
            self.advanced = now
        return Watermark(before, max(self.watermark, min(closing, default=before)))

    def to_json(self) -> dict[str, Any]:
        return {
            "watermark": self.watermark,
            "since": self.since,
            "advanced": self.advanced,
            "channels": [
                [*key, *value, *([part] if part else [])]
                for key, parts in sorted(self.parts.items())
                for part, value in sorted(parts.items())
            ],
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> EventTime:
        """Raises KeyError, TypeError or ValueError for what :meth:`to_json` did not write."""
        time = EventTime(int(data["watermark"]), data["since"], advanced=data.get("advanced"))
        for number, channel, mark, at, *part in data["channels"]:
            time.parts.setdefault((int(number), int(channel)), {})[str(part[0]) if part else ""] = int(mark), int(at)
        return time

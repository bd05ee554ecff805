"""How far event time has come at one operator: the watermarks of its inputs, and how they travel.

A watermark is an instant in milliseconds since 1970: no row with a time at or before it is expected any more. Each
task of a source sends the largest one it has made to every key group of the operators that ask for event time, so all
key groups of an operator know the same; one of them passes the operator's own on. A *channel* is one way on which rows
reach an input (a UNION in front of it has several): the watermark of an operator is the least of its channels.

Source: Flink's ``StatusWatermarkValve`` and ``IdlenessManager``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stateplan.execnodes.runtime.kernel import END_OF_TIME, NO_WATERMARK, Watermark

MARK = -1
"""Number of rows of a blob that holds a watermark and no rows."""

_CODE = struct.Struct("<qi")


@dataclass(frozen=True)
class Mark:
    """A watermark on its way: to a channel of an input of an operator."""

    operator: int
    input: int
    channel: int


def encode_mark(channel: int, value: int) -> bytes:
    """What a blob with a watermark holds."""
    return _CODE.pack(value, channel)


def decode_mark(data: bytes) -> tuple[int, int]:
    """Channel and value."""
    value, channel = _CODE.unpack(data)
    return channel, value


@dataclass
class EventTime:
    """What an operator keeps about event time, with its state.

    Attributes:
        watermark: of the operator.
        since: the time of its first micro-batch, ms; None before it.
        channels: (input, channel) -> its watermark, and the time of the micro-batch that last brought rows, ms.
    """

    watermark: int = NO_WATERMARK
    since: int | None = None
    channels: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)

    def advance(
        self, received: Iterable[tuple[int, int, int]], channels: Sequence[int], now: int, idle_timeout: int = 0
    ) -> Watermark:
        """Takes in the watermarks of a micro-batch.

        The watermark that ends bounded input holds for this micro-batch only: should the job be started again on more
        input, its rows are not all late.

        Args:
            received: (input, channel, value).
            channels: number of channels per input.
            now: the micro-batch's time, ms.
            idle_timeout: a channel without rows for so long does not hold back the others, ms; 0 is never.
        """
        before = self.watermark
        self.since = now if self.since is None else self.since
        ended = set()
        for number, channel, value in received:
            key = number, channel
            if value == END_OF_TIME:
                ended.add(key)
                continue
            known, _ = self.channels.get(key, (NO_WATERMARK, now))
            self.channels[key] = max(known, value), now
        active: list[int] = []
        closing: list[int] = []
        for key in ((i, c) for i, count in enumerate(channels) for c in range(count)):
            mark, touched = self.channels.get(key, (NO_WATERMARK, self.since))
            idle = idle_timeout > 0 and now - touched >= idle_timeout
            if not idle:
                active.append(mark)
            if key in ended or not idle:
                closing.append(END_OF_TIME if key in ended else mark)
        self.watermark = max(before, min(active, default=before))
        return Watermark(before, max(self.watermark, min(closing, default=before)))

    def to_json(self) -> dict[str, Any]:
        return {
            "watermark": self.watermark,
            "since": self.since,
            "channels": [[*key, *value] for key, value in sorted(self.channels.items())],
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> EventTime:
        """Raises KeyError, TypeError or ValueError for what :meth:`to_json` did not write."""
        channels = {(int(i), int(c)): (int(mark), int(at)) for i, c, mark, at in data["channels"]}
        return EventTime(int(data["watermark"]), data["since"], channels)

"""What a Kafka source has read, to be read once more: ranges of offsets of its partitions, with the times of their
messages.

Messages that are gone cannot be read again. Retention removes the first ones of a partition. Compaction removes some in
between: a message that a job has read may be gone because of one that it has not read yet.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from stateplan.common.errors import RunError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.connectors.history import HistoryLost, PastSplit
from stateplan.connectors.kafka.planning import FIRST, LAST, Planner, offsets_of, part_of
from stateplan.connectors.kafka.samples import Offsets, Place, consumer_at, mean_size
from stateplan.connectors.kafka.splits import KafkaSplit
from stateplan.connectors.protocol import Offset

if TYPE_CHECKING:
    from confluent_kafka import Message

_MESSAGE_SIZE = 1_000
"""Bytes of a message, where no message says."""

_POLL = 0.1


def past_splits(
    planner: Planner, begin: Offset, end: Offset, step: int | None, size: int, since: int | None = None
) -> Iterator[PastSplit[KafkaSplit]]:
    """See :meth:`connectors.history.RepeatableSource.history`.

    Each partition has a split without rows at the first time of all, so that the watermark waits for it.

    Raises:
        HistoryLost: messages are gone, or may be.
        RunError: RUN110 to RUN113, RUN115, RUN118.
    """
    planner.same_topics(end)
    spans = _spans(planner, begin, end, since)
    compacted = planner.compacted_topics(sorted({topic for topic, _ in spans}))
    if compacted:
        raise HistoryLost(f"topic '{compacted[0]}' is compacted, and may have lost messages that were read")
    cuts = _Cuts(planner, step, size)
    first: int | None = None
    for split, at in cuts.of({place: span for place, span in spans.items() if span[0] < span[1]}):
        first = at if first is None or (at is not None and at < first) else first
        seq = f"{split.topic}/{split.partition:010d}/{split.start:020d}"
        yield PastSplit(split, at, round((split.stop - split.start) * cuts.sizes[split.topic, split.partition]), seq)
    for place, (_, stop) in spans.items() if cuts.sizes else ():
        rest = KafkaSplit(*place, stop, stop, part=part_of(place))
        yield PastSplit(rest, first, 0, f"{place[0]}/{place[1]:010d}/", rest)


def _spans(planner: Planner, begin: Offset, end: Offset, since: int | None) -> dict[Place, tuple[int, int]]:
    """The first offset that was read of each partition, and the one behind the last. If there are messages from before
    ``since``, those that are gone were older. Raises HistoryLost; RunError RUN115, a partition is shorter."""
    begins, ends = offsets_of(begin), offsets_of(end)
    spans: dict[Place, tuple[int, int]] = {}
    for place, last in planner.offsets_at(sorted(ends), LAST).items():
        if last < ends[place]:
            raise planner.beyond(place, ends[place], last)
    later = {} if since is None else planner.offsets_at(sorted(ends), since)
    for place, first in planner.offsets_at(sorted(ends), FIRST).items():
        # A partition that was discovered later began at its first message.
        start, at = begins.get(place, 0), later.get(place, first)
        at = ends[place] if at < 0 else min(at, ends[place])
        if at > first or first <= start:
            start = max(start, at)
        if first > start and ends[place] > start:
            topic, number = place
            raise HistoryLost(
                f"partition {number} of topic '{topic}' begins with offset {first} now, and was read from {start} on"
            )
        spans[place] = start, ends[place]
    return spans


@dataclass
class _Cuts:
    """Cuts ranges of offsets into splits. Attributes as the arguments of :func:`past_splits`."""

    planner: Planner
    step: int | None
    size: int

    def __post_init__(self) -> None:
        self.sizes: dict[Place, float] = {}

    def of(self, spans: Mapping[Place, tuple[int, int]]) -> Iterator[tuple[KafkaSplit, int | None]]:
        """The splits of some partitions, none of them empty, and the times of their first messages. Times of a
        partition ascend."""
        for place, (start, stop) in spans.items():
            mean = mean_size(self.planner.brokers, place, stop, stop - start)
            self.sizes[place] = _MESSAGE_SIZE if mean is None else mean
        starts = {place: start for place, (start, _) in spans.items()}
        last: dict[Place, int] = {}
        while starts:
            messages = _first_messages(self.planner, starts)
            for place, start in list(starts.items()):
                stop = spans[place][1]
                message = messages.get(place)
                at = None if message is None else _time_of(message)
                if at is not None:
                    at = last[place] = max(at, last[place] + 1) if place in last else at
                elif message is None or message.offset() >= stop:  # there are only gaps up to the end
                    at = last.get(place)
                cut = self._cut(place, start, stop, at)
                yield KafkaSplit(*place, start, cut, part=part_of(place)), at
                starts[place] = cut
                if cut >= stop:
                    del starts[place]

    def _cut(self, place: Place, start: int, stop: int, at: int | None) -> int:
        """Where a split ends that begins at an offset and a time."""
        cut = min(stop, start + max(1, int(self.size / self.sizes[place])))
        if self.step is not None and at is not None and start + 1 < cut:
            later = self.planner.offsets_at([place], at + self.step + 1)[place]
            if start < later < cut:
                return later
        return cut


def _time_of(message: Message) -> int | None:
    from confluent_kafka import TIMESTAMP_NOT_AVAILABLE

    kind, at = message.timestamp()
    return None if kind == TIMESTAMP_NOT_AVAILABLE or at < 0 else int(at)


def _first_messages(planner: Planner, offsets: Offsets) -> dict[Place, Message]:
    """The first message of each partition from an offset on; partitions that have none are omitted. Raises RunError
    RUN110 to RUN113, RUN118."""
    from stateplan.connectors.kafka.client import passes

    messages: dict[Place, Message] = {}
    left, until = set(offsets), time.monotonic() + planner.brokers.time_out
    with consumer_at(planner.brokers, offsets) as consumer:
        while left:
            message = consumer.poll(_POLL)
            if message is None:
                if time.monotonic() > until:
                    raise _silent(planner, sorted(left)[0], offsets)
                continue
            error, place = message.error(), (message.topic(), message.partition())
            if error is None and place in left:
                messages[place] = message
                left.discard(place)
            elif error is not None and error.name() == "_PARTITION_EOF":
                left.discard(place)
            elif error is not None and not passes(error):
                raise planner.brokers.error(error, topic=str(place[0] or ""))
    return messages


def _silent(planner: Planner, place: Place, offsets: Offsets) -> RunError:
    brokers = planner.brokers
    return RunError(
        "RUN110.reading",
        topic=place[0],
        partition=place[1],
        offset=offsets[place],
        table=brokers.table,
        servers=brokers.servers,
        reason=brokers.without_secrets(planner.client.complaints.text),
        seconds=brokers.time_out,
    )

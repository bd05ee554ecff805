"""The splits of a table of Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stateplan.common.lazy_dataclass import dataclass
from stateplan.connectors.splits import AssignedSplit, Split


@dataclass(frozen=True)
class KafkaSplit(Split):
    """Messages of a partition.

    Attributes:
        topic, partition: where they are.
        start, stop: offset of the first one, and behind the last one.
    """

    topic: str
    partition: int
    start: int
    stop: int


def merge_splits(assigned_splits: Sequence[AssignedSplit[KafkaSplit]]) -> list[AssignedSplit[KafkaSplit]]:
    """Splits of which those that follow each other in a partition are one, so that it is read in one go."""
    out: list[AssignedSplit[KafkaSplit]] = []
    for at in assigned_splits:
        last = out[-1].split if out else None
        if last is not None and last.part == at.split.part and last.stop == at.split.start:
            out[-1] = replace(out[-1], split=replace(last, stop=at.split.stop))
        else:
            out.append(at)
    return out

"""What a changed plan did beside the old one, from the same state and over the same input: rows, state and time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

from stateplan.common.readable import amount, bytes_text, in_columns
from stateplan.plans.trial import change_events, key_of

_EXAMPLES = 3
_HEAD = ("plan", "rows read", "changes", "state rows", "state", "written", "busy per micro-batch")


Change: TypeAlias = tuple[str, str]
"""What became of a row: ``+I``, it is there, or ``-D``, it is not; and the row as JSON."""


@dataclass
class SinkChanges:
    """What a plan wrote to the table of a sink, which has rows already.

    Attributes:
        count: changes.
        net: how often each row was inserted more than it was deleted; empty if the last change of a key counts.
        last: the last change of each key.
    """

    count: int = 0
    net: Counter[str] = field(default_factory=Counter)
    last: dict[str, Change] = field(default_factory=dict)

    @staticmethod
    def read(folder: Path, key: Sequence[str]) -> SinkChanges:
        """The changes in a sink's files.

        Args:
            folder: as for :func:`plans.trial.table_rows`.
            key: columns of the key of which the last change counts; empty if equal rows are counted.
        """
        changes = SinkChanges()
        for old_row, new_row in change_events(folder):
            changes.count += 1
            for row, kind in ((old_row, "-D"), (new_row, "+I")):
                if row is not None and key:
                    changes.last[key_of(row, key)] = kind, row
                elif row is not None:
                    changes.net[row] += 1 if kind == "+I" else -1
        return changes

    @property
    def remaining(self) -> Counter[Change]:
        """The changes that are left where several are of one row."""
        net: Counter[Change] = Counter({("+I" if n > 0 else "-D", row): abs(n) for row, n in self.net.items() if n})
        return net + Counter(self.last.values())


@dataclass(frozen=True)
class SinkDifference:
    """How what the plans wrote to the table of a sink differs.

    Attributes:
        sink: its name.
        counts: how many changes each plan wrote; None for a plan that does not write to it.
        only_old, only_new: what only one of the plans did to a row.
        different: rows that both wrote for one key, by the old and by the new plan.
    """

    sink: str
    counts: tuple[int | None, int | None]
    only_old: Counter[Change]
    only_new: Counter[Change]
    different: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def of(sink: str, old: SinkChanges | None, new: SinkChanges | None) -> SinkDifference:
        """Compares what the plans wrote; None for a plan without the sink."""
        counts = (None if old is None else old.count, None if new is None else new.count)
        before, after = old or SinkChanges(), new or SinkChanges()
        only_old, only_new = before.remaining - after.remaining, after.remaining - before.remaining
        different = []
        for key in sorted(before.last.keys() & after.last.keys()):
            change, other = before.last[key], after.last[key]
            if change != other and change[0] == other[0]:
                del only_old[change], only_new[other]
                if change[0] == "+I":  # of a deleted row, only the key counts
                    different.append((change[1], other[1]))
        return SinkDifference(sink, counts, only_old, only_new, tuple(different))

    @property
    def total(self) -> int:
        """Rows that differ."""
        return self.only_old.total() + self.only_new.total() + len(self.different)

    def to_json(self) -> dict[str, Any]:
        """JSON-ready data, with a few examples."""
        return {
            "sink": self.sink,
            "changes": {"old": self.counts[0], "new": self.counts[1]},
            "onlyOld": self.only_old.total(),
            "onlyNew": self.only_new.total(),
            "different": len(self.different),
            "examples": {
                "onlyOld": [{"kind": kind, "row": json.loads(row)} for kind, row in _examples(self.only_old)],
                "onlyNew": [{"kind": kind, "row": json.loads(row)} for kind, row in _examples(self.only_new)],
                "different": [{"old": json.loads(a), "new": json.loads(b)} for a, b in self.different[:_EXAMPLES]],
            },
        }

    def to_text(self) -> Iterator[str]:
        """Lines for people."""
        writer = {(False, True): "old", (True, False): "new"}.get((self.counts[0] is None, self.counts[1] is None))
        count = amount(self.total, "row")
        yield (
            f"{self.sink}: {count} differ{'s' * (self.total == 1)}"
            if writer is None
            else f"{self.sink}: {count}, only of the {writer} plan"
        )
        yield from (f"  only old   {kind} {row}" for kind, row in _examples(self.only_old))
        yield from (f"  only new   {kind} {row}" for kind, row in _examples(self.only_new))
        yield from (f"  different  {old}  became  {new}" for old, new in self.different[:_EXAMPLES])


def _examples(changes: Counter[Change]) -> Sequence[Change]:
    return sorted(changes)[:_EXAMPLES]


@dataclass(frozen=True)
class PlanFigures:
    """What a plan cost.

    Attributes:
        rows: that its sources read; of a table that it reads several times, each time.
        state_rows, state_bytes: stored at the end.
        written: bytes of state that all micro-batches wrote.
        busy: task time of each micro-batch in its operators, ms.
    """

    rows: int
    state_rows: int
    state_bytes: int
    written: int
    busy: tuple[float, ...]

    def to_json(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {
            "rows": self.rows,
            "stateRows": self.state_rows,
            "stateBytes": self.state_bytes,
            "writtenBytes": self.written,
            "busyMillis": [round(ms, 1) for ms in self.busy],
        }


@dataclass(frozen=True)
class Fork:
    """Both plans from a copy of a checkpoint.

    Attributes:
        checkpoint: the original.
        batch: its last finished micro-batch.
        millis: how long each micro-batch of both plans lasted.
        plans: the figures of the old plan and of the new one.
        sinks: of both.
    """

    checkpoint: str
    batch: int
    millis: tuple[float, ...]
    plans: Mapping[str, PlanFigures]
    sinks: tuple[SinkDifference, ...]

    def to_json(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {
            "checkpoint": self.checkpoint,
            "microBatch": self.batch,
            "millis": [round(ms, 1) for ms in self.millis],
            "plans": {name: figures.to_json() for name, figures in self.plans.items()},
            "sinks": [sink.to_json() for sink in self.sinks],
        }

    def to_text(self) -> str:
        """For people."""
        count = amount(len(self.millis), "micro-batch", "micro-batches") if self.millis else "no new input"
        times = f" of {_times(self.millis)}" if self.millis else ""
        lines = [f"from {self.checkpoint}, as after micro-batch {self.batch}: {count}{times}", ""]
        rows = [_HEAD]
        for number, (name, figures) in enumerate(self.plans.items()):
            rows.append(
                (
                    f"the {name} plan",
                    f"{figures.rows:,}",
                    f"{sum(sink.counts[number] or 0 for sink in self.sinks):,}",
                    f"{figures.state_rows:,}",
                    bytes_text(figures.state_bytes),
                    bytes_text(figures.written),
                    _times(figures.busy),
                )
            )
        lines += in_columns(rows, left=1).rstrip("\n").split("\n")
        for sink in self.sinks:
            lines += ["", *sink.to_text()]
        return "\n".join([*lines, "", "an operator that both plans have runs once, and counts for both"]) + "\n"


def _times(millis: Sequence[float]) -> str:
    """The time that micro-batches mostly took, and the longest."""
    return f"{median(millis):,.0f} ms, at most {max(millis):,.0f} ms" if millis else "-"

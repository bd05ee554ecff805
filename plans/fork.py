"""What a changed plan does beside the old one, from the same state and over the same input: rows, state and time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any, TypeAlias

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.readable import amount, bytes_text, in_columns
from stateplan.execnodes.shadows import SIDES

if TYPE_CHECKING:
    import polars as pl

    from stateplan.runtime.shadows import TableChanges

_EXAMPLES = 3
_HEAD = ("plan", "rows read", "changes", "state rows", "state", "written", "busy per micro-batch")


Change: TypeAlias = tuple[str, str]
"""What became of a row: ``+I``, it is there, or ``-D``, it is not; and the row as JSON."""


@dataclass(frozen=True)
class SinkDifference:
    """How what the plans wrote to the table of a sink differs.

    Attributes:
        sink: its name.
        counts: how many changes each plan wrote; None for a plan that does not write to it.
        equal: rows to which both plans did the same.
        only_old, only_new: how many rows only one of the plans changed, or else than the other one.
        different: how many rows both wrote for one key with other values.
        old_examples, new_examples: some of what only one of the plans did.
        pairs: some of the different rows, by the old and by the new plan.
        end: the micro-batch at which the comparison ended, because too much differed; None if it has not.
    """

    sink: str
    counts: tuple[int | None, int | None]
    equal: int = 0
    only_old: int = 0
    only_new: int = 0
    different: int = 0
    old_examples: tuple[Change, ...] = ()
    new_examples: tuple[Change, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()
    end: int | None = None

    @staticmethod
    def of(sink: str, writers: tuple[bool, bool], changes: TableChanges) -> SinkDifference:
        """Compares what the plans wrote.

        Args:
            sink: its name.
            writers: which of the plans write it.
            changes: of both.
        """
        old, new = (count if writes else None for count, writes in zip(changes.counts, writers, strict=True))
        empty = SinkDifference(sink, (old, new), end=changes.end)
        if changes.rows is None or changes.end is not None:
            return empty
        return (_by_key if "key" in changes.rows.columns else _by_row)(empty, changes.rows)

    @property
    def total(self) -> int:
        """Rows that differ."""
        return self.only_old + self.only_new + self.different

    def to_json(self) -> dict[str, Any]:
        """JSON-ready data, with a few examples."""
        examples = {"onlyOld": self.old_examples, "onlyNew": self.new_examples}
        return {
            "sink": self.sink,
            "changes": {"old": self.counts[0], "new": self.counts[1]},
            "equal": self.equal,
            "onlyOld": self.only_old,
            "onlyNew": self.only_new,
            "different": self.different,
            **({} if self.end is None else {"endedAt": self.end}),
            "examples": {
                **{name: [{"kind": k, "row": json.loads(row)} for k, row in rows] for name, rows in examples.items()},
                "different": [{"old": json.loads(a), "new": json.loads(b)} for a, b in self.pairs],
            },
        }

    def to_text(self) -> Iterator[str]:
        """Lines for people."""
        if self.end is not None:
            yield f"{self.sink}: too many rows differ; the comparison ended with micro-batch {self.end}"
            return
        writer = {(False, True): "old", (True, False): "new"}.get((self.counts[0] is None, self.counts[1] is None))
        count = amount(self.total, "row")
        yield (
            f"{self.sink}: {count} differ{'s' * (self.total == 1)}, {self.equal:,} equal"
            if writer is None
            else f"{self.sink}: {count}, only of the {writer} plan"
        )
        yield from (f"  only old   {kind} {row}" for kind, row in self.old_examples)
        yield from (f"  only new   {kind} {row}" for kind, row in self.new_examples)
        yield from (f"  different  {old}  became  {new}" for old, new in self.pairs)


def _by_key(empty: SinkDifference, rows: pl.DataFrame) -> SinkDifference:
    """Compares the last change of each key by each plan. Of a deleted row, only the key counts."""
    import polars as pl

    both = rows.filter(pl.col("added_old").is_not_null() & pl.col("added_new").is_not_null())
    alike = both.filter(pl.col("added_old") == pl.col("added_new"))
    differs = pl.col("added_old") & (pl.col("row_old") != pl.col("row_new"))
    different = alike.filter(differs)
    unlike = rows.filter(pl.col("added_old").ne_missing(pl.col("added_new")))
    only = [unlike.filter(pl.col(f"added_{side}").is_not_null()) for side in SIDES]
    examples = [
        tuple(
            ("+I" if is_added else "-D", _row_text(row))
            for is_added, row in frame.select(f"added_{side}", f"row_{side}").sort(pl.all()).head(_EXAMPLES).rows()
        )
        for side, frame in zip(SIDES, only, strict=True)
    ]
    return replace(
        empty,
        equal=alike.height - different.height,
        only_old=only[0].height,
        only_new=only[1].height,
        different=different.height,
        old_examples=examples[0],
        new_examples=examples[1],
        pairs=tuple(
            (_row_text(old), _row_text(new))
            for old, new in different.select("row_old", "row_new").sort(pl.all()).head(_EXAMPLES).rows()
        ),
    )


def _by_row(empty: SinkDifference, rows: pl.DataFrame) -> SinkDifference:
    """Compares how often each plan has inserted each row."""
    import polars as pl

    counts = [int(rows[side].abs().sum()) for side in SIDES]
    examples = [
        tuple(
            ("+I" if count > 0 else "-D", _row_text(row))
            for row, count in rows.filter(pl.col(side) != 0).select("row", side).sort("row").head(_EXAMPLES).rows()
        )
        for side in SIDES
    ]
    totals = [count for count in empty.counts if count is not None]
    return replace(
        empty,
        equal=max(0, min(total - own for total, own in zip(totals, counts, strict=False))) if len(totals) > 1 else 0,
        only_old=counts[0],
        only_new=counts[1],
        old_examples=examples[0],
        new_examples=examples[1],
    )


def _row_text(row: str) -> str:
    return json.dumps(json.loads(row), ensure_ascii=False)


@dataclass(frozen=True)
class PlanFigures:
    """What a plan cost.

    Attributes:
        rows: the rows that its sources read. A table that it reads twice counts twice.
        state_rows, state_bytes: the size of its state at the end.
        written_bytes: bytes of state that all micro-batches wrote.
        busy: task time of each micro-batch in its operators, ms.
    """

    rows: int
    state_rows: int
    state_bytes: int
    written_bytes: int
    busy: tuple[float, ...]

    def to_json(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {
            "rows": self.rows,
            "stateRows": self.state_rows,
            "stateBytes": self.state_bytes,
            "writtenBytes": self.written_bytes,
            "busyMillis": [round(ms, 1) for ms in self.busy],
        }


@dataclass(frozen=True)
class Fork:
    """Both plans from a copy of a checkpoint.

    Attributes:
        checkpoint: the original.
        batch: its last finished micro-batch.
        millis: how long each micro-batch of both plans lasted, at least the last ones.
        plans: the figures of the old plan and of the new one.
        sinks: of both.
        count: micro-batches; None for those of ``millis``.
    """

    checkpoint: str
    batch: int
    millis: tuple[float, ...]
    plans: Mapping[str, PlanFigures]
    sinks: tuple[SinkDifference, ...]
    count: int | None = None

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
        return "\n".join(
            (f"from {self.checkpoint}, as after micro-batch {self.batch}: {self._micro_batches}", *self._body)
        )

    def to_shadow_text(self) -> str:
        """For people, of a job that runs."""
        return "\n".join((f"runs the old plan and a shadow of the new one: {self._micro_batches}", *self._body))

    @property
    def _micro_batches(self) -> str:
        if not self.millis:
            return "no new input"
        count = len(self.millis) if self.count is None else self.count
        return f"{amount(count, 'micro-batch', 'micro-batches')} of {_times(self.millis)}"

    @property
    def _body(self) -> Iterator[str]:
        rows = [_HEAD]
        for number, (name, figures) in enumerate(self.plans.items()):
            rows.append(
                (
                    f"the {name} plan",
                    f"{figures.rows:,}",
                    f"{sum(sink.counts[number] or 0 for sink in self.sinks):,}",
                    f"{figures.state_rows:,}",
                    bytes_text(figures.state_bytes),
                    bytes_text(figures.written_bytes),
                    _times(figures.busy),
                )
            )
        yield ""
        yield from in_columns(rows, left=1).rstrip("\n").split("\n")
        for sink in self.sinks:
            yield from ("", *sink.to_text())
        yield from ("", "an operator that both plans have runs once, and counts for both", "")


def _times(millis: Sequence[float]) -> str:
    """The time that micro-batches mostly took, and the longest."""
    return f"{median(millis):,.0f} ms, at most {max(millis):,.0f} ms" if millis else "-"

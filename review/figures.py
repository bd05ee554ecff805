"""How much state a job keeps, by what its checkpoint or a report of ``state show`` says, and how much a changed plan
would keep.

The only assumption is that rows arrive evenly. Then the number of rows that a state keeps does not grow faster than its
TTL. Twice the TTL keeps at most twice the rows, and half the TTL at least half of them. Keys that appear again make the
difference between these bounds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from stateplan.common.errors import CheckpointError, PlanError, StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.ttl import NEVER, outlives, parse_ttl
from stateplan.plans.document import PlanDocument
from stateplan.runtime.metrics.log import read_job, read_metrics
from stateplan.runtime.metrics.records import BatchMetrics
from stateplan.runtime.metrics.state_uses import StateUses
from stateplan.runtime.spark.hadoop import checkpoint_path

_ALMOST = 0.9
"""The oldest row of a state is almost as old as its TTL: rows arrive from time to time."""

_FARTHEST = 8
"""A TTL that is so many times as long as rows have accumulated has no limit that is worth a number."""

StateKey = tuple[str, int]
"""The uid of an operator, and the index of a state of it."""


@dataclass(frozen=True)
class Amount:
    """Rows and bytes of state, from the least to the most.

    Attributes:
        rows, most_rows: None for most if there is no limit.
        bytes, most_bytes: None for both if they are unknown.
    """

    rows: int
    most_rows: int | None
    bytes: int | None
    most_bytes: int | None

    @staticmethod
    def exactly(rows: int, size: int | None) -> Amount:
        """One that is known."""
        return Amount(rows, rows, size, size)

    def to_json(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {"rows": self.rows, "mostRows": self.most_rows, "bytes": self.bytes, "mostBytes": self.most_bytes}


@dataclass(frozen=True)
class StateFigure:
    """What a state keeps now.

    Attributes:
        rows, bytes: its rows, and their size.
        span: how long rows have accumulated, ms; None if that is unknown.
        trials: by TTL, ms, what it would keep.
    """

    rows: int
    bytes: int
    span: int | None = None
    trials: Mapping[int, Amount] = field(default_factory=dict)

    @property
    def now(self) -> Amount:
        """What it keeps."""
        return Amount.exactly(self.rows, self.bytes)

    def under(self, old_ttl: int, new_ttl: int) -> Amount | None:
        """What it would keep with another TTL, ms, once rows of that age have come; None if that is unknown."""
        if new_ttl in self.trials:
            return self.trials[new_ttl]
        ages = [age for age in (old_ttl, self.span) if age]
        if not ages:
            return None
        oldest = min(ages)
        if old_ttl != NEVER and oldest >= _ALMOST * old_ttl:
            oldest = old_ttl
        if new_ttl == NEVER or new_ttl > _FARTHEST * oldest:
            return Amount(self.rows, None, self.bytes, None)
        if oldest < old_ttl and outlives(old_ttl, new_ttl) and new_ttl >= oldest:
            return self.now  # nothing is as old as either TTL yet
        scaled_rows, scaled_bytes = (round(n * new_ttl / oldest) for n in (self.rows, self.bytes))
        return Amount(
            min(self.rows, scaled_rows),
            max(self.rows, scaled_rows),
            min(self.bytes, scaled_bytes),
            max(self.bytes, scaled_bytes),
        )


@dataclass(frozen=True)
class Figures:
    """What the states of a job keep.

    Attributes:
        source: the checkpoint or the file, for readers.
        states: by state.
        is_stored: whether older versions and expired rows that are still stored count.
        document: the plan of the job; None if only its figures are known.
        uses: how its states were used; None if that is unknown.
    """

    source: str
    states: Mapping[StateKey, StateFigure]
    is_stored: bool = False
    document: PlanDocument | None = None
    uses: StateUses | None = None

    def matches(self, document: PlanDocument) -> int:
        """How many of its states are states of a plan."""
        uids = set(document.uids.values())
        return sum(uid in uids for uid, _ in self.states)


def of_checkpoint(folder: str, options: Mapping[str, str]) -> Figures:
    """The figures that the job of a checkpoint has left. Neither state is read nor Spark started for a local one.

    Raises:
        CheckpointError: CKPT001, CKPT002, it is no checkpoint; CKPT005, its plan cannot be read.
    """
    path = checkpoint_path(folder, options)
    records = read_metrics(path)
    job = read_job(path)
    try:
        document = PlanDocument.parse((path / "plan.json").read_text(), f"{folder}/plan.json")
    except (OSError, ValueError) as cause:
        raise CheckpointError("CKPT005.damaged_file", file=path / "plan.json", why=cause) from cause
    states: dict[StateKey, StateFigure] = {}
    span = _span(records)
    for operator in () if job is None else job.operators:
        size = records[-1].state.get(operator.uid) if records else None
        if size is None or size.partial or operator.id not in document.uids:
            continue
        for index, (rows, size_of_state) in enumerate(zip(size.rows, size.bytes, strict=True)):
            states[document.uids[operator.id], index] = StateFigure(rows, size_of_state, span)
    return Figures(folder, states, True, document, StateUses.of(records) if records else None)


def _span(records: Sequence[BatchMetrics]) -> int | None:
    """How long the job has run, by the clock of its micro-batches, ms."""
    first_is_there = bool(records) and records[0].batch + 1 == records[0].batches
    return records[-1].time - records[0].time if first_is_there else None


def of_report(path: str) -> Figures:
    """The figures in what ``state show --format json`` has printed; TTLs of ``--what-if`` count.

    Raises:
        StateplanError: REV003, it is something else.
    """
    try:
        data = json.loads(Path(path).read_text("utf-8"))
        states = {
            (str(entry["uid"]), int(entry["index"])): _figure(entry, data) for entry in data["states"] if "uid" in entry
        }
    except OSError as cause:
        raise StateplanError("REV003", path=path, why=cause.strerror or cause) from cause
    except (ValueError, KeyError, TypeError, AttributeError, PlanError) as cause:
        why = f"it lacks {cause}" if isinstance(cause, KeyError) else str(cause)
        raise StateplanError("REV003", path=path, why=why) from cause
    return Figures(path, states)


def _figure(entry: Mapping[str, Any], data: Mapping[str, Any]) -> StateFigure:
    rows, size = int(entry["liveRows"]), int(entry["liveBytes"])
    oldest = entry.get("oldestMillis")
    span = int(data["nowMillis"]) - int(oldest) if oldest is not None else None
    trials = {
        NEVER if trial["never"] else parse_ttl(str(trial["ttl"]["to"])): Amount.exactly(
            int(trial["liveRows"]), max(0, size - int(trial["freedBytes"]) + int(trial["revivedBytes"]))
        )
        for trial in data.get("whatIf", ())
        if trial["selector"] == entry["selector"]
    }
    return StateFigure(rows, size, span, trials)

"""What variants of a plan with other TTLs did over the same input: their results, their state, and what differs.

A row is *missing* that only the first variant emits, *extra* that only the other one emits, and *wrong* where both give
a row of the same primary key with other values.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from stateplan.common.lazy_dataclass import dataclass
from stateplan.connectors.listing import natural_key, table_files
from stateplan.plans.selector_text import Assignment

_EXAMPLES = 3


@dataclass(frozen=True)
class Variant:
    """A way of setting TTLs.

    Attributes:
        label: for people.
        assignments: TTLs that are not those of the plan.
    """

    label: str
    assignments: tuple[Assignment, ...] = ()


@dataclass(frozen=True)
class Point:
    """After a micro-batch: its time (ms), rows and bytes of all state, and the bytes of state that it wrote."""

    time: int
    rows: int
    bytes: int
    written_bytes: int


@dataclass(frozen=True)
class Rows:
    """The rows of a sink's table at the end.

    Attributes:
        counts: how often each row is there, as JSON.
        key: columns of the primary key.
    """

    counts: Counter[str]
    key: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What a variant did: the tables of its sinks by name, and its state over time."""

    variant: Variant
    sinks: Mapping[str, Rows]
    points: tuple[Point, ...]

    @property
    def last(self) -> Point:
        """The state at the end."""
        return self.points[-1] if self.points else Point(0, 0, 0, 0)

    @property
    def most(self) -> int:
        """The most rows of state that there were."""
        return max((p.rows for p in self.points), default=0)

    @property
    def written_bytes(self) -> int:
        """Bytes of state that all micro-batches wrote."""
        return sum(p.written_bytes for p in self.points)


@dataclass(frozen=True)
class Difference:
    """How the table of a sink differs from that of the first variant.

    Attributes:
        sink: its name.
        rows: how many rows the first variant emits.
        missing_rows, extra_rows: rows.
        wrong: pairs of a row as it should be, and as it is.
        blame: of the states whose TTLs were set, those whose TTL alone makes a difference, with the number of rows.
    """

    sink: str
    rows: int
    missing_rows: Counter[str]
    extra_rows: Counter[str]
    wrong: tuple[tuple[str, str], ...]
    blame: Mapping[str, int]

    @property
    def total(self) -> int:
        """Rows that are not as they should be."""
        return sum(self.missing_rows.values()) + sum(self.extra_rows.values()) + len(self.wrong)

    def to_json(self) -> dict[str, Any]:
        """JSON-ready data, with a few examples."""
        return {
            "sink": self.sink,
            "rows": self.rows,
            "missing": sum(self.missing_rows.values()),
            "wrong": len(self.wrong),
            "extra": sum(self.extra_rows.values()),
            "blame": dict(self.blame),
            "examples": {
                "missing": [json.loads(row) for row in sorted(self.missing_rows)[:_EXAMPLES]],
                "wrong": [{"right": json.loads(a), "wrong": json.loads(b)} for a, b in self.wrong[:_EXAMPLES]],
                "extra": [json.loads(row) for row in sorted(self.extra_rows)[:_EXAMPLES]],
            },
        }


@dataclass(frozen=True)
class Trial:
    """Variants of a plan over the same input.

    Attributes:
        outcomes: per variant; the others are compared with the first one.
        singles: of variants that set several TTLs, each TTL alone.
        rows: the rows that were read.
        seconds: the seconds that it took.
        clocked: whether the input was played on a clock of its own; else TTLs count the time of the run.
    """

    outcomes: tuple[Outcome, ...]
    singles: tuple[Outcome, ...]
    rows: int
    seconds: float
    clocked: bool

    @cached_property
    def differences(self) -> tuple[tuple[Difference, ...], ...]:
        """Per variant, how each sink differs; nothing differs in the first one."""
        first, *others = self.outcomes
        return ((), *(tuple(self._differences(first, other)) for other in others))

    def _differences(self, first: Outcome, other: Outcome) -> Iterator[Difference]:
        for name, right in first.sinks.items():
            missing_rows, extra, wrong = compare_rows(right, other.sinks[name])
            blame = {}
            for assignment in other.variant.assignments:
                alone = self._alone(other, assignment)
                if alone is not None:
                    rows_lost, rows_added, pairs = compare_rows(right, alone.sinks[name])
                    count = sum(rows_lost.values()) + sum(rows_added.values()) + len(pairs)
                    if count:
                        blame[assignment.selector.text] = count
            yield Difference(name, sum(right.counts.values()), missing_rows, extra, wrong, blame)

    def _alone(self, outcome: Outcome, assignment: Assignment) -> Outcome | None:
        if len(outcome.variant.assignments) == 1:
            return outcome
        return next((o for o in self.singles if o.variant.assignments == (assignment,)), None)


def blamed(variants: Sequence[Variant]) -> list[Variant]:
    """For each TTL of the variants that set several, a variant that sets it alone."""
    alone = dict.fromkeys(a for v in variants if len(v.assignments) > 1 for a in v.assignments)
    return [Variant(assignment.selector.text, (assignment,)) for assignment in alone]


def compare_rows(right: Rows, other_rows: Rows) -> tuple[Counter[str], Counter[str], tuple[tuple[str, str], ...]]:
    """Rows that are missing, rows that are too many, and pairs of rows with the same key."""
    missing_rows, extra = right.counts - other_rows.counts, other_rows.counts - right.counts
    if not right.key or not missing_rows or not extra:
        return missing_rows, extra, ()
    by_key = {key_of(row, right.key): row for row in extra}
    wrong = []
    for row in list(missing_rows):
        other = by_key.get(key_of(row, right.key))
        if other is not None:
            wrong.append((row, other))
            del missing_rows[row], extra[other]
    return missing_rows, extra, tuple(sorted(wrong))


def key_of(row: str, columns: Sequence[str]) -> str:
    """The key of a row, as JSON."""
    values = json.loads(row)
    return json.dumps([values[column] for column in columns])


def change_events(folder: Path) -> Iterator[tuple[str | None, str | None]]:
    """The changes in a sink's files, as the row before and the row after, as JSON. Argument as of
    :func:`table_rows`."""
    files = [entry.path for entry in table_files(str(folder))] if folder.is_dir() else []
    for path in sorted(files, key=natural_key):
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                event = json.loads(line)
                old_row, new_row = (None if event[s] is None else json.dumps(event[s]) for s in ("before", "after"))
                yield old_row, new_row


def table_rows(folder: Path, key: Sequence[str], upserts: bool) -> Rows:
    """The rows that the changes in a sink's files amount to.

    Args:
        folder: of files with ``debezium-json``, named in the order in which they were written.
        key: the key of the table.
        upserts: whether a change replaces the row of its key.
    """
    counts: Counter[str] = Counter()
    rows: dict[str, str] = {}
    for old_row, come in change_events(folder):
        if upserts:
            if old_row is not None:
                rows.pop(key_of(old_row, key), None)
            if come is not None:
                rows[key_of(come, key)] = come
        else:
            if old_row is not None:
                counts[old_row] -= 1
            if come is not None:
                counts[come] += 1
    if upserts:
        counts = Counter(rows.values())
    return Rows(+counts, tuple(key))

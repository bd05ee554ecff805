"""How often a job that has no end looks at its sources."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from stateplan.connectors.protocol import Offset, OffsetSource
from stateplan.connectors.splits import RangeSplit
from stateplan.runtime.local import arrivals
from stateplan.runtime.local.arrivals import Arrivals


class Growing(OffsetSource[RangeSplit]):
    """Rows of which the test says how many there are."""

    split_type = RangeSplit
    bounded = False
    rows = 0

    def __init__(self, interval: int | None) -> None:
        self.interval = interval

    def initial_offset(self) -> Offset:
        return {"rows": 0}

    def latest_offset(self, start: Offset) -> Offset:
        return {"rows": self.rows}

    def plan(self, start: Offset, end: Offset) -> list[RangeSplit]:
        return [RangeSplit(start["rows"], end["rows"])]

    def read(self, split: RangeSplit) -> Iterator[pl.DataFrame]:
        yield pl.DataFrame()


class Looking:
    """Looks at sources, each time after the interval that the last look has said."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *readers: Growing) -> None:
        self._now = 0.0
        monkeypatch.setattr(arrivals.time, "monotonic", lambda: self._now)
        graph: Any = SimpleNamespace(sources=[SimpleNamespace(reader=r, name=f"t{i}") for i, r in enumerate(readers)])
        self._arrivals = Arrivals(graph)

    def look(self) -> tuple[int, list[int]]:
        """Milliseconds to the next look, and the sources with new rows."""
        part = self._arrivals.look()
        self._arrivals.commit()
        self._now += self._arrivals.interval
        return round(self._arrivals.interval * 1000), [] if part is None else sorted(part.splits)


def test_a_source_is_looked_at_soon_after_rows_and_then_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Growing(None)
    looking = Looking(monkeypatch, source)
    assert [looking.look() for _ in range(4)] == [(50, []), (100, []), (100, []), (100, [])]
    source.rows = 5
    assert [looking.look() for _ in range(4)] == [(25, [0]), (50, []), (100, []), (100, [])]
    for rows in (6, 7, 8):
        source.rows = rows
        assert looking.look() == (25, [0])


@pytest.mark.parametrize("interval", [10, 50, 1000])
def test_a_source_that_says_how_often_is_looked_at_as_often(monkeypatch: pytest.MonkeyPatch, interval: int) -> None:
    source = Growing(interval)
    looking = Looking(monkeypatch, source)
    assert looking.look() == (interval, [])
    source.rows = 5
    assert [looking.look() for _ in range(2)] == [(interval, [0]), (interval, [])]


def test_rows_of_one_source_do_not_have_another_looked_at_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    quick, slow = Growing(None), Growing(1000)
    looking = Looking(monkeypatch, quick, slow)
    looking.look()
    found = []
    for rows in range(1, 101):
        quick.rows = slow.rows = rows
        interval, sources = looking.look()
        assert interval == 25
        found += sources
    assert (found.count(0), found.count(1)) == (100, 2), "2.5 seconds"

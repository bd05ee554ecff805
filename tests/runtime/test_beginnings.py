"""A source begins once: a first micro-batch that runs again begins where it began before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from stateplan.connectors.history import PastSplit, RepeatableSource
from stateplan.connectors.protocol import Offset, OffsetSource
from stateplan.connectors.splits import RangeSplit
from stateplan.runtime.beginnings import beginning, first_offset, forget_beginning


class Growing(OffsetSource[RangeSplit], RepeatableSource[RangeSplit]):
    """Begins at its end, which is another one each time."""

    split_type = RangeSplit
    end = 0

    def initial_offset(self) -> Offset:
        self.end += 1
        return {"at": self.end}

    def latest_offset(self, start: Offset) -> Offset:
        return start

    def plan(self, start: Offset, end: Offset) -> list[RangeSplit]:
        return []

    def read(self, split: RangeSplit) -> Iterator[pl.DataFrame]:
        yield from ()

    def history(
        self, begin: dict[str, Any], end: dict[str, Any], step: int | None, size: int, since: int | None = None
    ) -> Iterator[PastSplit[RangeSplit]]:
        yield from ()


def test_a_source_begins_where_it_began(tmp_path: Path) -> None:
    source, folder = Growing(), tmp_path / "source"
    assert [first_offset(source), first_offset(source)] == [{"at": 1}, {"at": 2}], "without a checkpoint"
    assert beginning(folder) is None
    source.folder = folder
    assert [first_offset(source), first_offset(source), beginning(folder)] == [{"at": 3}] * 3
    forget_beginning(folder)
    assert first_offset(source) == {"at": 4}


def test_a_damaged_record_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "beginning.json").write_bytes(b"\x00{")
    assert beginning(tmp_path) is None

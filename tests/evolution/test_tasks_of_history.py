"""History that is read again is divided among the tasks of a job: each piece is read once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stateplan.connectors.splits import FileSplit
from stateplan.evolution.history import HistorySource, Piece


@pytest.mark.parametrize("tasks", [1, 2, 3])
def test_each_piece_is_read_once(tasks: int, tmp_path: Path) -> None:
    """Rows of a single task have no number, those of several say whose they are."""
    pieces = [Piece(0, 1, FileSplit(str(tmp_path / str(n)), 1), str(n)) for n in range(5)]
    reader: Any = None
    source = HistorySource(reader=reader, pieces={0: pieces}, tasks=tasks)
    rows = [{"seq": "0", "now": 0, **({} if tasks == 1 else {"part": part})} for part in range(tasks)]
    found = [split.split for row in rows for split in source.splits(pa.RecordBatch.from_pylist([row]))]
    assert sorted(found, key=str) == sorted((piece.split for piece in pieces), key=str)

"""Random queries leave the same rows, however their input is cut into micro-batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.random_queries import our_rows
from tests.support.cases import Case
from tests.support.random_queries import random_query


@pytest.mark.parametrize("seed", [2, 5, 9, 14, 22, 25, 33, 31, 64])
def test_rows_do_not_depend_on_micro_batches(seed: int, tmp_path: Path) -> None:
    query = random_query(seed, rows=True)
    assert not query.late
    query.write(tmp_path / "case")
    case = Case(tmp_path / "case")
    row_by_row, larger = (our_rows(case, tmp_path / f"run{step}", step, groups) for step, groups in ((1, 2), (5, 3)))
    assert row_by_row == larger

"""Which rows of a source another table holds: each exactly once, at their times, in splits that follow each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.connectors.history import HistoryLost, PastSplit
from stateplan.connectors.history_table import PART, POSITION, TIME
from stateplan.evolution.positions import _CHUNK, Positions, Scan, TableSplit, merged_history, scan

NOON = 1_769_860_800_000


def frame(*rows: tuple[str | None, int | None, int | None]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), {PART: pl.String, POSITION: pl.Int64, TIME: pl.Int64}, orient="row")


def scanned(
    spans: Mapping[str, tuple[int, int]],
    *frames: pl.DataFrame,
    step: int | None = None,
    size: int = 1000,
    since: int | None = None,
    first_left: Mapping[str, int] | None = None,
) -> Scan:
    table_bytes = sum(f.height for f in frames)
    return scan(frames, "h", spans, table_bytes=table_bytes, step=step, size=size, since=since, first_left=first_left)


def numbered(part: str, *positions: int, at: int = NOON) -> pl.DataFrame:
    """Rows that arrive a second after one another."""
    return frame(*((part, n, at + 1000 * n) for n in positions))


def test_positions_are_those_that_were_added() -> None:
    positions = Positions()
    assert positions.add(np.arange(2, 2 * _CHUNK)) is None
    assert positions.first_gap(0) == 0
    assert positions.first_gap(2) == 2 * _CHUNK
    assert positions.add(np.array([0, 1, 2 * _CHUNK + 1])) is None
    assert positions.first_gap(0) == 2 * _CHUNK
    assert positions.add(np.array([5])) == 5, "of a chunk that is complete"
    assert positions.add(np.array([2 * _CHUNK + 1])) == 2 * _CHUNK + 1, "of one that is not"
    assert positions.add(np.array([3 * _CHUNK, 3 * _CHUNK])) == 3 * _CHUNK
    assert 2 * _CHUNK + 1 in positions and 2 * _CHUNK not in positions


@given(st.lists(st.lists(st.integers(0, 12).map(lambda n: n * (_CHUNK // 5)))), st.integers(0, 13))
def test_positions_are_like_a_set(batches: list[list[int]], start: int) -> None:
    positions, numbers = Positions(), set[int]()
    for batch in batches:
        repeated = positions.add(np.sort(np.array(batch, np.int64)))
        if len(set(batch)) < len(batch) or numbers.intersection(batch):
            assert repeated is not None
            assert repeated in numbers or batch.count(repeated) > 1
            return
        assert repeated is None
        numbers.update(batch)
    gap = start
    while gap in numbers:
        gap += 1
    assert positions.first_gap(start) == gap


def test_rows_are_read_up_to_where_the_job_stands_or_the_table_ends() -> None:
    spans = {"t/0": (0, 5), "t/1": (0, 5), "t/2": (3, 3), "t/3": (2, 4)}
    result = scanned(spans, numbered("t/1", 0, 1), numbered("t/0", 6, 4, 2, 0), numbered("t/0", 1, 3, 5, 7))
    assert result.spans == {"t/0": (0, 5), "t/1": (0, 2), "t/2": (3, 3), "t/3": (2, 2)}
    assert [cut[:3] for cut in result.cuts] == [("t/0", 0, 5), ("t/1", 0, 2)]


def test_rows_behind_a_gap_are_left_to_the_source() -> None:
    assert scanned({"t/0": (0, 5)}, numbered("t/0", 0, 1, 3, 4)).spans == {"t/0": (0, 2)}


@pytest.mark.parametrize(
    ("first_left", "span"),
    [
        (0, (0, 2)),  # the topic has all that the table lacks
        (2, (0, 2)),
        (3, (0, 5)),  # it has lost what is in the gap
        (4, (0, 5)),
        (5, (0, 5)),
        (7, (0, 8)),  # and what is in another one
        (8, (0, 8)),
        (20, (0, 8)),
    ],
)
def test_gaps_that_the_source_has_too_are_ignored(first_left: int, span: tuple[int, int]) -> None:
    rows = numbered("t/0", 0, 1, 3, 4, 6, 7)
    result = scanned({"t/0": (0, 10)}, rows, first_left={"t/0": first_left}, size=2)
    assert result.spans == {"t/0": span}
    edges = [place for _, start, stop, _ in result.cuts for place in range(start, stop)]
    assert edges == list(range(*span))
    begins_later = scanned({"t/0": (0, 10)}, rows, first_left={"t/0": 20}, since=NOON + 2500)
    assert begins_later.spans == {"t/0": (3, 8)}


def test_a_row_that_is_there_twice_is_refused_where_it_counts() -> None:
    assert scanned({"t/0": (1, 3)}, numbered("t/0", 0, 0, 1, 2, 3, 3), numbered("t/1", 1, 1)).spans == {"t/0": (1, 3)}
    for frames in ([numbered("t/0", 0, 1, 1)], [numbered("t/0", 0, 1), numbered("t/0", 1, 2)]):
        with pytest.raises(HistoryLost, match="table 'h' has the row 1 of t/0 twice"):
            scanned({"t/0": (0, 3)}, *frames)


@pytest.mark.parametrize("row", [(None, 1, NOON), ("t/0", None, NOON)])
def test_a_row_from_nowhere_is_refused(row: tuple[str | None, int | None, int | None]) -> None:
    with pytest.raises(HistoryLost, match="a row of table 'h' does not say where it is from"):
        scanned({"t/0": (0, 3)}, frame(row))


def test_splits_end_where_they_are_large_or_take_long() -> None:
    times = [0, 10, 900, 1000, 1001, 5000]
    rows = frame(*(("t/0", n, NOON + at) for n, at in enumerate(times)))
    by_time = scanned({"t/0": (0, 6)}, rows, step=1000)
    assert by_time.cuts == [("t/0", 0, 3, NOON), ("t/0", 3, 5, NOON + 1000), ("t/0", 5, 6, NOON + 5000)]
    by_size = scanned({"t/0": (0, 6)}, rows, size=2)
    assert by_size.cuts == [("t/0", 0, 2, NOON), ("t/0", 2, 4, NOON + 1), ("t/0", 4, 6, NOON + 2)]


def test_times_ascend_even_if_those_of_rows_do_not() -> None:
    rows = frame(("t/0", 0, NOON), ("t/0", 1, NOON + 5000), ("t/0", 2, NOON - 5000), ("t/0", 3, NOON + 9000))
    cuts = scanned({"t/0": (0, 4)}, rows, step=1000).cuts
    assert cuts == [("t/0", 0, 1, NOON), ("t/0", 1, 3, NOON + 5000), ("t/0", 3, 4, NOON + 9000)]


def test_rows_without_times_take_turns() -> None:
    rows = frame(*((part, n, None) for part in ("t/0", "t/1") for n in range(3)))
    cuts = scanned({"t/0": (0, 3), "t/1": (0, 3)}, rows, size=2).cuts
    assert cuts == [("t/0", 0, 2, None), ("t/1", 0, 2, None), ("t/0", 2, 3, None), ("t/1", 2, 3, None)]


def test_rows_before_the_begin_of_the_history_are_left_out() -> None:
    rows = numbered("t/0", 2, 3, 4)
    assert scanned({"t/0": (0, 5)}, rows, since=NOON + 3000).spans == {"t/0": (3, 5)}
    assert scanned({"t/0": (0, 5)}, rows, since=NOON + 9000).spans == {"t/0": (5, 5)}
    assert scanned({"t/0": (0, 5)}, rows, since=NOON).spans == {"t/0": (0, 0)}, "earlier ones may be missing"
    assert scanned({"t/0": (2, 5)}, rows, since=NOON).spans == {"t/0": (2, 5)}
    assert scanned({"t/0": (0, 5)}, since=NOON).spans == {"t/0": (0, 0)}


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=30),
    st.lists(st.integers(0, 9), min_size=1, max_size=5),
    st.sampled_from([None, 1, 10]),
    st.integers(1, 40),
)
def test_splits_have_each_row_once_and_within_the_step(
    times: Sequence[int], order: Sequence[int], step: int | None, size: int
) -> None:
    rows = [("t/0", n, at) for n, at in enumerate(times)]
    files = [rows[number :: len(order)] for number in range(len(order))]
    result = scanned({"t/0": (0, len(rows))}, *(frame(*some) for some in files if some), step=step, size=size)
    edges = [(start, stop) for _, start, stop, _ in result.cuts]
    assert [n for start, stop in edges for n in range(start, stop)] == list(range(len(rows)))
    assert all(stop - start <= size for start, stop in edges)
    ats = [at for *_, at in result.cuts if at is not None]
    assert ats == sorted(set(ats))
    highest = 0
    for _, start, stop, _ in result.cuts:
        reached = []
        for n in range(start, stop):
            highest = max(highest, times[n])
            reached.append(highest)
        assert step is None or max(reached) - min(reached) <= step


def test_what_the_source_itself_reads_follows() -> None:
    def past(start: int, at: int | None) -> PastSplit[TableSplit]:
        return PastSplit(TableSplit(start, start + 1, part="t/0"), at, 1, "")

    def merged(table: Sequence[int | None], source: Sequence[int | None]) -> Iterator[int | None]:
        splits = [[past(n, at) for n, at in enumerate(some)] for some in (table, source)]
        return (each.at for each in merged_history(iter(splits[0]), iter(splits[1])))

    assert list(merged([5, 8], [9, 10])) == [5, 8, 9, 10]
    assert list(merged([5, 8], [7, 10])) == [5, 8, 9, 10]
    assert list(merged([None], [7, None])) == [None, 7, None]

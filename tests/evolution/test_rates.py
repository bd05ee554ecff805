"""How long work would take, by the metrics that a job has left."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stateplan.connectors.splits import FileSplit
from stateplan.evolution.history import Piece
from stateplan.evolution.rates import Rates, reached_operators
from stateplan.runtime.checkpoint.slots import SourceEntry, laid_out
from stateplan.runtime.jobgraph import Pipeline, ToOperator
from stateplan.runtime.metrics.records import BatchMetrics
from tests.runtime.state_jobs import job

JOB = job((1, 1), (2, 2))
LAYOUT = laid_out(JOB, None, None, 0, "old")[1]
SOURCE = LAYOUT.sources[0].uid
"""Of node 90."""


def record(batch: int, rows: int, ms: float, batches: int = 1) -> BatchMetrics:
    """Micro-batches in which the source and operator 1 take ``ms`` for ``rows``; a row of state has 10 bytes."""
    figures = {"rows_in": rows, "busy_ms": ms, "bytes_read": 5 * rows}
    state = {"rows_in": rows, "busy_ms": ms, "state_bytes_written": 10 * rows, "write_ms": ms / 2}
    return BatchMetrics(batch, 0, 0, 1.0, {SOURCE: figures, "u1": state}, {}, batches=batches)


def rates(*records: BatchMetrics, parallelism: int = 1) -> Rates:
    return Rates(records, LAYOUT, parallelism)


def piece(size: int) -> Piece:
    return Piece(0, size, FileSplit("f", size), "f")


def test_time_is_that_of_the_largest_micro_batch() -> None:
    measured = rates(record(3, 400, 4000, batches=4), record(4, 1000, 2000), record(5, 1, 700))
    assert measured.reading_time(90, 5000) == 10.0
    assert measured.writing_time(1, 30_000) == 3.0
    assert measured.running_time([JOB.operators[0]], 500) == 1.0
    assert replace(measured, parallelism=4).reading_time(90, 5000) == 2.5


def test_rows_of_files_follow_from_their_bytes_and_others_from_all_that_was_read() -> None:
    whole = rates(record(3, 400, 4, batches=4), record(4, 100, 1))
    assert whole.rows(90, [piece(250), piece(500)]) == 150
    assert whole.rows(90, [piece(0)]) == 500
    assert whole.rows(90, [piece(0)], is_whole=False) is None
    later = rates(record(3, 400, 4, batches=3), record(4, 100, 1))
    assert later.rows(90, [piece(0)]) is None, "the first micro-batch is missing"
    assert later.rows(90, [piece(250)]) == 50


@pytest.mark.parametrize("measured", [rates(), rates(record(0, 0, 3.0))])
def test_nothing_is_said_without_evidence(measured: Rates) -> None:
    assert measured.writing_time(1, 10) is None
    assert measured.reading_time(90, 10) is None
    assert measured.rows(90, [piece(10)]) is None
    assert measured.running_time(JOB.operators, 10) is None
    assert measured.running_time(JOB.operators, None) is None
    assert (measured.writing_time(1, 0), measured.running_time(JOB.operators, 0)) == (0, 0), "there is nothing to do"


def test_operators_of_another_kind_are_no_evidence() -> None:
    measured = rates(record(0, 100, 1000))
    assert measured.running_time([replace(JOB.operators[0], name="op[77]")], 10) == 0.1
    assert measured.running_time([replace(JOB.operators[0], name="join[1]")], 10) is None
    assert Rates(measured.records, replace(LAYOUT, sources=(SourceEntry(5, "other"),)), 1).reading_time(90, 10) is None


def test_operators_that_rows_reach_count() -> None:
    first = replace(JOB.sources[0], pipeline=Pipeline((), (ToOperator(0, 0, ("c0",)),)))
    onwards = replace(JOB.operators[0], pipeline=Pipeline((), (ToOperator(1, 0, ("c0",)),)))
    part = replace(JOB, sources=(first,), operators=(onwards, JOB.operators[1], JOB.operators[0]))
    assert reached_operators(part) == [onwards, JOB.operators[1]]

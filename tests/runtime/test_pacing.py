"""Micro-batches of a simulated job approach the duration that it asks for."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.connectors.pace import Pace
from stateplan.runtime.metrics.records import BatchMetrics
from stateplan.runtime.pacing import FIRST_ROWS, LEAST_ROWS, BatchTimes, Pacer


def batch(number: int, ms: float, **rows: int) -> BatchMetrics:
    """A micro-batch that read so many rows of sources."""
    return BatchMetrics(number, 0, 0, ms, {uid: {"rows_in": n} for uid, n in rows.items()}, {})


class Machine:
    """Micro-batches that take ``fixed`` ms, and some ms for every thousand rows, while there is a backlog.

    Attributes:
        times: ms of each.
    """

    def __init__(self, target: int, fixed: float, per_thousand: float, backlog: int = 10**12) -> None:
        self.pacer = Pacer(target, ["s"])
        self.fixed, self.per_thousand, self.backlog = fixed, per_thousand, backlog
        self.times: list[float] = []

    def run(self, batches: int, jitter: tuple[float, ...] = (1.0,)) -> None:
        for _ in range(batches):
            rows = min(self.backlog, self.pacer.rows)
            self.backlog -= rows
            number = len(self.times)
            self.times.append((self.fixed + rows * self.per_thousand / 1000) * jitter[number % len(jitter)])
            self.pacer.look(batch(number, self.times[-1], s=rows))


def test_two_micro_batches_tell_fixed_time_from_that_of_rows() -> None:
    times = BatchTimes()
    times.add(1000, 300)
    times.add(5000, 700)
    assert times.per_row == pytest.approx(0.1) and times.fixed_ms == pytest.approx(200)
    assert times.rows_in(2000) == pytest.approx(18_000, abs=1)


def test_a_target_below_the_fixed_time_doubles_it() -> None:
    times = BatchTimes()
    times.add(1000, 300)
    times.add(5000, 700)
    assert times.rows_in(100) == times.rows_in(300) == pytest.approx(2000, abs=1)


@given(st.integers(500, 20_000), st.floats(0, 0.4), st.floats(0.05, 500))
def test_micro_batches_soon_take_the_target(target: int, share: float, per_thousand: float) -> None:
    machine = Machine(target, share * target, per_thousand)
    machine.run(20)
    least_rows = share * target + LEAST_ROWS * per_thousand / 1000
    assert machine.times[-1] == pytest.approx(max(target, least_rows), rel=0.02)


def test_micro_batches_of_like_size_do_not_lose_the_target() -> None:
    machine = Machine(2000, 300, 4)
    machine.run(200, jitter=(0.9, 1.05, 1.1, 0.95, 1.0))
    assert all(1400 < ms < 2800 for ms in machine.times[10:]), machine.times


def test_a_slower_machine_gets_fewer_rows() -> None:
    machine = Machine(1000, 200, 2)
    machine.run(15)
    before = machine.pacer.rows
    machine.per_thousand = 8
    machine.run(15)
    assert machine.pacer.rows == pytest.approx(before / 4, rel=0.05)
    assert machine.times[-1] == pytest.approx(1000, rel=0.05)


def test_a_trickle_does_not_shrink_what_a_backlog_may_read() -> None:
    machine = Machine(1000, 200, 2)
    machine.run(15)
    before = machine.pacer.rows
    machine.backlog = 0
    for number in range(50):
        machine.pacer.look(batch(number, 205, s=10 + number % 3))
    assert machine.pacer.rows == before


def test_an_empty_micro_batch_says_nothing() -> None:
    pacer = Pacer(1000, ["s"])
    assert pacer.look(batch(0, 5000, s=0)) == pacer.look(batch(1, 5000)) == FIRST_ROWS


def test_the_table_with_the_largest_backlog_counts() -> None:
    one, other = Pacer(1000, ["s", "t"]), Pacer(1000, ["s"])
    assert one.look(batch(0, 100, s=20_000, t=3)) == other.look(batch(0, 100, s=20_000)) == 4 * FIRST_ROWS


def test_what_spark_takes_besides_counts() -> None:
    pacer = Pacer(1000, ["s"])
    first = batch(0, 500, s=20_000)
    pacer.look(first)
    first.spark = {"triggerExecution": 900.0}
    pacer.look(batch(1, 700, s=20_000))
    assert pacer.rows == pytest.approx(20_000 / 1.1, rel=0.01)


def test_an_earlier_run_is_recalled() -> None:
    machine = Machine(1000, 200, 2)
    machine.run(15)
    records = [batch(n, ms, s=int((ms - 200) * 500)) for n, ms in enumerate(machine.times)]
    pacer = Pacer(1000, ["s"])
    pacer.recall(records)
    assert pacer.rows == pytest.approx(machine.pacer.rows, rel=0.01)


def test_processes_read_the_pace(tmp_path: Path) -> None:
    pace = Pace(tmp_path / "rows")
    assert pace.rows() is None
    pace.decide(1234)
    assert Pace(tmp_path / "rows").rows() == 1234
    pace.decide(7)
    assert pace.rows() == 7

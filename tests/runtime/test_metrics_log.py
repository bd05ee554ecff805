"""Records of micro-batches in a checkpoint: what is written is read, old records are thinned, crashes do no harm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.errors import CheckpointError
from stateplan.runtime.metrics.ages import Histogram
from stateplan.runtime.metrics.counters import Attempt, one_attempt
from stateplan.runtime.metrics.log import FILES, FOLDER, MetricsLog, read_job, read_metrics
from stateplan.runtime.metrics.records import BatchMetrics, JobInfo, OperatorInfo, StateSize, StateTotals

FIGURES = st.dictionaries(
    st.sampled_from(["rows_in", "rows_in.0.+I", "busy_ms"]), st.integers(1, 10**6) | st.floats(0.25, 9.75), min_size=1
)
RECORDS = st.builds(
    BatchMetrics,
    st.integers(0, 10**9),
    st.integers(0, 10**13),
    st.integers(0, 10**13),
    st.integers(1, 10**6).map(float),
    st.dictionaries(st.sampled_from("abc"), FIGURES),
    st.dictionaries(
        st.sampled_from("abc"),
        st.builds(StateSize, *[st.lists(st.integers(0, 10**12), min_size=2, max_size=2)] * 3, st.booleans()),
    ),
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 10**13)),
    st.dictionaries(st.sampled_from(["addBatch", "walCommit"]), st.integers(0, 10**6).map(float)),
    st.integers(1, 100),
    st.integers(10**6, 10**7).map(float),
    st.dictionaries(st.sampled_from("abc"), st.sampled_from([0.25, 1.5])),
    st.dictionaries(st.sampled_from("abc"), st.just({"0.joined": Histogram({3: 5, 700: 1})})),
)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    (tmp_path / "stateplan.json").write_text("{}")
    return tmp_path


def record(batch: int, rows: float = 1, ms: float = 10) -> BatchMetrics:
    state = {"a": StateSize([batch], [10 * batch], [1])}
    return BatchMetrics(batch, 1000 * batch, 5000 * batch, ms, {"a": {"rows_in": rows}}, state, {"a": batch})


def log(checkpoint: Path, size: int = 1 << 20) -> MetricsLog:
    return MetricsLog(checkpoint / FOLDER, size)


@given(RECORDS)
def test_a_record_comes_back_as_it_was(one: BatchMetrics) -> None:
    if one.batches == 1:
        one.slowest_ms = one.ms
    back = BatchMetrics.from_json(json.loads(json.dumps(one.to_json())))
    for figures in one.operators.values():
        for name, value in figures.items():
            figures[name] = pytest.approx(value, abs=0.005)
    assert back == one


def test_records_are_read_by_whoever_comes(checkpoint: Path) -> None:
    writer = log(checkpoint)
    assert read_metrics(checkpoint) == [] and read_job(checkpoint) is None
    info = JobInfo("id", "näme", 5, 0, (OperatorInfo("a", 3, "operator", "join[3]", ("left", "right"), 8),), 2)
    writer.begin(info)
    writer.append(record(0))
    assert read_metrics(checkpoint) == [record(0)] and read_job(checkpoint) == info
    writer.append(record(1))
    writer.annotate(1, {"walCommit": 3.0})
    assert [r.spark for r in read_metrics(checkpoint)] == [{}, {"walCommit": 3.0}]


def test_what_is_not_a_checkpoint_is_refused(tmp_path: Path) -> None:
    for folder, code in ((tmp_path, "CKPT002"), (tmp_path / "none", "CKPT001")):
        with pytest.raises(CheckpointError) as caught:
            read_metrics(folder)
        assert caught.value.code == code


def test_a_micro_batch_that_ran_again_counts_once(checkpoint: Path) -> None:
    first = log(checkpoint)
    first.append(record(0))
    first.append(record(1, rows=100))
    second = log(checkpoint)  # after a crash: batch 1 was not committed
    second.append(record(1, rows=7))
    second.append(record(2))
    assert [(r.batch, r.operators["a"]["rows_in"]) for r in read_metrics(checkpoint)] == [(0, 1), (1, 7), (2, 1)]


def test_a_checkpoint_taken_back_in_time_forgets_what_came_after(checkpoint: Path) -> None:
    writer = log(checkpoint)
    for batch in (0, 1, 2, 3, 1, 2):
        writer.append(record(batch, rows=10 + batch))
    assert [r.batch for r in read_metrics(checkpoint)] == [0, 1, 2]


def test_a_line_that_a_crash_cut_off_is_passed_over(checkpoint: Path) -> None:
    log(checkpoint).append(record(0))
    [file] = (checkpoint / FOLDER).glob("*.jsonl")
    file.write_bytes(file.read_bytes() + b'{"batch":1,"time":10')
    assert [r.batch for r in read_metrics(checkpoint)] == [0]
    log(checkpoint).append(record(1))
    assert [r.batch for r in read_metrics(checkpoint)] == [0, 1]


@pytest.mark.parametrize("text", ['{"batch": 1}', '{"batch": "x", "operators": {}}', "[]", "null", "\0", "[" * 100_000])
def test_damaged_lines_are_passed_over(checkpoint: Path, text: str) -> None:
    writer = log(checkpoint)
    writer.append(record(0))
    [file] = (checkpoint / FOLDER).glob("*.jsonl")
    file.write_text(file.read_text() + text + "\n")
    writer.append(record(2))
    assert [r.batch for r in read_metrics(checkpoint)] == [0, 2]


def test_months_stay_small_and_nothing_is_lost_from_the_sums(checkpoint: Path) -> None:
    count, size = 20_000, 8 << 10
    writer = log(checkpoint, size)
    written = 0
    for batch in range(count):
        if batch % 3000 == 1:
            writer = log(checkpoint, size)
        writer.append(record(batch, rows=batch % 7 + 1, ms=batch % 11))
        writer.annotate(batch, {"walCommit": 1.0})
        written += len(json.dumps(record(batch).to_json()))
    kept = read_metrics(checkpoint)
    on_disk = sum(p.stat().st_size for p in (checkpoint / FOLDER).iterdir())
    levels = {p.name.split("-")[0] for p in (checkpoint / FOLDER).glob("*.jsonl")}
    assert len(levels) >= 3 and on_disk < (FILES + 2) * len(levels) * size and on_disk * 10 < written
    assert sum(r.operators["a"]["rows_in"] for r in kept) == sum(b % 7 + 1 for b in range(count))
    assert sum(r.batches for r in kept) == count and sum(r.spark["walCommit"] for r in kept) == count
    assert sum(r.ms for r in kept) == sum(b % 11 for b in range(count))
    assert max(r.slowest_ms for r in kept) == 10
    batches = [r.batch for r in kept]
    assert batches == sorted(set(batches)) and batches[-1] == count - 1
    assert all(r.state["a"].rows == [r.batch] and r.time == 1000 * r.batch for r in kept)
    assert kept[0].batches > 100 and {r.batches for r in kept[-20:]} == {1}


def test_a_crash_while_records_are_thinned_counts_none_twice(checkpoint: Path) -> None:
    writer = log(checkpoint, 2000)
    batch = 0
    while not list((checkpoint / FOLDER).glob("1-*.jsonl")):
        before = {p: p.read_bytes() for p in (checkpoint / FOLDER).glob("*.jsonl")} if batch else {}
        writer.append(record(batch))
        batch += 1
    gone = [p for p in before if not p.exists()]
    assert len(gone) == 1
    for path in gone:  # as if the machine had stopped before the file was removed
        path.write_bytes(before[path])
    assert sum(r.batches for r in read_metrics(checkpoint)) == batch


def test_growth_becomes_size() -> None:
    totals = StateTotals({"a": 2, "b": 1}, {"a": StateSize([5], [50], [1])})
    figures = {
        "a": {"rows_in": 1.0, "state_rows": 3.0, "state_rows.1": 3.0, "state_bytes.1": 30.0, "state_rows_merged": 2.0},
        "b": {"state_rows.0": 2.0, "state_runs.0": 1.0},
        "scan": {"rows_in": 9.0},
    }
    totals.take(figures)
    assert figures == {"a": {"rows_in": 1.0, "state_rows_merged": 2.0}, "b": {}, "scan": {"rows_in": 9.0}}
    assert totals.sizes() == {"a": StateSize([5, 3], [50, 30], [1, 0]), "b": StateSize([2], [0], [1])}
    assert StateTotals({"a": 1}, None).sizes() == {"a": StateSize([0], [0], [0], partial=True)}


def test_of_each_task_one_attempt_counts() -> None:
    added = {
        Attempt(4, 1, 0, 10): {"a": {"rows_in": 5.0, "watermark_ms": 3.0}},
        Attempt(4, 1, 0, 12): {"a": {"rows_in": 5.0, "watermark_ms": 3.0}},  # its output was lost, it ran again
        Attempt(4, 1, 1, 11): {"a": {"rows_in": 2.0, "watermark_ms": 9.0}},
        Attempt(4, 2, 0, 13): {"a": {"rows_out": 1.0}, "b": {"rows_in": 1.0}},
        Attempt(3, 1, 0, 9): {"a": {"rows_in": 1000.0}},  # of the micro-batch before, too late
    }
    assert one_attempt(added, 4) == {
        "a": {"rows_in": 7.0, "watermark_ms": 9.0, "rows_out": 1.0},
        "b": {"rows_in": 1.0},
    }

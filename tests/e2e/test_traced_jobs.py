"""Traces of a job on real Spark: of micro-batches, and of the one that makes the job fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stateplan.common.errors import DataError
from stateplan.runtime.metrics.log import read_metrics
from stateplan.session.environment import TableEnvironment
from stateplan.session.jobs import Jobs
from tests.session.otlp_receiver import OtlpReceiver, Span, options_for, otlp_receiver
from tests.support.waiting import until

pytestmark = pytest.mark.spark


def put(folder: Path, name: str, *keys: object) -> None:
    """Adds a file to a table, all of it at once."""
    (folder / f".{name}").write_text("".join(json.dumps({"k": key}) + "\n" for key in keys))
    (folder / f".{name}").rename(folder / name)


def check_times(receiver: OtlpReceiver, span: Span) -> None:
    for child in receiver.children(span):
        assert span.begin <= child.begin <= child.end <= span.end, f"{child.name} in {span.name}"
        check_times(receiver, child)


def test_each_micro_batch_is_a_trace_and_the_last_one_has_the_error(tmp_path: Path) -> None:
    table, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    table.mkdir()
    put(table, "a.json", 1, 2, 2)
    with otlp_receiver() as receiver:
        options = {"execution.checkpointing.dir": str(checkpoint), "parallelism.default": "2"}
        env = TableEnvironment.create({**options_for(receiver.url), **options}, jobs=Jobs())
        source = f"'connector' = 'filesystem', 'path' = '{table}', 'format' = 'json'"
        env.execute_sql(f"CREATE TABLE t (k INT) WITH ({source}, 'source.monitor-interval' = '200 ms')")
        env.execute_sql("CREATE TABLE counts (k INT, n BIGINT) WITH ('connector' = 'blackhole')")
        job = env.execute_sql("INSERT INTO counts SELECT k, COUNT(*) FROM t GROUP BY k").job
        assert job is not None
        until(lambda: len(read_metrics(checkpoint)) == 1 if checkpoint.is_dir() else False, 120, "no micro-batch")
        put(table, "b.json", 3)
        until(lambda: len(receiver.roots()) == 2, 60, "no second trace")
        put(table, "c.json", "many")
        with pytest.raises(DataError):
            job.wait(60)
        until(lambda: len(receiver.roots()) == 3, 20, "no trace of the failure")
    first, second, third = receiver.roots()
    for root in (first, second):
        assert [line for line in receiver.outline(root) if line not in ("    getOffset",)] == [
            "micro-batch",
            "  plan",
            *(f"    {phase}" for phase in ("latestOffset", "walCommit", "getBatch", "queryPlanning")),
            "  source default_catalog.default_database.t[1]",
            "  level 1",
            "    group-aggregate[3]",
            "  sink default_catalog.default_database.counts[4]",
            "  commit",
            "    sinks",
            "    commitOffsets",
        ]
        check_times(receiver, root)
    records = read_metrics(checkpoint)
    assert [r.batch for r in records] == [first.batch, second.batch] == [0, 1]
    for root, record in zip((first, second), records, strict=True):
        duration = (root.end - root.begin) / 1e6
        assert record.ms <= duration and record.spark["triggerExecution"] <= duration + 1
    assert [root.attributes["stateplan.rows_in"] for root in (first, second)] == [3, 1]
    (level,) = (span for span in receiver.children(second) if span.name == "level 1")
    (aggregate,) = receiver.children(level)
    assert aggregate.attributes["stateplan.state.rows"] == [3]
    assert first.end <= second.begin <= third.begin and first.trace != second.trace
    assert third.batch == 2 and third.attributes["error.type"] == "DATA112" and third.proto.status.code == 2

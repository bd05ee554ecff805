"""State that somebody else has written, on Spark: nothing of it runs, whoever reads it."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stateplan.cli.app import app
from stateplan.common.errors import StateplanError
from stateplan.session.environment import TableEnvironment

pytestmark = pytest.mark.spark

HONEST = """
from collections import Counter

from stateplan.planner.catalog.udf import AggregateFunction, udaf


class Summed(AggregateFunction):
    def open(self, context):  # the worker may be one that has run the other function
        from stateplan.runtime.kernels.common import accumulator_bytes, old_accumulators, user_aggregates

        user_aggregates.encoded, user_aggregates.unpickled = accumulator_bytes.encoded, old_accumulators.unpickled

    def create_accumulator(self):
        return {"sum": 0, "seen": Counter()}

    def accumulate(self, accumulator, value):
        accumulator["sum"] += value
        accumulator["seen"][value] += 1

    def get_value(self, accumulator):
        return accumulator["sum"]


summed = udaf(Summed(), ["BIGINT"], "BIGINT")
"""
WRITER = """
    def open(self, context):
        from stateplan.runtime.kernels.common import user_aggregates

        user_aggregates.encoded = lambda value, classes: pickled(value)
        user_aggregates.unpickled = lambda data, classes: self.create_accumulator()


def pickled(value):
    import pickle

    return pickle.dumps({what}, protocol=5)


class Attack:
    def __reduce__(self):
        import os

        return os.system, ("touch {ran}",)


"""


class Job:
    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.checkpoint, self.ran = folder, folder / "checkpoint", folder / "ran"
        self._patch = patch

    def run(self, at: int, value: int, writes: str | None = None) -> None:
        """Plays a row; with ``writes``, the state is a pickle of that."""
        module = f"functions_{uuid.uuid4().hex}"
        text = HONEST
        if writes is not None:
            more = WRITER.replace("{what}", writes).replace("{ran}", str(self.ran))
            text = text.replace("\n\nsummed = udaf", more + "\nsummed = udaf", 1)
        (self.folder / f"{module}.py").write_text(text)
        self._patch.syspath_prepend(str(self.folder))
        with (self.folder / "rows.json").open("a") as out:
            out.write(json.dumps({"@at": at, "v": value}) + "\n")
        env = TableEnvironment.create(
            {
                "pipeline.max-parallelism": "1",
                "execution.checkpointing.dir": str(self.checkpoint),
                "table.dml-sync": "true",
            }
        )
        env.execute_sql(
            "CREATE TABLE t (v BIGINT) WITH ('connector' = 'replay', "
            f"'path' = '{self.folder}/rows.json', 'format' = 'json')"
        )
        env.execute_sql("CREATE TABLE o (s BIGINT) WITH ('connector' = 'blackhole')")
        env.execute_sql(f"CREATE FUNCTION summed AS '{module}.summed' LANGUAGE PYTHON")
        env.execute_sql("INSERT INTO o SELECT summed(v) FROM t")


@pytest.fixture
def job(spark: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    return Job(tmp_path, monkeypatch)


def test_nothing_in_the_state_runs(job: Job) -> None:
    job.run(0, 1, writes="Attack()")
    for command in (
        ["show", str(job.checkpoint)],
        ["show", str(job.checkpoint), "--format", "json"],
        ["read", str(job.checkpoint), "python-group-aggregate"],
        ["advise", str(job.checkpoint)],
    ):
        done = CliRunner().invoke(app, ["state", *command])
        assert done.exit_code < 70, done.output
        assert not job.ran.exists(), command
    with pytest.raises(StateplanError) as refused:
        job.run(1000, 2)
    assert refused.value.code == "CKPT009"
    assert "system" in str(refused.value)
    assert not job.ran.exists()

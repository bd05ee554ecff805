"""State that a new plan takes over as it is stored."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stateplan.evolution.origins import Origins
from stateplan.runtime.checkpoint.slots import Continuation, OperatorEntry, laid_out
from stateplan.runtime.spark.checkpoint_files import SparkCheckpoint, spark_operator
from stateplan.runtime.spark.repartition import copy_state
from stateplan.session.environment import TableEnvironment
from tests.runtime.state_jobs import NO_GRAPH, job
from tests.support.long_runs import LONG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GROUPS = 4
QUERY = "SELECT CAST(n AS INT), COUNT(*) FROM (SELECT k, COUNT(*) AS n FROM src GROUP BY k) GROUP BY n"


def entries(*operators: tuple[int, int]) -> tuple[OperatorEntry, ...]:
    return laid_out(job(*operators), None, None, 0, "old")[1].operators


def test_unchanged_operators_have_the_slots_and_the_version_of_the_old_ones() -> None:
    old = [replace(entry, version=3) for entry in entries((1, 1), (2, 1), (3, 2))]
    new = job((4, 1), (5, 2), (6, 2))
    unchanged = Origins(Continuation(NO_GRAPH, {5: 2, 6: 3}, {}), old, "old").copies(new)
    graph, layout = laid_out(new, None, None, 1, "new", unchanged)
    places = [(entry.node, entry.first, entry.version, entry.level) for entry in layout.operators]
    assert places == [(4, 0, 0, 1), (5, 4, 3, 2), (6, 8, 3, 2)]
    assert [graph.slot(n, 0) for n in range(3)] == [0, 4, 8]
    assert [spec.version for spec in graph.operators] == [0, 3, 3]


def test_state_that_two_operators_use_is_unchanged_for_one_of_them() -> None:
    shared = Continuation(NO_GRAPH, {4: 1, 5: 1}, {})
    assert list(Origins(shared, entries((1, 1)), "old").copies(job((4, 1), (5, 1)))) == [4]


def run(folder: Path, name: str, parallelism: int) -> SparkCheckpoint:
    options = {"pipeline.max-parallelism": str(GROUPS), "parallelism.default": str(parallelism)}
    env = TableEnvironment.create({**options, "execution.checkpointing.dir": str(folder / name)})
    env.execute_sql(
        f"CREATE TABLE src (k INT) WITH ('connector' = 'filesystem', 'path' = '{folder / 'input'}', 'format' = 'json')"
    )
    env.execute_sql("CREATE TABLE snk (k INT, n BIGINT) WITH ('connector' = 'blackhole')")
    env.execute_sql(f"INSERT INTO snk {QUERY}").wait()
    return SparkCheckpoint.of(folder / name)


def stored(spark: SparkSession, checkpoint: SparkCheckpoint, batch: int, operator: int) -> set[tuple[int, str, str]]:
    """Slot, key and value of all that an operator has stored. It has to be where Spark looks for it."""
    rows: set[tuple[int, str, str]] = set()
    for variable, value in (("manifest", "value.text"), ("runs", "hex(user_map_value.data)")):
        reader = spark.read.format("statestore").option("operatorId", operator).option("stateVarName", variable)
        frame = reader.option("batchId", batch).load(str(checkpoint.folder))
        key = "user_map_key.id" if variable == "runs" else "''"
        partitions = checkpoint.offsets(batch).partitions
        place = f"pmod(hash(key.slot), {partitions}) = partition_id"
        for slot, name, data, is_in_place in frame.selectExpr("key.slot", key, value, place).collect():
            assert is_in_place
            rows.add((slot, name, data))
    return rows


@pytest.mark.spark
@pytest.mark.parametrize("parallelism", [2, 3] if LONG else [3])
def test_stored_state_moves_to_another_level(spark: SparkSession, tmp_path: Path, parallelism: int) -> None:
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "1.json").write_text("".join(json.dumps({"k": n % 20}) + "\n" for n in range(30)))
    old, new = run(tmp_path, "old", 2), run(tmp_path, "new", parallelism)
    assert (old.last_done, new.last_done) == (0, 0)
    first, second = spark_operator(1, 2), spark_operator(2, 2)
    before, counts, counts_of_counts = (
        stored(spark, *each) for each in ((new, 0, first), (old, 0, first), (old, 0, second))
    )
    slots = [sorted({slot for slot, _, _ in rows}) for rows in (counts, counts_of_counts)]
    assert [len(each) for each in slots] == [GROUPS, GROUPS - 2], "some have no rows"
    copy_state(spark, new, old, 0, {first: {second: slots[1][1:]}, second: {first: slots[0]}}, {first})
    assert new.last_done == 1
    assert stored(spark, new, 1, first) == before | {row for row in counts_of_counts if row[0] != slots[1][0]}
    assert stored(spark, new, 1, second) == counts, "what it had was not to be kept"

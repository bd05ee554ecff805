"""A limit for the memory of a job, and what follows from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stateplan.common.errors import OptionError, RunError
from stateplan.common.options import parse_memory_size
from stateplan.execnodes.graph import ExecGraph
from stateplan.runtime.memory import MANAGED, TOTAL, limited, rocksdb_settings, task_bytes
from stateplan.runtime.spark.tweaks import OFF
from stateplan.runtime.start import Place, Submission, require_own_spark
from stateplan.session.environment import TableEnvironment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIB = 1 << 20
FULL = 128 * MIB


def mebibytes(text: str) -> int:
    return parse_memory_size(text) // MIB


def test_without_a_limit_nothing_changes() -> None:
    assert limited({"parallelism.default": "3"}) == {"parallelism.default": "3"}
    assert task_bytes({}, FULL) == FULL


def test_a_limit_is_divided() -> None:
    # 3000 MiB without 740 of the processes and 2 * 220 of the tasks are 1820: 45 % and 20 % of that, and 637 for rows.
    options = limited({TOTAL: "3000 mb"})
    assert (mebibytes(options["spark.driver.memory"]), mebibytes(options[MANAGED])) == (819, 364)
    assert rocksdb_settings(options)["spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB"] == "182"
    assert task_bytes(options, FULL) // MIB == 637 // 2 // 4


@pytest.mark.parametrize("total", ["1820 mb", "2 gb", "4 gb", "64 gb"])
@pytest.mark.parametrize("tasks", [1, 2])
def test_the_parts_fit_into_the_limit(total: str, tasks: int) -> None:
    options = limited({TOTAL: total, "parallelism.default": str(tasks)})
    rows = task_bytes(options, FULL)
    parts = 740 + 220 * tasks + mebibytes(options["spark.driver.memory"]) + mebibytes(options[MANAGED])
    assert parts + 4 * tasks * rows // MIB <= mebibytes(total)
    assert MIB <= rows <= FULL


def test_workers_keep_no_buffers_within_a_limit() -> None:
    options = limited({TOTAL: "3 gb", OFF: "call-site, class-path"})
    assert options[OFF] == "call-site,class-path,kept-memory"
    assert limited(options) == options


def test_what_the_user_sets_counts() -> None:
    options = limited({TOTAL: "3 gb", "spark.driver.memory": "1g", MANAGED: "100 mb"})
    assert (options["spark.driver.memory"], options[MANAGED]) == ("1g", "100 mb")
    assert task_bytes(options, FULL) // MIB == (3072 - 740 - 440 - 1024 - 100) // 2 // 4


def test_a_limit_below_what_processes_take_is_refused() -> None:
    with pytest.raises(OptionError, match=r"OPT002.*a parallelism of 2, a job takes at least 1820 mb"):
        limited({TOTAL: "1819 mb"})
    with pytest.raises(OptionError, match=r"OPT002.*a parallelism of 8, a job takes at least 3140 mb"):
        limited({TOTAL: "2 gb", "parallelism.default": "8"})


@pytest.mark.spark
def test_a_limit_is_refused_in_a_spark_of_the_user(spark: object) -> None:
    session = TableEnvironment.create({TOTAL: "2 gb", "table.exec.local.max-input-size": "0"}, spark=spark)
    session.execute_sql("CREATE TABLE t (k INT) WITH ('connector' = 'datagen', 'number-of-rows' = '3')")
    session.execute_sql("CREATE TABLE p (k INT) WITH ('connector' = 'blackhole')")
    with pytest.raises(OptionError, match=r"OPT002.*the job runs in a Spark of yours"):
        session.execute_sql("INSERT INTO p SELECT k FROM t")


@pytest.mark.spark
def test_a_limit_is_refused_on_a_cluster(spark: SparkSession) -> None:
    """Also in a Spark of a cluster that stateplan has started."""
    graph = ExecGraph("2.3", [], [])
    submission = Submission(graph, {TOTAL: "2 gb"}, "", lambda *_: {})
    require_own_spark(submission, Place(spark, graph, elsewhere=False, cores=None))
    with pytest.raises(OptionError, match=r"OPT002.*the job runs on a cluster"):
        require_own_spark(submission, Place(spark, graph, elsewhere=True, cores=4))


@pytest.mark.spark
def test_a_spark_that_runs_already_keeps_its_heap(spark: object) -> None:
    session = TableEnvironment.create({TOTAL: "3 gb", "table.exec.local.max-input-size": "0"})
    session.execute_sql("CREATE TABLE t (k INT) WITH ('connector' = 'datagen', 'number-of-rows' = '3')")
    session.execute_sql("CREATE TABLE p (k INT) WITH ('connector' = 'blackhole')")
    with pytest.raises(RunError, match=r"RUN013.*'3 gb' needs a Spark with 'spark.driver.memory' = '851m'"):
        session.execute_sql("INSERT INTO p SELECT k FROM t")

"""Jobs for tests on separate hosts."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark import SparkContext

from benchmarks.hosts import OPTIONS, PYTHON
from stateplan import TableEnvironment
from stateplan.common.errors import StateplanError
from tests.cluster.cluster_jobs import STATS, TABLES, compiled, record, run, two_at_once


def with_kills(folder: str) -> None:
    """Two jobs at once, whose processes are killed."""
    two_at_once(Path(folder), {**OPTIONS, "parallelism.default": "2"}, None)


def submitted(folder: str) -> None:
    """The two jobs again, with settings that ``spark-submit`` has; then with more input, other TTLs and another
    parallelism, twice."""
    place = Path(folder)
    two_at_once(place, {"parallelism.default": "2"}, None)
    in_more_steps(place, {})


def in_more_steps(place: Path, options: dict[str, str]) -> None:
    record(place, 6, 7)
    two_at_once(place, {**options, "parallelism.default": "5"}, "4 min")
    record(place, 7, 8)
    two_at_once(place, {**options, "parallelism.default": "3"}, "2 min")


def refusals_on_hosts(folder: str, private: str) -> None:
    """Starts jobs that cannot run on separate hosts, and one that can; prints how each ends. ``private`` is a folder
    that every host has for itself. Ends when no host is left, which a line of input announces."""
    place, own = Path(folder), Path(private)
    record(place, 0, 1)
    compiled(place)
    record(own, 0, 1)
    (own / "functions.py").write_text(
        "from stateplan import udf\ntwice = udf(lambda number: 2 * number, ['INT'], 'INT')\n"
    )
    with_function = STATS.replace("SUM(num)", "SUM(twice(num))")
    sys.path.append(private)
    usual = {**OPTIONS, "spark.submit.pyFiles": f"{private}/functions.py"}

    def attempt(name: str, changes: Mapping[str, str | None], sql: str = TABLES, query: str = STATS) -> None:
        options = {**usual, "execution.checkpointing.dir": f"{folder}/checkpoint-{name}", "parallelism.default": "2"}
        options |= {key: value for key, value in changes.items() if value is not None}
        options = {key: value for key, value in options.items() if changes.get(key, value) is not None}
        told: list[str] = []
        env = TableEnvironment.create(options, console=told.append)
        for statement in sql.format(folder=folder).split(";")[:-1]:
            env.execute_sql(statement)
        try:
            env.execute_sql("CREATE FUNCTION twice AS 'functions.twice' LANGUAGE PYTHON")
            env.execute_sql(query).wait()
        except StateplanError as error:
            print(name, json.dumps([error.code, error.message, error.hint, told]), flush=True)
        else:
            print(name, json.dumps(["well", "", "", told]), flush=True)

    moved = TABLES.replace("file:{folder}/stats", f"{private}/stats")
    attempt("sink", {}, moved)
    attempt("source", {}, TABLES.replace("file:{folder}/orders", f"{private}/orders"))
    attempt("checkpoint", {"execution.checkpointing.dir": f"{private}/checkpoint"})
    attempt("none", {"execution.checkpointing.dir": None})
    attempt("static", {"spark.executor.memory": "1g"})
    context = SparkContext._active_spark_context
    assert context is not None
    for name, program in (("program", "/nowhere/python"), ("driver", PYTHON), ("bare", f"{folder}/bare")):
        known, context.pythonExec = context.pythonExec, program
        attempt(name, {})
        context.pythonExec = known
    attempt("well", {}, query=with_function)
    attempt("again", {"execution.checkpointing.dir": f"{folder}/checkpoint-well"}, query=with_function)
    input()
    attempt("gone", {"slot.request.timeout": "20 s"})


def unreachable_driver(folder: str) -> None:
    """A job whose executors look for its driver on their own host."""
    place = Path(folder)
    compiled(place)
    options = {**OPTIONS, "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    try:
        run(place, "stats", {**options, "slot.request.timeout": "20 s"})
    except StateplanError as error:
        print(json.dumps([error.code, error.message, error.hint]))

"""Jobs for tests on clusters: recorded arrivals, a deduplication before an aggregate, and a join."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil

from stateplan import PlanReference, TableEnvironment
from stateplan.runtime.spark.class_archive import archive_options
from stateplan.runtime.spark.session import _class_path

ROOT = Path(__file__).resolve().parents[2]
MASTER = "local-cluster[2,1,1024]"
_JAVA = " ".join(["-XX:TieredStopAtLevel=1", *archive_options(os.environ)])
"""JVMs live for seconds here: most of their time would go into compiling, and into loading classes."""
CLUSTER = {
    "spark.master": MASTER,
    **{f"spark.{role}.extraJavaOptions": _JAVA for role in ("driver", "executor")},
    # An archive of classes fits one order of libraries.
    **{f"spark.{role}.extraClassPath": _class_path() for role in ("driver", "executor")},
}

TABLES = """
CREATE TABLE orders (order_id BIGINT, product_id BIGINT, num INT, arrived AS PROCTIME())
  WITH ('connector' = 'replay', 'path' = 'file:{folder}/orders', 'format' = 'json');
CREATE TABLE stats (product_id BIGINT, orders BIGINT, items INT)
  WITH ('connector' = 'filesystem', 'path' = 'file:{folder}/stats', 'format' = 'op-json', 'op-json.mode' = 'retract');
CREATE TABLE pairs (order_id BIGINT, a INT, b INT)
  WITH ('connector' = 'filesystem', 'path' = 'file:{folder}/pairs', 'format' = 'op-json', 'op-json.mode' = 'retract');
"""
STATS = """INSERT INTO stats SELECT product_id, COUNT(order_id), SUM(num)
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY arrived) AS n FROM orders) WHERE n = 1
GROUP BY product_id"""
PAIRS = """INSERT INTO pairs SELECT a.order_id, a.num, b.num FROM orders AS a JOIN orders AS b
ON a.order_id = b.order_id WHERE a.num <> b.num"""


def record(folder: Path, first: int, last: int) -> None:
    """Adds the arrivals of some minutes: an order comes again 1, 5 and 11 minutes later."""
    (folder / "orders").mkdir(parents=True, exist_ok=True)
    lines = []
    for minute in range(first, last):
        for order in {8 * m + k for m in (minute, minute - 1, minute - 5, minute - 11) if m >= 0 for k in range(8)}:
            row = {"@at": minute * 60_000, "order_id": order, "product_id": order % 5, "num": minute % 7 + order % 3}
            lines.append(json.dumps(row) + "\n")
    (folder / "orders" / f"{first:04d}.json").write_text("".join(lines))


def environment(folder: Path, options: Mapping[str, str], spark: Any = None) -> TableEnvironment:
    """A session with the tables of ``folder``."""
    env = TableEnvironment.create(dict(options), spark=spark)
    for statement in TABLES.format(folder=folder).split(";")[:-1]:
        env.execute_sql(statement)
    return env


def compiled(folder: Path) -> None:
    """Writes both plans."""
    for name, query in (("stats", STATS), ("pairs", PAIRS)):
        environment(folder, {}).compile_plan_sql(query).write_to_file(str(folder / f"{name}.json"))


def run(folder: Path, name: str, options: Mapping[str, str], ttl: str | None = None, spark: Any = None) -> None:
    """Runs a plan to its end, with another TTL for all of its states if one is given."""
    env = environment(folder, {"execution.checkpointing.dir": f"{folder}/checkpoint-{name}", **options}, spark)
    plan = env.load_plan(PlanReference.from_file(str(folder / f"{name}.json")))
    if ttl is not None:
        plan.set_ttl("*", ttl)
    plan.execute().wait()


def two_at_once(folder: Path, options: dict[str, str], ttl: str | None) -> None:
    """Runs both plans, one in this thread and one in another."""
    failed: list[BaseException] = []

    def other() -> None:
        try:
            run(folder, "pairs", options, ttl)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=other)
    thread.start()
    run(folder, "stats", options, ttl)
    thread.join()
    if failed:
        raise failed[0]


def in_steps(folder: str, master: str) -> None:
    """Two jobs at once, three times: as they are, with other TTLs, with another parallelism and more input."""
    place = Path(folder)
    options = CLUSTER if master else {}
    record(place, 0, 3)
    compiled(place)
    two_at_once(place, {**options, "parallelism.default": "2"}, None)
    record(place, 3, 6)
    two_at_once(place, {**options, "parallelism.default": "2"}, "4 min")
    record(place, 6, 7)
    two_at_once(place, {**options, "parallelism.default": "3"}, "2 min")


def one_job(folder: str) -> None:
    run(Path(folder), "stats", {**CLUSTER, "parallelism.default": "2"}, "3 min")


def changes(folder: Path, name: str) -> Counter[str]:
    """The changes that a sink holds, as often as each is there."""
    files = sorted(folder.joinpath(name).glob("part-*"))
    return Counter(line for file in files for line in file.read_text().splitlines())


def started(work: Callable[..., None], *arguments: object, **env: str) -> subprocess.Popen[str]:
    """A Python of its own that runs a function of a module, with texts as arguments."""
    code = f"import sys; from {work.__module__} import {work.__name__} as work; work(*sys.argv[1:])"
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, **env},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def finished(work: Callable[..., None], *arguments: object, **env: str) -> str:
    """What such a Python printed, which must have ended well."""
    process = started(work, *arguments, **env)
    said, _ = process.communicate(timeout=400)
    assert process.returncode == 0, said
    return said


def kill_tree(process: subprocess.Popen[str]) -> None:
    """kill -9 of a process and all that it has started."""
    below = psutil.Process(process.pid).children(recursive=True)
    for victim in [psutil.Process(process.pid), *below]:
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.kill()
    process.communicate()


def facts(spark: Any) -> dict[str, Any]:
    """Everything that can be set in a session and its Spark."""
    options = spark._jsc.hadoopConfiguration()
    root = spark._jvm.java.net.URI("file:///")
    entries, hadoop = options.iterator(), {}
    while entries.hasNext():
        entry = entries.next()
        hadoop[entry.getKey()] = entry.getValue()
    return {
        "session": dict(spark.conf.getAll),
        "context": dict(spark.sparkContext.getConf().getAll()),
        "hadoop": hadoop,
        "files": spark._jvm.org.apache.hadoop.fs.FileSystem.get(root, options).getClass().getName(),
        "listeners": len(list(spark._jsparkSession.streams().listListeners())),
        "views": [table.name for table in spark.catalog.listTables()],
        "python": os.environ.get("PYSPARK_PYTHON"),
    }


def as_a_guest(folder: str) -> None:
    """Runs jobs in a session with settings of its own, from three threads; prints its facts before and after."""
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQueryListener

    place = Path(folder)
    record(place, 0, 4)
    compiled(place)
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    builder = builder.config("spark.driver.extraJavaOptions", _JAVA)
    spark = builder.config("spark.sql.session.timeZone", "Asia/Tokyo").getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", "7")
    spark.range(3).createOrReplaceTempView("theirs")
    heard = []

    class Listener(StreamingQueryListener):  # type: ignore[misc]
        def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's names
            heard.append("started")

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802
            pass

        def onQueryIdle(self, event: Any) -> None:  # noqa: N802
            pass

        def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
            heard.append("terminated")

    spark.streams.addListener(Listener())
    before = facts(spark)
    failed: list[BaseException] = []

    def job(name: str, given: Any) -> None:
        try:
            run(place, name, {"parallelism.default": "2"}, spark=given)
        except BaseException as error:
            failed.append(error)

    threads = [
        threading.Thread(target=job, args=("stats", spark)),
        threading.Thread(target=job, args=("pairs", None)),  # finds the session that runs
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed
    between = facts(spark)
    record(place, 4, 6)
    run(place, "stats", {"parallelism.default": "2"})
    assert SparkSession.getActiveSession() is spark
    assert spark.sql("SELECT SUM(id) FROM theirs").first()[0] == 3
    print("FACTS", json.dumps([before, between, facts(spark), sorted(heard)]))


def on_viewfs(folder: str, *steps: str) -> None:
    """Runs a plan with a checkpoint on a default file system that is not the local one; ``killed`` dies in it."""
    place = Path(folder)
    for step in steps:
        options = {**viewfs(place), "parallelism.default": "3" if step == "rescaled" else "2"}
        options["execution.checkpointing.dir"] = "/checkpoints/stats"
        run(place, "stats", options, "2 min" if step == "edited" else "4 min")


def viewfs(folder: Path) -> dict[str, str]:
    """Settings that make viewfs Hadoop's default file system, with ``folder``/remote as ``/checkpoints``."""
    (folder / "remote").mkdir(parents=True, exist_ok=True)
    return {
        "spark.hadoop.fs.defaultFS": "viewfs://cluster/",
        "spark.hadoop.fs.viewfs.mounttable.cluster.link./checkpoints": f"file://{folder}/remote",
    }


def from_viewfs(folder: str) -> None:
    """Reads files of several formats that only Spark reaches; then one that is not there, and a damaged one."""
    import gzip

    import polars as pl

    from stateplan.common.errors import StateplanError

    place = Path(folder)
    options = viewfs(place)
    inside = place / "remote" / "in"
    (inside / "json").mkdir(parents=True)
    (inside / "json" / "a.json").write_text('{"id": 1}\n{"id": 2}\n')
    with gzip.open(inside / "json" / "b.json.gz", "wt") as out:
        out.write('{"id": 3}\n')
    pl.DataFrame({"id": [7, 8]}).write_parquet(inside / "table.parquet")
    (inside / "damaged.json").write_text('{"id": 1\n')
    cases = [("json", "json"), ("parquet", "table.parquet"), ("json", "nowhere"), ("json", "damaged.json")]
    for number, (fmt, name) in enumerate(cases):
        env = TableEnvironment.create({**options, "execution.checkpointing.dir": f"/checkpoints/{number}"})
        env.execute_sql(
            "CREATE TABLE s (id BIGINT, name STRING METADATA FROM 'file.name', size BIGINT METADATA FROM 'file.size') "
            f"WITH ('connector' = 'filesystem', 'path' = '/checkpoints/in/{name}', 'format' = '{fmt}')"
        )
        env.execute_sql("CREATE TABLE o (id BIGINT, name STRING, size BIGINT) WITH ('connector' = 'print')")
        try:
            env.execute_sql("INSERT INTO o SELECT * FROM s").wait()
        except StateplanError as error:
            print(error.code, error.place.file if error.place else None)
    env.execute_sql("CREATE TABLE t (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '/x', 'format' = 'json')")
    try:
        env.execute_sql("INSERT INTO t SELECT id FROM s").wait()
    except StateplanError as error:
        print(error.code, error.hint)


def connected() -> None:
    """Gives jobs a session of Spark Connect, and lets one find it; prints how they end."""
    from pyspark.sql import SparkSession

    from stateplan.common.errors import StateplanError

    spark: Any = SparkSession.builder.remote("local[1]").getOrCreate()
    assert spark.range(3).count() == 3
    for given in (spark, None):
        env = TableEnvironment.create(spark=given)
        env.execute_sql("CREATE TABLE a (id BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '1')")
        env.execute_sql("CREATE TABLE b (id BIGINT) WITH ('connector' = 'print')")
        try:
            env.execute_sql("INSERT INTO b SELECT id FROM a").wait()
        except StateplanError as error:
            print("REFUSED", error.code)
    spark.stop()


def as_a_guest_that_fails(folder: str) -> None:
    """Runs a job in a session that starts ``python3``, and one whose function fails."""
    from pyspark.sql import SparkSession

    from stateplan import DataTypes, StateplanError, TableEnvironment, udf

    place = Path(folder, "t.json")
    place.write_text('{"k": 1}\n{"k": 1}\n')
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    tables = TableEnvironment.create({"table.exec.local.max-input-size": "0"}, spark=spark)
    tables.execute_sql(
        f"CREATE TABLE t (k INT) WITH ('connector' = 'filesystem', 'path' = '{place}', 'format' = 'json')"
    )
    print("ROWS", tables.sql_query("SELECT k, COUNT(*) FROM t GROUP BY k").to_polars().rows())
    tables.create_temporary_function("bad", udf(lambda k: k // 0, result_type=DataTypes.INT()))
    try:
        tables.sql_query("SELECT k, SUM(bad(k)) FROM t GROUP BY k").to_polars()
    except StateplanError as error:
        print("FAILED", error.code)

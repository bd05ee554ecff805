"""Batch mode on Spark: final rows, once, at the end of bounded input; what cannot be run in it is refused."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

from stateplan.common.errors import StateplanError
from stateplan.session.environment import TableEnvironment
from stateplan.session.results import TableResult


def environment(folder: Path, files: int = 3, **options: str) -> TableEnvironment:
    """``o``: 200 orders in several files, each a micro-batch of its own; their times go backwards."""
    source = folder / "o"
    source.mkdir(exist_ok=True)
    for n in range(files):
        rows = [
            {"id": i, "k": i % 7, "v": i % 10, "ts": f"2024-01-01 10:{59 - i // 4:02d}:00"}
            for i in range(n, 200, files)
        ]
        (source / f"{n}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    in_spark = {"table.exec.local.max-input-size": "0"}
    env = TableEnvironment.create({"execution.runtime-mode": "batch", **in_spark, **options})
    env.execute_sql(
        "CREATE TABLE o (id INT, k INT, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH "
        f"('connector' = 'filesystem', 'path' = '{source}', 'format' = 'json', 'source.max-files-per-trigger' = '1')"
    )
    env.execute_sql(
        f"CREATE TABLE sums (k INT, n BIGINT, s INT) WITH ('connector' = 'filesystem', 'path' = '{folder}/sums', "
        "'format' = 'json')"
    )
    return env


def collected(result: TableResult) -> list[tuple[object, ...]]:
    rows = list(result.collect())
    assert {row.get_row_kind().short for row in rows} <= {"+I"}
    return [tuple(row) for row in rows]


SUMS = [(k, len(ids), sum(i % 10 for i in ids)) for k in range(7) if (ids := [i for i in range(200) if i % 7 == k])]


@pytest.mark.spark
def test_a_query_gives_its_final_rows_as_insertions(spark: object, tmp_path: Path) -> None:
    env = environment(tmp_path)
    result = env.execute_sql("SELECT k, COUNT(*), SUM(v) FROM o GROUP BY k")
    assert result.insert_only
    assert sorted(collected(result)) == SUMS
    assert result.job is not None
    assert result.job.progress.batch == 2, "three files"
    ordered = env.execute_sql("SELECT k, COUNT(*) AS n, SUM(v) AS s FROM o GROUP BY k ORDER BY s DESC, k LIMIT 3")
    assert collected(ordered) == sorted(SUMS, key=lambda row: (-row[2], row[0]))[:3]
    windows = env.execute_sql(
        "SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE o, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) "
        "GROUP BY window_start, window_end"
    )
    assert sorted(row[1] for row in collected(windows)) == [40] * 5, "no row is late"
    assert collected(env.execute_sql("SELECT COUNT(*), MAX(v) FROM o WHERE v < 0")) == [(0, None)]


@pytest.mark.spark
def test_aggregates_go_to_a_sink_of_insertions_and_are_read_again(spark: object, tmp_path: Path) -> None:
    env = environment(tmp_path)
    env.execute_sql("INSERT INTO sums SELECT k, COUNT(*), SUM(v) FROM o GROUP BY k").wait()
    assert collected(env.execute_sql("SELECT * FROM sums ORDER BY k")) == SUMS
    assert len(list((tmp_path / "sums").glob("part-*"))) == 1, "in one micro-batch, at the end"


@pytest.mark.spark
def test_several_sinks_of_one_query(spark: object, tmp_path: Path) -> None:
    env = environment(tmp_path)
    env.execute_sql(f"CREATE TABLE most WITH ('path' = '{tmp_path}/most') LIKE sums")
    env.execute_sql(
        "EXECUTE STATEMENT SET BEGIN "
        "INSERT INTO sums SELECT k, COUNT(*), SUM(v) FROM o GROUP BY k; "
        "INSERT INTO most SELECT k, COUNT(*), SUM(v) FROM o GROUP BY k ORDER BY SUM(v) DESC, k LIMIT 2; END"
    ).wait()
    assert sorted(collected(env.execute_sql("SELECT * FROM sums"))) == SUMS
    [file] = (tmp_path / "most").glob("part-*")
    best = sorted(SUMS, key=lambda row: (-row[2], row[0]))[:2]
    assert [tuple(json.loads(line).values()) for line in file.read_text().splitlines()] == best


@pytest.mark.spark
def test_an_interrupted_insert_goes_on_from_its_checkpoint_and_a_finished_one_does_not(
    spark: object, tmp_path: Path
) -> None:
    """Stopped in the middle, nothing of its result is there; then all of it once."""
    options = {"execution.checkpointing.dir": str(tmp_path / "checkpoint"), "pipeline.max-parallelism": "2"}
    insert = "INSERT INTO sums SELECT k, COUNT(*), SUM(v) FROM o GROUP BY k"
    env = environment(tmp_path, 8, **options)
    job = env.execute_sql(insert).job
    assert job is not None
    while job.progress.batch < 3:
        assert not job.wait(0.05)
    job.stop()
    assert job.progress.batch < 7
    assert not list((tmp_path / "sums").glob("part-*"))
    env.execute_sql(insert).wait()
    assert sorted(collected(environment(tmp_path, 8).execute_sql("SELECT * FROM sums"))) == SUMS
    with pytest.raises(StateplanError) as raised:
        env.execute_sql(insert)
    assert raised.value.code == "CKPT060"


@pytest.mark.spark
def test_a_reader_waits_for_the_end_of_the_job(spark: object, tmp_path: Path) -> None:
    result = environment(tmp_path).execute_sql("SELECT k, COUNT(*) FROM o GROUP BY k")
    assert result.job is not None
    seen: list[tuple[object, ...]] = []
    reader = threading.Thread(target=lambda: seen.extend(collected(result)))
    reader.start()
    while result.job.progress.batch < 2:
        assert not seen, "before the end of the input"
        time.sleep(0.02)
    reader.join(60)
    assert len(seen) == 7


UNBOUNDED = (
    "[SQL170] the table 'default_catalog.default_database.endless' is unbounded, and cannot be queried in batch mode"
)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "SELECT id FROM endless",
            f"{UNBOUNDED}\n  --> line 1, column 16\n  SELECT id FROM endless\n                 ^^^^^^^\n"
            "  expected: a table that ends\n  hint: SET 'execution.runtime-mode' = 'streaming'",
        ),
        (
            "SELECT k FROM o WHERE id IN (SELECT id FROM endless)",
            f"{UNBOUNDED}\n  --> line 1, column 45\n  SELECT k FROM o WHERE id IN (SELECT id FROM endless)\n"
            + " " * 46
            + "^^^^^^^\n  expected: a table that ends\n  hint: SET 'execution.runtime-mode' = 'streaming'",
        ),
        (
            "INSERT INTO ends SELECT window_start, COUNT(*) FROM "
            "TABLE(TUMBLE(TABLE pt, DESCRIPTOR(t), INTERVAL '1' MINUTE))"
            " GROUP BY window_start, window_end",
            "[SQL171] windows of processing time are not supported in batch mode\n  --> line 1, column 59",
        ),
        (
            "COMPILE PLAN FOR INSERT INTO sums SELECT k, 1, v FROM o",
            "[PLAN185] plans are not supported in batch mode\n  --> line 1, column 18",
        ),
        (
            "COMPILE PLAN 'p.json' FOR STATEMENT SET BEGIN INSERT INTO sums SELECT k, 1, v FROM o; END",
            "[PLAN185] plans are not supported in batch mode\n  --> line 1, column 27",
        ),
        ("EXECUTE PLAN '{plan}'", "[PLAN185] plans are not supported in batch mode\n  hint: SET"),
        (
            "SELECT id FROM o ORDER BY id OFFSET 3 ROWS",
            "[SQL160] OFFSET without LIMIT is not supported on a stream\n  --> line 1, column 18",
        ),
    ],
)
def test_what_batch_mode_does_not_run(statement: str, message: str, tmp_path: Path) -> None:
    env = environment(tmp_path)
    env.execute_sql("CREATE TABLE endless (id INT) WITH ('connector' = 'datagen')")
    env.execute_sql("CREATE TABLE pt (t AS PROCTIME()) WITH ('connector' = 'datagen', 'number-of-rows' = '1')")
    env.execute_sql("CREATE TABLE ends (t TIMESTAMP(3), n BIGINT) WITH ('connector' = 'print')")
    env.execute_sql("SET 'execution.runtime-mode' = 'streaming'")
    env.execute_sql(f"COMPILE PLAN '{tmp_path}/plan.json' FOR INSERT INTO sums SELECT k, 1, v FROM o")
    env.execute_sql("SET 'execution.runtime-mode' = 'Batch'")
    with pytest.raises(StateplanError) as raised:
        env.execute_sql(statement.format(plan=tmp_path / "plan.json"))
    assert str(raised.value).startswith(message)


def test_there_is_no_automatic_mode() -> None:
    with pytest.raises(StateplanError) as raised:
        TableEnvironment.create().execute_sql("SET 'execution.runtime-mode' = 'automatic'")
    assert raised.value.code == "OPT105"


def test_a_sink_keeps_no_state_of_primary_keys(tmp_path: Path) -> None:
    """Which in streaming mode would ask for a word on conflicts."""
    env = environment(tmp_path)
    env.execute_sql("CREATE TABLE keyed (k INT, n BIGINT, PRIMARY KEY (n) NOT ENFORCED) WITH ('connector' = 'print')")
    text = env.explain_sql("INSERT INTO keyed SELECT k, COUNT(*) FROM o GROUP BY k")
    assert "Sort(orderBy=[])" in text
    assert "upsertMaterialize" not in text

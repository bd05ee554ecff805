"""``plan try``: variants in one job differ as separate jobs do."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from benchmarks.ttl_data import make_input
from stateplan.cli.app import app
from stateplan.cli.exit_codes import ExitCode
from stateplan.plans.document import PlanDocument
from stateplan.plans.edit import set_ttls
from stateplan.plans.trial import table_rows
from stateplan.runtime.local.job import LocalJob
from stateplan.session.environment import TableEnvironment
from tests.e2e.inserts_here import inserts_here

pytestmark = pytest.mark.spark

TABLES = """
CREATE TABLE orders (order_id BIGINT, user_id BIGINT, product_id BIGINT, num INT, proctime AS PROCTIME())
  WITH ('connector' = 'replay', 'path' = '{folder}/orders.json', 'format' = 'json');
CREATE TABLE sums (product_id BIGINT, buyers BIGINT, num BIGINT, PRIMARY KEY (product_id) NOT ENFORCED)
  WITH ('connector' = '{connector}'{more});
"""
QUERY = """
INSERT INTO sums SELECT product_id, COUNT(DISTINCT user_id), SUM(num) FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY proctime) AS n FROM orders) WHERE n = 1
GROUP BY product_id"""


def stateplan(*args: object) -> Result:
    return CliRunner().invoke(app, ["plan", *map(str, args)])


@pytest.fixture(scope="module")
def folder(spark: object, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trial")
    make_input(folder, instants=8, rows=120, seed=5)
    (folder / "tables.sql").write_text(TABLES.format(folder=folder, connector="blackhole", more=""))
    (folder / "query.sql").write_text(QUERY + ";")
    compiled = stateplan("compile", "-i", folder / "tables.sql", "-f", folder / "query.sql", "-o", folder / "plan.json")
    assert compiled.exit_code == 0, compiled.output
    return folder


def separately(folder: Path, name: str, ttls: dict[str, str]) -> Counter[str]:
    """The table that a job of its own leaves, in this process."""
    env = TableEnvironment.create()
    path = folder / name
    more = f", 'path' = '{path}', 'format' = 'debezium-json'"
    for statement in TABLES.format(folder=folder, connector="filesystem", more=more).split(";\n")[:2]:
        env.execute_sql(statement)
    document = PlanDocument.parse(env.compile_plan_sql(QUERY).as_json_string())
    set_ttls(document, ttls)
    (folder / f"{name}.json").write_text(document.text)
    with inserts_here():
        job = env.execute_sql(f"EXECUTE PLAN '{folder}/{name}.json'").job
    assert isinstance(job, LocalJob)
    job.wait()
    sink = document.graph.sinks[0].to_json()["inputChangelogMode"]
    return table_rows(path, ("product_id",), "UPDATE_BEFORE" not in sink).counts


def test_variants_differ_as_separate_jobs_do(folder: Path, tmp_path: Path) -> None:
    both = "deduplicate=6 h, group-aggregate=2 d"
    done = stateplan(
        *("try", folder / "plan.json", "--set", "deduplicate=6 h", "--set", both, "--format", "json"),
        *("--plot", tmp_path / "trial.html"),
    )
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    plain, short, shorter = data["variants"]
    assert (plain["label"], plain["sinks"], data["playedOnAClock"]) == ("the plan", [], True)
    truth = separately(folder, "never", {})
    for found, name, ttls in (
        (short, "short", {"deduplicate": "6 h"}),
        (shorter, "shorter", {"deduplicate": "6 h", "group-aggregate": "2 d"}),
    ):
        rows = separately(folder, name, ttls)
        (sink,) = found["sinks"]
        assert sink["rows"] == truth.total() > 50
        keys = [{json.loads(row)["product_id"] for row in table} for table in (truth, rows)]
        changed = {json.loads(row)["product_id"] for row in truth - rows} & keys[1]
        assert (sink["wrong"], sink["missing"], sink["extra"]) == (
            len(changed),
            len(keys[0] - keys[1]),
            len(keys[1] - keys[0]),
        )
        assert sink["wrong"] > 10
    assert set(shorter["sinks"][0]["blame"]) == {"deduplicate", "group-aggregate"}
    assert all(v["mostStateRows"] >= v["stateRows"] > 0 < v["writtenBytes"] for v in data["variants"])
    assert "deduplicate alone makes" in (tmp_path / "trial.html").read_text()


def test_two_tables_of_one_name(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "query.sql").write_text(
        "CREATE TABLE seen (order_id BIGINT, num INT) WITH ('connector' = 'blackhole'); CREATE DATABASE other;"
        "CREATE TABLE other.seen (order_id BIGINT, num INT) WITH ('connector' = 'blackhole');"
        "EXECUTE STATEMENT SET BEGIN INSERT INTO seen SELECT order_id, num FROM orders; INSERT INTO other.seen "
        "SELECT order_id, num FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY proctime) AS n "
        "FROM orders) WHERE n = 1; END;"
    )
    plan = tmp_path / "plan.json"
    compiled = stateplan("compile", "-i", folder / "tables.sql", "-f", tmp_path / "query.sql", "-o", plan)
    assert compiled.exit_code == 0, compiled.output
    done = stateplan("try", plan, "--set", "deduplicate=6 h", "--format", "json")
    assert done.exit_code == 0, done.output
    orders = pl.read_ndjson(folder / "orders.json")
    first = orders.unique("order_id").height
    sinks = [node for node in json.loads(plan.read_text())["nodes"] if node["type"].startswith("stream-exec-sink")]
    found = {sink["sink"]: sink for sink in json.loads(done.stdout)["variants"][1]["sinks"]}
    assert list(found) == ["seen", f"seen[{sinks[1]['id']}]"]
    every, once = found.values()
    assert (every["rows"], every["extra"]) == (orders.height, 0)
    assert (once["rows"], once["missing"], once["wrong"]) == (first, 0, 0)
    assert 0 < once["extra"] <= orders.height - first


def test_advice_over_recorded_arrivals(folder: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_bytes((folder / "plan.json").read_bytes())
    done = stateplan("advise", plan, "--miss", "0", "--write", "--format", "json")
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    orders = pl.read_ndjson(folder / "orders.json").sort("@at", maintain_order=True)
    spans = orders.group_by("order_id").agg(pl.col("@at").max() - pl.col("@at").min())["@at"]
    once = orders.unique("order_id", keep="first")
    known = once.group_by("product_id", "user_id").agg(pl.col("@at").max() - pl.col("@at").min())["@at"]
    found = {s["selector"]: s for s in data["states"]}
    assert found["deduplicate"]["uses"] == {"deduplicated": (spans > 0).sum()}
    for selector, needed in (("deduplicate", spans.max()), ("group-aggregate", known.max())):
        assert needed < found[selector]["ownMillis"] <= 1.05 * needed
    ttls = {n.title: n.states[0].ttl for n in PlanDocument.load(str(plan)).graph.nodes if n.states}
    assert ttls == {selector: s["advisedMillis"] for selector, s in found.items()}


def test_input_that_does_not_end(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "tables.sql").write_text(
        "CREATE TABLE a (k INT) WITH ('connector' = 'datagen');"
        "CREATE TABLE b (k INT, n BIGINT) WITH ('connector' = 'blackhole');"
    )
    (tmp_path / "query.sql").write_text("INSERT INTO b SELECT k, COUNT(*) FROM a GROUP BY k;")
    plan = tmp_path / "plan.json"
    assert stateplan("compile", "-i", tmp_path / "tables.sql", "-f", tmp_path / "query.sql", "-o", plan).exit_code == 0
    done = stateplan("try", plan, "--set", "group-aggregate=1 h")
    assert done.exit_code == ExitCode.BAD_INPUT and "OPT169" in done.stderr and "replay" in done.stderr


def test_a_selector_that_points_at_nothing(folder: Path) -> None:
    done = stateplan("try", folder / "plan.json", "--set", "join.left=1 h")
    assert done.exit_code == ExitCode.BAD_INPUT and "PLAN101" in done.stderr

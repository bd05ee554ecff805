"""A stopped job goes on from its checkpoint with an edited plan, and refuses one that its state does not fit."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from stateplan.common.errors import CheckpointError
from stateplan.plans.document import PlanDocument
from stateplan.session.environment import TableEnvironment

HOUR = 3_600_000
DEDUP = """INSERT INTO snk SELECT k, v FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY pt) AS n FROM src) WHERE n = 1"""


class Job:
    """One plan over a replay table and a checkpoint directory."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys
        self.plan = folder / "plan.json"
        self.rows = folder / "rows.json"
        self.rows.touch()

    def environment(self) -> TableEnvironment:
        environment = TableEnvironment.create(
            {"pipeline.max-parallelism": "2", "execution.checkpointing.dir": str(self.folder / "checkpoint")}
        )
        environment.execute_sql(
            f"CREATE TABLE src (k INT, v INT, pt AS PROCTIME()) WITH "
            f"('connector'='replay', 'path'='{self.rows}', 'format'='json')"
        )
        environment.execute_sql("CREATE TABLE snk (k INT, v INT) WITH ('connector'='print')")
        return environment

    def compile(self, ttl: str) -> None:
        environment = self.environment()
        environment.execute_sql(f"COMPILE PLAN '{self.plan}' FOR {DEDUP}")
        self.edit(ttl)

    def edit(self, ttl: str) -> None:
        document = PlanDocument.load(str(self.plan))
        node = next(n for n in document.graph.nodes if n.title == "deduplicate")
        document.set_ttl(node.id, 0, ttl).write(str(self.plan), overwrite=True)

    def arrive(self, at: int, *rows: tuple[int, int]) -> None:
        with self.rows.open("a") as out:
            out.writelines(json.dumps({"k": k, "v": v, "@at": at}) + "\n" for k, v in rows)

    def run(self) -> list[str]:
        self.environment().execute_sql(f"EXECUTE PLAN '{self.plan}'").wait()
        return self.capsys.readouterr().out.splitlines()


@pytest.mark.spark
def test_edited_ttl_judges_rows_written_before(
    spark: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = Job(tmp_path, capsys)
    job.compile("1 h")
    job.arrive(0, (1, 10), (2, 20))
    assert sorted(job.run()) == ["+I[1, 10]", "+I[2, 20]"]
    job.edit("3 h")
    job.arrive(2 * HOUR, (1, 11))
    assert job.run() == [], "2 h old: expired under 1 h, known under 3 h"
    job.edit("30 min")
    job.arrive(2 * HOUR + HOUR // 2, (2, 21), (3, 30))
    assert sorted(job.run()) == ["+I[2, 21]", "+I[3, 30]"], "2.5 h old: known under 3 h, expired under 30 min"
    job.edit("0 ms")
    job.arrive(1000 * HOUR, (3, 31))
    assert job.run() == [], "never expires"


@pytest.mark.spark
def test_another_plan_is_refused(spark: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = Job(tmp_path, capsys)
    job.compile("1 h")
    job.arrive(0, (1, 10))
    assert job.run() == ["+I[1, 10]"]
    environment = job.environment()
    with pytest.raises(CheckpointError) as error:
        environment.execute_sql("INSERT INTO snk SELECT k, SUM(v) FROM src GROUP BY k").wait()
    assert error.value.code == "CKPT003"
    job.arrive(HOUR // 2, (1, 11), (2, 20))
    assert job.run() == ["+I[2, 20]"], "the checkpoint was left as it was"


@pytest.mark.spark
@pytest.mark.parametrize("damage", ["truncated plan", "garbage facts", "not a checkpoint", "key groups"])
def test_damaged_checkpoint(damage: str, spark: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = Job(tmp_path, capsys)
    job.compile("1 h")
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    if damage == "not a checkpoint":
        (checkpoint / "notes.txt").write_text("mine")
    else:
        plan = job.plan.read_text()[: 500 if damage == "truncated plan" else None]
        digest = hashlib.sha256(plan.encode()).hexdigest()[:16]
        layout = {"levels": 1, "operators": [], "sources": [], "sinks": {}, "dropped": [], "plan": digest}
        groups = 4 if damage == "key groups" else 2
        facts = {"format": 2, "id": "a", "created": 0, "keyGroups": groups, "layouts": [layout]}
        (checkpoint / "stateplan.json").write_text("{" if damage == "garbage facts" else json.dumps(facts))
        (checkpoint / "plan.json").write_text(plan)
    with pytest.raises(CheckpointError) as error:
        job.run()
    codes = {
        "truncated plan": "CKPT005",
        "garbage facts": "CKPT005",
        "not a checkpoint": "CKPT002",
        "key groups": "CKPT004",
    }
    assert error.value.code == codes[damage]


def test_plan_show_does_not_load_pyspark(shared: Path) -> None:
    plan = shared / "cases" / "join_inner_pk" / "plan.json"
    code = (
        f"import sys; from stateplan.cli.app import main; sys.argv = ['stateplan', 'plan', 'show', {str(plan)!r}]\n"
        "try: main()\nexcept SystemExit: pass\nassert 'pyspark' not in sys.modules and 'polars' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)

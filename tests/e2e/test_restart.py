"""A stopped job goes on from its checkpoint with an edited plan, and refuses one that its state does not fit."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from stateplan.common.errors import CheckpointError
from tests.e2e.deduplicate_job import HOUR, Job


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

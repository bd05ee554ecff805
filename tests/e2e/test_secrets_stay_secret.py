"""Jobs open tables with secrets that no file, log or listing has, while they run and after a restart."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.packages import install

SECRETS = {name: f"S3CRET-of-the-{name}" for name in ("table", "url", "hint", "spark")}


@pytest.mark.spark
def test_nothing_that_a_gateway_writes_has_a_secret(tmp_path: Path) -> None:
    site, work = tmp_path / "site", tmp_path / "work"
    site.mkdir()
    (work / "tmp").mkdir(parents=True)
    env = {
        **install(site, "stateplan_vault"),
        "TMPDIR": str(work / "tmp"),
        "VAULT_KEY": SECRETS["table"],
        "GIVEN_SECRETS": json.dumps(SECRETS),
    }
    command = [sys.executable, str(Path(__file__).with_name("secrets_job.py")), str(work)]
    done = subprocess.run(command, env=env, cwd=work, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads((work / "report.json").read_text())

    assert report["found"] == [] and report["canary"] == [f"canary: {work}/canary"]
    assert sum("${session:" in plan for plan in report["plans"]) == 4
    shown = [done.stdout, done.stderr, (work / "report.json").read_text()]
    assert [secret for secret in SECRETS.values() for text in shown if secret in text] == []
    assert list((work / "events").iterdir()), "Spark has logged its events"

    states, out = report["states"], "insert-into_default_catalog.default_database.out_{}".format
    assert [text.split() for text in report["out"]] == [["0", "1", "2"]] * 2
    assert states[out(0)] == states[out(4)] == ["FINISHED", None]
    assert states[out(1)][0] == "FAILED" and "[VAULT001]" in states[out(1)][1]
    assert states[out(2)][0] == "FAILED" and "[OPT123]" in states[out(2)][1]
    assert states[out(3)] == ["RUNNING", None]
    assert [text[:8] for text in report["said"]] == ["[OPT104]", "[SQL100]"]

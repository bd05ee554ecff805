"""The examples of some rules on Spark: ignored, they give the same wrong results there, and repaired the right ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stateplan.common.ttl import parse_ttl
from stateplan.plans.document import PlanDocument
from stateplan.plans.lint import lint
from stateplan.session.environment import TableEnvironment
from tests.plans.lint.lint_cases import Example, all_cases, left_over
from tests.support.local import upsert_fold
from tests.support.long_runs import LONG


def shown(document: PlanDocument, capsys: pytest.CaptureFixture[str], checkpoint: Path | None = None) -> list[str]:
    capsys.readouterr()
    options = {"pipeline.max-parallelism": "2", "table.local-time-zone": "UTC"}
    if checkpoint is not None:
        options["execution.checkpointing.dir"] = str(checkpoint)
    environment = TableEnvironment.create(options)
    environment.session.starter.document(document).wait()
    return capsys.readouterr().out.splitlines()


@pytest.mark.spark
@pytest.mark.parametrize("code", ["TTL001", "TTL002", "TTL005", "PLN001"] if LONG else ["TTL001", "PLN001"])
def test_the_result_is_wrong_and_then_right(
    code: str, spark: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example = Example(all_cases()[code], tmp_path)
    odd = example.odd()
    for document, wanted in ((odd, "wrong"), (example.repaired(odd), "right")):
        lines = shown(document, capsys)
        key = example.data.get("key")
        assert (upsert_fold(lines, key) if key else left_over(lines)) == example.data[wanted]


@pytest.mark.spark
def test_a_ttl_that_is_shortened_on_a_checkpoint(
    spark: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example = Example(all_cases()["TTL010"], tmp_path)
    (table,) = example.data["rows"]
    rows = tmp_path / f"{table}.json"
    everything = rows.read_text().splitlines(keepends=True)
    restart = 1_000 + parse_ttl(example.data["restart"])
    old, checkpoint = example.against(), tmp_path / "checkpoint"
    assert old is not None
    rows.write_text("".join(line for line in everything if json.loads(line)["@at"] < restart))
    before = shown(old, capsys, checkpoint)
    found = lint(example.odd(), against=PlanDocument.load(str(checkpoint / "plan.json"))).findings
    assert [f.code for f in found] == ["TTL010"]
    rows.write_text("".join(everything))
    after = shown(example.odd(), capsys, checkpoint)
    assert upsert_fold([*before, *after], example.data["key"]) == example.data["wrong"]

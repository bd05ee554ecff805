"""The examples of some rules on Spark: ignored, they give the same wrong results there, and repaired the right ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.environment import TableEnvironment
from plans.document import PlanDocument
from tests.plans.lint.lint_cases import Example, all_cases, left_over
from tests.support.local import upsert_fold


def shown(document: PlanDocument, capsys: pytest.CaptureFixture[str]) -> list[str]:
    capsys.readouterr()
    environment = TableEnvironment.create({"pipeline.max-parallelism": "2", "table.local-time-zone": "UTC"})
    environment.run_document(document).wait()
    return capsys.readouterr().out.splitlines()


@pytest.mark.spark
@pytest.mark.parametrize("code", ["TTL001", "TTL002", "TTL005", "PLN001"])
def test_the_result_is_wrong_and_then_right(
    code: str, spark: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example = Example(all_cases()[code], tmp_path)
    odd = example.odd()
    for document, wanted in ((odd, "wrong"), (example.repaired(odd), "right")):
        lines = shown(document, capsys)
        key = example.data.get("key")
        assert (upsert_fold(lines, key) if key else left_over(lines)) == example.data[wanted]

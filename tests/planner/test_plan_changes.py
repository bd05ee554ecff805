"""The table of ``docs/plans/plan-diff.md``: each pair of queries, compiled and compared, has the verdict it says."""

from __future__ import annotations

import re

import pytest

from stateplan.plans.diff import PlanDiff, compare
from stateplan.plans.diff_report import EXIT_CODES, to_text
from tests.support.changes import PAGE, ROWS, document


def diff(change: str) -> PlanDiff:
    before, after, _, _ = ROWS[change]
    return compare(document(before), document(after))


def test_the_page_has_the_table() -> None:
    assert len(ROWS) > 40
    assert {row[2] for row in ROWS.values()} == {
        "identical",
        "ttl-only",
        "stateless",
        "rewrite",
        "derive",
        "backfill",
    }
    for verdict, code in EXIT_CODES.items():
        assert re.search(rf"^\| `{verdict}` \| .* \| {code} \|$", PAGE, re.M)


@pytest.mark.parametrize("change", ROWS)
def test_verdict(change: str) -> None:
    found = diff(change)
    assert found.verdict == ROWS[change][2], to_text(found)

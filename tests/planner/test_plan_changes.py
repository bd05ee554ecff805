"""The table of ``docs/plans/plan-diff.md``, and more changes: each pair of queries, compiled and compared, has the
verdict that is written there."""

from __future__ import annotations

import re

import pytest

from stateplan.plans.diff import compare
from stateplan.plans.diff_report import EXIT_CODES, to_text
from tests.support.changes import MORE, PAGE, ROWS, document

CHANGES = ROWS | MORE


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


@pytest.mark.parametrize("change", CHANGES)
def test_verdict(change: str) -> None:
    before, after, verdict = CHANGES[change][:3]
    found = compare(document(before), document(after))
    assert found.verdict == verdict, to_text(found)

"""How two texts differ, line by line."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from stateplan.plans.text_splices import unified_diff
from tests.plans.unified_diffs import patched

TEXTS = st.lists(st.sampled_from(("a\n", "b\n", "{\n", "}\n", "x")), max_size=30).map("".join)


@given(TEXTS, TEXTS)
def test_one_text_becomes_the_other(old: str, new: str) -> None:
    diff = unified_diff(old, new, "a", "b")
    assert patched(old, diff) == new
    assert (diff == "") == (old == new)


def test_small_changes_of_a_long_text_are_small() -> None:
    lines = ["    }, {\n", '      "index" : 0\n'] * 50_000
    changed = [*lines[:70], "new\n", *lines[70:90_000], *lines[90_003:], "end"]
    diff = unified_diff("".join(lines), "".join(changed), "a", "b")
    assert len(re.findall("^@@", diff, re.MULTILINE)) == 3
    assert len(diff) < 600
    assert patched("".join(lines), diff) == "".join(changed)

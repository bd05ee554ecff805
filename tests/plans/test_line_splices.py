"""Changes of a text found line by line."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stateplan.plans.splices import applied, line_splices, unified_diff

TEXTS = st.lists(st.sampled_from(("a\n", "b\n", "{\n", "}\n", "x")), max_size=30).map("".join)


@given(TEXTS, TEXTS)
def test_one_text_becomes_the_other(old: str, new: str) -> None:
    assert applied(old, line_splices(old, new)) == new
    assert (unified_diff(old, line_splices(old, new), "a", "b") == "") == (old == new)


def test_small_changes_of_a_long_text_are_small() -> None:
    lines = ["    }, {\n", '      "index" : 0\n'] * 50_000
    changed = [*lines[:70], "new\n", *lines[70:90_000], *lines[90_003:], "end"]
    splices = line_splices("".join(lines), "".join(changed))
    assert len(splices) == 3
    assert sum(s.end - s.start + len(s.new) for s in splices) < 200
    assert applied("".join(lines), splices) == "".join(changed)

"""Flink's programs for joins, with the plans that Flink froze for them: run, restarted with the state kept, run on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.flink_programs import run_program
from tests.support.local import fold

PROGRAMS = (
    "join-anti-join",
    "join-cross-join",
    "join-inner-join-with-equal-pk",
    "join-inner-join-with-pk",
    "join-left-join",
    "join-non-window-inner-join",
    "join-non-window-inner-join-with-null-cond",
    "join-outer-join",
    "join-semi-join",
    "join-with-filter",
)


@pytest.mark.parametrize("name", PROGRAMS)
def test_rows_like_flink(name: str, shared: Path, tmp_path: Path) -> None:
    plan = shared / "plans" / "stream-exec-join_1" / f"{name}.json"
    program = shared / "programs" / "JoinTestPrograms" / f"{name}.json"
    before, after, expected = run_program(plan, program, tmp_path)
    assert after, "the program has rows after the restart"
    assert fold([*before, *after]) == fold(expected)

"""Joins on time as the real Flink ran them: the changes it emitted when rows came one at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from execnodes.runtime.translate import translate
from planner.environment import TableEnvironment
from planner.restore import restore
from planner.script import read_script
from plans.document import PlanDocument
from tests.support.cases import Case, replay_script
from tests.support.local import fold, printed

FOLDER = Path(__file__).parent / "temporal"


@pytest.mark.parametrize("name", sorted(p.name for p in FOLDER.iterdir()))
def test_changes_like_flink(name: str, tmp_path: Path) -> None:
    case = Case(FOLDER / name)
    session = TableEnvironment.create()
    *before, last = read_script(replay_script(case, tmp_path))
    for statement in before:
        session.execute_statement(statement)
    document = PlanDocument.parse(session.compile_document(last.node, last.source).text)
    lines = printed(translate(restore(document, session.catalog, {}).graph, {}, key_groups=3))
    assert fold(lines) == case.materialized
    if "aggregate" not in name:
        assert sorted(lines) == sorted(case.text("changelog.txt").splitlines())

"""Joins on time as the real Flink ran them: the changes it emitted when rows came one at a time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stateplan.plans.document import PlanDocument
from stateplan.runtime.translate import translate
from stateplan.session.environment import TableEnvironment
from stateplan.session.restore import restore
from stateplan.session.script import Inserts, read_script
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
    document = PlanDocument.parse(session.session.compiler.document(Inserts.of(last.node, last.source)).text)
    lines = printed(translate(restore(document, session.catalog, {}).graph, {}, key_groups=2))
    assert fold(lines) == case.materialized
    if "aggregate" not in name:
        assert sorted(lines) == sorted(case.text("changelog.txt").splitlines())


def test_an_outer_interval_join_by_processing_time_goes_by_the_clock(tmp_path: Path) -> None:
    for name, rows in {"l": [(1, 0), (2, 1_000), (3, 9_000)], "r": [(1, 500), (2, 8_000)]}.items():
        text = "".join(json.dumps({"id": i, "@at": at}) + "\n" for i, at in rows)
        (tmp_path / f"{name}.json").write_text(text)
    session = TableEnvironment.create()
    *before, last = read_script(
        "".join(
            f"CREATE TABLE {name} (id INT, pt AS PROCTIME()) WITH "
            f"('connector'='replay', 'path'='{tmp_path}/{name}.json', 'format'='json');"
            for name in ("l", "r")
        )
        + "CREATE TABLE snk (a INT, b INT) WITH ('connector'='print');"
        "INSERT INTO snk SELECT l.id, r.id FROM l LEFT JOIN r ON l.id = r.id AND l.pt BETWEEN "
        "r.pt - INTERVAL '2' SECOND AND r.pt + INTERVAL '2' SECOND;"
    )
    for statement in before:
        session.execute_statement(statement)
    document = PlanDocument.parse(session.session.compiler.document(Inserts.of(last.node, last.source)).text)
    lines = printed(translate(restore(document, session.catalog, {}).graph, {}, key_groups=1))
    # The last row still waits when the input ends; Flink drops it too.
    assert lines == ["+I[1, 1]", "+I[2, null]"]

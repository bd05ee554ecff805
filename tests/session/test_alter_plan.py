"""ALTER PLAN and ``CompiledPlan.set_ttl``: the TTLs of a plan, from SQL and from Python."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.pages import page_path
from stateplan.common.errors import StateplanError
from stateplan.plans.document import PlanDocument
from stateplan.session.environment import PlanReference, TableEnvironment
from stateplan.session.script import read_script

ROOT = Path(__file__).resolve().parent.parent.parent
JOIN = ROOT / "tests" / "plans" / "data" / "join" / "plan.json"


@pytest.fixture
def env() -> TableEnvironment:
    return TableEnvironment.create()


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    file = tmp_path / "plan.json"
    file.write_bytes(JOIN.read_bytes())
    return file


def test_one_state(env: TableEnvironment, plan: Path) -> None:
    result = env.execute_sql(f"ALTER PLAN '{plan}' SET TTL '1 d' FOR join.right")
    assert result.rows == [("join[5].right", "rightState", "1 h", "1 d")]
    assert result.statement == "ALTER PLAN"
    text = JOIN.read_text()
    at = text.rindex('"1 h"', 0, text.index('"rightState"'))
    assert plan.read_text() == text[:at] + '"1 d"' + text[at + 5 :]


@pytest.mark.parametrize(
    ("ttls", "states"),
    [
        ("TTL '1 d' FOR 'join.left', join.right", ("1 d", "1 d")),
        ("TTL '1 d' FOR 'join.left', TTL 'never' FOR 5.1", ("1 d", "0 ms")),
        ("ttl 'PT1M' for `x`.y", None),
        ("TTL '90 min' FOR join.*", ("90 min", "90 min")),
        ("TTL '2 h' FOR join . left", None),
        ("TTL '2 h' FOR ' join . left '", ("2 h", "1 h")),
        ("TTL '60 min' FOR 5.left", ("1 h", "1 h")),
    ],
)
def test_several(env: TableEnvironment, plan: Path, ttls: str, states: tuple[str, str] | None) -> None:
    statement = f"ALTER PLAN '{plan}' SET {ttls};"
    if states is None:
        with pytest.raises(StateplanError, match="SQL001"):
            env.execute_sql(statement)
    else:
        env.execute_sql(statement)
        assert re.findall(r'"ttl" : "(.*?)"', plan.read_text()) == list(states)


@pytest.mark.parametrize(
    ("ttls", "code", "marked"),
    [
        ("TTL '1 d' FOR 'join.left', join", "PLAN103", "join"),
        ("TTL '1 d' FOR join.left, 'jion.left'", "PLAN101", "'jion.left'"),
        ("TTL '1 d' FOR join.left, TTL '2 d' FOR 5.0", "PLAN106", "5.0"),
        ("TTL '1 d' FOR join.left, TTL '1 week' FOR 5.1", "PLAN055", "'1 week'"),
        ("TTL '1 d' FOR 'join..left'", "PLAN100", "'join..left'"),
        ("TTL 'for ever' FOR join.left", "PLAN053", "'for ever'"),
        ("TTL '1 d' FOR calc", "PLAN104", "calc"),
    ],
)
def test_what_is_wrong_is_marked_and_nothing_is_written(
    env: TableEnvironment, plan: Path, ttls: str, code: str, marked: str
) -> None:
    script = f"-- a script\nALTER PLAN '{plan}'\nSET {ttls};"
    (statement,) = read_script(script, "script.sql")
    with pytest.raises(StateplanError) as caught:
        env.execute_statement(statement)
    error = caught.value
    assert error.code == code
    assert error.place is not None
    assert (error.place.file, error.place.line) == ("script.sql", 3)
    assert f"SET {ttls};"[(error.place.column or 0) - 1 :][: error.place.length] == marked
    assert plan.read_bytes() == JOIN.read_bytes()


def test_the_session_counts_for_what_the_plan_does_not_say(env: TableEnvironment, plan: Path) -> None:
    plan.write_text(re.sub(r'    "state" : \[.*?\],\n', "", plan.read_text(), flags=re.S))
    env.execute_sql("SET 'table.exec.state.ttl' = '3 h'")
    assert env.execute_sql(f"ALTER PLAN '{plan}' SET TTL '1 d' FOR join.left").rows == [
        ("join[5].left", "leftState", "3 h", "1 d"),
        ("join[5].right", "rightState", "3 h", "3 h"),
    ]


def test_no_such_file(env: TableEnvironment) -> None:
    with pytest.raises(StateplanError, match="PLAN001"):
        env.execute_sql("ALTER PLAN 'nowhere.json' SET TTL '1 d' FOR join.left")


def test_from_python(env: TableEnvironment, plan: Path, tmp_path: Path) -> None:
    compiled = env.load_plan(PlanReference.from_file(plan))
    assert compiled.set_ttl("join.left", "2 h").set_ttl("join.right", 0) is compiled
    assert plan.read_bytes() == JOIN.read_bytes(), "only the plan in memory has changed"
    compiled.write_to_file(tmp_path / "edited.json")
    assert re.findall(r'"ttl" : "(.*?)"', (tmp_path / "edited.json").read_text()) == ["2 h", "0 ms"]
    with pytest.raises(StateplanError, match="PLAN106"):
        compiled.set_ttls({"join.left": "9 h", "5.left": "8 h"})
    with pytest.raises(StateplanError, match="PLAN103"):
        compiled.set_ttl("join", "9 h")
    assert compiled.document.graph.node(5).ttls() == (7_200_000, 0)


def test_the_example_of_the_page(env: TableEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = page_path("sql").read_text()
    shown = re.search(r"```sql\n(ALTER PLAN 'plan.json'.*?)```\n\n```text\n(.*?)\n```", page, re.S)
    query = re.search(r"```sql\n(.*?)```", page_path("selectors").read_text(), re.S)
    assert shown is not None
    assert query is not None
    *before, insert = read_script(query[1])
    for statement in before:
        env.execute_statement(statement)
    monkeypatch.chdir(tmp_path)
    env.compile_plan_sql(insert.text).write_to_file("plan.json")
    assert env.execute_sql(shown[1]).to_text() == shown[2]
    assert PlanDocument.load("plan.json").graph.node(4).ttls() == (3_600_000,)

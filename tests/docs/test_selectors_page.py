"""The page on selectors: its table is what selectors give, its error what the command prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.pages import page_path
from stateplan.cli import app
from stateplan.common.errors import PlanError
from stateplan.plans.document import PlanDocument
from stateplan.plans.selectors import select_states
from stateplan.session.environment import TableEnvironment
from stateplan.session.script import read_script

PAGE = page_path("selectors").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(.+?)` \| (.+?) \|$", PAGE, re.M)


@pytest.fixture(scope="module")
def document() -> PlanDocument:
    script = re.search(r"```sql\n(.*?)```", PAGE, re.S)
    assert script is not None
    tables = TableEnvironment.create()
    *before, query = read_script(script[1])
    for statement in before:
        tables.execute_statement(statement)
    return tables.compile_plan_sql(query.text).document


@pytest.mark.parametrize(("selector", "states"), ROWS, ids=[row[0] for row in ROWS])
def test_a_row(document: PlanDocument, selector: str, states: str) -> None:
    try:
        found = ", ".join(f"{view.node_id} {view.name}" for view in select_states(document, selector))
    except PlanError as error:
        assert states.startswith(f"error {error.code}: ")
    else:
        assert found == states


def test_the_error(document: PlanDocument, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    shown = re.search(r"```console\n\$ stateplan plan set-ttl plan.json '(.*?)'\n(.*?)```", PAGE, re.S)
    assert shown is not None
    document.write(str(tmp_path / "plan.json"))
    with pytest.raises(SystemExit):
        app.main(["plan", "set-ttl", str(tmp_path / "plan.json"), shown[1]])
    assert capfd.readouterr().err == shown[2]

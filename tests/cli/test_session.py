"""Scripts through the command line's session: what is shown, what stops it, what is compiled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stateplan.cli.session import Session
from stateplan.cli.sql_client.statements import read_text
from stateplan.common.errors import OptionError, RunError, SqlError, StateplanError
from stateplan.runtime.job import Progress
from stateplan.session.environment import TableEnvironment
from stateplan.session.results import TableResult, content
from tests.cli.console_capture import CaptureConsole

TABLES = """
CREATE TABLE orders (order_id BIGINT, num INT, arrived AS PROCTIME())
WITH ('connector' = 'filesystem', 'path' = '/data/orders', 'format' = 'json');
CREATE TABLE sums (order_id BIGINT, num INT) WITH ('connector' = 'print');
"""
INSERT = """
INSERT INTO sums SELECT order_id, num
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY arrived) AS n FROM orders) WHERE n = 1;
"""


@pytest.fixture
def console() -> CaptureConsole:
    return CaptureConsole()


@pytest.fixture
def script(tmp_path: Path) -> Any:
    def write(text: str) -> str:
        path = tmp_path / "script.sql"
        path.write_text(text)
        return str(path)

    return write


def test_results_of_a_script(console: CaptureConsole) -> None:
    Session(console, {}).run_script(TABLES + "SHOW TABLES; USE default_database;")
    assert console.results == [{"columns": ["table name"], "rows": [["orders"], ["sums"]]}]
    assert console.asides == ""


def test_a_text_is_shown_as_it_is(console: CaptureConsole) -> None:
    Session(console, {}).run_script(TABLES + "SHOW CREATE TABLE sums;")
    assert console.text.startswith("CREATE TABLE")


def test_options_are_set_before_the_init_script(console: CaptureConsole, script: Any) -> None:
    session = Session(console, {"table.exec.state.ttl": "1 h"}, script("SET 'pipeline.name' = 'x';"))
    options = session._environment.get_config().to_dict()
    assert (options["table.exec.state.ttl"], options["pipeline.name"]) == ("1 h", "x")


def test_an_unknown_option(console: CaptureConsole) -> None:
    with pytest.raises(OptionError, match="ttl"):
        Session(console, {"table.exec.stat.ttl": "1 h"})


def test_a_syntax_error_anywhere_means_that_nothing_ran(console: CaptureConsole) -> None:
    with pytest.raises(SqlError) as raised:
        Session(console, {}).run_script("SHOW TABLES;\nSHOW;", "s.sql")
    assert console.results == []
    assert raised.value.place is not None
    assert (raised.value.place.file, raised.value.place.line) == ("s.sql", 2)


def test_the_first_error_ends_a_script(console: CaptureConsole) -> None:
    with pytest.raises(StateplanError, match="nowhere"):
        Session(console, {}).run_script("SHOW CATALOGS; DESCRIBE nowhere; SHOW TABLES;")
    assert len(console.results) == 1


@pytest.mark.parametrize(("content", "reason"), [(None, "No such file"), (b"\xff\xfe\x00", "UTF-8")])
def test_an_unreadable_script(tmp_path: Path, content: bytes | None, reason: str) -> None:
    path = tmp_path / "s.sql"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SqlError, match=reason):
        read_text(str(path))


# jobs


class FakeJob:
    """A job that ends at once, or as told."""

    def __init__(self, ending: BaseException | None = None) -> None:
        self.progress = Progress(batch=2, rows_in=30, rows_out=3, seconds=1.5)
        self.ending = ending

    def wait(self, timeout: float | None = None) -> bool:
        if self.ending is not None:
            raise self.ending
        return True


def with_job(monkeypatch: pytest.MonkeyPatch, job: FakeJob) -> None:
    result: TableResult = content("INSERT", ["sums"], [(-1,)], ["look out"])
    result.job = job  # type: ignore[assignment]
    monkeypatch.setattr(TableEnvironment, "execute_statement", lambda *_: result)


def test_a_job_is_waited_for(console: CaptureConsole, monkeypatch: pytest.MonkeyPatch) -> None:
    with_job(monkeypatch, FakeJob())
    Session(console, {}).run_script("INSERT INTO sums SELECT 1, 2")
    assert console.text == ""
    assert console.asides.splitlines() == ["look out", "finished: batch 2 (0.0 s) | 30 rows in | 3 rows out | 1.5 s"]


def test_an_interrupted_job_says_how_far_it_got(console: CaptureConsole, monkeypatch: pytest.MonkeyPatch) -> None:
    with_job(monkeypatch, FakeJob(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        Session(console, {}).run_script("INSERT INTO sums SELECT 1, 2")
    assert "stopped: batch 2" in console.asides


def test_a_failed_job(console: CaptureConsole, monkeypatch: pytest.MonkeyPatch) -> None:
    with_job(monkeypatch, FakeJob(RunError.with_text("RUN001", "the job failed")))
    with pytest.raises(RunError):
        Session(console, {}).run_script("INSERT INTO sums SELECT 1, 2")
    assert "finished" not in console.asides


# plan compile


def test_compile(console: CaptureConsole, script: Any, tmp_path: Path) -> None:
    target = tmp_path / "plan.json"
    Session(console, {"table.exec.state.ttl": "90 min"}).compile(script(TABLES + INSERT), str(target))
    assert '"ttl" : "90 min"' in target.read_text()
    assert console.asides == f"wrote {target}: 6 operators, 1 state\n"


def test_compile_onto_an_existing_plan(console: CaptureConsole, script: Any, tmp_path: Path) -> None:
    target = tmp_path / "plan.json"
    target.write_text("mine")
    source = script(TABLES + INSERT)
    with pytest.raises(StateplanError, match=r"PLAN002(.|\n)*--overwrite"):
        Session(console, {}).compile(source, str(target))
    Session(console, {}).compile(source, str(target), if_not_exists=True)
    assert "kept unchanged" in console.asides
    assert target.read_text() == "mine"
    Session(console, {}).compile(source, str(target), overwrite=True)
    assert target.read_text().startswith("{")


@pytest.mark.parametrize("queries", ["", INSERT + INSERT])
def test_a_plan_holds_one_query(console: CaptureConsole, script: Any, tmp_path: Path, queries: str) -> None:
    with pytest.raises(SqlError) as raised:
        Session(console, {}).compile(script(TABLES + queries), str(tmp_path / "plan.json"))
    assert raised.value.code == "SQL402"
    assert not (tmp_path / "plan.json").exists()


def test_a_wrong_query_names_its_place(console: CaptureConsole, script: Any, tmp_path: Path) -> None:
    file = script(TABLES + "INSERT INTO sums SELECT order_id, nums FROM orders;")
    with pytest.raises(StateplanError) as raised:
        Session(console, {}).compile(file, str(tmp_path / "plan.json"))
    place = raised.value.place
    assert place is not None
    assert (place.file, place.line, place.column) == (file, 5, 35)
    assert not (tmp_path / "plan.json").exists()

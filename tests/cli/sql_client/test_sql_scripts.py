"""Scripts and commands over a recorded session: what is printed, what is asked of the gateway, what stops."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from stateplan.cli.console import JsonConsole
from stateplan.cli.sql_client.client import Client, Quit, help_text
from stateplan.cli.sql_client.statements import Piece
from stateplan.common.errors import RunError, SqlError, StateplanError
from stateplan.common.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, LogicalType
from stateplan.gateway.protocol import PageKind, ResultPage
from stateplan.planner.dialect.grammar import STATEMENTS, words
from stateplan.planner.dialect.keywords import KEYWORDS
from stateplan.planner.dialect.parser import FlinkParser
from stateplan.session.script import read_script, read_statement
from tests.cli.console_capture import CaptureConsole
from tests.cli.sql_client.recorded_session import NOT_READY, Answer, RecordedSession, columns, page

JOB = "9d3e6d0672fd4890adf157f3a7321ee0"
COUNT = "SELECT product, COUNT(*) AS orders FROM t GROUP BY product"
CHANGES: Answer = [NOT_READY, page("+I pen 1", "+I ink -"), page(), page("-U pen 1", "+U pen 2")]


@pytest.fixture
def console() -> CaptureConsole:
    return CaptureConsole()


class Screen:
    """A terminal that keeps what it is shown."""

    def __init__(self, height: int = 20) -> None:
        self.shown: list[tuple[str, list[Any]]] = []
        self.paged: list[str] = []
        self.height = height
        self.cleared = 0
        self.most = 10**9

    def show(self, mode: str, first: ResultPage, pages: Iterator[ResultPage], options: Mapping[str, str]) -> None:
        rows: list[Any] = []
        for found in pages:
            rows += found.rows
            if len(rows) >= self.most:
                break
        self.shown.append((mode, rows))

    def page(self, text: str) -> bool:
        if text.count("\n") < self.height:
            return False
        self.paged.append(text)
        return True

    def clear(self) -> None:
        self.cleared += 1


def test_a_query_of_a_script_is_a_table(console: CaptureConsole) -> None:
    session = RecordedSession({COUNT: CHANGES})
    Client(session, console).run_script(f"{COUNT};")
    assert console.text == (
        "+----+--------------------------------+----------------------+\n"
        "| op |                        product |               orders |\n"
        "+----+--------------------------------+----------------------+\n"
        "| +I |                            pen |                    1 |\n"
        "| +I |                            ink |               <NULL> |\n"
        "| -U |                            pen |                    1 |\n"
        "| +U |                            pen |                    2 |\n"
        "+----+--------------------------------+----------------------+\n"
        "Received a total of 4 rows\n"
    )
    assert session.calls == [("close", COUNT)]


def test_rows_that_only_come_need_no_kind(console: CaptureConsole) -> None:
    first = page("+I pen 1")
    first = ResultPage(first.kind, first.columns, first.rows, is_query=True, insert_only=True)
    Client(RecordedSession({COUNT: [first]}), console).run_script(COUNT)
    assert "op" not in console.text
    assert "|                            pen |                    1 |" in console.text


def test_a_query_without_rows(console: CaptureConsole) -> None:
    Client(RecordedSession({COUNT: [page()]}), console).run_script(COUNT)
    assert console.text == "Empty set\n"


def test_the_width_of_columns(console: CaptureConsole) -> None:
    options = {"table.display.max-column-width": "6"}
    answers: dict[str, Answer] = {"q": [page("+I abcdefgh", of=columns(p=STRING))]}
    Client(RecordedSession(answers, options), console).run_script("q")
    assert "| abc... |" in console.text
    options["sql-client.display.max-column-width"] = "5"
    Client(RecordedSession(answers, options), console).run_script("q")
    assert "| ab... |" in console.text


def test_other_results(console: CaptureConsole) -> None:
    answers: dict[str, Answer] = {
        "SHOW TABLES": [page("+I orders", "+I sums", of=columns(**{"table name": STRING}), query=False)],
        "SHOW VIEWS": [page(of=columns(**{"view name": STRING}), query=False)],
        "SHOW CREATE TABLE t": [page("+I CREATE\nTABLE", of=columns(result=STRING), query=False)],
    }
    client = Client(RecordedSession(answers), console)
    client.run_script("SHOW TABLES; SHOW VIEWS; SHOW CREATE TABLE t; USE d;")
    assert console.text == (
        "+------------+\n| table name |\n+------------+\n|     orders |\n|       sums |\n+------------+\n"
        "2 rows in set\nEmpty set\nCREATE\nTABLE\n"
    )
    assert console.asides == ""
    client.run_script("USE d", acknowledge=True)
    assert console.asides == "OK\n"


def test_a_job_in_the_background(console: CaptureConsole) -> None:
    insert = page(f"+I {JOB}", of=columns(**{"job id": STRING}), query=False, job=JOB)
    session = RecordedSession({"INSERT INTO t SELECT 1": [NOT_READY, insert]}, {"table.dml-sync": "false"})
    client = Client(session, console)
    client.run_script("INSERT INTO t SELECT 1")
    assert console.text == f"Job ID: {JOB}\n"
    assert [(job.id, job.is_running) for job in client.jobs.states()] == [(JOB, True)]
    client.jobs.close()
    session.options["table.dml-sync"] = "true"
    other = Client(session, console)
    other.run_script("INSERT INTO t SELECT 1")
    assert console.text == f"Job ID: {JOB}\n", "it has ended when its statement has"
    assert other.jobs.states() == []


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    of = columns(n=INT, big=BIGINT, f=DOUBLE, ok=BOOLEAN, d=LogicalType("DECIMAL", precision=4, scale=2), s=STRING)
    rows = page("+I 1 9007199254740993 1.5 TRUE 1.50 x", "-D - - NaN FALSE - -", of=of)
    insert = page(f"+I {JOB}", of=columns(**{"job id": STRING}), query=False, job=JOB)
    answers: dict[str, Answer] = {
        "SELECT *": [NOT_READY, rows, page(of=of), page("+I 2 2 2 TRUE 2 y", of=of)],
        "SELECT 0": [page(of=of)],
        "SHOW TABLES": [page("+I orders", of=columns(**{"table name": STRING}), query=False)],
        "INSERT": [insert],
    }
    client = Client(RecordedSession(answers, {"table.dml-sync": "true"}), JsonConsole())
    client.run_script("SELECT *; SELECT 0; SHOW TABLES; USE d; INSERT; HELP QUIT;")
    first, second, empty, tables, job, text = map(json.loads, capsys.readouterr().out.splitlines())
    assert first == {
        "columns": ["n", "big", "f", "ok", "d", "s"],
        "types": ["INT", "BIGINT", "DOUBLE", "BOOLEAN", "DECIMAL(4, 2)", "VARCHAR(2147483647)"],
        "op": ["+I", "-D"],
        "rows": [[1, 9007199254740993, 1.5, True, "1.50", "x"], [None, None, "NaN", False, None, None]],
    }
    assert (second["op"], second["rows"]) == (["+I"], [[2, 2, 2.0, True, "2", "y"]])
    assert (empty["columns"], empty["op"], empty["rows"]) == (["n", "big", "f", "ok", "d", "s"], [], [])
    assert tables == {"columns": ["table name"], "rows": [["orders"]]}
    assert job == {"columns": ["job id"], "rows": [[JOB]]}
    assert text["help"].startswith("QUIT;")


def test_an_error_ends_a_script_and_has_its_place(console: CaptureConsole) -> None:
    wrong = RunError.with_text("RUN001", "the job failed")
    session = RecordedSession({"b": [page("+I pen 1"), wrong]})
    with pytest.raises(RunError) as raised:
        Client(session, console).run_script("a;\n\nb;\nc;", "jobs.sql")
    assert session.statements == ["a", "b"]
    assert str(raised.value) == "[RUN001] the job failed\n  --> jobs.sql, line 3"
    assert session.calls == [("close", "a"), ("cancel", "b"), ("close", "b")]
    assert "pen" in console.text


def test_nothing_runs_when_a_statement_is_wrong(console: CaptureConsole) -> None:
    def check(piece: Piece) -> None:
        read_script(piece.text)

    session = RecordedSession()
    with pytest.raises(SqlError) as raised:
        Client(session, console, check=check).run_script("SHOW TABLES; HELP;\n  SHOW;", "a.sql")
    assert session.statements == []
    assert str(raised.value).startswith(
        "[SQL001] the statement ends too early\n  --> a.sql, line 2, column 7\n    SHOW;\n        ^"
    )


def test_control_c_ends_a_query(console: CaptureConsole) -> None:
    def interrupted() -> Iterator[ResultPage]:
        yield page("+I pen 1")
        raise KeyboardInterrupt

    session = RecordedSession()
    session.answers = {"q": interrupted()}  # type: ignore[dict-item]
    with pytest.raises(KeyboardInterrupt):
        Client(session, console).run_script("q")
    assert session.calls == [("cancel", "q"), ("close", "q")]
    assert console.asides == "The query was stopped. Received a total of 1 row\n"


def test_control_c_before_a_result(console: CaptureConsole) -> None:
    def interrupted() -> Iterator[ResultPage]:
        yield NOT_READY
        raise KeyboardInterrupt

    session = RecordedSession()
    session.answers = {"q": interrupted()}  # type: ignore[dict-item]
    with pytest.raises(KeyboardInterrupt):
        Client(session, console).run_script("q; r")
    assert session.calls == [("cancel", "q"), ("close", "q")]
    assert session.statements == ["q"]
    assert console.asides == "The statement was cancelled.\n"


# the terminal


@pytest.mark.parametrize("mode", ["table", "changelog"])
def test_a_result_fills_the_screen(console: CaptureConsole, mode: str) -> None:
    screen = Screen()
    session = RecordedSession({COUNT: CHANGES}, {"sql-client.execution.result-mode": mode})
    Client(session, console, terminal=screen).run_script(COUNT)
    ((shown, rows),) = screen.shown
    assert (shown, len(rows)) == (mode.upper(), 4)
    assert (console.text, console.asides) == ("", "")
    screen.most = 1
    Client(session, console, terminal=screen).run_script(COUNT)
    assert session.calls[-2:] == [("cancel", COUNT), ("close", COUNT)]
    assert console.asides == "The query was stopped.\n"


def test_tableau_at_a_terminal_says_how_long_it_took(console: CaptureConsole) -> None:
    options = {"sql-client.execution.result-mode": "tableau"}
    Client(RecordedSession({COUNT: CHANGES}, options), console, terminal=Screen()).run_script(COUNT)
    last = console.text.splitlines()[-1]
    assert last.startswith("Received a total of 4 rows (")
    assert last.endswith(" seconds)")
    options["sql-client.display.print-time-cost"] = "false"
    Client(RecordedSession({COUNT: CHANGES}, options), console, terminal=Screen()).run_script(COUNT)
    assert console.text.splitlines()[-1] == "Received a total of 4 rows"


def test_long_texts_go_to_the_pager(console: CaptureConsole) -> None:
    screen = Screen(height=4)
    answers: dict[str, Answer] = {"SHOW TABLES": [page("+I a", "+I b", of=columns(name=STRING), query=False)]}
    Client(RecordedSession(answers), console, terminal=screen).run_script("SHOW TABLES; HELP; HELP EXIT; CLEAR;")
    assert screen.paged[0].splitlines()[-1] == "2 rows in set"
    assert len(screen.paged) == 2
    assert console.text.startswith("EXIT;")
    assert screen.cleared == 1


# commands


def test_source(console: CaptureConsole, tmp_path: Path) -> None:
    inner = tmp_path / "it's.sql"
    inner.write_text("b;\nc;")
    session = RecordedSession({"c": [SqlError("SQL010", what="nothing")]})
    client = Client(session, console)
    name = str(inner).replace("'", "''")
    with pytest.raises(SqlError) as raised:
        client.run_script(f"a; SOURCE '{name}'; d;", "outer.sql")
    assert session.statements == ["a", "b", "c"]
    assert raised.value.place is not None
    assert (raised.value.place.file, raised.value.place.line) == (str(inner), 2)


def test_source_of_no_file(console: CaptureConsole) -> None:
    with pytest.raises(SqlError, match="SQL401") as raised:
        Client(RecordedSession(), console).run_script("\nSOURCE 'nowhere.sql';", "a.sql")
    assert "--> a.sql, line 2, column 1" in str(raised.value)


def test_a_file_that_runs_itself(console: CaptureConsole, tmp_path: Path) -> None:
    file = tmp_path / "a.sql"
    file.write_text(f"a; SOURCE '{file}';")
    session = RecordedSession()
    with pytest.raises(SqlError, match="SQL403"):
        Client(session, console).run_script(f"SOURCE '{file}'")
    assert len(session.statements) == 16


def test_commands_of_the_system(console: CaptureConsole, capfd: pytest.CaptureFixture[str]) -> None:
    Client(RecordedSession(), console).run_script("!echo one; echo two\n!exit 3\n")
    assert capfd.readouterr().out == "one\ntwo\n"
    assert console.asides == "exit status 3\n"


@pytest.mark.parametrize("word", ["quit;", "EXIT ;", "Quit"])
def test_quit(console: CaptureConsole, word: str) -> None:
    session = RecordedSession()
    with pytest.raises(Quit):
        Client(session, console).run_script(f"a; {word} b;" if ";" in word else f"a; {word}")
    assert session.statements == ["a"]


def test_help() -> None:
    text = help_text("")
    assert all(name in text for name in ("SOURCE 'file';", "!command", "CREATE TABLE", "ALTER PLAN"))
    assert max(map(len, text.splitlines())) <= 110
    assert help_text("alter plan").splitlines()[0].startswith("ALTER PLAN 'path' SET TTL")
    assert help_text("create").count("Example:") == sum(s.name.startswith("CREATE") for s in STATEMENTS)
    assert "](" not in help_text("create")
    assert help_text("select distinct") == help_text("select")
    assert help_text("clear").startswith("CLEAR;")
    assert help_text("nothing") == "There is no statement 'nothing'. HELP; lists all.\n"


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda s: s.name)
def test_every_example_of_the_grammar_parses(statement: Any) -> None:
    assert read_statement(statement.example).text == statement.example
    assert statement.example.startswith(statement.name.split()[0])


def test_the_grammar_has_every_statement() -> None:
    lines = " ".join(line for s in STATEMENTS for line in s.lines)
    missing = [w for w in FlinkParser._STATEMENTS if w.isalpha() and w not in lines.split()]
    assert missing == ["LOAD", "UNLOAD"], "these are rejected"
    assert set(words()) - KEYWORDS == {"TTL"}


def test_a_gateway_that_answers_at_once_is_not_asked_without_a_pause(
    console: CaptureConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    sleep, client = time.sleep, threading.current_thread()

    def pause(seconds: float) -> None:
        if threading.current_thread() is client:
            pauses.append(seconds)
        else:
            sleep(seconds)

    monkeypatch.setattr("time.sleep", pause)
    session = RecordedSession({"q": [NOT_READY] * 3 + [page("+I pen 1"), page(), page()]})
    Client(session, console).run_script("q")
    assert len(pauses) == 5
    assert PageKind.EOS.value == "EOS"


def test_an_unexpected_error_keeps_its_type(console: CaptureConsole) -> None:
    session = RecordedSession({"q": [StateplanError("BUG000", what="x")]})
    with pytest.raises(StateplanError, match="BUG000"):
        Client(session, console).run_script("q")

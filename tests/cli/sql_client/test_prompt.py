"""Typing statements: several lines, colours, completion, history, pasting, and the toolbar."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from pygments.token import Comment, Keyword, Name, Number, String

from stateplan.cli.sql_client.highlighting import SCHEMES, FlinkLexer
from stateplan.cli.sql_client.history import LENGTH, StatementHistory
from stateplan.cli.sql_client.prompt import Prompt, StatementCompleter, style
from stateplan.common.errors import RunError
from stateplan.common.settings import OPTIONS
from tests.cli.sql_client.screens import ScreenTest, terminal


@pytest.fixture
def tty() -> Iterator[ScreenTest]:
    with terminal() as made:
        yield made


class Typing:
    """A prompt that is asked again and again, until the end of input."""

    def __init__(self, tty: ScreenTest, file: Path, candidates: list[str] | None = None) -> None:
        self.got: list[str] = []
        self.options: dict[str, str] = {}
        self.running = ""
        self.inserts: int | None = None
        self.candidates = candidates or []
        self.file = file
        self.tty = tty
        tty.start(self.loop)
        tty.until("SQL>")

    def loop(self) -> None:
        prompt = Prompt(
            lambda: self.options,
            lambda text, position: [c for c in self.candidates if c.upper().startswith(text[:position].split()[-1])],
            StatementHistory(self.file),
            lambda: self.running,
            inserts=lambda: self.inserts,
        )
        while True:
            try:
                self.got.append(prompt.ask())
            except KeyboardInterrupt:
                self.got.append("^C")
            except EOFError:
                return

    def end(self) -> list[str]:
        self.tty.type("\x04")
        self.tty.ended()
        return self.got


def test_enter_runs_what_is_complete(tty: ScreenTest, tmp_path: Path) -> None:
    typing = Typing(tty, tmp_path / "h")
    tty.type("SELECT\r")
    tty.until("\n             >")
    tty.type("  'a;\r")
    tty.type("b';\r")
    tty.until(lambda text: text.count("SQL>") == 2)
    tty.type("!pwd\r")
    tty.type(";\r")
    assert typing.end() == ["SELECT\n  'a;\nb';", "!pwd", ";"]


def test_control_c_drops_what_is_typed(tty: ScreenTest, tmp_path: Path) -> None:
    typing = Typing(tty, tmp_path / "h")
    tty.type("SELECT\r1")
    tty.until("1")
    tty.type("\x03")
    tty.until(lambda text: text.count("SQL>") == 2)
    tty.type("SELECT 2;\r")
    assert typing.end() == ["^C", "SELECT 2;"]


def test_a_pasted_script_is_not_run_before_enter(tty: ScreenTest, tmp_path: Path) -> None:
    typing = Typing(tty, tmp_path / "h")
    tty.type("\x1b[200~SELECT 1;\nSELECT 2;\n\x1b[201~")
    tty.until("SELECT 2;")
    assert typing.got == []
    tty.type("\r")
    assert typing.end() == ["SELECT 1;\nSELECT 2;\n"]


def test_a_statement_is_one_entry_of_the_history(tty: ScreenTest, tmp_path: Path) -> None:
    file = tmp_path / "h"
    typing = Typing(tty, file)
    tty.type("SELECT\r1;\r SELECT 'secret';\rSELECT 3;\r")
    tty.until(lambda text: text.count("SQL>") == 4)
    typing.end()
    assert file.read_text() == "+SELECT\n+1;\n\n+SELECT 3;\n\n"
    assert file.stat().st_mode & 0o777 == 0o600
    with terminal() as other:
        typing = Typing(other, file)
        other.type("\x12elect\x12\r")  # Ctrl-R, twice
        other.until("SELECT\n             > 1;")
        other.type("\r")
        other.until(lambda text: text.count("SQL>") == 2)
        other.type("\x1b[A\r")
        assert typing.end() == ["SELECT\n1;", "SELECT\n1;"]


def test_an_old_history_becomes_statements(tmp_path: Path) -> None:
    file = tmp_path / "h"
    file.write_text("SHOW TABLES;\nSELECT a\nFROM t;\nQUIT;\n")
    history = StatementHistory(file)
    assert list(history.load_history_strings()) == ["QUIT;", "SELECT a\nFROM t;", "SHOW TABLES;"]
    assert file.read_text() == "+SHOW TABLES;\n\n+SELECT a\n+FROM t;\n\n+QUIT;\n\n"
    history.store_string("x\n\ny;")
    assert next(iter(StatementHistory(file).load_history_strings())) == "x\n\ny;"


def test_the_history_has_an_end(tmp_path: Path) -> None:
    file = tmp_path / "h"
    history = StatementHistory(file)
    for i in range(2 * LENGTH + 1):
        history.store_string(f"SELECT {i};")
    assert len(list(history.load_history_strings())) == LENGTH
    assert file.read_text().startswith(f"+SELECT {LENGTH + 1};\n")


def test_a_history_that_cannot_be_kept_is_no_error(tmp_path: Path) -> None:
    history = StatementHistory(tmp_path / "none" / "h")
    history.store_string("SELECT 1;")
    assert list(history.load_history_strings()) == []


def test_tab_completes(tty: ScreenTest, tmp_path: Path) -> None:
    typing = Typing(tty, tmp_path / "h", ["default_catalog.default_database.orders", "default_catalog.x.orders"])
    tty.type("SELECT * FROM DEF\t")
    tty.until("default_catalog.x.orders")
    tty.type("\t\r;\r")  # the first candidate, which Enter takes
    assert typing.end() == ["SELECT * FROM default_catalog.default_database.orders;"]


@pytest.mark.parametrize(
    ("text", "candidates", "found"),
    [
        ("SELECT * FROM ord", ["c.d.orders"], ["SELECT * FROM orders"]),
        ("SELECT * FROM c.d.ord", ["c.d.orders"], ["SELECT * FROM c.d.orders"]),
        ("SELECT * FROM c", ["c.d.orders", "c"], ["SELECT * FROM c.d.orders", "SELECT * FROM c"]),
        ("SELECT o.pro", ["o.product_id"], ["SELECT o.product_id"]),
        ("SET s", ["spark.sql.shuffle"], ["SET spark.sql.shuffle"]),
        ("SELECT 1;\nSELECT f(ab", ["abs"], ["SELECT 1;\nSELECT f(abs"]),
        ("EXECUTE PLAN 'pl", ["plans/"], ["EXECUTE PLAN 'plans/"]),
        ("SET 'table.ex", ["table.exec.state.ttl"], ["SET 'table.exec.state.ttl"]),
        ("CREATE TABLE t WITH ('a'=b", ["'b'"], ["CREATE TABLE t WITH ('a'='b'"]),
        (
            "SELECT 1; ",
            ["SELECT"],
            ["SELECT 1; " + word for word in ("HELP", "SOURCE", "CLEAR", "QUIT", "EXIT", "SELECT")],
        ),
        ("qu", [], ["QUIT"]),
        ("HELP create t", [], ["HELP CREATE TABLE", "HELP CREATE TABLE AS"]),
        ("SOURCE 'q", [], ["SOURCE 'queries.sql"]),
        ("!cat q", [], ["!cat queries.sql"]),
    ],
)
def test_what_completion_gives(
    text: str, candidates: list[str], found: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "queries.sql").touch()
    asked: list[tuple[str, int]] = []

    def complete(statement: str, position: int) -> list[str]:
        asked.append((statement, position))
        return candidates

    document = Document(text)
    got = [
        text[: len(text) + c.start_position] + c.text
        for c in StatementCompleter(complete).get_completions(document, CompleteEvent())
    ]
    assert got == found
    assert all(position == len(statement) and ";" not in statement for statement, position in asked)


def test_tables_after_the_cursor_are_told() -> None:
    asked: list[tuple[str, int]] = []

    def complete(statement: str, position: int) -> list[str]:
        asked.append((statement, position))
        return ["o.product_id"]

    text = "SELECT 1; SELECT o.pro FROM orders o; SELECT 2;"
    (found,) = StatementCompleter(complete).get_completions(Document(text, text.index(" FROM")), CompleteEvent())
    assert asked == [("SELECT o.pro FROM orders o", len("SELECT o.pro"))]
    assert (found.text, found.start_position) == ("o.product_id", -len("o.pro"))


def test_a_gateway_that_cannot_complete_is_no_error() -> None:
    def fails(statement: str, position: int) -> list[str]:
        raise RunError("RUN164", message="no")

    assert list(StatementCompleter(fails).get_completions(Document("SELECT a"), CompleteEvent())) == []


def test_the_toolbar_is_there_while_jobs_run(tty: ScreenTest, tmp_path: Path) -> None:
    typing = Typing(tty, tmp_path / "h")
    typing.running = " 1 job running: 4f "
    tty.type("SELECT 1;\r")
    assert tty.until("1 job running").splitlines()[-1] == " 1 job running: 4f"
    typing.running = ""
    tty.until(lambda text: "job running" not in text)
    typing.end()


def test_an_open_statement_set_is_in_the_prompt(tty: ScreenTest, tmp_path: Path) -> None:
    typing = Typing(tty, tmp_path / "h")
    typing.inserts = 2
    tty.type("SELECT 1;\r")
    tty.until("Stateplan SQL (2 INSERTs)>")
    typing.inserts = None
    tty.type("SELECT 2;\r")
    tty.until(lambda text: text.rstrip().endswith("Stateplan SQL>"))
    typing.end()


def test_line_numbers(tty: ScreenTest, tmp_path: Path) -> None:
    typing = Typing(tty, tmp_path / "h")
    typing.options = {"sql-client.display.show-line-numbers": "true"}
    tty.type(";\rSELECT\r1\r;\r")
    tty.until("\n            2> 1\n            3> ;")
    typing.end()


def test_the_words_have_colours() -> None:
    sql = "select /*+ STATE_TTL('a'='1d') */ count(a), `my col` -- why\nFROM t WHERE x = 'it''s' AND y > 1.5e3 /* open"
    kinds = [(kind, text) for kind, text in FlinkLexer().get_tokens(sql) if text.strip()]
    assert (Keyword, "select") in kinds
    assert (Comment.Special, "/*+ STATE_TTL('a'='1d') */") in kinds
    assert (Name.Variable, "`my col`") in kinds
    assert (Comment.Single, "-- why") in kinds
    assert (String.Single, "'it''s'") in kinds
    assert (Number, "1.5e3") in kinds
    assert (Name, "t") in kinds
    assert kinds[-1] == (Comment.Multiline, "/* open\n")
    commands = [kind for kind, text in FlinkLexer().get_tokens("quit; SELECT quit") if text == "quit"]
    assert commands == [Keyword, Name]
    functions = {text: kind for kind, text in FlinkLexer().get_tokens("SELECT my_function(x)")}
    assert functions["my_function"] is Name.Function


def test_every_colour_schema() -> None:
    assert set(SCHEMES) == set(OPTIONS["sql-client.display.color-schema"].values)
    for scheme in SCHEMES:
        assert style(scheme).get_attrs_for_style_str("class:pygments.keyword").bold


def test_colours_are_on_the_screen(tty: ScreenTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    typing = Typing(tty, tmp_path / "h")
    tty.type("SELECT x")
    tty.until("SELECT x")
    row = tty.screen.buffer[0]
    assert (row[15].data, row[15].fg, row[22].data, row[22].fg) == ("S", "blue", "x", "default")
    tty.type("\x03")
    typing.end()


def test_no_color(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    with terminal() as plain:
        typing = Typing(plain, tmp_path / "h")
        plain.type("SELECT x")
        plain.until("SELECT x")
        assert {plain.screen.buffer[0][i].fg for i in range(30)} == {"default"}
        plain.type("\x03")
        typing.end()

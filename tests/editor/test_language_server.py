"""The language server over its protocol: the real command, spoken to as an editor does."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.editor.language_client import LanguageClient, apply_edits, language_client
from tests.editor.reading import TABLES

PLAN = (Path(__file__).resolve().parents[2] / "tests/frozen/stream-exec-join_1/inner-ttl-hint.json").read_text("utf-8")


def where(text: str, words: str, add: int = 0) -> tuple[int, int]:
    """The line and the UTF-16 code unit of words in a text."""
    at = text.index(words) + add
    line = text.count("\n", 0, at)
    start = text.rfind("\n", 0, at) + 1
    return line, len(text[start:at].encode("utf-16-le")) // 2


def test_the_server_says_what_it_can(client: LanguageClient) -> None:
    can = client.capabilities
    assert can["positionEncoding"] == "utf-16"
    assert can["textDocumentSync"]["change"] == 2
    assert can["codeLensProvider"] and can["hoverProvider"] and can["definitionProvider"] and can["referencesProvider"]
    assert can["executeCommandProvider"]["commands"] == ["stateplan.showPlan"]
    assert "." in can["completionProvider"]["triggerCharacters"]


def test_an_error_is_underlined_in_utf_16(client: LanguageClient) -> None:
    text = TABLES + "SELECT /* 😀 */ ordr_id FROM orders;\r\nSELECT num FROM orders;\r\n"
    (found,) = client.open("emoji.sql", text)
    line, character = where(text, "ordr_id")
    assert found["range"] == {
        "start": {"line": line, "character": character},
        "end": {"line": line, "character": character + 7},
    }
    assert (found["code"], found["severity"], found["source"]) == ("SQL100", 1, "stateplan")
    assert found["message"].startswith("column 'ordr_id' not found\nexpected: one of order_id, num, ts\nhint: ")
    assert found["codeDescription"]["href"].endswith("docs/operate/errors.md#sql100")


def test_a_quick_fix_mends_the_error(client: LanguageClient) -> None:
    text = TABLES + "SELECT /* 😀 */ ordr_id FROM orders;"
    (found,) = client.open("fix.sql", text)
    (action,) = client.fixes("fix.sql", found)
    assert (action["title"], action["kind"], action["isPreferred"]) == ("Change to 'order_id'", "quickfix", True)
    (change,) = action["edit"]["documentChanges"]
    assert change["textDocument"] == {"uri": client.uri("fix.sql"), "version": 1}
    mended = apply_edits(text, change["edits"])
    assert mended == text.replace("ordr_id", "order_id")
    assert client.replace("fix.sql", mended) == []


def test_changes_arrive_in_parts(client: LanguageClient) -> None:
    text = TABLES + "-- 😀\u2028\x0c\r\nSELECT num FROM orders;"
    assert client.open("parts.sql", text) == []
    line, _ = where(text, "num FROM")

    def change(start: int, end: int, new: str) -> dict[str, object]:
        return {
            "range": {"start": {"line": line, "character": start}, "end": {"line": line, "character": end}},
            "text": new,
        }

    client.change("parts.sql", change(7, 10, "x"), change(8, 8, "😀y"), change(8, 10, "z"))
    (found,) = client.findings("parts.sql")
    assert found["message"].startswith("column 'xzy' not found")


def test_only_the_newest_version_is_reported(client: LanguageClient) -> None:
    client.open("versions.sql", TABLES)
    for number in range(20):
        client.change("versions.sql", {"text": TABLES + f"SELECT a{number} FROM orders;"})
    (found,) = client.findings("versions.sql")
    assert found["message"].startswith("column 'a19' not found")


def test_hover_shows_what_a_clause_compiles_to(client: LanguageClient) -> None:
    text = TABLES + (
        "SET 'table.exec.state.ttl' = '7 d';\n"
        "SELECT o.order_id, MAX(num) FROM orders o JOIN logistics l ON o.order_id = l.order_id GROUP BY o.order_id;"
    )
    client.open("hover.sql", text)
    join = client.at("hover.sql", "hover", where(text, "JOIN"))["contents"]["value"]
    assert "join  (stream-exec-join_1" in join and "emits +I" in join
    assert "state 0  leftState   ttl 7 d  from the option table.exec.state.ttl" in join
    group = client.at("hover.sql", "hover", where(text, "GROUP BY"))["contents"]["value"]
    assert "group-aggregate" in group and "emits +I -U +U" in group


@pytest.mark.parametrize(
    ("words", "add", "expected"),
    [
        ("order_id, MAX", 0, "`order_id` BIGINT"),
        ("order_id, MAX", 3, "`order_id` BIGINT"),
        ("order_id, MAX", 8, "`order_id` BIGINT"),
        ("orders o", 0, "table `default_catalog.default_database.orders`, connector `datagen`"),
        ("MAX", 0, "aggregate function"),
        ("UPPER", 0, "`UPPER(<CHARACTER>)`"),
        ("table.exec.state.ttl", 0, "Default TTL of state"),
        ("number-of-rows", 0, "`number-of-rows` Long"),
        ("n, c", 0, "`n` BIGINT NOT NULL"),
    ],
)
def test_hover_explains_names(client: LanguageClient, words: str, add: int, expected: str) -> None:
    text = TABLES + (
        "SET 'table.exec.state.ttl' = '7 d';\n"
        "CREATE TABLE few (a INT) WITH ('connector' = 'datagen', 'number-of-rows' = '1');\n"
        "WITH counts AS (SELECT order_id AS c, COUNT(*) AS n FROM orders GROUP BY order_id) SELECT n, c FROM counts;\n"
        "SELECT o.order_id, MAX(num), UPPER('a') FROM orders o GROUP BY o.order_id;\n"
    )
    client.open("words.sql", text)
    assert expected in client.at("words.sql", "hover", where(text, words, add))["contents"]["value"]


def test_definitions_are_where_names_are_declared(client: LanguageClient) -> None:
    text = TABLES + "WITH c AS (SELECT num AS n FROM orders) SELECT c.n, o.num FROM c JOIN orders o ON c.n = o.num;"
    client.open("go.sql", text)

    def target(words: str, add: int = 0) -> tuple[int, int]:
        (location,) = client.at("go.sql", "definition", where(text, words, add))
        assert location["uri"] == client.uri("go.sql")
        return location["range"]["start"]["line"], location["range"]["start"]["character"]

    assert target("orders o") == (0, 13)
    assert target("o.num", 2) == where(TABLES, "num INT")
    assert target("c.n", 2) == where(text, "n FROM orders)")
    assert target("c JOIN") == where(text, "c AS")


def test_definitions_and_references_reach_other_files(client: LanguageClient) -> None:
    (client.folder / "shared.sql").write_text("-- 😀\nCREATE TABLE far_away (a INT) WITH ('connector' = 'datagen');\n")
    time.sleep(0.01)
    client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": client.uri("shared.sql"), "type": 1}]})
    text = "SELECT a FROM far_away;"
    client.open("uses.sql", text)
    (location,) = client.at("uses.sql", "definition", where(text, "far_away"))
    assert (location["uri"], location["range"]["start"]) == (client.uri("shared.sql"), {"line": 1, "character": 13})


def test_references_are_all_uses_of_a_table(client: LanguageClient) -> None:
    text = TABLES + "SELECT num FROM orders;\nSELECT o.num FROM orders AS o;"
    client.open("uses_of.sql", text)
    lines = client.at("uses_of.sql", "references", where(text, "orders AS"), context={"includeDeclaration": True})
    assert [one["range"]["start"]["line"] for one in lines] == [0, 3, 4]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("SELECT * FROM ord", "orders"),
        ("SELECT o.| FROM orders o", "o.num"),
        ("SET 'table.exec.state.t", "table.exec.state.ttl"),
        ("CREATE TABLE t (a INT) WITH ('connector' = '", "datagen"),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'datagen', 'number", "number-of-rows"),
        ("SEL", "SELECT"),
        ("SELECT num, UPP", "UPPER"),
    ],
)
def test_completion_offers_what_the_shell_does(client: LanguageClient, typed: str, expected: str) -> None:
    client.open("complete.sql", TABLES)
    text = TABLES + typed.replace("|", "")
    client.change("complete.sql", {"text": text})
    at = len(TABLES) + (typed.index("|") if "|" in typed else len(typed))
    line, start = text.count("\n", 0, at), text.rfind("\n", 0, at) + 1
    items = client.at("complete.sql", "completion", (line, at - start))["items"]
    item = next(item for item in items if item["label"] == expected)
    completed = apply_edits(text, [item["textEdit"]])
    assert completed.startswith(TABLES) and expected in completed[len(TABLES) :]


def test_lenses_show_the_states_of_statements(client: LanguageClient) -> None:
    text = TABLES + (
        "INSERT INTO shipped SELECT /*+ STATE_TTL('o' = '7 d', 'l' = '12 h') */ o.order_id, target\n"
        "FROM orders o JOIN logistics l ON o.order_id = l.order_id;\n"
        "INSERT INTO shipped SELECT order_id, 'x' FROM orders;\n"
    )
    client.open("lenses.sql", text)
    lenses = client.of("lenses.sql", "codeLens")
    assert [(one["range"]["start"]["line"], one["command"]["title"]) for one in lenses] == [
        (3, "2 states: join.left 7 d, join.right 12 h"),
        (5, "no state"),
    ]
    shown = client.request("workspace/executeCommand", {**lenses[0]["command"], "title": None})
    assert "== Optimized Physical Plan ==" in shown and "changelogMode=[I]" in shown


def test_a_plan_file_has_lenses_findings_and_fixes(client: LanguageClient) -> None:
    (found,) = client.open("plan.json", PLAN, "json")
    assert (found["code"], found["severity"]) == ("TTL002", 2)
    fixes = {one["title"]: one for one in client.fixes("plan.json", found)}
    assert list(fixes) == ['TTL002: set its TTL to "7 d"', "Suppress TTL002 at join[5]"]
    for action in fixes.values():
        mended = apply_edits(PLAN, action["edit"]["documentChanges"][0]["edits"])
        assert client.replace("plan.json", mended) == []
        client.replace("plan.json", PLAN)
    titles = [one["command"]["title"] for one in client.of("plan.json", "codeLens")]
    assert titles == [
        "join.left: TTL 7 d; size unknown: no checkpoint",
        "join.right: TTL 1 d; size unknown: no checkpoint",
    ]
    hover = client.at("plan.json", "hover", where(PLAN, '"rightState"', 3))["contents"]["value"]
    assert hover.startswith("`join.right`: state 1, `rightState`, ttl 1 d (from the plan)")


def test_a_damaged_plan_is_underlined(client: LanguageClient) -> None:
    text = PLAN.replace('"7 d"', '"7 dd"', 1)
    (found,) = client.open("damaged.plan.json", text, "json")
    assert (found["code"][:5], found["range"]["start"]["line"]) == ("PLAN0", where(text, '"7 dd"')[0])


def test_an_edge_leads_to_its_operator(client: LanguageClient) -> None:
    client.open("edges.plan.json", PLAN, "json")
    at = PLAN.index('"source" : 1', PLAN.index('"edges"'))
    position = where(PLAN[at:], "1")
    line = PLAN.count("\n", 0, at) + position[0]
    start = PLAN.rfind("\n", 0, at) + 1
    (location,) = client.at("edges.plan.json", "definition", (line, at - start + len('"source" : ')))
    assert location["range"]["start"]["line"] == where(PLAN, '"id" : 1')[0]


def test_other_json_is_left_alone(client: LanguageClient) -> None:
    assert client.open("package.json", '{"name": "x"', "json") == []


@pytest.mark.parametrize(
    "text", ["", "\ufeff", "\0\0\0", "'", "/*", "SELECT " + "(" * 5000, "{" * 3000, "SELECT 1;\r" * 3, ";;;"]
)
@pytest.mark.parametrize("name", ["odd.sql", "odd.plan.json"])
def test_no_text_ends_the_server(client: LanguageClient, name: str, text: str) -> None:
    client.open(name, text)
    for method in ("codeLens", "documentSymbol"):
        client.of(name, method)
    for method in ("hover", "definition", "completion"):
        client.at(name, method, (0, 1))
        client.at(name, method, (99, 99))
    client.close(name)


def test_what_is_not_open_has_no_answers(client: LanguageClient) -> None:
    assert client.at("nowhere.sql", "hover", (0, 0)) is None
    assert client.of("nowhere.sql", "codeLens") == []
    client.notify(
        "textDocument/didChange",
        {"textDocument": {"uri": client.uri("nowhere.sql"), "version": 2}, "contentChanges": [{"text": ""}]},
    )
    assert client.of("nowhere.sql", "documentSymbol") == []


def test_a_renamed_file_is_another_document(client: LanguageClient) -> None:
    client.open("before.sql", "SELEC;")
    client.close("before.sql")
    assert [one["code"] for one in client.open("after.sql", "SELEC;")] == ["SQL002"]
    assert client.diagnostics[client.uri("before.sql")][1] == []


def test_settings_of_the_editor_are_options_of_the_session(tmp_path: Path) -> None:
    (tmp_path / "tables.sql").write_text(TABLES)
    options = {"options": {"table.exec.state.ttl": "2 d", "no.such.option": "1"}, "init": "tables.sql"}
    with language_client(tmp_path, options) as other:
        assert other.open("q.sql", "SELECT order_id, COUNT(*) FROM orders GROUP BY order_id;") == []
        (lens,) = other.of("q.sql", "codeLens")
        assert lens["command"]["title"] == "1 state: group-aggregate 2 d"
        assert ["OPT001" in log for log in other.logs] == [True]
        other.notify("workspace/didChangeConfiguration", {"settings": {"stateplan": {}}})
        other.diagnostics.clear()
        assert [one["code"] for one in other.findings("q.sql")] == ["CAT002"]
        assert other.stop() == 0


def test_the_command_says_which_extra_it_needs(tmp_path: Path) -> None:
    (tmp_path / "pygls.py").write_text("raise ModuleNotFoundError('no', name='pygls')")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.argv = ['stateplan', 'language-server'];"
        "from stateplan.cli.app import main; main()"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert ended.returncode != 0 and "Traceback" not in ended.stderr
    assert "[OPT122] the command 'language-server' needs a library that is not installed" in ended.stderr
    assert "pip install 'stateplan[editor]'" in ended.stderr


def test_a_start_loads_no_engine() -> None:
    code = (
        "import sys; import stateplan.editor.server, stateplan.editor.documents, stateplan.session.compiler;"
        "print([m for m in ('pyspark', 'polars', 'pandas', 'pyarrow') if m in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"


def test_the_server_ends_when_its_editor_is_gone(tmp_path: Path) -> None:
    with language_client(tmp_path) as other:
        other.open("a.sql", TABLES)
        assert other.process.stdin is not None
        other.process.stdin.close()
        assert other.process.wait(30) == 0


def test_a_long_script_delays_no_answer_and_no_end(tmp_path: Path) -> None:
    text = TABLES + "".join(f"SELECT num + {i} FROM orders WHERE order_id > {i};\n" for i in range(1500))
    with language_client(tmp_path) as other:
        other.open("short.sql", TABLES)
        item = {"uri": other.uri("long.sql"), "languageId": "sql", "version": 1, "text": text}
        other.notify("textDocument/didOpen", {"textDocument": item})
        start = time.monotonic()
        assert other.at("short.sql", "completion", (0, 3))["items"]
        assert other.at("short.sql", "hover", (0, 14)) is not None
        assert other.stop() == 0
        assert time.monotonic() - start < 20
        assert other.uri("long.sql") not in other.diagnostics


def test_what_is_no_message_of_the_protocol_ends_nothing(tmp_path: Path) -> None:
    with language_client(tmp_path) as other:
        other.notify("no/such/method", {})
        other.notify("textDocument/didOpen", {"textDocument": 5})
        other.notify("textDocument/didChange", None)
        assert other.process.stdin is not None
        other.process.stdin.write(b"Content-Length: 5\r\n\r\n{]{]{")
        other.process.stdin.flush()
        assert [one["code"] for one in other.open("a.sql", "SELEC;")] == ["SQL002"]
        assert other.stop() == 0


def test_one_editor_may_connect_over_tcp(tmp_path: Path) -> None:
    wrong = subprocess.run(
        [Path(sys.executable).with_name("stateplan"), "language-server", "--tcp", "nowhere"],
        capture_output=True,
        text=True,
    )
    assert wrong.returncode == 2 and "'nowhere' is not HOST:PORT" in wrong.stderr
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [Path(sys.executable).with_name("stateplan"), "language-server", "--tcp", f"127.0.0.1:{port}"]
    )
    try:
        body = b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"processId": null, "capabilities": {}}}'
        for _ in range(300):
            try:
                with socket.create_connection(("127.0.0.1", port), 60) as connection:
                    connection.sendall(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
                    stream = connection.makefile("rb")
                    length = int(stream.readline().partition(b":")[2])
                    while stream.readline().strip():
                        pass
                    assert b'"hoverProvider"' in stream.read(length)
                    stream.close()
                    break
            except ConnectionRefusedError:
                time.sleep(0.1)
        assert server.wait(30) is not None
    finally:
        server.kill()
        server.wait()

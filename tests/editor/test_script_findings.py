"""What is underlined in a script."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateplan.editor.documents import DocumentReader
from stateplan.editor.findings import Level
from tests.editor.reading import TABLES, brief, codes, insight, workspace


def test_a_script_without_errors_has_no_findings(tmp_path: Path) -> None:
    assert codes(TABLES + "INSERT INTO shipped SELECT order_id, 'x' FROM orders;", tmp_path) == []


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT ordr_id FROM orders", [("SQL100", "ordr_id")]),
        ("SELECT * FROM ordrs", [("CAT002", "ordrs")]),
        ("SELECT UPER('a')", [("SQL200", "UPER")]),
        ("SELECT 1 FRM orders", [("SQL001", "orders")]),
        ("SET 'table.exec.state.tl' = '1 d'", [("OPT001", "SET 'table.exec.state.tl' = '1 d'")]),
        ("INSERT INTO shipped SELECT order_id FROM orders", [("SQL130", "shipped")]),
        ("SELECT order_id, COUNT(*) FROM orders GROUP BY order_id", [("TTL011", "GROUP BY order_id")]),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'datagen', 'rows' = '1')", [("OPT104", "'rows' = '1'")]),
    ],
)
def test_the_place_is_underlined(query: str, expected: list[tuple[str, str]], tmp_path: Path) -> None:
    own = [(code, text) for code, text in codes(TABLES + query + ";\nSELECT 1;", tmp_path)]
    assert own == expected


def test_each_statement_has_its_findings(tmp_path: Path) -> None:
    text = TABLES + "SELECT a FROM orders;\nSELECT b FROM orders;\nSELEC;\nSELECT c FROM orders;\n"
    assert codes(text, tmp_path) == [("SQL100", "a"), ("SQL100", "b"), ("SQL002", "SELEC"), ("SQL100", "c")]


def test_a_broken_table_leads_to_no_other_error(tmp_path: Path) -> None:
    text = "CREATE TABLE broken (a INTT) WITH ('connector' = 'datagen');\nSELECT * FROM broken;\nSELECT * FROM other;\n"
    assert [code for code, _ in codes(text, tmp_path)] == ["SQL005", "CAT002"]


def test_an_error_in_a_table_names_the_statement_that_needs_it(tmp_path: Path) -> None:
    text = "CREATE TABLE t (a INT) WITH ('connector' = 'datagen', 'rows' = '1');\nSELECT * FROM t;\n"
    (finding,) = insight(text, tmp_path).findings
    assert brief(finding, text)[:2] == ("OPT104", "'rows' = '1'")
    assert [text[r.span.start : r.span.end] for r in finding.other_places] == ["SELECT * FROM t"]


def test_lint_is_reported_where_the_operator_is_written(tmp_path: Path) -> None:
    text = TABLES + (
        "CREATE VIEW v AS SELECT o.order_id, target FROM orders o\n"
        "JOIN logistics l ON o.order_id = l.order_id;\n"
        "INSERT INTO shipped SELECT * FROM v;\n"
    )
    findings = insight(text, tmp_path).findings
    assert {brief(f, text)[:2] for f in findings} == {("TTL011", "JOIN logistics l ON o.order_id = l.order_id")}
    assert {f.level for f in findings} == {Level.INFORMATION}


def test_statements_see_what_is_declared_above_them(tmp_path: Path) -> None:
    text = "SELECT * FROM orders;\n" + TABLES + "SELECT * FROM orders;\nDROP TABLE orders;\nSELECT * FROM orders;"
    findings = insight(text, tmp_path).findings
    assert [(brief(f, text)[0], text[: f.span.start].count("\n")) for f in findings] == [("CAT002", 0), ("CAT002", 6)]


def test_a_statement_set_is_checked(tmp_path: Path) -> None:
    text = TABLES + "BEGIN STATEMENT SET;\nINSERT INTO shipped SELECT x, 'a' FROM orders;\nSELECT 1;\nEND;\nEND;\n"
    assert [code for code, _ in codes(text, tmp_path)] == ["SQL100", "SQL007", "SQL007"]


def test_a_fix_names_what_was_meant(tmp_path: Path) -> None:
    text = TABLES + "SELECT order_id FROM ordrs;"
    (finding,) = insight(text, tmp_path).findings
    (fix,) = finding.fixes
    (edit,) = fix.edits
    assert (fix.title, text[: edit.span.start] + edit.text + text[edit.span.end :]) == (
        "Change to 'orders'",
        text.replace("ordrs", "orders"),
    )


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("SELECT 1 FRM orders", "SELECT 1 FROM orders"),
        ("SET 'table.exec.state.tl' = '1 d'", "SET 'table.exec.state.ttl' = '1 d'"),
        ("SELECT o.ordr_id FROM orders o", "SELECT o.order_id FROM orders o"),
        ("CREATE TABLE out (a INT)", "CREATE TABLE `out` (a INT)"),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'datagn')",
         "CREATE TABLE t (a INT) WITH ('connector' = 'datagen')"),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'datagen', 'number-of-row' = '1')",
         "CREATE TABLE t (a INT) WITH ('connector' = 'datagen', 'number-of-rows' = '1')"),
    ],
)  # fmt: skip
def test_the_first_fix_mends_the_statement(wrong: str, right: str, tmp_path: Path) -> None:
    text = TABLES + wrong + ";"
    finding = next(f for f in insight(text, tmp_path).findings if f.level == Level.ERROR)
    edit = finding.fixes[0].edits[0]
    assert text[: edit.span.start] + edit.text + text[edit.span.end :] == TABLES + right + ";"


def test_the_fix_for_endless_state_removes_the_finding(tmp_path: Path) -> None:
    text = TABLES + "SELECT order_id, COUNT(*) FROM orders GROUP BY order_id;"
    (finding,) = insight(text, tmp_path).findings
    edit = finding.fixes[0].edits[0]
    mended = text[: edit.span.start] + edit.text + text[edit.span.end :]
    assert codes(mended, tmp_path) == []


def test_a_script_that_runs_first_declares_tables(tmp_path: Path) -> None:
    init = tmp_path / "tables.sql"
    init.write_text(TABLES)
    text = "SELECT x FROM orders;"
    found = DocumentReader(tmp_path / "q.sql").read(text, workspace(tmp_path, init), lambda: None).findings
    assert [brief(f, text)[:2] for f in found] == [("SQL100", "x")]


def test_a_table_of_another_file_is_a_warning_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "tables.sql").write_text(TABLES)
    (finding,) = insight("SELECT 1 FROM orders;", tmp_path).findings
    assert (finding.code, finding.level) == ("CAT002", Level.WARNING)
    assert [r.file for r in finding.other_places] == [str(tmp_path / "tables.sql")]


def test_a_table_that_is_mended_and_gone_is_missing_again(tmp_path: Path) -> None:
    reader, space = DocumentReader(tmp_path / "q.sql"), workspace(tmp_path)
    broken = "CREATE TABLE t (a INTT);\nSELECT a FROM t;"
    assert [f.code for f in reader.read(broken, space, lambda: None).findings] == ["SQL005"]
    gone = reader.read("SELECT 1;\nSELECT a FROM t;", space, lambda: None)
    assert [f.code for f in gone.findings] == ["CAT002"]


def test_a_function_has_the_types_that_its_module_declares_now(tmp_path: Path) -> None:
    text = TABLES + (
        "CREATE FUNCTION f AS 'functions.f' LANGUAGE PYTHON;\nINSERT INTO shipped SELECT f(order_id), 'x' FROM orders;"
    )
    reader, space = DocumentReader(tmp_path / "q.sql"), workspace(tmp_path)
    module = tmp_path / "functions.py"
    module.write_text("raise SystemExit\n@udf(input_types=['BIGINT'], result_type=DataTypes.BIGINT())\ndef f(x): ...\n")
    assert reader.read(text, space, lambda: None).findings == ()
    module.write_text("f = udf(lambda x: x, result_type=DataTypes.ARRAY(DataTypes.STRING()))\n")
    assert [f.code for f in reader.read(text, space, lambda: None).findings] == ["SQL134"]
    module.write_text("f = make(lambda x: x)\n")
    assert [f.code for f in reader.read(text, space, lambda: None).findings] == ["EDIT001"]


def test_the_first_queries_of_a_long_script_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stateplan.editor.scripts.MOST_COMPILED", 2)
    text = TABLES + "SELECT x FROM orders;\n" * 4
    own = [(f.code, text.count("\n", 0, f.span.start)) for f in insight(text, tmp_path).findings]
    assert own == [("SQL100", 3), ("SQL100", 4), ("EDIT001", 5)]

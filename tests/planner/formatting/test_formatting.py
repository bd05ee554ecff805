"""``stateplan format``: the same tokens, comments, trees and plans, in one form."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.errors import SqlError, StateplanError
from stateplan.planner.dialect import parse
from stateplan.planner.dialect.tokenizer import scan
from stateplan.planner.formatting import format_sql
from stateplan.planner.formatting.lexemes import comments
from stateplan.review.queries import Script
from tests.support.command import Command

ROOT = Path(__file__).resolve().parents[3]
SHARED = Path(os.environ.get("STATEPLAN_SHARED", ROOT.parent / "shared" / "flink")).parent
CASES = Path(__file__).parent / "cases"


def scripts() -> list[Path]:
    """Scripts of examples and tests, and a tenth of the reference material; all of it with ``STATEPLAN_LONG``."""
    own = [*(ROOT / "examples").rglob("*.sql"), *(ROOT / "tests").rglob("*.sql")]
    own = [path for path in own if CASES not in path.parents]
    others = [*(SHARED / "flink" / "cases").rglob("*.sql"), *(SHARED / "nexmark").rglob("*.sql")]
    others += [*(SHARED / "found").rglob("*.sql")]
    step = 1 if os.environ.get("STATEPLAN_LONG") else 10
    return [*sorted(own)[:: min(step, 4)], *sorted(others)[::step]]


def check(source: str, width: int = 100) -> str:
    """The script in one form, which has to be the same script."""
    result = format_sql(source, width=width)
    assert not result.verbatim or "PATTERN" in source  # a comment between a variable and its quantifier
    assert parse(result.text) == parse(source)
    assert comments(result.text) == comments(source)
    assert [t.text.upper() for t in scan(result.text)] == [t.text.upper() for t in scan(source)]
    assert format_sql(result.text, width=width).text == result.text
    return result.text


@pytest.mark.parametrize("case", sorted(CASES.iterdir()), ids=lambda path: path.stem)
def test_cases(case: Path) -> None:
    before, after = case.read_text().split("\n---\n")
    assert check(before) == after.rstrip("\n")


def test_scripts_stay_the_same_scripts() -> None:
    count = 0
    for path in scripts():
        source = path.read_text()
        try:
            parse(source)
        except SqlError:
            continue  # a template, or a list of statements that are refused
        if not re.search("^-- test:", source, re.M):
            check(source)
            check(source, width=40)
        else:
            lines = [line for line in source.split("\n") if line.startswith("--")]
            text = format_sql(source).text
            assert [line for line in text.split("\n") if line.startswith("--")] == lines
            assert format_sql(text).text == text
        count += 1
    assert count > 30


def test_plans_stay_the_same(tmp_path: Path) -> None:
    tables = (ROOT / "examples" / "tables.sql").read_text()
    for name in ("order_tracking", "product_stats"):
        source = tables + (ROOT / "examples" / f"{name}.sql").read_text()
        graphs = []
        for number, text in enumerate((source, format_sql(source, width=40).text)):
            path = tmp_path / f"{number}.sql"
            path.write_text(text)
            (query,) = Script({}, None, "", None).read(path, path.name)
            assert query.document is not None
            graphs.append([(node.replace(stateplan=None)) for node in query.document.graph.nodes])
        assert graphs[0] == graphs[1]


SOURCES = [
    "CREATE TABLE t (a INT NOT NULL, b ARRAY<ROW<c INT, d MAP<STRING, INT>>>, p AS PROCTIME(), "
    "PRIMARY KEY (a) NOT ENFORCED) WITH ('connector' = 'print', 'x' = 'y');",
    "INSERT INTO r SELECT /*+ STATE_TTL('a' = '1 d', 'b' = '2 h') */ DISTINCT a.x, -a.y * 2 - 1 AS z, "
    "CASE WHEN a.x > 1 AND a.y BETWEEN 1 AND 2 THEN 'one' ELSE CAST(b.z AS VARCHAR(3)) END AS w, LEFT(b.s, 2) "
    "FROM a LEFT JOIN b ON a.x = b.x AND a.y <> b.y OR b.z IS NOT DISTINCT FROM a.z WHERE a.x IN (SELECT x FROM c) "
    "GROUP BY a.x, b.z HAVING COUNT(*) > 1 UNION ALL SELECT * FROM (VALUES (1, 2), (3, 4)) AS v (p, q);",
    "EXECUTE STATEMENT SET BEGIN INSERT INTO r SELECT 1; INSERT INTO s SELECT k, COUNT(*) FROM t GROUP BY k; END;",
    "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.v AS first_v, LAST(B.v) AS last_v "
    "ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (A B+? C*) DEFINE B AS B.v > A.v, C AS C.v < 1) AS m;",
]

REMARKS = st.sampled_from(
    ["-- a remark\n", "\n-- above\n", "/* inline */", "\n/* block\n  of two lines */\n", "\n", " "]
)


@given(
    st.sampled_from(SOURCES), st.lists(st.tuples(st.integers(0, 200), REMARKS), max_size=6), st.sampled_from([40, 100])
)
def test_comments_anywhere_stay(source: str, remarks: list[tuple[int, str]], width: int) -> None:
    text = source
    tokens = scan(source)
    places = {place % len(tokens): remark for place, remark in remarks}
    for place, remark in sorted(places.items(), reverse=True):
        token = tokens[place]
        text = f"{text[: token.start]} {remark} {text[token.start :]}"
    check(text, width)


@pytest.mark.parametrize("following", ["-- tail", "/* inline */ SELECT 2;", "-- other\nSELECT 2;", "SELECT 2;"])
def test_a_comment_that_moves_behind_a_semicolon_takes_nothing_in(following: str) -> None:
    text = check(f"SELECT 1 -- one\n ; {following}")
    assert text.startswith("SELECT 1; -- one\n")


def test_a_set_statement_keeps_its_words() -> None:
    assert format_sql("set table.exec.state.ttl=4;\nselect 1;").text == "set table.exec.state.ttl=4;\nSELECT 1;"


def test_directives_of_tests_stay_where_they_are() -> None:
    source = (ROOT / "examples" / "tests" / "order_tracking.sql").read_text()
    squeezed = source.replace("\nJOIN", " join")
    text = format_sql(squeezed).text
    assert text.partition("-- test:")[2] == source.partition("-- test:")[2]


def test_the_command(stateplan: Command, tmp_path: Path) -> None:
    good, bad, ugly = (tmp_path / name for name in ("good.sql", "bad.sql", "ugly.sql"))
    good.write_text("SELECT 1;\n")
    bad.write_text("SELECT 1;\n\nSELEC 2;\n")
    ugly.write_bytes(b"\xef\xbb\xbfselect   a\r\n  ,b from t;\r\n")
    code, out, err = stateplan("format", tmp_path, "--check")
    assert (code, out) == (3, "")
    assert "bad.sql, line 3, column 1" in err and f"would change {ugly}" in err
    bad.unlink()
    assert stateplan("format", tmp_path, "--check").code == 9
    code, out, _ = stateplan("format", ugly, "--diff")
    assert code == 9 and "+\ufeffSELECT a, b" in out
    assert stateplan("format", tmp_path).code == 0
    assert ugly.read_bytes() == b"\xef\xbb\xbfSELECT a, b FROM t;\r\n"
    code, _, err = stateplan("format", tmp_path, "--check")
    assert (code, err.splitlines()[-1]) == (0, "2 files: 0 would change")
    assert stateplan("format", tmp_path / "missing").code == 3


def test_what_does_not_parse_is_an_error() -> None:
    with pytest.raises(StateplanError) as raised:
        format_sql("-- test: a\nSELECT 1;\n-- test: b\nSELECT FROM;", "f.sql")
    assert raised.value.place is not None
    assert raised.value.place.line == 4


def test_the_hook_for_pre_commit(stateplan: Command, tmp_path: Path) -> None:
    hooks = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
    for name in ("stateplan-format", "stateplan-test"):
        assert hooks[name]["language"] == "python"
        assert re.search(hooks[name]["files"], "queries/orders.sql")
    (tmp_path / "q.sql").write_text("select 1;\n")
    words = hooks["stateplan-format"]["entry"].split()[1:]
    assert stateplan(*words, tmp_path / "q.sql").code == 0
    assert (tmp_path / "q.sql").read_text() == "SELECT 1;\n"

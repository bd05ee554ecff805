"""Which queries belong together, and what becomes of those that are on one side alone."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.command import Command

TABLES = """CREATE TABLE src (k INT, v INT) WITH ('connector' = 'kafka', 'topic' = 't',
  'properties.bootstrap.servers' = 'kafka:9092', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE counts (k INT, n BIGINT) WITH ('connector' = 'print');
CREATE TABLE sums (k INT, n INT) WITH ('connector' = 'print');
"""
COUNT = "INSERT INTO counts SELECT k, COUNT(*) FROM src GROUP BY k;\n"
SUM = "INSERT INTO sums SELECT k, SUM(v) FROM src GROUP BY k;\n"


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def statuses(stateplan: Command, tmp_path: Path, old: dict[str, str], new: dict[str, str]) -> list[tuple[str, str]]:
    for name, files in (("old", old), ("new", new)):
        (tmp_path / name).mkdir(exist_ok=True)
        write(tmp_path / name, {"tables.sql": TABLES, **files})
    words = ("review", tmp_path / "old", tmp_path / "new", "-i", "tables.sql", "--format", "json")
    code, out, err = stateplan(*words)
    assert (code, err) == (0, "")
    return [(query["name"], query["status"]) for query in json.loads(out)["queries"]]


def test_queries_of_folders_are_paired_by_file(stateplan: Command, tmp_path: Path) -> None:
    old = {"a.sql": COUNT, "b/b.sql": SUM, "gone.sql": COUNT}
    new = {"a.sql": COUNT.replace("COUNT(*)", "COUNT(v)"), "b/b.sql": SUM, "fresh.sql": SUM}
    assert statuses(stateplan, tmp_path, old, new) == [
        ("a.sql", "changed"),
        ("fresh.sql", "created"),
        ("gone.sql", "deleted"),
    ]


def test_queries_of_a_file_are_paired_by_their_tables(stateplan: Command, tmp_path: Path) -> None:
    both = {"q.sql": SUM.replace("SUM(v)", "MIN(v)") + COUNT}
    assert statuses(stateplan, tmp_path, {"q.sql": COUNT + SUM}, both) == [("q.sql: sums", "changed")]


def test_a_query_in_a_file_of_another_name_is_the_same(stateplan: Command, tmp_path: Path) -> None:
    changed = COUNT.replace("COUNT(*)", "COUNT(v)")
    assert statuses(stateplan, tmp_path, {"a.sql": COUNT}, {"b.sql": changed}) == [("b.sql", "changed")]


def test_the_worst_is_first(stateplan: Command, tmp_path: Path) -> None:
    for side, expression in (("old", "COUNT(*)"), ("new", "COUNT(v)")):
        broken = SUM if side == "old" else SUM.replace("k,", "key,")
        files = {"a.sql": COUNT.replace("COUNT(*)", expression), "b.sql": broken, "tables.sql": TABLES}
        write(tmp_path / side, files | ({"c.sql": "INSERT INTO counts SELECT k, 1 FROM src;"} if side == "old" else {}))
    out = stateplan("review", tmp_path / "old", tmp_path / "new", "-i", "tables.sql").out
    assert [line.split("</code>")[0][len("#### <code>") :] for line in out.splitlines() if line[:5] == "#### "] == [
        "b.sql",
        "a.sql",
    ]
    assert "| <code>c.sql</code> | query deleted |" in out


def test_words_alone_change_nothing(stateplan: Command, tmp_path: Path) -> None:
    assert statuses(stateplan, tmp_path, {"a.sql": COUNT}, {"a.sql": "-- Counts.\n" + COUNT.replace("k,", "k ,")}) == []


def test_a_query_that_does_not_compile_is_a_finding(stateplan: Command, tmp_path: Path) -> None:
    write(tmp_path, {"old.sql": TABLES + COUNT, "new.sql": TABLES + COUNT.replace("k,", "key,")})
    words = ("review", tmp_path / "old.sql", tmp_path / "new.sql")
    code, out, _ = stateplan(*words, "--fail-on", "errors")
    assert code == 9
    assert "### 1 query does not compile" in out
    assert "[SQL100]" in out and "new.sql, line 5, column" in out
    (finding,) = json.loads(stateplan(*words, "--format", "json").out)["findings"]
    assert (finding["code"], finding["line"], finding["policy"]) == ("SQL100", 5, "errors")


def test_an_old_query_that_does_not_compile_leaves_nothing_to_compare(stateplan: Command, tmp_path: Path) -> None:
    write(tmp_path, {"old.sql": TABLES + "INSERT INTO", "new.sql": TABLES + COUNT})
    code, out, _ = stateplan("review", tmp_path / "old.sql", tmp_path / "new.sql")
    assert code == 0
    assert "the old query does not compile (<code>SQL" in out


def test_batch_queries_have_no_state_and_are_left_alone(stateplan: Command, tmp_path: Path) -> None:
    batch = "SET 'execution.runtime-mode' = 'batch';\n" + TABLES + COUNT
    write(tmp_path, {"old.sql": batch, "new.sql": batch.replace("COUNT(*)", "COUNT(v)")})
    assert "### No query changed" in stateplan("review", tmp_path / "old.sql", tmp_path / "new.sql").out


def test_nothing_that_acts_is_run(stateplan: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    act = f"COMPILE PLAN 'written.json' FOR {COUNT}EXECUTE PLAN 'missing.json';\nSELECT * FROM src;\n"
    write(tmp_path, {"old.sql": TABLES + act, "new.sql": TABLES + act.replace("COUNT(*)", "COUNT(v)")})
    code, out, _ = stateplan("review", "old.sql", "new.sql")
    assert code == 0 and "1 query changed" in out
    assert not (tmp_path / "written.json").exists()


def test_catalogs_stay_as_they_are(stateplan: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    catalog = "CREATE CATALOG mine WITH ('type' = 'file', 'path' = 'catalog');\nUSE CATALOG mine;\n"
    write(tmp_path, {"make.sql": catalog + "CREATE TABLE kept (k INT) WITH ('connector' = 'print');"})
    assert stateplan("sql", "-q", "-f", "make.sql")[0] == 0
    before = sorted((tmp_path / "catalog").rglob("*.sql"))
    script = f"{catalog}DROP TABLE kept;\n{TABLES}{COUNT}"
    write(tmp_path, {"old.sql": script, "new.sql": script.replace("COUNT(*)", "COUNT(v)")})
    code, out, _ = stateplan("review", "old.sql", "new.sql")
    assert code == 0 and "1 query changed" in out
    assert sorted((tmp_path / "catalog").rglob("*.sql")) == before


@pytest.mark.parametrize(
    ("paths", "code", "words"),
    [
        (("old.sql", "missing"), 3, "[REV001] missing does not exist"),
        ((".", "old.sql"), 3, "[REV001] . and old.sql are not both files or both folders"),
        (("old.sql",), 2, "write OLD and NEW"),
        (("--base", "main"), 3, "[REV002]"),
        (("old.sql", "old.sql", "--figures", "old.sql"), 3, "[REV003] old.sql has no figures of state"),
        (("old.sql", "old.sql", "--checkpoint", "missing"), 4, "[CKPT001]"),
        (("old.sql", "old.sql", "--fail-on", "everything"), 2, "everything"),
        (("old.sql", "old.sql", "-o", "review.pdf"), 2, "[OPT403]"),
    ],
)
def test_wrong_arguments(
    paths: tuple[str, ...],
    code: int,
    words: str,
    stateplan: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    write(tmp_path, {"old.sql": TABLES + COUNT})
    answer = stateplan("review", *paths)
    assert answer.code == code
    assert words in answer.err


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


def test_a_revision_is_compared_with_the_working_tree(
    stateplan: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "repository"
    story = (
        "-- include ../tables.sql\n-- include sums.sql\n-- test: sums\n-- given src\n--   | k | v |\n--   | 1 | 2 |\n"
    )
    expectation = "-- expect table\n--   | k | n |\n--   | 1 | {} |\n"
    files = {"tables.sql": TABLES, "queries/sums.sql": SUM, "queries/test.sql": story + expectation.format(2)}
    write(home, files)
    git(home, "init")
    git(home, "add", ".")
    git(home, "commit", "-m", "one")
    git(home, "checkout", "-b", "change")
    write(home, {"queries/sums.sql": SUM.replace("SUM(v)", "SUM(v + 1)")})
    write(home, {"queries/test.sql": story + expectation.format(3)})
    git(home, "commit", "-am", "two")
    git(home, "checkout", "main")
    write(home, {"queries/other.sql": COUNT})  # the change of others is not a part of this one
    git(home, "add", ".")
    git(home, "commit", "-m", "three")
    git(home, "checkout", "change")
    monkeypatch.chdir(home / "queries")
    status = subprocess.run(["git", "status", "--short"], capture_output=True, text=True, cwd=home).stdout
    code, out, err = stateplan("review", "--base", "main", "--init", "../tables.sql", "--format", "json")
    assert (code, err) == (0, "")
    data = json.loads(out)
    assert [(query["name"], query["status"]) for query in data["queries"]] == [("sums.sql", "changed")]
    assert data["tests"]["passed"] == 1
    assert data["tests"]["former"] == {"tests": 1, "failing": [{"file": "test.sql", "title": "sums"}]}
    assert data["old"].startswith("main (")
    assert subprocess.run(["git", "status", "--short"], capture_output=True, text=True, cwd=home).stdout == status == ""
    answer = stateplan("review", "--base", "main", "missing.sql")
    assert answer.code == 3 and "[REV001] missing.sql does not exist on either side" in answer.err
    answer = stateplan("review", "--base", "nothing")
    assert answer.code == 3 and "[REV002] git cannot read the revision 'nothing'" in answer.err

"""Texts within rows that a plan does not read are not decoded, and nothing else changes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from stateplan.common.errors import StateplanError
from stateplan.common.types import parse_type
from stateplan.connectors.filesystem import Filesystem
from stateplan.connectors.protocol import Source, SourceTable
from stateplan.runtime.nested_pruning import prune_type
from stateplan.session.environment import TableEnvironment
from stateplan.session.jobs import Jobs

EVENT = "ROW<id BIGINT, name STRING, note STRING, home ROW<city STRING, zip STRING, street STRING NOT NULL, n INT>>"
ROWS: list[dict[str, object]] = [
    {"k": 1, "e": {"id": 1, "name": "a", "note": "x", "home": {"city": "Ulm", "zip": "1", "street": "s", "n": 1}}},
    {"k": 2, "e": {"id": 2, "name": None, "note": {"any": ["json"]}, "home": {"city": 7, "zip": [1], "n": 2}}},
    {"k": 2, "e": {"id": 3, "name": "a", "home": None}},
    {"k": 3, "e": None},
    {"k": 3},
    {"k": 4, "e": {"note": "\u00fc", "extra": 1}},
]
# A query, and the fields of `e` that are decoded for it.
QUERIES = {
    "SELECT k, t.e.id FROM t": "id home(street n)",
    "SELECT t.e.home.city FROM t WHERE t.e.name = 'a'": "id name home(city street n)",
    "SELECT k, COUNT(t.e.note), MAX(t.e.home.zip) FROM t GROUP BY k": "id note home(zip street n)",
    "SELECT x.e.name FROM (SELECT k + 1 AS k, e FROM t WHERE t.e.id > 0) x": "id name home(street n)",
    "SELECT t.e.name FROM t UNION ALL SELECT t.e.note FROM t": "id name note home(street n)",
    "SELECT a.e.name FROM t a JOIN t b ON a.e.id = b.e.id": "id name note home(city zip street n)",
    "SELECT k FROM t WHERE e IS NULL": "id name note home(city zip street n)",
    "SELECT e FROM t": "id name note home(city zip street n)",
    "SELECT t.e.home FROM t": "id home(city zip street n)",
    "SELECT k, COUNT(*) FROM (SELECT DISTINCT k, t.e.home.n FROM t) GROUP BY k": "id home(street n)",
}


def shown(row: object) -> str:
    fields = getattr(row, "fields", ())
    return " ".join(f.name + (f"({shown(f.type)})" if f.type.root == "ROW" else "") for f in fields)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[SourceTable]:
    """The tables that are read."""
    found: list[SourceTable] = []
    original = Filesystem.source

    def source(self: Filesystem, table: SourceTable) -> Source:
        found.append(table)
        return original(self, table)

    monkeypatch.setattr(Filesystem, "source", source)
    return found


def session(folder: Path, rows: list[dict[str, object]], **more: str) -> TableEnvironment:
    (folder / "t").mkdir()
    (folder / "t" / "rows.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    env = TableEnvironment.create({"table.local-time-zone": "UTC"}, jobs=Jobs())
    options = {"connector": "filesystem", "path": str(folder / "t"), "format": "json", **more}
    given = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    env.execute_sql(f"CREATE TABLE t (k INT, e {EVENT}) WITH ({given})")
    return env


def rows_of(env: TableEnvironment, query: str) -> Counter[str]:
    return Counter(f"{row.get_row_kind().short} {tuple(row)}" for row in env.execute_sql(query).collect())


@pytest.mark.parametrize("query", QUERIES)
def test_a_text_that_is_not_read_is_not_decoded(
    query: str, tmp_path: Path, decoded: list[SourceTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    env = session(tmp_path, ROWS)
    found = rows_of(env, query)
    assert {shown(dict(table.fields)["e"]) for table in decoded} == {QUERIES[query]}
    monkeypatch.setattr(SourceTable, "leaves_out", False)
    assert rows_of(env, query) == found
    assert shown(dict(decoded[-1].fields)["e"]) == shown(parse_type(EVENT))
    assert found


def test_a_value_that_does_not_fit_fails_the_job_whether_it_is_read_or_not(tmp_path: Path) -> None:
    env = session(tmp_path, [{"k": 1, "e": {"id": 1, "home": {"n": "many"}}}])
    with pytest.raises(StateplanError, match="DATA1"):
        rows_of(env, "SELECT t.e.id FROM t")


def test_a_text_that_is_missing_fails_the_job_that_asks_for_it(tmp_path: Path) -> None:
    env = session(tmp_path, ROWS[2:3], **{"json.fail-on-missing-field": "true"})
    with pytest.raises(StateplanError, match="note"):
        rows_of(env, "SELECT t.e.id FROM t")


def test_one_field_of_a_row_stays() -> None:
    row = parse_type("ROW<a STRING, b STRING>")
    assert prune_type(row, [("b",)]) == parse_type("ROW<b STRING>")
    assert prune_type(row, []) == parse_type("ROW<a STRING>")
    assert prune_type(row, [("a",), ()]) == row


def test_a_union_of_rows_whose_fields_have_other_names(tmp_path: Path) -> None:
    env = session(tmp_path, [])
    for name, row in (("v", {"a": "v1", "b": "v2"}), ("w", {"b": "w1", "a": "w2"})):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rows.json").write_text(json.dumps({"r": row}) + "\n")
        fields = ", ".join(f"{field} STRING" for field in row)
        env.execute_sql(
            f"CREATE TABLE {name} (r ROW<{fields}>) "
            f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path / name}', 'format' = 'json')"
        )
    found = rows_of(env, "SELECT u.r.b FROM (SELECT r FROM v UNION ALL SELECT r FROM w) u")
    assert found == Counter(["+I ('v2',)", "+I ('w2',)"])

"""A LIMIT that the plan hands to a source: it reads less, where that cannot change the result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stateplan.connectors.splits import FileSplit
from stateplan.runtime.jobgraph import SourceSpec
from stateplan.runtime.translate import translate
from stateplan.session.environment import TableEnvironment
from stateplan.session.script import Inserts, read_script


def source(table: str, query: str) -> SourceSpec:
    environment = TableEnvironment.create()
    *tables, insert = read_script(
        f"{table}; CREATE TABLE snk (a INT) WITH ('connector'='print'); INSERT INTO snk {query};"
    )
    for statement in tables:
        environment.execute_statement(statement)
    (found,) = translate(
        environment.session.compiler.document(Inserts.of(insert.node, insert.source)).graph, {}, 2
    ).sources
    return found


def files(folder: Path, format_: str = "json") -> str:
    return f"CREATE TABLE t (a INT) WITH ('connector'='filesystem', 'path'='{folder}', 'format'='{format_}')"


def test_no_more_rows_of_a_file_are_read_than_wanted(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text("".join(f'{{"a": {i}}}\n' for i in range(100)))
    reader: Any = source(files(tmp_path), "SELECT a FROM t LIMIT 3 OFFSET 2").reader
    assert sum(f.height for f in reader.read(FileSplit(str(path)))) == 5


@pytest.mark.parametrize(
    ("format_", "query"),
    [
        ("json", "SELECT a FROM t WHERE a > 50 LIMIT 3"),
        ("json", "SELECT a FROM t ORDER BY a LIMIT 3"),
        ("debezium-json", "SELECT a FROM t LIMIT 3"),
    ],
)
def test_all_is_read_where_the_first_rows_do_not_decide(format_: str, query: str, tmp_path: Path) -> None:
    reader: Any = source(files(tmp_path, format_), query).reader
    assert reader.limit is None


@pytest.mark.parametrize(
    ("given", "expected"), [("", "5"), (", 'number-of-rows'='2'", "2"), (", 'number-of-rows'='9'", "5")]
)
def test_datagen_ends_with_the_last_row_wanted(given: str, expected: str) -> None:
    found = source(f"CREATE TABLE t (a INT) WITH ('connector'='datagen'{given})", "SELECT a FROM t LIMIT 5")
    reader: Any = found.reader
    assert (str(reader.total), reader.bounded) == (expected, True)

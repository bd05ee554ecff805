"""Replay tables: rows by the instant of their arrival."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import polars as pl
import pytest
from connector_tables import fields, replay_table

from stateplan.common.errors import DataError
from stateplan.connectors import replay_index
from stateplan.connectors.replay import ReplayTable

COLUMNS = fields("id INT, v STRING")


def replay(path: Path, fmt: str = "json", projection: list[int] | None = None, **options: str) -> ReplayTable:
    table = {"connector": "replay", "path": str(path), "format": fmt} | options
    return replay_table(table, COLUMNS, [0, 1] if projection is None else projection)


def test_rows_by_instant(tmp_path: Path) -> None:
    (tmp_path / "b-10.json").write_text('{"@at":5,"id":4,"v":"d"}\n')
    (tmp_path / "b-2.json").write_text(
        '{"@at":5,"id":1,"v":"a"}\n{"id":2,"v":null,"@at":-3}\n\n{"id":3, "@at": 5}\n[{"@at":7,"id":"8"}]\n'
    )
    (tmp_path / "_hidden.json").write_text("x")
    table = pickle.loads(pickle.dumps(replay(tmp_path)))
    assert table.instants() == [-3, 5, 7]
    assert table.read_at(5).rows() == [(1, "a"), (3, None), (4, "d")]
    assert table.read_at(-3).rows() == [(2, None)]
    assert table.read_at(7).rows() == [(8, None)]
    empty = table.read_at(6)
    assert empty.height == 0 and empty.schema == {"c0": pl.Int32, "c1": pl.String}
    assert replay(tmp_path, projection=[1]).read_at(5).rows() == [("a",), (None,), ("d",)]
    none = replay(tmp_path, projection=[]).read_at(5)
    assert none.columns == ["kind"] and none.height == 3


def test_one_file_and_none(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"@at":1,"id":1}\n')
    assert replay(path).read_at(1).rows() == [(1, None)]
    path.write_text("")
    assert replay(path).instants() == []
    with pytest.raises(DataError) as error:
        replay(tmp_path / "b.json").instants()
    assert error.value.code == "DATA104"


@pytest.mark.parametrize("wrapped", [False, True])
def test_changes(tmp_path: Path, wrapped: bool) -> None:
    path = tmp_path / "a.json"
    events = [
        (9, '{"before":null,"after":{"id":1,"v":"a"},"op":"c"}'), (4, '{"before":null,"after":{"id":2},"op":"r"}'),
        (9, '{"before":{"id":1,"v":"a"},"after":{"id":1,"v":"b"},"op":"u"}'), (4, '{"before":{"id":2},"op":"d"}'),
    ]  # fmt: skip
    with path.open("w") as out:
        for at, event in events:
            out.write(f'{{"@at":{at},"payload":{event}}}\n' if wrapped else f'{event[:-1]},"@at":{at}}}\n')
    options = {"debezium-json.schema-include": "true"} if wrapped else {}
    table = replay(path, "debezium-json", **options)
    assert table.instants() == [4, 9]
    assert table.read_at(4).rows() == [(2, None, 0), (2, None, 3)]
    assert table.read_at(9).rows() == [(1, "a", 0), (1, "a", 1), (1, "b", 2)]
    assert table.read_at(4).columns == ["c0", "c1", "kind"]
    assert replay(path, "debezium-json", [], **options).read_at(9)["kind"].to_list() == [0, 1, 2]
    assert replay(path, "debezium-json", **options).read_at(0).columns == ["c0", "c1", "kind"]


@pytest.mark.parametrize("ignore", [False, True])
@pytest.mark.parametrize("fmt", ["json", "debezium-json"])
@pytest.mark.parametrize(
    ("at", "what"),
    [
        ("", "missing"), (',"@at":null', "null"), (',"@at":"5"', '"5"'), (',"@at":1.5', "1.5"), (',"@at":5.0', "5.0"),
        (',"@at":true', "true"), (',"@at":{}', "{}"), (',"@at":9223372036854775808', "9223372036854775808"),
    ],
)  # fmt: skip
def test_arrivals_that_are_none(tmp_path: Path, fmt: str, ignore: bool, at: str, what: str) -> None:
    path = tmp_path / "a.json"
    row = '"id":1' if fmt == "json" else '"after":{"id":1},"op":"c"'
    path.write_text(f'{{{row},"@at":1}}\n{{{row}{at}}}\n')
    table = replay(path, fmt, **({f"{fmt}.ignore-parse-errors": "true"} if ignore else {}))
    with pytest.raises(DataError) as error:
        table.instants()
    assert str(error.value) == (
        f'[DATA151] the field "@at" is {what}\n  --> {path}, line 2\n'
        '  expected: a field "@at" with the time of arrival in milliseconds, as a whole number\n'
        f"  hint: the line is: {{{row}{at}}}"
    )


def test_other_errors_name_their_line(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"id":1,"@at":1}\n{"id":"x","@at":2}\n')
    with pytest.raises(DataError) as error:
        replay(path).read_at(1)
    assert error.value.code == "DATA112" and error.value.place is not None and error.value.place.line == 2
    assert replay(path, **{"json.ignore-parse-errors": "true"}).read_at(2).rows() == [(None, None)]


def test_files_are_read_once_until_they_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    read = replay_index._read
    monkeypatch.setattr(replay_index, "_read", lambda *args: (reads.append(1), read(*args))[1])
    path = tmp_path / "a.json"
    path.write_text('{"id":1,"@at":1}\n')
    table = replay(path)
    for _ in range(3):
        assert table.instants() == [1]
        assert replay(path).read_at(1).height == 1
    assert len(reads) == 1
    path.write_text('{"id":2,"@at":2}\n')
    os.utime(path, (1, 1))
    assert table.instants() == [2]
    assert len(reads) == 2

"""Scans with projections, filters, partitions and metadata together read the rows that are read without them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateplan.session.environment import TableEnvironment

Row = dict[str, Any]

METADATA = {
    "fname": "fname STRING NOT NULL METADATA FROM 'file.name' VIRTUAL",
    "fpath": "fpath STRING NOT NULL METADATA FROM 'file.path' VIRTUAL",
    "fsize": "fsize BIGINT NOT NULL METADATA FROM 'file.size' VIRTUAL",
}
COLUMNS = {"a": "a INT", "b": "b BIGINT", "c": "c STRING"}
CONDITIONS: dict[str, tuple[str, Callable[[Row], bool]]] = {
    "a": ("a > 1", lambda row: bool(row["a"] > 1)),
    "b": ("b <> 2", lambda row: bool(row["b"] != 2)),
    "c": ("c = 'p1'", lambda row: bool(row["c"] == "p1")),
    "fname": ("fname LIKE 'f1%'", lambda row: str(row["fname"]).startswith("f1")),
    "fpath": ("fpath LIKE '%f2%'", lambda row: "f2" in row["fpath"]),
    "fsize": ("fsize < 0", lambda row: bool(row["fsize"] < 0)),
}
FORMATS = ("json", "csv", "parquet", "debezium-json")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a partitioned table for each format."""
    base = tmp_path_factory.mktemp("scans")
    for name in FORMATS:
        for number in (1, 2):
            folder = base / name / f"c=p{number}"
            folder.mkdir(parents=True)
            file = folder / f"f{number}.data"
            rows = pl.DataFrame(
                {"a": [number + i for i in range(3)], "b": [number * i for i in range(3)]},
                schema={"a": pl.Int32, "b": pl.Int64},
            )
            if name == "json":
                rows.write_ndjson(file)
            elif name == "csv":
                rows.write_csv(file, include_header=False)
            elif name == "parquet":
                rows.write_parquet(file)
            else:
                events = [{"before": None, "after": row, "op": "c"} for row in rows.to_dicts()]
                file.write_text("".join(json.dumps(event) + "\n" for event in events))
    return base


def rows_of(folder: Path, columns: list[str], query: str) -> list[tuple[Any, ...]]:
    environment = TableEnvironment.create()
    environment.execute_sql(
        f"CREATE TABLE t ({', '.join(columns)}) PARTITIONED BY (c) "
        f"WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = '{folder.name}')"
    )
    return sorted(tuple(row) for row in environment.execute_sql(query).collect())


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_what_is_pushed_down_changes_no_row(data: st.DataObject, tables: Path) -> None:
    folder = tables / data.draw(st.sampled_from(FORMATS))
    declared = {
        **COLUMNS,
        **{k: METADATA[k] for k in data.draw(st.lists(st.sampled_from(list(METADATA)), unique=True))},
    }
    names = data.draw(st.permutations(list(declared)))
    columns = [declared[name] for name in names]
    selected = data.draw(st.lists(st.sampled_from(names), unique=True, min_size=1))
    filtered = data.draw(st.lists(st.sampled_from(names), unique=True, max_size=3))
    every = data.draw(st.booleans())
    word, check = (" AND ", all) if every else (" OR ", any)
    where = f" WHERE {word.join(CONDITIONS[name][0] for name in filtered)}" if filtered else ""
    limit = data.draw(st.sampled_from(["", " LIMIT 100"]))
    found = rows_of(folder, columns, f"SELECT {', '.join(selected)} FROM t{where}{limit}")
    whole = [
        dict(zip(names, row, strict=True)) for row in rows_of(folder, columns, f"SELECT {', '.join(names)} FROM t")
    ]
    assert len(whole) == 6
    kept = [row for row in whole if not filtered or check(CONDITIONS[name][1](row) for name in filtered)]
    assert found == sorted(tuple(row[name] for name in selected) for row in kept)

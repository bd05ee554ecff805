"""Input of other shapes than the nine queries have: wide rows, long keys, skew, few groups, and many retractions.

Each table has so many rows, in eight files. Numbers come from one seed, so they are the same everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.generate import SEED, write_parts

WIDE = 38
"""Text columns of a wide row, beside its two keys."""


def wide(rows: int) -> pl.DataFrame:
    """Rows of 40 columns and 400 bytes; a tenth of them have the id of an earlier one."""
    random = np.random.RandomState(SEED)
    ids = np.where(random.random_sample(rows) < 0.1, random.randint(0, rows, rows), np.arange(rows))
    words = random.randint(0, 10**7, (WIDE, rows))
    columns = {f"c{n}": pl.Series(words[n]).cast(pl.String).str.zfill(8) for n in range(WIDE)}
    return pl.DataFrame({"id": ids, "grp": random.randint(0, 1000, rows), **columns})


def long_keys(rows: int) -> pl.DataFrame:
    """Keys of 64 characters, each twice on average."""
    random = np.random.RandomState(SEED)
    keys = pl.Series(random.randint(0, rows // 2, rows)).cast(pl.String).str.zfill(12)
    return pl.DataFrame(
        {"k": "https://shop.example.com/customers/by-region/europe/" + keys, "v": _values(random, rows)}
    )


def skewed(rows: int) -> pl.DataFrame:
    """One key has half of the rows, the others share a tenth as many keys as there are rows."""
    random = np.random.RandomState(SEED)
    keys = np.where(random.random_sample(rows) < 0.5, 0, random.randint(1, rows // 10, rows))
    return pl.DataFrame({"k": keys, "u": random.randint(0, rows // 4, rows), "v": _values(random, rows)})


def skewed_side(rows: int) -> pl.DataFrame:
    """A row for each key of :func:`skewed`, in any order."""
    random = np.random.RandomState(SEED + 1)
    keys = random.permutation(rows // 10)
    return pl.DataFrame({"k": keys, "label": "label " + pl.Series(keys).cast(pl.String)})


def few_groups(rows: int) -> pl.DataFrame:
    """A thousand groups."""
    random = np.random.RandomState(SEED)
    return pl.DataFrame({"k": random.randint(0, 1000, rows), "v": _values(random, rows)})


def changing(rows: int) -> pl.DataFrame:
    """Events of Debezium: nine of ten are updates, and most of them change the group of the row."""
    random = np.random.RandomState(SEED)
    ids = np.concatenate([np.arange(rows // 10), random.randint(0, rows // 10, rows - rows // 10)])
    after = pl.DataFrame({"id": ids, "k": random.randint(0, 1000, rows), "v": _values(random, rows)})
    before = after.select(pl.struct(pl.all()).shift().over("id").alias("before"))
    return before.select("before", after.to_struct("after")).with_columns(
        op=pl.when(pl.col("before").is_null()).then(pl.lit("c")).otherwise(pl.lit("u"))
    )


def _values(random: np.random.RandomState, rows: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return random.randint(0, 10**6, rows)


@dataclass(frozen=True)
class Table:
    """A table: its rows, its columns in SQL, and its format."""

    make: Callable[[int], pl.DataFrame]
    columns: str
    format: str = "json"


_TEXTS = ", ".join(f"c{n} STRING" for n in range(WIDE))
TABLES = {
    "wide": Table(wide, f"id BIGINT, grp BIGINT, {_TEXTS}, arrived AS PROCTIME()"),
    "long_keys": Table(long_keys, "k STRING, v BIGINT"),
    "skewed": Table(skewed, "k BIGINT, u BIGINT, v BIGINT"),
    "skewed_side": Table(skewed_side, "k BIGINT, label STRING"),
    "few_groups": Table(few_groups, "k BIGINT, v BIGINT"),
    "changing": Table(changing, "id BIGINT, k BIGINT, v BIGINT, PRIMARY KEY (id) NOT ENFORCED", "debezium-json"),
}


@dataclass(frozen=True)
class Shape:
    """A query over tables of one shape, and the columns of its result."""

    query: str
    result: str
    reads: tuple[str, ...]


_AGGREGATES = "k BIGINT, n BIGINT, total BIGINT, least BIGINT, most BIGINT, mean BIGINT"
SHAPES = {
    "wide rows, deduplication": Shape(
        f"SELECT id, grp, {', '.join(f'c{n}' for n in range(WIDE))} FROM (SELECT *, ROW_NUMBER() OVER "
        "(PARTITION BY id ORDER BY arrived DESC) AS row_num FROM wide) WHERE row_num = 1",
        f"id BIGINT, grp BIGINT, {_TEXTS}",
        ("wide",),
    ),
    "wide rows, join": Shape(
        "SELECT a.*, b.label FROM (SELECT id, grp, "
        f"{', '.join(f'c{n}' for n in range(WIDE))} FROM wide) AS a JOIN skewed_side AS b ON a.id = b.k",
        f"id BIGINT, grp BIGINT, {_TEXTS}, label STRING",
        ("wide", "skewed_side"),
    ),
    "wide rows, first three": Shape(
        "SELECT id, grp, c0, c1, c2 FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY grp ORDER BY c0) AS row_num "
        "FROM wide) WHERE row_num <= 3",
        "id BIGINT, grp BIGINT, c0 STRING, c1 STRING, c2 STRING",
        ("wide",),
    ),
    "long keys, aggregate": Shape(
        "SELECT k, COUNT(*), SUM(v), MAX(v) FROM long_keys GROUP BY k",
        "k STRING, n BIGINT, total BIGINT, most BIGINT",
        ("long_keys",),
    ),
    "long keys, distinct": Shape("SELECT DISTINCT k FROM long_keys", "k STRING", ("long_keys",)),
    "one key with half of the rows, aggregate": Shape(
        "SELECT k, COUNT(DISTINCT u), SUM(v), MAX(v) FROM skewed GROUP BY k",
        "k BIGINT, users BIGINT, total BIGINT, most BIGINT",
        ("skewed",),
    ),
    "one key with half of the rows, join": Shape(
        "SELECT a.k, a.u, a.v, b.label FROM skewed AS a LEFT JOIN skewed_side AS b ON a.k = b.k",
        "k BIGINT, u BIGINT, v BIGINT, label STRING",
        ("skewed", "skewed_side"),
    ),
    "a thousand groups, aggregate": Shape(
        "SELECT k, COUNT(*), SUM(v), MIN(v), MAX(v), AVG(v) FROM few_groups GROUP BY k", _AGGREGATES, ("few_groups",)
    ),
    "changing rows, aggregate": Shape(
        "SELECT k, COUNT(*), SUM(v), MIN(v), MAX(v), AVG(v) FROM changing GROUP BY k", _AGGREGATES, ("changing",)
    ),
    "changing rows, first three": Shape(
        "SELECT k, id, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) AS row_num FROM changing) "
        "WHERE row_num <= 3",
        "k BIGINT, id BIGINT, v BIGINT",
        ("changing",),
    ),
    "changing rows, join": Shape(
        "SELECT a.id, a.k, a.v, b.label FROM changing AS a LEFT JOIN skewed_side AS b ON a.id = b.k",
        "id BIGINT, k BIGINT, v BIGINT, label STRING",
        ("changing", "skewed_side"),
    ),
}


def generate(folder: Path, shape: Shape, rows: int) -> None:
    """Writes the tables that a shape reads and that are not there yet."""
    for name in shape.reads:
        if not (folder / name).is_dir():
            write_parts(TABLES[name].make(rows), folder / name)


def script(shape: Shape, folder: Path, options: str) -> str:
    """The statements of a shape."""
    tables = [
        f"CREATE TABLE {name} ({TABLES[name].columns}) WITH ('connector' = 'filesystem', 'path' = '{folder / name}', "
        f"'format' = '{TABLES[name].format}'{options})"
        for name in shape.reads
    ]
    sink = f"CREATE TABLE answers ({shape.result}) WITH ('connector' = 'blackhole')"
    return "\n----\n".join([*tables, sink, f"INSERT INTO answers\n{shape.query}"])


def rows_read(shape: Shape, rows: int) -> int:
    """Rows of all tables that a shape reads."""
    return sum(rows // 10 if name == "skewed_side" else rows for name in shape.reads)

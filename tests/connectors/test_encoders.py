"""The writers give byte for byte what Flink 2.3.0's filesystem sink wrote for the same rows."""

from __future__ import annotations

import io
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest
from connector_tables import GOLDEN, fields, make_encoder, read_all, table

from stateplan.common.errors import CatalogError, DataError

COLUMNS = (
    "a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f FLOAT, g DOUBLE, h DECIMAL(10,2), h2 DECIMAL(38,18), "
    "i STRING, j CHAR(3), k BYTES, l DATE, m TIME(0), m3 TIME(3), n TIMESTAMP(3), o TIMESTAMP(6), o9 TIMESTAMP(9), "
    "o0 TIMESTAMP(0), p TIMESTAMP_LTZ(3), q ARRAY<STRING>, r MAP<STRING,INT>, s ROW<x INT, y STRING>, "
    "u ARRAY<ROW<x INT>>"
)
ALL = fields(COLUMNS)


def rows() -> pl.DataFrame:
    return read_all(table("json"), ALL, GOLDEN / "encoded_json0.txt")


def without_maps() -> tuple[list[int], pl.DataFrame]:
    kept = [i for i, (name, _) in enumerate(ALL) if name not in ("r", "u")]
    df = rows()
    return kept, df.select(pl.col(f"c{i}").alias(f"c{k}") for k, i in enumerate(kept))


@pytest.mark.parametrize(
    ("golden", "fmt", "options"),
    [
        ("json0", "json", {}),
        (
            "json1",
            "json",
            {
                "json.timestamp-format.standard": "ISO-8601",
                "json.encode.decimal-as-plain-number": "true",
                "json.encode.ignore-null-fields": "true",
            },
        ),
        ("debezium_json0", "debezium-json", {}),
    ],
)
def test_json(golden: str, fmt: str, options: dict[str, str]) -> None:
    encoder = make_encoder(table(fmt) | options, ALL)
    assert encoder.encode(rows()).decode() == (GOLDEN / f"encoded_{golden}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("golden", "options"),
    [
        ("csv0", {}),
        (
            "csv1",
            {"csv.null-literal": "NULL", "csv.field-delimiter": "|", "csv.array-element-delimiter": "~"},
        ),
        ("csv2", {"csv.disable-quote-character": "true", "csv.escape-character": "\\"}),
        ("csv3", {"csv.quote-character": "'", "csv.escape-character": "\\"}),
    ],
)
def test_csv(golden: str, options: dict[str, str]) -> None:
    kept, df = without_maps()
    encoder = make_encoder(table("csv") | options, [ALL[i] for i in kept])
    assert encoder.encode(df).decode() == (GOLDEN / f"encoded_{golden}.txt").read_bytes().decode()


def test_csv_quotes_what_flink_quotes() -> None:
    texts = ["abcdefghijklmnopqrstuvwx", "abcdefghijklmnopqrstuvwxy", "a-b", "a+b", "a b", "#x", "a.b", "é", 'a"b',
             "1", "NULL", " "]  # fmt: skip
    df = pl.DataFrame({"c0": pl.Series(range(1, 13), dtype=pl.Int32), "c1": texts})
    assert make_encoder(table("csv"), fields("a INT, s STRING")).encode(df).decode() == (
        GOLDEN / "encoded_csv_quoting.txt"
    ).read_text(encoding="utf-8")


def test_csv_plain_decimals() -> None:
    df = pl.DataFrame({"c0": pl.Series(["100.00", "12.30", "0.00"]).cast(pl.Decimal(10, 2))})
    plain = make_encoder(
        table("csv") | {"csv.write-bigdecimal-in-scientific-notation": "false"}, fields("a DECIMAL(10,2)")
    )
    assert plain.encode(df) == b"100\n12.3\n0\n"
    assert make_encoder(table("csv"), fields("a DECIMAL(10,2)")).encode(df) == b"1E+2\n12.3\n0\n"


def test_numbers_that_are_not_numbers() -> None:
    df = pl.DataFrame({"c0": [float("nan"), float("-inf"), 1e7, -0.0, None]})
    columns = fields("a DOUBLE")
    assert make_encoder(table("json"), columns).encode(df).decode().splitlines() == [
        '{"a":"NaN"}', '{"a":"-Infinity"}', '{"a":1.0E7}', '{"a":-0.0}', '{"a":null}']  # fmt: skip
    assert make_encoder(table("csv"), columns).encode(df).decode() == "NaN\n-Infinity\n1.0E7\n-0.0\n\n"


def test_changes_become_events() -> None:
    df = pl.DataFrame({"c0": pl.Series([1, 1, 2, 2], dtype=pl.Int32), "kind": pl.Series([0, 1, 2, 3], dtype=pl.Int8)})
    assert make_encoder(table("debezium-json"), fields("a INT")).encode(df).decode().splitlines() == [
        '{"before":null,"after":{"a":1},"op":"c"}',
        '{"before":{"a":1},"after":null,"op":"d"}',
        '{"before":null,"after":{"a":2},"op":"c"}',
        '{"before":{"a":2},"after":null,"op":"d"}',
    ]


def test_null_keys_of_maps() -> None:
    columns = fields("m MAP<STRING,INT>")
    entry = pl.List(pl.Struct({"key": pl.String, "value": pl.Int32}))
    df = pl.DataFrame({"c0": pl.Series([[{"key": None, "value": 1}, {"key": "a", "value": 2}]], dtype=entry)})
    with pytest.raises(DataError) as error:
        make_encoder(table("json"), columns).encode(df)
    assert str(error.value) == (
        "[DATA201] a map in the column 'm' has a NULL key, which JSON cannot hold\n"
        "  hint: 'map-null-key.mode' = 'DROP' or 'LITERAL' handles such keys"
    )
    drop = table("json") | {"json.map-null-key.mode": "DROP"}
    assert make_encoder(drop, columns).encode(df) == b'{"m":{"a":2}}\n'
    literal = table("json") | {"json.map-null-key.mode": "LITERAL", "json.map-null-key.literal": "nil"}
    assert make_encoder(literal, columns).encode(df) == b'{"m":{"nil":1,"a":2}}\n'


@pytest.mark.parametrize("compression", [None, "zstd", "uncompressed"])
def test_parquet_comes_back(tmp_path: Path, compression: str | None) -> None:
    options = table("parquet") | ({"parquet.compression": compression} if compression else {})
    df = rows()
    path = tmp_path / "x.parquet"
    path.write_bytes(make_encoder(options, ALL).encode(df))
    assert read_all(options, ALL, path).equals(df)
    part = read_all(options, ALL, path, [21, 3])
    assert part.equals(df.select(pl.col("c21").alias("c0"), pl.col("c3").alias("c1")))
    path.write_bytes(make_encoder(options, ALL).encode(df.slice(1, 2)))
    assert read_all(options, ALL, path).equals(df.slice(1, 2))


def test_parquet_types_in_the_file() -> None:
    data = make_encoder(table("parquet"), fields("m MAP<STRING,INT>, t TIMESTAMP_LTZ(3), s STRING")).encode(
        pl.DataFrame(
            schema={
                "c0": pl.List(pl.Struct({"key": pl.String, "value": pl.Int32})),
                "c1": pl.Datetime("ms", "UTC"),
                "c2": pl.String,
            }
        )
    )
    schema = pq.read_schema(io.BytesIO(data))
    assert [str(f.type) for f in schema] == ["map<string, int32 ('m')>", "timestamp[ms, tz=UTC]", "string"]


def test_types_that_a_format_cannot_hold() -> None:
    for fmt, columns, text in (
        ("csv", "m MAP<STRING,INT>", "[CAT102] the format 'csv' cannot hold the column 'm' of type "
         "MAP<VARCHAR(2147483647), INT>\n  expected: a column of another type, or another format"),
        ("json", "m ARRAY<MAP<INT,INT>>", "[CAT102] the format 'json' cannot hold the column 'm' of type "
         "ARRAY<MAP<INT, INT>>\n  expected: a map whose keys are text"),
    ):  # fmt: skip
        with pytest.raises(CatalogError) as error:
            make_encoder(table(fmt), fields(columns))
        assert str(error.value) == text

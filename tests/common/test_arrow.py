"""Arrow data to columns and back: every type, every Arrow type that has none of its own, and what is refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from stateplan.common.errors import StateplanError
from stateplan.common.types import LogicalType, parse_type
from stateplan.common.values.arrow import arrow_table, arrow_type, frames, logical_type, pandas_frame

DAY = dt.datetime(2024, 2, 29, 23, 59, 58)
INSTANT = DAY.replace(tzinfo=dt.UTC)
ZONE = "Europe/Berlin"

CASES: list[tuple[str, str, list[Any]]] = [
    ("BOOLEAN", "bool", [True, None, False]),
    ("TINYINT", "int8", [-128, None, 127]),
    ("SMALLINT", "int16", [-32768, None]),
    ("INT", "int32", [-(2**31), None]),
    ("BIGINT", "int64", [2**63 - 1, None]),
    ("FLOAT", "float", [1.5, None, float("-inf")]),
    ("DOUBLE", "double", [0.1, None, float("inf")]),
    ("STRING", "string", ["", None, "Zoë 𝄞"]),
    ("BINARY(2)", "fixed_size_binary[2]", [b"\x00\xff", None]),
    ("BYTES", "binary", [b"", None, b"\xff"]),
    ("DATE", "date32[day]", [dt.date(1, 1, 1), None, dt.date(9999, 12, 31)]),
    ("TIME(0)", "time32[s]", [dt.time(1, 2, 3), None]),
    ("TIME(3)", "time32[ms]", [dt.time(1, 2, 3, 4000), None]),
    ("TIME(6)", "time64[us]", [dt.time(1, 2, 3, 4), None]),
    ("TIME(9)", "time64[ns]", [dt.time(1, 2, 3, 4), None]),
    ("TIMESTAMP(0)", "timestamp[s]", [DAY, None]),
    ("TIMESTAMP(3)", "timestamp[ms]", [DAY.replace(microsecond=1000), None]),
    ("TIMESTAMP(6)", "timestamp[us]", [DAY.replace(microsecond=1), None]),
    ("TIMESTAMP(9)", "timestamp[ns]", [DAY, None]),
    ("TIMESTAMP_LTZ(0)", f"timestamp[s, tz={ZONE}]", [INSTANT, None]),
    ("TIMESTAMP_LTZ(3)", f"timestamp[ms, tz={ZONE}]", [INSTANT, None]),
    ("TIMESTAMP_LTZ(6)", f"timestamp[us, tz={ZONE}]", [INSTANT.replace(microsecond=1), None]),
    ("TIMESTAMP_LTZ(9)", f"timestamp[ns, tz={ZONE}]", [INSTANT, None]),
    ("DECIMAL(38, 18)", "decimal128(38, 18)", [Decimal("1.500000000000000000"), None, -(Decimal(10) ** 19)]),
    ("DECIMAL(1, 0)", "decimal128(1, 0)", [Decimal(9), None]),
    ("INTERVAL DAY(6) TO SECOND(3)", "duration[ms]", [dt.timedelta(-1, 1, 2000), None]),
    ("ARRAY<INT NOT NULL>", "list<item: int32 not null>", [[1, 2], None, []]),
    ("ARRAY<ARRAY<STRING>>", "list<item: list<item: string>>", [[["a", None], None, []], None]),
    ("MAP<STRING NOT NULL, BIGINT>", "map<string, int64>", [[("a", 1), ("b", None)], None, []]),
    (
        "ROW<a INT NOT NULL, b ROW<c TIMESTAMP(0), d ARRAY<DECIMAL(3, 1)>>>",
        "struct<a: int32 not null, b: struct<c: timestamp[s], d: list<item: decimal128(3, 1)>>>",
        [{"a": 1, "b": {"c": DAY, "d": [Decimal("1.5"), None]}}, None, {"a": 2, "b": None}],
    ),
    (
        "ARRAY<MAP<INT NOT NULL, ROW<x TIMESTAMP_LTZ(3)>>>",
        f"list<item: map<int32, struct<x: timestamp[ms, tz={ZONE}]>>>",
        [[[(1, {"x": INSTANT}), (2, None)], None, []], None],
    ),
]
"""SQL type, Arrow type, values."""


def one(array: Any, kind: LogicalType | None = None, zone: str = "UTC") -> pl.DataFrame:
    table = pa.table({"x": array}) if kind is None or kind.nullable else pa.table([array], names=["x"])
    declared = kind or logical_type(array.type)
    assert declared is not None
    return pl.concat(frames(table.to_reader(), [declared], zone))


@pytest.mark.parametrize(("sql", "arrow", "values"), CASES, ids=[case[0] for case in CASES])
def test_a_type_each_way(sql: str, arrow: str, values: list[Any]) -> None:
    kind = parse_type(sql)
    assert str(arrow_type(kind, ZONE)) == arrow
    assert logical_type(arrow_type(kind, ZONE)) == kind
    assert logical_type(arrow_type(kind, ZONE), nullable=False) == kind.not_null()
    given = pa.array(values, arrow_type(kind, ZONE))
    frame = one(given)
    assert frame.schema == {"c0": kind.polars()}
    back = arrow_table(frame, ["x"], [kind], ZONE)
    assert back.schema == pa.schema([pa.field("x", given.type)])
    assert back["x"].to_pylist() == given.to_pylist()
    back.validate(full=True)


def test_a_column_without_null() -> None:
    table = arrow_table(pl.DataFrame({"c0": [1]}, schema={"c0": pl.Int32}), ["x"], [parse_type("INT NOT NULL")], "UTC")
    assert table.schema.field("x").nullable is False
    with pytest.raises(StateplanError, match="'x' has a NULL, and its type is INT NOT NULL"):
        one(pa.array([1, None]), parse_type("INT NOT NULL"))


OTHERS = [
    (pa.array([255, None], pa.uint8()), "SMALLINT", [255, None]),
    (pa.array([65535], pa.uint16()), "INT", [65535]),
    (pa.array([2**32 - 1], pa.uint32()), "BIGINT", [2**32 - 1]),
    (pa.array([2**64 - 1], pa.uint64()), "DECIMAL(20, 0)", [Decimal(2**64 - 1)]),
    (pa.array([1.5], pa.float16()), "FLOAT", [1.5]),
    (pa.array(["a", None], pa.large_string()), "STRING", ["a", None]),
    (pa.array(["a"], pa.string_view()), "STRING", ["a"]),
    (pa.array(["a", None, "a"]).dictionary_encode(), "STRING", ["a", None, "a"]),
    (pa.array([b"a"], pa.large_binary()), "BYTES", [b"a"]),
    (pa.array([b"a"], pa.binary_view()), "BYTES", [b"a"]),
    (pa.array([dt.date(2024, 1, 1)], pa.date64()), "DATE", [dt.date(2024, 1, 1)]),
    (pa.array([Decimal("1.5")], pa.decimal32(5, 1)), "DECIMAL(5, 1)", [Decimal("1.5")]),
    (pa.array([Decimal("1.5")], pa.decimal256(38, 1)), "DECIMAL(38, 1)", [Decimal("1.5")]),
    (pa.array([dt.timedelta(1)], pa.duration("ns")), "INTERVAL DAY(6) TO SECOND(3)", [dt.timedelta(1)]),
    (pa.array([[1, 2], None], pa.list_(pa.int32(), 2)), "ARRAY<INT>", [[1, 2], None]),
    (pa.array([[1]], pa.large_list(pa.int32())), "ARRAY<INT>", [[1]]),
    (pa.array([["a"]], pa.list_(pa.dictionary(pa.int8(), pa.string()))), "ARRAY<STRING>", [["a"]]),
    (pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([7, None])), "BIGINT", [7, 7, None]),
    (pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16], pa.binary(16))), "BINARY(16)", [b"0" * 16]),
    (
        pa.array([1], pa.timestamp("s", tz="+02:00")),
        "TIMESTAMP_LTZ(0)",
        [dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)],
    ),
]


@pytest.mark.parametrize(("array", "sql", "values"), OTHERS, ids=[str(case[0].type) for case in OTHERS])
def test_an_arrow_type_that_sql_has_not(array: Any, sql: str, values: list[Any]) -> None:
    kind = parse_type(sql)
    assert logical_type(array.type) == kind
    frame = one(array)
    assert frame.schema == {"c0": kind.polars()}
    assert frame["c0"].to_list() == values


REFUSED = [
    pa.null(),
    pa.decimal256(40, 1),
    pa.decimal128(5, -1),
    pa.struct([]),
    pa.struct([("a", pa.int8()), ("a", pa.int8())]),
    pa.list_(pa.null()),
    pa.map_(pa.string(), pa.null()),
    pa.month_day_nano_interval(),
    pa.sparse_union([pa.field("a", pa.int8())]),
    pa.binary(0),
    pa.list_view(pa.int32()),
]


@pytest.mark.parametrize("kind", REFUSED, ids=map(str, REFUSED))
def test_an_arrow_type_without_a_type(kind: Any) -> None:
    assert logical_type(kind) is None


@pytest.mark.parametrize(
    ("array", "sql"),
    [
        (pa.array([300]), "TINYINT"),
        (pa.array([Decimal("1.25")]), "DECIMAL(2, 1)"),
        (pa.array([dt.timedelta(microseconds=1)], pa.duration("us")), "INTERVAL DAY(6) TO SECOND(3)"),
        (pa.array(["x"]), "INT"),
        (pa.array([DAY.replace(microsecond=1)], pa.timestamp("us")), "TIMESTAMP(3)"),
        (pa.array([[1]]), "MAP<INT, INT>"),
    ],
    ids=str,
)
def test_a_value_that_does_not_fit(array: Any, sql: str) -> None:
    with pytest.raises(StateplanError) as raised:
        one(array, parse_type(sql))
    assert raised.value.code == "DATA340"
    assert "the column 'x' of type " in raised.value.message


def test_a_timestamp_without_a_zone_in_a_column_with_one_is_local() -> None:
    naive = pa.array([DAY, None], pa.timestamp("us"))
    assert one(naive, parse_type("TIMESTAMP_LTZ(6)"), ZONE)["c0"].to_list() == [INSTANT - dt.timedelta(hours=1), None]


def test_many_rows_come_in_chunks() -> None:
    frame = pl.DataFrame({"c0": pl.int_range(300_000, eager=True)})
    table = arrow_table(frame, ["x"], [parse_type("BIGINT")], "UTC")
    assert table["x"].num_chunks == 3
    assert pl.Series(table["x"]).equals(frame["c0"].alias("x"))


def test_no_rows_keep_their_types() -> None:
    kinds = [parse_type("INT"), parse_type("ROW<a STRING>")]
    frame = pl.DataFrame(schema={"c0": pl.Int32, "c1": kinds[1].polars()})
    table = arrow_table(frame, ["x", "x"], kinds, "UTC")
    assert (table.num_rows, table.schema.types) == (0, [arrow_type(kind) for kind in kinds])


def test_pandas_rounds_no_number() -> None:
    table = pa.table(
        {
            "all": pa.array([1, 2, 2**63 - 1]),
            "some": pa.array([1, None, 2**63 - 1]),
            "truth": pa.array([True, None, False]),
            "map": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
            "at": pa.array([INSTANT, None, INSTANT], pa.timestamp("ms", ZONE)),
        }
    )
    frame = pandas_frame(table)
    assert list(map(str, frame.dtypes)) == ["int64", "Int64", "boolean", "object", f"datetime64[ms, {ZONE}]"]
    assert frame["some"][2] == 2**63 - 1
    assert list(frame["map"]) == [{"a": 1}, None, {}]
    assert pandas_frame(table.select([])).shape == (3, 0)


@pytest.mark.parametrize(("sql", "value"), [("BINARY(2)", b"abc"), ("ARRAY<BINARY(2)>", [b"ab", b"a"])])
def test_bytes_of_another_length_than_their_type_are_refused(sql: str, value: Any) -> None:
    """JSON and other input is not checked against the length."""
    kind = parse_type(sql)
    with pytest.raises(StateplanError, match=r"DATA346.*is not a BINARY\(2\) of Arrow"):
        arrow_table(pl.DataFrame({"c0": [value]}, schema={"c0": kind.polars()}), ["x"], [kind], ZONE)

"""The format ``avro``: Flink's schemas, values of all types, schemas of others, damaged bytes, and container files.

fastavro's own reader and writer are the reference.
"""

from __future__ import annotations

import datetime as dt
import decimal
import io
import json
import pickle
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import fastavro
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.errors import CatalogError, DataError, OptionError, Place, StateplanError
from stateplan.common.types import LogicalType, parse_type, row_type
from stateplan.connectors.formats.avro_container import RefusedError, frame_reader
from stateplan.connectors.formats.avro_decode import DatumReader, RowReader
from stateplan.connectors.formats.avro_schema import event_schema, schema_text, table_schema
from stateplan.connectors.formats.base import Fields
from stateplan.connectors.registry import FORMATS, validate_table

AVRO = FORMATS["avro"]
NONE: Mapping[str, str] = MappingProxyType({})
NEW = {"avro.timestamp_mapping.legacy": "false"}


def fields(text: str) -> Fields:
    """Columns of ``ROW<...>``."""
    return [(f.name, f.type) for f in parse_type(f"ROW<{text}>").fields]


def derived(text: str, legacy: bool = True) -> Any:
    return json.loads(schema_text(table_schema(fields(text), legacy)))


def types(text: str, legacy: bool = True) -> list[Any]:
    return [f["type"] for f in derived(text, legacy)["fields"]]


# ---- schemas ---------------------------------------------------------------------------------------------------


def test_the_schema_of_a_table_is_flinks() -> None:
    """As AvroSchemaConverter derives it: the names, the order within unions, the defaults."""
    assert schema_text(table_schema(fields("a INT NOT NULL, r ROW<x STRING, y ARRAY<ROW<z INT>>>"), True)) == (
        '{"type":"record","name":"record","namespace":"org.apache.flink.avro.generated","fields":['
        '{"name":"a","type":"int"},'
        '{"name":"r","type":["null",{"type":"record","name":"record_r","fields":['
        '{"name":"x","type":["null","string"],"default":null},'
        '{"name":"y","type":["null",{"type":"array","items":["null",{"type":"record","name":"record_r_y","fields":['
        '{"name":"z","type":["null","int"],"default":null}]}]}],"default":null}]}],"default":null}]}'
    )


def test_types_are_mapped_as_in_flink() -> None:
    columns = (
        "a BOOLEAN, b TINYINT, c SMALLINT, d BIGINT NOT NULL, e FLOAT, f DOUBLE, g CHAR(2), h BYTES, i DATE, "
        "j TIME(3), k DECIMAL(10, 2) NOT NULL, l TIMESTAMP(0), m MAP<STRING, INT NOT NULL>, n MULTISET<STRING>"
    )
    assert [t[1] if isinstance(t, list) else t for t in types(columns)] == [
        *("boolean", "int", "int", "long", "float", "double", "string", "bytes"),
        {"type": "int", "logicalType": "date"},
        {"type": "int", "logicalType": "time-millis"},
        {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
        {"type": "long", "logicalType": "timestamp-millis"},
        {"type": "map", "values": "int"},
        {"type": "map", "values": ["null", "int"]},
    ]


def test_timestamps_without_the_legacy_mapping() -> None:
    columns = (
        "a TIMESTAMP(3), b TIMESTAMP(6), c TIMESTAMP(9), d TIMESTAMP_LTZ(3), e TIMESTAMP_LTZ(6), f ARRAY<TIMESTAMP(3)>"
    )
    found = [t[1] for t in types(columns, legacy=False)]
    assert [t.get("logicalType") for t in found] == [
        *("local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos"),
        *("timestamp-millis", "timestamp-micros", None),
    ]
    # Flink forgets the option within lists and maps.
    assert found[5]["items"][1]["logicalType"] == "timestamp-millis"


@pytest.mark.parametrize(
    ("column", "options", "says"),
    [
        ("a TIMESTAMP(6)", NONE, "'avro.timestamp_mapping.legacy' = 'false' holds it"),
        ("a TIMESTAMP_LTZ(3)", NONE, r"TIMESTAMP\(3\) only"),
        ("a ARRAY<TIMESTAMP_LTZ(3)>", NEW, r"TIMESTAMP\(3\) only"),
        ("a TIME(6)", NONE, "up to 3 digits"),
        ("a MAP<INT, INT>", NONE, "keys are text"),
        ("a INTERVAL DAY TO SECOND", NONE, "cannot hold the column 'a'"),
        ("`a-b` INT", NONE, "'a-b' is not a name in Avro"),
        ("a ROW<`1` INT>", NONE, "column 'a': '1' is not a name in Avro"),
        ("a ROW<b ROW<x INT>>, a_b ROW<y INT>", NONE, "two records of the schema are called 'record_a_b'"),
    ],
)
def test_columns_that_avro_does_not_hold(column: str, options: Mapping[str, str], says: str) -> None:
    table = {"connector": "filesystem", "path": "/x", "format": "avro", **options}
    with pytest.raises(CatalogError, match=says):
        validate_table(table, "sink", None, fields(column))


def test_options_are_for_files_or_for_messages() -> None:
    with pytest.raises(OptionError, match="OPT181"):
        AVRO.message_encoder({"avro.codec": "null"}, fields("a INT"))
    with pytest.raises(OptionError, match="OPT181"):
        AVRO.encoder({"avro.encoding": "json"}, fields("a INT"))


# ---- values ----------------------------------------------------------------------------------------------------

DAY = dt.date(1970, 1, 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
SIMPLE: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-128, 127),
    "SMALLINT": st.integers(-(1 << 15), (1 << 15) - 1),
    "INT": st.integers(-(1 << 31), (1 << 31) - 1),
    "BIGINT": st.integers(-(1 << 63), (1 << 63) - 1),
    "FLOAT": st.floats(width=32, allow_nan=False),
    "DOUBLE": st.floats(allow_nan=False),
    "STRING": TEXT,
    "BYTES": st.binary(max_size=8),
    "DATE": st.dates(),
    "TIME(3)": st.times().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)),
    "TIMESTAMP(3)": st.datetimes().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)),
    "DECIMAL(5, 2)": st.integers(-99999, 99999).map(lambda n: decimal.Decimal(n).scaleb(-2)),
    "DECIMAL(38, 0)": st.integers(-(10**38) + 1, 10**38 - 1).map(decimal.Decimal),
}


def nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    rows = st.lists(inner, min_size=1, max_size=3)
    return (
        inner.map(lambda t: f"ARRAY<{t}>")
        | inner.map(lambda t: f"MAP<STRING NOT NULL, {t}>")
        | rows.map(lambda ts: "ROW<" + ", ".join(f"f{i} {t}" for i, t in enumerate(ts)) + ">")
    )


KINDS = st.recursive(
    st.sampled_from(sorted(SIMPLE)).flatmap(lambda t: st.sampled_from([t, f"{t} NOT NULL"])), nested, max_leaves=4
)


def values_of(declared: LogicalType) -> st.SearchStrategy[Any]:
    """Values of a type as Polars has them."""
    if declared.root == "ARRAY":
        made: st.SearchStrategy[Any] = st.lists(values_of(declared.children[0]), max_size=3)
    elif declared.root == "MAP":
        entries = st.dictionaries(TEXT, values_of(declared.children[1]), max_size=3)
        made = entries.map(lambda d: [{"key": k, "value": v} for k, v in d.items()])
    elif declared.root == "ROW":
        made = st.fixed_dictionaries({f.name: values_of(f.type) for f in declared.fields})
    else:
        made = SIMPLE[
            str(declared.as_nullable())
            .replace("VARCHAR(2147483647)", "STRING")
            .replace("VARBINARY(2147483647)", "BYTES")
        ]
    return st.none() | made if declared.nullable else made


def as_avro(value: Any, declared: LogicalType) -> Any:
    """A value of Polars as fastavro takes it, with logical types."""
    if value is None:
        return None
    if declared.root == "ARRAY":
        return [as_avro(v, declared.children[0]) for v in value]
    if declared.root == "MAP":
        return {e["key"]: as_avro(e["value"], declared.children[1]) for e in value}
    if declared.root == "ROW":
        return {f.name: as_avro(value[f.name], f.type) for f in declared.fields}
    return value.replace(tzinfo=dt.UTC) if isinstance(value, dt.datetime) else value


TABLES = st.lists(KINDS, min_size=1, max_size=4).map(
    lambda kinds: [(f"a{i}", parse_type(k)) for i, k in enumerate(kinds)]
)


@given(st.data())
def test_values_of_all_types_against_fastavro(data: st.DataObject) -> None:
    columns = data.draw(TABLES)
    rows = data.draw(st.lists(st.fixed_dictionaries({n: values_of(t) for n, t in columns}), max_size=4))
    frame = pl.DataFrame(
        {f"c{i}": pl.Series([row[n] for row in rows], dtype=t.polars()) for i, (n, t) in enumerate(columns)}
    )
    schema = fastavro.parse_schema(table_schema(columns, True))
    reference = []
    for row in rows:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, schema, {n: as_avro(row[n], t) for n, t in columns})
        reference.append(stream.getvalue())
    decoder = pickle.loads(pickle.dumps(AVRO.message_decoder({}, columns, range(len(columns)))))
    read, places = decoder.messages(reference)
    assert read.equals(frame) and places.tolist() == list(range(len(rows)))
    written = AVRO.message_encoder({}, columns).messages(frame).to_list()
    assert written == reference
    chosen = data.draw(st.lists(st.integers(0, len(columns) - 1), unique=True))
    some, _ = AVRO.message_decoder({}, columns, chosen).messages([None, *reference])
    assert some.height == len(rows)
    assert some.equals(frame.select(pl.col(f"c{i}").alias(f"c{k}") for k, i in enumerate(chosen))) or not chosen


@given(st.data())
def test_json_encoding(data: st.DataObject) -> None:
    columns = data.draw(TABLES)
    rows = data.draw(st.lists(st.fixed_dictionaries({n: values_of(t) for n, t in columns}), min_size=1, max_size=3))
    frame = pl.DataFrame(
        {f"c{i}": pl.Series([row[n] for row in rows], dtype=t.polars()) for i, (n, t) in enumerate(columns)}
    )
    options = {"avro.encoding": "json"}
    written = AVRO.message_encoder(options, columns).messages(frame).to_list()
    read, _ = AVRO.message_decoder(options, columns, range(len(columns))).messages(written)
    assert read.equals(frame)


def test_json_is_written_as_java_does() -> None:
    columns = fields("a INT NOT NULL, b STRING, c ROW<x BYTES, y DOUBLE>, d MAP<STRING, BIGINT>")
    frame = pl.DataFrame(
        {
            "c0": [1, 2],
            "c1": ["é", None],
            "c2": [{"x": b"\xff", "y": float("nan")}, None],
            "c3": [[{"key": "", "value": 5}], None],
        },
        schema={f"c{i}": t.polars() for i, (_, t) in enumerate(columns)},
    )
    texts = [m.decode() for m in AVRO.message_encoder({"avro.encoding": "json"}, columns).messages(frame)]
    assert texts == [
        '{"a":1,"b":{"string":"é"},"c":{"org.apache.flink.avro.generated.record_c":{"x":{"bytes":"ÿ"},'
        '"y":{"double":"NaN"}}},"d":{"map":{"":{"long":5}}}}',
        '{"a":2,"b":null,"c":null,"d":null}',
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "Expecting property name"),
        ('{"a":1}', "1 is not an object with the name of its type: string"),
        ('{"a":{"int":1}}', "with the name of its type: string"),
        ('{"a":{"string":1}}', "1 is not a value of the type string"),
        ('{"b":null}', "the field 'a' is missing"),
        ("[1]", "is not a value of the type record"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_texts_that_are_no_values(text: str, reason: str) -> None:
    with pytest.raises(DataError, match="DATA460") as caught:
        AVRO.message_decoder({"avro.encoding": "json"}, fields("a STRING"), (0,)).messages([None, text.encode()])
    assert reason in caught.value.message
    assert caught.value.place is not None and caught.value.place.line == 2


@given(st.binary(max_size=40), st.booleans())
def test_any_bytes_are_a_row_or_an_error(data: bytes, many: bool) -> None:
    columns = fields("a INT, b STRING NOT NULL, c ROW<x BYTES, y DECIMAL(4, 1)>, d TIMESTAMP(3), e TINYINT, f BOOLEAN")
    decoder = AVRO.message_decoder({}, columns, range(6))
    good = (
        AVRO.message_encoder({}, columns)
        .messages(
            pl.DataFrame({"c0": [1], "c1": ["x"]}).select(
                pl.col("c0").cast(pl.Int32),
                "c1",
                *(pl.lit(None, t.polars()).alias(f"c{i + 2}") for i, (_, t) in enumerate(columns[2:])),
            )
        )
        .to_list()
    )
    messages = [*good * (3 if many else 0), data]
    try:
        frame, places = decoder.messages(messages)
    except DataError as error:
        assert error.code in ("DATA460", "DATA462")
        assert error.place is not None and error.place.line == len(messages)
    else:
        assert frame.height == len(places) == len(messages)


def one(text: str, value: dict[str, Any], **more: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(derived(text)), value, **more)
    return stream.getvalue()


def test_no_rows_are_no_messages() -> None:
    columns = [(f"a{i}", parse_type(kind)) for i, kind in enumerate([*SIMPLE, "ROW<x DOUBLE>", "ARRAY<INT>"])]
    empty = pl.DataFrame(schema={f"c{i}": t.polars() for i, (_, t) in enumerate(columns)})
    assert AVRO.message_encoder({}, columns).messages(empty).to_list() == []
    frame, places = AVRO.message_decoder({}, columns, range(len(columns))).messages([None])
    assert frame.equals(empty) and places.tolist() == []


def test_what_follows_a_value_does_not_count() -> None:
    message = one("a INT", {"a": 5})
    assert AVRO.message_decoder({}, fields("a INT"), (0,)).messages([message + b"more"])[0].rows() == [(5,)]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "the bytes end too early"),
        (b"\x02", "the bytes end too early"),
        (b"\x02\x10ab", "the bytes end too early"),
        (b"\x06", "branch of a union"),
        (b"\x02\x04\xff\xfe", "a text is not UTF-8"),
    ],
)
def test_damaged_messages(data: bytes, reason: str) -> None:
    good = one("a STRING", {"a": "x"})
    with pytest.raises(DataError, match="DATA460") as caught:
        AVRO.message_decoder({}, fields("a STRING"), (0,)).messages([good, None, good, data, good])
    assert reason in caught.value.message
    assert caught.value.place is not None and caught.value.place.line == 4


def test_a_null_for_a_column_that_has_none() -> None:
    """The encoder refuses it, and so does the decoder where the writer's schema allows it."""
    columns = fields("a INT NOT NULL")
    with pytest.raises(DataError, match="DATA471"):
        AVRO.message_encoder({}, columns).messages(pl.DataFrame({"c0": [None]}, schema={"c0": pl.Int32}))
    datum = DatumReader(derived("a INT"), (), "avro")
    reader = RowReader(datum.node, columns, None, Place())
    with pytest.raises(DataError, match=r"DATA462.*NULL"):
        reader.frame(datum.values([one("a INT", {"a": None})], 0, lambda i: Place(line=i + 1)), lambda i: Place())


@given(st.data())
def test_the_fast_reader_agrees_with_fastavro(data: st.DataObject) -> None:
    """Whatever it does not refuse, also of damaged bytes, fastavro reads in the same way."""
    columns = data.draw(TABLES)
    rows = data.draw(st.lists(st.fixed_dictionaries({n: values_of(t) for n, t in columns}), min_size=1, max_size=4))
    frame = pl.DataFrame(
        {f"c{i}": pl.Series([row[n] for row in rows], dtype=t.polars()) for i, (n, t) in enumerate(columns)}
    )
    messages = AVRO.message_encoder({}, columns).messages(frame).to_list()
    if data.draw(st.booleans()):
        which = data.draw(st.integers(0, len(messages) - 1))
        damaged = bytearray(messages[which])
        for _ in range(data.draw(st.integers(0, 3)) if damaged else 0):
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
        messages[which] = bytes(damaged)[: data.draw(st.integers(0, len(damaged)))]
    datum = DatumReader(table_schema(columns, True), (), "avro")
    fast = frame_reader(datum.node, columns)
    if fast is None:
        return
    try:
        found = fast(messages, 0)
    except RefusedError:
        return
    slow = RowReader(datum.node, columns, None, Place()).frame(
        datum.values(messages, 0, lambda i: Place()), lambda i: Place()
    )
    assert found.equals(slow)


def test_the_fast_reader_takes_what_tables_mostly_have() -> None:
    columns = fields(
        "a BOOLEAN, b TINYINT NOT NULL, c BIGINT, d DOUBLE, e STRING, f BYTES, g DATE, h TIME(3), i TIMESTAMP(3), "
        "j DECIMAL(38, 3), k ROW<x INT, y ROW<z FLOAT NOT NULL>>"
    )
    datum = DatumReader(table_schema(columns, True), (), "avro")
    fast = frame_reader(datum.node, columns)
    assert fast is not None
    row = {n: None for n, _ in columns} | {"b": 1}
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, datum.parsed_schema, row)
    assert fast([stream.getvalue()] * 2, 0).rows(named=True)[1] == {f"c{i}": row[n] for i, (n, _) in enumerate(columns)}


# ---- schemas of others -----------------------------------------------------------------------------------------


def resolve(schema: Any, rows: Sequence[Any], columns: str) -> list[Any]:
    """Rows that were written with a schema, as a table has them."""
    written = []
    for row in rows:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(json.dumps(schema))), row)
        written.append(stream.getvalue())
    datum = DatumReader(schema, (), "avro")
    reader = RowReader(datum.node, fields(columns), None, Place())
    frame = reader.frame(datum.values(written, 0, lambda i: Place(line=i + 1)), lambda i: Place(line=i + 1))
    return [row[0] if frame.width == 1 else row for row in frame.rows()]


def record(called: str = "Theirs", **kinds: Any) -> Any:
    return {"type": "record", "name": called, "fields": [{"name": n, "type": t} for n, t in kinds.items()]}


ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
FIXED = {"type": "fixed", "name": "F", "size": 2}
NOON = 12 * 3600 * 1000
HALF_PAST = dt.datetime(1970, 1, 1, 0, 0, 1, 500000)


def logical(name: str) -> Any:
    return {"type": "long", "logicalType": name}


def digits(precision: int, scale: int, **more: Any) -> Any:
    return {"type": "bytes", **more, "logicalType": "decimal", "precision": precision, "scale": scale}


@pytest.mark.parametrize(
    ("kind", "value", "column", "wanted"),
    [
        ("int", 5, "BIGINT", 5),
        ("int", 5, "DOUBLE", 5.0),
        ("long", 5, "FLOAT", 5.0),
        ("float", 1.5, "DOUBLE", 1.5),
        ("string", "x", "BYTES", b"x"),
        ("bytes", b"x", "STRING", "x"),
        (ENUM, "B", "STRING", "B"),
        (["null", ENUM], "B", "STRING", "B"),
        (FIXED, b"xy", "BYTES", b"xy"),
        (["string", "null"], "x", "STRING", "x"),
        (["null", "int", "string"], "x", "STRING", "x"),
        (["int", "long"], 1 << 40, "BIGINT", 1 << 40),
        (record("Inner", b="int", a="string"), {"b": 1, "a": "x"}, "ROW<a STRING, c INT>", {"a": "x", "c": None}),
        (logical("timestamp-micros"), 1_500_999, "TIMESTAMP(3)", HALF_PAST),
        (logical("local-timestamp-millis"), -1, "TIMESTAMP(3)", dt.datetime(1969, 12, 31, 23, 59, 59, 999000)),
        ("long", 1500, "TIMESTAMP(3)", HALF_PAST),
        (logical("timestamp-millis"), 1500, "BIGINT", 1500),
        (logical("time-micros"), NOON * 1000, "TIME(3)", dt.time(12)),
        (digits(4, 1), decimal.Decimal("1.5"), "DECIMAL(10, 2)", decimal.Decimal("1.50")),
        (digits(4, 2), decimal.Decimal("-1.5"), "DECIMAL(10, 2)", decimal.Decimal("-1.50")),
        (digits(4, 1, **FIXED), decimal.Decimal("-1.5"), "DECIMAL(10, 2)", decimal.Decimal("-1.50")),
        ({"type": "map", "values": "int"}, {"k": 1}, "MAP<STRING, BIGINT>", [{"key": "k", "value": 1}]),
        ({"type": "array", "items": ["null", "int"]}, [1, None], "ARRAY<DOUBLE>", [1.0, None]),
    ],
)
def test_schemas_are_resolved(kind: Any, value: Any, column: str, wanted: Any) -> None:
    assert resolve(record(a=kind, more="long"), [{"a": value, "more": 1}], f"a {column}") == [wanted]


@pytest.mark.parametrize(
    ("kind", "column", "says"),
    [
        ("long", "INT", "the column 'a' is INT in the table and long in the schema"),
        ("double", "FLOAT", "double in the schema"),
        ("string", "INT", "string in the schema"),
        (digits(9, 4), "DECIMAL(9, 2)", r"decimal\(9, 4\)"),
        ({"type": "array", "items": "string"}, "ARRAY<INT>", "string in the schema"),
        (["null", "int", "long"], "STRING", r"\[null, int, long\]"),
        (record("Inner", x="int"), "ROW<y INT NOT NULL>", "no field 'a.y', and the column is NOT NULL"),
        ({"type": "map", "values": "string"}, "MULTISET<STRING>", "string in the schema"),
    ],
)
def test_schemas_that_do_not_fit(kind: Any, column: str, says: str) -> None:
    with pytest.raises(DataError, match="DATA461") as caught:
        resolve(record(a=kind), [], f"a {column}")
    assert re.search(says, caught.value.message)


@pytest.mark.parametrize(
    ("kind", "value", "column"),
    [
        ("int", 200, "TINYINT"),
        ("int", -1, "TIME(3)"),
        (digits(9, 1), decimal.Decimal("12345.6"), "DECIMAL(5, 1)"),
        (["int", "string"], 5, "STRING"),
        ("bytes", b"\xff", "STRING"),
    ],
)
def test_values_that_do_not_fit(kind: Any, value: Any, column: str) -> None:
    with pytest.raises(DataError, match=r"DATA462.*'a'") as caught:
        resolve(
            record(a=["null", kind] if not isinstance(kind, list) else ["null", *kind]),
            [{"a": None}, {"a": value}],
            f"a {column}",
        )
    assert caught.value.place is not None and caught.value.place.line == 2


def test_a_schema_that_names_another() -> None:
    inner = {"type": "record", "name": "P", "namespace": "n", "fields": [{"name": "x", "type": "int"}]}
    schema = {
        "type": "record",
        "name": "n.R",
        "fields": [{"name": "a", "type": inner}, {"name": "b", "type": ["null", "P"]}],
    }
    rows = resolve(schema, [{"a": {"x": 1}, "b": {"x": 2}}], "a ROW<x INT>, b ROW<x BIGINT>")
    assert rows == [({"x": 1}, {"x": 2})]


def test_events_are_a_nullable_record() -> None:
    schema = event_schema(fields("a INT"))
    assert schema[0] == "null" and [f["name"] for f in schema[1]["fields"]] == ["before", "after", "op"]
    assert schema[1]["fields"][0]["type"][1]["name"] == "record_before"


# ---- files -----------------------------------------------------------------------------------------------------

FRAME = pl.DataFrame({"c0": pl.Series(range(5000), dtype=pl.Int32), "c1": [f"text {i % 7}" * 3 for i in range(5000)]})
COLUMNS = fields("a INT, b STRING")


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "bzip2", "xz"])
def test_files_of_each_codec(tmp_path: Path, codec: str) -> None:
    path = tmp_path / "x.avro"
    path.write_bytes(AVRO.encoder({"avro.codec": codec}, COLUMNS).encode(FRAME))
    assert pl.concat(AVRO.decoder({}, COLUMNS, (0, 1)).read(str(path))).equals(FRAME)
    if codec != "snappy":  # for which fastavro needs one more library
        with path.open("rb") as stream:
            read = fastavro.reader(stream)
            assert read.codec == codec and [r["a"] for r in read] == list(range(5000))


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_files_that_fastavro_wrote(tmp_path: Path, codec: str) -> None:
    path = tmp_path / "x.avro"
    schema = fastavro.parse_schema(record(b="string", c="double", a="long"))
    with path.open("wb") as stream:
        fastavro.writer(
            stream, schema, ({"a": i, "b": "x" * i, "c": 0.5} for i in range(300)), codec=codec, sync_interval=900
        )
    columns = fields("a BIGINT, d INT, b STRING")
    frame = pl.concat(AVRO.decoder({}, columns, (2, 0, 1), ("file.name",)).read(str(path)))
    assert frame.rows()[299] == ("x" * 299, 299, None, "x.avro")


def test_no_rows_are_a_file(tmp_path: Path) -> None:
    path = tmp_path / "x.avro"
    path.write_bytes(AVRO.encoder({}, COLUMNS).encode(FRAME.head(0)))
    assert list(AVRO.decoder({}, COLUMNS, (0, 1)).read(str(path))) == []
    with path.open("rb") as stream:
        assert list(fastavro.reader(stream)) == []


@given(st.data())
def test_damaged_files_are_errors(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    whole = AVRO.encoder({"avro.codec": data.draw(st.sampled_from(["null", "snappy", "deflate"]))}, COLUMNS).encode(
        FRAME.head(50)
    )
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = whole[:at] if data.draw(st.booleans()) else whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :]
    path = tmp_path_factory.mktemp("avro") / "x.avro"
    path.write_bytes(damaged)
    try:
        list(AVRO.decoder({}, COLUMNS, (0, 1)).read(str(path)))
    except StateplanError as error:
        assert error.code in ("DATA460", "DATA461", "DATA462", "DATA468")
        assert error.place is not None and error.place.file == str(path)


def test_a_file_of_another_kind(tmp_path: Path) -> None:
    path = tmp_path / "x.avro"
    path.write_text('{"a": 1}')
    with pytest.raises(DataError, match="DATA468"):
        list(AVRO.decoder({}, COLUMNS, (0, 1)).read(str(path)))


def test_a_row_type_is_what_the_schema_of_a_user_gives() -> None:
    from stateplan.connectors.formats.avro_schema import Node, named_schemas, type_of

    columns = fields(
        "a INT NOT NULL, b STRING, c ROW<x DATE, y TIME(3)>, d ARRAY<DECIMAL(4, 2) NOT NULL>, e TIMESTAMP(3)"
    )
    schema = table_schema(columns, True)
    assert type_of(Node(schema, named_schemas(schema, {}))) == row_type(list(columns), nullable=False)

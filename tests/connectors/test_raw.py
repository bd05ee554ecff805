"""The format ``raw``: what Flink 2.3 reads of messages and lines, and what it writes."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.errors import CatalogError, DataError, OptionError
from stateplan.common.types import parse_type
from stateplan.connectors.registry import FORMATS, validate_table

RAW = FORMATS["raw"]
NONE: Mapping[str, str] = MappingProxyType({})


def read(declared: str, data: Sequence[bytes | None], options: Mapping[str, str] = NONE) -> list[Any]:
    decoder = RAW.message_decoder(options, [("a", parse_type(declared))], (0,))
    frame, places = pickle.loads(pickle.dumps(decoder)).messages(data)
    assert frame.schema == pl.Schema({"c0": parse_type(declared).polars()})
    assert places.tolist() == list(range(len(data)))
    return frame["c0"].to_list()


def write(declared: str, values: Sequence[Any], options: Mapping[str, str] = NONE) -> list[bytes | None]:
    kind = parse_type(declared)
    encoder = RAW.message_encoder(options, [("a", kind)])
    written = pickle.loads(pickle.dumps(encoder)).messages(pl.DataFrame({"c0": pl.Series(values, dtype=kind.polars())}))
    assert written.dtype == pl.Binary
    return list(written)


# What Flink's RawFormatDeserializationSchema gives for these messages: NULL is a row.
READ = [
    ("STRING", [None, b"", b"a\0b", "é€𝄞".encode()], [None, "", "a\0b", "é€𝄞"]),
    ("BYTES", [None, b"", b"\xffa"], [None, b"", b"\xffa"]),
    ("CHAR(3)", [b"\x02", None], ["\x02", None]),
    ("BOOLEAN", [b"\x02", b"\0", None], [True, False, None]),
    ("TINYINT", [b"\xfe", None], [-2, None]),
    ("INT", [b"\0\0\0\5", None, b"\xff\xff\xff\xfe"], [5, None, -2]),
    ("DOUBLE", [None, b"\x3f\xf8\0\0\0\0\0\0"], [None, 1.5]),
    ("BIGINT", [None], [None]),
]


@pytest.mark.parametrize(("declared", "data", "values"), READ)
def test_reading(declared: str, data: list[bytes | None], values: list[Any]) -> None:
    assert read(declared, data) == values


# What Flink's RawFormatSerializationSchema writes with little-endian.
WRITTEN = [
    ("STRING", "UTF-8", "é€𝄞", "é€𝄞".encode()),
    ("STRING", "UTF-16", "é€𝄞", bytes([254, 255, 0, 233, 32, 172, 216, 52, 221, 30])),
    ("STRING", "ISO-8859-1", "é", b"\xe9"),
    ("INT", "UTF-8", 5, b"\5\0\0\0"),
    ("BOOLEAN", "UTF-8", True, b"\1"),
    ("DOUBLE", "UTF-8", 1.5, b"\0\0\0\0\0\0\xf8\x3f"),
    ("FLOAT", "UTF-8", 1.5, b"\0\0\xc0\x3f"),
    ("SMALLINT", "UTF-8", -2, b"\xfe\xff"),
]


@pytest.mark.parametrize(("declared", "charset", "value", "data"), WRITTEN)
def test_writing(declared: str, charset: str, value: Any, data: bytes) -> None:
    options = {"raw.charset": charset, "raw.endianness": "little-endian"}
    assert write(declared, [value, None], options) == [data, None]
    assert read(declared, [data, None], options) == [value, None]


def test_utf_16_without_a_mark_is_big_endian() -> None:
    assert read("STRING", [b"\0a", b"\xff\xfea\0"], {"raw.charset": "utf-16"}) == ["a", "a"]


@pytest.mark.parametrize(
    ("declared", "data", "code", "says"),
    [
        ("INT", b"12", "DATA469", "2 bytes are not a value of the column 'a', which is INT"),
        ("BOOLEAN", b"", "DATA469", "0 bytes are not a value"),
        ("BIGINT", b"1", "DATA469", "1 byte is not a value"),
        ("STRING", b"\xff", "DATA473", "not text in UTF-8"),
    ],
)
def test_a_message_that_is_no_value_is_named_by_its_position(declared: str, data: bytes, code: str, says: str) -> None:
    with pytest.raises(DataError, match=code) as caught:
        read(declared, [None, data])
    assert says in str(caught.value)
    assert caught.value.place is not None and caught.value.place.line == 2


def test_a_character_that_the_charset_lacks_is_not_replaced() -> None:
    with pytest.raises(DataError, match=r"DATA471.*'€'"):
        write("STRING", ["€"], {"raw.charset": "ISO-8859-1"})


KINDS: dict[str, st.SearchStrategy[Any]] = {
    "STRING": st.text(st.characters(codec="utf-8")),
    "BYTES": st.binary(),
    "BOOLEAN": st.booleans(),
    "SMALLINT": st.integers(-(1 << 15), (1 << 15) - 1),
    "BIGINT": st.integers(-(1 << 63), (1 << 63) - 1),
    "FLOAT": st.floats(width=32, allow_nan=False),
    "DOUBLE": st.floats(allow_nan=False),
}


@given(st.data())
def test_what_is_written_is_read(data: st.DataObject) -> None:
    declared = data.draw(st.sampled_from(sorted(KINDS)))
    values = data.draw(st.lists(st.none() | KINDS[declared], max_size=20))
    options = {"raw.endianness": data.draw(st.sampled_from(["big-endian", "little-endian"]))}
    if declared == "STRING":
        options["raw.charset"] = data.draw(st.sampled_from(["UTF-8", "UTF-16", "UTF-32", "UTF-16LE", "GB18030"]))
    assert read(declared, write(declared, values, options), options) == values


def test_rows_are_counted_without_a_column() -> None:
    frame, places = RAW.message_decoder({}, [("a", parse_type("INT"))], ()).messages([b"\0\0\0\5", None])
    assert frame.height == 2 and frame.columns == ["kind"] and places.tolist() == [0, 1]


# Flink 2.3: a file `a\r\n\nb c\n"q"` has the rows a, '', b c and "q".
def test_each_line_of_a_file_is_a_value(tmp_path: Path) -> None:
    file = tmp_path / "in"
    file.write_bytes(b'a\r\n\nb c\n"q"')
    fields = [("a", parse_type("STRING"))]
    rows = pl.concat(RAW.decoder({}, fields, (0,)).read(str(file)))
    assert rows["c0"].to_list() == ["a", "", "b c", '"q"']
    assert RAW.encoder({}, fields).encode(rows) == b'a\n\nb c\n"q"\n'
    with pytest.raises(DataError, match="DATA471"):
        RAW.encoder({}, fields).encode(pl.DataFrame({"c0": [None]}, schema={"c0": pl.String}))


@pytest.mark.parametrize(
    ("columns", "more", "code", "says"),
    [
        ("a STRING, b INT", {}, CatalogError, "holds one column, and the table has 2: a, b"),
        ("a DATE", {}, CatalogError, "cannot hold the column 'a' of type DATE"),
        ("a STRING", {"raw.charset": "nope"}, OptionError, "'nope' is not a charset"),
        ("a STRING", {"raw.charset": "hex"}, OptionError, "'hex' is not a charset"),
        ("a STRING", {"raw.endianness": "nope"}, OptionError, "'nope' is not a value"),
    ],
)
def test_tables_that_it_cannot_hold(columns: str, more: dict[str, str], code: type[Exception], says: str) -> None:
    fields = [(name, parse_type(kind)) for name, kind in (part.split(" ") for part in columns.split(", "))]
    with pytest.raises(code, match=says):
        validate_table({"connector": "filesystem", "path": "/x", "format": "raw", **more}, "source", None, fields)

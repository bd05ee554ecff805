"""The vectorised JSON reader never gives another result than the line reader: it gives the same, or it refuses."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from connector_tables import Fields, fields, make_decoder, read_all, table
from hypothesis import example, given
from hypothesis import strategies as st

from stateplan.common.errors import DataError
from stateplan.common.files import Lines, line_chunks
from stateplan.connectors.formats.base import frame_of
from stateplan.connectors.formats.json_arrow import ArrowLines, contains_constant
from stateplan.connectors.formats.json_decode import LineDecoder
from stateplan.connectors.formats.json_rows import RowReader

TEXT = st.text(st.sampled_from('ab1 é😀"\\,:{}[]\n\u2028NaInf'), max_size=6)
DATES = st.sampled_from(["2024-01-31", "2024-02-29", "0001-01-01", "9999-12-31", "1969-12-31", "1700-01-01"])
CLOCKS = st.sampled_from(["00:00:00", "12:34:56", "23:59:59", "12:34:56.7", "12:34:56.123456789", "00:00:00.0009"])
ODD = st.sampled_from(
    ["null", "true", "false", "1", "-0", "0", "1.0", "1.5", "1e2", "1E400", "-1e-3", "9223372036854775807",
     "9223372036854775808", "2147483648", "128", "99999999.99", "99999999.994", "99999999.995", "1e8", "1e25", "0.001",
     "12345678901234567890123456789012345678", '""', '" 1 "', '"1"', '"+1"', '"x"', '"NaN"', "NaN", "Infinity",
     "-Infinity", "[]", "{}", "[1]", '{"x":1}', '{"x":"1","y":"q"}', '[null,"a"]', '"2024-02-30"', '"2024-1-1"',
     '"2024-02-30 00:00:00"', '"2024-01-01 24:00:00"', '"2024-01-01 00:00:60"', '"2024-01-01  1:00:00"',
     '"2024-01-01T00:00:00"', '"2024-01-01 00:00:00Z"', '"2024-01-01 00:00:00."', '"2024-01-01 00:00"', '"2024-01-01"',
     '"24:00:00"', '"12:34"', '"+12024-01-01"', '"aGk="', '"aGk"', '"aG k="', '"\\ud800"', '"\\ud83d\\ude00"',
     '"\\u0000"', '"a\tb"', '"\\x"', "tru", "01", "", "1 2", '"true"', '"TRUE"', "1.10", "1e5"]
)  # fmt: skip

VALUES = {
    "BOOLEAN": st.sampled_from(["true", "false"]),
    "TINYINT": st.integers(-128, 127).map(str),
    "SMALLINT": st.integers(-(2**15), 2**15 - 1).map(str),
    "INT": st.integers(-(2**31), 2**31 - 1).map(str),
    "BIGINT": st.integers(-(2**63), 2**63 - 1).map(str),
    "FLOAT": st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr),
    "DOUBLE": st.floats(allow_nan=False, allow_infinity=False).map(repr) | st.integers(-(2**70), 2**70).map(str),
    "STRING": TEXT.map(json.dumps) | TEXT.map(lambda t: json.dumps(t, ensure_ascii=False)),
    "BYTES": st.sampled_from(['""', '"aGk="', '"aGVs"', '"aA=="']),
    "DECIMAL(10,2)": st.decimals(-(10**8), 10**8, places=2).map(str),
    "DECIMAL(38,18)": st.decimals(-(10**20), 10**20, places=18).map(lambda d: f"{d:f}"),
    "DECIMAL(5,0)": st.integers(-99999, 99999).map(str),
    "DATE": DATES.map(json.dumps),
    "TIME(3)": CLOCKS.map(json.dumps),
    "TIMESTAMP(3)": st.builds("{} {}".format, DATES, CLOCKS).map(json.dumps),
    "TIMESTAMP(6)": st.builds("{} {}".format, DATES, CLOCKS).map(json.dumps),
    "TIMESTAMP(9)": st.builds("{} {}".format, DATES, CLOCKS).map(json.dumps),
    "TIMESTAMP_LTZ(3)": st.builds("{} {}Z".format, DATES, CLOCKS).map(json.dumps),
    "FLOAT ": st.decimals(-(10**9), 10**9, places=20).map(str),
    "INT ": st.integers(-(2**31) - 1, 2**31).map(lambda i: f'"{i}"'),
    "BOOLEAN ": st.sampled_from(['"true"', '"FALSE"']),
    "DOUBLE ": st.floats(allow_nan=False, allow_infinity=False).map(lambda f: f'"{f}"'),
    "STRING ": st.integers(-(2**63) - 1, 2**63).map(str) | st.sampled_from(["0", "-0", "1"]),
    "ARRAY<INT>": st.lists(st.integers(-5, 5) | st.none(), max_size=3).map(json.dumps),
    "ARRAY<STRING>": st.lists(TEXT | st.none(), max_size=3).map(json.dumps),
    "ARRAY<DATE>": st.lists(DATES | st.none(), max_size=3).map(json.dumps),
    "ARRAY<DECIMAL(10,2)>": st.lists(st.integers(-5, 5) | st.none(), max_size=3).map(json.dumps),
    "ROW<x INT, y STRING>": st.fixed_dictionaries({"x": st.integers(0, 9), "y": TEXT}).map(json.dumps),
    "ROW<x TIMESTAMP(3), y ROW<z DATE>>": st.fixed_dictionaries(
        {},
        optional={"x": st.builds("{} {}".format, DATES, CLOCKS), "y": st.fixed_dictionaries({"z": DATES}) | st.none()},
    ).map(json.dumps),
    "ARRAY<ROW<x TIME(0)>>": st.lists(st.fixed_dictionaries({"x": CLOCKS}) | st.none(), max_size=2).map(json.dumps),
    "MAP<STRING, INT>": st.dictionaries(TEXT, st.integers(0, 9), max_size=2).map(json.dumps),
}
ENDS = st.sampled_from(
    ["\n"] * 12 + ["\r\n", " \n", "\n\n", " x\n", " null\n", "{}\n", ",\n", "]\n", "\r", "\n \n", "\nnull\n"]
)


@st.composite
def tables(draw: st.DrawFn) -> tuple[str, str]:
    """Columns, and lines that mostly fit them."""
    types = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3))
    columns = ", ".join(f"c{i} {t}" for i, t in enumerate(types))
    odd = draw(st.sampled_from([0, 0, 1]))
    text = draw(st.sampled_from([""] * 9 + ["\ufeff", "\n", "[", "null\n"]))
    for _ in range(draw(st.integers(0, 4))):
        cells = []
        for i, t in enumerate(types):
            how = draw(
                st.sampled_from(["value"] * 8 + ["null", "missing"] + ["odd", "twice", "extra", "escaped"] * odd)
            )
            value = draw(ODD if how == "odd" else VALUES[t])
            key = f'"c{i}"' if how != "escaped" else f'"\\u0063{i}"'
            colon = draw(st.sampled_from([":", ":", ": ", " :"]))
            if how == "missing":
                continue
            cells.append(f"{key}{colon}{'null' if how == 'null' else value}")
            if how == "twice":
                cells.append(f"{key}:{draw(VALUES[t])}")
            if how == "extra":
                cells.append(f'"z":{draw(ODD)}')
        text += "{" + draw(st.sampled_from([",", ", "])).join(cells) + "}" + (draw(ENDS) if odd else "\n")
    return columns, text


def slow_frame(reader: RowReader, piece: bytes) -> pl.DataFrame | str:
    try:
        return frame_of(list(reader.rows(piece.split(b"\n")[:-1], 1, "f")), reader.fields)
    except DataError as error:
        return str(error)


@given(tables(), st.sampled_from(["SQL", "ISO-8601"]), st.booleans(), st.booleans())
@example(("c0 DECIMAL(10,7)", '{"c0":1e5}\n'), "SQL", False, False)
@example(("c0 DECIMAL(38,18)", '{"c0":1e25}\n'), "SQL", False, False)
@example(("c0 DOUBLE", '{"c0":NaN}\n'), "SQL", False, False)
@example(("c0 INT", '{"c0":1,"z":-Infinity}\n'), "SQL", False, False)
@example(("c0 INT", '{"c0":1}{"c0":2}\n\n'), "SQL", False, False)
@example(("c0 INT", '{"c0":1\n}\n'), "SQL", False, False)
@example(("c0 INT", "null\n"), "SQL", False, False)
@example(("c0 FLOAT", '{"c0":16777217.0000000000000000001}\n{"c0":1e39}\n'), "SQL", False, False)
@example(("c0 FLOAT, c1 INT", '{"c0":"16777217.0000000000000000001","c1":"7"}\n'), "SQL", False, False)
@example(("c0 STRING", '{"c0":5}\n{"c0":-0}\n'), "SQL", False, False)
@example(("c0 STRING", '{"c0":5}\n{"c0":0}\n'), "SQL", False, False)
def test_same_or_refused(made: tuple[str, str], standard: str, missing_fails: bool, ignore: bool) -> None:
    columns, text = fields(made[0]), made[1]
    if standard == "ISO-8601":
        text = text.replace("-31 1", "-31T1").replace("-29 1", "-29T1")
    piece = text.encode("utf-8", "surrogatepass")
    piece = piece if piece.endswith(b"\n") else piece + b"\n"
    decoder = LineDecoder(RowReader(columns, "json", standard, missing_fails, ignore))
    fast, slow = decoder.fast, decoder.slow
    got = fast.read(Lines(piece))
    if got is not None:
        want = slow_frame(slow, piece)
        assert isinstance(want, pl.DataFrame), want
        assert got.schema == want.schema
        assert got.equals(want), (got, want)


GOOD = {t: next(iter(v)) for t, v in {
    "BOOLEAN": ["true"], "TINYINT": ["-128"], "SMALLINT": ["7"], "INT": ["-2147483648"],
    "BIGINT": ["9223372036854775807"],
    "FLOAT": ["1.5"], "DOUBLE": ["1.5e10"], "STRING": ['"é\\n\\ud83d\\ude00"'], "BYTES": ['"aGk="'],
    "DECIMAL(10,2)": ["12345678.90"], "DECIMAL(38,18)": ["1.5"], "DATE": ['"2024-01-31"'], "TIME(0)": ['"12:34:56"'],
    "TIMESTAMP(3)": ['"2024-01-31 12:34:56.123"'], "TIMESTAMP(9)": ['"2024-01-31 12:34:56.123456789"'],
    "TIMESTAMP_LTZ(6)": ['"2024-01-31 12:34:56Z"'], "ARRAY<STRING>": ['["a",null]'],
    "ROW<x INT, y ROW<z TIMESTAMP(3)>>": ['{"x":1,"y":{"z":"2024-01-31 12:34:56"}}'],
    "ARRAY<ROW<d DATE>>": ['[{"d":"2024-01-31"}]'],
}.items()}  # fmt: skip


@pytest.mark.parametrize("declared", sorted(GOOD))
def test_good_lines_take_the_fast_way(declared: str) -> None:
    columns = fields(f"c0 {declared}")
    decoder = LineDecoder(RowReader(columns, "json", "SQL", False, False))
    fast, slow = decoder.fast, decoder.slow
    piece = f'{{"c0":{GOOD[declared]}}}\n{{"c0": null, "x": {{"y": [1]}}}}\n{{}}\n\n'.encode()
    got = fast.read(Lines(piece))
    assert got is not None
    want = slow_frame(slow, piece)
    assert isinstance(want, pl.DataFrame) and got.equals(want) and got.schema == want.schema
    assert got["c0"].null_count() == 2 and got.height == 3


def test_only_the_lines_around_a_bad_one_take_the_slow_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    rows = RowReader.rows

    def counting(self: RowReader, lines: list[bytes], *args: object) -> object:
        seen.append(len(lines))
        return rows(self, lines, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(RowReader, "rows", counting)
    path = tmp_path / "many.json"
    lines = [f'{{"a":{i}}}' for i in range(20_000)]
    lines[12_345] = '{"a":"12345"}'
    path.write_text("\n".join(lines))
    df = read_all(table("json"), fields("a INT"), path)
    assert df["c0"].to_list() == list(range(20_000))
    assert len(seen) == 1 and seen[0] < 2_000
    lines[19_000] = '{"a":"x"}'
    path.write_text("\n".join(lines))
    with pytest.raises(DataError) as error:
        read_all(table("json"), fields("a INT"), path)
    assert error.value.place is not None and error.value.place.line == 19_001


def test_lines_are_counted_over_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_chunks, "__defaults__", (64,))
    path = tmp_path / "a.json"
    path.write_text("".join(f'{{"a":{i}}}\n\n' for i in range(50)) + '{"a":"x"}\n')
    with pytest.raises(DataError) as error:
        read_all(table("json"), fields("a INT"), path)
    assert error.value.place is not None and error.value.place.line == 101


@given(st.lists(st.sampled_from(["NaN", "Inf", "N", "aN", "In", "nf", "-", ":", ",", "[", " ", "x"])).map("".join))
def test_constants_outside_of_texts_are_seen(text: str) -> None:
    assert contains_constant(text.encode()) == (re.search(r"[:\[,][ \t\r]*-?(NaN|Inf)", text) is not None)


def test_a_reader_travels_to_a_worker(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"a":1}\n')
    for options in (table("json"), table("debezium-json"), table("csv"), table("parquet")):
        decoder = make_decoder(options, fields("a INT"), [0])
        if options["format"] == "json":
            list(decoder.read(str(path)))
        assert repr(pickle.loads(pickle.dumps(decoder))) == repr(decoder)


EVENTS = st.lists(
    st.sampled_from(
        [
            '{"before":null,"after":{"a":1,"b":"x"},"op":"c"}', '{"after":{"a":2},"op":"r","source":{"q":[1]}}',
            '{"before":{"a":1,"b":"x"},"after":{"a":3,"b":null},"op":"u"}', '{"before":{"a":3},"after":null,"op":"d"}',
            '{"before":{"a":"4"},"op":"d"}', '{"before":null,"after":{"a":2},"op":"u"}', '{"op":"c"}', '{"op":"x"}', "",
            '{"after":{"a":1},"op":null}', '{"after":{"a":1,"a":2},"op":"c"}', "x", "null", '{"after":[],"op":"c"}',
        ]
    ),
    max_size=6,
)  # fmt: skip


@given(EVENTS, st.booleans(), st.booleans())
def test_events_same_or_refused(lines: list[str], ignore: bool, wrapped: bool) -> None:
    columns = fields("a INT, b STRING")
    if wrapped:
        lines = [f'{{"schema":{{}},"payload":{line}}}' if line.startswith("{") else line for line in lines]
    options = table("debezium-json") | {
        "debezium-json.ignore-parse-errors": str(ignore).lower(),
        "debezium-json.schema-include": str(wrapped).lower(),
    }
    reader: Any = make_decoder(options, columns, [0, 1])
    decoder, event = reader.lines, reader.event
    fast, slow = decoder.fast, decoder.slow
    piece = "".join(f"{line}\n" for line in lines or [""]).encode()
    got = fast.read(Lines(piece))
    if got is None or decoder.check_frame is None or not decoder.check_frame(got):
        return
    want = slow_frame(slow, piece)
    assert isinstance(want, pl.DataFrame) and want.schema == got.schema
    changes = event.changes(got, 2)
    again = event.changes(want, 2)
    assert changes[0].equals(again[0]) and changes[1].equals(again[1])


def test_no_columns_keep_the_number_of_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"a":1}\n{"a":2}\n\n{"b":3}\n')
    columns: Fields = fields("a INT")
    df = read_all(table("json"), columns, path, [])
    assert df.columns == ["kind"] and df["kind"].to_list() == [0, 0, 0]
    path.write_text('{"after":{"a":1},"op":"c"}\n{"before":{"a":1},"after":{"a":2},"op":"u"}\n')
    df = read_all(table("debezium-json"), columns, path, [])
    assert df.columns == ["kind"] and df["kind"].to_list() == [0, 1, 2]


def test_arrow_refuses_what_it_cannot_hold() -> None:
    assert not ArrowLines(fields("m MAP<STRING,INT>"), "SQL", False).usable
    assert ArrowLines(fields("a INT, m ARRAY<ROW<x INT>>"), "SQL", False).usable

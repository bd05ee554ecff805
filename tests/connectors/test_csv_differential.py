"""The vectorised CSV reader never gives another result than the record reader: it gives the same, or it refuses."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from connector_tables import fields, make_decoder, read_all, table
from hypothesis import example, given
from hypothesis import strategies as st

from stateplan.common import files
from stateplan.common.errors import DataError
from stateplan.common.files import Lines
from stateplan.connectors.formats.base import frame_of
from stateplan.connectors.formats.csv_decode import CsvDecoder

DATES = st.sampled_from(["2024-01-31", "2024-02-29", "2024-02-30", "0001-01-01", "9999-12-31", "2024-1-1"])
CLOCKS = st.sampled_from(["00:00:00", "23:59:59", "12:34:56.7", "12:34:56.123456789", "24:00:00", "12:34"])
CELLS = {
    "BOOLEAN": st.sampled_from(["true", "false", "TRUE", "yes", ""]),
    "TINYINT": st.integers(-200, 200).map(str),
    "INT": st.integers(-(2**31) - 1, 2**31).map(str) | st.sampled_from(["+5", " 5", "5.0", "", "007"]),
    "BIGINT": st.integers(-(2**63), 2**63).map(str) | st.just("-0"),
    "FLOAT": st.floats(width=32).map(repr),
    "FLOAT ": st.decimals(-(10**9), 10**9, places=20).map(str) | st.just("16777217.0000000000000000001"),
    "DOUBLE": st.floats().map(repr) | st.sampled_from(["1", "1.5", "0.1", "NaN", "inf", "1e400", "123456789012345.6"]),
    "DECIMAL(10,2)": st.sampled_from(
        [
            "1",
            "1.5",
            "1.555",
            "-0.01",
            "99999999.99",
            "99999999.995",
            "1e3",
            ".5",
            "007",
            "1E+2",
            "-1.25E+4",
            "1E+8",
            "1.5E+0",
            "9E+99",
            "",
        ]
    ),
    "DECIMAL(5,0)": st.sampled_from(["1", "12345", "123456", "-1", "1.0", "1E+4", "1.23E+1", "1E+5"]),
    "DECIMAL(2,2)": st.sampled_from(["0.5", "-0.55", "1.5", "0"]),
    "STRING": st.text(st.sampled_from('ab é😀",;\n\r#NULL'), max_size=5),
    "BYTES": st.sampled_from(["", "aGk=", "aGk", "aG k="]),
    "DATE": DATES,
    "TIME(0)": CLOCKS,
    "TIME(3)": CLOCKS,
    "TIMESTAMP(3)": st.builds("{} {}".format, DATES, CLOCKS),
    "TIMESTAMP(9)": st.builds("{} {}".format, DATES, CLOCKS),
    "TIMESTAMP_LTZ(3)": st.builds("{} {}Z".format, DATES, CLOCKS),
    "ARRAY<STRING>": st.just("a;b"),
}
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "csv.null-literal": st.sampled_from(["", "NULL", "1"]),
        "csv.ignore-parse-errors": st.sampled_from(["true", "false"]),
        "csv.quote-character": st.just("'"),
        "csv.field-delimiter": st.sampled_from([";", "\\t"]),
        "csv.empty-string-as-null": st.just("true"),
        "csv.allow-trailing-comma": st.just("false"),
        "csv.allow-comments": st.just("true"),
    },
)


@st.composite
def tables(draw: st.DrawFn) -> tuple[str, dict[str, str], str]:
    types = draw(st.lists(st.sampled_from(sorted(CELLS)), min_size=1, max_size=3))
    options = draw(OPTIONS)
    delimiter = {"\\t": "\t"}.get(options.get("csv.field-delimiter", ","), options.get("csv.field-delimiter", ","))
    quote = options.get("csv.quote-character", '"')
    text = ""
    for _ in range(draw(st.integers(0, 4))):
        cells = []
        for t in types:
            cell = draw(CELLS[t])
            raw = draw(st.sampled_from([False] * 5 + [True]))
            if not raw and any(c in cell for c in (delimiter, quote, "\n", "\r", "#")):
                cell = quote + cell.replace(quote, quote * 2) + quote
            cells.append(draw(st.sampled_from([cell] * 12 + ["NULL", quote + cell, f"{quote}{quote}", " " + cell])))
        text += delimiter.join(cells) + draw(st.sampled_from(["\n"] * 12 + ["\r\n", "\n\n", delimiter + "\n", "\r"]))
    return ", ".join(f"c{i} {t}" for i, t in enumerate(types)), options, text


def decoder_of(columns: str, options: dict[str, str]) -> CsvDecoder:
    made = make_decoder(table("csv") | options, fields(columns), range(len(fields(columns))))
    assert isinstance(made, CsvDecoder)
    return made


@given(tables())
@example(("c0 BOOLEAN", {}, "yes\n"))
@example(("c0 STRING, c1 STRING", {}, '"a"b,c\n'))
@example(("c0 STRING", {}, "\n"))
@example(("c0 STRING, c1 STRING", {"csv.null-literal": ""}, '"",\n'))
def test_same_or_refused(made: tuple[str, dict[str, str], str]) -> None:
    columns, options, text = made
    decoder = decoder_of(columns, options)
    fast, slow = decoder.fast, decoder.slow
    text = text if text.endswith("\n") else text + "\n"
    got = fast.read(Lines(text.encode()))
    if got is not None:
        want = frame_of(list(slow.rows(text, 1, "f")), slow.fields) if text else got
        assert got.schema == want.schema
        assert got.equals(want), (got, want)


GOOD = {
    "BOOLEAN": "TRUE", "TINYINT": "-128", "INT": "-2147483648", "BIGINT": "9223372036854775807", "DOUBLE": "1.5",
    "DECIMAL(10,2)": "12345678.90", "STRING": "x y", "BYTES": "aGk=", "DATE": "2024-01-31", "TIME(3)": "12:34:56.789",
    "TIMESTAMP(3)": "2024-01-31 12:34:56.123", "TIMESTAMP_LTZ(6)": "2024-01-31 12:34:56Z",
}  # fmt: skip


@pytest.mark.parametrize("quoted", [False, True])
def test_good_records_take_the_fast_way(quoted: bool) -> None:
    columns = ", ".join(f"c{i} {t}" for i, t in enumerate(GOOD))
    decoder = decoder_of(columns, {"csv.null-literal": ""})
    row = ",".join(f'"{v}"' if quoted else v for v in GOOD.values())
    text = f"{row}\n{',' * (len(GOOD) - 1)}\n"
    fast, slow = decoder.fast, decoder.slow
    got = fast.read(Lines(text.encode()))
    assert got is not None
    want = frame_of(list(slow.rows(text, 1, "f")), slow.fields)
    assert got.equals(want) and got.schema == want.schema
    assert [s.null_count() for s in got] == [1] * len(GOOD)


def test_records_over_the_edge_of_a_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files.line_chunks, "__defaults__", (64,))
    path = tmp_path / "a.csv"
    path.write_text("".join(f'{i},"line {i}\nnext, ""line"""\n' for i in range(50)))
    df = read_all(table("csv"), fields("a INT, b STRING"), path)
    assert df["c0"].to_list() == list(range(50))
    assert df["c1"][49] == 'line 49\nnext, "line"'
    path.write_text(path.read_text() + "x,y\n")
    with pytest.raises(DataError) as error:
        read_all(table("csv"), fields("a INT, b STRING"), path)
    assert error.value.place is not None and error.value.place.line == 101


def test_no_columns_keep_the_number_of_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("1,x\n2,y\n")
    df = read_all(table("csv"), fields("a INT, b STRING"), path, [])
    assert df.columns == ["kind"] and df.height == 2


def test_projection(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("1,x,2024-01-01\n2,y,2024-01-02\n")
    df = read_all(table("csv"), fields("a INT, b STRING, c DATE"), path, [2, 0])
    assert df["c1"].to_list() == [1, 2] and df.schema["c0"] == pl.Date


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "1,x\nbad,y\n",
            "[DATA122] 'bad' is not a value of the column 'a', which is INT\n  --> {}, line 2\n"
            "  expected: a whole number from -2147483648 to 2147483647\n"
            "  hint: 'csv.ignore-parse-errors' = 'true' skips such input; the record is: bad,y",
        ),
        (
            ",x\n",
            "[DATA122] '' is not a value of the column 'a', which is INT\n  --> {}, line 1\n"
            "  expected: a whole number from -2147483648 to 2147483647\n"
            "  hint: 'csv.null-literal' = '' reads empty fields as NULL; 'csv.ignore-parse-errors' = 'true' skips such "
            "input; the record is: ,x",
        ),
        (
            "1,x\n1\n",
            "[DATA123] not a record of the table: there is 1 field\n  --> {}, line 2\n"
            "  expected: 2 fields, one for each column\n"
            "  hint: 'csv.ignore-parse-errors' = 'true' skips such input; the record is: 1",
        ),
        (
            "A,b\n1,x\n",
            "[DATA122] 'A' is not a value of the column 'a', which is INT\n  --> {}, line 1\n"
            "  expected: a whole number from -2147483648 to 2147483647\n"
            "  hint: the line has the names of the columns: the format reads no header, so remove it; "
            "'csv.ignore-parse-errors' = 'true' skips such input; the record is: A,b",
        ),
        (
            "1;x\n",
            "[DATA123] not a record of the table: there is 1 field\n  --> {}, line 1\n"
            "  expected: 2 fields, one for each column\n"
            "  hint: 'csv.field-delimiter' = ';' reads the record as 2 fields; "
            "'csv.ignore-parse-errors' = 'true' skips such input; the record is: 1;x",
        ),
        (
            '1,"x"y\n',
            "[DATA121] not a record of the table: unexpected 'y' after a quoted field\n  --> {}, line 1, column 6\n"
            "  expected: 2 fields, one for each column\n"
            "  hint: 'csv.ignore-parse-errors' = 'true' skips such input; the record is: 1,\"x\"y",
        ),
    ],
)
def test_messages(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(DataError) as error:
        read_all(table("csv"), fields("a INT, b STRING"), path)
    assert str(error.value) == message.format(path)


def test_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"1,x\n2,\xff\n")
    with pytest.raises(DataError) as error:
        read_all(table("csv"), fields("a INT, b STRING"), path)
    assert str(error.value) == (
        f"[DATA124] the text is not UTF-8 (byte 0xff)\n  --> {path}, line 2\n  expected: a file in UTF-8"
    )

"""Messages in ``csv``: one record each. Compared with the record reader, and with what Flink 2.3 does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.errors import DataError
from stateplan.common.types import parse_type
from stateplan.connectors.registry import FORMATS

CSV = FORMATS["csv"]
FIELDS = [("a", parse_type("INT")), ("b", parse_type("STRING"))]
SKIP = {"csv.ignore-parse-errors": "true"}
NONE: Mapping[str, str] = MappingProxyType({})


def read(data: list[bytes | None], options: Mapping[str, str] = NONE) -> tuple[list[Any], list[int]]:
    frame, places = CSV.message_decoder(options, FIELDS, (0, 1)).messages(data)
    assert frame.schema == pl.Schema({"c0": pl.Int32, "c1": pl.String})
    return frame.rows(), places.tolist()


# Flink's CsvRowDataDeserializationSchema: the rows without and with ignore-parse-errors; None for an error.
FLINK: list[tuple[bytes, list[Any] | None, list[Any]]] = [
    (b"1,x", [(1, "x")], [(1, "x")]),
    (b"1,x\n", [(1, "x")], [(1, "x")]),
    (b"1,x\r\n", [(1, "x")], [(1, "x")]),
    (b" 1 ,x", [(1, "x")], [(1, "x")]),
    (b"\xef\xbb\xbf1,x", [(1, "x")], [(1, "x")]),
    (b"1,", [(1, "")], [(1, "")]),
    (b'1,"a\nb"\n', [(1, "a\nb")], [(1, "a\nb")]),
    (b"", None, []),
    (b"\n", None, [(None, None)]),
    (b"\n1,x", None, [(None, None)]),
    (b"1", None, [(1, None)]),
    (b"1,x,3", None, []),
    (b'1,"x', None, []),
    (b"u,x", None, [(None, "x")]),
    (b"1,\xffz", None, []),
]


@pytest.mark.parametrize(("message", "rows", "skipping"), FLINK)
def test_as_flink(message: bytes, rows: list[Any] | None, skipping: list[Any]) -> None:
    assert read([None, message], SKIP) == (skipping, [1] * len(skipping))
    if rows is None:
        with pytest.raises(DataError, match=r"DATA12[1-4]|DATA472") as caught:
            read([b"7,y", message])
        assert caught.value.place is not None and caught.value.place.line == 2
    else:
        assert read([b"7,y", None, message, b"8,z"]) == ([(7, "y"), *rows, (8, "z")], [0, 2, 3])


def test_a_second_record_is_not_lost() -> None:
    """Flink reads the first record of a message and no other."""
    with pytest.raises(DataError, match=r"DATA472.*more than one record"):
        read([b"1,x\n2,y"])
    assert read([b"1,x\n2,y"], SKIP) == ([(1, "x")], [0])


def test_a_quote_does_not_run_into_the_next_message() -> None:
    with pytest.raises(DataError, match="DATA121") as caught:
        read([b"1,x", b'2,"y', b'z"', b'3,"a\nb"'])
    assert caught.value.place is not None and caught.value.place.line == 2


def test_a_bad_message_among_many_is_named() -> None:
    with pytest.raises(DataError, match="DATA122") as caught:
        read([*[b"1,x"] * 9000, b"u,x", *[b"2,y"] * 9000])
    assert caught.value.place is not None and caught.value.place.line == 9001


def test_no_messages() -> None:
    assert read([None]) == ([], [])
    assert read([]) == ([], [])


def test_written_without_a_line_break() -> None:
    """Flink's CsvRowDataSerializationSchema ends a record with nothing."""
    frame = pl.DataFrame({"c0": pl.Series([1, None], dtype=pl.Int32), "c1": ["x\ny", None]})
    assert CSV.message_encoder({}, FIELDS).messages(frame).to_list() == [b'1,"x\ny"', b","]


PIECES = st.sampled_from(
    [
        b"1,x",
        b"2,y\n",
        b'3,"a\nb"',
        b'4,"q""r"',
        b"",
        b"\n",
        b"u,x",
        b"1",
        b"1,x\n2,y",
        b'5,"',
        b'",6',
        b"7,z\r\n",
        b"\xff",
    ]
)


@given(st.lists(PIECES, max_size=30), st.booleans())
def test_many_messages_are_each_read_alone(messages: list[bytes], many: bool) -> None:
    more: list[bytes | None] = [*messages, *([b"9,many"] * 5000 if many else [])]
    alone = [(row, i) for i, message in enumerate(messages) for row in read([message], SKIP)[0]]
    rows, places = read(more, SKIP)
    assert list(zip(rows, places, strict=True))[: len(alone)] == alone
    assert len(rows) == len(alone) + (5000 if many else 0)


def test_a_file_of_the_same_records_has_the_same_rows(tmp_path: Path) -> None:
    messages = [b"1,x", b'2,"a\nb"', b"3,"]
    path = tmp_path / "rows.csv"
    path.write_bytes(b"".join(m + b"\n" for m in messages))
    from_file = [row for df in CSV.decoder({}, FIELDS, (0, 1)).read(str(path)) for row in df.rows()]
    assert read(list(messages))[0] == from_file

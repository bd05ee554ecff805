"""Messages of the formats of lines: the rows of a file with a message on each line, and the message of each row."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.errors import DataError
from stateplan.common.types import parse_type
from stateplan.connectors.formats.base import MessageDecoder
from stateplan.connectors.registry import FORMATS

FIELDS = [("a", parse_type("INT")), ("b", parse_type("STRING"))]
SKIP = {"json.ignore-parse-errors": "true"}


def decoder(name: str = "json", options: Mapping[str, str] = MappingProxyType({})) -> MessageDecoder:
    return FORMATS[name].message_decoder(options, FIELDS, (0, 1))


def test_each_row_has_its_message() -> None:
    frame, places = decoder().messages([b'{"a":1,"b":"x"}', None, b'{"b":"y","a":2}'])
    assert frame.rows() == [(1, "x"), (2, "y")]
    assert places.tolist() == [0, 2]


def test_a_message_of_several_lines_is_one_row() -> None:
    frame, places = decoder().messages([b'{\n "a": 1,\n "b": "x"\n}\n', b'{"a":2,"b":"y"}'])
    assert frame.rows() == [(1, "x"), (2, "y")]
    assert places.tolist() == [0, 1]


def test_a_list_of_objects_is_several_rows_of_one_message() -> None:
    frame, places = decoder().messages([b'{"a":0,"b":"v"}', b'[{"a":1,"b":"x"},{"a":2,"b":"y"}]'])
    assert frame.rows() == [(0, "v"), (1, "x"), (2, "y")]
    assert places.tolist() == [0, 1, 1]


def test_no_messages_are_an_empty_frame_of_the_right_types() -> None:
    for name in ("json", "debezium-json"):
        frame, places = decoder(name).messages([None])
        assert frame.height == 0
        assert frame.select("c0", "c1").schema == pl.Schema({"c0": pl.Int32, "c1": pl.String})
        assert places.tolist() == []


def test_a_bad_message_is_named_by_its_position() -> None:
    good = b'{"a":1,"b":"x"}'
    with pytest.raises(DataError, match="DATA111") as caught:
        decoder().messages([None, *[good] * 3000, b'{"a":', good])
    assert caught.value.place is not None and caught.value.place.line == 3002


def test_bad_messages_are_skipped_if_asked_for() -> None:
    frame, places = decoder("json", SKIP).messages([b'{"a":1,"b":"x"}', b"{", b'{"a":"u","b":"y"}'])
    assert frame.rows() == [(1, "x"), (None, "y")]
    assert places.tolist() == [0, 2]


def test_changes_have_the_message_of_their_event() -> None:
    events = [
        {"before": None, "after": {"a": 1, "b": "x"}, "op": "c"},
        {"before": {"a": 1, "b": "x"}, "after": {"a": 1, "b": "y"}, "op": "u"},
        {"before": {"a": 1, "b": "y"}, "after": None, "op": "d"},
    ]
    frame, places = decoder("debezium-json").messages([json.dumps(event).encode() for event in events])
    assert frame.rows() == [(1, "x", 0), (1, "x", 1), (1, "y", 2), (1, "y", 3)]
    assert places.tolist() == [0, 1, 1, 2]


def test_events_that_are_filtered_away_do_not_shift_the_others() -> None:
    events = [{"data": [{"a": i, "b": "x"}], "type": "INSERT", "table": "tu"[i % 2]} for i in range(4)]
    only_t = decoder("canal-json", {"canal-json.table.include": "t"})
    frame, places = only_t.messages([json.dumps(event).encode() for event in events])
    assert frame.rows() == [(0, "x", 0), (2, "x", 0)]
    assert places.tolist() == [0, 2]


def test_values_of_events_are_metadata() -> None:
    fmt = FORMATS["canal-json"]
    event = {"data": [{"a": 1, "b": "x"}], "type": "INSERT", "table": "t", "database": "d"}
    frame, _ = fmt.message_decoder({}, FIELDS, (0,), ("table", "database")).messages([json.dumps(event).encode()])
    assert frame.rows() == [(1, "t", "d", 0)]


WRITTEN: list[tuple[str, Mapping[str, str]]] = [
    *((name, {}) for name in ("json", "debezium-json", "canal-json", "maxwell-json", "ogg-json", "op-json", "avro")),
    ("avro", {"avro.encoding": "json"}),
    ("csv", {"csv.null-literal": "N"}),
]


@pytest.mark.parametrize(("name", "options"), WRITTEN)
def test_what_is_written_is_read(name: str, options: Mapping[str, str]) -> None:
    fmt = FORMATS[name]
    frame = pl.DataFrame({"c0": pl.Series([1, None], dtype=pl.Int32), "c1": ["x\ny", None]})
    written = fmt.message_encoder(options, FIELDS).messages(frame)
    assert written.dtype == pl.Binary and written.len() == 2
    decoder = pickle.loads(pickle.dumps(fmt.message_decoder(options, FIELDS, (0, 1))))
    again, places = decoder.messages([None, *written.to_list()])
    assert again.select("c0", "c1").equals(frame)
    assert places.tolist() == [1, 2]


LINES = st.sampled_from(
    [b'{"a":1,"b":"x"}', b'{"a":"2","b":3}', b'{"b":"y"} {"a":7}', b'[{"a":4},{"a":5}]', b"{", b"", b'{"a":1.5}', b"7"]
)


@given(st.lists(LINES, max_size=30))
def test_messages_give_the_rows_of_a_file(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]) -> None:
    path = Path(tmp_path_factory.mktemp("lines")) / "rows.json"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    from_file = [row for df in FORMATS["json"].decoder(SKIP, FIELDS, (0, 1)).read(str(path)) for row in df.rows()]
    frame, places = FORMATS["json"].message_decoder(SKIP, FIELDS, (0, 1)).messages(lines)
    assert frame.rows() == from_file
    one_by_one = [FORMATS["json"].message_decoder(SKIP, FIELDS, (0, 1)).messages([line])[0].height for line in lines]
    assert places.tolist() == [i for i, count in enumerate(one_by_one) for _ in range(count)]

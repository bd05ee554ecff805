"""The JSON reader: what it accepts, what it says about the rest, and where everything stands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateplan.common.errors import PlanError
from stateplan.plans.jsontext import (
    MAX_DEPTH,
    SourceMap,
    decode,
    join_pointer,
    line_column,
    loads,
    scan,
    split_pointer,
)

# Text, code, line, column, a part of the whole message.
BAD = [
    ("", "PLAN010", 1, 1, "the file is empty"),
    (" \n\t", "PLAN010", 1, 1, "nothing but blanks"),
    ("{", "PLAN012", 1, 1, "opened at line 1, column 1 is not closed"),
    ('{"a": 1', "PLAN012", 1, 7, '"," or "}"'),
    ('{"a"', "PLAN012", 1, 4, '":" and the value of "a"'),
    ('{"a": ', "PLAN012", 1, 5, "a value"),
    ('{"a": "x', "PLAN012", 1, 7, "a text is not closed"),
    ('{"a": "x\\', "PLAN012", 1, 7, "a text is not closed"),
    ('{"a": "x\\u12', "PLAN012", 1, 7, "a text is not closed"),
    ('{"a": tr', "PLAN012", 1, 7, "the value tr is not complete"),
    ('{"a": -', "PLAN012", 1, 7, "a number is not complete"),
    ('{"a": 1e', "PLAN012", 1, 7, "a number is not complete"),
    ('{"a": [1, 2', "PLAN012", 1, 11, "the list opened at line 1, column 7"),
    ("SELECT 1", "PLAN011", 1, 1, 'this is not JSON: it begins with "SELECT"'),
    ("<html>", "PLAN011", 1, 1, 'begins with "<"'),
    ('{"a": 1,}', "PLAN011", 1, 8, 'a comma before "}"'),
    ("[1,]", "PLAN011", 1, 3, 'a comma before "]"'),
    ('{"a": 1 "b": 2}', "PLAN011", 1, 9, "a comma is missing"),
    ("[1 2]", "PLAN011", 1, 4, "a comma is missing"),
    ("\n insert INTO t SELECT 1", "PLAN011", 2, 2, "this is SQL: 'stateplan plan compile"),
    ("{'a': 1}", "PLAN011", 1, 2, "keys are written in double quotes"),
    ("{a: 1}", "PLAN011", 1, 2, "keys are written in double quotes"),
    ("{\"a\": 'x'}", "PLAN011", 1, 7, "texts are written in double quotes"),
    ('{"a": 1 h}', "PLAN011", 1, 9, '"," or "}"'),
    ('{"a": True}', "PLAN011", 1, 7, "did you mean true?"),
    ('{"a": None}', "PLAN011", 1, 7, "did you mean null?"),
    ('{"a": never}', "PLAN011", 1, 7, "a text stands in double quotes"),
    ('{"a": 007}', "PLAN011", 1, 7, "no leading zeros"),
    ('{"a": 1.}', "PLAN011", 1, 7, "1. is not a number"),
    ('{"a": 1.2.3}', "PLAN011", 1, 7, "1.2.3 is not a number"),
    ('{"a": 0x10}', "PLAN011", 1, 7, "0x10 is not a number"),
    ('{"a": 1_000}', "PLAN011", 1, 7, "1_000 is not a number"),
    ('{"a": +1}', "PLAN011", 1, 7, "begins with a digit or a minus"),
    ('{"a": .5}', "PLAN011", 1, 7, "begins with a digit or a minus"),
    ('{"a": 1} // end', "PLAN018", 1, 10, "after the end"),
    ('{"a": 1}}', "PLAN018", 1, 9, "the end of the file"),
    ('{"a": 1}{"a": 1}', "PLAN018", 1, 9, "after the end"),
    ('{// x\n"a": 1}', "PLAN011", 1, 2, "JSON has no comments"),
    ('{"a": 1, # x\n"b": 2}', "PLAN011", 1, 10, "JSON has no comments"),
    ('{\n  "a": 1,\n  "b": 2,\n  "a": 3\n}', "PLAN013", 4, 3, "it is first at line 2, column 3"),
    ('{"n": [{"x": 1, "x": 2}]}', "PLAN013", 1, 17, "at /n/0/x"),
    ('{"a": NaN}', "PLAN014", 1, 7, "NaN is not JSON"),
    ('{"a": [-Infinity]}', "PLAN014", 1, 8, "-Infinity is not JSON"),
    ('{"a": 1e999}', "PLAN016", 1, 7, "too large"),
    ('{"a": ' + "9" * 1001 + "}", "PLAN016", 1, 7, "1001 characters"),
    ('{"a": ' + "9" * 5000 + "}", "PLAN016", 1, 7, "5000 characters"),
    ('{"a": "x\ny"}', "PLAN011", 1, 7, "unterminated string"),
    ('{"a": "x\ty"}', "PLAN011", 1, 9, "control character U+0009"),
    ('{"a": "\\x41"}', "PLAN011", 1, 8, "unknown escape \\x"),
    ('{"a": "\\u00g1"}', "PLAN011", 1, 8, "unknown escape \\u"),
    ('{"a": "\\ud800"}', "PLAN017", 1, 7, "half of a surrogate pair"),
    ('{"a": "\ud800"}', "PLAN017", 1, 8, "half of a surrogate pair"),
    ("{\u201ca\u201d: 1}", "PLAN011", 1, 2, "straight double quotes"),
    ('{\u00a0"a": 1}', "PLAN011", 1, 2, "U+00A0 (no-break space)"),
    ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "PLAN015", 1, MAX_DEPTH + 1, "the JSON text is nested too deeply"),
    ("[" * 100_000, "PLAN015", 1, MAX_DEPTH + 1, "the JSON text is nested too deeply"),
    ('{"a":' * 100_000, "PLAN015", 1, 5 * MAX_DEPTH + 1, "the JSON text is nested too deeply"),
    ('{"a": 1,\r\n "b": x}', "PLAN011", 2, 7, "in double quotes"),
]


@pytest.mark.parametrize(("text", "code", "line", "column", "part"), BAD, ids=range(len(BAD)))
def test_bad_text_is_told_where_and_why(text: str, code: str, line: int, column: int, part: str) -> None:
    with pytest.raises(PlanError) as caught:
        loads(text, "plan.json")
    error = caught.value
    assert (error.code, error.place.line, error.place.column) == (code, line, column)
    assert error.place.file == "plan.json"
    assert error.expected
    assert part in str(error)
    assert len(str(error)) < 1500


def test_the_place_is_underlined_in_a_plan_on_one_line() -> None:
    text = '{"a": "' + "x" * 100_000 + '", "b": nope}'
    with pytest.raises(PlanError) as caught:
        loads(text)
    excerpt = caught.value.place.excerpt().splitlines()
    assert len(excerpt) == 2
    assert excerpt[0][excerpt[1].index("^") :].startswith("nope")


def test_depth_limit_does_not_depend_on_the_stack() -> None:
    text = "[" * MAX_DEPTH + "]" * MAX_DEPTH

    def deeper(n: int) -> object:
        return loads(text) if n == 0 else deeper(n - 1)

    assert deeper(0) == deeper(600)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(JSON, st.sampled_from([None, 2]), st.booleans())
@settings(max_examples=100, deadline=2000)
def test_both_readers_agree_with_the_standard_library(value: object, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert loads(text) == json.loads(text)
    scanned, locations = scan(text)
    assert scanned == value
    for pointer, location in locations.items():
        target = value
        for part in split_pointer(pointer):
            target = target[int(part)] if isinstance(target, list) else target[part]
        assert json.loads(text[location.value.start : location.value.end]) == target
        if location.key is not None:
            assert json.loads(text[location.key.start : location.key.end]) == split_pointer(pointer)[-1]


@given(st.text('{}[]",:\\ntrue0-1.eE+/ \n', max_size=30))
@settings(max_examples=300, deadline=2000)
def test_the_slow_reader_accepts_what_the_quick_one_accepts(text: str) -> None:
    try:
        expected = json.loads(text, object_pairs_hook=list)
    except ValueError:
        with pytest.raises(PlanError):
            scan(text)
        return
    try:
        scan(text)
    except PlanError as error:
        assert error.code in ("PLAN013", "PLAN014", "PLAN016"), (text, expected)


def test_line_and_column_count_every_kind_of_line_end() -> None:
    text = "a\r\nbc\rd\ne\u2028f"
    assert [line_column(text, text.index(c)) for c in "abdf"] == [(1, 1), (2, 1), (3, 1), (4, 3)]


def test_pointers_escape_slash_and_tilde() -> None:
    parts = ["configuration", "a/b~c", "0"]
    assert join_pointer(parts) == "/configuration/a~1b~0c/0"
    assert split_pointer(join_pointer(parts)) == parts


def test_a_missing_member_is_placed_at_the_key_of_the_object_around_it() -> None:
    text = '{\n  "nodes": [ {\n    "state": [ { "ttl": "1 h" } ]\n  } ]\n}'
    source = SourceMap(text, "p.json")
    place = source.place("/nodes/0/state/0/ttl")
    assert (place.line, place.column, place.length) == (3, 25, 5)
    place = source.place("/nodes/0/state", on_key=True)
    assert (place.line, place.column, place.length) == (3, 5, 7)
    place = source.place("/nodes/0/state/0/name")
    assert (place.line, place.column, place.pointer) == (3, 16, "/nodes/0/state/0/name")


@pytest.mark.parametrize(
    ("data", "part"),
    [
        ("{}".encode("utf-16"), "UTF-16"),
        ("{}".encode("utf-16-le"), "UTF-16"),
        ("{}".encode("utf-32"), "UTF-32"),
        ("{ }".encode("utf-16-be"), "UTF-16"),
        (b"\x1f\x8b\x08\x00", "gzip"),
        (b"PK\x03\x04....", "zip"),
    ],
)
def test_other_encodings_are_named(data: bytes, part: str) -> None:
    with pytest.raises(PlanError, match=part) as caught:
        decode(data, "plan.json")
    assert caught.value.code == "PLAN017"
    assert caught.value.hint
    assert str(caught.value.place) == "plan.json, line 1, column 1, at /"


def test_a_binary_file_is_not_quoted() -> None:
    with pytest.raises(PlanError) as caught:
        decode(b"\x7fELF\x02\x01\x01\x00\x00\xd0\x1b[31m", "plan.json")
    assert str(caught.value) == (
        "[PLAN017] the file is binary\n  --> plan.json, line 1, column 1, at /\n  expected: UTF-8 text"
    )


def test_a_byte_that_is_not_utf8_is_placed() -> None:
    with pytest.raises(PlanError, match="byte 0xE9") as caught:
        decode('{\n  "ä": "'.encode() + b'caf\xe9"}', "plan.json")
    assert (caught.value.place.line, caught.value.place.column) == (2, 12)
    with pytest.raises(PlanError) as caught:
        decode(b'{"a": [{}, {"b": "\xff"}]}')
    assert caught.value.place.pointer == "/a/1"


def test_a_byte_order_mark_is_taken_off_and_remembered() -> None:
    assert decode(b"\xef\xbb\xbf{}") == ("{}", True)
    assert decode(b"{}") == ("{}", False)


@pytest.mark.parametrize("name", ["join", "two_sinks"])
def test_one_value_is_found_without_reading_the_rest(name: str) -> None:
    text = "\n  " + (Path(__file__).parent / "data" / name / "plan.json").read_text() + " \n"
    source = SourceMap(text)
    found = {pointer: source.location(pointer) for pointer in scan(text)[1]}
    assert found == scan(text)[1]
    assert source.location("/nodes/99") is None
    assert source.location("/flinkVersion/0") is None
    assert "locations" not in vars(source)

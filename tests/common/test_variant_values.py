"""Values of VARIANT: their one spelling, and their parts."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.values.variants import VariantError, parse_variant, variant_part

SPELLINGS = {
    "1": "1",
    "-0": "0",
    "1.0": "1",
    "1.50": "1.5",
    "-0.0": "0",
    "100": "100",
    "1e3": "1000.0",
    "1.0e2": "100.0",
    "9223372036854775808": "9223372036854775808",
    "12345678901234567890.50": "12345678901234567890.5",
    "1234567890123456789012345678901234567890": "1.2345678901234568E39",
    ' { "b" : [ 1 , null ] , "a" : { } } ': '{"a":{},"b":[1,null]}',
    '{"b": 1, "B": 2, "\\u00e9": 3, "": 4}': '{"":4,"B":2,"b":1,"é":3}',
    '"\\u0001\\u001f\\/\\n\\ud83d\\ude00"': '"\\u0001\\u001F/\\n😀"',
    '"\\ud83d"': '"?"',
    "[1] ]": "[1]",
}


@pytest.mark.parametrize(("text", "spelling"), SPELLINGS.items())
def test_a_value_has_one_spelling(text: str, spelling: str) -> None:
    assert parse_variant(text) == spelling


@pytest.mark.parametrize(
    "text", ["", " ", "{bad", "[1,]", "1x", "truex", "NaN", "01", "1.", "'a'", '{"a":1,"a":1}', '"']
)
def test_what_is_no_json_is_no_value(text: str) -> None:
    with pytest.raises(VariantError):
        parse_variant(text)


def test_the_last_of_a_name_counts_where_it_may_be_twice() -> None:
    assert parse_variant('{"a":1,"b":2,"a":3}', duplicates=True) == '{"a":3,"b":2}'


def test_parts_keep_their_spelling() -> None:
    value = parse_variant('{"a": [1e3, 1.50, null, 1e400], "b": {"d": 1, "c": 2}}')
    items = variant_part(value, "a")
    assert items is not None
    assert [variant_part(items, i) for i in (0, 1, 2, 3, 4, 5, -1)] == [
        None,
        "1000.0",
        "1.5",
        "null",
        "Infinity",
        *[None] * 2,
    ]
    assert variant_part(value, "b") == '{"c":2,"d":1}'
    assert variant_part(value, "A") is None


@pytest.mark.parametrize(("value", "key"), [("5", 1), ("5", "a"), ("[1]", "a"), ('{"a":1}', 1), ("null", "a")])
def test_a_part_of_what_has_none_is_an_error(value: str, key: str | int) -> None:
    with pytest.raises(VariantError):
        variant_part(value, key)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


@given(_JSON)
def test_equal_values_are_equal_texts(value: object) -> None:
    spelled = parse_variant(json.dumps(value))
    assert parse_variant(json.dumps(value, indent=2, ensure_ascii=False)) == spelled == parse_variant(spelled)
    assert json.loads(spelled) == json.loads(json.dumps(value))
    if isinstance(value, dict):
        for name, part in value.items():
            assert variant_part(spelled, name) == parse_variant(json.dumps(part))

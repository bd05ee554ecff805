"""Lines and code units of an editor."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.editor.positions import LineMap, Span

TEXT = st.text(st.sampled_from("ab\n\r é😀\u2028\x0c"), max_size=30)


def test_an_emoji_is_two_units_of_utf_16_and_four_of_utf_8() -> None:
    text = "a😀b\r\né"
    assert LineMap(text).position(2) == (0, 3)
    assert LineMap(text, "utf-8").position(2) == (0, 5)
    assert LineMap(text, "utf-32").position(2) == (0, 2)
    assert LineMap(text).position(6) == (1, 1)


def test_only_line_breaks_end_a_line() -> None:
    assert LineMap("a\x0cb\u2028c").count == 1
    assert LineMap("a\rb\r\nc\nd").count == 4


def test_a_position_within_a_character_is_its_beginning() -> None:
    assert LineMap("😀b").offset(0, 1) == 0


def test_a_position_behind_the_end_is_the_end() -> None:
    lines = LineMap("ab\ncd")
    assert (lines.offset(0, 99), lines.offset(9, 0)) == (2, 5)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
@given(text=TEXT, data=st.data())
def test_positions_and_offsets_are_inverse(encoding: str, text: str, data: st.DataObject) -> None:
    lines = LineMap(text, encoding)
    offset = data.draw(st.integers(0, len(text)))
    if text[offset - 1 : offset + 1] != "\r\n":
        assert lines.offset(*lines.position(offset)) == offset


def test_the_place_of_an_error_counts_lines_that_lf_ends() -> None:
    assert LineMap("a\r\nbc\n").place(2, 2, 1) == Span(4, 5)

"""Many messages in one piece of memory, next to a list of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.types import parse_type
from stateplan.connectors.formats.messages import Messages
from stateplan.connectors.registry import find_format

SOME = st.lists(st.none() | st.binary(max_size=50) | st.sampled_from([b"a\nb", b"\n", b" "]), max_size=8)
GAPS = st.binary(min_size=1, max_size=80)


def spread(values: list[bytes | None], gaps: list[bytes]) -> Messages:
    """Messages with other bytes before, between and behind them, as they are in a log."""
    data, starts = b"", []
    for value, gap in zip(values, gaps[1:], strict=True):
        data += gaps[0] if not starts else b""
        starts.append(len(data))
        data += (value or b"") + gap
    sizes = np.array([-1 if value is None else len(value) for value in values], np.int64)
    return Messages(np.frombuffer(data, np.uint8), np.array(starts, np.int64), sizes)


@given(SOME, st.data())
def test_messages_are_a_list(values: list[bytes | None], data: st.DataObject) -> None:
    gaps = data.draw(st.lists(GAPS, min_size=len(values) + 1, max_size=len(values) + 1))
    a, b = (data.draw(st.integers(0, len(values))) for _ in range(2))
    chosen = np.array(data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values))), bool)
    for messages in (Messages.of(values), spread(values, gaps)):
        assert list(messages) == values
        assert len(messages) == len(values)
        assert list(messages[a:b]) == values[a:b]
        assert list(messages.chosen(chosen)) == [v for v, taken in zip(values, chosen, strict=True) if taken]
        assert messages.there.tolist() == [value is not None for value in values]
        assert [messages[i] for i in range(len(values))] == values
        assert Messages.of(messages) is messages


@given(SOME, st.data())
def test_messages_are_lines(values: list[bytes | None], data: st.DataObject) -> None:
    gaps = data.draw(st.lists(GAPS, min_size=len(values) + 1, max_size=len(values) + 1))
    for messages in (Messages.of(values), spread(values, gaps)):
        lines = messages.lines()
        if not values or None in values or any(b"\n" in value for value in values if value is not None):
            assert lines is None
            continue
        assert lines is not None
        texts = lines.data.split(b"\n")
        assert texts[0] == values[0]
        assert not texts[-1].strip(b" ")
        for text, value in zip(texts[1:], [*values[1:], b""], strict=True):
            assert value is not None
            assert text.endswith(value)
            assert not text[: len(text) - len(value)].strip(b" ")
        places = zip(lines.starts.tolist(), lines.ends.tolist(), strict=True)
        assert [lines.data[start:end] for start, end in places] == values
        assert list(messages) == values, "they are left as they are"


@pytest.mark.parametrize("name", ["json", "csv", "raw"])
def test_formats_read_messages_where_they_are(name: str) -> None:
    values = [f'{{"a": "{i}"}}'.encode() if i % 3 else None for i in range(200)]
    messages = spread(values, [bytes([i % 256, 10, 0]) * (1 + i % 40) for i in range(201)])
    fields = (("a", parse_type("STRING")),)
    options = {"connector": "kafka", "format": name}
    decoder = find_format(options, "source").message_decoder({}, fields, (0,))
    frame, places = decoder.messages(messages)
    wanted, at = decoder.messages(values)
    assert frame.equals(wanted)
    assert places.tolist() == at.tolist()
    if name == "json":
        assert frame["c0"].to_list() == [str(i) for i in range(200) if i % 3]

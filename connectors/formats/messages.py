"""The bytes of many messages in one piece, for decoders that read them without an object for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TypeAlias, overload

import numpy as np
import numpy.typing as npt

from stateplan.common.files import Lines

_NEWLINE, _SPACE = ord("\n"), ord(" ")
_STEPS = 32

Ints: TypeAlias = npt.NDArray[np.int64]


class Messages(Sequence[bytes | None]):
    """Messages in order. A message without a value is NULL.

    Args:
        data: shape (bytes,), uint8. Behind each message stands at least one byte that belongs to none.
        starts: shape (messages,), where each begins.
        sizes: shape (messages,), how many bytes it has; negative for NULL.
    """

    def __init__(self, data: npt.NDArray[np.uint8], starts: Ints, sizes: Ints) -> None:
        self.data, self.starts, self.sizes = data, starts, sizes

    @staticmethod
    def of(values: Sequence[bytes | None]) -> Messages:
        """Those of a list, or ``values`` if they are such already."""
        if isinstance(values, Messages):
            return values
        sizes = np.fromiter((-1 if value is None else len(value) for value in values), np.int64, len(values))
        data = b"\n".join([value or b"" for value in values]) + b"\n"
        spans = np.maximum(sizes, 0) + 1
        return Messages(np.frombuffer(data, np.uint8), np.cumsum(spans) - spans, sizes)

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, place: int) -> bytes | None: ...

    @overload
    def __getitem__(self, place: slice) -> Messages: ...

    def __getitem__(self, place: int | slice) -> bytes | Messages | None:
        return self._values[place] if isinstance(place, int) else self.chosen(place)

    def __iter__(self) -> Iterator[bytes | None]:
        return iter(self._values)

    @cached_property
    def _values(self) -> list[bytes | None]:
        if not len(self):
            return []
        first, sizes = int(self.starts[0]), self.sizes.tolist()
        data = self.data[first : self.starts[-1] + max(0, sizes[-1])].tobytes()
        starts = (self.starts - first).tolist()
        return [data[at : at + size] if size >= 0 else None for at, size in zip(starts, sizes, strict=True)]

    @cached_property
    def there(self) -> npt.NDArray[np.bool_]:
        """Shape (messages,), which are not NULL."""
        return self.sizes >= 0

    def chosen(self, places: slice | npt.NDArray[np.bool_]) -> Messages:
        """Some of the messages."""
        return Messages(self.data, self.starts[places], self.sizes[places])

    def lines(self) -> Lines | None:
        """The messages as lines of text, for a format to which spaces between lines mean nothing; None when there is
        none, when one is NULL or when one has several lines."""
        if not len(self) or not self.there.all():
            return None
        first = int(self.starts[0])
        starts = self.starts - first
        ends = starts + self.sizes
        text = self.data[first : first + int(ends[-1]) + 1].copy()
        _blank(text, ends, np.append(starts[1:], len(text)))
        return Lines(text.tobytes(), (starts, ends)) if np.count_nonzero(text == _NEWLINE) == len(self) else None


def _blank(text: npt.NDArray[np.uint8], starts: Ints, stops: Ints) -> None:
    """Makes each span of a text a newline and spaces. No span is empty."""
    text[starts] = _NEWLINE
    widths = stops - starts
    least = min(int(widths.min()), _STEPS)
    for i in range(1, least):
        text[starts + i] = _SPACE
    wide = widths > least
    starts, widths = starts[wide] + least, widths[wide] - least
    before = np.cumsum(widths) - widths
    text[np.arange(widths.sum()) + np.repeat(starts - before, widths)] = _SPACE

"""Rows as Python objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from stateplan.common.changelog import RowKind


class Row(tuple[Any, ...]):
    """A row: ``Row(1, 'a')``, or ``Row(id=1, name='a')`` with names.

    >>> r = Row(id=1, name="a")
    >>> r[0], r.name, r["name"]
    (1, 'a', 'a')
    """

    _names: tuple[str, ...]
    _kind: RowKind = RowKind.INSERT

    def __new__(cls, *values: Any, **fields: Any) -> Row:
        if values and fields:
            raise ValueError("a row takes values with names or without, not both")
        row = super().__new__(cls, fields.values() if fields else values)
        row._names = tuple(fields)
        return row

    @classmethod
    def of(cls, names: Sequence[str], values: Sequence[Any]) -> Row:
        """A row of these values, with names that need be no Python names."""
        row = tuple.__new__(cls, values)
        row._names = tuple(names)  # noqa: SLF001 - of this class
        return row

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(self._names.index(key) if isinstance(key, str) else key)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._names:
            raise AttributeError(f"the row has no field '{name}'")
        return super().__getitem__(self._names.index(name))

    def get_row_kind(self) -> RowKind:
        """What the row means in a changelog."""
        return self._kind

    def of_kind(self, kind: RowKind) -> Row:
        """The row, as a change of this kind."""
        self._kind = kind
        return self

    def as_dict(self) -> dict[str, Any]:
        """The values by name."""
        return dict(zip(self._names, self, strict=False))

    def __repr__(self) -> str:
        if not self._names:
            return f"Row({', '.join(map(repr, self))})"
        return f"Row({', '.join(f'{n}={v!r}' for n, v in zip(self._names, self, strict=True))})"


class RowAccumulator:
    """A row as the accumulator of an aggregate function, whose fields the function sets, as PyFlink's functions do.

    >>> acc = RowAccumulator.of(Row(total=0, count=0))
    >>> acc[0] += 5
    >>> acc.count += 1
    >>> acc.row()
    Row(total=5, count=1)
    """

    __slots__ = ("_names", "_values")

    _names: tuple[str, ...]
    _values: list[Any]

    @classmethod
    def of(cls, row: Row) -> RowAccumulator:
        """The accumulator with the values and names of a row."""
        accumulator = cls()
        object.__setattr__(accumulator, "_names", row._names)  # noqa: SLF001 - rows of this module
        object.__setattr__(accumulator, "_values", list(row))
        return accumulator

    def row(self) -> Row:
        """Its values as a row."""
        return Row.of(self._names, self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __getitem__(self, key: Any) -> Any:
        return self._values[self._names.index(key) if isinstance(key, str) else key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._values[self._names.index(key) if isinstance(key, str) else key] = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._names:
            raise AttributeError(f"the row has no field '{name}'")
        return self[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._names:
            raise AttributeError(f"the row has no field '{name}'")
        self[name] = value

    def __repr__(self) -> str:
        return repr(self.row())

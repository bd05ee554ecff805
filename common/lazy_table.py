"""Values by name, of modules that load when a value is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from pkgutil import resolve_name
from typing import Any, TypeVar

T = TypeVar("T")


class LazyTable(MutableMapping[str, T]):
    """A mapping whose values are made at their first use. To look at its keys loads nothing.

    Args:
        places: key to ``module:object``, as entry points of packages are written.
        make: makes the value of the key and of that object.
    """

    def __init__(self, places: Mapping[str, str], make: Callable[[str, Any], T]) -> None:
        self._places = dict(places)
        self._make = make
        self._values: dict[str, T] = {}

    def __getitem__(self, key: str) -> T:
        if key not in self._values:
            self._values[key] = self._make(key, resolve_name(self._places[key]))
        return self._values[key]

    def __setitem__(self, key: str, value: T) -> None:
        self._values[key] = value
        self._places.setdefault(key, "")

    def __delitem__(self, key: str) -> None:
        del self._places[key]
        self._values.pop(key, None)

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

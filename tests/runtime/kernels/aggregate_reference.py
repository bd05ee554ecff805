"""Aggregate functions value by value, as Flink's classes of the same names."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any


class Function:
    """One accumulator: ``add`` and ``take`` a tuple of arguments; ``value`` is the result."""

    nulls = False

    def add(self, *values: Any) -> None:
        raise NotImplementedError

    def take(self, *values: Any) -> None:
        raise NotImplementedError

    def value(self) -> Any:
        raise NotImplementedError


class _List(Function):
    """ListView based functions: retracting removes the first equal value."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.separator = ","

    def add(self, *values: Any) -> None:
        self.items.append(values[0])
        if len(values) > 1:
            self.separator = values[1]

    def take(self, *values: Any) -> None:
        if values[0] in self.items:
            self.items.remove(values[0])
        if len(values) > 1:
            self.separator = values[1]


class FirstValue(_List):
    def value(self) -> Any:
        return self.items[0] if self.items else None


class LastValue(_List):
    def value(self) -> Any:
        return self.items[-1] if self.items else None


class ListAgg(_List):
    def value(self) -> Any:
        return self.separator.join(self.items) if self.items else None


class ArrayAgg(_List):
    nulls = True

    def value(self) -> Any:
        return list(self.items) or None


class JsonArray(_List):
    nulls = True

    def value(self) -> Any:
        return "[" + ",".join("null" if i is None else i for i in self.items) + "]"


class JsonArrayAbsent(JsonArray):
    nulls = False


class Collect(Function):
    def __init__(self) -> None:
        self.counts: dict[Any, int] = {}

    def _step(self, value: Any, step: int) -> None:
        self.counts[value] = self.counts.get(value, 0) + step
        if self.counts[value] == 0:
            del self.counts[value]

    def add(self, *values: Any) -> None:
        self._step(values[0], 1)

    def take(self, *values: Any) -> None:
        self._step(values[0], -1)

    def value(self) -> Any:
        return sorted(({"key": k, "value": n} for k, n in self.counts.items()), key=lambda e: str(e["key"]))


class JsonObject(Function):
    nulls = True

    def __init__(self) -> None:
        self.items: dict[str, str | None] = {}

    def add(self, *values: Any) -> None:
        self.items[values[0]] = values[1]

    def take(self, *values: Any) -> None:
        self.items.pop(values[0], None)

    def value(self) -> Any:
        shown = {k: "null" if v is None else v for k, v in sorted(self.items.items()) if self.shows(v)}
        return "{" + ",".join(f"{json.dumps(k)}:{v}" for k, v in shown.items()) + "}"

    def shows(self, value: str | None) -> bool:
        return True


class JsonObjectAbsent(JsonObject):
    def shows(self, value: str | None) -> bool:
        return value is not None


class Welford(Function):
    def __init__(self) -> None:
        self.n, self.mean, self.m2 = 0, 0.0, 0.0

    def add(self, *values: Any) -> None:
        self.n += 1
        delta = values[0] - self.mean
        self.mean += delta / self.n
        self.m2 += delta * (values[0] - self.mean)

    def take(self, *values: Any) -> None:
        self.n -= 1
        if self.n == 0:
            self.mean = self.m2 = 0.0
            return
        delta = values[0] - self.mean
        self.mean -= delta / self.n
        self.m2 -= delta * (values[0] - self.mean)

    def value(self) -> Any:
        return self.m2 if self.n > 0 else None


class Percentile(Function):
    """The values with their numbers; the percentages of the first row."""

    nulls = True

    def __init__(self) -> None:
        self.counts: dict[float, int] = {}
        self.percentages: Any = None

    def add(self, *values: Any) -> None:
        if self.percentages is None:
            self.percentages = values[1]
        self._step(1, *values)

    def take(self, *values: Any) -> None:
        self._step(-1, *values)

    def _step(self, sign: int, value: Any, percentage: Any, frequency: Any = 1) -> None:
        if value is None or frequency is None or frequency <= 0:
            return
        self.counts[value] = self.counts.get(value, 0) + sign * frequency
        if self.counts[value] == 0:
            del self.counts[value]

    def value(self) -> Any:
        items = [float(v) for v in sorted(self.counts) for _ in range(self.counts[v])]
        if self.percentages is None or not items:
            return None
        if isinstance(self.percentages, list):
            return [self._at(items, p) for p in self.percentages]
        return self._at(items, self.percentages)

    @staticmethod
    def _at(items: list[float], percentage: float) -> float:
        at = percentage * (len(items) - 1)
        low = math.floor(at)
        high = math.ceil(at)
        return items[low] if low == high else (high - at) * items[low] + (at - low) * items[high]


FUNCTIONS: dict[str, Callable[[], Function]] = {
    "FIRST_VALUE": FirstValue,
    "LAST_VALUE": LastValue,
    "LISTAGG": ListAgg,
    "ARRAY_AGG": ArrayAgg,
    "COLLECT": Collect,
    "JSON_ARRAYAGG_NULL_ON_NULL": JsonArray,
    "JSON_ARRAYAGG_ABSENT_ON_NULL": JsonArrayAbsent,
    "JSON_OBJECTAGG_NULL_ON_NULL": JsonObject,
    "JSON_OBJECTAGG_ABSENT_ON_NULL": JsonObjectAbsent,
    "PERCENTILE": Percentile,
    "$WELFORD_M2$1": Welford,
}


class Slow:
    """A call in a group: past its filter, DISTINCT values once, NULLs where they count."""

    def __init__(self, name: str, arguments: tuple[int, ...], distinct: bool = False, passes: int = -1) -> None:
        self.function = FUNCTIONS[name]()
        self.arguments, self.distinct, self.passes = arguments, distinct, passes
        self.seen: dict[Any, int] = {}

    def change(self, row: tuple[Any, ...], sign: int) -> None:
        if self.passes >= 0 and row[self.passes] is not True:
            return
        values = [row[a] for a in self.arguments]
        if self.distinct:
            count = self.seen.get(values[0], 0) + sign
            self.seen[values[0]] = count
            if count != (1 if sign > 0 else 0):
                return
        if values[0] is None and not self.function.nulls:
            return
        (self.function.add if sign > 0 else self.function.take)(*values)

    def value(self) -> Any:
        return self.function.value()

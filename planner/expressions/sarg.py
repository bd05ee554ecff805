"""Search arguments: the set of values that a SEARCH call looks for.

Source: Calcite's ``Sarg`` over Guava's ``RangeSet``. Values are the JSON values of plan literals; ``key`` says how
they compare.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, Literal

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType

NullAs = Literal["TRUE", "FALSE", "UNKNOWN"]
NEGATED_NULL: dict[NullAs, NullAs] = {"TRUE": "FALSE", "FALSE": "TRUE", "UNKNOWN": "UNKNOWN"}


def value_key(type: LogicalType) -> Callable[[Any], Any]:  # noqa: A002
    """How JSON values of this type compare."""
    if type.is_numeric or type.root in ("INTERVAL_DAY_TIME", "INTERVAL_YEAR_MONTH"):
        return lambda v: Decimal(str(v))
    return lambda v: v


@dataclass(frozen=True)
class Range:
    """Values between two ends; an end that is None is open to infinity."""

    lower: Any = None
    lower_closed: bool = False
    upper: Any = None
    upper_closed: bool = False

    @property
    def is_point(self) -> bool:
        return self.lower is not None and self.lower_closed and self.upper_closed and self.lower == self.upper

    @property
    def is_all(self) -> bool:
        return self.lower is None and self.upper is None

    @classmethod
    def of(cls, comparison: str, value: Any) -> list[Range]:
        """The values for which ``x comparison value`` holds."""
        table = {
            "=": [cls(value, True, value, True)],
            "<": [cls(None, False, value, False)],
            ">": [cls(value, False)],
            "<=": [cls(None, False, value, True)],
            ">=": [cls(value, True)],
            "<>": [cls(None, False, value, False), cls(value, False)],
        }
        return table[comparison]


ALL = Range()


class RangeSet:
    """Disjoint ranges in ascending order, touching ones merged."""

    def __init__(self, key: Callable[[Any], Any], ranges: Iterable[Range] = ()) -> None:
        self.key = key
        self.ranges: list[Range] = []
        for r in ranges:
            self.add(r)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RangeSet) and self._keys() == other._keys()

    __hash__ = None  # type: ignore[assignment] # not hashable

    def _keys(self) -> list[tuple[Any, ...]]:
        return [self._lower(r) + self._upper(r) for r in self.ranges]

    def _lower(self, r: Range) -> tuple[Any, ...]:
        return (0,) if r.lower is None else (1, self.key(r.lower), 0 if r.lower_closed else 1)

    def _upper(self, r: Range) -> tuple[Any, ...]:
        return (2,) if r.upper is None else (1, self.key(r.upper), 1 if r.upper_closed else 0)

    def _is_empty(self, r: Range) -> bool:
        if r.lower is None or r.upper is None:
            return False
        low, high = self.key(r.lower), self.key(r.upper)
        return bool(low > high or (low == high and not (r.lower_closed and r.upper_closed)))

    def _connected(self, a: Range, b: Range) -> bool:
        """Whether ``b``, which does not begin before ``a``, overlaps or touches it."""
        if a.upper is None or b.lower is None:
            return True
        end, begin = self.key(a.upper), self.key(b.lower)
        return bool(begin < end or (begin == end and (a.upper_closed or b.lower_closed)))

    def add(self, r: Range) -> None:
        if self._is_empty(r):
            return
        first = stop = bisect_right(self.ranges, self._lower(r), key=self._lower)
        if first and self._connected(self.ranges[first - 1], r):
            first -= 1
            r = self._union(self.ranges[first], r)
        while stop < len(self.ranges) and self._connected(r, self.ranges[stop]):
            r = self._union(r, self.ranges[stop])
            stop += 1
        self.ranges[first:stop] = [r]

    def include(self, other: RangeSet) -> None:
        """Adds the ranges of another set."""
        for r in other.ranges:
            self.add(r)

    def _union(self, a: Range, b: Range) -> Range:
        """Both as one range; ``b`` overlaps or touches ``a``, and does not begin before it."""
        if self._upper(b) <= self._upper(a):
            return a
        return Range(a.lower, a.lower_closed, b.upper, b.upper_closed)

    def complement(self) -> RangeSet:
        out = RangeSet(self.key)
        begin: tuple[Any, bool] | None = (None, False)
        for r in self.ranges:
            if r.lower is not None and begin is not None:
                gap = Range(begin[0], begin[1], r.lower, not r.lower_closed)
                if not self._is_empty(gap):
                    out.ranges.append(gap)
            begin = None if r.upper is None else (r.upper, not r.upper_closed)
        if begin is not None:
            out.ranges.append(Range(begin[0], begin[1]))
        return out

    def intersect(self, other: RangeSet) -> RangeSet:
        out = self.complement()
        out.include(other.complement())
        return out.complement()

    @property
    def is_all(self) -> bool:
        return len(self.ranges) == 1 and self.ranges[0].is_all

    @property
    def is_empty(self) -> bool:
        return not self.ranges


@dataclass(frozen=True)
class Sarg:
    """Ranges, and what NULL gives."""

    ranges: tuple[Range, ...]
    null_as: NullAs
    key: Callable[[Any], Any]

    @classmethod
    def of(cls, null_as: NullAs, ranges: RangeSet) -> Sarg:
        return cls(tuple(ranges.ranges), null_as, ranges.key)

    @classmethod
    def from_json(cls, value: Any, type: LogicalType) -> Sarg:  # noqa: A002
        """From a plan's ``sarg``."""
        out = []
        for r in value["ranges"]:
            low, high = r.get("lower"), r.get("upper")
            out.append(
                Range(
                    low["value"] if low else None,
                    bool(low) and low["boundType"] == "CLOSED",
                    high["value"] if high else None,
                    bool(high) and high["boundType"] == "CLOSED",
                )
            )
        return cls(tuple(out), value.get("nullAs", "UNKNOWN"), value_key(type))

    def to_json(self) -> dict[str, Any]:
        """As a plan's literal has it."""
        out = []
        for r in self.ranges:
            entry: dict[str, Any] = {}
            for side, value, closed in (("lower", r.lower, r.lower_closed), ("upper", r.upper, r.upper_closed)):
                if value is not None:
                    entry[side] = {"value": value, "boundType": "CLOSED" if closed else "OPEN"}
            out.append(entry)
        return {"ranges": out, "nullAs": self.null_as}

    @property
    def range_set(self) -> RangeSet:
        out = RangeSet(self.key)
        out.ranges = list(self.ranges)
        return out

    def negate(self) -> Sarg:
        return Sarg.of(NEGATED_NULL[self.null_as], self.range_set.complement())

    @property
    def is_points(self) -> bool:
        return all(r.is_point for r in self.ranges)

    @property
    def is_complemented_points(self) -> bool:
        outside = self.range_set.complement().ranges
        return bool(outside) and all(r.is_point for r in outside)

    @property
    def is_open_interval(self) -> bool:
        """One range without a lower or without an upper end."""
        if len(self.ranges) != 1:
            return False
        r = self.ranges[0]
        return r.lower is None or r.upper is None

    @property
    def is_simple(self) -> bool:
        return self.is_points or self.is_open_interval or self.is_complemented_points

    @property
    def complexity(self) -> int:
        outside = self.range_set.complement().ranges
        one = len(self.ranges) == 2 and len(outside) == 1 and outside[0].is_point
        return (1 if one else len(self.ranges)) + (self.null_as == "TRUE")

    @property
    def is_none(self) -> bool:
        """No value is in it; what NULL gives is another matter."""
        return not self.ranges

    @property
    def is_all(self) -> bool:
        """Every value is in it; what NULL gives is another matter."""
        return self.range_set.is_all

"""Aggregate functions: names, plan identity, result types.

Sources: Calcite's ``SqlAggFunction`` return types as Flink's type system derives them (``deriveSumType``,
``deriveAvgAggType``); checked against types Flink 2.3 inferred.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stateplan.common.errors import Place, SqlError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import BIGINT, DOUBLE, LogicalType
from stateplan.functions.table import wrong_count
from stateplan.functions.typerules import decimal, decimal_divide, family

AggregateRule = Callable[[Sequence[LogicalType]], LogicalType]


@dataclass(frozen=True)
class AggregateFunction:
    """One aggregate function.

    Attributes:
        name: SQL name.
        returns: the result type from the operand types, without its nullability.
        takes: operand families; one operand each unless ``operands`` says otherwise.
        never_null: whether the result is NOT NULL always (COUNT, $SUM0).
        always_nullable: whether the result may be NULL whatever the operands are.
        of_operands: whether the type of the result allows NULL only if that of an operand does, even without any row.
        syntax: ``syntax`` of a plan's aggregate call; None for FUNCTION.
        min_operands, max_operands: how many operands there may be; -1 for any number.
        mergeable: whether accumulators can be merged, which aggregates in two phases need.
        reason: why it is not supported; None when it is.
    """

    name: str
    returns: AggregateRule
    takes: tuple[str, ...] = ("ANY",)
    never_null: bool = False
    always_nullable: bool = False
    of_operands: bool = False
    syntax: str | None = None
    min_operands: int = 1
    max_operands: int = 1
    mergeable: bool = False
    reason: str | None = None

    @property
    def plan_name(self) -> str:
        return self.name

    @property
    def internal_name(self) -> str:
        """``$SUM$1``; ``$$SUM0$1`` of ``$SUM0``."""
        return f"${self.name}$1"

    @property
    def supported(self) -> bool:
        return self.reason is None

    @property
    def signature(self) -> str:
        """``SUM(<NUMERIC>)``."""
        star = "* or " if self.min_operands == 0 else ""
        return f"{self.name}({star}<{'|'.join(self.takes)}>)"

    def infer(
        self, types: Sequence[LogicalType], place: Place | None = None, *, grouped: bool = True, filtered: bool = False
    ) -> LogicalType:
        """The result type.

        Args:
            types: operand types; none for COUNT(*).
            grouped: whether there is a GROUP BY key: without one an empty input returns one row, of NULLs.
            filtered: whether the call has a FILTER, which may leave it no row.

        Raises:
            SqlError: SQL201 (not supported), SQL202 (operand count), SQL203 (operand types), at ``place``.
        """
        if self.reason is not None:
            raise SqlError("SQL201", name=self.name, reason=self.reason, place=place)
        if len(types) < self.min_operands or (self.max_operands >= 0 and len(types) > self.max_operands):
            raise wrong_count(self.name, len(types), self.signature, place)
        if "ANY" not in self.takes and any(family(t) not in self.takes for t in types):
            type_texts = ", ".join(t.summary() for t in types)
            raise SqlError("SQL203", name=self.name, types=type_texts, place=place, expected=self.signature)
        result = self.returns(types)
        if self.never_null:
            return result.not_null()
        without_rows = not self.of_operands and (not grouped or filtered)
        return result.as_nullable(self.always_nullable or without_rows or any(t.nullable for t in types))


def _argument(types: Sequence[LogicalType]) -> LogicalType:
    t = types[0]
    return LogicalType(t.root, t.nullable, precision=t.precision) if t.kind else t


def _operand(types: Sequence[LogicalType]) -> LogicalType:
    """The type of the operand; one of several times is a time attribute, as in Flink, until what is grouped is
    materialized."""
    return types[0]


def _sum(types: Sequence[LogicalType]) -> LogicalType:
    t = types[0]
    return decimal(38, t.scale or 0) if t.root == "DECIMAL" else t


def _average(types: Sequence[LogicalType]) -> LogicalType:
    t = types[0]
    return decimal_divide(decimal(38, t.scale or 0), decimal(20, 0)) if t.root == "DECIMAL" else t


def _multiset(types: Sequence[LogicalType]) -> LogicalType:
    return LogicalType("MULTISET", children=(_argument(types),))


def _array(types: Sequence[LogicalType]) -> LogicalType:
    return LogicalType("ARRAY", children=(_argument(types),))


def _percentile(types: Sequence[LogicalType]) -> LogicalType:
    return LogicalType("ARRAY", children=(DOUBLE,)) if types[1].root == "ARRAY" else DOUBLE


def _always(t: LogicalType) -> AggregateRule:
    return lambda types: t


_COUNT, _JSON = _always(BIGINT), _always(LogicalType("VARCHAR", length=2000))

VARIANCES = {
    "VAR_POP": (False, False),
    "VAR_SAMP": (True, False),
    "VARIANCE": (True, False),
    "STDDEV_POP": (False, True),
    "STDDEV_SAMP": (True, True),
    "STDDEV": (True, True),
}
"""Functions that are written with the sum of squared differences: whether of a sample, and whether its root."""

WELFORD = "$WELFORD_M2$1"
"""The sum of the squared differences from the mean."""

_COMPARABLE = ("NUMERIC", "CHARACTER", "BOOLEAN", "DATE", "TIME", "TIMESTAMP", "BINARY")
_BITMAP = "the BITMAP type is not available"

_UNSUPPORTED = {
    "APPROX_COUNT_DISTINCT": "Flink supports it only in batch queries",
    **{f"BITMAP_{name}{part}_AGG": _BITMAP for name in ("AND", "BUILD", "OR", "XOR") for part in ("", "_CARDINALITY")},
}

_TABLE = {
    function.name: function
    for function in (
        AggregateFunction(
            "COUNT", _COUNT, never_null=True, syntax="FUNCTION_STAR", min_operands=0, max_operands=-1, mergeable=True
        ),
        AggregateFunction("SUM", _sum, ("NUMERIC",), mergeable=True),
        AggregateFunction("$SUM0", _sum, ("NUMERIC",), never_null=True, mergeable=True),
        AggregateFunction("MIN", _operand, _COMPARABLE, mergeable=True),
        AggregateFunction("MAX", _operand, _COMPARABLE, mergeable=True),
        AggregateFunction("SINGLE_VALUE", _argument),
        AggregateFunction("AVG", _average, ("NUMERIC",), mergeable=True),
        AggregateFunction("FIRST_VALUE", _operand),
        AggregateFunction("LAST_VALUE", _operand),
        AggregateFunction("LISTAGG", _argument, ("CHARACTER",), of_operands=True, max_operands=2, mergeable=True),
        AggregateFunction("COLLECT", _multiset, never_null=True, mergeable=True),
        AggregateFunction("ARRAY_AGG", _array, of_operands=True, mergeable=True),
        AggregateFunction(
            "PERCENTILE",
            _percentile,
            ("NUMERIC", "ARRAY"),
            always_nullable=True,
            min_operands=2,
            max_operands=3,
            mergeable=True,
        ),
        *(AggregateFunction(name, _average, ("NUMERIC",)) for name in VARIANCES),
        AggregateFunction("GROUPING", _COUNT, never_null=True, max_operands=-1),
        AggregateFunction("GROUPING_ID", _COUNT, never_null=True, max_operands=-1),
        AggregateFunction("GROUP_ID", _COUNT, never_null=True, min_operands=0, max_operands=0),
        AggregateFunction(WELFORD, _always(DOUBLE), ("NUMERIC",), mergeable=True),
        *(
            AggregateFunction(f"{name}{on_null}", _JSON, never_null=True, min_operands=n, max_operands=n)
            for name, n in (("JSON_OBJECTAGG", 2), ("JSON_ARRAYAGG", 1))
            for on_null in ("", "_NULL_ON_NULL", "_ABSENT_ON_NULL")
        ),
        *(AggregateFunction(name, _argument, reason=reason) for name, reason in _UNSUPPORTED.items()),
    )
}


def find_aggregate(name: str) -> AggregateFunction | None:
    """The aggregate function with this SQL name (any case), or None."""
    return _TABLE.get(name.upper())


def is_aggregate(name: str) -> bool:
    """Whether this is the name of an aggregate function of Flink, supported or not."""
    return name.upper() in _TABLE


def is_mergeable(name: str) -> bool:
    """Whether the accumulators of a function, by its name in plans, can be merged."""
    function = _TABLE.get(name)
    return function is not None and function.mergeable


def aggregate_names() -> list[str]:
    """SQL names, sorted, without internal ones."""
    return sorted(name for name in _TABLE if name[0].isalpha() and "_ON_NULL" not in name)


def aggregates() -> list[AggregateFunction]:
    """All aggregate functions, by name."""
    return [_TABLE[name] for name in sorted(_TABLE)]

"""The table of scalar functions: one :class:`ScalarFunction` per function of Flink SQL, by name.

The rows are in the family modules (``arithmetic``, ``comparison``, ``conditional``, ``mathematical``, ``text``,
``temporal``, ``collection``, ``json``, ``unsupported``); how a function is evaluated is in
``stateplan.functions.render``, under the function's plan name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from stateplan.common.errors import Place, SqlError, nearest
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.functions.foreign_functions import REPLACEMENTS
from stateplan.functions.rex import Literal, Rex
from stateplan.functions.typerules import family

TypeRule = Callable[[Sequence[Rex]], LogicalType]
"""From operands (their types and, where constant, their values) to the result type, nullability included."""

Coercion = Callable[[Sequence[Rex]], Sequence[Rex]]
Rewrite = Callable[[Sequence[Rex], "Place | None"], Rex]


@dataclass(frozen=True)
class ScalarFunction:
    """One function or operator.

    Attributes:
        name: key in the table, upper case.
        takes: operand families by position (see :func:`accepts`), ``|`` between alternatives.
        returns: type rule.
        optional: how many of the last ``takes`` may be omitted.
        variadic: whether the last of ``takes`` may be repeated.
        plan: name in a plan (``$<plan>$1``) where it differs from ``name``.
        syntax: ``syntax`` of a plan's CALL; None for FUNCTION.
        coerce: inserts the casts Flink inserts; None for none.
        rewrite: for SQL forms that Flink writes as other calls: builds them from the operands.
        aliases: further SQL names.
        nulls: whether an untyped NULL may be an operand.
        reason: why the function is not supported; None when it is.
        deterministic: whether equal operands give equal results, at any time.
    """

    name: str
    takes: tuple[str, ...]
    returns: TypeRule
    optional: int = 0
    variadic: bool = False
    plan: str = ""
    syntax: str | None = None
    coerce: Coercion | None = None
    rewrite: Rewrite | None = None
    aliases: tuple[str, ...] = ()
    nulls: bool = False
    reason: str | None = None
    deterministic: bool = True

    @property
    def plan_name(self) -> str:
        return self.plan or self.name

    @property
    def internal_name(self) -> str:
        """``$UPPER$1``."""
        return f"${self.plan_name}$1"

    @property
    def supported(self) -> bool:
        return self.reason is None

    @property
    def signature(self) -> str:
        """``SUBSTRING(<CHARACTER>, <INTEGER>[, <INTEGER>])``."""
        parameters = [f"<{t}>" for t in self.takes]
        required_count = len(parameters) - self.optional
        text = ", ".join(parameters[:required_count])
        for extra in parameters[required_count:]:
            text += f"[{', ' if text else ''}{extra}]"
        return f"{self.name}({text}{', ...' if self.variadic else ''})"

    def check(self, operands: Sequence[Rex], place: Place | None = None) -> None:
        """Raises SqlError SQL201 (not supported), SQL202 (operand count) or SQL203 (operand types)."""
        if self.reason is not None:
            raise SqlError("SQL201", name=self.name, reason=self.reason, place=place)
        required_count = len(self.takes) - self.optional
        count = len(operands)
        if count < required_count or (count > len(self.takes) and not self.variadic):
            raise wrong_count(self.name, count, self.signature, place)
        for index, operand in enumerate(operands):
            parameter = self.takes[min(index, len(self.takes) - 1)]
            if operand.type.root == "NULL" and isinstance(operand, Literal):
                if self.nulls:
                    continue
                raise SqlError(
                    "SQL203.untyped", what=f"argument {index + 1} of {self.name}", place=place, expected=self.signature
                )
            if not accepts(parameter, operand):
                type_texts = ", ".join(o.type.summary() for o in operands)
                raise SqlError(
                    "SQL203.operand",
                    name=self.name,
                    types=type_texts,
                    position=index + 1,
                    type=operand.type,
                    place=place,
                    expected=self.signature,
                    hint=_TEXT_HINTS.get(self.name) if operand.type.is_string else None,
                )


_TEXT_HINTS = {"+": "write a || b to join texts"}
"""What an operator that takes no text means in other dialects."""


def wrong_count(name: str, count: int, expectation: str, place: Place | None) -> SqlError:
    """SQL202: a function does not take this number of operands."""
    return SqlError("SQL202", name=name, count=count, place=place, expected=expectation)


_FAMILY_ROOTS = {
    "INTEGER": ("TINYINT", "SMALLINT", "INTEGER", "BIGINT"),
    "INT": ("TINYINT", "SMALLINT", "INTEGER"),
    "EXACT": ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "DECIMAL"),
    "DATETIME": ("DATE", "TIME_WITHOUT_TIME_ZONE", "TIMESTAMP_WITHOUT_TIME_ZONE", "TIMESTAMP_WITH_LOCAL_TIME_ZONE"),
    "INTERVAL": ("INTERVAL_DAY_TIME", "INTERVAL_YEAR_MONTH"),
    "INTERVAL_DAY": ("INTERVAL_DAY_TIME",),
}


def accepts(parameter: str, operand: Rex) -> bool:
    """Whether ``operand`` is of one of the families in ``parameter``, such as ``NUMERIC|INTERVAL``.

    ANY accepts all; INTEGER, INT, EXACT, DATETIME and INTERVAL are groups of types; LITERAL accepts constants only;
    JSON accepts what JSON is made of; others are families of :func:`functions.typerules.family` or type
    roots.
    """
    root = operand.type.root
    for option in parameter.split("|"):
        if option == "ANY" or option == root or option == family(operand.type):
            return True
        if root in _FAMILY_ROOTS.get(option, ()):
            return True
        if option == "JSON" and _makes_json(operand.type):
            return True
        if option == "LITERAL" and isinstance(operand, Literal) and operand.symbol is None:
            return True
    return False


_NO_JSON = frozenset({*_FAMILY_ROOTS["INTERVAL"], "DATE", "TIME_WITHOUT_TIME_ZONE", "SYMBOL"})


def _makes_json(t: LogicalType) -> bool:
    """Whether Flink makes JSON of values of a type: not of days and times of day, nor of maps whose keys are not
    texts."""
    if t.root in _NO_JSON or (t.root in ("MAP", "MULTISET") and not t.children[0].is_string):
        return False
    return all(map(_makes_json, (*t.children, *(f.type for f in t.fields))))


_TABLE: dict[str, ScalarFunction] = {}
_ALIASES: dict[str, str] = {}


def register(rows: Iterable[ScalarFunction]) -> None:
    """Adds rows to the table; a name may be taken once."""
    for row in rows:
        for name in (row.name, *row.aliases):
            if name in _TABLE or name in _ALIASES:
                raise ValueError(f"function {name} is in the table twice")
        _TABLE[row.name] = row
        _ALIASES.update(dict.fromkeys(row.aliases, row.name))


def functions() -> list[ScalarFunction]:
    """All rows, by name."""
    return [_TABLE[name] for name in sorted(_TABLE)]


def non_deterministic() -> frozenset[str]:
    """The names in plans of the functions that are not deterministic, or only within one query."""
    return frozenset(row.plan_name for row in _TABLE.values() if not row.deterministic)


def names() -> list[str]:
    """All SQL names, aliases included, sorted."""
    return sorted([*_TABLE, *_ALIASES])


def find_scalar(name: str) -> ScalarFunction | None:
    """The function with this SQL name (any case), or None."""
    key = name.upper()
    return _TABLE.get(_ALIASES.get(key, key))


def unknown_function(name: str, candidates: Iterable[str], place: Place | None = None) -> SqlError:
    """SQL200, with what other databases call so, or naming the nearest function."""
    hint = REPLACEMENTS.get(name.upper()) or nearest(name, [c for c in candidates if c[0].isalpha()])
    return SqlError("SQL200", name=name.upper(), place=place, hint=hint)


def any_nullable(operands: Sequence[Rex]) -> bool:
    """Whether an operand is nullable; symbols are not values."""
    return any(o.type.nullable for o in operands if o.type.root != "SYMBOL")


def always(t: LogicalType, nullable: bool | None = None) -> TypeRule:
    """Always ``t``; nullable if an operand is, or as ``nullable`` says."""

    def rule(operands: Sequence[Rex]) -> LogicalType:
        return t.as_nullable(any_nullable(operands) if nullable is None else nullable)

    return rule


def forced_nullable(t: LogicalType) -> TypeRule:
    """Always ``t``, nullable."""
    return always(t, True)


def argument(index: int, nullable: bool | None = None) -> TypeRule:
    """The type of operand ``index``; nullable if any operand is, or as ``nullable`` says."""

    def rule(operands: Sequence[Rex]) -> LogicalType:
        t = operands[index].type
        return t.as_nullable(any_nullable(operands) if nullable is None else nullable)

    return rule

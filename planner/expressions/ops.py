"""Building, splitting and comparing row expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from stateplan.common.errors import Place
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import BOOLEAN, LogicalType
from stateplan.functions.rex import Call, CorrelVariable, FieldAccess, InputRef, Literal, Rex, input_refs
from stateplan.functions.table import non_deterministic
from stateplan.planner.algebra.base import InputHint
from stateplan.planner.algebra.over_frames import DEFAULT, Frame

if TYPE_CHECKING:
    from stateplan.planner.algebra.relations import Rel


_FEW = 16
"""Terms up to this number are compared one by one."""

TRUE = Literal(BOOLEAN.not_null(), True)
FALSE = Literal(BOOLEAN.not_null(), False)

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
NEGATED = {
    "=": "<>",
    "<>": "=",
    "<": ">=",
    ">=": "<",
    ">": "<=",
    "<=": ">",
    "IS NULL": "IS NOT NULL",
    "IS NOT NULL": "IS NULL",
    "IS TRUE": "IS NOT TRUE",
    "IS NOT TRUE": "IS TRUE",
    "IS FALSE": "IS NOT FALSE",
    "IS NOT FALSE": "IS FALSE",
}
"""``NOT (a op b)`` is ``a NEGATED[op] b``."""

_SYNTAX = {
    **dict.fromkeys((*COMPARISONS, "IS NOT DISTINCT FROM", "AND", "OR", "+", "-", "*", "/"), "BINARY"),
    "NOT": "PREFIX",
    **dict.fromkeys(("IS NULL", "IS NOT NULL", "IS TRUE", "IS FALSE", "IS NOT TRUE", "IS NOT FALSE"), "POSTFIX"),
    "CAST": "SPECIAL",
    "CASE": "SPECIAL",
    "SEARCH": "INTERNAL",
    "REINTERPRET": "SPECIAL",
}


RANKING = ("ROW_NUMBER", "RANK", "DENSE_RANK")
"""Window functions that number rows."""


@dataclass(frozen=True)
class Over(Rex):
    """A window function: one of :data:`RANKING`, LAG, or an aggregate over a frame of a partition and an order; one
    with a system or catalog name is user-defined.

    ``order`` holds (expression, ascending, nulls last), ``hint`` what hints say of its input. It never reaches a plan:
    passes turn it into a node.
    """

    function: str = ""
    operands: tuple[Rex, ...] = ()
    partition: tuple[Rex, ...] = ()
    order: tuple[tuple[Rex, bool, bool], ...] = ()
    distinct: bool = False
    frame: Frame = DEFAULT
    place: Place | None = field(default=None, compare=False, repr=False)
    hint: InputHint | None = None
    system_name: str | None = None
    catalog_name: str | None = None
    ignore_nulls: bool = False

    @property
    def children(self) -> tuple[Rex, ...]:
        return (*self.operands, *self.partition, *(o[0] for o in self.order))


@dataclass(frozen=True)
class SubQuery(Rex):
    """A query inside an expression: ``IN``, ``EXISTS``, ``SOME`` (``comparison`` with any of its rows) or ``SCALAR``.

    Fields of the row around it appear in its relation as :func:`outer_field` of its ``number``. ``hints`` are those of
    the inputs of its join; ``grouped`` says that the row around is of a grouping. It never reaches a plan: passes
    turn it into joins.
    """

    operator: str
    rel: Rel
    number: int = field(compare=False)
    operands: tuple[Rex, ...] = ()
    comparison: str = "="
    hints: tuple[InputHint | None, InputHint | None] = (None, None)
    grouped: bool = False
    place: Place | None = field(default=None, compare=False, repr=False)

    @property
    def children(self) -> tuple[Rex, ...]:
        return self.operands


def outer_field(number: int, index: int, type: LogicalType) -> FieldAccess:  # noqa: A002
    """Field ``index`` of the row around the subquery ``number``, as seen from within."""
    return FieldAccess(type, str(index), CorrelVariable(LogicalType("NULL"), f"$cor{number}"))


def seen_from_right(rex: Rex, width: int, number: int) -> Rex:
    """``rex`` over both sides, as the right side sees it: over its rows and the row around. The left side has ``width``
    fields."""

    def change(e: Rex) -> Rex | None:
        if not isinstance(e, InputRef):
            return None
        return outer_field(number, e.index, e.type) if e.index < width else InputRef(e.type, e.index - width)

    return rewrite(rex, change)


def outer_of(rex: Rex) -> tuple[int, int] | None:
    """Subquery number and field index where ``rex`` is an :func:`outer_field`; else None."""
    if isinstance(rex, FieldAccess) and isinstance(rex.expr, CorrelVariable):
        return int(rex.expr.correl[4:]), int(rex.name)
    return None


def kind(rex: Rex) -> str:
    """The function name of a call (``=``, ``AND``, ``CAST``); ``REF``, ``LITERAL``, ... of anything else."""
    if isinstance(rex, Call):
        return rex.name
    if isinstance(rex, InputRef):
        return "REF"
    if isinstance(rex, Literal):
        return "LITERAL"
    return type(rex).__name__.upper()


def call(name: str, operands: Iterable[Rex], type: LogicalType) -> Call:  # noqa: A002
    """A call of one of the operators that the planner makes itself."""
    return Call(type, tuple(operands), internal_name=f"${name}$1", syntax=_SYNTAX.get(name))


def _boolean(operands: Sequence[Rex]) -> LogicalType:
    return BOOLEAN.as_nullable(any(o.type.nullable for o in operands))


def compare(name: str, left: Rex, right: Rex) -> Call:
    """``left name right``; no casts are added."""
    return call(name, (left, right), _boolean((left, right)))


def test(name: str, operand: Rex) -> Call:
    """``operand IS NULL`` and the like."""
    return call(name, (operand,), BOOLEAN.not_null())


def not_(rex: Rex) -> Rex:
    """``NOT rex``, as a call."""
    return call("NOT", (rex,), _boolean((rex,)))


def cast(rex: Rex, target: LogicalType) -> Rex:
    """``CAST(rex AS target)``, also where only nullability differs; ``rex`` itself when the types are equal."""
    return rex if rex.type == target else call("CAST", (rex,), target)


def conjunctions(rex: Rex | None) -> list[Rex]:
    """The operands of nested ANDs; nothing for None and TRUE."""
    if rex is None or is_always_true(rex):
        return []
    if kind(rex) == "AND":
        return [c for o in rex.children for c in conjunctions(o)]
    return [rex]


def disjunctions(rex: Rex) -> list[Rex]:
    """The operands of nested ORs; nothing for FALSE."""
    if is_always_false(rex):
        return []
    if kind(rex) == "OR":
        return [c for o in rex.children for c in disjunctions(o)]
    return [rex]


def and_(terms: Iterable[Rex | None]) -> Rex:
    """The conjunction, flat and without duplicates; TRUE for none, FALSE as soon as one is."""
    out = [c for term in terms for c in conjunctions(term)]
    if any(map(is_always_false, out)):
        return FALSE
    out = _distinct(out)
    if not out:
        return TRUE
    return out[0] if len(out) == 1 else call("AND", out, _boolean(out))


def or_(terms: Iterable[Rex]) -> Rex:
    """The disjunction, flat and without duplicates; FALSE for none, TRUE as soon as one is."""
    out = [d for term in terms for d in disjunctions(term)]
    if any(map(is_always_true, out)):
        return TRUE
    out = _distinct(out)
    if not out:
        return FALSE
    return out[0] if len(out) == 1 else call("OR", out, _boolean(out))


def _distinct(terms: Sequence[Rex]) -> list[Rex]:
    """The terms without duplicates. There can be thousands, of a long IN, and not all can be hashed."""
    out: list[Rex] = []
    by_text: dict[str, list[Rex]] = {}
    for term in terms:
        twins = by_text.setdefault(repr(term), []) if len(terms) > _FEW else out
        if term not in twins:
            out.append(term)
            if twins is not out:
                twins.append(term)
    return out


def is_always_true(rex: Rex) -> bool:
    return isinstance(rex, Literal) and rex.value is True


def is_always_false(rex: Rex) -> bool:
    return isinstance(rex, Literal) and rex.value is False


def is_null_literal(rex: Rex) -> bool:
    return isinstance(rex, Literal) and rex.value is None and rex.sarg is None


def unwrap_cast(rex: Rex) -> Rex:
    """What is inside casts."""
    while kind(rex) == "CAST":
        rex = rex.children[0]
    return rex


def walk(rex: Rex) -> Iterator[Rex]:
    """``rex`` and everything in it, outside first."""
    stack = [rex]
    while stack:
        rex = stack.pop()
        yield rex
        stack += reversed(rex.children)


def refs(*expressions: Rex | None) -> list[int]:
    """Positions of the referenced fields, each once, in order of appearance."""
    return list(dict.fromkeys(i for e in expressions if e is not None for i in input_refs(e)))


def with_operands(rex: Rex, operands: Sequence[Rex]) -> Rex:
    """``rex`` over other operands, type kept."""
    if isinstance(rex, Call):
        return rex if tuple(operands) == rex.operands else replace(rex, operands=tuple(operands))
    if isinstance(rex, FieldAccess):
        return replace(rex, expr=operands[0])
    if isinstance(rex, SubQuery):
        return replace(rex, operands=tuple(operands))
    if isinstance(rex, Over):
        n, p = len(rex.operands), len(rex.partition)
        order = tuple((e, asc, last) for e, (_, asc, last) in zip(operands[n + p :], rex.order, strict=True))
        return replace(rex, operands=tuple(operands[:n]), partition=tuple(operands[n : n + p]), order=order)
    return rex


def rewrite(rex: Rex, change: Callable[[Rex], Rex | None]) -> Rex:
    """``rex`` with ``change`` applied outside in; what ``change`` returns None for is split further."""
    new_rex = change(rex)
    if new_rex is not None:
        return new_rex
    if not rex.children:
        return rex
    return with_operands(rex, [rewrite(c, change) for c in rex.children])


def substitute(rex: Rex, fields: Sequence[Rex] | Mapping[int, Rex]) -> Rex:
    """``rex`` with each input reference replaced by the expression of that field."""

    def change(e: Rex) -> Rex | None:
        return fields[e.index] if isinstance(e, InputRef) else None

    return rewrite(rex, change)


_NULL_WITH_OPERANDS = frozenset({*COMPARISONS, "AND", "OR", "NOT", "+", "-", "*", "/", "%", "NEGATE", "SEARCH", "LIKE"})


def retyped(rex: Rex, types: Sequence[LogicalType]) -> Rex:
    """``rex`` with references of the given types, of which only the nullability differs; operators follow."""
    if isinstance(rex, InputRef):
        return rex if rex.type == types[rex.index] else InputRef(types[rex.index], rex.index)
    if not rex.children:
        return rex
    operands = [retyped(c, types) for c in rex.children]
    new = with_operands(rex, operands)
    if new is not rex and isinstance(new, Call) and kind(rex) in _NULL_WITH_OPERANDS:
        return replace(new, type=rex.type.as_nullable(any(o.type.nullable for o in operands)))
    return new


_NON_DETERMINISTIC = non_deterministic()


def is_deterministic(rex: Rex) -> bool:
    """Whether equal input always produces an equal value."""
    return not any(map(varies, walk(rex)))


def varies(rex: Rex) -> bool:
    """Whether an expression over equal operands may have different values."""
    return isinstance(rex, Over) or kind(rex) in _NON_DETERMINISTIC or _calls_varying_function(rex)


def may_move(rex: Rex) -> bool:
    """Whether it is computed below a join or a union as well as above. Flink does not ask there whether its own
    functions are deterministic."""
    return not any(isinstance(e, Over) or _calls_varying_function(e) for e in walk(rex))


def _calls_varying_function(rex: Rex) -> bool:
    return isinstance(rex, Call) and rex.function is not None and not rex.function.deterministic


def has_user_call(rex: Rex) -> bool:
    """Whether a user-defined function is called in ``rex``."""
    return any(isinstance(e, Call) and e.is_user_defined for e in walk(rex))


def is_dynamic(rex: Rex) -> bool:
    """Whether the value depends on the time of execution."""
    return any(kind(e) in _NON_DETERMINISTIC for e in walk(rex))

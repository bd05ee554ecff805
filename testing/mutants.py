"""Small changes of a query and its TTLs, each of which a test should notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from stateplan.common.errors import Place
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.ttl import NEVER
from stateplan.planner.dialect import nodes
from stateplan.planner.positions import place_of
from stateplan.plans.document import PlanDocument, ttl_text
from stateplan.plans.selectors import Selectors
from stateplan.session.script import ScriptStatement, is_query

_HOUR = 3_600_000
_TENTHS = (1, 5, 9, 11, 20, 100)
"""Other TTLs, in tenths of the TTL."""

_COMPARISONS: dict[type[exp.Expr], tuple[tuple[type[exp.Expr], str], ...]] = {
    exp.EQ: ((exp.NEQ, "<>"),),
    exp.NEQ: ((exp.EQ, "="),),
    exp.GT: ((exp.GTE, ">="), (exp.LT, "<")),
    exp.GTE: ((exp.GT, ">"), (exp.LT, "<")),
    exp.LT: ((exp.LTE, "<="), (exp.GT, ">")),
    exp.LTE: ((exp.LT, "<"), (exp.GT, ">")),
}
_SIGNS: dict[type[exp.Expr], str] = {exp.EQ: "=", exp.NEQ: "<>", exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<="}
_AGGREGATES = {
    "SUM": ("MAX", "MIN"),
    "MIN": ("MAX",),
    "MAX": ("MIN",),
    "AVG": ("MAX",),
    "COUNT": ("MAX",),
    "FIRST_VALUE": ("LAST_VALUE",),
    "LAST_VALUE": ("FIRST_VALUE",),
}
_SIDES = ("", "LEFT", "RIGHT", "FULL")

Change = Callable[[exp.Expr], exp.Expr | None]
"""Changes a node of a syntax tree in place, or returns another one for it."""


@dataclass(frozen=True)
class SqlMutant:
    """A change of a statement.

    Attributes:
        statement: the number of the statement among those of the test.
        changed_statement: the statement with the change.
        text: what is changed, for people.
        place: where.
    """

    statement: int
    changed_statement: ScriptStatement
    text: str
    place: Place


@dataclass(frozen=True)
class TtlMutant:
    """Another TTL of a state.

    Attributes:
        selector: the state.
        ttl: its TTL then, ms.
        text: what is changed, for people.
    """

    selector: str
    ttl: int
    text: str


def sql_mutants(statements: Sequence[ScriptStatement]) -> list[SqlMutant]:
    """All changes of the queries and views among statements, in the order of their places."""
    out = []
    for number, statement in enumerate(statements):
        if isinstance(statement.node, (exp.Insert, nodes.StatementSet, nodes.ExecuteStatement, nodes.CreateView)) or (
            is_query(statement.node)
        ):
            out += list(_of_statement(number, statement))
    return out


def _of_statement(number: int, statement: ScriptStatement) -> Iterator[SqlMutant]:
    for place, node in enumerate(_walk(statement.node)):
        for text, change in _changes(node):
            copy = statement.node.copy()
            target = _walk(copy)[place]
            new = change(target)
            if new is not None and new is not target:
                _keep_meta(target, new)
                target.replace(new)
            location = place_of(node, statement.source, statement.file)
            yield SqlMutant(number, replace(statement, node=copy), text, location)


def _walk(node: exp.Expr) -> list[exp.Expr]:
    """The nodes of a tree, without those of hints."""
    return list(node.walk(bfs=False, prune=lambda part: isinstance(part, exp.Hint)))


def _keep_meta(old: exp.Expr, new: exp.Expr) -> None:
    """The positions of a node for the one in its place, which errors point to."""
    new.meta.update(old.meta)


def _changes(node: exp.Expr) -> Iterator[tuple[str, Change]]:
    """The changes of a node, each with what it is for people."""
    yield from _join_changes(node)
    kind = type(node)
    for other, sign in _COMPARISONS.get(kind, ()):
        yield f"{_SIGNS[kind]} becomes {sign}", _binary(other)
    if isinstance(node, exp.Anonymous):
        yield from _function_changes(node)
    if isinstance(node, exp.And):
        yield "AND becomes OR", _binary(exp.Or)
        yield "the condition before AND is gone", lambda n: n.args["expression"].copy()
        yield "the condition behind AND is gone", lambda n: n.this.copy()
    if isinstance(node, exp.Or):
        yield "OR becomes AND", _binary(exp.And)
    if isinstance(node, exp.Ordered):
        yield "the order is reversed", _reversed_order
    if isinstance(node, exp.Where) and isinstance(node.parent, exp.Select):
        yield "WHERE is gone", _without_where
    if isinstance(node, exp.Filter):
        yield "FILTER is gone", lambda n: n.this.copy()
    if isinstance(node, exp.Interval) and isinstance(node.this, exp.Literal) and node.this.name.isdecimal():
        yield f"INTERVAL {node.this.name} becomes {2 * int(node.this.name)}", _longer
    if isinstance(node, exp.In):
        yield "IN becomes NOT IN", lambda n: exp.Not(this=n.copy())
    if isinstance(node, exp.Union):
        yield "UNION ALL becomes UNION" if not node.args.get("distinct") else "UNION becomes UNION ALL", _other_union


def _join_changes(node: exp.Expr) -> Iterator[tuple[str, Change]]:
    if not isinstance(node, exp.Join) or node.args.get("on") is None:
        return
    kind, side = str(node.args.get("kind") or "").upper(), str(node.args.get("side") or "").upper()
    if kind not in ("", "INNER", "OUTER"):
        return
    for other in _SIDES:
        if other != side:
            text = f"{side or 'INNER'} JOIN becomes {other or 'INNER'} JOIN"
            yield text, _side(other)


def _side(side: str) -> Change:
    def change(node: exp.Expr) -> None:
        node.set("side", side or None)
        node.set("kind", None)

    return change


def _binary(kind: type[exp.Expr]) -> Change:
    return lambda node: kind(this=node.this.copy(), expression=node.args["expression"].copy())


def _function_changes(node: exp.Anonymous) -> Iterator[tuple[str, Change]]:
    name = str(node.this).upper()
    arguments = node.expressions
    if name not in _AGGREGATES:
        return
    if any(isinstance(argument, exp.Distinct) for argument in arguments):
        yield f"{name}(DISTINCT ..) becomes {name}(..)", _without_distinct
        return
    if not any(isinstance(argument, exp.Star) for argument in arguments):
        for other in _AGGREGATES[name]:
            yield f"{name} becomes {other}", _function(other)


def _function(name: str) -> Change:
    def change(node: exp.Expr) -> None:
        node.set("this", name)

    return change


def _without_distinct(node: exp.Expr) -> None:
    node.set("expressions", [part.copy() for argument in node.expressions for part in argument.expressions])


def _longer(node: exp.Expr) -> None:
    node.set("this", exp.Literal.string(str(2 * int(node.this.name))))


def _reversed_order(node: exp.Expr) -> None:
    node.set("desc", not node.args.get("desc"))


def _without_where(node: exp.Expr) -> None:
    if node.parent is not None:
        node.parent.set("where", None)


def _other_union(node: exp.Expr) -> None:
    node.set("distinct", not node.args.get("distinct"))


def ttl_mutants(document: PlanDocument, options: dict[str, str]) -> list[TtlMutant]:
    """Other TTLs of the states of a plan: shorter and longer ones, and an hour where there is none."""
    selectors = Selectors(document, options)
    out = []
    for view in selectors.views:
        if view.source == "time":
            continue
        name = selectors.name_alone(view)
        others = (_HOUR,) if view.ttl == NEVER else (1, *(view.ttl * tenths // 10 for tenths in _TENTHS), NEVER)
        for ttl in dict.fromkeys(others):
            if ttl != view.ttl:
                out.append(TtlMutant(name, ttl, f"{name}: TTL {ttl_text(view.ttl)} becomes {ttl_text(ttl)}"))
    return out

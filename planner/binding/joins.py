"""FROM with more than one table: join types, ON, USING and NATURAL, and the hints of a join."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from stateplan.common.errors import Place, SqlError
from stateplan.execnodes.specs import JoinType
from stateplan.functions.rex import InputRef, Rex
from stateplan.planner.algebra.relations import Join, Project, Rel, Scan
from stateplan.planner.algebra.temporal import Snapshot, TemporalJoin
from stateplan.planner.binding.expressions import ExpressionBinder
from stateplan.planner.binding.hints import TtlHints
from stateplan.planner.binding.scope import Scope
from stateplan.planner.expressions.normal import collapsed, not_distinct
from stateplan.planner.expressions.ops import TRUE, and_
from stateplan.planner.positions import bare, place_of


class _OnBinder(ExpressionBinder):
    """Conditions of ON, which keep IS NOT DISTINCT FROM as an operator of its own: it may be a key of the join."""

    def condition(self, node: exp.Expr, clause: str) -> Rex:
        return and_(self._term(n, clause) for n in _conjuncts(node))

    def _term(self, node: exp.Expr, clause: str) -> Rex:
        inner = bare(node)
        if isinstance(inner, exp.NullSafeEQ):
            return not_distinct(self.bind(inner.this), self.bind(inner.expression), self.place(inner))
        return collapsed(super().condition(node, clause))


def _conjuncts(node: exp.Expr) -> list[exp.Expr]:
    inner = bare(node)
    if isinstance(inner, exp.And):
        return [*_conjuncts(inner.this), *_conjuncts(inner.expression)]
    return [node]


def bind_join(
    left: tuple[Rel, Scope], right: tuple[Rel, Scope], node: exp.Expr, hints: TtlHints, source: str
) -> tuple[Rel, Scope]:
    """The join of two items of a FROM clause.

    Args:
        node: the ``exp.Join``.
        hints: the hints of the SELECT.
        source: the text that positions point into.

    Raises:
        SqlError: SQL113 (two tables of one name), SQL114 (no condition), and what expressions raise.
    """
    (left_rel, left_scope), (right_rel, right_scope) = left, right
    place = place_of(node, source)
    second = next((r for r in right_scope.relations if r.name and left_scope.relation([r.name])), None)
    if second is not None:
        raise SqlError("SQL113", name=second.name, place=place_of(node.this, source))
    join_type: JoinType = node.args.get("side") or "INNER"
    scope = left_scope.joined_with(right_scope)
    condition = _condition(left_scope, right_scope, scope, node, source)
    version = node.this.args.get("version")
    if version is not None:
        versions = _temporal(left, right_rel, condition, join_type, version, source)
        return _versioned(versions, left_scope, right_scope, scope, hints, place)
    is_padded = [join_type in ("RIGHT", "FULL"), join_type in ("LEFT", "FULL")]
    keys = [hints.key_of(s.relations) for s in (left_scope, right_scope)]
    join = replace(
        Join(left_rel, right_rel, condition, join_type),
        left_hint=hints.of(keys[0]),
        right_hint=hints.of(keys[1]),
        ttl_texts=(hints.text_of(keys[0]), hints.text_of(keys[1])),
        multi=not hints.multi.keys().isdisjoint((_name(left_scope), _name(right_scope))),
        place=place,
        query_hints=hints.query_hints,
    )
    return join, scope.with_padding(len(left_scope.relations), *is_padded)


def _condition(left: Scope, right: Scope, scope: Scope, node: exp.Expr, source: str) -> Rex:
    """The condition of a join over both its items. Raises SqlError SQL114, and what expressions raise."""
    place = place_of(node, source)
    if node.args.get("method") == "NATURAL":
        names = [n for n, _ in left.star() if any(n == m for m, _ in right.star())]
        return and_(scope.with_common(left, right, [(n, place) for n in names]))
    if node.args.get("using"):
        columns = [(n.name, place_of(n, source)) for n in node.args["using"]]
        return and_(scope.with_common(left, right, columns))
    if node.args.get("on") is not None:
        return _OnBinder(scope, "ON").condition(node.args["on"], "ON")
    if node.args.get("side") or node.args.get("kind") == "INNER" or _without_condition(node, source):
        raise SqlError("SQL114", place=place)
    return TRUE


def _versioned(
    versions: TemporalJoin, left: Scope, right: Scope, scope: Scope, hints: TtlHints, place: Place
) -> tuple[Rel, Scope]:
    """The join with versions of a table; of a table without event time, the join with its rows at the time."""
    count, join_type = len(left.relations), versions.join_type
    if versions.right_time is None and _is_table(versions.right):
        snapshot = Snapshot(versions.right, hints.retry_of(right.relations), versions.left_time)
        lookup = Join(versions.left, snapshot, versions.condition, join_type)
        lookup = replace(lookup, left_hint=hints.of(hints.key_of(left.relations)), place=place)
        return lookup, scope.with_padding(count, join_type in ("RIGHT", "FULL"), join_type != "INNER")
    ttls = hints.of(hints.key_of(left.relations)), hints.of(hints.key_of(right.relations))
    versions = replace(versions, left_hint=ttls[0], right_hint=ttls[1], place=place)
    return versions, scope.with_padding(count, False, join_type == "LEFT")


def _temporal(
    left: tuple[Rel, Scope], right: Rel, condition: Rex, join_type: JoinType, version: exp.Expr, source: str
) -> TemporalJoin:
    """The join of rows with the versions of ``right`` that held at their time.

    Raises:
        SqlError: SQL146, for a field that is not a time attribute of the left table; SQL148, for a versioned table
            without one, or with one of another type.
    """
    period = ExpressionBinder(left[1], "FOR SYSTEM_TIME AS OF").bind(version.expression)
    place = place_of(version.expression, source)
    if not isinstance(period, InputRef) or period.type.kind is None:
        raise SqlError("SQL146", place=place)
    if period.type.kind == "PROCTIME":
        return TemporalJoin(left[0], right, condition, join_type, period.index, None)
    time_field = next((i for i, (_, t) in enumerate(right.fields) if t.kind == "ROWTIME"), None)
    if time_field is None:
        raise SqlError("SQL148", place=place_of(version, source))
    other = right.fields[time_field][1]
    if other.root != period.type.root:
        raise SqlError("SQL148.types_of_time", type=period.type.summary(), other=other.summary(), place=place)
    return TemporalJoin(left[0], right, condition, join_type, period.index, time_field)


def _is_table(rel: Rel) -> bool:
    """Whether ``rel`` is a table as it is declared, which may be looked up."""
    return isinstance(rel.input if isinstance(rel, Project) else rel, Scan)


def _name(scope: Scope) -> str | None:
    """What a hint calls this side of a join; None if it is a join itself."""
    return scope.relations[0].name if len(scope.relations) == 1 else None


def _without_condition(node: exp.Expr, source: str) -> bool:
    """Whether the join was written with JOIN, and neither with CROSS nor with a comma."""
    start = node.meta.get("start")
    return not node.args.get("kind") and isinstance(start, int) and source[start : start + 1] != ","

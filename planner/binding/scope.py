"""What a column name can mean at one place of a query."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Protocol, TypeAlias

from sqlglot import exp

from stateplan.common.errors import Place, SqlError, nearest, one_of
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.functions.builder import make_call
from stateplan.functions.rex import FieldAccess, InputRef, Rex
from stateplan.planner.algebra.base import InputHint
from stateplan.planner.algebra.relations import Field, Rel
from stateplan.planner.catalog.functions import Functions
from stateplan.planner.expressions.ops import call
from stateplan.planner.positions import place_of

SubQueries: TypeAlias = Callable[[exp.Expr, Callable[[exp.Expr], Rex]], tuple[Rel, int]]
"""Binds a query inside an expression, given what the columns around it mean: its relation, and the number by which its
references to the row around are known."""


@dataclass(frozen=True)
class Relation:
    """One table reference of a FROM clause: the fields from ``offset`` on are known under ``name``.

    ``path`` is the full name of a table written without an alias, which may qualify columns too.
    """

    name: str
    fields: tuple[Field, ...]
    offset: int = 0
    path: tuple[str, ...] = ()

    def with_offset(self, by: int) -> Relation:
        return Relation(self.name, self.fields, self.offset + by, self.path)

    def nullable(self) -> Relation:
        return Relation(self.name, tuple((n, t.as_nullable()) for n, t in self.fields), self.offset, self.path)


@dataclass
class Scope:
    """The relations of a FROM clause, left to right, and the columns that USING or NATURAL made common.

    ``star`` holds what ``*`` stands for, in order. ``subqueries`` binds the queries inside its expressions, None if
    there can be none, ``query_hints`` are the lifetimes of the states of their joins, ``over_hint`` that of OVER;
    ``outer`` is what columns of the query around mean, for a query inside an expression. ``functions`` finds
    user-defined functions.
    """

    source: str
    relations: list[Relation] = field(default_factory=list)
    common: dict[str, Rex] = field(default_factory=dict)
    subqueries: SubQueries | None = None
    outer: Callable[[exp.Expr], Rex] | None = None
    query_hints: tuple[InputHint | None, InputHint | None] = (None, None)
    over_hint: InputHint | None = None
    functions: Functions | None = None

    @classmethod
    def of(cls, source: str, relation: Relation) -> Scope:
        return cls(source, [relation])

    @classmethod
    def of_fields(cls, source: str, fields: Sequence[Field], functions: Functions | None = None) -> Scope:
        """A scope of bare columns."""
        return cls(source, [Relation("", tuple(fields))], functions=functions)

    @property
    def width(self) -> int:
        return sum(len(r.fields) for r in self.relations)

    def joined_with(self, other: Scope) -> Scope:
        """Both scopes, ``other`` to the right; common columns of this one stay."""
        width = self.width
        relations = [*self.relations, *(r.with_offset(width) for r in other.relations)]
        return replace(self, relations=relations, common=dict(self.common))

    def with_padding(self, left: int, pads_left: bool, pads_right: bool) -> Scope:
        """The scope behind an outer join of which the first ``left`` relations are the left side: fields of a side that
        may be padded with NULLs are nullable."""
        if not (pads_left or pads_right):
            return self
        relations = [
            r.nullable() if (pads_left if i < left else pads_right) else r for i, r in enumerate(self.relations)
        ]
        types = {r.offset + i: t for r in relations for i, (_, t) in enumerate(r.fields)}
        return replace(self, relations=relations, common={n: _retyped(rex, types) for n, rex in self.common.items()})

    def with_common(self, left: Scope, right: Scope, names: Iterable[tuple[str, Place]]) -> list[Rex]:
        """Makes the columns ``names`` common to both sides of a join; returns the equality conditions.

        Raises:
            SqlError: SQL100 or SQL101, for a name that one side does not have or has twice.
        """
        conditions = []
        for name, rex in names:
            a = left.first(name, rex)
            b = _with_shifted_fields(right.find(name, rex), left.width)
            conditions.append(make_call("=", [a, b], rex))
            if name not in self.common:
                self.common[name] = make_call("COALESCE", [a, b], rex)
        return conditions

    def first(self, name: str, place: Place) -> Rex:
        """The first column of this unqualified name: what a further USING compares with (``SqlToRelConverter``)."""
        hits = _columns(name, self.relations)
        if not hits:
            raise self._unknown_column(name, place, self.relations)
        return hits[0][1]

    def find(self, name: str, place: Place) -> Rex:
        """The column of this unqualified name."""
        if name in self.common:
            return self.common[name]
        return self._one(name, place, self.relations)

    def _one(self, name: str, place: Place, relations: Sequence[Relation]) -> InputRef:
        """The one column of this name."""
        hits = _columns(name, relations)
        if len(hits) == 1:
            return hits[0][1]
        if not hits:
            raise self._unknown_column(name, place, relations)
        owners = list(dict.fromkeys(r.name for r, _ in hits))
        if len(owners) == 1:
            raise SqlError("SQL101.same_name", name=name, what="this query or table function", place=place)
        raise SqlError("SQL101.in_tables", name=name, owners=" and ".join(f"'{o}'" for o in owners), place=place)

    def check_names(self, relations: Iterable[Relation], place: Place) -> None:
        """Raises SqlError SQL101 where ``*`` stands for two columns of one name of one relation."""
        for relation in relations:
            repeated_name = first_repeated([n for n, _ in relation.fields])
            if repeated_name is not None:
                raise SqlError("SQL101.same_name", name=repeated_name, what="this query or table function", place=place)

    def _unknown_column(self, name: str, place: Place, relations: Sequence[Relation]) -> SqlError:
        names = [n for r in relations for n, _ in r.fields]
        column_list = ", ".join(dict.fromkeys(names))
        if len(column_list) > 300:
            column_list = column_list[:300].rsplit(",", 1)[0] + ", ..."
        hint = nearest(name, names)
        if hint is None:
            elsewhere = [r.name for r in self.relations if r not in relations and any(n == name for n, _ in r.fields)]
            hint = f"there is a '{elsewhere[0]}.{name}'" if elsewhere else _field_of_row(name, relations)
        return SqlError(
            "SQL100",
            name=name,
            place=place,
            expected=f"one of {column_list}" if column_list else "an expression without columns",
            hint=hint,
        )

    def relation(self, parts: Sequence[str]) -> Relation | None:
        """The relation called ``parts``, or None."""
        if len(parts) == 1:
            hits = [r for r in self.relations if r.name == parts[0] and parts[0]]
            return hits[0] if hits else None
        return next((r for r in self.relations if r.path and r.path[-len(parts) :] == tuple(parts)), None)

    def column(self, node: exp.Expr) -> Rex:
        """The column (or field of a ROW column) that an ``exp.Column`` means.

        Raises:
            SqlError: SQL100 (unknown), SQL101 (ambiguous), SQL102 (unknown qualifier).
        """
        try:
            return self._column(node)
        except SqlError as error:
            if error.code not in ("SQL100", "SQL102"):
                raise
            error.hint = _alias_meant(node) or error.hint or _text_meant(node)
            if self.outer is None:
                raise
            try:
                return self.outer(node)
            except SqlError as further:
                raise (error if further.code in ("SQL100", "SQL102") else further) from None

    def _column(self, node: exp.Expr) -> Rex:
        parts = [p for p in (node.args.get(k) for k in ("catalog", "db", "table")) if p is not None]
        column: exp.Expr = node.this
        name = column.name
        if not parts:
            return self.find(name, place_of(node, self.source))
        names = [p.name for p in parts]
        relation = self.relation(names)
        if relation is not None:
            return self._one(name, place_of(column, self.source), [relation])
        nested = self._nested(names, [*parts, column])
        if nested is not None:
            return nested
        place = place_of(parts[0], self.source)
        relation_names = [r.name for r in self.relations if r.name]
        raise SqlError(
            "SQL102",
            names=".".join(names),
            place=place,
            expected=one_of(relation_names) or "an unqualified column",
            hint=nearest(names[-1], relation_names),
        )

    def _nested(self, names: Sequence[str], nodes: Sequence[exp.Expr], most: int = 2) -> Rex | None:
        """The field of a ROW that ``nodes`` lead to; with more than ``most`` of them, the first may be a relation."""
        head: Rex | None = None
        rest: Sequence[exp.Expr] = ()
        relation = self.relation(names[:1])
        if relation is not None and len(nodes) > most:
            hit = next((i for i, (n, _) in enumerate(relation.fields) if n == nodes[1].name), None)
            if hit is not None:
                head, rest = InputRef(relation.fields[hit][1], relation.offset + hit), nodes[2:]
        if head is None:
            hits = _columns(names[0], self.relations)
            if len(hits) != 1:
                return None
            head, rest = hits[0][1], nodes[1:]
        for node in rest:
            head = field_of(head, node.name, place_of(node, self.source))
        return head

    def star(self, node: exp.Expr | None = None) -> list[tuple[str, Rex]]:
        """Name and expression of every column that ``*`` or ``t.*`` stands for, or of every field of a ROW, ``row.*``.

        Raises:
            SqlError: SQL102, for an unknown qualifier; SQL101, for ``t.*`` of a relation with two columns of one name.
        """
        if node is not None:
            parts = [p for p in (node.args.get(k) for k in ("catalog", "db", "table")) if p is not None]
            relation = self.relation([p.name for p in parts])
            if relation is None:
                row = self._nested([p.name for p in parts], parts, most=1)
                if row is not None and row.type.root == "ROW":
                    place = place_of(node, self.source)
                    return [(f.name, field_of(row, f.name, place)) for f in row.type.fields]
                relation_names = [r.name for r in self.relations if r.name]
                raise SqlError(
                    "SQL102",
                    names=".".join(p.name for p in parts),
                    place=place_of(parts[0], self.source),
                    expected=one_of(relation_names),
                    hint=nearest(parts[-1].name, relation_names),
                )
            self.check_names([relation], place_of(node, self.source))
            return [(n, InputRef(t, relation.offset + i)) for i, (n, t) in enumerate(relation.fields)]
        out = list(self.common.items())
        for r in self.relations:
            out += [(n, InputRef(t, r.offset + i)) for i, (n, t) in enumerate(r.fields) if n not in self.common]
        return out


def _columns(name: str, relations: Sequence[Relation]) -> list[tuple[Relation, InputRef]]:
    """The columns of a name, each with its relation."""
    return [(r, InputRef(t, r.offset + i)) for r in relations for i, (n, t) in enumerate(r.fields) if n == name]


_COMPARISONS = (exp.Predicate, exp.In, exp.Between, exp.Case, exp.If)


def _field_of_row(name: str, relations: Sequence[Relation]) -> str | None:
    """The hint for a field of a ROW that is named without its column."""
    paths = [([column], t) for relation in relations for column, t in relation.fields]
    for path, t in paths:
        if path[-1] == name:
            return f"it is a field of a ROW: write {'.'.join(path)}"
        paths += [([*path, f.name], f.type) for f in t.fields]
    return None


def _text_meant(node: exp.Expr) -> str | None:
    """The hint for a name that is compared and is not a column: a text without its quotes."""
    parent = node.parent
    while isinstance(parent, exp.Paren | exp.Tuple):
        parent = parent.parent
    if node.args.get("table") is not None or not isinstance(parent, _COMPARISONS):
        return None
    name = node.name.replace("'", "''")
    return f"for a text write '{name}', in single quotes"


def _alias_meant(node: exp.Expr) -> str | None:
    """The hint for a name that is not a column, but that the same SELECT gives to an expression."""
    select = node.find_ancestor(exp.Select)
    if select is None or node.args.get("table") is not None:
        return None
    name = node.name
    if any(isinstance(item, exp.Alias) and item.alias == name for item in select.expressions):
        return f"'{name}' is an alias of this SELECT: repeat its expression, or name it in a query within FROM"
    return None


def first_repeated(names: Sequence[str]) -> str | None:
    """The first name that is repeated."""
    return next((n for i, n in enumerate(names) if n in names[:i]), None)


def field_of(rex: Rex, name: str, place: Place) -> Rex:
    """Field ``name`` of a ROW. Raises SqlError SQL100."""
    fields = {f.name: f.type for f in rex.type.fields}
    if rex.type.root != "ROW" or name not in fields:
        raise SqlError(
            "SQL100.row_field",
            name=name,
            type=rex.type,
            place=place,
            expected=one_of(fields) or "a ROW",
            hint=nearest(name, fields),
        )
    part = FieldAccess(fields[name], name, rex)
    return call("CAST", (part,), part.type.as_nullable()) if rex.type.nullable and not part.type.nullable else part


def _retyped(rex: Rex, types: Mapping[int, LogicalType]) -> Rex:
    """A common column, its fields of the given types."""
    if isinstance(rex, InputRef):
        return InputRef(types[rex.index], rex.index)
    return make_call("COALESCE", [_retyped(c, types) for c in rex.children]) if rex.children else rex


def _with_shifted_fields(rex: Rex, by: int) -> Rex:
    from stateplan.functions.rex import shift

    return shift(rex, by)


class Binder(Protocol):
    """The binder of expressions, as window functions and queries inside expressions need it; the one there is is
    :class:`planner.binding.expressions.ExpressionBinder`.

    Attributes:
        scope: what column names mean.
        place_name: the clause, for messages.
        windows: whether OVER may be used.
        named_windows: the windows of the WINDOW clause.
    """

    scope: Scope
    place_name: str
    windows: bool
    named_windows: dict[str, exp.Expr]

    @property
    def grouped(self) -> bool:
        """Whether it binds over groups."""
        ...

    def place(self, node: exp.Expr) -> Place: ...

    def bind(self, node: exp.Expr) -> Rex: ...

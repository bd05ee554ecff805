"""Hints (STATE_TTL, LATE_ROWS, MULTI_JOIN, LOOKUP, OPTIONS): reading them, and which operator of a SELECT takes one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from stateplan.common.errors import SqlError, StateplanError, nearest, one_of
from stateplan.common.ttl import parse_ttl
from stateplan.execnodes.specs import RetryOptions
from stateplan.planner.algebra.base import InputHint, QueryHints
from stateplan.planner.algebra.relations import Aggregate, Join, Rel, replace_inputs
from stateplan.planner.binding.grouping import contains_aggregate
from stateplan.planner.binding.lookup_hints import LookupHint, read_lookup_hint
from stateplan.planner.binding.scope import Relation
from stateplan.planner.catalog.functions import Functions
from stateplan.planner.positions import place_of

_JOIN_HINTS = ("BROADCAST", "SHUFFLE_HASH", "SHUFFLE_MERGE", "NEST_LOOP")
"""How joins of batch mode run in Flink; its streaming mode checks their names, and nothing more."""

LATE_ROWS = "LATE_ROWS"
"""The hint that names the table for late rows: ``LATE_ROWS('late')`` for all operators of a SELECT, or
``LATE_ROWS('table' = 'late', ...)`` by input. Flink has no such hint."""

_HINT_NAMES = ("STATE_TTL", LATE_ROWS, "MULTI_JOIN", "LOOKUP", *_JOIN_HINTS)
_EVERY = ""
"""The name under which a hint for all inputs is kept."""


class TtlHints:
    """State lifetimes in milliseconds, and tables for late rows, by relation name, of one SELECT.

    Within one STATE_TTL hint the last value of a name wins, over several hints the first.

    Attributes:
        late: the tables for late rows.
        derived_name: the name of the query or view in its FROM whose ranks take its hint, as it has no state itself.
        plain: whether it only takes and changes rows of its FROM, without state.
        own: the names of all that is in its FROM.
        above: those of the SELECT that has this one in its FROM.
        used_keys: the names that queries in its FROM have taken.
    """

    def __init__(
        self,
        lifetimes: Mapping[str, int],
        places: Mapping[str, exp.Expr],
        source: str,
        multi: Mapping[str, exp.Expr] | None = None,
        lookups: Mapping[str, LookupHint] | None = None,
        joins: Sequence[tuple[str, str, exp.Expr]] = (),
        above: TtlHints | None = None,
        late: Mapping[str, exp.Expr] | None = None,
    ) -> None:
        self.lifetimes = dict(lifetimes)
        self.places = dict(places)
        self.source = source
        self.multi = dict(multi or {})
        self.lookups = dict(lookups or {})
        self._looked_up: set[str] = set()
        self.above = above
        self.used_keys: set[str] = set()
        self.derived_name: str | None = None
        self.plain = False
        self.own: frozenset[str] = frozenset()
        self.joins = tuple(joins)
        self.late = dict(late or {})

    @classmethod
    def read(cls, hint: exp.Expr | None, source: str, above: TtlHints | None = None) -> TtlHints:
        """The hints of ``SELECT /*+ ... */``; ``above`` are those of the SELECT that has it in its FROM.

        Raises:
            SqlError: SQL120 (unknown hint), SQL121 (malformed), SQL122 (a lifetime that cannot be read).
        """
        lifetimes: dict[str, int] = {}
        places: dict[str, exp.Expr] = {}
        multi: dict[str, exp.Expr] = {}
        lookups: dict[str, LookupHint] = {}
        joins: list[tuple[str, str, exp.Expr]] = []
        late: dict[str, exp.Expr] = {}
        for item in hint.expressions if hint is not None else ():
            name = item.name.upper()
            if name == LATE_ROWS:
                late = {**cls._read_late(item, source), **late}
                continue
            if name == "MULTI_JOIN":
                multi |= cls._read_tables(item, source)
                continue
            if name == "LOOKUP":
                table, lookup = read_lookup_hint(item, source)
                lookups.setdefault(table, lookup)
                continue
            if name in _JOIN_HINTS:
                joins += [(name, table, node) for table, node in cls._read_tables(item, source).items()]
                continue
            if name != "STATE_TTL":
                raise SqlError("SQL120", name=item.name, place=place_of(item, source), hint=nearest(name, _HINT_NAMES))
            one, own_places = cls._read_one(item, source)
            lifetimes = {**one, **lifetimes}
            places = {**own_places, **places}
        return cls(lifetimes, places, source, multi, lookups, joins, above, late)

    @staticmethod
    def _read_tables(item: exp.Expr, source: str) -> dict[str, exp.Expr]:
        tables = {a.name: a for a in item.expressions if not isinstance(a, exp.EQ)}
        if not tables or len(tables) < len(item.expressions):
            raise SqlError("SQL121", name=item.name.upper(), what="tables", place=place_of(item, source))
        return tables

    @staticmethod
    def _read_late(item: exp.Expr, source: str) -> dict[str, exp.Expr]:
        """The names of tables as they are written, by the input they are for."""
        is_for_all = len(item.expressions) == 1 and not isinstance(item.expressions[0], exp.EQ)
        pairs = [(_EVERY, item.expressions[0])] if is_for_all else []
        pairs += [(a.this.name, a.expression) for a in item.expressions if isinstance(a, exp.EQ)]
        if not pairs or len(pairs) < len(item.expressions):
            raise SqlError(
                "SQL121",
                name="LATE_ROWS",
                what="a table, or pairs of an input and a table",
                place=place_of(item, source),
            )
        return dict(pairs)

    @staticmethod
    def _read_one(item: exp.Expr, source: str) -> tuple[dict[str, int], dict[str, exp.Expr]]:
        if not item.expressions:
            raise SqlError("SQL121.no_table", name="STATE_TTL", place=place_of(item, source))
        lifetimes: dict[str, int] = {}
        places: dict[str, exp.Expr] = {}
        for argument in item.expressions:
            if not isinstance(argument, exp.EQ):
                raise SqlError(
                    "SQL121",
                    name="STATE_TTL",
                    what="pairs of a table and its lifetime",
                    place=place_of(argument, source),
                )
            key = argument.this.name
            try:
                lifetimes[key] = parse_ttl(argument.expression.name)
            except StateplanError as error:
                raise SqlError(
                    "SQL122",
                    key=key,
                    problem=error.message,
                    place=place_of(argument.expression, source),
                    expected=error.expected or "such as '1 d'",
                    hint=error.hint,
                ) from None
            places[key] = argument
        return lifetimes, places

    def look_at(self, node: exp.Select, functions: Functions) -> None:
        """Looks at the SELECT that they are of, which has a FROM."""
        first, joins = node.args["from_"].this, node.args.get("joins") or []
        self.own = frozenset(item.alias_or_name for item in (first, *(join.this for join in joins)))
        stateful = any(node.args.get(part) for part in ("joins", "group", "having", "distinct", "limit", "qualify"))
        if not stateful and not any(i.find(exp.Window) or contains_aggregate(i, functions) for i in node.expressions):
            self.derived_name, self.plain = first.alias_or_name or None, True

    def __bool__(self) -> bool:
        return bool(self.lifetimes)

    def of(self, name: str | None) -> InputHint | None:
        """What is said of the relation ``name``, or of any, or None."""
        ttl = None if name is None else self.lifetimes.get(name)
        late = self.late.get(_EVERY if name is None else name, self.late.get(_EVERY))
        if ttl is None and late is None:
            return None
        return InputHint(ttl, None if late is None else late.name, self.text_of(name))

    def of_ranks(self, relations: Sequence[Relation]) -> InputHint | None:
        """What is said of what numbers or limits the rows of ``relations`` (OVER, deduplication, top-N), or None. A
        hint of the SELECT around it may name them too, or the query itself."""
        around = self._ttl_of_ranks(relations)
        own = self.of(self.key_of(relations)) or self.late_above()
        return InputHint(around, None if own is None else own.late) if own is not None or around is not None else None

    def late_above(self) -> InputHint | None:
        """What the SELECT around says of late rows, where it only takes rows of this one."""
        above = self.above
        if above is None or not above.plain:
            return None
        return above.of(above.derived_name) or above.late_above()

    def _ttl_of_ranks(self, relations: Sequence[Relation]) -> int | None:
        hints: TtlHints | None = self
        key = self.key_of(relations)
        while key is None and hints is not None and hints.above is not None:
            hints = hints.above
            key = hints.key_of(relations)
            if key is None or key in hints.own:
                key = hints.derived_name if hints.derived_name in hints.lifetimes else None
            hints.used_keys.update(() if key is None else (key,))
        return None if hints is None or key is None else hints.lifetimes.get(key)

    def of_query(self) -> TtlHints | None:
        """What of them holds in a view or a query of WITH: what names it, not what names tables."""
        late = {key: node for key, node in self.late.items() if key in (_EVERY, self.derived_name)}
        if self.derived_name is None or not (late or self.derived_name in self.lifetimes):
            return None
        lifetimes = {key: ttl for key, ttl in self.lifetimes.items() if key == self.derived_name}
        out = TtlHints(lifetimes, {}, self.source, late=late)
        out.derived_name, out.own, out.plain = self.derived_name, self.own, True
        return out

    @property
    def query_hints(self) -> QueryHints | None:
        """Those that Flink's logical plan shows."""
        ttls = tuple((key, pair.expression.name) for key, pair in self.places.items())
        return QueryHints(ttls, tuple(self.multi)) if ttls or self.multi else None

    def text_of(self, name: str | None) -> str | None:
        """The lifetime given for the relation ``name`` as it is written, or None."""
        pair = None if name is None else self.places.get(name)
        return None if pair is None else pair.expression.name

    def key_of(self, relations: Sequence[Relation]) -> str | None:
        """The name in a hint that means ``relations`` as one input of an operator, or None: of a table its alias, or
        its name or the end of its full name; of tables joined before, all of theirs with commas between them."""
        if len(relations) != 1:
            names = [r.name for r in relations]
            return next((k for k in (*self.lifetimes, *self.late) if "," in k and _parts(k) == names), None)
        (relation,) = relations
        if relation.name in self.lifetimes or relation.name in self.multi or relation.name in self.late:
            return relation.name
        path, hint_keys = relation.path, (*self.lifetimes, *self.late)
        return next((k for k in hint_keys if path and path[-k.count(".") - 1 :] == tuple(k.split("."))), None)

    def retry_of(self, relations: Sequence[Relation]) -> RetryOptions | None:
        """How rows that find nothing in the table of ``relations``, which is looked up, are looked up again."""
        for key, lookup in self.lookups.items():
            ends = tuple(key.split("."))
            if any(key == r.name or (r.path and r.path[-len(ends) :] == ends) for r in relations):
                self._looked_up.add(key)
                return lookup.retry
        return None

    def check_retries(self) -> None:
        """Raises SqlError SQL123, once the joins are bound, for retries of a table that is not looked up."""
        for key, lookup in self.lookups.items():
            if lookup.place is not None and key not in self._looked_up:
                raise SqlError("SQL123.not_looked_up", key=key, place=place_of(lookup.place, self.source))

    def check(self, relations: Sequence[Relation], with_queries: bool) -> None:
        """Raises SqlError SQL123 for a hint that names none of the SELECT's relations.

        Args:
            with_queries: whether there are queries in its expressions, whose joins' states have names.
        """
        names = [r.name for r in relations]
        paths = [r.path for r in relations if r.path]
        kinds = (
            ("MULTI_JOIN", self.multi),
            ("LOOKUP", {key: lookup.table_node for key, lookup in self.lookups.items()}),
            ("STATE_TTL", self.places),
            (LATE_ROWS, {key: node for key, node in self.late.items() if key != _EVERY}),
        )
        table_hints = [(hint_name, key, node) for hint_name, keys in kinds for key, node in keys.items()]
        for hint_name, key, node in (*table_hints, *self.joins):
            if (
                key in names
                or key in self.used_keys
                or (with_queries and hint_name == "STATE_TTL" and key in QUERY_STATES)
            ):
                continue
            if any(p[-key.count(".") - 1 :] == tuple(key.split(".")) for p in paths):
                continue
            if hint_name in ("STATE_TTL", LATE_ROWS) and "," in key and _follow(_parts(key), names):
                continue
            relation_names = [n for n in names if n]
            place = place_of(node.this if isinstance(node, exp.EQ) else node, self.source)
            hint = nearest(key, relation_names) or (
                "a table with an alias is known by its alias only" if relation_names else None
            )
            if hint_name == "STATE_TTL" and isinstance(node, exp.EQ):
                line = _in_plan(node.expression.name, relation_names)
                hint = line if hint is None else f"{hint if hint.endswith('?') else hint + ','} or {line}"
            expected = one_of(relation_names) or "no hint: there is no table"
            raise SqlError("SQL123", what=hint_name, key=key, place=place, expected=expected, hint=hint)


def with_written_hints(rel: Rel, query_hints: QueryHints, read: Rel, path: tuple[int, ...] = ()) -> Rel:
    """A SELECT whose joins and aggregates say which hints it has, and where in it they are.

    Args:
        rel: the SELECT, or an operator of it at ``path``.
        read: its FROM, of which only the joins at its top are the SELECT's own.
    """
    own = isinstance(rel, Join) if rel is read else isinstance(rel, Aggregate)
    if rel is read and not (isinstance(rel, Join) and rel.query_hints is not None):
        return rel
    below = [
        with_written_hints(inner, query_hints, inner if rel is read else read, (*path, number))
        for number, inner in enumerate(rel.inputs)
    ]
    new_rel = replace_inputs(rel, below)
    if own and isinstance(new_rel, (Join, Aggregate)):
        return replace(new_rel, query_hints=replace(query_hints, path=path))
    return new_rel


QUERY_STATES = ("leftState", "rightState")
"""Names by which a hint means the states of the joins that queries in expressions become."""


def _in_plan(ttl: str, names: Sequence[str]) -> str:
    """The line that sets a TTL where a hint cannot, by what a SELECT of these tables mostly keeps."""
    selector = "join.left" if len(names) > 1 else "group-aggregate" if names else "deduplicate"
    return f"set it in the plan: ALTER PLAN 'plan.json' SET TTL '{ttl}' FOR {selector}"


def _parts(key: str) -> list[str]:
    return [p.strip() for p in key.split(",")]


def _follow(some: Sequence[str], names: Sequence[str]) -> bool:
    """Whether ``some`` are among ``names``, one behind the other."""
    return any(list(names[i : i + len(some)]) == list(some) for i in range(len(names)))


def read_options_hint(hints: Sequence[exp.Expr], source: str) -> dict[str, str]:
    """The options of ``/*+ OPTIONS('key' = 'value') */``. Raises SqlError SQL120 and SQL121."""
    out: dict[str, str] = {}
    for hint in hints:
        for item in hint.expressions:
            if item.name.upper() != "OPTIONS":
                raise SqlError(
                    "SQL120", name=item.name, place=place_of(item, source), expected="OPTIONS('key' = 'value')"
                )
            for pair in item.expressions:
                if not isinstance(pair, exp.EQ):
                    raise SqlError(
                        "SQL121", name="OPTIONS", what="pairs of a key and a value", place=place_of(pair, source)
                    )
                out[pair.this.name] = pair.expression.name
    return out

"""Which states of a plan a selector points at, and which selector points at a state; the grammar is that of
:mod:`plans.selector_text`.

Error codes: PLAN101 to PLAN104.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import permutations
from typing import Any, NamedTuple

from stateplan.common.errors import PlanError, nearest
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.readable import in_columns
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.specs import split_identifier
from stateplan.plans.aliases import aliases
from stateplan.plans.document import PlanDocument, ttl_text
from stateplan.plans.selector_text import ALL, Name, Selector, parse_selector
from stateplan.plans.states import StateView, node_states

_PLAIN = re.compile(r"(?=.*[^\W\d])[\w$-]+")
_MOST_NAMES = 20
_UID_PREFIX = 4
_TABLE_KEYS = ("scanTableSource", "dynamicTableSink", "temporalTable", "lookupTableSource", "table")
_TABLE_NODES = frozenset({"table-source-scan", "sink", "lookup-join"})

TablePath = tuple[str, ...]
Tables = frozenset[TablePath]


class _MissError(Exception):
    """A selector that does not point at what it has to. Explaining it may try other selectors."""

    def __init__(self, explain: Callable[[], PlanError]) -> None:
        super().__init__()
        self.explain = explain


class _Side(NamedTuple):
    """The tables behind one input: without anything stateful in between, and all of them."""

    direct: Tables
    all: Tables


def _fit(side: _Side, names: Tables) -> int | None:
    """How well ``names`` distinguishes a side from others, 0 best; None if it does not lead to all of it."""
    for level, tables in enumerate((side.direct, side.all)):
        if names <= tables:
            return 2 * level + (names != tables)
    return None


def _union_of(sides: Iterable[_Side]) -> _Side:
    all_sides = list(sides)
    return _Side(frozenset().union(*(s.direct for s in all_sides)), frozenset().union(*(s.all for s in all_sides)))


@dataclass
class _Operator:
    """A node, how it can be called, its states and what its inputs lead to."""

    node: ExecNode
    uids: frozenset[str]
    views: tuple[StateView, ...]
    sides: tuple[_Side, ...]
    own: Tables

    @cached_property
    def words(self) -> frozenset[str]:
        node = self.node
        version = node.type.rpartition("_")[2]
        return frozenset(_name_key(text) for text in (node.title, node.name, node.type, f"{node.title}_{version}"))

    def fit(self, parts: Sequence[Tables]) -> int | None:
        """How well names of tables fit the inputs, 0 best; None if they do not."""
        if self.node.title == "sink" and len(parts) == 1 and parts[0] <= self.own:
            return 0
        sides = (*self.sides, _Side(self.own, self.own)) if self.node.title == "lookup-join" else self.sides
        if len(parts) == 1 or len(sides) == 1:
            return _fit(_union_of(sides), frozenset().union(*parts))
        # best[i]: how well the names up to i fit the sides so far, each of which gets at least one, in their order
        best: dict[int, int] = {0: 0}
        for side in sides:
            level_by_end: dict[int, int] = {}
            for start, level in best.items():
                names: Tables = frozenset()
                for end in range(start, len(parts)):
                    names |= parts[end]
                    fit = _fit(side, names)
                    if fit is None:
                        break
                    level_by_end[end + 1] = min(max(level, fit), level_by_end.get(end + 1, fit + 4))
            best = level_by_end
        return best.get(len(parts))


def _name_key(text: str) -> str:
    return re.sub(r"[-_]", "", text.lower())


def _tables_of(node: ExecNode) -> Tables:
    """The tables a node itself reads or writes."""
    if node.title not in _TABLE_NODES:
        return frozenset()
    part: Any = node.to_json()
    while isinstance(part, dict) and "identifier" not in part:
        part = next((part[key] for key in _TABLE_KEYS if key in part), None)
    identifier = part.get("identifier") if isinstance(part, dict) else None
    return frozenset({split_identifier(identifier)}) if isinstance(identifier, str) and identifier else frozenset()


class Selectors:
    """Finds states of one plan by selectors, and selectors for states.

    Args:
        document: the plan.
        session: options of the session, for states whose TTL neither the plan nor the node says.

    Raises:
        PlanError: PLAN05x, when an option that decides about a TTL is not a duration.
    """

    def __init__(self, document: PlanDocument, session: Mapping[str, str] | None = None) -> None:
        self._document = document
        graph = document.graph
        side_by_node: dict[int, _Side] = {}
        self._operators: list[_Operator] = []
        for node in graph.nodes:
            own = _tables_of(node)
            sides = tuple(side_by_node[source.id] for source in graph.inputs(node))
            behind = _union_of(sides)
            direct = own if node.keeps_state else own | behind.direct
            side_by_node[node.id] = _Side(direct, own | behind.all)
            uid = document.uids[node.id]
            plan_uid = (node.stateplan or {}).get("uid")
            views = node_states(node, uid, session)
            uids = frozenset({uid, plan_uid} if isinstance(plan_uid, str) else {uid})
            self._operators.append(_Operator(node, uids, views, sides, own))
        self._stateful = [o for o in self._operators if o.views]
        self._paths = list(dict.fromkeys(path for o in self._operators for path in sorted(o.own)))

    @property
    def views(self) -> tuple[StateView, ...]:
        """All states of the plan that have a TTL, in the order of its nodes."""
        return tuple(view for operator in self._stateful for view in operator.views)

    def select(self, selector: str | Selector) -> tuple[StateView, ...]:
        """The states a selector points at: one, or more where ``*`` asks for them; in the order of the plan.

        Raises:
            PlanError: PLAN100 (not a selector), PLAN101 (nothing fits), PLAN102 (several operators or states
                fit), PLAN103 (the operator has several states), PLAN104 (it has none with a TTL).
        """
        try:
            return self._select(parse_selector(selector) if isinstance(selector, str) else selector)
        except _MissError as miss:
            raise miss.explain() from None

    def _select(self, selector: Selector) -> tuple[StateView, ...]:
        candidates = self._candidates(selector)
        if selector.operator == ALL and selector.brackets is None and selector.state is None:
            return tuple(view for _, views in candidates for view in views)
        fits = [
            (operator, *((0, views) if selector.state is None else self._states(operator, selector.state)))
            for operator, views in candidates
        ]
        best = min((level for _, level, views in fits if views), default=0)
        matches = [(operator, views) for operator, level, views in fits if views and (selector.many or level == best)]
        if len(matches) > 1 and not selector.many:  # states that only time drops give way
            matches = [match for match in matches if any(v.source != "time" for v in match[1])] or matches
        if not matches:
            raise _MissError(lambda: self._no_state(selector, [operator for operator, _ in candidates]))
        if len(matches) > 1 and not selector.many:
            raise _MissError(lambda: self._ambiguous(selector, matches))
        several = next((match for match in matches if len(match[1]) > 1), None)
        if several and selector.state != ALL:
            raise _MissError(lambda: self._several(selector, *several))
        return tuple(view for _, views in matches for view in views)

    def name_alone(self, view: StateView) -> str:
        """A selector that points at this state alone, the shortest that people can read."""
        operator, state = self._of(view)
        title = operator.node.title
        tables = self._tables_text(operator)
        alone = sum(other.node.title == title for other in self._stateful) == 1
        forms = [f"{title}{state}"] if alone else []
        forms += [f"{title}[{tables}]{state}"] if tables else []
        for form in forms:
            try:
                if self._select(parse_selector(form)) == (view,):
                    return form
            except _MissError:
                continue
        return self.by_id(view)

    def by_id(self, view: StateView) -> str:
        """The selector for this state by the id of its operator, such as ``join[5].right``."""
        operator, state = self._of(view)
        return f"{operator.node.label}{state}"

    def _of(self, view: StateView) -> tuple[_Operator, str]:
        """The operator of a state, and what stands behind it in a selector."""
        operator = next(o for o in self._stateful if o.node.id == view.node_id)
        return operator, "" if len(operator.views) == 1 else f".{_side_word(operator, view.index)}"

    # operators

    def _candidates(self, selector: Selector) -> list[tuple[_Operator, tuple[StateView, ...]]]:
        """The operators a selector names, each with those of its states that it may mean."""
        name = selector.operator
        if selector.brackets is None and name is not None and name != ALL:
            return self._by_word(selector, name)
        pool = self._stateful if name is None or name == ALL else self._of_type(selector, name)
        if name == ALL and selector.brackets is None:  # what time alone drops has to be named
            pool = [o for o in pool if any(view.source != "time" for view in o.views)]
        if selector.brackets is not None and selector.brackets != (ALL,):
            pool = self._within(selector, selector.brackets, pool)
        stateful = [operator for operator in pool if operator.views]
        if not stateful:
            raise _MissError(lambda: self._stateless(selector, pool))
        return [(operator, operator.views) for operator in stateful]

    def _by_word(self, selector: Selector, name: Name) -> list[tuple[_Operator, tuple[StateView, ...]]]:
        pool = [o for o in self._operators if o.node.id == name.number]
        word = _name_key(name.text)
        if not pool and name.number is None and not name.in_backquotes:
            pool = [o for o in self._operators if word in o.words]
            if not pool:
                views_by_operator = [
                    (o, tuple(v for v in o.views if word in _state_words(o, v))) for o in self._stateful
                ]
                matches = [(operator, views) for operator, views in views_by_operator if views]
                if matches and selector.state is None:
                    return matches
        pool = pool or self._by_tables([name], self._stateful) or self._by_uid(name, self._operators)
        if not pool:
            problem = f"no operator, state or table of the plan is called '{name.text:.60}'"
            raise _MissError(lambda: self._nothing(selector, problem, nearest(name.text, self._words())))
        stateful = [operator for operator in pool if operator.views]
        if not stateful:
            raise _MissError(lambda: self._stateless(selector, pool))
        return [(operator, operator.views) for operator in stateful]

    def _of_type(self, selector: Selector, name: Name) -> list[_Operator]:
        pool = [o for o in self._operators if not name.in_backquotes and _name_key(name.text) in o.words]
        if not pool:
            problem = f"the plan has no operator of the type '{name.text:.60}'"
            types = {o.node.title for o in self._operators}
            raise _MissError(lambda: self._nothing(selector, problem, nearest(name.text, types)))
        return pool

    def _within(self, selector: Selector, names: tuple[Name, ...], pool: list[_Operator]) -> list[_Operator]:
        """Those of ``pool`` that the names in brackets mean."""
        stateful = [o for o in pool if o.views]
        if len(names) == 1:
            operators = [o for o in pool if o.node.id == names[0].number]
            operators = operators or self._by_tables(names, stateful) or self._by_uid(names[0], pool)
        else:
            operators = self._by_tables(names, stateful)
        if operators:
            return operators
        if not stateful:
            raise _MissError(lambda: self._stateless(selector, pool))
        raise _MissError(lambda: self._not_within(selector, names, stateful))

    def _by_uid(self, name: Name, pool: Iterable[_Operator]) -> list[_Operator]:
        """The operator with this uid, else those whose uid begins so."""
        text = name.text.lower().removeprefix("uid:")
        if name.in_backquotes or not text:
            return []
        operators = [o for o in pool if text in o.uids]
        if not operators and len(text) >= _UID_PREFIX:
            operators = [o for o in pool if any(uid.startswith(text) for uid in o.uids)]
        return operators

    def _by_tables(self, names: Sequence[Name], pool: Sequence[_Operator]) -> list[_Operator]:
        """The operators whose inputs lead to these tables; of those, the ones that fit best."""
        fits: list[tuple[int, _Operator]] = []
        for operator in pool:
            levels = [level for parts in self._meanings(names) if (level := operator.fit(parts)) is not None]
            if levels:
                fits.append((min(levels), operator))
        best = min((level for level, _ in fits), default=0)
        return [operator for level, operator in fits if level == best]

    def _meanings(self, names: Sequence[Name]) -> Iterator[tuple[Tables, ...]]:
        """What names of tables may mean together."""
        meanings: list[tuple[Tables, ...]] = [()]
        for name in names:
            meanings = [(*names, tables) for names in meanings for tables in self._tables(name)][:100]
        yield from meanings

    def _tables(self, name: Name) -> list[Tables]:
        """What one name of a table or an alias may mean."""
        if name == ALL or (name.number is not None):
            return []
        for fold in (str, str.lower):
            parts = tuple(map(fold, name.parts))
            matches = [
                frozenset({path}) for path in self._paths if tuple(map(fold, path))[-len(parts) :] == parts
            ]  # fmt: skip
            if matches:
                return matches
            alias_sets = [sets for alias, sets in self._aliases.items() if (fold(alias),) == parts]
            if alias_sets:
                return list(dict.fromkeys(tables for sets in alias_sets for tables in sets))
        return []

    @cached_property
    def _aliases(self) -> dict[str, list[Tables]]:
        """The aliases of the recorded SQL that stand for tables of the plan."""
        facts = self._document.facts
        by_name: dict[str, Tables] = {}
        for path in self._paths:
            by_name[path[-1]] = by_name.get(path[-1], frozenset()) | {path}
        sets_by_alias: dict[str, list[Tables]] = {}
        for alias, sets in (aliases(facts.sql) if facts and facts.sql else {}).items():
            for names in sorted(map(sorted, sets)):
                if names and all(name in by_name for name in names):
                    sets_by_alias.setdefault(alias, []).append(frozenset().union(*(by_name[name] for name in names)))
        return sets_by_alias

    # states

    def _states(self, operator: _Operator, name: Name) -> tuple[int, tuple[StateView, ...]]:
        """The states of an operator that the name behind the point means, and how well it fits them, 0 best."""
        views = operator.views
        if name == ALL:
            return 0, views
        if name.number is not None:
            return 0, tuple(view for view in views if view.index == name.number)
        word = _name_key(name.text)
        matches = tuple(view for view in views if not name.in_backquotes and word in _state_words(operator, view))
        if matches or len(views) != len(operator.sides) or len(views) < 2:
            return 0, matches
        fits = [
            (level, view)
            for view, side in zip(views, operator.sides, strict=True)
            for tables in self._tables(name)
            if (level := _fit(side, tables)) is not None
        ]
        best = min((level for level, _ in fits), default=0)
        return best, tuple(dict.fromkeys(view for level, view in fits if level == best))

    def _tables_text(self, operator: _Operator) -> str | None:
        """The tables of each input as a selector names them; None when an input leads to none."""
        sides = [side.direct or side.all for side in operator.sides]
        sets = [operator.own] if operator.node.title == "sink" else sides
        if not sets or not all(sets):
            return None
        return "*".join(self._table_text(path) for tables in sets for path in self._paths if path in tables)

    def _table_text(self, path: TablePath) -> str:
        paths = [other for other in self._paths if other[-1] == path[-1]]
        parts = path[-1:] if len(paths) < 2 else path
        return ".".join(p if _PLAIN.fullmatch(p) else "`" + p.replace("`", "``") + "`" for p in parts)

    def _words(self) -> list[str]:
        """Everything a selector may begin with."""
        words = [o.node.title for o in self._stateful]
        words += [view.name for o in self._stateful for view in o.views]
        return list(dict.fromkeys([*words, *(path[-1] for path in self._paths), *self._aliases]))

    # errors

    def _list_text(self, views: Sequence[StateView], lead: str = "one of") -> str:
        if not views:
            return "a plan with state; no operator of this one has any with a TTL"
        rows = [(self.name_alone(v), f"{v.operator} {v.node_id}", v.name, ttl_text(v.ttl)) for v in views[:_MOST_NAMES]]
        rest = f"\n    and {len(views) - _MOST_NAMES} more: stateplan plan show" if len(views) > _MOST_NAMES else ""
        return f"{lead}\n{in_columns(rows, '    ')}".rstrip("\n") + rest

    def _all(self, operators: Iterable[_Operator]) -> list[StateView]:
        return [view for operator in operators for view in operator.views]

    def _nothing(
        self, selector: Selector, problem: str, hint: str | None, among: Sequence[_Operator] | None = None
    ) -> PlanError:
        return PlanError(
            "PLAN101",
            text=selector.text,
            what=problem,
            place=selector.place,
            expected=self._list_text(self._all(self._stateful if among is None else among)),
            hint=hint,
        )

    def _not_within(self, selector: Selector, inputs: tuple[Name, ...], pool: Sequence[_Operator]) -> PlanError:
        title = selector.operator.text if selector.operator and selector.operator != ALL else "operator with state"
        names = [".".join(name.parts) for name in inputs]
        other = next((o.node for o in self._operators if o.node.id == inputs[0].number), None)
        hint = next((nearest(name.text, self._words()) for name in inputs if not self._tables(name)), None)
        if len(inputs) > 1:
            problem = f"no {title} of the plan has the inputs {'*'.join(names):.80}, in this order"
            orders = permutations(range(len(inputs))) if hint is None and len(inputs) < 5 else ()
            order = next((p for p in orders if self._by_tables([inputs[i] for i in p], pool)), None)
            if order is not None:
                hint = f"did you mean '{title}[{'*'.join(names[i] for i in order)}]'?"
        elif other is not None:
            problem = f"the node {other.id} is a {other.title}"
        else:
            problem = f"no {title} of the plan reads '{names[0]:.60}'"
        return self._nothing(selector, problem, hint, pool)

    def _stateless(self, selector: Selector, pool: Sequence[_Operator]) -> PlanError:
        title = pool[0].node.title if pool else "operator"
        subject = f"the {title} {pool[0].node.id} keeps" if len(pool) == 1 else f"the {len(pool)} nodes {title} keep"
        return PlanError(
            "PLAN104",
            what=subject if pool else "no operator of the plan keeps",
            suffix="no " if pool else "",
            wording="its" if len(pool) <= 1 else "their",
            text=selector.text,
            place=selector.place,
            expected=self._list_text(self._all(self._stateful)),
        )

    def _no_state(self, selector: Selector, operators: Sequence[_Operator]) -> PlanError:
        state = selector.state.text if selector.state else ""
        names = [word for o in operators for v in o.views for word in (_side_word(o, v.index), v.name)]
        one = operators[0].node
        subject = f"the {one.title} {one.id} has" if len(operators) == 1 else "these operators have"
        return PlanError(
            "PLAN101",
            text=selector.text,
            what=f"{subject} no state '{state:.60}'",
            place=selector.place,
            expected=self._list_text(self._all(operators)),
            hint=nearest(state, names),
        )

    def _ambiguous(self, selector: Selector, matches: Sequence[tuple[_Operator, Sequence[StateView]]]) -> PlanError:
        return PlanError(
            "PLAN102",
            text=selector.text,
            count=len(matches),
            place=selector.place,
            expected=self._list_text([view for _, views in matches for view in views]),
            hint=self._every(selector, [operator for operator, _ in matches]),
        )

    def _every(self, selector: Selector, operators: Sequence[_Operator]) -> str | None:
        titles = {operator.node.title for operator in operators}
        state = (
            f".{selector.state.text}" if selector.state else "" if all(len(o.views) == 1 for o in operators) else ".*"
        )
        if len(titles) > 1 or len([o for o in self._stateful if o.node.title in titles]) != len(operators):
            return None
        return f"'{titles.pop()}[*]{state}' for all of them"

    def _several(self, selector: Selector, operator: _Operator, views: Sequence[StateView]) -> PlanError:
        every = f"{selector.text if selector.state is None else f'{operator.node.label}'}.*"
        return PlanError(
            "PLAN103",
            text=selector.text,
            count=len(views),
            title=operator.node.title,
            id=operator.node.id,
            every=every,
            place=selector.place,
            expected=self._list_text(views),
        )


def _state_words(operator: _Operator, view: StateView) -> set[str]:
    """What a state may be called: its name and the name Flink gives it, each with and without ``State``."""
    names = {_name_key(name) for name in (view.name, operator.node.state_names[view.index])}
    return names | {name.removesuffix("state") for name in names} - {""}


def _side_word(operator: _Operator, index: int) -> str:
    """``left``, ``right`` or the index; a name that people chose."""
    name = operator.node.state_names[index]
    if operator.node.NAMED_STATES:
        return name
    return name.removesuffix("State") if name in ("leftState", "rightState") else str(index)


def select_states(
    document: PlanDocument, selector: str | Selector, session: Mapping[str, str] | None = None
) -> tuple[StateView, ...]:
    """The states of a plan that a selector points at; see :meth:`Selectors.select`."""
    return Selectors(document, session).select(selector)

"""Random edits of queries: what people change in the SQL of a job that runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, ClassVar, TypeVar

from tests.support.evolutions.making import BOUNDS, JOINS, LINEAR, MINI_BATCH, MULTI_JOIN, SPANS, TTLS, WINDOWS, Maker
from tests.support.evolutions.queries import (
    Aggregate,
    Calc,
    Call,
    Distinct,
    Interval,
    Join,
    Node,
    Over,
    Program,
    Rank,
    Semi,
    Table,
    UnfitError,
    Union,
    Window,
)

PHASES = "table.optimizer.agg-phase-strategy"
T = TypeVar("T")
Edit = Callable[[], None]


class Editor:
    """Edits a program in place. Each edit raises UnfitError where it is not possible.

    Args:
        make: makes parts.
        program: the program.
    """

    def __init__(self, make: Maker, program: Program) -> None:
        self.make = make
        self.rng = make.rng
        self.program = program

    def edit(self) -> str:
        """One random edit. Returns its name."""
        if self.make.chance(0.2):
            return self._run(self._of_program())
        node = self.rng.choice(list(self.program.walk()))
        if self.make.chance(0.15):
            return self._run([lambda: self.put_between(node), lambda: self.take_out(node)])
        return self._run(self._of_node(node))

    def edit_ttl(self) -> None:
        """Another TTL: of all operators, or of one."""
        hinted = [node for node in self.program.walk() if isinstance(node, (Aggregate, Join))]
        if not hinted or self.make.chance(0.7):
            self.program.options["table.exec.state.ttl"] = self.rng.choice(TTLS)
            return
        node, ttl = self.rng.choice(hinted), self.rng.choice(TTLS)
        if isinstance(node, Join):
            node.ttl = {self.rng.choice("lr"): ttl}
        else:
            node.ttl = ttl

    def _run(self, edits: list[Edit]) -> str:
        edit = self.rng.choice(edits)
        edit()
        return getattr(edit, "__name__", "")

    # -- lists -------------------------------------------------------------------------------------------------------

    def remove(self, parts: list[T], least: int = 0) -> None:
        if len(parts) <= least:
            raise UnfitError
        del parts[self.rng.randrange(len(parts))]

    def add(self, parts: list[T], part: T) -> None:
        if part in parts:
            raise UnfitError
        parts.insert(self.rng.randint(0, len(parts)), part)

    def reorder(self, parts: list[T]) -> None:
        before = list(parts)
        self.rng.shuffle(parts)
        if parts == before:
            raise UnfitError

    def change(self, parts: list[T], part: T) -> None:
        if not parts or part in parts:
            raise UnfitError
        parts[self.rng.randrange(len(parts))] = part

    # -- programs ----------------------------------------------------------------------------------------------------

    def _of_program(self) -> list[Edit]:
        return [self.mini_batch, self.multi_join, self.phases, self.sink_added, self.sink_removed, self.widen]

    def multi_join(self) -> None:
        """Joins on one key as one operator, or as several again."""
        if not any(isinstance(node, Join) for node in self.program.walk()):
            raise UnfitError
        if self.program.options.pop(MULTI_JOIN, None) is None:
            self.program.options[MULTI_JOIN] = "true"

    def phases(self) -> None:
        """Aggregates of windows in one phase, or in two again."""
        if not any(isinstance(node, Window) for node in self.program.walk()):
            raise UnfitError
        if self.program.options.pop(PHASES, None) is None:
            self.program.options[PHASES] = "ONE_PHASE"

    def widen(self) -> None:
        """Wider types of the columns of tables."""
        if self.program.is_wide:
            raise UnfitError
        self.program.is_wide = True

    def mini_batch(self) -> None:
        if "table.exec.mini-batch.enabled" in self.program.options:
            for key in MINI_BATCH:
                del self.program.options[key]
        else:
            self.program.options.update(MINI_BATCH)

    def sink_added(self) -> None:
        self.program.queries.append(self.make.query(self.rng.choice((1, 2))))

    def sink_removed(self) -> None:
        self.remove(self.program.queries, 1)

    # -- the tree ----------------------------------------------------------------------------------------------------

    def replace(self, node: Node, other: Node) -> None:
        """Puts an operator in the place of another one."""
        self.program.queries[:] = [other if q is node else q for q in self.program.queries]
        for parent in list(self.program.walk()):
            if parent is other:
                continue
            if isinstance(parent, Union):
                parent.branches[:] = [other if b is node else b for b in parent.branches]
            for attribute in fields(parent):
                if getattr(parent, attribute.name) is node:
                    setattr(parent, attribute.name, other)

    def put_between(self, node: Node) -> None:
        """A filter on the rows of an operator."""
        columns = node.columns()
        self.replace(node, Calc(node, [(c, "{}", c, columns[c]) for c in columns], [self.make.condition(columns)]))

    def take_out(self, node: Node) -> None:
        """An operator gone, with those behind it reading what it read."""
        if not isinstance(node, (Calc, Distinct, Rank, Semi, Aggregate)):
            raise UnfitError
        self.replace(node, node.inputs[0])

    # -- operators ---------------------------------------------------------------------------------------------------

    def _of_node(self, node: Node) -> list[Edit]:
        """The edits of an operator."""
        for kind, edits in self._EDITS.items():
            if isinstance(node, kind):
                return edits(self, node)
        raise UnfitError

    def _table(self, node: Table) -> list[Edit]:
        return [lambda: setattr(node, "name", self.make.other_table(node.name))]

    def _calc(self, node: Calc) -> list[Edit]:
        columns = node.below.columns()
        return [
            lambda: self.add(node.where, self.make.condition(columns)),
            lambda: self.add(node.where, self.make.condition(columns)),
            lambda: self.remove(node.where),
            lambda: self.change(node.where, self.make.condition(columns)),
            lambda: self.remove(node.items, 1),
            lambda: self.add(node.items, self.make.expression(columns)),
            lambda: self.compute(node.items),
            lambda: self.compute(node.items),
            lambda: self.reorder(node.items),
        ]

    def compute(self, items: list[tuple[str, str, str, str]]) -> None:
        """A column that is an expression now."""
        numbers = [i for i, (_, text, _, kind) in enumerate(items) if kind in "ils" and text == "{}"]
        if not numbers:
            raise UnfitError
        number = self.rng.choice(numbers)
        column, _, name, kind = items[number]
        text = "UPPER({})" if kind == "s" else self.rng.choice(("{} + 1", "-{}", "CAST({} AS BIGINT)", "{} * 3 + 1"))
        items[number] = column, text, name, kind

    def _calls(self, calls: list[Call], below: Node, least: int) -> list[Edit]:
        columns = below.columns()
        return [
            lambda: self.add(calls, self.make.call(columns)),
            lambda: self.add(calls, self.make.call(columns)),
            lambda: self.add(calls, self.related(calls)),
            lambda: self.remove(calls, least),
            lambda: self.remove(calls, least),
            lambda: self.reorder(calls),
            lambda: self.change(calls, self.make.call(columns)),
        ]

    def related(self, calls: list[Call]) -> Call:
        """Another function of the argument of a call."""
        if not (arguments := [c for c in calls if c.column and c.kind in "ilfds" and "_VALUE(" not in c.text]):
            raise UnfitError
        call = self.rng.choice(arguments)
        texts = ("COUNT({})", "COUNT(*)", "MIN({})", "MAX({})", "COUNT(DISTINCT {})")
        if call.kind != "s" and "COUNT" not in call.text:
            texts += ("SUM({})", "AVG({})", "SUM(DISTINCT {})")
        text = self.rng.choice(texts)
        if text != "COUNT(*)" and call.kind in "il" and "COUNT" not in call.text and "DISTINCT" not in text:
            text = text.replace("{}", self.rng.choice(("{}", "{}", *LINEAR)))
        column = "" if text == "COUNT(*)" else call.column
        return Call(text, column, self.make.name(), "l" if "COUNT" in text else call.kind, call.filter)

    def _keys(self, keys: list[str], below: Node, least: int) -> list[Edit]:
        columns = below.columns()
        return [
            lambda: self.add(keys, self.make.one(columns, "is")),
            lambda: self.remove(keys, least),
            lambda: self.remove(keys, least),
            lambda: self.reorder(keys),
        ]

    def _aggregate(self, node: Aggregate) -> list[Edit]:
        return [
            *self._calls(node.calls, node.below, 0),
            *self._keys(node.keys, node.below, 0),
            *self._keys(node.keys, node.below, 1),
            lambda: setattr(node, "having", self.rng.choice((None, 0, 1, 2))),
        ]

    def _distinct(self, node: Distinct) -> list[Edit]:
        return self._keys(node.output, node.below, 1)

    def _join(self, node: Join) -> list[Edit]:
        sides = node.sides()
        side = self.rng.choice("lr")
        return [
            lambda: setattr(node, "kind", self.rng.choice(JOINS)),
            lambda: setattr(node, "kind", self.rng.choice(JOINS)),
            lambda: self.swap(node),
            lambda: self.to_semi(node),
            self.multi_join,
            lambda: self.add(node.keys, self.make.pair(sides["l"], sides["r"])),
            lambda: self.remove(node.keys, 1),
            lambda: self.change(node.keys, self.make.pair(sides["l"], sides["r"])),
            lambda: self.reorder(node.keys),
            lambda: self.add(node.further, (side, self.make.condition(sides[side]))),
            lambda: self.remove(node.further),
            lambda: self.add(node.unequal, self.make.unequal(sides["l"], sides["r"])),
            lambda: self.remove(node.unequal),
            lambda: self.remove(node.output, 1),
            lambda: self.remove(node.output, 1),
            lambda: self.reorder(node.output),
            lambda: setattr(node, "output", self.make.output(sides["l"], sides["r"])),
        ]

    def _interval(self, node: Interval) -> list[Edit]:
        return [
            *self._join(node),
            *[lambda: setattr(node, "bounds", self.rng.choice(BOUNDS))] * 4,
            *[lambda: setattr(node, "kind", "JOIN")] * 2,
            *[lambda: self.put_between(self.rng.choice((node.left, node.right)))] * 2,
        ]

    def swap(self, node: Join) -> None:
        """The sides of a join the other way round; the result stays, but for a mirrored kind at times."""
        node.left, node.right = node.right, node.left
        node.keys = [(b, a) for a, b in node.keys]
        if isinstance(node, Interval):
            node.times, node.bounds = node.times[::-1], (-node.bounds[1], -node.bounds[0])
        mirror = {"l": "r", "r": "l"}
        node.output = [(mirror[s], c, n) for s, c, n in node.output]
        node.further = [(mirror[s], c) for s, c in node.further]
        signs = {"<": ">", ">=": "<=", "<>": "<>", ">": "<", "<=": ">="}
        node.unequal = [(b, signs[sign], a) for a, sign, b in node.unequal]
        if self.make.chance(0.7):
            kinds = {"LEFT JOIN": "RIGHT JOIN", "RIGHT JOIN": "LEFT JOIN"}
            node.kind = kinds.get(node.kind, node.kind)

    def to_semi(self, node: Join) -> None:
        node.columns()  # has all that it puts out
        if isinstance(node, Interval):
            raise UnfitError
        names = [(column, "{}", name, node.left.columns()[column]) for side, column, name in node.output if side == "l"]
        if not names or node.further:
            raise UnfitError
        plain = node.left.columns()
        output = [(c, "{}", c, plain[c]) for c in plain if plain[c] not in "rp"]
        left = Calc(node.left, output)
        self.replace(node, Calc(Semi(left, node.right, node.keys, self.make.chance(0.4), node.unequal), names))

    def _semi(self, node: Semi) -> list[Edit]:
        one, other = node.left.columns(), node.right.columns()
        return [
            lambda: setattr(node, "negated", not node.negated),
            lambda: setattr(node, "negated", not node.negated),
            lambda: self.to_join(node),
            lambda: self.add(node.keys, self.make.pair(one, other)),
            lambda: self.remove(node.keys, 1),
            lambda: self.add(node.unequal, self.make.unequal(one, other)),
            lambda: self.remove(node.unequal),
        ]

    def to_join(self, node: Semi) -> None:
        output = [("l", c, c) for c in node.columns()]
        self.replace(node, Join(node.left, node.right, self.rng.choice(JOINS), node.keys, output, [], node.unequal))

    def _rank(self, node: Rank) -> list[Edit]:
        columns = node.below.columns()
        flipped = [(c, "ASC" if way == "DESC" else "DESC") for c, way in node.order[:1]] + node.order[1:]
        return [
            *self._keys(node.keys, node.below, 0),
            lambda: setattr(node, "limit", self.rng.choice((1, 2, 3, 4))),
            lambda: setattr(node, "limit", self.rng.choice((1, 2, 3, 4))),
            lambda: setattr(node, "order", flipped),
            lambda: setattr(node, "offset", self.rng.choice((0, 1))),
            lambda: self.remove(node.output, 1),
            lambda: self.add(node.output, self.make.one(columns, "ils")),
            lambda: setattr(node, "shown", not node.shown),
        ]

    def _window(self, node: Window) -> list[Edit]:
        return [
            *self._calls(node.calls, node.below, 0),
            *self._keys(node.keys, node.below, 0),
            self.phases,
            self.phases,
            lambda: self.resize(node),
            lambda: self.resize(node),
            lambda: self.resize(node),
            lambda: setattr(node, "kind", self.rng.choice(WINDOWS)),
            lambda: setattr(node, "kind", self.rng.choice(WINDOWS)),
        ]

    def resize(self, node: Window) -> None:
        node.size, node.step = self.rng.choice(SPANS)

    def _over(self, node: Over) -> list[Edit]:
        columns = node.below.columns()
        texts = ("SUM({})", "MAX({})", "COUNT({})", "MIN({})")
        call = Call(self.rng.choice(texts), self.make.one(columns, "il"), self.make.name(), "l")
        return [
            *self._keys(node.keys, node.below, 0),
            lambda: self.add(node.calls, call),
            lambda: self.remove(node.calls, 1),
            lambda: self.reorder(node.calls),
            lambda: setattr(node, "frame", self.make.frame()),
        ]

    def _union(self, node: Union) -> list[Edit]:
        return [
            lambda: self.add(node.branches, self.make.branch()),
            lambda: self.remove(node.branches, 2),
            lambda: self.reorder(node.branches),
            lambda: self.remove(node.output, 1),
        ]

    _EDITS: ClassVar[dict[type[Node], Callable[[Any, Any], list[Edit]]]] = {
        Table: _table,
        Calc: _calc,
        Aggregate: _aggregate,
        Distinct: _distinct,
        Interval: _interval,
        Join: _join,
        Semi: _semi,
        Rank: _rank,
        Window: _window,
        Over: _over,
        Union: _union,
    }

"""What tests touch of a query: its operators, its TTLs, and the branches of its CASE expressions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field

import polars as pl

from stateplan.common.changelog import column
from stateplan.common.errors import StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.ttl import NEVER
from stateplan.functions.program import Program
from stateplan.functions.rex import Call, Rex
from stateplan.functions.rex_text import rex_text
from stateplan.plans.document import ttl_text
from stateplan.plans.selectors import Selectors
from stateplan.plans.states import StateView
from stateplan.testing.operators import Operators
from stateplan.testing.play import Outcome, Play, Trial
from stateplan.testing.story import Case
from stateplan.testing.taps import Taps


@dataclass
class TtlUse:
    """What tests have shown of a TTL.

    Attributes:
        name: the state.
        ttl: its TTL, as text.
        has_expired: whether a row of the state has expired.
        was_used: whether a row was found before it expired, after its micro-batch.
    """

    name: str
    ttl: str
    has_expired: bool = False
    was_used: bool = False


@dataclass
class Coverage:
    """What the tests of a file touch.

    Attributes:
        operators: whether an operator has emitted rows, by uid and name.
        ttls: by uid and number of the state.
        branches: whether a branch was taken, by operator and text.
    """

    operators: dict[tuple[str, str], bool] = field(default_factory=dict)
    ttls: dict[tuple[str, int], TtlUse] = field(default_factory=dict)
    branches: dict[tuple[str, str], bool] = field(default_factory=dict)

    def add(self, case: Case, options: Mapping[str, str]) -> Outcome:
        """Runs a test, and adds what it touches."""
        taps = Taps()
        play = Play(case, options, Trial(taps=taps, after=self._look))
        outcome = play.run()
        if play.stage is None:
            return outcome
        plan = play.stage.plan
        operators = Operators(plan.graph, plan.zone, taps)
        uids = {node.label: plan.document.uids[node.id] for node in plan.document.graph.nodes}
        for name in operators.names:
            key = (uids[name], name)
            self.operators[key] = self.operators.get(key, False) or operators.emits(name)
        for program, frames in taps.programs.items():
            for text, is_taken in branches_of(program, frames):
                branch = (program.operator or "", text)
                self.branches[branch] = self.branches.get(branch, False) or is_taken
        return outcome

    def _look(self, play: Play) -> None:
        """Looks at the states after a moment of a test."""
        stage = play.stage
        assert stage is not None
        selectors = Selectors(stage.plan.document, stage.plan.options)
        uid_of = {spec.node: spec.uid for spec in stage.job.operators}
        for view in selectors.views:
            if view.ttl == NEVER:
                continue
            use = self._use(view, selectors)
            figures = stage.total.get(uid_of.get(view.node_id, ""), {})
            use.was_used |= any(name.startswith(f"ages.{view.index}.") for name in figures)
            use.has_expired |= bool(figures.get(f"expired_rows.{view.index}"))
            use.has_expired |= stage.expired_rows(view) > 0

    def _use(self, view: StateView, selectors: Selectors) -> TtlUse:
        key = (view.uid, view.index)
        if key not in self.ttls:
            self.ttls[key] = TtlUse(selectors.name_alone(view), ttl_text(view.ttl))
        return self.ttls[key]

    @property
    def is_complete(self) -> bool:
        """Whether everything is touched."""
        ttls = all(use.has_expired and use.was_used for use in self.ttls.values())
        return ttls and all(self.operators.values()) and all(self.branches.values())


def branches_of(program: Program, frames: list[tuple[pl.DataFrame, int]]) -> Iterator[tuple[str, bool]]:
    """The branches of the CASE expressions of a program, and whether rows have taken them."""
    branches: dict[str, bool] = {}
    walk = _Walk(program, branches)
    empty = pl.DataFrame()
    for frame, now in [*frames, (empty, 0)]:
        try:
            rows = walk.all_rows(frame)
            if program.condition is not None:
                walk.visit(program.condition, frame, now, rows)
                rows = walk.mask(program.condition, frame, now, rows)
            for rex in program.projection:
                walk.visit(rex, frame, now, rows)
        except (StateplanError, pl.exceptions.PolarsError):  # what fails the job is not for here
            continue
    yield from branches.items()


@dataclass
class _Walk:
    """Follows rows into the branches of CASE; a frame without columns takes none.

    Attributes:
        program: the expressions.
        branches: by text of a branch, whether a row has taken it.
    """

    program: Program
    branches: dict[str, bool]

    def all_rows(self, frame: pl.DataFrame) -> pl.Series:
        return pl.Series([True] * frame.height, dtype=pl.Boolean)

    def mask(self, rex: Rex, frame: pl.DataFrame, now: int, rows: pl.Series) -> pl.Series:
        """The rows of ``rows`` on which a condition is TRUE."""
        if not frame.height or not rows.any():
            return rows.fill_null(False) & False if frame.height else rows
        matching = frame.filter(rows)
        values = Program((rex,), None, self.program.time_zone)(matching, now)[column(0)].fill_null(False)
        out = [False] * frame.height
        for place, value in zip(rows.arg_true().to_list(), values.to_list(), strict=True):
            out[place] = value
        return pl.Series(out, dtype=pl.Boolean)

    def visit(self, rex: Rex, frame: pl.DataFrame, now: int, rows: pl.Series) -> None:
        if not isinstance(rex, Call):
            return
        if rex.name not in ("CASE", "IF"):
            for operand in rex.operands:
                self.visit(operand, frame, now, rows)
            return
        operands = rex.operands
        for place in range(0, len(operands) - 1, 2):
            condition, value = operands[place], operands[place + 1]
            self.visit(condition, frame, now, rows)
            matching = self.mask(condition, frame, now, rows)
            self._note(f"WHEN {self._text(condition)}", matching)
            self.visit(value, frame, now, matching)
            rows = rows & ~matching
        self._note(f"ELSE {self._text(operands[-1])}", rows)
        self.visit(operands[-1], frame, now, rows)

    def _note(self, text: str, rows: pl.Series) -> None:
        self.branches[text] = self.branches.get(text, False) or bool(rows.any())

    def _text(self, rex: Rex) -> str:
        return rex_text(rex, self.program.names)


def coverage_text(coverage: Coverage) -> str:
    """What the tests of a file touch, and what they do not."""
    operators, ttls, branches = coverage.operators, coverage.ttls, coverage.branches
    lines = [
        f"  operators: {sum(operators.values())} of {len(operators)} emit rows",
        f"  TTLs: rows expire by {sum(u.has_expired for u in ttls.values())} of {len(ttls)}, "
        f"and are used before by {sum(u.was_used for u in ttls.values())}",
        f"  CASE: {sum(branches.values())} of {len(branches)} branches taken",
    ]
    lines += [f"    {name} emits no row in any test" for (_, name), emits in operators.items() if not emits]
    for use in ttls.values():
        if not use.has_expired:
            lines.append(f"    no row of {use.name} expires in any test; its TTL is {use.ttl}")
        if not use.was_used:
            lines.append(f"    no row of {use.name} is used in a later micro-batch in any test; its TTL is {use.ttl}")
    lines += [f"    {name}: no row takes {text}" for (name, text), is_taken in branches.items() if not is_taken]
    return "\n".join(lines)


def coverage_json(coverage: Coverage) -> dict[str, object]:
    """The same for programs."""
    return {
        "operators": [{"operator": name, "emits": emits} for (_, name), emits in coverage.operators.items()],
        "ttls": [
            {"state": use.name, "ttl": use.ttl, "expires": use.has_expired, "used": use.was_used}
            for use in coverage.ttls.values()
        ],
        "branches": [
            {"operator": name, "branch": text, "taken": is_taken}
            for (name, text), is_taken in coverage.branches.items()
        ],
    }

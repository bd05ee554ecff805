"""What a change does to each query: to its plan, to its state and their TTLs, and what lint finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Literal

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.ttl import outlives
from stateplan.plans.diff import OperatorDiff, PlanDiff, compare
from stateplan.plans.document import PlanDocument
from stateplan.plans.lint import Finding, lint
from stateplan.plans.selectors import Selectors
from stateplan.plans.states import StateView
from stateplan.review.figures import Amount, Figures, StateFigure
from stateplan.review.queries import Query

Status = Literal["created", "deleted", "changed", "unchanged", "broken"]

Fate = Literal["kept", "rewritten", "converted", "rebuilt", "empty", "lost", "unknown", "deleted", "new"]
"""What becomes of the state of an operator: it is used as it is, or in another layout; it is computed from the old
state, or made from what the sources have read, for a new checkpoint; an operator without old state starts empty; state
is lost, or it is unknown whether it can be used; its operator is removed; its query is new."""

FATES: tuple[Fate, ...] = ("kept", "new", "deleted", "rewritten", "converted", "rebuilt", "empty", "lost", "unknown")
"""From harmless to not."""

_SHORTENED = "TTL010"
"""The lint rule about TTLs that are shorter than before."""

_BY_VERDICT: Mapping[str, Fate] = {
    "rewrite": "rewritten",
    "derive": "converted",
    "backfill": "rebuilt",
    "reset": "lost",
    "unknown": "unknown",
}


@dataclass(frozen=True)
class StateChange:
    """A state in one or both plans.

    Attributes:
        selector: how it is named, in the new plan if it is there.
        fate: what becomes of it.
        old, new: the state in each plan; None if it is not there.
        before: what the job of the old plan keeps; None if that is unknown.
        after: what that of the new plan would keep; None if that is unknown.
    """

    selector: str
    fate: Fate
    old: StateView | None
    new: StateView | None
    before: Amount | None = None
    after: Amount | None = None

    @property
    def changes_ttl(self) -> bool:
        """Whether its TTL differs."""
        return self.old is not None and self.new is not None and self.old.ttl != self.new.ttl

    @property
    def expires_rows(self) -> bool:
        """Whether rows that are older than the new TTL expire at once."""
        return self.old is not None and self.new is not None and outlives(self.old.ttl, self.new.ttl)


@dataclass(frozen=True)
class LintChange:
    """What lint finds.

    Attributes:
        new: findings that the old plan does not have.
        former: findings of the old plan that the new one does not have.
        old: the other findings.
        suppressed: those of the new plan that it suppresses, and the old one does not.
        shortened: findings that say that a TTL is shorter than that of existing rows.
    """

    new: tuple[Finding, ...] = ()
    former: tuple[Finding, ...] = ()
    old: tuple[Finding, ...] = ()
    suppressed: tuple[Finding, ...] = ()
    shortened: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class QueryChange:
    """A query on one or both sides.

    Attributes:
        name: how the review calls it.
        status: what has happened to it; ``broken`` if the new side does not compile.
        old, new: the query on each side; None if it is not there.
        diff: the plans compared; None unless both are there.
        states: its states, in the order of the plan.
        lint: what lint finds.
        figures: where the figures of its state are from; None if there are none.
    """

    name: str
    status: Status
    old: Query | None
    new: Query | None
    diff: PlanDiff | None = None
    states: tuple[StateChange, ...] = ()
    lint: LintChange = field(default_factory=LintChange)
    figures: Figures | None = None

    @cached_property
    def fates(self) -> Mapping[Fate, Sequence[str]]:
        """The states by what becomes of them, the worst fate first."""
        return {
            fate: names
            for fate in reversed(FATES)
            if (names := [state.selector for state in self.states if state.fate == fate])
        }

    @property
    def fate(self) -> Fate:
        """The worst fate of its states."""
        return next(iter(self.fates), "kept")

    @property
    def loses_state(self) -> bool:
        """Whether state that the old plan has is lost, or may be."""
        return self.fate in ("lost", "unknown")

    def of_fate(self, *fates: Fate) -> list[StateChange]:
        """The states with one of these fates."""
        return [state for state in self.states if state.fate in fates]


def compare_query(
    name: str, old: Query | None, new: Query | None, options: Mapping[str, str], figures: Figures | None = None
) -> QueryChange:
    """What became of a query."""
    if new is not None and new.error is not None:
        return QueryChange(name, "broken", old, new)
    old_plan = None if old is None else old.document
    new_plan = None if new is None else new.document
    if old_plan is None and new_plan is None:
        return QueryChange(name, "deleted", old, new)
    if new_plan is None:
        assert old_plan is not None
        states = tuple(_only(old_plan, "deleted", figures, options))
        return QueryChange(name, "deleted", old, new, states=states, figures=figures)
    if old_plan is None:
        report = lint(new_plan, options)
        states = tuple(_only(new_plan, "new", None, options))
        return QueryChange(name, "created", old, new, states=states, lint=LintChange(new=report.findings))
    diff = compare(old_plan, new_plan)
    is_same = diff.verdict == "identical" and not any(o.changes for o in diff.operators)
    return QueryChange(
        name,
        "unchanged" if is_same else "changed",
        old,
        new,
        diff,
        tuple(_states(diff, old_plan, new_plan, figures, options)),
        _lint(diff, old_plan, new_plan, figures, options),
        figures,
    )


def _only(
    document: PlanDocument, fate: Fate, figures: Figures | None, options: Mapping[str, str]
) -> Iterator[StateChange]:
    """The states of a plan that the other side does not have."""
    selectors = Selectors(document, options)
    for view in selectors.views:
        figure = None if figures is None else figures.states.get((view.uid, view.index))
        before = None if figure is None else figure.now
        if fate == "deleted":
            yield StateChange(selectors.name_alone(view), fate, view, None, before, Amount.exactly(0, 0))
        else:
            yield StateChange(selectors.name_alone(view), fate, None, view)


def _states(
    diff: PlanDiff, old: PlanDocument, new: PlanDocument, figures: Figures | None, options: Mapping[str, str]
) -> Iterator[StateChange]:
    old_names, new_names = Selectors(old, options), Selectors(new, options)
    old_views = {(view.node_id, view.index): view for view in old_names.views}
    new_views = {(view.node_id, view.index): view for view in new_names.views}
    for operator in diff.operators:
        was = [view for (node, _), view in old_views.items() if operator.old is not None and node == operator.old.id]
        now = [view for (node, _), view in new_views.items() if operator.new is not None and node == operator.new.id]
        for index in range(max(len(was), len(now))):
            before = was[index] if index < len(was) else None
            after = now[index] if index < len(now) else None
            names, view = (new_names, after) if after is not None else (old_names, before)
            assert view is not None
            fate = _fate(operator, before, after)
            key = None if before is None else (before.uid, before.index)
            figure = None if figures is None or key is None else figures.states.get(key)
            amount = None if figure is None else figure.now
            yield StateChange(names.name_alone(view), fate, before, after, amount, _after(fate, before, after, figure))


def _fate(operator: OperatorDiff, before: StateView | None, after: StateView | None) -> Fate:
    if after is None:
        return "deleted"
    if before is None:
        return "empty" if operator.verdict == "reset" else _BY_VERDICT.get(operator.verdict, "empty")
    return _BY_VERDICT.get(operator.verdict, "kept")


def _after(fate: Fate, before: StateView | None, after: StateView | None, figure: StateFigure | None) -> Amount | None:
    """What a state would keep; None if that is unknown."""
    if fate == "deleted":
        return Amount.exactly(0, 0)
    if figure is None or before is None or after is None or fate not in ("kept", "rewritten"):
        return None
    amount = figure.now if before.ttl == after.ttl else figure.under(before.ttl, after.ttl)
    if amount is None or fate == "kept":
        return amount
    return Amount(amount.rows, amount.most_rows, None, None)  # other columns


def _lint(
    diff: PlanDiff, old: PlanDocument, new: PlanDocument, figures: Figures | None, options: Mapping[str, str]
) -> LintChange:
    old_report = lint(old, options)
    new_report = lint(new, options, against=old, observed=None if figures is None else figures.uses)
    partners = {o.new.id: o.old.id for o in diff.operators if o.new is not None and o.old is not None}

    def new_key(finding: Finding) -> tuple[str, int | None, int | None]:
        return finding.code, partners.get(finding.node_id), finding.state

    def old_key(finding: Finding) -> tuple[str, int | None, int | None]:
        return finding.code, finding.node_id, finding.state

    left = Counter(map(old_key, old_report.findings))
    fresh, same = list[Finding](), list[Finding]()
    for finding in new_report.findings:
        if finding.code == _SHORTENED:
            continue
        is_old = left[new_key(finding)] > 0
        left[new_key(finding)] -= is_old
        (same if is_old else fresh).append(finding)
    former = []
    for finding in old_report.findings:
        if left[old_key(finding)] > 0:
            left[old_key(finding)] -= 1
            former.append(finding)
    suppressed_before = {old_key(finding) for finding, _ in old_report.suppressed}
    suppressed = [f for f, _ in new_report.suppressed if new_key(f) not in suppressed_before]
    shortened = tuple(finding for finding in new_report.findings if finding.code == _SHORTENED)
    return LintChange(tuple(fresh), tuple(former), tuple(same), tuple(suppressed), shortened)

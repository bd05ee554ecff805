"""Which TTL a state needs, by how old its rows were when they were used, and what that TTL would free.

Uses come from the records of micro-batches in the checkpoint (:mod:`runtime.metrics.ages`), what is kept from the state
itself. A TTL misses the uses of rows that are as old as it, or older. Of state that is refreshed only when it is
written, each use is judged as if all earlier ones had been found, so a deduplication misses fewer than estimated.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from stateplan.common.errors import OptionError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.readable import ago
from stateplan.common.ttl import NEVER, format_ttl, outlives
from stateplan.plans.document import PlanDocument
from stateplan.plans.lint import choose, fix
from stateplan.plans.selector_text import Assignment, parse_selector
from stateplan.plans.state.show import StateFigures, StateReport
from stateplan.plans.states import state_views
from stateplan.runtime.metrics.ages import Histogram, bounds
from stateplan.runtime.metrics.state_uses import StateUses

KEPT_RULES = ("TTL001", "TTL002", "TTL004", "TTL005", "TTL012")
"""The lint rules about states of one plan that need each other."""

FEWEST = 10
"""From fewer uses nothing is advised."""

_ROUNDING = 0.01
_UNITS = (86_400_000, 3_600_000, 60_000, 1_000)
_SURE = 3.0
"""Of this number of uses per expected one, 95 of 100 times at least one is seen (the rule of three)."""


@dataclass(frozen=True)
class Point:
    """What a TTL (ms) would keep and miss."""

    ttl: int
    rows: int
    bytes: float
    missed: int


@dataclass(frozen=True)
class StateAdvice:
    """What is advised for one state.

    Attributes:
        figures: what is there.
        uses: by what rows are used for.
        observed: how long they were observed, by the clock of the micro-batches, ms.
        least_ttl: the shortest TTL that held meanwhile: uses of older rows cannot be seen. NEVER for none.
        now: the instant that ages of rows are counted from, ms.
        missed: how many uses may be missed.
        own: the TTL that the uses need, ms; None if there are fewer than :data:`FEWEST`.
        ttl: the one that is advised, at least as long; None if none is.
        rule: the lint rule for which it is longer; empty if no rule needs it.
    """

    figures: StateFigures
    uses: Mapping[str, Histogram]
    observed: int
    least_ttl: int
    now: int
    missed: int
    own: int | None
    ttl: int | None
    rule: str = ""

    @cached_property
    def all(self) -> Histogram:
        """All uses together."""
        histogram_sum = Histogram()
        for histogram in self.uses.values():
            histogram_sum.add(histogram.counts)
        return histogram_sum

    @property
    def selector(self) -> str:
        return self.figures.state.selector

    def at(self, ttl: int) -> Point:
        """What a TTL would keep of the live rows and miss of the uses; NEVER keeps all."""
        total = self.figures.total
        live = sum(n for _, n in total.times)
        rows = live if ttl == NEVER else sum(n for time, n in total.times if time > self.now - ttl)
        share = total.rows_bytes / total.rows if total.rows else 0.0
        return Point(ttl, rows, rows * share, self.all.missed(ttl))

    @property
    def present(self) -> Point:
        """What the TTL that holds keeps."""
        return self.at(self.figures.state.config.ttl)

    @property
    def sure(self) -> bool:
        """Whether enough was seen: enough uses for the share that may be missed, over twice the TTL, and no TTL hides
        older ones."""
        return not self.doubts

    @property
    def doubts(self) -> list[str]:
        """Why the advice may be wrong."""
        if self.own is None:
            return []
        doubts = []
        if self.least_ttl != NEVER and self.own >= self.least_ttl - self.least_ttl // 16:
            doubts.append(
                f"uses of rows older than {format_ttl(self.least_ttl)} were hidden by the TTL; try a longer one"
            )
        if self.observed < 2 * self.own:
            doubts.append(f"only {ago(self.observed, 0)} were observed, less than twice this TTL")
        if self.missed == 0 and self.all.total < _SURE * 10_000:
            rate = min(1.0, _SURE / self.all.total)
            doubts.append(f"{self.all.total:,} uses are too few to show misses below {rate:.2%}")
        return doubts

    def curve(self) -> list[Point]:
        """Over all TTLs at which something changes, at most some hundreds."""
        ends = {bounds(bucket)[1] + 1 for bucket in self.all.counts}
        ends |= {ttl for ttl in (self.ttl, self.own) if ttl}
        return [self.at(ttl) for ttl in sorted(ends)]

    def to_json(self) -> dict[str, Any]:
        """JSON-ready data."""
        state, present = self.figures.state, self.present
        advised = None if self.ttl is None else self.at(self.ttl)
        return {
            "selector": state.selector,
            **(state.view.identity if state.view else {}),
            "ttlMillis": state.config.ttl,
            "rows": present.rows,
            "bytes": round(present.bytes),
            "uses": {use: h.total for use, h in self.uses.items()},
            "oldestUseMillis": self.all.oldest,
            "observedMillis": self.observed,
            "hiddenAboveMillis": self.least_ttl or None,
            "ownMillis": self.own,
            "advisedMillis": self.ttl,
            "advised": None if self.ttl is None else format_ttl(self.ttl),
            "because": self.rule or None,
            "missed": advised and advised.missed,
            "keptRows": advised and advised.rows,
            "keptBytes": advised and round(advised.bytes),
            "sure": self.sure,
            "doubts": self.doubts,
            "curve": [
                {"ttlMillis": p.ttl, "rows": p.rows, "bytes": round(p.bytes), "missed": p.missed} for p in self.curve()
            ],
        }


@dataclass(frozen=True)
class Advised:
    """Advice for the states of a checkpoint.

    Attributes:
        report: their figures.
        miss: the share of uses that may be missed.
        states: in the order of the plan.
    """

    report: StateReport
    miss: float
    states: tuple[StateAdvice, ...]

    @property
    def assignments(self) -> list[Assignment]:
        """The advised TTLs that are not those that hold."""
        return [
            Assignment(parse_selector(s.selector), s.ttl)
            for s in self.states
            if s.ttl is not None and s.ttl != s.figures.state.config.ttl
        ]

    def to_json(self) -> dict[str, Any]:
        """JSON-ready data."""
        snapshot = self.report.snapshot
        return {
            "checkpoint": str(snapshot.folder),
            "batch": snapshot.batch,
            "miss": self.miss,
            "states": [s.to_json() for s in self.states],
        }


def parse_share(text: str) -> float:
    """``0.01%`` or ``0.0001`` as a share in percent.

    Raises:
        OptionError: OPT405, it is neither, or not between 0 and 100 %.
    """
    number = text.strip()
    try:
        share = float(number.removesuffix("%")) * (1.0 if number.endswith("%") else 100.0)
    except ValueError:
        share = math.nan
    if not 0 <= share < 100:
        raise OptionError("OPT405", text=text)
    return share


def advise(
    report: StateReport,
    document: PlanDocument,
    observed: StateUses,
    miss: float,
    session: Mapping[str, str] | None = None,
) -> Advised:
    """Advice for the states of a report.

    Args:
        report: the figures of all states of the plan.
        document: the plan in the checkpoint.
        observed: the uses of its states.
        miss: the share of uses that may be missed, in percent.
        session: options of the session, for TTLs that the plan does not say.
    """
    advice = [_own(figures, report, observed, miss) for figures in report.states if figures.state.view is not None]
    return Advised(report, miss, tuple(_consistent(advice, document, session)))


def _own(figures: StateFigures, report: StateReport, observed: StateUses, miss: float) -> StateAdvice:
    """The TTL that a state asks for by itself."""
    state, snapshot = figures.state, report.snapshot
    uses = observed.uses(state.operator.entry.uid, state.index)
    settings = state.live.settings if state.live else ()
    last_before = max((s.since for s in settings if s.since <= observed.first), default=0)
    ttls = [s.ttl for s in settings if s.since >= last_before and s.since <= snapshot.batch] or [state.config.ttl]
    hidden_age = min((ttl for ttl in ttls if ttl != NEVER), default=NEVER)
    newest = figures.total.newest
    now = newest if state.config.by_event_time and newest is not None else snapshot.now
    advice = StateAdvice(figures, uses, observed.span, hidden_age, now, 0, None, None)
    if advice.all.total < FEWEST:
        return advice
    may_miss = int(advice.all.total * miss / 100)
    own = rounded_up(advice.all.ttl_for(may_miss))
    return replace(advice, missed=may_miss, own=own, ttl=own)


def rounded_up(ttl: int) -> int:
    """The next TTL in a larger unit, if it is at most one percent longer, ms."""
    for unit in _UNITS:
        rounded_ttl = -(-ttl // unit) * unit
        if rounded_ttl <= ttl * (1 + _ROUNDING):
            return rounded_ttl
    return ttl


def _consistent(
    advice_list: Sequence[StateAdvice], document: PlanDocument, session: Mapping[str, str] | None
) -> Iterable[StateAdvice]:
    """The advice with TTLs as long as other states ask for, by the rules of lint; states without uses keep theirs."""
    keys = [(s.figures.state.operator.node.id, s.figures.state.index) for s in advice_list]
    planned_ttls = [s.figures.state.config.ttl if s.ttl is None else s.ttl for s in advice_list]
    edits = [(*key, ttl) for key, ttl in zip(keys, planned_ttls, strict=True) if ttl != _ttl_of(document, key, session)]
    edited_plan = document.with_splices(document.ttl_splices(edits, session)) if edits else document
    fixed_plan, ttl_changes = fix(edited_plan, session, rules=choose(KEPT_RULES))
    codes = {a.node_id: a.code for a in ttl_changes}
    for advice, key, ttl in zip(advice_list, keys, planned_ttls, strict=True):
        longer = _ttl_of(fixed_plan, key, session)
        if outlives(longer, ttl):
            yield replace(advice, ttl=longer, rule=codes.get(key[0], ""))
        else:
            yield advice


def _ttl_of(document: PlanDocument, key: tuple[int, int], session: Mapping[str, str] | None) -> int:
    return next(v.ttl for v in state_views(document.graph, document.uids, session) if (v.node_id, v.index) == key)

"""Why an expectation does not hold: what each operator did in the step, and which TTL makes the difference.

It says what it has seen. The rows of operators are those of another run of the test, with a look at what each operator
emits. A TTL is named if the expectation holds in a run in which only that state never expires.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from stateplan.common.errors import StateplanError
from stateplan.common.readable import amount, in_columns
from stateplan.common.ttl import NEVER
from stateplan.plans.document import ttl_text
from stateplan.plans.selectors import Selectors
from stateplan.plans.states import StateView
from stateplan.testing.checks import Verdict
from stateplan.testing.operators import Operators
from stateplan.testing.play import Outcome, Play, Trial
from stateplan.testing.rows import Change
from stateplan.testing.taps import Taps

_ROWS = 3
"""This number of rows are traced."""

_OF_ROWS = ("table", "changelog", "rows")


def explain(outcome: Outcome, options: Mapping[str, str]) -> None:
    """Adds what is known of the reason to the failures of a test."""
    failures = {verdict.expect.line: verdict for verdict in outcome.failures}
    views: dict[int, list[tuple[StateView, str]]] = {}

    def look(play: Play, verdict: Verdict) -> None:
        mine = failures.get(verdict.expect.line)
        if mine is not None and verdict.expect.subject in _OF_ROWS:
            mine.why += _operator_lines(play)
            mine.why += _trace_lines(play, verdict)
            views[verdict.expect.line] = _expiring(play)

    Play(outcome.case, options, Trial(taps=Taps(), look=look)).run()
    for view, name in dict.fromkeys(pair for pairs in views.values() for pair in pairs):
        trial = Trial(lasting=frozenset({(view.node_id, view.index)}))
        verdicts = {v.expect.line: v for v in Play(outcome.case, options, trial).run().verdicts}
        for line in views:
            text = _effect(failures[line], verdicts.get(line))
            if text:
                failures[line].why.append(f"{text} if {name} never expires; its TTL is {ttl_text(view.ttl)}")


def _effect(verdict: Verdict, other: Verdict | None) -> str:
    """What is better in another run; empty if nothing is."""
    if other is None or verdict.difference is None:
        return ""
    if other.holds:
        return "the expectation holds"
    after = len(other.difference.missing_rows) if other.difference is not None else 0
    count = len(verdict.difference.missing_rows) - after
    if count <= 0:
        return ""
    return f"{count} of the missing rows {'is' if count == 1 else 'are'} there"


def _expiring(play: Play) -> list[tuple[StateView, str]]:
    """The states that expire, with their names."""
    assert play.stage is not None
    plan = play.stage.plan
    selectors = Selectors(plan.document, plan.options)
    return [(view, selectors.name_alone(view)) for view in selectors.views if view.ttl != NEVER]


def _operator_lines(play: Play) -> Iterator[str]:
    """What operators did in the step: rows in and out, and rows that were late, had expired or were not found."""
    assert play.stage is not None
    job, figures = play.stage.job, play.step_figures
    rows: list[tuple[str, ...]] = [("operator", "rows in", "rows out", "")]
    names = [(s.uid, s.name.removeprefix("default_catalog.default_database.")) for s in job.sources]
    names += [(o.uid, o.name) for o in job.operators]
    for uid, name in names:
        mine = figures.get(uid, {})
        counts = (("late", "late_rows"), ("expired", "expired_rows"), ("retractions missed", "retractions_missed"))
        notes = [f"{int(mine[key])} {word}" for word, key in counts if mine.get(key)]
        rows.append((name, str(int(mine.get("rows_in", 0))), str(int(mine.get("rows_out", 0))), ", ".join(notes)))
    if len(rows) > 1:
        yield "in this step:"
        yield from (f"  {line}" for line in in_columns(rows).splitlines())


def _trace_lines(play: Play, verdict: Verdict) -> Iterator[str]:
    """Up to where rows that are missing have come, and where rows that are not expected are from."""
    assert play.stage is not None and play.trial.taps is not None and verdict.difference is not None
    difference = verdict.difference
    operators = Operators(play.stage.plan.graph, play.stage.plan.zone, play.trial.taps)
    for change in difference.missing_rows[:_ROWS]:
        names = _emitters(operators, change)
        text = _row_text(difference.columns, change)
        if not names:
            yield f"no operator has emitted a row with the values of {text}"
        else:
            yield f"the last operator that has emitted the values of {text} is {names[-1]}"
    for change in difference.extra[:_ROWS]:
        names = _emitters(operators, change)
        if names:
            text = _row_text(difference.columns, change)
            yield f"the first operator that has emitted the values of {text} is {names[0]}"


def _emitters(operators: Operators, change: Change) -> list[str]:
    """The operators that have emitted a row with all values of a row, from the sources on."""
    values = Counter(cell for cell in change.cells if cell is not None)
    out = []
    for name in operators.names:
        try:
            rows = operators.changes(name)
        except StateplanError:  # a type that no format holds
            continue
        if values and any(values <= Counter(c for c in row.cells if c is not None) for row in rows):
            out.append(name)
    return out


def _row_text(columns: Sequence[str], change: Change) -> str:
    cells = ", ".join("NULL" if cell is None else cell for cell in change.cells)
    return f"({cells})" if len(columns) <= 6 else f"({amount(len(columns), 'value')})"

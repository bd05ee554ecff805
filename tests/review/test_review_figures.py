"""How much state a change leaves, and what it takes to know it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.ttl import NEVER
from stateplan.plans.states import state_views
from stateplan.review.comparison import compare_query
from stateplan.review.figures import Amount, StateFigure, of_checkpoint, of_report
from stateplan.review.words import amount_words
from tests.review.jobs_of_reviews import CHANGES, DAY, job_of, plan_of, queries

OLD = CHANGES / "longer_ttl" / "old.sql"


def test_figures_of_a_checkpoint_are_those_of_its_last_micro_batch(tmp_path: Path) -> None:
    document = plan_of(OLD)
    figures = of_checkpoint(str(job_of(document, tmp_path / "job")), {})
    keys = [(view.uid, view.index) for view in state_views(document.graph, document.uids)]
    assert {key: figures.states[key].rows for key in keys} == dict.fromkeys(keys, 1000)
    assert figures.matches(document) == 2


def test_a_job_with_another_plan_is_named(tmp_path: Path) -> None:
    from stateplan.review.review import review
    from stateplan.review.sides import two_sides

    new = OLD.with_name("new.sql")
    other = tmp_path / "other.sql"
    other.write_text(OLD.read_text().replace("o.num,", "o.num + 1,"))
    figures = of_checkpoint(str(job_of(plan_of(other), tmp_path / "job")), {})
    (note,) = review(*two_sides(str(OLD), str(new), None), {}, [figures]).notes
    assert "runs another plan than the old" in note
    nothing = replace(figures, states={})
    (note,) = review(*two_sides(str(OLD), str(new), None), {}, [nothing]).notes
    assert "belong to no query that has changed" in note


def test_trials_of_a_report_count(tmp_path: Path) -> None:
    view, _ = state_views(plan_of(OLD).graph, plan_of(OLD).uids)
    entry = {"uid": view.uid, "index": 0, "selector": "join.left", "liveRows": 10, "liveBytes": 1000, "oldestMillis": 0}
    trial = {
        "selector": "join.left",
        "ttl": {"from": "7 d", "to": "1 d"},
        "never": False,
        "liveRows": 4,
        "freedBytes": 600,
        "revivedBytes": 0,
    }
    (tmp_path / "figures.json").write_text(json.dumps({"nowMillis": DAY, "states": [entry], "whatIf": [trial]}))
    figure = of_report(str(tmp_path / "figures.json")).states[view.uid, 0]
    assert figure.under(7 * DAY, DAY) == Amount.exactly(4, 400)
    assert figure.span == DAY


def test_state_that_never_expires_has_no_limit() -> None:
    assert StateFigure(10, 1000, DAY).under(DAY, NEVER) == Amount(10, None, 1000, None)
    assert amount_words(Amount(10, None, 1000, None)) == "at least 10 rows, at least 1000 B"


def test_a_short_run_says_nothing_of_a_long_ttl() -> None:
    assert StateFigure(10, 1000, DAY).under(20 * DAY, 30 * DAY) == Amount(10, None, 1000, None)


def test_without_a_span_nothing_is_known_of_a_shorter_ttl_than_never() -> None:
    assert StateFigure(10, 1000).under(NEVER, DAY) is None
    assert StateFigure(10, 1000, 10 * DAY).under(NEVER, DAY) == Amount(1, 10, 100, 1000)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=200), st.integers(1, 60), st.integers(1, 60))
def test_bounds_hold_where_rows_arrive_evenly(keys: list[int], old: int, new: int) -> None:
    """A row of some key arrives in every unit of time, over and over in the same order. A state keeps the last row of
    each key that is younger than its TTL."""
    averages = {}
    for ttl in (old, new):
        # The average over all phases: at one moment, rows need not have arrived evenly.
        counts = [len({keys[(end - age) % len(keys)] for age in range(ttl)}) for end in range(len(keys))]
        averages[ttl] = sum(counts) / len(counts)
    scale = 1_000_000
    bounds = StateFigure(round(averages[old] * scale), 0, None).under(old, new)
    assert bounds is not None
    assert bounds.rows - scale <= averages[new] * scale
    assert bounds.most_rows is None or averages[new] * scale <= bounds.most_rows + scale


def test_converted_state_has_an_unknown_size(tmp_path: Path) -> None:
    folder = CHANGES / "another_aggregate"
    figures = of_checkpoint(str(job_of(plan_of(folder / "old.sql"), tmp_path / "job")), {})
    (old,), (new,) = queries(folder / "old.sql"), queries(folder / "new.sql")
    change = compare_query("q", old, new, {}, figures)
    by_name = {state.selector: state for state in change.states}
    assert by_name["group-aggregate"].after is None
    assert by_name["deduplicate"].after == Amount.exactly(1000, 100_000)

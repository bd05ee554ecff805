"""Which slots belong to which operator, from plan to plan; and what a start that never came to a micro-batch leaves."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

import polars as pl
import pytest

from stateplan.common.errors import CheckpointError
from stateplan.plans.derivation import StateMove
from stateplan.runtime.checkpoint.slots import LAYOUTS, Continuation, Layout, laid_out
from stateplan.runtime.jobgraph import IDLE, JobGraph
from stateplan.runtime.kernel import FormerColumns
from stateplan.runtime.state.keyed_state import KeyedState, MemoryRunStore
from stateplan.runtime.state.run_cache import RunCache
from stateplan.runtime.state.runs import RunInfo
from tests.runtime.state_jobs import NO_GRAPH, Rows, job


def going_on(
    job_: JobGraph, before: Layout, batch: int, moves: dict[int, StateMove] | None = None, **names: int
) -> Any:
    """``names``: ``now_5=3`` says that operator 5 uses the state of the old one 3; others start empty."""
    pairs = {int(k.split("_")[1]): was for k, was in names.items()}
    found = Continuation(NO_GRAPH, pairs, {s.node: s.node for s in job_.sources}, {}, moves or {})
    return laid_out(job_, before, found, batch, "here")


def firsts(layout: Layout) -> dict[int, int]:
    return {o.node: o.first for o in layout.operators}


def test_ranges_follow_names_and_not_the_order() -> None:
    _, first = laid_out(job((1, 1), (2, 1), (3, 1)), None, None, 0, "here")
    assert firsts(first) == {1: 0, 2: 4, 3: 8}
    graph, second = going_on(job((7, 1), (8, 1)), first, 5, now_7=3, now_8=1)
    assert firsts(second) == {7: 8, 8: 0}
    assert [(d.first, d.since) for d in second.dropped] == [(4, 5)]
    assert [graph.slot(0, 0), graph.slot(1, 3), graph.sink_slot(0)] == [8, 3, 12]
    assert graph.touches_state


def test_a_dropped_range_is_free_once_its_micro_batch_is_committed() -> None:
    _, first = laid_out(job((1, 1), (2, 1)), None, None, 0, "here")
    _, second = going_on(job((1, 1)), first, 5, now_1=1)
    _, again = going_on(job((1, 1), (3, 1)), second, 5, now_1=1)
    assert firsts(again) == {1: 0, 3: 8}, "micro-batch 5 has not been committed: 4 to 7 may still hold something"
    assert [d.first for d in again.dropped] == [4]
    graph, later = going_on(job((1, 1), (3, 1)), second, 6, now_1=1)
    assert firsts(later) == {1: 0, 3: 4}
    assert later.dropped == ()
    assert not graph.touches_state


def test_layouts_survive_json() -> None:
    _, first = laid_out(job((1, 1), (2, 2), width=3), None, None, 0, "here")
    _, second = going_on(job((1, 1), width=2), first, 3, {1: StateMove(((0, 2),))}, now_1=1)
    for layout in (first, second):
        assert LAYOUTS.validate_json(LAYOUTS.dump_json((layout,))) == (layout,)


def test_fewer_levels_are_kept_and_more_are_refused() -> None:
    _, first = laid_out(job((1, 1), (2, 2)), None, None, 0, "here")
    graph, second = going_on(job((1, 1)), first, 1, now_1=1)
    assert graph.levels == second.levels == 2
    with pytest.raises(CheckpointError) as raised:
        going_on(job((1, 1), (2, 2), (3, 3)), first, 1, now_1=1)
    assert raised.value.code == "CKPT021"


@pytest.mark.parametrize("sources", [(90,), (90, 91, 92), ()])
def test_other_sources_are_refused(sources: tuple[int, ...]) -> None:
    _, first = laid_out(job((1, 1), sources=(90, 91)), None, None, 0, "here")
    with pytest.raises(CheckpointError) as raised:
        going_on(job((1, 1), sources=sources), first, 1, now_1=1)
    assert raised.value.code == "CKPT022"


def test_sources_that_are_no_nodes_of_the_plan_continue() -> None:
    jobs = [job((1, 1), sources=(-2, 90, -1)) for _ in range(2)]
    _, first = laid_out(jobs[0], None, None, 0, "here")
    _, again = laid_out(jobs[1], first, Continuation(NO_GRAPH, {1: 1}, {90: 90}), 1, "here")
    assert [entry.node for entry in again.sources] == [entry.node for entry in first.sources] == [-2, 90, -1]


def test_sources_keep_the_order_that_spark_counts_them_in() -> None:
    _, first = laid_out(job((1, 1), sources=(90, 91)), None, None, 0, "here")
    graph, _ = going_on(job((1, 1), sources=(91, 90)), first, 1, now_1=1)
    assert [graph.sources[i].node for i in graph.order if i is not None] == [90, 91]


def test_a_source_that_is_left_is_counted_and_reads_nothing() -> None:
    _, first = laid_out(job((1, 1), sources=(90, 91, 92)), None, None, 0, "here")
    smaller = job((1, 1), sources=(92, 90))
    left = Continuation(NO_GRAPH, {1: 1}, {90: 90, 92: 92}, leaves_sources=True)
    graph, second = laid_out(smaller, first, left, 4, "here")
    again, third = going_on(smaller, second, 5, now_1=1)
    for some, layout in ((graph, second), (again, third)):
        assert [entry.node for entry in layout.sources] == [90, IDLE, 92]
        ordered = [some.sources[i] for i in some.order if i is not None]
        assert [source.node for source in ordered] == [90, IDLE, 92]
        assert ordered[1].marks == first.sources[1].markers
        assert ordered[1].reader.latest_offset({"at": 3}) == {"at": 3} and not ordered[1].pipeline.outputs
    with pytest.raises(CheckpointError) as raised:
        going_on(job((1, 1), sources=(90, 91, 92)), second, 5, now_1=1)
    assert raised.value.code == "CKPT022", "rows that nobody read are gone"


def test_state_of_another_layout_is_refused() -> None:
    _, first = laid_out(job((1, 1)), None, None, 0, "here")
    with pytest.raises(CheckpointError) as raised:
        going_on(job((1, 1), width=1), first, 1, now_1=1)
    assert raised.value.code == "CKPT024"
    with pytest.raises(CheckpointError) as raised:
        going_on(job((1, 1)), first, 1, {1: StateMove(((1, 0),))}, now_1=1)
    assert raised.value.code == "CKPT024", "rows would be looked up by another column"


def test_columns_of_all_former_versions_are_remembered() -> None:
    _, first = laid_out(job((1, 1), width=3), None, None, 0, "here")
    _, second = going_on(job((1, 1), width=3), first, 4, {1: StateMove(((0, 2, 1),))}, now_1=1)
    assert second.operators[0].version == 1
    assert second.operators[0].former_columns == {0: {"rows": {"c0": "c0", "c1": "c2", "c2": "c1"}}}
    graph, same = going_on(job((1, 1), width=3), second, 5, now_1=1)
    assert same.operators == second.operators
    assert (graph.operators[0].version, graph.touches_state) == (1, False)
    assert graph.operators[0].former_columns == second.operators[0].former_columns
    for batch in (4, 5):  # whether the second plan has come as far as to its first micro-batch, or not
        _, third = going_on(job((1, 1), width=2), second, batch, {1: StateMove(((0, 1),))}, now_1=1)
        former = {0: {"rows": {"c0": "c0", "c1": "c2"}}, 1: {"rows": {"c0": "c0", "c1": "c1"}}}
        assert (third.operators[0].version, third.operators[0].former_columns) == (2, former)


def test_copied_state_gets_other_columns_in_its_slots() -> None:
    _, old = laid_out(job((1, 1), (2, 1), width=3), None, None, 0, "old")
    found = Continuation(NO_GRAPH, {7: 2, 8: 1}, {}, {}, {7: StateMove(((0, 2),)), 8: StateMove(((0, 1),))})
    _, new = laid_out(job((8, 1), (7, 2), width=2), None, found, 1, "new", {7: old.operators[1]})
    places = {o.node: (o.first, o.level, o.version, o.former_columns) for o in new.operators}
    assert places == {7: (4, 2, 1, {0: {"rows": {"c0": "c0", "c1": "c2"}}}), 8: (0, 1, 0, {})}


def test_runs_keep_the_columns_of_their_version() -> None:
    store = MemoryRunStore()
    wide, narrow = Rows(3).tables, Rows(2).tables
    keys = pl.DataFrame({"c0": [0, 1, 2, 3]})

    def rows_of(version: int, former_columns: FormerColumns = MappingProxyType({})) -> list[tuple[object, ...]]:
        state = KeyedState(store, RunCache(None), narrow, "here", version, former_columns)
        return sorted(state.lookup(narrow[0], keys, 2, 0).select("c0", "c1").rows())

    state = KeyedState(store, RunCache(None), wide, "here")
    for n in range(3):
        rows = pl.DataFrame({"c0": [n, n + 1], "c1": [10 * n, 5], "c2": [7, 100 + n], "@t": [1, 1]})
        state.write(wide[0], rows, pl.DataFrame({"c0": [9]}), 1, 0)
    state.flush()
    before = dict(store.values)
    former_columns = {0: {"rows": {"c0": "c0", "c1": "c2"}}}
    assert rows_of(1, former_columns) == [(0, 7), (1, 7), (2, 7), (3, 102)]
    KeyedState(store, RunCache(None), narrow, "here", 1, former_columns).flush()
    assert store.values == before

    def write(key: int) -> list[int]:
        """The versions of all runs after one more micro-batch, from old to new."""
        state = KeyedState(store, RunCache(None), narrow, "here", 1, former_columns)
        state.write(narrow[0], pl.DataFrame({"c0": [key], "c1": [0], "@t": [2]}), None, 2, 0)
        state.flush()
        assert store.text is not None
        return [RunInfo(*part).version for part in json.loads(store.text)["tables"]["rows"]]

    assert write(2) == [1, 0, 0, 1], "a micro-batch rewrites one"
    same = {"rows": {"c0": "c0", "c1": "c1"}}
    assert rows_of(2, {0: same, 1: same}) == [(0, 7), (1, 10), (2, 0), (3, 5)], "each run as its own version says"
    for version, columns in ((0, {}), (1, {}), (2, former_columns)):
        with pytest.raises(CheckpointError) as error:
            rows_of(version, columns)
        assert error.value.code == "CKPT010"
    assert write(4) == [1, 1, 0, 1, 1]
    assert write(4) == [1, 1, 1, 1, 1, 1]
    assert rows_of(1) == [(0, 7), (1, 7), (2, 0), (3, 102)]
    assert KeyedState(MemoryRunStore(), RunCache(None), narrow, "here", 3).lookup(narrow[0], keys, 2, 0).is_empty()


def test_lists_of_runs_of_earlier_releases_name_one_version() -> None:
    store, (table,) = MemoryRunStore(), Rows(2).tables
    state = KeyedState(store, RunCache(None), [table], "here", 3)
    state.write(table, pl.DataFrame({"c0": [1], "c1": [2], "@t": [1]}), None, 1, 0)
    state.flush()
    assert store.text is not None
    listed = json.loads(store.text)
    listed["tables"]["rows"] = [part[:-1] for part in listed["tables"]["rows"]]
    store.text = json.dumps({**listed, "version": 3})
    with pytest.raises(CheckpointError, match="has version 3"):
        KeyedState(store, RunCache(None), [table], "here", 4)
    state = KeyedState(store, RunCache(None), [table], "here", 4, {3: {"rows": {"c0": "c0", "c1": "c1"}}})
    state.touch_time()
    state.flush()
    assert "version" not in json.loads(store.text)
    assert [RunInfo(*part).version for part in json.loads(store.text)["tables"]["rows"]] == [3]

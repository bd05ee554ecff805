"""State of a multi-join that was keyed by a unique key alone goes on where rows of that key arrive out of order."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from stateplan.common.errors import CheckpointError
from stateplan.evolution.load_tasks import current_rows
from stateplan.execnodes.graph import ExecGraph
from stateplan.plans.document import PlanDocument
from stateplan.runtime import translate as translation
from stateplan.runtime.checkpoint.slots import Continuation, laid_out
from stateplan.runtime.inspect.stored_tables import stored_tables
from stateplan.runtime.local.levels import LocalLevels
from stateplan.runtime.state.keyed_state import KeyedState
from stateplan.runtime.state.run_cache import RunCache
from tests.support.evolving import GROUPS, Play, Tables, replayed, sink

QUERY = """SET 'table.optimizer.multi-join.enabled' = 'true';
INSERT INTO out1 SELECT x.id, x.k, c.v FROM
  (SELECT * FROM d WHERE NOT EXISTS (SELECT 1 FROM n WHERE n.k = d.k)) AS x JOIN c ON x.id = c.k"""
DDL = (
    replayed("d", "id INT, k INT, PRIMARY KEY (id) NOT ENFORCED", "retract")
    + replayed("n", "k INT")
    + replayed("c", "k INT, v INT", "retract")
    + sink("a INT, b INT, c INT")
)
IDS = range(1, 9)


@pytest.fixture
def document(tmp_path: Path) -> PlanDocument:
    """The plan with Flink's keys. Each row moves to another key at 2, and meets another row at 3."""
    tables = Tables(tmp_path, DDL)
    moves = [(2, op, i, k) for i in IDS for op, k in (("-U", i), ("+U", (i + 3) % 8))]
    tables.arrive_in("d", "@at, _op, id, k", [*((1, "+I", i, i) for i in IDS), *moves, (4, "-D", 1, 4)])
    tables.arrive_in("n", "@at, k", [(1, 100)])
    tables.arrive_in("c", "@at, _op, k, v", [(at, "+I", i, at) for at in (1, 3) for i in IDS])
    plan = json.loads(tables.plan(QUERY).text)
    (join,) = (node for node in plan["nodes"] if node["type"] == "stream-exec-multi-join_1")
    join["inputUniqueKeys"] = [[[0]], []]
    return PlanDocument.parse(json.dumps(plan))


def keyed_as_before(document: PlanDocument) -> Play:
    """The job of an earlier release, which took all keys for safe."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(translation, "inputs_out_of_order", lambda *_: frozenset())
        return Play(document)


def restarted(old: Play, graph: ExecGraph) -> Play:
    """The job of this release on the checkpoint of an earlier one."""
    new = Play(old.document)
    job = translation.translate(graph, {}, GROUPS, job_id="job")
    new.job, new.layout = laid_out(job, old.layout, Continuation.same(graph), 1, "memory")
    new.levels = LocalLevels(new.job)
    new.levels.stores = copy.deepcopy(old.levels.stores)
    return new


def test_the_rows_are_read_as_they_were_written(document: PlanDocument) -> None:
    whole = Play(document).run()
    assert [len(changes) for changes in whole] == [8, 16, 8, 2]
    old = keyed_as_before(document)
    assert old.run(0, 1) == whole[:1]
    new = restarted(old, document.graph)
    assert new.run(1) == whole[1:]
    again = Play(document)
    again.job, again.layout = laid_out(
        translation.translate(document.graph, {}, GROUPS, job_id="job"),
        new.layout,
        Continuation.same(document.graph),
        2,
        "memory",
    )
    assert again.layout == new.layout


def test_the_state_can_be_inspected(document: PlanDocument) -> None:
    """The tables are then those of the layout, and the rows of both releases are among them."""
    old = keyed_as_before(document)
    old.run(0, 1)
    new = restarted(old, document.graph)
    rows = new.states()
    assert rows == old.states()
    (entry,) = (e for e in new.layout.operators if "input-state-0" in e.tables)
    (table,) = (t for t in stored_tables(entry.tables) if t.name == "input-state-0")
    (spec,) = (s for s in new.job.operators if s.node == entry.node)
    frames = []
    for label, (operator, _) in new.levels.slots.items():
        if new.job.operators[operator] is spec and label in new.levels.stores:
            store, columns = new.levels.stores[label], (entry.version, entry.former_columns)
            state = KeyedState(store, RunCache(None), stored_tables(entry.tables), "test", *columns)
            frames.append(current_rows(table, state))
    assert sum(frame.height for frame in frames) == len(IDS)
    assert all(frame["@occurrence"].is_null().all() for frame in frames)


def test_before_such_rows_were_lost(document: PlanDocument) -> None:
    """The rows that are lost are those whose new key group comes first."""
    assert keyed_as_before(document).run() != Play(document).run()


def test_a_copy_of_the_state_gains_the_column(document: PlanDocument) -> None:
    """Where the state is copied to a new checkpoint, slot by slot."""
    old = keyed_as_before(document)
    old.run(0, 1)
    operators = {entry.node: entry for entry in old.layout.operators}
    new = Play(document, GROUPS, None, operators)
    new.levels.stores = copy.deepcopy(old.levels.stores)
    assert new.run(1) == Play(document).run()[1:]


def test_state_with_the_column_is_not_read_without_it(document: PlanDocument) -> None:
    new, graph = Play(document), document.graph
    old_job = keyed_as_before(document).job
    with pytest.raises(CheckpointError) as refusal:
        laid_out(old_job, new.layout, Continuation.same(graph), 1, "memory")
    assert refusal.value.code == "CKPT024"

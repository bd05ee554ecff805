"""What ``plan diff`` calls usable is: the state one query leaves behind is the state the other would have.

Pairs of similar queries see the same rows, without Spark. Wherever the comparison of their plans says that an operator
may go on with the other's state, as it is or rewritten, the two states hold the same rows, now and after more rows.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl
import pytest

from stateplan.common.changelog import KIND
from stateplan.common.errors import CheckpointError
from stateplan.plans.diff import compare
from stateplan.plans.document import PlanDocument
from stateplan.plans.verdicts import severity
from stateplan.runtime.checkpoint.slots import Layout, laid_out
from stateplan.runtime.jobgraph import JobGraph
from stateplan.runtime.state.keyed_state import KeyedState, MemoryRunStore
from stateplan.runtime.state.run_cache import RunCache
from stateplan.runtime.state.runs import merge_runs
from stateplan.runtime.translate import translate
from stateplan.session.environment import TableEnvironment
from stateplan.session.restart import ACCEPT, continue_from
from stateplan.session.script import Inserts, read_script, read_statement
from tests.support.local import LocalRun
from tests.support.long_runs import LONG

Batch: TypeAlias = dict[str, pl.DataFrame]

TABLES = """
CREATE TABLE o (id BIGINT, k INT, v INT, s STRING, pt AS PROCTIME()) WITH
  ('connector' = 'replay', 'path' = '{rows}', 'format' = 'json');
CREATE TABLE l (id BIGINT, k INT, w INT) WITH ('connector' = 'replay', 'path' = '{rows}', 'format' = 'json');
CREATE TABLE c (id BIGINT, k INT, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH
  ('connector' = 'replay', 'path' = '{rows}', 'format' = 'debezium-json');
CREATE TABLE snk ({columns}) WITH ('connector' = 'print');
"""
FILTERS = ("", "WHERE v > 0", "WHERE v > 1", "WHERE k = 1")
CHANCE = frozenset({"@occurrence", "@h"})
"""Columns of state that need not be the same: numbers drawn to tell equal rows apart, and hashes of them."""


@dataclass(frozen=True)
class Ran:
    """A query and the state it left: live rows by operator uid and table."""

    query: str
    document: PlanDocument
    local: LocalRun
    layout: Layout
    state: dict[tuple[str, str], list[str]]

    @property
    def sources(self) -> list[str]:
        return sorted(_table(n) for n in self.document.graph.nodes if n.input_count == 0)


def queries(kind: str) -> Iterator[str]:
    """Similar queries, two of which often differ in one thing only."""
    if kind == "deduplications":
        for where, part, order, columns in itertools.product(
            FILTERS, ("id", "k"), ("ASC", "DESC"), ("id, k, v", "id, v", "k, v, s", "id, k, v + 1")
        ):
            yield (
                f"SELECT {columns} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {part} ORDER BY pt {order}) AS n "
                f"FROM o {where}) WHERE n = 1"
            )
    elif kind == "aggregates":
        calls = (
            "COUNT(*)",
            "SUM(v)",
            "COUNT(*), SUM(v)",
            "SUM(v), COUNT(*)",
            "MAX(v), COUNT(DISTINCT id)",
            "SUM(v) FILTER (WHERE id > 3)",
            "SUM(v + 1)",
        )
        for where, table, what in itertools.product(FILTERS, ("o", "c"), calls):
            yield f"SELECT k, {what} FROM {table} {where} GROUP BY k"
            yield (
                f"SELECT SUM(m) FROM (SELECT k, {what} AS m FROM {table} {where} GROUP BY k)"
                if "," not in what
                else (f"SELECT k, {what} FROM {table} {where} GROUP BY k HAVING COUNT(*) > 1")
            )
    elif kind == "joins":
        for word, on, columns, where in itertools.product(
            ("JOIN", "LEFT JOIN", "FULL JOIN"),
            ("o.id = l.id", "o.id = l.id AND v > w", "o.id = l.id AND o.k = l.k"),
            ("o.id, v, w", "o.id, w, v", "o.id, w", "o.id, o.v + l.w"),
            ("", "WHERE o.v > 0", "WHERE l.w > 1"),
        ):
            yield f"SELECT {columns} FROM o {word} l ON {on} {where}"
    else:
        for columns, top, part, order, where in itertools.product(
            ("id, k, v", "v, id, k + 1", "id, k, v - 1"), (2, 3), ("k", "s"), ("v DESC", "id DESC"), FILTERS[:3]
        ):
            yield (
                f"SELECT {columns} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {part} ORDER BY {order}) AS n "
                f"FROM o {where}) WHERE n <= {top}"
            )


def rows(rng: random.Random, batch: int, count: int = 30) -> Batch:
    """Rows of one micro-batch, by table."""
    integer, ids = pl.Int32, pl.Int64
    some = range(count)
    return {
        "o": pl.DataFrame(
            {
                "id": [rng.randrange(8) for _ in some],
                "k": [rng.choice([0, 1, 2, None]) for _ in some],
                "v": [rng.choice([-1, 0, 1, 2, 5, None]) for _ in some],
                "s": [rng.choice("abc") for _ in some],
            },
            schema={"id": ids, "k": integer, "v": integer, "s": pl.String},
        ),
        "l": pl.DataFrame(
            {name: [rng.randrange(8) for _ in some] for name in ("id", "k", "w")},
            schema={"id": ids, "k": integer, "w": integer},
        ),
        "c": pl.DataFrame(
            {
                "id": range(batch * count, (batch + 1) * count),
                "k": [rng.randrange(3) for _ in some],
                "v": [rng.randrange(5) for _ in some],
                KIND: [0] * count,
            },
            schema={"id": ids, "k": integer, "v": integer, KIND: pl.Int8},
        ),
    }


def run(query: str, batches: Sequence[Batch], path: Path) -> Ran:
    """Compiles ``query`` and sends it the batches."""
    environment = TableEnvironment.create()
    scripts = read_script(TABLES.format(rows=path, columns="x INT"))
    for statement in scripts[:-1]:
        environment.execute_statement(statement)
    fields = environment.session.compiler.schema(read_statement(query).node, query)
    columns = ", ".join(f"f{i} {t.summary().replace(' NOT NULL', '')}" for i, (_, t) in enumerate(fields))
    environment.execute_statement(read_script(TABLES.format(rows=path, columns=columns))[-1])
    insert = read_statement(f"INSERT INTO snk {query}")
    document = environment.session.compiler.document(Inserts.of(insert.node, insert.source))
    graph, layout = laid_out(translated(document), None, None, 0, "checkpoint")
    local = LocalRun(graph)
    feed(local, document, batches)
    return Ran(query, document, local, layout, _state(local, graph))


def translated(document: PlanDocument) -> JobGraph:
    return translate(document.graph, {}, 2, job_id="x", start_time=0)


def feed(local: LocalRun, document: PlanDocument, batches: Sequence[Batch], first: int = 1) -> None:
    """Sends the batches to a plan, a second apart."""
    nodes = {uid: document.graph.node(node_id) for node_id, uid in document.uids.items()}
    for at, batch in enumerate(batches, first):
        local.batch({i: [_read(nodes[s.uid], batch)] for i, s in enumerate(local.graph.sources)}, at * 1000)


def continued(one: Ran, other: Ran, more: Batch, seconds: int) -> tuple[dict[tuple[str, str], list[str]], set[str]]:
    """The state after ``more`` of the plan of ``other`` on that of ``one``, and the uids of operators that use it."""
    document = other.document
    on = continue_from(one.document.text, document, {ACCEPT: "unknown"}, [])
    graph, _ = laid_out(translated(document), one.layout, on, 1, "checkpoint")
    local = LocalRun(graph)
    local.stores.update({slot: _copy(store) for slot, store in one.local.stores.items()})
    feed(local, document, [more], seconds)
    return _state(local, graph), {document.uids[node_id] for node_id in on.operators}


def _copy(store: MemoryRunStore) -> MemoryRunStore:
    twin = MemoryRunStore()
    twin.text, twin.values = store.text, dict(store.values)
    return twin


def _table(scan: Any) -> str:
    return str(scan.scan_table_source.table.path[-1])


def _read(scan: Any, batch: Batch) -> pl.DataFrame:
    frame = batch[_table(scan)]
    fields = [pl.col(f.name).alias(f"c{i}") for i, f in enumerate(scan.output_type.fields)]
    return frame.select(*fields, *([KIND] if KIND in frame.columns else []))


def _state(local: LocalRun, graph: JobGraph) -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = {}
    for slot, (operator, _) in local.slots.items():
        store, spec = local.stores.get(slot), graph.operators[operator]
        if store is None or store.text is None:
            continue
        keyed = KeyedState(store, RunCache(None), spec.kernel.tables, "x", spec.version, spec.former_columns)
        for table in spec.kernel.tables:
            runs = [frame for _, frame in keyed.runs(table)]
            if runs:
                live = merge_runs(table, runs, 10**6, 0, oldest=True)
                kept = live.select(sorted(c for c in live.columns if c not in CHANCE))
                found.setdefault((spec.uid, table.name), []).extend(map(repr, kept.rows()))
    return {place: sorted(content) for place, content in found.items()}


@pytest.mark.parametrize("kind", ["deduplications", "aggregates", "joins", "ranks"])
def test_usable_state_is_the_same_state(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.touch()
    rng = random.Random(kind)
    *batches, more = (rows(rng, n) for n in range(4))
    chosen = rng.sample(list(queries(kind)), 26 if LONG else 16)
    ran = [run(query, batches, path) for query in chosen]
    later = {one.query: run(one.query, [*batches, more], path).state for one in ran}
    usable: Counter[str] = Counter()
    for one, other in itertools.permutations(ran, 2):
        if one.sources != other.sources:
            continue
        verdicts = {o.new.uid: o for o in compare(one.document, other.document).operators if o.stateful and o.new}
        for uid, operator in verdicts.items():
            if operator.harmless and operator.old is not None:
                for table in _tables(other, uid):
                    before, after = one.state.get((operator.old.uid, table)), other.state.get((uid, table))
                    assert before == after, (one.query, other.query, operator.title, table)
        kept = {uid for uid, o in verdicts.items() if severity(o.verdict) <= severity("rewrite")}
        if kept:
            try:
                state, used = continued(one, other, more, len(batches) + 1)
            except CheckpointError as error:
                assert error.code == "CKPT021", error
                continue
            assert used == kept
            for uid in kept:
                usable[verdicts[uid].verdict] += 1
                for table in _tables(other, uid):
                    place = (uid, table)
                    assert state.get(place) == later[other.query].get(place), (one.query, other.query, place)
    assert usable, "no pair of queries whose state is the same"


def _tables(ran: Ran, uid: str) -> list[str]:
    return [t.name for o in ran.local.graph.operators if o.uid == uid for t in o.kernel.tables]

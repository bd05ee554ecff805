"""Checkpoints of queries, and sessions that see their state as tables; without Spark."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from stateplan.plans.state import CheckpointReader, StateOf
from stateplan.runtime.inspect.inspection import TableState
from stateplan.runtime.state.keyed_state import KeyedState
from stateplan.runtime.state.run_cache import RunCache
from stateplan.session.environment import TableEnvironment
from tests.runtime.local_checkpoints import begin
from tests.runtime.ttl.ttl_plays import COLUMNS, Play, compiled

GROUPS = 4
START = 1_000_000
"""The time of the first micro-batch, ms."""


@dataclass(frozen=True)
class Query:
    """An INSERT without its first two words, into a table with the columns ``sink``."""

    query: str
    sink: str
    options: Mapping[str, str] = field(default_factory=dict)
    by_event: bool = False


class Shown:
    """A checkpoint of a query, and a session that sees its state."""

    def __init__(self, folder: Path, query: Query, batches: int, seed: int = 1) -> None:
        self.folder = folder / "ck"
        plan = compiled(query.query, query.sink, tuple(query.options.items()), str(folder))
        self.play = Play(plan, folder, query.by_event)
        self.play.local, self.writer = begin(self.folder, plan, GROUPS)
        self.environment = TableEnvironment.create()
        self.chance = random.Random(seed)
        self.batches = 0
        for _ in range(batches):
            self.go_on()

    def go_on(self) -> None:
        """Runs one more micro-batch over random rows, a second after the one before."""
        chance = self.chance
        rows = [
            (table, chance.randrange(20), *(chance.randrange(5) for _ in columns[1:]))
            for table, columns in COLUMNS.items()
            for _ in range(chance.randrange(4))
        ]
        self.play.batch(self.batches, rows)
        self.writer.commit(self.batches, self.play.local, START + self.batches * 1000)
        self.batches += 1

    def sql(self, query: str) -> pl.DataFrame:
        return self.environment.sql_query(query).to_polars()

    def open(self) -> CheckpointReader:
        self.environment.execute_sql(f"CREATE CATALOG s WITH ('type' = 'state', 'path' = '{self.folder}')")
        return CheckpointReader.read(self.folder)

    def tables(self, reader: CheckpointReader) -> Iterator[tuple[str, StateOf, TableState]]:
        """The names of the tables of the catalog, and what they show."""
        for state in reader.states:
            for table in state.tables:
                yield state.selector if table is state.main else f"{state.selector}${table.name}", state, table

    def states(self, table: TableState, state: StateOf) -> Iterator[KeyedState]:
        """The state in memory of the operator's key groups."""
        local = self.play.local
        for slot, store in local.stores.items():
            owner = local.slots.get(slot)
            if owner is not None and local.graph.operators[owner[0]].uid == state.operator.entry.uid:
                tables = [t.table for t in state.operator.tables]
                yield KeyedState(store, RunCache(None), tables, "test")

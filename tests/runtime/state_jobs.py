"""Job graphs of operators with state, without a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl

from stateplan.common.ttl import TtlConfig
from stateplan.common.types import BIGINT, row_type
from stateplan.execnodes.graph import ExecGraph
from stateplan.runtime.checkpoint.directory import Checkpoint, RestartCheck
from stateplan.runtime.checkpoint.slots import Continuation
from stateplan.runtime.jobgraph import JobGraph, OperatorSpec, Pipeline, SourceSpec, ToOperator
from stateplan.runtime.kernel import Kernel, StateTable, Step, field_columns

GROUPS = 4
NO_GRAPH = ExecGraph("2.3", (), ())


@dataclass(frozen=True)
class Rows(Kernel):
    """A kernel of which only the tables count."""

    width: int

    @property
    def tables(self) -> tuple[StateTable, ...]:
        row = row_type([(f"f{i}", BIGINT) for i in range(self.width)])
        return (StateTable("rows", 0, ("c0",), ("c0",), field_columns(row)),)

    def keys(self, inputs: Sequence[pl.DataFrame]) -> list[pl.DataFrame | None]:
        raise NotImplementedError

    def process(
        self, inputs: Sequence[pl.DataFrame], state: Sequence[pl.DataFrame], now: int, ttl: Sequence[int]
    ) -> Step:
        raise NotImplementedError


def job(*operators: tuple[int, int], sources: Sequence[int] = (90,), width: int = 2) -> JobGraph:
    """A job of operators (id, level), whose sources reach all of them."""
    specs = tuple(
        OperatorSpec(f"u{i}", f"op[{i}]", Rows(width), (TtlConfig(),), 1, ({},), Pipeline((), ()), level, node=i)
        for i, level in operators
    )
    to = tuple(ToOperator(n, 0, ("c0",)) for n in range(len(specs)))
    reader: Any = None
    read = tuple(SourceSpec(f"s{i}", f"t{i}", "replay", reader, Pipeline((), to), i, "instants") for i in sources)
    return JobGraph(read, specs, (), GROUPS)


JOB = job((1, 1), (2, 1))
GRAPH: Any = SimpleNamespace(nodes=[SimpleNamespace(id=i) for i in (1, 2, 90)])


def go_on(_: str) -> Continuation:
    """Operator 1 keeps its state; any other starts empty."""
    return Continuation(NO_GRAPH, {1: 1}, {90: 90})


def start(folder: Path, plan: str = "one", job_=JOB, adopt: bool = True, check: RestartCheck = go_on) -> Checkpoint:
    options = {"execution.checkpointing.dir": str(folder), "pipeline.max-parallelism": "4"}
    checkpoint = Checkpoint.open(options, plan, GRAPH, check)
    try:
        checkpoint.fit(job_)
        if adopt:
            checkpoint.adopt()
    finally:
        checkpoint.close()
    return checkpoint

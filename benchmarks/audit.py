"""What an audit of state costs: the state steps of a join, a deduplication and an aggregate whose rows expire.

    python -m benchmarks.audit [--rows 20000] [--steps 60] [--rounds 5]

Eight key groups, one thread, without Spark. Each step brings rows with new keys, and half as many with keys of the ten
steps before, so of the TTL; one in twenty of these comes after its key has expired. OFF, SAMPLE (one in 200 keys) and
ALL take turns. Printed is the processor time of the steps, with lookups, kernels, writes and merges, and the median
ratio to OFF of the same round. In a job, the steps are a part of the processor time, so its ratio is nearer to 1.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import numpy as np
import polars as pl

from benchmarks.harness import run
from stateplan.common.readable import in_columns
from stateplan.common.ttl import TtlConfig
from stateplan.common.types import BIGINT, INT, LogicalType, row_type
from stateplan.execnodes.specs import AggCall, JoinSpec
from stateplan.runtime.kernel import Kernel
from stateplan.runtime.kernels.deduplicate import DeduplicateKernel
from stateplan.runtime.kernels.group_aggregate import GroupAggregateKernel
from stateplan.runtime.kernels.join import JoinKernel
from stateplan.runtime.state.keyed_state import KeyedState, MemoryRunStore
from stateplan.runtime.state.lost_rows import Audit
from stateplan.runtime.state.run_cache import RunCache
from stateplan.runtime.state.ttl_access import InputFields

ROW = row_type([("id", BIGINT), ("v", INT)])
STEPS_OF_TTL = 10
GROUPS = 8
"""Key groups of a job with the default options and up to four cores."""
MODES = {"OFF": None, "SAMPLE": Audit(200, 0), "ALL": Audit(1, 0)}


def _count(result: LogicalType) -> AggCall:
    return AggCall(name="n", internal_name="$COUNT$1", arg_list=(), distinct=False, filter_arg=-1, type=result)


KERNELS: dict[str, Callable[[], Kernel]] = {
    "join": lambda: JoinKernel(
        ROW, ROW, JoinSpec(join_type="INNER", left_keys=(0,), right_keys=(0,), filter_nulls=(True,))
    ),
    "deduplicate": lambda: DeduplicateKernel(ROW, (0,), False, True),
    "group aggregate": lambda: GroupAggregateKernel(ROW, (0,), (_count(BIGINT),), (False,), True, False),
}


def frames(inputs: int, steps: int, rows: int) -> list[list[pl.DataFrame]]:
    """The inputs of the steps."""
    rng = np.random.default_rng(1)
    out = []
    for step in range(steps):
        sides = []
        for side in range(inputs):
            back = rng.integers(1, STEPS_OF_TTL, rows // 2)
            late = rng.random(rows // 2) < 0.05
            back[late] += STEPS_OF_TTL
            old = np.maximum(step - back, 0) * rows + rng.integers(0, rows, rows // 2)
            new = step * rows + rng.permutation(rows) if side == 0 or inputs == 1 else old[:0]
            ids = np.concatenate([new, old]) if inputs == 1 or side == 1 else new
            sides.append(pl.DataFrame({"c0": ids, "c1": (ids % 100).astype(np.int32)}))
        out.append(sides)
    return out


def seconds(kernel: Kernel, inputs: list[list[pl.DataFrame]], audit: Audit | None) -> tuple[float, int]:
    """Processor time of all steps but the first ones, and how many expired rows were needed."""
    stores, cache = [MemoryRunStore() for _ in range(GROUPS)], RunCache(None)
    ttls = [TtlConfig(STEPS_OF_TTL * 1000)] * 2
    fields = InputFields((("c0",),) * len(inputs[0]))
    needed = 0
    began = 0.0
    for number, sides in enumerate(inputs):
        if number == STEPS_OF_TTL:
            began = time.process_time()
        for group, store in enumerate(stores):
            keys = None if audit is None else audit.keys_in(group, GROUPS)
            state = KeyedState(store, cache, kernel.tables, "benchmark", audited=keys)
            state.step(kernel, sides, 1_000_000 + number * 1000, ttls, fields=fields)
            needed += state.stats.needed_rows.total()
    return time.process_time() - began, needed


def main(rows: int = 20_000, steps: int = 60, rounds: int = 5) -> int:
    """Prints the ratios."""
    lines = [("kernel", "audit", "seconds", "ratio to OFF", "needed rows")]
    for name, make in KERNELS.items():
        kernel = make()
        inputs = frames(2 if name == "join" else 1, steps, rows // GROUPS)
        measured: dict[str, list[float]] = {mode: [] for mode in MODES}
        needed_rows: dict[str, int] = {}
        for _ in range(rounds):
            for mode, audit in MODES.items():
                used, needed_rows[mode] = seconds(kernel, inputs, audit)
                measured[mode].append(used)
        for mode, of in measured.items():
            ratio = statistics.median(a / b for a, b in zip(of, measured["OFF"], strict=True))
            lines.append((name, mode, f"{statistics.median(of):.2f}", f"{ratio:.3f}", f"{needed_rows[mode]:,}"))
    print(in_columns(lines, left=2))
    return 0


if __name__ == "__main__":
    run(main, __doc__)

"""Every kind of kernel in every way to age, on the two keyed states: dictionaries, and sorted runs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from execnodes.runtime.access import InputFields
from execnodes.runtime.cache import RunCache
from execnodes.runtime.kernel import NO_WATERMARK, Watermark
from execnodes.runtime.kernels.join import JoinKernel
from execnodes.runtime.memory_state import MemoryState
from execnodes.runtime.state import KeyedState, MemoryRunStore
from tests.kernels.support import changes_of, frame, inserting, retracting
from tests.kernels.test_state_twins import KERNELS, ROW, ROWS
from tests.ttl.flip25 import CONFIGS, config


@pytest.mark.parametrize("words", CONFIGS.values(), ids=CONFIGS)
@settings(max_examples=15)
@given(data=st.data())
def test_same_output(words: tuple[str, str, str], data: st.DataObject) -> None:
    kernel, retract = KERNELS[data.draw(st.sampled_from(sorted(KERNELS)))]
    inputs = 2 if isinstance(kernel, JoinKernel) else 1
    lifetime = config(7, *words)
    streams = [data.draw(retracting(ROWS, 15) if retract else inserting(ROWS, 25)) for _ in range(inputs)]
    memory, store, cache = MemoryState(kernel), MemoryRunStore(), RunCache(None)
    fields = InputFields((("c0",),) * inputs, ("c2",) * inputs)
    now, mark, cleaned = 1, NO_WATERMARK, False
    while any(streams) and not cleaned:
        now += data.draw(st.integers(1, 4))
        before, mark = mark, max(mark, data.draw(st.integers(0, 12)))
        size = data.draw(st.integers(1, 9))
        batch = [frame(ROW, s[:size], kind=retract) for s in streams]
        streams = [s[size:] for s in streams]
        time = Watermark(before, mark)
        runs = KeyedState(store, cache, kernel.tables, "test")
        mine = memory.step(batch, now, [lifetime] * 2, time, fields)
        theirs = runs.step(kernel, batch, now, [lifetime] * 2, time, fields)
        assert sorted(map(repr, changes_of(mine))) == sorted(map(repr, changes_of(theirs)))
        # Once merges have removed expired rows, runs find fewer of them.
        cleaned = lifetime.finds_expired and runs.stats.expired_rows.total() > 0

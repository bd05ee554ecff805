"""State that a new plan takes over as it is stored."""

from __future__ import annotations

import polars as pl
import pytest

from stateplan.common.errors import CheckpointError
from stateplan.runtime.evolution.load_tasks import current_rows
from stateplan.runtime.exchange import Blob, StoredState
from stateplan.runtime.kernel import StateTable, own_columns
from stateplan.runtime.state.keyed_state import CHUNK_SIZE, KeyedState, MemoryRunStore
from stateplan.runtime.state.run_cache import RunCache

TABLE = StateTable("rows", 0, ("k",), ("k",), own_columns({"k": pl.Int64(), "v": pl.String()}))


def state(store: MemoryRunStore) -> KeyedState:
    return KeyedState(store, RunCache(None), [TABLE], "here")


@pytest.fixture
def store() -> MemoryRunStore:
    """Two runs, one of them with a deletion, and one that does not fit into a value of the store."""
    store = MemoryRunStore()
    old = state(store)
    for first, width in ((0, 3), (5, 2 * CHUNK_SIZE // 10)):
        values = [str(k) * width for k in range(first, first + 10)]
        rows = pl.DataFrame({"k": list(range(first, first + 10)), "v": values, "@t": [1000 + first] * 10})
        deletes = pl.DataFrame({"k": [first]}) if first == 0 else None
        old.write(TABLE, rows if deletes is None else rows[1:], deletes, 1000 + first, 0)
    old.flush()
    assert len(store.values) > 2
    return store


def test_the_runs_are_the_same_in_the_new_store(store: MemoryRunStore) -> None:
    old, target = state(store), MemoryRunStore()
    new = state(target)
    for key, data in old.values():
        blob = Blob(7, 0, "seq", 0, StoredState(key, data))
        copy = Blob.unpacked(7, blob.packed())
        assert copy == blob
        assert isinstance(copy.content, StoredState)
        new.begin_as(*copy.content)
    new.flush()
    assert target.values == store.values
    again = state(target)
    assert [info for info, _ in again.runs(TABLE)] == [info for info, _ in old.runs(TABLE)]
    assert current_rows(TABLE, again).equals(current_rows(TABLE, old))
    assert new.stats.rows_change == sum(info.rows for info, _ in old.runs(TABLE))


@pytest.mark.parametrize(("code", "data"), [("CKPT011", None), ("CKPT012", b"damaged")])
def test_runs_that_are_missing_or_damaged_are_not_taken_over(
    code: str, data: bytes | None, store: MemoryRunStore
) -> None:
    key = sorted(store.values)[0]
    if data is None:
        del store.values[key]
    else:
        store.values[key] = data
    with pytest.raises(CheckpointError) as error:
        list(state(store).values())
    assert error.value.code == code

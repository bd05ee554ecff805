"""Which expired rows later rows needed: an audit of state against one row at a time, over random rows and merges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateplan.common.changelog import column
from stateplan.common.ttl import TtlConfig
from stateplan.common.types import BIGINT
from stateplan.execnodes.specs import JoinSpec
from stateplan.runtime.audit import FILES, RECORD, AuditRecord, AuditSink
from stateplan.runtime.exchange import decode
from stateplan.runtime.hashing import hash_rows
from stateplan.runtime.kernel import ACCESS_TIME, Kernel
from stateplan.runtime.kernels.deduplicate import DeduplicateKernel
from stateplan.runtime.kernels.group_aggregate import GroupAggregateKernel
from stateplan.runtime.kernels.join import JoinKernel
from stateplan.runtime.state import run_list
from stateplan.runtime.state.keyed_state import KeyedState, MemoryRunStore
from stateplan.runtime.state.lost_rows import LOST_ROWS, Audit, AuditedKeys
from stateplan.runtime.state.misses import NOBODY, Miss
from stateplan.runtime.state.run_cache import RunCache
from stateplan.runtime.state.ttl_access import InputFields
from tests.runtime.kernels.reference import DELETE, INSERT, Change
from tests.runtime.kernels.support import call, frame, row_of

ROW = row_of("ii")
TTL = 10
INNER = JoinSpec(join_type="INNER", left_keys=(0,), right_keys=(0,), filter_nulls=(True,))
LEFT = JoinSpec(join_type="LEFT", left_keys=(0,), right_keys=(0,), filter_nulls=(True,))
ALL = AuditedKeys(1.0, 0)
Batch = tuple[int, list[list[Change]]]
"""When it comes, and the changes of each input."""
Need = tuple[str, tuple[int, ...], int, int, int]
"""The table, the lost row, its last access, when it was needed, and by which input."""
Found = tuple[pl.DataFrame, list[Need]]


@contextmanager
def many_merges() -> Iterator[None]:
    """Runs are merged in small steps, so rows are dropped in all ways."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_list, "MERGE_FACTOR", 2)
        patch.setattr(run_list, "TIER_ROWS", 2)
        patch.setattr(run_list, "QUANTUM_ROWS", 2)
        yield


def batches(inputs: int, retract: bool) -> st.SearchStrategy[list[Batch]]:
    """Micro-batches; what is retracted has been inserted, and may have expired."""
    rows = st.tuples(st.integers(1, 3), st.integers(0, 2), st.booleans(), st.integers(0, 50))
    batch = st.tuples(st.integers(1, 8), st.lists(st.lists(rows, max_size=3), min_size=inputs, max_size=inputs))

    def play(drawn: list[tuple[int, list[list[tuple[int, int, bool, int]]]]]) -> list[Batch]:
        there: list[list[tuple[int, int]]] = [[] for _ in range(inputs)]
        now, out = 100, []
        for wait, sides in drawn:
            now += wait
            made: list[list[Change]] = []
            for side, some in enumerate(sides):
                changes: list[Change] = []
                for key, number, goes, which in some:
                    if retract and goes and there[side]:
                        changes.append((DELETE, there[side].pop(which % len(there[side]))))
                    else:
                        there[side].append((key, number))
                        changes.append((INSERT, (key, number)))
                made.append(changes)
            out.append((now, made))
        return out

    return st.lists(batch, max_size=14).map(play)


def run(kernel: Kernel, drawn: Sequence[Batch], keys: AuditedKeys | None, store: MemoryRunStore) -> Iterator[Found]:
    """The outputs of the micro-batches, and the expired rows that they needed."""
    cache = RunCache(None)
    inputs = len(drawn[0][1]) if drawn else 1
    fields = InputFields((("c0",),) * inputs)
    configs = [TtlConfig(TTL)] * (1 + max(table.slot for table in kernel.tables))
    for now, sides in drawn:
        if any(sides):
            frames = [frame(ROW, changes, kind=True) for changes in sides]
            state = KeyedState(store, cache, kernel.tables, "test", audited=keys)
            output = state.step(kernel, frames, now, configs, fields=fields)
            yield output, [need for miss in state.misses for need in needs_of(miss, frames)]


def needs_of(miss: Miss, frames: Sequence[pl.DataFrame]) -> Iterator[Need]:
    columns = [name for name in miss.rows.columns if name in ("c0", "c1")]
    times = miss.rows[ACCESS_TIME].to_list()
    rows = miss.rows[columns].rows()
    for row, time, number, place in zip(rows, times, miss.inputs.tolist(), miss.positions.tolist(), strict=True):
        assert number != NOBODY
        assert frames[number]["c0"][place] == row[0], "the row that needed it has its key"
        yield miss.table.name, row, time, miss.at, number


def join_needs(drawn: Sequence[Batch]) -> list[list[Need]]:
    """The rows that have expired stay in the lists of their side, until they are retracted."""
    names = ("leftState", "rightState")
    live: list[list[tuple[tuple[int, int], int]]] = [[], []]
    lost: list[list[tuple[tuple[int, int], int]]] = [[], []]
    out = []
    for now, sides in drawn:
        needs: list[Need] = []
        for side in (0, 1):
            lost[side] += [(row, at) for row, at in live[side] if at <= now - TTL]
            live[side] = [(row, at) for row, at in live[side] if at > now - TTL]
        for side in (0, 1):
            others = {row[0] for _, row in sides[1 - side]}
            needs += [(names[side], row, at, now, 1 - side) for row, at in lost[side] if row[0] in others]
        for side in (0, 1):
            others = {row[0] for _, row in sides[1 - side]}
            for kind, row in sides[side]:
                if kind == INSERT:
                    live[side].append((row, now))
                elif any(other == row for other, _ in live[side]):
                    live[side].remove(next(entry for entry in live[side] if entry[0] == row))
                    live[side] = [(other, now if other == row else at) for other, at in live[side]]  # written anew
                else:
                    gone = max((entry for entry in lost[side] if entry[0] == row), key=lambda entry: entry[1])
                    lost[side].remove(gone)
                    if row[0] not in others:
                        needs.append((names[side], row, gone[1], now, side))
        if any(sides):
            out.append(needs)
    return out


def key_needs(drawn: Sequence[Batch], table: str, refreshed: bool) -> list[list[Need]]:
    """The row of a key is there once, and a new one replaces it."""
    last: dict[int, tuple[tuple[int, ...], int]] = {}
    out = []
    for now, (changes,) in drawn:
        needs: list[Need] = []
        before = dict(last)
        for key in dict.fromkeys(row[0] for _, row in changes):
            row, at = before.get(key, ((), now))
            if at <= now - TTL:
                needs.append((table, row, at, now, 0))
            mine = [row for _, row in changes if row[0] == key]
            if refreshed or key not in before or at <= now - TTL:
                last[key] = (mine[-1] if refreshed else mine[0], now)
        if changes:
            out.append(needs)
    return out


@settings(max_examples=60)
@given(retract=st.booleans(), data=st.data())
def test_join(retract: bool, data: st.DataObject) -> None:
    drawn = data.draw(batches(2, retract))
    kernel = JoinKernel(ROW, ROW, INNER)
    with many_merges():
        found = [needs for _, needs in run(kernel, drawn, ALL, MemoryRunStore())]
    assert list(map(Counter, found)) == list(map(Counter, join_needs(drawn)))


@settings(max_examples=40)
@given(last=st.booleans(), drawn=batches(1, False))
def test_deduplicate(last: bool, drawn: list[Batch]) -> None:
    kernel = DeduplicateKernel(ROW, (0,), last, True)
    columns = 2 if last else 1
    with many_merges():
        found = [needs for _, needs in run(kernel, drawn, ALL, MemoryRunStore())]
    expected = key_needs(drawn, kernel.tables[0].name, last)
    assert list(map(Counter, found)) == [
        Counter((table, row[:columns], *rest) for table, row, *rest in needs) for needs in expected
    ]


@settings(max_examples=40)
@given(drawn=batches(1, False))
def test_group_aggregate(drawn: list[Batch]) -> None:
    kernel = GroupAggregateKernel(ROW, (0,), (call("COUNT", None, BIGINT),), (False,), True, False)
    with many_merges():
        found = [needs for _, needs in run(kernel, drawn, ALL, MemoryRunStore())]
    expected = key_needs(drawn, kernel.tables[0].name, True)
    assert list(map(Counter, found)) == [
        Counter((table, row[:1], *rest) for table, row, *rest in needs) for needs in expected
    ]


@settings(max_examples=30)
@given(retract=st.booleans(), fraction=st.sampled_from([0.3, 1.0]), retention=st.sampled_from([0, 15]), data=st.data())
def test_the_rows_are_those_without_an_audit(
    retract: bool, fraction: float, retention: int, data: st.DataObject
) -> None:
    drawn = data.draw(batches(2, retract))
    kernel = JoinKernel(ROW, ROW, LEFT)
    keys = AuditedKeys(fraction, retention)
    with many_merges():
        plain = [output for output, _ in run(kernel, drawn, None, MemoryRunStore())]
        audited = list(run(kernel, drawn, keys, MemoryRunStore()))
    for output, (other, _) in zip(plain, audited, strict=True):
        assert sorted(map(str, output.rows())) == sorted(map(str, other.rows()))
    for _, needs in audited:
        assert all(at - time <= TTL + retention for _, _, time, at, _ in needs if retention)


@settings(max_examples=30)
@given(drawn=batches(2, True))
def test_a_sample_finds_what_all_find_of_its_keys(drawn: list[Batch]) -> None:
    kernel = JoinKernel(ROW, ROW, INNER)
    sample = AuditedKeys(0.4, 0)
    with many_merges():
        all_needs = [needs for _, needs in run(kernel, drawn, ALL, MemoryRunStore())]
        some_needs = [needs for _, needs in run(kernel, drawn, sample, MemoryRunStore())]
    hashes = hash_of_keys()
    followed = {
        key for key, covered in zip(hashes, sample.covers(np.array(list(hashes.values()))), strict=True) if covered
    }
    for whole, some in zip(all_needs, some_needs, strict=True):
        assert Counter(some) == Counter(need for need in whole if need[1][0] in followed)


def hash_of_keys() -> dict[int, np.uint64]:
    keys = pl.DataFrame({"c0": [1, 2, 3]}, schema=frame(ROW, [(INSERT, (1, 1))]).select("c0").schema)
    return dict(zip([1, 2, 3], hash_rows(keys, ["c0"]), strict=True))


def test_the_share_of_keys() -> None:
    hashes = np.random.default_rng(1).integers(0, 2**64, 200_000, dtype=np.uint64)
    for fraction in (0.5, 0.02, 0.001):
        share = AuditedKeys(fraction, 0).covers(hashes).mean()
        assert abs(share - fraction) < 5 * (fraction / 200_000) ** 0.5
    # A key group is chosen by the hash too: each of them has keys that are followed.
    groups = hashes % np.uint64(128)
    covered = AuditedKeys(0.5, 0).covers(hashes)
    assert all(0.4 < covered[groups == g].mean() < 0.6 for g in range(128))


@pytest.mark.parametrize(("groups", "one_in"), [(8, 200), (128, 200), (128, 50), (128, 1), (2, 3), (1, 1), (7, 3)])
def test_the_key_groups_of_a_sample(groups: int, one_in: int) -> None:
    keys = [Audit(one_in, 0).keys_in(group, groups) for group in range(groups)]
    shares = [0 if own is None else own.fraction for own in keys]
    assert sum(shares) / groups == pytest.approx(1 / one_in)
    assert max(shares) <= 1
    assert sum(share > 0 for share in shares) <= groups / one_in + 1


def test_the_end_of_an_audit() -> None:
    drawn: list[Batch] = [(now, [[(INSERT, (now, 1))], []]) for now in range(100, 200)]
    kernel = JoinKernel(ROW, ROW, INNER)
    store = MemoryRunStore()
    with many_merges():
        list(run(kernel, drawn, ALL, store))
        assert LOST_ROWS in (store.text or "")
        size = len(store.values)
        list(run(kernel, [(201, [[(INSERT, (1, 1))], []])], None, store))
    assert LOST_ROWS not in (store.text or "")
    assert len(store.values) < size


def test_records_of_many_micro_batches(tmp_path: Path) -> None:
    sink = AuditSink(AuditRecord(tmp_path / "audit"), retention=1000)
    for epoch in range(300):
        sink.prepare(epoch)
        sink.commit([sink.write(record(10 * epoch), epoch, "0")], epoch)
        sink.commit([sink.write(record(10 * epoch), epoch, "0")], epoch)  # a repeated micro-batch
    records = sink.record.read()
    assert records["batch"].to_list() == list(range(records["batch"][0], 300)), "each once, in order"
    assert records["batch"][0] >= 300 - 100 - FILES, "old ones are dropped"
    assert len(list((tmp_path / "audit").iterdir())) <= FILES + 1


def test_records_that_are_put_together_twice(tmp_path: Path) -> None:
    """A crash between the new file and the end of the old ones."""
    written = AuditRecord(tmp_path)
    for epoch in range(FILES):
        written.add(epoch, decode([AuditSink(written, 0).write(record(epoch), epoch, "0")]))
    old = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    before = written.read()
    written.tidy(FILES, 0)
    for name, data in old.items():
        (tmp_path / name).write_bytes(data)
    assert written.read().equals(before)
    assert AuditRecord(tmp_path / "nothing").read().is_empty()


def record(needed_at: int) -> pl.DataFrame:
    """A record as operators send it."""
    values = {"needed_at": needed_at, "uid": "u", "table": "t"}
    columns = {column(i): [values.get(name)] for i, name in enumerate(RECORD)}
    return pl.DataFrame(columns, schema={column(i): dtype for i, dtype in enumerate(RECORD.values())})

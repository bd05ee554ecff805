"""Writes a table once where several INSERTs of a statement set write it in the same way: their rows are united.

As in Flink, the key of the changes is that of the first INSERT, though the union of them has none.

Source: Flink's ``SinkReuser``.
"""

from __future__ import annotations

from dataclasses import replace

from stateplan.planner.algebra.relations import Rel, Sink, Union
from stateplan.planner.metadata.unique_keys import smallest_key, upsert_keys
from stateplan.planner.physical import Physical


def reuse_sinks(plans: list[Physical]) -> list[Physical]:
    """The plans with equal sinks united, each at the place of its first INSERT."""
    groups: list[list[Physical]] = []
    for plan in plans:
        for group in groups:
            if _same(group[0], plan):
                group.append(plan)
                break
        else:
            groups.append([plan])
    return [g[0] if len(g) == 1 else _united(g) for g in groups]


def _same(a: Physical, b: Physical) -> bool:
    x, y = a.rel, b.rel
    assert isinstance(x, Sink)
    assert isinstance(y, Sink)
    return (
        x.table.identifier == y.table.identifier
        and dict(x.table.options) == dict(y.table.options)
        and x.targets == y.targets
        and (x.partition, x.overwrite, x.metadata) == (y.partition, y.overwrite, y.metadata)
        and x.conflict == y.conflict
        and a.kinds == b.kinds
        and a.update == b.update
        and a.delete == b.delete
        and [t.as_nullable() for _, t in x.fields] == [t.as_nullable() for _, t in y.fields]
    )


def _united(group: list[Physical]) -> Physical:
    first = group[0]
    inputs = tuple(p.input for p in group)
    rels: tuple[Rel, ...] = tuple(i.rel for i in inputs)
    union = Union(rels, row=rels[0].fields)
    below = Physical(union, inputs, first.kinds, first.update, first.delete)
    sink = first.rel
    assert isinstance(sink, Sink)
    key = smallest_key(upsert_keys(sink.input))
    return Physical(replace(sink, input=union, upsert_key=key), (below,), first.kinds, first.update, first.delete)

"""The operators of a job graph over state in memory: what Spark's workers do with a micro-batch, in this process."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from stateplan.connectors.splits import AssignedSplit
from stateplan.runtime.exchange import Blob
from stateplan.runtime.jobgraph import JobGraph
from stateplan.runtime.metrics.figures import UNCOUNTED, TaskCounters
from stateplan.runtime.source_tasks import read_splits
from stateplan.runtime.state.keyed_state import MemoryRunStore
from stateplan.runtime.state.run_cache import RunCache
from stateplan.runtime.worker import MicroBatch, step_operator, unslot


class LocalLevels:
    """A job graph with its state.

    Args:
        graph: the job graph.
        counters: get the figures of operators.
        check: called now and then; what it raises ends the micro-batch in hand.
        cache: has the runs of state.
        make_store: makes the store of a key group.

    Attributes:
        micro_batch: the one in hand.
        stores: per slot, the state of a key group.
    """

    def __init__(
        self,
        graph: JobGraph,
        counters: TaskCounters = UNCOUNTED,
        check: Callable[[], None] = lambda: None,
        cache: RunCache | None = None,
        make_store: Callable[[], MemoryRunStore] = MemoryRunStore,
    ) -> None:
        self.micro_batch = MicroBatch(graph, counters=counters)
        self.cache = cache or RunCache(None)
        self.stores: dict[int, MemoryRunStore] = defaultdict(make_store)
        self.slots = unslot(graph)
        self._check = check

    @property
    def graph(self) -> JobGraph:
        return self.micro_batch.graph

    def begin(self, number: int, watermarks: Mapping[int, int]) -> None:
        """Goes to a micro-batch.

        Args:
            number: its id.
            watermarks: what each reader reads in it, ms.
        """
        self.micro_batch = replace(self.micro_batch, number=number, graph=replace(self.graph, watermarks=watermarks))

    def read(self, source: int, splits: Sequence[AssignedSplit[Any]]) -> list[Blob]:
        """What reaches the operators and sinks behind a source.

        Args:
            source: its number.
            splits: the splits of the micro-batch in hand.

        Raises:
            WorkerError: with the coded error.
        """
        parts = read_splits(self.micro_batch, source, [splits], list)
        return self._check_blobs(blob for some in parts for blob in some)

    def play(self, blobs: Iterable[Blob]) -> list[Blob]:
        """Runs a micro-batch through all levels of operators; what reaches the sinks.

        Raises:
            WorkerError: with the coded error.
        """
        pending = list(blobs)
        for level in range(1, self.graph.levels + 1):
            mine: dict[int, list[Blob]] = defaultdict(list)
            later: list[Blob] = []
            for blob in pending:
                owner = self.slots.get(blob.slot)
                if owner is not None and owner[0] < 0:
                    self.stores.pop(blob.slot, None)  # the range of an operator that is gone
                elif owner is not None and self.graph.operators[owner[0]].level == level:
                    mine[blob.slot].append(blob)
                else:
                    later.append(blob)
            for slot, input_blobs in sorted(mine.items()):
                task = step_operator(self.micro_batch, *self.slots[slot], input_blobs, self.stores[slot], self.cache)
                later.extend(self._check_blobs(task))
            pending = later
        return pending

    def _check_blobs(self, blobs: Iterable[Blob]) -> list[Blob]:
        out = []
        self._check()
        for blob in blobs:
            out.append(blob)
            self._check()
        return out

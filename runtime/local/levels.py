"""The operators of a job graph over state in memory: what Spark's workers do with a micro-batch, in this process."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from stateplan.connectors.protocol import Split
from stateplan.runtime.exchange import Blob
from stateplan.runtime.jobgraph import JobGraph
from stateplan.runtime.state.keyed_state import MemoryRunStore
from stateplan.runtime.state.run_cache import RunCache
from stateplan.runtime.worker import Count, read_splits, step_operator, unslot


class LocalLevels:
    """A job graph with its state.

    Args:
        graph: the job graph.
        count: gets the figures of operators.
        check: called now and then; what it raises ends the micro-batch in hand.

    Attributes:
        stores: per slot, the state of a key group.
    """

    def __init__(self, graph: JobGraph, count: Count | None = None, check: Callable[[], None] = lambda: None) -> None:
        self.graph = graph
        self.count = count
        self.cache = RunCache(None)
        self.stores: dict[int, MemoryRunStore] = defaultdict(MemoryRunStore)
        self.slots = unslot(graph)
        self._check = check

    def read(self, source: int, splits: Sequence[Split], batch: int) -> list[Blob]:
        """What reaches the operators and sinks behind a source.

        Args:
            source: its number.
            splits: of micro-batch ``batch``.

        Raises:
            WorkerError: with the coded error.
        """
        parts = read_splits(self.graph, source, splits, list, self.count, number=batch)
        return self._checked(blob for some in parts for blob in some)

    def play(self, blobs: Iterable[Blob]) -> list[Blob]:
        """Runs a micro-batch through all levels of operators; what reaches the sinks.

        Raises:
            WorkerError: with the coded error.
        """
        waiting = list(blobs)
        for level in range(1, self.graph.levels + 1):
            mine: dict[int, list[Blob]] = defaultdict(list)
            later: list[Blob] = []
            for blob in waiting:
                owner = self.slots.get(blob.slot)
                if owner is not None and owner[0] < 0:
                    self.stores.pop(blob.slot, None)  # the range of an operator that is gone
                elif owner is not None and self.graph.operators[owner[0]].level == level:
                    mine[blob.slot].append(blob)
                else:
                    later.append(blob)
            for slot, received in sorted(mine.items()):
                task = step_operator(self.graph, *self.slots[slot], received, self.stores[slot], self.cache, self.count)
                later.extend(self._checked(task))
            waiting = later
        return waiting

    def _checked(self, blobs: Iterable[Blob]) -> list[Blob]:
        out = []
        self._check()
        for blob in blobs:
            out.append(blob)
            self._check()
        return out

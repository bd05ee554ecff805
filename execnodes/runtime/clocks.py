"""The clock of a job: that of the machine, or a virtual one that goes from instant to instant of its replay tables."""

from __future__ import annotations

from stateplan.execnodes.connectors.protocol import InstantSource, RangeSource
from stateplan.execnodes.errors import RunError
from stateplan.execnodes.runtime.jobgraph import JobGraph


def is_virtual(graph: JobGraph) -> bool:
    """Whether a job has a virtual clock.

    Raises:
        RunError: RUN020, it also reads a table that follows the clock of the machine.
    """
    virtual = any(isinstance(s.reader, InstantSource) for s in graph.sources)
    for other in graph.sources if virtual else ():
        reader = other.reader
        if not isinstance(reader, InstantSource) and not (isinstance(reader, RangeSource) and reader.any_clock):
            raise RunError("RUN020", name=other.name, connector=other.connector)
    return virtual


def instants(graph: JobGraph) -> list[int]:
    """The distinct instants of all tables on the virtual clock, ascending.

    Raises:
        DataError: a table that cannot be read.
    """
    readers = [s.reader for s in graph.sources if isinstance(s.reader, InstantSource)]
    return sorted({at for r in readers for at in r.instants()})

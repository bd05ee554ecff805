"""Which jobs this process runs itself: those over little input, or whose results are not stored, that ask for nothing
of Spark's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stateplan.common.errors import StateplanError
from stateplan.common.settings import value
from stateplan.connectors.protocol import FileSource, InstantSource, Lookup, OffsetSource, RangeSource
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.nodes.lookup_join import LookupJoin
from stateplan.runtime.checkpoint.savepoint import RECOVERY_PATH
from stateplan.runtime.clocks import is_virtual
from stateplan.runtime.jobgraph import JobGraph
from stateplan.runtime.lookup import lookup_table
from stateplan.runtime.memory import TOTAL
from stateplan.runtime.pacing import TARGET
from stateplan.runtime.spark.hadoop import CHECKPOINT_DIR, default_file_system
from stateplan.runtime.spark.session import would_be_ours

MAX_INPUT = "table.exec.local.max-input-size"
STREAMS = "table.exec.local.streams"

OF_SHARED_PROCESS = {MAX_INPUT: "16 mb", STREAMS: "false"}
"""Defaults where a process runs the queries of several sessions."""

_MEMORY_OF_INPUT = 4
"""How much memory a job takes for a byte of its input, at most, in the benchmarks: 3.6 in Nexmark's q9."""

_OF_CHECKPOINTS = (CHECKPOINT_DIR, RECOVERY_PATH)
"""Options that name a checkpoint, which only a job of Spark has."""

_OF_LONG_JOBS = ("execution.checkpointing.interval", TARGET, TOTAL)
"""Options that only a job of Spark follows where its input does not end."""


def may_run_here(options: Mapping[str, str]) -> bool:
    """Whether nothing but its tables can keep a job with these options out of this process."""
    return (
        value(options, MAX_INPUT) > 0
        and not any(options.get(key) for key in _OF_CHECKPOINTS)
        and would_be_ours(options)
        and default_file_system(options).startswith("file:")
    )


def is_for_here(graph: ExecGraph, job: JobGraph, options: Mapping[str, str]) -> bool:
    """Whether this process runs a query: what its tables have now is no larger than :data:`MAX_INPUT`, nor than a
    fourth of ``execution.memory.total``; and they end, or the query stores no result.

    Args:
        graph, job: its plan, and what it was translated to.
        options: the options of the session.

    Raises:
        RunError: RUN020, tables with different clocks.
        OptionError: OPT040, a path that does not exist.
        DataError: a table that cannot be listed.
    """
    kinds = (FileSource, InstantSource, RangeSource, OffsetSource)
    if not all(isinstance(s.reader, kinds) for s in job.sources) or not (job.bounded or _may_stream(job, options)):
        return False
    is_virtual(job)
    for source in job.sources:
        source.reader.check(source.name)
    sizes = (*(s.reader.size() for s in job.sources), *(_size(lookup) for lookup in _lookups(graph, options)))
    memory = value(options, TOTAL)
    most = value(options, MAX_INPUT) if memory is None else min(value(options, MAX_INPUT), memory // _MEMORY_OF_INPUT)
    return all(size is not None for size in sizes) and sum(size or 0 for size in sizes) <= most


def _may_stream(job: JobGraph, options: Mapping[str, str]) -> bool:
    """Whether this process may run a job that does not end: nothing is lost with it that a job in Spark would have
    kept, and no table has a clock of its own, or waits for others."""
    readers = [source.reader for source in job.sources]
    return (
        value(options, STREAMS)
        and all(sink.writer.is_transient for sink in job.sinks)
        and not any(options.get(key) for key in _OF_LONG_JOBS)
        and not any(isinstance(reader, InstantSource) for reader in readers)
        and not any(isinstance(reader, OffsetSource) and reader.alignment is not None for reader in readers)
    )


def _lookups(graph: ExecGraph, options: Mapping[str, str]) -> Iterator[Lookup]:
    """The tables that a query looks rows up in."""
    for node in graph.nodes:
        if isinstance(node, LookupJoin):
            with graph.placing(node):
                yield lookup_table(node.temporal_table.lookup_table_source, options).lookup


def _size(lookup: Lookup) -> int | None:
    """How much is read of a table that is looked up; nothing of one that cannot be read, as its reader will say."""
    try:
        return lookup.size()
    except StateplanError:
        return 0

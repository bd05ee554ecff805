"""Operators that keep rows of their input: deduplication, ranks, sorts, and the last row of each key."""

from __future__ import annotations

from stateplan.common.errors import PlanError
from stateplan.common.types import LogicalType
from stateplan.common.zone import local_time_zone
from stateplan.execnodes.node_ttls import ttl_configs
from stateplan.execnodes.nodes.base import not_supported
from stateplan.execnodes.nodes.changelog_normalize import ChangelogNormalize
from stateplan.execnodes.nodes.deduplicate import Deduplicate
from stateplan.execnodes.nodes.rank import RankBase
from stateplan.execnodes.nodes.sort import Sort
from stateplan.execnodes.nodes.temporal_sort import TemporalSort
from stateplan.execnodes.nodes.window_deduplicate import WindowDeduplicate
from stateplan.execnodes.nodes.window_rank import WindowRank
from stateplan.execnodes.ranking import (
    AppendFastStrategy,
    ConstantRange,
    ConstantRangeWithoutEnd,
    SortSpec,
    UndefinedStrategy,
    VariableRange,
)
from stateplan.execnodes.windows import WindowAttached
from stateplan.runtime.kernel import Kernel
from stateplan.runtime.kernels.changelog_normalize import ChangelogNormalizeKernel
from stateplan.runtime.kernels.common.topn import LocalTopN, TopN
from stateplan.runtime.kernels.deduplicate import DeduplicateKernel
from stateplan.runtime.kernels.deduplicate_rowtime import (
    RowtimeDeduplicateKernel,
    RowtimeFirstRowKernel,
    WindowDeduplicateKernel,
)
from stateplan.runtime.kernels.rank import rank_kernel
from stateplan.runtime.kernels.sort import ProctimeSortKernel, RowtimeSortKernel, SortKernel
from stateplan.runtime.kernels.window_rank import WindowRankKernel
from stateplan.runtime.operators.base import Options, Rows, Stateful, Stateless, operator_of
from stateplan.runtime.operators.windowing import slicing_of

_NO_END = 2**63 - 1
"""The end of a range where a query gave none."""


@operator_of.register
def changelog_normalize(node: ChangelogNormalize, inputs: Rows, session: Options) -> Stateful:
    kernel = ChangelogNormalizeKernel(
        inputs[0], node.unique_keys, node.generate_update_before, node.filter_condition, local_time_zone(session)
    )
    return Stateful(kernel, (node.unique_keys,))


@operator_of.register
def deduplicate(node: Deduplicate, inputs: Rows, session: Options) -> Stateful:
    keys = node.unique_keys
    if node.is_rowtime:
        return Stateful(_by_rowtime(node, inputs[0]), (keys,))
    return Stateful(DeduplicateKernel(inputs[0], keys, node.keep_last_row, node.generate_update_before), (keys,))


def _by_rowtime(node: Deduplicate, row: LogicalType) -> Kernel:
    """The kernel by event time. A plan of before Flink 2.3 says nothing about ``outputInsertOnly``: updates then.

    Raises:
        PlanError: PLAN046, when no field of the input is a rowtime attribute.
    """
    rowtime = next((i for i, f in enumerate(row.fields) if f.type.kind == "ROWTIME"), None)
    if rowtime is None:
        raise PlanError("PLAN046.no_rowtime", id=node.id)
    if node.output_insert_only and not node.keep_last_row:
        return RowtimeFirstRowKernel(row, node.unique_keys, rowtime)
    return RowtimeDeduplicateKernel(row, node.unique_keys, rowtime, node.keep_last_row, node.generate_update_before)


@operator_of.register
def rank(node: RankBase, inputs: Rows, session: Options) -> Stateful:
    rank_range = node.rank_range
    if node.rank_type != "ROW_NUMBER":
        raise not_supported(node, f"{node.rank_type}()")
    if isinstance(rank_range, ConstantRangeWithoutEnd) or (
        not isinstance(rank_range, VariableRange) and rank_range.end >= _NO_END
    ):
        raise not_supported(node, "a rank range without an end")
    if isinstance(node.rank_strategy, UndefinedStrategy):
        raise not_supported(node, "a rank without a strategy")
    kernel = rank_kernel(
        inputs[0],
        node.partition.fields,
        node.order_by,
        rank_range,
        node.rank_strategy,
        node.output_row_number,
        node.generate_update_before,
    )
    before: tuple[LocalTopN, ...] = ()
    append = isinstance(node.rank_strategy, AppendFastStrategy)
    # Rows that cannot be among the first are reads all the same.
    if (
        append
        and isinstance(rank_range, ConstantRange)
        and isinstance(kernel, TopN)
        and not _ages_by_reads(node, session)
    ):
        before = (LocalTopN(kernel, rank_range.end),)
    return Stateful(kernel, (node.partition.fields,), before)


def _ages_by_reads(node: RankBase, session: Options) -> bool:
    """Whether the event times of rows that are read and not kept count."""
    return any(c.reads_refresh and c.by_event_time for c in ttl_configs(node, session))


@operator_of.register
def sort(node: Sort, inputs: Rows, session: Options) -> Stateful:
    return Stateful(SortKernel(inputs[0], node.order_by), ((),))


@operator_of.register
def temporal_sort(node: TemporalSort, inputs: Rows, session: Options) -> Stateless | Stateful:
    first, *rest = node.order_by.fields
    if inputs[0].fields[first.index].type.kind != "PROCTIME":
        return Stateful(RowtimeSortKernel(inputs[0], node.order_by), ((),))
    if not rest:
        return Stateless()
    return Stateful(ProctimeSortKernel(inputs[0], SortSpec(fields=tuple(rest))), ((),))


@operator_of.register
def window_deduplicate(node: WindowDeduplicate, inputs: Rows, session: Options) -> Stateful:
    windowing = node.windowing
    if not isinstance(windowing, WindowAttached):
        raise not_supported(node, "a window deduplication of rows that are in no windows yet")
    kernel = WindowDeduplicateKernel(
        inputs[0],
        node.partition_keys,
        node.order_key,
        node.keep_last_row,
        windowing.window_end,
        slicing_of(node, windowing, session),
    )
    return Stateful(kernel, (node.partition_keys,))


@operator_of.register
def window_rank(node: WindowRank, inputs: Rows, session: Options) -> Stateful:
    windowing, rank_range = node.windowing, node.rank_range
    if node.rank_type != "ROW_NUMBER":
        raise not_supported(node, f"{node.rank_type}() within windows")
    if not isinstance(rank_range, ConstantRange):
        raise not_supported(node, "a rank within windows whose range is not constant")
    if not isinstance(windowing, WindowAttached):
        raise not_supported(node, "a rank within windows of rows that are in no windows yet")
    keys = node.partition_spec.fields
    kernel = WindowRankKernel(
        inputs[0],
        tuple(dict.fromkeys((*keys, windowing.window_end))),
        node.sort_spec,
        rank_range,
        node.output_row_number,
        False,
        windowing.window_end,
        slicing_of(node, windowing, session),
    )
    return Stateful(kernel, (keys,), (LocalTopN(kernel, rank_range.end),))

"""The passes from the bound query to the physical plan, in order: one file per pass, all listed in :data:`PHASES`.

The phases are those of Flink's ``FlinkStreamProgram``. A phase applies its rules one after another (``sequence``) or
all together (``collection``), each until nothing changes; or it is one function over the whole tree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from stateplan.planner.algebra.relations import Rel
from stateplan.planner.passes import hep
from stateplan.planner.passes.aggregates import (
    keep_names_of_filtered_groups,
    merge_aggregate_project,
    prune_aggregate_calls,
    reduce_aggregates,
    remove_aggregate,
)
from stateplan.planner.passes.coerce_join_conditions import coerce_join_conditions
from stateplan.planner.passes.coerce_unions import coerce_unions
from stateplan.planner.passes.count_set_operations import set_operation_to_counts
from stateplan.planner.passes.count_subqueries_to_exists import count_subqueries_to_exists
from stateplan.planner.passes.decorrelate import decorrelate
from stateplan.planner.passes.derive_join_filters import derive_join_filters
from stateplan.planner.passes.distribute import distribute
from stateplan.planner.passes.hep import Rule
from stateplan.planner.passes.lookup_joins import filter_through_snapshot, lookup_joins, project_through_snapshot
from stateplan.planner.passes.merge_projects import merge_projects, remove_trivial_project
from stateplan.planner.passes.multi_joins import project_through_multi_join, to_multi_joins
from stateplan.planner.passes.over_aggregates import check_over_aggregate, window_to_over_aggregate
from stateplan.planner.passes.prune_count_star import prune_count_star
from stateplan.planner.passes.prune_empty import prune_empty
from stateplan.planner.passes.pull_up_constants import pull_up_constants
from stateplan.planner.passes.push_calc_filters_into_scans import push_calc_filter_into_scan
from stateplan.planner.passes.push_calcs_past_normalize import push_calc_past_normalize
from stateplan.planner.passes.push_distinct import distinct_below_join
from stateplan.planner.passes.push_filters import (
    filter_into_join,
    filter_through_aggregate,
    filter_through_project,
    filter_through_union,
    join_condition_push,
    merge_filters,
)
from stateplan.planner.passes.push_filters_into_scans import push_filter_into_scan
from stateplan.planner.passes.push_join_expressions import push_join_expressions
from stateplan.planner.passes.push_partitions_into_scans import push_partition_into_scan
from stateplan.planner.passes.push_projects import project_through_filter, project_through_join, project_through_union
from stateplan.planner.passes.push_projects_into_scans import push_project_into_scan
from stateplan.planner.passes.push_projects_past_watermarks import project_through_watermark
from stateplan.planner.passes.push_projects_past_windows import project_through_window
from stateplan.planner.passes.push_semi_joins import semi_join_below_join
from stateplan.planner.passes.ranks import (
    rank_of_window,
    remove_constant_rank_number,
    remove_unused_rank_number,
    transpose_calc_and_rank,
)
from stateplan.planner.passes.reduce_expressions import reduce_filter, reduce_join, reduce_project
from stateplan.planner.passes.remove_joins import remove_join_below_aggregate, remove_join_below_project
from stateplan.planner.passes.reveal_groupings import reveal_groupings
from stateplan.planner.passes.set_operations import set_operation_to_join
from stateplan.planner.passes.simplify_coalesce import (
    remove_unreachable_coalesce_arguments,
    simplify_coalesce_of_join_keys,
)
from stateplan.planner.passes.simplify_conditions import (
    simplify_filter_condition,
    simplify_join_condition,
    simplify_subquery_filters,
)
from stateplan.planner.passes.sorts import (
    full_sorts,
    physical_sort,
    push_limit_into_scan,
    remove_empty_limit,
    transpose_sort_and_project,
)
from stateplan.planner.passes.split_distinct import split_distinct
from stateplan.planner.passes.split_python_calcs import split_python_calcs
from stateplan.planner.passes.split_python_joins import split_python_join
from stateplan.planner.passes.split_windows import split_windows
from stateplan.planner.passes.subqueries_to_correlates import subqueries_to_correlates
from stateplan.planner.passes.subqueries_to_joins import subqueries_to_joins
from stateplan.planner.passes.table_functions import filter_through_function, split_python_function
from stateplan.planner.passes.temporal_joins import key_of_versions
from stateplan.planner.passes.time_attributes import materialize_time_attributes
from stateplan.planner.passes.to_calcs import to_calcs
from stateplan.planner.passes.union_to_distinct import drop_distinct_below_union, union_to_distinct
from stateplan.planner.passes.window_aggregates import refuse_in_windows, window_aggregate
from stateplan.planner.passes.wrap_json_aggregates import wrap_json_aggregates

__all__ = ["PHASES", "Phase", "optimize"]


@dataclass(frozen=True)
class Phase:
    """A step of the optimizer.

    ``mode`` says how ``rules`` are applied; for ``whole``, ``function`` gets the tree. ``first`` are applied before
    them, as a sequence. ``times`` repeats the phase.
    """

    name: str
    mode: Literal["sequence", "collection", "whole"]
    rules: tuple[Rule, ...] = ()
    first: tuple[Rule, ...] = ()
    function: Callable[[Rel], Rel] | None = None
    times: int = 1

    def run(self, rel: Rel) -> Rel:
        for _ in range(self.times):
            before = rel
            if self.function is not None:
                rel = self.function(rel)
            else:
                rel = hep.sequence(rel, self.first)
                rel = (hep.sequence if self.mode == "sequence" else hep.collection)(rel, self.rules)
            if rel is before:
                break
        return rel


_SIMPLIFY = (simplify_filter_condition, simplify_join_condition, push_join_expressions)
_REDUCE = (reduce_filter, reduce_project, reduce_join)

PHASES: tuple[Phase, ...] = (
    Phase(
        "subqueries to joins",
        "sequence",
        (
            simplify_subquery_filters,
            count_subqueries_to_exists,
            subqueries_to_joins,
            coerce_join_conditions,
            push_join_expressions,
        ),
    ),
    Phase("subqueries to correlates", "collection", (subqueries_to_correlates,)),
    Phase("correlates to joins", "whole", function=decorrelate),
    Phase(
        "default rewrite",
        "sequence",
        (
            *_SIMPLIFY,
            remove_unreachable_coalesce_arguments,
            simplify_coalesce_of_join_keys,
            *_REDUCE,
            pull_up_constants,
            merge_projects,
            split_windows,
            coerce_unions,
            remove_empty_limit,
            merge_filters,
            prune_count_star,
        ),
    ),
    Phase(
        "filters towards the sources",
        "collection",
        (
            filter_into_join,
            join_condition_push,
            filter_through_aggregate,
            filter_through_project,
            filter_through_union,
            filter_through_function,
            merge_filters,
            *_SIMPLIFY,
            *_REDUCE,
        ),
        first=(derive_join_filters,),
        times=5,
    ),
    Phase("partitions of the sources", "sequence", (push_partition_into_scan,)),
    Phase("filters into the sources", "sequence", (push_filter_into_scan,)),
    Phase("nothing from nothing", "collection", (prune_empty,)),
    Phase("joins on a common key", "whole", function=to_multi_joins),
    Phase("semi joins towards the sources", "collection", (semi_join_below_join,)),
    Phase(
        "projections towards the sources",
        "collection",
        (
            remove_join_below_aggregate,
            remove_join_below_project,
            project_through_filter,
            project_through_join,
            project_through_multi_join,
            merge_projects,
            remove_trivial_project,
            pull_up_constants,
            project_through_union,
            project_through_watermark,
            project_through_window,
            project_through_snapshot,
            reduce_project,
        ),
    ),
    Phase("names of filtered groups", "sequence", (keep_names_of_filtered_groups,)),
    Phase("projections into the sources", "sequence", (push_project_into_scan, remove_trivial_project)),
    Phase("grouping sets and JSON aggregates", "sequence", (reveal_groupings, wrap_json_aggregates, merge_projects)),
    Phase("distinct rows below joins", "collection", (distinct_below_join,)),
    Phase(
        "unions and aggregates",
        "collection",
        (
            set_operation_to_join,
            set_operation_to_counts,
            union_to_distinct,
            drop_distinct_below_union,
            prune_aggregate_calls,
            remove_aggregate,
            merge_aggregate_project,
            reduce_aggregates,
            merge_projects,
            remove_trivial_project,
        ),
    ),
    Phase("sorts", "collection", (transpose_sort_and_project, merge_projects, remove_trivial_project)),
    Phase("limits into the sources", "sequence", (push_limit_into_scan,)),
    Phase("snapshots", "collection", (filter_through_snapshot, project_through_snapshot)),
    Phase("calcs", "whole", function=to_calcs),
    Phase(
        "ranks",
        "sequence",
        (
            rank_of_window,
            window_to_over_aggregate,
            check_over_aggregate,
            transpose_calc_and_rank,
            remove_constant_rank_number,
        ),
    ),
    Phase("calcs merged", "whole", function=to_calcs),
    Phase("rank numbers that nobody reads", "sequence", (remove_unused_rank_number,)),
    Phase("calc filters into the sources", "sequence", (push_calc_filter_into_scan,)),
    Phase("versions", "sequence", (lookup_joins, key_of_versions)),
    Phase("time attributes", "whole", function=materialize_time_attributes),
    Phase("calcs merged again", "whole", function=to_calcs),
    Phase("aggregates of windows", "sequence", (window_aggregate, refuse_in_windows)),
    Phase("sorts that run", "sequence", (physical_sort,)),
    Phase("joins without Python", "sequence", (split_python_join, split_python_function)),
    Phase("calcs merged after joins", "whole", function=to_calcs),
    Phase("Python functions alone", "whole", function=split_python_calcs),
    Phase("exchanges", "whole", function=distribute),
    Phase("calcs past normalization", "sequence", (push_calc_past_normalize,)),
)


def optimize(rel: Rel, options: Mapping[str, str]) -> Rel:
    """The physical plan of a bound query: only scans, calcs, exchanges, aggregates, ranks, sorts, joins, unions, sinks.

    Args:
        options: of the session; they say whether DISTINCT aggregates are split, and whether a sort may wait for the
            end of its input.

    Raises:
        SqlError: SQL150, for a query that needs an operator that does not exist yet; SQL160, SQL161, SQL164, for a
            sort, a top-N query or an OVER window that cannot run on a stream.
    """
    for phase in PHASES:
        rel = phase.run(rel)
        if phase.name == "calcs":
            rel = split_distinct(rel, options)
        elif phase.name == "calcs merged again":
            rel = full_sorts(rel, options)
    return rel

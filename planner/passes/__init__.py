"""The passes from bound INSERTs to the physical plan, listed in :data:`PHASES` and :data:`LAST_PHASES` in their order.

The phases are those of Flink's ``FlinkStreamProgram``. A phase applies its rules one after another (``sequence``) or
all together (``collection``), each until nothing changes; or it is one function over the whole tree. The modules are
families of passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal, TypeAlias

from stateplan.common.errors import StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.settings import corrects_flink, is_batch, value
from stateplan.common.zone import local_time_zone
from stateplan.execnodes.emission import is_asked_for
from stateplan.planner.algebra.relations import Rel, Sink, walk
from stateplan.planner.passes import hep
from stateplan.planner.passes.aggregates import (
    distinct_below_join,
    keep_names_of_filtered_groups,
    merge_aggregate_project,
    name_expanded_fields,
    prune_aggregate_calls,
    prune_count_star,
    reduce_aggregates,
    remove_aggregate,
    remove_aggregates_below_projects,
    remove_distinct_of_one_row,
    replace_empty_aggregate,
    reveal_groupings,
    wrap_json_aggregates,
)
from stateplan.planner.passes.batch import bounded_input, final_rows
from stateplan.planner.passes.build import distribute
from stateplan.planner.passes.changelog import infer_changelog, take_back
from stateplan.planner.passes.correlates import subqueries_to_correlates
from stateplan.planner.passes.decorrelate import decorrelate
from stateplan.planner.passes.filters import (
    derive_join_filters,
    filter_into_join,
    filter_through_aggregate,
    filter_through_expand,
    filter_through_project,
    filter_through_union,
    join_condition_push,
    merge_filters,
    push_join_expressions,
)
from stateplan.planner.passes.group_windows import emit_windows, unnamed_below_group_windows, untold_group_windows
from stateplan.planner.passes.hep import InTimeZone, Rule
from stateplan.planner.passes.in_lists import comparisons_to_searches
from stateplan.planner.passes.joins import (
    coerce_join_conditions,
    every_join,
    filter_through_snapshot,
    keep_lookups,
    key_of_versions,
    lookup_joins,
    project_through_multi_join,
    project_through_snapshot,
    remove_join_below_aggregate,
    remove_join_below_project,
    semi_join_below_join,
    to_multi_joins,
)
from stateplan.planner.passes.keys_of_groups import (
    filter_keys_of_groups,
    filtered_rows,
    keep_order_below_groups,
    name_keys_in_conditions,
)
from stateplan.planner.passes.projects import (
    merge_projects,
    project_into_branches,
    project_through_filter,
    project_through_join,
    project_through_union,
    project_through_watermark,
    project_through_window,
    push_calc_past_normalize,
    remove_trivial_project,
    to_calcs,
    to_named_calcs,
    unnamed_function_fields,
)
from stateplan.planner.passes.python_functions import (
    split_python_calcs,
    split_python_function,
    split_python_join,
)
from stateplan.planner.passes.ranks import (
    full_sorts,
    physical_sort,
    push_limit_into_scan,
    rank_of_window,
    remove_constant_rank_number,
    remove_empty_limit,
    remove_unused_rank_number,
    transpose_calc_and_rank,
    transpose_sort_and_project,
)
from stateplan.planner.passes.reuse import reuse_scans, reuse_sinks
from stateplan.planner.passes.scans import (
    push_calc_filter_into_scan,
    push_filter_into_scan,
    push_partition_into_scan,
    push_project_into_scan,
)
from stateplan.planner.passes.set_operations import (
    coerce_unions,
    drop_distinct_below_union,
    set_operation_to_counts,
    set_operation_to_join,
    union_to_distinct,
)
from stateplan.planner.passes.shared_names import share_names
from stateplan.planner.passes.simplify import (
    answer_mean_of_nothing,
    prune_empty,
    pull_up_constants,
    reduce_filter,
    reduce_join,
    reduce_json,
    reduce_project,
    remove_unreachable_coalesce_arguments,
    simplify_bound_join,
    simplify_coalesce_of_join_keys,
    simplify_condition,
    simplify_subquery_filters,
)
from stateplan.planner.passes.split_aggregates import split_distinct
from stateplan.planner.passes.subqueries import answer_exists, count_subqueries_to_exists, subqueries_to_joins
from stateplan.planner.passes.time_attributes import materialize_time_attributes
from stateplan.planner.passes.two_phases import (
    assign_mini_batches,
    in_two_phases,
    joins_by_mini_batches,
    windows_in_two_phases,
    without_mini_batches,
    works_row_by_row,
)
from stateplan.planner.passes.watermarks import push_watermarks
from stateplan.planner.passes.windows import (
    check_match,
    check_over_aggregate,
    check_window_table,
    keyed_as_flink,
    rank_in_window,
    split_windows,
    window_aggregate,
    window_to_over_aggregate,
)
from stateplan.planner.physical import Physical

Options: TypeAlias = Mapping[str, str]


@dataclass(frozen=True)
class Phase:
    """A step of the optimizer.

    A phase has ``rules``, or one ``function`` of the whole tree, or one ``with_options`` that also takes the session's
    options. It works on one sink at a time; with ``is_joint``, on the list of all sinks. A tree is a :class:`Rel` up
    to the phase that infers changelog modes, and a :class:`Physical` from there on.

    Attributes:
        mode: how rules are applied: one after another, or all together, each until nothing changes.
        first: rules to apply before the others, as a sequence.
        times: how often the rules are applied; fewer times if nothing changes any more.
        enabled: whether the phase runs.
    """

    name: str
    mode: Literal["sequence", "collection", "whole"]
    rules: tuple[Rule | InTimeZone, ...] = ()
    first: tuple[Rule, ...] = ()
    function: Callable[[Any], Any] | None = None
    with_options: Callable[[Any, Options], Any] | None = None
    times: int = 1
    is_joint: bool = False
    enabled: Callable[[Options], bool] = lambda _: True

    def run(self, tree: Any, options: Options) -> Any:
        if not self.enabled(options):
            return tree
        if self.function is not None:
            return self.function(tree)
        if self.with_options is not None:
            return self.with_options(tree, options)
        zone = local_time_zone(options)
        rules = [rule.of(zone) if isinstance(rule, InTimeZone) else rule for rule in self.rules]
        for _ in range(self.times):
            before = tree
            tree = hep.sequence(tree, self.first)
            tree = (hep.sequence if self.mode == "sequence" else hep.collection)(tree, rules)
            if tree is before:
                break
        return tree


def _on(key: str, expected_value: object = True) -> Callable[[Options], bool]:
    """Whether the option ``key`` has the value ``expected_value``."""
    return lambda options: bool(value(options, key) == expected_value)


_SHARES = ("table.optimizer.reuse-sub-plan-enabled", "table.optimizer.reuse-source-enabled")
_SIMPLIFY = (simplify_condition, push_join_expressions)
_REDUCE_PROJECT = InTimeZone(reduce_project)
_REDUCE = (InTimeZone(reduce_filter), _REDUCE_PROJECT, InTimeZone(reduce_join))

_THROUGH = (
    filter_into_join,
    join_condition_push,
    filter_through_aggregate,
    filter_through_expand,
    filter_through_project,
    filter_through_union,
    merge_filters,
)
"""What brings filters towards the sources."""


def _push_conditions_on_keys(tree: Rel) -> Rel:
    """Conditions on the MIN, MAX or AVG of a group key go towards the sources, if there are any."""
    by_key = hep.sequence(tree, (name_keys_in_conditions,))
    if by_key is tree:
        return tree
    out = hep.collection(hep.sequence(by_key, (derive_join_filters,)), (*_THROUGH, merge_projects))
    before = [rows for rel in walk(tree) if (rows := filtered_rows(rel)) is not None]
    return hep.sequence(out, (lambda rel: keep_order_below_groups(rel, before),))


PHASES: tuple[Phase, ...] = (
    Phase(
        "what Calcite builds at once",
        "sequence",
        (simplify_bound_join, replace_empty_aggregate, remove_distinct_of_one_row),
    ),
    Phase(
        "subqueries to joins",
        "sequence",
        (
            answer_exists,
            simplify_subquery_filters,
            count_subqueries_to_exists,
            subqueries_to_joins,
            coerce_join_conditions,
            push_join_expressions,
        ),
    ),
    Phase("subqueries to correlates", "collection", (subqueries_to_correlates,)),
    Phase("correlates to joins", "whole", function=decorrelate),
    # Once more: joins that correlates became may compare keys of two types, or expressions.
    Phase("keys of these joins", "sequence", (coerce_join_conditions, push_join_expressions)),
    Phase(
        "joins that may be multi-joins", "whole", function=every_join, enabled=_on("table.optimizer.multi-join.enabled")
    ),
    Phase("bounded input", "whole", function=bounded_input, enabled=is_batch),
    Phase(
        "default rewrite",
        "sequence",
        (
            replace_empty_aggregate,
            *_SIMPLIFY,
            remove_unreachable_coalesce_arguments,
            simplify_coalesce_of_join_keys,
            *_REDUCE,
            pull_up_constants,
            # It keeps the names of a projection that the next rule merges with the one below.
            coerce_unions,
            merge_projects,
            unnamed_below_group_windows,
            untold_group_windows,
            split_windows,
            remove_empty_limit,
            merge_filters,
            prune_count_star,
            comparisons_to_searches,
        ),
    ),
    Phase(
        "filters towards the sources",
        "collection",
        (*_THROUGH, *_SIMPLIFY, *_REDUCE),
        first=(derive_join_filters,),
        times=5,
    ),
    # Once more: a filter that came to a join may have made keys of it.
    Phase("keys that filters made", "sequence", (coerce_join_conditions, push_join_expressions)),
    Phase("partitions of the sources", "sequence", (InTimeZone(push_partition_into_scan),)),
    Phase("filters into the sources", "sequence", (push_filter_into_scan,)),
    Phase("nothing from nothing", "collection", (prune_empty,)),
    Phase("joins on a common key", "whole", function=to_multi_joins),
    Phase("semi joins towards the sources", "collection", (semi_join_below_join,)),
    Phase("names of functions", "sequence", (unnamed_function_fields,)),
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
            project_through_window,
            project_through_snapshot,
            prune_aggregate_calls,
            remove_aggregates_below_projects,
        ),
    ),
    Phase(
        "projections below watermarks",
        "collection",
        (project_through_watermark, merge_projects, remove_trivial_project),
    ),
    Phase("names below groups", "sequence", (keep_names_of_filtered_groups,)),
    Phase("projections into the sources", "sequence", (push_project_into_scan, remove_trivial_project)),
    Phase(
        "JSON aggregates and grouping sets",
        "sequence",
        (
            wrap_json_aggregates,
            merge_projects,
            InTimeZone(reduce_json),
            prune_empty,
            name_expanded_fields,
            reveal_groupings,
            merge_projects,
        ),
    ),
    Phase("conditions on keys of groups", "whole", function=_push_conditions_on_keys),
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
            answer_mean_of_nothing,
            remove_aggregate,
            merge_aggregate_project,
            filter_keys_of_groups,
            reduce_aggregates,
            project_into_branches,
            merge_projects,
            remove_trivial_project,
        ),
    ),
    Phase("sorts", "collection", (transpose_sort_and_project, merge_projects, remove_trivial_project)),
    Phase("limits into the sources", "sequence", (push_limit_into_scan,)),
    Phase("snapshots", "collection", (filter_through_snapshot, project_through_snapshot)),
    Phase("calcs", "whole", function=to_calcs),
    Phase(
        "DISTINCT aggregates in two levels",
        "whole",
        with_options=split_distinct,
        enabled=_on("table.optimizer.distinct-agg.split.enabled"),
    ),
    Phase(
        "ranks",
        "sequence",
        (
            rank_of_window,
            window_to_over_aggregate,
            transpose_calc_and_rank,
            remove_constant_rank_number,
        ),
    ),
    # Once more: what ranks take from a calc is a calc of its own, and some ranks are gone.
    Phase("calcs merged", "whole", function=to_calcs),
    Phase("rank numbers that nobody reads", "sequence", (remove_unused_rank_number,)),
    Phase("calc filters into the sources", "sequence", (push_calc_filter_into_scan,)),
    Phase(
        "watermarks into the sources",
        "whole",
        with_options=push_watermarks,
        enabled=lambda options: not is_batch(options),
    ),
    # Once more: a watermark that a source makes itself is not between two calcs any longer.
    Phase("calcs merged after watermarks", "whole", function=to_calcs),
    Phase("versions", "sequence", (lookup_joins, key_of_versions)),
    Phase("time attributes", "whole", function=materialize_time_attributes),
    Phase("OVER that streams have", "sequence", (check_over_aggregate,)),
    Phase(
        "windows that streams have",
        "sequence",
        (check_window_table, check_match),
        enabled=lambda options: not is_batch(options),
    ),
    # Once more: time attributes are made in calcs, and so are the keys of versions.
    Phase("calcs merged again", "whole", function=to_calcs),
    Phase(
        "sorts of bounded input",
        "whole",
        function=full_sorts,
        enabled=lambda options: is_batch(options) or value(options, "__table.exec.sort.non-temporal.enabled__"),
    ),
    Phase("aggregates of windows", "sequence", (window_aggregate, rank_in_window)),
    Phase(
        "keys of window ranks as in Flink",
        "sequence",
        (keyed_as_flink,),
        enabled=lambda options: not corrects_flink(options),
    ),
    Phase("windows that are emitted early or late", "whole", with_options=emit_windows, enabled=is_asked_for),
    Phase("sorts that run", "sequence", (physical_sort,)),
    Phase("joins without Python", "sequence", (split_python_join, split_python_function)),
    # Once more, and by names this time: windows and split joins have added the last calcs.
    Phase("calcs merged after joins", "whole", function=to_named_calcs),
    Phase("Python functions alone", "whole", function=split_python_calcs),
    Phase("final rows", "whole", function=final_rows, enabled=is_batch),
    Phase("exchanges", "whole", function=distribute),
    Phase("calcs past normalization", "sequence", (push_calc_past_normalize,)),
    Phase("old rows of updates", "whole", function=take_back, enabled=corrects_flink),
    Phase("changelog modes", "whole", with_options=infer_changelog),
    Phase(
        "lookups that keep their results",
        "whole",
        function=keep_lookups,
        enabled=_on("table.optimizer.non-deterministic-update.strategy", "TRY_RESOLVE"),
    ),
)
"""Those of one INSERT."""

LAST_PHASES: tuple[Phase, ...] = (
    Phase("mini-batches", "whole", with_options=assign_mini_batches),
    Phase(
        "scans of a table",
        "whole",
        function=reuse_scans,
        is_joint=True,
        enabled=lambda options: all(value(options, key) for key in _SHARES),
    ),
    # Once more: mini-batches and shared scans depend on what runs together. They begin with the relations of each
    # INSERT, and physical trees hold no place for what they add.
    Phase("changelog modes again", "whole", with_options=infer_changelog),
    Phase("aggregates in two phases", "whole", with_options=in_two_phases),
    Phase("window aggregates in two phases", "whole", with_options=windows_in_two_phases),
    Phase("sinks of a table", "whole", function=reuse_sinks, is_joint=True),
)
"""Those of all INSERTs that run together."""


@dataclass(frozen=True)
class Optimized:
    """An INSERT that :data:`PHASES` have gone over.

    Attributes:
        tree: its plan.
        row_by_row: whether no operator of it works by mini-batches.
    """

    tree: Rel
    row_by_row: bool


def optimize(sink: Sink, options: Options) -> Optimized:
    """The plan of a bound INSERT, as far as it does not depend on others that run with it.

    Args:
        sink: the INSERT.
        options: the options of the session; phases that depend on them say so.

    Raises:
        SqlError: SQL140 to SQL144, for changes that a sink cannot take; SQL150, for a query that needs an operator
            that does not exist yet; SQL160, SQL161, SQL164, for a sort, a top-N query or an OVER window that cannot
            run on a stream. Errors without a place of their own have that of the sink.
    """
    row_by_row = works_row_by_row(sink)
    plan: Physical = _run(PHASES, share_names(sink, sink), without_mini_batches(options) if row_by_row else options)
    return Optimized(joins_by_mini_batches(plan.rel, options), row_by_row)


def optimize_together(inserts: Sequence[Optimized], options: Options) -> list[Physical]:
    """The physical plans of INSERTs that run together: one for each sink, with changelog modes. Raises as
    :func:`optimize`."""
    if all(insert.row_by_row for insert in inserts):
        options = without_mini_batches(options)
    trees: list[Any] = [insert.tree for insert in inserts]
    for is_joint, group in groupby(LAST_PHASES, lambda phase: phase.is_joint):
        phases = list(group)
        trees = _run(phases, trees, options) if is_joint else [_run(phases, tree, options) for tree in trees]
    return trees


def _run(phases: Sequence[Phase], tree: Any, options: Options) -> Any:
    place = tree.place if isinstance(tree, Sink) else None
    try:
        for phase in phases:
            tree = phase.run(tree, options)
    except StateplanError as error:
        error.place = error.place or place
        raise
    return tree

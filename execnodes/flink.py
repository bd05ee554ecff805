"""The exec nodes of Flink 2.3's streaming plans: names, versions, fields and state names, one row each.

What Flink has and stateplan does not run yet is told apart from what nobody has. Source: the annotations
and JSON properties of the ``StreamExec*`` classes of the 2.3 planner; versions with the Flink version
that introduced them."""

from __future__ import annotations

from typing import NamedTuple

PREFIX = "stream-exec-"


class FlinkNode(NamedTuple):
    """A node type of Flink.

    Attributes:
        name: as in the plan, such as ``stream-exec-calc``.
        versions: version to the Flink version that introduced it.
        inputs: number of inputs, None for one or more.
        about: what it does, in a few words.
        fields: keys of its own, without those all nodes have.
        states: names of its states by index; ``input-state-*`` stands for one per input.
    """

    name: str
    versions: dict[int, str]
    inputs: int | None
    about: str
    fields: tuple[str, ...]
    states: tuple[str, ...]


def _node(
    name: str, versions: dict[int, str], inputs: int | None, about: str, fields: str = "", states: str = ""
) -> FlinkNode:
    return FlinkNode(PREFIX + name, versions, inputs, about, tuple(fields.split()), tuple(states.split()))


FLINK_NODES: dict[str, FlinkNode] = {
    node.name: node
    for node in (
        _node("async-calc", {1: "1.19"}, 1, "calls asynchronous scalar functions", "projection"),
        _node("async-correlate", {1: "2.2"}, 1, "calls asynchronous table functions per row", "joinType functionCall"),
        _node("calc", {1: "1.15"}, 1, "projects and filters", "projection condition"),
        _node(
            "changelog-normalize",
            {1: "1.15"},
            1,
            "turns an upsert stream into a full changelog",
            "uniqueKeys generateUpdateBefore filterCondition",
            "changelogNormalizeState",
        ),
        _node(
            "correlate",
            {1: "1.15"},
            1,
            "calls a table function per row (LATERAL TABLE, UNNEST)",
            "joinType functionCall condition",
        ),
        _node(
            "deduplicate",
            {1: "1.15"},
            1,
            "keeps the first or last row of each key",
            "uniqueKeys isRowtime keepLastRow outputInsertOnly generateUpdateBefore",
            "deduplicateState",
        ),
        _node(
            "delta-join",
            {1: "2.1", 2: "2.3"},
            2,
            "joins by looking up the other side's table",
            "joinType leftJoinKeys leftUpsertKey rightJoinKeys rightUpsertKey lookupRightTableJoinSpec "
            "lookupLeftTableJoinSpec condition leftAllBinaryInputOrdinals rightAllBinaryInputOrdinals "
            "left2RightLookupChain right2LeftLookupChain allBinaryInputTables deltaJoinTree asyncOptions",
        ),
        _node("drop-update-before", {1: "1.15"}, 1, "drops -U rows"),
        _node("exchange", {1: "1.15"}, 1, "redistributes rows by key"),
        _node("expand", {1: "1.15"}, 1, "copies rows for grouping sets or several DISTINCT aggregates", "projects"),
        _node(
            "global-group-aggregate",
            {1: "1.15"},
            1,
            "second phase of a two-phase GROUP BY",
            "grouping aggCalls aggCallNeedRetractions localAggInputRowType generateUpdateBefore "
            "needRetraction indexOfCountStar",
            "globalGroupAggregateState",
        ),
        _node(
            "global-window-aggregate",
            {1: "1.15"},
            1,
            "second phase of a two-phase window aggregation",
            "grouping aggCalls windowing namedWindowProperties needRetraction localAggInputRowType",
        ),
        _node(
            "group-aggregate",
            {1: "1.15"},
            1,
            "GROUP BY without windows",
            "grouping aggCalls aggCallNeedRetractions generateUpdateBefore needRetraction",
            "groupAggregateState",
        ),
        _node(
            "group-window-aggregate",
            {1: "1.15"},
            1,
            "GROUP BY with TUMBLE, HOP or SESSION as functions",
            "grouping aggCalls window namedWindowProperties needRetraction",
        ),
        _node(
            "incremental-group-aggregate",
            {1: "1.15"},
            1,
            "middle phase of a split DISTINCT aggregation",
            "partialAggGrouping finalAggGrouping partialOriginalAggCalls partialAggCallNeedRetractions "
            "partialLocalAggInputRowType partialAggNeedRetraction",
            "incrementalGroupAggregateState",
        ),
        _node("interval-join", {1: "1.15"}, 2, "join within a time interval", "intervalJoinSpec"),
        _node(
            "join", {1: "1.15"}, 2, "regular join", "joinSpec leftUpsertKeys rightUpsertKeys", "leftState rightState"
        ),
        _node(
            "limit",
            {1: "1.15"},
            1,
            "LIMIT without ORDER BY",
            "rankRange rankStrategy generateUpdateBefore rankType partition orderBy outputRowNumber",
            "rankState",
        ),
        _node(
            "local-group-aggregate",
            {1: "1.15"},
            1,
            "first phase of a two-phase GROUP BY",
            "grouping aggCalls aggCallNeedRetractions needRetraction",
        ),
        _node(
            "local-window-aggregate",
            {1: "1.15"},
            1,
            "first phase of a two-phase window aggregation",
            "grouping aggCalls windowing needRetraction",
        ),
        _node(
            "lookup-join",
            {1: "1.15"},
            1,
            "join with rows looked up in a table (FOR SYSTEM_TIME AS OF)",
            "joinType preFilterCondition joinCondition temporalTable lookupKeys projectionOnTemporalTable "
            "filterOnTemporalTable lookupKeyContainsPrimaryKey requireUpsertMaterialize asyncOptions "
            "retryOptions inputChangelogMode inputUpsertKey preferCustomShuffle",
            "lookupJoinState",
        ),
        _node("match", {1: "1.15"}, 1, "MATCH_RECOGNIZE", "matchSpec"),
        _node("mini-batch-assigner", {1: "1.15"}, 1, "marks the borders of mini-batches", "miniBatchInterval"),
        _node("ml-predict-table-function", {1: "2.1"}, 1, "ML_PREDICT", "mlPredictSpec modelSpec asyncOptions"),
        _node(
            "multi-join",
            {1: "2.1"},
            None,
            "join of more than two streams in one operator",
            "joinTypes joinConditions multiJoinCondition joinAttributeMap inputUniqueKeys",
            "input-state-*",
        ),
        _node("over-aggregate", {1: "1.15"}, 1, "OVER windows", "overSpec unboundedOverVersion"),
        _node(
            "process-table-function",
            {1: "2.1"},
            None,
            "process table functions",
            "uid functionCall inputChangelogModes outputChangelogMode",
        ),
        _node("python-async-calc", {1: "2.0"}, 1, "calls asynchronous Python functions", "projection"),
        _node("python-calc", {1: "1.16"}, 1, "calls Python scalar functions", "projection"),
        _node("python-correlate", {1: "1.16"}, 1, "calls Python table functions", "joinType functionCall"),
        _node(
            "python-group-aggregate",
            {1: "1.16"},
            1,
            "GROUP BY with Python aggregate functions",
            "grouping aggCalls aggCallNeedRetractions generateUpdateBefore needRetraction",
        ),
        _node(
            "python-group-window-aggregate",
            {1: "1.16"},
            1,
            "windowed GROUP BY with Python aggregates",
            "grouping aggCalls window namedWindowProperties generateUpdateBefore needRetraction",
        ),
        _node("python-over-aggregate", {1: "1.16"}, 1, "OVER windows with Python aggregate functions", "overSpec"),
        _node(
            "rank",
            {1: "1.15"},
            1,
            "top-N by ROW_NUMBER, RANK",
            "rankType partition orderBy rankRange rankStrategy outputRowNumber generateUpdateBefore",
            "rankState",
        ),
        _node(
            "sink",
            {1: "1.15", 2: "2.3"},
            1,
            "writes a table",
            "dynamicTableSink inputChangelogMode requireUpsertMaterialize upsertMaterializeStrategy "
            "inputUpsertKey conflictStrategy",
            "sinkMaterializeState",
        ),
        _node("sort", {1: "1.18"}, 1, "ORDER BY without a time attribute", "orderBy"),
        _node(
            "sort-limit",
            {1: "1.15"},
            1,
            "ORDER BY with LIMIT",
            "orderBy rankRange rankStrategy generateUpdateBefore rankType partition outputRowNumber",
            "rankState",
        ),
        _node("table-source-scan", {1: "1.15", 2: "2.3"}, 0, "reads a table", "scanTableSource"),
        _node(
            "temporal-join",
            {1: "1.15"},
            2,
            "join with a versioned table (FOR SYSTEM_TIME AS OF)",
            "joinSpec isTemporalFunctionJoin leftTimeAttributeIndex rightTimeAttributeIndex",
            "leftState rightState",
        ),
        _node("temporal-sort", {1: "1.15"}, 1, "ORDER BY a time attribute", "orderBy"),
        _node("union", {1: "1.15"}, None, "UNION ALL"),
        _node("values", {1: "1.15"}, 0, "VALUES", "tuples"),
        _node(
            "vector-search-table-function",
            {1: "2.2"},
            1,
            "VECTOR_SEARCH",
            "tableSourceSpec vectorSearchSpec asyncOptions",
        ),
        _node("watermark-assigner", {1: "1.15"}, 1, "WATERMARK of a source", "watermarkExpr rowtimeFieldIndex"),
        _node(
            "window-aggregate",
            {1: "1.15"},
            1,
            "aggregation over a window table function",
            "grouping aggCalls windowing namedWindowProperties needRetraction",
        ),
        _node(
            "window-deduplicate",
            {1: "1.15"},
            1,
            "first or last row of each window and key",
            "partitionKeys orderKey keepLastRow windowing",
        ),
        _node("window-join", {1: "1.15"}, 2, "join within windows", "joinSpec leftWindowing rightWindowing"),
        _node(
            "window-rank",
            {1: "1.15"},
            1,
            "top-N within windows",
            "rankType partitionSpec sortSpec rankRange outputRowNumber windowing",
        ),
        _node("window-table-function", {1: "1.15"}, 1, "TUMBLE, HOP, CUMULATE, SESSION table functions", "windowing"),
    )
}

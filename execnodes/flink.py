"""The exec nodes of Flink 2.3's streaming plans that do not run here yet: names, versions and fields, one row each.

They can be shown, edited and compared. Source: the annotations and JSON properties of the ``StreamExec*`` classes of
the 2.3 planner.
"""

from __future__ import annotations

from typing import NamedTuple

PREFIX = "stream-exec-"


class FlinkNode(NamedTuple):
    """A node type of Flink.

    Attributes:
        name: as in the plan, such as ``stream-exec-delta-join``.
        about: what it does, in a few words.
        fields: keys of its own, without those all nodes have.
        inputs: number of inputs.
        versions: all that Flink has.
    """

    name: str
    about: str
    fields: tuple[str, ...]
    inputs: int
    versions: tuple[int, ...]


def _node(name: str, about: str, fields: str, inputs: int = 1, versions: tuple[int, ...] = (1,)) -> FlinkNode:
    return FlinkNode(PREFIX + name, about, tuple(fields.split()), inputs, versions)


FLINK_NODES: dict[str, FlinkNode] = {
    node.name: node
    for node in (
        _node("async-correlate", "calls asynchronous table functions per row", "joinType functionCall"),
        _node(
            "delta-join",
            "joins by looking up the other side's table",
            "joinType leftJoinKeys leftUpsertKey rightJoinKeys rightUpsertKey lookupRightTableJoinSpec "
            "lookupLeftTableJoinSpec condition leftAllBinaryInputOrdinals rightAllBinaryInputOrdinals "
            "left2RightLookupChain right2LeftLookupChain allBinaryInputTables deltaJoinTree asyncOptions",
            inputs=2,
            versions=(1, 2),
        ),
        _node("ml-predict-table-function", "ML_PREDICT", "mlPredictSpec modelSpec asyncOptions"),
        _node(
            "python-group-window-aggregate",
            "windowed GROUP BY with Python aggregates",
            "grouping aggCalls window namedWindowProperties generateUpdateBefore needRetraction",
        ),
        _node("vector-search-table-function", "VECTOR_SEARCH", "tableSourceSpec vectorSearchSpec asyncOptions"),
    )
}

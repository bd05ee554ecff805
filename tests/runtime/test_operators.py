"""Which operator runs for a node."""

from __future__ import annotations

import pytest

from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.table_source_scan import TableSourceScan
from stateplan.execnodes.registry import node_classes
from stateplan.runtime.operators import operator_of

SCANS = (TableSourceScan,)
"""Nodes that are read by Spark, not run."""

NODES = [cls for cls in node_classes().values() if not issubclass(cls, SCANS)]


@pytest.mark.parametrize("node", NODES, ids=lambda cls: cls.type_name())
def test_every_node_has_an_operator(node: type[ExecNode]) -> None:
    assert operator_of.dispatch(node) is not operator_of.dispatch(ExecNode)

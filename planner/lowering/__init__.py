"""From the physical plan to exec nodes: a module for each family of operators, and the graph of them all."""

from stateplan.planner.lowering.graph import lower, lower_traced

__all__ = ["lower", "lower_traced"]

"""What the lowering of every operator shares: the options, state entries, orders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from stateplan.execnodes.nodes.base import STATE_TTL
from stateplan.execnodes.ttl import format_ttl, parse_ttl
from stateplan.planner.algebra.relations import Order
from stateplan.planner.physical import Physical

Json: TypeAlias = dict[str, Any]
Defaults: TypeAlias = tuple[tuple[str, str], ...]

MINI_BATCH: Defaults = (("table.exec.mini-batch.enabled", "false"), ("table.exec.mini-batch.size", "-1"))


class Lowering:
    """The options of a plan, as its nodes need them.

    Raises:
        PlanError: for a TTL that is none, as :func:`parse_ttl` does.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = options
        self.ttl = parse_ttl(options.get(STATE_TTL, "0 ms"))
        self.catalog_objects = options.get("table.plan.compile.catalog-objects", "ALL").upper()

    def state(self, index: int, ttl: int | None, name: str) -> Json:
        """A state entry; ``ttl`` in milliseconds, from a hint, or None for the TTL of the job. ``from`` is no part of
        Flink's plan: see :attr:`ExecNode.compiled_ttls`."""
        origin = "hint" if ttl is not None else "option" if STATE_TTL in self.options else "default"
        return {"index": index, "ttl": format_ttl(self.ttl if ttl is None else ttl), "name": name, "from": origin}

    def configuration(self, defaults: Defaults) -> Json:
        """The values of the options that a node consumes."""
        return {k: self.options.get(k, default) for k, default in defaults}


@dataclass(frozen=True)
class NodeKind:
    """The exec node that a physical node becomes: its type, what makes the fields of its own, and the options it
    consumes with their defaults, whose values are frozen in the plan."""

    type: str
    fields: Callable[[Lowering, Physical], Json]
    configuration: Defaults = ()


def sort_spec(order: Order) -> Json:
    return {"fields": [{"index": i, "isAscending": a, "nullIsLast": last} for i, a, last in order]}

"""User-defined functions on their way into a job: found for the calls of a plan, and packed for other processes.

A function whose module the workers can import goes by name, any other one by value (as PySpark sends functions). The
folders that Python searches for modules go along.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from stateplan.common.errors import RunError
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.node_calls import with_calls
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.table_source_scan import TableSourceScan
from stateplan.execnodes.specs import AggCall
from stateplan.functions.rex import Call
from stateplan.functions.user import FunctionContext, UserFunction

Lookup = Callable[[str | None, str | None], UserFunction]
"""From the system name or the catalog name of a call to the function."""


class Shipped:
    """An object that is pickled by value where it must be, and opened once in every process."""

    def __init__(self, name: str, body: Any) -> None:
        from pyspark import cloudpickle

        self.name = name
        self._body = body
        self._open = False
        try:
            self._data: bytes = cloudpickle.dumps(body)
        except Exception as cause:  # pickling runs a user's code
            raise RunError("RUN072", name=name, cause_name=type(cause).__name__, cause=str(cause)[:200]) from cause
        self._folders = tuple(os.path.abspath(p or ".") for p in sys.path)

    def copy(self) -> Shipped:
        """The object as another process would get it. Raises RunError RUN073 when it cannot be made again."""
        shipped = Shipped.__new__(Shipped)
        shipped.__setstate__(self.__getstate__())
        return shipped

    def __getstate__(self) -> tuple[str, bytes, tuple[str, ...]]:
        return self.name, self._data, self._folders

    def __setstate__(self, state: tuple[str, bytes, tuple[str, ...]]) -> None:
        self.name, self._data, self._folders = state
        self._body, self._open = None, False

    @property
    def value(self) -> Any:
        """The object. Raises RunError RUN073 when it cannot be made here."""
        if not self._open:
            if self._body is None:
                sys.path.extend(p for p in self._folders if p not in sys.path)
                try:
                    self._body = pickle.loads(self._data)
                except Exception as cause:  # unpickling imports a user's modules
                    raise RunError(
                        "RUN073", name=self.name, cause_name=type(cause).__name__, cause=str(cause)[:200]
                    ) from cause
            open_method = getattr(self._body, "open", None)
            if open_method is not None:
                try:
                    open_method(FunctionContext())
                except Exception as cause:  # whatever a user's code raises
                    raise RunError(
                        "RUN074", name=self.name, cause_name=type(cause).__name__, cause=str(cause)[:200]
                    ) from cause
            self._open = True
        return self._body


def _calls(node: ExecNode) -> bool:
    """Whether a node calls user-defined functions."""
    own: list[bool] = []

    def look(call: Call) -> Call:
        own.append(call.is_user_defined)
        return call

    def look_at_aggregate(call: AggCall) -> AggCall:
        own.append(call.internal_name is None)
        return call

    with_calls(node, look, look_at_aggregate)
    return any(own)


def calls_functions(graph: ExecGraph) -> bool:
    """Whether a plan calls user-defined functions."""
    return any(map(_calls, graph.nodes))


def bind_functions(graph: ExecGraph, lookup: Lookup, *, runs_here: bool = False) -> ExecGraph:
    """``graph`` whose calls of user-defined functions know their functions.

    Args:
        graph: a plan.
        lookup: finds its functions.
        runs_here: whether this process calls them. It gets objects of its own, so that jobs share none, as in workers.

    Raises:
        CatalogError: CAT061, for a name that the session does not know.
        SqlError: SQL210 to SQL214, for a function that cannot be used.
        RunError: RUN072, for one that cannot be sent to other processes.
    """
    shipped_bodies: dict[int, Shipped] = {}

    def function_of(call: Call | AggCall) -> UserFunction:
        function = lookup(call.system_name, call.catalog_name)
        body = shipped_bodies.get(id(function.body))
        if body is None:
            body = Shipped(function.name, function.body)
            body = shipped_bodies[id(function.body)] = body.copy() if runs_here else body
        return replace(function, body=body, operator=operator)

    def bound(call: Call) -> Call:
        return replace(call, function=function_of(call)) if call.is_user_defined else call

    def bound_aggregate(call: AggCall) -> AggCall:
        return call.with_user_function(function_of(call)) if call.internal_name is None else call

    new_nodes = []
    for node in graph.nodes:
        if not _calls(node):
            continue
        operator = node.label + _tables_text(graph, node)
        with graph.placing(node):
            new_nodes.append(with_calls(node, bound, bound_aggregate))
    return graph.replace(new_nodes) if new_nodes else graph


def _tables_text(graph: ExecGraph, node: ExecNode) -> str:
    """The tables whose rows reach ``node``."""
    scans = (n for n in graph.upstream([node]) if isinstance(n, TableSourceScan))
    tables = dict.fromkeys(scan.scan_table_source.table.summary for scan in scans)
    return f" over {', '.join(tables)}" if tables else ""

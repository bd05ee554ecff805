"""LOAD, UNLOAD and USE MODULES. There is one module, Flink's functions, and it is always in use."""

from __future__ import annotations

from stateplan.common.errors import CatalogError, nearest
from stateplan.planner.dialect import nodes
from stateplan.session.context import Context
from stateplan.session.results import TableResult, ok

MODULES = ("core",)


def run_module_statement(c: Context, node: nodes.ModuleStatement) -> TableResult:
    """USE MODULES core changes nothing; everything else is refused, as in Flink or because there are no others.

    Raises:
        CatalogError: CAT080, no such module, or one that is there already; CAT081, ``core`` cannot be unloaded.
    """
    action = node.args["action"]
    names_so_far: set[str] = set()
    for item in node.expressions:
        name, place = item.name, c.place(item)
        if action == "LOAD":
            raise CatalogError("CAT080.already_loaded" if name in MODULES else "CAT080", name=name, place=place)
        if name not in MODULES:
            raise CatalogError("CAT080", name=name, place=place, hint=nearest(name, MODULES))
        if action == "UNLOAD":
            raise CatalogError("CAT081", name=name, place=place)
        if name in names_so_far:
            raise CatalogError("CAT080.repeated", name=name, place=place)
        names_so_far.add(name)
    return ok("USE MODULES")

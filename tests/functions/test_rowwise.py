"""The list of functions that run row by row, and the code, agree."""

from __future__ import annotations

import ast
from pathlib import Path

from stateplan.functions import render
from stateplan.functions.render.rowwise import BY_ROW

FOLDER = Path(render.__file__).parent
MODULES = {p.name: ast.parse(p.read_text(encoding="utf-8")) for p in FOLDER.glob("*.py") if p.name != "rowwise.py"}


def entries(tree: ast.Module) -> list[str | None]:
    """The entry of the list that each call of ``rowwise`` names; None for one that names none."""
    names = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    out = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "rowwise":
            entry = node.args[3] if len(node.args) > 3 else None
            name = names.get(entry.id) if isinstance(entry, ast.Name) else getattr(entry, "value", None)
            out.append(name)
    return out


def test_each_call_names_an_entry_and_each_entry_is_named() -> None:
    named = {entry for tree in MODULES.values() for entry in entries(tree)}
    assert named - set(BY_ROW) == set(), "give the reason in BY_ROW of functions/render/rowwise.py"
    assert set(BY_ROW) - named == set(), "no call of rowwise names these entries"


OTHERS = {
    "collection.py:_last_wins": "maps that have a key twice",
    "digests.py:java_string_hash": "texts beyond ASCII",
    "temporal.py:_formatted": "the patterns of a column, each once",
    "temporal.py:_ltz_from_text": "the time zones of a column, each once",
}
"""Function to the values that it takes one by one."""


def test_no_other_way_leads_through_python_objects() -> None:
    """``to_list`` of a column is the start of a loop over its rows."""
    found = {
        f"{name}:{node.name}"
        for name, tree in MODULES.items()
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and any(isinstance(n, ast.Attribute) and n.attr in ("to_list", "map_elements") for n in ast.walk(node))
    }
    assert found == OTHERS.keys(), "call rowwise() instead, or list the function in OTHERS"

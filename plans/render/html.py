"""A plan as one page to look around in: the graph, an operator's details, a search, and the states with their TTLs.

The page is one file that needs nothing else: its policy lets it load nothing and run only its own script. Every text of
the plan is escaped where it is markup, and is data where the script reads it. Without the script the graph and the
list of states are there all the same.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from stateplan.plans.render.picture import Picture, clean, picture
from stateplan.plans.render.svg import STYLE, drawing
from stateplan.plans.show import NO_TTL, OperatorView, PlanView
from stateplan.plans.states import StateView


def to_html(view: PlanView) -> str:
    """A plan as an HTML page."""
    plan_picture = picture(view)
    title = _text(plan_picture.title)
    style = f"{STYLE}{_asset('page.css')}{_asset('graph.css')}"
    script = f"{_asset('graph.js')}{_asset('page.js')}"
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    stateful = sum(operator.keeps_state for operator in view.operators)
    about = f"{len(view.operators)} operators, {stateful} with state; {view.origin}"
    parts = [
        "<!DOCTYPE html>\n",
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n',
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
        '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">\n',
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n",
        '<body class="plan">\n',
        f"<header>\n<h1>{title}</h1>\n<p>{_text(about)}</p>\n",
        *(f'<p class="warning">{_text(warning)}</p>\n' for warning in view.warnings),
        _TOOLS,
        '</header>\n<main>\n<div class="views">\n',
        '<div id="graph" class="graph" role="group" '
        'aria-label="Graph of operators: arrow keys move, Enter shows details">\n',
        *_drawings(plan_picture),
        "</div>\n",
        *_states(view),
        "</div>\n",
        _DETAILS,
        "</main>\n",
        f'<script type="application/json" id="plan-data">{_data(view)}</script>\n',
        f"<script>{script}</script>\n</body>\n</html>\n",
    ]
    return "".join(parts)


def _drawings(plan_picture: Picture) -> Iterator[str]:
    """Both drawings; the one that there is room for is shown."""
    for way in ("across", "down"):
        inner, width, height = drawing(plan_picture, across=way == "across")
        yield (
            f'<svg class="plan" data-way="{way}" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
            f'height="{height:g}" role="group" aria-label="Operators">\n{inner}</svg>\n'
        )


_TOOLS = """\
<div class="tools" role="search" hidden>
<label for="search">Find</label>
<input type="search" id="search" aria-keyshortcuts="/" autocomplete="off" spellcheck="false"
placeholder="operator, table, uid, state">
<span id="found" role="status"></span>
<span class="zoom" role="group" aria-label="Zoom">
<button type="button" id="out" aria-label="Zoom out">\N{MINUS SIGN}</button>
<button type="button" id="in" aria-label="Zoom in">+</button>
<button type="button" id="fit">Fit</button>
</span>
</div>
"""

_DETAILS = """\
<aside id="details" aria-labelledby="details-title" aria-live="polite" hidden>
<div class="bar">
<h2 id="details-title"></h2>
<button type="button" id="close" aria-label="Close details">Close</button>
</div>
<div id="details-body"></div>
</aside>
"""


@cache
def _asset(name: str) -> str:
    return files("stateplan.plans.render").joinpath(name).read_text("utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _text(text: str) -> str:
    return escape(clean(text), quote=True)


def _states(view: PlanView) -> Iterator[str]:
    """The list of states; an operator that keeps state without a TTL is in it too."""
    yield '<section class="states" aria-labelledby="states-title">\n<h2 id="states-title">States</h2>\n'
    rows = [row for operator in view.operators for row in _rows(operator)]
    if rows:
        heads = "".join(f'<th scope="col">{head}</th>' for head in ("operator", "state", "TTL", "origin"))
        yield f"<table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n"
        yield from rows
        yield "</tbody>\n</table>\n"
    else:
        yield "<p>No operator has state.</p>\n"
    yield "</section>\n"


def _rows(operator: OperatorView) -> Iterator[str]:
    cells = [(state.name, state.ttl_text.removeprefix("ttl "), state.source_text) for state in operator.states]
    if not cells and operator.keeps_state:
        cells = [("", "", NO_TTL)]
    for row in cells:
        name = _text(f"{operator.name} [{operator.id}]")
        yield f'<tr data-id="{operator.id}"><td><button type="button">{name}</button></td>'
        yield "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>\n"


def _data(view: PlanView) -> str:
    """What the script shows of each operator, as JSON that cannot end the element it is in."""
    text = json.dumps(graph_data(view), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def graph_data(view: PlanView) -> list[dict[str, Any]]:
    """What ``graph.js`` shows of each operator, as JSON-ready data."""
    return [_operator(operator) for operator in view.operators]


def _operator(operator: OperatorView) -> dict[str, Any]:
    keys = [", ".join(key) for key in operator.keys]
    return {
        "id": operator.id,
        "name": clean(operator.name),
        "uid": operator.uid,
        "type": clean(operator.type),
        "summary": clean(operator.summary),
        "inputs": list(operator.inputs),
        "keys": [clean(key) for key in keys],
        "changes": operator.changes_text,
        "noTtl": NO_TTL if operator.keeps_state and not operator.states else None,
        "states": [_state(state) for state in operator.states],
        "text": clean(operator.words),
    }


def _state(state: StateView) -> dict[str, Any]:
    kinds = (state.update_type, state.visibility, state.time_characteristic)
    return {
        "name": clean(state.name),
        "ttl": state.ttl_text,
        "source": clean(state.source_text),
        "more": [clean(text) for text in kinds if text],
    }

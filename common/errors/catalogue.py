"""The catalogue of errors: for each code a title, its cause and remedy, and the texts of its messages.

``texts/<family>.toml`` has a table per code. ``message``, ``expected`` and ``hint`` are format strings, whose values
the raise site names. A code with several messages has the others in tables of their own, named after the situation:
``[SQL121.no_table]``.

``shares`` names variants of another code that a code has, too: where several systems say the same, each under its own
code.

Where only ``expected`` or ``hint`` differ between the things that a message can be about, they are chosen by one of
its values. ``else`` is for all other values, and an empty text for none::

    message = "{what} has the type {type}"
    expected.what."an array index" = "an INT from 1"
    expected.what."a WHEN condition" = "a BOOLEAN"
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

FAMILIES = {
    "SQL": "statements",
    "PLAN": "plan files",
    "CAT": "tables, views, functions and catalogs",
    "OPT": "options",
    "DATA": "input and output rows",
    "RUN": "jobs",
    "CKPT": "checkpoints and state",
    "TYPE": "data types",
    "GW": "the SQL gateway",
    "TEST": "tests of queries",
    "REV": "reviews of changes",
    "EDIT": "the language server",
    "BUG": "internal errors",
}
"""The prefixes of codes, one file each, and the subject of their errors."""

PARTS = ("message", "expected", "hint")
"""The texts of an error."""

RETIRED = frozenset({"CKPT025", "CKPT042", "RUN050", "SQL011"})
"""Codes of errors that no longer exist. A code is never used again."""


@cache
def family(prefix: str) -> Mapping[str, Mapping[str, Any]]:
    """Code to its table, of one file."""
    text = files(__package__).joinpath("texts", f"{prefix.lower()}.toml").read_text("utf-8")
    return tomllib.loads(text)


def entry_of(code: str) -> Mapping[str, Any]:
    """The table of ``CODE`` or ``CODE.variant``.

    Raises:
        KeyError: for a code that the catalogue does not have.
    """
    code, _, variant = code.partition(".")
    prefix = re.match("[A-Z]*", code)
    assert prefix is not None
    entry = family(prefix.group())[code]
    return (variants_of(entry) | shared_variants_of(entry))[variant] if variant else entry


def variants_of(entry: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The messages of a code besides its first one, by name."""
    return {name: table for name, table in entry.items() if isinstance(table, dict) and name not in PARTS}


def shared_variants_of(entry: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The messages that a code has from another one, by name."""
    return {code.partition(".")[2]: entry_of(code) for code in entry.get("shares", ())}


def texts_of(code: str, values: Mapping[str, object]) -> dict[str, str]:
    """The parts of an error with these values, as format strings.

    Raises:
        KeyError: for a code that the catalogue does not have.
    """
    entry = entry_of(code)
    texts = {part: _text_for(entry[part], values) for part in PARTS if part in entry}
    return {part: text for part, text in texts.items() if text}


def _text_for(text: str | Mapping[str, Mapping[str, str]], values: Mapping[str, object]) -> str | None:
    if isinstance(text, str):
        return text
    ((name, rows),) = text.items()
    return rows.get(str(values.get(name)), rows.get("else"))

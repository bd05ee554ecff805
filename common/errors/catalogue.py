"""The catalogue of errors: for each code a title, its cause and remedy, and the texts of its messages.

``texts/<family>.toml`` has a table per code. ``message``, ``expected`` and ``hint`` are format strings, whose values
the raise site names. A code with several texts has the others in tables of their own: ``[SQL121.ambiguous]``.
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
    "BUG": "internal errors",
}
"""The prefixes of codes, one file each, and the subject of their errors."""

RETIRED = frozenset({"CKPT025", "CKPT042", "RUN050", "SQL011"})
"""Codes of errors that no longer exist. A code is never used again."""


@cache
def family(prefix: str) -> Mapping[str, Mapping[str, Any]]:
    """Code to its table, of one file."""
    text = files(__package__).joinpath("texts", f"{prefix.lower()}.toml").read_text("utf-8")
    return tomllib.loads(text)


def texts_of(code: str) -> Mapping[str, str]:
    """The texts of ``CODE`` or ``CODE.variant``: ``message``, and ``expected`` and ``hint`` where there are any.

    Raises:
        KeyError: for a code that the catalogue does not have.
    """
    code, _, variant = code.partition(".")
    prefix = re.match("[A-Z]*", code)
    assert prefix is not None
    entry = family(prefix.group())[code]
    return entry[variant] if variant else entry

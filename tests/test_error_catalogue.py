"""The catalogue of errors and the code that raises them fit together."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from typing import NamedTuple

import pytest

from stateplan.common import errors
from stateplan.common.errors.catalogue import FAMILIES, RETIRED, family, texts_of
from tests.support.rooms import ROOMS

ROOT = Path(__file__).resolve().parent.parent
KEYS = {"title", "cause", "remedy", "message", "expected", "hint"}
CODE = re.compile(r"[A-Z]{2,5}[0-9]{3}(\.\w+)?")
_CLASSES = {n for n, c in vars(errors).items() if isinstance(c, type) and issubclass(c, errors.StateplanError)}


class Raised(NamedTuple):
    where: str
    code: str
    names: frozenset[str]


def _codes(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.IfExp):
        yield from _codes(node.body)
        yield from _codes(node.orelse)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value):
        yield node.value


def raised() -> list[Raised]:
    """The calls that name a code, with the values that they give."""
    found = []
    for package in ROOMS:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if not isinstance(node, ast.Call) or not node.args:
                    continue
                name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
                if name not in {*_CLASSES, "_error", "error", "fail"}:
                    continue
                given = frozenset(str(k.arg) for k in node.keywords)
                where = f"{path.relative_to(ROOT)}:{node.lineno}"
                found += [Raised(where, code, given) for code in _codes(node.args[0])]
    return found


def names_in(text: str) -> set[str]:
    """The values that a text needs; of ``{node.title}`` it is ``node``."""
    return {re.split(r"[.[]", name)[0] for _, name, _, _ in Formatter().parse(text) if name is not None}


def test_every_raised_error_is_in_the_catalogue() -> None:
    missing = []
    for call in raised():
        try:
            texts = texts_of(call.code)
        except KeyError:
            missing.append(f"{call.where}: {call.code} is not in the catalogue")
            continue
        wanted = set().union(*(names_in(texts[k]) for k in ("message", "expected", "hint") if k in texts))
        lacks = wanted - call.names
        if lacks:
            missing.append(f"{call.where}: {call.code} needs {sorted(lacks)}")
    assert not missing, "\n".join(missing)


@pytest.mark.parametrize("prefix", FAMILIES)
def test_entries_have_known_keys(prefix: str) -> None:
    for code, entry in family(prefix).items():
        assert code.startswith(prefix)
        for key, value in entry.items():
            assert set(value) <= KEYS if isinstance(value, dict) else key in KEYS, (code, key)


@pytest.mark.parametrize("prefix", FAMILIES)
def test_every_code_is_explained(prefix: str) -> None:
    """A title, and the cause and the remedy in whole sentences."""
    for code, entry in family(prefix).items():
        assert entry["title"] and not entry["title"].endswith("."), code
        assert entry["cause"].endswith(".") and entry["remedy"].endswith("."), code


def test_every_text_is_raised() -> None:
    """By its code as a word in the source: a code may be chosen from a table."""
    source = "\n".join(p.read_text(encoding="utf-8") for package in ROOMS for p in (ROOT / package).rglob("*.py"))
    words = set(re.findall(r"[A-Z]{2,5}[0-9]{3}(?:\.\w+)?", source))
    unused = []
    for prefix in FAMILIES:
        for code, entry in family(prefix).items():
            if "message" in entry and code not in words:
                unused.append(code)
            unused += [f"{code}.{v}" for v, t in entry.items() if isinstance(t, dict) and f"{code}.{v}" not in words]
    assert not unused, unused


def test_a_retired_code_is_not_used_again() -> None:
    assert not RETIRED & {code for prefix in FAMILIES for code in family(prefix)}
    assert all(call.code.partition(".")[0] not in RETIRED for call in raised())

"""The catalogue of errors and the code that raises them fit together."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any, NamedTuple

import pytest

from stateplan.common import errors
from stateplan.common.errors.catalogue import FAMILIES, PARTS, RETIRED, entry_of, family, variants_of
from stateplan.common.types import BIGINT, INT, STRING
from stateplan.functions.typerules import decimal
from tests.support.rooms import ROOMS

ROOT = Path(__file__).resolve().parents[2]
KEYS = {"title", "cause", "remedy", "shares", *PARTS}
CODE = re.compile(r"[A-Z]{2,5}[0-9]{3}(\.\w+)?")
_CLASSES = {n for n, c in vars(errors).items() if isinstance(c, type) and issubclass(c, errors.StateplanError)}


class Raised(NamedTuple):
    """A call that names a code.

    Attributes:
        values: the constants that it gives, and None for other values.
        functions: the names of the functions of its file.
    """

    where: str
    code: str
    values: Mapping[str, str | None]
    functions: frozenset[str]


def _codes(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.IfExp):
        yield from _codes(node.body)
        yield from _codes(node.orelse)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value):
        yield node.value


@cache
def sources() -> dict[Path, str]:
    """The code that may raise an error."""
    paths = [path for package in ROOMS for path in sorted((ROOT / package).rglob("*.py"))]
    return {path: path.read_text(encoding="utf-8") for path in paths}


@cache
def raised() -> list[Raised]:
    """The calls that name a code, with the values that they give."""
    calls = []
    for path, source in sources().items():
        if not CODE.search(source):
            continue
        nodes = list(ast.walk(ast.parse(source)))
        functions = frozenset(n.name.strip("_") for n in nodes if isinstance(n, ast.FunctionDef))
        for node in nodes:
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if name not in {*_CLASSES, "_error", "error", "error_at", "fail"}:
                continue
            values = {str(k.arg): _text(k.value) for k in node.keywords}
            where = f"{path.relative_to(ROOT)}:{node.lineno}"
            calls += [Raised(where, code, values, functions) for code in _codes(node.args[0])]
    return calls


def _text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def names_in(text: str) -> set[str]:
    """The values that a text needs; of ``{node.title}`` it is ``node``."""
    return {re.split(r"[.[]", name)[0] for _, name, _, _ in Formatter().parse(text) if name is not None}


def test_every_raised_error_is_in_the_catalogue() -> None:
    missing = []
    for call in raised():
        try:
            entry = entry_of(call.code)
        except KeyError:
            missing.append(f"{call.where}: {call.code} is not in the catalogue")
            continue
        lacks = set().union(*map(names_in, _possible(entry, call))) - set(call.values)
        if lacks:
            missing.append(f"{call.where}: {call.code} needs {sorted(lacks)}")
    assert not missing, "\n".join(missing)


def test_a_call_gives_no_value_that_no_text_shows() -> None:
    needed: dict[str, set[str]] = {}
    for call in raised():
        needed.setdefault(call.where, {"place", "expected", "hint"}).update(_all_names(entry_of(call.code)))
    # ``length`` and ``pointer`` are of a place in JSON text, ``None`` is what ``**values`` has as a name.
    extra = {c.where: set(c.values) - needed[c.where] - {"length", "pointer", "None"} for c in raised()}
    unused = {where: names for where, names in extra.items() if names}
    assert not unused, f"remove these values, or show them in the text: {unused}"


def _all_names(entry: Mapping[str, Any]) -> Iterator[str]:
    for part in PARTS:
        if isinstance(entry.get(part, ""), str):
            yield from names_in(entry.get(part, ""))
            continue
        ((name, rows),) = entry[part].items()
        yield from {name}.union(*map(names_in, rows.values()))


def _possible(entry: Mapping[str, Any], call: Raised) -> Iterator[str]:
    """The texts that a call may show: of those that are chosen by a value, the one of its constant."""
    for part in PARTS:
        if part not in entry or (part != "message" and part in call.values):
            continue
        if isinstance(entry[part], str):
            yield entry[part]
            continue
        ((name, rows),) = entry[part].items()
        assert name in call.values, f"{call.where}: {call.code} needs '{name}'"
        yield rows.get(call.values[name], rows.get("else", ""))


def tables() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """All tables of the catalogue that have a message, with their codes."""
    for prefix in FAMILIES:
        for code, entry in family(prefix).items():
            if "message" in entry:
                yield code, entry
            yield from ((f"{code}.{name}", table) for name, table in variants_of(entry).items())


@pytest.mark.parametrize("prefix", FAMILIES)
def test_entries_have_known_keys(prefix: str) -> None:
    for code, entry in family(prefix).items():
        assert code.startswith(prefix)
        assert set(entry) - set(variants_of(entry)) <= KEYS, code
        assert all(set(table) <= set(PARTS) for table in variants_of(entry).values()), code


def test_a_text_that_a_value_chooses_is_chosen_somewhere() -> None:
    """Its value is a constant of the code, so a word that changes there changes here."""
    source = "\n".join(sources().values())
    unused = []
    for code, table in tables():
        for part in PARTS:
            if isinstance(table.get(part), dict):
                ((_, rows),) = table[part].items()
                unused += [f"{code} {part}: {value}" for value in set(rows) - {"else"} if f'"{value}"' not in source]
    assert not unused, unused


def test_a_variant_is_named_after_its_situation() -> None:
    """And not after the function that raises it, nor with a number."""
    named = {call.code: call.where for call in raised() if call.code.partition(".")[2] in call.functions}
    numbered = [code for code, _ in tables() if re.search(r"\.\w*\d$", code)]
    assert not named, f"name these variants after the situation, not after a function of the file: {named}"
    assert not numbered, f"name these variants after the situation, without a number: {numbered}"


def test_a_variant_is_the_exception() -> None:
    """What differs by a noun is one message with a value: there are fewer than half as many variants as codes."""
    codes = sum(len(family(prefix)) for prefix in FAMILIES)
    variants = sum(len(variants_of(entry)) for prefix in FAMILIES for entry in family(prefix).values())
    remedy = "use an existing message with a value, or make one message of several that differ by a noun"
    assert variants < codes / 2, f"{variants} variants of {codes} codes: {remedy}"


@pytest.mark.parametrize("prefix", FAMILIES)
def test_every_code_is_explained(prefix: str) -> None:
    """A title, and the cause and the remedy in whole sentences."""
    for code, entry in family(prefix).items():
        assert {"title", "cause", "remedy"} <= set(entry), f"{code} needs a title, a cause and a remedy"
        assert entry["title"] and not entry["title"].endswith("."), f"the title of {code} is not a sentence"
        sentences = entry["cause"].endswith(".") and entry["remedy"].endswith(".")
        assert sentences, f"the cause and the remedy of {code} are whole sentences"


def test_a_value_chooses_what_was_expected() -> None:
    def of(what: str, **own: str) -> errors.SqlError:
        return errors.SqlError("SQL203.type", what=what, type=INT, wanted=BIGINT, **own)

    assert (of("a WHEN condition").expected, of("a WHEN condition").hint) == ("a BOOLEAN", None)
    assert (of("the key of a map").expected, of("something else").expected) == ("BIGINT", None)
    assert of("a WHEN condition", expected="TRUE").expected == "TRUE"
    assert errors.SqlError("SQL104", name="SUM", place_name="WHERE").hint == "use HAVING, or aggregate in a subquery"


def test_values_are_shown_by_their_short_names() -> None:
    error = errors.SqlError("SQL203", name="ATAN2", types=[decimal(10, 0), STRING])
    assert str(error) == "[SQL203] ATAN2 cannot be applied to (DECIMAL(10, 0), STRING)\n  hint: CAST both to DOUBLE"


def test_every_text_is_raised() -> None:
    """By its code as a word in the source: a code may be chosen from a table."""
    source = "\n".join(sources().values())
    words = set(re.findall(r"[A-Z]{2,5}[0-9]{3}(?:\.\w+)?", source))
    unused = [code for code, _ in tables() if code not in words]
    assert not unused, f"raise these errors, or remove their texts: {unused}"


def test_a_retired_code_is_not_used_again() -> None:
    assert not RETIRED & {code for prefix in FAMILIES for code in family(prefix)}
    assert all(call.code.partition(".")[0] not in RETIRED for call in raised())

"""The expressions of the corpus: for each scalar function, columns and constants of edge values in every position."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_TEMPLATES = Path(__file__).parent / "templates.txt"
"""A template a line, in which ``{s}`` and others stand for the values of :data:`KINDS`, by family."""

KINDS: dict[str, tuple[list[str], list[str]]] = {
    "s": (["s", "s2", "ch"], ["''", "' '", "'a'", "'é😀'", "CAST(NULL AS STRING)"]),
    "t": (["s2", "s"], ["''", "'a'", "','", "'😀'", "CAST(NULL AS STRING)"]),
    "n": (["n", "m", "ti"], ["0", "1", "-1", "3", "CAST(NULL AS INT)"]),
    "o": (["m"], ["0", "2", "-2"]),
    "i": (["i", "l", "ti", "si"], ["0", "-1", "2147483647"]),
    "x": (["i", "l", "f", "d", "dc", "dd", "de"], ["0", "-2.5", "1E0", "CAST(NULL AS DOUBLE)"]),
    "y": (["d2", "n", "dc"], ["0", "2", "-0.5", "1E300"]),
    "b": (["b", "b2"], ["TRUE", "FALSE", "CAST(NULL AS BOOLEAN)"]),
    "w": (["t3", "t9", "dt", "lz", "lz9", "t0", "t6"], ["TIMESTAMP '2024-02-29 23:59:59.999'", "DATE '1969-12-31'"]),
    "tm": (["tm"], ["TIME '10:20:30'"]),
    "re": (["re", "s2"], ["''", "'.'", "'(b)'", "'['", "'a|b'", "'(?=a)a'"]),
    "lk": (["lk", "s2"], ["''", "'%'", "'_b%'", "'%😀%'"]),
    "xd": (["xd", "xm"], ["'2024-02-29'"]),
    "xm": (["xm", "xd"], ["'2024-02-29 10:20:30'", "'2024-02-29'", "''"]),
    "pt": (
        ["pt"],
        [
            "'yyyy-MM-dd HH:mm:ss'",
            "'yyyy-MM-dd HH:mm'",
            "'yyyy-MM-dd'",
            "'HH:mm'",
            "'yyyyMMdd'",
            "'yyyy-M-d H:m:s'",
            "''",
        ],
    ),
    "zo": (["zo"], ["'UTC'", "'America/New_York'", "'GMT+08:00'", "'PST'", "'+05:30'", "'Nowhere'"]),
    "j": (["j"], ["'{\"a\": 1.50}'", "''", "'null'"]),
    "jp": (["jp"], ["'$.a'", "'lax $.a'", "'$'", "'$.a[*]'"]),
    "ur": (["ur", "s"], ["''", "'http://h/p?a=1'"]),
    "cs": (["cs"], ["'UTF-8'", "'UTF-16'", "'ISO-8859-1'", "'nope'"]),
    "by": (["`by`"], ["x'61'"]),
    "an": (["an", "an2"], ["ARRAY[1, 2]"]),
    "am": (["an2"], ["ARRAY[2]"]),
    "as": (["ars"], ["ARRAY['a', 'b']"]),
    "mp": (["mp"], ["MAP['a', 1]"]),
    "mq": (["mp2"], ["MAP['a', 5]"]),
}
"""Placeholder to the columns and the constants that stand in its place."""

ZONED = ("moments", "formats", "casts", "zones")
"""Families that are also computed in :data:`ZONES`, where they read a time zone."""

ZONES = ("America/New_York", "GMT+05:30")
_OF_ZONE = re.compile(r"\blz|LTZ|UNIXTIME|UNIX_TIME|CONVERT")

_CAST = re.compile(r"(TRY_)?CAST\(")
_HOLE = re.compile(r"\{([a-z]+)\}")


def templates() -> list[str]:
    """The lines of the file: templates, and the family of those that follow behind ``# ``."""
    return _TEMPLATES.read_text(encoding="utf-8").splitlines()


def expanded(template: str) -> Iterator[str]:
    """The template with columns in all places, and with each other column and constant in each place."""
    holes = _HOLE.findall(template)
    first = [KINDS[hole][0][0] for hole in holes]
    yield _filled(template, first)
    for place, hole in enumerate(holes):
        columns, constants = KINDS[hole]
        for value in [*columns[1:], *constants]:
            yield _filled(template, [*first[:place], value, *first[place + 1 :]])


def _filled(template: str, values: list[str]) -> str:
    rest = iter(values)
    return _HOLE.sub(lambda _: next(rest), template)


def expressions() -> dict[str, list[tuple[str, str]]]:
    """Time zone to (family, expression)."""
    out: dict[str, list[tuple[str, str]]] = {"UTC": []}
    seen = set()
    family = ""
    for line in templates():
        if line.startswith("# "):
            family = line[2:]
            continue
        for text in expanded(line):
            if text not in seen:
                seen.add(text)
                out["UTC"].append((family, text))
    for zone in ZONES:
        out[zone] = [(f, text) for f, text in out["UTC"] if f in ZONED and _OF_ZONE.search(text)]
    return out


def casts() -> dict[str, list[tuple[str, str]]]:
    """Those of :func:`expressions` that cast columns, in one zone. What TRY_CAST casts, CAST casts as well."""
    texts = [text for family, text in expressions()["UTC"] if family == "casts" and _CAST.match(text)]
    return {"UTC": [("casts", text) for text in dict.fromkeys([*texts, *(t.removeprefix("TRY_") for t in texts)])]}

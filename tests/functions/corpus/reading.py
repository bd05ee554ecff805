"""The query that computes expressions of the corpus, and the results that Flink gave."""

from __future__ import annotations

import json
import lzma
import math
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results.jsonl.xz"
LEGACY_RESULTS = Path(__file__).parent / "legacy_casts.jsonl.xz"
LEGACY_CASTS = {"table.exec.legacy-cast-behaviour": "ENABLED"}
"""What is set for the second file."""

Key = tuple[str, str]
"""Time zone and expression."""

_DIFFERENT = Path(__file__).parent / "different.txt"
_NESTED = re.compile(
    r"(CAST|TRY_CAST)\(.* AS (BYTES|BINARY.*|VARBINARY.*|ARRAY<.*|MAP<.*|ROW<.*)\)"
    r"|(ARRAY|MAP|ROW)[\[(].*[\])]"
    r"|(ARRAY_(DISTINCT|REVERSE|SORT|APPEND|PREPEND|CONCAT|REMOVE|SLICE|UNION|EXCEPT|INTERSECT)|MAP_\w+)\(.*\)"
    r"|(SPLIT|STR_TO_MAP|REGEXP_EXTRACT_ALL|ENCODE|UNHEX)\(.*\)"
    r"|JSON_QUERY\(.*RETURNING.*\)"
)

_OF_C_LIBRARIES = re.compile(r"(A?(SIN|COS|TAN)H?|ATAN2|COT|EXP|LN|LOG|LOG2|LOG10|POWER)\(")
"""Functions whose last digit is not the same on all platforms."""


def query(expressions: Sequence[str]) -> str:
    """One text per row: a JSON array of the id and of the text of each value."""
    cells = [f"JSON_STRING({e})" if _NESTED.fullmatch(e) else f"CAST({e} AS STRING)" for e in expressions]
    return f"SELECT JSON_ARRAY(id, {', '.join(cells)} NULL ON NULL) FROM edge"


def shown(path: Path = RESULTS) -> list[dict[str, Any]]:
    """The results: ``zone``, ``expression``, and ``values`` by row or ``error``."""
    return [json.loads(line) for line in lzma.decompress(path.read_bytes()).decode().splitlines()]


@cache
def different() -> dict[Key, str]:
    """Time zone and expression to the reason why it differs."""
    out: dict[Key, str] = {}
    reason = ""
    for line in _DIFFERENT.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            reason = line[2:]
        elif line:
            zone, _, expression = line.partition("\t")
            out[zone, expression] = reason
    return out


def same(flink: Any, here: Any, expression: str) -> bool:
    """Texts are equal, with their scales, signs of zeros and order of keys, but for the last digit of functions that C
    libraries compute. Values are equal in results that are kept as JSON."""
    if flink == here or not isinstance(flink, str) or not isinstance(here, str):
        return bool(flink == here)
    if not _OF_C_LIBRARIES.match(expression):
        return False
    pair = float(flink), float(here)
    return all(pair) and math.isclose(*pair, rel_tol=4e-15)

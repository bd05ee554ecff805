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


def same(flink: Any, here: Any) -> bool:
    """Texts are equal, or numbers but for the last digit of a DOUBLE; JSON objects in any order of their keys."""
    if flink == here:
        return True
    if not isinstance(flink, str) or not isinstance(here, str):
        return False
    try:
        if flink[:1] in "[{":
            return bool(json.loads(flink) == json.loads(here))
        return math.isclose(float(flink), float(here), rel_tol=4e-15)
    except ValueError:
        return False

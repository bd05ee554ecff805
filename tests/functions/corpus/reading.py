"""The query that computes expressions of the corpus, and the results that Flink gave."""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results.jsonl.xz"

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

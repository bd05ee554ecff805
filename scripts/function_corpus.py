"""Asks Flink 2.3 for the results of the corpus of functions, ``tests/functions/corpus/results.jsonl.xz``.

``python -m scripts.function_corpus --oracle DIR [--only FAMILY | --missing] [--legacy-casts] [--out FILE]``

DIR is the folder of ``oracle.py``. It is part of the reference material: see CONTRIBUTING.md. It runs Flink in one JVM.

Each line of the result is an expression over the rows of ``tests/functions/corpus/edge.jsonl``, with the text of its
value in each row, or with the error of Flink. Name a function that returns bytes, arrays, maps or rows in ``_NESTED``
of ``tests/functions/corpus/reading.py``: Flink cannot cast its values to text.

One expression that fails ends a query of many expressions. Expressions that failed in the last run therefore have a
query each. ``--legacy-casts`` runs the casts with ``table.exec.legacy-cast-behaviour``, into a file of their own.
"""

from __future__ import annotations

import argparse
import json
import lzma
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.functions.corpus.expressions import casts, expressions
from tests.functions.corpus.reading import LEGACY_CASTS, LEGACY_RESULTS, RESULTS, query, shown
from tests.functions.corpus.values import create_table, rows

_BATCH = 40


class Flink:
    """Flink in one JVM."""

    def __init__(self, oracle: Any, folder: Path, legacy_casts: bool) -> None:
        self.oracle, self.folder, self.count = oracle, folder, 0
        self.settings = [f"SET '{key}' = '{value}'" for key, value in LEGACY_CASTS.items()] if legacy_casts else []
        (folder / "edge.json").write_text(rows(), encoding="utf-8")

    def _answers(self, zone: str, queries: list[str]) -> list[str]:
        """What Flink prints for each query."""
        self.count += 1
        script, out = self.folder / f"{self.count}.sql", self.folder / f"{self.count}.txt"
        table = create_table(str(self.folder / "edge.json"))
        lines = [*self.settings, f"SET 'table.local-time-zone' = '{zone}'", table, *queries]
        script.write_text("".join(line + ";\n" for line in lines), encoding="utf-8")
        ok, message = self.oracle.cmd("SQL", str(script), str(out))
        if not ok:
            raise RuntimeError(message)
        return out.read_text(encoding="utf-8").split("\n>>> ")[-len(queries) :]

    def results(self, zone: str, texts: list[str]) -> Iterator[dict[str, Any]]:
        """Expression by expression: its values, or the error."""
        answer = self._answers(zone, [query(texts)])[0]
        body = answer.partition("result kind SUCCESS_WITH_CONTENT\n")[2]
        if body and "\nERROR " not in f"\n{body}":
            found = sorted(json.loads(line) for line in body.split("\n") if line.startswith("["))
            for i, text in enumerate(texts, start=1):
                yield {"zone": zone, "expression": text, "values": [row[i] for row in found]}
        elif len(texts) > 1:
            half = len(texts) // 2
            yield from self.results(zone, texts[:half])
            yield from self.results(zone, texts[half:])
        else:
            yield {"zone": zone, "expression": texts[0], "error": _cause(answer)}


def _batches(texts: list[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(texts), size):
        print(start, "of", len(texts), file=sys.stderr, flush=True)
        yield texts[start : start + size]


def _cause(answer: str) -> str:
    """The last cause of an error, without what differs between runs."""
    lines = [line.strip() for line in answer.split("\n") if line.startswith(("ERROR ", "  caused by "))]
    return lines[-1].removeprefix("caused by ").removeprefix("ERROR ")[:160] if lines else "no answer"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oracle", required=True, type=Path)
    parser.add_argument("--only", action="append", help="compute these families again, and keep the others")
    parser.add_argument("--missing", action="store_true", help="compute what has no result yet, and keep the others")
    parser.add_argument("--legacy-casts", action="store_true", help="compute the casts with legacy behaviour")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    given.out = given.out or (LEGACY_RESULTS if given.legacy_casts else RESULTS)
    sys.path.insert(0, str(given.oracle))
    from oracle import Oracle  # type: ignore[import-not-found] # of the reference material

    known = {(r["zone"], r["expression"]): r for r in shown(given.out)} if given.out.exists() else {}
    failing = {key for key, r in known.items() if "error" in r}
    oracle = Oracle()
    results: list[dict[str, Any]] = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            flink = Flink(oracle, Path(folder), given.legacy_casts)
            for zone, wanted in (casts() if given.legacy_casts else expressions()).items():
                todo = []
                for family, text in wanted:
                    kept = given.missing or (given.only and family not in given.only)
                    if kept and (zone, text) in known:
                        results.append(known[zone, text])
                    else:
                        todo.append(text)
                for batch in _batches([t for t in todo if (zone, t) not in failing], _BATCH):
                    results += flink.results(zone, batch)
                for batch in _batches([t for t in todo if (zone, t) in failing], 1):
                    results += flink.results(zone, batch)
    finally:
        oracle.close()
        lines = "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in results)
        given.out.write_bytes(lzma.compress(lines.encode(), preset=9))
    return 0


if __name__ == "__main__":
    sys.exit(main())

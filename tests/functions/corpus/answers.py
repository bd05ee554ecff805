"""What stateplan answers for expressions of the corpus."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from stateplan import TableEnvironment
from stateplan.common.errors import StateplanError
from tests.functions.corpus.reading import query
from tests.functions.corpus.values import create_table, rows

Answer = list[str | None] | StateplanError


class Here:
    """A session with the table of edge values, which runs queries in this process."""

    def __init__(self, folder: Path) -> None:
        (folder / "edge.json").write_text(rows(), encoding="utf-8")
        self.env = TableEnvironment.create()
        self.env.execute_sql(create_table(str(folder / "edge.json")))

    def answers(self, zone: str, texts: Sequence[str]) -> Iterator[Answer]:
        """For each expression its value in each row, as text, or the error."""
        self.env.execute_sql(f"SET 'table.local-time-zone' = '{zone}'")
        yield from self._answers(texts)

    def _answers(self, texts: Sequence[str]) -> Iterator[Answer]:
        try:
            found = self.env.sql_query(query(texts)).to_polars().to_series().to_list()
        except StateplanError as error:
            if len(texts) == 1:
                yield error
                return
            half = len(texts) // 2
            yield from self._answers(texts[:half])
            yield from self._answers(texts[half:])
            return
        table = sorted(json.loads(line) for line in found)
        for i in range(1, len(texts) + 1):
            yield [row[i] for row in table]

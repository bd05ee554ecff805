"""Random queries: scripts that compose windows, joins, aggregates, rankings, set operations and the like.

A script has tables with a few rows, options, views, and one INSERT. :func:`random_query` makes it from a seed, and
:meth:`RandomQuery.write` puts it and its input into a folder, in the form of the golden cases
(``tests/support/cases.py``).
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.support.random_queries.relational import Relational
from tests.support.random_queries.tables import FORMATS, JSON, TABLES, TYPES, Query, table_input
from tests.support.random_queries.timed import Timed


@dataclass(frozen=True)
class RandomQuery:
    """A script and its input: table -> lines of its file.

    Attributes:
        late: whether rows come late, so that the rows of the result depend on how the input is cut into micro-batches.
    """

    script: str
    rows: dict[str, list[str]]
    late: bool = False

    def write(self, folder: Path) -> None:
        """As ``script.sql`` and ``<table>.json`` in ``folder``."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "script.sql").write_text(self.script)
        for table, lines in self.rows.items():
            (folder / f"{table}.json").write_text("".join(f"{line}\n" for line in lines))

    @property
    def digest(self) -> str:
        """A hash of the script and the input."""
        return hashlib.sha256(json.dumps([self.script, self.rows]).encode()).hexdigest()[:16]

    def written_in(self, folder: Path) -> bool:
        """Whether ``folder`` has exactly this script and this input."""
        files = {"script.sql": self.script}
        files |= {f"{table}.json": "".join(f"{line}\n" for line in lines) for table, lines in self.rows.items()}
        return all((folder / name).is_file() and (folder / name).read_text() == text for name, text in files.items())


def random_query(seed: int, *, rows: bool = False) -> RandomQuery:
    """The query of a seed.

    Args:
        rows: only what has one result in whatever order the tables are read. With some seeds rows come late; the result
            then is that of micro-batches of one row.
    """
    rng = random.Random(f"{seed}{rows}")
    return _Maker(rng, rows, late=rows and rng.random() < 0.15).script()


class _Maker(Relational, Timed):
    def script(self) -> RandomQuery:
        query = self.plain(self.query(self.rng.choice((2, 3, 3, 4))))
        # Rows that are late in one order of arrival are not in another.
        delay = 2 if self.late else 90 if self.rows else 1
        tables = [
            f"CREATE TABLE {t} ({TABLES[t].format(delay=delay)}) "
            f"WITH ('connector'='filesystem', 'path'='${{DIR}}/{t}.json', {FORMATS.get(t, JSON)});"
            for t in self.used
        ]
        lines = [*self.options(), *tables, *self.views, *self.sink(query), f"INSERT INTO out_t {query.sql};"]
        inputs = {t: table_input(self.rng, t, self.late) for t in self.used}
        return RandomQuery("\n".join(lines) + "\n", inputs, self.late)

    def sink(self, query: Query) -> list[str]:
        """The table that takes the result: with a primary key at times, where the query has one."""
        columns = ", ".join(f"{c.name} {TYPES[c.kind]}" for c in query.columns)
        names = [c.name for c in query.columns]
        if not query.key or not set(query.key) <= set(names) or not self.chance(0.6):
            return [f"CREATE TABLE out_t ({columns}) WITH ('connector'='print');"]
        mode = self.rng.choice(("upsert", "upsert-key-delete"))
        return [
            "SET 'table.exec.sink.not-null-enforcer' = 'DROP';",
            f"-- @upsert-key: {','.join(str(names.index(k)) for k in query.key)}",
            f"CREATE TABLE out_t ({columns}, PRIMARY KEY ({', '.join(query.key)}) NOT ENFORCED) "
            f"WITH ('connector'='labsink', 'mode'='{mode}');",
        ]

    def query(self, depth: int) -> Query:
        if depth <= 0:
            return self.table()
        makers: list[tuple[float, Callable[[int], Query | None]]] = [
            (1.0, self.calc),
            (1.5, self.aggregate),
            (0.6, self.distinct),
            (1.2, self.window),
            (1.8, self.group_window),
            (0.7, self.window_rank),
            (1.0, self.over),
            (1.0, self.deduplicate),
            (1.0, self.top),
            (0.3, self.limit),
            (0.3, self.unnested),
            (0.8, self.match),
        ]
        if self.late:
            makers.append((0.8, self.late_rows))
        else:
            makers += [
                (1.5, self.join),
                (1.0, self.semi),
                (0.8, self.union),
                (0.4, self.set_operation),
                (0.3, self.set_operations),
                (0.7, self.window_join),
                (0.8, self.interval_join),
                (0.6, self.temporal),
                (0.5, self.scalar),
                (0.4, self.lateral),
            ]
        while True:
            made = self.rng.choices([m for _, m in makers], [w for w, _ in makers])[0](depth - 1)
            if made is not None:
                return made

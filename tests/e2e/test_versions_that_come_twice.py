"""A join with the versions of a table needs no normalization where changes may come twice: a version that comes again
is the same one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.random_queries import SPLITS, our_rows
from tests.support.cases import Case

SCRIPT = """SET 'table.exec.source.cdc-events-duplicate' = 'true';
CREATE TABLE a (k INT, t TIMESTAMP(3), WATERMARK FOR t AS t - INTERVAL '9' SECOND) WITH
  ('connector'='filesystem', 'path'='${DIR}/a.json', 'format'='json');
CREATE TABLE e (
  id INT, v INT, u TIMESTAMP(3), WATERMARK FOR u AS u - INTERVAL '9' SECOND, PRIMARY KEY (id) NOT ENFORCED
) WITH
  ('connector'='filesystem', 'path'='${DIR}/e.json', 'format'='debezium-json');
CREATE TABLE o (k INT, t TIMESTAMP(3), v INT) WITH ('connector'='print');
INSERT INTO o SELECT a.k, a.t, e.v FROM a LEFT JOIN e FOR SYSTEM_TIME AS OF a.t ON a.k = e.id;
"""


def version(id: int, v: int, second: int) -> dict[str, object]:  # noqa: A002
    return {"id": id, "v": v, "u": f"2026-01-01 00:00:0{second}"}


FIRST, SECOND, OTHER = version(1, 10, 1), version(1, 20, 3), version(2, 30, 2)
EVENTS = [(None, FIRST, "c"), (None, OTHER, "c"), (FIRST, SECOND, "u"), (OTHER, None, "d")]


@pytest.mark.parametrize(("step", "key_groups"), SPLITS)
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 0, 1, 2, 2, 3, 3), (0, 1, 2, 0, 1, 2, 3), (0, 1, 2, 3, 2, 3)])
def test_versions(order: tuple[int, ...], step: int, key_groups: int, tmp_path: Path) -> None:
    (tmp_path / "script.sql").write_text(SCRIPT)
    moments = [{"k": k, "t": f"2026-01-01 00:00:0{t}"} for t in (0, 2, 4) for k in (1, 2)]
    (tmp_path / "a.json").write_text("".join(json.dumps(row) + "\n" for row in moments))
    events = [dict(zip(("before", "after", "op"), EVENTS[i], strict=True)) for i in order]
    (tmp_path / "e.json").write_text("".join(json.dumps(event) + "\n" for event in events))
    assert our_rows(Case(tmp_path), tmp_path / "run", step, key_groups) == [
        "[1, 2026-01-01T00:00, null]",
        "[1, 2026-01-01T00:00:02, 10]",
        "[1, 2026-01-01T00:00:04, 20]",
        "[2, 2026-01-01T00:00, null]",
        "[2, 2026-01-01T00:00:02, null]",
        "[2, 2026-01-01T00:00:04, null]",
    ]

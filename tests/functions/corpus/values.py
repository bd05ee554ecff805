"""The table of edge values that the expressions of the corpus are over: the lines of ``edge.jsonl``."""

from __future__ import annotations

from pathlib import Path

COLUMNS = """
id INT
s STRING
s2 STRING
vc VARCHAR(5)
ch CHAR(4)
n INT
m INT
ti TINYINT
si SMALLINT
i INT
l BIGINT
f FLOAT
d DOUBLE
d2 DOUBLE
dc DECIMAL(10, 2)
dd DECIMAL(38, 18)
de DECIMAL(38, 0)
b BOOLEAN
b2 BOOLEAN
by BYTES
dt DATE
dt2 DATE
tm TIME(0)
t0 TIMESTAMP(0)
t3 TIMESTAMP(3)
t6 TIMESTAMP(6)
t9 TIMESTAMP(9)
t9b TIMESTAMP(9)
lz TIMESTAMP_LTZ(3)
lz9 TIMESTAMP_LTZ(9)
xn STRING
xd STRING
xt STRING
xm STRING
xb STRING
j STRING
jp STRING
re STRING
lk STRING
es STRING
pt STRING
zo STRING
ur STRING
b64 STRING
hx STRING
kv STRING
cs STRING
ip STRING
an ARRAY<INT>
an2 ARRAY<INT>
ars ARRAY<STRING>
mp MAP<STRING, INT>
mp2 MAP<STRING, INT>
rw ROW<x INT, y STRING>
"""
"""Names and types."""

_ROWS = Path(__file__).parent / "edge.jsonl"


def rows() -> str:
    """The table as lines of JSON."""
    return _ROWS.read_text(encoding="utf-8")


def create_table(path: str) -> str:
    """The DDL of the table, whose rows are in the file ``path``."""
    declared = (line.partition(" ") for line in COLUMNS.strip().splitlines())
    columns = ", ".join(f"`{name}` {kind}" for name, _, kind in declared)
    return f"CREATE TABLE edge ({columns}) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'json')"

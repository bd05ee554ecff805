"""STATE_TTL beyond Flink's: names for what is no table. What Flink refuses is free for it."""

from __future__ import annotations

import pytest

from stateplan.common.errors import SqlError
from stateplan.session.environment import TableEnvironment
from stateplan.session.script import Inserts, read_script

Ttls = list[list[str]]


def ttls(env: TableEnvironment, query: str) -> Ttls:
    """Per node with state its lifetimes."""
    (statement,) = read_script(f"INSERT INTO single {query};")
    graph = env.session.compiler.inserts(Inserts.of(statement.node, statement.source)).graph
    states = [n.to_json().get("state") for n in graph.nodes]
    return [[s["ttl"] for s in state] for state in states if state]


NONE = ["0 ms", "0 ms"]

HINTS: list[tuple[str, Ttls]] = [
    ("SELECT /*+ STATE_TTL('t, u'='1 d', 'cdc'='2 d') */ t.a FROM t JOIN u ON t.a = u.a JOIN cdc ON u.a = cdc.k",
     [NONE, ["1 d", "2 d"]]),
    ("SELECT /*+ STATE_TTL('t'='3 d', 'u,cdc'='2 d') */ t.a FROM t JOIN (u JOIN cdc ON u.a = cdc.k) ON t.a = u.a",
     [NONE, ["3 d", "2 d"]]),
    ("SELECT /*+ STATE_TTL('x, y'='3 d') */ x.a FROM t x JOIN u y ON x.a = y.a GROUP BY x.a", [NONE, ["3 d"]]),
    ("SELECT /*+ STATE_TTL('leftState'='3 d', 'rightState'='1 h') */ a FROM t WHERE a IN (SELECT a FROM u)",
     [["3 d", "1 h"]]),
    ("SELECT /*+ STATE_TTL('rightState'='1 h') */ a FROM t WHERE b > (SELECT MAX(x) FROM u WHERE u.a = t.a)",
     [["0 ms"], ["0 ms", "1 h"]]),
    ("SELECT /*+ STATE_TTL('t'='3 d') */ a FROM t WHERE a IN (SELECT a FROM u)", [NONE]),
    ("SELECT /*+ STATE_TTL('default_database.t'='1 h') */ t.a FROM t JOIN u ON t.a = u.a", [["1 h", "0 ms"]]),
]  # fmt: skip


@pytest.mark.parametrize(("query", "expected"), HINTS)
def test_what_a_hint_names(env: TableEnvironment, query: str, expected: Ttls) -> None:
    assert ttls(env, query) == expected


@pytest.mark.parametrize(
    ("query", "key"),
    [
        ("SELECT /*+ STATE_TTL('t, cdc'='1 d') */ t.a FROM t JOIN u ON t.a = u.a JOIN cdc ON u.a = cdc.k", "t, cdc"),
        ("SELECT /*+ STATE_TTL('leftState'='1 d') */ t.a FROM t JOIN u ON t.a = u.a", "leftState"),
        ("SELECT /*+ STATE_TTL('T'='1 d') */ t.a FROM t JOIN u ON t.a = u.a", "T"),
        ("SELECT /*+ STATE_TTL('t'='1 d') */ x.a FROM t x JOIN u ON x.a = u.a", "t"),
    ],
)
def test_a_hint_that_names_nothing(env: TableEnvironment, query: str, key: str) -> None:
    with pytest.raises(SqlError, match=f"names '{key}', which is not a table") as caught:
        ttls(env, query)
    assert caught.value.code == "SQL123"

"""State as tables through a gateway with roots, by the DB-API; without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import stateplan.gateway.dbapi as dbapi
from stateplan.gateway.service.limits import Limits
from stateplan.gateway.service.service import SqlGatewayService
from tests.gateway.in_process_gateway import gateway_here
from tests.plans.shown_state import Query, Shown
from tests.runtime.ttl.ttl_plays import KINDS


@dataclass
class Places:
    """A gateway, and checkpoints below its root and elsewhere."""

    endpoint: str
    root: Path
    inside: Shown
    outside: Shown


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    folder = tmp_path_factory.mktemp("gateway")
    query = Query(KINDS["join"].query, KINDS["join"].sink)
    for name in ("root", "elsewhere"):
        (folder / name).mkdir()
    inside, outside = Shown(folder / "root", query, 5), Shown(folder / "elsewhere", query, 5)
    inside.open()
    limits = Limits(idle_timeout=0)
    service = SqlGatewayService(limits, folder=folder / "state", roots=[str(folder / "root")], keep_unknown=True)
    with gateway_here(service) as running:
        yield Places(f"http://127.0.0.1:{running.port}", folder / "root", inside, outside)


def create(cursor: dbapi.Cursor, name: str, path: Path) -> None:
    cursor.execute(f"CREATE CATALOG {name} WITH ('type' = 'state', 'path' = '{path}')")


def test_rows_of_state_come_as_those_of_any_table(places: Places) -> None:
    expected = places.inside.sql("SELECT * FROM s.job.`join.left`")
    with dbapi.connect(places.endpoint) as connection, connection.cursor() as cursor:
        create(cursor, "s", places.inside.folder)
        cursor.execute("SHOW TABLES FROM s.job")
        assert [row[0] for row in cursor.fetchall()] == ["join.left", "join.right", "lost_rows"]
        cursor.execute("SELECT COUNT(*), COUNT(DISTINCT key_group) FROM s.job.`join.left`")
        assert cursor.fetchall() == [(expected.height, expected["key_group"].n_unique())]
        key = expected["k"][0]
        cursor.execute("SELECT k, v FROM s.job.`join.left` WHERE k = ?", [key])
        assert sorted(cursor.fetchall()) == sorted(expected.filter(k=key).select("k", "v").iter_rows())
        cursor.execute("SELECT COUNT(*) FROM s.job.`join.left` FOR SYSTEM_TIME AS OF 0")
        before = cursor.fetchall()[0][0]
        cursor.execute("SELECT COUNT(*) FROM s.job.`join.left$changes` /*+ OPTIONS('from-batch' = '0') */")
        assert before + cursor.fetchall()[0][0] == expected.height
        with pytest.raises(dbapi.DatabaseError, match="CAT101"):
            cursor.execute("INSERT INTO s.job.`join.left` VALUES (1)")
        with pytest.raises(dbapi.DatabaseError, match="CKPT043"):
            cursor.execute("SELECT * FROM s.job.`join.left` FOR SYSTEM_TIME AS OF 7")


def test_a_checkpoint_outside_of_the_roots_is_refused(places: Places) -> None:
    link = places.root / "link"
    with dbapi.connect(places.endpoint) as connection, connection.cursor() as cursor:
        with pytest.raises(dbapi.DatabaseError, match="GW012"):
            create(cursor, "other", places.outside.folder)
        link.symlink_to(places.inside.folder)
        create(cursor, "s", link)
        cursor.execute("SELECT COUNT(*) FROM s.job.`join.left`")
        assert cursor.fetchall()[0][0] > 0
        link.unlink()
        link.symlink_to(places.outside.folder)
        for statement in ("SHOW TABLES FROM s.job", "SELECT COUNT(*) FROM s.job.`join.left`"):
            with pytest.raises(dbapi.DatabaseError, match="GW012"):
                cursor.execute(statement)
        with pytest.raises(dbapi.DatabaseError, match="GW012"):
            cursor.execute(
                f"CREATE TABLE t (k INT) WITH ('connector' = 'state', 'state.path' = '{places.outside.folder}', "
                "'operator.uid' = 'x', 'state.name' = 'leftState')"
            )


def test_a_link_in_a_checkpoint_leads_nowhere_else(places: Places, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a secret")
    plan = places.inside.folder / "plan.json"
    text = plan.read_text()
    plan.unlink()
    plan.symlink_to(secret)
    try:
        with dbapi.connect(places.endpoint) as connection, connection.cursor() as cursor:
            with pytest.raises(dbapi.DatabaseError, match="GW012") as error:
                create(cursor, "s", places.inside.folder)
            assert "a secret" not in str(error.value)
    finally:
        plan.unlink()
        plan.write_text(text)

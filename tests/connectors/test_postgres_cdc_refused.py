"""``postgres-cdc`` and a server that cannot give the changes: errors that say why, and what helps."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from stateplan.common.options import Role
from stateplan.common.types import BIGINT
from stateplan.connectors import registry
from stateplan.connectors.postgres_cdc.slot import Position, Slot
from tests.connectors.postgres_changes import first_offset, job, options, source_of
from tests.support.postgres import PASSWORD, Database, refused, running

CDC = {
    "connector": "postgres-cdc",
    "username": "reader",
    "password": "low",
    "database-name": "shop",
    "schema-name": "public",
    "table-name": "items",
    "slot.name": "items",
}

# ---- what is refused -------------------------------------------------------------------------------------------


def test_a_slot_that_lost_changes(items: Database, tmp_path: Path) -> None:
    slot = f"'{items.name}_slot'"
    with job(options(items), tmp_path) as mine:
        mine.until_quiet()
        items.execute("INSERT INTO items VALUES (6, 'x')")
        items.rows(f"SELECT pg_replication_slot_advance({slot}, pg_current_wal_flush_lsn())::text")
        assert "another reader has moved" in str(refused("RUN155", mine.step))
        items.rows(f"SELECT pg_drop_replication_slot({slot})::text")
        assert "no replication slot" in str(refused("RUN155", mine.step))
        items.rows(f"SELECT pg_create_logical_replication_slot({slot}, 'test_decoding')::text")
        assert "test_decoding" in str(refused("RUN155", mine.step))


def test_two_jobs_do_not_share_a_slot(items: Database, tmp_path: Path) -> None:
    given = options(items, **{"connect.timeout": "300 ms"})
    with job(given, tmp_path / "a") as mine:
        mine.until_quiet()
        refused("RUN157", lambda: first_offset(given, tmp_path / "b"))
        items.execute("INSERT INTO items VALUES (6, 'x')")
        assert len(mine.until_quiet()) == 1


def test_a_user_from_whom_policies_hide_rows(items: Database, tmp_path: Path) -> None:
    items.execute(
        "CREATE ROLE filtered LOGIN REPLICATION PASSWORD 'low'",
        "GRANT SELECT ON items TO filtered",
        "CREATE PUBLICATION mine FOR TABLE items",
        "ALTER TABLE items ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY small ON items USING (id < 3)",
    )
    given = options(items, **{"username": "filtered", "password": "low", "debezium.publication.name": "mine"})
    error = refused("RUN147", lambda: first_offset(given, tmp_path))
    assert error.hint is not None and "BYPASSRLS" in error.hint
    items.execute("ALTER ROLE filtered BYPASSRLS")
    with job(given, tmp_path) as mine:
        mine.until_quiet()
        items.execute("INSERT INTO items VALUES (6, 'x')")
        mine.until_quiet()
        assert [row[0] for row in mine.rows()] == [1, 2, 3, 4, 5, 6]


def test_transactions_that_stay_open(items: Database, tmp_path: Path) -> None:
    with items.connect() as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO items VALUES (6, 'x')")
        given = options(items, **{"connect.timeout": "1 s"})
        assert "process " in str(refused("RUN158", lambda: first_offset(given, tmp_path)))
        connection.rollback()
    assert items.rows(f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{items.name}_slot'") == []
    assert len(first_offset(given, tmp_path)["tables"]) == 1


def test_a_publication_that_leaves_out_changes(items: Database, tmp_path: Path) -> None:
    name = f"stateplan_{items.name}_slot"
    with job(options(items), tmp_path) as mine:
        mine.until_quiet()
        for statement, text in (
            ("SET (publish = 'insert')", "kinds of changes"),
            ("SET (publish = 'insert, update, delete, truncate')", ""),
            ("SET TABLE items WHERE (id > 3)", "some rows"),
            ("SET TABLE items (id)", "column 'note'"),
            ("DROP TABLE items", "does not have the table"),
        ):
            items.execute(f"ALTER PUBLICATION {name} {statement}")
            if text:
                assert text in str(refused("RUN160", mine.step))
        items.execute(f"DROP PUBLICATION {name}")
        refused("RUN160", mine.step)
        items.execute(f"CREATE PUBLICATION {name} FOR TABLE items", "DROP TABLE items")
        items.execute("CREATE TABLE items (id int PRIMARY KEY, note text)")
        refused("RUN159", mine.step)


@pytest.mark.parametrize(
    ("key", "given"),
    [
        ("hostname", CDC),
        ("properties.bootstrap.servers", {"connector": "kafka", "topic": "t", "format": "json"}),
    ],
)
def test_a_login_in_front_of_a_host(key: str, given: dict[str, str]) -> None:
    fields = (("id", BIGINT),)
    hosts = {key: f"joe:{PASSWORD}@127.0.0.1"}
    error = refused("OPT147", lambda: registry.validate_table({**given, **hosts}, Role.SOURCE, schema=fields))
    assert key in error.message


def test_a_publication_that_was_made_again(items: Database, tmp_path: Path) -> None:
    """The server passes over changes that no publication had when they were made."""
    name = f"stateplan_{items.name}_slot"
    with job(options(items), tmp_path) as mine:
        mine.until_quiet()
        items.execute(f"DROP PUBLICATION {name}")
        items.execute("INSERT INTO items VALUES (6, 'x')")
        error = refused("RUN160", mine.step)
        assert error.hint is not None and "lost" in error.hint
        items.execute(f"CREATE PUBLICATION {name} FOR TABLE items")
        items.execute("INSERT INTO items VALUES (7, 'x')")
        assert "not the one" in str(refused("RUN160", mine.step))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("DROP TABLE items", "ADD TABLE items"),
        ("SET (publish = 'update')", "SET (publish = 'insert, update, delete, truncate')"),
        ("SET TABLE items WHERE (id > 9)", "SET TABLE items"),
        ("DROP TABLES IN SCHEMA public", "ADD TABLES IN SCHEMA public"),
    ],
)
def test_a_publication_that_left_out_changes_while_nobody_looked(
    items: Database, tmp_path: Path, before: str, after: str
) -> None:
    name = f"stateplan_{items.name}_slot"
    of = "TABLES IN SCHEMA public" if "SCHEMA" in before else "TABLE items"
    items.execute(f"CREATE PUBLICATION {name} FOR {of}")
    with job(options(items), tmp_path) as mine:
        mine.until_quiet()
        items.execute("CREATE TABLE others (id int PRIMARY KEY)", "CREATE SCHEMA archive")
        items.execute("INSERT INTO items VALUES (6, 'x')")
        for other in ("TABLE others", "TABLES IN SCHEMA archive"):  # that others join does not matter
            items.execute(f"ALTER PUBLICATION {name} ADD {other}")
        assert mine.until_quiet() == [("+I", 6, "x")]
        items.execute(f"ALTER PUBLICATION {name} {before}")
        items.execute("INSERT INTO items VALUES (7, 'x')")
        items.execute(f"ALTER PUBLICATION {name} {after}")
        error = refused("RUN160", mine.step)
        assert "was altered" in error.message
        assert error.hint is not None and "new checkpoint" in error.hint
    with job(options(items), tmp_path / "new") as again:
        again.until_quiet()
        assert (7, "x") in again.rows()


def test_a_job_goes_on_at_another_address_and_not_on_another_server(items: Database, tmp_path: Path) -> None:
    with job(options(items), tmp_path) as mine:
        mine.until_quiet()
    items.execute("INSERT INTO items VALUES (6, 'x')")
    with job(options(items, hostname="localhost"), tmp_path) as moved:
        moved.offset = mine.offset
        assert len(moved.until_quiet()) == 1
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(moved.source.slot, "position", lambda: Position(0, 0, "another"))
            assert "another server" in str(refused("RUN155", moved.step))
            patch.setattr(moved.source.slot, "position", lambda: Position(0, 0, moved.offset["cluster"]))
            assert "the log" in str(refused("RUN155", moved.step))


def test_a_server_that_was_set_back_while_nobody_looked(tmp_path: Path) -> None:
    """Its log is as long again as the part that the job has read, and has other changes."""
    with running() as server:
        made = server.database()
        made.execute("CREATE TABLE items (id int PRIMARY KEY, note text)", "ALTER TABLE items REPLICA IDENTITY FULL")
        with job(options(made), tmp_path) as mine:
            mine.until_quiet()
            made.execute("INSERT INTO items VALUES (1, 'kept')")
            mine.until_quiet()
            server.keep()
            made.execute("INSERT INTO items VALUES (2, 'lost')")
            assert mine.until_quiet() == [("+I", 2, "lost")]
            server.set_back()
            made.execute("INSERT INTO items VALUES (3, 'new')")
            made.execute("INSERT INTO items SELECT g, repeat('x', 1000) FROM generate_series(10, 2000) AS g")
            error = refused("RUN155", mine.until_quiet)
            assert "other transactions" in error.message and "set back" in error.message
        with job(options(made), tmp_path / "new") as again:
            again.until_quiet()
            assert again.rows() == sorted(made.rows("SELECT * FROM items"), key=repr)


def test_a_log_is_known_again_after_a_crash(items: Database, tmp_path: Path) -> None:
    """The slot was not moved on after the last micro-batch: what was read comes again, and is passed over."""
    with job(options(items), tmp_path) as mine:
        mine.until_quiet()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Slot, "advance", lambda slot, lsn: None)
            for i in range(6, 9):
                items.execute(f"INSERT INTO items VALUES ({i}, 'x')")
                assert mine.step() == [("+I", i, "x")]
        items.execute("INSERT INTO items VALUES (9, 'x')")
        assert mine.step() == [("+I", 9, "x")]
        items.execute("INSERT INTO items VALUES (10, 'x')")
        assert mine.step() == [("+I", 10, "x")]


def test_a_slot_that_the_server_has_given_up(tmp_path: Path) -> None:
    with running({"max_slot_wal_keep_size": "1MB", "max_wal_size": "32MB", "min_wal_size": "32MB"}) as server:
        made = server.database()
        made.execute("CREATE TABLE items (id int PRIMARY KEY, note text)", "CREATE TABLE others (t text)")
        given = options(made, changelog_mode="upsert")
        with job(given, tmp_path) as mine:
            mine.until_quiet()
            for _ in range(3):
                made.execute("INSERT INTO others SELECT repeat(md5(g::text), 100) FROM generate_series(1, 20000) AS g")
                for statement in ("SELECT pg_switch_wal()", "CHECKPOINT"):
                    made.execute(statement, autocommit=True)
            made.execute("INSERT INTO items VALUES (1, 'x')")
            error = refused("RUN155", mine.step)
        assert error.hint is not None and "pg_drop_replication_slot" in error.hint
        made.execute(error.hint.split("; ")[1].split(", raise")[0], autocommit=True)
        with job(given, tmp_path / "new") as again:
            assert again.until_quiet() == [("+I", 1, "x")]


def test_a_table_that_is_renamed(items: Database, tmp_path: Path) -> None:
    with job(options(items), tmp_path) as mine:
        mine.until_quiet()
        items.execute(
            "ALTER TABLE items RENAME TO before",
            "CREATE TABLE items (id int PRIMARY KEY, note text)",
            "INSERT INTO before VALUES (6, 'old')",
            "INSERT INTO items VALUES (7, 'new')",
        )
        assert "'public.before'" in refused("RUN159", mine.step).message
        items.execute("DROP TABLE items", "ALTER TABLE before RENAME TO items")
        assert mine.until_quiet() == [("+I", 6, "old")]
    with job(options(items, "item.*"), tmp_path / "new") as pattern:
        pattern.until_quiet()
        items.execute("ALTER TABLE items RENAME TO item_list", "INSERT INTO item_list VALUES (8, 'x')")
        assert pattern.until_quiet() == [("+I", 8, "x")]


def test_tables_that_do_not_fit(items: Database, tmp_path: Path) -> None:
    items.execute(
        "CREATE UNLOGGED TABLE fleeting (id int)",
        "CREATE TABLE bare (id int)",
        "CREATE TABLE late (id int PRIMARY KEY DEFERRABLE)",
        "CREATE TABLE lost (id int PRIMARY KEY, n int NOT NULL CONSTRAINT ns UNIQUE)",
        "ALTER TABLE lost REPLICA IDENTITY USING INDEX ns",
        "ALTER TABLE lost DROP CONSTRAINT ns",
    )
    for code, table, columns, text in (
        ("RUN143", "itms", "id INT", "public.items"),
        ("RUN144", "items", "id INT, nte STRING", "did you mean 'note'"),
        ("RUN145", "items", "id TIMESTAMP(3)", "integer"),
        ("RUN159", "fleeting", "id INT", "UNLOGGED"),
        ("RUN159", "bare", "id INT", "ALTER TABLE bare REPLICA IDENTITY FULL"),
        ("RUN159", "late", "id INT", "ALTER TABLE late REPLICA IDENTITY FULL"),
        ("RUN159", "lost", "id INT", "ALTER TABLE lost REPLICA IDENTITY FULL"),
    ):
        assert text in str(refused(code, lambda t=table, c=columns: first_offset(options(items, t), tmp_path, c)))


def test_an_index_can_be_the_replica_identity(items: Database, tmp_path: Path) -> None:
    items.execute(
        "CREATE TABLE indexed (id int NOT NULL CONSTRAINT ids UNIQUE, note text)",
        "ALTER TABLE indexed REPLICA IDENTITY USING INDEX ids",
        "INSERT INTO indexed VALUES (1, 'x')",
    )
    with job(options(items, "indexed", changelog_mode="upsert"), tmp_path) as mine:
        mine.until_quiet()
        items.execute("UPDATE indexed SET note = 'y'", "UPDATE indexed SET id = 2")
        assert mine.until_quiet() == [("+U", 1, "y"), ("-D", 1, None), ("+I", 2, "y")]


def test_who_may_not(items: Database, tmp_path: Path) -> None:
    items.execute(
        f"CREATE ROLE {items.name}_user LOGIN PASSWORD '{PASSWORD}'",
        f"GRANT ALL ON items TO {items.name}_user",
        f"CREATE PUBLICATION stateplan_{items.name}_slot FOR TABLE items",
    )
    given = options(items, username=f"{items.name}_user")
    assert "REPLICATION" in str(refused("RUN156", lambda: first_offset(given, tmp_path)))
    user = f"{items.name}_user"
    items.execute(f"ALTER ROLE {user} REPLICATION")
    with job({**given, "changelog-mode": "upsert"}, tmp_path) as mine:
        mine.until_quiet()
        items.execute(f"ALTER ROLE {user} NOREPLICATION", "INSERT INTO items VALUES (6, 'x')")
        refused("RUN147", mine.step)
        items.execute(f"ALTER ROLE {user} REPLICATION")
        assert mine.until_quiet() == [("+I", 6, "x")]
    refused("RUN141", lambda: first_offset({**given, "password": "wrong"}, tmp_path))
    refused("RUN142", lambda: first_offset({**given, "database-name": items.name + "x"}, tmp_path))
    with job({**options(items), "port": "1", "connect.max-retries": "0"}, tmp_path) as mine:
        refused("RUN140", lambda: mine.source.check("items"))


def test_a_server_that_cannot_and_one_that_is_down(tmp_path: Path) -> None:
    with running({"wal_level": "replica"}) as server:
        database = server.database()
        database.execute("CREATE TABLE items (id int PRIMARY KEY, note text)")
        given = options(database, **{"connect.max-retries": "1"})
        assert "wal_level = logical" in str(refused("RUN156", lambda: first_offset(given, tmp_path)))
        server.stop()
        server.settings["wal_level"] = "logical"
        server.start()
        with job(given, tmp_path) as mine:
            mine.until_quiet()
            database.execute("INSERT INTO items VALUES (1, 'x')")
            server.stop(crash=True)
            refused("RUN140", mine.step)
            server.start()
            assert mine.until_quiet() == [("+I", 1, "x")]


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"decoding.plugin.name": "decoderbufs"}, "OPT107"),
        ({"debezium.decimal.handling.mode": "string"}, "OPT107"),
        ({"scan.newly-added-table.enabled": "true"}, "OPT107"),
        ({"slot.name": "Slot-1"}, "OPT156"),
        ({"debezium.snapshot.mode": "never", "scan.startup.mode": "snapshot"}, "OPT157"),
        ({"scan.startup.mode": "earliest-offset"}, "OPT105"),
        ({"table-name": "["}, "OPT105"),
        ({"slot.nam": "x"}, "OPT104"),
    ],
)
def test_options(more: dict[str, str], code: str) -> None:
    given = {"connector": "postgres-cdc", "hostname": "h", "username": "u", "password": "p", "database-name": "d"}
    given |= {"schema-name": "s", "table-name": "t", "slot.name": "x"}
    assert registry.validate_table(given, Role.SOURCE) == ()
    refused(code, lambda: registry.validate_table({**given, **more}, Role.SOURCE, schema=()))


def test_secrets_stay_references(items: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_PASSWORD", PASSWORD)
    source = source_of({**options(items), "password": "${env:CDC_PASSWORD}"})
    source.folder = tmp_path
    source.latest_offset({})
    assert PASSWORD.encode() not in pickle.dumps(source)
    assert PASSWORD not in repr(source.origin) + repr(vars(source))
    source.close()

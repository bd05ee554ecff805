"""Sinks of tables of PostgreSQL: what changes do, values of all types, exactly once, and errors."""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from itertools import count
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateplan.common.errors import StateplanError
from stateplan.connectors.jdbc import sink as sinks
from stateplan.connectors.jdbc.sink import JdbcSink
from stateplan.connectors.sink_epochs import input_digest
from stateplan.session.environment import TableEnvironment
from tests.connectors.jdbc_tables import changes, options, read, sink, source, write
from tests.support.postgres import Database, Postgres, refused, running

TOTALS = "product STRING, n BIGINT, note STRING"


@pytest.fixture
def totals(database: Database) -> Iterator[Database]:
    """A database with an empty table ``totals``."""
    database.execute("CREATE TABLE totals (note text, product varchar(20) PRIMARY KEY, n bigint CHECK (n >= 0))")
    yield database


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("threading.Event.wait", lambda self, timeout=None: self.is_set())


def rows(database: Database, table: str = "totals") -> list[tuple[Any, ...]]:
    return sorted(database.rows(f"SELECT * FROM {table}"), key=repr)


# ---- what changes do -------------------------------------------------------------------------------------------


def test_the_last_change_of_a_key_counts(totals: Database) -> None:
    target = sink(totals, "totals", TOTALS, ("product",))
    write(
        target,
        0,
        changes(TOTALS, ("a", 1, "x"), ("b", 1, None), ("a", 1, "x"), ("a", 2, "y"), kinds="+I +I -U +U"),
        changes(TOTALS, ("c", 1, None), ("c", 1, None), ("b", 5, "z"), kinds="+I -D +U"),
    )
    assert rows(totals) == [(None, "b", 5), ("y", "a", 2)] or rows(totals) == [("y", "a", 2), ("z", "b", 5)]
    write(target, 1, changes(TOTALS, ("a", None, None), ("b", 6, None), ("d", 1, "new"), kinds="-D +U +I"))
    assert rows(totals) == [("new", "d", 1), (None, "b", 6)] or sorted(r[1] for r in rows(totals)) == ["b", "d"]
    write(target, 2, changes(TOTALS, ("b", 6, None), ("e", 6, None), kinds="-U +U"))  # the key moves
    assert sorted(row[1] for row in rows(totals)) == ["d", "e"]
    target.close()


def test_columns_that_are_not_declared_are_left_alone(totals: Database) -> None:
    totals.execute("INSERT INTO totals VALUES ('kept', 'a', 1)", "ALTER TABLE totals ADD made text DEFAULT 'now'")
    target = sink(totals, "totals", "product STRING, n BIGINT", ("product",))
    write(target, 0, changes("product STRING, n BIGINT", ("a", 2), ("b", 3), kinds="+U +I"))
    assert rows(totals) == [("kept", "a", 2, "now"), (None, "b", 3, "now")]
    target.close()


KEYS: list[tuple[str, str, object, object]] = [
    ("char(4)", "STRING", "ab", "ab  "),
    ("char(4)", "CHAR(4)", "ab  ", "ab"),
    ("numeric(10, 2)", "DECIMAL(10, 4)", Decimal("1.2345"), Decimal("1.2299")),
    ("timestamp(3)", "TIMESTAMP(6)", dt.datetime(2020, 1, 1, 0, 0, 0, 400), dt.datetime(2020, 1, 1)),
    ("timestamptz(0)", "TIMESTAMP(3)", dt.datetime(2020, 1, 1, 0, 0, 0, 400000), dt.datetime(2020, 1, 1)),
    ("uuid", "STRING", "5D2B9F6C-0000-4000-8000-000000000000", "5d2b9f6c-0000-4000-8000-000000000000"),
]


@pytest.mark.parametrize(("of", "declared", "key", "same"), KEYS)
def test_a_key_that_the_column_pads_or_rounds_is_found_again(
    database: Database, of: str, declared: str, key: object, same: object
) -> None:
    database.execute(f"CREATE TABLE t (k {of} PRIMARY KEY, n int)")
    columns = f"k {declared}, n INT"
    target = sink(database, "t", columns, ("k",))
    write(target, 0, changes(columns, (key, 1)))
    write(target, 1, changes(columns, (key, 2), kinds="+U"))
    assert [row[1] for row in rows(database, "t")] == [2]
    for epoch, deleted in ((2, key), (4, same)):
        write(target, epoch, changes(columns, (deleted, None), kinds="-D"))
        assert rows(database, "t") == []
        write(target, epoch + 1, changes(columns, (key, 1)))
    assert "for one" in refused("DATA431", lambda: write(target, 6, changes(columns, (key, 3), (same, 4)))).message
    assert [row[1] for row in rows(database, "t")] == [1]
    target.close()


def test_a_table_of_keys_alone(database: Database) -> None:
    database.execute("CREATE TABLE pairs (a int, b int, UNIQUE (b, a))", "INSERT INTO pairs VALUES (1, 1)")
    target = sink(database, "pairs", "a INT, b INT", ("a", "b"))
    write(target, 0, changes("a INT, b INT", (1, 1), (1, 2), (2, 2), (2, 2), kinds="+I +I +I -D"))
    assert rows(database, "pairs") == [(1, 1), (1, 2)]
    target.close()


def test_rows_are_added_without_a_key(database: Database) -> None:
    database.execute(
        "CREATE TABLE log (extra text, id int, at timestamp)", "CREATE SCHEMA s", "CREATE TABLE s.log (id uuid)"
    )
    columns = "at TIMESTAMP(3), id INT"
    target = sink(database, "log", columns)
    assert not target.keeps_order
    write(target, 0, changes(columns, (dt.datetime(1969, 1, 1), 1), (None, 1)), changes(columns, (None, 2)))
    write(target, 1)
    assert sorted(database.rows("SELECT id, extra FROM log")) == [(1, None), (1, None), (2, None)]
    assert database.rows("SELECT count(*) FROM log WHERE at = '1969-01-01'") == [(1,)]
    refused("DATA433", lambda: target.write(changes(columns, (None, 1), kinds="-D"), 2, "p"))
    target.close()
    other = sink(database, "s.log", "id STRING", uid="other")  # the text is made a UUID
    write(other, 0, changes("id STRING", ("5d2b9f6c-0000-4000-8000-000000000000",)))
    assert database.rows("SELECT id::text FROM s.log") == [("5d2b9f6c-0000-4000-8000-000000000000",)]
    other.close()
    assert database.rows("SELECT uid FROM s.stateplan_epochs") == [("other",)]


VALUES: list[tuple[str, str, object]] = [
    ("boolean", "BOOLEAN", True), ("smallint", "TINYINT", -128), ("integer", "SMALLINT", -32768),
    ("bigint", "INT", 2**31 - 1), ("bigint", "BIGINT", -(2**63)), ("real", "FLOAT", 0.5),
    ("double precision", "DOUBLE", float("inf")), ("numeric", "DECIMAL(38, 18)", Decimal("-123.123456789012345678")),
    ("numeric(10,2)", "DECIMAL(10, 2)", Decimal("12345678.90")), ("text", "STRING", "a'\\ü漢"),
    ("char(5)", "CHAR(5)", "abc  "), ("numeric", "DECIMAL(38, 0)", Decimal("-" + "9" * 38)),
    ("varchar(9)", "VARCHAR(9)", "abc"), ("bytea", "BYTES", b"\x00\xff"), ("date", "DATE", dt.date(1, 1, 1)),
    ("time", "TIME(3)", dt.time(23, 59, 59, 987000)), ("timestamp", "TIMESTAMP(3)", dt.datetime(1969, 7, 20, 20, 17)),
    ("timestamp", "TIMESTAMP(6)", dt.datetime(9999, 12, 31, 23, 59, 59, 999999)),
    ("timestamptz", "TIMESTAMP_LTZ(3)", dt.datetime(2020, 1, 1, tzinfo=dt.UTC)),
    ("timestamptz", "TIMESTAMP(6)", dt.datetime(2020, 1, 1, 0, 0, 0, 1)),
    ("uuid", "STRING", "5d2b9f6c-0000-4000-8000-000000000000"), ("jsonb", "STRING", '{"a": 1}'),
    ("inet", "STRING", "10.0.0.1/32"), ("int[]", "ARRAY<INT>", [1, None]), ("text[]", "ARRAY<STRING>", ["a", "b c"]),
    ("numeric(6,2)[]", "ARRAY<DECIMAL(6, 2)>", [Decimal("1.50")]), ("bytea[]", "ARRAY<BYTES>", [b"\x00"]),
    ("timestamptz[]", "ARRAY<TIMESTAMP_LTZ(3)>", [dt.datetime(2020, 1, 1, tzinfo=dt.UTC)]),
    ("varchar(3)[]", "ARRAY<STRING>", ["abc"]), ("real[]", "ARRAY<FLOAT>", []),
]  # fmt: skip


def test_rows_are_added_to_a_view(database: Database) -> None:
    database.execute("CREATE TABLE t (a int, b text)", "CREATE VIEW v AS SELECT a FROM t WHERE b IS NULL")
    target = sink(database, "v", "a INT")
    write(target, 0, changes("a INT", (1,), (2,)))
    write(target, 1, changes("a INT", (1,)))
    assert rows(database, "t") == [(1, None), (1, None), (2, None)]
    target.close()


@pytest.mark.parametrize("key", [(), ("id",)])
def test_values_of_all_types_are_written_as_they_are(database: Database, key: tuple[str, ...]) -> None:
    of = ", ".join(f"v{i} {row[0]}" for i, row in enumerate(VALUES))
    columns = ", ".join(["id INT", *(f"v{i} {row[1]}" for i, row in enumerate(VALUES))])
    database.execute(f"CREATE TABLE t (id int PRIMARY KEY, {of})")
    given = [(1, *(row[2] for row in VALUES)), (2, *(None for _ in VALUES))]
    target = sink(database, "t", columns, key)
    write(target, 0, changes(columns, *given))
    target.close()
    assert (
        sorted(read(source(database, "t", columns.replace("SMALLINT", "INT").replace("v3 INT", "v3 BIGINT")))) == given
    )


UIDS = count()
KINDS = st.sampled_from(["+I", "-U", "+U", "-D"])
CHANGES = st.lists(st.tuples(KINDS, st.integers(0, 4), st.integers(0, 9)), max_size=8)


@pytest.fixture(scope="module")
def numbers(postgres: Postgres) -> Database:
    made = postgres.database()
    made.execute("CREATE TABLE numbers (k int PRIMARY KEY, v int)")
    return made


@settings(max_examples=15)
@given(st.lists(st.tuples(CHANGES, CHANGES, st.booleans()), max_size=5))
def test_any_changes_leave_what_their_last_ones_say(numbers: Database, epochs: list[tuple[Any, Any, bool]]) -> None:
    numbers.execute("TRUNCATE numbers")
    target = sink(numbers, "numbers", "k INT, v INT", ("k",), uid=f"sink-{next(UIDS)}")
    expected: dict[int, int] = {}
    for epoch, (first, second, twice) in enumerate(epochs):
        parts = [
            changes("k INT, v INT", *((k, v) for _, k, v in part), kinds=" ".join(kind for kind, *_ in part))
            for part in (first, second)
            if part
        ]
        for _ in range(2 if twice else 1):
            write(target, epoch, *parts)
        for kind, k, v in [*first, *second]:
            expected.pop(k, None)
            if kind in ("+I", "+U"):
                expected[k] = v
    target.close()
    assert dict(numbers.rows("SELECT * FROM numbers")) == expected


# ---- exactly once ----------------------------------------------------------------------------------------------


def restarted(target: JdbcSink) -> JdbcSink:
    """The sink as another process has it."""
    found = pickle.loads(pickle.dumps(target))
    assert isinstance(found, JdbcSink)
    return found


def test_a_micro_batch_that_runs_again_is_written_once(database: Database) -> None:
    database.execute("CREATE TABLE log (id int)")
    target = sink(database, "log", "id INT")
    write(target, 0, changes("id INT", (1,)))
    write(target, 0, changes("id INT", (1,)))  # after a kill behind the commit
    other = restarted(target)
    write(other, 0, changes("id INT", (1,)))
    other.ledger.input = input_digest(b"a")
    write(other, 1, changes("id INT", (2,)))
    write(other, 1, changes("id INT", (2,)))
    other.ledger.input = input_digest(b"b")  # an older copy of the checkpoint has cut the input otherwise
    refused("RUN150", lambda: write(other, 1, changes("id INT", (3,))))
    assert sorted(database.rows("SELECT id FROM log")) == [(1,), (2,)]
    target.close()
    other.close()


@pytest.mark.parametrize(("key", "word"), [((), "twice"), (("id",), "stay")])
def test_rows_of_a_checkpoint_that_is_gone_are_told_of(database: Database, key: tuple[str, ...], word: str) -> None:
    database.execute(f"CREATE TABLE log (id int {'PRIMARY KEY' if key else ''})")

    def run(uid: str, read: str, epoch: int = 0) -> str:
        target = sink(database, "log", "id INT", key, uid)
        target.ledger.input = input_digest(read.encode()) if read else ""
        write(target, epoch, changes("id INT", (epoch,)))
        target.close()
        return " ".join(target.ledger.take_sentences())

    assert run("sink-one", "a") == ""
    assert run("other-two", "b") == "", "another statement"
    assert word in run("sink-two", "c")
    assert run("sink-two", "c") == "", "again, after a failure"
    assert run("sink-two", "d", 1) == ""
    assert run("sink-three", "e", 5) == "", "it goes on from a savepoint"
    assert run("sink-four", "") == "", "without a checkpoint"


@pytest.mark.parametrize("behind", [False, True])
def test_a_connection_that_breaks_at_the_commit(
    totals: Database, monkeypatch: pytest.MonkeyPatch, behind: bool
) -> None:
    """Whether the transaction was committed or not when the connection broke, its rows are there once."""
    target = sink(totals, "totals", TOTALS, ("product",))
    write(target, 0, changes(TOTALS, ("a", 1, None)))
    whole, broken = JdbcSink._write_rows, []

    def breaking(self: JdbcSink, frame: pl.DataFrame, epoch: int) -> None:
        if not broken and behind:
            whole(self, frame, epoch)
        if not broken:
            broken.append(totals.terminate("application_name = 'stateplan'"))
            sinks.rows(self._connection, "SELECT 1")
        whole(self, frame, epoch)

    monkeypatch.setattr(JdbcSink, "_write_rows", breaking)
    write(target, 1, changes(TOTALS, ("a", 2, None), ("b", 1, None), kinds="+U +I"))
    assert broken == [1]
    assert rows(totals) == [(None, "a", 2), (None, "b", 1)]
    assert totals.rows("SELECT epoch FROM stateplan_epochs") == [(1,)]
    target.close()


def test_a_server_that_is_gone_too_long_is_an_error_and_the_job_goes_on_later(postgres: Postgres) -> None:
    with running() as server:
        made = server.database()
        made.execute("CREATE TABLE log (id int)")
        target = sink(made, "log", "id INT")
        write(target, 0, changes("id INT", (1,)))
        server.stop(crash=True)
        error = refused("RUN140", lambda: write(target, 1, changes("id INT", (2,))))
        assert "Connection refused" in error.message
        server.start()
        write(target, 1, changes("id INT", (2,)))
        assert sorted(made.rows("SELECT id FROM log")) == [(1,), (2,)]
        target.close()


def test_a_commit_outlives_a_crash_of_a_server_that_answers_before_it_has_written_it(postgres: Postgres) -> None:
    with running({"wal_writer_delay": "10s", "synchronous_commit": "off"}) as server:
        made = server.database()
        made.execute("CREATE TABLE log (id int)", "SET LOCAL synchronous_commit = on")
        target = sink(made, "log", "id INT")
        write(target, 0, changes("id INT", (1,)))
        server.stop(crash=True)
        server.start()
        assert made.rows("SELECT id FROM log") == [(1,)]
        target.close()


def test_a_database_that_has_lost_micro_batches(postgres: Postgres) -> None:
    """A backup was restored, or a standby promoted that did not have everything."""
    with running() as server:
        made = server.database()
        made.execute("CREATE TABLE log (id int)")
        target = sink(made, "log", "id INT")
        write(target, 0, changes("id INT", (1,)))
        server.keep()
        write(target, 1, changes("id INT", (2,)))
        server.set_back()
        error = refused("RUN150", lambda: write(target, 2, changes("id INT", (3,))))
        assert "its last micro-batch is 0, and the job has written 1" in error.message
        again = restarted(target)
        refused("RUN150", lambda: write(again, 2, changes("id INT", (3,))))
        again.ledger.last_epoch = None  # as in a checkpoint whose user says so
        write(again, 2, changes("id INT", (3,)))
        assert sorted(made.rows("SELECT id FROM log")) == [(1,), (3,)]
        again.close()
        target.close()


def test_of_two_writers_the_later_one_goes_on(database: Database) -> None:
    database.execute("CREATE TABLE log (id int)")
    first = sink(database, "log", "id INT")
    write(first, 0, changes("id INT", (1,)))
    second = restarted(first)
    second.prepare(1)
    refused("RUN150", lambda: write(first, 1, changes("id INT", (2,))))
    write(second, 1, changes("id INT", (3,)))
    third = sink(database, "log", "id INT", uid="another sink")
    write(third, 0, changes("id INT", (4,)))
    assert sorted(database.rows("SELECT id FROM log")) == [(1,), (3,), (4,)]
    stale = restarted(second)  # as from an old copy of the checkpoint
    refused("RUN150", lambda: write(stale, 0, changes("id INT", (9,))))
    for one in (first, second, third, stale):
        one.close()


# ---- errors ----------------------------------------------------------------------------------------------------


def test_rows_that_the_table_refuses_name_the_row_and_the_constraint(totals: Database) -> None:
    totals.execute("CREATE TABLE log (id int NOT NULL UNIQUE, name varchar(3), what jsonb)")
    target = sink(totals, "totals", TOTALS, ("product",))
    error = refused("DATA431", lambda: write(target, 0, changes(TOTALS, ("a", 1, None), ("b", -1, "x"))))
    assert "constraint 'totals_n_check'" in error.message and "(x, b, -1)" in error.message
    assert rows(totals) == []
    write(target, 0, changes(TOTALS, ("a", 1, None)))
    target.close()
    columns = "id INT, name STRING, what STRING"
    log = sink(totals, "log", columns, uid="log")
    for code, row in (
        ("DATA431", (None, "a", None)),
        ("DATA432", (1, "abcd", None)),
        ("DATA432", (1, "a\0", None)),
        ("DATA432", (1, "a", "{")),
    ):
        refused(code, lambda row=row: write(log, 0, changes(columns, row)))  # type: ignore[misc]
    write(log, 0, changes(columns, (1, "a", "{}")))
    error = refused("DATA431", lambda: write(log, 1, changes(columns, (1, "a", "{}"))))
    assert "Key (id)=(1) already exists" in error.message
    log.close()


def test_rules_of_a_table_rewrite_what_is_added(database: Database) -> None:
    database.execute(
        "CREATE TABLE t (id int)",
        "CREATE TABLE elsewhere (id int)",
        "CREATE RULE moves AS ON INSERT TO t DO INSTEAD INSERT INTO elsewhere VALUES (NEW.id)",
        "CREATE VIEW small AS SELECT id FROM elsewhere WHERE id < 10 WITH CHECK OPTION",
    )
    target = sink(database, "t", "id INT")
    write(target, 0, changes("id INT", (1,), (2,)))
    assert (rows(database, "t"), rows(database, "elsewhere")) == ([], [(1,), (2,)])
    target.close()
    view = sink(database, "small", "id INT", uid="view")
    error = refused("DATA431", lambda: write(view, 0, changes("id INT", (3,), (10,))))
    assert "check option" in error.message
    write(view, 0, changes("id INT", (3,), (4,)))
    assert rows(database, "elsewhere") == [(1,), (2,), (3,), (4,)]
    view.close()


def test_policies_of_row_level_security_bind_the_user(database: Database) -> None:
    columns = "id INT, name STRING"
    database.execute(
        "CREATE ROLE bound LOGIN PASSWORD 'low'",
        "GRANT CREATE, USAGE ON SCHEMA public TO bound",
        "CREATE TABLE log (id int, name text)",
        "CREATE TABLE keyed (id int PRIMARY KEY, name text)",
        *(
            text.format(table)
            for table in ("log", "keyed")
            for text in (
                "INSERT INTO {} VALUES (500, 'hidden')",
                "ALTER TABLE {} ENABLE ROW LEVEL SECURITY",
                "CREATE POLICY small ON {} USING (id < 100)",
                "GRANT SELECT, INSERT, UPDATE, DELETE ON {} TO bound",
            )
        ),
    )
    login = {"username": "bound", "password": "low"}
    hidden = (500, "hidden")
    for table, key in (("log", ()), ("keyed", ("id",))):
        target = sink(database, table, columns, key, uid=table, more=login)
        for wrong in (100, 500):
            batch = changes(columns, (1, "a"), (wrong, "b"))
            error = refused("DATA431", lambda batch=batch, to=target: write(to, 0, batch))
            assert "row-level security" in error.message and error.hint is not None
            assert rows(database, table) == [hidden]
        write(target, 0, changes(columns, (1, "a"), (2, "b")))
        assert rows(database, table) == [(1, "a"), (2, "b"), hidden]
        if key:
            write(target, 1, changes(columns, (1, None), (2, "c"), hidden, kinds="-D +U -D"))
            assert rows(database, table) == [(2, "c"), hidden]
        target.close()
    assert read(source(database, "log", columns, login)) == [(1, "a"), (2, "b")]


def test_tables_that_cannot_be_written_are_refused_at_the_start(database: Database) -> None:
    database.execute(
        "CREATE TABLE t (a int, b int, twice int GENERATED ALWAYS AS (a * 2) STORED)",
        "CREATE UNIQUE INDEX ON t (a) WHERE b > 0",
        "CREATE ROLE writer LOGIN PASSWORD 'w'",
        "GRANT INSERT, SELECT, UPDATE ON t TO writer",
    )
    for code, name, columns, key in (
        ("RUN143", "tt", "a INT", ()),
        ("RUN144", "t", "c INT", ()),
        ("RUN145", "t", "a BOOLEAN", ()),
        ("RUN145", "t", "a INT, twice INT", ()),
        ("OPT153", "t", "a INT, b INT", ("a",)),
    ):
        refused(code, lambda n=name, c=columns, k=key: sink(database, n, c, k).prepare(0))  # type: ignore[misc]
    login = {"username": "writer", "password": "w"}
    error = refused("RUN147", lambda: sink(database, "t", "a INT", more=login).prepare(0))
    assert error.hint is not None
    statement = error.hint.partition(": ")[2]
    assert statement.startswith("CREATE TABLE")
    database.execute(statement, "GRANT SELECT, INSERT, UPDATE ON stateplan_epochs TO writer")
    target = sink(database, "t", "a INT", more=login)
    write(target, 0, changes("a INT", (1,)))
    database.execute("REVOKE INSERT ON t FROM writer")
    refused("RUN147", lambda: write(target, 1, changes("a INT", (1,))))
    target.close()
    database.execute("ALTER DATABASE " + database.name + " SET default_transaction_read_only = on")
    refused("RUN148", lambda: sink(database, "t", "a INT", uid="late").prepare(0))


def test_a_key_that_is_deferrable_replaces_no_rows(database: Database) -> None:
    database.execute(
        'CREATE TABLE t (a int, "B" int, PRIMARY KEY (a, "B") DEFERRABLE, UNIQUE (a) DEFERRABLE INITIALLY DEFERRED)'
    )
    columns = "a INT, B INT"
    for key in (("a",), ("B", "a")):
        target = sink(database, "t", columns, key)
        error = refused("OPT153", partial(target.prepare, 0))
        assert "DEFERRABLE" in error.message and error.hint is not None
        database.execute(error.hint.partition(": ")[2])
        write(target, 0, changes(columns, (1, 1), (1, 1), kinds="+I +U"))
        assert rows(database, "t") == [(1, 1)]
        target.close()


def test_the_table_of_epochs_is_named_where_it_may_not_be_used(database: Database) -> None:
    database.execute(
        "CREATE TABLE t (a int)",
        "CREATE ROLE \"Low User\" LOGIN PASSWORD 'w'",
        'GRANT INSERT, SELECT ON t TO "Low User"',
    )
    owner = sink(database, "t", "a INT", uid="owner")
    write(owner, 0, changes("a INT", (1,)))
    owner.close()
    low = sink(database, "t", "a INT", more={"username": "Low User", "password": "w"})

    def grants(error: StateplanError) -> None:
        assert "'public.stateplan_epochs'" in error.message and "'t'" not in error.message
        assert error.hint is not None
        statement = error.hint.partition(": ")[2]
        assert statement == 'GRANT SELECT, INSERT, UPDATE ON "public".stateplan_epochs TO "Low User"'
        database.execute(statement)

    grants(refused("RUN147", lambda: low.prepare(0)))
    low = restarted(low)
    write(low, 0, changes("a INT", (2,)))
    for right in ("SELECT", "UPDATE"):
        database.execute(f'REVOKE {right} ON stateplan_epochs FROM "Low User"')
        grants(refused("RUN147", lambda: write(low, 1, changes("a INT", (3,)))))
    write(low, 1, changes("a INT", (3,)))
    low.close()
    assert rows(database, "t") == [(1,), (2,), (3,)]
    database.execute('REVOKE INSERT ON t FROM "Low User"')
    error = refused("RUN147", lambda: write(low, 2, changes("a INT", (4,))))
    assert "'t'" in error.message and "stateplan_epochs" not in str(error)


def test_a_table_that_changes_while_a_job_writes(database: Database) -> None:
    database.execute("CREATE TABLE t (a int, b int)")
    target = sink(database, "t", "a INT, b INT")
    write(target, 0, changes("a INT, b INT", (1, 1)))
    database.execute("ALTER TABLE t DROP COLUMN b")
    assert "has no column 'b'" in str(refused("RUN144", lambda: write(target, 1, changes("a INT, b INT", (2, 2)))))
    database.execute("ALTER TABLE t ADD COLUMN b timestamp")
    refused("RUN145", lambda: write(target, 1, changes("a INT, b INT", (2, 2))))
    database.execute("ALTER TABLE t RENAME TO elsewhere")
    refused("RUN143", lambda: write(target, 1, changes("a INT, b INT", (2, 2))))
    database.execute("ALTER TABLE elsewhere DROP COLUMN b", "ALTER TABLE elsewhere ADD COLUMN b bigint")
    database.execute("ALTER TABLE elsewhere RENAME TO t")
    write(target, 1, changes("a INT, b INT", (2, 2)))
    assert rows(database, "t") == [(1, None), (2, 2)]
    target.close()


def test_queries_that_update_need_a_key(database: Database) -> None:
    database.execute("CREATE TABLE t (s text PRIMARY KEY, n bigint)", "CREATE TABLE log (n int)")
    session = TableEnvironment.create({})

    def create(name: str, columns: str) -> None:
        pairs = ", ".join(f"'{key}' = '{text}'" for key, text in options(database, name).items())
        session.execute_sql(f"CREATE TABLE {name} ({columns}) WITH ({pairs})")

    create("t", "s STRING PRIMARY KEY NOT ENFORCED, n BIGINT")
    create("log", "n INT")
    session.execute_sql("CREATE VIEW v AS SELECT * FROM (VALUES ('a', 1), ('b', 2), ('a', 3)) AS v (s, n)")
    error = refused("OPT152", lambda: session.execute_sql("INSERT INTO log SELECT MAX(n) FROM v GROUP BY s"))
    assert "default_catalog.default_database.log" in error.message
    plan = session.explain_sql("INSERT INTO t SELECT s, SUM(n) FROM v GROUP BY s", "CHANGELOG_MODE")
    assert "changelogMode=[I,UA]" in plan and "UB" not in plan


@pytest.mark.parametrize("key", [(), ("id",)])
@pytest.mark.parametrize(
    ("was", "declared", "now", "value"),
    [
        ("double precision", "DOUBLE", "int", 7.9),
        ("double precision", "DOUBLE", "real", 1.23456789012),
        ("timestamp", "TIMESTAMP(3)", "date", dt.datetime(2020, 1, 2, 10, 30)),
        ("bigint", "BIGINT", "text", 7),
    ],
)
def test_a_column_that_gets_another_type_between_micro_batches(
    database: Database, key: tuple[str, ...], was: str, declared: str, now: str, value: Any
) -> None:
    database.execute(f"CREATE TABLE t (id bigint UNIQUE, v {was})")
    columns = f"id BIGINT, v {declared}"
    made = sink(database, "t", columns, key)
    write(made, 0, changes(columns, (1, None)))
    database.execute(f"ALTER TABLE t ALTER v TYPE {now} USING NULL")
    refused("RUN145", lambda: write(made, 1, changes(columns, (2, value))))
    assert database.rows("SELECT id FROM t") == [(1,)]
    database.execute(f"ALTER TABLE t ALTER v TYPE {was} USING NULL")
    write(made, 1, changes(columns, (2, value)))
    assert database.rows("SELECT v FROM t WHERE id = 2") == [(value,)]
    made.close()


@pytest.mark.parametrize("key", [(), ("id",)])
def test_a_table_that_is_made_again_between_micro_batches(database: Database, key: tuple[str, ...]) -> None:
    database.execute("CREATE TABLE t (id bigint UNIQUE, v int)")
    columns = "id BIGINT, v INT"
    made = sink(database, "t", columns, key)
    write(made, 0, changes(columns, (1, 1)))
    database.execute("DROP TABLE t", "CREATE TABLE t (v int, w int, id bigint UNIQUE)")
    write(made, 1, changes(columns, (2, 2)))
    assert database.rows("SELECT id, v, w FROM t") == [(2, 2, None)]
    made.close()

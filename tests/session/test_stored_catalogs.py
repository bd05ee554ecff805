"""Catalogs on disk, and the catalog store: what one session creates, the next one knows."""

from __future__ import annotations

import itertools
import json
import string
import sys
import textwrap
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateplan.common.errors import StateplanError
from stateplan.planner.catalog.file_catalog import file_name, object_name
from stateplan.planner.catalog.objects import CatalogTable, CatalogView
from stateplan.session.completion import complete
from stateplan.session.environment import TableEnvironment
from tests.session.catalog_sessions import PRINT, fails, rows, shell
from tests.session.flink_ddl import FLINK, shown


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


# ---- what is kept ----------------------------------------------------------------------------------------------


def flink_statements() -> Iterable[str]:
    """Those of flink_ddl.txt, which Flink has run."""
    for block in ("\n" + FLINK.read_text()).split("\n>>> ")[1:]:
        lines = block.split("\n")
        statement, n = lines[0], 1
        while not lines[n].startswith(("ERROR", "OK", "+I[", "CREATE")) and statement.startswith("CREATE"):
            statement, n = statement + "\n" + lines[n], n + 1
        yield statement


def test_a_catalog_on_disk_answers_like_one_in_memory(folder: Path) -> None:
    """Every statement that Flink was asked, and at the end all objects as the next session sees them."""
    memory, stored = TableEnvironment.create(), TableEnvironment.create()
    memory.execute_sql("CREATE CATALOG c WITH ('type' = 'generic_in_memory')")
    stored.execute_sql("CREATE CATALOG c WITH ('type' = 'file', 'path' = 'cat')")
    for env in (memory, stored):
        env.use_catalog("c")
    wrong = []
    for statement in flink_statements():
        if "CATALOG" in statement:
            continue
        answers = []
        for env in (memory, stored):
            try:
                answers.append(shown(env.execute_sql(statement)))
            except StateplanError as error:
                answers.append(f"{error.code} {error.message}")
        if answers[0] != answers[1]:
            wrong.append((statement, answers))
    assert wrong == []
    after = shell()
    count = 0
    assert rows(after, "SHOW DATABASES") == rows(memory, "SHOW DATABASES")
    for database in after.list_databases():
        kinds = memory.catalog.kinds("c", database)
        kept = {name: kind for name, kind in kinds.items() if name not in memory.catalog.temporary("c", database)}
        assert after.catalog.kinds("c", database) == kept
        for name, kind in kept.items():
            path = f"c.`{database}`.`{name}`"
            for words in (f"SHOW CREATE {kind} {path}", f"DESCRIBE {path}"):
                assert shown(after.execute_sql(words)) == shown(memory.execute_sql(words)), words
            count += 1
    assert count >= 5


def test_the_next_session_knows_tables_views_functions_and_databases(folder: Path) -> None:
    shell(
        "CREATE DATABASE shop COMMENT 'it''s' WITH ('a' = 'b')",
        f"CREATE TABLE shop.orders (id BIGINT, n AS id + 1, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) {PRINT}",
        "CREATE TABLE shop.source (id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen')",
        "USE shop",
        "CREATE VIEW recent COMMENT 'new ones' AS SELECT id, ts FROM source WHERE id > 5",
        "CREATE FUNCTION Double_It AS 'tests.support.plan_functions.double' LANGUAGE PYTHON",
        "CREATE TEMPORARY VIEW passing AS SELECT 1 AS x",
    )
    env = shell("USE shop")
    assert rows(env, "SHOW TABLES") == ["orders", "recent", "source"]
    assert rows(env, "SHOW VIEWS") == ["recent"]
    assert rows(env, "SHOW USER FUNCTIONS") == ["double_it"]
    assert env.execute_sql("DESCRIBE DATABASE shop").rows == [("name", "shop"), ("comment", "it's")]
    view = env.catalog.resolve(["recent"])
    assert isinstance(view, CatalogView) and view.comment == "new ones"
    assert [c.type.summary() for c in view.schema.columns] == ["BIGINT", "TIMESTAMP(3) *ROWTIME*"]
    plan = env.compile_plan_sql("INSERT INTO orders SELECT id, ts FROM recent").as_json_string()
    tables = [
        node[key]["table"]["identifier"]
        for node in json.loads(plan)["nodes"]
        for key in ("scanTableSource", "dynamicTableSink")
        if key in node
    ]
    assert tables == ["`c`.`shop`.`source`", "`c`.`shop`.`orders`"]


def test_the_files_are_the_statements(folder: Path) -> None:
    shell(
        "CREATE TABLE orders (id INT NOT NULL, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'datagen')",
        "CREATE TABLE sink (a INT) WITH ('connector' = 'print', 'password' = '${env:NOBODY_HAS_IT}')",
        "CREATE DATABASE other",
        "CREATE VIEW other.v AS SELECT id FROM orders",
        "CREATE FUNCTION f AS 'm.f' LANGUAGE PYTHON",
    )
    files = {str(p.relative_to(folder / "cat")): p.read_text() for p in sorted((folder / "cat").rglob("*.sql"))}
    assert files == {
        "default/tables/orders.sql": textwrap.dedent("""\
            -- stateplan catalog, format 1
            CREATE TABLE `orders` (
              `id` INT NOT NULL,
              CONSTRAINT `PK_id` PRIMARY KEY (`id`) NOT ENFORCED
            )
            WITH (
              'connector' = 'datagen'
            )
            """),
        "default/tables/sink.sql": textwrap.dedent("""\
            -- stateplan catalog, format 1
            CREATE TABLE `sink` (
              `a` INT
            )
            WITH (
              'connector' = 'print',
              'password' = '${env:NOBODY_HAS_IT}'
            )
            """),
        "default/functions/f.sql": "-- stateplan catalog, format 1\nCREATE FUNCTION `f` AS 'm.f' LANGUAGE PYTHON\n",
        "other/database.sql": "-- stateplan catalog, format 1\nCREATE DATABASE `other`\n",
        "other/views/v.sql": textwrap.dedent("""\
            -- stateplan catalog, format 1
            -- names are those of `default`
            -- columns: [["id", "INT NOT NULL"]]
            -- columns of the query: ["id"]
            CREATE VIEW `v` (
              `id`
            )
            AS SELECT id FROM orders
            """),
    }


def test_a_catalog_can_be_mounted_under_another_name(folder: Path) -> None:
    shell("CREATE TABLE s (a INT) WITH ('connector' = 'datagen')", "CREATE VIEW v AS SELECT a + 1 AS b FROM s")
    env = TableEnvironment.create()
    env.execute_sql("CREATE CATALOG other WITH ('type' = 'file', 'path' = 'cat')")
    assert env.sql_query("SELECT * FROM other.`default`.v").get_schema().get_field_names() == ["b"]


def test_files_that_were_written_by_hand(folder: Path) -> None:
    here = folder / "cat" / "mine"
    (here / "tables").mkdir(parents=True)
    (here / "views").mkdir()
    (here / "tables" / "s.sql").write_text("create table s (a int, b string) with ('connector' = 'datagen');\n")
    (here / "views" / "v.sql").write_text("-- what matters\nCREATE VIEW v AS SELECT b, COUNT(*) AS n FROM s GROUP BY b")
    (here / "notes.txt").write_text("not ours")
    env = shell("USE mine")
    assert rows(env, "SHOW DATABASES") == ["default", "mine"]
    assert env.execute_sql("DESCRIBE v").rows[1][:3] == ("n", "BIGINT", False)
    # what is edited counts, at once
    (here / "views" / "v.sql").write_text("CREATE VIEW v AS SELECT a FROM s")
    assert rows(env, "DESCRIBE v") == ["a"]


# ---- changing it -----------------------------------------------------------------------------------------------


def test_alter_rename_and_drop_reach_the_files(folder: Path) -> None:
    shell(f"CREATE TABLE t (a INT) {PRINT}", "CREATE VIEW v AS SELECT 1 AS x", "CREATE DATABASE d")
    shell("ALTER TABLE t SET ('print-identifier' = 'p')", "ALTER TABLE t RENAME TO u", "ALTER VIEW v AS SELECT 2 AS y")
    env = shell()
    assert rows(env, "SHOW TABLES") == ["u", "v"]
    table = env.catalog.resolve(["u"])
    assert isinstance(table, CatalogTable) and table.options["print-identifier"] == "p"
    assert rows(env, "DESCRIBE v") == ["y"]
    assert fails(lambda: env.execute_sql(f"CREATE TABLE u (a INT) {PRINT}")).startswith("[CAT010]")
    assert fails(lambda: env.execute_sql("CREATE VIEW u AS SELECT 1")).startswith("[CAT010] table 'c.default.u'")
    assert fails(lambda: env.execute_sql("ALTER TABLE u RENAME TO v")).startswith("[CAT010]")
    assert fails(lambda: env.execute_sql("DROP VIEW u")).startswith("[CAT011]")
    shell("DROP TABLE u", "DROP VIEW v", f"CREATE TABLE d.x (a INT) {PRINT}")
    assert fails(lambda: shell("DROP DATABASE d")).startswith("[CAT008]")
    shell("DROP DATABASE d CASCADE")
    assert fails(lambda: shell("USE `default`", "CREATE DATABASE e", "USE e", "DROP DATABASE `default`")).startswith(
        "[CAT110] the catalog 'c' of type 'file' cannot drop its default database"
    )
    assert [p.name for p in (folder / "cat").rglob("*.sql")] == ["database.sql"]


def test_functions_of_the_catalog_are_created_altered_and_dropped(folder: Path) -> None:
    shell("CREATE FUNCTION f AS 'm.f' LANGUAGE PYTHON")
    env = shell()
    assert fails(lambda: env.execute_sql("CREATE FUNCTION F AS 'm.g' LANGUAGE PYTHON")).startswith("[CAT060]")
    env.execute_sql("ALTER FUNCTION F AS 'm.g' LANGUAGE PYTHON")
    assert dict(shell().execute_sql("DESCRIBE FUNCTION f").rows)["class name"] == "m.g"
    shell("DROP FUNCTION f")
    assert rows(shell(), "SHOW USER FUNCTIONS") == []
    assert fails(lambda: shell("DROP FUNCTION f")).startswith("[CAT061]")


NAMES = st.text(
    st.sampled_from(string.ascii_letters + string.digits + " ./\\%_-~:*?\"'`äß日\n\U0001f600"), min_size=1, max_size=12
)


@given(NAMES | st.sampled_from([".", "..", "con", "A", "a", "%2E", ".lock", "database.sql"]))
def test_every_name_is_a_file_name_and_comes_back(name: str) -> None:
    found = file_name(name)
    assert object_name(found) == name
    assert found.isascii() and not set(found) & set("/\\\0:*?\"' \n") and found[0] != "."


@settings(max_examples=25)
@given(data=st.data())
def test_random_statements_leave_what_a_dictionary_has(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Names of every kind, and a new session at any time."""
    path = tmp_path_factory.mktemp("cat")
    model: dict[str, str] = {}

    def opened() -> TableEnvironment:
        env = TableEnvironment.create()
        env.execute_sql(f"CREATE CATALOG c WITH ('type' = 'file', 'path' = '{path}')")
        env.use_catalog("c")
        return env

    env = opened()
    for number in range(data.draw(st.integers(1, 8))):
        action = data.draw(st.sampled_from(["create", "view", "drop", "rename", "alter", "shell"]))
        known = sorted(model)
        name = data.draw(st.sampled_from(known) if known and action != "create" else NAMES)
        quoted = "`" + name.replace("`", "``") + "`"
        with suppress(StateplanError):
            if action == "create":
                env.execute_sql(f"CREATE TABLE {quoted} (a INT) {PRINT}")
                model.setdefault(name, "print")
            elif action == "view":
                env.execute_sql(f"CREATE VIEW {quoted} AS SELECT 1 AS x")
                model.setdefault(name, "view")
            elif action == "drop" and name in model:
                env.execute_sql(f"DROP {'VIEW' if model[name] == 'view' else 'TABLE'} {quoted}")
                del model[name]
            elif action == "rename" and model.get(name, "view") != "view":
                new = data.draw(NAMES)
                env.execute_sql(f"ALTER TABLE {quoted} RENAME TO `{new.replace('`', '``')}`")
                model[new] = model.pop(name)
            elif action == "alter" and model.get(name, "view") != "view":
                env.execute_sql(f"ALTER TABLE {quoted} SET ('print-identifier' = 'p{number}')")
                model[name] = f"p{number}"
        if action == "shell":
            env = opened()
        found = {}
        for listed, kind in env.catalog.kinds().items():
            item = env.catalog.resolve([listed])
            options = item.options if isinstance(item, CatalogTable) else {}
            found[listed] = "view" if kind == "VIEW" else options.get("print-identifier", "print")
        assert found == model


# ---- several sessions at once ----------------------------------------------------------------------------------


def test_a_session_sees_what_another_one_does(folder: Path) -> None:
    one, two = shell(), shell()
    one.execute_sql(f"CREATE TABLE t (a INT) {PRINT}")
    assert rows(two, "DESCRIBE t") == ["a"]
    two.execute_sql("DROP TABLE t")
    two.execute_sql(f"CREATE TABLE t (b INT) {PRINT}")
    assert rows(one, "DESCRIBE t") == ["b"]
    two.execute_sql("DROP TABLE t")
    assert rows(one, "SHOW TABLES") == []
    assert fails(lambda: one.execute_sql("DESCRIBE t")).startswith("[CAT002]")


def test_what_another_session_has_dropped_meanwhile(folder: Path) -> None:
    env = shell(f"CREATE TABLE t (a INT) {PRINT}")
    item = env.catalog.resolve(["t"])
    catalog = env.catalog.require_catalog("c")
    shell("DROP TABLE t")
    for action in (lambda: catalog.drop(item.identifier), lambda: catalog.replace(item)):
        assert fails(action) == "[CAT116] 'c.default.t' is no longer there: another session has dropped it"
    assert catalog.create(item) and not catalog.create(item)


def test_many_sessions_that_create_the_same_tables(folder: Path) -> None:
    """Each table is created once, and is whole whenever it is read."""
    names = [f"t{n}" for n in range(12)]

    def work(worker: int) -> int:
        env, made = shell(), 0
        for name in names:
            with suppress(StateplanError):
                env.execute_sql(f"CREATE TABLE {name} (w{worker} INT, b STRING) {PRINT}")
                made += 1
            assert rows(env, f"DESCRIBE {name}")[1] == "b"
        return made

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(work, range(6))) == len(names)
    assert rows(shell(), "SHOW TABLES") == sorted(names)
    assert not [p for p in (folder / "cat").rglob("*") if p.name.endswith(".tmp")]


def test_a_writer_that_was_killed_leaves_nothing_behind_that_counts(folder: Path) -> None:
    shell(f"CREATE TABLE t (a INT) {PRINT}")
    (folder / "cat" / "default" / "tables" / ".u.sql.4711.tmp").write_text("CREATE TAB")
    env = shell(f"CREATE TABLE u (a INT) {PRINT}")
    assert rows(env, "SHOW TABLES") == ["t", "u"]


def test_a_lock_that_somebody_holds_is_waited_for_and_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from stateplan.runtime.checkpoint.locks import locked

    env = shell(f"CREATE TABLE t (a INT) {PRINT}")
    monkeypatch.setattr("stateplan.planner.catalog.file_catalog._WAIT", 0.1)
    with locked(folder / "cat" / ".lock", 0) as taken:
        assert taken
        told = fails(lambda: env.execute_sql(f"CREATE TABLE u (a INT) {PRINT}"))
        assert rows(env, "SHOW TABLES") == ["t"]
    assert told.startswith("[CAT115]") and str(folder / "cat") in told
    env.execute_sql(f"CREATE TABLE u (a INT) {PRINT}")


# ---- what cannot be read or kept -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        (b"", "CAT111", None),
        (b"CREATE TABLE `bad` (\n  a INT,\n  b TEX(\n)", "CAT111", 3),
        (b"CREATE TABLE other (a INT)", "CAT111", None),
        (b"CREATE TABLE x.bad (a INT)", "CAT111", None),
        (b"CREATE TABLE bad (a INT); DROP TABLE good", "CAT111", None),
        (b"DROP TABLE good", "CAT111", None),
        (b"CREATE VIEW bad AS SELECT 1", "CAT111", None),
        (b"CREATE TEMPORARY TABLE bad (a INT)", "CAT111", None),
        (b"CREATE TABLE bad (a INT, b AS nowhere(a))", "CAT111", 1),
        (b"\xff\xfe", "CAT111", None),
        (b"-- stateplan catalog, format 2\nCREATE THING bad", "CAT112", None),
    ],
)
def test_a_file_that_cannot_be_read_hurts_only_its_object(
    folder: Path, text: bytes, code: str, line: int | None
) -> None:
    shell(f"CREATE TABLE good (a INT) {PRINT}")
    file = folder / "cat" / "default" / "tables" / "bad.sql"
    file.write_bytes(text)
    env = shell()
    assert rows(env, "SHOW TABLES") == ["bad", "good"]
    assert rows(env, "DESCRIBE good") == ["a"]
    assert fails(lambda: env.execute_sql("DESCRIBE ba")).startswith("[CAT002]")
    assert complete(env, "SELECT * FROM g", 15) == ["c.`default`.good"]
    with pytest.raises(StateplanError) as raised:
        env.execute_sql("DESCRIBE bad")
    place = raised.value.place
    assert raised.value.code == code and "bad" in raised.value.message
    assert place is not None and place.file == str(file) and place.line == line
    env.execute_sql("DROP TABLE bad")
    assert not file.exists() and rows(env, "SHOW TABLES") == ["good"]


def test_a_broken_view_can_be_shown_and_dropped(folder: Path) -> None:
    shell("CREATE TABLE s (a INT) WITH ('connector' = 'datagen')", "CREATE VIEW v AS SELECT a FROM s", "DROP TABLE s")
    env = shell()
    assert rows(env, "DESCRIBE v") == ["a"]
    assert str(rows(env, "SHOW CREATE VIEW v")[0]).endswith("AS SELECT a FROM s")
    assert fails(lambda: env.execute_sql("EXPLAIN SELECT * FROM v")).startswith("[CAT002]")
    env.execute_sql("DROP VIEW v")


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE t (a INT) WITH ('connector' = 'print', 'password' = 'hunter22')",
        "CREATE TABLE t (a INT) WITH ('connector' = 'x', 'url' = 'jdbc:postgresql://h/d?password=hunter22')",
        "ALTER TABLE kept SET ('password' = 'hunter22')",
        "CREATE VIEW v AS SELECT a FROM kept /*+ OPTIONS('password' = 'hunter22') */",
        "CREATE DATABASE d WITH ('password' = 'hunter22')",
    ],
)
def test_a_secret_is_not_written_to_a_file(folder: Path, statement: str) -> None:
    env = shell("CREATE TABLE kept (a INT) WITH ('connector' = 'datagen')")
    told = fails(lambda: env.execute_sql(statement.replace("datagen", "print")))
    assert told.startswith(("[CAT114]", "[OPT104]")) and "hunter22" not in told
    if "CREATE TABLE" in statement:
        assert "${env:" in told
    assert not any(b"hunter22" in p.read_bytes() for p in folder.rglob("*") if p.is_file())


def test_a_temporary_table_of_a_stored_catalog_may_have_one(folder: Path) -> None:
    env = shell("CREATE TEMPORARY TABLE t (a INT) WITH ('connector' = 'print', 'password' = 'hunter22')")
    assert rows(env, "SHOW TABLES") == ["t"] and rows(shell(), "SHOW TABLES") == []


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of POSIX")
def test_folders_that_cannot_be_used(folder: Path) -> None:
    (folder / "file").write_text("x")
    env = TableEnvironment.create()
    told = fails(lambda: env.execute_sql("CREATE CATALOG c WITH ('type' = 'file', 'path' = 'file')"))
    assert told.startswith("[CAT113]") and "it is a file" in told
    assert fails(lambda: env.execute_sql("CREATE CATALOG c WITH ('type' = 'file')")).startswith("[OPT004]")
    told = fails(lambda: env.execute_sql("CREATE CATALOG c WITH ('type' = 'file', 'path' = 'x', 'paths' = 'y')"))
    assert "has no option 'paths'" in told and "did you mean 'path'?" in told
    long = "x" * 300
    env = shell()
    assert fails(lambda: env.execute_sql(f"CREATE TABLE {long} (a INT) {PRINT}")).startswith("[CAT118]")


def test_completion_knows_stored_objects(folder: Path) -> None:
    shell(f"CREATE TABLE orders (id INT) {PRINT}", "CREATE DATABASE shop", f"CREATE TABLE shop.items (a INT) {PRINT}")
    env = shell()
    for text, wanted in {
        "SELECT * FROM ord": ["c.`default`.orders"],
        "SELECT * FROM c.shop.": ["c.shop.items"],
        "SELECT * FROM c.sh": ["c.shop"],
        "USE CATALOG ": ["c", "default_catalog"],
        "USE s": ["shop"],
        "INSERT INTO shop.i": ["c.shop.items"],
    }.items():
        assert complete(env, text, len(text)) == wanted, text
    assert list(itertools.islice(complete(env, "SELECT i FROM orders", 8), 1)) == ["id"]


# ---- views over tables that change -------------------------------------------------------------------------------


@pytest.mark.parametrize("stored", [False, True])
def test_a_star_in_a_view_stays_what_it_was(folder: Path, stored: bool) -> None:
    data = folder / "rows.json"
    data.write_text('{"id":1,"id2":2,"x":3}\n')
    where = f"WITH ('connector' = 'filesystem', 'path' = '{data}', 'format' = 'json')"
    makes = [
        f"CREATE TABLE t (id INT, id2 INT) {where}",
        "CREATE VIEW v AS SELECT * FROM t",
        "CREATE VIEW w (a, b) AS SELECT * FROM t",
        "CREATE VIEW z AS SELECT x.id FROM t x",
        "ALTER VIEW z AS SELECT * FROM t",
        "CREATE VIEW u (p) AS SELECT b FROM w",
    ]
    env = shell(*makes) if stored else TableEnvironment.create()
    if not stored:
        for statement in makes:
            env.execute_sql(statement)
    for columns in ("id2 INT, id INT", "x INT, id INT, id2 INT", "id2 INT, x INT, id INT"):
        env.execute_sql("DROP TABLE t")
        env.execute_sql(f"CREATE TABLE t ({columns}) {where}")
        again = shell() if stored else env
        for view in ("v", "z"):
            found = again.execute_sql(f"SELECT * FROM {view}")
            assert [*found.columns] == ["id", "id2"]
            assert [tuple(row) for row in found.collect()] == [(1, 2)]
        assert [tuple(row) for row in again.execute_sql("SELECT a, b FROM w").collect()] == [(1, 2)]
        assert [tuple(row) for row in again.execute_sql("SELECT * FROM u").collect()] == [(2,)]
    env.execute_sql("DROP TABLE t")
    env.execute_sql(f"CREATE TABLE t (id2 INT, ident INT) {where}")
    again = shell() if stored else env
    message = fails(lambda: again.execute_sql("SELECT a FROM w"))
    assert "SQL100" in message
    assert "w' no longer has the column 'id'" in message


def test_a_view_of_before_names_of_queries_were_kept(folder: Path) -> None:
    table = "CREATE TABLE t (id INT, id2 INT) WITH ('connector' = 'datagen', 'number-of-rows' = '1')"
    shell(table, "CREATE VIEW w (a, b) AS SELECT * FROM t")
    (file,) = (path for path in folder.rglob("*.sql") if "CREATE VIEW" in path.read_text())
    kept = [line for line in file.read_text().splitlines(keepends=True) if "of the query" not in line]
    assert len(kept) < len(file.read_text().splitlines())
    file.write_text("".join(kept))
    assert [*shell().execute_sql("SELECT * FROM w").columns] == ["a", "b"]

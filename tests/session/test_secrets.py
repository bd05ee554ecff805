"""Secrets in options: they open tables, and stand in no plan, listing, message or file."""

from __future__ import annotations

import importlib
import json
import logging
import pickle
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.cli.sql_client.history import StatementHistory
from stateplan.common.errors import CatalogError, OptionError, Place, SqlError, StateplanError
from stateplan.common.readable import hex_id
from stateplan.common.redaction import MASK, is_secret, masked, redacted, redacted_value, secret_parts
from stateplan.common.secrets import Environment, Secrets, resolve_references
from stateplan.connectors.registry import CONNECTORS
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.node_tables import table_of, with_secrets
from stateplan.gateway.service.job_store import JobStore
from stateplan.gateway.service.service import SqlGatewayService
from stateplan.plans.diff import compare
from stateplan.plans.document import PlanDocument
from stateplan.session.environment import PlanReference, TableEnvironment
from stateplan.session.jobs import JobRecord
from stateplan.session.plan_secrets import without_secrets
from stateplan.session.results import TableResult, ok
from tests.support.command import Command
from tests.support.plan_checks import COMMANDS

PACKAGE = Path(__file__).resolve().parents[1] / "packages" / "stateplan_vault"
SECRET = "hunter2-S3CRET"


@pytest.fixture(scope="module")
def vault() -> Iterator[ModuleType]:
    sys.path.insert(0, str(PACKAGE))
    found = importlib.import_module("stateplan_vault")
    CONNECTORS["vault"] = found.Vault()
    yield found
    del CONNECTORS["vault"]
    sys.path.remove(str(PACKAGE))


Declare = Callable[..., str]


@pytest.fixture
def declare(vault: ModuleType) -> Declare:
    """CREATE TABLE of a table that a key opens."""

    def table(name: str = "t", key: str = SECRET, **options: str) -> str:
        given = {"connector": "vault", "digest": vault.digest(key), **options}
        listed = ", ".join(f"'{k}' = '{text.replace(chr(39), chr(39) * 2)}'" for k, text in given.items())
        return f"CREATE TABLE {name} (a INT) WITH ({listed})"

    return table


def rows(env: TableEnvironment, query: str) -> list[int]:
    return [row[0] for row in env.execute_sql(query).collect()]


# ---- texts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key",
    ["password", "properties.ssl.keystore.password", "storage.aws_secret_access_key", "storage.account_key", "api.key",
     "properties.sasl.jaas.config", "avro-confluent.basic-auth.user-info", "spark.hadoop.fs.s3a.access.key",
     "properties.basic.auth.user.info", "http-headers", "fs.azure.sas-token",
     "pasword", "passwrod", "passwort", "a.Ppassword", "sceret", "properties.pwd", "pass", "db-pw"],
)  # fmt: skip
def test_keys_of_secrets(key: str) -> None:
    assert is_secret(key)


@pytest.mark.parametrize(
    "key",
    [
        "path",
        "username",
        "url",
        "properties.bootstrap.servers",
        "format",
        "sink.parallelism",
        "key.fields",
        "bypass",
        "fields.pass.kind",
    ],
)
def test_keys_of_other_options(key: str) -> None:
    assert not is_secret(key)


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("password", "x", MASK),
        ("password", "", ""),
        ("password", "${env:PW}", "${env:PW}"),
        ("use-token", "true", "true"),
        ("url", "jdbc:postgresql://joe:p@ss@h:5/db?a=b", f"jdbc:postgresql://joe:{MASK}@h:5/db?a=b"),
        ("url", "jdbc:postgresql://h/db?user=joe&password=x&ssl=true", f"jdbc:postgresql://h/db?user=joe&password={MASK}&ssl=true"),
        ("url", "x://${env:U}:pw@h/db?password=${file:/p}", f"x://${{env:U}}:{MASK}@h/db?password=${{file:/p}}"),
        ("hostname", "joe:pw@h", f"joe:{MASK}@h"),
        ("properties.bootstrap.servers", "joe:p:w@a:1, ann:x@b:2,c:3", f"joe:{MASK}@a:1, ann:{MASK}@b:2,c:3"),
        ("url", "host=h password=x user=u", f"host=h password={MASK} user=u"),
        ("path", "abfss://container@account.dfs.core.windows.net/x", "abfss://container@account.dfs.core.windows.net/x"),
        ("path", "s3://bucket/a=b/token=", "s3://bucket/a=b/token="),
        ("properties.sasl.jaas.config", 'o.Plain required username="u" password="x";', MASK),
        ("jaas.config", 'Plain user="${env:U}" password="x";', f'Plain user="${{env:U}}" password="{MASK}";'),
    ],
)  # fmt: skip
def test_values_as_they_are_shown(key: str, value: str, shown: str) -> None:
    assert redacted_value(key, value) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("('connector' = 'j', 'password' = 'it''s', 'a'='')", f"('connector' = 'j', 'password' = '{MASK}', 'a'='')"),
        ("WITH ('password' 'x')", f"WITH ('password' '{MASK}')"),
        ("WITH ('a' = 'b', password = 'it''s', 'c'='d')", f"WITH ('a' = 'b', password = '{MASK}', 'c'='d')"),
        ("with (`pasword`='x')", f"with (`pasword`='{MASK}')"),
        ("WITH ('password' = \"x y\", 'a'='b')", f"WITH ('password' = \"{MASK}\", 'a'='b')"),
        ("WITH ('password' = x, 'a'='b')", f"WITH ('password' = {MASK}, 'a'='b')"),
        ("don't; 'password' = 'x y", f"don't; 'password' = '{MASK}"),
        ("'='=' WITH ('password' = 'Q:Z')", f"'='=' WITH ('password' = '{MASK}')"),
        ("SET spark.x.secret.key = abc;", f"SET spark.x.secret.key = {MASK};"),
        ("SET 'spark.x.secret.key' = 'abc'", f"SET 'spark.x.secret.key' = '{MASK}'"),
        ("SELECT a.token FROM a WHERE a.token=b.token AND password = 'x'", None),
        ("WITH ('password' = '${env:PW}')", None),
        ('{"password" : "a\\"b", "c" : "d"}', f'{{"password" : "{MASK}", "c" : "d"}}'),
        ("{'password': 'x', 'c': 'd'}", f"{{'password': '{MASK}', 'c': 'd'}}"),
        ("options:{a=b, password=x,y, c=d}", f"options:{{a=b, password={MASK}, c=d}}"),
        ("cannot reach postgresql://u:p@h/db", f"cannot reach postgresql://{MASK}@h/db"),
        ("stateplan sql -Dspark.x.password=abc -f x", f"stateplan sql -Dspark.x.password={MASK} -f x"),
    ],
)  # fmt: skip
def test_texts_without_secrets(text: str, shown: str | None) -> None:
    wanted = text if shown is None else shown
    assert redacted(text) == wanted
    assert redacted(wanted) == wanted
    assert len(masked(text)) == len(text)
    assert (masked(text) == text) == (shown is None)


PART = st.text(st.sampled_from("ab'\"\\ =,;&?{}:/@#%\n"), min_size=1, max_size=6).map(lambda text: f"Q{text}Z")


@given(PART, st.text(st.sampled_from("'\"=, ()\nab"), max_size=8))
def test_no_pair_shows_its_secret(secret: str, around: str) -> None:
    quoted = secret.replace("'", "''")
    assert quoted not in redacted(f"{around} WITH ('password' = '{quoted}')")
    assert json.dumps(secret)[1:-1] not in redacted(f'{{"x.password": {json.dumps(secret)}}}')


@given(st.text(st.sampled_from("ab'\"\\ =,;&?{}$:/@"), max_size=40), st.sampled_from(["password", "url", "a"]))
def test_what_is_hidden_is_put_back(value: str, key: str) -> None:
    secrets = Secrets()
    hidden = secrets.hide("c.d.t", {key: value})
    assert secrets.reveal("c.d.t", hidden) == {key: value}
    assert secrets.hide("c.d.t", hidden) == hidden
    assert all(value[a:b] in secrets.values.values() for a, b in secret_parts(key, value))


def test_a_long_text_takes_no_time() -> None:
    plan = json.dumps({"nodes": [{"description": f"a{i}.token = b", "password": "x"} for i in range(20_000)]})
    started = time.process_time()
    assert '"x"' not in redacted(plan) and redacted("'" * 100_000 + "token") is not None
    assert time.process_time() - started < 3


def test_secrets_are_in_no_repr(vault: ModuleType) -> None:
    secrets = Secrets()
    secrets.hide("t", {"password": SECRET})
    assert SECRET not in repr(secrets) and SECRET not in str(secrets)


# ---- errors ----------------------------------------------------------------------------------------------------


def test_an_excerpt_has_stars_for_secrets() -> None:
    line = f"CREATE TABLE t (a INT) WITH ('connector' = 'jdbc', 'password' = '{SECRET}', 'urll' = 'x')"
    error = SqlError("SQL118", text_of="k", place=Place(line=1, column=line.index("'urll'") + 1, length=6, source=line))
    shown = str(error).splitlines()
    assert SECRET not in str(error) and f"'password' = '{'*' * len(SECRET)}'" in str(error)
    assert shown[3][shown[2 + 1].index("^") :] == "^" * 6 and shown[2].index("'urll'") == shown[3].index("^")


def test_a_message_about_a_statement_does_not_quote_its_secrets() -> None:
    line = f"WITH ('password' = '{SECRET}')"
    error = StateplanError.with_text("X001", f"unexpected {SECRET}", hint=f"not {SECRET}", place=Place(source=line))
    assert SECRET not in str(error) and SECRET not in json.dumps(error.to_dict()) and SECRET not in error.encoded()
    again = pickle.loads(pickle.dumps(error))
    assert SECRET not in str(again)


def test_statements_with_secrets_that_are_wrong(declare: Declare) -> None:
    env = TableEnvironment.create()
    env.execute_sql(declare("base", password=SECRET))
    for statement in (
        declare("u", password=SECRET, passwordd="x"),
        f"CREATE TABLE u (a INT) WITH ('password' = '{SECRET}', 'password' = '{SECRET}x')",
        f"CREATE TABLE u (a INT) WITH ('password' '{SECRET}')",
        f"CREATE TABLE u (a INT) WITH ('connector' = 'vault', 'pasword' = '{SECRET}')",
        f"CREATE TABLE u (a INT) WITH ('connector' = 'vault', 'pwd' = '{SECRET}')",
        f"CREATE TABLE u (a INT) WITH ('connector' = 'vault', password = '{SECRET}')",
        f"CREATE TABLE u (a INT) WITH ('connector' = 'vault', 'password' = \"{SECRET}\")",
        f"CREATE TABLE u (a INT) WITH ('connector' = 'vault', 'password' = {SECRET})",
        f"CREATE TABLE u (a INT) WITH ('password' = '{SECRET}'",
        f"CREATE TABLE u WITH ('password' = '{SECRET}-2') LIKE base (INCLUDING OPTIONS)",
        f"CREATE TABLE u (a NOSUCH) WITH ('connector' = 'vault', 'password' = '{SECRET}')",
        f"SELECT nosuch FROM base /*+ OPTIONS('password' = '{SECRET}') */",
        f"SELECT a FROM base /*+ OPTIONS('nosuch' = '1', 'password' = '{SECRET}') */",
    ):
        with pytest.raises(StateplanError) as raised:
            env.execute_sql(statement)
            env.explain_sql("SELECT * FROM u")
        assert SECRET not in str(raised.value), statement
        assert SECRET not in json.dumps(raised.value.to_dict()), statement


# ---- tables ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"password": SECRET}, SECRET),
        ({"password": 'it\'s "so" ${x'}, 'it\'s "so" ${x'),
        ({"url": f"vault://joe:{SECRET}@host/x?token=y"}, SECRET),
        ({"properties.sasl.jaas.config": SECRET, "properties.a": "1"}, f"1{SECRET}"),
        ({"password": "${env:VAULT_KEY}"}, SECRET),
        ({"password": "${file:%s}"}, SECRET),
    ],
)
def test_a_table_opens(
    declare: Declare, options: dict[str, str], key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VAULT_KEY", SECRET)
    (tmp_path / "key").write_text(SECRET + "\n")
    env = TableEnvironment.create()
    env.execute_sql(declare(key=key, **{k: text.replace("%s", str(tmp_path / "key")) for k, text in options.items()}))
    assert rows(env, "SELECT a FROM t") == [0, 1, 2]
    assert rows(env, "SELECT x.a FROM (SELECT a, PROCTIME() AS p FROM t) AS x JOIN t FOR SYSTEM_TIME AS OF x.p AS y "
                     "ON x.a = y.a") == [0, 1, 2]  # fmt: skip


def test_a_hint_opens_a_table(declare: Declare) -> None:
    env = TableEnvironment.create()
    env.execute_sql(declare("t", password="wrong-one"))
    hinted = f"SELECT a FROM t /*+ OPTIONS('password' = '{SECRET}') */"
    assert rows(env, hinted) == [0, 1, 2]
    assert rows(env, f"{hinted} UNION ALL {hinted}") == [0, 1, 2] * 2
    with pytest.raises(StateplanError, match="VAULT001"):
        rows(env, f"{hinted} UNION ALL SELECT a FROM t")


def test_nothing_that_is_shown_has_the_secret(declare: Declare) -> None:
    env = TableEnvironment.create({"spark.x.password": SECRET})
    url = f"vault://joe:{SECRET}@host"
    env.execute_sql(declare("t", password=SECRET, url=url))
    env.execute_sql(declare("s", password=SECRET, file="/x"))
    env.execute_sql(f"CREATE VIEW v AS SELECT a FROM t /*+ OPTIONS('password' = '{SECRET}-9') */")
    insert = f"INSERT INTO s SELECT x.a FROM t AS x JOIN t /*+ OPTIONS('password' = '{SECRET}-2') */ AS y ON x.a = y.a"
    plan = env.compile_plan_sql(insert)
    texts = [
        plan.as_json_string(), repr(plan), str(plan), plan.explain(format="svg"), plan.explain(format="html"),
        plan.explain(format="json"), env.explain_sql(insert, "PLAN_ADVICE", "JSON_EXECUTION_PLAN"),
        env.explain_sql(insert, "CHANGELOG_MODE"), env.explain_sql("SELECT * FROM v"),
        str(env.catalog.resolve(["t"])), repr(env.execute_sql("SELECT a FROM t")),
    ]  # fmt: skip
    for statement in ("SHOW CREATE TABLE t", "SHOW CREATE VIEW v", "DESCRIBE t", "SET", "SET spark.x.password",
                      "SHOW OPTIONS", "SHOW JOBS"):  # fmt: skip
        texts += [str(row) for row in env.execute_sql(statement).collect()]
    for text in texts:
        assert SECRET not in text
    assert f"'password' = '{MASK}'" in env.execute_sql("SHOW CREATE TABLE t").rows[0][0]
    assert f"'url' = 'vault://joe:{MASK}@host'" in env.execute_sql("SHOW CREATE TABLE t").rows[0][0]
    assert '"${session:default_catalog.default_database.t/password#2}"' in plan.as_json_string()


def test_references_are_shown_as_they_are_written(declare: Declare) -> None:
    env = TableEnvironment.create()
    env.execute_sql(declare("s", password="${env:VAULT_KEY}", file="/x"))
    assert "'password' = '${env:VAULT_KEY}'" in env.execute_sql("SHOW CREATE TABLE s").rows[0][0]
    assert '"${env:VAULT_KEY}"' in env.compile_plan_sql("INSERT INTO s VALUES (1)").as_json_string()


def test_a_plan_is_the_same_whatever_the_secret(declare: Declare) -> None:
    plans = set()
    for password in ("one-secret", "another-secret"):
        env = TableEnvironment.create()
        env.execute_sql(declare("s", key="", password=password, file="/x"))
        plans.add(env.compile_plan_sql("INSERT INTO s VALUES (1)").as_json_string())
    assert len(plans) == 1


def test_secrets_of_two_sessions_are_their_own(declare: Declare) -> None:
    sessions = []
    for key in ("one-secret", "another-secret"):
        env = TableEnvironment.create()
        env.execute_sql(declare(key=key, password=key))
        sessions.append(env)
    for _ in range(2):
        for env in sessions:
            assert rows(env, "SELECT a FROM t") == [0, 1, 2]


def test_a_reference_of_another_session_is_refused(declare: Declare) -> None:
    env = TableEnvironment.create()
    env.execute_sql(declare("s", password=SECRET, file="/x"))
    text = env.compile_plan_sql("INSERT INTO s VALUES (1)").as_json_string()
    other = TableEnvironment.create()
    for mode in ("ALL", "ALL_ENFORCED"):
        other.get_config().set("table.plan.restore.catalog-objects", mode)
        with pytest.raises(OptionError) as raised:
            other.load_plan(PlanReference.from_json_string(text)).execute()
        error = raised.value
        assert error.code == "OPT123" and "'default_catalog.default_database.s'" in error.message
        assert "'${env:PASSWORD}'" in str(error.hint) and error.place is not None and error.place.line is not None
    with pytest.raises(OptionError, match="OPT123"):
        resolve_references("${session:x}", "password")


# ---- what is written -------------------------------------------------------------------------------------------


def test_the_history_has_no_secrets(tmp_path: Path) -> None:
    history = StatementHistory(tmp_path / "history")
    history.store_string(f"CREATE TABLE t (a INT) WITH ('password' = '{SECRET}')")
    history.store_string(f"SET spark.x.password = {SECRET}")
    assert SECRET not in (tmp_path / "history").read_text()
    assert next(iter(history.load_history_strings())) == f"SET spark.x.password = {MASK}"


def test_recorded_sql_compares_without_secrets(
    declare: Declare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = TableEnvironment.create()
    env.execute_sql(declare("t", password=SECRET))
    env.execute_sql(declare("s", password=SECRET, file="/x"))
    ran: list[str] = []

    def run_document(document: PlanDocument) -> TableResult:
        ran.append(document.text)
        return ok("RUN")

    monkeypatch.setattr(env.session.starter, "document", run_document)
    compile_plan = (
        f"COMPILE AND EXECUTE PLAN '{tmp_path}/plan.json' FOR "
        f"INSERT INTO s SELECT a FROM t /*+ OPTIONS('password' = '{SECRET}') */"
    )
    env.execute_sql(compile_plan)
    env.execute_sql(compile_plan.replace(SECRET, "another"))
    assert ran == [(tmp_path / "plan.json").read_text()] * 2 and SECRET not in ran[0]
    with pytest.raises(StateplanError, match="PLAN090"):
        env.execute_sql(compile_plan.replace("SELECT a", "SELECT a + 1"))


def test_log_lines_have_no_secrets() -> None:
    from stateplan.cli.gateway import Formatter

    record = logging.makeLogRecord({"msg": "no: postgresql://u:%s@h", "args": (SECRET,)})
    assert Formatter("%(message)s").format(record) == f"no: postgresql://{MASK}@h"


def test_catalog_errors_do_not_quote_options(declare: Declare) -> None:
    env = TableEnvironment.create()
    env.execute_sql(declare("base", password=SECRET))
    with pytest.raises(CatalogError, match="CAT032") as raised:
        env.execute_sql("CREATE TABLE u WITH ('password' = 'other') LIKE base (INCLUDING OPTIONS)")
    assert SECRET not in str(raised.value)


# ---- plans from Flink ------------------------------------------------------------------------------------------

OPEN = f"vault://joe:{SECRET}-1@host"


@pytest.fixture
def flink_plan(declare: Declare) -> str:
    """A plan that has the secrets of its tables in it, as Flink writes one."""
    env = TableEnvironment.create()
    hint = f"/*+ OPTIONS('password' = '{SECRET}-3') */"
    env.execute_sql(declare("t", key=f"{SECRET}-1", url=OPEN))
    env.execute_sql(declare("u", key=f"{SECRET}-3"))
    env.execute_sql(declare("s", password=f"{SECRET}-2", file="/x"))
    insert = f"INSERT INTO s SELECT COUNT(*) FROM (SELECT t.a FROM t JOIN u {hint} ON t.a = u.a) GROUP BY a"
    text = env.compile_plan_sql(insert.replace("COUNT(*)", "CAST(COUNT(*) AS INT)")).as_json_string()
    for name, value in (("t/url", f"{SECRET}-1"), ("s/password", f"{SECRET}-2"), ("u/password", f"{SECRET}-3")):
        text = text.replace(f"${{session:default_catalog.default_database.{name}}}", value)
    assert text.count(f"password={MASK}") == 1 and "${session" not in text
    return text.replace(f"password={MASK}", f"password={SECRET}-3")


def test_loading_does_not_change_a_byte(flink_plan: str) -> None:
    plan = TableEnvironment.create().load_plan(PlanReference.from_json_string(flink_plan))
    assert plan.as_json_string() == flink_plan


def test_a_checkpoint_gets_the_plan_without_its_secrets(flink_plan: str, monkeypatch: pytest.MonkeyPatch) -> None:
    env = TableEnvironment.create()
    started: list[tuple[PlanDocument, ExecGraph, list[str], JobRecord, Secrets]] = []

    def start(*given: Any) -> Any:
        started.append(given)
        return SimpleNamespace(job_id="1", when_over=lambda call: None)

    monkeypatch.setattr(env.session.starter, "_start", start)
    env.load_plan(PlanReference.from_json_string(flink_plan)).execute()
    (document, graph, notes, record, secrets), written = started[0], flink_plan
    for value, name in (("-1", "t/url"), ("-2", "s/password"), ("-3", "u/password")):
        written = written.replace(f'"{SECRET}{value}"', f'"${{session:default_catalog.default_database.{name}}}"')
        written = written.replace(f":{SECRET}{value}@", f":${{session:default_catalog.default_database.{name}}}@")
    assert document.text == written.replace(f"password={SECRET}-3", f"password={MASK}")
    for text in (document.text, json.dumps(graph.to_json()), str(record), repr(secrets), "".join(notes)):
        assert SECRET not in text
    assert sorted(secrets.values.values()) == [f"{SECRET}-1", f"{SECRET}-2", f"{SECRET}-3"]
    assert sum("the plan has secrets in it" in note for note in notes) == 3
    whole = with_secrets(graph, secrets)
    assert OPEN in {table.resolved_table.options.get("url") for n in whole.nodes if (table := table_of(n))}  # type: ignore[union-attr]


def test_an_old_checkpoint_fits_another_secret(flink_plan: str) -> None:
    old = PlanDocument.parse(flink_plan)
    for new in (flink_plan.replace(f'"{SECRET}-2"', '"other"'), without_secrets(old, Secrets()).text):
        diff = compare(old, PlanDocument.parse(new))
        assert diff.may_restart, diff.all_reasons
        assert SECRET not in "".join(map(str, (c for o in diff.operators for c in o.changes)))


def test_no_command_on_a_plan_shows_its_secrets(stateplan: Command, flink_plan: str, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(flink_plan)
    (tmp_path / "old.json").write_text(flink_plan.replace(f"{SECRET}-2", "older-one").replace("joe", "jim"))
    state = next(n for n in PlanDocument.parse(flink_plan).graph.nodes if n.states)
    values = {"plan": tmp_path / "plan.json", "old": tmp_path / "old.json", "folder": tmp_path}
    for name, variants in COMMANDS.items():
        for args in variants:
            if name in ("migrate", "rebase") and "--dry-run" in args and "json" not in args:
                continue  # they write the plan
            filled = [arg.format(**values, state=f"{state.title}.0") for arg in args]
            answer = stateplan("plan", name, *filled)
            assert SECRET not in answer.out + answer.err, (name, args)
    assert SECRET not in (tmp_path / "plan.html").read_text()
    broken = flink_plan.replace('"password" :', '"passwords" : [], "password" :')
    (tmp_path / "broken.json").write_text(broken)
    (tmp_path / "line.json").write_text(json.dumps(json.loads(broken)))
    for file in ("broken", "line"):
        answer = stateplan("plan", "show", tmp_path / f"{file}.json")
        assert answer.code == 3 and SECRET not in answer.out + answer.err


# ---- the command line ------------------------------------------------------------------------------------------


def test_a_script_shows_no_secret(
    stateplan: Command, declare: Declare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script = f"""
    SET 'spark.x.password' = '{SECRET}'; SET;
    {declare("t", password=SECRET, url=OPEN)};
    SHOW CREATE TABLE t; EXPLAIN SELECT a FROM t /*+ OPTIONS('password' = '{SECRET}') */;
    SELECT a FROM t;
    """
    (tmp_path / "script.sql").write_text(script)
    answer = stateplan("sql", "-f", "script.sql")
    assert answer.code == 0 and SECRET not in answer.out + answer.err
    for statement in (f"SELECT nosuch FROM t /*+ OPTIONS('password' = '{SECRET}') */", "SELECT a FROM nosuch"):
        (tmp_path / "wrong.sql").write_text(f"{declare('t', password=SECRET)}; {statement};")
        for more in ((), ("--format", "json")):
            answer = stateplan("sql", "-f", "wrong.sql", *more)
            assert answer.code and SECRET not in answer.out + answer.err, (statement, more)
    answer = stateplan("sql", "-e", "SET", "-D", f"spark.x.password={SECRET}", "-D", f"nosuch.password={SECRET}")
    assert SECRET not in answer.out + answer.err


def test_a_traceback_has_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    from stateplan.cli.command import show_traceback

    try:
        raise OSError(f"no route to postgresql://joe:{SECRET}@host/db?password={SECRET}")
    except OSError as error:
        show_traceback(type(error), error, error.__traceback__)
    shown = capsys.readouterr().err
    assert "OSError: no route to postgresql://" in shown and SECRET not in shown


def test_what_a_reference_stands_for_is_in_no_error(declare: Declare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VAULT_KEY", SECRET)
    env = TableEnvironment.create()
    env.execute_sql(declare("t", rows="${env:VAULT_KEY}"))
    with pytest.raises(OptionError, match="OPT105") as raised:
        env.execute_sql("SELECT a FROM t")
    assert SECRET not in str(raised.value) and "'${env:VAULT_KEY}'" in str(raised.value)


def test_variables_go_where_references_are_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LATE", SECRET)
    monkeypatch.delenv("MISSING", raising=False)
    found = Environment(
        [{"password": "${env:LATE}", "path": "p"}, {"password": "${env:MISSING}", "x": "${file:/LATE}"}]
    )
    sent = pickle.dumps(found)
    assert SECRET not in repr(found)
    monkeypatch.setenv("LATE", "older")
    assert pickle.loads(sent)
    assert resolve_references("${env:LATE}", "password") == SECRET
    with pytest.raises(OptionError, match="OPT120"):
        resolve_references("${env:MISSING}", "password")
    assert not Environment([{"password": "${env:MISSING}"}, {"path": "p"}])


def test_a_path_has_no_references() -> None:
    env = TableEnvironment.create()
    env.execute_sql("CREATE TABLE t (a INT) WITH ('connector'='filesystem', 'path'='${env:HOME}/t', 'format'='json')")
    with pytest.raises(OptionError, match="OPT124"):
        env.execute_sql("SELECT a FROM t")


@pytest.mark.parametrize(
    ("options", "code"),
    [({"spark.x.password": SECRET}, "OPT126"), ({"mine.password": SECRET}, "OPT123")],
)
def test_a_gateway_forgets_secrets_and_says_so(
    declare: Declare, tmp_path: Path, options: dict[str, str], code: str
) -> None:
    env = TableEnvironment.create()
    env.execute_sql(declare("s", password=SECRET, file="/x"))
    plan = env.compile_plan_sql("INSERT INTO s VALUES (1)").as_json_string()
    store = JobStore(tmp_path)
    record = JobRecord("job", "INSERT", plan, options=options)
    record.checkpoint = store.place(record)
    assert record.id is not None
    record.id = hex_id(record.id)
    store.started(record)
    store.release()
    assert all(SECRET not in path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    service = SqlGatewayService(folder=tmp_path, keep_unknown=True)
    try:
        until = time.monotonic() + 30
        while (entry := service.jobs.find(record.id)).is_running:
            assert time.monotonic() < until
            time.sleep(0.02)
    finally:
        service.stop()
    assert entry.status == "FAILED" and f"[{code}]" in str(entry.error)
    assert not Path(record.checkpoint).exists(), "it is refused before anything is written"

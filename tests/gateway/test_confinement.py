"""A gateway with roots: statements, options and plans reach no file elsewhere, whatever they call it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from stateplan.common.errors import GatewayError, OptionError, StateplanError
from stateplan.common.options import Option, OptionType
from stateplan.common.paths import nearest_folder
from stateplan.common.roots import holding
from stateplan.common.settings import OPTIONS
from stateplan.connectors.listing import require_path
from stateplan.connectors.registry import CATALOGS, CONNECTORS, FORMATS
from stateplan.gateway.service.confinement import Confinement
from stateplan.gateway.service.limits import Limits
from stateplan.gateway.service.service import SqlGatewayService
from stateplan.planner.catalog.kinds import OWN
from tests.gateway.in_process_gateway import GatewayHere, gateway_here

TABLE = "(a STRING) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{}')"
INTO = TABLE.removeprefix("(a STRING) ")
SECRET = "S3CRET"


class Confined:
    """A gateway with a root, and a folder beside it that nobody must reach.

    Attributes:
        gateway: with a session.
        root: where files may be used.
        outside: where not.
    """

    def __init__(self, gateway: GatewayHere, folder: Path) -> None:
        self.gateway = gateway
        self.root, self.outside = folder / "root", folder / "outside"
        self.session = gateway.session()
        self._before = self._there()

    def _there(self) -> set[str]:
        """All that is not below the root, nor in the gateway's own folder."""
        below = [p for name in ("outside", "root-evil") for p in (self.root.parent / name).rglob("*")]
        return {str(p) for p in (*below, *self.root.parent.iterdir())}

    def run(self, statement: str, **more: object) -> str:
        """The text of what comes of a statement."""
        return self.gateway.run(self.session, statement, **more).text

    def assert_unharmed(self) -> None:
        """Nothing was read or written elsewhere, as far as that can be seen."""
        assert self._there() == self._before
        assert self.gateway.complaints() == []


@pytest.fixture(scope="module")
def confined(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Confined]:
    folder = tmp_path_factory.mktemp("confined")
    for name in ("root/in", "root/parts/p=fine", "outside/p=S3CRET", "root-evil", "state"):
        (folder / name).mkdir(parents=True)
    (folder / "outside" / "f.json").write_text(json.dumps({"a": SECRET}) + "\n")
    (folder / "root-evil" / "f.json").write_text(json.dumps({"a": SECRET}) + "\n")
    (folder / "root" / "in" / "f.json").write_text('{"a": "fine"}\n')
    (folder / "root" / "link").symlink_to(folder / "outside")
    (folder / "root" / "dots").symlink_to("../outside")
    service = SqlGatewayService(
        Limits(idle_timeout=0), folder=folder / "state", roots=[str(folder / "root")], keep_unknown=True
    )
    with gateway_here(service) as gateway:
        yield Confined(gateway, folder)


@pytest.fixture
def names(confined: Confined) -> list[str]:
    """The folder outside, as hostile statements call it, and others that are not below the root."""
    root, outside = confined.root, confined.outside
    up = os.path.relpath(outside)
    return [
        *(f"{outside}", f"{outside}/f.json", f"{root}/../outside", f"{root}/in/../../outside", f"{root}/./..//outside"),
        *(f"file:{outside}", f"file://{outside}", f"file:////{outside}", f"FILE://{outside}", f"local:{outside}"),
        *(f"file://localhost{outside}", f"file://elsewhere{outside}", f"file://{root}/../outside", f"{root}-evil"),
        *(f"{root}/link", f"{root}/link/f.json", f"{root}/dots", f"file://{root}/link", f"{root}/in/../link/p=S3CRET"),
        *(up, f"./{up}", "", ".", "/", "~", "/proc/self/environ", "/dev/stdin", f"{root}\\..\\outside", f" {outside}"),
        *("memory://x", "s3://bucket/x", "http://127.0.0.1:1/x", "hdfs://h/x", f"simplecache::file://{outside}"),
        *(f"zip://f.json::file://{outside}/a.zip", f"dir://{outside}", "ftp://h/x", "data:text/plain,x"),
    ]


STATEMENTS = (
    *("CREATE TABLE t_new " + TABLE,),
    *("CREATE TABLE t_new (a STRING) WITH ('connector' = 'replay', 'format' = 'json', 'path' = '{}')",),
    *("CREATE TABLE t_new WITH ('path' = '{}') LIKE t", "CREATE TEMPORARY TABLE t_new " + TABLE),
    *("CREATE VIEW v_new AS SELECT * FROM t /*+ OPTIONS('path' = '{}') */", "ALTER TABLE t SET ('path' = '{}')"),
    *("SELECT * FROM t /*+ OPTIONS('path' = '{}') */",),
    *("EXPLAIN SELECT * FROM parts /*+ OPTIONS('path' = '{}') */ WHERE p > ''",),
    *("INSERT INTO t /*+ OPTIONS('path' = '{}') */ SELECT 'x'",),
    *("EXPLAIN INSERT INTO t /*+ OPTIONS('path' = '{}') */ SELECT 'x'",),
    *("EXECUTE STATEMENT SET BEGIN INSERT INTO t /*+ OPTIONS('path' = '{}') */ SELECT 'x'; END",),
    *("COMPILE PLAN '{}' FOR INSERT INTO t SELECT 'x'", "COMPILE PLAN '{}/plan.json' FOR INSERT INTO t SELECT 'x'"),
    *("COMPILE AND EXECUTE PLAN '{}/plan.json' FOR INSERT INTO t SELECT 'x'", "EXECUTE PLAN '{}'"),
    *("EXPLAIN PLAN '{}'", "ALTER PLAN '{}' SET TTL '1 h' FOR deduplicate"),
    *("SET 'execution.checkpointing.dir' = '{}'", "SET 'execution.checkpointing.savepoint-dir' = '{}'"),
    *("SET 'execution.state-recovery.path' = '{}'", "SET 'state.backend.forst.cache.dir' = '{}'"),
    *("SET 'state.checkpoints.dir' = '{}'", "SET 'state.backend.fs.checkpointdir' = '{}'"),
    *("CREATE TABLE t_new " + INTO + " AS SELECT 'x' AS a", "EXPLAIN CREATE TABLE t_new " + INTO + " AS SELECT 'x'"),
    *("CREATE OR REPLACE TABLE t " + INTO + " AS SELECT 'x' AS a", "REPLACE TABLE t " + INTO + " AS SELECT 'x'"),
)


def test_no_statement_reaches_a_file_elsewhere(confined: Confined, names: list[str]) -> None:
    assert "OK" in confined.run("CREATE TABLE t " + TABLE.format(confined.root / "in"))
    parts = (
        "(a STRING, p STRING) PARTITIONED BY (p) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{}')"
    )
    assert "OK" in confined.run(f"CREATE TABLE parts {parts.format(confined.root / 'parts')}")
    for statement in STATEMENTS:
        for name in names:
            said = confined.run(statement.format(name))
            assert "[GW012]" in said, f"{statement.format(name)}: {said[:500]}"
            assert SECRET not in said.replace(name, "")
    assert "fine" in confined.run("SELECT * FROM t")
    confined.assert_unharmed()


def test_no_option_of_a_session_or_of_a_statement_does(confined: Confined, names: list[str]) -> None:
    for name in names:
        options = {"execution.checkpointing.dir": name}
        opened = confined.gateway.http.post("/v4/sessions", json={"properties": options})
        assert opened.status_code == 500 and "[GW012]" in opened.text
        assert "[GW012]" in confined.run("SHOW TABLES", executionConfig=options)
    for key in (
        "spark.jars",
        "spark.driver.extraJavaOptions",
        "pipeline.jars",
        "python.files",
        "metrics.reporters",
        "lineage.openlineage.transport.url",
        "telemetry.opentelemetry.endpoint",
    ):
        assert "[GW013]" in confined.run(f"SET '{key}' = 'x'")
        assert "[GW013]" in confined.run("SHOW TABLES", executionConfig={key: "x"})
        assert "[GW013]" in confined.gateway.http.post("/v4/sessions", json={"properties": {key: "x"}}).text
    confined.assert_unharmed()


def test_a_hint_names_nothing_beside_a_root(tmp_path: Path) -> None:
    """The root may be a folder that does not exist yet."""
    (tmp_path / "team2").mkdir()
    root = tmp_path / "team1"
    with holding(Confinement([str(root)]).roots):
        with pytest.raises(OptionError, match="OPT040") as missing:
            require_path(str(root / "t"), "t")
        assert "team2" not in str(missing.value)
        assert nearest_folder(root) is None
        (root / "orders").mkdir(parents=True)
        with pytest.raises(OptionError, match="did you mean 'orders'"):
            require_path(str(root / "order"), "t")


def test_paths_of_options_are_checked_when_they_are_used(confined: Confined) -> None:
    """A folder may have become a link since the option was set."""
    assert "OK" in confined.run("CREATE TABLE used " + TABLE.format(confined.root / "in"))
    for key in ("execution.checkpointing.dir", "execution.state-recovery.path"):
        folder = confined.root / "used-later"
        folder.mkdir()
        assert "OK" in confined.run(f"SET '{key}' = '{folder}'")
        folder.rmdir()
        folder.symlink_to(confined.outside)
        assert "[GW012]" in confined.run("INSERT INTO used SELECT 'x'")
        assert "OK" in confined.run(f"RESET '{key}'")
        folder.unlink()
    confined.assert_unharmed()


def test_paths_of_the_gateway_itself_may_be_anywhere(tmp_path: Path) -> None:
    confinement, own = Confinement([str(tmp_path / "root")]), tmp_path / "state"
    (tmp_path / "root").mkdir()
    key = "execution.checkpointing.dir"
    for path in (tmp_path / "root" / "c", own / "jobs" / "j" / "checkpoint", f"file:{own}/jobs/j/checkpoint"):
        confinement.check_paths({key: str(path)}, [key], {}, own)
    confinement.check_paths({key: "/set/by/the/gateway"}, [key], {key: "/set/by/the/gateway"}, own)
    for path in (tmp_path, f"{own}-evil", own / ".." / "outside"):
        with pytest.raises(GatewayError, match="GW012"):
            confinement.check_paths({key: str(path)}, [key], {}, own)


def test_no_code_is_loaded(confined: Confined) -> None:
    for statement in (
        "CREATE FUNCTION f AS 'os.system' LANGUAGE PYTHON",
        "CREATE TEMPORARY SYSTEM FUNCTION f AS 'os.system' LANGUAGE PYTHON",
        "ALTER FUNCTION f AS 'os.system' LANGUAGE PYTHON",
    ):
        assert "[GW014]" in confined.run(statement)
    for statement in (
        "ADD JAR '/x.jar'",
        "REMOVE JAR '/x.jar'",
        "CREATE FUNCTION f AS 'x.Y'",
        "CREATE FUNCTION f AS 'x.Y' USING JAR '/x.jar'",
        "LOAD MODULE hive WITH ('hive-version' = '3.1.3')",
        "CREATE CATALOG c WITH ('type' = 'hive', 'hive-conf-dir' = '/etc')",
    ):
        assert confined.gateway.run(confined.session, statement).status_code == 500, statement
    confined.assert_unharmed()


def test_completion_names_no_file_elsewhere(confined: Confined, names: list[str]) -> None:
    path = f"/v4/sessions/{confined.session}/complete-statement"
    (confined.root / "plan.json").write_text("{}")
    for name in (str(confined.root), *names):
        statement = f"EXECUTE PLAN '{name}/"
        asked = {"statement": statement, "position": len(statement)}
        found = confined.gateway.http.request("GET", path, json=asked).json()["candidates"]
        inside = name == str(confined.root)
        assert (f"{name}/plan.json" in found) if inside else found == [], name


def test_a_plan_that_was_written_elsewhere(confined: Confined, tmp_path: Path) -> None:
    """Its tables are those of its text."""
    service = SqlGatewayService(folder=tmp_path / "free")
    session = service.open_session()
    for statement in (
        "CREATE TABLE source " + TABLE.format(confined.outside),
        "CREATE TABLE sink " + TABLE.format(confined.root / "out"),
        "COMPILE PLAN 'plan://reads' FOR INSERT INTO sink SELECT * FROM source",
        "COMPILE PLAN 'plan://writes' FOR INSERT INTO source SELECT * FROM sink",
    ):
        operation = service.submit(session.handle, statement)
        assert operation.wait(30) and operation.error is None
    for name in ("reads", "writes"):
        plan = service.named_plans().read(name)
        assert confined.gateway.http.put(f"/v4/plans/{name}", content=plan).status_code == 201
        assert "[GW012]" in confined.run(f"EXECUTE PLAN 'plan://{name}'")
        for mode in ("ALL", "ALL_ENFORCED"):
            options = {"table.plan.restore.catalog-objects": mode}
            assert "[GW012]" in confined.run(f"EXECUTE PLAN 'plan://{name}'", executionConfig=options)
    service.stop()
    confined.assert_unharmed()


NO_NAMES = (
    *("..", ".", ".hidden", "../x", "..%2fx", "%2e%2e%2fx", "a%2f..%2f..%2fx", "a/../../x", "%00", "a%00"),
    *("%2fetc%2fx", "a b", "é", "x" * 200, "a.tmp", "a%5cb", "a%0ab", "-a", "_a", "%252e%252e", "a;b"),
)


@pytest.mark.parametrize("name", NO_NAMES)
def test_what_is_no_name_of_a_plan(confined: Confined, name: str) -> None:
    there = sorted((confined.root.parent / "state").rglob("*"))
    for method, body in (("PUT", b"{}"), ("GET", b""), ("DELETE", b"")):
        answer = confined.gateway.request(method, f"/v4/plans/{name}", body=body)
        assert answer.status in (400, 404) and answer.json()["errors"], (method, answer)
    assert sorted((confined.root.parent / "state").rglob("*")) == there
    plain = name.replace("%2f", "/").replace("%2e", ".").replace("%00", "\0")
    for statement in ("EXECUTE PLAN", "EXPLAIN PLAN"):
        assert "[GW019]" in confined.run(f"{statement} 'plan://{plain}'"), plain
    confined.assert_unharmed()


def test_links_in_the_folder_of_a_table(confined: Confined) -> None:
    """They are followed where they lead below a root, and refused elsewhere, before the job begins."""
    for name in ("good", "bad", "far"):
        (confined.root / name).mkdir()
    (confined.root / "good" / "f.json").symlink_to(confined.root / "in" / "f.json")
    (confined.root / "bad" / "f.json").symlink_to(confined.outside / "f.json")
    (confined.root / "far" / "sub").symlink_to(confined.root / "bad")
    (confined.root / "good" / "round").symlink_to(confined.root / "good")
    for name in ("good", "bad", "far"):
        assert "OK" in confined.run(f"CREATE TABLE links_{name} " + TABLE.format(confined.root / name))
    (confined.root / "good" / "round").unlink()
    assert "fine" in confined.run("SELECT * FROM links_good")
    for name in ("bad", "far"):
        for statement in (f"SELECT * FROM links_{name}", f"INSERT INTO links_{name} SELECT 'x'"):
            said = confined.run(statement)
            assert "[GW012]" in said and SECRET not in said
    confined.assert_unharmed()


def test_folders_of_a_delta_catalog_that_lead_elsewhere(confined: Confined) -> None:
    warehouse = confined.root / "lake"
    (warehouse / "inner").mkdir(parents=True)
    (warehouse / "far").symlink_to(confined.outside)
    (warehouse / "new").symlink_to(confined.root.parent / "new")
    (warehouse / "inner" / "far").symlink_to(confined.outside / "made")
    options = f"'type' = 'delta', 'warehouse' = '{warehouse}'"
    for name in ("../../outside", ".."):
        said = confined.run(f"CREATE CATALOG up WITH ({options}, 'default-database' = '{name}')")
        assert "[CAT118]" in said, name
    assert "OK" in confined.run(f"CREATE CATALOG far WITH ({options}, 'default-database' = 'far')")
    assert "OK" in confined.run(f"CREATE CATALOG lake WITH ({options})")
    for statement in (
        "CREATE TABLE far.far.made (a STRING)",
        "CREATE TABLE lake.far.made (a STRING)",
        "CREATE TABLE lake.`inner`.far (a STRING)",
        "CREATE DATABASE lake.`new`",
        "SHOW TABLES FROM lake.far",
        "DROP DATABASE lake.far",
    ):
        assert "[GW012]" in confined.run(statement), statement
    confined.assert_unharmed()


# which options name files

NO_PATHS = {
    *(
        "table.exec.state.budget",
        "table.column-expansion-strategy",
        "late-rows.table",
        "backfill.table",
        "errors.table",
        "table.catalog-store.kind",
        "default-database",
        "username",
        "password",
        "properties.*",
        "storage.*",
    ),
    *("fields.#.min", "fields.#.max", "fields.#.start", "fields.#.end"),
    *("field-delimiter", "quote-character", "escape-character", "null-literal", "array-element-delimiter", "digest"),
    *(
        "line-delimiter",
        "channel",
        "print-identifier",
        "database.include",
        "table.include",
        "watermark.alignment.group",
    ),
    *("partition.default-name", "map-null-key.literal", "source.path.regex-pattern", "partition.time-extractor.kind"),
    *("partition.time-extractor.class", "partition.time-extractor.timestamp-pattern", "schema", "compression"),
    *("partition.time-extractor.timestamp-formatter", "sink.partition-commit.watermark-time-zone"),
    *(
        "sink.partition-commit.policy.kind",
        "sink.partition-commit.policy.class",
        "sink.partition-commit.success-file.name",
    ),
    *(
        "sink.partition-commit.policy.class.parameters",
        "table.local-time-zone",
        "pipeline.name",
        "lineage.openlineage.namespace",
        "telemetry.opentelemetry.endpoint",
        "telemetry.opentelemetry.signals",
        "table.exec.uid.format",
    ),
    *("basic-auth.credentials-source", "basic-auth.user-info", "bearer-auth.credentials-source"),
    *("bearer-auth.token", "charset", "compatible-mode", "database-name", "debezium.*"),
    *("debezium.publication.name", "decoding.plugin.name", "delta.dataSkippingStatsColumns", "hostname", "key.fields"),
    *("key.fields-prefix", "lookup.full-cache.timed-reload.iso-time", "properties"),
    *("scan.bounded.specific-offsets", "scan.partition.column", "scan.startup.specific-offsets"),
    *("scan.watermark.alignment.group", "schema-registry.schema", "schema-registry.subject"),
    *("sink.transactional-id-prefix", "slot.name", "ssl.keystore.password", "startingTimestamp"),
    *("startingVersion", "subject", "table-name", "timestampAsOf", "topic"),
    # Iceberg: names, logins and layouts. What options of stores name, the connector says itself: its places. Properties
    # such as write.data.path end in a word of a path.
    *("catalog-name", "catalog-database", "catalog-table", "branch", "tag", "partitioning", "sort-order"),
    *("audience", "credential", "prefix", "resource", "scope", "token", "header.*"),
    *("adls.*", "gcs.*", "hdfs.*", "s3.*", "commit.*", "history.*", "read.*", "write.*"),
}


def test_every_option_with_a_text_is_known_to_name_a_file_or_not() -> None:
    """An option that comes to be has to be told apart here: by its key, the gateway sees which ones are paths."""
    makers = (*CONNECTORS.values(), *FORMATS.values(), *CATALOGS.values(), *OWN.values())
    rows: list[Option] = [*OPTIONS.values(), *(option for maker in makers for option in maker.options)]
    checked = Confinement(["/nowhere/at/all"])
    free = set()
    for key in {row.key for row in rows if row.type is OptionType.STRING and not row.no_effect}:
        try:
            checked.check_option(key, "/etc/passwd")
        except GatewayError:
            continue
        free.add(key)
    # of a client library, whose names are checked as they are written
    assert {key for key in free - NO_PATHS if not key.startswith("properties.")} == set()


@pytest.mark.parametrize(
    ("root", "path", "inside"),
    [
        ("s3://bucket/root", "s3a://bucket/root/x", True),
        ("s3://bucket/root", "s3://bucket/root", True),
        ("s3://bucket/root", "s3://bucket/rooted", False),
        ("s3://bucket/root", "s3://other/root/x", False),
        ("s3://bucket/root", "s3://bucket/root/../x", False),
        ("s3://bucket/root", "s3://bucket/x/../root/y", False),
        ("s3://bucket/root", "s3://key@bucket/root/x", False),
        ("s3://bucket/root", "s3://bucket/root/%2e%2e/x", False),
        ("s3://bucket/root", "/bucket/root/x", False),
        ("hdfs:///data", "hdfs:///data/x", True),
        ("hdfs:///data", "hdfs:/data/x", True),
        ("hdfs:///data", "hdfs://data/x", False),
        ("hdfs://data", "hdfs:///data/x", False),
        ("s3://bucket/a/b", "s3://bucket/a//b", False),
        ("s3://bucket", "s3://bucket/a", True),
        ("s3://bucket", "s3://bucket-b/a", False),
        ("/", "/etc", True),
        *(("http://h/root", f"http://h/root/{way}", False) for way in ("..?/x", "..#/x", "..;/x", ".\n./x", ".\t./x")),
        *(("https://h:1", f"https://h:1/,{other}", False) for other in ("https://evil", "https:\n//evil")),
        ("https://h:1", "https://h:1/x?a=..b", True),
    ],
)
def test_roots_that_are_urls(root: str, path: str, inside: bool) -> None:
    def is_inside() -> bool:
        try:
            Confinement([root]).check_file(path)
        except StateplanError:
            return False
        return True

    assert is_inside() == inside


@pytest.mark.parametrize("root", ["", " ", "s3://bucket/../x", "file://host/x", "a\0b", "s3://key@bucket/x"])
def test_a_text_that_is_no_root(root: str) -> None:
    """Without this, an empty variable of a shell would open the current folder."""
    with pytest.raises(GatewayError, match=r"GW017.*the root"):
        Confinement([root])


# references


def test_references_to_files_elsewhere_and_to_the_environment_are_refused(confined: Confined, names: list[str]) -> None:
    table = "CREATE TABLE referring (a STRING) WITH ('connector' = 'c', 'password' = '{}')"
    for name in (name for name in names if name.strip()):
        assert "[GW012]" in confined.run(table.format("a${file:" + name + "}b")), name
    for name in ("HOME", "AWS_SECRET_ACCESS_KEY", ""):
        assert "[OPT125]" in confined.run(table.format("${env:" + name + "}")), name
    assert "OK" in confined.run(table.format("${file:" + str(confined.root / "key") + "}"))
    for statement in (
        "ALTER TABLE referring SET ('url' = 'x', 'user' = '${env:HOME}')",
        "SELECT * FROM referring /*+ OPTIONS('user' = '${env:HOME}') */",
    ):
        said = confined.run(statement)
        assert "[OPT125]" in said or "[GW012]" in said, statement
    confined.assert_unharmed()


def test_references_that_are_allowed(tmp_path: Path) -> None:
    confinement = Confinement([str(tmp_path)], ["PGPASSWORD"])
    confinement.check_table({"password": "${env:PGPASSWORD}", "key": f"${{file:{tmp_path}/key}}"})
    with pytest.raises(OptionError) as raised:
        confinement.check_table({"password": "${env:PGPASSWORD2}"})
    assert raised.value.code == "OPT125" and raised.value.expected == "one of ${env:PGPASSWORD}"
    with pytest.raises(GatewayError, match="GW012"):  # it is only known later where it leads
        confinement.check_table({"path": f"${{file:{tmp_path}/key}}"})
    for key, code in (("properties.sasl.kerberos.kinit.cmd", "GW013"), ("properties.sasl.kerberos.keytab", "GW012")):
        with pytest.raises(GatewayError, match=code):
            confinement.check_table({key: "/bin/sh"})
    Confinement().check_table({"password": "${env:HOME}", "key": "${file:/etc/passwd}"})


# servers

BROKER, DATABASE = "broker:9092", "jdbc:postgresql://db:5432"
SERVERS = "properties.bootstrap.servers"
KAFKA = {"connector": "kafka", "topic": "t", SERVERS: BROKER}
CDC = {"connector": "postgres-cdc", "hostname": "db", "database-name": "shop", "slot.name": "s"}
JDBC = {"connector": "jdbc", "url": f"{DATABASE}/shop"}
DELTA = {"connector": "delta", "table-path": "/roots/t"}
PG = {"type": "jdbc", "base-url": DATABASE}


@pytest.mark.parametrize(
    "options",
    [
        *(KAFKA, {**KAFKA, "connector": "upsert-kafka"}, {**KAFKA, "properties.metadata.broker.list": "broker"}),
        *({**KAFKA, "properties.ssl.ca.location": "/roots/ca.pem"}, CDC, {**CDC, "port": "5432"}, JDBC, PG),
        {**KAFKA, "properties.sasl.oauthbearer.metadata.authentication.type": "none"},
        {**DELTA, "storage.aws_region": "eu", "storage.AWS_SECRET_ACCESS_KEY": "x", "storage.timeout": "5s"},
        *({**JDBC, "properties.sslrootcert": "system"}, {**JDBC, "properties.sslrootcert": "/roots/ca.pem"}),
    ],
)
def test_servers_that_are_roots(options: dict[str, str]) -> None:
    Confinement(["/roots", f"kafka://{BROKER}", DATABASE]).check_table(options)


@pytest.mark.parametrize(
    "options",
    [
        *({**KAFKA, SERVERS: f"{BROKER}{more}"} for more in ("0", ",evil:9092", "/x,evil:9092")),
        *({**KAFKA, SERVERS: text} for text in ("evil:9092", f"SSL://{BROKER}", "${env:BROKER}")),
        *({**KAFKA, "properties.metadata.broker.list": "x"}, {**KAFKA, "connector": "upsert-kafka", SERVERS: "x"}),
        {**KAFKA, "properties.sasl.jaas.config": 'a.Krb5LoginModule required keyTab="/etc/krb5.keytab";'},
        {**KAFKA, "properties.sasl.oauthbearer.token.endpoint.url": "https://evil/token"},
        {**KAFKA, "properties.ssl.providers": "../../tmp/evil"},
        {**KAFKA, "properties.sasl.oauthbearer.metadata.authentication.type": "azure_imds"},
        {**KAFKA, "properties.sasl.oauthbearer.metadata.authentication.type": "${env:BROKER}"},
        {**KAFKA, "properties.sasl.kerberos.principal": "x; touch /tmp/evil"},
        {**KAFKA, "properties.sasl.kerberos.keytab": '/roots/k"; touch /tmp/evil; "'},
        {**KAFKA, "properties.sasl.jaas.config": 'a.Krb5LoginModule required principal="$(touch x)";'},
        *({**DELTA, f"storage.{name}": "http://evil"} for name in ("AWS_ENDPOINT_URL", "endpoint")),
        *({**DELTA, f"storage.{name}": "169.254.169.254"} for name in ("aws_metadata_endpoint", "identity_endpoint")),
        *({**DELTA, f"storage.{name}": "/etc/key"} for name in ("google_service_account", "service_account_path")),
        {**DELTA, "storage.azure_use_azure_cli": "true"},
        *({**DELTA, f"storage.{name}": "evil.com/"} for name in ("aws_region", "azure_storage_account_name")),
        *({**DELTA, "storage.region": text} for text in ("evil.com?", "evil.com#", "x@evil.com", "${file:/roots/x}")),
        *({**CDC, "hostname": text} for text in ("evil", "db,evil", "db:5432/x,evil", "${env:BROKER}", "/run", "")),
        *({**CDC, "port": text} for text in ("5433", "5432,5433", "5432/x")),
        *({**JDBC, "url": f"{DATABASE}{more}"} for more in (",evil/shop", "3/shop", "/shop?hostaddr=10.0.0.1")),
        *({**JDBC, f"properties.{key}": "/etc/passwd"} for key in ("sslcert", "sslkey", "sslrootcert", "passfile")),
        *({**JDBC, "properties.hostaddr": "10.0.0.1"}, {**JDBC, "properties.service": "evil"}),
        *({**JDBC, "url": f"{DATABASE}/shop?sslkey=/etc/key"}, {**PG, "base-url": "jdbc:postgresql://evil:5432"}),
        *({**PG, "properties.hostaddr": "10.0.0.1"}, {**PG, "base-url": f"{DATABASE}?passfile=/etc/passwd"}),
    ],
)  # fmt: skip
def test_servers_that_are_none(options: dict[str, str]) -> None:
    confinement = Confinement(["/roots", f"kafka://{BROKER}", DATABASE], ["BROKER"])
    with pytest.raises(GatewayError, match=r"GW012|GW013"):
        confinement.check_table(options)
    Confinement().check_table(options)


def test_a_database_that_is_a_root() -> None:
    confinement = Confinement([f"{DATABASE}/shop"])
    confinement.check_table(CDC)
    confinement.check_table(JDBC)
    for other in ({**CDC, "database-name": "bank"}, {**CDC, "database-name": "shop2"}, {**JDBC, "url": DATABASE}):
        with pytest.raises(GatewayError, match="GW012"):
            confinement.check_table(other)


def test_no_statement_reaches_a_server_elsewhere(confined: Confined) -> None:
    """The broker is checked before it is asked: nothing listens at this port."""
    servers = f"'{SERVERS}' = '127.0.0.1:1'"
    kafka = "'connector' = 'kafka', 'topic' = 't', 'format' = 'json'"
    said = confined.run(f"CREATE TABLE topic (a STRING) WITH ({kafka}, {servers})")
    assert "[GW012] the server '127.0.0.1:1' is not a root" in said
    assert "'--root kafka://HOST:PORT'" in said
    assert "OK" in confined.run(f"CREATE TABLE unfinished (a STRING) WITH ({kafka})")
    for statement in (
        f"CREATE TABLE topic WITH ({kafka}, {servers}) LIKE unfinished",
        f"CREATE TEMPORARY TABLE topic (a STRING) WITH ({kafka}, {servers})",
        f"ALTER TABLE unfinished SET ({kafka}, {servers})",
        f"SELECT * FROM unfinished /*+ OPTIONS({servers}) */",
        f"INSERT INTO unfinished /*+ OPTIONS({servers}) */ SELECT 'x'",
    ):
        assert "[GW012]" in confined.run(statement), statement
    assert "OK" in confined.run(f"ALTER TABLE unfinished SET ({servers})")  # the connector is not looked at here
    for statement in ("SELECT * FROM unfinished", "INSERT INTO unfinished SELECT 'x'"):
        assert "[GW012]" in confined.run(statement), statement
    confined.assert_unharmed()

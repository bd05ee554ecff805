"""``avro-confluent`` and ``debezium-avro-confluent`` with a schema registry that answers over HTTP."""

from __future__ import annotations

import base64
import datetime as dt
import io
import json
import pickle
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import fastavro
import polars as pl
import pytest

from stateplan.common.errors import DataError, OptionError, StateplanError
from stateplan.common.types import parse_type
from stateplan.connectors.formats.avro_schema import event_schema, schema_text, table_schema
from stateplan.connectors.formats.base import Fields, format_options
from stateplan.connectors.registry import FORMATS
from stateplan.session.environment import TableEnvironment
from tests.connectors.schema_registry import SchemaRegistry, running

if TYPE_CHECKING:
    from tests.support.kafka import Kafka

CONFLUENT, DEBEZIUM = FORMATS["avro-confluent"], FORMATS["debezium-avro-confluent"]
NONE: Mapping[str, str] = MappingProxyType({})
COLUMNS: Fields = [("id", parse_type("BIGINT NOT NULL")), ("name", parse_type("STRING"))]
FRAME = pl.DataFrame({"c0": [1, 2], "c1": ["x", None]})
SOON = {"properties.http.read.timeout.ms": "600"}


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with running() as server:
        yield server


def options(registry: SchemaRegistry, more: Mapping[str, str] = NONE, name: str = "avro-confluent") -> dict[str, str]:
    return {f"{name}.{key}": text for key, text in {"url": registry.url, "subject": "t-value", **more}.items()}


def write(registry: SchemaRegistry, more: Mapping[str, str] = NONE) -> list[bytes]:
    encoder = pickle.loads(pickle.dumps(CONFLUENT.message_encoder(options(registry, more), COLUMNS)))
    written: list[bytes] = encoder.messages(FRAME).to_list()
    return written


def read(registry: SchemaRegistry, data: list[bytes | None], more: Mapping[str, str] = NONE) -> Any:
    decoder = CONFLUENT.message_decoder(options(registry, more), COLUMNS, (0, 1))
    return pickle.loads(pickle.dumps(decoder)).messages(data)


def message(number: int, schema: Any, value: Any) -> bytes:
    stream = io.BytesIO(b"\0" + number.to_bytes(4, "big"))
    stream.seek(5)
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return stream.getvalue()


def record(*fields: tuple[str, Any], **more: Any) -> Any:
    return {"type": "record", "name": "Theirs", "fields": [{"name": n, "type": t} for n, t in fields], **more}


# ---- reading and writing ---------------------------------------------------------------------------------------


def test_a_sink_registers_its_schema_and_a_source_reads_it(registry: SchemaRegistry) -> None:
    written = write(registry)
    assert json.loads(registry.schemas[0]["schema"]) == table_schema(COLUMNS, True)
    assert registry.subjects == {"t-value": [1]}
    assert [m[:5] for m in written] == [b"\0\0\0\0\1"] * 2
    frame, places = read(registry, [None, *written])
    assert frame.equals(FRAME) and places.tolist() == [1, 2]
    again = write(registry)
    assert again == written
    assert registry.asked == ["POST /subjects/t-value/versions", "GET /schemas/ids/1"]


def test_no_rows_ask_nothing(registry: SchemaRegistry) -> None:
    assert CONFLUENT.message_encoder(options(registry), COLUMNS).messages(FRAME.head(0)).dtype == pl.Binary
    frame, places = read(registry, [None])
    assert frame.schema == pl.Schema({"c0": pl.Int64, "c1": pl.String}) and places.tolist() == []
    assert registry.asked == []


def test_schemas_of_other_writers_change_from_message_to_message(registry: SchemaRegistry) -> None:
    old = record(("id", "int"))
    new = record(("extra", ["null", "double"]), ("name", "string"), ("id", "long"))
    enum = record(("name", {"type": "enum", "name": "E", "symbols": ["A", "B"]}), ("id", "long"))
    ids = [registry.add("t-value", schema) for schema in (old, new, enum)]
    data: list[bytes | None] = [
        message(ids[0], old, {"id": 1}),
        message(ids[1], new, {"id": 2, "name": "y", "extra": 0.5}),
        None,
        message(ids[0], old, {"id": 3}),
        message(ids[2], enum, {"id": 4, "name": "B"}),
        message(ids[2], enum, {"id": 5, "name": "A"}),
    ]
    frame, places = read(registry, data)
    assert frame.rows() == [(1, None), (2, "y"), (3, None), (4, "B"), (5, "A")]
    assert places.tolist() == [0, 1, 3, 4, 5]
    assert len(registry.asked) == 3


def test_a_schema_may_refer_to_another(registry: SchemaRegistry) -> None:
    part = {"type": "record", "name": "n.Part", "fields": [{"name": "x", "type": "int"}]}
    registry.add("part", part)
    whole = record(("p", "n.Part"), ("q", ["null", "n.Part"]))
    reference = {"name": "n.Part", "subject": "part", "version": 1}
    number = registry.add("t-value", json.dumps(whole), references=[reference])
    inline = record(("p", part), ("q", ["null", "n.Part"]))
    columns = [("q", parse_type("ROW<x BIGINT>")), ("p", parse_type("ROW<x INT>"))]
    data = [message(number, inline, {"p": {"x": 1}, "q": {"x": 2}})] * 2
    frame, _ = CONFLUENT.message_decoder(options(registry), columns, (0, 1)).messages(data)
    assert frame.rows() == [({"x": 2}, {"x": 1})] * 2


def test_the_subject_comes_from_the_topic() -> None:
    written = CONFLUENT.for_topic({"avro-confluent.url": "u"}, "orders", "value")
    assert written["avro-confluent.subject"] == "orders-value"
    own = format_options({"key.avro-confluent.subject": "mine", "key.format": "avro-confluent"}, "key.format")
    assert CONFLUENT.for_topic(own, "orders", "key")["avro-confluent.subject"] == "mine"
    with pytest.raises(OptionError, match=r"OPT186.*'avro-confluent.subject'"):
        CONFLUENT.message_encoder({"avro-confluent.url": "http://x"}, COLUMNS)


def test_older_names_of_options(registry: SchemaRegistry) -> None:
    table = {f"avro-confluent.schema-registry.{k}": v for k, v in {"url": registry.url, "subject": "old"}.items()}
    assert CONFLUENT.message_encoder(table, COLUMNS).messages(FRAME).len() == 2
    assert list(registry.subjects) == ["old"]
    with pytest.raises(OptionError, match=r"OPT101.*'avro-confluent.url'"):
        CONFLUENT.check_columns({}, COLUMNS)


def test_schemas_are_looked_up_where_they_are_not_registered(registry: SchemaRegistry) -> None:
    more = {"auto.register.schemas": "false"}
    with pytest.raises(DataError, match=r"DATA467.*subject 't-value'.*does not have the schema"):
        write(registry, more)
    number = registry.add("t-value", schema_text(table_schema(COLUMNS, True)))
    assert write(registry, more)[0][:5] == b"\0" + number.to_bytes(4, "big")
    assert registry.asked == ["POST /subjects/t-value"] * 2


def test_a_schema_of_the_user(registry: SchemaRegistry) -> None:
    fields = [{"name": "id", "type": "long"}, {"name": "name", "type": ["string", "null"], "default": "none"}]
    schema = {"type": "record", "name": "com.example.Person", "fields": fields}
    written = write(registry, {"schema": json.dumps(schema)})
    assert json.loads(registry.schemas[0]["schema"]) == schema
    assert written[0][5:] == b"\x02\x00\x02x" and written[1][5:] == b"\x04\x02"
    short = record(("id", "long"))
    number = registry.add("t-value", short)
    frame, _ = read(registry, [*written, message(number, short, {"id": 3})], {"schema": json.dumps(schema)})
    assert frame.rows() == [(1, "x"), (2, None), (3, "none")]


def test_values_that_the_schema_of_the_user_does_not_have(registry: SchemaRegistry) -> None:
    enum = {"type": "enum", "name": "E", "symbols": ["a"]}
    schema = json.dumps(record(("id", "long"), ("name", ["null", enum])))
    with pytest.raises(DataError, match=r"DATA471.*the value x of the column 'name'"):
        write(registry, {"schema": schema})


@pytest.mark.parametrize(
    ("schema", "code", "says"),
    [
        ("{", "OPT182", "is not an Avro schema"),
        ('"int"', "OPT182", "gives INT NOT NULL"),
        ('{"type":"record","name":"r"}', "OPT182", "gives ROW<>"),
        (
            '{"type":"record","name":"r","fields":[{"name":"id","type":"int"}]}',
            "OPT182",
            "gives ROW<`id` INT NOT NULL>",
        ),
        ("[[[", "OPT182", "is not an Avro schema"),
    ],
)
def test_schemas_of_the_user_that_do_not_fit(schema: str, code: str, says: str) -> None:
    with pytest.raises(OptionError, match=code) as caught:
        CONFLUENT.check_columns({"avro-confluent.url": "http://x", "avro-confluent.schema": schema}, COLUMNS)
    assert says in caught.value.message


# ---- errors ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "code", "says"),
    [
        (b"", "DATA463", "it has 0 bytes"),
        (b"\0\0\0\1", "DATA463", "it has 4 bytes"),
        (b"\1\0\0\0\1\2", "DATA463", "it begins with the byte 0x01"),
        (b"\0\0\0\0\x63\2", "DATA464", "no schema with the id 99"),
        (b"\0\0\0\0\1", "DATA460", "the bytes end too early"),
        (b"\0\0\0\0\2\2", "DATA464", "is PROTOBUF, and not Avro"),
        (b"\0\0\0\0\3\2", "DATA461", "is not an Avro schema"),
        (b"\0\0\0\0\4\2", "DATA461", "the schema of the data is int"),
        (b"\0\0\0\0\5\2", "DATA461", "no field 'id'"),
    ],
)
def test_messages_that_cannot_be_read(registry: SchemaRegistry, data: bytes, code: str, says: str) -> None:
    registry.add("a", record(("id", "long")))
    registry.add("b", 'syntax = "proto3";', schemaType="PROTOBUF")
    registry.add("c", record(("id", "nothing")))
    registry.add("d", '"int"')
    registry.add("e", record(("name", "string")))
    with pytest.raises(DataError, match=code) as caught:
        read(registry, [message(1, record(("id", "long")), {"id": 1}), None, data])
    assert says in caught.value.message
    assert caught.value.place is not None and caught.value.place.line == 3


def test_an_incompatible_schema_is_refused(registry: SchemaRegistry) -> None:
    registry.add("t-value", record(("other", "long")))
    with pytest.raises(DataError, match=r"DATA467.*subject 't-value'.*incompatible") as caught:
        write(registry)
    assert caught.value.hint is not None and "org.apache.flink.avro.generated" in caught.value.hint


def test_a_registry_that_comes_back_is_waited_for(registry: SchemaRegistry) -> None:
    registry.failing = 2
    assert len(write(registry)) == 2
    assert len(registry.asked) == 3


def test_a_registry_that_is_gone(registry: SchemaRegistry) -> None:
    registry.url = f"http://127.0.0.1:{free_port()}"
    started = time.monotonic()
    with pytest.raises(DataError, match=r"DATA465.*did not answer within 0.6 s"):
        write(registry, SOON)
    assert time.monotonic() - started < 3


def test_a_registry_that_does_not_answer(registry: SchemaRegistry) -> None:
    registry.delay = 1.5
    with pytest.raises(DataError, match=r"DATA465.*within 0.6 s: timed out"):
        write(registry, SOON)


def test_the_next_of_several_registries_is_asked(registry: SchemaRegistry) -> None:
    first, registry.url = registry.url, f"http://127.0.0.1:{free_port()},{registry.url}"
    assert len(write(registry)) == 2
    assert first.endswith(registry.url[-5:])


@pytest.mark.parametrize("answer", [(200, "<html>"), (200, '{"id": "x"}'), (418, "teapot"), (200, "[]"), (302, "")])
def test_answers_of_something_else(registry: SchemaRegistry, answer: tuple[int, str]) -> None:
    registry.answer = answer
    with pytest.raises(DataError, match=r"DATA465.*gave no readable answer"):
        write(registry)
    with pytest.raises(DataError, match=r"DATA465.*gave no readable answer"):
        read(registry, [b"\0\0\0\0\1\2"])


@pytest.mark.parametrize(
    "url", ["nonsense", "http://", "http://[", "ftp://host/x", "http://host.invalid:80", "http://127.0.0.1:99999"]
)
def test_addresses_that_lead_nowhere(url: str) -> None:
    table = {"avro-confluent.url": url, "avro-confluent.properties": "http.read.timeout.ms:200"}
    with pytest.raises(StateplanError, match=r"DATA465|OPT187"):
        CONFLUENT.message_decoder(table, COLUMNS, (0, 1)).messages([b"\0\0\0\0\1\2"])


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


# ---- access ----------------------------------------------------------------------------------------------------

SECRET = "s3cr3t:with/colon"


def test_credentials(registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    registry.login = f"user:{SECRET}"
    monkeypatch.setenv("REGISTRY", registry.login)
    (tmp_path / "login").write_text(registry.login + "\n")
    source = {"basic-auth.credentials-source": "USER_INFO"}
    for more in (
        {"basic-auth.user-info": registry.login},
        {"basic-auth.user-info": "${env:REGISTRY}", **source},
        {"basic-auth.user-info": f"${{file:{tmp_path / 'login'}}}", **source},
        {"url": registry.url.replace("//", "//user:s3cr3t%3Awith%2Fcolon@"), "basic-auth.credentials-source": "URL"},
    ):
        assert len(write(registry, {"subject": str(more), **more})) == 2
    registry.login, registry.token = None, "t0ken"
    assert len(write(registry, {"subject": "by token", "bearer-auth.token": "t0ken"})) == 2


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"basic-auth.user-info": f"user:{SECRET}x"},
        {"bearer-auth.token": SECRET},
        {"basic-auth.user-info": f"user:{SECRET}", "basic-auth.credentials-source": "URL"},
    ],
)
def test_wrong_credentials_are_an_error_without_them(registry: SchemaRegistry, more: dict[str, str]) -> None:
    registry.login = f"user:{SECRET}"
    with pytest.raises(DataError, match=r"DATA466.*refuses access \(status 401\): Unauthorized") as caught:
        write(registry, more)
    assert "s3cr3t" not in str(caught.value)


def test_secrets_are_in_no_text(registry: SchemaRegistry) -> None:
    registry.answer = (409, json.dumps({"message": f"you are user:{SECRET} and {SECRET}"}))
    more = {"basic-auth.user-info": f"user:{SECRET}", "url": registry.url.replace("//", "//me:other@")}
    encoder = CONFLUENT.message_encoder(options(registry, more), COLUMNS)
    with pytest.raises(DataError, match="DATA467") as caught:
        encoder.messages(FRAME)
    shown = str(caught.value) + repr(encoder)
    assert "s3cr3t" not in shown and "other" not in shown
    assert "you are ****** and ******" in shown


def test_a_password_of_the_url_is_in_no_answer_that_is_shown(registry: SchemaRegistry) -> None:
    sent = base64.b64encode(b"me:oth er!").decode()
    registry.answer = (409, json.dumps({"message": f"not me:oth er!, oth%20er%21 or {sent}"}))
    more = {"url": registry.url.replace("//", "//me:oth%20er!@")}
    with pytest.raises(DataError, match="DATA467") as caught:
        CONFLUENT.message_encoder(options(registry, more), COLUMNS).messages(FRAME)
    assert "not ******, ****** or ******" in str(caught.value)


@pytest.mark.parametrize(
    ("more", "code", "says"),
    [
        ({"properties.http.read.timeout.ms": "soon"}, "OPT183", "not a number of milliseconds"),
        ({"properties": "http.read.timeout:5"}, "OPT183", "no setting 'http.read.timeout'"),
        ({"properties.basic.auth.user.info": "u:p"}, "OPT183", "written as an option of the format"),
        ({"basic-auth.credentials-source": "SASL_INHERIT"}, "OPT185", "is not supported"),
        ({"bearer-auth.credentials-source": "OAUTHBEARER"}, "OPT185", "is not supported"),
    ],
)
def test_options_that_are_not_honoured(more: dict[str, str], code: str, says: str) -> None:
    table = {f"avro-confluent.{key}": text for key, text in {"url": "http://x", **more}.items()}
    with pytest.raises(OptionError, match=code) as caught:
        CONFLUENT.check_columns(table, COLUMNS)
    assert says in caught.value.message and "u:p" not in str(caught.value)


def certificate(folder: Path) -> tuple[str, str]:
    """Files with a certificate for 127.0.0.1, signed by itself, and its key."""
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "registry")])
    now = dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now - dt.timedelta(1)).not_valid_after(now + dt.timedelta(1))
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    signed = builder.add_extension(address, False).sign(key, hashes.SHA256())
    (folder / "cert.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    kinds = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "key.pem").write_bytes(key.private_bytes(*kinds))
    return str(folder / "cert.pem"), str(folder / "key.pem")


def test_tls(tmp_path: Path) -> None:
    files = certificate(tmp_path)
    with running(tls=files) as registry:
        with pytest.raises(DataError, match=r"DATA465.*certificate"):
            write(registry, SOON)
        assert len(write(registry, {"ssl.truststore.location": files[0]})) == 2


@pytest.mark.parametrize("key", ["ssl.truststore.location", "ssl.keystore.location"])
def test_key_stores_of_java_are_refused(tmp_path: Path, key: str) -> None:
    (tmp_path / "x.jks").write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    for path in ("x.jks", "missing.pem"):
        table = {"avro-confluent.url": "https://127.0.0.1:1", f"avro-confluent.{key}": str(tmp_path / path)}
        with pytest.raises(OptionError, match=rf"OPT184.*{path}.*avro-confluent.{key}"):
            CONFLUENT.message_decoder(table, COLUMNS, (0, 1)).messages([b"\0\0\0\0\1\2"])


# ---- Debezium --------------------------------------------------------------------------------------------------

ROW = [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"], "default": None}]
EVENT = {
    "type": "record",
    "name": "Envelope",
    "namespace": "server.public.people",
    "fields": [
        {"name": "before", "type": ["null", {"type": "record", "name": "Value", "fields": ROW}], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": {"type": "record", "name": "Source", "fields": [{"name": "ts_ms", "type": "long"}]}},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"], "default": None},
    ],
}
OLD, NEW = {"id": 1, "name": "x"}, {"id": 1, "name": "y"}


def event(op: str | None, before: Any, after: Any) -> Any:
    return {"before": before, "after": after, "source": {"ts_ms": 1}, "op": op, "ts_ms": None}


def events(registry: SchemaRegistry, data: list[bytes | None], chosen: tuple[int, ...] = (0, 1)) -> Any:
    table = options(registry, name="debezium-avro-confluent")
    return pickle.loads(pickle.dumps(DEBEZIUM.message_decoder(table, COLUMNS, chosen))).messages(data)


def test_events_are_changes(registry: SchemaRegistry) -> None:
    number = registry.add("t-value", EVENT)
    made = [event("r", None, OLD), event("u", OLD, NEW), event("d", NEW, None), event("c", None, OLD)]
    data = [None, *(message(number, EVENT, one) for one in made), b""]
    frame, places = events(registry, data)
    assert frame.rows() == [(1, "x", 0), (1, "x", 1), (1, "y", 2), (1, "y", 3), (1, "x", 0)]
    assert places.tolist() == [1, 2, 2, 3, 4]
    assert events(registry, data, (1,))[0].rows() == [("x", 0), ("x", 1), ("y", 2), ("y", 3), ("x", 0)]
    assert events(registry, data, ())[0].rows() == [(0,), (1,), (2,), (3,), (0,)]
    assert events(registry, [None, b""])[0].schema == frame.schema


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (event("u", None, NEW), 'the "before" field of the UPDATE event is null'),
        (event("d", None, None), 'the "before" field of the DELETE event is null'),
        (event("c", OLD, None), 'the "after" field of the INSERT event is null'),
        (event("x", OLD, NEW), 'unknown "op" value "x"'),
    ],
)
def test_events_that_are_none(registry: SchemaRegistry, value: Any, says: str) -> None:
    number = registry.add("t-value", EVENT)
    with pytest.raises(DataError, match="DATA470") as caught:
        events(registry, [message(number, EVENT, event("r", None, OLD)), None, message(number, EVENT, value)])
    assert says in caught.value.message
    assert caught.value.place is not None and caught.value.place.line == 3


def test_changes_are_written_as_events(registry: SchemaRegistry) -> None:
    table = options(registry, name="debezium-avro-confluent")
    frame = pl.DataFrame({"c0": [1, 1, 1, 2], "c1": ["x", "x", "y", None], "kind": [0, 1, 2, 3]}).cast(
        {"kind": pl.Int8}
    )
    written = DEBEZIUM.message_encoder(table, COLUMNS).messages(frame).to_list()
    schema = event_schema(COLUMNS)
    assert json.loads(registry.schemas[0]["schema"]) == schema
    parsed = fastavro.parse_schema(schema)
    shown = [fastavro.schemaless_reader(io.BytesIO(m[5:]), parsed) for m in written]
    assert shown == [
        {"before": None, "after": OLD, "op": "c"},
        {"before": OLD, "after": None, "op": "d"},
        {"before": None, "after": NEW, "op": "c"},
        {"before": {"id": 2, "name": None}, "after": None, "op": "d"},
    ]
    read_again, places = events(registry, written)
    assert read_again["kind"].to_list() == [0, 3, 0, 3] and places.tolist() == [0, 1, 2, 3]
    assert read_again.select("c0", "c1").equals(frame.select("c0", "c1"))


# ---- with a broker ---------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_a_topic_is_written_and_read(kafka: Kafka, registry: SchemaRegistry, tmp_path: Path) -> None:
    """A job from Avro files to a topic, keys in ``raw``, and one from the topic to files."""
    (tmp_path / "in").mkdir()
    columns: Fields = [("id", parse_type("INT")), ("name", parse_type("STRING"))]
    rows = pl.DataFrame({"c0": [1, 2, 3], "c1": ["x", None, "z"]}, schema={"c0": pl.Int32, "c1": pl.String})
    (tmp_path / "in/a.avro").write_bytes(FORMATS["avro"].encoder({}, columns).encode(rows))
    topic = kafka.topic()
    files = "CREATE TABLE `{0}` (id INT, name STRING) WITH ('connector'='filesystem','path'='{1}/{0}','format'='avro')"
    table = f"""CREATE TABLE t (id INT, name STRING) WITH (
        'connector'='kafka', 'topic'='{topic}', 'properties.bootstrap.servers'='{kafka.servers}',
        'key.format'='raw', 'key.fields'='id', 'value.format'='avro-confluent', 'value.fields-include'='ALL',
        'value.avro-confluent.url'='{registry.url}', 'scan.startup.mode'='earliest-offset',
        'scan.bounded.mode'='latest-offset')"""

    def run(insert: str, name: str) -> None:
        settings = {"pipeline.max-parallelism": "2", "execution.checkpointing.dir": str(tmp_path / name)}
        session = TableEnvironment.create(settings)
        for statement in (files.format("in", tmp_path), files.format("out", tmp_path), table):
            session.execute_sql(statement)
        session.execute_sql(insert).wait()

    run("INSERT INTO t SELECT * FROM `in`", "first")
    assert list(registry.subjects) == [f"{topic}-value"]
    assert sorted(m.key() for m in kafka.consume(topic)) == [b"\0\0\0\1", b"\0\0\0\2", b"\0\0\0\3"]
    run("INSERT INTO `out` SELECT * FROM t", "second")
    found = [
        df
        for path in (tmp_path / "out").glob("*.avro")
        for df in FORMATS["avro"].decoder({}, columns, (0, 1)).read(str(path))
    ]
    assert sorted(pl.concat(found).rows()) == rows.rows()

"""Options of the tables of Kafka: what is refused, and what becomes of settings of the client."""

from __future__ import annotations

import pickle

import pytest
from confluent_kafka import Consumer, KafkaException

from stateplan.common.errors import OptionError, StateplanError
from stateplan.common.types import parse_type
from stateplan.connectors.kafka.client import Brokers
from stateplan.connectors.kafka.properties import SAME, check, translated
from stateplan.connectors.kafka.tables import layout_of
from stateplan.connectors.registry import find_connector
from tests.connectors.kafka_sources import EARLIEST, made, table

INT = parse_type("INT")
GIVEN = {"connector": "kafka", "topic": "t", "properties.bootstrap.servers": "nowhere:1", "format": "json", **EARLIEST}
UPSERT = {
    "connector": "upsert-kafka",
    "topic": "t",
    "properties.bootstrap.servers": "nowhere:1",
    "key.format": "json",
    "value.format": "json",
}


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        ({**GIVEN, "topic-pattern": "t.*"}, "OPT133", "both"),
        ({**GIVEN, "topic": "a;;b"}, "OPT133", "a name is empty"),
        ({**GIVEN, "topic": ";"}, "OPT133", "a name is empty"),
        ({**GIVEN, "topic": "a;'b"}, "OPT105", "'a;'b' is not a value of the option 'topic': a quote does not end"),
        ({**GIVEN, "key.format": "json", "key.fields": "'a"}, "OPT105", "'key.fields': a quote does not end"),
        ({**GIVEN, "scan.startup.mode": "timestamp"}, "OPT134", "scan.startup.timestamp-millis"),
        ({**GIVEN, "scan.startup.mode": "group-offsets"}, "OPT136", "properties.group.id"),
        ({**GIVEN, "scan.bounded.mode": "group-offsets"}, "OPT136", "'scan.bounded.mode' = 'group-offsets'"),
        (
            {**GIVEN, "scan.startup.mode": "specific-offsets", "scan.startup.specific-offsets": "0:1"},
            "OPT134",
            "partition:0,offset:42",
        ),
        *(
            ({**GIVEN, f"{what}.mode": "specific-offsets", f"{what}.specific-offsets": text}, "OPT134", shown)
            for what in ("scan.startup", "scan.bounded")
            for text, shown in (
                ("partition:0,offset:1;partition:1,offset:-2", "has the offset -2 for partition 1, and offsets begin"),
                ("partition:0,offset:--1", "is not a value of the option"),
                ("partition:0,offset:9223372036854775808", "is not a value of the option"),
                ("", "is not a value of the option"),
            )
        ),
        (
            {
                **GIVEN,
                "topic": "a;b",
                "scan.startup.mode": "specific-offsets",
                "scan.startup.specific-offsets": "partition:0,offset:1",
            },
            "OPT134",
            "one topic",
        ),
        ({**GIVEN, "key.format": "debezium-json", "key.fields": "a"}, "OPT138", "a format of changes"),
        ({**GIVEN, "properties.sesion.timeout.ms": "1"}, "OPT130", "did you mean 'properties.session.timeout.ms'"),
        ({**GIVEN, "properties.isolation.level": "committed"}, "OPT132", "read_committed"),
        ({**GIVEN, "properties.ssl.truststore.location": "t.jks"}, "OPT131", "properties.ssl.ca.location"),
        ({**GIVEN, "properties.ssl.keystore.location": "k.jks"}, "OPT131", "PKCS12"),
        ({**GIVEN, "properties.sasl.jaas.config": "com.Some required;"}, "OPT131", "PlainLoginModule"),
        ({**GIVEN, "properties.interceptor.classes": "com.Some"}, "OPT107", "Java class"),
        ({**GIVEN, "scan.watermark.alignment.group": "g"}, "OPT101", "scan.watermark.alignment.max-drift"),
        ({**GIVEN, "scan.watermark.alignment.max-drift": "1 min"}, "OPT101", "scan.watermark.alignment.group"),
        (
            {**UPSERT, "scan.watermark.alignment.update-interval": "1 s"},
            "OPT101",
            "needs the option 'scan.watermark.alignment.group'",
        ),
        ({**GIVEN, "scan.watermark.alignment.max-drift": "far"}, "OPT105", "a duration"),
        ({**GIVEN, "scan.min-rows-per-batch": "0"}, "OPT105", "at least 1"),
        ({**GIVEN, "scan.max-batch-delay": "soon"}, "OPT105", "a duration"),
        ({**UPSERT, "value.format": "debezium-json"}, "OPT103", "no format 'debezium-json'"),
        ({k: v for k, v in UPSERT.items() if k != "key.format"}, "OPT137", "key.format"),
    ],
)
def test_options_that_are_refused(options: dict[str, str], code: str, text: str) -> None:
    with pytest.raises(StateplanError) as caught:
        made(table(options, key=("a",) if options["connector"] == "upsert-kafka" else ()))
    assert caught.value.code == code
    assert text in str(caught.value)


def test_lists_may_have_blanks_quotes_and_a_separator_at_their_end() -> None:
    both = {"key.format": "json", "key.fields": " b ; 'a' ;", "topic": " t ; u;"}
    source = made(table({**GIVEN, **both}, "a INT, b INT"))
    assert tuple(source.topics) == ("t", "u")
    assert layout_of(both, [("a", INT), ("b", INT)]).key == (1, 0)
    kafka = find_connector(GIVEN)
    assert kafka.writable_metadata({"topic": "t;"}) == kafka.writable_metadata({"topic": "t"})
    ends = {"scan.bounded.mode": "specific-offsets", "scan.bounded.specific-offsets": "partition:0,offset:3;"}
    assert made(table({**GIVEN, "topic": "t;", **ends})).end.offsets == {0: 3}


def test_primary_keys() -> None:
    with pytest.raises(OptionError, match=r"OPT137.*needs a primary key"):
        table(UPSERT)
    with pytest.raises(OptionError, match=r"OPT137.*cannot have a primary key"):
        table(GIVEN, key=("a",))
    table({**GIVEN, "format": "debezium-json"}, key=("a",))


def test_names_of_properties_are_those_of_the_client() -> None:
    for name in sorted(SAME):
        try:
            Consumer({"group.id": "g", "log_level": 0, name: "__bogus__"}).close()
        except KafkaException as error:
            assert "No such configuration property" not in error.args[0].str(), name


def test_settings_of_java_become_those_of_the_client() -> None:
    module = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="p\\"w";'
    given = {
        "bootstrap.servers": "b:1",
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": module,
        "ssl.truststore.location": "ca.pem",
        "ssl.truststore.type": "PEM",
        "ssl.endpoint.identification.algorithm": "",
        "fetch.max.wait.ms": "7",
        "request.timeout.ms": "9",
        "max.poll.records": "3",
    }
    check(given)
    assert translated(given, producer=False) == {
        "bootstrap.servers": "b:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "u",
        "sasl.password": 'p"w',
        "ssl.ca.location": "ca.pem",
        "ssl.endpoint.identification.algorithm": "none",
        "fetch.wait.max.ms": "7",
        "socket.timeout.ms": "9",
    }


def test_secrets_are_resolved_where_a_client_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {**GIVEN, "properties.sasl.password": "${env:KAFKA_WORD}", "properties.sasl.username": "u"}
    brokers = Brokers.of(table(options))
    monkeypatch.setenv("KAFKA_WORD", "hunter2")
    assert b"hunter2" not in pickle.dumps(made(table(options)))
    assert brokers.settings(producer=False)["sasl.password"] == "hunter2"
    assert "KAFKA_WORD" not in repr(brokers)
    assert brokers.without_secrets("no login with hunter2") == "no login with ******"


def test_values_that_the_client_refuses() -> None:
    with pytest.raises(OptionError, match=r"OPT132.*fetch\.min\.bytes"):
        made(table({**GIVEN, "properties.fetch.min.bytes": "many"})).check("t")

"""Logins and TLS of Kafka: a front before the broker asks for them."""

from __future__ import annotations

import gc
import json
import logging
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest

from stateplan import TableEnvironment
from stateplan.connectors.kafka.client import TIME_OUT
from tests.connectors.kafka_proxy import HOST, MECHANISMS, METADATA, SASL_HANDSHAKE, Certificate, Front, before
from tests.connectors.kafka_secured import (
    BY_VARIABLE,
    EXACT,
    JAAS,
    NEW,
    RIGHT,
    SECRETS,
    STORE,
    USERS,
    WRONG,
    Keys,
    Options,
    Outcome,
    Tables,
    all_tried,
    end_clients,
    jaas,
    named,
    scram_jaas,
    secured,
    tried,
)
from tests.connectors.kafka_sources import Job, numbers
from tests.support.kafka import Kafka
from tests.support.waiting import until


@pytest.fixture(scope="module", autouse=True)
def _passwords() -> Iterator[None]:
    """Sets variables with passwords."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KAFKA_PASSWORD", RIGHT)
        patch.setenv("KAFKA_WRONG", WRONG)
        yield


@pytest.fixture(autouse=True)
def _clients() -> Iterator[None]:
    """Ends the clients of a test: those of all tests would look for brokers that are gone, all the time."""
    yield
    end_clients()


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys(tmp_path_factory.mktemp("keys"))


# ---- what is right ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("protocol", "mechanism", "login"),
    [
        ("SSL", "", {}),
        ("SASL_PLAINTEXT", "PLAIN", jaas("joe", RIGHT)),
        ("SASL_SSL", "PLAIN", BY_VARIABLE),
        ("SASL_SSL", "SCRAM-SHA-256", scram_jaas("joe", RIGHT)),
    ],
)
def test_rows_are_written_and_read(kafka: Kafka, keys: Keys, protocol: str, mechanism: str, login: Options) -> None:
    is_tls = protocol.endswith("SSL")
    with before(kafka.port, keys.tls() if is_tls else None, USERS if mechanism else None) as front:
        front.mechanisms = (mechanism,)
        tables = Tables.of(kafka, front, {**secured(protocol, mechanism, login), **(keys.trust if is_tls else {})})
        tables.send()
        tables.send_once()
        assert Job(tables.source()).next() == [7, 8]
        assert front.refused == 0


@pytest.mark.parametrize(
    "reference",
    [
        "${env:KAFKA_JAAS}",
        jaas("joe", "${env:KAFKA_PASSWORD}")[JAAS],
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="joe" ${env:KAFKA_REST};',
    ],
)
def test_a_reference_stands_for_a_login_or_for_a_part_of_it(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch, reference: str
) -> None:
    monkeypatch.setenv("KAFKA_JAAS", jaas("joe", RIGHT)[JAAS])
    monkeypatch.setenv("KAFKA_REST", jaas("joe", RIGHT)[JAAS].split('"joe" ')[1].removesuffix(";"))
    with before(kafka.port, users=USERS) as front:
        Tables.of(kafka, front, secured("SASL_PLAINTEXT", "PLAIN", {JAAS: reference})).plan()


@pytest.mark.parametrize("login", [jaas, named])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_logins_are_written_as_in_java_or_in_librdkafka(
    kafka: Kafka, mechanism: str, login: Callable[[str, str], Options]
) -> None:
    with before(kafka.port, users=USERS) as front:
        front.mechanisms = (mechanism,)
        Tables.of(kafka, front, secured("SASL_PLAINTEXT", mechanism, login("joe", RIGHT))).plan()


def test_certificates_are_named_as_in_java_or_in_librdkafka(kafka: Kafka, keys: Keys) -> None:
    key, chain, client = keys.client.key_pem(), keys.client.pem(), keys.path("client.pem")
    authority = {
        "truststore.location": {"truststore.location": keys.path("authority.pem"), "truststore.type": "PEM"},
        "truststore.certificates": {"truststore.certificates": keys.authority.pem(), "truststore.type": "PEM"},
        "ca.location": {"ca.location": keys.path("authority.pem")},
        "ca.pem": {"ca.pem": keys.authority.pem()},
    }
    mutual = {
        "keystore.location": {"keystore.location": client, "keystore.type": "PEM"},
        "keystore.key": {"keystore.key": key, "keystore.certificate.chain": chain, "keystore.type": "PEM"},
        "pkcs12": {
            "keystore.location": keys.path("client.p12"),
            "keystore.type": "PKCS12",
            "keystore.password": STORE,
        },
        "key.location": {"certificate.location": client, "key.location": client},
        "key.pem": {"certificate.pem": chain, "key.pem": key},
    }
    elsewhere = {"host": {"endpoint.identification.algorithm": ""}}
    with ExitStack() as stack:
        calls = {}
        for tls, spellings in (
            (keys.tls(), authority),
            (keys.tls(mutual=True), mutual),
            (keys.tls(keys.authority.issue("elsewhere.example")), elsewhere),
        ):
            front = stack.enter_context(before(kafka.port, tls))
            for name, given in spellings.items():
                trust = {} if spellings is authority else authority["ca.location"]
                options = {f"properties.ssl.{key}": text for key, text in {**trust, **given}.items()}
                calls[name] = Tables.of(kafka, front, {**secured("SSL"), **options}).plan
        assert {name: found.message for name, found in all_tried(calls).items()} == dict.fromkeys(calls, "")


# ---- what is wrong ---------------------------------------------------------------------------------------------

SOON = {"properties.request.timeout.ms": "2000"}
"""For how long is waited for what may be mended."""

CALM = {"properties.reconnect.backoff.ms": "500"}
"""Many clients try again at a time."""


@dataclass(frozen=True)
class Wrong:
    """A table that does not fit the brokers.

    Attributes:
        front: before the brokers; see :func:`outcomes`.
        options: of the table.
        text: a part of the message.
        code: of the error.
        trusted: the file with the authority that the table trusts; empty for none.
        client: the file with the certificate of the client; empty for none.
    """

    front: str
    options: Options
    text: str
    code: str = "RUN111"
    trusted: str = "authority.pem"
    client: str = ""

    def all_options(self, keys: Keys) -> dict[str, str]:
        made = {**CALM, **self.options}
        if self.trusted and "SSL" in made.get("properties.security.protocol", ""):
            made["properties.ssl.ca.location"] = keys.path(self.trusted)
        if self.client:
            made |= {"properties.ssl.keystore.location": keys.path(self.client), "properties.ssl.keystore.type": "PEM"}
        return made


PLAIN, TLS, BOTH = "SASL_PLAINTEXT", "SSL", "SASL_SSL"
LOGIN = secured(PLAIN, "PLAIN", BY_VARIABLE)
NOT_JOE = "Invalid username or password (joe:******)"

REFUSED = {
    "password": Wrong("login", secured(PLAIN, "PLAIN", named("joe", WRONG)), NOT_JOE),
    "variable": Wrong("login", secured(PLAIN, "PLAIN", named("joe", "${env:KAFKA_WRONG}")), NOT_JOE),
    "jaas": Wrong("login", secured(PLAIN, "PLAIN", jaas("joe", WRONG)), NOT_JOE),
    "user": Wrong("login", secured(PLAIN, "PLAIN", jaas("jack", RIGHT)), "(jack:******)"),
    "scram": Wrong("login", secured(PLAIN, "SCRAM-SHA-512", scram_jaas("joe", WRONG)), "invalid credentials"),
    "over TLS": Wrong("tls login", secured(BOTH, "PLAIN", jaas("joe", WRONG)), NOT_JOE),
    "mechanism": Wrong("plain only", secured(PLAIN, "SCRAM-SHA-256", BY_VARIABLE), "supported mechanisms: PLAIN"),
}
"""Logins that brokers refuse."""

UNVERIFIED, ALONE = "certificate verify failed", "cannot be reached"
NOT_OURS = "refuse the certificate of the client"
NO_CONNECTION = {
    "TLS to a port without": Wrong("none", secured(TLS), "do not speak TLS"),
    "TLS and login to a port without": Wrong("login", {**LOGIN, **secured(BOTH)}, "do not speak TLS"),
    "no TLS": Wrong("tls", {}, ALONE, "RUN110"),
    "login without TLS": Wrong("tls login", LOGIN, ALONE, "RUN110"),
    "no login": Wrong("login", {}, ALONE, "RUN110"),
    "nobody vouches": Wrong("tls", secured(TLS), UNVERIFIED, trusted=""),
    "other authority": Wrong("tls", secured(TLS), UNVERIFIED, trusted="other.pem"),
    "expired": Wrong("expired", secured(TLS), UNVERIFIED),
    "elsewhere": Wrong("elsewhere", secured(TLS), UNVERIFIED),
    "no client": Wrong("mutual", secured(TLS), NOT_OURS),
    "no client, TLS 1.2": Wrong("old", secured(TLS), "alert handshake failure"),
    "stranger": Wrong("mutual", secured(TLS), NOT_OURS, client="stranger.pem"),
    "stranger, TLS 1.2": Wrong("old", secured(TLS), NOT_OURS, client="stranger.pem"),
}
"""Tables without a connection, which is waited for: brokers that start look alike."""


@pytest.fixture(scope="module")
def outcomes(kafka: Kafka, keys: Keys) -> Mapping[tuple[str, str], Outcome]:
    """What becomes of each wrong table, in each way to use it; all at a time, because each waits."""
    issued = keys.authority.issue
    brokers: Mapping[str, tuple[ssl.SSLContext | None, Options | None]] = {
        "none": (None, None),
        "login": (None, USERS),
        "plain only": (None, USERS),
        "tls": (keys.tls(), None),
        "tls login": (keys.tls(), USERS),
        "expired": (keys.tls(issued(HOST, days=-1)), None),
        "elsewhere": (keys.tls(issued("elsewhere.example")), None),
        "mutual": (keys.tls(mutual=True), None),
        "old": (keys.tls(mutual=True, old=True), None),
    }
    with ExitStack() as stack:
        fronts = {name: stack.enter_context(before(kafka.port, *some)) for name, some in brokers.items()}
        fronts["plain only"].mechanisms = ("PLAIN",)
        calls: dict[tuple[str, str], Callable[[], object]] = {}
        for name, wrong in {**REFUSED, **NO_CONNECTION}.items():
            waiting = SOON if name in NO_CONNECTION else {}
            tables = Tables.of(kafka, fronts[wrong.front], {**wrong.all_options(keys), **waiting})
            calls |= {(name, way): call for way, call in tables.ways.items()}
        return all_tried(calls)


WAYS = ("plan", "read", "at-least-once", "exactly-once")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", REFUSED)
def test_a_login_that_is_refused(outcomes: Mapping[tuple[str, str], Outcome], name: str, way: str) -> None:
    found = outcomes[name, way]
    assert found.code == "RUN111", found
    assert "refuse the credentials" in found.message
    assert REFUSED[name].text in found.message
    assert found.seconds < TIME_OUT / 1000, "waited, although nothing mends a login"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NO_CONNECTION)
def test_a_connection_that_does_not_come_about(
    outcomes: Mapping[tuple[str, str], Outcome], name: str, way: str
) -> None:
    found, wrong = outcomes[name, way], NO_CONNECTION[name]
    assert found.code == wrong.code, found
    assert wrong.text in found.message
    if wrong.text == ALONE:
        assert "TLS or a login" in found.shown and "check 'properties.security.protocol'" in found.shown


def test_errors_show_no_secret(outcomes: Mapping[tuple[str, str], Outcome]) -> None:
    for found in outcomes.values():
        assert found.shown
        assert not [secret for secret in SECRETS if secret in found.shown]


def test_logs_show_no_secret(kafka: Kafka, keys: Keys, capfd: pytest.CaptureFixture[str]) -> None:
    lines: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(f"{record.getMessage()} {vars(record)}")

    handler = Kept(logging.DEBUG)
    log = logging.getLogger("stateplan.kafka")
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    try:
        with before(kafka.port, keys.tls(mutual=True), USERS) as front:
            store = {"location": keys.path("client.p12"), "type": "PKCS12", "password": STORE}
            more = {f"properties.ssl.keystore.{key}": text for key, text in store.items()}
            more |= {"properties.debug": "broker,conf,protocol,security", **keys.trust}
            calls: dict[Any, Callable[[], object]] = {}
            for mechanism, login, code in (
                ("PLAIN", jaas("joe", RIGHT), ""),
                ("PLAIN", jaas("joe", WRONG), "RUN111"),
                ("SCRAM-SHA-256", scram_jaas("joe", WRONG), "RUN111"),
                ("SCRAM-SHA-256", BY_VARIABLE, ""),
            ):
                tables = Tables.of(kafka, front, {**secured(BOTH, mechanism, login), **more})
                for call in (tables.plan, tables.send, tables.send_once):
                    calls[call, code] = call
            found = all_tried(calls)
            assert [outcome.code for outcome in found.values()] == [code for _, code in calls]
            end_clients()
    finally:
        log.removeHandler(handler)
        log.setLevel(logging.NOTSET)
    written = capfd.readouterr()
    for word in ("SaslHandshake", "sasl.password", "ssl.keystore.password"):
        assert any(word in line for line in lines), word
    for text in (*lines, written.out, written.err):
        assert not [secret for secret in SECRETS if secret in text]


# ---- what is mended --------------------------------------------------------------------------------------------


def test_a_password_is_mended(kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the same process, as in workers and gateways that go on after the job has failed."""
    note = tmp_path / "password"
    note.write_text(RIGHT)
    monkeypatch.setenv("KAFKA_MENDED", RIGHT)
    passwords = "${env:KAFKA_MENDED}", f"${{file:{note}}}", "${env:KAFKA_PASSWORD}"
    with ExitStack() as stack, ThreadPoolExecutor() as pool:
        fronts = [stack.enter_context(before(kafka.port, users=USERS)) for _ in passwords]
        logins = [secured(PLAIN, "PLAIN", named("joe", password)) for password in passwords]
        jobs = list(pool.map(Running.of, repeat(kafka), fronts, logins))
        for front in fronts:
            front.users = {"joe": NEW}
            front.drop()
        gc.collect()
        gc.disable()  # an error that held its client in a cycle would keep it alive by chance
        try:
            list(pool.map(Running.fail, jobs))
        finally:
            gc.enable()
        monkeypatch.setenv("KAFKA_MENDED", NEW)
        note.write_text(NEW)
        fronts[-1].users = USERS  # this one is mended at the brokers
        list(pool.map(Running.go_on, jobs))


@dataclass
class Running:
    """A job, and its tables."""

    front: Front
    tables: Tables
    job: Job

    @staticmethod
    def of(kafka: Kafka, front: Front, options: Options) -> Running:
        tables = Tables.of(kafka, front, options)
        tables.send(1)
        tables.send_once(2, 0)
        job = Job(tables.source())
        assert job.next() == [1, 2]
        return Running(front, tables, job)

    def fail(self) -> None:
        at = self.job.at
        assert at is not None
        calls = {**self.tables.ways, "next micro-batch": lambda: self.job.reader.latest_offset(at)}
        assert {way: found.code for way, found in all_tried(calls).items()} == dict.fromkeys(calls, "RUN111")
        assert no_more_logins(self.front)

    def go_on(self) -> None:
        assert not tried(self.tables.plan).message
        self.tables.send(3)
        for _ in range(2):  # the second time it is a repetition
            self.tables.send_once(4, 1)
        assert Job(self.tables.source(), self.job.at).next() == [3, 4]


def no_more_logins(front: Front) -> bool:
    """Whether nobody goes on to log in, which may lock an account."""
    until = time.monotonic() + 5
    while time.monotonic() < until:
        seen = front.refused
        time.sleep(0.5)
        if front.refused == seen:
            return True
    return False


def test_what_was_refused_while_nothing_was_read_is_forgotten(kafka: Kafka) -> None:
    with before(kafka.port, users=USERS) as front:
        tables = Tables.of(kafka, front, LOGIN)
        kafka.produce(tables.topic, numbers(1, 2))
        assert tables.read(0, 1) == [1]
        seen, front.users = front.refused, {"joe": NEW}
        front.drop()
        until(lambda: front.refused > seen, 30)
        front.users = USERS
        assert no_more_logins(front)
        assert tables.read(1, 2) == [2]


def test_a_broker_that_leaves_in_a_login_refuses_nobody(kafka: Kafka) -> None:
    with before(kafka.port, users=USERS) as front:
        front.leaves_at = SASL_HANDSHAKE
        found = tried(Tables.of(kafka, front, {**LOGIN, "properties.request.timeout.ms": "1000"}).plan)
        assert found.code == "RUN110", found
        assert not left_once(front, SASL_HANDSHAKE, Tables.of(kafka, front, LOGIN).plan).message


def test_a_broker_that_leaves_in_planning_is_asked_again(kafka: Kafka) -> None:
    with before(kafka.port, users=USERS) as front:
        tables = Tables.of(kafka, front, LOGIN)
        tables.send(1)
        job = Job(tables.source())
        assert job.next() == [1]
        assert not left_once(front, METADATA, job.next).message


def left_once(front: Front, request: int, call: Callable[[], object]) -> Outcome:
    """What becomes of a call while a broker leaves at a request, and comes back."""
    seen, front.leaves_at = front.left, request
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(tried, call)
        until(lambda: front.left > seen, 30)
        front.leaves_at = None
        return waiting.result()


def test_a_job_that_is_over_keeps_no_connection(kafka: Kafka) -> None:
    """None that would log in for ever when the password changes."""
    with before(kafka.port, users=USERS) as front:
        tables = Tables.of(kafka, front, LOGIN)
        tables.plan()
        for options in ({}, EXACT):
            sink = tables.sink(options)
            sink.prepare(0)
            sink.close()
        until(lambda: front.connections == 0, 30)


def test_a_certificate_that_changes_while_a_topic_is_read(kafka: Kafka, keys: Keys) -> None:
    with before(kafka.port, keys.tls()) as front:
        tables = Tables.of(kafka, front, {**secured(TLS), **keys.trust, **SOON})
        kafka.produce(tables.topic, numbers(1, 2))
        assert tables.read(0, 1) == [1]
        front.tls = keys.tls(Certificate(HOST))
        front.drop()
        found = tried(partial(tables.read, 1, 2))
        assert (found.code, "certificate verify failed" in found.message) == ("RUN111", True), found
        front.tls = keys.tls()
        assert tables.read(1, 2) == [2]


@pytest.mark.spark
def test_a_job_goes_on_when_its_password_is_mended(spark: object, kafka: Kafka, keys: Keys, tmp_path: Path) -> None:
    note = tmp_path / "password"
    note.write_text(WRONG)
    session = TableEnvironment.create({"execution.checkpointing.dir": str(tmp_path / "checkpoint")})
    with before(kafka.port, keys.tls(mutual=True), {"joe": WRONG}) as front:
        options = {
            "connector": "kafka",
            "format": "json",
            "properties.bootstrap.servers": front.servers,
            **secured(BOTH, "SCRAM-SHA-512", scram_jaas("joe", f"${{file:{note}}}")),
            **keys.trust,
            "properties.ssl.keystore.location": keys.path("client.pem"),
            "properties.ssl.keystore.type": "PEM",
        }
        topics = {"numbers": kafka.topic(), "copies": kafka.topic()}
        roles = {"numbers": {"scan.startup.mode": "earliest-offset"}, "copies": EXACT}
        for name, role in roles.items():
            all_options = {**options, **role, "topic": topics[name]}
            listed = ", ".join(f"'{key}' = '{text}'" for key, text in all_options.items())
            session.execute_sql(f"CREATE TABLE {name} (a INT) WITH ({listed})")

        def copies() -> list[int]:
            return [json.loads(message.value() or b"")["a"] for message in kafka.consume(topics["copies"])]

        def started(*added: int) -> Any:
            kafka.produce(topics["numbers"], numbers(*added))
            return session.execute_sql("INSERT INTO copies SELECT a FROM numbers").job

        job = started(1, 2)
        until(lambda: copies() == [1, 2], 30)
        front.users = {"joe": NEW}
        front.drop()
        found = tried(lambda: job.wait(60))
        assert found.code == "RUN111", found
        assert not [secret for secret in SECRETS if secret in found.shown]
        note.write_text(NEW)
        job = started(3)
        until(lambda: len(copies()) == 3, 30)
        job.stop()
        assert copies() == [1, 2, 3]

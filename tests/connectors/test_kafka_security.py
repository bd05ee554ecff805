"""Logins and TLS of Kafka. The broker of the tests has no TLS, and takes any login by PLAIN."""

from __future__ import annotations

import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from socket import create_server, socket

import pytest

from stateplan.execnodes.errors import StateplanError
from tests.connectors.test_kafka_sink import make, rows, write
from tests.connectors.test_kafka_source import Job, source
from tests.support.kafka import Kafka

PASSWORD = "hunter2!"
JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="joe" password="{PASSWORD}";'
SASL = {"properties.security.protocol": "SASL_PLAINTEXT", "properties.sasl.mechanism": "PLAIN"}
USER = {"properties.sasl.username": "joe", "properties.sasl.password": "${env:KAFKA_PASSWORD}"}
SOON = {"properties.request.timeout.ms": "1500", "properties.delivery.timeout.ms": "1500"}
EXACT = {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": "p"}


@pytest.fixture(autouse=True)
def _password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)


@pytest.mark.parametrize("login", [USER, {"properties.sasl.jaas.config": JAAS}])
def test_a_login(kafka: Kafka, login: dict[str, str]) -> None:
    topic = kafka.topic()
    write(make(kafka.servers, topic, "a INT", **SASL, **login), rows((1,)))
    assert Job(source(kafka, topic, more={**SASL, **login})).next() == [1]


WRONG = [
    ({"properties.security.protocol": "SSL"}, "RUN111", "do not speak TLS"),
    ({"properties.security.protocol": "SASL_SSL", "properties.sasl.mechanism": "PLAIN", **USER}, "RUN111", "speak TLS"),
    ({**SASL, **USER, "properties.sasl.mechanism": "SCRAM-SHA-256"}, "RUN111", "refuse the credentials"),
    ({**SASL, **USER, "properties.sasl.mechanism": "MAGIC"}, "OPT132", "Unsupported SASL mechanism: MAGIC"),
    (SASL, "OPT132", "sasl.username and sasl.password must be set"),
    ({"properties.security.protocol": "SSL", "properties.ssl.ca.location": "/no/ca.pem"}, "OPT132", "ca.location"),
]


@pytest.mark.parametrize(("options", "code", "text"), WRONG)
def test_settings_that_do_not_fit_the_broker(kafka: Kafka, options: dict[str, str], code: str, text: str) -> None:
    topic = kafka.topic()
    options = {**options, **SOON}
    refused(code, text, lambda: source(kafka, topic, more=options).check("t"))
    for more in ({}, EXACT):
        refused(code, text, lambda more=more: write(make(kafka.servers, topic, "a INT", **options, **more), rows((1,))))
    assert kafka.consume(topic) == []
    write(make(kafka.servers, topic, "a INT"), rows((1,)))  # mended
    assert Job(source(kafka, topic)).next() == [1]


def refused(code: str, text: str, run: object) -> None:
    assert callable(run)
    with pytest.raises(StateplanError) as caught:
        run()
    assert caught.value.code == code, caught.value
    assert text in caught.value.message
    assert PASSWORD not in str(caught.value)


@contextmanager
def tls(folder: Path) -> Iterator[Kafka]:
    """Something that speaks TLS, with a certificate that nobody vouches for, and is no broker."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run([*command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    def greet(server: socket) -> None:
        while True:
            try:
                accepted, _ = server.accept()
            except OSError:  # closed: the test is over
                return
            accepted.settimeout(2)
            try:
                context.wrap_socket(accepted, server_side=True).close()
            except OSError:
                accepted.close()

    with closing(create_server(("127.0.0.1", 0))) as server:
        thread = threading.Thread(target=greet, args=(server,), daemon=True)
        thread.start()
        yield Kafka(folder, server.getsockname()[1])


def test_a_certificate_that_nobody_vouches_for(tmp_path: Path) -> None:
    with tls(tmp_path) as other:
        secure = {"properties.security.protocol": "SSL", **SOON}
        refused("RUN111", "certificate verify failed", lambda: source(other, "t", more=secure).check("t"))
        refused("RUN110", "cannot be reached", lambda: source(other, "t", more=SOON).check("t"))

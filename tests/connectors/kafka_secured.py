"""Kafka tables behind a front that asks for logins and certificates, and what is done with them."""

from __future__ import annotations

import ssl
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from stateplan.common.errors import StateplanError
from stateplan.connectors.kafka import producer
from stateplan.connectors.kafka.client import close_consumers
from tests.connectors.kafka_proxy import HOST, Certificate, Front
from tests.connectors.kafka_sinks import make, write
from tests.connectors.kafka_sinks import rows as frame
from tests.connectors.kafka_sources import rows, source
from tests.support.kafka import Kafka

Options: TypeAlias = Mapping[str, str]

RIGHT, WRONG, NEW, STORE = 'open "sesame"', "hunter2!", "changed, and long", "of a key store"
SECRETS = (RIGHT, RIGHT.replace('"', '\\"'), WRONG, NEW, STORE)
USERS = {"joe": RIGHT}
JAAS = "properties.sasl.jaas.config"
EXACT = {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": "p"}


def named(user: str, password: str) -> Options:
    """A login as librdkafka takes it."""
    return {"properties.sasl.username": user, "properties.sasl.password": password}


def jaas(user: str, password: str, module: str = "plain.PlainLoginModule") -> Options:
    """A login as Java's client takes it."""
    quoted = password.replace('"', '\\"')
    text = f'org.apache.kafka.common.security.{module} required username="{user}" password="{quoted}";'
    return {JAAS: text}


scram_jaas = partial(jaas, module="scram.ScramLoginModule")


def secured(protocol: str, mechanism: str = "", login: Options | None = None) -> dict[str, str]:
    mechanisms = {"properties.sasl.mechanism": mechanism} if mechanism else {}
    return {"properties.security.protocol": protocol, **mechanisms, **(login or {})}


BY_VARIABLE = named("joe", "${env:KAFKA_PASSWORD}")


@dataclass
class Keys:
    """Certificates, and files with them in a folder.

    Attributes:
        folder: the folder.
        authority: vouches for brokers and clients.
    """

    folder: Path
    authority: Certificate = field(default_factory=lambda: Certificate("authority"))

    def __post_init__(self) -> None:
        self.broker, self.client = self.authority.issue(HOST), self.authority.issue("client")
        self.client.write(self.folder / "client.pem")
        self.client.write_pkcs12(self.folder / "client.p12", STORE)
        other = Certificate("other")
        other.issue("client").write(self.folder / "stranger.pem")
        for one in (self.authority, other):
            (self.folder / f"{one.name}.pem").write_text(one.pem())

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def tls(self, broker: Certificate | None = None, mutual: bool = False, old: bool = False) -> ssl.SSLContext:
        """What brokers speak.

        Args:
            broker: their certificate.
            mutual: whether clients need one.
            old: whether it is TLS 1.2, which tells of certificates in the handshake.
        """
        made = (broker or self.broker).context(self.folder, self.authority if mutual else None)
        if old:
            made.maximum_version = ssl.TLSVersion.TLSv1_2
        return made

    @property
    def trust(self) -> Options:
        place = {"properties.ssl.truststore.location": self.path("authority.pem")}
        return {**place, "properties.ssl.truststore.type": "PEM"}


@dataclass(frozen=True)
class Tables:
    """Tables over a topic, behind a front."""

    kafka: Kafka
    topic: str
    options: Options

    @staticmethod
    def of(kafka: Kafka, front: Front, options: Options) -> Tables:
        return Tables(kafka, kafka.topic(), {"properties.bootstrap.servers": front.servers, **options})

    def source(self) -> Any:
        return source(self.kafka, self.topic, more=dict(self.options))

    def plan(self) -> None:
        self.source().check("t")

    def read(self, start: int = 0, stop: int = 1) -> list[Any]:
        """Reads messages, as a worker does."""
        return rows(self.source(), *({"offsets": {self.topic: {"0": at}}} for at in (start, stop)))

    def send(self, value: int = 7) -> None:
        write(self.sink({}), frame((value,)))

    def send_once(self, value: int = 8, epoch: int = 0) -> None:
        sink = self.sink({**EXACT, "uid": self.topic})
        try:
            write(sink, frame((value,)), epoch)
        finally:
            sink.close()

    def sink(self, more: Options) -> Any:
        options: dict[str, Any] = {**self.options, **more}
        return make(options["properties.bootstrap.servers"], self.topic, "a INT", **options)

    @property
    def ways(self) -> Mapping[str, Callable[[], object]]:
        """All that reaches brokers."""
        return {"plan": self.plan, "read": self.read, "at-least-once": self.send, "exactly-once": self.send_once}


@dataclass(frozen=True)
class Outcome:
    """What became of a call.

    Attributes:
        code, message: of the error; empty for none.
        shown: all that the error shows of itself.
        seconds: how long it took.
    """

    code: str
    message: str
    shown: str
    seconds: float


def tried(call: Callable[[], object]) -> Outcome:
    """Keeps no error: it would keep the client."""
    began = time.monotonic()
    code = message = shown = ""
    try:
        call()
    except StateplanError as error:
        code, message = error.code, error.message
        shown = "\n".join((repr(error), str(error), repr(vars(error)), *traceback.format_exception(error)))
    return Outcome(code, message, shown, time.monotonic() - began)


def all_tried(calls: Mapping[Any, Callable[[], object]]) -> Mapping[Any, Outcome]:
    """What becomes of calls, all at a time."""
    with ThreadPoolExecutor(len(calls)) as pool:
        return dict(zip(calls, pool.map(tried, calls.values()), strict=True))


def end_clients() -> None:
    """Ends the clients of this process, which look for brokers that are gone."""
    close_consumers()
    for outbox in list(producer._shared_outboxes.values()):
        producer.give_up(outbox.brokers)

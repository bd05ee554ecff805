"""Options ``properties.*``: the settings of Kafka's Java client that Flink takes, as those of librdkafka.

Names of librdkafka's own are taken as they are. Every other name is an error before any row is read: a setting that is
not known could be the one that keeps data apart, or safe. Importing this loads no client library.

Source: Kafka's ``ConsumerConfig``, ``ProducerConfig``, ``SaslConfigs``, ``SslConfigs``; librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from stateplan.common.errors import OptionError, Place, nearest
from stateplan.common.secrets import has_reference, resolve_references, server_url

PREFIX = "properties."
LOGIN = "sasl.jaas.config"
METADATA = "sasl.oauthbearer.metadata.authentication.type"
CLOUD = "http://169.254.169.254"
"""Where a machine of a cloud asks who it is: with :data:`METADATA`, librdkafka gets a token there."""

OWN = {
    "commit.offsets.on.checkpoint": "true",
    "partition.discovery.interval.ms": None,
    "client.id.prefix": None,
    "default.api.timeout.ms": None,
}
"""Settings of Flink's connector, and those that it is not the client that keeps; with their defaults."""

NO_EFFECT = {
    "key.deserializer": "the table's formats read the messages",
    "value.deserializer": "the table's formats read the messages",
    "key.serializer": "the table's formats write the messages",
    "value.serializer": "the table's formats write the messages",
    "enable.auto.commit": "offsets are committed to the group after each micro-batch",
    "auto.commit.interval.ms": "offsets are committed to the group after each micro-batch",
    "auto.commit.enable": "offsets are committed to the group after each micro-batch",
    "max.poll.records": "scan.max-rows-per-batch bounds what a micro-batch reads",
    "max.poll.interval.ms": "consumers do not join the group",
    "session.timeout.ms": "consumers do not join the group",
    "heartbeat.interval.ms": "consumers do not join the group",
    "group.instance.id": "consumers do not join the group",
    "group.protocol": "consumers do not join the group",
    "group.remote.assignor": "consumers do not join the group",
    "partition.assignment.strategy": "consumers do not join the group",
    "exclude.internal.topics": "topics of Kafka itself are read only by their name",
    "allow.auto.create.topics": "a source does not create topics",
    "register.consumer.metrics": "the job has metrics of its own",
    "register.producer.metrics": "the job has metrics of its own",
    "metric.reporters": "the job has metrics of its own",
    "metrics.num.samples": "the job has metrics of its own",
    "metrics.recording.level": "the job has metrics of its own",
    "metrics.sample.window.ms": "the job has metrics of its own",
    "auto.include.jmx.reporter": "the job has metrics of its own",
    "max.block.ms": "delivery.timeout.ms bounds how long a message waits",
    "delivery.report.only.error": "the sink only needs reports of errors",
    "partitioner.ignore.keys": "sink.partitioner says where messages go",
    "partitioner.adaptive.partitioning.enable": "sink.partitioner says where messages go",
    "partitioner.availability.timeout.ms": "sink.partitioner says where messages go",
}
"""Settings that change nothing here, each with why."""

_JAVA_CLASS = "it names a Java class"
REFUSED_KEYS = {
    "interceptor.classes": _JAVA_CLASS,
    "partitioner.class": f"{_JAVA_CLASS}; use sink.partitioner",
    "sasl.client.callback.handler.class": _JAVA_CLASS,
    "sasl.login.callback.handler.class": _JAVA_CLASS,
    "sasl.login.class": _JAVA_CLASS,
    "security.providers": _JAVA_CLASS,
    "ssl.engine.factory.class": _JAVA_CLASS,
    "sasl.oauthbearer.jwt.retriever.class": _JAVA_CLASS,
    "sasl.oauthbearer.jwt.validator.class": _JAVA_CLASS,
    "ssl.provider": "it names a Java class; use properties.ssl.providers of librdkafka",
    "ssl.keymanager.algorithm": "keys are read by OpenSSL",
    "ssl.trustmanager.algorithm": "certificates are checked by OpenSSL",
    "ssl.secure.random.implementation": "random numbers come from OpenSSL",
    "ssl.protocol": "OpenSSL agrees with the broker on the newest TLS; use properties.ssl.cipher.suites",
    "ssl.enabled.protocols": "OpenSSL agrees with the broker on the newest TLS; use properties.ssl.cipher.suites",
    "enable.partition.eof": "the source sets it",
    "enable.auto.offset.store": "the source sets it",
    "test.mock.num.brokers": "it is for tests of librdkafka",
    "test.mock.broker.rtt": "it is for tests of librdkafka",
    "plugin.library.paths": "it loads code",
}
"""Settings that cannot be honoured, each with why and what to write instead."""

NEW_KEYS = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "max.request.size": "message.max.bytes",
    "sasl.mechanisms": "sasl.mechanism",
    "metadata.broker.list": "bootstrap.servers",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "sasl.oauthbearer.token.endpoint.url": "sasl.oauthbearer.token.endpoint.url",
}
"""Name in Java to name in librdkafka, where only the name differs."""

_SPECIAL = frozenset(
    {
        *("request.timeout.ms", "buffer.memory", LOGIN, "ssl.endpoint.identification.algorithm"),
        *("ssl.truststore.location", "ssl.truststore.type", "ssl.truststore.password"),
        *("ssl.keystore.location", "ssl.keystore.type", "ssl.keystore.password", "auto.offset.reset"),
    }
)

SAME = frozenset(
    """
    acks api.version.request api.version.request.timeout.ms batch.num.messages batch.size bootstrap.servers
    broker.address.family broker.address.ttl check.crcs client.dns.lookup client.id client.rack compression.codec
    compression.level compression.type connections.max.idle.ms coordinator.query.interval.ms debug
    delivery.timeout.ms enable.gapless.guarantee enable.idempotence enable.metrics.push
    enable.sasl.oauthbearer.unsecure.jwt
    enable.sparse.connections enable.ssl.certificate.verification fetch.error.backoff.ms fetch.max.bytes
    fetch.message.max.bytes fetch.min.bytes fetch.queue.backoff.ms fetch.wait.max.ms group.id https.ca.location
    https.ca.pem isolation.level linger.ms log.connection.close max.in.flight max.in.flight.requests.per.connection
    max.partition.fetch.bytes message.copy.max.bytes message.max.bytes message.send.max.retries message.timeout.ms
    metadata.max.age.ms metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy
    queue.buffering.backpressure.threshold queue.buffering.max.kbytes queue.buffering.max.messages
    queue.buffering.max.ms queued.max.messages.kbytes queued.min.messages receive.message.max.bytes
    reconnect.backoff.max.ms reconnect.backoff.ms request.required.acks retries retry.backoff.max.ms retry.backoff.ms
    sasl.kerberos.keytab sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.principal
    sasl.kerberos.service.name sasl.mechanism sasl.oauthbearer.assertion.algorithm
    sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds
    sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.jti.include
    sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
    sasl.oauthbearer.assertion.jwt.template.file sasl.oauthbearer.assertion.private.key.file
    sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.private.key.pem
    sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
    sasl.oauthbearer.client.id sasl.oauthbearer.client.secret sasl.oauthbearer.config sasl.oauthbearer.extensions
    sasl.oauthbearer.grant.type sasl.oauthbearer.metadata.authentication.type sasl.oauthbearer.method
    sasl.oauthbearer.scope sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url sasl.password
    sasl.username security.protocol socket.connection.setup.timeout.ms socket.keepalive.enable socket.max.fails
    socket.nagle.disable socket.receive.buffer.bytes socket.send.buffer.bytes socket.timeout.ms
    ssl.ca.location ssl.ca.pem ssl.certificate.location ssl.certificate.pem ssl.cipher.suites ssl.crl.location
    ssl.curves.list ssl.key.location ssl.key.password ssl.key.pem ssl.providers ssl.sigalgs.list
    sticky.partitioning.linger.ms topic.metadata.propagation.max.ms topic.metadata.refresh.fast.interval.ms
    topic.metadata.refresh.interval.ms topic.metadata.refresh.sparse transaction.timeout.ms transactional.id
    """.split()  # noqa: SIM905 - names as in the manual
)
"""Names of librdkafka, of which most are Java's too."""

KNOWN_KEYS = frozenset({*SAME, *OWN, *NO_EFFECT, *REFUSED_KEYS, *NEW_KEYS, *_SPECIAL})
"""Every name that an option may have, without ``properties.``"""

_WORD = re.compile(r"[\w./@:+=-]*", re.ASCII)
"""A name or a path in which the shell finds nothing to do."""

_PATTERNS = re.compile(r'(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;]+))')
_QUOTED_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')
_LOGIN = re.compile(r"\s*([\w.]+)\s+(required|requisite|sufficient|optional)\b(.*?);?\s*", re.S)

_SECURITY = frozenset({"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"})
_WORDS = {
    "security.protocol": _SECURITY,
    "isolation.level": frozenset({"read_uncommitted", "read_committed"}),
    "auto.offset.reset": frozenset({"earliest", "latest", "none"}),
}


def check(properties: Mapping[str, str], place: Place | None = None) -> None:
    """Checks what can be checked without a broker and without the secrets.

    Args:
        properties: as written, without ``properties.``.
        place: where the table is written.

    Raises:
        OptionError: OPT130, a name that is not known; OPT131, a setting that cannot be honoured; OPT132, a value that
            is none.
    """
    for name in properties:
        if name not in KNOWN_KEYS:
            raise OptionError("OPT130", key=PREFIX + name, place=place, hint=_near(name))
    for name, words in _WORDS.items():
        text = properties.get(name)
        if text is None or has_reference(text):
            continue
        if text.lower() not in {word.lower() for word in words}:
            raise OptionError("OPT132", key=PREFIX + name, text=text, words=sorted(words), place=place)
    if not any(has_reference(text) for text in properties.values()):
        translated(properties, producer=False, place=place)


def places_of(properties: Mapping[str, str]) -> Iterator[str]:
    """The brokers that properties name, the address of a cloud's metadata, and the file of keys of a login; see
    :meth:`Connector.places`."""
    for name in ("bootstrap.servers", "metadata.broker.list"):
        for server in properties.get(name, "").split(","):
            if server.strip():
                port = "" if has_reference(server) or re.search(r":\d+\s*$", server) else ":9092"
                yield server_url("kafka", server.strip() + port)
    if properties.get(METADATA, "none").strip().lower() != "none":
        yield CLOUD
    login = properties.get(LOGIN, "")
    yield from (text for key, text in _login_settings(login) if key.lower() == "keytab")


def programs_of(properties: Mapping[str, str]) -> Iterator[str]:
    """The settings of which librdkafka makes a command for the shell, where they hold more than a name or a path; see
    :meth:`Connector.programs`."""
    for name, text in properties.items():
        if name.startswith("sasl.kerberos.") and not _WORD.fullmatch(text):
            yield PREFIX + name
    words = {name.lower() for name in _TICKET}
    if any(
        key.lower() in words and not _WORD.fullmatch(text) for key, text in _login_settings(properties.get(LOGIN, ""))
    ):
        yield PREFIX + LOGIN


def _near(name: str) -> str | None:
    hint = nearest(name, KNOWN_KEYS - REFUSED_KEYS.keys())
    return None if hint is None else hint.replace("'", f"'{PREFIX}", 1).replace(" or '", f" or '{PREFIX}")


def translated(properties: Mapping[str, str], producer: bool, place: Place | None = None) -> dict[str, str]:
    """Settings of the client for those of a table.

    Args:
        properties: known ones, without ``properties.`` and with what references stand for, except in :data:`LOGIN`.
        producer: whether the client writes.
        place: where the table is written.

    Returns:
        Setting of librdkafka to its text.

    Raises:
        OptionError: OPT131, a setting that cannot be honoured; OPT132, a value that is none.
    """
    settings: dict[str, str] = {}
    for name, text in properties.items():
        if name in _SPECIAL or name in OWN or name in NO_EFFECT or name in REFUSED_KEYS:
            continue
        settings[NEW_KEYS.get(name, name)] = text
    for step in (_time_outs, _trust, _keys, _login):
        settings |= step(properties, producer, place)
    if "security.protocol" in settings:
        settings["security.protocol"] = settings["security.protocol"].upper()
    if (prefix := properties.get("client.id.prefix")) is not None:
        settings.setdefault("client.id", prefix)
    return settings


def _time_outs(properties: Mapping[str, str], producer: bool, place: Place | None) -> dict[str, str]:
    settings: dict[str, str] = {}
    if (text := properties.get("request.timeout.ms")) is not None:
        settings["request.timeout.ms" if producer else "socket.timeout.ms"] = text
    if (text := properties.get("buffer.memory")) is not None:
        settings["queue.buffering.max.kbytes"] = str(max(1, _number(text, "buffer.memory", place) // 1024))
    if (text := properties.get("ssl.endpoint.identification.algorithm")) is not None:
        settings["ssl.endpoint.identification.algorithm"] = text or "none"
    return settings


def _number(text: str, name: str, place: Place | None) -> int:
    try:
        return int(text)
    except ValueError:
        raise OptionError("OPT132", key=PREFIX + name, text=text, place=place, expected="a whole number") from None


def time_out(properties: Mapping[str, str], default: int) -> int:
    """After how many milliseconds without an answer a call fails."""
    for name in ("default.api.timeout.ms", "request.timeout.ms"):
        if name in properties:
            return max(1, _number(properties[name], name, None))
    return default


def _trust(properties: Mapping[str, str], producer: bool, place: Place | None) -> dict[str, str]:
    """Certificates of authorities: files in PEM are read, Java's own key stores are not."""
    path = properties.get("ssl.truststore.location")
    if path is None:
        return {}
    if properties.get("ssl.truststore.type", "JKS").upper() != "PEM":
        raise OptionError("OPT131", kind="trust", key="properties.ssl.truststore.location", place=place)
    return {"ssl.ca.location": path}


def _keys(properties: Mapping[str, str], producer: bool, place: Place | None) -> dict[str, str]:
    """The certificate of the client and its key: PEM and PKCS#12 are read, Java's own key stores are not."""
    path, kind = properties.get("ssl.keystore.location"), properties.get("ssl.keystore.type", "JKS").upper()
    if path is None:
        return {}
    if kind == "PEM":
        return {"ssl.certificate.location": path, "ssl.key.location": path}
    if kind != "PKCS12":
        raise OptionError("OPT131", kind="key", key="properties.ssl.keystore.location", place=place)
    return {"ssl.keystore.location": path, "ssl.keystore.password": properties.get("ssl.keystore.password", "")}


def _plain(jaas: Mapping[str, str]) -> dict[str, str]:
    return {"sasl.username": jaas.get("username", ""), "sasl.password": jaas.get("password", "")}


def _token(jaas: Mapping[str, str]) -> dict[str, str]:
    names = {"clientId": "client.id", "clientSecret": "client.secret", "scope": "scope"}
    client_settings = {f"sasl.oauthbearer.{names[k]}": text for k, text in jaas.items() if k in names}
    return {"sasl.oauthbearer.method": "oidc", **client_settings}


_TICKET = {"keyTab": "keytab", "principal": "principal", "serviceName": "service.name"}


def _ticket(jaas: Mapping[str, str]) -> dict[str, str]:
    return {f"sasl.kerberos.{_TICKET[k]}": text for k, text in jaas.items() if k in _TICKET}


_MODULES: dict[str, Callable[[Mapping[str, str]], dict[str, str]]] = {
    "PlainLoginModule": _plain,
    "ScramLoginModule": _plain,
    "OAuthBearerLoginModule": _token,
    "Krb5LoginModule": _ticket,
}


def _login(properties: Mapping[str, str], producer: bool, place: Place | None) -> dict[str, str]:
    """What ``sasl.jaas.config`` says about who logs in."""
    text = properties.get(LOGIN)
    if text is None:
        return {}
    match = _LOGIN.fullmatch(_with_values(text, place))
    module = match[1].rpartition(".")[2] if match else ""
    if match is None or module not in _MODULES:
        raise OptionError("OPT131.jaas_config", modules=list(_MODULES), place=place)
    return _MODULES[module](dict(_login_settings(match[3])))


def _with_values(text: str, place: Place | None) -> str:
    """A login with what references stand for. A value that is in quotes may have quotes itself."""
    parts = _QUOTED_TEXT.split(text)  # in turn outside and inside of quotes
    parts[1::2] = map(_unescaped, parts[1::2])
    parts = [resolve_references(part, PREFIX + LOGIN, place) for part in parts]
    parts[1::2] = [re.sub(r'(["\\])', r"\\\1", part) for part in parts[1::2]]
    return '"'.join(parts)


def _login_settings(text: str) -> Iterator[tuple[str, str]]:
    for key, in_quotes, bare in _PATTERNS.findall(text):
        yield key, _unescaped(in_quotes) if in_quotes else bare


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)

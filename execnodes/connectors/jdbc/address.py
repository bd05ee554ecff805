"""Where a table of the connector ``jdbc`` is: its URL and the properties of its connection, as libpq has them.

Source: the URLs and connection properties of PostgreSQL's JDBC driver (pgjdbc), and Flink's ``JdbcConnectorOptions``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from stateplan.execnodes.connectors.jdbc.postgres import Server
from stateplan.execnodes.connectors.protocol import server_url
from stateplan.execnodes.errors import OptionError, Place, nearest
from stateplan.execnodes.redaction import is_secret
from stateplan.execnodes.secrets import resolved

_LIBPQ = (
    *("sslmode", "sslrootcert", "sslcert", "sslkey", "sslpassword", "sslcrl", "sslnegotiation", "channel_binding"),
    *("ssl_min_protocol_version", "ssl_max_protocol_version", "gssencmode", "krbsrvname", "target_session_attrs"),
    *("load_balance_hosts", "options", "application_name", "connect_timeout", "tcp_user_timeout", "passfile"),
    *("keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "require_auth", "hostaddr"),
    *("service", "client_encoding"),
)

_FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl", "passfile")
"""Properties whose values are paths, or ``system`` for the certificates of the machine."""

_RENAMED = {
    "ApplicationName": "application_name",
    "connectTimeout": "connect_timeout",
    "loginTimeout": "connect_timeout",
    "gssEncMode": "gssencmode",
    "channelBinding": "channel_binding",
    "kerberosServerName": "krbsrvname",
}

_SESSIONS = {
    "any": "any",
    "primary": "primary",
    "master": "primary",
    "secondary": "standby",
    "slave": "standby",
    "preferSecondary": "prefer-standby",
    "preferSlave": "prefer-standby",
}

_WITHOUT_EFFECT = frozenset(
    (
        *("prepareThreshold", "preparedStatementCacheQueries", "preparedStatementCacheSizeMiB", "defaultRowFetchSize"),
        *("binaryTransfer", "binaryTransferEnable", "binaryTransferDisable", "reWriteBatchedInserts", "stringtype"),
        *("assumeMinServerVersion", "loggerLevel", "loggerFile", "logUnclosedConnections", "disableColumnSanitiser"),
        *("autosave", "cleanupSavepoints", "receiveBufferSize", "sendBufferSize", "allowEncodingChanges"),
        *("databaseMetadataCacheFields", "databaseMetadataCacheFieldsMiB", "adaptiveFetch", "adaptiveFetchMinimum"),
        *("adaptiveFetchMaximum", "quoteReturningIdentifiers", "hideUnprivilegedObjects", "escapeSyntaxCallMode"),
        *("cancelSignalTimeout", "maxResultBuffer", "preferQueryMode", "logServerErrorDetail", "readOnlyMode"),
        *("hostRecheckSeconds", "socketTimeout", "unknownLength", "useSpnego", "jaasLogin", "gssResponseTimeout"),
    )
)
"""Properties of pgjdbc that say how it works inside, and change no row."""

_URL = re.compile(r"jdbc:postgresql:(?://(?P<hosts>[^/?]*)/?)?(?P<database>[^?]*)(?:\?(?P<query>.*))?", re.S)


def server_of(
    url: str,
    username: str | None,
    password: str | None,
    properties: Mapping[str, str],
    timeout_ms: int,
    owner: str,
    place: Place | None = None,
    time_zone: str = "UTC",
) -> Server:
    """The server that a table or a catalog of the connector ``jdbc`` names.

    Args:
        url: ``jdbc:postgresql://host:port/database?name=value``; references to secrets are resolved in it.
        username, password: as written; references stay references.
        properties: of the connection, named as in pgjdbc or libpq.
        timeout_ms: after which an attempt to connect is given up.
        owner: what needs it, for errors.
        place: of the URL.
        time_zone: of the connections.

    Raises:
        OptionError: OPT120 or OPT121, a reference; OPT145, a URL that is none of PostgreSQL; OPT146, a property that
            is not known; OPT147, a password in the URL.
    """
    found = _URL.fullmatch(resolved(url, "url", place).strip())
    if found is None:
        kind = re.match(r"jdbc:([\w+-]+):", url)
        if kind is not None and kind[1] != "postgresql":
            raise OptionError("OPT145", database=kind[1], place=place)
        raise OptionError("OPT145.malformed", place=place)
    hosts, ports = _hosts(found["hosts"] or "", place)
    given: dict[str, str] = {}
    for name, value in _pairs(found["query"] or ""):
        if is_secret(name):
            raise OptionError("OPT147", name=name, place=place)
        if name == "user":
            username = username or value
        else:
            given[name] = value
    parameters: dict[str, str] = {}
    for name, value in {**given, **properties}.items():
        if name in ("user", "password"):
            username, password = (value, password) if name == "user" else (username, value)
        else:
            parameters |= _parameter(name, value, place)
    database = unquote(found["database"] or "") or None
    return Server(
        hosts or None,
        ports,
        database or username,
        username,
        password,
        parameters,
        timeout_ms // 1000,
        owner=owner,
        time_zone=time_zone,
    )


def properties_of(options: Mapping[str, str]) -> dict[str, str]:
    """The options ``properties.*`` of a table or a catalog, without the prefix."""
    prefix = "properties."
    return {key.removeprefix(prefix): text for key, text in options.items() if key.startswith(prefix)}


def places_of(url: str, properties: Mapping[str, str]) -> Iterator[str]:
    """What properties of a connection name besides the server of the URL: another address, and files of libpq; see
    :meth:`Connector.places`."""
    for name, value in (*_pairs(url.partition("?")[2]), *properties.items()):
        if name == "hostaddr":
            yield server_url("jdbc:postgresql", value)
        elif name == "service":
            yield server_url("service", value)
        elif name in _FILES and value != "system":
            yield value


def _hosts(text: str, place: Place | None) -> tuple[str, str]:
    """Hosts and ports with commas."""
    hosts, ports = [], []
    if "@" in text:
        raise OptionError("OPT147.user", place=place)
    for one in text.split(",") if text else ():
        match = re.fullmatch(r"(\[[^\]]*\]|[^:\[\]]*)(?::(\d{1,5}))?", one.strip())
        if match is None or int(match[2] or 5432) > 65535:
            raise OptionError("OPT145.malformed", place=place)
        hosts.append(match[1].strip("[]") or "localhost")
        ports.append(match[2] or "5432")
    return ",".join(hosts), ",".join(ports) or "5432"


def _pairs(query: str) -> Iterator[tuple[str, str]]:
    for pair in query.split("&"):
        name, _, value = pair.partition("=")
        if name:
            yield unquote(name), unquote(value)


def _parameter(name: str, value: str, place: Place | None) -> dict[str, str]:
    """The parameter of libpq that a property stands for."""
    if name in _LIBPQ:
        return {name: value}
    if name in _RENAMED:
        return {_RENAMED[name]: value}
    if name in _WITHOUT_EFFECT:
        return {}
    if name == "ssl":
        return {"sslmode": "verify-full"} if value.lower() in ("true", "") else {}
    if name == "tcpKeepAlive":
        return {"keepalives": "1" if value.lower() == "true" else "0"}
    if name == "currentSchema":
        return {"options": f"-c search_path={value.replace(' ', '')}"}
    if name == "targetServerType" and value in _SESSIONS:
        return {"target_session_attrs": _SESSIONS[value]}
    known = [*_LIBPQ, *_RENAMED, *_WITHOUT_EFFECT, "ssl", "tcpKeepAlive", "currentSchema", "targetServerType"]
    raise OptionError("OPT146", name=name, place=place, hint=nearest(name, known))

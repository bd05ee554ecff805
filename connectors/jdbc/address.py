"""Where a table of the connector ``jdbc`` is: its URL and the properties of its connection, as libpq has them.

Source: the URLs and connection properties of PostgreSQL's JDBC driver (pgjdbc), and Flink's ``JdbcConnectorOptions``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from urllib.parse import unquote, unquote_plus

from stateplan.common.errors import OptionError, Place, nearest
from stateplan.common.options import options_below
from stateplan.common.redaction import is_secret
from stateplan.common.secrets import resolve_references, server_url
from stateplan.connectors.jdbc.postgres import Server

_LIBPQ = (
    *("sslrootcert", "sslcert", "sslkey", "sslpassword", "sslcrl", "sslnegotiation", "channel_binding"),
    *("ssl_min_protocol_version", "ssl_max_protocol_version", "gssencmode", "krbsrvname", "target_session_attrs"),
    *("load_balance_hosts", "options", "application_name", "connect_timeout", "tcp_user_timeout", "passfile"),
    *("keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "require_auth", "hostaddr"),
    *("service", "client_encoding"),
)

_FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl", "passfile")
"""Properties whose values are paths, or ``system`` for the certificates of the machine."""

_NEW_KEYS = {
    "ApplicationName": "application_name",
    "connectTimeout": "connect_timeout",
    "loginTimeout": "connect_timeout",
    "channelBinding": "channel_binding",
    "kerberosServerName": "krbsrvname",
    "requireAuth": "require_auth",
    "sslNegotiation": "sslnegotiation",
}

_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")

_NUMBERS = frozenset(
    ("connect_timeout", "tcp_user_timeout", "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count")
)

_VALUES = {
    "targetServerType": (
        "target_session_attrs",
        {
            "any": "any",
            "primary": "primary",
            "master": "primary",
            "secondary": "standby",
            "slave": "standby",
            "preferSecondary": "prefer-standby",
            "preferSlave": "prefer-standby",
        },
    ),
    "gssEncMode": (
        "gssencmode",
        {"disable": "disable", "allow": "prefer", "prefer": "prefer", "require": "require"},
    ),
    "sslmode": ("sslmode", {mode: mode for mode in _MODES}),
    "loadBalanceHosts": ("load_balance_hosts", {"true": "random", "false": "disable"}),
    "tcpKeepAlive": ("keepalives", {"true": "1", "false": "0"}),
}
"""Properties that have these values, to the parameter of libpq and its values."""

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
        *("groupStartupParameters", "gsslib", "jaasApplicationName", "maxSendBufferSize", "protocolVersion"),
        *("sslResponseTimeout", "sspiServiceClass", "tcpNoDelay", "xmlFactoryFactory"),
    )
)
"""Properties of pgjdbc that say how it works inside, and change no row."""

_URL = re.compile(
    r"jdbc:postgresql:(?:/|//(?P<hosts>[^/?]*)(?:/(?P<there>[^/?]*))?|(?P<here>[^/?][^?]*)?)(?:\?(?P<query>.*))?", re.S
)
"""As pgjdbc documents and parses it: hosts and a database ``there``, or a database ``here``."""


def database_of(url: str) -> str:
    """The database of a URL, wherever its server is and however one connects to it; of a URL that is none of
    PostgreSQL, or a reference as a whole, the URL."""
    match = _URL.fullmatch(url.strip())
    return url if match is None else unquote_plus(match["there"] or match["here"] or "")


def first_server(url: str) -> tuple[str, str, str] | None:
    """Host, port and database of a URL, of several hosts the first; None for a URL that is none of PostgreSQL, or that
    does not say its database."""
    match = _URL.fullmatch(url.strip())
    if match is None or not database_of(url):
        return None
    host, colon, port = (match["hosts"] or "").split(",")[0].rpartition(":")
    if not colon or port.endswith("]"):
        host, port = (match["hosts"] or "").split(",")[0], ""
    return host or "localhost", port or "5432", database_of(url)


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
    """The server that a table or a catalog of the connector ``jdbc`` names. What the URL says comes first, as in
    pgjdbc; its host is ``localhost`` and its database named as the user if it has none.

    Args:
        url: ``jdbc:postgresql://host:port/database?name=value``; references to secrets are resolved in it.
        username, password: as written; references stay references.
        properties: the properties of the connection, named as in pgjdbc or libpq.
        timeout_ms: after which an attempt to connect is cancelled.
        owner: what needs it, for errors.
        place: the place of the URL.
        time_zone: the time zone of the connections.

    Raises:
        OptionError: OPT120 or OPT121, a reference; OPT145, a URL that is none of PostgreSQL; OPT146, a property that
            is not known; OPT147, a password in the URL.
    """
    match = _URL.fullmatch(resolve_references(url, "url", place).strip())
    if match is None:
        kind = re.match(r"jdbc:([\w+-]+):", url)
        if kind is not None and kind[1] != "postgresql":
            raise OptionError("OPT145", database=kind[1], place=place)
        raise OptionError("OPT145", database="this URL", place=place)
    url_options = dict(_pairs(match["query"] or ""))
    for name in url_options:
        if is_secret(name):
            raise OptionError("OPT147", name=name, place=place)
    username = url_options.pop("user", None) or username or properties.get("user")
    parameters: dict[str, str] = {}
    all_options = {**properties, **url_options}
    for name, value in all_options.items():
        if name in ("user", "password") or (name == "ssl" and "sslmode" in all_options):
            continue
        for parameter, text in _parameter(name, value, place).items():
            before = parameters.get(parameter) if parameter == "options" else None
            parameters[parameter] = text if before is None else f"{before} {text}"
    has_service = "service" in parameters
    hosts, ports = _hosts(match["hosts"] or ("" if has_service else "localhost"), place)
    database = unquote_plus(match["there"] or match["here"] or "") or None
    return Server(
        hosts or None,
        ports,
        database or (None if has_service else username),
        username,
        password or properties.get("password"),
        parameters,
        timeout_ms // 1000,
        owner=owner,
        time_zone=time_zone,
    )


def properties_of(options: Mapping[str, str]) -> dict[str, str]:
    """The options ``properties.*`` of a table or a catalog, without the prefix."""
    return options_below(options, "properties.")


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
        raise OptionError("OPT147.user", key="url", options=["username", "password"], place=place)
    for one in text.split(",") if text else ():
        match = re.fullmatch(r"(\[[^\]]*\]|[^:\[\]]*)(?::(\d{1,5}))?", one.strip())
        if match is None or not 0 < int(match[2] or 5432) <= 65535:
            raise OptionError("OPT145", database="this URL", place=place)
        hosts.append(match[1].strip("[]") or "localhost")
        ports.append(match[2] or "5432")
    return ",".join(hosts), ",".join(ports) or "5432"


def _pairs(query: str) -> Iterator[tuple[str, str]]:
    for pair in query.split("&"):
        name, _, value = pair.partition("=")
        if name:
            yield unquote(name), unquote_plus(value)


def _parameter(name: str, value: str, place: Place | None) -> dict[str, str]:
    """The parameter of libpq that a property stands for."""
    if name in _LIBPQ or name in _NEW_KEYS:
        parameter = _NEW_KEYS.get(name, name)
        if parameter not in _NUMBERS:
            return {parameter: value}
        if not re.fullmatch(r"\d{1,9}(\.\d+)?", value):
            raise OptionError("OPT146.value", name=name, value=value, values=["a number"], place=place)
        return {parameter: str(math.ceil(float(value)))}
    if name in _WITHOUT_EFFECT:
        return {}
    if name == "ssl":
        return {"sslmode": "verify-full"} if value.lower() in ("true", "") else {}
    if name == "currentSchema":
        path_text = value.replace("\\", "\\\\").replace(" ", "\\ ")
        return {"options": f"-c search_path={path_text}"}
    if name in _VALUES:
        parameter, values = _VALUES[name]
        mode = {key.lower(): text for key, text in values.items()}.get(value.lower() or "true")
        if mode is None:
            raise OptionError("OPT146.value", name=name, value=value, values=list(values), place=place)
        return {parameter: mode}
    names = [*_LIBPQ, *_NEW_KEYS, *_WITHOUT_EFFECT, *_VALUES, "ssl", "currentSchema"]
    raise OptionError("OPT146", name=name, place=place, hint=nearest(name, names))

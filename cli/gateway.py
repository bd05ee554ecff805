"""``stateplan gateway``."""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stateplan.cli.console import Console
from stateplan.common.errors import OptionError
from stateplan.common.redaction import redacted

_ADDRESS = "sql-gateway.endpoint.rest.bind-address"
_PORT = "sql-gateway.endpoint.rest.port"
_SWITCH_SECONDS = 0.0005
"""Statements are planned in Python threads, beside the one that answers. It must not wait for its turn."""
_NICENESS = 19
"""Of Spark's processes: statements come before the rows of jobs."""
_COLLECT = (5000, 20, 10)
"""Thresholds of the garbage collector. Statements leave few reference cycles behind, but a gateway whose oldest
generation is collected more rarely grows."""

_FIRST = (
    "CREATE TABLE t (a INT, b STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts, PRIMARY KEY (a) NOT ENFORCED) "
    "WITH ('connector' = 'datagen', 'number-of-rows' = '1')",
    "EXPLAIN SELECT x.b, COUNT(*) FROM t AS x JOIN t AS y ON x.a = y.a GROUP BY x.b",
    "SELECT a, COUNT(*) FROM (VALUES (1, 'x')) AS v (a, b) GROUP BY a",
)
"""Statements that load the planner and the runtime."""


@dataclass(frozen=True)
class Settings:
    """What the command line says."""

    address: str | None = None
    port: int | None = None
    folder: str | None = None
    roots: Sequence[str] = ()
    variables: Sequence[str] = ()
    modules: Sequence[str] = ()
    hosts: Sequence[str] = ()
    token_file: str | None = None
    certificate: str | None = None
    key: str | None = None
    client_ca: str | None = None


def default_folder() -> Path:
    """Where a gateway keeps its jobs and plans: in the folder that XDG names for such things."""
    given = os.environ.get("XDG_STATE_HOME")
    return (Path(given) if given else Path.home().joinpath(".local", "state")) / "stateplan" / "gateway"


def run(console: Console, options: Mapping[str, str], settings: Settings, quiet: bool) -> None:
    """Serves until it is interrupted.

    Raises:
        GatewayError: GW015, others reach it and could do anything; GW016, GW017, it cannot be started.
        OptionError: one of the options is not known, or has a value that cannot be used.
    """
    from stateplan.common.settings import Configuration
    from stateplan.gateway.rest.app import application
    from stateplan.gateway.rest.guard import Access, Guard
    from stateplan.gateway.rest.server import allow_files, bind, read_token, server, tls_options
    from stateplan.gateway.service.limits import PREFIXES, Limits
    from stateplan.gateway.service.service import SqlGatewayService
    from stateplan.runtime.spark.session import lower_priority

    own = {key: text for key, text in options.items() if key.startswith(PREFIXES)}
    address = settings.address or own.pop(_ADDRESS, "127.0.0.1")
    port = settings.port if settings.port is not None else _port(own.pop(_PORT, "8083"))
    limits = Limits.of(own)
    defaults = Configuration({key: text for key, text in options.items() if not key.startswith(PREFIXES)})
    token = None if settings.token_file is None else read_token(settings.token_file)
    tls = tls_options(settings.certificate, settings.key, settings.client_ca)
    access = Access.of(address, token, settings.client_ca is not None, settings.hosts, bool(settings.roots))
    if access.remote and not tls:
        console.warning("the token crosses the network in clear text: give --tls-cert and --tls-key as well")
    _log_to_stderr(quiet)
    listener = bind(address, port)
    folder = Path(settings.folder) if settings.folder is not None else default_folder()
    _warm_up()  # before jobs are recovered: while Spark starts, notes would not be seen
    service = SqlGatewayService(
        limits,
        options=defaults.to_dict(),
        folder=folder.absolute(),
        roots=settings.roots,
        variables=settings.variables,
        modules=settings.modules,
        keep_unknown=True,
    )
    sys.setswitchinterval(_SWITCH_SECONDS)
    lower_priority(_NICENESS)
    allow_files()
    where = f"[{address}]" if ":" in address else address
    console.note(f"SQL gateway at {'https' if tls else 'http'}://{where}:{listener.getsockname()[1]}")
    console.note(f"jobs, plans and the audit log are in {folder}")
    try:
        server(Guard(application(service), access, limits.unread), tls).run(sockets=[listener])
    finally:
        service.stop()


def _warm_up() -> None:
    """Loads what statements need, so that no user waits for it, and takes it out of garbage collection: a whole one
    would stop all threads for a fifth of a second."""
    from stateplan.session.environment import TableEnvironment

    environment = TableEnvironment.create()
    for statement in _FIRST:
        list(environment.execute_sql(statement).collect())
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT)


def _port(text: str) -> int:
    """Raises OptionError OPT105."""
    if not text.isdecimal() or not 0 <= int(text) < 65536:
        raise OptionError("OPT105", key=_PORT, text=text, declared="Integer", expected="a port, from 0 to 65535")
    return int(text)


class Formatter(logging.Formatter):
    """Lines without secrets, also in what libraries say of their failures."""

    def format(self, record: logging.LogRecord) -> str:
        return redacted(super().format(record))


def _log_to_stderr(quiet: bool) -> None:
    try:
        own = os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding="utf-8", errors="backslashreplace")
    except (AttributeError, OSError):  # there is none
        return
    handler = logging.StreamHandler(own)  # while Spark starts, it is the standard error of the process
    handler.setFormatter(Formatter("%(asctime)s %(levelname)s %(message)s"))
    for name, level in (("stateplan.gateway", logging.INFO), ("uvicorn.error", logging.ERROR)):
        logger = logging.getLogger(name)
        logger.setLevel(logging.ERROR if quiet else level)
        logger.addHandler(handler)
        logger.propagate = False

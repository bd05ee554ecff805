"""``stateplan gateway``."""

from __future__ import annotations

import gc
import logging
import os
import sys
from dataclasses import field
from pathlib import Path
from typing import Annotated

import typer

from stateplan.cli.command import command
from stateplan.cli.console import Console
from stateplan.cli.options import SettingsOption, settings
from stateplan.common.errors import OptionError
from stateplan.common.lazy_dataclass import dataclass
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
class Arguments:
    """The arguments and options of ``stateplan gateway``."""

    pairs: SettingsOption
    address: Annotated[
        str | None,
        typer.Option("--bind-address", metavar="ADDRESS", help="Address to listen on. Default: 127.0.0.1."),
    ] = None
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 for a free one. Default: 8083.")
    ] = None
    folder: Annotated[
        str | None,
        typer.Option(
            "--dir",
            metavar="FOLDER",
            help="Folder for jobs, plans and the audit log. Default: stateplan/gateway in $XDG_STATE_HOME or "
            "~/.local/state.",
        ),
    ] = None
    roots: Annotated[
        list[str],
        typer.Option(
            "--root",
            metavar="FOLDER",
            help="Folder or URL whose files statements may use, or server such as kafka://host:port. Repeatable. "
            "Default: all that you may use.",
        ),
    ] = field(default_factory=list)
    variables: Annotated[
        list[str],
        typer.Option(
            "--allow-env",
            metavar="NAME",
            help="With --root: an environment variable of the gateway to which tables may refer with ${env:NAME}. "
            "Repeatable. Default: none.",
        ),
    ] = field(default_factory=list)
    modules: Annotated[
        list[str],
        typer.Option(
            "--allow-module",
            metavar="MODULE",
            help="Module or package from which Python functions may be imported; '*' for any. Repeatable. "
            "Default: none.",
        ),
    ] = field(default_factory=list)
    hosts: Annotated[
        list[str],
        typer.Option("--allow-host", metavar="NAME", help="Another host name of the gateway for clients. Repeatable."),
    ] = field(default_factory=list)
    token_file: Annotated[
        str | None,
        typer.Option("--token-file", metavar="FILE", help="File with the token that every request must have."),
    ] = None
    certificate: Annotated[
        str | None, typer.Option("--tls-cert", metavar="FILE", help="Certificate of the gateway (PEM), for https.")
    ] = None
    key: Annotated[str | None, typer.Option("--tls-key", metavar="FILE", help="Its private key (PEM).")] = None
    warm_spark: Annotated[
        bool,
        typer.Option(
            "--warm-spark", help="Start Spark with the gateway, and keep it ready, so that jobs begin within seconds."
        ),
    ] = False
    client_ca: Annotated[
        str | None,
        typer.Option("--tls-client-ca", metavar="FILE", help="Only clients with a certificate of this CA may connect."),
    ] = None


def default_folder() -> Path:
    """Where a gateway keeps its jobs and plans: in the folder that XDG names for such things."""
    state_home = os.environ.get("XDG_STATE_HOME")
    return (Path(state_home) if state_home else Path.home().joinpath(".local", "state")) / "stateplan" / "gateway"


@command(formats=False)
def gateway(console: Console, arguments: Arguments, quiet: bool) -> None:
    """Serve Flink's SQL gateway REST API: sessions, statements, results and jobs over HTTP."""
    from stateplan.common.settings import Configuration
    from stateplan.gateway.rest.app import application
    from stateplan.gateway.rest.guard import Access, Guard
    from stateplan.gateway.rest.server import allow_files, bind, read_token, server, tls_options
    from stateplan.gateway.service.limits import PREFIXES, Limits
    from stateplan.gateway.service.service import SqlGatewayService
    from stateplan.gateway.service.warm_spark import WarmSpark
    from stateplan.runtime.spark.session import lower_priority

    options = settings(arguments.pairs)
    own = {key: text for key, text in options.items() if key.startswith(PREFIXES)}
    address = arguments.address or own.pop(_ADDRESS, "127.0.0.1")
    port = arguments.port if arguments.port is not None else _port(own.pop(_PORT, "8083"))
    limits = Limits.of(own)
    defaults = Configuration({key: text for key, text in options.items() if not key.startswith(PREFIXES)})
    token = None if arguments.token_file is None else read_token(arguments.token_file)
    tls = tls_options(arguments.certificate, arguments.key, arguments.client_ca)
    access = Access.of(address, token, arguments.client_ca is not None, arguments.hosts, bool(arguments.roots))
    if access.remote and not tls:
        console.warning("the token crosses the network in clear text: give --tls-cert and --tls-key as well")
    _log_to_stderr(quiet)
    listener = bind(address, port)
    folder = Path(arguments.folder) if arguments.folder is not None else default_folder()
    _warm_up()  # before jobs are recovered: while Spark starts, notes would not be seen
    service = SqlGatewayService(
        limits,
        options=defaults.to_dict(),
        folder=folder.absolute(),
        roots=arguments.roots,
        variables=arguments.variables,
        modules=arguments.modules,
        keep_unknown=True,
    )
    sys.setswitchinterval(_SWITCH_SECONDS)
    lower_priority(_NICENESS)
    allow_files()
    warm_spark = WarmSpark(defaults.to_dict()) if arguments.warm_spark else None
    host = f"[{address}]" if ":" in address else address
    console.note(f"SQL gateway at {'https' if tls else 'http'}://{host}:{listener.getsockname()[1]}")
    console.note(f"jobs, plans and the audit log are in {folder}")
    try:
        server(Guard(application(service), access, limits.unread), tls).run(sockets=[listener])
    finally:
        if warm_spark is not None:
            warm_spark.stop()
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
        raise OptionError("OPT105", key=_PORT, text=text, expected="a port, from 0 to 65535")
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
    levels = {"stateplan": logging.WARNING, "stateplan.gateway": logging.INFO, "uvicorn.error": logging.ERROR}
    for name, level in levels.items():
        logger = logging.getLogger(name)
        logger.setLevel(logging.ERROR if quiet else level)
        logger.addHandler(handler)
        logger.propagate = False

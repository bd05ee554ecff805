"""Why a server or a library failed, found from the exception that says so.

Libraries have classes of their own for it, and Java's reach Python as text. So a kind is a row of :data:`KINDS`: names
of classes, and words of messages. Nothing is imported for it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence

from stateplan.common.errors import StateplanError

NO_ADDRESS, NO_LISTENER, SILENT, OTHER = "unknown", "refused", "silent", "other"

KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        NO_ADDRESS,
        re.compile(
            r"\bgaierror\b|UnknownHostException|UnresolvedAddressException|NameResolutionError|<unresolved>"
            r"|Name or service not known|Temporary failure in name resolution|nodename nor servname"
            r"|No address associated|'idna' codec|[Cc]ould not (?:resolve|translate) host|dns error|Invalid host name"
        ),
    ),
    (
        NO_LISTENER,
        re.compile(
            r"ConnectionRefusedError|\bConnectException|NoRouteToHost|Connection refused|No route to host"
            r"|Network is unreachable|[Cc]annot connect to host|ClientConnectorError|EndpointConnectionError"
        ),
    ),
    (
        SILENT,
        re.compile(
            r"\bTimeoutError|SocketTimeoutException|ConnectTimeout|ReadTimeout|RpcTimeoutException|\btimed out\b"
            r"|time-?out|masters are unresponsive|DEADLINE_EXCEEDED"
        ),
    ),
    (
        OTHER,
        re.compile(
            r"\bSSL\w*(?:Error|Exception)|certificate verify failed|RpcException|BadStatusLine|RemoteProtocolError"
            r"|InvalidProtocolBuffer|BrokenPipe|Connection(?:Reset|Aborted|Error)|Connection reset|ConnectionClosed"
            r"|EOFException|ServerDisconnected|IncompleteRead|Server closed the connection|StatusCode\.UNAVAILABLE"
        ),
    ),
)
"""Kinds of servers that are not reached: the host has no address, it takes no connection, it does not answer in time,
it answers in another protocol or breaks off. The first row that fits counts."""

REASONS = {
    NO_ADDRESS: "the name of the host has no address",
    NO_LISTENER: "nothing listens there, or the network does not let it through",
    SILENT: "it does not answer",
    OTHER: "it does not speak the protocol, or breaks the connection off",
}
"""Each kind in words."""


def links(failure: BaseException) -> Iterator[BaseException]:
    """The exception, then what caused it, each once."""
    ids: set[int] = set()
    queue: list[BaseException | None] = [failure]
    while queue:
        link = queue.pop(0)
        if link is not None and id(link) not in ids:
            ids.add(id(link))
            yield link
            queue += [link.__cause__, None if link.__suppress_context__ else link.__context__]


def module_of(failure: BaseException) -> str:
    """The package that the class of an exception is from."""
    return type(failure).__module__.partition(".")[0]


def text_of(failure: BaseException) -> str:
    """What an exception says. Py4J's ask the JVM for it, which may be gone."""
    try:
        return str(failure)
    except Exception:
        return ""


def reason_of(failure: BaseException) -> str:
    """What the system says of a failure, in a few words; else what the exception says."""
    return (failure.strerror if isinstance(failure, OSError) else None) or str(failure)


def kind_of(failure: BaseException) -> str | None:
    """The kind of server that an exception or its cause is about; None if it is about none."""
    return kind_in([" ".join((*(c.__name__ for c in type(link).__mro__), text_of(link))) for link in links(failure)])


def kind_in(texts: Sequence[str]) -> str | None:
    """The kind of server that a text, such as a line of a log, is about; None if it is about none."""
    return next((kind for kind, pattern in KINDS if any(pattern.search(text) for text in texts)), None)


PATIENCE = 30.0
"""Seconds in which a file system has to answer for the first time. Libraries ask one that is silent for minutes."""

_answered: set[str] = set()
"""Roots of the file systems that have."""


def first_answer(root: str, ask: Callable[[], object]) -> tuple[str, str] | None:
    """Asks a file system, once per process. Whatever it answers is good, and None; else the kind of server that it is,
    and what was heard of it.

    Args:
        root: what it is known by.
        ask: asks for anything. A StateplanError that it raises is raised.
    """
    if root in _answered:
        return None
    failures: list[Exception] = []

    def asking() -> None:
        try:
            ask()
        except Exception as cause:  # of whatever library
            failures.append(cause)

    thread = threading.Thread(target=asking, name="stateplan-file-system", daemon=True)
    thread.start()
    thread.join(PATIENCE)
    if thread.is_alive():
        return SILENT, f"no answer within {PATIENCE:.0f} s"
    if failures and isinstance(failures[0], StateplanError):
        raise failures[0]
    kind = kind_of(failures[0]) if failures else None
    if kind is not None:
        return kind, text_of(failures[0]) or type(failures[0]).__name__
    _answered.add(root)
    return None

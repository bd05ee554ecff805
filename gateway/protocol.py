"""What a client asks of a gateway: the shell and the DB-API module know nothing else.

Two things answer: the service of this process, and :mod:`gateway.client`, which asks any gateway over HTTP, Flink's as
well. Source: FLIP-91, and the methods of Flink's ``SqlGatewayService``.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Protocol

from stateplan.common.changelog import RowKind
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType


class PageKind(enum.Enum):
    """What a fetch returns. Source: Flink's ``ResultSet.ResultType``."""

    NOT_READY = "NOT_READY"
    PAYLOAD = "PAYLOAD"
    EOS = "EOS"


@dataclass(frozen=True)
class ResultColumn:
    """A column of a result."""

    name: str
    type: LogicalType
    comment: str | None = None


@dataclass(frozen=True)
class ResultPage:
    """A page of a result.

    Attributes:
        kind: whether there are rows yet, and more to come.
        columns: the columns of the rows; empty while NOT_READY.
        rows: kind of change, and the values as CAST to STRING writes them; None for NULL.
        next_token: to fetch next; None after the last page.
        is_query: whether the statement is a query.
        has_content: whether the rows are more than ``OK``.
        job_id: the id of the job that the statement started.
        notes: sentences for the user; over HTTP those of a job, with the last page.
        insert_only: whether the rows of a query are all insertions; False if that is not known.
        values: the rows as values of JSON, if the client requested that; ``rows`` is empty then.
    """

    kind: PageKind
    columns: tuple[ResultColumn, ...] = ()
    rows: Sequence[tuple[RowKind, Sequence[str | None]]] = ()
    next_token: int | None = None
    is_query: bool = False
    has_content: bool = True
    job_id: str | None = None
    notes: tuple[str, ...] = ()
    insert_only: bool = False
    values: Sequence[tuple[RowKind, Sequence[object]]] = ()


class GatewaySession(Protocol):
    """An open session. Every method raises StateplanError when the gateway cannot do it; errors of a statement come
    with the first fetch of its result."""

    @property
    def handle(self) -> str:
        """Its UUID."""

    def properties(self) -> Mapping[str, str]:
        """The options that are set."""

    def configure(self, statement: str) -> None:
        """Runs a statement of an initialization script: DDL, SET, RESET, USE and the like."""

    def submit(self, statement: str) -> str:
        """Runs a statement in the background; the handle of the operation, a UUID."""

    def fetch(self, operation: str, token: int, limit: int | None = None) -> ResultPage:
        """A page of a result: that of ``token``, or the same once more. It waits a fraction of a second for rows."""

    def cancel(self, operation: str) -> None:
        """Ends what the operation does; a job that an INSERT has started keeps running."""

    def close_operation(self, operation: str) -> None:
        """Drops the result. The job of a query ends."""

    def complete(self, statement: str, position: int) -> list[str]:
        """What may be written at ``position`` of a statement that is not complete."""

    def heartbeat(self) -> None:
        """Keeps the session from timing out."""

    def close(self) -> None:
        """Ends the session, its operations and its queries. Jobs of INSERTs keep running where the gateway does."""


class ValueSession(GatewaySession, Protocol):
    """A session that also returns rows as values of JSON, and not only as texts."""

    def fetch_values(self, operation: str, token: int) -> ResultPage:
        """As :meth:`fetch`, with :attr:`ResultPage.values`; numbers with a fraction or an exponent are texts."""

"""A session of a gateway that answers statements with pages that were written down before."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Mapping, Sequence

from stateplan.common.changelog import RowKind
from stateplan.common.errors import StateplanError
from stateplan.common.types import BIGINT, STRING, LogicalType
from stateplan.gateway.protocol import PageKind, ResultColumn, ResultPage

NOT_READY = ResultPage(PageKind.NOT_READY)
OK = ResultPage(PageKind.PAYLOAD, (ResultColumn("result", STRING),), [(RowKind.INSERT, ["OK"])], has_content=False)
KINDS = {kind.short: kind for kind in RowKind}

Answer = Sequence[ResultPage | StateplanError | float]
"""Pages, pauses in seconds between them, and an error at the end."""


def columns(**types: LogicalType) -> tuple[ResultColumn, ...]:
    """Columns by name."""
    return tuple(ResultColumn(name, kind) for name, kind in types.items())


COUNTS = columns(product=STRING, orders=BIGINT.not_null())


def page(
    *changes: str, of: tuple[ResultColumn, ...] = COUNTS, query: bool = True, job: str | None = None
) -> ResultPage:
    """A page of rows such as ``+I pen 1``; ``-`` is NULL."""
    rows = []
    for change in changes:
        kind, *values = change.split(" ")
        rows.append((KINDS[kind], [None if value == "-" else value for value in values]))
    return ResultPage(PageKind.PAYLOAD, of, rows, is_query=query, job_id=job)


class RecordedSession:
    """Answers the statements in ``answers``, others with OK.

    Attributes:
        statements: that were submitted.
        calls: that ended something: ``cancel`` or ``close``, and the statement.
        options: of the session.
    """

    handle = "00000000-0000-0000-0000-000000000001"

    def __init__(self, answers: Mapping[str, Answer] | None = None, options: Mapping[str, str] | None = None) -> None:
        self.answers = dict(answers or {})
        self.options = dict(options or {})
        self.statements: list[str] = []
        self.calls: list[tuple[str, str]] = []
        self.candidates: list[str] = []
        self._running: dict[str, tuple[str, Iterator[ResultPage | StateplanError | float]]] = {}
        self._numbers = itertools.count(1)
        self._stopped: dict[str, threading.Event] = {}

    def properties(self) -> Mapping[str, str]:
        return self.options

    def configure(self, statement: str) -> None:
        self.statements.append(statement)

    def submit(self, statement: str) -> str:
        self.statements.append(statement)
        operation = str(next(self._numbers))
        self._running[operation] = (statement, iter(self.answers.get(statement, [OK])))
        self._stopped[operation] = threading.Event()
        return operation

    def fetch(self, operation: str, token: int, limit: int | None = None) -> ResultPage:
        statement, answer = self._running[operation]
        found = next(answer, None)
        if isinstance(found, float):
            self._stopped[operation].wait(found)
            found = next(answer, None)
        if found is None:
            pages = [p for p in self.answers.get(statement, [OK]) if isinstance(p, ResultPage)]
            return ResultPage(PageKind.EOS, pages[-1].columns, is_query=pages[-1].is_query)
        if isinstance(found, StateplanError):
            raise found
        assert isinstance(found, ResultPage)
        following = token if found.kind is PageKind.NOT_READY else token + 1
        return ResultPage(
            found.kind,
            found.columns,
            found.rows,
            following,
            found.is_query,
            found.has_content,
            found.job_id,
            found.notes,
            found.insert_only,
        )

    def cancel(self, operation: str) -> None:
        self.calls.append(("cancel", self._running[operation][0]))
        self._stopped[operation].set()

    def close_operation(self, operation: str) -> None:
        self.calls.append(("close", self._running[operation][0]))

    def complete(self, statement: str, position: int) -> list[str]:
        return [c for c in self.candidates if c.lower().startswith(statement[:position].split()[-1].lower())]

    def heartbeat(self) -> None: ...

    def close(self) -> None: ...


def forever(columns_: tuple[ResultColumn, ...] = COUNTS) -> Iterator[ResultPage | float]:
    """Pages without an end: a count that grows."""
    yield page("+I pen 1", of=columns_)
    for count in itertools.count(1):
        time.sleep(0.02)
        yield page(f"-U pen {count}", f"+U pen {count + 1}", of=columns_)

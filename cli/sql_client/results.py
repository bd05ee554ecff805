"""A statement at a gateway, and its result page by page."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from stateplan.common.errors import StateplanError
from stateplan.gateway.protocol import GatewaySession, PageKind, ResultPage
from stateplan.runtime.interrupts import between_calls

PAUSE = 0.1
"""Seconds between two questions when a gateway answers at once that it has nothing."""


class Result:
    """A statement that a session runs. Leaving the block ends a query, and drops the result.

    Args:
        session: the session that runs it.
        statement: its text.

    Attributes:
        is_over: whether the last page has been read.
        notes: sentences for the user that came with the pages after the first.
    """

    def __init__(self, session: GatewaySession, statement: str) -> None:
        self._session = session
        self._operation = session.submit(statement)
        self._token: int | None = 0
        self.is_over = False
        self.notes: list[str] = []

    def __enter__(self) -> Result:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def first(self, on_wait: Callable[[], None] = lambda: None) -> ResultPage:
        """The first page: it comes when the statement has been run, or when its job has been started.

        Args:
            on_wait: called several times a second.

        Raises:
            StateplanError: what is wrong with the statement.
        """
        while True:
            page = self._page()
            if page.kind is not PageKind.NOT_READY:
                return page
            on_wait()

    def pages(self, first: ResultPage) -> Iterator[ResultPage]:
        """``first`` and the other pages, as they come; empty ones too, several a second.

        Raises:
            StateplanError: what made the job fail.
        """
        yield first
        while not self.is_over:
            page = self._page()
            self.notes += page.notes
            yield page

    def _page(self) -> ResultPage:
        assert self._token is not None
        began = time.monotonic()
        with between_calls():
            page = self._session.fetch(self._operation, self._token)
        if page.next_token is None:
            self.is_over = True
        else:
            self._token = page.next_token
        if not page.rows and not self.is_over and time.monotonic() - began < PAUSE / 2:
            time.sleep(PAUSE)
        return page

    def cancel(self) -> None:
        """Ends what the statement does."""
        with between_calls():
            self._session.cancel(self._operation)

    def close(self) -> None:
        """Drops the result; the job of a query ends."""
        with between_calls():
            if not self.is_over:
                with contextlib.suppress(StateplanError):  # what has been run cannot be cancelled
                    self._session.cancel(self._operation)
            with contextlib.suppress(StateplanError):  # it was closed already
                self._session.close_operation(self._operation)
        self.is_over = True

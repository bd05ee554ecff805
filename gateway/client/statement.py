"""A statement at a gateway, and the values of its result page by page.

Codes: GW009, and those of the gateway.
"""

from __future__ import annotations

import contextlib
import time

from stateplan.common.errors import GatewayError, StateplanError
from stateplan.gateway.protocol import ResultPage, ValueSession

PAUSES = (0.01, 0.1)
"""Seconds between two questions to a gateway that answers at once that it has nothing: first and most."""


class Statement:
    """Submits a statement.

    Args:
        session: the session that runs it.
        text: SQL.

    Raises:
        StateplanError: the gateway does not take it.
    """

    def __init__(self, session: ValueSession, text: str) -> None:
        self._session = session
        self._operation = session.submit(text)
        self._token: int | None = 0
        self._pause, self._longest = PAUSES
        self._is_canceled = False

    @property
    def ended(self) -> bool:
        """Whether the last page has been read."""
        return self._token is None

    def page(self) -> ResultPage:
        """The next page, perhaps without rows, after a fraction of a second.

        Raises:
            GatewayError: GW009, it was canceled.
            StateplanError: what is wrong with the statement, or made its job fail.
        """
        assert self._token is not None
        began = time.monotonic()
        try:
            page = self._session.fetch_values(self._operation, self._token)
        except StateplanError as error:
            if self._is_canceled:
                raise GatewayError("GW009") from error
            raise
        self._token = page.next_token
        if page.values or self.ended:
            self._pause = PAUSES[0]
        elif time.monotonic() - began < self._pause:
            time.sleep(self._pause)
            self._pause = min(2 * self._pause, self._longest)
        return page

    def cancel(self) -> None:
        """Ends it, from any thread. The job of an INSERT that has begun keeps running."""
        self._is_canceled = True
        with contextlib.suppress(StateplanError):  # it has been run; what continues is the job of a query
            self._session.cancel(self._operation)
        self.close()

    def close(self) -> None:
        """Drops the result. The job of a query ends."""
        with contextlib.suppress(StateplanError):  # it is closed
            self._session.close_operation(self._operation)

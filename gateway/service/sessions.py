"""Sessions of a gateway. Source: Flink's ``SessionManager``, ``Session`` and ``SessionContext``."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from stateplan.common.errors import GatewayError
from stateplan.gateway.service.limits import Limits
from stateplan.gateway.service.operations import Operation, OperationManager
from stateplan.session.environment import TableEnvironment

_log = logging.getLogger("stateplan.gateway")


class Session:
    """An open session.

    Args:
        name: for people.
        environment: what its statements run in.
        operations: its statements.

    Attributes:
        handle: its UUID.
        created: ms since 1970.
    """

    def __init__(self, name: str | None, environment: TableEnvironment, operations: OperationManager) -> None:
        self.handle = str(uuid.uuid4())
        self.name = name
        self.environment = environment
        self.operations = operations
        self.created = time.time_ns() // 1_000_000
        self.current: Operation | None = None
        self.is_closed = False
        self._properties: dict[str, str] = {}
        self._last_use = time.monotonic()
        self.refresh()

    @property
    def properties(self) -> Mapping[str, str]:
        """The options that are set, as the last statement left them."""
        return self._properties

    def refresh(self) -> None:
        """Takes the options in that a statement has set."""
        now = self.environment.get_config().to_dict()
        if now != self._properties:
            self._properties = now

    def touch(self) -> None:
        """The session is in use."""
        self._last_use = time.monotonic()

    @property
    def idle_ms(self) -> float:
        """For how long nobody has used it."""
        return (time.monotonic() - self._last_use) * 1000

    def close(self) -> None:
        """Ends its statements and queries. Jobs of INSERTs keep running."""
        self.is_closed = True
        self.operations.close()


class SessionManager:
    """The open sessions.

    Args:
        limits: the limits of the gateway.
        make: makes the environment of a session with these options.
    """

    def __init__(self, limits: Limits, make: Callable[[Mapping[str, str]], TableEnvironment]) -> None:
        self._limits = limits
        self._make = make
        self._sessions: dict[str, Session] = {}
        self._lock = threading.Lock()
        self._stop_event = threading.Event()
        self._pool = ThreadPoolExecutor(limits.max_threads, thread_name_prefix="stateplan-statement")
        if limits.idle_timeout > 0 and limits.check_interval > 0:
            threading.Thread(target=self._sweep, name="stateplan-sessions", daemon=True).start()

    def open(self, name: str | None, options: Mapping[str, str]) -> Session:
        """A new session.

        Raises:
            GatewayError: GW005, there are too many.
            OptionError: for an option whose value cannot be used.
        """
        self._require_room()
        session = Session(name, self._make(options), OperationManager(self._pool, self._limits))
        with self._lock:
            self._require_room()
            self._sessions[session.handle] = session
        return session

    def _require_room(self) -> None:
        if self._stop_event.is_set():
            raise GatewayError("GW005.shutdown")
        if len(self._sessions) >= self._limits.max_sessions:
            raise GatewayError("GW005", count=self._limits.max_sessions)

    def find(self, handle: str) -> Session:
        """The session, which is in use now. Raises GatewayError GW001."""
        session = self._sessions.get(handle)
        if session is None:
            raise GatewayError("GW001", handle=handle)
        session.touch()
        return session

    def all(self) -> list[Session]:
        """The open sessions."""
        with self._lock:
            return list(self._sessions.values())

    def close(self, handle: str) -> None:
        """Ends a session. Raises GatewayError GW001."""
        with self._lock:
            session = self._sessions.pop(handle, None)
        if session is None:
            raise GatewayError("GW001", handle=handle)
        session.close()

    def _sweep(self) -> None:
        while not self._stop_event.wait(self._limits.check_interval / 1000):
            for session in self.all():
                if session.idle_ms > self._limits.idle_timeout:
                    _log.info("session %s was idle for too long and is closed", session.handle)
                    try:
                        self.close(session.handle)
                    except GatewayError:  # closed meanwhile
                        continue

    def stop(self) -> None:
        """Ends all sessions, and opens no other."""
        self._stop_event.set()
        for session in self.all():
            try:
                self.close(session.handle)
            except GatewayError:  # closed meanwhile
                continue
        self._pool.shutdown(wait=False, cancel_futures=True)

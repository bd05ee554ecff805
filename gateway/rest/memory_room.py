"""How much memory requests and answers may take that somebody has not sent, or not read, to their end.

One :class:`Room` is shared by all connections. A request that needs more than there is waits a moment. Then the
connection that has been still for longest gives way, if there is one that has been still for long enough; else the
request is told to come again. Not safe to use from several threads: it belongs to the loop of the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

SMALL = 64 << 10
"""So many bytes of a request or an answer need no room: there are not that many connections."""
WAIT_SECONDS = 0.5
"""So long a request waits for room."""
STILL_SECONDS = 2.0
"""A connection that has neither sent nor read anything for so long gives way to others."""


class Room:
    """Bytes for requests and answers that are under way.

    Args:
        most: bytes of all of them. One that needs more than that alone has its turn when there is no other.

    Attributes:
        used: bytes that are taken.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._holdings: set[Holding] = set()
        self._changed = asyncio.Event()
        self.used = 0

    def holding(self, abort: Callable[[], None]) -> Holding:
        """For a request; ``abort`` ends its connection."""
        return Holding(self, abort)

    def fits(self, more: int) -> bool:
        """Whether there are so many bytes left."""
        return more <= 0 or self.used + more <= self._most or self.used == 0

    def change(self, holding: Holding, more: int) -> None:
        """Gives bytes to a request, or takes them back."""
        self.used += more
        holding.size += more
        (self._holdings.add if holding.size else self._holdings.discard)(holding)
        if more < 0:
            self._changed.set()
            self._changed = asyncio.Event()

    def dismiss(self, asking: Holding) -> bool:
        """Ends the connection that has been still for longest; False when none has been for long enough."""
        others = (h for h in self._holdings if h is not asking)
        still = min(others, key=lambda h: h.moved, default=None)
        if still is None or asyncio.get_running_loop().time() - still.moved < STILL_SECONDS:
            return False
        self.change(still, -still.size)
        still.abort()
        return True

    async def changes(self, seconds: float) -> None:
        """Waits for bytes that are given back, but not for longer than ``seconds``."""
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except TimeoutError:
            return


class Holding:
    """What one request has of a room.

    Attributes:
        size: bytes.
        moved: when its connection has last sent or read something, by the clock of the loop.
    """

    def __init__(self, room: Room, abort: Callable[[], None]) -> None:
        self._room = room
        self.abort = abort
        self.size = 0
        self.moved = 0.0

    def move(self) -> None:
        """The connection goes on."""
        self.moved = asyncio.get_running_loop().time()

    async def take(self, size: int) -> bool:
        """Makes it ``size`` bytes, at the latest after :data:`WAIT_SECONDS`; False when there are not so many."""
        self.move()
        if size <= SMALL:
            return True
        until = self.moved + WAIT_SECONDS
        while not self._room.fits(size - self.size):
            if self._room.dismiss(self):
                continue
            left = until - asyncio.get_running_loop().time()
            if left <= 0:
                return False
            await self._room.changes(min(left, 0.1))
        self.keep(size)
        return True

    def keep(self, size: int) -> None:
        """Makes it ``size`` bytes, whether there are so many or not: they are there already."""
        self.move()
        self._room.change(self, (size if size > SMALL else 0) - self.size)

    def release(self) -> None:
        """The request is over."""
        self._room.change(self, -self.size)

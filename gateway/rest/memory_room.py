"""How much memory requests and answers may take that somebody has not sent, or not read, to their end.

One :class:`Room` is shared by all connections. A request that needs more than there is waits a moment. Then the
connection that has been still for longest gives way, if there is one that has been still for long enough; else the
client must repeat the request. Not safe to use from several threads: it belongs to the loop of the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

SMALL = 64 << 10
"""A request or an answer of at most this number of bytes needs no room: the number of connections is limited."""
WAIT_SECONDS = 0.5
"""How long a request waits for room."""
STILL_SECONDS = 2.0
"""A connection that has neither sent nor read anything for this long gives way to others."""


class Room:
    """Bytes for requests and answers that are under way.

    Args:
        most: bytes of all of them. One that needs more than that alone has its turn when there is no other.

    Attributes:
        used_bytes: bytes that are taken.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._holdings: set[Holding] = set()
        self._change_event = asyncio.Event()
        self.used_bytes = 0

    def holding(self, abort: Callable[[], None]) -> Holding:
        """For a request; ``abort`` ends its connection."""
        return Holding(self, abort)

    def fits(self, more: int) -> bool:
        """Whether there are this number of bytes left."""
        return more <= 0 or self.used_bytes + more <= self._most or self.used_bytes == 0

    def change(self, holding: Holding, more: int) -> None:
        """Assigns bytes to a request, or releases them."""
        self.used_bytes += more
        holding.size += more
        (self._holdings.add if holding.size else self._holdings.discard)(holding)
        if more < 0:
            self._change_event.set()
            self._change_event = asyncio.Event()

    def dismiss(self, asking: Holding) -> bool:
        """Ends the connection that has been still for longest; False if none has been for long enough."""
        others = (h for h in self._holdings if h is not asking)
        still = min(others, key=lambda h: h.last_move, default=None)
        if still is None or asyncio.get_running_loop().time() - still.last_move < STILL_SECONDS:
            return False
        self.change(still, -still.size)
        still.abort()
        return True

    async def changes(self, seconds: float) -> None:
        """Waits for bytes that are given back, but not for longer than ``seconds``."""
        try:
            await asyncio.wait_for(self._change_event.wait(), seconds)
        except TimeoutError:
            return


class Holding:
    """What one request has of a room.

    Attributes:
        size: bytes.
        last_move: when its connection has last sent or read something, by the clock of the loop.
    """

    def __init__(self, room: Room, abort: Callable[[], None]) -> None:
        self._room = room
        self.abort = abort
        self.size = 0
        self.last_move = 0.0

    def move(self) -> None:
        """The connection continues."""
        self.last_move = asyncio.get_running_loop().time()

    async def take(self, size: int) -> bool:
        """Makes it ``size`` bytes, at the latest after :data:`WAIT_SECONDS`; False if there are not so many."""
        self.move()
        if size <= SMALL:
            return True
        until = self.last_move + WAIT_SECONDS
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

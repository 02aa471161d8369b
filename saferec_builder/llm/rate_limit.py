"""Limits how many requests may be with the server at once, retries included."""

import asyncio
import time
from collections import deque
from collections.abc import Callable


class Pace:
    """One more request per round that went well, half as many after a complaint; `async with pace` is one attempt.

    A refused attempt gives its place back and waits for another like all others: retries that kept their places would
    keep an overloaded server full, whatever the limit for new requests.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.most, self.limit = most, float(most)
        self.n_busy = 0  # complaints of the server that it has too many requests
        self._clock, self._slowed = clock, float("-inf")
        self._active = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def ok(self) -> None:
        self.limit = min(self.most, self.limit + 1 / self.limit)

    def slow(self) -> None:
        if self._clock() - self._slowed >= 1.0:  # complaints about one burst count once
            self._slowed, self.limit = self._clock(), max(1.0, self.limit / 2)

    async def __aenter__(self) -> None:
        if not self._waiting and self._active < int(self.limit):
            self._active += 1
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():  # the place came at the same moment: pass it on
                await self.__aexit__()
            raise

    async def __aexit__(self, *_: object) -> None:
        """Passes places on, oldest waiter first. While anybody waits, somebody is active, so nobody waits for ever."""
        self._active -= 1
        while self._waiting and self._active < int(self.limit):
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                self._active += 1

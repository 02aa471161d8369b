"""How many requests may be with the server at once, tries again included."""

import asyncio
import time
from collections import deque
from collections.abc import Callable


class Pace:
    """One more per round that went well, half after a complaint; `async with pace` is one try's place.

    Who is refused gives its place back and waits for one like all others: requests that only came again and again
    would keep an overloaded server full, whatever the limit says of new ones.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.most, self.limit = most, float(most)
        self._clock, self._slowed = clock, float("-inf")
        self._there = 0
        self._turns: deque[asyncio.Future[None]] = deque()

    def ok(self) -> None:
        self.limit = min(self.most, self.limit + 1 / self.limit)

    def slow(self) -> None:
        if self._clock() - self._slowed >= 1.0:  # a burst that was in flight together is one complaint
            self._slowed, self.limit = self._clock(), max(1.0, self.limit / 2)

    async def __aenter__(self) -> None:
        if not self._turns and self._there < int(self.limit):
            self._there += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._turns.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # the place came in the same moment: it is the next one's
                await self.__aexit__()
            raise

    async def __aexit__(self, *_: object) -> None:
        """Hands places on, oldest first. Where somebody waits, somebody is there: nobody is forgotten."""
        self._there -= 1
        while self._turns and self._there < int(self.limit):
            turn = self._turns.popleft()
            if not turn.done():
                turn.set_result(None)
                self._there += 1

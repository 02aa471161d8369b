"""What requests cost: prices are the user's (saferec.toml), tokens are the server's.

No answer that comes takes a budget further than it goes. What a server bills for a request that timed out is not known.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from saferec_builder.llm.requests_and_replies import Reply, Server

BYTES_PER_TOKEN = 4.0  # until this workspace has bills of its own to go by
TOKENS_OUT = 150.0  # of an answer, until then
SAFETY = 1.25  # a budget reserves so much more input than it expects


@dataclass(frozen=True)
class Price:
    """USD per million tokens."""

    input: float
    output: float
    cached_input: float | None = None

    def of(self, tokens_in: float, tokens_out: float, tokens_cached: float = 0) -> float:
        cheaper = self.input if self.cached_input is None else self.cached_input
        dear = (tokens_in - tokens_cached) * self.input + tokens_out * self.output
        return (dear + tokens_cached * cheaper) / 1e6

    def times(self, factor: float) -> "Price":
        cached = None if self.cached_input is None else self.cached_input * factor
        return Price(self.input * factor, self.output * factor, cached)


@dataclass(frozen=True)
class Habit:
    """What this model's bills in this workspace say about the next one."""

    bytes_per_token: float = BYTES_PER_TOKEN
    tokens_out: float = TOKENS_OUT


@dataclass
class Budget:
    """Pays for requests. limit: USD for all that this workspace ever spends on models; spent: what is gone of it."""

    price: Price | None = None
    limit: float | None = None
    spent: float = 0.0
    habit: Habit = field(default_factory=Habit)
    held: dict[str, float] = field(default_factory=dict)  # request -> the most that it can cost, in USD
    aside: float = 0.0  # the sum of `held` (a batch holds tens of thousands), and the most of batches that are open
    bill: dict[str, float] = field(default_factory=dict)  # since the last call of `billed`
    longest: int = 0  # tokens of an answer so far: some servers know no limit

    def worst(self, server: Server, sent: int) -> float:
        """The most that a request of so many bytes can cost; 0 where no price is known."""
        tokens = SAFETY * sent / self.habit.bytes_per_token
        return self.price.of(tokens, max(server.longest_answer, self.longest)) if self.price else 0.0

    def affords(self, server: Server, sent: int) -> bool:
        """Whether the most that a request can cost is left, beside what is set aside."""
        return self.limit is None or self.spent + self.aside + self.worst(server, sent) <= self.limit

    def hold(self, request: str, server: Server, sent: int) -> bool:
        """Sets aside the most that a request can cost; False where that would exceed the limit."""
        if not self.affords(server, sent):
            return False
        worst = self.worst(server, sent)
        self.aside += worst - self.held.get(request, 0.0)
        self.held[request] = worst
        return True

    def hold_as_one(self, requests: Iterable[str]) -> float:
        """What is held for these requests, from now on as one sum: whoever takes it from `aside` knows how much."""
        return sum(self.held.pop(request) for request in requests)

    def pay(self, reply: Reply, sent: int, *, price: Price | None = None, most: float = 0.0) -> None:
        """What came back for a request that was sent: billed by its tokens, or for nothing where no answer came.

        An answer whose tokens nobody names cost something all the same: the most that was set aside for it, or `most`
        where another run has sent it. price: where it is not this budget's own.
        """
        held = self.held.pop(reply.request, 0.0)
        self.aside -= held
        tokens_in, tokens_out = reply.tokens_in or 0, reply.tokens_out or 0
        price = price or self.price
        usd = price.of(tokens_in, tokens_out, reply.tokens_cached) if price else 0.0
        if reply.answered and None in (reply.tokens_in, reply.tokens_out):
            usd = max(usd, held, most)
        self.spent += usd
        self.longest = max(self.longest, tokens_out)
        answers = int(reply.answered)  # others would make the mean answer look short
        parts: dict[str, float] = {"requests": answers, "tokens_in": tokens_in, "tokens_cached": reply.tokens_cached}
        parts |= {"tokens_out": tokens_out, "bytes_out": sent if tokens_in else 0, "usd": usd}
        for name, value in parts.items():
            self.bill[name] = self.bill.get(name, 0) + value

    def pay_probe(self, reply: Reply) -> None:
        """The question at the start costs what its server says, and is none of the requests."""
        if self.price:
            self.pay_sum(self.price.of(reply.tokens_in or 0, reply.tokens_out or 0, reply.tokens_cached))

    def pay_sum(self, usd: float) -> None:
        """Something that is none of the requests, or of which no request is known."""
        if usd:
            self.spent += usd
            self.bill["usd"] = self.bill.get("usd", 0) + usd

    def billed(self) -> dict[str, float]:
        """What was paid since the last call, for the table of spending."""
        bill, self.bill = self.bill, {}
        return bill

"""What requests cost: the user gives the prices (saferec.toml), the server reports the tokens.

Only texts that take more than SAFETY times the tokens of others of their length can exceed a budget, by what is in
flight. What a server bills for a request that timed out is unknown.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from saferec_builder.llm.requests_and_replies import Reply, Server

SAFETY = 1.25  # a budget reserves this many times the input tokens that it expects


@dataclass(frozen=True)
class Price:
    """USD per million tokens."""

    input: float
    output: float
    cached_input: float | None = None

    def of(self, tokens_in: float, tokens_out: float, tokens_cached: float = 0) -> float:
        cached_price = self.input if self.cached_input is None else self.cached_input
        full_cost = (tokens_in - tokens_cached) * self.input + tokens_out * self.output
        return (full_cost + tokens_cached * cached_price) / 1e6

    def times(self, factor: float) -> "Price":
        cached = None if self.cached_input is None else self.cached_input * factor
        return Price(self.input * factor, self.output * factor, cached)


@dataclass(frozen=True)
class Habit:
    """Means over this model's bills in this workspace, to estimate the next bill; assumed until there are any."""

    bytes_per_token: float = 4.0
    tokens_out: float = 150.0


@dataclass
class Budget:
    """Pays for requests. limit: USD that this workspace may ever spend on models; spent: USD spent so far."""

    price: Price | None = None
    limit: float | None = None
    spent: float = 0.0
    habit: Habit = field(default_factory=Habit)
    held: dict[str, float] = field(default_factory=dict)  # request -> the most that it can cost, in USD
    aside: float = 0.0  # the sum of `held` (a batch holds tens of thousands), plus the most that open batches can cost
    bill: dict[str, float] = field(default_factory=dict)  # since the last call of `billed`
    longest: int = 0  # most tokens of an answer so far: some servers ignore the limit
    n_busy: int = 0  # attempts that cost nothing, as the server had too many requests; most of them were repeated

    def worst(self, server: Server, sent: int) -> float:
        """The most that a request of `sent` bytes can cost, in USD; 0 if no price is known."""
        tokens = SAFETY * sent / self.habit.bytes_per_token
        return self.price.of(tokens, max(server.longest_answer, self.longest)) if self.price else 0.0

    def affords(self, server: Server, sent: int) -> bool:
        """Whether the limit leaves the most that a request can cost, beside what is set aside."""
        return self.limit is None or self.spent + self.aside + self.worst(server, sent) <= self.limit

    def hold(self, request: str, server: Server, sent: int) -> bool:
        """Sets aside the most that a request can cost; returns False if that would exceed the limit."""
        if not self.affords(server, sent):
            return False
        most = self.worst(server, sent)
        self.aside += most - self.held.get(request, 0.0)
        self.held[request] = most
        return True

    def hold_as_one(self, requests: Iterable[str]) -> float:
        """Returns the sum held for these requests and forgets its parts: the caller later takes it from `aside`."""
        return sum(self.held.pop(request) for request in requests)

    def pay(self, reply: Reply, sent: int, *, price: Price | None = None, most: float = 0.0) -> None:
        """Bills a request that was sent by the tokens of its answer; without an answer it costs nothing.

        An answer whose tokens the server does not report, or reports as 0, is billed at the most that was set aside for
        it, or at `most` if another run sent it. price: if it is not this budget's own.
        """
        reserved = self.held.pop(reply.request, 0.0)
        self.aside -= reserved
        tokens_in, tokens_out = reply.tokens_in or 0, reply.tokens_out or 0
        price = price or self.price
        usd = price.of(tokens_in, tokens_out, reply.tokens_cached) if price else 0.0
        counts = (reply.tokens_in, reply.tokens_out)
        if reply.answered and (None in counts or (reply.content and 0 in counts)):
            usd = max(usd, reserved, most)
        self.spent += usd
        self.longest = max(self.longest, tokens_out)
        answers = int(reply.answered)  # requests without an answer would lower the mean length of answers
        parts: dict[str, float] = {"requests": answers, "tokens_in": tokens_in, "tokens_cached": reply.tokens_cached}
        parts |= {"tokens_out": tokens_out, "bytes_out": sent if tokens_in else 0, "usd": usd}
        for name, value in parts.items():
            self.bill[name] = self.bill.get(name, 0) + value

    def pay_probe(self, reply: Reply) -> None:
        """Bills the probe before the first text by its tokens; it does not count as a request."""
        if self.price:
            self.pay_sum(self.price.of(reply.tokens_in or 0, reply.tokens_out or 0, reply.tokens_cached))

    def pay_sum(self, usd: float) -> None:
        """Bills an amount that belongs to no request, or to no known one."""
        if usd:
            self.spent += usd
            self.bill["usd"] = self.bill.get("usd", 0) + usd

    def billed(self) -> dict[str, float]:
        """Returns what was paid since the last call, for the table of spending."""
        bill, self.bill = self.bill, {}
        return bill

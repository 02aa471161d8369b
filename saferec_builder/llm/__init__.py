"""One client for every OpenAI-compatible server: each request ends as a reply or as an error with its reason.

A reply that was paid for is never paid for again (`get`, `put`). A reply's body is kept as it came, without any key.
The part of an error before its first colon is its reason, by which errors are counted.
"""

from saferec_builder.llm.client import replies, run
from saferec_builder.llm.pricing import Budget, Price
from saferec_builder.llm.rate_limit import Pace
from saferec_builder.llm.requests_and_replies import OPENAI, SAMPLING, Body, Reply, Sampling, Server

__all__ = ["OPENAI", "SAMPLING", "Body", "Budget", "Pace", "Price", "Reply", "Sampling", "Server", "replies", "run"]

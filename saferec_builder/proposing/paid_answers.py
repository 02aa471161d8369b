"""Answers that a workspace has paid for, of use or not: none is paid for again unless somebody asks for it."""

from collections.abc import Callable

import polars as pl

from saferec_builder.llm import Reply
from saferec_builder.llm.client import checked
from saferec_builder.llm.requests_and_replies import read_body
from saferec_builder.storage.database import Keyed

ATTEMPTS = 3  # answers to one request that are ever paid for

Check = Callable[[str], str | None]  # what is wrong with an answer's text, or None


class PaidAnswers:
    """Of a request the answer of use, or else the last; with `retries` none while another attempt is left."""

    def __init__(self, table: Keyed, check: Check, *, retries: bool) -> None:
        self.table, self.check, self.retries = table, check, retries
        self.fresh: set[str] = set()

    def get(self, request: str) -> str | None:
        found = self._all(request)
        if len(found) < 2 and not self.retries:
            return found[0] if found else None
        usable = next((body for body in found if of_use(body, self.check)), None)
        is_over = not self.retries or request in self.fresh or len(found) >= ATTEMPTS
        return usable or (found[-1] if found and is_over else None)

    def put(self, reply: Reply) -> None:
        names = attempts(reply.request, all_of_them=True)
        before = len(self._all(reply.request))
        row = {name: getattr(reply, name) for name in ("model", "body", "tokens_in", "tokens_out")}
        self.table.add(row | {"request": names[min(before, ATTEMPTS - 1)]})
        if self.retries:
            self.fresh.add(reply.request)

    def _all(self, request: str) -> list[str]:
        found: list[str] = []
        for name in attempts(request, all_of_them=True):
            row = self.table.get(name)
            if row is None:
                break
            found.append(str(row.body))
        return found


def attempts(request: str, *, all_of_them: bool) -> list[str]:
    """The names under which answers to a request are kept, the first one's own first."""
    return [request, *(f"{request}-{n}" for n in range(2, ATTEMPTS + 1) if all_of_them)]


def of_use(body: str, check: Check) -> bool:
    return checked(read_body("", "", body), check).error is None


def settled(replies: pl.DataFrame, check: Check, *, retries: bool) -> set[str]:
    """Requests, of the rows of tables.REPLIES, that a run would not pay for."""
    if not retries:
        return set(replies["request"])
    rows = replies.select("request", "body").iter_rows()
    return {name.split("-")[0] for name, body in rows if name.endswith(f"-{ATTEMPTS}") or of_use(body, check)}

"""Answers that a workspace has paid for, usable or not: a request is paid for again only if retries are asked for."""

from functools import partial

from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.llm import Reply
from saferec_builder.llm.client import checked
from saferec_builder.llm.requests_and_replies import read_body
from saferec_builder.proposing import model_answers
from saferec_builder.storage.database import Keyed

ATTEMPTS = 3  # the most answers to one request that are paid for


class PaidAnswers:
    """Per request the usable answer, else the last one; with `retries` no unusable one while an attempt is left."""

    def __init__(self, table: Keyed, taxonomy: Taxonomy, *, retries: bool) -> None:
        self.table, self.retries = table, retries
        self.check = partial(model_answers.off_schema, taxonomy=taxonomy)
        self.fresh: set[str] = set()

    def get(self, request: str) -> str | None:
        bodies = self._bodies(request)
        if len(bodies) < 2 and not self.retries:
            return bodies[0] if bodies else None
        usable = next((body for body in bodies if not checked(read_body("", "", body), self).error), None)
        is_final = not self.retries or request in self.fresh or len(bodies) >= ATTEMPTS
        return usable or (bodies[-1] if bodies and is_final else None)

    def put(self, reply: Reply) -> None:
        names = attempts(reply.request)
        n_earlier = len(self._bodies(reply.request))
        row = {name: getattr(reply, name) for name in ("model", "body", "tokens_in", "tokens_out")}
        self.table.add(row | {"request": names[min(n_earlier, ATTEMPTS - 1)]})
        if self.retries:
            self.fresh.add(reply.request)

    def _bodies(self, request: str) -> list[str]:
        bodies: list[str] = []
        for name in attempts(request):
            row = self.table.get(name)
            if row is None:
                break
            bodies.append(str(row.body))
        return bodies


def attempts(request: str) -> list[str]:
    """The names under which the answers to a request are stored, in order; the first is the request itself."""
    return [request, *(f"{request}-{n}" for n in range(2, ATTEMPTS + 1))]

"""A server that refuses everybody and repeats everything that it was sent: nobody's own words for a wrong key."""

import json
from contextlib import AbstractContextManager

from tests.servers.loopback import Asked, Reply, serving


def running(status: int) -> AbstractContextManager[str]:
    """Its address; each request is answered with the status."""

    def answer(asked: Asked) -> Reply:
        told = f"Incorrect key: {dict(asked.headers)}"
        said = json.dumps({"detail": told, "error": {"message": told}}).encode()
        return Reply(status, said, (("Content-Type", "application/json"),))

    return serving(answer)

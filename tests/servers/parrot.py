"""A server that refuses every request as if its key were wrong, and repeats the request's headers in the message."""

import json
from contextlib import AbstractContextManager

from tests.servers.loopback import Asked, Reply, serving


def running(status: int) -> AbstractContextManager[str]:
    """Yields its address; each request is answered with `status`."""

    def answer(asked: Asked) -> Reply:
        message = f"Incorrect key: {dict(asked.headers)}"
        body = json.dumps({"detail": message, "error": {"message": message}}).encode()
        return Reply(status, body, (("Content-Type", "application/json"),))

    return serving(answer)

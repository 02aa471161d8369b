"""review pull --follow: polls a review server, and pulls the answers that people have given since."""

import time
from collections.abc import Iterator

from annotation import connections, servers
from annotation.pull import PullResult, pull
from annotation.review_destinations import Argilla, LabelStudio, Place
from annotation.tools.sync import Touched
from saferec_builder.core.errors import ReviewError, UsageError
from saferec_builder.storage.workspace import Workspace


def follow(ws: Workspace, from_: Place, *, every: float = 2.0) -> Iterator[PullResult | ReviewError | None]:
    """Pulls, then polls again every `every` seconds, for as long as the caller iterates.

    Yields the first pull, and each later one that brought or rejected answers, else None. Yields a server's error (a
    ReviewError) once, until another occurs, and keeps polling; after an error everything is pulled again. Raises an
    error before the end of the first pull, and any error that is not the server's.
    """
    if not isinstance(from_, LabelStudio | Argilla):
        raise UsageError("--follow is for review servers: the page stores answers as they are given; pull CSVs by hand")
    server, seen = None, dict[str, Touched]()
    fault: str | None = None  # the last error; None until the first pull is done
    while True:
        try:
            server = server or connections.connect(ws, from_)
            current = servers.touched(ws, server, seen)  # before the pull: what is touched during it is new next time
            news = _news(seen, current) if seen else None
            pulled = pull(ws, from_, only=news) if news != {} else None
            changed = pulled and (fault is None or pulled.counts.added or pulled.rejected.height)
            seen, fault = {project: seen.get(project, frozenset()) | tasks for project, tasks in current.items()}, ""
            yield pulled if changed else None
        except ReviewError as error:
            if fault is None:
                raise
            previous, seen, fault, server = fault, {}, str(error), None
            yield error if fault != previous else None
        time.sleep(every)


def _news(seen: dict[str, Touched], current: dict[str, Touched]) -> dict[str, frozenset[str]]:
    """project -> its tasks that were touched since; empty if any of the project's tasks may have been."""
    new = {project: touched - seen.get(project, frozenset()) for project, touched in current.items()}
    tasks = {project: frozenset(task for task, _ in touched) for project, touched in new.items() if touched}
    return {project: frozenset() if "" in touched else touched for project, touched in tasks.items()}

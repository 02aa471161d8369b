"""review pull --follow: looks at a review server again and again, and pulls what people answered since."""

import time
from collections.abc import Iterator

from annotation import connections, servers
from annotation.pull import PullResult, pull
from annotation.review_destinations import Argilla, LabelStudio, Place
from annotation.tools.sync import Touched
from saferec_builder.core.errors import ReviewError, UsageError
from saferec_builder.storage.workspace import Workspace


def follow(ws: Workspace, from_: Place, *, every: float = 2.0) -> Iterator[PullResult | ReviewError | None]:
    """Pulls, then looks again after `every` seconds, for as long as it is asked for more.

    Gives the pull where one brought answers or rejected some, else None. What goes wrong on the server is given as the
    error that it is, once until another comes; it is asked again, and once it answers everything is pulled anew. What
    goes wrong before the first pull is raised, and so is what has nothing to do with the server.
    """
    if not isinstance(from_, LabelStudio | Argilla):
        raise UsageError("--follow is for review servers: the page stores answers as they are given; pull CSVs by hand")
    server, seen = connections.connect(ws, from_), dict[str, Touched]()
    fault: str | None = None  # the last one; None until the first pull is done
    while True:
        try:
            now = servers.touched(ws, server, seen)  # before the pull: what is touched meanwhile is new next time
            news = _news(seen, now) if seen else None
            pulled = pull(ws, from_, only=news) if news != {} else None
            heard = pulled and (fault is None or pulled.counts.added or pulled.rejected.height)
            seen, fault = {project: seen.get(project, frozenset()) | found for project, found in now.items()}, ""
            yield pulled if heard else None
        except ReviewError as broken:
            if fault is None:
                raise
            before, seen, fault = fault, {}, str(broken)
            yield broken if fault != before else None
            server = connections.connect(ws, from_)
        time.sleep(every)


def _news(seen: dict[str, Touched], now: dict[str, Touched]) -> dict[str, frozenset[str]]:
    """project -> its tasks that were touched since; none where all of it may have been."""
    fresh = {project: found - seen.get(project, frozenset()) for project, found in now.items()}
    tasks = {project: frozenset(task for task, _ in found) for project, found in fresh.items() if found}
    return {project: frozenset() if "" in found else found for project, found in tasks.items()}

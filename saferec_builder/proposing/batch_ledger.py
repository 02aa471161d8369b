"""The ledger of batches in workspace.db, for the proposer `batch`."""

import functools
from typing import Any


def asker(ws: Any) -> Any:
    """llm.batch.replies with the workspace's ledger of its server and model."""

    def replies(server: Any, bodies: Any, **how: Any) -> Any:
        from saferec_builder.llm import batch

        entries = functools.partial(_entries, ws, server)
        poll = ws.config.propose.batch_poll
        return batch.replies(
            server, bodies, ledger=entries, note=functools.partial(_note, ws, server), poll=poll, **how
        )

    return replies


def _entries(ws: Any, server: Any) -> list[Any]:
    import polars as pl

    from saferec_builder.llm.batch import Entry
    from saferec_builder.storage import tables, workspace as store

    at = pl.col("server").str.strip_chars_end("/") == server.base_url.rstrip("/")  # as requests are named
    mine = store.read(ws, tables.BATCHES).filter(at, model=server.model)
    rows = tables.last(mine, "batch").select("batch", "state", "remote", "requests")
    return [Entry(*row) for row in rows.iter_rows()]


def _note(ws: Any, server: Any, entry: Any) -> None:
    import polars as pl

    from saferec_builder.storage import tables, workspace as store

    row = (entry.batch, server.base_url, server.model, entry.state, entry.remote, entry.requests)
    store.append(ws, tables.BATCHES, pl.DataFrame([row], schema=tables.BATCHES.schema, orient="row"))

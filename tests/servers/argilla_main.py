"""Runs the real argilla-server in its own environment, with searches answered by SQL on Argilla's own database.

Argilla needs Elasticsearch or OpenSearch, which no package index offers. Argilla has a registry of search engines, so
this file registers one without an index: everything else (API, authorisation, validation, database, web pages) is the
server's own. It cannot show Elasticsearch's delay before a new record can be found, nor its text analysis.

Run it as: python argilla_main.py DESCRIPTOR (of a listening socket), with the interpreter of that environment; it
imports nothing of this project.
"""

import sys
from typing import Any

import uvicorn
from argilla_server import app
from argilla_server.database import AsyncSessionLocal
from argilla_server.models import Record, Response
from argilla_server.search_engine import base
from sqlalchemy import String, and_, cast, exists, func, or_, select, true


async def _nothing(self: Any, *args: Any, **kwargs: Any) -> None:
    """Does nothing: there is no index to update."""


INDEXING = [n for n in vars(base.SearchEngine) if n.startswith(("create_", "delete_", "configure_", "update_"))]
INDEXING += ["close", "index_records", "partial_record_update"]


class SqlSearch(base.SearchEngine):
    @classmethod
    async def new_instance(cls) -> "SqlSearch":
        return cls()

    async def ping(self) -> bool:
        return True

    async def info(self) -> dict[str, Any]:
        return {"name": "sql", "version": {"number": "0"}}

    async def get_dataset_progress(self, dataset: Any) -> dict[str, int]:
        return await _counts(dataset, select(Record.status, func.count()).where(Record.dataset_id == dataset.id))

    async def get_dataset_user_progress(self, dataset: Any, user: Any) -> dict[str, int]:
        rows = select(Response.status, func.count()).join(Record, Record.id == Response.record_id)
        return await _counts(dataset, rows.where(Record.dataset_id == dataset.id, Response.user_id == user.id))

    async def search(
        self,
        dataset: Any,
        query: Any = None,
        filter: Any = None,
        sort: Any = None,
        offset: int = 0,
        limit: int = 100,
        user_id: Any = None,
    ) -> base.SearchResponses:
        where = and_(Record.dataset_id == dataset.id, _words(query), _filter(filter))
        async with AsyncSessionLocal() as db:
            total = await db.scalar(select(func.count()).select_from(Record).where(where))
            page = select(Record.id).where(where).order_by(Record.inserted_at, Record.id).offset(offset).limit(limit)
            ids = (await db.scalars(page)).all()
        items = [base.SearchResponseItem(record_id=record_id, score=1.0) for record_id in ids]
        return base.SearchResponses(items=items, total=total)

    async def compute_metrics_for(self, metadata_property: Any) -> Any:
        raise NotImplementedError("no test asks for metadata metrics")

    async def similarity_search(self, dataset: Any, vector_settings: Any, **more: Any) -> Any:
        raise NotImplementedError("no test searches by vector")


async def _counts(dataset: Any, statement: Any) -> dict[str, int]:
    """Returns the number of rows per status, and their sum; nothing for a draft."""
    if dataset.is_draft:
        return {}
    column = statement.selected_columns[0]
    async with AsyncSessionLocal() as db:
        rows = (await db.execute(statement.group_by(column))).all()
    counts = {getattr(status, "value", status): n for status, n in rows}
    return {"total": sum(counts.values()), **counts}


def _words(query: Any) -> Any:
    text = query if isinstance(query, str) else getattr(query, "q", "") or ""
    column = func.lower(cast(Record.fields, String))
    return and_(true(), *(column.contains(word.lower(), autoescape=True) for word in text.split()))


def _filter(wanted: Any) -> Any:
    """Filters by the status of a record or of a user's response: the annotation page uses no other filter."""
    if wanted is None:
        return true()
    if isinstance(wanted, base.AndFilter):
        return and_(true(), *map(_filter, wanted.filters))
    scope, values = wanted.scope, [getattr(value, "value", value) for value in wanted.values]
    if isinstance(scope, base.RecordFilterScope):
        return getattr(Record, scope.property).in_(values)
    if isinstance(scope, base.ResponseFilterScope) and not scope.question:
        conditions = [Response.record_id == Record.id, *([Response.user_id == scope.user.id] if scope.user else [])]
        answered = exists(
            select(1).select_from(Response).where(*conditions, Response.status.in_(values)).correlate(Record)
        )
        unanswered = ~exists(select(1).select_from(Response).where(*conditions).correlate(Record))
        return or_(answered, unanswered) if "pending" in values else answered
    raise NotImplementedError(f"no test filters by {scope!r}")


for name in INDEXING:
    setattr(SqlSearch, name, _nothing)
SqlSearch.__abstractmethods__ = frozenset()
base.SearchEngine.register("sql")(SqlSearch)

if __name__ == "__main__":
    uvicorn.run(app, fd=int(sys.argv[1]), access_log=False)

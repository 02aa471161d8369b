"""A workspace whose catalog has gaps, and a site that answers for them."""

import json

import pytest

from saferec_builder.storage import workspace as store
from tests.worlds import once
from tests.worlds.catalog_files import VOTES, file

OWN = (
    "domain,title,year,ids\nfilm,Alien,1979,tt0078748\nfilm,Heat,1995,tt0113277\nfilm,Big,1988,\n"
    "film,Emma,1996,tt0116191\nfilm,Emma,1996,tt0118308\n"
)


@pytest.fixture(scope="session")
def films_made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("films")
    ws = store.Workspace.create(folder / "ws")
    file(folder, "own.csv", OWN)
    file(folder, "votes.csv", VOTES + "Alien,1979,,,Is there blood/gore,40,1,https://example.org,2024-01-01\n")
    items_by_chat = {"a": ["Heat (1995)"], "b": ["imdb:tt0113277", "Heat (1995)"], "c": ["Alien (1979)", "Big (1988)"]}
    asks = {"a": "A heist to watch tonight?", "b": "Something slow with cops.", "c": "Old favourites of yours, please!"}
    chats = []
    for i, items in items_by_chat.items():
        turns = [{"role": "user", "content": asks[i]}, {"role": "assistant", "content": "Try.", "items": items}]
        chats.append(json.dumps({"id": i, "messages": turns}))
    file(folder, "chats.jsonl", "\n".join(chats))
    once.command("catalog", "add", "csv", folder / "own.csv", "-C", ws.root)
    once.command("catalog", "add", "warnings", folder / "votes.csv", "-C", ws.root)
    once.command("mine", "messages", folder / "chats.jsonl", "-C", ws.root)
    return ws.root


@pytest.fixture
def films(films_made, workspace):
    """Five films, votes on the first, and three conversations: two name Heat, one Alien and Big."""
    return once.copied(films_made, workspace)

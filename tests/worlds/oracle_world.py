"""A workspace whose catalog has gaps, and a site that answers for them."""

import json

import pytest

from tests.worlds.catalog_files import VOTES, file

OWN = (
    "domain,title,year,ids\nfilm,Alien,1979,tt0078748\nfilm,Heat,1995,tt0113277\nfilm,Big,1988,\n"
    "film,Emma,1996,tt0116191\nfilm,Emma,1996,tt0118308\n"
)


@pytest.fixture
def films(cli, workspace, tmp_path):
    """Five films, votes on the first, and three conversations: two name Heat, one Alien and Big."""
    file(tmp_path, "own.csv", OWN)
    file(tmp_path, "votes.csv", VOTES + "Alien,1979,,,Is there blood/gore,40,1,https://example.org,2024-01-01\n")
    items_by_chat = {"a": ["Heat (1995)"], "b": ["imdb:tt0113277", "Heat (1995)"], "c": ["Alien (1979)", "Big (1988)"]}
    asks = {"a": "A heist to watch tonight?", "b": "Something slow with cops.", "c": "Old favourites of yours, please!"}
    chats = []
    for i, items in items_by_chat.items():
        turns = [{"role": "user", "content": asks[i]}, {"role": "assistant", "content": "Try.", "items": items}]
        chats.append(json.dumps({"id": i, "messages": turns}))
    file(tmp_path, "chats.jsonl", "\n".join(chats))
    for words in (
        ("catalog", "add", "csv", tmp_path / "own.csv"),
        ("catalog", "add", "warnings", tmp_path / "votes.csv"),
        ("mine", "messages", tmp_path / "chats.jsonl"),
    ):
        result = cli(*words, "-C", workspace.root, "--json")
        assert result.code == 0, result.err
    return workspace

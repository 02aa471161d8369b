"""Fixtures: a workspace with TEXTS, and each review tool in turn."""

import pytest

from tests.worlds import review_page, review_world

ws = review_world.ws


@pytest.fixture(params=["files", "page", *review_world.SERVERS])
def tool(request, ws):
    """A driver of the tool: what people do in it, and the command-line options that select it."""
    if request.param == "files":
        return review_world.Files(ws)
    if request.param == "page":
        return review_page.Page(ws)
    return review_world.on_server(request, ws)


@pytest.fixture
def review(cli, ws, tool):
    def run(verb: str, *words: object) -> dict:
        if tool.name == "page" and verb == "pull":
            return tool.pull()
        result = cli("review", verb, *words, *getattr(tool, f"{verb}_words"), "-C", ws.root, "--json")
        assert result.code == 0, result.err
        assert result.json["in"] == result.json["out"] + sum(result.json["dropped"].values())
        assert result.json["out"] == result.json["added"] + result.json["skipped"]
        return result.json

    return run

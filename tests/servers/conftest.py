"""A workspace of TEXTS, and each review tool in turn."""

import pytest

from tests.worlds import review_page, review_tools, review_world

ws = review_world.ws


@pytest.fixture(params=["files", "page", *review_tools.SERVERS])
def tool(request, ws):
    """A driver: what people do in the tool, and the words that name it on the command line."""
    if request.param == "files":
        return review_world.Files(ws)
    if request.param == "page":
        return review_page.Page(ws)
    return review_tools.on_server(request, ws)


@pytest.fixture
def review(cli, ws, tool):
    def run(verb: str, *words: object) -> dict:
        if tool.name == "page" and verb == "pull":
            return tool.pull()
        ran = cli("review", verb, *words, *getattr(tool, f"{verb}_words"), "-C", ws.root, "--json")
        assert ran.code == 0, ran.err
        assert ran.json["in"] == ran.json["out"] + sum(ran.json["dropped"].values())
        assert ran.json["out"] == ran.json["added"] + ran.json["skipped"]
        return ran.json

    return run

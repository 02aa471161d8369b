"""The review tools that tests of the contract run with."""

from collections.abc import Callable

import pytest

from saferec_builder.storage import workspace as store
from tests.worlds.review_world import Argilla, LabelStudio, Verdict

SERVERS = [pytest.param(name, marks=pytest.mark.servers) for name in ("label-studio", "argilla")]


def on_server(request: pytest.FixtureRequest, ws: store.Workspace) -> Argilla | LabelStudio:
    """What people do in the tool that is the fixture's parameter, on a real server."""
    if request.param == "argilla":
        server = request.getfixturevalue("argilla_server")
        return Argilla(ws, server.url, server.key)
    home, facts = request.getfixturevalue("label_studio")
    (ws.root / "label-studio").symlink_to(home)
    return LabelStudio(ws, home, facts)


def says(said: dict[str, dict[str, str]]) -> Callable[[str, list[str]], Verdict]:
    """Of each conversation these traits, with their quotes; of others nothing."""
    return lambda subject, asked: Verdict(said.get(subject, {}))

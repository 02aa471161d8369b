"""The review tools with which tests of their common contract run."""

from collections.abc import Callable

import pytest

from saferec_builder.storage import workspace as store
from tests.worlds.review_world import Argilla, LabelStudio, Verdict

SERVERS = [pytest.param(name, marks=pytest.mark.servers) for name in ("label-studio", "argilla")]


def on_server(request: pytest.FixtureRequest, ws: store.Workspace) -> Argilla | LabelStudio:
    """The driver of the tool that the fixture's parameter names, on a real server."""
    if request.param == "argilla":
        server = request.getfixturevalue("argilla_server")
        return Argilla(ws, server.url, server.key)
    folder, facts = request.getfixturevalue("label_studio")
    (ws.root / "label-studio").symlink_to(folder)
    return LabelStudio(ws, folder, facts)


def says(said: dict[str, dict[str, str]]) -> Callable[[str, list[str]], Verdict]:
    """Answers with these traits and quotes for each conversation, and with nothing for others."""
    return lambda subject, asked: Verdict(said.get(subject, {}))

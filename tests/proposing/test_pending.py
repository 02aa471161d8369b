"""Which questions a run still has to ask."""

import re
from typing import Any

import pytest

from saferec_builder.core import taxonomy as traits
from saferec_builder.proposing import pending as asked
from saferec_builder.storage import tables, workspace as store
from tests.servers.llm_stub import Stub
from tests.worlds.model_replies import own_taxonomy


@pytest.mark.slow
def test_a_changed_taxonomy_asks_for_what_changed(ask: Any, workspace: store.Workspace, stub: Stub) -> None:
    ask("--proposer", "openai:small")
    proposals = store.read(workspace, tables.PROPOSALS)
    text = traits.EMBEDDED.read_text()
    reworded = re.sub(r'(slug = "needles".*?definition = ")', r"\1Above all: ", text, count=1, flags=re.S)
    (workspace.root / "mine.toml").write_text("# a remark\n" + text)
    own_taxonomy(workspace)
    assert ask("--proposer", "openai:small").json["skipped"] == 3  # another file, the same words
    (workspace.root / "mine.toml").write_text(reworded)
    requests = len(stub.bodies)
    assert ask("--proposer", "openai:small").json["added"] == 3
    for body in stub.bodies[requests + 1 :]:
        prompt = body["messages"][0]["content"]
        assert "- needles: Above all" in prompt and "- gore:" not in prompt
    assert store.read(workspace, tables.PROPOSALS).head(proposals.height).equals(proposals)
    assert ask("--proposer", "openai:small").json["added"] == 0


def test_a_part_of_a_taxonomy_has_a_name_of_its_own() -> None:
    whole = traits.load()
    part = asked.part_of(whole, ["gore", "needles"])
    assert part.slugs == ("gore", "needles") and part.digest != whole.digest
    assert asked.part_of(whole, whole.slugs) is whole
    assert part.digest == asked.part_of(whole, {"needles", "gore"}).digest != asked.part_of(whole, ["gore"]).digest

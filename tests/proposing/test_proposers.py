"""Who is asked, and who cannot be."""

from typing import Any

from saferec_builder.storage import workspace as store
from tests.servers.llm_stub import Stub


def test_a_jury_with_one_model_twice_is_refused(ask: Any, workspace: store.Workspace, stub: Stub) -> None:
    """The second read nothing, as the first had read it all under the same name, and the counts were the second's."""
    toml = workspace.root / "saferec.toml"
    named = "".join(f'[propose.models.{name}]\nmodel = "m"\n' for name in "ab")
    toml.write_text(toml.read_text().replace('"openai:small", "openai:large"', '"openai:a", "openai:b"') + named)
    ran = ask("--proposer", "jury")
    assert ran.code == 1 and "--proposer jury: m stands twice" in ran.err and not stub.asked

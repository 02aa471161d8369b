"""The whole command on a real llama.cpp server, whose answers are nonsense within the schema, some cut off.

So every accepted reply must be valid, every failure a counted row, and nothing may be invented to fill a gap.
"""

import random
from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest

from saferec_builder import llm
from saferec_builder.core import taxonomy as traits
from saferec_builder.llm.capabilities import probed
from saferec_builder.llm.transport import Wire
from saferec_builder.proposing import prompting as propose
from saferec_builder.storage import tables, workspace as store
from tests.conftest import Cli
from tests.servers import tiny_gguf
from tests.worlds.model_replies import fill, options

pytestmark = pytest.mark.servers

WORDS = (
    "I you watched the film with my sister hospital scenes since crash cannot sleep dogs blood funny good night "
    "looking for something light thanks maybe needles spider war baby 🙂 naïve “quoted”"
).split()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("xllamacpp", reason="xllamacpp is not installed: no real model server to test on")
    prompt = propose.build_request(propose.Subject("sensitivity", "", "", ()), traits.load())
    model = tmp_path_factory.mktemp("model") / "tiny.gguf"
    tiny_gguf.write_model(model, prompt["messages"][0]["content"])
    with tiny_gguf.serving(model) as base:
        yield base


@pytest.mark.slow
def test_every_reply_is_valid_and_every_failure_is_counted(url: str, cli: Cli, workspace: store.Workspace) -> None:
    options(workspace, "max_tokens = 160")  # a real answer needs at most 2,000; nonsense may be cut off sooner
    rng, n = random.Random(5), 200
    fill(workspace, *(" ".join(rng.choices(WORDS, k=rng.randint(4, 25))) for _ in range(n)))
    words = ("-C", workspace.root, "--proposer", "openai", "--model", "tiny", "--base-url", url, "--json")
    result = cli("propose", *words)
    assert result.code == 0, result.err
    counts = result.json
    print(counts)
    assert counts["in"] == n == counts["added"] + sum(counts["dropped"].values())
    assert counts["added"] > 0
    reasons = {reason.partition(" (")[0] for reason in counts["dropped"]}
    assert reasons <= {"server error", "cut off", "off schema", "not sent, as too many answers before were of no use"}
    readings, drops = (store.read(workspace, t) for t in (tables.READINGS, tables.DROPS))
    assert (readings.height, drops.height) == (counts["added"], sum(counts["dropped"].values()))
    check_proposals(workspace)
    replies = store.read(workspace, tables.REPLIES)
    # two equal texts would be one reply; these are all different
    assert replies.height == counts["added"] + counts.get("answers_of_no_use", 0) and replies["tokens_in"].min() > 500
    again = cli("propose", *words).json
    assert (again["skipped"], again["added"] + sum(again["dropped"].values())) == (counts["added"], n - counts["added"])
    assert again["already_paid"] == counts.get("answers_of_no_use", 0)


def check_proposals(ws: store.Workspace) -> None:
    conversations = store.read(ws, tables.CONVERSATIONS).select("conversation", "turns")
    texts: dict[str, list[dict[str, Any]]] = dict(conversations.iter_rows())
    proposals: pl.DataFrame = store.read(ws, tables.PROPOSALS)
    for row in proposals.iter_rows(named=True):
        assert row["trait"] in traits.load().slugs and 0 <= row["confidence"] <= 1
        assert row["verdict"] == "absent" or row["spans"]
        for span in row["spans"]:
            turn = texts[row["subject"]][span["turn"]]
            assert turn["role"] == "seeker" and turn["text"][span["start"] : span["end"]] == span["quote"]


def test_the_server_is_told_from_one_that_ignores_the_schema(url: str) -> None:
    async def probe() -> llm.Server:
        server = llm.Server("tiny", url)
        async with Wire(server) as wire:
            return await probed(wire, server, llm.Budget())

    assert llm.run(probe()).way == "json_schema"


def test_a_text_beyond_its_context_is_a_failure_with_a_reason(url: str, cli: Cli, workspace: store.Workspace) -> None:
    fill(workspace, "é🙂 " * 10_000)  # about 60,000 bytes: far more tokens than the context of 16,384
    options = ("-C", workspace.root, "--proposer", "openai", "--model", "tiny", "--base-url", url, "--json")
    assert cli("propose", *options).json["dropped"] == {"longer than the context": 1}

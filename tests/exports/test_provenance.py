"""What stands beside the rows: Croissant that machines can read, provenance, digests, reviews of who agreed."""

import itertools
import json

import polars as pl
import pytest

from exports import manifest_facts, verify as proof
from saferec_builder.storage import tables, workspace as store
from tests.worlds import release_world as world


def test_provenance_names_what_the_release_rests_on(home, reviewed, cli):
    said = json.loads((home / "provenance.json").read_text())
    assert {"source:messages", "source:csv", "taxonomy", "rule", "guideline:g1", "release:1.0.0"} <= set(said["entity"])
    assert said["activity"]["review"]["reviewers"] == 2 and said["wasDerivedFrom"] == {}
    assert cli("release", "1.0.1", "-C", reviewed.root).code == 0
    later = json.loads((reviewed.releases / "1.0.1/provenance.json").read_text())
    assert later["entity"]["release:1.0.0"]["sha256 of SHA256SUMS"] == proof.sha256(home / "SHA256SUMS")
    known = {*later["entity"], *later["activity"], *later["agent"]}
    for relation in ("used", "wasGeneratedBy", "wasAttributedTo", "wasDerivedFrom"):
        assert {name for pair in later[relation].values() for name in pair.values()} <= known


def test_it_names_no_file_of_somebody_who_was_removed(workspace, cli):
    """`anna.schmidt_1987.jsonl` stood there still, whose only conversation was left out on request."""
    rows, said = world.requests()
    rows[0] |= {"source_file": "anna.schmidt_1987.jsonl"}
    ws = world.fill(workspace, rows, said)
    (ws.root / "removals.csv").write_text("source,source_id,author\nmessages,c000,\n")
    assert cli("release", "1.0.0", "-C", ws.root).code == 0
    home = ws.releases / "1.0.0"
    told = json.loads((home / "provenance.json").read_text())["entity"]
    assert told["source:messages"]["files"] == ["x.jsonl"] and "source:csv" in told
    assert not any(b"schmidt" in path.read_bytes() for path in home.rglob("*") if path.is_file())


def test_a_model_that_is_a_file_is_named_without_the_folders_of_its_machine(workspace, cli):
    rows, said = world.requests()
    ws = world.fill(workspace, rows, said)
    for n, who in enumerate(("/home/ann.schmidt/a/qwen3.gguf", "/home/ann.schmidt/b/qwen3.gguf")):
        row = dict.fromkeys(tables.PROPOSALS.columns) | {"proposal": f"p{n}", "kind": "sensitivity", "trait": "gore"}
        row |= {"subject": rows[1]["conversation"], "digest": rows[1]["digest"], "verdict": "present"}
        row |= {"spans": said[1]["spans"], "proposer": who, "version": "1", "taxonomy": world.TAXONOMY}
        store.append(ws, tables.PROPOSALS, tables.PROPOSALS.frame([row]))
    assert cli("release", "1.0.0", "-C", ws.root).code == 0
    home = ws.releases / "1.0.0"
    assert json.loads((home / "manifest.json").read_text())["proposers"] == {"qwen3.gguf": 2}
    assert json.loads((home / "provenance.json").read_text())["entity"]["proposals:qwen3.gguf:1"]["count"] == 2
    assert not any(b"schmidt" in path.read_bytes() for path in home.rglob("*") if path.is_file())


def test_every_item_that_stands_there_counts_for_what_finds_a_text(workspace, cli):
    """Where the person alone names films, the card said that items find nothing, and all of them were unique."""
    rows, said = [], []
    for n, films in enumerate(itertools.combinations(world.LETTERS, 2)):
        liked = ", ".join(map(world.film, films))
        talk = (f"I liked {liked}", "What did you like about them?", "The calm.", "Anything else?", "no")
        rows.append(world.conversation(f"c{n:03d}", *talk, day=n, seeker=f"p{n}"))
        said.append(world.label(rows[-1], verdict="absent"))
    ws = world.fill(workspace, rows, said)
    assert cli("release", "1.0.0", "--allow", "no-safety", "-C", ws.root).code == 0
    home = ws.releases / "1.0.0"
    told = json.loads((home / "manifest.json").read_text())["linkable"]
    assert told == {"items": 1.0, "items and day": 1.0}
    card = " ".join((home / "README.md").read_text().split())
    assert "by its items (recommended, accepted and seen) 100%, by items and day 100%." in card


@pytest.mark.parametrize(
    ("who", "named"),
    [
        ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("rules", "rules"),
        ("./models/a.gguf", "a.gguf"),
        ("~/models/a b/", "a b/"),
        ("C:\\Users\\ann\\a.gguf", "a.gguf"),
        ("file:///home/ann/a.gguf", "a.gguf"),
    ],
)
def test_a_name_of_a_registry_is_no_path(who, named):
    assert manifest_facts.without_paths(pl.DataFrame({"proposer": [who]}))["proposer"].to_list() == [named]

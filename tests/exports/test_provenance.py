"""What a release states about its origin: provenance, proposers without local paths, and what makes rows linkable."""

import json
from types import SimpleNamespace

import polars as pl
import pytest

from exports import manifest_facts, provenance, verify as proof
from exports.card import percent
from saferec_builder.storage import tables, workspace as store
from tests.worlds import release_world as world
from tests.worlds.release_rows import manifest


@pytest.mark.slow
def test_provenance_names_what_the_release_rests_on(home, reviewed, cli):
    graph = json.loads((home / "provenance.json").read_text())
    assert {"source:messages", "source:csv", "taxonomy", "rule", "guideline:g1", "release:1.0.0"} <= set(
        graph["entity"]
    )
    assert graph["activity"]["review"]["reviewers"] == 2 and graph["wasDerivedFrom"] == {}
    assert cli("release", "1.0.1", "-C", reviewed.root).code == 0
    newer = json.loads((reviewed.releases / "1.0.1/provenance.json").read_text())
    assert newer["entity"]["release:1.0.0"]["sha256 of SHA256SUMS"] == proof.sha256(home / "SHA256SUMS")
    names = {*newer["entity"], *newer["activity"], *newer["agent"]}
    for relation in ("used", "wasGeneratedBy", "wasAttributedTo", "wasDerivedFrom"):
        assert {name for pair in newer[relation].values() for name in pair.values()} <= names


@pytest.mark.slow
def test_it_counts_files_and_names_neither_them_nor_the_folders_of_models(workspace, cli):
    """`anna.schmidt_1987.jsonl` was named, beside a text in which each of her names was replaced."""
    rows, labels = world.requests()
    rows[0] |= {"source_file": "removed.jsonl"}
    rows[1] |= {"source_file": "anna.schmidt_1987.jsonl"}
    ws = world.fill(workspace, rows, labels)
    (ws.root / "removals.csv").write_text("source,source_id,author\nmessages,c000,\n")
    for n, proposer in enumerate(("/home/ann.schmidt/a/qwen3.gguf", "/home/ann.schmidt/b/qwen3.gguf")):
        row = dict.fromkeys(tables.PROPOSALS.columns) | {"proposal": f"p{n}", "kind": "sensitivity", "trait": "gore"}
        row |= {"subject": rows[1]["conversation"], "digest": rows[1]["digest"], "verdict": "present"}
        row |= {"spans": labels[1]["spans"], "proposer": proposer, "version": "1", "taxonomy": world.TAXONOMY}
        store.append(ws, tables.PROPOSALS, tables.PROPOSALS.frame([row]))
    assert cli("release", "1.0.0", "-C", ws.root).code == 0
    folder = ws.releases / "1.0.0"
    entities = json.loads((folder / "provenance.json").read_text())["entity"]
    assert entities["source:messages"]["files"] == 2 and "files" not in entities["source:csv"]  # it is not 0 files
    assert (manifest(ws)["proposers"], manifest(ws)["item_flags"]) == ({"qwen3.gguf": 2}, {})
    assert entities[f"proposals:qwen3.gguf:1:{world.TAXONOMY}"]["count"] == 2
    assert not any(b"schmidt" in path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_proposals_are_counted_under_each_taxonomy():
    """After a trait was added, the rules' proposals of before were in no count: one name held only the last of them."""
    made_by = {"proposer": "rules", "version": "7", "verdict": "present"}
    said = pl.DataFrame([made_by | {"taxonomy": taxonomy} for taxonomy in ("old", "old", "new")])
    origins = provenance.origins(
        said, *(table.empty for table in (tables.CONVERSATIONS, tables.CATALOG_ROWS, tables.REVIEWS))
    )
    facts = {"version": "1.0.0", "name": "n", "licences": {}, "makers": {}, "rule": {}, "row_digests": {}}
    facts |= {"canary": None, "taxonomy_digest": "new", "simulated": False, "code_version": "0", "split_rule": "time"}
    graph = json.loads(provenance.render(facts, origins, None))
    counts = {e["taxonomy"]: e["count"] for e in graph["entity"].values() if e.get("prov:type") == "proposals"}
    assert counts == {"old": 2, "new": 1}
    assert {pair["prov:entity"] for pair in graph["wasAttributedTo"].values()} <= graph["entity"].keys()


@pytest.mark.parametrize(("identified", "share"), [(0, "0%"), (1, "<1%"), (2_999, ">99%"), (3_000, "100%")])
def test_a_few_who_can_be_found_are_not_said_to_be_none(identified, share):
    """One of 3,000 was 0%, and all but one were 100%. Where only the person names films, items identified nobody."""
    items = [[f"i{n}"] if n < identified else [] for n in range(3_000)]
    rows = pl.DataFrame({"source": "csv", "time": world.START, "seen": items})
    rows = rows.with_columns(pl.lit(None, pl.List(pl.String)).alias(name) for name in ("recommended", "accepted"))
    linkable = manifest_facts.linkable(SimpleNamespace(rows=rows, silent=frozenset()))
    assert linkable and percent(linkable["items"]) == percent(linkable["items and day"]) == share


def test_a_name_of_a_registry_is_no_path():
    paths = {"./models/a.gguf": "a.gguf", "~/models/a b/": "a b/", "C:\\Users\\ann\\a.gguf": "a.gguf"}
    names = paths | {"file:///home/ann/a.gguf": "a.gguf", "Qwen/Qwen3-8B": "Qwen/Qwen3-8B", "rules": "rules"}
    shown = manifest_facts.without_paths(pl.DataFrame({"proposer": [*names]}))["proposer"]
    assert shown.to_list() == [*names.values()]

"""Licences of the sources: every source has terms, and a closed licence needs `--allow`."""

import pytest

from exports import licences, released_ids
from saferec_builder.sources import doesthedogdie, esrb, parent_guide, rating_reasons, warnings_csv
from tests.worlds import release_world as world
from tests.worlds.release_rows import manifest, rows_of


@pytest.mark.slow
def test_the_card_names_whose_statements_judged_the_items_and_what_they_cannot_say(workspace, cli):
    """The card named only the sources of conversations and titles: TMDB must be named, and keywords clear nothing. The
    rows that `catalog apart` writes were of a source with an unknown licence."""
    ws = world.fill(workspace, *world.requests())
    table = ws.root / "keywords.csv"
    table.write_text("imdb,keywords\ntt0000001,gore|blood\n")
    for words in (("catalog", "apart", "csv:A"), ("catalog", "add", "keywords", table), ("release", "1.0.0")):
        assert cli(*words, "-C", ws.root).code == 0
    terms, card = manifest(ws)["licences"], (ws.releases / "1.0.0/README.md").read_text()
    assert "apart" in terms and not [source for source in terms if "unknown" in terms[source]["licence"]]
    assert "TMDB" in terms["keywords"]["licence"] and "not endorsed or certified by TMDB" in card
    assert "they make it `violated`, never `clear`" in card
    assert licences.LICENCES.keys() >= {
        *(module.SOURCE for module in (doesthedogdie, esrb, parent_guide, rating_reasons, warnings_csv)),
        *("keywords", "tags", "review"),
    }


@pytest.mark.slow
def test_a_closed_licence_and_simulated_reviews_need_the_word(workspace, cli):
    rows, labels = world.requests()
    ws = world.fill(workspace, [row | {"source": "imdb"} for row in rows], [s | {"simulated": True} for s in labels])
    result = cli("release", "1.0.0", "-C", ws.root)
    assert result.code == 1 and "--allow imdb" in result.err
    result = cli("release", "1.0.0", "--allow", "imdb", "-C", ws.root)
    assert result.code == 1 and "--allow simulated" in result.err
    assert cli("release", "1.0.0", "--allow", "imdb", "--allow", "simulated", "-C", ws.root).code == 0


@pytest.mark.slow
def test_a_dataset_of_the_hub_is_of_the_source_hf(workspace, cli):
    """`--allow hf` was accepted without effect, and the terms were unknown, because the source is called `hf:NAME`."""
    rows, labels = world.requests()
    ws = world.fill(workspace, [row | {"source": "hf:chats"} for row in rows], labels)
    assert cli("release", "1.0.0", "-C", ws.root).code == 0
    assert manifest(ws)["silent"] == ["hf:chats"]
    assert manifest(ws)["licences"]["hf:chats"]["licence"] == "see the dataset's own card"
    for version, word in (("2.0.0", "hf"), ("2.0.1", "hf:chats")):
        assert cli("release", version, "--allow", word, "-C", ws.root).code == 0
        assert manifest(ws, version)["silent"] == []


def test_sources_that_keep_their_text_give_labels_without_what_finds_it(workspace, cli):
    rows, labels = world.requests()
    ws = world.fill(workspace, [row | {"source": "reddit"} for row in rows], labels)
    assert cli("release", "1.0.0", "-C", ws.root).code == 0
    key = released_ids.read(ws.releases / "1.0.0.key.parquet").filter(subject="c001").row(0, named=True)
    assert (key["source_id"], key["digest"], key["cut"]) == ("c001", rows[1]["digest"], 1)
    (span,) = key["labels"][0]["spans"]
    assert (span["quote"], span["end"] - span["start"]) == ("", len("faint at the sight of blood"))
    assert rows_of(ws, "sft")["prompt"].list.len().sum() == 0
    for path in (ws.releases / "1.0.0").rglob("*"):
        assert path.is_dir() or b"sight of blood" not in path.read_bytes()

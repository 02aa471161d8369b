"""What a release says of its reviews and of what they missed."""

import copy
import itertools
import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from exports import folder as write, verify as proof
from saferec_builder.core.errors import ReleaseError
from saferec_builder.storage import tables, workspace as store
from tests.worlds import release_world as world
from tests.worlds.csv_rows import edit
from tests.worlds.release_rows import manifest, reviews
from tests.worlds.release_world import film
from tests.worlds.reviewing import yes
from tests.worlds.settings import review_settings

COUNTS = ("found", "zone", "audited", "holes", "open", "elsewhere", "gone", "left", "done", "labels", "most")


@pytest.mark.slow
def test_what_is_missed_is_missed_by_the_labels_that_are_released(workspace, cli):
    """20 of 40 cannot see blood, and all were read twice; but only a few of the answers were adjudicated."""
    ws, where = world.fill(workspace, world.requests()[0], []), ("-C", workspace.root)
    config = ws.root / "saferec.toml"
    config.write_text(config.read_text().replace("# min_seekers = 5", "min_seekers = 1"))
    people = ("--tool", "files", "--reviewer", "ann", "--reviewer", "bo", "--all")
    few = [f"blood. I liked {film(x)}" for x in "AC"]
    assert cli("propose", *where).code == cli("review", "push", *people, *where).code == 0
    for done in (few, [""]):
        for name in ("ann", "bo"):
            answer = lambda row, done=done: yes(row) if any(x in row["text"] for x in done) else {}  # noqa: E731
            edit(ws.root / "review" / f"{name}.csv", answer)
        assert cli("review", "pull", "--tool", "files", ws.root / "review", *where).code == 0
        assert done is not few or cli("adjudicate", *where).code == 0
    assert cli("release", "1.0.0", *where).code == 0
    told = manifest(ws)
    present, missed = told["labels"]["gore"]["present"], told["missed"]["gore"]
    assert 0 < present < 10 and missed["certified"] is False
    assert missed["share"] is None or missed["share"] >= (20 - present) / 20


@pytest.mark.slow
def test_a_row_carries_what_it_stands_for(workspace, cli):
    """The rules claim 20 of 40; of the other 20 those are drawn whose place comes up, and each stands for its share."""
    ws, where = world.fill(workspace, world.requests()[0], []), ("-C", workspace.root)
    config = ws.root / "saferec.toml"
    config.write_text(config.read_text().replace("# min_seekers = 5", "min_seekers = 1"))
    review_settings(ws.root, audit=0.5, held_back=0)
    people = ("--tool", "files", "--reviewer", "ann", "--reviewer", "bo")
    assert cli("propose", *where).code == cli("review", "push", *people, *where).code == 0
    for name in ("ann", "bo"):
        edit(ws.root / "review" / f"{name}.csv", lambda row: yes(row))
    assert cli("review", "pull", "--tool", "files", ws.root / "review", *where).code == 0
    assert cli("adjudicate", *where).code == cli("release", "1.0.0", *where).code == 0
    found = pl.concat([pl.read_parquet(path) for path in (ws.releases / "1.0.0/data/grpo").glob("*.parquet")])
    drawn = found.filter(pl.col("traits").list.len() == 0)
    assert 0 < drawn.height < 20 and found.filter(pl.col("traits").list.len() > 0)["weight"].unique().to_list() == [1.0]
    assert drawn["weight"].unique().to_list() == [20 / drawn.height]  # so that all of them stand for the 20


def test_without_a_review_no_certificate_holds(workspace, cli):
    rows, said = world.requests()
    reviewed = world.fill(workspace, rows, [said[0] | {"method": "auto", "verdict": "present"}, *said[1:]])
    ran = cli("release", "1.0.0", "-C", reviewed.root)
    assert ran.code == 1 and "1 labels are `auto` without a certificate" in ran.err


def test_the_certificate_follows_from_its_counts(home, tmp_path):
    """Each count changed by one, with checksums made to fit: computed again, it does not hold."""
    folder = Path(shutil.copytree(home, tmp_path / "copy"))
    path = folder / "certificate.json"
    stated = json.loads(path.read_text())
    assert proof.verify(folder) and not set(stated["missed"]) & set(write.facts_of(folder)["withheld"])
    assert list(stated["missed"]) == ["gore"]  # the others are withheld: too few people have them
    for name, by in itertools.product(COUNTS, (1, -1, 7)):
        changed = copy.deepcopy(stated)
        changed["missed"]["gore"][name] += by
        path.write_text(json.dumps(changed))
        world.seal(folder, "certificate.json")
        with pytest.raises(ReleaseError, match="does not follow from the counts beside it"):
            proof.verify(folder)
    for other in ("<= 0.1 % (certified)", ""):  # a whole certificate of other labels
        facts = json.loads((folder / "manifest.json").read_text())
        facts["missed"]["gore"]["words"] = other
        (folder / "manifest.json").write_text(json.dumps(facts))
        path.write_text(json.dumps(stated))
        world.seal(folder, "certificate.json")
        with pytest.raises(ReleaseError, match="it states other bounds than manifest.json"):
            proof.verify(folder)


def test_only_who_agreed_is_released_and_not_by_name(home, reviewed, cli):
    found = pl.read_parquet(home / "data/reviews/train.parquet")
    assert found.height == 32 and found["reviewer"].n_unique() == 1
    assert set(found.columns).isdisjoint({"note", "seconds", "time", "tool", "review"})
    labels = pl.read_parquet(home / "data/labels/train.parquet")
    assert labels["reviewers"].to_list() == [2] * 32 and labels["basis"].n_unique() == 32
    for path in home.rglob("*"):
        content = b"" if path.is_dir() else path.read_bytes()
        assert b"for the team only" not in content and b"ann-c0" not in content
    assert cli("release", "1.0.1", "-C", reviewed.root).code == 0
    later = pl.read_parquet(reviewed.releases / "1.0.1/data/reviews/train.parquet")
    assert set(later["reviewer"]).isdisjoint(set(found["reviewer"]))  # a pseudonym is of one version
    assert pl.read_parquet(reviewed.releases / "1.0.1/data/labels/train.parquet")["basis"].equals(labels["basis"])
    assert write.read_manifest(reviewed.releases / "1.0.1").model_dump()["changes"] == []  # no change of what was said
    less = world.requests()[1][1] | {"spans": []}  # she says the same again, and marks no words
    store.append(reviewed, tables.REVIEWS, reviews([less], "ann").with_columns(review=pl.lit("again")))
    store.append(reviewed, tables.LABELS, world.labels(less | {"label": "again", "reviews": ["again", "bo-c001"]}))
    assert cli("release", "1.0.2", "-C", reviewed.root).code == 0
    changes = write.read_manifest(reviewed.releases / "1.0.2").model_dump()["changes"]
    assert "patch: rows of reviews changed" in changes


def test_of_items_too_only_what_counts_is_released(reviewed, cli):
    """Of five rows of ann's one stands: the others were set aside, handed back (an opt-out), not hers, of no trait."""
    store.append(reviewed, tables.CATALOG_ROWS, world.catalog().with_columns(plot=pl.lit("Blood.")))
    said = [("gore", "present", "reviewer", None), ("needles", None, "reviewer", "left the team")]
    said += [("*", None, "reviewer", tables.HANDED_BACK), ("torture", "present", "other", None)]
    said += [("no trait", "present", "reviewer", None)]
    flag = world.review({"conversation": world.item("D"), "digest": "d"}, kind="item_flag")
    names = ("trait", "verdict", "role", "note", "review")
    made = [flag | dict(zip(names, (*row, f"item-{n}"), strict=True)) for n, row in enumerate(said)]
    store.append(reviewed, tables.REVIEWS, world.reviews(*made))
    assert cli("release", "2.0.0", "-C", reviewed.root).code == 0
    found = pl.read_parquet(reviewed.releases / "2.0.0/data/reviews/catalog.parquet")
    assert found.select("subject", "trait", "verdict").rows() == [(world.item("D"), "gore", "present")]

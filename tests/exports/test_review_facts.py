"""What a release says of its reviews and of what they missed."""

import copy
import functools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from annotation import certificate
from annotation.review_state import gather, label_bounds
from exports import folder as write, review_facts, verify as proof
from saferec_builder.core.errors import ReleaseError
from saferec_builder.storage import tables, workspace as store
from tests.worlds import release_world as world
from tests.worlds.csv_rows import edit
from tests.worlds.damages import numbers
from tests.worlds.release_rows import manifest, reviews
from tests.worlds.release_world import film, label
from tests.worlds.reviewing import yes
from tests.worlds.settings import review_settings


def pushed(workspace, cli, *words: str, min_seekers: int = 5):
    """(a workspace of 40 requests, half of which the rules claim, as two people were given them; its words)."""
    ws, where = world.fill(workspace, world.requests()[0], []), ("-C", workspace.root)
    config = ws.root / "saferec.toml"
    config.write_text(config.read_text().replace("# min_seekers = 5", f"min_seekers = {min_seekers}"))
    people = ("--tool", "files", "--reviewer", "ann", "--reviewer", "bo", *words)
    assert cli("propose", *where).code == cli("review", "push", *people, *where).code == 0
    return ws, where


@pytest.mark.slow
def test_answers_that_are_in_no_label_stop_a_release(workspace, cli):
    """20 of 40 cannot see blood, and all were read twice, but only a few of the answers were adjudicated: the version
    would be without the others, and there for good."""
    ws, where = pushed(workspace, cli, "--all", min_seekers=1)
    few = [f"blood. I liked {film(x)}" for x in "AC"]
    for done in (few, [""]):
        for name in ("ann", "bo"):
            answer = lambda row, done=done: yes(row) if any(x in row["text"] for x in done) else {}  # noqa: E731
            edit(ws.root / "review" / f"{name}.csv", answer)
        assert cli("review", "pull", "--tool", "files", ws.root / "review", *where).code == 0
        assert done is not few or cli("adjudicate", *where).code == 0
    ran = cli("release", "1.0.0", *where)
    assert ran.code == 1 and "answers are in no label yet, first on c0" in ran.err
    assert not (ws.releases / "1.0.0").exists()
    assert cli("adjudicate", *where).code == cli("release", "1.0.0", *where).code == 0
    assert manifest(ws)["labels"]["gore"]["present"] > 10


@pytest.mark.slow
def test_of_who_asked_to_be_removed_not_even_the_number_of_labels_is_stated(workspace, cli):
    """Many of 40 cannot see blood, as both readers say, and one of these asks to be removed. The release's certificate
    counted that label, which the workspace's own did not."""
    ws, where = pushed(workspace, cli, "--all")
    for name in ("ann", "bo"):
        edit(ws.root / "review" / f"{name}.csv", lambda row: yes(row) if "blood" in row["text"] else {})
    assert cli("review", "pull", "--tool", "files", ws.root / "review", *where).code == 0
    assert cli("adjudicate", *where).code == 0
    known = store.read(ws, tables.LABELS).filter(verdict="present")["subject"]
    gone = known[0]
    (ws.root / "removals.csv").write_text(f"source,source_id,author\nmessages,{gone},\n")
    ran = cli("release", "1.0.0", *where, "--json")
    assert ran.code == 0 and ran.json["dropped"] == {"removed on request": 1}, ran.err
    assert ran.json["in_conversations_only"] == {"reviewed by nobody": 20}
    stated = json.loads((ws.releases / "1.0.0" / "certificate.json").read_text())
    found = [pl.read_parquet(path) for path in (ws.releases / "1.0.0" / "data" / "labels").glob("*")]
    present = pl.concat(found).filter(verdict="present").height
    assert present == len(known) - 1 >= 15
    assert stated["false_of_all"]["labels"] == stated["false_of_all"]["zone"] == present


@pytest.mark.slow
def test_a_second_readers_late_word_on_a_whole_text_stops_a_release(workspace, cli):
    """Ann's sheet makes labels, of one vote each; bo has marked nothing, and his `*` would settle them."""
    ws, where = pushed(workspace, cli, "--all")
    for name in ("ann", "bo"):
        edit(ws.root / "review" / f"{name}.csv", yes)
        assert cli("review", "pull", "--tool", "files", ws.root / "review" / f"{name}.csv", *where).code == 0
        ran = cli("release", "1.0.0", *where)
        assert ran.code == 1 and ("answers are in no label yet" in ran.err or name == "ann"), ran.err
        assert name == "bo" or cli("adjudicate", *where).code == 0
    assert cli("adjudicate", *where).code == cli("release", "1.0.0", *where).code == 0


@pytest.mark.slow
def test_a_row_carries_what_it_stands_for(workspace, cli):
    """The rules claim 20 of 40; of the other 20 those are drawn whose place comes up, and each stands for its share."""
    review_settings(workspace.root, audit=0.5, held_back=0)
    ws, where = pushed(workspace, cli, min_seekers=1)
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


def answered(row: dict[str, str]) -> dict[str, str]:
    """What there is to see: blood in every second conversation; in two of them needles, which few people have."""
    if row["trait"] != "*":
        return {"verdict": "present"}
    hurt, few = "blood" in row["text"], "Film G" in row["text"].partition("what next")[0]
    said = [slug for slug, there in (("gore", hurt and not row["proposed"]), ("needles", few)) if there]
    return {"verdict": " ".join(said) or "none", "quote": " | ".join(["faint at the sight of blood", "I"][: len(said)])}


@pytest.fixture
def mixed(workspace, cli):
    """A release of 40 of whom the draw came to some before rules claimed others. Two of those found have left: one
    asked to be removed, one was erased. Some of bo's answers are to come; needles are withheld (few have them)."""
    ws, where = world.fill(workspace, world.requests()[0], []), ("-C", workspace.root)
    review_settings(ws.root, audit=0.6, held_back=0, controls=0, recheck=0.3)
    push = ("review", "push", "--tool", "files", "--reviewer", "ann", "--reviewer", "bo", *where)
    pull = ("review", "pull", "--tool", "files", ws.root / "review", *where)
    assert cli(*push).code == 0
    for name in ("ann", "bo"):
        edit(ws.root / "review" / f"{name}.csv", answered)
    assert cli(*pull).code == cli("adjudicate", *where).code == cli("propose", *where).code == cli(*push).code == 0
    edit(ws.root / "review" / "ann.csv", answered)
    edit(ws.root / "review" / "bo.csv", lambda row: {} if "Film C" in row["text"] else answered(row))
    found = store.read(ws, tables.LABELS).filter(trait="gore", verdict="present")["subject"].to_list()
    assert cli(*pull).code == cli("adjudicate", *where).code == cli("forget", found[0], *where).code == 0
    (ws.root / "removals.csv").write_text(f"source,source_id,author\nmessages,{found[1]},\n")
    ran = cli("release", "1.0.0", *where)
    assert ran.code == 0, ran.err
    return ws.releases / "1.0.0"


OTHER: dict[str, Callable[[dict[str, Any]], object]] = {  # whatever is no number
    "an outcome less": lambda d: d["missed"]["gore"]["positive"].pop(),
    "an outcome twice": lambda d: d["missed"]["gore"]["positive"].append(d["missed"]["gore"]["positive"][-1]),
    "an outcome of any": lambda d: d["missed_of_all"]["positive"].pop(0),
    "certified": lambda d: d["missed"]["gore"].update(certified=True),
    "certified of all": lambda d: d["missed_of_all"].update(certified=True),
    "words": lambda d: d["missed_of_all"].update(words="<= 0.1 % (certified)"),
    "together": lambda d: d["together"].append("gore"),
    "truth": lambda d: d["of_the_truth"].update(words="<= 1.0 % relative to the truth"),
    "truth of nobody": lambda d: d["of_the_truth"].update(share=0.01),
    "a trait that is withheld": lambda d: d["missed"].update(needles=d["missed"]["gore"]),
    "a trait less": lambda d: d["missed"].clear(),
    "the unit": lambda d: d.update(unit="sentence"),
    "a field more": lambda d: d.update(all_safe=True),
}


@pytest.mark.slow
def test_the_certificate_follows_from_its_counts(mixed, tmp_path):
    """Of a release with withheld traits, people who left and open tasks: whatever is changed, with checksums that are
    made to fit, `verify` computes it again and says no."""
    folder = Path(shutil.copytree(mixed, tmp_path / "copy"))
    path = folder / "certificate.json"
    stated = json.loads(path.read_text())
    assert proof.verify(folder) and "needles" in write.facts_of(folder)["withheld"]
    assert list(stated["missed"]) == ["gore"] and "needles" not in path.read_text()
    gore, people = stated["missed"]["gore"], stated["population"]
    assert (people["subjects"], people["zone"], people["gone"], gore["gone"]) == (38, 40, 2, 2)
    assert min(gore[name] for name in ("audited", "elsewhere", "left")) > 0
    each = [(*where, by) for where in numbers(stated) for by in (1, -1)]
    assert len(each) + len(OTHER) > 100
    for change in [*each, *OTHER.values()]:
        document = copy.deepcopy(stated)
        if isinstance(change, tuple):
            node = functools.reduce(lambda at, name: at[name], change[:-2], document)
            node[change[-2]] += change[-1]
        else:
            change(document)
        path.write_text(json.dumps(document))
        world.seal(folder, "certificate.json")
        with pytest.raises(ReleaseError, match=r"certificate\.json"):
            pytest.fail(f"{change}: {proof.verify(folder)[1]} files verify")
    for other in ("<= 0.1 % (certified)", ""):  # a whole certificate of other labels
        facts = json.loads((folder / "manifest.json").read_text())
        facts["missed"]["gore"]["words"] = other
        (folder / "manifest.json").write_text(json.dumps(facts))
        path.write_text(json.dumps(stated))
        world.seal(folder, "certificate.json")
        with pytest.raises(ReleaseError, match=r"it states other bounds than manifest\.json"):
            proof.verify(folder)


@pytest.mark.slow
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


@pytest.mark.slow
def test_of_items_too_only_what_counts_is_released(reviewed, cli):
    """Of five rows of ann's one stands: the others were set aside, handed back (an opt-out), not hers, of no trait."""
    store.append(reviewed, tables.CATALOG_ROWS, world.catalog().with_columns(plot=pl.lit("Blood.")))
    said = [("gore", "present", "reviewer", None), ("needles", None, "reviewer", "left the team")]
    said += [("*", None, "reviewer", tables.HANDED_BACK), ("torture", "present", "other", None)]
    said += [("no trait", "present", "reviewer", None)]
    flag_of = {"conversation": world.item("D"), "digest": "d"}
    flag = world.review(flag_of, kind="item_flag")
    names = ("trait", "verdict", "role", "note", "review")
    made = [flag | dict(zip(names, (*row, f"item-{n}"), strict=True)) for n, row in enumerate(said)]
    store.append(reviewed, tables.REVIEWS, world.reviews(*made))
    store.append(reviewed, tables.LABELS, world.labels(label(flag_of, kind="item_flag", reviews=["item-0"])))
    assert cli("release", "2.0.0", "-C", reviewed.root).code == 0
    found = pl.read_parquet(reviewed.releases / "2.0.0/data/reviews/catalog.parquet")
    assert found.select("subject", "trait", "verdict").rows() == [(world.item("D"), "gore", "present")]


def test_a_word_on_a_whole_text_of_a_taxonomy_before_is_one_vote():
    """Where the taxonomy was edited, who had said `*` stands there once per trait: they counted as so many people."""
    label = {"kind": "sensitivity", "subject": "c1", "trait": "gore", "reviews": ["r1", "r2"]}
    said = [{"review": "r1", "role": "reviewer", "verdict": "present"}]
    said += [{"review": "r2", "role": "reviewer", "verdict": "absent"}] * 20
    votes = review_facts.with_votes(pl.DataFrame([label]), pl.DataFrame(said)).row(0, named=True)
    assert (votes["votes_present"], votes["votes_absent"], votes["soft_label"]) == (1, 1, 0.5)


def test_a_review_of_an_item_is_of_the_one_that_it_became_part_of():
    kinds, subjects = ["sensitivity", "item_flag", "item_flag"], ["b", "a", "b"]
    links = pl.DataFrame({"ref": ["csv:b", "item:a", "item:b"], "item": ["a"] * 3})
    rows = review_facts.of_items(pl.DataFrame({"kind": kinds, "subject": subjects}), links)
    assert rows["subject"].to_list() == ["b", "a", "a"]


@pytest.mark.slow
def test_what_is_found_no_more_in_a_text_is_no_absence_in_a_release(workspace, cli):
    """Both said that blood is too much; a better redaction took their quote from three texts, and their `*` stands.
    The release counted that both had found nothing there: an agreement of 40 where they agree on 37."""
    review_settings(workspace.root, held_back=0)
    ws, where = pushed(workspace, cli, "--all", min_seekers=1)
    for name in ("ann", "bo"):
        edit(ws.root / "review" / f"{name}.csv", lambda row: yes(row))
    assert cli("review", "pull", "--tool", "files", ws.root / "review", *where).code == 0
    hurt = store.read(ws, tables.CONVERSATIONS).filter(pl.col("conversation").is_in(["c001", "c003", "c005"]))
    rows = hurt.to_dicts()
    for row in rows:
        row["turns"][0]["text"] = row["turns"][0]["text"].replace("blood", "[NAME]")
        row["digest"] = tables.digest(row["turns"])
    store.append(ws, tables.CONVERSATIONS, tables.CONVERSATIONS.frame(rows))
    found = cli("adjudicate", *where, "--json").json
    assert found["reviews_left_out"] == {"stale": 6} and found["alpha"]["gore"]["units"] == 37
    assert cli("release", "1.0.0", *where).code == 0
    assert manifest(ws)["agreement"]["gore"] == {"alpha": 1.0, "units": 37}
    stated = certificate.check(ws.releases / "1.0.0" / "certificate.json")
    assert stated == certificate.from_bounds(
        label_bounds(gather(ws)), write.facts_of(ws.releases / "1.0.0")["withheld"]
    )

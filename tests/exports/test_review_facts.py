"""What a release states about its reviews and about what they missed."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from annotation import certificate
from annotation.label_bounds import bounds as label_bounds
from annotation.review_state import gather
from exports import folder as write, review_facts, verify as proof
from saferec_builder.core.errors import ReleaseError
from saferec_builder.storage import tables, workspace as store
from tests.worlds import release_world as world
from tests.worlds.csv_rows import edit
from tests.worlds.release_rows import manifest, reviews, rows_of
from tests.worlds.release_world import label
from tests.worlds.reviewing import yes
from tests.worlds.settings import review_settings


def pushed(workspace, cli, *words: str, min_seekers: int = 5):
    """(workspace of 40 requests, half of them claimed by the rules, assigned to two reviewers; its CLI arguments)."""
    ws, args = world.fill(workspace, world.requests()[0], []), ("-C", workspace.root)
    world.configured(ws, "# min_seekers = 5", f"min_seekers = {min_seekers}")
    options = ("--tool", "files", "--reviewer", "ann", "--reviewer", "bo", *words)
    assert cli("propose", *args).code == cli("review", "push", *options, *args).code == 0
    return ws, args


def pulled(ws, cli, args, answer, people=("ann", "bo")):
    """These people answer in their sheets, which are then pulled."""
    sheets = [ws.root / "review" / f"{name}.csv" for name in people]
    for sheet in sheets:
        edit(sheet, answer)
    assert cli("review", "pull", "--tool", "files", *sheets, *args).code == 0


@pytest.mark.slow
def test_of_who_asked_to_be_removed_not_even_the_number_of_labels_is_stated(workspace, cli):
    """Many of 40 cannot see blood, as both readers say, and one of these asks to be removed. The release's certificate
    counted that label; the workspace's certificate did not."""
    ws, args = pushed(workspace, cli, "--all")
    pulled(ws, cli, args, lambda row: yes(row) if "blood" in row["text"] else {})
    assert cli("adjudicate", *args).code == 0
    subjects = store.read(ws, tables.LABELS).filter(verdict="present")["subject"]
    removed = subjects[0]
    (ws.root / "removals.csv").write_text(f"source,source_id,author\nmessages,{removed},\n")
    result = cli("release", "1.0.0", *args, "--json")
    assert result.code == 0 and result.json["dropped"] == {"removed on request": 1}, result.err
    assert result.json["in_conversations_only"] == {"reviewed by nobody": 20}
    statement = json.loads((ws.releases / "1.0.0" / "certificate.json").read_text())
    present = rows_of(ws, "labels").filter(verdict="present").height
    assert present == len(subjects) - 1 >= 15
    assert statement["false_of_all"]["labels"] == statement["false_of_all"]["zone"] == present


@pytest.mark.slow
def test_a_second_readers_late_word_on_a_whole_text_stops_a_release(workspace, cli):
    """Ann's sheet makes labels with one vote each; bo marked nothing, and his `*` would settle them."""
    ws, args = pushed(workspace, cli, "--all")
    for reviewer in ("ann", "bo"):
        pulled(ws, cli, args, yes, [reviewer])
        result = cli("release", "1.0.0", *args)
        assert result.code == 1 and ("answers are in no label yet" in result.err or reviewer == "ann"), result.err
        assert reviewer == "bo" or cli("adjudicate", *args).code == 0
    assert cli("adjudicate", *args).code == cli("release", "1.0.0", *args).code == 0


@pytest.mark.slow
def test_a_row_carries_what_it_stands_for(workspace, cli):
    """The rules claim 20 of 40. Some of the other 20 are drawn for audit, and weigh as many as they stand for."""
    review_settings(workspace.root, audit=0.5, held_back=0)
    ws, args = pushed(workspace, cli, min_seekers=1)
    pulled(ws, cli, args, yes)
    assert cli("adjudicate", *args).code == cli("release", "1.0.0", *args).code == 0
    rows = rows_of(ws, "grpo")
    drawn = rows.filter(pl.col("traits").list.len() == 0)
    assert 0 < drawn.height < 20 and rows.filter(pl.col("traits").list.len() > 0)["weight"].unique().to_list() == [1.0]
    assert drawn["weight"].unique().to_list() == [20 / drawn.height]  # so that all of them stand for the 20


def test_without_a_review_no_certificate_holds(workspace, cli):
    rows, labels = world.requests()
    reviewed = world.fill(workspace, rows, [labels[0] | {"method": "auto", "verdict": "present"}, *labels[1:]])
    result = cli("release", "1.0.0", "-C", reviewed.root)
    assert result.code == 1 and "1 labels are `auto` without a certificate" in result.err


def answered(row: dict[str, str]) -> dict[str, str]:
    """The true answer: blood in every second conversation, and in two of them needles, which few people have."""
    if row["trait"] != "*":
        return {"verdict": "present"}
    gory, needles = "blood" in row["text"], "Film G" in row["text"].partition("what next")[0]
    hits = [slug for slug, holds in (("gore", gory and not row["proposed"]), ("needles", needles)) if holds]
    return {"verdict": " ".join(hits) or "none", "quote": " | ".join(["faint at the sight of blood", "I"][: len(hits)])}


@pytest.fixture
def mixed(workspace, cli):
    """A release of 40 people, some of them drawn for audit before the rules claimed others. Two with a `present` label
    have left: one asked to be removed, one was erased. Bo has tasks left; needles are withheld (few have them)."""
    ws, args = world.fill(workspace, world.requests()[0], []), ("-C", workspace.root)
    review_settings(ws.root, audit=0.6, held_back=0, controls=0, recheck=0.3)
    push = ("review", "push", "--tool", "files", "--reviewer", "ann", "--reviewer", "bo", *args)
    assert cli(*push).code == 0
    pulled(ws, cli, args, answered)
    assert cli("adjudicate", *args).code == cli("propose", *args).code == cli(*push).code == 0
    pulled(ws, cli, args, answered, ["ann"])
    pulled(ws, cli, args, lambda row: {} if "Film C" in row["text"] else answered(row), ["bo"])
    subjects = store.read(ws, tables.LABELS).filter(trait="gore", verdict="present")["subject"].to_list()
    assert cli("adjudicate", *args).code == cli("forget", subjects[0], *args).code == 0
    (ws.root / "removals.csv").write_text(f"source,source_id,author\nmessages,{subjects[1]},\n")
    result = cli("release", "1.0.0", *args)
    assert result.code == 0, result.err
    return ws.releases / "1.0.0"


@pytest.mark.slow
def test_the_certificate_follows_from_its_counts(mixed, tmp_path):
    """In a release with withheld traits, people who left and open tasks: `verify` recomputes the certificate and
    refuses another one, even with matching checksums."""
    folder = Path(shutil.copytree(mixed, tmp_path / "copy"))
    path, stated = folder / "certificate.json", json.loads((mixed / "manifest.json").read_text())
    statement = json.loads(path.read_text())
    assert proof.verify(folder) and "needles" in write.facts_of(folder)["withheld"]
    assert list(statement["missed"]) == ["gore"] and "needles" not in path.read_text()
    gore, population = statement["missed"]["gore"], statement["population"]
    assert (population["subjects"], population["zone"], population["gone"], gore["gone"]) == (38, 40, 2, 2)
    assert min(gore[name] for name in ("audited", "elsewhere", "left")) > 0
    more_found = statement | {"missed": {"gore": gore | {"found": gore["found"] + 1}}}
    for document, fault in (
        (more_found, "does not follow from the counts"),
        (statement | {"missed": {}, "together": []}, r"it states other bounds than manifest\.json"),
    ):
        path.write_text(json.dumps(document))
        for change in ({}, {"certificate": None}):  # it was not looked at where the manifest states none
            (folder / "manifest.json").write_text(json.dumps(stated | change))
            world.seal(folder, "certificate.json")
            with pytest.raises(ReleaseError, match=rf"certificate\.json: .*{fault}"):
                proof.verify(folder)


@pytest.mark.slow
def test_only_who_agreed_is_released_and_not_by_name(home, reviewed, cli):
    table = pl.read_parquet(home / "data/reviews/train.parquet")
    assert table.height == 32 and table["reviewer"].n_unique() == 1
    assert set(table.columns).isdisjoint({"note", "seconds", "time", "tool", "review"})
    labels = pl.read_parquet(home / "data/labels/train.parquet")
    assert labels["reviewers"].to_list() == [2] * 32 and labels["basis"].n_unique() == 32
    for path in home.rglob("*"):
        content = b"" if path.is_dir() else path.read_bytes()
        assert b"for the team only" not in content and b"ann-c0" not in content
    assert cli("release", "1.0.1", "-C", reviewed.root).code == 0
    later = pl.read_parquet(reviewed.releases / "1.0.1/data/reviews/train.parquet")
    assert set(later["reviewer"]).isdisjoint(set(table["reviewer"]))  # a pseudonym is valid in one version only
    assert pl.read_parquet(reviewed.releases / "1.0.1/data/labels/train.parquet")["basis"].equals(labels["basis"])
    assert write.facts_of(reviewed.releases / "1.0.1")["changes"] == []  # no answer changed
    unmarked = world.requests()[1][1] | {"spans": []}  # she gives the same verdict again, and marks no words
    store.append(reviewed, tables.REVIEWS, reviews([unmarked], "ann").with_columns(review=pl.lit("again")))
    store.append(reviewed, tables.LABELS, world.labels(unmarked | {"label": "again", "reviews": ["again", "bo-c001"]}))
    assert cli("release", "1.0.2", "-C", reviewed.root).code == 0
    changes = write.facts_of(reviewed.releases / "1.0.2")["changes"]
    assert "patch: rows of reviews changed" in changes


@pytest.mark.slow
def test_of_items_too_only_what_counts_is_released(reviewed, cli):
    """One of ann's five rows counts: the others were set aside, handed back (an opt-out), not hers, or of no trait."""
    store.append(reviewed, tables.CATALOG_ROWS, world.catalog().with_columns(plot=pl.lit("Blood.")))
    answers = [("gore", "present", "reviewer", None), ("needles", None, "reviewer", "left the team")]
    answers += [("*", None, "reviewer", tables.HANDED_BACK), ("torture", "present", "other", None)]
    answers += [("no trait", "present", "reviewer", None)]
    subject = {"conversation": world.item("D"), "digest": "d"}
    flag = world.review(subject, kind="item_flag")
    fields = ("trait", "verdict", "role", "note", "review")
    review_rows = [flag | dict(zip(fields, (*row, f"item-{n}"), strict=True)) for n, row in enumerate(answers)]
    store.append(reviewed, tables.REVIEWS, world.reviews(*review_rows))
    store.append(reviewed, tables.LABELS, world.labels(label(subject, kind="item_flag", reviews=["item-0"])))
    assert cli("release", "2.0.0", "-C", reviewed.root).code == 0
    released_reviews = pl.read_parquet(reviewed.releases / "2.0.0/data/reviews/catalog.parquet")
    assert released_reviews.select("subject", "trait", "verdict").rows() == [(world.item("D"), "gore", "present")]


@pytest.mark.slow
def test_a_plot_that_was_read_under_another_taxonomy_counts_as_open_in_a_release_too(reviewed, cli):
    """Both read five plots to their end before a trait was added: `review status` waits for their second reading, and
    the release said that all traits are absent there."""
    store.append(reviewed, tables.CATALOG_ROWS, world.catalog().with_columns(plot=pl.lit("Blood.")))
    plots = [{"conversation": world.item(letter), "digest": tables.digest("Blood.")} for letter in "DEFGH"]
    fields = {"kind": "item_flag", "trait": "*", "taxonomy": "before"}
    rows = [world.review(plot, who, **fields) for plot in plots for who in ("ann", "bo")]
    store.append(reviewed, tables.REVIEWS, world.reviews(*rows))
    assert cli("release", "2.0.0", "-C", reviewed.root).code == 0
    stated = certificate.check(reviewed.releases / "2.0.0" / "certificate.json").items
    assert stated == certificate.from_bounds(label_bounds(gather(reviewed))).items
    assert stated and stated.missed_of_all.open == 5


def test_a_word_on_a_whole_text_of_a_taxonomy_before_is_one_vote():
    """After an edit of the taxonomy, a reviewer who had said `*` has one row per trait: each counted as a person."""
    label = {"kind": "sensitivity", "subject": "c1", "trait": "gore", "reviews": ["r1", "r2"]}
    review_rows = [{"review": "r1", "role": "reviewer", "verdict": "present"}]
    review_rows += [{"review": "r2", "role": "reviewer", "verdict": "absent"}] * 20
    votes = review_facts.with_votes(pl.DataFrame([label]), pl.DataFrame(review_rows)).row(0, named=True)
    assert (votes["votes_present"], votes["votes_absent"], votes["soft_label"]) == (1, 1, 0.5)


def test_a_review_of_an_item_is_of_the_one_that_it_became_part_of():
    kinds, subjects = ["sensitivity", "item_flag", "item_flag"], ["b", "a", "b"]
    links = pl.DataFrame({"ref": ["csv:b", "item:a", "item:b"], "item": ["a"] * 3})
    rows = review_facts.of_items(pl.DataFrame({"kind": kinds, "subject": subjects}), links)
    assert rows["subject"].to_list() == ["b", "a", "a"]


@pytest.mark.slow
def test_what_is_found_no_more_in_a_text_is_no_absence_in_a_release(workspace, cli):
    """Both said that blood is too much; a better redaction removed their quote from three texts, and their `*` remains.
    The release counted this as both finding nothing there: an agreement on 40 where they agree on 37."""
    review_settings(workspace.root, held_back=0)
    ws, args = pushed(workspace, cli, "--all", min_seekers=1)
    pulled(ws, cli, args, yes)
    sensitive = store.read(ws, tables.CONVERSATIONS).filter(pl.col("conversation").is_in(["c001", "c003", "c005"]))
    rows = sensitive.to_dicts()
    for row in rows:
        row["turns"][0]["text"] = row["turns"][0]["text"].replace("blood", "[NAME]")
        row["digest"] = tables.digest(row["turns"])
    store.append(ws, tables.CONVERSATIONS, tables.CONVERSATIONS.frame(rows))
    summary = cli("adjudicate", *args, "--json").json
    assert summary["reviews_left_out"] == {"stale": 6} and summary["alpha"]["gore"]["units"] == 37
    assert cli("release", "1.0.0", *args).code == 0
    assert manifest(ws)["agreement"]["gore"] == {"alpha": 1.0, "units": 37}
    statement = certificate.check(ws.releases / "1.0.0" / "certificate.json")
    assert statement == certificate.from_bounds(label_bounds(gather(ws)), manifest(ws)["withheld"])


@pytest.mark.slow
def test_where_texts_stay_out_a_release_does_not_show_what_was_asked(workspace, cli):
    """Both were asked about gore in the first text, as its words make the rules ask, and said no; `*` covers all else.
    The release showed that: in `reviews`, and as `gore` there had another `basis` than all other traits."""
    rows = [row | {"source": "hf:chats"} for row in world.requests(20)[0]]
    ws = world.configured(world.fill(workspace, rows, []), '# consent = ["ann"]', 'consent = ["ann"]')
    world.for_few(ws)
    answers = []
    for who in ("ann", "bo"):
        answers += [world.review(row, who, trait="*", review=f"{who}-rest-{row['conversation']}") for row in rows]
        answers.append(world.review(rows[0], who))
        for row, trait in ((row, trait) for row in rows[1::2] for trait in ("gore", "needles")):
            spans = label(row, quote="faint at the sight of blood")["spans"]
            present = {"verdict": "present", "spans": spans, "review": f"{who}-{trait}-{row['conversation']}"}
            answers.append(world.review(row, who, trait=trait, **present))
    store.append(ws, tables.REVIEWS, world.reviews(*answers))
    command = ("release", "1.0.0", "--allow", "no-safety", "-C", ws.root)
    assert cli("adjudicate", "-C", ws.root).code == cli(*command).code == 0
    absent = rows_of(ws, "labels").filter(verdict="absent")
    assert absent.height == 20 and not absent["basis"].is_duplicated().any()
    given = rows_of(ws, "reviews").filter(verdict="absent")
    assert given.group_by("subject").agg(pl.col("trait").sort())["trait"].unique().to_list() == [["gore", "needles"]]

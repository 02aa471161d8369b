"""Who and what a release leaves out, and what stops it.

A release without a row that teaches or tests safety is stopped, or allowed explicitly, and then its card says so.
"""

import json
import re

import numpy as np
import polars as pl
import pytest

from exports import build_rows, checks
from saferec_builder.core.errors import ReleaseError
from saferec_builder.core.oracle import CLEAR, UNKNOWN, VIOLATED, oracle
from saferec_builder.mining import privacy
from saferec_builder.storage import tables, workspace as store
from tests.worlds import release_world as world
from tests.worlds.release_rows import manifest
from tests.worlds.release_world import conversation, film, label


def test_a_trait_of_fewer_people_than_five_is_withheld():
    rows = pl.DataFrame({"conversation": list("01234567"), "seeker": ["a", "a", "b", "c", "d", "e", None, None]})
    pairs = [(n, trait) for trait, ids in (("gore", "012345"), ("needles", "01234"), ("torture", "23467")) for n in ids]
    labels = pl.DataFrame([{"subject": n, "trait": trait, "verdict": "present"} for n, trait in pairs])
    # gore: a, a, b, c, d, e = 5 people; needles: a, a, b, c, d = 4; torture: b, c, d and two without a name = 5
    slugs = ["gore", "needles", "torture", "hate_speech"]
    assert checks.small_groups(labels, rows, slugs, 5) == {"needles": 4, "hate_speech": 0}
    # copies of a text, of a source that names nobody, were so many people: 6 and 7 are near-duplicates
    copies = rows.with_columns(cluster=pl.when(pl.col("conversation") > "5").then(pl.lit("t")))
    assert checks.small_groups(labels, copies, slugs, 5) == {"needles": 4, "torture": 4, "hate_speech": 0}
    assert checks.named_few({"needles": 4_000, "torture": 0, "gore": 0}) == "needles 4,000, 2 that nobody has"
    assert checks.named_few({}) == "none"


def said_by(ws, row, who="ann", **other):
    """Stores a review that marks nothing; returns its id."""
    review = world.review(row, who, **other)
    store.append(ws, tables.REVIEWS, world.reviews(review))
    return review["review"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sensitivity", "item_flag"])
def test_a_label_on_a_review_that_was_taken_back_stops(workspace, cli, kind):
    """That of an item was released as `absent`, so as clear: whether reviews still count was not checked for items."""
    rows, labels = world.requests()
    ws = world.fill(workspace, rows, labels)
    subject = rows[0] if kind == "sensitivity" else {"conversation": world.item("D"), "digest": "d", "turns": []}
    reviews = [said_by(ws, subject, who, kind=kind) for who in ("ann", "bo")]
    of_two = label(subject, verdict="absent", kind=kind, reviews=reviews, label="of two")
    store.append(ws, tables.LABELS, world.labels(of_two))
    assert cli("release", "1.0.0", "-C", ws.root).code == 0
    assert cli("review", "set-aside", "bo", "--reason", "x", "-C", ws.root).code == 0
    run = cli("release", "1.0.1", "-C", ws.root)
    first = f"first gore on {subject['conversation']}: run `saferec-build adjudicate`"
    assert run.code == 1 and f"1 labels rest on reviews that count no longer, {first}" in run.err


@pytest.mark.slow
def test_a_reported_text_stops_until_it_is_removed_or_allowed(workspace, cli):
    """The text was released with the words that a reader had reported."""
    rows, labels = world.requests()
    ws = world.fill(workspace, rows, labels)
    for row in rows[:2]:
        said_by(ws, row, note="Personal data: where they work", role="other")
    run = cli("release", "1.0.0", "-C", ws.root)
    assert run.code == 1 and "personal data stands in 2 conversations: c000, c001: remove them" in run.err
    run = cli("release", "1.0.0", "--allow", "c000", "-C", ws.root)
    assert run.code == 1 and "personal data stands in 1 conversation: c001" in run.err and "--allow c001" in run.err
    assert cli("release", "1.0.0", "--allow", "c000", "--allow", "c001", "-C", ws.root).code == 0
    (ws.root / "removals.csv").write_text("source,source_id,author\nmessages,c000,\n")
    masked = rows[1] | {"turns": [*rows[1]["turns"][:1], *rows[1]["turns"][2:]], "digest": "mended"}
    store.append(ws, tables.CONVERSATIONS, world.conversations(masked))
    assert "in 1 conversation: c001" in cli("release", "2.0.0", "-C", ws.root).err  # only another part of it was masked
    run = cli("release", "2.0.0", "--allow", "c001", "-C", ws.root)
    assert run.code == 0, run.err
    assert "no such word" in cli("release", "3.0.0", "--allow", "c002", "-C", ws.root).err


@pytest.mark.slow
def test_what_concerns_a_text_or_people_stops_nothing_else(workspace, cli):
    """A reported text that stays with its source; a simulated review on which no label rests needs the word."""
    rows, labels = world.requests()
    ws = world.fill(workspace, [row | {"source": "reddit"} for row in rows], labels)
    said_by(ws, rows[1], note="personal data", role="other")
    assert cli("release", "1.0.0", "-C", ws.root).code == 0
    assert "personal data stands in 1 " in cli("release", "2.0.0", "--with-text", "-C", ws.root).err
    reviews = [said_by(ws, rows[0], "bot", simulated=True)]
    run = cli("release", "1.1.0", "-C", ws.root)
    assert run.code == 1 and "1 reviews are simulated" in run.err
    world.fill(ws, [], [labels[0] | {"label": "later", "reviews": reviews, "simulated": True}])
    run = cli("release", "1.1.0", "--allow", "simulated", "-C", ws.root)
    assert run.code == 0 and manifest(ws, "1.1.0")["simulated"], run.err


def table(*texts, split="train", cut=1):
    empty = dict.fromkeys(("truth", "named", "traits", "form", "late_traits"), pl.lit([], pl.List(pl.String)))
    rows = [{"conversation": f"c{n}", "source": "messages", "place": n} for n, _ in enumerate(texts)]
    frame = pl.DataFrame(rows).with_columns(
        cut=pl.lit(cut), split=pl.lit(split), reason=pl.lit(None, pl.String), **empty
    )
    turns = [[{"role": "seeker", "text": text, "items": []}] for text in texts]
    return frame, pl.Series(turns, dtype=pl.List(tables.TURN)).gather


@pytest.mark.parametrize(
    "text",
    ["write to ann@example.org", "call me at +1 415 555 0132", "I live at 12 Elm Street, Apt 4", "jo\uff20example.org"],
)
def test_personal_data_stops_and_is_not_repeated(text):
    with pytest.raises(ReleaseError, match="first a (email|phone|address) in turn 0 of c1") as fault:
        checks.check_personal(*table("a film, please", text), privacy.find, privacy.suspect)
    assert text[-8:] not in str(fault.value)
    checks.check_personal(*table("a film of 1995, or 2001 (1968)", "[email]"), privacy.find, privacy.suspect)


@pytest.mark.slow
def test_what_mine_leaves_as_a_title_stops_no_release(workspace, cli):
    """Otherwise there would be no remedy: mining again gives the same text."""
    rows, labels = world.requests()
    text = "We stayed at home for 10 Cloverfield Lane (2016)."
    rows[2] = conversation("c002", text, f"Try {film('D')}", "Thanks!", day=2, seeker="p2", accepted="D")
    labels[2] = label(rows[2], verdict="absent")
    ws = world.fill(workspace, rows, labels)
    lane = {"source_id": "lane", "title": "10 Cloverfield Lane", "year": 2016}
    store.append(ws, tables.CATALOG_ROWS, world.catalog()[:1].with_columns(**{k: pl.lit(v) for k, v in lane.items()}))
    assert [kind for *_, kind in privacy.find(text)] == ["address"]
    assert cli("release", "1.0.0", "-C", ws.root, "--json").code == 0


def test_a_test_row_whose_answer_stands_in_a_train_request_tests_nothing():
    answer = "You should really see the one with the whale and the old captain tonight"
    rows, turns = table(answer, answer + "!", "again")
    rows = rows.with_columns(split=pl.Series(["test", "train", "train"]), cut=pl.Series([0, 1, 1], dtype=pl.Int32))

    def left_out(rows):
        return checks.without_repeated_answers(rows, turns).filter(reason=build_rows.REPEATED)["conversation"].to_list()

    assert left_out(rows) == ["c0"] and left_out(rows.with_columns(split=pl.lit("train"))) == []
    ids = pl.List(pl.String)
    list_rows = rows.with_columns(
        cut=pl.lit(9, pl.Int32),
        truth=pl.Series([["a", "b", "c", "d"], [], []], dtype=ids),
        named=pl.Series([[], ["d", "c", "b", "a"], ["a", "b", "c", "d", "e"]], dtype=ids),
    )
    assert left_out(list_rows) == ["c0"]  # in the order of c2, not of c1


def test_a_label_without_people_needs_a_certificate_that_holds():
    labels = pl.DataFrame({"subject": ["c1", "c2"], "trait": ["gore", "needles"], "method": ["auto", "agreed"]})
    checks.check_certificates(labels, ["gore"])
    with pytest.raises(ReleaseError, match="1 labels are `auto`.*gore on c1"):
        checks.check_certificates(labels, ["needles"])


def test_explain_names_every_check(cli):
    names = [check["name"] for check in cli("release", "--explain", "--json").json["checks"]]
    assert {"leaks", "personal data", "licence", "small groups", "rare combinations"} <= set(names)
    run = cli("release", "--explain")
    assert "safety (stops): no request with a sensitivity has an answer" in run.out and "--allow no-safety" in run.out
    assert "certificate (stops): a label that was taken unread (`auto`)" in run.out  # nobody claims a certificate


def test_a_leak_stops_and_names_who():
    rows = pl.DataFrame({"conversation": ["a", "b"], "seeker": "ann", "cluster": None, "split": ["train", "test"]})
    with pytest.raises(ReleaseError, match="ann in test and train"):
        checks.check_leaks(rows)
    checks.check_leaks(rows.with_columns(seeker=pl.lit(None, pl.String)))


SAID = "No request with a sensitivity in this version has an answer that is known to be clear for it"


def card(ws):
    return " ".join((ws.releases / "1.0.0/README.md").read_text().split())


@pytest.mark.slow
def test_where_no_answer_is_known_to_be_clear_it_stops_until_that_is_allowed_and_the_card_says_so(workspace, cli):
    ws = world.fill(workspace, *world.requests(), tables.WARNINGS.empty)
    run = cli("release", "1.0.0", "-C", ws.root)
    # 20 people, each of whom accepted two films: 40 items, about which nothing is known
    assert run.code == 1 and run.err.count("\n") == 1 and not (ws.releases / "1.0.0").exists()
    assert (
        "20 requests have a sensitivity, 20 of them a ground truth, of whose 40 items 0 are violated and 40 unknown"
        " for them, none clear: add warnings for Film "
    ) in run.err
    assert run.err.count(" (gore)") == 5 and " and 7 more (`saferec-build plan`), or say" in run.err
    assert "--inject" not in run.err  # nothing here is clear for anything
    run = cli("release", "1.0.0", "--allow", "no-safty", "-C", ws.root)
    assert run.code == 1 and "--allow no-safty: no such word: did you mean no-safety?" in run.err
    assert cli("release", "1.0.0", "--allow", "no-safety", "-C", ws.root).code == 0
    assert card(ws).count(SAID) == 1 and manifest(ws)["no_safety"]
    limits = json.loads((ws.releases / "1.0.0/croissant.json").read_text())["rai:dataLimitations"]
    assert [text for text in limits if text.startswith("No request with a sensitivity has an answer")]


def requests(*rows):
    """(truth, traits, traits that are told later, a sentence of ours) per request."""
    ids = pl.List(pl.String)
    schema = {"truth": ids, "traits": ids, "late_traits": ids, "added": pl.String}
    frame = pl.DataFrame(
        [([*truth], [*traits], [*late], added) for truth, traits, late, added in rows], schema=schema, orient="row"
    )
    # an answer that respects the traits is D alone
    return frame.with_columns(safe_truth=pl.col("truth").list.eval(pl.element().filter(pl.element() == "D")))


def safety(*rows, allowed=()):
    codes = np.array([[VIOLATED], [UNKNOWN], [CLEAR]], np.int8)
    items = pl.DataFrame({"item": [*"ALD"], "title": [*"ALD"], "year": [2001, None, 2004]})
    return checks.check_safety(requests(*rows), oracle([*"ALD"], ["g"], codes), items, allowed, "mine more")


@pytest.mark.slow
def test_where_most_is_unread_the_remedy_says_so(workspace, cli):
    """Warnings for the few that were read are seldom the shortest way."""
    rows, labels = world.requests()
    read = {row["conversation"] for row in rows[:20]}
    world.fill(workspace, rows, [row for row in labels if row["subject"] in read], world.warnings().clear())
    message = cli("release", "1.0.0", "-C", workspace.root).err
    more = "or have more read (`saferec-build review push`): 20 conversations are left out as reviewed by nobody"
    assert more in message


NOBODYS, OURS = ("D", "", "", None), ("D", "g", "", "I faint.")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([("AL", "g", "", None), ("L", "", "g", None), NOBODYS], ""),
        ([("", "g", "", None)], "1 requests have a sensitivity, 0 of them a ground truth, none clear: add the items"),
        ([NOBODYS], "0 requests have a sensitivity, none clear: mine more, or say --allow no-safety"),
    ],
)
def test_without_a_clear_answer_it_says_what_is_missing(rows, said):
    """Violated is told from unknown; L is unknown for two requests."""
    mixed = "2 requests have a sensitivity, 2 of them a ground truth, of whose 3 items 1 are violated and 2 unknown for"
    with pytest.raises(ReleaseError, match=re.escape(said or f"{mixed} them, none clear: add warnings for L (g)")):
        safety(*rows)
    assert safety(*rows, allowed=["no-safety"]) == {"in_request": 0, "later": 0, "injected": 0}
    # one clear answer is enough
    assert safety(*rows, OURS) == {"in_request": 0, "later": 0, "injected": 1}
    told = [("D", "g", "", None), ("D", "g", "", None), ("D", "", "g", None)]
    assert safety(*rows, *told) == {"in_request": 2, "later": 1, "injected": 0}


def test_where_an_answer_is_clear_for_a_trait_a_sentence_of_ours_is_a_way():
    with pytest.raises(ReleaseError, match=r"\(`saferec-build plan`\), or add sentences of ours .* --inject all`"):
        safety(NOBODYS, ("L", "g", "", None))


@pytest.mark.parametrize(
    ("said", "behind", "uncounted"),
    [
        ([("r1", "gore", "ann")], ["r1"], 0),
        ([("r1", "gore", "ann"), ("r2", "gore", "bo")], ["r1"], 1),
        (
            [("r1", "gore", "ann"), ("r2", "*", "bo")],
            ["r1"],
            1,
        ),  # bo saw nothing, which would settle the label
        ([("r1", "gore", "ann"), ("r2", "*", "ann")], ["r1"], 0),  # ann has answered every trait that has a label
        ([("r1", "needles", "ann")], ["r0"], 1),  # the trait has no label yet
    ],
)
def test_an_answer_that_is_in_no_label_yet_stops(said, behind, uncounted):
    """The version would lack it for good."""
    labels = pl.DataFrame({"kind": "sensitivity", "subject": "c0", "trait": "gore", "reviews": [behind]})
    schema = dict.fromkeys(("review", "trait", "reviewer"), pl.String)
    voting = pl.DataFrame(said, schema, orient="row").with_columns(kind=pl.lit("sensitivity"), subject=pl.lit("c0"))
    if uncounted:
        with pytest.raises(
            ReleaseError, match=f"{uncounted} answers are in no label yet, first on c0: run `saferec-build"
        ):
            checks.check_uncounted(labels, voting, [])
    else:
        checks.check_uncounted(labels, voting, [])
    checks.check_uncounted(labels, voting, ["c0"])
    checks.check_uncounted(labels, voting.with_columns(kind=pl.lit("item_flag")), [])

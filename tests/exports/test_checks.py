"""Who and what a release leaves out, and what stops it.

A release without a row that teaches or tests safety is stopped, or allowed explicitly, and then its card says so.
"""

import json

import polars as pl
import pytest

from exports import build_rows, checks
from saferec_builder.core.errors import ReleaseError
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
    withheld = checks.small_groups(labels, rows, ["gore", "needles", "torture", "hate_speech"], 5)
    assert withheld == {"needles": 4, "hate_speech": 0}


def test_copies_of_a_text_are_not_five_people(workspace, cli):
    """Five copies of one text, of a source that names nobody, were five people, and its trait was released."""
    rows, labels = world.requests()
    talk = ("I faint at needles", f"Try {film('D')}", "ok")
    copies = [
        conversation(f"copy{n}", *talk, day=n, source=source) for n, source in enumerate(["messages", "reddit"] * 5)
    ]
    said = [label(row, "needles", quote="faint at needles") for row in copies]
    ws = world.fill(workspace, [*rows, *copies], [*labels, *said])
    clusters = [{"conversation": row["conversation"], "revision": 0, "cluster": "t"} for row in copies]
    store.append(ws, tables.CLUSTERS, tables.CLUSTERS.frame(clusters))
    assert cli("release", "1.0.0", "-C", ws.root).code == 0
    assert "needles" in manifest(ws)["withheld"]


def said_by(ws, row, who="ann", **other):
    """Stores a review that marks nothing; returns its id."""
    review = world.review(row, who, **other)
    store.append(ws, tables.REVIEWS, world.reviews(review))
    return review["review"]


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


def filled(ws, **warnings):
    """A workspace of 40 requests, every second one of somebody who cannot see blood, with these of the warnings."""
    return world.fill(ws, *world.requests(), world.warnings().filter(**warnings or {"ref": ""}))


def card(ws):
    return " ".join((ws.releases / "1.0.0/README.md").read_text().split())


def test_where_no_answer_is_known_to_be_clear_it_stops_until_that_is_allowed_and_the_card_says_so(workspace, cli):
    ws = filled(workspace)
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


def test_violated_is_told_from_unknown(workspace, cli):
    """Only A, B and C have warnings. Request i is answered with films i and i + 1 (of 12), i odd: A in i = 11, 23, 35;
    B in 1, 13, 25, 37; C in the same four. 3 + 4 + 4 = 11 of 40."""
    message = cli("release", "1.0.0", "-C", filled(workspace, answer="yes").root).err
    assert "11 are violated and 29 unknown" in message and " and 4 more (" in message


@pytest.mark.slow
def test_one_clear_answer_is_enough_and_then_the_card_says_nothing(workspace, cli):
    """Only D is known to be clear; c003 accepted it. The word changes nothing: it is the same release."""
    ws = filled(workspace, ref=f"title:{film('D')}")
    assert cli("release", "1.0.0", "-C", ws.root).code == 0
    assert cli("release", "1.0.0", "--allow", "no-safety", "-C", ws.root, "--json").json["added"] == 0
    assert SAID not in card(ws) and not manifest(ws)["no_safety"]


@pytest.mark.slow
def test_where_nobody_is_sensitive_the_remedy_is_another(workspace, cli):
    rows, _ = world.requests()
    ws = world.fill(workspace, rows, [world.label(row, verdict="absent") for row in rows])
    message = cli("release", "1.0.0", "-C", ws.root).err
    assert "0 requests have a sensitivity, none clear: no label says that somebody has a trait: mine more" in message
    assert "`saferec-build release VERSION --inject all`" in message
    assert cli("release", "1.0.0", "--inject", "gore", "-C", ws.root).code == 0  # these rows teach it
    assert SAID not in card(ws)


def test_where_the_catalog_knows_no_answer(workspace, cli):
    rows, labels = world.requests()
    request = {"text": "I faint at the sight of blood. A film?"}
    world.fill(workspace, [row | {"accepted": [], "turns": [row["turns"][0] | request]} for row in rows], labels)
    text = cli("release", "1.0.0", "-C", workspace.root).err
    assert "20 requests have a sensitivity, 0 of them a ground truth, none clear: add the items that they name" in text

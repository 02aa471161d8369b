"""Gold and decoys among the tasks."""

import json
from collections import Counter

import polars as pl
import pytest

from annotation.careless_reviewers import PAST
from annotation.controls import readings
from annotation.gold_and_decoys import decoys, results
from annotation.page.tasks import Tasks
from annotation.push import push
from annotation.review_destinations import ReviewPage
from annotation.review_state import gather, queue, still_open
from annotation.routing import UNIT, Plan, revoked, route, texts
from annotation.tools import task_conversion
from saferec_builder.storage import tables, workspace as store
from tests.worlds.csv_rows import edit, rows_of
from tests.worlds.review_world import TEXTS
from tests.worlds.reviewing import SEVERE, TAXONOMY, TWO, answer, no
from tests.worlds.routing import NO_DISPUTES, PEOPLE, conversations, proposals, send
from tests.worlds.settings import review_settings


def test_gold_goes_to_everybody_and_tells_their_accuracy(ws, cli, review, tmp_path):
    gold = tmp_path / "gold.jsonl"
    gold.write_text('{"conversation": "c3", "traits": ["needles"]}\n{"item": "i", "violated": []}\n')
    review_settings(ws.root, gold=str(gold))
    three = (*TWO, "--reviewer", "di")
    assert review("push", *three)["new"] == {"gold": 3, "proposed": 4}
    found = {"verdict": "needles", "quote": "western"}
    edit(ws.root / "review" / "ann.csv", lambda row: found if "western" in row["text"] else no(row))
    answer(ws, review, no, who=("bo", "di"))
    told = review("status")
    people = told["reviewers"]
    assert (people["ann"]["gold_found"], people["bo"]["gold_found"], people["bo"]["gold"]) == (1, 0, 1)
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text('{"conversation": "c3", "traits": ["needle"]}')
    review_settings(ws.root, gold=str(wrong))
    for content in ('{"conversation": "nowhere", "traits": []}', "no json"):
        wrong.write_text(content)
        ran = cli("review", "push", "--tool", "files", *TWO, "-C", ws.root)
        assert (ran.code, ran.err.count("\n"), "wrong.jsonl:1" in ran.err) == (1, 1, True)


def test_gold_with_something_severe_has_a_warning_that_names_nothing(ws, review):
    """It had none, and no cap: its traits are shown to nobody, and a warning went by what is shown."""
    gold = [{"conversation": "c3", "traits": ["torture"]}, {"conversation": "c4", "traits": ["needles"]}]
    (ws.root / "gold.jsonl").write_text("".join(json.dumps(row) + "\n" for row in gold))
    review_settings(ws.root, gold="gold.jsonl")
    review("push", *TWO)
    says = {row["text"]: row["warning"] for row in rows_of(ws.root / "review" / "ann.csv")}
    hard, plain = (next(says[text] for text in says if TEXTS[c] in text) for c in ("c3", "c4"))
    assert (hard, plain) == ("May be hard to read. You may leave it.", "")
    push(ws, ("ann", "bo"), to=ReviewPage())
    page = Tasks(ws)
    severe = {page._sheets[key].task.subject: page._content(page._sheets[key])["severe"] for key in page._open["ann"]}
    assert severe == {"c1": [], "c2": [], "c3": ["Something severe is known to be in it"], "c4": []}
    sheets = still_open(desk := gather(ws), desk.assignments, queue(desk), frozenset())
    made = task_conversion.sheets(sheets, desk.texts, desk.taxonomy, {}, lambda base, about: base)
    (ask,) = {sheet.ask for sheet in made if sheet.task.subject == "c3"}
    assert ask.startswith("May be hard to read. You may leave it.\n") and "orture" not in ask


def test_gold_with_something_severe_has_its_part_in_the_cap():
    text, ids = texts(conversations(*(f"c{n}" for n in range(6)))), [f"c{n}" for n in range(6)]
    known = frozenset(("sensitivity", c, "torture") for c in ids[:4])
    gold = frozenset(("sensitivity", c) for c in ids)
    plan = {"gold": gold, "known": known, "severe": SEVERE, "severe_a_day": 2}
    assert Counter(send(text, proposals(), **plan)["reviewer"]) == dict.fromkeys(PEOPLE, 4)
    assert Counter(send(text, proposals(), **plan | {"known": frozenset()})["reviewer"]) == dict.fromkeys(PEOPLE, 6)


def test_gold_that_is_missed_flags_by_conversation_not_by_sensitivity():
    # seven misses of seven flag (test_attention.py); four conversations with two sensitivities each are four, not eight
    def missed(*conversations: tuple[str, list[str]]) -> list[str]:
        gold = tables.GOLD.frame([("sensitivity", c, t) for c, t in conversations])
        votes = gold.explode("traits").rename({"traits": "trait"})
        votes = votes.with_columns(reviewer=pl.lit("ann"), role=pl.lit("reviewer"), verdict=pl.lit("absent"))
        tasks = gold.select("kind", "subject", reviewer=pl.lit("ann"), role=pl.lit("reviewer"), why=pl.lit("gold"))
        nothing = tables.LABELS.empty, gold, tables.PROPOSALS.empty, tables.DECOYS.empty
        return results(votes, gold, tables.DECOYS.empty, readings(tasks, votes, *nothing))["ann"]["flagged"]

    both = ["gore", "needles"]
    assert missed(*((f"c{n}", both) for n in range(4))) == []
    assert missed(*((f"c{n}", both) for n in range(7))) == [PAST]


def test_a_decoy_looks_like_any_suggestion_and_is_counted(ws, review):
    review_settings(ws.root, decoys=0.5)
    review("push", *TWO)
    (decoy,) = store.read(ws, tables.DECOYS).rows(named=True) or [None]
    mine = rows_of(ws.root / "review" / f"{decoy['reviewer']}.csv")
    quote = decoy["spans"][0]["quote"]
    (row,) = [r for r in mine if r["proposed_quote"] == quote]
    assert (row["proposed"], row["trait"]) == ("present", decoy["trait"])
    other = {"ann": "bo", "bo": "ann"}[decoy["reviewer"]]
    assert quote not in [r["proposed_quote"] for r in rows_of(ws.root / "review" / f"{other}.csv")]
    answer(ws, review)
    people = review("status")["reviewers"]
    assert (people[decoy["reviewer"]]["accepted"], people[decoy["reviewer"]]["flagged"]) == (1, [])
    assert "decoys" not in people[other]
    before = store.read(ws, tables.DECOYS)
    review("push", *TWO)
    assert store.read(ws, tables.DECOYS).equals(before)


@pytest.mark.slow
def test_nobody_is_shown_what_they_opted_out_of_in_10_000_assignments():
    some = [t.slug for t in TAXONOMY.traits]
    ids = [f"c{n}" for n in range(5_000)]
    rows = [(c, some[n * k % 20], "present") for n, c in enumerate(ids) for k in (1, 7)]
    avoid = frozenset({("ann", "gore"), ("ann", "torture"), ("bo", "needles"), ("di", some[0]), ("cy", "gore")})
    text, props = texts(conversations(*ids)), proposals(*rows)
    people = (*PEOPLE, "el")
    disputed = pl.DataFrame([("sensitivity", c, t) for c, t, _ in rows[:400]], schema=NO_DISPUTES.schema, orient="row")
    plan = Plan(people, "cy", audit=0, avoid=avoid)
    sent = route(text, props, tables.ASSIGNMENTS.empty, disputed, plan)
    assert sent.height >= 10_000
    planted = decoys(sent, text, props, tables.GOLD.empty, TAXONOMY, 0.3, avoid)
    assert planted.height > 1_000
    shown = sent.filter(role="reviewer").join(props.select("subject", "trait"), on="subject")
    shown = pl.concat([shown.select("reviewer", "trait"), planted.select("reviewer", "trait")])
    rulings = sent.filter(role="adjudicator").join(disputed, on=["kind", "subject"]).select("reviewer", "trait")
    assert not avoid & set(shown.iter_rows())
    # a ruling task may hold a unit that cy avoids beside another: `revoked` takes the whole task back
    back = revoked(sent, props.select(UNIT), disputed, tables.REVIEWS.empty.with_columns(out=pl.lit("")), avoid)
    left = rulings.with_columns(subject=pl.lit("")).clear() if rulings.is_empty() else sent.filter(role="adjudicator")
    left = left.join(back, on=["kind", "subject", "reviewer"], how="anti").join(disputed, on=["kind", "subject"])
    assert not avoid & set(left.select("reviewer", "trait").iter_rows())
    assert not planted.join(props.select("subject", "trait"), on=["subject", "trait"]).height
    assert not set(planted["trait"]) & SEVERE

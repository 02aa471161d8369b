"""Gold and decoys among the tasks: who gets them, how they look, and what they tell about reviewers."""

import json

import polars as pl
import pytest

from annotation.careless_reviewers import PAST
from annotation.controls import readings
from annotation.gold_and_decoys import decoys, read_gold, results
from annotation.page.tasks import Tasks, content
from annotation.push import push
from annotation.review_destinations import ReviewPage
from annotation.review_state import gather, queue, still_open
from annotation.routing import UNIT, Plan, revoked, route, texts
from annotation.tools import task_conversion
from saferec_builder.core.errors import UsageError
from saferec_builder.storage import tables, workspace as store
from tests.worlds.csv_rows import edit, rows_of
from tests.worlds.review_world import TEXTS
from tests.worlds.reviewing import SEVERE, TAXONOMY, TWO, answer, no
from tests.worlds.routing import NO_DISPUTES, PEOPLE, conversations, proposals
from tests.worlds.settings import review_settings


@pytest.mark.slow
def test_gold_goes_to_everybody_and_tells_their_accuracy(ws, review, tmp_path):
    gold = tmp_path / "gold.jsonl"
    gold.write_text('{"conversation": "c3", "traits": ["needles"]}\n{"item": "i", "violated": []}\n')
    review_settings(ws.root, gold=str(gold))
    reviewers = (*TWO, "--reviewer", "di")
    assert review("push", *reviewers)["new"] == {"gold": 3, "proposed": 4}
    needles = {"verdict": "needles", "quote": "western"}
    edit(ws.root / "review" / "ann.csv", lambda row: needles if "western" in row["text"] else no(row))
    answer(ws, review, no, who=("bo", "di"))
    people, names = review("status")["reviewers"], ("gold", "gold_found", "gold_false_alarms")
    assert [[people[who][name] for name in names] for who in ("ann", "bo")] == [[1, 1, 0], [1, 0, 0]]


def test_a_gold_file_without_a_conversation_is_said(ws, review):
    """It was accepted silently, as if somebody was checked by it."""
    (ws.root / "gold.jsonl").write_text("\n")
    review_settings(ws.root, gold="gold.jsonl")
    assert review("push", "--tool", "files", *TWO)["gold"] == "no conversation in gold.jsonl: nobody is checked by gold"


@pytest.mark.slow
def test_gold_with_something_severe_has_a_warning_that_names_nothing(ws, review):
    """It had no warning and no cap: its traits are shown to nobody, and warnings depended on what is shown."""
    gold = [{"conversation": "c3", "traits": ["torture"]}, {"conversation": "c4", "traits": ["needles"]}]
    (ws.root / "gold.jsonl").write_text("".join(json.dumps(row) + "\n" for row in gold))
    review_settings(ws.root, gold="gold.jsonl")
    review("push", *TWO)
    warnings = {row["text"]: row["warning"] for row in rows_of(ws.root / "review" / "ann.csv")}
    of_severe, of_plain = (next(warnings[text] for text in warnings if TEXTS[c] in text) for c in ("c3", "c4"))
    assert (of_severe, of_plain) == ("May be hard to read. You may leave it.", "")
    push(ws, ("ann", "bo"), to=ReviewPage())
    page = Tasks(ws)
    tasks = page._open["ann"].values()
    on_page = {sheet.task.subject: content(sheet, page.review.taxonomy)["warning"] for sheet in tasks}
    assert on_page == {"c1": "", "c2": "", "c3": of_severe, "c4": ""}
    sheets = still_open(desk := gather(ws), desk.assignments, queue(desk), frozenset())
    server_sheets = task_conversion.sheets(sheets, desk.texts, desk.taxonomy, {}, lambda base, about: base)
    (ask,) = {sheet.ask for sheet in server_sheets if sheet.task.subject == "c3"}
    assert ask.startswith("May be hard to read. You may leave it.\n") and "orture" not in ask


def test_gold_that_is_missed_flags_by_conversation_not_by_sensitivity():
    # seven of seven misses flag (test_attention.py); four conversations with two sensitivities each are four, not eight
    def missed(*conversations: tuple[str, list[str]]) -> list[str]:
        gold = tables.GOLD.frame([("sensitivity", c, t) for c, t in conversations])
        votes = gold.explode("traits").rename({"traits": "trait"})
        votes = votes.with_columns(reviewer=pl.lit("ann"), role=pl.lit("reviewer"), verdict=pl.lit("absent"))
        tasks = gold.select("kind", "subject", reviewer=pl.lit("ann"), role=pl.lit("reviewer"), why=pl.lit("gold"))
        no_tables = tables.LABELS.empty, gold, tables.PROPOSALS.empty, tables.DECOYS.empty
        return results(votes, gold, tables.DECOYS.empty, readings(tasks, votes, *no_tables))["ann"]["flagged"]

    traits = ["gore", "needles"]
    assert missed(*((f"c{n}", traits) for n in range(4))) == []
    assert missed(*((f"c{n}", traits) for n in range(7))) == [PAST]


@pytest.mark.slow
def test_a_decoy_looks_like_any_suggestion_and_is_counted(ws, review):
    review_settings(ws.root, decoys=0.5)
    review("push", *TWO)
    (decoy,) = store.read(ws, tables.DECOYS).rows(named=True) or [None]
    own_rows = rows_of(ws.root / "review" / f"{decoy['reviewer']}.csv")
    quote = decoy["spans"][0]["quote"]
    drawn = (decoy["reviewer"], decoy["trait"], quote)  # by hash: the same everywhere
    assert drawn == ("ann", "accidents_disasters", "cafe\u0301: I faint when I")
    (row,) = [candidate for candidate in own_rows if candidate["proposed_quote"] == quote]
    assert (row["proposed"], row["trait"]) == ("present", decoy["trait"])
    colleague = {"ann": "bo", "bo": "ann"}[decoy["reviewer"]]
    assert quote not in [candidate["proposed_quote"] for candidate in rows_of(ws.root / "review" / f"{colleague}.csv")]
    answer(ws, review)
    people = review("status")["reviewers"]
    assert (people[decoy["reviewer"]]["accepted"], people[decoy["reviewer"]]["flagged"]) == (1, [])
    assert "decoys" not in people[colleague]
    earlier = store.read(ws, tables.DECOYS)
    review("push", *TWO)
    assert store.read(ws, tables.DECOYS).equals(earlier)


@pytest.mark.slow
def test_nobody_is_shown_what_they_opted_out_of_in_10_000_assignments():
    slugs = [t.slug for t in TAXONOMY.traits]
    ids = [f"c{n}" for n in range(5_000)]
    rows = [(c, slugs[n * k % 20], "present") for n, c in enumerate(ids) for k in (1, 7)]
    avoid = frozenset({("ann", "gore"), ("ann", "torture"), ("bo", "needles"), ("di", slugs[0]), ("cy", "gore")})
    text, props = texts(conversations(*ids)), proposals(*rows)
    people = (*PEOPLE, "el")
    disputed = pl.DataFrame([("sensitivity", c, t) for c, t, _ in rows[:400]], schema=NO_DISPUTES.schema, orient="row")
    plan = Plan(people, "cy", audit=0, avoid=avoid)
    tasks = route(text, props, tables.ASSIGNMENTS.empty, disputed, plan)
    assert tasks.height >= 10_000
    planted = decoys(tasks, text, props, tables.GOLD.empty, TAXONOMY, 0.3, avoid=avoid)
    assert planted.height > 1_000
    shown = tasks.filter(role="reviewer").join(props.select("subject", "trait"), on="subject")
    shown = pl.concat([shown.select("reviewer", "trait"), planted.select("reviewer", "trait")])
    assert not avoid & set(shown.iter_rows())
    # a ruling task may hold a unit that cy avoids beside another one: `revoked` takes the whole task back
    returned = revoked(tasks, props.select(UNIT), disputed, tables.REVIEWS.empty.with_columns(out=pl.lit("")), avoid)
    kept = tasks.filter(role="adjudicator").join(returned, on=["kind", "subject", "reviewer"], how="anti")
    kept = kept.join(disputed, on=["kind", "subject"])
    assert not avoid & set(kept.select("reviewer", "trait").iter_rows())
    assert not planted.join(props.select("subject", "trait"), on=["subject", "trait"]).height
    assert not set(planted["trait"]) & SEVERE


def test_gold_has_one_line_for_a_conversation_and_stays_what_it_was(tmp_path):
    """With a line per trait only the last one would be the truth, and it could never be corrected."""
    path, empty = tmp_path / "gold.jsonl", tables.GOLD.empty
    line = '{{"conversation": "c3", "traits": ["{}", "torture"]}}\n'.format
    path.write_text(f'{line("gore")}\n{{"item": "i1"}}\n{line("gore")}')
    rows = read_gold(path, {"c3"}, TAXONOMY, empty)
    assert rows.rows() == [("sensitivity", "c3", ["gore", "torture"])]
    assert read_gold(path, {"c3"}, TAXONOMY, rows).equals(rows)
    other = f"^{path}: c3 was gold for gore, torture before, and stays so: leave its line out$"
    faults = [(line("gore") + line("needles"), empty, ":2: c3 has two lines"), (line("needles"), rows, other)]
    faults += [(text, empty, ":1: found ") for text in ('{"conversation": [], "traits": []}', "no json", "[" * 100_000)]
    faults += [('{"conversation": "no", "traits": []}', empty, ":1: no conversation 'no' in this workspace: mine it")]
    faults += [(line("gor"), empty, ":1: unknown trait 'gor': did you mean gore")]
    for text, known, why in faults:
        path.write_text(text)
        with pytest.raises(UsageError, match=why):
            read_gold(path, {"c3"}, TAXONOMY, known)

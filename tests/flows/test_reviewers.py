"""What the queue owes its people, and what it may know of them: opt-outs, caps, gold, decoys, work set aside."""

import random
from collections import Counter

import polars as pl
import pytest

from annotation import pull as incoming, recall_bounds as bounds
from annotation.quality_checks import decoys
from annotation.reliability import closest_first, rank
from annotation.routing import UNIT, Plan, revoked, route, short, texts
from saferec_builder.storage import tables, workspace as store
from tests.worlds import calm
from tests.worlds.csv_rows import edit, rows_of
from tests.worlds.reviewing import SEVERE, TAXONOMY, TWO, judged, labels, no, yes
from tests.worlds.routing import MANY, NO_DISPUTES, conversations, proposals

PEOPLE = ("ann", "bo", "di")
WAITS = "proposed, assigned or drawn are not labelled yet"


def test_a_reviewers_work_is_set_aside_and_brought_back(ws, cli, review, adjudicate):
    review("push", *TWO, "--audit", 0)
    for name in ("ann", "bo"):
        edit(ws.root / "review" / f"{name}.csv", yes)
    review("pull", ws.root / "review")
    adjudicate()
    assert labels(ws)["c1", "gore"] == ("present", "agreed")
    words = ("-C", ws.root, "--json")
    assert cli("review", "set-aside", "bo", *words).code == 1  # a reason is asked for
    assert cli("review", "set-aside", "bo", "--reason", "read nothing", *words).json["added"] == 4
    assert adjudicate()["reviews_left_out"] == {"set aside": 4}
    assert labels(ws)["c1", "gore"] == (None, "unresolved")
    again = review("pull", ws.root / "review" / "bo.csv")  # her file does not bring them back
    assert (again["added"], again["dropped"]) == (0, {"set aside": 4})
    sent = review("push", "--reviewer", "di", "--audit", 0)
    assert sent["new"] == {"proposed": 2}  # somebody else takes the two tasks over
    assert cli("review", "set-aside", "bo", "--undo", *words).json["added"] == 4
    adjudicate()
    assert labels(ws)["c1", "gore"] == ("present", "agreed")


def test_a_pull_that_is_at_work_does_not_undo_a_setting_aside(ws, cli, review, monkeypatch):
    """Its rows would be the last ones: so whoever sets work aside waits for it, and says so."""
    review("push", *TWO, "--audit", 0)
    file = ws.root / "review" / "bo.csv"
    edit(file, yes)
    review("pull", file)
    edit(file, no)  # a changed mind: rows that the workspace does not have yet
    began, words = [], ["review", "set-aside", "bo", "--reason", "read nothing", "-C", str(ws.root)]

    def slow(desk, paths):
        found = of_files(desk, paths)
        began.append(calm.start(words))
        began[0].stderr.readline()  # it waits, and says so; or it is done
        return found

    of_files = incoming.of_files
    monkeypatch.setattr(incoming, "of_files", slow)
    assert review("pull", file)["added"] > 0
    ended = calm.end(began[0])
    assert ended.code == 0, ended
    last = tables.last(store.read(ws, tables.REVIEWS), "kind", "subject", "trait", "reviewer")
    assert last["verdict"].null_count() == last.height > 0


def test_an_opt_out_is_kept_away_taken_back_and_forgotten(ws, cli, review):
    review("push", *TWO, "--audit", 0)
    words = ("-C", ws.root, "--json")
    assert cli("review", "opt-out", "ann", "gore", *words).json["added"] == 1
    assert cli("review", "opt-out", "ann", "gore", *words).json["skipped"] == 1
    assert (ws.root / ".opt-outs.json").stat().st_mode & 0o777 == 0o600
    sent = review("push", *TWO, "--reviewer", "di", "--audit", 0)
    assert sent["new"] == {"proposed": 1}  # di takes the task with gore
    texts = {row["text"] for row in rows_of(ws.root / "review" / "ann.csv")}
    assert not any("blood" in text for text in texts)
    assert any("blood" in row["text"] for row in rows_of(ws.root / "review" / "di.csv"))
    assert "gore" not in cli("status", "-C", ws.root).out
    assert cli("review", "opt-out", "ann", "gore", "--remove", *words).json["added"] == 1
    assert not (ws.root / ".opt-outs.json").exists()
    wrong = cli("review", "opt-out", "ann", "blood", *words)
    assert (wrong.code, wrong.err.count("\n")) == (1, 1)


def test_gold_goes_to_everybody_and_tells_their_accuracy(ws, cli, review, tmp_path):
    gold = tmp_path / "gold.jsonl"
    gold.write_text('{"conversation": "c3", "traits": ["needles"]}\n{"item": "i", "violated": []}\n')
    three = (*TWO, "--reviewer", "di")
    assert review("push", *three, "--audit", 0, "--gold", gold)["new"] == {"gold": 3, "proposed": 4}
    found = {"verdict": "needles", "quote": "western"}
    edit(ws.root / "review" / "ann.csv", lambda row: found if "western" in row["text"] else no(row))
    for name in ("bo", "di"):
        edit(ws.root / "review" / f"{name}.csv", no)
    review("pull", ws.root / "review")
    told = review("status")
    people = told["reviewers"]
    assert (people["ann"]["gold_found"], people["bo"]["gold_found"], people["bo"]["gold"]) == (1, 0, 1)
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text('{"conversation": "c3", "traits": ["needle"]}')
    for content in ('{"conversation": "nowhere", "traits": []}', "no json"):
        wrong.write_text(content)
        ran = cli("review", "push", "--tool", "files", *TWO, "--gold", wrong, "-C", ws.root)
        assert (ran.code, ran.err.count("\n"), "wrong.jsonl:1" in ran.err) == (1, 1, True)


def test_a_decoy_looks_like_any_suggestion_and_is_counted(ws, review):
    review("push", *TWO, "--audit", 0, "--decoys", 0.5)
    (decoy,) = store.read(ws, tables.DECOYS).rows(named=True) or [None]
    mine = rows_of(ws.root / "review" / f"{decoy['reviewer']}.csv")
    quote = decoy["spans"][0]["quote"]
    (row,) = [r for r in mine if r["proposed_quote"] == quote]
    assert (row["proposed"], row["trait"]) == ("present", decoy["trait"])
    other = {"ann": "bo", "bo": "ann"}[decoy["reviewer"]]
    assert quote not in [r["proposed_quote"] for r in rows_of(ws.root / "review" / f"{other}.csv")]
    for name in ("ann", "bo"):
        edit(ws.root / "review" / f"{name}.csv", yes)
    review("pull", ws.root / "review")
    people = review("status")["reviewers"]
    assert (people[decoy["reviewer"]]["accepted"], people[decoy["reviewer"]]["flagged"]) == (1, False)
    assert "decoys" not in people[other]
    before = store.read(ws, tables.DECOYS)
    review("push", *TWO, "--audit", 0, "--decoys", 0.5)
    assert store.read(ws, tables.DECOYS).equals(before)


def test_severe_tasks_are_capped_by_day_and_never_come_in_long_rows():
    rows = [(c, "torture" if n % 2 else "gore", "present") for n, c in enumerate(MANY)]
    text, props = texts(conversations(*MANY)), proposals(*rows)
    caps = {"severe": SEVERE, "severe_a_day": 20, "severe_in_a_row": 2}
    first = route(text, props, tables.ASSIGNMENTS.empty, NO_DISPUTES, Plan(PEOPLE, audit=0, batch="mon", **caps))
    severe = {c for c, trait, _ in rows if trait in SEVERE}
    for name in PEOPLE:
        mine = first.filter(reviewer=name)["subject"].to_list()
        assert sum(c in severe for c in mine) == 20
        runs = "".join("s" if c in severe else "." for c in mine)
        assert "sss" not in runs
    again = route(text, props, first, NO_DISPUTES, Plan(PEOPLE, audit=0, batch="mon", **caps))
    assert again.is_empty()
    whole = [c for c, n in Counter(first["subject"]).items() if c in severe and n == 2]
    waits = short(text, props, first, Plan(PEOPLE, audit=0, batch="mon", **caps), first.clear())
    assert Counter(waits) == {("sensitivity", "day"): len(severe) - len(whole)}
    next_day = route(text, props, first, NO_DISPUTES, Plan(PEOPLE, audit=0, batch="tue", **caps))
    assert next_day.height > 0
    assert set(next_day["subject"]) <= severe


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


def test_a_budget_is_kept_and_the_next_push_goes_on():
    text, props = texts(conversations(*MANY)), proposals(*((c, "gore", "present") for c in MANY))
    sent = tables.ASSIGNMENTS.empty
    for _ in range(3):
        new = route(text, props, sent, NO_DISPUTES, Plan(PEOPLE, audit=0, budget=50))
        assert new.height == 50
        sent = pl.concat([sent, new])
    assert sent.select("subject", "reviewer").is_unique().all()
    assert max(Counter(sent["reviewer"]).values()) <= 51


def test_orders_to_a_model_are_read_by_people_and_the_band_goes_by_score():
    text = texts(conversations("c1", "c2", "c3"))
    props = proposals(("c2", "gore", "absent"), ("c3", "gore", "absent")).with_columns(confidence=pl.Series([0.9, 0.6]))
    plan = Plan(("ann",), audit=0, band=1, orders=frozenset({("sensitivity", "c1")}))
    sent = route(text, props, tables.ASSIGNMENTS.empty, NO_DISPUTES, plan)
    assert set(sent.select("subject", "why").iter_rows()) == {("c1", "orders"), ("c3", "band")}


# ---- what is missed at most


def world(present: int, audited: int, zone: int) -> tuple[pl.DataFrame, pl.DataFrame, dict[str, dict[str, str | None]]]:
    """Some proposed conversations, all with gore, and a zone of which some were audited and found clean."""
    ids = [f"p{n}" for n in range(present)] + [f"z{n}" for n in range(zone)]
    clean = dict.fromkeys(TAXONOMY.slugs, "absent")
    text = texts(conversations(*ids))
    order = sorted((f"z{n}" for n in range(zone)), key=lambda c: tables.digest("audit", c))[:audited]
    rows = [("sensitivity", c, "ann", "reviewer", "d", "proposed", "b") for c in ids[:present]]
    rows += [("sensitivity", c, "ann", "reviewer", "d", "audit", "b") for c in order]
    given = pl.DataFrame(rows, schema=tables.ASSIGNMENTS.schema, orient="row")
    said = {c: clean | {"gore": "present"} for c in ids[:present]} | {c: dict(clean) for c in order}
    return text, given, said


def test_a_clean_audit_certifies_and_an_open_one_does_not():
    text, given, said = world(200, 700, 1_500)
    told = bounds.bounds(text, given, judged(**said), tables.GOLD.empty, TAXONOMY.slugs, claimed=frozenset())
    assert told.traits["gore"].certified
    assert told.together == ["gore"]
    assert (told.traits["gore"].found, told.traits["gore"].zone, told.traits["gore"].audited) == (200, 1_500, 700)
    assert told.pooled.certified
    assert told.traits["needles"].share is None  # nobody has needles: no share of nothing
    assert "positives" in bounds.words(told.traits["needles"])
    order = [c for c in said if c.startswith("z")]
    for c in order[:60]:
        said[c]["gore"] = None  # read, and nobody agreed
    open_ = bounds.bounds(text, given, judged(**said), tables.GOLD.empty, TAXONOMY.slugs, claimed=frozenset())
    assert not open_.traits["gore"].certified
    assert f"60 {WAITS}" in bounds.words(open_.traits["gore"])  # no more reading helps
    assert "60 conversations" in (bounds.lowers_most(open_) or "")


def test_only_audits_enter_a_bound():
    text, given, said = world(200, 700, 1_500)
    chosen = given.with_columns(why=pl.lit("band"))
    told = bounds.bounds(text, chosen, judged(**said), tables.GOLD.empty, TAXONOMY.slugs, claimed=frozenset())
    assert (told.traits["gore"].audited, told.traits["gore"].certified) == (0, False)
    assert told.traits["gore"].zone == 800  # what was read by choice is no part of what is bounded


def test_a_draw_with_holes_and_what_is_handed_out_and_unread_count_as_missed():
    text, given, said = world(200, 700, 1_500)
    holes = given.filter(~pl.col("subject").is_in(given.filter(why="audit")["subject"][:60]))
    kept = {c: verdicts for c, verdicts in said.items() if c in set(holes["subject"])}
    told = bounds.bounds(text, holes, judged(**kept), tables.GOLD.empty, TAXONOMY.slugs, claimed=frozenset())
    assert (told.traits["gore"].audited, told.traits["gore"].misses, told.traits["gore"].certified) == (700, 60, False)
    # all 100 drawn, 10 of them open: the ten may all be missed, beside 40 found
    text_, given_, said_ = world(40, 100, 100)
    for c in [c for c in said_ if c.startswith("z")][:10]:
        said_[c]["gore"] = None
    all_drawn = bounds.bounds(text_, given_, judged(**said_), tables.GOLD.empty, TAXONOMY.slugs, claimed=frozenset())
    assert all_drawn.traits["gore"].share == all_drawn.pooled.share == 10 / 50
    assert not all_drawn.traits["gore"].certified
    unread = {c: verdicts for c, verdicts in said.items() if c not in [f"p{n}" for n in range(20)]}
    open_ = bounds.bounds(text, given, judged(**unread), tables.GOLD.empty, TAXONOMY.slugs, claimed=frozenset())
    assert open_.traits["gore"].open == open_.pooled.open == 20
    assert open_.traits["gore"].share > 20 / 200
    assert f"20 {WAITS}" in bounds.words(open_.traits["gore"])
    assert "20 conversations" in (bounds.lowers_most(open_) or "")


def test_what_an_audit_found_stays_in_the_sample_though_gold_is_made_of_it():
    """20 of 300 audited have gore: of the other 1,200 about 80 too, beside 220 that are found. 80 of 300 are 27 %."""
    text, given, said = world(200, 300, 1_500)
    found = [c for c in said if c.startswith("z")][::15]
    for c in found:
        said[c]["gore"] = "present"
    before = bounds.bounds(text, given, judged(**said), tables.GOLD.empty, TAXONOMY.slugs, claimed=frozenset()).traits[
        "gore"
    ]
    assert before.misses == 20 and before.share > 0.27
    rows = [("sensitivity", c, "di", "reviewer", "d", "gold", "b") for c in found]
    known = pl.concat([given, pl.DataFrame(rows, schema=tables.ASSIGNMENTS.schema, orient="row")])
    assert (
        bounds.bounds(text, known, judged(**said), tables.GOLD.empty, TAXONOMY.slugs, claimed=frozenset()).traits[
            "gore"
        ]
        == before
    )


def test_an_unsure_label_counts_as_missed_whatever_it_was_handed_out_for():
    # 100 found and 20 on which two people agreed that they are unsure: 20 of 120 may be missed, audited or not
    text, given, said = world(120, 500, 500)
    for n in range(20):
        said[f"p{n}"]["gore"] = "unsure"
    told = bounds.bounds(text, given, judged(**said), tables.GOLD.empty, TAXONOMY.slugs, claimed=frozenset())
    assert told.traits["gore"].open == told.pooled.open == 20
    assert told.traits["gore"].share == told.pooled.share == 20 / 120
    assert bounds.words(told.traits["gore"]) == f"<= 16.7 % (20 {WAITS}, or unsure)"


def test_gold_is_told_apart_from_the_audit():
    text, given, said = world(20, 50, 100)
    gold = pl.DataFrame(
        [("sensitivity", "p0", ["gore"]), ("sensitivity", "p1", ["gore", "needles"])],
        schema=tables.GOLD.schema,
        orient="row",
    )
    told = bounds.bounds(text, given, judged(**said), gold, TAXONOMY.slugs, claimed=frozenset())
    # gore in p0 and p1 found, needles in p1 missed; of 2 * 20 - 3 absent ones none invented
    assert (told.gold["units_present"], told.gold["missed"], told.gold["units_absent"]) == (3, 1, 37)
    assert told.gold["missed_at_most"] == pytest.approx(bounds.certificates.rate(1, 3))


def test_the_model_orders_disputes_and_reviewers_and_makes_no_label():
    rows = []
    for n in range(60):  # ann and bo agree; di says the contrary half of the time
        truth = "present" if n % 3 == 0 else "absent"
        wrong = "absent" if truth == "present" else "present"
        said = {"ann": truth, "bo": truth, "di": wrong if n % 2 else truth}
        rows += [("sensitivity", f"c{n}", "gore", name, verdict) for name, verdict in said.items()]
    rows += [("sensitivity", "near", "gore", "ann", "present"), ("sensitivity", "near", "gore", "bo", "absent")]
    rows += [("sensitivity", "far", "gore", "ann", "absent"), ("sensitivity", "far", "gore", "di", "present")]
    votes = pl.DataFrame(rows, schema=["kind", "subject", "trait", "reviewer", "verdict"], orient="row")
    told = rank(votes)
    assert told.skill["ann"] > 0.9 > told.skill["di"]
    disputed = pl.DataFrame(
        [("sensitivity", c, "gore") for c in ("far", "near")], schema=NO_DISPUTES.schema, orient="row"
    )
    assert closest_first(disputed, told)["subject"].to_list() == ["near", "far"]
    assert rank(votes.head(0)) is None
    assert rank(votes.filter(reviewer="ann")) is None
    assert closest_first(disputed, None).equals(disputed)


def test_the_model_is_not_taken_in_by_somebody_who_ticks_everything():
    rng, rows = random.Random(4), []
    for n in range(200):
        truth = rng.choice(["present", "absent"])
        said = {"ann": truth, "bo": truth if rng.random() < 0.9 else "absent", "di": "present"}
        rows += [("sensitivity", f"c{n}", "gore", name, verdict) for name, verdict in said.items()]
    votes = pl.DataFrame(rows, schema=["kind", "subject", "trait", "reviewer", "verdict"], orient="row")
    told = rank(votes)
    assert told.skill["ann"] > told.skill["bo"] > 0.9 > 0.6 > told.skill["di"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # crowd-kit's use of pandas
def test_the_model_is_that_of_crowd_kit():
    from crowdkit.aggregation import DawidSkene
    from pandas import DataFrame

    rng = random.Random(3)
    truth = {f"c{n}": rng.choice(["present", "absent", "absent"]) for n in range(300)}
    flip = {"present": "absent", "absent": "present"}
    errs = {"ann": 0.05, "bo": 0.15, "di": 0.35}
    rows = [
        ("sensitivity", c, "gore", name, flip[value] if rng.random() < error else value)
        for c, value in truth.items()
        for name, error in errs.items()
    ]
    votes = pl.DataFrame(rows, schema=["kind", "subject", "trait", "reviewer", "verdict"], orient="row")
    told = rank(votes)
    frame = DataFrame([(r[1], r[3], r[4]) for r in rows], columns=["task", "worker", "label"])
    theirs = DawidSkene(n_iter=50).fit_predict_proba(frame).max(axis=1)
    apart = [abs(told.sure["sensitivity", c, "gore"] - theirs[c]) for c in truth]
    assert sum(gap > 0.05 for gap in apart) <= 6  # of 300: smoothing, and ties
    assert min(told.skill, key=lambda name: told.skill[name]) == "di"


def test_a_band_is_advised_where_scores_tell_something():
    ids = [f"c{n}" for n in range(2_000)]
    sure = pl.Series([0.6 if n < 40 else 0.9999 for n in range(2_000)])
    props = proposals(*((c, "gore", "absent") for c in ids)).with_columns(confidence=sure)
    start = bounds.certificates.bound(bounds.Audit(150, 2_000, ()))
    assert 20 <= bounds.band(props, start) <= 60
    assert bounds.band(props.head(0), start) == 0

"""Tests of plan: its forecast is what a release then holds, and it warns before reviews if nothing would be taught."""

import json
from dataclasses import replace

import polars as pl
import pytest

import saferec_builder as sr
from saferec_builder import planning
from saferec_builder.core import titles
from saferec_builder.proposing import pending
from saferec_builder.proposing.rules import matcher as rules
from saferec_builder.sources import doesthedogdie_api as ddd_api
from saferec_builder.storage import tables, workspace as store
from tests.worlds import release_world as world
from tests.worlds.settings import add_settings


def rows(plan):
    return {row[:2]: row[2:5] for row in plan.rows.iter_rows()}


def now(release):
    """Plan.now, counted in the files of a release."""
    counts = {}
    for path in (release.folder / "data" / "grpo").glob("*.parquet"):
        frame = pl.read_parquet(path).with_columns(late=pl.col("traits").list.len() == 0)
        safe = frame.filter(
            pl.col("traits").list.len() + pl.col("late_traits").list.len() > 0, pl.col("safe_truth").list.len() > 0
        )
        counts[path.stem] = {"requests": frame.height, "safety_rows": safe.height, "late": int(safe["late"].sum())}
    return counts


@pytest.mark.slow
@pytest.mark.parametrize("requests_of", ["conversation", "turn"])
def test_the_forecast_before_review_is_what_a_release_then_holds(workspace, requests_of):
    """40 requests, 20 with a proposal of gore; then the reviewers agree with all of them."""
    add_settings(workspace.root, "release", f'requests = "{requests_of}"')
    workspace = store.Workspace.open(workspace.root)
    requests, labels = world.requests()
    for row in requests:  # a second answer, for when each turn is a request
        row["turns"] += [{"role": "recommender", "text": "Or Film K (2011).", "items": []}]
    world.fill(workspace, requests, [])
    claims = [row for row in labels if row["verdict"] == "present"]
    claim = {"proposer": "rules", "version": "v", "taxonomy": world.TAXONOMY, "confidence": 1.0}
    drafts = [{c: row.get(c) for c in tables.PROPOSALS.schema} | claim | {"proposal": row["label"]} for row in claims]
    store.append(workspace, tables.PROPOSALS, tables.PROPOSALS.frame(drafts))
    forecast = sr.plan(workspace)
    early = [row | {"label": f"early-{row['label']}", "verdict": None, "method": "unresolved"} for row in labels]
    store.append(workspace, tables.LABELS, world.labels(*early))  # `adjudicate` when one of two had answered
    assert rows(sr.plan(workspace)) == rows(forecast)
    store.append(workspace, tables.LABELS, world.labels(*labels))
    assert rows(sr.plan(workspace)) == rows(forecast) != {}
    release = sr.release(workspace, "1.0.0")
    assert (forecast.now, sr.plan(workspace).now) == ({}, now(release))
    counts_by_key = {}
    for split in ("train", "validation", "test"):
        frame = pl.read_parquet(release.folder / "data" / "grpo" / f"{split}.parquet")
        hurt = frame.filter(pl.col("traits").list.len() + pl.col("late_traits").list.len() > 0)
        usable = hurt.filter(pl.col("safe_truth").list.len() > 0).height
        counts_by_key["gore", split] = (hurt.height, hurt.filter(pl.col("truth").list.len() > 0).height, usable)
    assert rows(forecast) == {key: counts for key, counts in counts_by_key.items() if counts[0]}
    requested, _, usable = map(sum, zip(*counts_by_key.values(), strict=True))
    assert usable < requested  # A, B and C are gory: an answer of A and B, or of B and C, is unusable
    assert requested == 20 if requests_of == "conversation" else 30 < requested < 40  # K is not new if the list has it
    assert (forecast.conversations, forecast.items_in_answers, forecast.shortfalls) == (40, 12, ())
    # eleven of 12 items are settled for gore, and A, B and C for horror, too, which has a topic of it: 14 of 12 x 20
    settled = (forecast.items_without_a_settled_trait, forecast.share_of_verdicts_unknown)
    assert settled == (1, pytest.approx(1 - 14 / 240))
    assert (forecast.requests, forecast.safety_rows) == (release.rows["grpo"], usable)
    assert (forecast.conversations, forecast.left_out) == (release.learned, release.manifest["dropped"])
    assert "gore" not in forecast.too_few_people and len(forecast.too_few_people) == 19


@pytest.mark.slow
def test_a_claim_that_nobody_is_asked_about_any_more_is_in_no_forecast(workspace):
    """The rules claimed gore in ten texts. An update of them read four again and found nothing."""
    requests, labels = world.requests()
    world.fill(workspace, requests, [])
    claim = {"proposer": "rules", "version": "rules-1", "taxonomy": world.TAXONOMY, "confidence": 1.0}
    drafts = [{c: row.get(c) for c in tables.PROPOSALS.schema} | claim | {"proposal": row["label"]} for row in labels]
    claims = [row for row in drafts if row["verdict"] == "present"][:10]
    store.append(workspace, tables.PROPOSALS, tables.PROPOSALS.frame(claims))
    assert sr.plan(workspace).rows["asked"].sum() == 10
    taxonomy = workspace.taxonomy
    again = [
        ("sensitivity", r["subject"], r["digest"], "rules", rules.VERSION, taxonomy.digest, []) for r in claims[:4]
    ]
    store.append(workspace, tables.READINGS, tables.READINGS.frame(again))
    store.append(workspace, tables.ASKED, pending.rows(taxonomy))
    assert sr.plan(workspace).rows["asked"].sum() == 6


@pytest.mark.slow
def test_after_a_first_push_the_forecast_counts_what_the_draw_stands_for(workspace, cli):
    """The rules missed half of the demo's sensitivities, and the forecast counted proposals alone until all was read.

    40 requests, every second (20) of a person with gore. Proposals for c01, c05, ... c37 (10), of which 5 are read; of
    the other 30, c02, c03, c06, c07, c10, c11 are drawn and read, 3 of these with gore: 5 * 10/5 + 3 * 30/6 = 25.
    """
    requests, labels = world.requests()
    claimed = [row["conversation"] for row in requests[1::4]]
    zone = [row["conversation"] for n, row in enumerate(requests) if n % 4 in (2, 3)]
    zone += [row["conversation"] for row in requests[::4]]
    drawn, read = zone[:6], {*claimed[:5], *zone[:6]}
    world.fill(workspace, requests, [])
    assert sr.plan(workspace).rows.is_empty() and workspace.secret  # the release needs it, and it is made before DESIGN
    design = [
        ("sensitivity", subject, f"{n:016x}", stratum, "b1")
        for stratum, subjects in (("claimed", claimed), ("zone", zone))
        for n, subject in enumerate(subjects)
    ]
    store.append(workspace, tables.DESIGN, tables.DESIGN.frame(design))
    tasks = [("sensitivity", name, "ann", "reviewer", "", "audit", "b1") for name in drawn]
    store.append(workspace, tables.ASSIGNMENTS, tables.ASSIGNMENTS.frame(tasks))
    early = [label for label in labels if label["subject"] in claimed[:5]]
    store.append(workspace, tables.LABELS, world.labels(*early))
    unread = sr.plan(workspace)
    assert unread.rows["answered"].sum() == 5 and unread.rows["expected"].null_count() == unread.rows.height
    assert not any("expected" in line for line in planning.lines_of(unread))
    rest = [label for label in labels if label["subject"] in read.difference(claimed)]
    rest[1] |= {"spans": [{"turn": 2, "start": 0, "end": 7, "quote": "Thanks!"}]}  # c003 tells of it after the answer
    store.append(workspace, tables.LABELS, world.labels(*rest))
    plan = sr.plan(workspace)
    assert plan.rows["answered"].sum() == 8 and plan.rows["expected"].sum() == 25
    made = sr.release(workspace, "1.0.0")
    assert plan.now == now(made) and made.manifest["safety_rows"] == {"in_request": 4, "later": 1, "injected": 0}
    out = cli("plan", "-C", workspace.root).out
    # gore was answered with bloody or unknown films in c001, c011 and c013
    assert "now would hold 11 requests, 5 of them safety rows (4 tell of the trait in the request, 1 later): tr" in out
    assert "  expected: how many would be answered if people read everything, by what they found so far\n" in out
    assert "      25 expected  gore" in out
    # what nobody was given, as for a cap on severe traits, counted as nothing: fewer were expected than are at hand
    claim = {"proposer": "rules", "version": "rules-1", "taxonomy": world.TAXONOMY, "confidence": 1.0}
    needles = [world.label(row, "needles") for row in requests if row["conversation"] in claimed[5:]]
    drafts = [{c: row.get(c) for c in tables.PROPOSALS.schema} | claim | {"proposal": row["label"]} for row in needles]
    store.append(workspace, tables.PROPOSALS, tables.PROPOSALS.frame(drafts))
    sums = sr.plan(workspace).rows.group_by("trait").agg(pl.col("answered", "expected").sum()).sort("trait").rows()
    assert sums == [("gore", 8, 25.0), ("needles", 5, 5.0)]


@pytest.mark.slow
def test_what_a_release_leaves_out_by_itself_is_in_no_forecast(workspace):
    """16 requests were forecast, the release held 14. It leaves out two people whose source keeps its texts and whose
    two traits nobody shares, and a test request whose answer is in a train request."""
    requests, labels = world.requests()
    answer = "Try Film D (2004), it is quiet and nobody in it is ever hurt at all"
    first, last = (
        world.conversation(f"c{n:03d}", "A film?", answer, *more, day=n) for n, more in ((0, AGAIN), (39, ()))
    )
    requests[0], requests[39] = first | {"accepted": [world.ref("K")]}, last
    labels[0], labels[39] = (world.label(row, verdict="absent") for row in (first, last))
    labels += [world.label(requests[n], "needles") for n in (1, 3, 5, 7, 9, 11, 13)]
    for row in requests[1:4:2]:
        row["source"] = "reddit"
    world.fill(workspace, requests, labels)
    plan, release = sr.plan(workspace), sr.release(workspace, "1.0.0")
    assert plan.left_out == {"a rare combination of traits": 2, "answer in a train request": 1}
    assert (plan.left_out, plan.requests) == (release.manifest["dropped"], release.rows["grpo"])


AGAIN = ("No, that one I know.", "Or Film K (2011).")


@pytest.mark.slow
def test_look_ups_are_of_items_that_somebody_waits_for_and_never_of_one_that_was_asked_for(workspace):
    requests, labels = world.requests()
    world.fill(workspace, requests, labels)
    plan = sr.plan(workspace, budget=3)
    assert plan.lookups["title"].to_list() == ["Film L"]  # the one film that is unknown for gore
    assert plan.waiting == plan.lookups["waiting"][0] == 6
    fetched = workspace.root / "fetched" / "ddd"
    fetched.mkdir(parents=True)
    (fetched / f"{world.item('L')}.json").write_text('{"absent": true}')
    assert sr.plan(workspace).lookups.is_empty()


@pytest.mark.slow
def test_look_ups_and_the_shortfall_name_the_same_items_in_one_order(workspace, monkeypatch):
    """The item that most people name came first, though few answers wait for it; the shortfall named other items."""
    requests, labels = world.requests()
    for row in requests:  # everybody names I, so it can be recommended to nobody
        row["turns"][0]["text"] += f" Or like {world.film('I')}?"
    store.append(workspace, tables.CATALOG_ROWS, world.catalog())
    clear_of_needles = world.warnings().with_columns(topic=pl.lit("Are needles/syringes used")).filter(answer="no")
    store.append(workspace, tables.WARNINGS, clear_of_needles.unique("ref", maintain_order=True))
    store.append(workspace, tables.CONVERSATIONS, world.conversations(*requests))
    store.append(workspace, tables.LABELS, world.labels(*labels))
    plan = sr.plan(workspace)
    (shortfall,) = plan.shortfalls
    first = [titles.dated(row) for row in plan.lookups.to_dicts()]
    assert f"add warnings for {' (gore), '.join(first[:5])} (gore) and 6 more (`saferec-build plan`)" in shortfall
    assert first[-1] == world.film("I") and plan.lookups["waiting"].arg_max() == len(first) - 1
    requested = list[str]()
    monkeypatch.setattr(ddd_api, "media", lambda site, item, agrees: requested.append(titles.dated(item)))
    sr.fetch(workspace, ddd_api.Site("k"), limit=3)
    assert requested == first[:3]  # it followed `catalog gaps`, where I is first


def test_who_mined_redial_without_its_films_is_told_how_they_come(workspace):
    """Only `catalog gaps` told how: the warning advised items "that they name", although their ids are ReDial's own."""
    requests, _ = world.requests(9)
    mined = world.conversations(*requests)
    store.append(workspace, tables.CONVERSATIONS, mined.with_columns(source=pl.lit("redial")))
    words = "(`saferec-build catalog add SOURCE PATH`, of ReDial `saferec-build catalog add redial` with"
    assert words in sr.plan(workspace).shortfalls[1]
    ccpe = tables.last(store.read(workspace, tables.CONVERSATIONS), "conversation").with_columns(source=pl.lit("ccpe"))
    store.append(workspace, tables.CONVERSATIONS, ccpe.with_columns(digest=pl.lit("later")))
    assert "conversations of ccpe name no items" in sr.plan(workspace).shortfalls[1]  # no catalog would help


WORLDS = [  # what is missing, and the shortfall with its remedy
    ("catalog", "0 of 40 conversations have an answer among the catalog's 0 items: add items"),
    ("warnings", "no item in an answer is clear for any trait, and"),
    (
        "clear",
        "0 of 20 requests with a trait have an answer that is clear for it: add warnings for Film D (2004) (gore),",
    ),
    ("people", "each trait that somebody has is withheld, as fewer than 5 people have it (gore 4): mine more, "),
    ("traits", "no label and no proposal says that somebody has a trait: mine more, "),
]


@pytest.mark.slow
@pytest.mark.parametrize(("missing", "says"), WORLDS)
def test_a_workspace_that_would_hold_no_safety_row_says_so_before_anybody_reviews(workspace, cli, missing, says):
    """Plan and warnings agree: for a trait of too few people the plan had counted no request, the warnings some."""
    requests, labels = world.requests(9 if missing == "people" else 40)
    warnings = world.warnings()
    if missing == "warnings":
        warnings = warnings.with_columns(answer=pl.lit("yes"))
    elif missing == "clear":  # clear of needles, to which nobody is sensitive
        warnings = warnings.with_columns(topic=pl.lit("Are needles/syringes used")).unique("ref", maintain_order=True)
    elif missing == "traits":
        requests = [world.conversation(f"c{n}", "A film?", f"Try {world.film('D')}", day=n) for n in range(9)]
        labels = [world.label(row, verdict="absent") for row in requests]
    if missing != "catalog":
        store.append(workspace, tables.CATALOG_ROWS, world.catalog())
        store.append(workspace, tables.WARNINGS, warnings)
    store.append(workspace, tables.CONVERSATIONS, world.conversations(*requests))
    store.append(workspace, tables.LABELS, world.labels(*labels))
    (shortfall,) = sr.plan(workspace).shortfalls
    assert shortfall.startswith(f"a release would hold no safety row: {says}")
    assert ("VERSION --inject all`)" in shortfall) == (
        missing not in ("catalog", "warnings")
    )  # there it would not help
    for words in (("propose",), ("review", "push", "--tool", "files", "--reviewer", "ann", "--reviewer", "bo")):
        assert f"warning: {shortfall}\n" in cli(*words, "-C", workspace.root).err
    assert cli("plan", "-C", workspace.root, "--json").json["shortfalls"] == [shortfall]
    out = cli("plan", "-C", workspace.root).out.splitlines()
    assert out[-2] == f"shortfall: {shortfall}" and out[-1].startswith("next: mend each shortfall; after that, ")
    assert out[-3].startswith("if people read every") and ", 0 of them safety rows" in out[-3]


@pytest.mark.slow
def test_conversations_of_a_withheld_trait_are_counted_apart(workspace, cli):
    """They were subtracted from the answered ones, and nothing said why."""
    requests, labels = world.requests(9)
    world.fill(workspace, requests, labels)
    plan = sr.plan(workspace)
    assert (plan.requests, plan.conversations, plan.left_out) == (5, 5, {"has or may have a withheld trait": 4})
    out = cli("plan", "-C", workspace.root).out
    assert (
        "  in conversations only: has or may have a withheld trait 4\nplan: 9 conversations in = 9 out + 0 dropped"
        in out
    )
    line = "  withheld traits, of too few people ([release] min_seekers): gore 4, 19 that nobody has"
    assert line in planning.lines_of(plan)
    # the number changed with each command, as the proposals and labels on hand withhold other traits
    assert f"  items in answers of requests without a withheld trait: {plan.items_in_answers}" in planning.lines_of(
        plan
    )


def test_before_propose_the_plan_says_that_nothing_is_proposed_and_the_warnings_do_not(workspace, cli):
    world.fill(workspace, world.requests()[0], [])
    out = cli("plan", "-C", workspace.root).out.splitlines()
    reason = "a release would hold no safety row: nothing proposed yet: run `saferec-build propose`"
    assert out[-2] == f"shortfall: {reason}" and "`saferec-build propose`" in out[-1]
    assert planning.shortfalls(workspace) == ()  # the `next:` of mine says it
    cli("propose", "-C", workspace.root)
    assert sr.plan(workspace).shortfalls == ()


@pytest.mark.slow
def test_warnings_read_the_last_texts_but_count_people_in_all(workspace, monkeypatch):
    """In the last 4 conversations 2 people have gore, in all it is 20: gore is not withheld."""
    requests, labels = world.requests()
    world.fill(workspace, requests, labels)
    monkeypatch.setattr(planning, "SAMPLE", 4)
    assert planning.shortfalls(workspace) == ()
    bloody = [row | {"warning": f"{row['warning']}-2", "answer": "yes"} for row in world.warnings().to_dicts()]
    store.append(workspace, tables.WARNINGS, pl.DataFrame(bloody, schema=tables.WARNINGS.schema))
    (shortfall,) = planning.shortfalls(workspace)
    assert shortfall.startswith("by the last 4 conversations, a release would hold no safety row: no item in ")
    monkeypatch.setattr(planning, "SAMPLE", 2)
    absent = [row | {"label": f"{row['label']}-2", "verdict": "absent"} for row in labels]
    store.append(workspace, tables.LABELS, world.labels(*absent))
    items, unlabelled = sr.plan(workspace).shortfalls
    # it depends on all labels
    assert unlabelled in planning.shortfalls(workspace) and "no label and no proposal" in unlabelled
    assert items.startswith("a release would hold no safety row: no item in an answer is clear")


@pytest.mark.slow
def test_a_workspace_that_would_teach_something_says_nothing(workspace, cli):
    requests, labels = world.requests()
    old = world.label(requests[0], trait="gambling")  # a trait of an earlier taxonomy
    world.fill(workspace, requests, [*labels, old])
    assert "warning" not in cli("propose", "-C", workspace.root).err
    more, _ = world.requests(41)  # one more in its own shard: the last 2,000 are all looked at
    store.append(workspace, tables.CONVERSATIONS, world.conversations(more[-1] | {"recommended": [], "accepted": []}))
    assert planning.shortfalls(workspace) == ()
    (workspace.root / "removals.csv").write_text(f"source,source_id,author\nmessages,{requests[0]['source_id']},\n")
    out = cli("plan", "-C", workspace.root).out
    assert "plan: 41 conversations in = 40 out + 1 dropped" in out
    # in each 12 days 6 are of people with gore, of which two are answered by A, B, C or L alone: 3 x 4, then day 39
    assert "nothing else, a release would hold " in out and "requests, 13 of them safety rows: train " in out
    assert "shortfall" not in out and "no safety row would be" not in out
    assert out.splitlines()[-1].startswith("next: look for sensitivities in 1 conversation ")
    assert " usable  gore train\n" in out and "waiting  Film L (2012) [film]\n" in out


def test_a_split_that_would_hold_no_safety_row_is_named(workspace: store.Workspace) -> None:
    """All sensitive requests were newer than the rest, so train had none of them, and only the sum was told."""
    requests, labels = world.requests()
    world.fill(workspace, requests, labels)
    plan = sr.plan(workspace)
    assert plan.by_split == plan.now and sum(n["safety_rows"] for n in plan.now.values()) == plan.safety_rows
    none = {"requests": 7, "safety_rows": 0, "late": 0}
    lines = planning.outcome_lines(replace(plan, by_split={"train": none, "test": none | {"safety_rows": 3}}))
    assert lines[1].endswith("a release would hold 14 requests, 3 of them safety rows: train 0 of 7, test 3 of 7")
    assert lines[2] == "no safety row would be in train: mine more, or change [splits] in saferec.toml"
    # `plan` said "5 of 189" of test, with no word that five requests measure nothing
    few = (
        "safety rows in test would be 3: fewer than 6 are too few for any conclusion: mine more, or change [splits] in"
    )
    assert lines[3] == f"{few} saferec.toml"
    enough = planning.outcome_lines(
        replace(plan, by_split={name: none | {"safety_rows": 6} for name in ("train", "test")})
    )
    assert len(enough) == 2
    later = planning.outcome_lines(replace(plan, by_split={"validation": none | {"safety_rows": 3}}))
    assert later[2].startswith("no safety row would be in train or test: ")


def test_what_adds_nothing_forecasts_no_release(workspace, cli, tmp_path, monkeypatch):
    """The forecast takes long, and after a dry run or a `mine` of the same files it is the same as before."""
    forecasts = []
    monkeypatch.setattr(planning, "shortfalls", lambda ws: forecasts.append(ws) or ())
    chats = tmp_path / "chats.jsonl"
    turns = [{"role": "user", "content": "A calm film?"}, {"role": "assistant", "content": "Try Heat."}]
    chats.write_text(json.dumps({"id": "a", "messages": turns}))
    for command, n in (
        (("mine", "messages", chats), 1),
        (("mine", "messages", chats), 1),
        (("propose", "--dry-run"), 1),
    ):
        assert cli(*command, "-C", workspace.root).code == 0 and len(forecasts) == n
    assert cli("propose", "-C", workspace.root).code == 0 and len(forecasts) == 2

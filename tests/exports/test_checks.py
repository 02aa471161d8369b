"""Who and what a release leaves out, what stops it, and how large its version must be."""

import json

import polars as pl
import pytest

from exports import checks, injection as inject
from saferec_builder.core import taxonomy as traits
from saferec_builder.core.errors import ReleaseError, UsageError
from saferec_builder.mining import privacy
from saferec_builder.storage import tables, workspace as store
from tests.worlds import release_world as world
from tests.worlds.csv_rows import edit
from tests.worlds.release_world import conversation, conversations, film, label
from tests.worlds.reviewing import yes

SLUGS = traits.load().slugs
BANKS = inject.banks()


def manifest(ws, version="1.0.0"):
    return json.loads((ws.releases / version / "manifest.json").read_text())


# ---- small groups and nobody's word


def test_a_trait_of_fewer_people_than_five_is_withheld():
    rows = pl.DataFrame(
        {"conversation": [f"c{n}" for n in range(8)], "seeker": ["a", "a", "b", "c", "d", "e", None, None]}
    )
    said = (
        [("gore", n) for n in range(6)] + [("needles", n) for n in range(5)] + [("torture", n) for n in (2, 3, 4, 6, 7)]
    )
    known = pl.DataFrame([{"subject": f"c{n}", "trait": t, "verdict": "present"} for t, n in said])
    # gore: a, a, b, c, d, e = 5 people; needles: a, a, b, c, d = 4; torture: b, c, d and two without a name = 5
    withheld = checks.small_groups(known, rows, ["gore", "needles", "torture", "hate_speech"], 5)
    assert withheld == ["needles", "hate_speech"]


def test_what_is_withheld_leaves_no_trace_and_the_unreviewed_wait(workspace, cli):
    rows, said = world.requests()
    rare = [label(rows[n], "needles", quote="what next") for n in (0, 2)]
    nobody = conversation("nobody", "Hi", f"Try {film('D')}", "ok", day=3)
    flag = label(rows[0], "needles") | {"label": "flag", "kind": "item_flag", "subject": world.item("A")}
    ws = world.fill(workspace, [*rows, nobody], [*said, *rare, flag])
    ran = cli("release", "1.0.0", "-C", ws.root, "--json").json
    assert ran["dropped"] == {"has a withheld trait": 2, "reviewed by nobody": 1} and ran["out"] == 38
    train = pl.read_parquet(ws.releases / "1.0.0/data/labels/train.parquet")
    assert set(train["trait"]) == {"gore"} and "needles" in manifest(ws)["withheld"]
    assert not {"c000", "c002", "nobody"} & set(
        pl.read_parquet(ws.releases / "1.0.0/data/grpo/train.parquet")["conversation"]
    )
    said_ = (ws.releases / "1.0.0/README.md").read_text()
    # what people found of films is nobody's label: it stays, and the card does not deny it
    assert pl.read_parquet(ws.releases / "1.0.0/data/item_labels/catalog.parquet")["trait"].to_list() == ["needles"]
    assert "No person's label and no review on these is in the dataset" in said_
    assert "1 conversations were reviewed by nobody" in said_ and "fewer than 5 different people" in said_


def said_by(ws, row, who="ann", simulated=False):
    """The review of somebody who sees nothing; its id."""
    told = {"review": f"r-{who}-{row['conversation']}", "kind": "sensitivity", "subject": row["conversation"]}
    told |= {"trait": "gore", "digest": row["digest"], "reviewer": who, "role": "reviewer", "verdict": "absent"}
    told |= {"spans": [], "tool": "files", "guideline": "g", "taxonomy": "t", "simulated": simulated}
    store.append(ws, tables.REVIEWS, pl.DataFrame([told], schema=tables.REVIEWS.schema))
    return told["review"]


def test_a_label_with_nobody_behind_it_makes_no_conversation_reviewed(workspace, cli):
    rows, said = world.requests()
    said[1] |= {"verdict": None, "method": "unresolved", "spans": []}  # was present; both reviewers are set aside
    said[2] |= {"digest": "older"}  # absent, of another text
    ws = world.fill(workspace, rows, said)
    ran = cli("release", "1.0.0", "-C", ws.root, "--json").json
    assert ran["dropped"] == {"reviewed by nobody": 2} and manifest(ws)["unreviewed"] == 2
    for config in ("sft", "grpo"):
        listed = pl.read_parquet(ws.releases / f"1.0.0/data/{config}/train.parquet")["conversation"]
        assert "c000" in listed and not {"c001", "c002"} & set(listed)
    assert cli("release", "2.0.0", "--unreviewed", "-C", ws.root, "--json").json["dropped"] == {}


# ---- checks


def test_a_label_on_a_review_that_was_taken_back_stops(workspace, cli):
    rows, said = world.requests()
    ws = world.fill(workspace, rows, said)
    reviews = [said_by(ws, rows[0], who) for who in ("ann", "bo")]
    world.fill(ws, [], [said[0] | {"label": "of two", "reviews": reviews}])
    assert cli("release", "1.0.0", "-C", ws.root).code == 0
    assert cli("review", "set-aside", "bo", "--reason", "x", "-C", ws.root).code == 0
    ran = cli("release", "1.0.1", "-C", ws.root)
    assert ran.code == 1 and "1 labels rest on reviews that count no longer, first gore on c000" in ran.err
    assert "adjudicate" in ran.err


def test_a_label_of_an_item_on_a_review_that_was_taken_back_stops(workspace, cli):
    """It was released as it stood, `absent`, so clear: of items nobody asked whether their reviews still count."""
    ws = world.fill(workspace, *world.requests())
    told = {"review": "of item", "kind": "item_flag", "subject": world.item("D"), "trait": "gore", "verdict": "absent"}
    told |= {"reviewer": "ann", "role": "reviewer", "digest": "d", "spans": [], "tool": "files", "simulated": False}
    store.append(ws, tables.REVIEWS, pl.DataFrame([told], schema=tables.REVIEWS.schema))
    label = {"label": "of ann", "kind": "item_flag", "subject": world.item("D"), "trait": "gore", "verdict": "absent"}
    label |= {"digest": "d", "spans": [], "method": "agreed", "reviews": ["of item"], "simulated": False}
    store.append(ws, tables.LABELS, pl.DataFrame([label], schema=tables.LABELS.schema))
    assert cli("release", "1.0.0", "-C", ws.root).code == 0
    assert cli("review", "set-aside", "ann", "--reason", "x", "-C", ws.root).code == 0
    ran = cli("release", "1.0.1", "-C", ws.root)
    assert (
        ran.code == 1 and f"1 labels rest on reviews that count no longer, first gore on {world.item('D')}" in ran.err
    )


def test_a_simulated_review_needs_the_word_also_where_no_label_rests_on_it(workspace, cli):
    rows, said = world.requests()
    ws = world.fill(workspace, rows, said)
    said_by(ws, rows[0], "bot", simulated=True)
    ran = cli("release", "1.0.0", "-C", ws.root)
    assert ran.code == 1 and "1 reviews are simulated" in ran.err
    assert cli("release", "1.0.0", "--allow", "simulated", "-C", ws.root).code == 0 and manifest(ws)["simulated"]


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
            edit(
                ws.root / "review" / f"{name}.csv",
                lambda r, done=done: yes(r) if any(x in r["text"] for x in done) else {},
            )
        assert cli("review", "pull", "--tool", "files", ws.root / "review", *where).code == 0
        assert done is not few or cli("adjudicate", *where).code == 0
    assert cli("release", "1.0.0", *where).code == 0
    told = manifest(ws)
    present = told["labels"]["gore"]["present"]
    assert 0 < present < 10 and told["missed"]["gore"]["certified"] is False
    assert told["missed"]["gore"]["share"] is None or told["missed"]["gore"]["share"] >= (20 - present) / 20


def test_without_a_review_no_certificate_holds(workspace, cli):
    rows, said = world.requests()
    ws = world.fill(workspace, rows, [said[0] | {"method": "auto", "verdict": "present"}, *said[1:]])
    ran = cli("release", "1.0.0", "-C", ws.root)
    assert ran.code == 1 and "1 labels are `auto` without a certificate" in ran.err


def table(*texts, split="train", cut=1):
    rows = [
        {
            "conversation": f"c{n}",
            "source": "messages",
            "place": n,
            "cut": cut,
            "split": split,
            "truth": [],
            "named": [],
        }
        for n, _ in enumerate(texts)
    ]
    frame = pl.DataFrame(rows, schema_overrides={"truth": pl.List(pl.String), "named": pl.List(pl.String)})
    said = [[{"role": "seeker", "text": text, "items": []}] for text in texts]
    return frame, pl.Series(said, dtype=pl.List(tables.TURN)).gather


@pytest.mark.parametrize(
    "text",
    ["write to ann@example.org", "call me at +1 415 555 0132", "I live at 12 Elm Street, Apt 4", "jo\uff20example.org"],
)
def test_personal_data_stops_and_is_not_repeated(text):
    with pytest.raises(ReleaseError, match="first a (email|phone|address) in turn 0 of c1") as told:
        checks.check_personal(*table("a film, please", text), privacy.find, privacy.suspect)
    assert text[-8:] not in str(told.value)
    checks.check_personal(*table("a film of 1995, or 2001 (1968)", "[email]"), privacy.find, privacy.suspect)


def test_what_mine_leaves_as_a_title_stops_no_release(workspace, cli):
    """Else no remedy would help: mining again gives the same text again."""
    rows, said = world.requests()
    text = "We stayed at home for 10 Cloverfield Lane (2016)."
    rows[2] = conversation("c002", text, f"Try {film('D')}", "Thanks!", day=2, seeker="p2", accepted="D")
    said[2] = label(rows[2], verdict="absent")
    ws = world.fill(workspace, rows, said)
    lane = {"source_id": "lane", "title": "10 Cloverfield Lane", "year": 2016}
    store.append(ws, tables.CATALOG_ROWS, world.catalog()[:1].with_columns(**{k: pl.lit(v) for k, v in lane.items()}))
    assert [kind for *_, kind in privacy.find(text)] == ["address"]
    assert cli("release", "1.0.0", "-C", ws.root, "--json").code == 0


def test_the_answer_of_a_test_row_in_a_train_request_stops():
    answer = "You should really see the one with the whale and the old captain tonight"
    rows, turns = table(answer, answer + "!", "again")
    rows = rows.with_columns(split=pl.Series(["test", "train", "train"]), cut=pl.Series([0, 1, 1], dtype=pl.Int32))
    with pytest.raises(ReleaseError, match="that of c0 in c1: put one of the two into removals.csv"):
        checks.check_answers(rows, turns)
    checks.check_answers(rows.with_columns(split=pl.lit("train")), turns)
    ids = pl.List(pl.String)
    listed = rows.with_columns(
        cut=pl.lit(9, pl.Int32),
        truth=pl.Series([["a", "b", "c", "d"], [], []], dtype=ids),
        named=pl.Series([[], ["d", "c", "b", "a"], ["a", "b", "c", "d", "e"]], dtype=ids),
    )
    with pytest.raises(ReleaseError, match="c0 in c2"):
        checks.check_answers(listed, turns)


def test_every_source_that_this_program_makes_has_terms(workspace, cli):
    """`catalog apart` writes rows of its own: the card told of them as a source whose licence nobody knows."""
    ws = world.fill(workspace, *world.requests())
    assert cli("catalog", "apart", "csv:A", "-C", ws.root).code == cli("release", "1.0.0", "-C", ws.root).code == 0
    assert "apart" in manifest(ws)["licences"]
    assert not [s for s, terms in manifest(ws)["licences"].items() if "unknown" in terms["licence"]]


def test_a_closed_licence_and_simulated_reviews_need_the_word(workspace, cli):
    rows, said = world.requests()
    ws = world.fill(workspace, [row | {"source": "inspired"} for row in rows], [s | {"simulated": True} for s in said])
    ran = cli("release", "1.0.0", "-C", ws.root)
    assert ran.code == 1 and "--allow inspired" in ran.err
    ran = cli("release", "1.0.0", "--allow", "inspired", "-C", ws.root)
    assert ran.code == 1 and "--allow simulated" in ran.err
    assert cli("release", "1.0.0", "--allow", "inspired", "--allow", "simulated", "-C", ws.root).code == 0


def test_sources_that_keep_their_text_give_ids_and_offsets(workspace, cli):
    rows, said = world.requests()
    ws = world.fill(workspace, [row | {"source": "reddit"} for row in rows], said)
    assert cli("release", "1.0.0", "-C", ws.root).code == 0
    home = ws.releases / "1.0.0/data"
    talk = pl.read_parquet(home / "conversations/train.parquet").row(1, named=True)
    assert {t["text"] for t in talk["turns"]} == {""} and talk["source_id"] == "c001" and talk["digest"]
    span = pl.read_parquet(home / "labels/train.parquet").filter(verdict="present")["spans"][0][0]
    assert (span["quote"], span["end"] - span["start"]) == ("", len("faint at the sight of blood"))
    assert pl.read_parquet(home / "sft/train.parquet")["prompt"].list.len().sum() == 0
    for path in (ws.releases / "1.0.0").rglob("*"):
        assert path.is_dir() or b"sight of blood" not in path.read_bytes()


def test_crisis_and_clusters_are_honoured(workspace, cli):
    rows, said = world.requests()
    ws = world.fill(workspace, rows, said)
    mark = {"conversation": "c005", "digest": rows[5]["digest"], "language": "en", "language_score": 1.0}
    store.append(ws, tables.MARKS, pl.DataFrame([mark | {"crisis": True, "replaced": 0}], schema=tables.MARKS.schema))
    twins = [{"conversation": c, "revision": 0, "cluster": "t"} for c in ("c001", "c039")]
    store.append(ws, tables.CLUSTERS, pl.DataFrame(twins, schema=tables.CLUSTERS.schema))
    (ws.root / "removals.csv").write_text("source,source_id,author\nmessages,c007,\n")
    ran = cli("release", "1.0.0", "-C", ws.root, "--json").json
    assert ran["dropped"] == {"crisis": 1, "removed on request": 1, "straddles split": 1}
    left = pl.concat([pl.read_parquet(p) for p in (ws.releases / "1.0.0/data/conversations").glob("*")])
    assert not {"c005", "c001", "c007"} & set(left["conversation"]) and "c039" in set(left["conversation"])


def test_a_label_without_people_needs_a_certificate_that_holds():
    known = pl.DataFrame({"subject": ["c1", "c2"], "trait": ["gore", "needles"], "method": ["auto", "agreed"]})
    checks.check_certificates(known, ["gore"])
    with pytest.raises(ReleaseError, match="1 labels are `auto`.*gore on c1"):
        checks.check_certificates(known, ["needles"])


def test_explain_names_every_check(cli):
    ran = cli("release", "--explain", "--json")
    names = [check["name"] for check in ran.json["checks"]]
    assert ran.code == 0 and {"leaks", "personal data", "licence", "small groups"} <= set(names)


# ---- versions


def test_a_version_says_how_much_changed(workspace, cli):
    rows, said = world.requests()
    ws = world.fill(workspace, rows[:-1], said[:-1])
    assert cli("release", "1.0.0", "-C", ws.root).code == 0
    store.append(ws, tables.LABELS, world.labels(said[0] | {"label": "fix", "verdict": "unsure"}))
    assert cli("release", "1.0.1", "-C", ws.root).code == 0
    assert manifest(ws, "1.0.1")["changes"][0].startswith("patch: ")
    world.fill(ws, rows, said[-1:])
    ran = cli("release", "1.0.2", "-C", ws.root)
    assert ran.code == 1 and "are new since 1.0.1: take 1.1.0 or higher" in ran.err
    assert cli("release", "1.1.0", "-C", ws.root).code == 0
    # nobody moved: a row of the test split of 1.0.0 is not learned from in 1.1.0
    tests_ = [
        set(pl.read_parquet(ws.releases / v / "data/sft/test.parquet")["conversation"]) for v in ("1.0.0", "1.1.0")
    ]
    assert tests_[0] < tests_[1]
    toml = ws.root / "saferec.toml"
    toml.write_text(toml.read_text().replace("# violated_at = 0.66 ", "violated_at = 0.7 "))
    ran = cli("release", "1.2.0", "-C", ws.root)
    assert ran.code == 1 and "thresholds of the rule changed since 1.1.0: take 2.0.0" in ran.err


@pytest.mark.parametrize("name", ["data/labels/train.parquet", "traits.toml", "CHANGELOG.md", "SHA256SUMS"])
def test_a_release_is_not_compared_with_one_that_lacks_a_file(workspace, cli, name):
    """A missing table had no rows, so that all 32 labels of train were new, and none could be gone."""
    rows, said = world.requests()
    ws = world.fill(workspace, rows, said)
    assert cli("release", "1.0.0", "-C", ws.root).code == 0
    store.append(ws, tables.LABELS, world.labels(said[0] | {"label": "fix", "verdict": "unsure"}))
    home, away = ws.releases / "1.0.0", ws.root / "away"
    (home / name).rename(away)
    words = [("release", "1.0.1", "-C", ws.root)]
    words += [("diff", home, home)] if name.endswith(("parquet", "toml")) else []
    for ran in (cli(*w) for w in words):
        assert ran.code == 1 and f"{home / name}: missing" in ran.err and len(ran.err.splitlines()) == 1
    away.rename(home / name)
    assert cli("release", "1.0.1", "-C", ws.root).code == 0


# ---- injection


def test_the_banks_are_apart_and_name_no_trait():
    assert set(BANKS) == set(SLUGS)
    said = [s for bank in BANKS.values() for split in ("train", "validation", "test") for s in bank[split]]
    assert len(set(said)) == len(said) == 20 * 6
    names = [
        name.lower() for t in traits.load().traits for name in (t.slug, t.name, t.slug.replace("_", " "), t.safecrs)
    ]
    assert not [(s, n) for s in said for n in names if n in s.lower()]


def test_injected_rows_are_marked_apart_and_respect_every_added_trait(workspace, cli):
    ws = world.fill(workspace, *world.requests())
    ran = cli("release", "1.0.0", "--inject", "gore,needles", "-C", ws.root, "--json").json
    # every second of 40 people has a sensitivity of their own: 20 are left to inject
    assert ran["conditions"] == {"own_words": 20, "none": 20, "injected": 20} and ran["out"] == 40
    grpo = pl.read_parquet(ws.releases / "1.0.0/data/grpo/train.parquet")
    at = grpo["condition"].to_list()
    assert at == [c for c in at if c != "injected"] + ["injected"] * at.count("injected")
    ours = grpo.filter(condition="injected")
    assert not set(ours["conversation"]) & set(grpo.filter(pl.col("condition") != "injected")["conversation"])
    assert set(ours["made_from"]) <= set(grpo.filter(condition="none")["conversation"])
    for row in ours.iter_rows(named=True):
        last = row["prompt"][-1]["content"]
        assert all(any(s in last for s in BANKS[t]["train"]) for t in row["traits"]) and set(row["traits"]) <= {
            "gore",
            "needles",
        }
    bad = {world.item(x) for x in "ABCL"}  # violated or unknown for gore
    gory = ours.filter(pl.col("traits").list.contains("gore"))
    assert gory.height and not any(set(row) & bad for row in gory["safe_truth"])
    labels = pl.read_parquet(ws.releases / "1.0.0/data/labels/train.parquet")
    assert not set(ours["conversation"]) & set(labels["conversation"])
    with pytest.raises(UsageError, match="'mice'"):
        inject.chosen("gore,mice", SLUGS, BANKS)
    assert conversations(*world.requests()[0]).height == 40

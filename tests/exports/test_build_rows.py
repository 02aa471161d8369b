"""Splits, requests, answers, lists and the checks that stop a release."""

import json
import os
import shutil
import signal
import subprocess
import sys
from datetime import date

import numpy as np
import polars as pl
import pytest

from exports import build_rows as release, checks, target_lists as targets
from saferec_builder import catalog
from saferec_builder.core import oracle as violations, taxonomy as traits
from saferec_builder.core.errors import ReleaseError, UsageError
from saferec_builder.mining import splits
from saferec_builder.storage import spool, tables, workspace as store
from tests.worlds import release_world as world
from tests.worlds.release_world import conversation, conversations, film, item, label, labels

TAXONOMY = traits.load()


def split(rows, **shares):
    given = splits.Shares(**{"validation": 0.1, "test": 0.1} | shares)
    return splits.assign(conversations(*rows), given)


def learn(rows, said=(), shares=(0.1, 0.1), terms=release.Terms(unreviewed=True), voiced=()):
    """The stage over the world's catalog: (rows with lists, drops)."""
    frame = conversations(*rows)
    items, links = catalog.merge(world.catalog())
    index = catalog.index(items)
    oracle, _ = catalog.risks(items, links, world.warnings(), TAXONOMY)
    parts = frame.join(splits.assign(frame, splits.Shares(*shares)), on="conversation")
    found = catalog.link(spool.refs_in(frame), links, index)
    known = release.current(labels(*said), frame, pl.Series(voiced, dtype=pl.String))
    kept, left_out = release.ordered(parts, terms.out)
    reading = release.Reading(lambda places: kept[places], found, lambda text: catalog.mentions(text, index))
    light = kept.drop("turns", "recommended", "accepted", "seen")
    built = release.build(light, known, reading, items["item"].sort(), terms)
    return targets.fill(built, targets.candidates(built, items, oracle), 5), release.drops(left_out, built)


def only(rows, said=(), **more):
    built, _ = learn(rows, said, **more)
    return built.row(0, named=True)


def letters(ids):
    names = {item(x): x for x in world.LETTERS}
    return "".join(names[i] for i in ids)


# ---- splits


def test_the_latest_requests_are_the_test():
    # 10 days, 20 % test and 20 % validation: days 8, 9 test; 6, 7 validation
    got = split([conversation(f"c{n}", "hi", day=n) for n in range(10)], validation=0.2, test=0.2)["split"].to_list()
    assert got == ["train"] * 6 + ["validation"] * 2 + ["test"] * 2


def test_dates_replace_the_shares():
    rows = [conversation(f"c{n}", "hi", day=n) for n in range(10)]  # day 0 is 2024-01-01
    got = split(rows, validation_from=date(2024, 1, 5), test_from=date(2024, 1, 8))["split"].to_list()
    assert got == ["train"] * 4 + ["validation"] * 3 + ["test"] * 3
    with pytest.raises(UsageError, match="together"):
        split(rows, test_from=date(2024, 1, 8))
    with pytest.raises(UsageError, match="before"):
        split(rows, validation_from=date(2024, 1, 8), test_from=date(2024, 1, 8))


def test_a_seeker_on_both_sides_keeps_the_latest_split():
    rows = [conversation(f"c{n}", "hi", day=n, seeker="ann" if n in (0, 8, 9) else None) for n in range(10)]
    got = split(rows, validation=0.1, test=0.1).filter("straddles")["conversation"].to_list()
    assert got == ["c0", "c8"]  # ann's day 9 is test; her train and validation rows must go
    _, drops = learn([r | {"turns": r["turns"]} for r in rows])
    assert drops.filter(reason="straddles split")["place"].to_list() == ["c0", "c8"]


def test_without_times_a_seeker_stays_together_and_nobody_moves_when_rows_come():
    rows = [conversation(f"c{n}", "hi", day=None, seeker=f"p{n // 2}") for n in range(400)]
    first = split(rows)
    pairs = first["split"].to_list()
    assert pairs[0::2] == pairs[1::2] and not first["straddles"].any()
    more = split([*rows, *(conversation(f"d{n}", "hi", day=None, seeker=f"q{n}") for n in range(50))])
    assert more["split"].to_list()[:400] == pairs
    # 200 seekers at 10 % each: 20 expected, standard deviation 4.2
    assert all(7 <= pairs[0::2].count(s) <= 33 for s in ("validation", "test"))


def test_the_rule_is_said_in_words():
    timed, timeless = conversation("c1", "hi", day=1), conversation("c2", "hi", day=None, source="redial")
    assert splits.rule(conversations(timed)) == "time"
    assert splits.rule(conversations(timeless)) == "seeker hash"
    assert "redial" in splits.rule(conversations(timed, timeless))


def test_a_leak_stops_and_names_who():
    rows = pl.DataFrame({"conversation": ["a", "b"], "seeker": ["ann", "ann"], "split": ["train", "test"]})
    with pytest.raises(ReleaseError, match="ann in test and train"):
        checks.check_leaks(rows)
    checks.check_leaks(rows.with_columns(seeker=pl.lit(None, pl.String)))


# ---- request and answer


def test_the_request_ends_before_the_last_turn_that_adds_an_answer():
    talk = conversation(
        "c", "Hi", f"Try {film('D')}", "More?", f"Also {film('E')}", "Great", "So watch it!", accepted="DE"
    )
    row = only([talk])
    # D stands in the request of the last answer: learning to repeat it would be copying
    assert (row["cut"], letters(row["truth"]), letters(row["named"])) == (3, "E", "D")


def test_accepted_items_go_before_recommended_ones():
    talk = ("Hi", f"Try {film('D')} or {film('E')}", f"{film('E')} it is")
    assert letters(only([conversation("c", *talk, accepted="E")])["truth"]) == "E"
    assert letters(only([conversation("c", *talk)])["truth"]) == "DE"  # found in the text: nobody gave refs


def test_an_item_that_the_seeker_named_first_is_seen_and_no_answer():
    row = only([conversation("c", f"I loved {film('D')}", f"Then {film('D')} fans like {film('E')}", "ok")])
    assert (letters(row["truth"]), letters(row["seen"])) == ("E", "D")


def test_what_has_no_answer_or_no_request_is_counted_and_kept_apart():
    rows = [
        conversation("none", "Hi", "Hello", "Bye"),
        conversation("blank", " ", f"Try {film('D')}", "ok"),
        conversation("good", "Hi", f"Try {film('D')}", "ok"),
    ]
    built, drops = learn(rows)
    assert dict(drops.select("place", "reason").iter_rows()) == {
        "none": "no linked item",
        "blank": "no request before the answer",
    }
    # they stay in `conversations` and `labels`: 3 rows, 1 of which trains
    assert built.height == 3 and built["cut"].is_not_null().sum() == 1


def test_an_answer_given_as_ids_only_makes_the_whole_talk_the_request():
    row = only([conversation("c", "Hi", "Sure", "Comedies please", accepted="D")])
    assert (row["cut"], letters(row["truth"])) == (3, "D")


# ---- labels


def test_only_evidence_in_the_request_makes_a_trait_known():
    talk = conversation("c", "I faint at blood", f"Try {film('D')}", "No needles though", accepted="D")
    said = [
        label(talk, "gore", quote="faint at blood"),
        label(talk, "needles", quote="No needles"),
        label(talk, "medical_trauma"),  # present, but nobody marked where
        label(talk, "sad_endings", verdict=None, reviews=["r1", "r2"]),
        label(talk, "hate_speech", verdict=None, reviews=["r3"]),
        label(talk, "animal_harm", verdict="unsure"),
        label(talk, "torture", verdict="absent"),
    ]
    row = only([talk], said, voiced=["r2"])  # r2 saw sad endings; r3, alone, saw no hate speech
    assert (row["traits"], row["form"]) == (["gore"], ["implicit"])
    assert row["late_traits"] == ["medical_trauma", "needles"]
    assert row["at_risk"] == ["animal_harm", "gore", "medical_trauma", "needles", "sad_endings"]


def test_a_label_on_another_text_is_unresolved_again():
    talk = conversation("c", "I faint at blood", f"Try {film('D')}", "ok")
    known = release.current(labels(label(talk, quote="faint", digest="older")), conversations(talk))
    row = known.row(0, named=True)
    assert (row["verdict"], row["method"], row["spans"], row["form"]) == (None, "unresolved", [], None)


# ---- lists


def test_a_safe_list_holds_only_what_is_clear_for_this_person():
    hurt = conversation("c", "I faint at blood", f"Try {film('A')}, {film('D')} or {film('L')}", "ok", accepted="ADL")
    row = only([hurt], [label(hurt, quote="faint")])
    # A is violated, L unknown: one of three stays, four are refilled; the raw list keeps all three
    assert (letters(row["safe"])[0], row["safe_refilled"], len(row["safe"])) == ("D", 4, 5)
    assert not set(letters(row["safe"])) & set("ABCL")
    assert (letters(row["raw"])[:3], row["raw_refilled"], len(row["raw"])) == ("ADL", 2, 5)
    assert letters(row["safe_truth"]) == "D"


def test_an_unresolved_trait_filters_the_targets_but_is_no_trait():
    hurt = conversation("c", "Hm", f"Try {film('A')} or {film('D')}", "ok", accepted="AD")
    row = only([hurt], [label(hurt, verdict=None, reviews=["r"])], voiced=["r"])
    assert row["traits"] == row["late_traits"] == [] and "A" not in letters(row["safe"])
    # the truth to score against is filtered by what was found present only
    assert letters(row["safe_truth"]) == "AD"


def test_lists_are_filled_by_company_then_popularity_of_the_training_split():
    rows = [
        conversation("a", "Hi", f"Try {film('D')} and {film('K')}", "ok", day=0),
        conversation("b", "Hi", f"Try {film('D')} and {film('K')}", "ok", day=1),
        conversation("d", "Hi", f"Try {film('D')} and {film('J')}", "ok", day=2),
        *(conversation(f"e{n}", "Hi", f"Try {film('I')}", "ok", day=3) for n in range(5)),
        conversation("v", f"I saw {film('I')}", f"Try {film('D')}", "ok", day=8),  # validation
        conversation("t", "Hi", f"Try {film('D')} and {film('H')}", "ok", day=9),  # test: H was never with D in train
    ]
    built, _ = learn(rows)
    lists = dict(built.select("conversation", "raw").iter_rows())
    # K goes twice with D, J once; then by popularity: I (5). H of the test split counts for nothing: the rest is by id
    assert letters(lists["t"])[:5] == "DHKJI"
    assert letters(lists["v"])[:3] == "DKJ" and "I" not in letters(lists["v"])  # seen


def test_a_list_stays_short_rather_than_unsafe():
    talk = conversation("c", "Hi", f"Try {film('D')}", "ok")
    row = only([talk], [label(talk, "needles", verdict="unsure")])
    assert (row["safe"], row["safe_refilled"]) == ([], 0)  # nobody was ever asked about needles: all unknown


def test_items_of_another_domain_do_not_fill_a_list():
    items, _ = catalog.merge(
        world.catalog().with_columns(domain=pl.when(source_id="E").then(pl.lit("game")).otherwise("domain"))
    )
    rows, _ = learn([conversation("c", "Hi", f"Try {film('D')}", "ok")])
    bare = rows.drop("answer_domain", "safe", "safe_refilled", "raw", "raw_refilled", "safe_truth")
    oracle = violations.oracle(items["item"].to_list(), ["gore"], np.ones((12, 1), np.int8))
    filled = targets.fill(bare, targets.candidates(bare, items, oracle), 12).row(0, named=True)
    assert len(filled["raw"]) == 11 and "E" not in letters(filled["raw"])


def test_what_is_remembered_of_each_kind_of_person_does_not_grow_with_the_catalog(monkeypatch):
    """Lists are the same where one popular item is remembered and where all are: who needs more looks again."""
    rows = [
        conversation(f"c{n}", f"I saw {film('L')} and {film('K')}", f"Try {film('D')}", "ok", day=n) for n in range(4)
    ]
    items, _ = catalog.merge(world.catalog())
    oracle = violations.oracle(items["item"].to_list(), ["gore", "needles"], np.ones((12, 2), np.int8))
    filled, _ = learn(rows)
    risks = pl.Series("at_risk", [[], ["gore"], ["needles"], ["gore", "needles"]])
    bare = filled.drop("answer_domain", "safe", "safe_refilled", "raw", "raw_refilled", "safe_truth").with_columns(
        risks
    )
    wanted = targets.fill(bare, targets.candidates(bare, items, oracle), 12)
    assert wanted["safe"].list.len().to_list() == [10] * 4  # all but K and L, which were seen
    monkeypatch.setattr(targets, "_FEW", 1)
    shelf = targets.candidates(bare, items, oracle)
    assert targets.fill(bare, shelf, 12).equals(wanted)
    assert {len(kept) for kept in shelf.fit.values()} == {1} and len(shelf.fit) == 4


# ---- the command


@pytest.fixture
def ws(workspace):
    return world.fill(workspace, *world.requests())


def test_a_release_counts_what_went_in_and_a_second_run_adds_nothing(ws, cli):
    first = cli("release", "1.0.0", "-C", ws.root, "--json")
    assert first.code == 0, first.err
    assert (first.json["in"], first.json["out"], first.json["added"]) == (40, 40, 40)
    again = cli("release", "1.0.0", "-C", ws.root, "--json").json
    assert (again["added"], again["skipped"], again["out"]) == (0, 40, 40)
    manifest = json.loads((ws.releases / "1.0.0/manifest.json").read_text())
    # 40 requests by time: 4 test, 4 validation
    assert manifest["counts"]["sft"] == {"train": 32, "validation": 4, "test": 4}
    assert (manifest["simulated"], manifest["demo"], manifest["split_rule"]) == (False, False, "time")
    assert manifest["labels"]["gore"] == {"present": 20, "absent": 20, "unsure": 0, "unresolved": 0}


def test_drops_balance_and_are_kept(ws, cli):
    extra = [
        conversation("mute", "Hi", "Hello", "Bye", day=1),
        conversation("early", "Hi", "Hm", "o", day=0, seeker="p39"),
    ]
    store.append(ws, tables.CONVERSATIONS, conversations(*extra))
    said = cli("release", "1.0.0", "--unreviewed", "-C", ws.root, "--json").json
    assert said["dropped"] == {"no linked item": 1, "straddles split": 1}
    assert said["in"] == said["out"] + 2 == 42
    assert store.read(ws, tables.DROPS).filter(stage="release").height == 2


def test_a_changed_content_needs_a_higher_version(ws, cli):
    cli("release", "1.0.0", "-C", ws.root)
    before = (ws.releases / "1.0.0/SHA256SUMS").read_bytes()
    store.append(ws, tables.CONVERSATIONS, conversations(conversation("new", "Hi", f"Try {film('D')}", "ok", day=99)))
    ran = cli("release", "1.0.0", "-C", ws.root)
    assert ran.code == 1 and "higher version" in ran.err
    assert (ws.releases / "1.0.0/SHA256SUMS").read_bytes() == before
    assert cli("release", "1.1.0", "--unreviewed", "-C", ws.root).code == 0
    log = (ws.releases / "1.1.0/CHANGELOG.md").read_text()
    assert "- sft: 41 rows (+1)" in log and "- sft: 40 rows\n" in log


@pytest.mark.parametrize("version", ["1.0", "v1.0.0", "1.0.0-rc1", "01.0.0", "1.0.0\n", "../1.0.0", "١.0.0"])
def test_a_version_is_three_numbers(ws, cli, version):
    ran = cli("release", version, "-C", ws.root)
    assert ran.code == 1 and "MAJOR.MINOR.PATCH" in ran.err
    assert not ws.releases.exists()


def test_no_labels_no_release(workspace, cli):
    world.fill(workspace, world.requests()[0], [])
    ran = cli("release", "1.0.0", "-C", workspace.root)
    assert ran.code == 1 and "saferec-build adjudicate" in ran.err


def test_a_label_of_nothing_that_is_there_stops(ws, cli):
    lost = label(conversation("gone", "Hi"))
    store.append(ws, tables.LABELS, labels(lost))
    ran = cli("release", "1.0.0", "-C", ws.root)
    assert ran.code == 1 and "first gone" in ran.err and "mine" in ran.err


def test_a_label_of_an_unknown_trait_stops(ws, cli):
    store.append(ws, tables.LABELS, labels(label(world.requests()[0][0], trait="mice")))
    ran = cli("release", "1.0.0", "-C", ws.root)
    assert ran.code == 1 and "'mice'" in ran.err


def _build(root, threads, code="pass"):
    run = f"sys.argv = ['x', 'release', '1.0.0', '-C', {str(root)!r}]; main()"
    text = f"import sys; {code}\nfrom saferec_builder.cli.app import main\n{run}"
    env = os.environ | {"POLARS_MAX_THREADS": str(threads), "PYTHONHASHSEED": str(threads)}
    return subprocess.run([sys.executable, "-c", text], env=env, capture_output=True, text=True, timeout=120)


def _bytes(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.slow
def test_two_builds_are_the_same_bytes(ws, tmp_path):
    shutil.copytree(ws.root, tmp_path / "other")
    for root, threads in ((ws.root, 1), (tmp_path / "other", 4)):
        ran = _build(root, threads)
        assert ran.returncode == 0, ran.stderr
    assert _bytes(ws.releases / "1.0.0") == _bytes(tmp_path / "other/releases/1.0.0")


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["exports.folder.sha256", "exports.folder.sync", "os.replace"])
def test_a_killed_build_leaves_nothing_that_counts(ws, tmp_path, cli, moment):
    shutil.copytree(ws.root, tmp_path / "calm")
    assert _build(tmp_path / "calm", 1).returncode == 0
    place, name = moment.rsplit(".", 1)
    kill = (
        f"import os, signal, exports.folder, {place} as m; m.{name} = lambda *a: os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert _build(ws.root, 1, kill).returncode == -signal.SIGKILL
    assert not list(ws.releases.glob("*/manifest.json"))
    assert cli("publish", "--to", tmp_path / "out", "-C", ws.root).code == 1
    assert _build(ws.root, 1).returncode == 0
    assert _bytes(ws.releases) == _bytes(tmp_path / "calm/releases")


def test_a_dataset_that_outgrows_its_boundaries_is_told(cli, workspace):
    """What is mined later all lies behind the boundaries, and the command told of rows in all, not of the splits."""
    rows, said = world.requests(80)
    world.fill(workspace, rows[:40], said[:40])
    at = ("-C", workspace.root, "--json")
    first = cli("release", "1.0.0", *at).json
    # 40 days: the last 4 are test, the 4 before them validation
    assert first["splits"] == {"train": 32, "validation": 4, "test": 4} and "next" not in first
    store.append(workspace, tables.CONVERSATIONS, conversations(*rows[40:]))
    store.append(workspace, tables.LABELS, labels(*said[40:]))
    later = cli("release", "1.1.0", *at).json
    assert later["splits"] == {"train": 32, "validation": 4, "test": 44}  # 44 of 80
    assert later["next"].startswith("55% of the requests are test, for the boundaries are those of 1.0.0: --resplit")
    assert cli("release", "2.0.0", "--resplit", *at).json["splits"] == {"train": 64, "validation": 8, "test": 8}

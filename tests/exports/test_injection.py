"""Injected sentences: each split has its own, and injected rows are marked."""

import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from exports import injection as inject
from saferec_builder.core import taxonomy as traits
from saferec_builder.core.errors import UsageError
from saferec_builder.core.oracle import CLEAR, VIOLATED, oracle
from saferec_builder.mining import splits
from tests.worlds import release_world as world
from tests.worlds.release_rows import manifest, rows_of

SLUGS = traits.load().slugs
BANKS = inject.banks()


def test_the_banks_are_apart_and_name_no_trait():
    assert set(BANKS.sentences) == set(SLUGS)
    pairs = [(s, split) for bank in BANKS.sentences.values() for split in splits.SPLITS for s in bank[split]]
    texts = [s.text for s, _ in pairs]
    # six sentences for each of 20 traits; for eight traits eight more by each of twelve writers
    assert len(set(texts)) == len(texts) == 20 * 6 + 8 * 12 * 8
    assert {s.form for s, _ in pairs} <= {"explicit", "implicit", "story"}
    texts = [s.text for s, _ in pairs if s.form != "explicit"]
    names = [n.lower() for t in traits.load().traits for n in (t.slug, t.name, t.slug.replace("_", " "), t.safecrs)]
    assert not [(s, n) for s in texts for n in names if n in s.lower()]


@pytest.mark.slow
def test_injected_rows_are_marked_apart_and_respect_every_added_trait(workspace, cli):
    ws = world.fill(workspace, *world.requests())
    result = cli("release", "1.0.0", "--inject", "gore,needles", "-C", ws.root, "--json").json
    # every second of 40 people has a sensitivity of their own: 20 are left to inject
    assert result["conditions"] == {"own_words": 20, "none": 20, "injected": 20} and result["out"] == 40
    grpo = pl.read_parquet(ws.releases / "1.0.0/data/grpo/train.parquet")
    conditions = grpo["condition"].to_list()
    assert conditions == [c for c in conditions if c != "injected"] + ["injected"] * conditions.count("injected")
    injected = grpo.filter(condition="injected")
    assert not set(injected["conversation"]) & set(grpo.filter(pl.col("condition") != "injected")["conversation"])
    assert set(injected["made_from"]) <= set(grpo.filter(condition="none")["conversation"])
    for row in injected.iter_rows(named=True):
        last = row["prompt"][-1]["content"]
        bank = BANKS.sentences
        assert all(any(s.text in last for s in bank[t]["train"]) for t in row["traits"])
        assert set(row["traits"]) <= {"gore", "needles"}
    unsafe = {world.item(letter) for letter in "ABCL"}  # violated or unknown for gore
    gory = injected.filter(pl.col("traits").list.contains("gore"))
    assert gory.height and not any(set(row) & unsafe for row in gory["safe_truth"])
    labels = pl.read_parquet(ws.releases / "1.0.0/data/labels/train.parquet")
    assert not set(injected["conversation"]) & set(labels["conversation"])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("gor", "'gor': no sentences for this trait: did you mean gore? expected one of all, "),
        ("needles,gor", "'gor': no sentences for this trait: did you mean gore? expected one of "),
        ("All", "'All': no sentences for this trait: did you mean all? expected one of all, "),
        ("all,gore", "'all,gore': expected `all` alone, or some of "),
        (" , ", "' , ': expected `all` alone, or some of "),
    ],
)
def test_a_choice_that_is_none_is_told_what_would_be(words, told):
    """For `all,gore` the message was: did you mean all? expected one of all."""
    with pytest.raises(UsageError) as fault:
        inject.chosen(words, SLUGS, BANKS)
    assert str(fault.value).startswith(f"--inject {told}") and "gore, " in str(fault.value)
    assert inject.chosen("gore, needles,gore", SLUGS, BANKS) == ["gore", "needles"]  # a manifest had gore twice
    assert inject.chosen(" all", SLUGS, BANKS) == [slug for slug in SLUGS if slug in BANKS.sentences]


def test_one_request_in_four_gets_a_second_trait():
    picked = {number: "".join(inject.picked(number, "abc")) for number in (0, 1, 3, 12, 13, 24)}
    assert picked == {0: "ab", 1: "ba", 3: "a", 12: "ac", 13: "bc", 24: "ab"} and inject.picked(0, "a") == ["a"]


def test_a_trait_that_a_request_may_ask_for_is_not_injected():
    codes = np.array([[VIOLATED, CLEAR], [CLEAR, CLEAR]], np.int8)
    known, choice = oracle(["x", "y"], ["gore", "needles"], codes), inject.Choice(["gore", "needles"], BANKS)
    patterns = inject.Banks(BANKS.sentences, {"needles": re.compile("splinters")})
    assert inject.wanted("a calm film", ["y"], choice, known) == set()
    assert inject.wanted("a calm film", ["y", "x"], choice, known) == {"gore"}
    assert inject.wanted("with splinters", [], replace(choice, banks=patterns), known) == {"needles"}


@pytest.mark.slow
@pytest.mark.parametrize("verdict", ["present", "unsure"])
def test_nobody_with_a_sensitivity_in_another_conversation_is_injected(workspace, cli, verdict):
    """The safe list of an injected row respects only the injected traits: it may contain what this person can't see."""
    rows, labels = world.requests(20)
    for row in rows[:10]:  # five people disclosed something in the second of their two conversations
        row["seeker"] = rows[int(row["conversation"][1:]) // 2 * 2]["seeker"]
    rows[12]["seeker"] = rows[14]["seeker"] = None  # unknown seekers: each counts as another person
    # the other five, with one conversation each, have a label on gore
    early_labels = [label | ({"verdict": verdict} if label["verdict"] == "present" else {}) for label in labels[:10]]
    ws = world.fill(workspace, rows, [*early_labels, *labels[10:]])
    args = ("--inject", "needles", "--allow", "no-safety", "-C", ws.root, "--json")
    assert cli("release", "1.0.0", *args).json["conditions"]["injected"] == 5  # 12, 14, 16, 18 and 10: not 0 to 8
    made_from = rows_of(ws, "grpo").filter(condition="injected")["made_from"]
    assert sorted(made_from) == sorted(world.released(ws, "c010", "c012", "c014", "c016", "c018"))


@pytest.mark.slow
@pytest.mark.parametrize("source", ["messages", "hf:chats"])
def test_a_row_that_is_missing_tells_nothing_that_the_release_does_not(workspace, cli, source):
    """c001 was removed on request: the only row without an injected row revealed another post of its person. Where
    texts stay with their source, the person of a conversation is not released."""
    rows, labels = world.requests()
    rows = [row | {"source": source} for row in rows]
    if source == "messages":
        rows[0]["seeker"] = "p1"
        (workspace.root / "removals.csv").write_text("source,source_id,author\nmessages,c001,\n")
    else:
        rows[0]["seeker"] = rows[2]["seeker"] = "p3"
    ws = world.fill(workspace, rows, labels)
    world.for_few(ws)
    args = ("--inject", "needles", "--allow", "no-safety", "-C", ws.root, "--json")
    assert cli("release", "1.0.0", *args).json["conditions"]["injected"] == 20
    made_from = rows_of(ws, "grpo").filter(condition="injected")["made_from"]
    assert world.released(ws, "c000")[0] in made_from


@pytest.mark.slow
def test_a_second_message_to_disclose_in_adds_rows_and_renames_none(workspace, cli):
    """With `both`, the row of a request with one message was called `first`: no row of the release before was left."""
    rows, labels = world.requests()
    answer = f"Try {world.film('D')}"
    rows[0] = world.conversation("c000", "Hi", "What do you like?", "Comedies", answer, "ok", seeker="p0", accepted="D")
    ws = world.fill(workspace, rows, [labels[0] | {"digest": rows[0]["digest"]}, *labels[1:]])
    args = ("--inject", "needles", "--allow", "no-safety", "-C", ws.root)
    assert cli("release", "1.0.0", *args).code == 0
    world.configured(ws, '# disclosed = "last"', 'disclosed = "both"')
    result = cli("release", "1.1.0", *args)
    assert result.code == 0, result.err
    before, after = (rows_of(ws, "grpo", version).filter(condition="injected") for version in ("1.0.0", "1.1.0"))
    new = after.join(before, on=["conversation", "disclosed"], how="anti")
    assert (after.height, new["disclosed"].to_list()) == (before.height + 1, ["first"])
    assert new["made_from"].to_list() == world.released(ws, "c000")


@pytest.mark.slow
def test_injected_traits_that_no_item_is_clear_for_are_counted_and_said(workspace, cli):
    """Only gore has warnings: no answer to a row with needles is known to be safe."""
    ws = world.fill(workspace, *world.requests())
    result = cli("release", "1.0.0", "--inject", "gore,needles", "-C", ws.root)
    grpo, sft = rows_of(ws, "grpo"), rows_of(ws, "sft")
    needles = grpo.filter(pl.col("traits").list.contains("needles"))["conversation"]
    short = grpo.height - sft.height
    assert 0 < needles.len() <= short and not set(needles) & set(sft["conversation"])
    assert f"  no clear item: for {short} requests, which are in `grpo` only; none at all for some injec" in result.out
    assert f"to which no answer is safe (rows: needles {needles.len()}): add warnings that clear items" in result.out
    facts = manifest(ws)
    assert (facts["short_of_clear"], facts["injected_unclear"]) == (short, {"needles": needles.len()})
    card = (ws.releases / "1.0.0/README.md").read_text()
    assert f"clear for `needles` (in {needles.len()} of these rows): no answer to" in card
    assert f"{short} requests have no item that is clear for them" in card

"""Rare combinations of traits are withheld, and a withheld trait is not `absent`."""

import random
from collections import Counter
from itertools import combinations

import polars as pl
import pytest

from exports import rare_combinations as rare
from exports.folder import facts_of
from saferec_builder.storage import workspace as store
from tests.conftest import Cli
from tests.worlds import release_world as world
from tests.worlds.release_rows import rows_of

ALONE = {("gore",): 3, ("needles",): 2, ("spiders_snakes",): 2, ("gore", "needles"): 1, ("gore", "spiders_snakes"): 1}


def people() -> dict[str, frozenset[str]]:
    rows = [traits for traits, n in ALONE.items() for _ in range(n)]
    return {f"p{n}": frozenset(traits) for n, traits in enumerate(rows)}


def at_risk(said: list[dict[str, str]]) -> pl.DataFrame:
    """Labels in the form that build_rows.current returns."""
    return pl.DataFrame(said).with_columns(at_risk=pl.col("verdict") != "absent")


def test_the_rarest_trait_goes_and_equals_are_joined():
    """k = 2. Of the two people alone one loses the spiders (3 have them, 5 gore), then the other the needles."""
    traits = {name: (slugs, False) for name, slugs in people().items()}
    result = rare.generalised(traits, {name: name for name in traits}, 2)
    assert result["p7"] == result["p8"] == (frozenset({"gore"}), True)
    assert {result[f"p{n}"] for n in range(7)} == {(frozenset(slugs), False) for slugs in ALONE if len(slugs) == 1}


@pytest.mark.parametrize("k", [2, 5, 10])
@pytest.mark.parametrize("seed", range(4))
def test_all_that_is_told_is_told_of_k_people(k: int, seed: int):
    rng = random.Random(seed)
    subsets = [frozenset(shown) for n in (1, 2, 3) for shown in combinations("abcdefgh", n)]
    traits = {f"p{n}": rng.choice(subsets[: 8 + 10 * seed]) for n in range(150)}
    people = {name: rng.choice("vwxyz") + name[-1] for name in traits}  # 50 people, some with one conversation
    result = rare.generalised({name: (shown, False) for name, shown in traits.items()}, people, k)
    assert all(shown <= traits[name] and hidden == (shown != traits[name]) for name, (shown, hidden) in result.items())
    groups: dict[rare.Combination, set[str]] = {}
    for name, combination in result.items():
        groups.setdefault(combination, set()).add(people[name])
    assert all(len(members) >= k for (shown, _), members in groups.items() if shown)


@pytest.mark.parametrize("texts", [1, 2, 4])
def test_a_trait_is_told_of_no_few_people_whose_texts_are_released(texts: int):
    """k = 5, five people in all have needles. Those from the source that keeps its texts, fewer than five, are left
    out: otherwise the few with released texts would be the only ones with the trait."""
    public, private = [f"m{n}" for n in range(texts)], [f"r{n}" for n in range(5 - texts)]
    gore = {f"{source}{n}": source for source in "mr" for n in range(10, 16)}
    frame = pl.DataFrame(
        [(name, {"m": "messages", "r": "reddit"}[name[0]], None, "train") for name in (*public, *private, *gore)],
        dict.fromkeys(("conversation", "source", "seeker", "split"), pl.String),
        orient="row",
    )
    rows = [(name, "needles", "present") for name in (*public, *private)] + [(name, "gore", "present") for name in gore]
    labels = at_risk([dict(zip(("subject", "trait", "verdict"), row, strict=True)) for row in rows])
    counts, hidden = rare.withheld(labels, frame, ["reddit"], ["gore", "needles"], 5)
    assert counts == {"needles": texts} and not hidden.reduced  # gore: six people from each source
    assert hidden.left_out == {*private}  # fewer than five people without a released trait
    counts, hidden = rare.withheld(labels, frame, [], ["gore", "needles"], 5)
    assert counts == {}  # all texts are released: five people


@pytest.mark.parametrize("verdict", ["present", "unsure"])
def test_who_has_a_trait_that_is_withheld_everywhere_is_seen_by_what_is_missing(verdict: str):
    """k = 2. A conversation with needles (released for nobody) has labels and no row to learn from. If it is alone, it
    is left out; if it has gore, it needs a second conversation with gore and something withheld."""
    labels = [{"subject": f"g{n}", "trait": "gore", "verdict": "present"} for n in range(4)]
    labels += [
        {"subject": "g0", "trait": "needles", "verdict": verdict},
        {"subject": "x", "trait": "needles", "verdict": verdict},
    ]
    frame = pl.DataFrame({"conversation": ["g0", "g1", "g2", "g3", "x", "y"], "source": "reddit", "split": "train"})
    frame = frame.with_columns(seeker=pl.lit(None, pl.String))
    result = rare.hidden(at_risk(labels), frame, ["reddit"], ["gore"], 2)
    # two without a released trait
    assert result.reduced == {"g0": frozenset(), "x": frozenset()} and not result.left_out
    labels.append({"subject": "g1", "trait": "needles", "verdict": verdict})
    result = rare.hidden(at_risk(labels), frame, ["reddit"], ["gore"], 2)
    assert result.reduced == dict.fromkeys(("g0", "g1"), frozenset({"gore"})) and result.left_out == {"x"}
    result = rare.hidden(at_risk(labels), frame, ["reddit"], ["gore", "needles"], 9)
    assert result.facts["left_out"] == 5 - (verdict == "unsure")


def test_conversations_of_one_person_are_no_crowd():
    """k = 2. Gore twice of one person, needles of two; gore and needles in separate conversations do not combine."""
    traits = {"a1": ["gore"], "a2": ["gore"], "b1": ["needles"], "c1": ["needles"], "b2": ["gore"]}
    labels = [{"subject": name, "trait": t, "verdict": "present"} for name, slugs in traits.items() for t in slugs]
    frame = pl.DataFrame({"conversation": list(traits), "source": "reddit", "split": "train"})
    frame = frame.with_columns(seeker=pl.col("conversation").str.head(1))
    result = rare.hidden(at_risk(labels), frame, ["reddit"], ["gore", "needles"], 2)
    assert result.reduced == {} and not result.left_out and result.facts["people"] == 3
    without_b2 = frame.filter(pl.col("conversation") != "b2")
    result = rare.hidden(at_risk(labels), without_b2, ["reddit"], ["gore", "needles"], 2)
    assert result.left_out == {"a1", "a2"} and not result.reduced  # one person: no trait can be released


def test_who_is_known_by_their_split_is_not_told_of_alone():
    """k = 2. Six in train and two in test share gore, one in each gore and needles, two in train only needles: whoever
    knows that somebody wrote late, and their gore, would learn of their needles in test, where only one has them."""
    has = {f"train{n}": ["gore"] for n in range(6)} | {f"test{n}": ["gore"] for n in range(2)}
    has |= {"train6": ["gore", "needles"], "test2": ["gore", "needles"], "train7": ["needles"], "train8": ["needles"]}
    labels = [{"subject": name, "trait": t, "verdict": "present"} for name, slugs in has.items() for t in slugs]
    frame = pl.DataFrame({"conversation": list(has), "source": "reddit", "split": [name[:-1] for name in has]})
    frame = frame.with_columns(seeker=pl.lit(None, pl.String))
    of_one = frame.with_columns(split=pl.lit("train"))
    one_split = rare.hidden(at_risk(labels), of_one, ["reddit"], ["gore", "needles"], 2)
    assert one_split.reduced == {} and one_split.facts["withheld"] == 0  # in one split the two share the combination
    two_splits = rare.hidden(at_risk(labels), frame, ["reddit"], ["gore", "needles"], 2)
    # with a trait withheld each is alone in its split, even with no trait left: both are left out
    assert two_splits.left_out == {"train6", "test2"} and not two_splits.reduced and two_splits.facts["withheld"] == 4


def silent(ws: store.Workspace, cli: Cli, least: int, *, source: str = "reddit") -> store.Workspace:
    """A release of the nine `people`, one conversation each, with an `absent` label on every other of three traits."""
    (ws.root / "saferec.toml").write_text(f"[release]\nmin_seekers = {least}\n")
    ws, rows, labels = store.Workspace.open(ws.root), [], []
    for name, traits in people().items():
        turns = (f"I faint, {name}. I liked Film E (2005), what next?", "Try Film D (2004), Film F (2006)", "Thanks!")
        rows.append(world.conversation(name, *turns, day=0, seeker=name, accepted="D", source=source))
        for trait in ("gore", "needles", "spiders_snakes"):
            has = trait in traits
            labels.append(world.label(rows[-1], trait, "present" if has else "absent", "faint" if has else None))
    world.fill(ws, rows, labels)
    result = cli("release", "1.0.0", "--allow", "no-safety", "-C", ws.root)
    assert result.code == 0, result.err
    return ws


@pytest.mark.slow
def test_a_release_without_texts_says_withheld_and_teaches_nothing_of_it(workspace, cli):
    ws = silent(workspace, cli, 2)
    labels, grpo = rows_of(ws, "labels"), rows_of(ws, "grpo")["conversation"]
    for name in world.released(ws, "p7", "p8"):
        row = dict(labels.filter(conversation=name).select("trait", "verdict").iter_rows())
        assert row == {"gore": "present", "needles": "withheld", "spiders_snakes": "withheld"} and name not in grpo
    assert grpo.len() == 7 and rows_of(ws, "conversations").height == 9
    assert labels.filter(verdict="withheld")["method"].unique().to_list() == ["withheld"]
    card = " ".join((ws.releases / "1.0.0" / "README.md").read_text().split())
    assert "Of 2 of 9 people with a trait, 2 of 11 labels `present` are withheld, because fewer than 2 people" in card
    assert cli("verify", ws.releases / "1.0.0").code == 0


def test_who_shares_not_even_nothing_with_others_is_left_out():
    """k = 5: five with gore, five with needles, one with both. This one shares a released combination with nobody."""
    traits = {f"g{n}": ["gore"] for n in range(5)} | {f"n{n}": ["needles"] for n in range(5)}
    traits |= {"x": ["gore", "needles"]}
    labels = [{"subject": name, "trait": t, "verdict": "present"} for name, slugs in traits.items() for t in slugs]
    frame = pl.DataFrame({"conversation": list(traits), "source": "reddit", "split": "train"})
    frame = frame.with_columns(seeker=pl.lit(None, pl.String))
    result = rare.hidden(at_risk(labels), frame, ["reddit"], ["gore", "needles"], 5)
    assert (result.left_out, result.reduced) == (frozenset({"x"}), {})
    facts = {"k": 5, "people": 11, "withheld_of": 1, "traits": 12, "withheld": 2, "left_out": 1}
    assert result.facts == facts
    assert rare.hidden(at_risk(labels), frame, [], ["gore", "needles"], 5).left_out == frozenset()


@pytest.mark.slow
def test_of_k_people_nothing_may_be_told(workspace, cli):
    """k = 3: the 3 with gore stay; needles and spiders (2 each) and the two others end without a released trait. These
    are 6 people, so they stay with three `withheld` each."""
    ws = silent(workspace, cli, 3)
    assert Counter(rows_of(ws, "labels")["verdict"]) == {"present": 3, "absent": 6, "withheld": 18}
    assert facts_of(ws.releases / "1.0.0")["makers"]["unresolved"] == 0  # the release has none: nobody was unsure


def test_a_release_from_which_all_are_left_out_is_made(workspace, cli):
    """As a first try with one person's conversation: the release was there, and the command ended with a traceback."""
    row = world.conversation("c", "I faint at blood", f"Try {world.film('K')}", "ok", source="hf:chats")
    world.fill(workspace, [row], [world.label(row, quote="faint at blood")])
    made = cli("release", "1.0.0", "--allow", "no-safety", "--json", "-C", workspace.root)
    assert (made.code, made.json["dropped"]) == (0, {rare.RARE: 1}), made.err
    linked = cli("linkage", "1.0.0", "-C", workspace.root)
    assert linked.code == 1 and "none of its conversations is mined" in linked.err

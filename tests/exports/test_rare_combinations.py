"""Combinations of traits that few people share are told of nobody, and what is not told is not absent."""

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

ALONE = {("gore",): 3, ("needles",): 2, ("spiders_snakes",): 2, ("gore", "needles"): 1, ("gore", "spiders_snakes"): 1}


def people() -> dict[str, frozenset[str]]:
    rows = [of for of, n in ALONE.items() for _ in range(n)]
    return {f"p{n}": frozenset(of) for n, of in enumerate(rows)}


def at_risk(said: list[dict[str, str]]) -> pl.DataFrame:
    """Labels as build_rows.current gives them."""
    return pl.DataFrame(said).with_columns(at_risk=pl.col("verdict") != "absent")


def test_the_rarest_trait_goes_and_equals_are_joined():
    """k = 2. Of the two who are alone the spiders go (3 have them, 5 gore), then the needles, to the same group."""
    every = {who: (of, False) for who, of in people().items()}
    told = rare.generalised(every, {who: who for who in every}, 2)
    assert told["p7"] == told["p8"] == (frozenset({"gore"}), True)
    assert {told[f"p{n}"] for n in range(7)} == {(frozenset(of), False) for of in ALONE if len(of) == 1}


@pytest.mark.parametrize("k", [2, 5, 10])
@pytest.mark.parametrize("seed", range(4))
def test_all_that_is_told_is_told_of_k_people(k: int, seed: int):
    rng = random.Random(seed)
    every = [frozenset(of) for n in (1, 2, 3) for of in combinations("abcdefgh", n)]
    traits = {f"p{n}": rng.choice(every[: 8 + 10 * seed]) for n in range(150)}
    people = {one: rng.choice("vwxyz") + one[-1] for one in traits}  # 50 people, some with one conversation
    told = rare.generalised({one: (of, False) for one, of in traits.items()}, people, k)
    assert all(of <= traits[one] and hidden == (of != traits[one]) for one, (of, hidden) in told.items())
    by: dict[rare.Combination, set[str]] = {}
    for one, what in told.items():
        by.setdefault(what, set()).add(people[one])
    assert all(len(who) >= k for (of, _), who in by.items() if of)


@pytest.mark.parametrize("texts", [1, 2, 4])
def test_a_trait_is_told_of_no_few_people_whose_texts_are_released(texts: int):
    """k = 5, needles of five people in all. Those of the source that keeps its texts, fewer than five, are left out:
    the others were told of alone, with their texts."""
    mine, theirs = [f"m{n}" for n in range(texts)], [f"r{n}" for n in range(5 - texts)]
    gore = {f"{source}{n}": source for source in "mr" for n in range(10, 16)}
    kept = pl.DataFrame(
        [(one, {"m": "messages", "r": "reddit"}[one[0]], None, "train") for one in (*mine, *theirs, *gore)],
        dict.fromkeys(("conversation", "source", "seeker", "split"), pl.String),
        orient="row",
    )
    said = [(one, "needles", "present") for one in (*mine, *theirs)] + [(one, "gore", "present") for one in gore]
    known = at_risk([dict(zip(("subject", "trait", "verdict"), row, strict=True)) for row in said])
    few, hidden = rare.withheld(known, kept, ["reddit"], ["gore", "needles"], 5)
    assert few == {"needles": texts} and not hidden.told  # of gore six are told on each side
    assert hidden.gone == {*theirs}  # fewer than five of whom nothing may be told
    few, hidden = rare.withheld(known, kept, [], ["gore", "needles"], 5)
    assert few == {}  # all texts are released: five people


@pytest.mark.parametrize("verdict", ["present", "unsure"])
def test_who_has_a_trait_that_is_withheld_everywhere_is_seen_by_what_is_missing(verdict: str):
    """k = 2. A conversation with needles (shown of nobody) has labels and no row to learn from: alone it is left out,
    of two with gore it is one of the two with gore and something withheld, where there are two."""
    said = [{"subject": f"g{n}", "trait": "gore", "verdict": "present"} for n in range(4)]
    said += [
        {"subject": "g0", "trait": "needles", "verdict": verdict},
        {"subject": "x", "trait": "needles", "verdict": verdict},
    ]
    kept = pl.DataFrame({"conversation": ["g0", "g1", "g2", "g3", "x", "y"], "source": "reddit", "split": "train"})
    kept = kept.with_columns(seeker=pl.lit(None, pl.String))
    found = rare.hidden(at_risk(said), kept, ["reddit"], ["gore"], 2)
    assert found.told == {"g0": frozenset(), "x": frozenset()} and not found.gone  # two of whom nothing is told
    said.append({"subject": "g1", "trait": "needles", "verdict": verdict})
    found = rare.hidden(at_risk(said), kept, ["reddit"], ["gore"], 2)
    assert found.told == dict.fromkeys(("g0", "g1"), frozenset({"gore"})) and found.gone == {"x"}
    assert rare.hidden(at_risk(said), kept, ["reddit"], ["gore", "needles"], 9).facts["left_out"] == 5 - (
        verdict == "unsure"
    )


def test_conversations_of_one_person_are_no_crowd():
    """k = 2. Gore twice of one person, needles of two; and gore with needles, in two conversations each, is no pair."""
    traits = {"a1": ["gore"], "a2": ["gore"], "b1": ["needles"], "c1": ["needles"], "b2": ["gore"]}
    said = [{"subject": one, "trait": t, "verdict": "present"} for one, of in traits.items() for t in of]
    kept = pl.DataFrame({"conversation": list(traits), "source": "reddit", "split": "train"})
    kept = kept.with_columns(seeker=pl.col("conversation").str.head(1))
    found = rare.hidden(at_risk(said), kept, ["reddit"], ["gore", "needles"], 2)
    assert found.told == {} and not found.gone and found.facts["people"] == 3
    alone = kept.filter(pl.col("conversation") != "b2")
    found = rare.hidden(at_risk(said), alone, ["reddit"], ["gore", "needles"], 2)
    assert found.gone == {"a1", "a2"} and not found.told  # one person, and of one nothing can be told


def test_who_is_known_by_their_split_is_not_told_of_alone():
    """k = 2. Six in train and two in test share gore, one in each gore and needles, two in train needles alone: whoever
    knows that somebody wrote late, and of the gore, would learn of the needles in test, where one has them."""
    has = {f"train{n}": ["gore"] for n in range(6)} | {f"test{n}": ["gore"] for n in range(2)}
    has |= {"train6": ["gore", "needles"], "test2": ["gore", "needles"], "train7": ["needles"], "train8": ["needles"]}
    said = [{"subject": who, "trait": t, "verdict": "present"} for who, of in has.items() for t in of]
    kept = pl.DataFrame({"conversation": list(has), "source": "reddit", "split": [who[:-1] for who in has]})
    kept = kept.with_columns(seeker=pl.lit(None, pl.String))
    one = rare.hidden(at_risk(said), kept.with_columns(split=pl.lit("train")), ["reddit"], ["gore", "needles"], 2)
    assert one.told == {} and one.facts["withheld"] == 0  # in one split the two are two
    two = rare.hidden(at_risk(said), kept, ["reddit"], ["gore", "needles"], 2)
    # with a trait withheld they are alone in their split, even of nobody else nothing is told there: both are left out
    assert two.gone == {"train6", "test2"} and not two.told and two.facts["withheld"] == 4


def silent(ws: store.Workspace, cli: Cli, least: int, *, source: str = "reddit") -> store.Workspace:
    """A release of these nine people, one conversation each, with an absent label on every other trait of the three."""
    (ws.root / "saferec.toml").write_text(f"[release]\nmin_seekers = {least}\n")
    ws, rows, said = store.Workspace.open(ws.root), [], []
    for who, traits in people().items():
        talk = (
            who,
            f"I faint, {who}. I liked Film E (2005), what next?",
            "Try Film D (2004), Film F (2006)",
            "Thanks!",
        )
        rows.append(world.conversation(*talk, day=0, seeker=who, accepted="D", source=source))
        for trait in ("gore", "needles", "spiders_snakes"):
            here = trait in traits
            said.append(world.label(rows[-1], trait, "present" if here else "absent", "faint" if here else None))
    world.fill(ws, rows, said)
    ran = cli("release", "1.0.0", "--allow", "no-safety", "-C", ws.root)
    assert ran.code == 0, ran.err
    return ws


def rows_of(ws: store.Workspace, config: str) -> pl.DataFrame:
    return pl.read_parquet(ws.releases / "1.0.0" / "data" / config / "*.parquet")


def test_a_release_without_texts_says_withheld_and_teaches_nothing_of_it(workspace, cli):
    ws = silent(workspace, cli, 2)
    labels, asked = rows_of(ws, "labels"), rows_of(ws, "grpo")["conversation"]
    for who in world.released(ws, "p7", "p8"):
        told = dict(labels.filter(conversation=who).select("trait", "verdict").iter_rows())
        assert told == {"gore": "present", "needles": "withheld", "spiders_snakes": "withheld"} and who not in asked
    assert asked.len() == 7 and rows_of(ws, "conversations").height == 9
    assert labels.filter(verdict="withheld")["method"].unique().to_list() == ["withheld"]
    card = " ".join((ws.releases / "1.0.0" / "README.md").read_text().split())
    assert "Of 2 of 9 people with a trait, 2 of 11 labels `present` are withheld, because fewer than 2 people" in card
    assert cli("verify", ws.releases / "1.0.0").code == 0


def test_who_shares_not_even_nothing_with_others_is_left_out():
    """k = 5: of 5 with gore, 5 with needles and one with both, that one could be told with nobody."""
    traits = {f"g{n}": ["gore"] for n in range(5)} | {f"n{n}": ["needles"] for n in range(5)}
    traits |= {"x": ["gore", "needles"]}
    said = [{"subject": who, "trait": t, "verdict": "present"} for who, of in traits.items() for t in of]
    kept = pl.DataFrame({"conversation": list(traits), "source": "reddit", "split": "train"})
    kept = kept.with_columns(seeker=pl.lit(None, pl.String))
    found = rare.hidden(at_risk(said), kept, ["reddit"], ["gore", "needles"], 5)
    assert (found.gone, found.told) == (frozenset({"x"}), {})
    facts = {"k": 5, "people": 11, "withheld_of": 1, "traits": 12, "withheld": 2, "left_out": 1}
    assert found.facts == facts
    assert rare.hidden(at_risk(said), kept, [], ["gore", "needles"], 5).gone == frozenset()


def test_of_k_people_nothing_may_be_told(workspace, cli):
    """k = 3: gore 3 stay; needles and spiders (2 each) and the two others end with nothing: these are 6, so they stay
    with three `withheld` each."""
    ws = silent(workspace, cli, 3)
    assert Counter(rows_of(ws, "labels")["verdict"]) == {"present": 3, "absent": 6, "withheld": 18}
    assert facts_of(ws.releases / "1.0.0")["makers"]["unresolved"] == 0  # the release tells none: nobody was unsure


def test_a_release_with_texts_withholds_no_combination(workspace, cli):
    labels = rows_of(silent(workspace, cli, 2, source="messages"), "labels")
    assert Counter(labels["verdict"]) == {"present": 11, "absent": 16}

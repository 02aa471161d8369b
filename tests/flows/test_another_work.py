"""A title that may be another work's: whoever judges it, it may be violated and is never clear."""

import random

import numpy as np
import polars as pl
import pytest

from saferec_builder import catalog
from saferec_builder.catalog.merging import LINKS
from saferec_builder.core import oracle as violations, taxonomy as traits, titles
from saferec_builder.core.oracle import CLEAR, UNKNOWN, VERDICTS, VIOLATED
from saferec_builder.scoring import answers
from saferec_builder.scoring.metrics import columns, judge
from saferec_builder.storage import tables
from training.evaluation import baselines, rewards
from training.evaluation.rewards import Weights

# one that is clear for gore and one that breaks it, of each kind of entry: dated, with an alternate title, without year
SHELF = [
    ("a", "Amber Hill", 1990, "film", ()),
    ("b", "Bitter Root", 1990, "film", ()),
    ("c", "Cold Lake (Lago Frio)", 2001, "film", ("The Long Lake",)),
    ("d", "Dark Barn (Il Granaio)", 2001, "film", ("The Red Barn",)),
    ("e", "Eel Quest", None, "game", ()),
    ("f", "Fury Pit", None, "game", ()),
    ("g", "Glass Road", 2010, "film", ("Glass Road (2012)",)),
]
CODES = np.array([[CLEAR], [VIOLATED], [CLEAR], [VIOLATED], [CLEAR], [VIOLATED], [CLEAR]], np.int8)
ORACLE = violations.oracle([row[0] for row in SHELF], ["gore"], CODES)
INDEX = titles.index(SHELF)
FIND = answers.finder(INDEX)
WORST = {"a": UNKNOWN, "c": UNKNOWN, "e": UNKNOWN, "g": UNKNOWN, "b": VIOLATED, "d": VIOLATED, "f": VIOLATED}


def read(title, domain="film"):
    """The ids of an answer that is this one title."""
    return answers.parse(f"1. {title}", FIND, domain).ranked


def verdict(title, domain="film"):
    """The word of every consumer that judges a written title, which must be one."""
    ranked = read(title, domain)
    row = {"traits": ["gore"], "truth": [], "safe_truth": [], "seen": [], "conversation": "u"}
    judged = judge([ranked], columns([row]), ORACLE, 1)
    metric = VIOLATED if judged.violated[0, 0] else UNKNOWN if judged.unsure[0, 0] else CLEAR
    lost = float(rewards.safety(judged, Weights(rho=0.5))[0])  # -1 violated, -.5 unknown, 0 clear, at rank 1
    reward = {-1.0: VIOLATED, -0.5: UNKNOWN, 0.0: CLEAR}[lost]
    kept = baselines.oracle_filter([ranked], [row], ORACLE, 1)["u"]
    words = {VERDICTS[metric], VERDICTS[reward], VERDICTS[violations.verdicts(ORACLE, ranked, ["gore"])[0]]}
    assert len(words) == 1 and (kept != []) == (words == {"clear"}), title
    return words.pop()


@pytest.mark.parametrize(
    ("title", "item"),
    [
        ("Amber Hill (1991)", "a"),
        ("Amber Hill (1988)", "a"),
        ("Bitter Root (1992)", "b"),
        ("Amber Hill (fan cut) (1990)", "a"),
        ("Bitter Root (fan cut) (1990)", "b"),
        ("Cold Lake (Other Name) (2001)", "c"),
        ("Eel Quest (1999)", "e"),  # of a film, where the catalog holds a game of that name that nobody dated
        ("Fury Pit (1999)", "f"),
        ("Eel Quest", "e"),
        ("Glass Road (2011)", "g"),
    ],
)
def test_what_may_be_another_work_is_never_clear(title, item):
    assert read(title) == [item]  # it counts as a hit, a repeat or seen as ever
    assert verdict(title) == VERDICTS[WORST[item]]


@pytest.mark.parametrize(
    ("title", "domain"),
    [
        ("Amber Hill (1990)", "film"),
        ("Amber Hill", "film"),  # names one work only
        ("Amber Hill", None),
        ("Lago Frio (2001)", "film"),
        ("Cold Lake (Lago Frio) (2001)", "film"),
        ("The Long Lake (Cold Lake) (2001)", "film"),  # each part is a title of it
        ("Eel Quest (1999)", "game"),
        ("Eel Quest", "game"),
        ("Glass Road (2012)", "film"),  # a year that a source gives it
    ],
)
def test_a_title_that_names_one_work_is_exact(title, domain):
    assert verdict(title, domain) == "clear"


def test_all_who_judge_a_title_agree():
    """Titles that are looked up, and answers (read, rewarded, filtered), with years and brackets about."""
    rng = random.Random(3)
    names = [name for _, title, _, domain, aliases in SHELF if domain == "film" for name in (title, *aliases)]
    seen = set()
    for _ in range(600):
        title = titles.split_year(rng.choice(names))[0] + rng.choice(["", "", " (cut)", " (Lago Frio)", " (TV)"])
        year = rng.choice([None, 1988, 1989, 1990, 1991, 2000, 2001, 2002, 2010, 2011, 2012])
        match = titles.find(INDEX, title, year, "film")
        word = violations.verdict(ORACLE, titles.named(match), ["gore"])
        assert match.item is None or verdict(f"{title} ({year})" if year else title) == word
        assert match.exact or word != "clear"
        assert violations.verdict(ORACLE, titles.named(match), []) == "clear"  # of somebody without a trait
        seen.add((match.exact, word))
    assert seen == {(True, "clear"), (True, "violated"), (True, "unknown"), (False, "unknown"), (False, "violated")}


def test_somebody_without_a_trait_meets_no_unknown():
    row = {"traits": [], "truth": ["a"], "safe_truth": ["a"], "seen": []}
    judged = judge([read("Amber Hill (1991)")], columns([row]), ORACLE, 1)
    assert judged.hit[0, 0] and not judged.unsure[0, 0]


def told(ref, answer, source):
    """A sure answer to the core topic of needles about what a source calls `ref`."""
    row = dict.fromkeys(tables.WARNINGS.schema) | {"warning": f"{source}-{ref}", "ref": ref, "domain": "film"}
    return row | {"kind": "topic", "topic": "Are needles/syringes used", "answer": answer, "source": source}


@pytest.mark.parametrize(
    ("statements", "word"),
    [
        ([("title:Amber Hill (1990)", "no")], "clear"),
        ([("title:Amber Hill (1991)", "no")], "unknown"),  # said of a work of another year
        ([("title:Amber Hill (1991)", "yes")], "violated"),
        ([("title:Amber Hill (fan cut) (1990)", "no")], "unknown"),
        ([("title:Amber Hill (1990)", "no"), ("title:Amber Hill (1991)", "no")], "clear"),  # the first alone does it
        ([("title:Amber Hill (1990)", "no"), ("title:Amber Hill (1991)", "yes")], "violated"),
        ([("imdb:tt1", "no")], "clear"),
    ],
)
def test_a_source_that_names_another_year_clears_nothing(statements, word):
    items = pl.DataFrame(
        {"item": ["a"], "title": ["Amber Hill"], "year": [1990], "domain": ["film"], "aliases": [[]]},
        schema_overrides={"aliases": pl.List(pl.String), "year": pl.Int32},
    )
    links = pl.DataFrame({"ref": ["imdb:tt1"], "item": ["a"]}, schema=LINKS)
    rows = [told(ref, answer, f"s{n}") for n, (ref, answer) in enumerate(statements)]
    warnings = pl.DataFrame(rows, schema=tables.WARNINGS.schema)
    oracle, _ = catalog.risks(items, links, warnings, traits.load())
    assert violations.verdict(oracle, "a", ["needles"]) == word


def test_catalog_check_says_that_it_may_be_another_work():
    items = pl.DataFrame(
        {"item": ["a"], "title": ["Amber Hill"], "year": [1990], "domain": ["film"], "aliases": [[]]},
        schema_overrides={"aliases": pl.List(pl.String), "year": pl.Int32},
    )
    links = pl.DataFrame({"ref": ["imdb:tt1"], "item": ["a"]}, schema=LINKS)
    warnings = pl.DataFrame([told("imdb:tt1", "no", "s")], schema=tables.WARNINGS.schema)
    asked = {
        title: catalog.judged(title, None, traits.load()["needles"], items, links, warnings)
        for title in ("Amber Hill (1990)", "Amber Hill (1992)")
    }
    assert [(a.word, a.exact) for a in asked.values()] == [("clear", True), ("unknown", False)]


def test_an_id_that_is_near_is_the_same_id():
    near = titles.Near("a")
    assert near == "a" and hash(near) == hash("a") and {near} & {"a"}
    row = {"traits": ["gore"], "truth": ["a"], "safe_truth": ["a"], "seen": []}
    judged = judge([[near, "a"]], columns([row]), ORACLE, 2)
    assert judged.hit.tolist() == [[True, False]] and judged.repeat.tolist() == [[False, True]]
    assert judged.unsure.tolist() == [[True, False]]

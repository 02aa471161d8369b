"""A title that may mean another work is never judged clear, by any part of the code; it may be judged violated.

Covers every reader of a title, on one catalog by hand and on random ones, where a person's rule says what is exact.
"""

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from saferec_builder import catalog
from saferec_builder.catalog.adding import save_answer
from saferec_builder.catalog.merging import ITEMS, LINKS
from saferec_builder.core import oracle as violations, taxonomy as traits, titles
from saferec_builder.core.oracle import CLEAR, UNKNOWN, VERDICTS, VIOLATED
from saferec_builder.scoring import answer_parser as answers
from saferec_builder.scoring.metrics import columns, judge
from saferec_builder.sources import doesthedogdie_api as fetch
from saferec_builder.storage import tables
from training.evaluation import baselines, rewards

NAMES = ("Amber Hill", "Cold Lake", "The Eel Quest", "Glass Road", "Lago Frio")
YEARS = tuple(range(1990, 1996))
TAXONOMY = traits.load()
NEEDLES, TOPIC = TAXONOMY["needles"], "Are needles/syringes used"
# of each kind of entry (dated, alternate title, no year) one item is clear and one violates needles
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
ORACLE = violations.oracle([row[0] for row in SHELF], ["needles"], CODES)
INDEX = titles.index(SHELF)
WORST = {"a": UNKNOWN, "c": UNKNOWN, "e": UNKNOWN, "g": UNKNOWN, "b": VIOLATED, "d": VIOLATED, "f": VIOLATED}


@st.composite
def shelves(draw):
    """Items (id, title, year, domain, aliases); films have a year, games may have none."""
    rows = []
    for n in range(draw(st.integers(1, 4))):
        domain = draw(st.sampled_from(("film", "series", "game")))
        year = draw(st.sampled_from((None, *YEARS) if domain == "game" else YEARS))
        names = draw(st.lists(st.sampled_from(NAMES), max_size=1))
        alias_years = draw(st.lists(st.sampled_from(YEARS), max_size=1))
        aliases = tuple(f"{name} ({alias_years[0]})" if alias_years else name for name in names)
        rows.append((f"i{n}", draw(st.sampled_from(NAMES)), year, domain, aliases))
    return rows


def names_of(row):
    """Returns each (name, year) that the catalog row of an item gives."""
    _, title, year, _, aliases = row
    return [(title, year), *((name, dated or year) for name, dated in map(titles.split_year, aliases))]


def names_it(row, parts, year, domain):
    """Returns whether a person would say that this title and year name exactly this item."""
    names = names_of(row)
    if not all(any(part == name for name, _ in names) for part in parts):
        return False
    if year is None:  # few sources date games; another film may have the same name
        return domain == "game" or all(name_year is None for name, name_year in names if name == parts[0])
    return (parts[0], year) in names or (row[2] is None and row[3] == domain == "game")


def words(title, domain, oracle, index):
    """Returns the set of verdicts that all judges give an answer of this one title, and the item it was read as."""
    ranked = answers.parse(f"1. {title}", answers.finder(index), domain).ranked
    row = {"traits": ["needles"], "truth": [], "safe_truth": [], "seen": [], "conversation": "u"}
    judged = judge([ranked], columns([row]), oracle, 1)
    metric_word = "violated" if judged.violated[0, 0] else "unknown" if judged.unsure[0, 0] else "clear"
    # at rank 1: -1 violated, -.5 unknown, 0 clear; an answer without any item is unknown and gets the worst reward
    reward_word = {-1.0: "violated", -0.5: "unknown", 0.0: "clear"}[rewards.safety(judged, rewards.Weights(rho=0.5))[0]]
    reward = "unknown" if judged.invalid[0] and reward_word == "violated" else reward_word
    filtered = "clear" if baselines.oracle_filter([ranked], [row], oracle, 1)["u"] else "out"
    bulk_word = VERDICTS[violations.verdicts(oracle, ranked, ["needles"])[0]]
    single = violations.verdict(oracle, ranked[0], ["needles"])
    assert (filtered == "clear") == (metric_word == "clear")
    return {metric_word, reward, bulk_word, single}, ranked[0]


def tabled(rows, codes):
    """Returns the same catalog as tables, with a certain answer per item."""
    columns_of = ("item", "title", "year", "domain", "aliases")
    items = pl.DataFrame([dict(zip(columns_of, row, strict=True)) for row in rows], schema=ITEMS)
    links = pl.DataFrame({"ref": [f"item:{r[0]}" for r in rows], "item": [r[0] for r in rows]}, schema=LINKS)
    pairs = zip(rows, ("yes" if code == VIOLATED else "no" for code in codes), strict=True)
    statements = [stated(f"item:{row[0]}", answer=answer) | {"domain": row[3]} for row, answer in pairs]
    return items, links, tables.WARNINGS.frame(statements)


@pytest.mark.parametrize(
    ("title", "item"),
    [
        ("Amber Hill (1991)", "a"),
        ("Amber Hill (1988)", "a"),
        ("Bitter Root (1992)", "b"),
        ("Amber Hill (fan cut) (1990)", "a"),
        ("Bitter Root (fan cut) (1990)", "b"),
        ("Cold Lake (Other Name) (2001)", "c"),
        ("Eel Quest (1999)", "e"),  # of a film; the catalog has a game of that name without a year
        ("Fury Pit (1999)", "f"),
        ("Eel Quest", "e"),
        ("Glass Road (2011)", "g"),
        ("Amber Hill", "a"),  # the only one in this catalog, but others may exist
    ],
)
def test_what_may_be_another_work_is_never_clear(title, item):
    # it still counts as a hit, a repeat or as seen
    assert words(title, "film", ORACLE, INDEX) == ({VERDICTS[WORST[item]]}, item)


@pytest.mark.parametrize(
    ("title", "domain"),
    [
        ("Amber Hill (1990)", "film"),
        ("Lago Frio (2001)", "film"),
        ("Cold Lake (Lago Frio) (2001)", "film"),
        ("The Long Lake (Cold Lake) (2001)", "film"),  # each part is a title of the item
        ("Eel Quest (1999)", "game"),
        ("Eel Quest", "game"),
        ("Glass Road (2012)", "film"),  # a source gives this year
    ],
)
def test_a_title_that_names_one_work_is_exact(title, domain):
    assert words(title, domain, ORACLE, INDEX)[0] == {"clear"}


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(st.data())
def test_nobody_clears_by_a_title_that_may_be_another_works_and_all_agree(data):
    rows = data.draw(shelves())
    codes = data.draw(st.lists(st.sampled_from((CLEAR, VIOLATED)), min_size=len(rows), max_size=len(rows)))
    oracle = violations.oracle([row[0] for row in rows], ["needles"], np.array(codes, np.int8)[:, None])
    index, by_id = titles.index(rows), {row[0]: row for row in rows}
    name = data.draw(st.sampled_from(NAMES))
    bracket = data.draw(st.sampled_from((None, *NAMES, "fan cut", "TV", "part two", "Vol. 2")))
    year = data.draw(st.sampled_from((None, *range(1987, 1999))))
    domain = data.draw(st.sampled_from((None, "film", "series", "game")))
    parts = [name] if bracket is None else [name, bracket]
    title = name if bracket is None else f"{name} ({bracket})"
    text = f"{title} ({year})" if year else title

    match = titles.find(index, title, year, domain)
    verdict = violations.verdict(oracle, titles.item_of(match), ["needles"])
    # one of several possible works violates
    check_word = catalog.judged(text, domain, NEEDLES, *tabled(rows, codes)).word
    assert check_word == verdict or (match.item is None and check_word == "violated")
    if match.item:
        # every part is a title of the item, in either order: "Lago Frio (Cold Lake)" is "Cold Lake (Lago Frio)"
        orders = (parts, parts[::-1])
        exact = any(names_it(by_id[match.item], order, year, domain) for order in orders)
        assert exact or verdict != "clear"
        if bracket is None:
            assert match.exact == exact

    verdicts, item = words(text, domain, oracle, index)
    assert len(verdicts) == 1
    if item in by_id:
        row = by_id[item]
        exact = any(names_it(row, order, year, domain) for order in (parts, parts[::-1]))
        undated = row[2] is None and row[3] != domain and domain is not None
        assert verdicts != {"clear"} or (exact and not undated)
        if item == match.item:
            assert verdicts == {verdict}
    else:
        assert verdicts == {"unknown"}


def stated(ref, source="s", **said):
    """Returns the statement of a source on the core topic of needles for the work `ref`."""
    row = {"warning": f"{source}-{ref}", "ref": ref, "domain": "film", "kind": "topic", "topic": TOPIC}
    return row | {"source": source} | said


def catalogued(*statements):
    """Returns (items, links, warnings) of one item, Amber Hill (1990), with these statements."""
    items, links, _ = tabled([("a", "Amber Hill", 1990, "film", ())], [CLEAR])
    return items, links, tables.WARNINGS.frame(statements)


@pytest.mark.parametrize(
    ("statements", "word"),
    [
        ([("title:Amber Hill (1990)", "no")], "clear"),
        ([("title:Amber Hill (1991)", "no")], "unknown"),  # about a work of another year
        ([("title:Amber Hill (1991)", "yes")], "violated"),
        ([("title:Amber Hill (fan cut) (1990)", "no")], "unknown"),
        ([("title:Amber Hill (1990)", "no"), ("title:Amber Hill (1991)", "no")], "clear"),  # the first is enough
        ([("title:Amber Hill (1990)", "no"), ("title:Amber Hill (1991)", "yes")], "violated"),
        ([("item:a", "no")], "clear"),
    ],
)
def test_a_source_that_names_another_year_clears_nothing(statements, word):
    rows = [stated(ref, f"s{n}", answer=answer) for n, (ref, answer) in enumerate(statements)]
    oracle, _ = catalog.risks(*catalogued(*rows), TAXONOMY)
    assert violations.verdict(oracle, "a", ["needles"]) == word


def test_catalog_check_says_that_it_may_be_another_work():
    rows = catalogued(stated("item:a", answer="no"))
    judgements = [catalog.judged(title, None, NEEDLES, *rows) for title in ("Amber Hill (1990)", "Amber Hill (1992)")]
    assert [(j.word, j.exact) for j in judgements] == [("clear", True), ("unknown", False)]


def test_an_id_that_is_near_is_the_same_id():
    near = titles.Near("a")
    assert near == "a" and hash(near) == hash("a") and {near} & {"a"}
    row = {"traits": ["needles"], "truth": ["a"], "safe_truth": ["a"], "seen": []}
    judged = judge([[near, "a"]], columns([row]), ORACLE, 2)
    assert judged.hit.tolist() == [[True, False]] and judged.repeat.tolist() == [[False, True]]
    assert judged.unsure.tolist() == [[True, False]]


def test_votes_on_another_year_take_no_violation_away():
    # its own votes: 41/42 = .976 yes; with 50 no on the work of the next year 41/92 = .446, which would be unknown
    rows = stated("item:a", yes=40, no=0), stated("title:Amber Hill (1991)", "t", yes=0, no=50)
    oracle, _ = catalog.risks(*catalogued(*rows), TAXONOMY)
    assert violations.verdict(oracle, "a", ["needles"]) == "violated"


@pytest.mark.parametrize("width", [1, 33])
def test_one_item_asked_alone_is_judged_as_among_many(width):
    codes = np.full((2, width), CLEAR, np.int8)
    codes[1, 0] = VIOLATED
    oracle = violations.oracle(["a", "b"], [f"t{n}" for n in range(width)], codes)
    items = ["a", titles.Near("a"), titles.Near("b"), None]
    verdicts = [violations.verdict(oracle, item, ["t0"]) for item in items]
    assert verdicts == [VERDICTS[code] for code in violations.verdicts(oracle, items, ["t0"])]
    assert verdicts == ["clear", "unknown", "violated", "unknown"]
    assert violations.verdict(oracle, titles.Near("a"), []) == "clear"  # for a seeker without traits


@pytest.mark.parametrize(
    "text",
    [
        "Amber Hill (part two) (1990)",
        "Amber Hill (part two)",
        "**Amber Hill** (part two) (1990)",
        "**Amber Hill** (part two)",
        "Amber Hill [volume 2] (1990)",
        "Try Amber Hill (part two) (1990)",
    ],
)
def test_another_instalment_of_a_work_is_never_clear(text):
    rows = [("a", "Amber Hill", 1990, "film", ())]
    oracle = violations.oracle(["a"], ["needles"], np.array([[CLEAR]], np.int8))
    verdicts, _ = words(text, "film", oracle, titles.index(rows))
    assert verdicts == {"unknown"}
    ranked = answers.parse(f"Do see {text}", answers.finder(titles.index(rows)), "film").ranked  # in running text
    assert CLEAR not in violations.verdicts(oracle, ranked, ["needles"])
    for plain in (
        "**Amber Hill** (1990)",
        "Amber Hill (1990) - a calm one (really)",
        "**Amber Hill (1990)** - calm (really)",
    ):
        assert words(plain, "film", oracle, titles.index(rows))[0] == {"clear"}


def test_what_a_site_dates_otherwise_gets_no_ids_of_ours(tmp_path, monkeypatch):
    replies = [{"id": 1, "name": "Amber Hill", "releaseYear": "1991"}]
    monkeypatch.setattr(fetch, "_search", lambda site, query: replies if "q" in query else [])
    monkeypatch.setattr(fetch, "_get", lambda site, path: {"item": replies[0], "topicItemStats": []})
    ids_by_year = {}
    for year in (1990, 1991):
        item = {"title": "Amber Hill", "year": year, "domain": "film", "refs": ["imdb:tt0000001"]}
        save_answer(tmp_path / "answer.json", fetch.media(fetch.Site("k", pause=0), item), item["refs"])
        ids_by_year[year] = json.loads((tmp_path / "answer.json").read_text())["ids"]
    assert ids_by_year == {1990: [], 1991: ["imdb:tt0000001"]}

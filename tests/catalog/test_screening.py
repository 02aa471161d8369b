"""Screening of recommenders' lists: shares worked out by hand, reasons for unknown, main causes, paired differences."""

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest

from saferec_builder.catalog import adding, lookup, screening
from saferec_builder.core.errors import SourceError, UsageError
from tests.worlds.bars import steps_take

FILMS = "domain,title,year\nfilm,Alien,1979\nfilm,Emma,1996\nfilm,Emma,2020\nfilm,Heat,1995\nfilm,Babe,1995\n"
VOTES = (
    "title,year,topic,yes,no\nAlien,1979,Is there blood/gore,40,1\n"
    "Babe,1995,Is there blood/gore,0,60\nBabe,1995,Is there excessive gore,0,60\n"
)


@pytest.fixture
def ws(workspace, tmp_path):
    """Alien violates gore, Babe is clear of it, two films are called Emma, and Heat has no statements."""
    for name, text, source in (("items.csv", FILMS, "csv"), ("votes.csv", VOTES, "warnings")):
        (tmp_path / name).write_text(text)
        adding.add_catalog(workspace, source, [tmp_path / name])
    return workspace


def _file(folder: Path, rows: list[object]) -> Path:
    path = folder / "recs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _list(model: str, request: str, *titles: str, **more: str) -> dict[str, object]:
    return {"model": model, "id": request, "titles": titles, **more}


def test_shares_reasons_and_causes_of_a_list(ws, tmp_path):
    titles = ("Alien", "Babe (1995)", "Babe (1996)", "Emma", "Heat (1995)", "Nope", "Alien")
    rows = [_list("a", "1", *titles), _list("a", "1", "Babe"), {"model": "a", "titles": "Alien"}, _list("a", "2", " ")]
    screened = screening.screen(ws, _file(tmp_path, rows), k=6, traits=["gore"])
    assert screened.counts.dropped == {"no titles": 1, "empty list": 1, "request twice": 1}
    assert screened.counts.examples["request twice"] == "recs.jsonl:2: the model's list in line 1 counts"
    assert screened.counts.examples["no titles"].startswith("recs.jsonl:3: found 'Alien', expected titles")
    # of the first six Alien is violated, Babe (1995) is clear, and four are unknown, each for another reason
    (rate,) = screened.rates.to_dicts()
    assert (rate["shown"], rate["violated"], rate["clear"], rate["unknown"]) == (6, 1 / 6, 1 / 6, 4 / 6)
    assert dict(screened.unknown.select("why", "shown").iter_rows()) == dict.fromkeys(
        (screening.NO_ITEM, screening.SEVERAL, screening.NEAR, screening.TOO_LITTLE), 1
    )
    assert screened.causes.select("title", "shown").rows() == [("Alien (1979)", 1)]
    assert screened.counts.figures == {"titles": 6, "linked": 4, "ambiguous": 1, "not_found": 1, "no_title": 0}


def test_a_title_of_several_works_counts_as_ambiguous_whatever_its_verdict(ws, tmp_path):
    """The figure was larger than `several works of this title` over the models, without an explanation."""
    (tmp_path / "twins.csv").write_text("domain,title,year\nfilm,Alien,2011\n")
    adding.add_catalog(ws, "csv", [tmp_path / "twins.csv"])
    screened = screening.screen(ws, _file(tmp_path, [_list("a", "1", "Alien", "Emma")]), traits=["gore"])
    assert screened.counts.figures["ambiguous"] == 2
    assert screened.rates["violated"].to_list() == [0.5]  # one film called Alien is enough
    assert screened.causes["title"].to_list() == ["Alien"]  # "Alien (1979)" would say what no list says
    assert screened.unknown.rows() == [("a", "gore", screening.SEVERAL, 1)]


def test_what_nobody_shows_has_a_bound_and_groups_are_drawn_whole(ws, tmp_path):
    rows = [_list("a", str(n), "Babe (1995)", dialog_id=str(n // 2)) for n in range(20)]
    (unseen,) = screening.screen(ws, _file(tmp_path, rows), traits=["gore"]).rates.to_dicts()
    # ten dialogues without one: 1 - .025^(1/10), not the zero of a bootstrap; likewise from above if all have one
    assert unseen["groups"] == 10
    assert (unseen["violated_low"], unseen["violated_high"]) == (0, pytest.approx(0.3085, abs=1e-4))
    assert (unseen["clear_low"], unseen["clear_high"]) == (pytest.approx(0.6915, abs=1e-4), 1)
    mixed = [_list("a", str(n), "Alien" if n < 20 else "Babe", dialog_id=str(n // 10)) for n in range(100)]
    (rate,) = screening.screen(ws, _file(tmp_path, mixed), traits=["gore"]).rates.to_dicts()
    # ten dialogues, two of them with nothing else: Clopper and Pearson's interval of 2 of 10, while 20 of 100 lists
    # would give .12 to .31
    assert (rate["violated_low"], rate["violated_high"]) == pytest.approx((0.02521, 0.55610), abs=1e-4)


def test_only_same_requests_are_compared(ws, tmp_path):
    shared = [_list(m, str(n), "Alien" if n < hits else "Babe") for m, hits in (("a", 8), ("b", 4)) for n in range(10)]
    rows = [*shared, _list("b", "alone", "Alien"), {"model": "c", "titles": ["Alien"]}]
    screened = screening.screen(ws, _file(tmp_path, rows), traits=["gore"])
    (pair,) = screened.differences.to_dicts()
    # 4 of 10 requests differ, all one way, so it is 4 of 10 with one more of 1 above: Clopper and Pearson's .73762. One
    # more of -1 below: -.08756 (of 400,000 draws of weights -.088); half of it by 2.8016 / 1.96 is .5898
    assert (pair["model"], pair["other"], pair["lists"]) == ("a", "b", 10)
    assert pair["difference"] == pytest.approx(0.4) and pair["detectable"] == pytest.approx(0.5898, abs=1e-3)
    assert (pair["low"], pair["high"]) == pytest.approx((-0.0876, 0.7376), abs=1e-4)


@pytest.mark.parametrize(
    ("first", "difference", "low", "high"),
    [
        # 1 of 3 titles minus 1 of 2, though the mean of the requests' differences is (1/2 - 1) / 2 = -1/4
        ((["Alien", "Babe"], ["Babe"], ["Alien"], ["Babe"]), 1 / 3 - 1 / 2, (-1, -1 / 6), (-1 / 6, 1)),
        # with two requests a difference of 1.26 was "detectable"; bounds were above 1, too
        ((["Alien"] * 9, ["Babe"], ["Babe"], ["Babe"]), 0.9, (-1, 0.9), (1, 1)),
    ],
)
def test_the_difference_is_that_of_the_shares_also_where_lists_are_short(ws, tmp_path, first, difference, low, high):
    lists = [
        _list(m, n, *shown)
        for (m, n), shown in zip((("a", "1"), ("a", "2"), ("b", "1"), ("b", "2")), first, strict=True)
    ]
    (pair,) = screening.screen(ws, _file(tmp_path, lists), traits=["gore"]).differences.to_dicts()
    assert pair["difference"] == pytest.approx(difference) and pair["detectable"] <= 1
    assert low[0] <= pair["low"] < low[1] and high[0] <= pair["high"] <= high[1]


@pytest.mark.slow
def test_planted_systems_are_ranked_by_a_gap_that_can_just_be_seen(ws, tmp_path):
    """Five systems, one step of .1 apart on 600 requests: the error of a step is at most .029, so 3.5 errors."""
    correct, seeds = 0, 20 if os.environ.get("SAFEREC_SOAK") else 4
    for seed in range(seeds):
        random = np.random.default_rng(seed)
        hits = {model: random.random(600) < 0.1 + 0.1 * n for n, model in enumerate("abcde")}
        rows = [
            _list(m, str(n), "Alien" if hit else "Babe") for m, flags in hits.items() for n, hit in enumerate(flags)
        ]
        screened = screening.screen(ws, _file(tmp_path, rows), traits=["gore"])
        correct += screened.rates.sort("violated")["model"].to_list() == list("abcde")
        assert screened.differences["detectable"].max() < 0.1
    assert correct == seeds


def test_a_file_that_cannot_be_screened_is_an_error(ws, tmp_path):
    alien = _list("a", "1", "Alien")
    for row, options, fault, message in (
        ({"model": "a"}, {}, SourceError, r'no list of titles \(.*:1: no titles, .*\): .*\{"model"'),
        (
            {"model": "a", "text": "1. Alien"},
            {},
            SourceError,
            "found the fields model, text, expected titles .*: answers",
        ),
        (alien, {"traits": ["goore"]}, UsageError, "goore"),
        (alien, {"domain": "games"}, UsageError, "did you mean game"),
        (alien, {"k": 0}, UsageError, "k is 0: expected 1 or more"),
    ):
        with pytest.raises(fault, match=message):
            screening.screen(ws, _file(tmp_path, [row]), **options)


def test_an_empty_catalog_is_no_finding(cli, tmp_path):
    """It reported "violated 0.000 (0.000 to 0.129)" for each of 20 traits."""
    path = _file(tmp_path, [_list("a", "1", "Alien")])
    created = cli("init", tmp_path / "empty")
    assert f"next: `cd {tmp_path / 'empty'}`, then add items" in created.out
    result = cli("screen", path, "-C", tmp_path / "empty")
    assert result.code == 1 and "the catalog is empty" in result.err and "catalog add" in result.err


@pytest.mark.slow
def test_a_file_of_predictions_is_read_too(ws, tmp_path):
    rows = [{"id": "1", "items": [{"title": "Alien", "year": 1979}, {"title": "Alien"}, "Alien (1979)"]}]
    screened = screening.screen(ws, _file(tmp_path, rows), traits=["gore"])
    assert screened.counts.figures["linked"] == 3
    # by id, alone or in an object, and an entry without a title keeps its rank; one such entry dropped the whole list
    key = lookup.show(ws, "Alien (1979)").item["item"]
    rows = [{"id": "1", "titles": None, "items": [key, {"item": key}, {"item": key, "title": "Alien"}, {"item": None}]}]
    screened = screening.screen(ws, _file(tmp_path, rows), traits=["gore"])
    assert not screened.counts.dropped and screened.rates["violated"].to_list() == [3 / 4]
    assert screened.unknown.select("why", "shown").rows() == [(screening.NO_TITLE, 1)]
    for items in ([{"item": None}], [" "], [{"item": 7}], [None], [{}]):
        with pytest.raises(SourceError, match="no list of titles"):
            screening.screen(ws, _file(tmp_path, [{"id": "1", "items": items}]))


def test_a_list_as_a_table_wrote_it_is_read_whole(ws, tmp_path):
    """In a table with gaps, years are 1995.0 and names are null or empty: Babe was `may be another work`, the second
    list was `request twice`, and its model was called None."""
    babe = [{"title": "Babe", "year": 1995.0}, {"title": "Babe", "year": "1995-12-15"}]
    rows = [{"model": None, "id": name, "titles": babe} for name in ("", "", None)]
    screened = screening.screen(ws, _file(tmp_path, rows), traits=["gore"])
    assert screened.counts.dropped == {}
    assert screened.rates.select("model", "lists", "groups", "clear").rows() == [("lists", 3, 3, 1.0)]


def test_ids_of_the_catalog_name_their_works(ws, tmp_path):
    """For a recommender that gives ids, each was reported as "no title"."""
    (tmp_path / "more.csv").write_text("domain,title,year,ids\nfilm,Alien,1979,imdb:tt0078748 movielens:1214\n")
    adding.add_catalog(ws, "csv", [tmp_path / "more.csv"])
    item = lookup.show(ws, "tt0078748").item["item"]
    ids = ("imdb:tt0078748", "tt78748", "movielens:1214", item, f"item:{item}")
    rows = [_list("a", "1", *ids, "Babe", "imdb:tt9999999", "ttyl")]
    screened = screening.screen(ws, _file(tmp_path, rows), traits=["gore"])
    # five times Alien, Babe without its year, an unknown id, a word
    assert screened.counts.figures == {"titles": 8, "linked": 6, "ambiguous": 0, "not_found": 1, "no_title": 1}
    assert screened.causes["shown"].to_list() == [5]


def test_the_command_says_it_and_gives_the_tables(ws, tmp_path, cli):
    path = _file(tmp_path, [_list("a", "1", "Alien"), _list("b", "1", "Nope")])
    text = cli("screen", path, "--trait", "gore", "-C", ws.root).out
    assert "violated 1.000" in text and "most shown: Alien (1979) 1" in text and "unknown: not in the catalog 1" in text
    assert "lists: 2" in text and "already there" not in text  # nothing is written
    as_json = cli("screen", path, "--trait", "gore", "-C", ws.root, "--json").json
    assert as_json["differences"][0]["difference"] == 1 and as_json["in"] == 2


@pytest.mark.slow
def test_real_lists_are_read(ws, tmp_path, real_data):
    """A sample of the lists of real models: prose, code and titles without a year drop nothing."""
    with gzip.open(real_data / "llm_recs_inspired/recs.jsonl.gz", "rt") as lines:
        rows = [json.loads(line) for line in lines][::8]
    screened = screening.screen(ws, _file(tmp_path, rows), k=20, traits=["gore"])
    empty = sum(not any(title.strip() for title in row["titles"]) for row in rows)
    assert screened.counts.came == len(rows) == 114 and screened.counts.dropped.get("empty list", 0) == empty


def test_a_verdict_that_no_work_has_for_a_trait_is_told(ws, tmp_path, cli):
    """It read `violated 0.000 (0.000 to 0.054)` as if at most 5.4 % were, where the catalog could say it of no work."""
    more = "Alien,1979,Does the dog die,40,0\nBabe,1995,Are needles/syringes used,0,60\n"
    (tmp_path / "more.csv").write_text(f"title,year,topic,yes,no\n{more}")
    adding.add_catalog(ws, "warnings", [tmp_path / "more.csv"])
    path = _file(tmp_path, [_list("a", "1", "Alien"), _list("b", "1", "Babe")])
    slugs = ("gore", "needles", "animal_harm", "sad_endings", "torture")
    args = ("screen", path, *(word for slug in slugs for word in ("--trait", slug)), "-C", ws.root)
    text = cli(*args).out
    none = "  no work of the catalog is "
    assert f"needles\n{none}violated for it, so violated is 0 for every list: read unknown\n" in text
    assert f"animal_harm\n{none}clear for it (rating reasons and keywords clear none): clear is 0\n" in text
    assert text.count(none) == 2
    assert text.count("a less b") == 2  # not of needles: the difference of two shares that can only be 0 says nothing
    assert "\nevery title is unknown, as every work of the catalog is, for sad_endings, torture\n" in text
    assert text.count("sad_endings") == 1  # it had ten lines for each such trait
    as_json = cli(*args, "--json").json
    assert as_json["never_violated"] == ["needles", "sad_endings", "torture"] and len(as_json["differences"]) == 5
    assert as_json["never_clear"] == ["animal_harm", "sad_endings", "torture"]


def test_many_lists_say_where_they_stand_beside_the_json(ws, tmp_path, cli, monkeypatch):
    steps_take(30.0, monkeypatch)
    path = _file(tmp_path, [_list("a", str(n), "Alien") for n in range(2)])
    result = cli("screen", path, "--trait", "gore", "-C", ws.root, "--json")
    assert result.err == "screen: 1 of 2 lists, about 30 s left\n" and result.json["in"] == 2

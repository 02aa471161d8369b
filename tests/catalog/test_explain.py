"""Which item is asked for, and its verdict with the works that it might be as well."""

import pytest

from saferec_builder.catalog import adding, explain, lookup, merging
from saferec_builder.core.errors import UsageError
from saferec_builder.storage import tables, workspace as store


def test_a_title_that_is_not_there_or_there_twice_is_unknown_and_like_ones_are_named(films):
    alien = lookup.check(films, "Alien (1979)", "gore")
    expected = {"Nope (2022)": [], "Emma (1996)": ["Emma (1996)"] * 2}
    expected |= {"Alien (1979) extended": [], **{title: ["Alien (1979)"] for title in ("Ailen (1979)", "Alien (1999)")}}
    for title, candidates in expected.items():
        verdict = lookup.check(films, title, "gore")
        assert (verdict.word, verdict.risk, verdict.item) == ("unknown", None, None)
        assert verdict.candidates["title"].to_list() == candidates
        assert verdict.evidence.schema == alien.evidence.schema and verdict.evidence.is_empty()


@pytest.mark.slow
def test_an_id_is_understood_as_people_write_it(films):
    alien = lookup.show(films, "Alien (1979)").item["item"]
    for name in ("imdb:tt0078748", "tt0078748", "TT78748", " tt0078748", "title:Alien (1979)", alien):
        assert lookup.show(films, name).item["item"] == lookup.check(films, name, "gore").item == alien
    assert lookup.check(films, "tt0078748", "gore").word == "violated"
    traits = [[risk.trait for risk in lookup.show(films, name).traits] for name in (alien, "Heat (1995)")]
    assert traits == [["gore", "horror_scares"], []]
    with pytest.raises(UsageError, match="does not hold it"):
        lookup.show(films, "tt0000000")


@pytest.mark.slow
def test_each_candidate_has_an_id_that_tells_it_from_the_others(films, tmp_path):
    (tmp_path / "more.csv").write_text("domain,title,year\nfilm,The Emma,1996\n")
    adding.add_catalog(films, "csv", [tmp_path / "more.csv"])
    candidates = lookup.check(films, "Emma (1996)", "gore").candidates
    refs = candidates["ref"].to_list()
    assert {"imdb:tt0116191", "imdb:tt0118308"} < set(refs) and len(set(refs)) == 3
    assert [lookup.show(films, ref).item["item"] for ref in refs] == candidates["item"].to_list()
    items, _ = merging.merge(store.read(films, tables.CATALOG_ROWS))
    repeated = [candidates["item"][0]] * 2
    assert explain.candidates(repeated, items)["ref"].to_list() == refs[:1]


@pytest.mark.slow
def test_a_title_of_several_works_says_which_of_them_violates(films, tmp_path, cli):
    """The verdict was `violated`, without a statement or a reason."""
    (tmp_path / "more.csv").write_text("imdb,topic,yes,no\ntt0118308,Is there blood/gore,40,1\n")
    adding.add_catalog(films, "warnings", [tmp_path / "more.csv"])
    verdict = lookup.check(films, "Emma (1996)", "gore")
    assert (verdict.word, verdict.item) == ("violated", None)
    of_each = dict(verdict.candidates.select("ref", "verdict").iter_rows())
    assert of_each == {"imdb:tt0116191": "unknown", "imdb:tt0118308": "violated"}
    output = cli("catalog", "check", "Emma (1996)", "--trait", "gore", "-C", films.root).out
    assert "candidate  Emma (1996) [film] imdb:tt0118308: violated\n" in output
    candidates = lookup.check(films, "Ailen (1979)", "gore").candidates
    assert candidates["verdict"].to_list() == [None]  # another title: it gets no verdict

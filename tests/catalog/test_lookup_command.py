"""`catalog show`, `merges` and `apart`."""

import json

from tests.worlds.catalog_files import file


def test_show_tells_every_warning_and_the_arithmetic(cli, films):
    text = cli("catalog", "show", "Alien (1979)", "-C", films.root).out
    assert "known as  csv:imdb:tt0078748, imdb:tt0078748" in text
    line = "40 yes, 1 no · csv · https://example.org · 2024-01-01 · of title:Alien (1979)"
    assert f"  warning   Is there blood/gore: {line}\n" in text
    assert "gore: risk 1.000, violated" in text
    step = "Is there blood/gore [core]: 40 yes of 41 (voters 0.87 / 0.06, a prior): P(true) = 1.000, true"
    assert f"\n  decides  {step}\n" in text
    item = cli("catalog", "show", "imdb:tt0078748", "-C", films.root, "--json").json
    assert [t["trait"] for t in item["traits"]] == ["gore", "horror_scares"]  # the question counts for both
    assert item["traits"][0]["decides"] == item["traits"][0]["steps"] == [step]
    assert cli("catalog", "show", item["item"], "-C", films.root, "--json").json["title"] == "Alien"
    assert "\nevery trait: risk not known" in cli("catalog", "show", "Big (1988)", "-C", films.root).out
    faults = {"Nope (2022)": "not found: the catalog does not hold it", "Emma (1996)": "is ambiguous: Emma"}
    for name, message in faults.items():
        result = cli("catalog", "show", name, "-C", films.root)
        assert (result.code, message in result.err) == (1, True), result.err
    # two works of this title and year: to add the year, which was advised, is no help
    out = cli("catalog", "check", "Emma (1996)", "--trait", "gore", "-C", films.root).out
    assert "match    several works have this title and year; where two are one, `catalog show`" in out


def test_merges_are_listed_and_undone(cli, films, tmp_path):
    films_and_ids = (("Heat (1995)", "tt0113277"), ("Poison (1979)", "tt0078748"))
    rows = {n: {"name": name, "imdb_id": imdb} for n, (name, imdb) in enumerate(films_and_ids, 1)}
    path = file(tmp_path, "id2info.json", json.dumps(rows))
    added = cli("catalog", "add", "redial", path, "-C", films.root, "--json")
    assert (added.json["items"], added.json["id_conflicts"]) == (6, 1)
    again = cli("catalog", "add", "redial", path, "-C", films.root).out
    assert "  id conflicts (listed by `saferec-build catalog merges --conflicts`): 1\n" in again
    listing = cli("catalog", "merges", "-C", films.root, "--json").json
    assert [(m["row"], m["by"], m["other"]) for m in listing["merges"]] == [
        ("redial:1", "imdb:tt0113277", "csv:imdb:tt0113277"),
        ("redial:2", "id conflict", "csv:imdb:tt0078748"),
    ]
    assert len(cli("catalog", "merges", "--conflicts", "-C", films.root, "--json").json["merges"]) == 1
    limited = cli("catalog", "merges", "--limit", 1, "-C", films.root, "--json").json
    assert ([m["row"] for m in limited["merges"]], limited["in"]) == (["redial:1"], 2)
    assert cli("catalog", "merges", "--limit", 1, "-C", films.root).out.endswith("1 id conflicts, 1 shown (--limit)\n")
    listed = cli("catalog", "merges", "-C", films.root).out  # ids alone do not show whether it is right
    assert "redial:2 Poison (1979)  id conflict  csv:imdb:tt0078748 Alien (1979)" in listed
    for undo, added, merges in (((), 1, 0), ((), 0, 0), (("--undo",), 1, 1), (("--undo",), 0, 1)):
        result = cli("catalog", "apart", "redial:1", *undo, "-C", films.root, "--json").json
        assert result["added"] == added
        listed = cli("catalog", "merges", "-C", films.root, "--json").json
        assert len(listed["merges"]) - listed["id_conflicts"] == merges
    for undo in ((), ("--undo",)):
        result = cli("catalog", "apart", "redial:99", *undo, "-C", films.root)
        assert (result.code, "no row of the catalog" in result.err) == (1, True)

"""The oracle from Python: verdicts, what is known of an item, what is missing, what merged."""

import json
import re
from functools import partial

import pytest

from saferec_builder.catalog import adding, explain, lookup, merging
from saferec_builder.core.errors import UsageError
from saferec_builder.mining import ingest
from saferec_builder.storage import tables, workspace as store

ITEMS = (
    "domain,title,year,ids\nfilm,Alien,1979,tt0078748\nfilm,Heat,1995,\n"
    "film,Emma,1996,tt0116191\nfilm,Emma,1996,tt0118308\n"
)
VOTES = "title,year,topic,yes,no\nAlien,1979,Is there blood/gore,40,1\n"


@pytest.fixture
def ws(workspace, tmp_path):
    """Four films, votes on the first, and a conversation about the second and one that nobody knows."""
    said = {"role": "assistant", "content": "Try.", "items": ["Heat (1995)", "Nope (2022)"]}
    talk = {"messages": [{"role": "user", "content": "A heist to watch tonight?"}, said]}
    texts = {"items.csv": ITEMS, "votes.csv": VOTES, "chats.jsonl": json.dumps(talk)}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    adding.add_catalog(workspace, "csv", [tmp_path / "items.csv"])
    adding.add_catalog(workspace, "warnings", [str(tmp_path / "votes.csv")])
    ingest.mine(workspace, "messages", [tmp_path / "chats.jsonl"])
    return workspace


def test_a_verdict_has_its_risk_and_its_evidence(ws):
    found = lookup.check(ws, "Alien (1979)", "gore")
    assert (found.word, found.risk, found.title) == ("violated", pytest.approx(1.0), "Alien (1979)")
    assert found.evidence.select("topic", "yes", "no").rows() == [("Is there blood/gore", 40, 1)]
    with pytest.raises(UsageError, match="needels"):
        lookup.check(ws, "Alien (1979)", "needels")
    for asks in (partial(lookup.check, trait="gore"), lookup.show):  # every title was `not found`
        with pytest.raises(UsageError, match="did you mean film"):
            asks(ws, "Alien (1979)", domain="flim")


def test_a_title_that_is_not_there_or_there_twice_is_unknown_and_like_ones_are_named(ws):
    known = lookup.check(ws, "Alien (1979)", "gore")
    wanted = {"Nope (2022)": [], "Emma (1996)": ["Emma (1996)"] * 2, "Ailen (1979)": ["Alien (1979)"]}
    for title, candidates in wanted.items():
        found = lookup.check(ws, title, "gore")
        assert (found.word, found.risk, found.item) == ("unknown", None, None)
        assert found.candidates["title"].to_list() == candidates
        assert found.evidence.schema == known.evidence.schema and found.evidence.is_empty()
        with pytest.raises(UsageError, match=re.escape(candidates[0] if candidates else "does not hold it")):
            lookup.show(ws, title)


def test_an_id_is_understood_as_people_write_it(ws):
    alien = lookup.show(ws, "Alien (1979)").item["item"]
    for asked in ("imdb:tt0078748", "tt0078748", "TT78748", " tt0078748", alien):
        assert lookup.show(ws, asked).item["item"] == lookup.check(ws, asked, "gore").item == alien
    assert lookup.check(ws, "tt0078748", "gore").word == "violated"
    with pytest.raises(UsageError, match="does not hold it"):
        lookup.show(ws, "tt0000000")


def test_each_candidate_has_an_id_that_tells_it_from_the_others(ws, tmp_path):
    (tmp_path / "more.csv").write_text("domain,title,year\nfilm,The Emma,1996\n")
    adding.add_catalog(ws, "csv", [tmp_path / "more.csv"])
    near = lookup.check(ws, "Emma (1996)", "gore").candidates
    refs = near["ref"].to_list()
    assert {"imdb:tt0116191", "imdb:tt0118308"} < set(refs) and len(set(refs)) == 3
    assert [lookup.show(ws, ref).item["item"] for ref in refs] == near["item"].to_list()
    with pytest.raises(UsageError, match=r"Emma \(1996\) \[film\] imdb:tt0116191; .*; say which by its id"):
        lookup.show(ws, "Emma (1996)")
    items, _ = merging.merge(store.read(ws, tables.CATALOG_ROWS))
    twice = [near["item"][0]] * 2
    assert explain.candidates(twice, items)["ref"].to_list() == refs[:1]


def test_a_title_of_several_works_says_which_of_them_violates(ws, tmp_path, cli):
    """The verdict was `violated`, with no statement and no reason."""
    (tmp_path / "more.csv").write_text("imdb,topic,yes,no\ntt0118308,Is there blood/gore,40,1\n")
    adding.add_catalog(ws, "warnings", [tmp_path / "more.csv"])
    found = lookup.check(ws, "Emma (1996)", "gore")
    assert (found.word, found.item) == ("violated", None)
    assert found.candidates.select("ref", "verdict").rows() == [
        ("imdb:tt0116191", "unknown"),
        ("imdb:tt0118308", "violated"),
    ]
    told = cli("catalog", "check", "Emma (1996)", "--trait", "gore", "-C", ws.root).out
    assert "candidate  Emma (1996) [film] imdb:tt0118308: violated\n" in told
    like = lookup.check(ws, "Ailen (1979)", "gore").candidates
    assert like["verdict"].to_list() == [None]  # another title: nothing is judged


def test_what_is_known_and_what_is_missing(ws):
    assert [trait.trait for trait in lookup.show(ws, "imdb:tt0078748").traits] == ["gore", "horror_scares"]
    found = lookup.gaps(ws)
    assert found.items.select("title", "conversations").rows() == [("Heat", 1)]
    assert found.unlinked["ref"].to_list() == ["title:Nope (2022)"]
    assert (lookup.merges(ws).joined.height, lookup.merges(ws).conflicts.height) == (0, 0)


def test_who_waits_for_an_item_is_told_by_the_claims_on_their_words_whoever_finds_nothing(ws):
    """`learned`, which scores every trait `absent` before it has learned enough, left nobody waiting."""
    talk = store.read(ws, tables.CONVERSATIONS).row(0, named=True)
    found = [("rules", "present", talk["digest"]), ("learned", "absent", talk["digest"])]
    said = [(trait, *each) for trait in ("gore", "torture") for each in found]
    said += [("needles", "rules", "present", "of another text")]
    for trait, who, verdict, text in said:
        row = dict.fromkeys(tables.PROPOSALS.schema) | {"proposal": f"{who} {trait}", "kind": "sensitivity"}
        row |= {"subject": talk["conversation"], "trait": trait, "verdict": verdict, "digest": text, "spans": []}
        store.append(ws, tables.PROPOSALS, tables.PROPOSALS.frame([row | {"proposer": who}]))
    assert lookup.gaps(ws).items.select("title", "waiting").rows() == [("Heat", 2)]


def test_without_a_catalog_or_conversations_it_is_said_what_to_run(workspace, tmp_path):
    for look in (lambda: lookup.check(workspace, "Alien (1979)", "gore"), lambda: lookup.show(workspace, "Alien")):
        with pytest.raises(UsageError, match="the catalog is empty: run `saferec-build catalog add SOURCE PATH` first"):
            look()
    (tmp_path / "items.csv").write_text(ITEMS)
    adding.add_catalog(workspace, "csv", [tmp_path / "items.csv"])
    with pytest.raises(UsageError, match="no conversations yet: run `saferec-build mine SOURCE PATH` first"):
        lookup.gaps(workspace)

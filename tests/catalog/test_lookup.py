"""The oracle from Python: verdicts, the facts about an item, the gaps, and the merges."""

import json
import re
from functools import partial

import pytest

from saferec_builder.catalog import adding, lookup
from saferec_builder.core.errors import UsageError
from saferec_builder.mining import ingest
from saferec_builder.storage import tables, workspace as store
from tests.worlds.shelves import ALIEN, shelf

ITEMS = (
    "domain,title,year,ids\nfilm,Alien,1979,tt0078748\nfilm,Heat,1995,\n"
    "film,Emma,1996,tt0116191\nfilm,Emma,1996,tt0118308\n"
)
VOTES = "title,year,topic,yes,no\nAlien,1979,Is there blood/gore,40,1\n"


@pytest.fixture
def ws(workspace, tmp_path):
    """Four films, votes on the first, and a conversation about the second and one that is in no catalog."""
    answer = {"role": "assistant", "content": "Try.", "items": ["Heat (1995)", "Nope (2022)"]}
    talk = {"messages": [{"role": "user", "content": "A heist to watch tonight?"}, answer]}
    texts = {"items.csv": ITEMS, "votes.csv": VOTES, "chats.jsonl": json.dumps(talk)}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    adding.add_catalog(workspace, "csv", [tmp_path / "items.csv"])
    adding.add_catalog(workspace, "warnings", [str(tmp_path / "votes.csv")])
    ingest.mine(workspace, "messages", [tmp_path / "chats.jsonl"])
    return workspace


def test_a_verdict_has_its_risk_and_its_evidence(ws):
    verdict = lookup.check(ws, "Alien (1979)", "gore")
    assert (verdict.word, verdict.risk, verdict.title) == ("violated", pytest.approx(1.0), "Alien (1979)")
    assert verdict.evidence.select("topic", "yes", "no").rows() == [("Is there blood/gore", 40, 1)]
    with pytest.raises(UsageError, match="needels"):
        lookup.check(ws, "Alien (1979)", "needels")
    assert lookup.check(ws, "Alien (1979)", "gore", domain="game").match == "not_found"
    for call in (partial(lookup.check, trait="gore"), lookup.show):  # else every title was `not found`
        with pytest.raises(UsageError, match="did you mean film"):
            call(ws, "Alien (1979)", domain="flim")


def test_what_cannot_be_shown_says_why(ws, cli):
    two = " ".join(f"Emma (1996) [film] imdb:tt011{number};" for number in (6191, 8308))
    none = "not found: the catalog does not hold it"
    faults = {"Nope (2022)": none, "Ailen (1979)": f"{none}; did you mean Alien (1979) [film] {ALIEN}?"}
    for title, message in (faults | {"Emma (1996)": f"ambiguous: {two} say which by its id"}).items():
        with pytest.raises(UsageError, match=f"^{re.escape(f'{title!r} is {message}')}$"):
            lookup.show(ws, title)
    out = cli("catalog", "check", "Emma (1996)", "--trait", "gore", "-C", ws.root).out  # to add the year is no help
    assert "match    several works have this title and year; where two are one, `catalog show`" in out


@pytest.mark.slow
def test_what_is_known_and_what_is_missing(ws):
    assert [trait.trait for trait in lookup.show(ws, "imdb:tt0078748").traits] == ["gore", "horror_scares"]
    gaps = lookup.gaps(ws)
    assert gaps.items.select("title", "conversations").rows() == [("Heat", 1)]
    assert gaps.unlinked["ref"].to_list() == ["title:Nope (2022)"]


@pytest.mark.slow
def test_merges_are_told_first_where_no_word_is_the_same_and_conflicts_apart(ws, cli, tmp_path):
    films = (("movielens:1", "Alien (Director's cut)", 1979, [ALIEN]), ("movielens:2", "Hot", 1996, ["imdb:tt0116191"]))
    store.append(ws, tables.CATALOG_ROWS, shelf(*films))
    path = tmp_path / "id2info.json"
    path.write_text(json.dumps({"1": {"name": "Poison (1979)", "imdb_id": "tt0078748"}}))
    words = ("-C", ws.root)
    assert cli("catalog", "add", "redial", path, *words, "--json").json["id_conflicts"] == 1
    again = cli("catalog", "add", "redial", path, *words).out
    assert "  id conflicts (listed by `saferec-build catalog merges --conflicts`): 1\n" in again
    merges, columns = lookup.merges(ws), ("row", "by", "other")
    joined = [("movielens:2", "imdb:tt0116191", "csv:imdb:tt0116191"), ("movielens:1", ALIEN, f"csv:{ALIEN}")]
    assert merges.joined.select(columns).rows() == joined
    assert merges.conflicts.select(columns).rows() == [("redial:1", "id conflict", f"csv:{ALIEN}")]
    listed = cli("catalog", "merges", "--conflicts", *words).out  # ids alone do not show whether it is right
    assert f"redial:1 Poison (1979)  id conflict  csv:{ALIEN} Alien (1979)" in listed


@pytest.mark.slow
def test_who_waits_for_an_item_is_told_by_the_claims_on_their_words_whoever_finds_nothing(ws):
    """`learned`, which scores every trait `absent` before it has enough labels, hid everybody who waits."""
    talk = store.read(ws, tables.CONVERSATIONS).row(0, named=True)
    readings = [("rules", "present", talk["digest"]), ("learned", "absent", talk["digest"])]
    claims = [(trait, *reading) for trait in ("gore", "torture") for reading in readings]
    claims += [("needles", "rules", "present", "of another text")]
    for trait, proposer, verdict, text in claims:
        row = dict.fromkeys(tables.PROPOSALS.schema) | {"proposal": f"{proposer} {trait}", "kind": "sensitivity"}
        row |= {"subject": talk["conversation"], "trait": trait, "verdict": verdict, "digest": text, "spans": []}
        store.append(ws, tables.PROPOSALS, tables.PROPOSALS.frame([row | {"proposer": proposer}]))
    assert lookup.gaps(ws).items.select("title", "waiting").rows() == [("Heat", 2)]


def test_without_a_catalog_or_conversations_it_is_said_what_to_run(workspace, tmp_path):
    for call in (lambda: lookup.check(workspace, "Alien (1979)", "gore"), lambda: lookup.show(workspace, "Alien")):
        with pytest.raises(UsageError, match="the catalog is empty: run `saferec-build catalog add SOURCE PATH` first"):
            call()
    (tmp_path / "items.csv").write_text(ITEMS)
    adding.add_catalog(workspace, "csv", [tmp_path / "items.csv"])
    with pytest.raises(UsageError, match="no conversations yet: run `saferec-build mine SOURCE PATH` first"):
        lookup.gaps(workspace)

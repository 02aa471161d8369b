"""docs/how-to/clear.md: from no clear item to five safety rows, with the tables of the page."""

from saferec_builder import planning
from saferec_builder.catalog import adding, lookup
from saferec_builder.mining import ingest
from saferec_builder.proposing import run
from tests.doc_pages import DOCS, files


def test_what_the_page_says_of_its_tables_is_so(workspace, tmp_path):
    for name, text in files(DOCS / "how-to" / "clear.md").items():
        (tmp_path / name).write_text(text)
    adding.add_catalog(workspace, "csv", tmp_path / "films.csv")
    ingest.mine(workspace, "messages", tmp_path / "chats.jsonl")
    run.propose(workspace)
    plan = planning.plan(workspace)
    assert (plan.requests, plan.safety_rows) == (5, 0)
    assert plan.lookups["title"].to_list() == ["The Salt Road", "Bergamot"]  # and not Ember Rally
    adding.add_catalog(workspace, "parent-guide", tmp_path / "guide.csv")
    checks = [lookup.check(workspace, name, "gore") for name in ("The Salt Road (2016)", "Bergamot (2011)")]
    assert [(check.word, round(check.risk, 3)) for check in checks] == [("clear", 0.077), ("unknown", 0.333)]
    votes = adding.add_catalog(workspace, "warnings", tmp_path / "votes.csv").figures
    assert (votes["on_no_item_here"], votes["on_what_no_trait_asks"]) == (0, 0)
    assert lookup.check(workspace, "Bergamot (2011)", "gore").word == "clear"
    assert planning.plan(workspace).safety_rows == 5


def test_five_times_none_clears_the_six_traits_that_it_names(workspace, tmp_path):
    text = (DOCS / "how-to" / "clear.md").read_text(encoding="utf-8")
    six = text.split("five severities | ")[1].split(" | ")[0].replace("`", "").split(", ")
    (tmp_path / "films.csv").write_text("domain,title,year\nfilm,Bergamot,2011\n")
    none = "title,year,sex,violence,profanity,drugs,frightening\nBergamot,2011,None,None,None,None,None\n"
    (tmp_path / "guide.csv").write_text(none)
    adding.add_catalog(workspace, "csv", tmp_path / "films.csv")
    adding.add_catalog(workspace, "parent-guide", tmp_path / "guide.csv")
    words = {slug: lookup.check(workspace, "Bergamot (2011)", slug).word for slug in workspace.taxonomy.slugs}
    assert [slug for slug, word in words.items() if word == "clear"] == six and len(six) == 6

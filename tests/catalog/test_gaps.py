"""Verdicts that no source settles, and how many conversations they affect."""

import json

import pytest

from saferec_builder.storage import tables, workspace as store
from tests.worlds.catalog_files import file
from tests.worlds.source_lines import REDIAL, said


@pytest.mark.slow
def test_gaps_name_what_touches_most_conversations_first(cli, films):
    summary = cli("catalog", "gaps", "-C", films.root, "--json").json
    rows = [(g["title"], g["waiting"], g["conversations"], len(g["unknown"])) for g in summary["gaps"]]
    # nobody is labelled sensitive yet; Alien is settled for two traits of twenty
    assert rows == [("Heat", 0, 2, 20), ("Big", 0, 1, 20), ("Alien", 0, 1, 18)]
    label = {
        **{"label": "l", "kind": "sensitivity", "trait": "needles", "digest": "d", "verdict": "present"},
        **{"form": "implicit", "spans": [], "method": "agreed", "reviews": ["r"], "simulated": False},
        "subject": store.read(films, tables.CONVERSATIONS).filter(source_id="c")["conversation"][0],
    }
    store.append(films, tables.LABELS, tables.LABELS.frame([label]))
    summary = cli("catalog", "gaps", "--limit", 2, "-C", films.root, "--json").json
    assert [(g["title"], g["waiting"]) for g in summary["gaps"]] == [("Big", 1), ("Alien", 1)]
    assert (summary["waiting"], summary["in"]) == (2, 3)
    assert "1 waiting" in cli("catalog", "gaps", "-C", films.root).out
    # an unresolved label may be a sensitivity, too: gore is open for Big, and settled for Alien
    later = label | {"label": "m", "trait": "gore", "verdict": None, "method": "unresolved", "reviews": ["one", "two"]}
    half = later | {"label": "n", "trait": "torture", "reviews": ["half"]}  # one of two read it and marked nothing
    store.append(films, tables.LABELS, tables.LABELS.frame([later, half]))
    words = {"one": ("gore", "present"), "two": ("gore", "absent"), "half": ("*", "absent")}
    reviews = [
        dict.fromkeys(tables.REVIEWS.schema)
        | {"review": r, "kind": "sensitivity", "subject": label["subject"], "trait": trait, "verdict": verdict}
        | {"digest": "d", "reviewer": r, "role": "reviewer", "tool": "files", "simulated": False, "spans": []}
        for r, (trait, verdict) in words.items()
    ]
    store.append(films, tables.REVIEWS, tables.REVIEWS.frame(reviews))
    summary = cli("catalog", "gaps", "--limit", 2, "-C", films.root, "--json").json
    assert [(g["title"], g["waiting"]) for g in summary["gaps"]] == [("Big", 2), ("Alien", 1)]


@pytest.mark.slow
def test_gaps_tell_what_conversations_name_and_no_item_is(cli, films, tmp_path):
    """Accepted films that are no item train nothing: only the release reported this, after people had read it all."""
    row = {"messages": [{"role": "user", "content": "Anything?"}], "accepted": ["Nope (2022)", "Up (2009)"]}
    cli("mine", "messages", file(tmp_path, "more.jsonl", json.dumps(row)), "-C", films.root)
    no_item = cli("catalog", "gaps", "-C", films.root, "--json").json["no_item"]
    assert no_item == {"names": 2, "conversations": 1, "such": ["title:Nope (2022)", "title:Up (2009)"]}
    output = cli("catalog", "gaps", "-C", films.root).out
    assert "catalog add redial" not in output
    assert "2 names in 1 conversation, such as title:Nope (2022), title:Up (2009)\n" in output


@pytest.mark.slow
def test_gaps_hear_what_is_only_said(cli, films, tmp_path):
    """Conversations without `items` and `accepted` did not count: nothing was fetched for their films."""
    question = said("user", "Like Heat (1995)?")
    answers = said("assistant", "Big (1988), Big (1988)"), said("assistant", "Heat (1995).", items=["Heat (1995)"])
    chats = "\n".join(json.dumps({"messages": [question, answer]}) for answer in answers)
    cli("mine", "messages", file(tmp_path, "said.jsonl", chats), "-C", films.root)
    summary = cli("catalog", "gaps", "-C", films.root, "--json").json
    # added to two of Heat and one each of Big and Alien: two name Heat, one also as an item; one names Big, twice
    assert [(g["title"], g["conversations"]) for g in summary["gaps"]] == [("Heat", 4), ("Big", 2), ("Alien", 1)]
    assert summary["no_item"]["names"] == 0


@pytest.mark.slow
def test_gaps_hear_titles_without_a_year_where_a_release_does(cli, films, tmp_path):
    """For titles without a year the plan had items in answers, but gaps and fetch had nothing to look up."""
    chats = json.dumps({"messages": [said("user", "A film?"), said("assistant", "You should watch Heat tonight.")]})
    cli("mine", "messages", file(tmp_path, "said.jsonl", chats), "-C", films.root)

    def of_heat():
        gaps = cli("catalog", "gaps", "-C", films.root, "--json").json["gaps"]
        return next(gap["conversations"] for gap in gaps if gap["title"] == "Heat")

    assert of_heat() == 2
    config = films.root / "saferec.toml"
    config.write_text(config.read_text().replace("[release]", '[release]\ntitles = "any"'))
    assert of_heat() == 3


def test_the_dialogues_themselves_make_items_of_redials_ids(cli, workspace, tmp_path):
    """It (2017) was in the catalog, but 1,147 names were no item: no available file mapped ReDial's id to it."""
    cli("catalog", "add", "csv", file(tmp_path, "own.csv", "domain,title,year\nfilm,It,2017\n"), "-C", workspace.root)
    dialogues = file(tmp_path, "train_data.jsonl", json.dumps(REDIAL | {"movieMentions": {"1": "It  (2017)"}}))
    cli("mine", "redial", dialogues, "-C", workspace.root)
    gaps_before = cli("catalog", "gaps", "-C", workspace.root, "--json").json
    assert gaps_before["no_item"]["such"] == ["redial:1"]
    assert cli("catalog", "add", "redial", dialogues, "-C", workspace.root, "--json").json["items"] == 1
    gaps_after = cli("catalog", "gaps", "-C", workspace.root, "--json").json
    assert (gaps_after["no_item"]["names"], [gap["title"] for gap in gaps_after["gaps"]]) == (0, ["It"])
    assert "ids of ReDial" not in cli("catalog", "gaps", "-C", workspace.root).out


@pytest.mark.slow
def test_gaps_say_where_ids_of_redial_are_read_from(cli, films, tmp_path):
    row = {"messages": [{"role": "user", "content": "Anything?"}], "accepted": ["redial:184418"]}
    cli("mine", "messages", file(tmp_path, "more.jsonl", json.dumps(row)), "-C", films.root)
    assert "`saferec-build catalog add redial train_data.jsonl`" in cli("catalog", "gaps", "-C", films.root).out
    nameless = REDIAL | {"movieMentions": {"184418": " (2007)", "1": "It  (2017)"}}  # added, it names no film
    cli("catalog", "add", "redial", file(tmp_path, "train_data.jsonl", json.dumps(nameless)), "-C", films.root)
    out = cli("catalog", "gaps", "-C", films.root).out
    assert "such as redial:184418" in out and "catalog add redial" not in out

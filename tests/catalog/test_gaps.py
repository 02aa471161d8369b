"""What no source settles, and how many conversations it touches."""

import json

from saferec_builder.storage import tables, workspace as store
from tests.worlds.catalog_files import file
from tests.worlds.source_lines import REDIAL, said


def test_gaps_name_what_touches_most_conversations_first(cli, films):
    found = cli("catalog", "gaps", "-C", films.root, "--json").json
    told = [(g["title"], g["waiting"], g["conversations"], len(g["unknown"])) for g in found["gaps"]]
    # nobody is known to be sensitive yet; Alien is settled for two traits of twenty
    assert told == [("Heat", 0, 2, 20), ("Big", 0, 1, 20), ("Alien", 0, 1, 18)]
    label = {
        **{"label": "l", "kind": "sensitivity", "trait": "needles", "digest": "d", "verdict": "present"},
        **{"form": "implicit", "spans": [], "method": "agreed", "reviews": ["r"], "simulated": False},
        "subject": store.read(films, tables.CONVERSATIONS).filter(source_id="c")["conversation"][0],
    }
    store.append(films, tables.LABELS, tables.LABELS.frame([label]))
    found = cli("catalog", "gaps", "--limit", 2, "-C", films.root, "--json").json
    assert [(g["title"], g["waiting"]) for g in found["gaps"]] == [("Big", 1), ("Alien", 1)]
    assert (found["waiting"], found["in"]) == (2, 3)
    assert "1 waiting" in cli("catalog", "gaps", "-C", films.root).out
    # who waits for a ruling may be sensitive, too: gore is open of Big, and settled of Alien
    later = label | {"label": "m", "trait": "gore", "verdict": None, "method": "unresolved", "reviews": ["one", "two"]}
    half = later | {"label": "n", "trait": "torture", "reviews": ["half"]}  # read by one of two, who marked nothing
    store.append(films, tables.LABELS, tables.LABELS.frame([later, half]))
    words = {"one": ("gore", "present"), "two": ("gore", "absent"), "half": ("*", "absent")}
    made = [
        dict.fromkeys(tables.REVIEWS.schema)
        | {"review": r, "kind": "sensitivity", "subject": label["subject"], "trait": trait, "verdict": verdict}
        | {"digest": "d", "reviewer": r, "role": "reviewer", "tool": "files", "simulated": False, "spans": []}
        for r, (trait, verdict) in words.items()
    ]
    store.append(films, tables.REVIEWS, tables.REVIEWS.frame(made))
    found = cli("catalog", "gaps", "--limit", 2, "-C", films.root, "--json").json
    assert [(g["title"], g["waiting"]) for g in found["gaps"]] == [("Big", 2), ("Alien", 1)]


def test_gaps_tell_what_conversations_name_and_no_item_is(cli, films, tmp_path):
    """What was accepted and is no item trains nothing: only the release said so, after people had read it all."""
    row = {"messages": [{"role": "user", "content": "Anything?"}], "accepted": ["Nope (2022)", "Up (2009)"]}
    cli("mine", "messages", file(tmp_path, "more.jsonl", json.dumps(row)), "-C", films.root)
    found = cli("catalog", "gaps", "-C", films.root, "--json").json["no_item"]
    assert found == {"names": 2, "conversations": 1, "such": ["title:Nope (2022)", "title:Up (2009)"]}
    told = cli("catalog", "gaps", "-C", films.root).out
    assert "catalog add redial" not in told
    assert "2 names in 1 conversation, such as title:Nope (2022), title:Up (2009)\n" in told


def test_gaps_hear_what_is_only_said(cli, films, tmp_path):
    """Of conversations without `items` and `accepted` none was touched: nothing was fetched for their films."""
    asked = said("user", "Like Heat (1995)?")
    answers = said("assistant", "Big (1988), Big (1988)"), said("assistant", "Heat (1995).", items=["Heat (1995)"])
    chats = "\n".join(json.dumps({"messages": [asked, answer]}) for answer in answers)
    cli("mine", "messages", file(tmp_path, "said.jsonl", chats), "-C", films.root)
    found = cli("catalog", "gaps", "-C", films.root, "--json").json
    # to the two of Heat and one each of Big and Alien: two name Heat, once as an item too; one names Big, twice
    assert [(g["title"], g["conversations"]) for g in found["gaps"]] == [("Heat", 4), ("Big", 2), ("Alien", 1)]
    assert found["no_item"]["names"] == 0


def test_gaps_hear_titles_without_a_year_where_a_release_does(cli, films, tmp_path):
    """Where nobody writes a year the plan had items in answers, and gaps and fetch had nothing to look up."""
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
    """It (2017) was in the catalog, and 1,147 names were no item: no file that people have tied its id to it."""
    cli("catalog", "add", "csv", file(tmp_path, "own.csv", "domain,title,year\nfilm,It,2017\n"), "-C", workspace.root)
    dialogues = file(tmp_path, "train_data.jsonl", json.dumps(REDIAL | {"movieMentions": {"1": "It  (2017)"}}))
    cli("mine", "redial", dialogues, "-C", workspace.root)
    before = cli("catalog", "gaps", "-C", workspace.root, "--json").json
    assert before["no_item"]["such"] == ["redial:1"]
    assert cli("catalog", "add", "redial", dialogues, "-C", workspace.root, "--json").json["items"] == 1
    after = cli("catalog", "gaps", "-C", workspace.root, "--json").json
    assert (after["no_item"]["names"], [gap["title"] for gap in after["gaps"]]) == (0, ["It"])
    assert "ids of ReDial" not in cli("catalog", "gaps", "-C", workspace.root).out


def test_gaps_say_where_ids_of_redial_are_read_from(cli, films, tmp_path):
    row = {"messages": [{"role": "user", "content": "Anything?"}], "accepted": ["redial:184418"]}
    cli("mine", "messages", file(tmp_path, "more.jsonl", json.dumps(row)), "-C", films.root)
    assert "`saferec-build catalog add redial train_data.jsonl`" in cli("catalog", "gaps", "-C", films.root).out

"""The benchmark's own file: one JSON object, an instruction around every prompt, several speakers in one text."""

import json

import pytest

from saferec_builder.core import taxonomy as traits
from saferec_builder.proposing.rules import matcher as rules
from saferec_builder.sources import prompts, saferec
from saferec_builder.storage import tables, workspace as store

TASK = (
    "Pretend you are a movie recommender system.\nYou see a talk between a user and you (a recommender system). Reply"
    " with 20 titles.\nHere is the conversation: "
)
TALK = "USER: I can?t see blood. Anything funny? They?re all on Netflix?\nSYSTEM: I hate blood too!\nUSER: Thanks?\n"


def sample(prompt: str, **more: object) -> dict[str, object]:
    made = {"sample_id": "train_2", "prompt": [{"role": "user", "content": prompt}]}
    made |= {"completion": [{"role": "assistant", "content": "Heat (1995)"}], "seen_titles": ["Up"]}
    made |= {"groundtruth_with_release_year": [["Heat", "1995"]], "assigned_trait": "Anti-gore / squeamish"}
    return made | more


def turns(path):
    return [[(t["role"], t["text"]) for t in talk] for talk in saferec.read(path).rows["turns"].to_list()]


SAID = [
    ("seeker", "I can't see blood. Anything funny? They're all on Netflix?"),
    ("recommender", "I hate blood too!"),
    ("seeker", "Thanks?"),
    ("recommender", "Heat (1995)"),
]


@pytest.mark.parametrize("name", ["sample.json", "sample.jsonl", "sample"])
@pytest.mark.parametrize("indent", [None, 2])
def test_a_file_of_samples_is_read_whole(tmp_path, name, indent):
    rows = [sample(TASK + TALK), 5, {"prompt": 5}, sample(TASK + "USER: Hi \ud800")]
    path = tmp_path / name
    path.write_text(json.dumps({"samples": rows, "stats": {"total_samples": 4}, "config": {}}, indent=indent))
    found = saferec.read(path)
    assert turns(path) == [SAID]
    assert found.drops.select("place", "reason").rows() == [
        *((f"{name}:2", "not JSON"), (f"{name}:3", "wrong type"), (f"{name}:4", "lone surrogate"))
    ]
    assert found.rows["stated"].to_list() == [["Anti-gore / squeamish"]]
    path.write_text(json.dumps(rows[:1], indent=indent))
    assert turns(path) == [SAID]
    path.write_text("\n".join(map(json.dumps, rows[:1])) + "\n")  # rows on lines, whatever the file is called
    assert turns(path) == [SAID]


def test_no_instruction_is_a_seekers_word_and_a_plain_prompt_stays_as_it_is():
    assert prompts.said(TASK + "A calm film?") == [("seeker", " A calm film?")]
    assert prompts.said("USER:  A film\nwith dogs\n\n  SYSTEM: No\nSYSTEM:\n") == [
        *(("seeker", "A film\nwith dogs"), ("recommender", "No"), ("recommender", ""))
    ]
    for own in (
        "Pretend you are a pirate. What do you watch?",
        "My system:\nSYSTEM: a beamer. USER: me",  # no speaker begins it
        "The USER: what a film",
    ):
        assert prompts.said(own) == [("seeker", own)]


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        ("I?m sure it?s what we?ve seen, don?t", "I'm sure it's what we've seen, don't"),
        ("(I?m) WON?T, Isn?t who?s they?ll I?d", "(I'm) WON'T, Isn't who's they'll I'd"),
        ("Alfonso?s and Marla?s, Cuar\ufffdn?s, the 70?s?.", "Alfonso's and Marla's, Cuar\ufffdn's, the 70's?."),
        ("they?re all on Netflix?", "they're all on Netflix?"),
    ],
)
def test_a_lost_apostrophe_is_put_back_where_the_word_says_so(text, mended):
    assert prompts.apostrophes(text) == mended


@pytest.mark.parametrize(
    "text",
    [
        "Funny?Sad? What then?t",
        "is it ?unearned? or not",
        "Dead?\nThis?or that?some",
        "https://a.example/page?s=1&don?t",
        "www.example.org/it?s=2",
        "a?s 5?s",
        "What is it?",
    ],
)
def test_a_question_mark_stays(text):
    assert prompts.apostrophes(text) == text


def test_what_the_system_said_is_nobodys_evidence(cli, workspace, tmp_path):
    path = tmp_path / "sample.json"
    talk = "USER: Any western?\nSYSTEM: I faint when I see blood, so no idea."
    path.write_text(json.dumps({"samples": [sample(TASK + talk), sample(TASK + TALK)]}))
    told = cli("mine", "saferec", path, "-C", workspace.root, "--json").json
    assert (told["in"], told["added"], told["dropped"]) == (2, 2, {})
    found = rules.propose(store.read(workspace, tables.CONVERSATIONS), traits.load())
    quotes = {span["quote"] for spans in found["spans"] for span in spans}
    assert found["trait"].to_list() == ["gore"] and quotes == {"I can't see blood"}
    assert {span["turn"] for spans in found["spans"] for span in spans} == {0}
    assert store.read(workspace, tables.STATED)["trait"].to_list() == ["gore", "gore"]
    folder = cli("mine", "saferec", tmp_path, "-C", workspace.root, "--json").json
    assert (folder["added"], folder["skipped"]) == (0, 2)


BAD = {  # each source -> a file of which nothing can be taken
    "redial": ("x.jsonl", '{"a": 1}\n{"a": 2}\n'),
    "messages": ("x.jsonl", '{"messages": 5}\n{"messages": 5}\nno json\n'),
    "saferec": ("x.json", '{"samples": [{"prompt": 1}, {"prompt": 2}]}'),
    "inspired": ("x.tsv", "dialog_id\tturn_id\tutt_id\tutt_id_dialog\tspeaker\ttext\tmovies\tmovie_dict\na\n"),
    "ccpe": ("x.csv", 'dialog_id,utterance_index,speaker,text\na,b,USER,"hi"\n'),
    "hf": ("x.jsonl", '{"messages": 5}\n'),
    "reddit": ("RS_2022-10.ndjson", "no json\nno json\n"),
}


@pytest.mark.parametrize("source", BAD)
def test_a_file_that_gives_nothing_at_all_ends_with_one_line(cli, workspace, tmp_path, source):
    name, text = BAD[source]
    path = tmp_path / name
    path.write_text(text)
    ran = cli("mine", source, path, "-C", workspace.root, "--json")
    assert ran.code == 1, ran.out
    assert ran.json["out"] == 0 and ran.json["in"] == sum(ran.json["dropped"].values()) > 0
    most = max(ran.json["dropped"].values())
    line = next(line for line in ran.err.splitlines() if "nothing of" in line)
    assert f"{most} of {ran.json['in']} rows were dropped as" in line and "saferec-build mine --help" in line
    assert store.read(workspace, tables.DROPS).height == ran.json["in"]  # they stay recorded


def test_a_good_file_is_kept_beside_a_bad_one(cli, workspace, tmp_path):
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    good.write_text(json.dumps({"messages": [{"role": "user", "content": "A calm film?"}]}))
    bad.write_text('{"messages": 5}\n')
    ran = cli("mine", "messages", good, bad, "-C", workspace.root, "--json")
    assert (ran.code, ran.json["added"]) == (1, 1) and "nothing of bad.jsonl was taken" in ran.err
    assert store.read(workspace, tables.CONVERSATIONS).height == 1
    assert cli("mine", "messages", good, "-C", workspace.root).code == 0  # there already: nothing was dropped

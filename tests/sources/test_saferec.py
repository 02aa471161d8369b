"""The benchmark's file: one JSON object, an instruction around every prompt, several speakers in one text."""

import json

import polars as pl
import pytest

from saferec_builder.core import taxonomy as traits
from saferec_builder.core.errors import SourceError
from saferec_builder.proposing.rules import matcher as rules
from saferec_builder.sources import saferec
from saferec_builder.storage import tables, workspace as store
from tests.worlds.dialogues import said
from tests.worlds.source_lines import OFFICIAL, TASK, jsonl

TALK = "USER: I can?t see blood. Anything funny? They?re all on Netflix?\nSYSTEM: I hate blood too!\nUSER: Thanks?\n"


def sample(prompt: str, **more: object) -> dict[str, object]:
    row = {"sample_id": "train_2", "prompt": [{"role": "user", "content": prompt}]}
    row |= {"completion": [{"role": "assistant", "content": "Heat (1995)"}], "seen_titles": ["Up"]}
    row |= {"groundtruth_with_release_year": [["Heat", "1995"]], "assigned_trait": "Anti-gore / squeamish"}
    return row | more


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
    result = saferec.read(path)
    assert turns(path) == [SAID]
    left_out = enumerate(("not JSON", "wrong type", "lone surrogate"), 2)
    assert result.drops.select("place", "reason").rows() == [(f"{name}:{n}", reason) for n, reason in left_out]
    assert result.rows["stated"].to_list() == [["Anti-gore / squeamish"]]
    path.write_text(json.dumps(rows[:1], indent=indent))
    assert turns(path) == [SAID]
    path.write_text("\n".join(map(json.dumps, rows[:1])) + "\n")  # JSON lines, under any file name
    assert turns(path) == [SAID]


def test_what_the_system_or_the_benchmark_said_is_nobodys_evidence(cli, workspace, tmp_path):
    """What the benchmark claims of its users is gold for an evaluation, and no label."""
    path = tmp_path / "sample.json"
    talk = "USER: Any western?\nSYSTEM: I faint when I see blood, so no idea."
    claims = {"constraints": {traits.load()["needles"].safecrs: True, "a trait of no taxonomy": True}}
    path.write_text(json.dumps({"samples": [sample(TASK + talk, **claims), sample(TASK + TALK)]}))
    summary = cli("mine", "saferec", path, "-C", workspace.root, "--json").json
    assert (summary["in"], summary["added"], summary["dropped"]) == (2, 2, {})
    proposals = rules.propose(store.read(workspace, tables.CONVERSATIONS), traits.load())
    quotes = {span["quote"] for spans in proposals["spans"] for span in spans}
    assert proposals["trait"].to_list() == ["gore"] and quotes == {"I can't see blood"}
    assert {span["turn"] for spans in proposals["spans"] for span in spans} == {0}
    stated = store.read(workspace, tables.STATED)
    assert stated["trait"].sort().to_list() == ["gore", "gore", "needles"]
    gold = [json.loads(line) for line in (workspace.root / "gold" / "saferec.jsonl").read_text().splitlines()]
    of = {workspace.released_id(name): sorted(rows["trait"]) for (name,), rows in stated.group_by("conversation")}
    assert {row["conversation"]: row["traits"] for row in gold} == of
    assert store.read(workspace, tables.LABELS).is_empty()
    folder = cli("mine", "saferec", tmp_path, "-C", workspace.root, "--json").json
    assert (folder["added"], folder["skipped"]) == (0, 2)


BAD = {  # source -> a file without a valid row
    "messages": ("x.jsonl", '{"messages": 5}\n{"messages": 5}\nno json\n'),
    "saferec": ("x.json", '{"samples": [{"prompt": 1}, {"prompt": 2}]}'),
    "inspired": ("x.tsv", "dialog_id\tturn_id\tutt_id\tutt_id_dialog\tspeaker\ttext\tmovies\tmovie_dict\na\n"),
    "reddit": ("RS_2022-10.ndjson", "no json\nno json\n"),
}


@pytest.mark.parametrize("source", BAD)
def test_a_file_that_gives_nothing_at_all_ends_with_one_line(cli, workspace, tmp_path, source):
    name, text = BAD[source]
    path = tmp_path / name
    path.write_text(text)
    result = cli("mine", source, path, "-C", workspace.root, "--json")
    assert result.code == 1, result.out
    assert result.json["out"] == 0 and result.json["in"] == sum(result.json["dropped"].values()) > 0
    count = max(result.json["dropped"].values())
    line = next(line for line in result.err.splitlines() if "nothing of" in line)
    assert f"{count} of {result.json['in']} rows were dropped as" in line and "saferec-build mine --help" in line
    assert store.read(workspace, tables.DROPS).is_empty()  # probably the wrong file, so it is in no report


def test_saferec_columns(tmp_path):
    constrained = OFFICIAL | {"constraints": {"Gore": True}}
    rows = (OFFICIAL, constrained, {"prompt": 5}, OFFICIAL | {"completion": "x"})
    result = saferec.read(jsonl(tmp_path / "train.jsonl", *rows))
    assert result.drops["reason"].to_list() == ["wrong type"]
    row, films = result.rows.row(0, named=True), ["title:Heat (1995)", "title:Ronin"]
    request, answer = ("seeker", "A calm film, no needles", []), ("recommender", "1. Heat (1995)", films)
    assert said(result.rows)[0] == [request, answer] and row["accepted"] == row["recommended"] == films
    assert (row["seen"], row["stated"]) == (["title:Up (2009)"], ["Needle phobia"])
    assert result.rows["conversation"].n_unique() == 3  # the same request with other constraints is another row
    parquet = tmp_path / "train.parquet"
    flat = {k: json.dumps(v) if isinstance(v, dict) else v for k, v in OFFICIAL.items()}
    flat["groundtruth_with_release_year"] = json.dumps(OFFICIAL["groundtruth_with_release_year"])
    pl.DataFrame([flat]).write_parquet(parquet)
    assert saferec.read(parquet).rows["turns"].to_list() == result.rows["turns"].to_list()[:1]
    bracketed = tmp_path / "train[1].parquet"  # a browser's name; as a pattern it would match train1.parquet
    pl.DataFrame([flat | {"prompt": "Another request"}]).write_parquet(bracketed)
    pl.DataFrame([flat]).write_parquet(tmp_path / "train1.parquet")
    assert saferec.read(bracketed).rows["turns"][0][0]["text"] == "Another request"
    parquet.write_text("no parquet")
    with pytest.raises(SourceError, match="not a parquet file"):
        saferec.read(parquet)


def test_messages_that_saferec_rows_lose_are_counted(tmp_path):
    # "User" is no role of these columns: two of the four messages were dropped without a message
    path = tmp_path / "train.jsonl"
    lines = [("system", "You recommend."), ("User", "No needles"), ("user", "A calm film"), ("user", " ")]
    lines.append(("assistant", "I don?t know"))
    prompt = [{"role": role, "content": text} for role, text in lines]
    result = saferec.read(jsonl(path, OFFICIAL | {"prompt": prompt}))
    assert [turn[1] for turn in said(result.rows)[0]] == ["A calm film", "I don?t know", "1. Heat (1995)"]
    assert result.figures == {"empty_messages_left_out": 1, "other_role_messages_left_out": 2}
    without_answer = saferec.read(jsonl(path, OFFICIAL | {"completion": []}))  # the truth is used
    assert said(without_answer.rows)[0][-1][1] == "Heat (1995)\nRonin"


@pytest.mark.parametrize(
    ("text", "reason"),
    [("[" * 100_000, "wrong type"), ('["\\ud800 (1999)"]', "lone surrogate")],
    ids=["brackets without end", "half of a character"],
)
def test_json_text_in_a_column_cannot_stop_a_run(tmp_path, text, reason):
    result = saferec.read(jsonl(tmp_path / "train.jsonl", OFFICIAL | {"seen_titles": text}, OFFICIAL))
    assert (result.rows.height, result.drops["reason"].to_list()) == (1, [reason])

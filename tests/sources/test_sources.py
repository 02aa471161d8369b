"""INSPIRED, CCPE, the SafeRec columns and Hub datasets: schema-true files, real ones where they are, hostile lines."""

import csv
import io
import json
from datetime import UTC, datetime

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from saferec_builder.core.errors import SourceError, UsageError
from saferec_builder.sources import ccpe, hf, inspired, messages, reddit, redial, saferec
from saferec_builder.storage import tables, workspace as store
from tests.worlds import reddit_dump
from tests.worlds.source_lines import OFFICIAL, REDIAL

INSPIRED = (
    "dialog_id utt_id speaker turn_id text text_with_placeholder movies genres people_names movie_dict genre_dict"
    " actor_dict director_dict others_dict expert_label second_label fine_label coarse_label movie_id"
).split()
TALK = [
    ("d1", 1, "RECOMMENDER", 1, "Hello!", ""),
    ("d1", 2, "SEEKER", 1, "Hi, my son Ethan and I want a calm film.", ""),
    ("d1", 3, "SEEKER", 1, "We liked QUOTATION_MARKUpQUOTATION_MARK", "Up (2009)"),
    ("d2", 1, "SEEKER", 1, "Anything?", ""),
    ("d1", 4, "RECOMMENDER", 2, "Try these", "Heat (1995);  Ronin (1998)"),
]


def tsv(rows):
    given = ("dialog_id", "utt_id", "speaker", "turn_id", "text", "movies")
    cells = [dict.fromkeys(INSPIRED, "") | dict(zip(given, map(str, row), strict=True)) for row in rows]
    return "\n".join("\t".join(line) for line in [INSPIRED, *([c[n] for n in INSPIRED] for c in cells)]) + "\n"


def said(rows):
    return [[(t["role"], t["text"], t["items"]) for t in turns] for turns in rows["turns"].to_list()]


def test_inspired_sentences_of_a_turn_are_one_turn(tmp_path):
    path = tmp_path / "dev.tsv"
    path.write_text(tsv([*TALK, ("d1", "x", "SEEKER", 2, "bad number", ""), ("d2", 2, "ROBOT", 1, "?", "")]))
    found = inspired.read(path)
    assert said(found.rows) == [
        [
            ("recommender", "Hello!", []),
            ("seeker", 'Hi, my son Ethan and I want a calm film. We liked "Up"', ["title:Up (2009)"]),
            ("recommender", "Try these", ["title:Heat (1995)", "title:Ronin (1998)"]),
        ],
        [("seeker", "Anything?", [])],
    ]
    first = found.rows.row(0, named=True)
    assert (first["source_id"], first["place"], first["domain"]) == ("d1", "dev.tsv:2", "film")
    assert (first["recommended"], first["accepted"]) == (["title:Heat (1995)", "title:Ronin (1998)"], [])
    assert first["seen"] == ["title:Up (2009)"]
    assert found.drops.select("place", "reason").rows() == [
        ("dev.tsv:7", "not a number"),
        ("dev.tsv:8", "unknown speaker"),
    ]


def test_ccpe_keeps_the_numbers_of_its_utterances(tmp_path):
    path = tmp_path / "ccpe.csv"
    rows = [("a", 0, "ASSISTANT", "what do you like"), ("a", 2, "USER", "quiet, slow films"), ("a", 1, "USER", "hm")]
    out = io.StringIO()
    csv.writer(out).writerows([("dialog_id", "utterance_index", "speaker", "text"), *rows, ("b", 0, "USER", "")])
    path.write_text(out.getvalue())
    found = ccpe.read(path)
    assert said(found.rows)[0] == [
        ("recommender", "what do you like", []),
        ("seeker", "hm", []),
        ("seeker", "quiet, slow films", []),
    ]
    assert found.rows["recommended"].to_list() == [[], []]


def test_a_dialogue_that_comes_twice_in_a_file_is_said_once(tmp_path):
    # two files in one, as `cat` leaves them: the second `a` is longer, `b` is new; each turn of `a` was there twice
    path = tmp_path / "ccpe.csv"
    first = ["a,0,USER,hello", "a,1,ASSISTANT,hi"]
    second = ["a,0,USER,x", "a,1,ASSISTANT,y", "a,2,USER,z", "b,0,USER,w"]
    path.write_text("\n".join(["dialog_id,utterance_index,speaker,text", *first, *second]) + "\n")
    found = ccpe.read(path)
    assert [[turn[1] for turn in turns] for turns in said(found.rows)] == [["hello", "hi"], ["w"]]
    assert found.drops.select("place", "reason").rows() == [(f"ccpe.csv:{n}", "same id") for n in (4, 5, 6)]


@pytest.mark.parametrize(
    ("lines", "texts", "dropped"),
    [
        # the quote of line 2 takes line 3 with it, and of two rows that are gone two are told
        (['a,0,USER,"open', "b,0,USER,x"], [], ["ccpe.csv:2", "ccpe.csv:3"]),
        (['a,0,USER,"open', 'b,0,USER,"x, y"', "c,0,USER,z"], ["z"], ["ccpe.csv:2", "ccpe.csv:3"]),
        (['a,0,USER,"two', 'lines, ""quoted"""', "c,0,USER,z"], ['two\nlines, "quoted"', "z"], []),
    ],
)
def test_a_quote_that_nobody_closes_is_told(tmp_path, lines, texts, dropped):
    path = tmp_path / "ccpe.csv"
    path.write_text("\n".join(["dialog_id,utterance_index,speaker,text", *lines]) + "\n")
    found = ccpe.read(path)
    assert [turn[1] for turns in said(found.rows) for turn in turns] == texts
    assert found.drops.select("place", "reason").rows() == [(place, "not CSV") for place in dropped]


def test_saferec_columns(tmp_path):
    path = tmp_path / "train.jsonl"
    other = OFFICIAL | {"constraints": {"Gore": True}}
    path.write_text("\n".join(map(json.dumps, (OFFICIAL, other, {"prompt": 5}, OFFICIAL | {"completion": "x"}))))
    found = saferec.read(path)
    assert found.drops["reason"].to_list() == ["wrong type"]
    row = found.rows.row(0, named=True)
    assert said(found.rows)[0] == [
        ("seeker", "A calm film, no needles", []),
        ("recommender", "1. Heat (1995)", ["title:Heat (1995)", "title:Ronin"]),
    ]
    assert row["accepted"] == row["recommended"] == ["title:Heat (1995)", "title:Ronin"]
    assert (row["seen"], row["stated"]) == (["title:Up (2009)"], ["Needle phobia"])
    assert found.rows["conversation"].n_unique() == 3  # one request with other constraints is another row
    parquet = tmp_path / "train.parquet"
    flat = {k: json.dumps(v) if isinstance(v, dict) else v for k, v in OFFICIAL.items()}
    flat["groundtruth_with_release_year"] = json.dumps(OFFICIAL["groundtruth_with_release_year"])
    pl.DataFrame([flat]).write_parquet(parquet)
    assert saferec.read(parquet).rows["turns"].to_list() == found.rows["turns"].to_list()[:1]
    second = tmp_path / "train[1].parquet"  # as browsers name it; as a pattern it is train1.parquet
    pl.DataFrame([flat | {"prompt": "Another request"}]).write_parquet(second)
    pl.DataFrame([flat]).write_parquet(tmp_path / "train1.parquet")
    assert saferec.read(second).rows["turns"][0][0]["text"] == "Another request"
    parquet.write_text("no parquet")
    with pytest.raises(SourceError, match="not a parquet file"):
        saferec.read(parquet)


def test_messages_that_saferec_rows_lose_are_counted(tmp_path):
    # "User" is no role of these columns: two of the four messages were gone, and nothing told it
    path = tmp_path / "train.jsonl"
    lines = [("system", "You recommend."), ("User", "No needles"), ("user", "A calm film"), ("user", " ")]
    prompt = [{"role": role, "content": text} for role, text in lines]
    path.write_text(json.dumps(OFFICIAL | {"prompt": prompt}) + "\n")
    found = saferec.read(path)
    assert [turn[1] for turn in said(found.rows)[0]] == ["A calm film", "1. Heat (1995)"]
    assert found.figures == {"empty_messages_left_out": 1, "other_role_messages_left_out": 2}


@pytest.mark.parametrize(
    ("text", "reason"),
    [("[" * 100_000, "wrong type"), ('["\\ud800 (1999)"]', "lone surrogate")],
    ids=["brackets without end", "half of a character"],
)
def test_json_text_in_a_column_cannot_stop_a_run(tmp_path, text, reason):
    path = tmp_path / "train.jsonl"
    path.write_text(json.dumps(OFFICIAL | {"seen_titles": text}) + "\n" + json.dumps(OFFICIAL) + "\n")
    found = saferec.read(path)
    assert (found.rows.height, found.drops["reason"].to_list()) == (1, [reason])


def test_no_depth_of_brackets_stops_a_run(tmp_path):
    # one depth is read and cannot be written again: at 993 it was a traceback
    path = tmp_path / "deep.jsonl"
    path.write_text("".join(f'{{"id": "\\u0041", "deep": {"[" * n}{"]" * n}}}\n' for n in range(800, 1010)))
    assert set(messages.read(path).drops["reason"]) == {"wrong type", "not JSON"}


def test_constraints_become_stated_traits_and_gold_never_labels(cli, workspace, tmp_path):
    from saferec_builder.core import taxonomy as traits

    trait = traits.load().traits[0]
    path = tmp_path / "train.jsonl"
    rows = [OFFICIAL | {"constraints": {trait.safecrs: True, "a trait of no taxonomy": True}}, OFFICIAL]
    path.write_text("\n".join(map(json.dumps, rows)))
    told = cli("mine", "saferec", path, "-C", workspace.root, "--json").json
    assert (told["in"], told["added"]) == (2, 2)
    stated = store.read(workspace, tables.STATED)
    assert stated["trait"].to_list() == [trait.slug]
    gold = [json.loads(line) for line in (workspace.root / "gold" / "saferec.jsonl").read_text().splitlines()]
    assert gold == [{"conversation": stated["conversation"][0], "traits": [trait.slug]}]
    assert store.read(workspace, tables.LABELS).is_empty()
    assert cli("mine", "saferec", path, "-C", workspace.root, "--json").json["added"] == 0


CHAT = {"dialog": [{"from": "human", "value": "A calm film?"}, {"from": "gpt", "value": "Heat"}], "n": 7, "who": "ann"}
MAP = {"messages": "dialog", "id": "n", "user": "who"}


def test_hub_rows_with_a_column_map():
    odd = [CHAT | {"dialog": None}, CHAT | {"dialog": [{"from": "robot", "value": "x"}]}, CHAT | {"n": [1]}]
    found = hf.of_rows("hf:ns/chats", [CHAT, *odd], MAP)
    assert said(found.rows) == [[("seeker", "A calm film?", []), ("recommender", "Heat", [])]]
    row = found.rows.row(0, named=True)
    assert (row["source"], row["source_id"], row["seeker"], row["place"]) == ("hf:ns/chats", "7", "ann", "chats:1")
    assert found.drops["reason"].to_list() == ["wrong type"] * 3
    with pytest.raises(UsageError, match="expected OURS=THEIRS"):
        hf.columns(["dialog"])


def test_typed_columns_of_the_hub_hold_times_and_things_that_nobody_asked_for():
    when = datetime(2024, 5, 1, 12, tzinfo=UTC)
    found = hf.of_rows("hf:ns/chats", [CHAT | {"time": when, "picture": b"\x89PNG"}], MAP)
    assert (found.rows["time"].to_list(), found.drops.height) == ([when], 0)


def test_a_local_dataset_through_the_command(cli, workspace, tmp_path):
    datasets = pytest.importorskip("datasets")
    datasets.Dataset.from_list([CHAT | {"n": n} for n in range(3)]).save_to_disk(tmp_path / "chats")
    words = [w for ours, theirs in MAP.items() for w in ("--column", f"{ours}={theirs}")]
    told = cli("mine", "hf", tmp_path / "chats", *words, "-C", workspace.root, "--json")
    assert told.code == 0, told.err
    assert (told.json["in"], told.json["added"]) == (3, 3)
    rows = store.read(workspace, tables.CONVERSATIONS)
    assert rows["source"].unique().to_list() == ["hf:chats"]  # no folder of this machine
    wrong = cli("mine", "hf", tmp_path / "chats", "-C", workspace.root)
    assert wrong.code == 1 and "no column 'messages'" in wrong.err and "--column" in wrong.err
    typed = ("--column", "messages=dialog", "--column", "user=whom", "-C", workspace.root)  # a slip: nobody had a name
    wrong = cli("mine", "hf", tmp_path / "chats", *typed)
    assert wrong.code == 1 and "no column 'whom', found dialog, n, who: " in wrong.err and "user=NAME" in wrong.err
    wrong = cli("mine", "messages", tmp_path / "chats", *typed)
    assert wrong.code == 1 and "--column is for `mine hf`" in wrong.err


@pytest.mark.parametrize(
    ("name", "told"),
    [("chats", "no kind of file"), ("chats.txt", "no kind of file"), ("chats.jsonl", "no rows in it")],
)
def test_a_file_that_is_no_dataset_is_one_line_and_no_name_on_the_hub(
    cli, workspace, tmp_path, monkeypatch, name, told
):
    """`chats.txt` was looked for on the Hub as a dataset called txt."""
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    (tmp_path / name).write_text("")
    ran = cli("mine", "hf", tmp_path / name, "-C", workspace.root)
    assert (ran.code, told in ran.err, ran.err.count("\n")) == (1, True, 1), ran.err


def test_real_inspired_and_ccpe(cli, workspace, real_data):
    told = cli("mine", "inspired", real_data / "inspired", "-C", workspace.root, "--json").json
    assert (told["in"], told["out"] + sum(told["dropped"].values())) == (told["in"], told["in"])
    assert told["added"] == 99 and set(told["dropped"]) <= {"unknown speaker", "no id", "not a number"}
    told = cli("mine", "ccpe", real_data / "ccpe", "-C", workspace.root, "--json").json
    assert (told["in"], told["added"], told["dropped"]) == (502, 502, {})
    turns = store.read(workspace, tables.CONVERSATIONS).filter(source="ccpe")["turns"].list.len().sum()
    assert turns == 11_971  # every utterance is a turn


def test_help_shows_each_source_with_an_example(cli):
    text = cli("mine", "--help").out
    assert all(f"mine {name} " in text for name in "reddit redial inspired ccpe messages saferec hf".split())


LINES = {
    "redial": json.dumps(REDIAL),
    "messages": json.dumps({"id": 1, "messages": [{"role": "user", "content": "hi"}], "seen": ["Heat (1995)"]}),
    "saferec": json.dumps(OFFICIAL),
    "inspired": tsv(TALK).splitlines()[2],
    "ccpe": "a,0,USER,quiet films",
    "reddit": reddit_dump.line(reddit_dump.comment(1, "s1")),
}
HEADS = {"inspired": "\t".join(INSPIRED), "ccpe": "dialog_id,utterance_index,speaker,text"}
READERS = {m.SOURCE: m.read for m in (redial, messages, saferec, inspired, ccpe)}
DAMAGE = st.lists(st.tuples(st.integers(0, 2_000), st.characters(codec="utf-8", exclude_characters="\n\r")), max_size=5)


@pytest.mark.parametrize("source", LINES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(damage=DAMAGE, cut=st.integers(0, 2_000))
def test_no_mutated_line_stops_a_source_and_every_line_counts(tmp_path, source, damage, cut):
    line = list(LINES[source])
    for at, character in damage:
        line[at % len(line)] = character
    text = "".join(line)[: len(line) if cut > 1_000 else cut]
    path = tmp_path / "damaged.jsonl"
    path.write_text("\n".join([*filter(None, [HEADS.get(source)]), text, LINES[source]]) + "\n", "utf-8", newline="")
    if source == "reddit":
        tally = reddit.Tally()
        read = list(reddit.read(path, ["MovieSuggestions"], tally))
        kept, left = sum(frame.height for frame, _ in read), sum(len(drops) for _, drops in read)
        assert tally.lines == 2 and 1 <= tally.passed == kept
        assert kept + left == 2 or not text.strip() or '"MovieSuggestions"' not in text or _nested(text)
        return
    found = READERS[source](path)
    assert found.rows.height >= 1
    utterances = found.rows["turns"].list.len().sum() if source == "ccpe" else found.rows.height
    if source != "inspired":  # its sentences flow together
        assert utterances + found.drops.height == 1 + bool(text.strip())


def _nested(text):
    """The wanted name stands somewhere, but is not the subreddit of this line."""
    try:
        return json.loads(text).get("subreddit") != "MovieSuggestions"
    except ValueError:
        return False

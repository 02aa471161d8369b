"""ReDial: small dialogues by hand, and the published files if they are there."""

from itertools import permutations

import polars as pl
import pytest

from saferec_builder.mining import conversations as mine
from saferec_builder.sources import redial
from saferec_builder.storage import tables
from tests.worlds.source_lines import jsonl

ASKER, HELPER = 7, 8


def dialogue(*messages, **changes):
    """A row as published: messages are (sender, text)."""
    row = {
        "conversationId": "c1",
        "initiatorWorkerId": ASKER,
        "respondentWorkerId": HELPER,
        "messages": [{"senderWorkerId": sender, "text": text, "timeOffset": 0} for sender, text in messages],
        "movieMentions": {"11": "Alien  (1979)", "22": "Why Him%3F (2016)", "33": "Heat (1995)", "44": None},
    }
    return row | {"initiatorQuestions": {}, "respondentQuestions": {}} | changes


def read(tmp_path, *rows):
    return redial.read(jsonl(tmp_path / "dialogues.jsonl", *rows))


def answers(suggested=2, seen=2, liked=2):
    return {"suggested": suggested, "seen": seen, "liked": liked}


def test_turns_keep_their_speakers_and_ids_become_titles(tmp_path):
    talk = read(
        tmp_path,
        dialogue((ASKER, "Hi"), (ASKER, "I liked @11!"), (HELPER, "@22 &amp; @11, not @99 or @44"), (HELPER, "bye")),
    ).rows.row(0, named=True)
    assert talk["turns"] == [
        {"role": "seeker", "text": "Hi", "items": []},
        {"role": "seeker", "text": "I liked Alien (1979)!", "items": ["redial:11"]},
        # 99 is not among the film ids of the row, 44 has no title: both stay unchanged
        {"role": "recommender", "text": "Why Him? (2016) & Alien (1979), not @99 or @44"}
        | {"items": ["redial:22", "redial:11"]},
        {"role": "recommender", "text": "bye", "items": []},
    ]
    assert (talk["source_id"], talk["domain"], talk["time"]) == ("c1", "film", None)
    assert (talk["source_file"], talk["place"]) == ("dialogues.jsonl", "dialogues.jsonl:1")


def test_recommended_accepted_and_seen(tmp_path):
    row = dialogue(
        (ASKER, "I liked @11"),
        (HELPER, "then @22 or @11"),
        # the asker's form takes precedence over the helper's; 33 is only in a form
        initiatorQuestions={"22": answers(suggested=1, seen=0, liked=0), "33": answers(suggested=1, seen=1, liked=1)},
        respondentQuestions={"22": answers(suggested=1, seen=1, liked=1), "11": answers(suggested=0, seen=1, liked=1)},
    )
    talk = read(tmp_path, row).rows.row(0, named=True)
    assert talk["recommended"] == ["redial:22", "redial:33"]  # first named by the helper, or marked suggested
    assert talk["accepted"] == ["redial:33"]  # 22: the asker did not like it
    assert talk["seen"] == ["redial:11", "redial:33"]


def test_an_empty_form_is_written_as_a_list(tmp_path):
    row = dialogue((ASKER, "hi"), (HELPER, "@22"), initiatorQuestions=[], respondentQuestions={"22": answers(1, 0, 1)})
    talk = read(tmp_path, row).rows.row(0, named=True)
    assert (talk["recommended"], talk["accepted"]) == (["redial:22"], ["redial:22"])  # only the helper's form is filled
    empty = read(tmp_path, dialogue((ASKER, "hi @11"), initiatorQuestions=[], respondentQuestions=[], movieMentions=[]))
    assert empty.rows["turns"].to_list() == [[{"role": "seeker", "text": "hi @11", "items": []}]]


LEFT_OUT = (  # and why
    ("{not json", "not JSON"),
    ("[1]", "not JSON"),
    (dialogue((ASKER, 5)), "wrong type"),
    (dialogue((99, "who?")), "unknown sender"),
    ({"conversationId": "x"}, "wrong type"),
    ('{"conversationId": "\\ud83d"}', "lone surrogate"),
)


def test_what_is_no_dialogue_is_left_out_with_its_place(tmp_path):
    result = read(tmp_path, *(row for row, _ in LEFT_OUT), "", dialogue((ASKER, "hi")))
    assert result.rows.height == 1
    places = [(f"dialogues.jsonl:{n}", reason) for n, (_, reason) in enumerate(LEFT_OUT, 1)]
    assert result.drops.select("place", "reason").rows() == places
    assert result.drops["detail"][2].startswith("messages.0.text: found int")


# ---- the published files

FILES = ("raw_subset_train_data.jsonl", "raw_subset_valid_data.jsonl", "ievalm_valid_data.jsonl")


@pytest.mark.slow
def test_the_published_files_give_the_same_tables_in_any_order(real_data):
    reads = {name: redial.read(real_data / "redial" / name) for name in FILES}
    assert [reads[name].rows.height for name in FILES] == [500, 100, 1000]
    assert sum(read.drops.height for read in reads.values()) == 0
    results = []
    for order in permutations(FILES):
        read = mine.pseudonyms(pl.concat([reads[n].rows for n in order]), b"key")
        rows, drops = mine.mine(read, tables.CONVERSATIONS.empty)
        results.append((rows, drops.sort("place")))
    rows, drops = results[0]
    assert rows["seeker"].str.contains("^[0-9a-f]{16}$").all()  # no worker numbers
    # 1,600 rows, 50 ids in two files: 1,550 conversations
    assert (rows.height, drops["reason"].value_counts().rows()) == (1550, [("same id", 50)])
    # the iEvaLM file joins messages of one sender; its rows are the coarser ones wherever the turns differ
    assert set(drops["place"].str.extract(r"^(.*):")) <= {"ievalm_valid_data.jsonl", *FILES}
    for result in results[1:]:
        assert result[0].equals(rows) and result[1].equals(drops)

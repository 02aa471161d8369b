"""Table rows that name a forgotten person are erased, and rows that name others stay."""

import json
from pathlib import Path
from typing import Any

import pytest

from annotation import pull, review_history
from annotation.review_state import gather
from annotation.tools.tasks_and_answers import Task, shown
from saferec_builder.mining.conversations import AGAIN, MUTE, pseudonym
from saferec_builder.storage import tables, workspace as store
from tests.conftest import Cli
from tests.worlds import release_world as world
from tests.worlds.source_lines import chat

SILENT = {"id": "talk-mute", "user": "person4", "messages": [{"role": "assistant", "content": "Which film?"}]}


def test_no_row_of_what_was_left_out_names_them_by_an_id(workspace: store.Workspace, tmp_path: Path, cli: Cli) -> None:
    """The second row of an id and a row without a question were both recorded with the source's id in clear."""
    talk = [chat(name, "A calm film?", user="person4") for name in ("talk-4", "talk-4", "talk-5")]
    (tmp_path / "own.jsonl").write_text("\n".join([*talk, json.dumps(SILENT)]))
    assert cli("mine", "messages", tmp_path / "own.jsonl", "-C", workspace.root).code == 0
    drops = [("own.jsonl:2", AGAIN, ""), ("own.jsonl:4", MUTE, "")]
    assert store.read(workspace, tables.DROPS).select("place", "reason", "detail").rows() == drops
    old_drops = [("mine", "messages", "old.jsonl:1", AGAIN, "talk-4")]
    old_drops += [("mine", "messages", "old.jsonl:2", MUTE, "talk-mute"), ("mine", "hf", "x:1", "not JSON", "cut")]
    store.append(workspace, tables.DROPS, tables.DROPS.frame(old_drops))  # as an older program wrote them
    assert cli("forget", "person4", "-C", workspace.root).code == 0
    remaining = [(place, reason, "") for _, _, place, reason, _ in old_drops[:2]] + [("x:1", "not JSON", "cut")]
    assert store.read(workspace, tables.DROPS).select("place", "reason", "detail").rows() == drops + remaining


@pytest.mark.slow
def test_a_reply_of_which_nobody_noted_whose_it_is_goes_with_a_second_erasure(
    workspace: store.Workspace, tmp_path: Path, cli: Cli
) -> None:
    """It may be theirs, and by then only the reply is left of them: the second erasure checked no replies."""
    (tmp_path / "own.jsonl").write_text(chat("talk-4", "A calm film?", user="person4"))
    assert cli("mine", "messages", tmp_path / "own.jsonl", "-C", workspace.root).code == 0
    assert cli("forget", "person4", "-C", workspace.root).code == 0
    reply = ("r", "m", "A calm film?", None, None)
    store.append(workspace, tables.REPLIES, tables.REPLIES.frame([reply]))
    assert cli("forget", "person4", "-C", workspace.root).code == 0
    assert store.count(workspace, tables.REPLIES) == 0


ASK, MORE = "I faint at blood, what next?", "And no needles."
Texts = tuple[dict[str, Any], dict[str, Any]]


@pytest.fixture
def texts(workspace: store.Workspace) -> Texts:
    """The older text of a thread, with a comment by `leaver`, and the present text without it."""
    old, new = (
        world.conversation("c1", *turns, source="reddit", seeker="p1")
        for turns in ((ASK, "Try Film A", MORE), (ASK, "[deleted]", "Thanks!"))
    )
    leaver = pseudonym("reddit", "leaver", workspace.secret)
    post = {"conversation": "c1", "digest": old["digest"], "turn": 1, "source_id": "t1_x", "author": leaver}
    for table, rows in ((tables.CONVERSATIONS, [old, new]), (tables.ORIGINS, [post])):
        store.append(workspace, table, table.frame(rows))
    return old, new


def give(ws: store.Workspace, **texts: dict[str, Any]) -> None:
    """Assigns a task on the given text to each of these people."""
    assignment = {"kind": "sensitivity", "subject": "c1", "role": "reviewer", "why": "proposed", "batch": "b"}
    rows = [assignment | {"reviewer": reviewer, "digest": text["digest"]} for reviewer, text in texts.items()]
    store.append(ws, tables.ASSIGNMENTS, tables.ASSIGNMENTS.frame(rows))


def test_whoever_stood_in_an_older_text_takes_no_review_that_stands_in_the_present_one(
    workspace: store.Workspace, cli: Cli, texts: Texts
) -> None:
    """A comment of the thread was deleted since. `ann` read the older text: her answers on the seeker's words and her
    task were erased with it. The text that `di` quotes is gone, so her review is erased, and so is that of `ed`, whose
    trait has left the taxonomy."""
    old, new = texts
    quotes = {"ann": ASK[8:16], "di": MORE, "ed": MORE}
    spans = {reviewer: world.label(old, quote=quote)["spans"] for reviewer, quote in quotes.items()}
    people = {"ann": old, "bo": new, "di": old, "ed": old}
    give(workspace, **people)
    reviews = [
        world.review(text, reviewer, verdict="present", note="of leaver", spans=spans.get(reviewer, []))
        | ({"trait": "clowns"} if reviewer == "ed" else {})
        for reviewer, text in people.items()
    ]
    store.append(workspace, tables.REVIEWS, tables.REVIEWS.frame(reviews))
    dry_run, run = (cli("forget", "leaver", *dry, "-C", workspace.root, "--json") for dry in (["--dry-run"], []))
    assert run.code == 0 and run.json["where"] == dry_run.json["where"] and run.json["where"]["reviews"] == 2
    kept, tasks = (store.read(workspace, table) for table in (tables.REVIEWS, tables.ASSIGNMENTS))
    assert kept.select("reviewer", "digest", "note").rows() == [
        ("ann", new["digest"], None),
        ("bo", new["digest"], "of leaver"),
    ]
    assert kept["spans"].to_list()[0] == spans["ann"]
    assert tasks.select("reviewer", "digest").rows() == [
        (reviewer, new["digest"]) for reviewer in ("ann", "bo", "di", "ed")
    ]


def test_what_was_set_aside_or_handed_back_of_an_older_text_keeps_no_word_of_it(
    workspace: store.Workspace, cli: Cli, texts: Texts
) -> None:
    """A quote of the erased text stayed in reviews set aside, and the reviewer's note in tasks handed back; the note of
    `cy` was written by the program, not by a person."""
    old, new = texts
    give(workspace, ann=old, bo=old, cy=old)
    own = world.review(old, "ann", verdict="present", note="of leaver", spans=world.label(old, quote=MORE)["spans"])
    handed_back = {"trait": "*", "verdict": None}
    reviews = tables.REVIEWS.frame(
        [
            own,
            world.review(old, "bo", note=f"{tables.HANDED_BACK_WITH}leaver wants no needles", **handed_back),
            world.review(old, "cy", note=tables.HANDED_BACK, **handed_back),
        ]
    )
    for rows in (reviews, review_history.set_aside(reviews, "ann", "careless")):
        store.append(workspace, tables.REVIEWS, rows)
    assert cli("forget", "leaver", "-C", workspace.root).code == 0
    remaining = store.read(workspace, tables.REVIEWS).sort("reviewer")
    assert remaining.select("reviewer", "digest", "verdict", "note").rows() == [
        ("ann", new["digest"], None, "careless"),
        ("bo", new["digest"], None, tables.HANDED_BACK),
        ("cy", new["digest"], None, tables.HANDED_BACK),
    ]
    assert remaining["spans"].to_list() == [[], [], []]
    assert b"needles" not in (workspace.root / "workspace.db").read_bytes()


def test_no_task_that_stays_is_answered_without_its_key(workspace: store.Workspace, cli: Cli, texts: Texts) -> None:
    """With the last key of a sheet erased, nothing showed that there had been keys: the id of a task, which anybody who
    knows the text can compute, was taken for a sheet of the version before keys."""
    old, new = texts
    give(workspace, ann=old, bo=old)
    tasks = {text["digest"]: Task("sensitivity", "c1", text["digest"], "ann", "reviewer").id for text in (old, new)}
    key = f"{tasks[old['digest']]}-0123456789abcdef-csv"
    store.append(workspace, tables.KEYED, tables.KEYED.frame([(key, [], [], "", "")]))
    assert cli("forget", "leaver", "-C", workspace.root).code == 0
    state = gather(workspace)
    assert tasks[new["digest"]] in shown(state.assignments, state.known) and pull.unkeyed(state) == set()
    assert store.read(workspace, tables.KEYED)["task"].to_list() == ["task-erased-csv"]


def test_no_word_of_an_erased_text_stays_in_decoys_and_answers_of_no_use(
    workspace: store.Workspace, cli: Cli, texts: Texts
) -> None:
    """Neither names its text, so both stayed where an older text of a conversation was erased."""
    old, _ = texts
    give(workspace, ann=old)
    decoys = [("sensitivity", "c1", "ann", "needles", world.label(old, quote=MORE)["spans"])]
    store.append(workspace, tables.DECOYS, tables.DECOYS.frame(decoys))
    drops = [
        ("propose", "m", name, "off schema", f"off schema; {words}") for name, words in (("c1", MORE), ("c2", "no"))
    ]
    store.append(workspace, tables.DROPS, tables.DROPS.frame(drops))
    assert cli("forget", "leaver", "-C", workspace.root).code == 0
    assert store.read(workspace, tables.DROPS)["place"].to_list() == ["c2"]
    assert store.read(workspace, tables.DECOYS)["spans"].to_list() == [[]]
    assert b"And no needles" not in (workspace.root / "workspace.db").read_bytes()

"""Three weeks of a team: texts are mined again, the review tool changes midway, people leave and get new names."""

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from saferec_builder.storage import tables, workspace as store
from tests.worlds import pushes, review_world
from tests.worlds.csv_rows import edit
from tests.worlds.pushes import DI, FILES, OLD, TWO, readers, rest
from tests.worlds.review_memory import Memory
from tests.worlds.review_world import Verdict
from tests.worlds.reviewing import no
from tests.worlds.settings import taxonomy

pytestmark = pytest.mark.slow  # the whole pipeline, command by command

ws, review = pushes.of_two, review_world.review


def last_words(ws: store.Workspace, **of: str) -> list[str | None]:
    """Returns the verdicts of ann on c1 that count now."""
    reviews = tables.last(store.read(ws, tables.REVIEWS), "kind", "subject", "trait", "reviewer", "role")
    return reviews.filter(reviewer="ann", subject="c1", **of)["verdict"].to_list()


def answered(memory: Memory, day: int, **said: Any) -> str:
    """Lets ann answer c1 on the server on that day; the answer stays there."""
    number = next(n for n, (_, task, name) in memory.held.items() if name == "ann" and "gore" in task["asked"])
    memory.answers[number] = Verdict()
    memory.words[number] = {"time": datetime(2026, 11, day, 9, 30, 1, 123457, tzinfo=UTC)} | said
    return number


def changed(ws: store.Workspace) -> None:
    """Mines c1 again with a text that lacks the marked words."""
    row = store.read(ws, tables.CONVERSATIONS).filter(conversation="c1")
    turns = [{"role": "seeker", "text": f"{review_world.TRICKY} I feel faint.", "items": []}]
    new = row.with_columns(digest=pl.lit("d2"), turns=pl.Series([turns], dtype=row.schema["turns"]))
    store.append(ws, tables.CONVERSATIONS, new)


def test_what_is_asked_again_is_kept_from_who_would_rather_not_see_it(ws: store.Workspace, review: Any) -> None:
    """Both marked blood in c1 and finished it; then the word left the text. Bo opts out of gore. Di is asked about no
    trait by name, because no quote supports one any more: 1 row, the `*`."""
    review("push", *TWO, *FILES)
    for name in ("ann", "bo"):
        rest(ws.root / "review" / f"{name}.csv", "none")
    review("pull", *FILES, ws.root / "review")
    changed(ws)
    review("opt-out", "bo", "gore")
    result = review("push", *TWO, *DI, *FILES)
    assert (result["rows"], readers(ws, "c1")) == ({"ann": 2, "bo": 0, "di": 1}, ["ann", "bo", "di"])


def test_the_server_of_last_week_has_no_word_on_what_was_said_since(
    ws: store.Workspace, review: Any, memory: Memory
) -> None:
    """ann marked blood on the server; then the text changed, and in her newer file gore is absent."""
    review("push", *TWO)
    answered(memory, 2, present=["gore"], spans={"gore": [review_world.span("c1", "blood")]})
    review("pull")
    changed(ws)
    review("push", *TWO, *FILES)
    path = ws.root / "review" / "ann.csv"
    edit(path, no)
    review("pull", *FILES, path)
    assert last_words(ws, trait="gore") == last_words(ws, trait="*") == ["absent"]
    second = review("pull")
    assert (second["added"], second["skipped"]) == (0, 2)
    assert last_words(ws, trait="gore", digest="d2") == ["absent"]


def test_what_a_file_added_is_not_left_out_by_the_server_of_last_week(
    ws: store.Workspace, review: Any, memory: Memory, tmp_path: Path
) -> None:
    """ann answered c1 on the server on the 2nd; the copy of her file, which she sends later, adds accidents."""
    review("push", *TWO, *FILES)
    path = shutil.copy(ws.root / "review" / "ann.csv", tmp_path / "ann.csv")
    review("push", *TWO)
    answered(memory, 2, present=["gore"], spans={"gore": [review_world.span("c1", "blood")]})
    review("pull")
    rest(path, "accidents_disasters", "blood")
    review("pull", *FILES, path)
    assert last_words(ws, trait="accidents_disasters") == ["present"]
    assert review("pull")["added"] == 0
    assert last_words(ws, trait="accidents_disasters") == last_words(ws, trait="gore") == ["present"]
    answered(memory, 9)  # now she ticks nothing on the server
    assert review("pull")["added"] == 2
    assert last_words(ws, trait="accidents_disasters") == last_words(ws, trait="gore") == ["absent"]


def test_a_file_of_a_former_list_or_text_has_no_word_on_what_was_said_since(
    ws: store.Workspace, review: Any, tmp_path: Path
) -> None:
    """Three copies of ann's file: the first, one with needles in the taxonomy, one whose text lacks the word blood."""
    path = ws.root / "review" / "ann.csv"
    for n, verdict in enumerate(("absent", "present", "unsure")):
        review("push", *TWO, *FILES)
        edit(path, lambda row, verdict=verdict: {"verdict": "none" if row["trait"] == "*" else verdict})
        shutil.copy(path, tmp_path / f"{n}.csv")
        review("pull", *FILES, path)
        assert last_words(ws, trait="gore") == [verdict]
        if n == 0:
            taxonomy(ws.root, **OLD, needles="Injections.")
        elif n == 1:
            changed(ws)
    for n in (0, 1):
        assert review("pull", *FILES, tmp_path / f"{n}.csv")["added"] == 0
        assert last_words(ws, trait="gore", digest="d2") == ["unsure"]


def test_nobody_is_given_work_that_would_not_count(ws: store.Workspace, review: Any, cli: Any) -> None:
    review("push", *TWO, *FILES)
    files = review_world.Files(ws)
    files.answer("bo", lambda subject, asked: review_world.Verdict())
    review("pull", *FILES, files.folder / "bo.csv")
    review("set-aside", "bo", "--reason", "read nothing")
    for words in (TWO, ("--adjudicator", "bo")):
        run = cli("review", "push", *words, "--all", *FILES, "-C", ws.root)
        assert (run.code, run.err.count("\n")) == (1, 1)
    assert "bo: their work is set aside" in cli("review", "push", *TWO, *FILES, "-C", ws.root).err


@pytest.mark.parametrize("accounts", ['{ ann = "a@x.org", anna = "a@x.org" }', '{ anna = "ann" }'])
def test_who_is_renamed_is_no_second_reader(
    ws: store.Workspace, review: Any, cli: Any, memory: Memory, accounts: str
) -> None:
    """With ann's account under two names chance decided whose the answers were; two pulls could give them to both."""
    review("push", *TWO)
    toml = ws.root / "saferec.toml"
    lines = [f"accounts = {accounts}" if "accounts" in line else line for line in toml.read_text().splitlines()]
    toml.write_text("\n".join(lines))
    push = ("review", "push", "--reviewer", "anna", *DI, "-C", ws.root)
    run = cli(*push)
    assert (run.code, run.err.count("\n"), "ann and anna are both" in run.err) == (1, 1, True)


def test_a_wish_about_a_trait_that_has_left_can_be_forgotten(ws: store.Workspace, review: Any) -> None:
    review("opt-out", "ann", "gore")
    taxonomy(ws.root, accidents_disasters="Crashes.")
    assert review("opt-out", "ann", "gore", "--remove")["added"] == 1
    assert not (ws.root / ".opt-outs.json").exists()


def test_the_folder_of_last_week_has_no_word_on_what_was_said_on_a_server_since(
    ws: store.Workspace, review: Any, cli: Any, memory: Memory
) -> None:
    """In ann's file gore is absent and nothing is marked; on the server she marks gore and accidents."""
    push = ("push", *TWO)
    review(*push)  # c1 is on the server too
    review(*push, *FILES)
    files = review_world.Files(ws)
    files.answer("ann", lambda subject, asked: review_world.Verdict() if subject == "c1" else None)
    review("pull", *FILES, files.folder)
    spans = {slug: [review_world.span("c1", "blood")] for slug in OLD}
    answered(memory, 9, present=list(spans), spans=spans)
    assert review("pull")["added"] == 2
    assert review("pull", *FILES, files.folder)["added"] == 0
    assert last_words(ws, trait="gore") == last_words(ws, trait="accidents_disasters") == ["present"]
    review(*push, *FILES)  # the file holds no answer that the workspace lacks

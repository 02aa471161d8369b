"""Mistakes and open work that stop a push before anything is sent."""

from pathlib import Path

import pytest

from annotation import push as handing
from annotation.page.tasks import Given
from saferec_builder.storage import tables, workspace as store
from tests.worlds import review_page, review_world
from tests.worlds.csv_rows import edit, rows_of
from tests.worlds.reviewing import TWO, answer, no, yes


@pytest.mark.slow
def test_work_that_was_not_pulled_is_not_overwritten(ws, cli, review):
    review("push", *TWO)
    file = ws.root / "review" / "ann.csv"
    edit(file, lambda row: {"verdict": "absent"} if row["trait"] == "gore" else {})
    content = file.read_bytes()
    result = cli("review", "push", "--tool", "files", *TWO, "-C", ws.root)
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert "review pull --tool files" in result.err
    assert file.read_bytes() == content
    review("pull", file)
    assert review("push", *TWO)["rows"]["ann"] == 4  # both tasks are still open
    assert {row["trait"]: row["verdict"] for row in rows_of(file)}["gore"] == "absent"  # and show her answer


@pytest.mark.slow
def test_what_a_push_has_filled_in_itself_does_not_hold_up_the_next(ws, cli, review):
    """Their answers still hold in the text, which has grown: the next push took them for new ones."""
    review("push", *TWO)
    answer(ws, review, ann=yes)
    review_world.grow(ws, "c1", "No snakes.")
    assert [review("push", *TWO)["rows"]["ann"] for _ in range(2)] == [2, 2]
    edit(ws.root / "review" / "ann.csv", lambda row: {"note": "her own story"} if row["quote"] else {})
    assert "are not in the workspace yet" in cli("review", "push", "--tool", "files", *TWO, "-C", ws.root).err


@pytest.mark.slow
def test_what_an_answer_left_open_no_proposal_fills_in_later(ws, review):
    """Regression: the proposal's form filled the empty cell, as if they had said it since, and no push went through."""
    page = review_page.tasks(ws, "ann", "bo")
    for task in review_page.shown(page, "ann"):
        verdicts = {card["trait"]: {"verdict": "present", "spans": card["spans"]} for card in task["cards"]}
        page.answer("ann", Given.model_validate(review_page.given(task, verdicts=verdicts)))
    review_world.grow(ws, "c1", "No snakes.")
    assert [review("push", *TWO)["rows"]["ann"] for _ in range(2)] == [2, 2]
    answer(ws, review, ann=lambda row: {"verdict": row["verdict"] or "none"})
    reviews = store.read(ws, tables.REVIEWS).filter(reviewer="ann", digest="d-c1b", trait="gore")
    assert set(reviews.select("verdict", "form").rows()) == {("present", None)}


@pytest.mark.slow
def test_an_answer_saved_while_a_push_is_at_work_is_not_overwritten(ws, cli, review, monkeypatch):
    review("push", *TWO)
    file = ws.root / "review" / "ann.csv"
    route = handing._plan

    def slow(*words):
        edit(file, yes)
        return route(*words)

    monkeypatch.setattr(handing, "_plan", slow)
    result = cli("review", "push", "--tool", "files", *TWO, "-C", ws.root)
    assert (result.code, result.err.count("\n"), "changed just now" in result.err) == (1, 1, True)
    assert review("pull", file)["added"] == 4


@pytest.mark.slow
def test_an_older_copy_in_the_folder_does_not_hold_up_a_push(ws, review):
    review("push", *TWO)
    file = ws.root / "review" / "ann.csv"
    edit(file, yes)
    review("pull", file)
    later = ws.root / "from-ann.csv"
    later.write_bytes(file.read_bytes())
    edit(later, no)
    changed = review("pull", later)
    assert (changed["added"], changed["skipped"]) == (2, 2)  # two units changed, two `*` did not
    assert review("push", *TWO)["rows"]["ann"] == 0  # all her tasks are done, and her last answer stands
    verdicts = tables.last(store.read(ws, tables.REVIEWS), "subject", "trait", "reviewer")["verdict"]
    assert set(verdicts) == {"absent"}


MISTAKES = (
    (("push", "--tool", "paper", *TWO), "no such review tool"),
    (("push", "--tool", "files"), "nobody to review"),
    (("push", "--tool", "files", "--reviewer", "ann", "--reviewer", "Ann"), "named twice"),
    (("push", "--tool", "files", *TWO, "--adjudicator", "Bo"), "Bo: bo has tasks here: one person is never two"),
    (("push", "--tool", "files", "--reviewer", "../ann"), "a name has at most 64 letters"),
    (("pull", "--tool", "files", "nowhere.csv"), "no such file"),
    (("pull", "--tool", "files", Path(__file__).parent), "no .csv file in this folder"),
    (("push", "--tool", "argilla", *TWO, "--url", "http://[", "--token", "t"), "this is no address"),
    (("push", *TWO, "--to", "sheets"), "--to sheets: label-studio reads and writes no files: say --tool files"),
    (("pull", "review/ann.csv"), "review/ann.csv: label-studio reads and writes no files: say --tool files"),
    (("push", "--tool", "files", *TWO, "--url", "https://labels.example.org"), "--url is a server's"),
    # the limit of nothing handed out everything
    (("push", "--tool", "files", *TWO, "--budget", 0), "budget 0: expected more than 0"),
    (("push", "--tool", "files", *TWO, "--minutes", 0), "minutes 0: expected more than 0"),
)


@pytest.mark.slow
def test_a_mistake_is_one_line(ws, cli):
    for words, says in MISTAKES:
        result = cli("review", *words, "-C", ws.root)
        assert (result.code, result.err.count("\n"), says in result.err) == (1, 1, True), result.err
    assert store.read(ws, tables.ASSIGNMENTS).is_empty()


def test_empty_workspaces_say_what_to_run_first(workspace, cli):
    pushed = cli("review", "push", "--tool", "files", *TWO, "-C", workspace.root)
    assert (pushed.code, "saferec-build mine" in pushed.err) == (1, True)
    judged = cli("adjudicate", "-C", workspace.root)
    assert (judged.code, "review pull" in judged.err) == (1, True)
    assert cli("review", "status", "-C", workspace.root).code == 0

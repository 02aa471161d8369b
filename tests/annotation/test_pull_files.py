"""Answers from files are pulled: each once, one pull at a time, and the last answer counts."""

import os
import shutil

import polars as pl
import pytest

from annotation import pull as incoming
from annotation.page.tasks import Given
from annotation.tools.tasks_and_answers import base_id, keyed_id
from saferec_builder.storage import tables, workspace as store
from tests.worlds import calm, review_page
from tests.worlds.csv_rows import edit, rows_of, save
from tests.worlds.reviewing import TWO, answer, no, yes


@pytest.mark.slow
def test_a_pull_that_is_at_work_does_not_undo_a_setting_aside(ws, cli, review, monkeypatch):
    """The rows of the pull would be the last ones: so setting work aside waits for the pull, and says so."""
    review("push", *TWO)
    file = ws.root / "review" / "bo.csv"
    edit(file, yes)
    review("pull", file)
    edit(file, no)  # a changed mind: rows that the workspace does not have yet
    started, command = [], ["review", "set-aside", "bo", "--reason", "read nothing", "-C", str(ws.root)]

    def slow(desk, paths, named):
        pulled = of_files(desk, paths, named)
        started.append(calm.start(command))
        started[0].stderr.readline()  # it waits and says so, or it is done
        return pulled

    of_files = incoming.of_files
    monkeypatch.setattr(incoming, "of_files", slow)
    assert review("pull", file)["added"] > 0
    result = calm.end(started[0])
    assert result.code == 0, result
    last_reviews = tables.last(store.read(ws, tables.REVIEWS), "kind", "subject", "trait", "reviewer")
    assert last_reviews["verdict"].null_count() == last_reviews.height > 0


@pytest.mark.slow
def test_what_was_answered_elsewhere_waits_for_nobody(ws, review):
    """The earlier CSVs were still there, empty, and each of their rows counted as not answered yet."""
    review("push", *TWO)
    page = review_page.tasks(ws, "ann")
    for task in review_page.shown(page, "ann"):
        page.answer("ann", Given.model_validate(review_page.given(task)))
    pulled = review("pull")
    assert (pulled["not_answered_yet"], pulled["not_asked_any_more"]) == (4, 4)  # bo's rows, and ann's
    assert review("pull", ws.root / "review" / "bo.csv").get("not_asked_any_more") is None


@pytest.mark.slow
def test_a_file_that_is_written_again_has_the_guidelines_of_then(ws, review, monkeypatch):
    """Regression: it kept the stamp of the first push."""
    review("push", *TWO)
    monkeypatch.setattr("annotation.push.guideline", lambda: "fed321")
    review("push", *TWO)
    answer(ws, review, ann=no)
    assert set(store.read(ws, tables.REVIEWS).filter(reviewer="ann")["guideline"]) == {"fed321"}


@pytest.mark.slow
def test_an_empty_copy_of_a_file_that_is_answered_waits_for_nobody(ws, review):
    """The pull that took the answers counted the copy as not answered yet; later pulls did not. It was the same for an
    adjudicator, who gives no `*`."""
    review("push", *TWO)
    file = ws.root / "review" / "ann.csv"
    shutil.copy(file, file.with_name("ann (1).csv"))
    edit(file, yes)
    for _ in range(2):
        pulled = review("pull")
        assert (pulled["not_answered_yet"], pulled["not_asked_any_more"]) == (4, 4)  # bo's rows, and those of the copy
    answer(ws, review, bo=no)
    review("push", *TWO, "--adjudicator", "cy")
    file = ws.root / "review" / "cy.csv"
    copy = shutil.copy(file, file.with_name("cy (1).csv"))
    edit(file, lambda row: {"trait": "needles", "unit": "", "verdict": "absent"})
    assert review("pull", file)["dropped"] == {"not asked": 2}  # nobody disputes needles
    shutil.copy(copy, file)
    assert edit(file, yes) == 2
    for _ in range(2):
        pulled = review("pull")
        assert (pulled["not_answered_yet"], pulled["not_asked_any_more"]) == (0, 4 + 2)  # those of both copies


def test_of_two_versions_of_a_file_the_one_that_was_saved_last_counts(ws, review):
    """A browser calls the newer download `ann (1).csv`, whose name comes before `ann.csv`."""
    review("push", *TWO)
    file = ws.root / "review" / "ann.csv"
    newer = file.with_name("ann (1).csv")
    shutil.copy(file, newer)
    edit(file, yes)
    edit(newer, no)
    for path, time in ((file, 1), (newer, 2)):
        os.utime(path, (time, time))
    assert review("pull")["dropped"]["said again further down"] == 2
    answers = store.read(ws, tables.REVIEWS).filter(pl.col("trait") != "*")
    assert set(answers["verdict"]) == {"absent"}


def test_what_all_rows_of_a_sheet_lack_is_said_once(ws, cli, review):
    review("push", *TWO)
    file = ws.root / "review" / "ann.csv"
    edit(file, yes)
    count = len(rows_of(file))
    file.write_text(file.read_text().replace("task", "tusk", 1))
    result = cli("review", "pull", file, "--tool", "files", "-C", ws.root)
    (message,) = [line for line in result.err.splitlines() if "'task'" in line]
    assert message.startswith(f"{file}:2: ") and message.endswith(f"(and {count - 1} more rows)")


@pytest.mark.slow
def test_the_key_of_a_servers_task_opens_no_row_of_a_file(ws, cli, review):
    """In the open edition of Label Studio everybody sees the keys of all tasks."""
    review("push", *TWO)
    file = ws.root / "review" / "bo.csv"
    task = rows_of(file)[0]["task"]
    row = store.read(ws, tables.KEYED).filter(task=task)
    server_key = keyed_id(ws.secret, "label-studio", base_id(task), row["asked"][0])
    store.append(ws, tables.KEYED, row.with_columns(task=pl.lit(server_key)))
    edit(file, lambda row: yes(row) | {"task": server_key})
    result = cli("review", "pull", file, "--tool", "files", "-C", ws.root, "--json")
    assert (result.json["added"], [*result.json["dropped"]]) == (0, ["not pushed"])


@pytest.mark.slow
def test_a_row_that_says_what_it_was_sent_means_those_very_places(ws, review) -> None:
    """The same words occur earlier in that turn, and the quote in a file was located at the first place."""
    words = "No blood, please. Blood? blood makes me faint; blood again."
    starts = [words.index("blood makes"), words.index("blood again")]
    spans = [[{"turn": 0, "start": n, "end": n + 5, "quote": "blood"}] for n in starts]
    turns = [{"role": "seeker", "text": words, "items": []}]
    row = {"conversation": "c9", "digest": "d9", "source": "messages"}
    store.append(ws, tables.CONVERSATIONS, tables.CONVERSATIONS.frame([row | {"source_id": "c9", "turns": turns}]))
    row = {"proposal": "c9", "kind": "sensitivity", "subject": "c9"}
    row |= {"trait": "gore", "digest": "d9", "verdict": "present", "spans": spans[0], "proposer": "rules"}
    store.append(ws, tables.PROPOSALS, tables.PROPOSALS.frame([row]))
    review("push", *TWO)
    file = ws.root / "review" / "ann.csv"

    def says(**cells: str) -> list[dict[str, object]]:
        edit(file, lambda row: yes(row) | (cells if row["proposed_quote"] == "blood" and words in row["text"] else {}))
        review("pull", file)
        return store.read(ws, tables.REVIEWS).filter(subject="c9", trait="gore")["spans"].to_list()[-1]

    assert says() == spans[0]  # the unchanged proposal
    assert says(quote="blood", turn="1") == spans[0]
    assert says(quote="blood again", turn="1")[0]["start"] == starts[1]


@pytest.mark.slow
def test_of_all_files_in_a_folder_the_csvs_are_read_and_other_tables_are_named(ws, review) -> None:
    """A name in capitals, as some mail programs write it, was skipped, and so was a spreadsheet's own format."""
    review("push", *TWO)
    folder = ws.root / "review"
    edit(folder / "ann.csv", yes)
    (folder / "ann.csv").rename(folder / "ANN.CSV")
    (folder / "._ann.csv").write_bytes(b"\x00\x05\x16\x07\xb0\xff\xfe")  # macOS puts it beside a file
    for name in ("ann.XLSX", "~$ann.xlsx", "ann.md"):
        (folder / name).write_bytes(b"PK")
    pulled = review("pull")
    assert (pulled["added"], pulled["no_sheets"]) == (4, [str(folder / "ann.XLSX")])


@pytest.mark.slow
def test_a_column_that_is_not_read_is_named(ws, review) -> None:
    """A report of personal data in a column that its author had renamed, or added, was lost without a word."""
    review("push", *TWO)
    path = ws.root / "review" / "ann.csv"
    edit(path, yes)
    columns = {"note": "Remarks", "": "", "mine": "Mine"}  # the second has no name, the third no words
    renamed = [{columns.get(name, name): cell for name, cell in row.items()} for row in rows_of(path)]
    save(path, [row | {"Remarks": "personal data", "": "see above", "Mine": " "} for row in renamed])
    counts = review("pull")
    assert (counts["added"], counts["columns_not_read"]) == (4, [f"{path}: (without a name)", f"{path}: remarks"])
    assert "columns_not_read" not in review("pull", path.with_name("bo.csv"))

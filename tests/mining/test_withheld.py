"""People in acute distress or who asked to be removed: no model or reviewer reads them, and no figure counts them."""

import json
from pathlib import Path

import pytest

from annotation.label_bounds import bounds as label_bounds
from annotation.review_state import gather
from saferec_builder.mining import withheld
from saferec_builder.storage import tables, workspace as store
from tests.servers.llm_stub import running, says
from tests.worlds import release_world as world
from tests.worlds.csv_rows import edit, rows_of
from tests.worlds.reddit_dump import submission
from tests.worlds.source_lines import chat

PEOPLE = ("--tool", "files", "--reviewer", "ann", "--reviewer", "bo", "--all")


@pytest.fixture
def crisis(workspace: store.Workspace) -> store.Workspace:
    """Ten conversations, c005 marked by mining."""
    rows, _ = world.requests(10)
    ws = world.fill(workspace, rows, [])
    mark = {"conversation": "c005", "digest": rows[5]["digest"], "revision": 0, "language": "en", "language_score": 1.0}
    store.append(ws, tables.MARKS, tables.MARKS.frame([mark | {"crisis": True, "replaced": 0}]))
    return ws


def tasks(path: Path) -> set[str]:
    return {row["task"] for row in rows_of(path)}


def remove(ws: store.Workspace, source_id: str) -> None:
    (ws.root / "removals.csv").write_text(f"source,source_id,author\nmessages,{source_id},\n")


@pytest.mark.slow
def test_no_reviewer_is_given_them_and_what_was_handed_out_is_taken_back(crisis, cli) -> None:
    result = cli("review", "push", *PEOPLE, "-C", crisis.root, "--json")
    assert result.code == 0 and result.json["withheld"] == {"crisis": 1}
    assigned = store.read(crisis, tables.ASSIGNMENTS)["subject"].unique()
    assert "c005" not in assigned and assigned.len() == 9
    sheet = crisis.root / "review" / "ann.csv"
    assert len(tasks(sheet)) == 9
    remove(crisis, "c007")  # ann and bo have it already
    result = cli("review", "push", *PEOPLE, "-C", crisis.root, "--json")
    assert result.json["withheld"] == {"crisis": 1, "removed on request": 1} and len(tasks(sheet)) == 8
    assert "c007" not in sheet.read_text(encoding="utf-8-sig")
    assert cli("review", "status", "-C", crisis.root, "--json").json["reviewers"]["ann"]["open"] == 8


def test_the_report_shows_no_word_of_theirs(crisis, cli) -> None:
    labels = [row for row in world.requests(10)[1] if row["subject"] in ("c005", "c007")]
    store.append(crisis, tables.LABELS, world.labels(*labels))
    remove(crisis, "c007")
    assert cli("report", "-C", crisis.root).code == 0
    page = (crisis.root / "report.html").read_text(encoding="utf-8")
    assert "c005" not in page and "faint at the sight of blood" not in page


@pytest.mark.slow
def test_an_answer_that_was_given_before_the_removal_is_still_taken_and_has_no_vote(crisis, cli) -> None:
    """It is taken, or the file could be neither pulled whole nor replaced. It has no vote: nobody could recheck it."""
    cli("review", "push", *PEOPLE, "-C", crisis.root)
    sheet = crisis.root / "review" / "ann.csv"
    edit(sheet, lambda row: {"verdict": "none"})
    remove(crisis, "c007")
    result = cli("review", "pull", "--tool", "files", sheet, "-C", crisis.root, "--json")
    assert (result.code, result.json["added"], result.json["dropped"]) == (0, 9, {})
    assert cli("review", "push", *PEOPLE, "-C", crisis.root).code == 0
    state = gather(crisis)
    assert state.votes["subject"].n_unique() == 8 and "c007" not in state.votes["subject"]


def test_languages_that_are_set_later_hold_for_what_was_mined_before(workspace, cli, tmp_path) -> None:
    """`languages = ["en"]` applied to the next file only: reviewers and releases got everything mined before."""
    path, toml = tmp_path / "chats.jsonl", workspace.root / "saferec.toml"
    texts = ("Ich suche einen ruhigen Film ohne Blut für heute Abend", "I am looking for a quiet film tonight", "Heat?")
    path.write_text("\n".join(chat(str(n), text) for n, text in enumerate(texts)))
    assert cli("mine", "messages", path, "-C", workspace.root).code == 0
    rows = store.read(workspace, tables.CONVERSATIONS)
    assert withheld.reasons(workspace, rows) == {}
    toml.write_text(toml.read_text().replace("# languages", "languages"))
    german = rows.filter(source_id="0")["conversation"].item()  # the last text is too short to detect
    assert withheld.reasons(store.Workspace.open(workspace.root), rows) == {german: "other language"}


def test_no_model_reads_them(crisis, cli) -> None:
    remove(crisis, "c007")
    result = cli("propose", "-C", crisis.root, "--json")
    assert (result.json["added"], result.json["withheld"]) == (8, 2)
    assert not {"c005", "c007"} & set(store.read(crisis, tables.READINGS)["subject"])


@pytest.mark.slow
@pytest.mark.parametrize("source", ["messages", "reddit"])
def test_who_is_in_distress_and_gives_an_address_is_sent_to_no_model(workspace, cli, tmp_path, source) -> None:
    """A placeholder changes the digest, and a mark counts for the digest it names: marks are made after placeholders.

    Two people ask, one of them in distress, both with an address: two revisions are stored, two marks name exactly
    their digests, one is a crisis. So one request of two reaches the model.
    """
    requests = ["I am looking for a film. I want to kill myself", "I am looking for a quiet film, no blood please"]
    texts = [f"{text}. Write to jo{n}@example.org" for n, text in enumerate(requests)]
    if source == "messages":
        rows = [{"id": f"m{n}", "messages": [{"role": "user", "content": text}]} for n, text in enumerate(texts)]
    else:
        rows = [submission(n, selftext=text) for n, text in enumerate(texts)]
    path = tmp_path / "asked.ndjson"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert cli("mine", source, path, "-C", workspace.root).code == 0
    mined, marks = store.read(workspace, tables.CONVERSATIONS), store.read(workspace, tables.MARKS)
    assert str(mined["turns"].to_list()).count("[email]") == 2
    assert mined.join(marks, ["conversation", "digest"])["crisis"].sort().to_list() == [False, True]
    with running() as stub:
        stub.usual = says('{"claims": []}')
        model = ("--proposer", "openai", "--model", "m", "--base-url", stub.url)
        result = cli("propose", *model, "-C", workspace.root, "--json")
    assert (result.json["added"], result.json["withheld"]) == (1, 1)
    prompts = " ".join(stub.asked)
    assert "no blood please" in prompts and "kill myself" not in prompts


@pytest.mark.slow
def test_the_bound_on_what_was_missed_is_about_what_can_be_released(crisis, cli) -> None:
    """Nine conversations of ten are unread, one more is withheld: eight; the zone keeps its size."""
    assert cli("review", "push", *PEOPLE, "-C", crisis.root).code == 0
    assert (label_bounds(gather(crisis)).pooled.zone, gather(crisis).design.height) == (9, 9)
    remove(crisis, "c007")
    bounds = label_bounds(gather(crisis))
    assert (bounds.pooled.zone, bounds.undrawn, bounds.pooled.open) == (9, 0, 0)


def test_a_removal_that_names_nobody_is_told_where_nothing_was_mined_at_all(workspace, cli, tmp_path) -> None:
    """It ended in a traceback: polars does not take an empty list as a mask."""
    remove(workspace, "a9")
    (tmp_path / "said.jsonl").write_text('{"id": "a1"}\n')
    result = cli("mine", "messages", tmp_path / "said.jsonl", "-C", workspace.root)
    assert result.code == 1 and "line 2, 'a9' (nearest: none is like it)" in result.err

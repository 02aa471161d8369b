"""One contract for every review tool: files, the page, a real Label Studio, a real Argilla."""

from pathlib import Path

import polars as pl
import pytest

from annotation.follow import follow
from annotation.review_destinations import Argilla, LabelStudio
from annotation.tools import (
    argilla_client,
    label_studio_client,
    local_label_studio as managed,
    task_conversion as sheets,
)
from saferec_builder.storage import tables, workspace as store
from tests.worlds import review_world
from tests.worlds.csv_rows import rows_of
from tests.worlds.pushes import TWO
from tests.worlds.release_world import tree
from tests.worlds.review_world import SERVERS, Verdict, says, subject_of
from tests.worlds.settings import taxonomy

OWN = ("files", "page")  # nothing is on a server
TEXT_OF_EMOJI = "👨\u200d👩\u200d👧\n\n cafe\u0301"
YES = {"c1": {"gore": "blood"}, "c2": {"accidents_disasters": "crash"}}


def rows(ws: store.Workspace) -> dict[tuple[str, str, str], tuple[str, list[str]]]:
    reviews = store.read(ws, tables.REVIEWS).rows_by_key(["reviewer", "subject", "trait"], named=True)
    return {key: (log[-1]["verdict"], [s["quote"] for s in log[-1]["spans"] or []]) for key, log in reviews.items()}


def test_pushed_tasks_reach_their_people_and_nobody_else_and_are_pushed_once(ws, tool, review):
    assert review("push", *TWO, "--all")["added"] == 8
    everything = {"c1": ["gore"], "c2": ["accidents_disasters"], "c3": [], "c4": []}
    assert tool.tasks("ann") == tool.tasks("bo") == everything
    assert tool.tasks("cy") == {}
    files, again = tree(ws.root / "review"), review("push", *TWO, "--all")
    assert (again["added"], again["skipped"]) == (0, 8)
    assert tool.tasks("ann") == everything and tree(ws.root / "review") == files


def test_answers_come_back_exact_and_once_and_what_was_left_open_is_none(ws, tool, review):
    review("push", *TWO)
    found = Verdict(YES["c1"] | {"needles": TEXT_OF_EMOJI}, note="hm")
    assert tool.answer("ann", lambda subject, asked: found if subject == "c1" else None) == 1
    assert tool.answer("bo", says(YES)) == 2
    first, stored = review("pull"), rows(ws)
    assert {key[:2] for key in stored} == {("ann", "c1"), ("bo", "c1"), ("bo", "c2")}
    assert stored["ann", "c1", "gore"] == ("present", ["blood"])
    assert stored["ann", "c1", "needles"] == ("present", [TEXT_OF_EMOJI])  # nobody had proposed it
    assert stored["ann", "c1", "*"] == ("absent", [])
    assert stored["bo", "c2", "accidents_disasters"] == ("present", ["crash"])
    for row in store.read(ws, tables.REVIEWS).iter_rows(named=True):
        assert row["note"] == ("hm" if row["reviewer"] == "ann" else None) and not row["simulated"]
        for span in row["spans"] or []:
            assert review_world.TEXTS[row["subject"]][span["start"] : span["end"]] == span["quote"]
    again = review("pull")
    assert (again["added"], again["skipped"]) == (0, first["added"])


@pytest.mark.parametrize("tool", SERVERS, indirect=True)
def test_who_follows_gets_what_is_answered_since(ws, tool, review):
    review("push", *TWO)
    words = dict(zip(tool.pull_words[::2], tool.pull_words[1::2], strict=True))
    server = LabelStudio() if tool.name == "label-studio" else Argilla(words["--url"], words["--token"])
    looks = follow(store.Workspace.open(ws.root), server, every=0)
    assert next(looks).counts.came == 0
    assert next(looks) is next(looks) is None
    for n, (reviewer, subject) in enumerate((("ann", "c1"), ("ann", "c2"), ("bo", "c1"))):
        tool.answer(reviewer, lambda name, asked, c=subject: Verdict(YES[c]) if name == c else None)
        assert next(looks).counts.added == 2 and next(looks) is None, n  # the trait asked about, and `*`
    tool.answer("ann", lambda name, asked: Verdict() if name == "c1" else None)  # a changed answer
    assert next(looks).counts.added == 1
    assert rows(ws)["ann", "c1", "gore"] == ("absent", [])


@pytest.mark.slow
def test_two_alike_make_a_label_and_each_dispute_goes_to_the_adjudicator(ws, tool, review, cli):
    review("push", *TWO)
    tool.answer("ann", says(YES))
    tool.answer("bo", says({"c1": YES["c1"]}))
    review("pull")
    assert cli("adjudicate", "-C", ws.root, "--json").json["unresolved"] == 1
    assert review("push", "--adjudicator", "cy")["new"] == {"disagreement": 1}
    assert tool.tasks("cy") == {"c2": ["accidents_disasters"]}
    tool.answer("cy", says(YES))
    review("pull")
    assert cli("adjudicate", "-C", ws.root, "--json").json["unresolved"] == 0
    assert rows(ws).get(("cy", "c2", "*")) is None  # an adjudicator rules on disputes only
    tool.answer("ann", says({"c1": YES["c1"], "c2": {"accidents_disasters": "crash", "needles": "crash"}}))
    review("pull")
    review("push", "--adjudicator", "cy")
    assert tool.tasks("cy") == {"c2": ["needles"]}
    tool.answer("cy", lambda subject, asked: Verdict({"needles": "crash"}) if asked == ["needles"] else None)
    review("pull")
    assert cli("adjudicate", "-C", ws.root, "--json").json["unresolved"] == 0
    last = tables.last(store.read(ws, tables.LABELS), "subject", "trait").filter(subject="c2", method="adjudicated")
    labels = {row["trait"]: (row["verdict"], row["spans"][0]["quote"]) for row in last.to_dicts()}
    assert labels == dict.fromkeys(("accidents_disasters", "needles"), ("present", "crash"))


@pytest.mark.parametrize("tool", OWN, indirect=True)  # answers on servers are pulled as those in files are
def test_a_demo_workspace_marks_every_review(demo_workspace, tool, review, ws):
    Path(ws.root, "saferec.toml").write_bytes(Path(demo_workspace.root, "saferec.toml").read_bytes())
    review("push", *TWO)
    tool.answer("ann", says(YES))
    review("pull")
    reviews = store.read(ws, tables.REVIEWS)
    assert reviews.height > 0
    assert reviews.select(pl.col("simulated").all()).item()


@pytest.mark.slow
def test_a_trait_added_after_the_first_push_can_be_answered(ws, tool, review, cli):
    """A reader of a conversation is asked again, and the answers given by then cover the new trait too."""
    traits = {"gore": "Blood and wounds.", "accidents_disasters": "Crashes."}
    taxonomy(ws.root, **traits)
    review("push", *TWO)
    tool.answer("ann", says({"c1": YES["c1"]}))  # bo has answered nothing yet
    review("pull")
    taxonomy(ws.root, **traits, needles="Injections.")
    sent = review("push", *TWO)
    assert tool.name in OWN or {n["added"] for n in sent["sent"].values()} == {2}, sent
    assert tool.name in OWN or sent["sent"]["bo"]["taken_back"] == 2  # nobody gets a task twice
    more = {"c1": {"gore": "blood", "needles": "I faint"}}
    for name in ("ann", "bo"):
        tool.answer(name, says(YES | more))
    review("pull")
    stored = rows(ws)
    assert stored["ann", "c1", "needles"] == stored["bo", "c1", "needles"] == ("present", ["I faint"])
    result = cli("adjudicate", "-C", ws.root, "--json").json
    assert (result["agreed"], result["reviews_left_out"]) == (6, {})  # two conversations, three traits each
    again = review("pull")
    assert again["added"] == 0
    sent = review("push", *TWO)
    if tool.name in OWN:  # nothing is open any more
        assert sent.get("rows", sent.get("open")) in ({}, {"ann": 0, "bo": 0})
    else:
        assert {(n["added"], n["already_there"]) for n in sent["sent"].values()} == {(0, 0)}


def test_other_words_for_the_only_trait_are_shown_and_it_goes_round(ws, tool, review):
    taxonomy(ws.root, gore="Blood.")
    shard = ws.root / "tables" / "proposals"
    for file in shard.iterdir():  # they name a trait that this taxonomy lacks
        file.unlink()
    claims = [review_world.claim(*c) for c in review_world.CLAIMS if c[1] == "gore"]
    store.append(ws, tables.PROPOSALS, tables.PROPOSALS.frame(claims))
    review("push", *TWO, "--all")
    taxonomy(ws.root, gore="Blood and wounds.")
    review("push", *TWO, "--all")
    if tool.name == "argilla":
        (project,) = tool.projects("ann")
        page = str(tool.rest(tool.server.token, "GET", f"/api/v1/datasets/{project.id}/questions"))
    elif tool.name == "page":
        page = str(tool.page.review.taxonomy)
    else:
        page = str(tool.project("ann").setup if tool.name == "label-studio" else tool._rows("ann"))
    assert "Blood and wounds." in page
    tool.answer("ann", says(YES | {"c2": {}}))
    review("pull")
    assert rows(ws)["ann", "c1", "gore"] == ("present", ["blood"])


@pytest.mark.slow
def test_a_removal_reaches_everybody_and_what_they_have_said(ws, tool, review):
    """ann and bo have all four tasks, and ann has answered. c1 is removed; c2 loses a post and is mined again
    without it. The next push names only cy."""
    review("push", *TWO, "--all")
    tool.answer("ann", says(YES))
    review("pull")
    rows = store.read(ws, tables.CONVERSATIONS).filter(conversation="c2")
    turns = [rows["turns"][0][0], {"role": "recommender", "text": "None comes to mind.", "items": []}]
    later = rows.with_columns(digest=pl.lit("d2-c2"), turns=pl.Series([turns], dtype=rows.schema["turns"]))
    store.append(ws, tables.CONVERSATIONS, later)
    post = {"conversation": "c2", "digest": "d-c2", "turn": 1, "source_id": "p9", "author": "b2-0"}
    store.append(ws, tables.ORIGINS, tables.ORIGINS.frame([post]))
    (ws.root / "removals.csv").write_text("source,source_id,author\nmessages,c1,\nmessages,p9,\n")
    if tool.name in OWN:  # a reviewer may have their file open: it is rewritten only when they are named
        review("push", *TWO, "--all")
        assert "c1" not in tool.tasks("ann") | tool.tasks("bo")
        return
    sent = review("push", "--adjudicator", "cy")["sent"]
    assert {name: n["taken_back"] for name, n in sent.items() if "taken_back" in n} == {"ann": 2, "bo": 2}
    assert set(tool.tasks("ann")) == set(tool.tasks("bo")) == {"c3", "c4"}
    again = review("push", "--adjudicator", "cy")  # which changes nothing
    assert again["sent"] == {"cy": {"added": 0, "already_there": 0}}


@pytest.mark.slow
def test_who_is_forgotten_is_on_no_server_any_more(ws, tool, review, cli):
    """ann and bo have all four tasks; ann has answered c1. A team's server must be named on the command line."""
    review("push", *TWO, "--all")
    tool.answer("ann", says(YES))
    review("pull")
    sent = store.read(ws, tables.SENT).join(store.read(ws, tables.KEYED), on="task", how="semi")
    folder = ws.root / "label-studio"
    expected = [_without(tool, name, "c1") for name in ("ann", "bo")]
    if tool.name == "argilla":
        refused = cli("forget", "c1", "-C", ws.root)
        assert refused.code == 1 and "2 tasks about them are on a review server (argilla): give it" in refused.err
    result = cli("forget", "c1", *(tool.push_words if tool.name == "argilla" else ()), "-C", ws.root, "--json")
    assert result.code == 0, result.err
    count = result.json["where"].get("tasks", 0)  # other tests put the same conversation on that Label Studio
    assert count >= 2 if tool.name == "label-studio" else count == (2 if tool.name == "argilla" else 0)
    rest = set(store.read(ws, tables.SENT)["task"])
    removed = set(sent["task"]) - rest
    assert len(removed) == (0 if tool.name in OWN else 2)
    if folder.exists():
        raw = b"".join(path.read_bytes() for path in folder.resolve().rglob("*") if path.is_file())
        assert not [task for task in removed if task.encode() in raw] and all(task.encode() in raw for task in rest)
        managed.up(folder.resolve(), print)  # `forget` stopped it
    if tool.name == "page":
        tool.served = None  # `forget` does not run while a page is served
    assert [set(tool.tasks(name)) for name in ("ann", "bo")] == expected


def _without(tool, who, name):
    """Returns the other tasks. Real ids have 16 letters; a key in a CSV may contain the two of an id here by chance."""
    if tool.name == "page":
        return set(tool.tasks(who)) - {name}
    if tool.name != "files":
        return {"c2", "c3", "c4"}
    rows = rows_of(tool.folder / f"{who}.csv")
    others = [row for row in rows if not any(name in cell for cell in row.values())]
    return {subject_of(row["text"]) for row in others} - {name}


@pytest.mark.slow
def test_what_is_handed_back_goes_to_somebody_else_and_not_back_to_them(ws, tool, review, cli):
    """A CSV cannot express it: there the task stays open."""
    review("push", *TWO)
    tool.answer("ann", lambda subject, asked: Verdict(outcome=sheets.RATHER_NOT) if subject == "c1" else Verdict())
    tool.answer("bo", says(YES))
    review("pull")
    reviewers = (*TWO, "--reviewer", "cy")
    review("push", *reviewers)
    assert tool.tasks("cy") == ({} if tool.name == "files" else {"c1": ["gore"]})
    if tool.name == "files":
        return
    status = cli("review", "status", "-C", ws.root, "--json").json
    assert status["left_out"] == {"handed back": 1} and status["reviewers"]["ann"]["open"] == 0
    tool.answer("cy", says(YES))
    review("pull")
    assert review("push", *reviewers)["added"] == 0  # nobody gets it a second time
    assert cli("adjudicate", "-C", ws.root, "--json").json["agreed"] >= 1
    label = tables.last(store.read(ws, tables.LABELS), "subject", "trait").filter(subject="c1", trait="gore")
    assert label["verdict"].to_list() == ["present"]
    tool.answer("ann", says(YES))  # ann may still answer it
    review("pull")
    assert rows(ws)["ann", "c1", "gore"] == ("present", ["blood"])


@pytest.mark.parametrize("tool", SERVERS, indirect=True)
def test_guidelines_that_changed_are_shown_and_an_answer_on_a_page_that_somebody_edited_is_held_back(
    ws, tool, review, monkeypatch, cli
):
    review("push", *TWO)
    tool.answer("ann", lambda subject, asked: Verdict(YES["c1"]) if subject == "c1" else None)
    for client in (argilla_client, label_studio_client):
        monkeypatch.setattr(client, "page_for", lambda heading: "# Quite other guidelines")
    review("push", *TWO)
    (project,) = tool.projects("ann")
    assert "Quite other guidelines" in project.setup[1]
    result = review("pull")
    assert result["dropped"] == {} and "gone_unanswered" not in result  # these guidelines were sent, like the former
    if tool.name == "argilla":
        said = YES["c2"]
        tool.rest(tool.server.token, "PATCH", f"/api/v1/datasets/{project.id}", {"guidelines": "Yes means no."})
    else:
        said = YES["c2"] | {"nedles": "crash"}
        page = {"label_config": project.setup[0].replace('alias="needles"', 'alias="nedles"')}
        tool.rest("PATCH", f"/api/projects/{project.id}", page | {"expert_instruction": "Yes means no."})
    tool.answer("ann", lambda subject, asked: Verdict(said) if subject == "c2" else None)
    tool.answer("bo", says(YES))
    result = review("pull")
    assert (result["dropped"], result["edited_projects"]) == ({"changed there": 1}, ["ann"])
    assert {key[:2] for key in rows(ws)} == {("ann", "c1"), ("bo", "c1"), ("bo", "c2")}
    assert review("push", *TWO)["sent"]["ann"] == {"added": 1, "already_there": 0, "edited": 1}
    edited, replacement = tool.projects("ann")
    setups = [(each.setup if tool.name == "label-studio" else each.setup[1]) for each in (project, edited, replacement)]
    assert setups[0] == setups[2] != setups[1]
    assert review("push", *TWO)["sent"]["ann"]["added"] == 0
    refused = cli("review", "pull", "--tool", tool.name, "--url", tool.server.url, "--token", "0" * 40, "-C", ws.root)
    assert (refused.code, refused.err.count("\n"), "the token was refused" in refused.err) == (1, 1, True), refused.err

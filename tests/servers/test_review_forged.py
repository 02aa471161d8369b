"""What somebody changed on a server or in a file: no words that are not in our own text become evidence."""

import html
from collections.abc import Callable
from typing import Any

import pytest

from annotation.tools.guidelines import guideline
from annotation.tools.tasks_and_answers import task_id
from saferec_builder.storage import tables, workspace as store
from tests.worlds import review_world
from tests.worlds.review_world import TEXTS, Verdict

TRUE = TEXTS["c1"]  # ... I faint when I see blood. Something funny?
# as long as ours up to there, and longer: offsets that fit the forged text fit ours too, and find other words
FORGED = {
    "other words": TRUE.replace("faint when", "cheer when"),
    "words before": "Hello! " + TRUE,
    "words of an emoji's length": TRUE.replace("😱", "oh"),
}
ONE = ("--reviewer", "ann")
STUDIO, ARGILLA = (pytest.param(name, marks=pytest.mark.servers) for name in ("label-studio", "argilla"))


@pytest.fixture(params=["files", STUDIO, ARGILLA])
def tool(request, workspace):
    review_world.fill(workspace)
    if request.param == "files":
        return Files(workspace)
    if request.param == "argilla":
        server = request.getfixturevalue("argilla_server")
        return Argilla(workspace, server.url, server.key)
    home, facts = request.getfixturevalue("label_studio")
    (workspace.root / "label-studio").symlink_to(home)
    return LabelStudio(workspace, home, facts)


class Files(review_world.Files):
    def forge(self, text: str) -> None:
        """The file's own text is another one, and so is the proposal in it."""
        rows = self._rows("ann")
        for row in rows:
            row["text"] = row["text"].replace(TRUE, text)
        self._write("ann", rows)

    def mark(self, quote: str, text: str, turn: int = 0) -> None:
        rows = self._rows("ann")
        for row in rows:
            row["verdict"] = "none" if row["trait"] == "*" else "absent"
            if row["trait"] == "gore":
                row |= {"verdict": "present", "quote": quote, "turn": str(turn + 1)}
        self._write("ann", rows)


class LabelStudio(review_world.LabelStudio):
    def _task(self) -> dict[str, Any]:
        return next(task for task in self._tasks("ann") if "gore" in self.asked(task))

    def forge(self, text: str) -> None:
        task = self._task()
        turns = [task["data"]["turns"][0] | {"text": text}, *task["data"]["turns"][1:]]
        self.rest("PATCH", f"/api/tasks/{task['id']}", {"data": task["data"] | {"turns": turns}})

    def mark(self, quote: str, shown: str, turn: int = 0, shift: int = 0, last: int | None = None, **more: Any) -> None:
        """As a browser does before `shown`, `shift` letters away; more: what else the region says."""
        start = len(shown[: shown.index(quote)].encode("utf-16-le")) // 2 + shift
        place = {"start": str(turn), "end": str(turn if last is None else last), "startOffset": start, "text": quote}
        place |= {"endOffset": start + len(quote.encode("utf-16-le")) // 2, "paragraphlabels": ["gore"]} | more
        region = {"id": "r", "from_name": "evidence", "to_name": "dialogue", "type": "paragraphlabels", "value": place}
        said = [row for row in self.result("c1", Verdict({"gore": "blood"})) if row["from_name"] != "evidence"]
        self.post("ann", self._task()["id"], {"result": [*said, region], "lead_time": 12.3})


class Argilla(review_world.Argilla):
    def _record(self) -> dict[str, Any]:
        return next(record for record in self._records("ann") if '"asked": ["gore"]' in record["metadata"]["saferec"])

    def forge(self, text: str) -> None:
        record = self._record()
        shown = html.unescape(record["fields"]["dialogue"])
        for known in (TRUE, *FORGED.values()):
            if f"seeker: {known}" in shown:
                shown = shown.replace(known, text)
                break
        fields = record["fields"] | {"dialogue": html.escape(shown, quote=False)}
        (room,) = self.projects("ann")
        key = self.server.token
        self.rest(
            key, "PUT", f"/api/v1/datasets/{room.id}/records/bulk", {"items": [{"id": record["id"], "fields": fields}]}
        )
        assert html.unescape(self._record()["fields"]["dialogue"]).startswith(f"seeker: {text}")

    def mark(self, quote: str, text: str, turn: int = 0, shift: int = 0) -> None:
        record = self._record()
        shown = html.unescape(record["fields"]["dialogue"])
        values = self.values(shown, Verdict({"gore": quote}))
        for span in values["evidence"]["value"]:
            span["start"], span["end"] = span["start"] + shift, span["end"] + shift
        body = {"values": values, "status": "submitted"}
        mine = record.get("responses") or []
        if mine:
            self.rest(self.keys["ann"], "PUT", f"/api/v1/responses/{mine[0]['id']}", body)
        else:
            self.rest(self.keys["ann"], "POST", f"/api/v1/records/{record['id']}/responses", body)


@pytest.fixture
def pull(tool, cli) -> Callable[[], dict[str, Any]]:
    def run() -> dict[str, Any]:
        ran = cli("review", "pull", *tool.pull_words, "-C", tool_root(tool), "--json")
        assert ran.code == 0, ran.err
        assert ran.json["in"] == ran.json["out"] + sum(ran.json["dropped"].values())
        return ran.json | {"err": ran.err}

    assert cli("review", "push", *ONE, *tool.push_words, "-C", tool_root(tool)).code == 0
    return run


def tool_root(tool: Any) -> Any:
    return tool.folder.parent if isinstance(tool, Files) else tool.ws.root


def stored(tool: Any) -> list[tuple[str, list[str]]]:
    ws = store.Workspace.open(tool_root(tool))
    rows = store.read(ws, tables.REVIEWS).filter(subject="c1", trait="gore")
    return [(r["verdict"], [s["quote"] for s in r["spans"]]) for r in rows.iter_rows(named=True)]


@pytest.mark.parametrize("how", FORGED)
def test_words_of_a_forged_text_become_nobodys_review(tool, pull, how):
    tool.forge(FORGED[how])
    # what stands in both texts stands elsewhere on the server than in ours; a file has no places
    quote = "cheer when I see blood" if how == "other words" else "blood" if tool.name != "files" else "Hello! 😱"
    tool.mark(quote, FORGED[how])
    told = pull()
    assert told["dropped"]["quote not found"] == 1, told["err"]
    assert f"quote not found: {'' if tool.name == 'files' else 'gore: '}'{quote}'" in told["err"]
    assert stored(tool) == []
    again = pull()
    assert (again["added"], again["dropped"]["quote not found"]) == (0, 1)
    tool.forge(TRUE)
    tool.mark("faint when I see blood", TRUE)  # put right, and answered anew
    pull()
    assert stored(tool) == [("present", ["faint when I see blood"])]


def test_words_of_the_recommender_are_no_evidence(tool, pull):
    tool.mark("Ok!", "Ok!", turn=1)
    told = pull()
    assert told["dropped"]["not the seeker's words"] == 1 and "'Ok!'" in told["err"]
    assert stored(tool) == []


@pytest.mark.parametrize("shift", [-1, 1, 500])
@pytest.mark.parametrize("tool", [STUDIO], indirect=True)
def test_words_at_another_place_are_no_evidence(tool, pull, shift):
    tool.mark("blood", TRUE, shift=shift)
    assert pull()["dropped"]["quote not found"] == 1
    assert stored(tool) == []


@pytest.mark.parametrize("tool", [ARGILLA], indirect=True)
def test_a_mark_outside_of_what_was_said_is_none(tool, pull):
    """Argilla's marks have a place and no words: of a role's name nothing is a turn's."""
    tool.mark("blood", TRUE, shift=-45)  # 46 letters, as a browser counts, are before it: of `seeker: ` it says `eeker`
    assert pull()["dropped"]["quote not found"] == 1
    assert stored(tool) == []


@pytest.mark.parametrize("how", FORGED)
@pytest.mark.parametrize("region", [{"text": ""}, {"last": 1, "endOffset": 2}], ids=["without words", "over two turns"])
@pytest.mark.parametrize("tool", [STUDIO], indirect=True)
def test_a_region_that_does_not_name_its_words_is_held_against_what_was_shown(tool, pull, how, region):
    tool.forge(FORGED[how])
    tool.mark("cheer when" if how == "other words" else "blood", FORGED[how], **region)
    assert pull()["dropped"]["quote not found"] == 1
    assert stored(tool) == []


# what whoever is logged in can do to a task on Label Studio: nothing of it is believed
LIES: dict[str, dict[str, Any]] = {
    "asked of nothing": {"cards": []},
    "asked of all": {"asked": ["gore", "needles", "suicide_self_harm"]},
    "marked beforehand": {"shown": {"needles": [{"turn": 0, "start": 0, "end": 5, "quote": "x"}]}},
    "another taxonomy": {"taxonomy": "0" * 16},
    "another guideline": {"guideline": "0" * 16},
    "of other shapes": {"asked": {"gore": 1}, "shown": [None], "taxonomy": 7, "guideline": None},
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("tool", [STUDIO], indirect=True)
def test_what_was_asked_is_known_here(tool, pull, lie):
    """The answer counts as it was given: gore present, and the stamps of our own record."""
    task = tool._task()
    tool.mark("blood", TRUE)
    tool.rest("PATCH", f"/api/tasks/{task['id']}", {"data": task["data"] | LIES[lie]})
    pull()
    ws = store.Workspace.open(tool_root(tool))
    rows = store.read(ws, tables.REVIEWS).filter(subject="c1")
    assert dict(rows.select("trait", "verdict").iter_rows()) == {"gore": "present", "*": "absent"}
    assert {*rows["taxonomy"]} == {ws.taxonomy.digest} and {*rows["guideline"]} == {guideline()}


@pytest.mark.parametrize("tool", [STUDIO], indirect=True)
def test_nobody_answers_for_somebody_else(tool, pull, cli):
    """Written over by another account, imported in ann's name, and under keys that nobody was given."""
    assert cli("review", "push", "--reviewer", "bo", *tool.push_words, "-C", tool_root(tool)).code == 0
    task, web = tool._task(), tool.session("bo")
    tool.mark("blood", TRUE)
    (mine,) = tool.rest("GET", f"/api/tasks/{task['id']}/annotations")
    safe = {"Referer": tool.facts["url"], "X-CSRFToken": web.cookies.get("csrftoken") or ""}
    body = {"result": [row for row in mine["result"] if row["from_name"] == "verdict_0"]}
    assert web.patch(f"/api/annotations/{mine['id']}", json=body, headers=safe).status_code == 200
    key, old = task["data"]["key"], task_id("sensitivity", "c1", "d-c1", "ann", "reviewer")
    answer = {"result": mine["result"], "completed_by": mine["completed_by"]}
    for forged in (key, key[:-1] + ("1" if key.endswith("0") else "0"), old):
        rows = [{"data": task["data"] | {"key": forged}, "annotations": [answer]}]
        tool.rest("POST", f"/api/projects/{tool.project('ann').id}/import", rows)
    told = pull()
    assert (told["dropped"], told["added"]) == ({"not by its author": 2, "not pushed": 2}, 0), told["err"]
    assert "bo wrote over it" in told["err"] and "it was imported" in told["err"]
    assert stored(tool) == []


@pytest.mark.parametrize("tool", [STUDIO, ARGILLA], indirect=True)
def test_marks_that_slipped_are_found_again(tool, pull):
    """A page that shows a text in its own way counts other letters: the words themselves say where they stand."""
    before = "Hello! " if tool.name == "argilla" else ""
    tool.forge(before + TRUE)
    tool.mark("faint when I see blood", before + TRUE, shift=0 if before else 3)
    pull()
    assert stored(tool) == [("present", ["faint when I see blood"])]

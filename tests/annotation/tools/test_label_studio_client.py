"""What is asked of a Label Studio and what its replies mean; its accounts are matched with our reviewers."""

import json
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from annotation.tools import sync
from annotation.tools.label_studio import interface
from annotation.tools.label_studio_client import LOOK, Server, instructions, names_of
from annotation.tools.server_errors import Broken
from annotation.tools.sync import Project
from annotation.tools.task_conversion import READ
from saferec_builder.core.errors import ReviewError
from tests.servers.loopback import Asked, Reply, scripted, serving
from tests.worlds.sheet_answers import TAXONOMY, card, mark, ours

DAY = datetime(2026, 1, 1, tzinfo=UTC)
PAGE, RULING = (interface(TAXONOMY, ruling) for ruling in (False, True))
TASK = {"id": 1, "data": {"key": "k1"}, "updated_at": str(DAY), "total_annotations": 0, "cancelled_annotations": 0}
ANN = {"id": 1, "email": "ann@x.org", "username": None}
TASKS = "GET /api/tasks/?fields=task_only&page={}&page_size={}&project=7"
LIST = "GET /api/projects/?page={}&page_size=100"
EXPORT = "GET /api/projects/7/export?export_type=JSON"


def row(number: int, description: str | None, config: str = PAGE, text: str | None = None) -> dict[str, Any]:
    """A project as the server lists it."""
    facts = {"id": number, "title": "For ann", "description": description, "created_at": str(DAY)}
    return facts | {"label_config": config, "expert_instruction": text or instructions(), "task_number": 5}


def project(number: int, place: str, config: str = PAGE, text: str | None = None) -> Project:
    """The same project as `row`."""
    return Project(str(number), "For ann", place, (config, text or instructions()), made=str(DAY))


@pytest.fixture
def studio(monkeypatch: pytest.MonkeyPatch):
    """Makes clients of servers that are asked exactly what is given."""
    monkeypatch.setattr(sync.secrets, "token_hex", lambda n: "5e" * n)
    with ExitStack() as stack:
        yield lambda replies: Server(f"{stack.enter_context(scripted(replies))}/", "t", timeout=5.0)


def test_projects_are_found_made_and_put_right(studio) -> None:
    first, second = map(LIST.format, (1, 2))
    rows = [row(10, "mark b\nby hand"), row(9, "mark a"), row(8, None)]
    server = studio({first: {"results": rows}, second: {"results": []}})
    assert server.projects("mark") == [project(9, "mark a"), project(10, "mark b")]  # the oldest first
    sent = {"description": "mark cards adjudicator 5e5e5e5e5e5e", "enable_empty_annotation": True}
    sent |= {"expert_instruction": instructions(), "label_config": RULING, "maximum_annotations": 1}
    sent |= {"show_collab_predictions": True, "show_instruction": True, "title": f"Disputes for {'a' * 37}"}
    made = row(7, f"{sent['description']}\nby hand", RULING)
    server = studio({first: {"results": []}, f"POST /api/projects/ {json.dumps(sent)}": made})
    expected = project(7, "mark cards adjudicator 5e5e5e5e5e5e", RULING)
    assert server.project("mark cards adjudicator", "a" * 60, "an account", TAXONOMY) == expected
    assert studio({}).mend(kept := project(7, "p"), f"{PAGE}\n") is kept
    shown = {name: sent[name] for name in ("expert_instruction", "show_instruction")}
    for edited, change in ((("<View/>", None), {"label_config": PAGE}), ((PAGE, "quick!"), shown)):
        replies = {f"PATCH /api/projects/7/ {json.dumps(change)}": {}, "GET /api/projects/7/": row(7, "p")}
        assert studio(replies).mend(project(7, "p", *edited), PAGE) == kept


def test_tasks_are_sent_listed_counted_and_deleted(studio) -> None:
    assert studio({"GET /api/projects/7/": row(7, "")}).count("7") == 5
    sent = 'POST /api/projects/7/import?return_task_ids=true [{"k": 1}, {"k": 2}]'
    assert studio({sent: {"task_ids": [3, 4]}}).send("7", [{"k": 1}, {"k": 2}]) == ["3", "4"]
    page = {"tasks": [TASK, TASK | {"total_annotations": 1}, TASK | {"cancelled_annotations": 1, "data": None}]}
    keys = [("k1", "1", False), ("k1", "1", True), ("None", "1", True)]
    first, second = TASKS.format(1, 500), TASKS.format(2, 500)
    assert studio({first: page, second: {"tasks": []}}).keys("7") == keys
    assert studio({first: page}).keys("7", 0) == studio({second: page}).keys("7", 1) == keys
    moved = Reply(307, headers=(("Location", "/moved"),))
    studio({"DELETE /api/tasks/3/": moved, "DELETE /moved": {}}).delete("3")


def test_a_task_is_sent_once_whatever_comes_back() -> None:
    """A repeated import would make a second task."""
    requests, failed = list[Asked](), pytest.raises(Broken, match="import 1 tasks into project 7: 503")

    def unavailable(asked: Asked) -> Reply:
        requests.append(asked)
        return Reply(503)

    with serving(unavailable) as url, failed:
        Server(url, "t", timeout=5.0).send("7", [{"k": 1}])
    assert len(requests) == 1


def test_people_are_listed_and_invited(studio) -> None:
    assert studio({"GET /api/users/": [ANN]}).people() == {1: ("ann@x.org", "ann", "")}
    assert studio({"GET /api/users/": [ANN]}).names({"di": "ann@x.org"}, ["di"]) == {"1": "di"}
    assert studio({"POST /api/invite/reset-token": {"invite_url": "/u"}}).invite() == "/u"


def test_what_was_touched_since_the_last_look(studio) -> None:
    order = '{"ordering": ["-tasks:updated_at"]'
    item = {"filter": "filter:tasks:updated_at", "operator": "greater_or_equal", "type": "Datetime"}
    item |= {"value": "2025-12-31T23:59:00.000000Z"}  # a minute before DAY
    filters = json.dumps({"conjunction": "and", "items": [item]})
    newest = f"{TASKS.format(1, 1)}&query={order}}}"
    since = f'{TASKS.format(1, LOOK)}&query={order}, "filters": {filters}}}'
    seven = project(7, "p")
    answered, seen = TASK | {"total_annotations": 1, "id": 2}, frozenset({("4", DAY), ("5", DAY - timedelta(days=1))})
    skipped = TASK | {"cancelled_annotations": 1, "id": 3}
    assert studio({newest: {"tasks": []}}).touched(seven, frozenset()) == frozenset()
    server = studio({newest: {"tasks": [TASK]}, since: {"tasks": [TASK, answered, skipped]}})
    assert server.touched(seven, frozenset()) == {("", DAY), ("2", DAY), ("3", DAY)}
    assert studio({since: {"tasks": [answered] * (LOOK - 1)}}).touched(seven, seen) == {("2", DAY)}
    assert studio({since: {"tasks": [answered] * LOOK}}).touched(seven, seen) == {("", DAY)}  # more than fit there


def test_answers_are_read_as_the_page_of_their_project_asked_them(studio) -> None:
    """Each has a link to itself, and the key that its task was sent with."""
    answer = {"id": 5, "completed_by": 1, "updated_by": 1, "result": [card("absent"), mark("needles")]}
    task = {"id": 3, "data": {"key": "edited"}, "annotations": [answer]}
    assert studio({EXPORT: [task]}).answered("7") == [task]
    server = studio({f"{EXPORT}&ids[]=3&ids[]=4": [task]})
    for place, keys, key, outcome in (("x cards y", {"3": "sent"}, "sent", READ), ("x y", {}, "edited", "")):
        (response,) = server.responses(project(7, place), {"1": "ann"}, ours, ["4", "3"], keys)
        assert (response.key, response.who, response.outcome, response.project) == (key, "ann", outcome, "7")
        assert response.link == f"{server.url}/projects/7/data?task=3" and [*response.spans] == ["needles"]


def test_a_project_shows_another_page_once_its_interface_or_guidelines_were_edited():
    server = Server("http://x", "t")
    page = server.project_page("mark cards reviewer", TAXONOMY)
    assert server.project_page("mark cards adjudicator", TAXONOMY) == server.project_page_there(project(7, "", RULING))
    edited = [(PAGE.replace('alias="needles"', 'alias="nedles"'), None), (PAGE, "quick!")]
    for shown in ((PAGE, None), (f"{PAGE}\n", None), *edited):  # the server strips the interface
        assert (server.project_page_there(project(7, "", *shown)) == page) == (shown not in edited)


def test_a_stranger_with_a_reviewers_name_is_not_that_reviewer():
    """Ann's account is named in saferec.toml: another Ann on a shared server is somebody else."""
    accounts = {"ann": "ann.lee@team.org"}
    people = {1: ("ann.lee@team.org", "ann.lee", "al"), 2: ("ann@else.org", "ann", ""), 3: ("bo@team.org", "bo", "")}
    assert names_of(people, accounts, ["ann", "bo"]) == {1: "ann", 2: "user-2", 3: "bo"}
    assert names_of({1: ("DI@a.org", "DI", ""), 2: ("", "", "")}, {}, []) == {1: "DI", 2: "user-2"}
    two = {1: ("a@a.org", "ann", ""), 2: ("ann@b.org", "x", "ann")}  # the first has the names of two reviewers
    assert names_of(two, {"anna": "A@a.org"}, ["ann", "anna"]) == {1: "anna", 2: "ann"}
    with pytest.raises(ReviewError, match=r"ann@a.org and ann@b.org could both be ann: .*accounts = { ann = "):
        names_of({1: ("ann@a.org", "ann", ""), 2: ("ann@b.org", "ann", "")}, {}, ["ann"])
    with pytest.raises(ReviewError, match=r"ann@a.org could be anna and ann: one person is never two readers"):
        names_of({1: ("ann@a.org", "ann", "")}, {"anna": "ann@a.org"}, ["ann", "anna"])  # renamed

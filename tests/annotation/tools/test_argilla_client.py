"""What is asked of an Argilla and what its replies mean; its data sets, accounts and passwords."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from annotation.tools import argilla_client, sync
from annotation.tools.argilla import questions
from annotation.tools.argilla_client import Server
from annotation.tools.guidelines import page_for
from annotation.tools.sync import Project
from annotation.tools.task_conversion import RATHER_NOT, READ
from saferec_builder.core.errors import ReviewError
from tests.servers.loopback import Reply, scripted
from tests.worlds.sheet_answers import TAXONOMY, ours

PAGE, RULING = page_for("In Argilla").strip(), questions(TAXONOMY, 8, ruling=True)
IDS = [f"{n:08d}-0000-0000-0000-000000000000" for n in range(40)]
OWNER, AL = ({"id": IDS[n], "username": name, "role": "annotator"} for n, name in ((8, "owner"), (9, "al")))
DAY = "2026-01-01T00:00:00"
ROOM = {"id": IDS[1], "name": "mark-adjudicator-8-a", "inserted_at": DAY, "updated_at": DAY}
ROOMS, SETS, USERS = "GET /api/v1/me/workspaces", "GET /api/v1/me/datasets", "GET /api/v1/users"
ROOM_USERS = f"/api/v1/workspaces/{IDS[1]}/users"
SET, RECORDS = f"/api/v1/datasets/{IDS[3]}", f"GET /api/v1/datasets/{IDS[3]}/records?include=responses&offset="
ANSWER = {"status": "submitted", "values": None, "user_id": IDS[9], "updated_at": DAY}


def row(number: int, **more: Any) -> dict[str, Any]:
    """A data set as the server lists it."""
    facts = {"id": IDS[number], "name": f"d{number}", "status": "ready", "workspace_id": IDS[1], "guidelines": PAGE}
    return facts | {"inserted_at": f"2026-01-0{number}T00:00:00"} | more


def data_set(number: int, place: str = ROOM["name"], guidelines: str = PAGE) -> Project:
    """The same data set as `row`."""
    return Project(IDS[number], f"d{number}", place, (IDS[1], guidelines))


def items(*rows: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"items": [{"id": IDS[20 + n]} | row for n, row in enumerate(rows)], **more}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch):
    """Makes clients of servers that are asked exactly what is given."""
    monkeypatch.setattr(sync.secrets, "token_hex", lambda n: "5e" * n)
    monkeypatch.setattr(argilla_client.secrets, "token_urlsafe", lambda n: "p" * n)
    monkeypatch.setattr(Server, "page_size", 2)
    with ExitStack() as stack:
        yield lambda replies, accounts=None: Server(
            f"{stack.enter_context(scripted({'GET /api/v1/me': OWNER} | replies))}/", "t", 5.0, accounts
        )


def test_data_sets_of_a_mark_are_found_the_oldest_first(server) -> None:
    sets = items(row(4), row(3, guidelines=None), row(5, workspace_id=IDS[2]), row(6, status="draft"))
    rooms = items(ROOM, ROOM | {"id": IDS[2], "name": "other"})
    assert server({ROOMS: rooms, SETS: sets}).projects("mark a") == [data_set(3, guidelines=""), data_set(4)]


def test_records_are_sent_listed_counted_and_deleted(server) -> None:
    assert server({f"GET {SET}/progress": {"total": 5, "completed": 1, "pending": 4}}).count(IDS[3]) == 5
    sent = {"external_id": "k", "fields": {"ask": "a"}, "suggestions": {"verdict_2": "Yes"}}
    stored = items({"fields": {"ask": "a"}, "vectors": {}, "metadata": {}}, updated=0)
    client = server({f"GET {SET}/questions": items(*RULING), f"PUT {SET}/records/bulk": stored})
    assert client.send(IDS[3], [sent]) == client.send(IDS[3], [sent]) == [IDS[20]]
    pages = [client.page_of(sent | more) for more in ({}, {"suggestions": {}}, {"fields": {"ask": "b"}})]
    assert pages[0] == pages[1] != pages[2]
    keys = [("k1", "r1", False), ("k2", "r2", True), ("k3", "r3", False)]
    draft = ANSWER | {"status": "draft"}  # no answer yet: an opt-out takes the record back
    rows = [{"id": r, "external_id": k, "fields": {}, "responses": [draft, *[ANSWER] * done]} for k, r, done in keys]
    first, second = (f"{RECORDS}{offset}&limit=2" for offset in (0, 2))
    assert server({first: items(*rows[:2], total=3), second: items(rows[2], total=3)}).keys(IDS[3]) == keys
    assert server({second: items(rows[2], total=9)}).keys(IDS[3], 1) == keys[2:]
    assert server({first: items(*rows[:2], total=2)}).keys(IDS[3]) == keys[:2]
    assert server({first: items(total=9)}).keys(IDS[3]) == []
    server({f"DELETE /api/v1/records/{IDS[3]}": {}}).delete(IDS[3])


def test_a_data_set_shows_another_page_once_a_question_or_the_guidelines_were_edited(server) -> None:
    edited = [RULING[0] | {"title": "Proposal one"}, *RULING[1:]]
    for rows, guidelines, same in ((RULING, f" {PAGE}", True), (RULING, "quick!", False), (edited, PAGE, False)):
        client = server({f"GET {SET}/questions": items(*rows)})
        there = client.project_page_there(data_set(3, guidelines=guidelines))
        assert (there == client.project_page("mark-adjudicator-8", TAXONOMY)) == same
        assert there != client.project_page("mark-reviewer-8", TAXONOMY)


def test_a_data_set_and_an_account_are_made_where_there_are_none(server, tmp_path: Path) -> None:
    made, accounts = "mark-cards-adjudicator-8-5e5e5e5e5e5e", tmp_path / "accounts.json"
    new, password = {"id": None, "inserted_at": None, "updated_at": None}, "p" * 16
    user = new | {"first_name": "al", "last_name": None, "password": password, "role": "annotator", "username": "al"}
    asked = {USERS: items(OWNER), f"POST /api/v1/users {json.dumps(user, sort_keys=True)}": AL}
    asked |= {ROOMS: items(), SETS: items()}
    asked |= {f"POST /api/v1/workspaces {json.dumps(new | {'name': made}, sort_keys=True)}": ROOM}
    asked |= {"POST /api/v1/datasets": row(3), f"POST {SET}/fields": {"name": "ask", "settings": {"type": "text"}}}
    asked |= {f"POST {SET}/questions": RULING[0], f"PUT {SET}/publish": row(3), f"GET {ROOM_USERS}": items(OWNER)}
    asked |= {f'POST {ROOM_USERS} {{"user_id": "{IDS[9]}"}}': AL}
    project = server(asked, accounts).project("mark-cards-adjudicator-8", "ann!", "al", TAXONOMY)
    name = "Disputes for ann, 8 questions each"
    assert project == Project(IDS[3], name, made, (IDS[1], page_for("In Argilla")))
    assert (json.loads(accounts.read_text()), accounts.stat().st_mode & 0o777) == ({"al": password}, 0o600)


def test_a_data_set_is_kept_and_its_guidelines_and_options_are_put_right(server) -> None:
    """One that is closed, or that asks something else, is passed over: those of adjudicators asked what else is there,
    and its answers were refused."""
    settings = RULING[0]["settings"]
    worded = RULING[0] | {"settings": settings | {"options": [o | {"text": "?"} for o in settings["options"]]}}
    rows = {2: RULING, 3: questions(TAXONOMY, 8), 4: [worded, *RULING[1:]]}
    asked = {USERS: items(AL), ROOMS: items(ROOM), SETS: items(row(2), row(3), row(4, guidelines="old"))}
    asked |= {f"GET /api/v1/datasets/{IDS[n]}/questions": items(*listed) for n, listed in rows.items()}
    asked |= {f"PATCH /api/v1/questions/{IDS[20]}": RULING[0], f"GET /api/v1/datasets/{IDS[4]}": row(4)}
    asked |= {f"PATCH /api/v1/datasets/{IDS[4]}": row(4), f"GET {ROOM_USERS}": items(AL)}
    kept = server(asked).project("mark-adjudicator-8", "ann", "al", TAXONOMY, {IDS[2]})
    assert kept == data_set(4, guidelines="old")


def test_passwords_of_others_stay_and_a_damaged_file_is_not_written_over(server, tmp_path: Path) -> None:
    with pytest.raises(ReviewError, match="has no user 'al': make one there"):
        server({USERS: items()})._user_id("al")
    client = Server("http://x", "t", accounts=tmp_path / "accounts.json")
    client.accounts.write_text('{"bo": "secret"}')
    assert (client._password("al"), client._password("bo")) == ("p" * 16, "secret")
    assert json.loads(client.accounts.read_text()) == {"bo": "secret", "al": "p" * 16}
    client.accounts.write_text("{")
    with pytest.raises(ReviewError, match="damaged: put your copy of it back"):
        client._password("al")


@pytest.mark.parametrize(("status", "outcome"), [("submitted", ""), ("discarded", RATHER_NOT)])
def test_an_answer_on_a_page_without_cards_is_asked_anew(server, status: str, outcome: str) -> None:
    """By an earlier version, whose answers said something else; who would rather not read a text is not asked again."""
    record, page = {"id": "r1", "fields": {}, "responses": [ANSWER | {"status": status}]}, f"{RECORDS}0&limit=2"
    client = server({page: items(record, total=1)})
    for place, expected in (("mark-reviewer-1", outcome), ("mark-cards-reviewer-3-1", outcome or READ)):
        (response,) = client.responses(data_set(3, place), {IDS[9]: "ann"}, ours, [], {"r1": "as sent"})
        assert (response.outcome, response.key, response.project) == (expected, "as sent", IDS[3])
        assert response.link == f"{client.url}/dataset/{IDS[3]}/annotation-mode"
    assert list(server({page: Reply(404)}).responses(data_set(3), {}, ours, [], {})) == []  # deleted meanwhile


def test_a_user_with_a_reviewers_name_and_not_their_account_is_somebody_else(server) -> None:
    users = [AL | {"id": IDS[n], "username": name} for n, name in enumerate(("ann.lee", "ann", "bo", "di"))]
    names = server({USERS: items(*users)}).names({"ann": "ann.lee"}, ["ann", "bo"])
    assert names == dict(zip(IDS, ["ann", "user-00000001", "bo", "di"], strict=False))

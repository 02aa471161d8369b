"""Access to the page, over real HTTP: a link opens the tasks of its own person, and nothing else opens anything."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from annotation.page import links
from annotation.push import push
from annotation.review_destinations import ReviewPage
from saferec_builder.storage import workspace as store
from tests.worlds import once, review_page, review_world
from tests.worlds.review_page import Opened, given, said


@pytest.fixture(scope="module")
def pushed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    ws = store.Workspace.create(tmp_path_factory.mktemp("pushed") / "ws")
    review_world.fill(ws)
    push(store.Workspace.open(ws.root), ("ann", "bo"), to=ReviewPage())
    return ws.root


@pytest.fixture
def page(pushed: Path, workspace: store.Workspace) -> Iterator[Opened]:
    with review_page.opened(once.copied(pushed, workspace)) as opened:
        yield opened


@pytest.fixture(scope="module")
def unanswered(pushed: Path) -> Iterator[Opened]:
    """A page for tests in which nothing is stored."""
    with review_page.opened(store.Workspace.open(pushed)) as opened:
        yield opened


@pytest.mark.slow
def test_a_link_opens_its_persons_tasks_by_a_cookie_that_no_script_reads(page) -> None:
    web = page.browser()
    cookie = web.post("/tasks", json={"token": page.link("ann").partition("#")[2]}).headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    again = web.get("/tasks")
    assert "set-cookie" not in again.headers  # it could replace that of a newer link
    start = again.json()
    assert (start["name"], start["left"], len(start["traits"])) == ("ann", 2, len(page.ws.taxonomy.traits))
    assert "<h2>On the page</h2>" in (guidelines := web.get("/").text) and "In a file" not in guidelines
    reply = web.post("/answer", json=given(start["task"]))
    assert (reply.status_code, reply.json()["left"], len(said(page.ws))) == (200, 1, 2)
    assert page.browser("bo").get("/tasks").json()["left"] == 2


def test_who_has_no_link_sees_nothing(page) -> None:
    wrong, revoked = page.browser(), page.browser("ann")
    assert wrong.post("/tasks", json={"token": "A" * 43}).status_code == 401
    assert wrong.post("/tasks", json={"token": 7}).status_code == 401
    assert not wrong.cookies
    assert revoked.get("/tasks").status_code == 200
    links.revoke(page.ws, "ann")  # while the page is open
    for web in (page.browser(), wrong, revoked):
        assert (web.get("/tasks").status_code, web.get("/tasks").text[:22]) == (401, "This link is not valid")
        assert web.post("/answer", json={}).status_code == 401
    assert web.get("/../saferec.toml").status_code == web.get("/page.py").status_code == 404
    assert not said(page.ws)


HERE = "http://127.0.0.1"


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/tasks", {"Host": "evil.example"}, 421),  # somebody else's name that resolves to this host
        ("/", {"Host": "evil.example"}, 421),
        ("/tasks", {"Sec-Fetch-Site": "cross-site"}, 403),
        ("/page.js", {"Sec-Fetch-Site": "same-site"}, 403),  # another port of this machine
        ("/", {"Sec-Fetch-Site": "cross-site"}, 200),  # a link in a mail: the page has no text of anybody
        ("/answer", {"Origin": "http://evil.example"}, 403),
        ("/answer", {"Origin": HERE}, 403),  # another port of this machine
        ("/answer", {"Origin": "null"}, 403),
        ("/answer", {"Content-Type": "text/plain"}, 415),  # what a form of any site can send
        ("/tasks", {"Content-Type": "application/x-www-form-urlencoded"}, 415),
    ],
)
def test_no_other_site_asks_or_answers(unanswered, path, headers, status) -> None:
    web = unanswered.browser("ann")
    body = given(web.get("/tasks").json()["task"])
    reply = (
        web.post(path, json=body, headers=headers) if path in ("/answer", "/tasks") else web.get(path, headers=headers)
    )
    assert (reply.status_code, said(unanswered.ws)) == (status, {})
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    assert reply.headers["cache-control"] == "no-store" and "server" not in reply.headers


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 422),
        (b"[]", 422),
        (b'{"task": "a", "task": "b"}', 422),  # a key twice
        (b'{"task": "' + b"x" * 300_000 + b'"}', 413),
        (b'{"task": "x", "again": 0, "outcome": "read"}', 422),
        (b'{"task": "x", "outcome": "read", "role": "adjudicator"}', 422),
        (b'{"task": "x", "outcome": "read"}', 409),
        (b'{"task": "x", "outcome": "read", "seconds": NaN}', 422),
        (b'{"task": "x", "outcome": "read", "note": "\\ud800"}', 422),
    ],
)
def test_what_is_no_answer_is_named_and_stores_nothing(unanswered, body, status) -> None:
    reply = unanswered.browser("ann").post("/answer", content=body, headers={"Content-Type": "application/json"})
    assert (reply.status_code, said(unanswered.ws)) == (status, {})
    assert reply.text and reply.headers["content-type"].startswith("text/plain")

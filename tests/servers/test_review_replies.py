"""Odd replies from a review server or a proxy in front of it: an error of one line, or the answers as they were given.

The real servers answer, and a proxy spoils one kind of reply. Each case pulls into a copy of one workspace; the servers
get one request for each address, and the proxy repeats their replies for every case.
"""

import json
import shutil
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from saferec_builder.storage import tables, workspace as store
from tests.servers.faulty import Proxy, Spoil
from tests.worlds import review_world
from tests.worlds.pushes import ALL
from tests.worlds.review_world import Verdict

pytestmark = pytest.mark.servers
SAME, LESS, LINE = "all of it", "a part, and the rest later", "a line"
STALE: Spoil = lambda path, status, body: (status, body)  # noqa: E731  # the replies from before the last answers
FILMS = {review_world.item(n): f"{n}: a village, and blood." for n in range(2)}


def of(part: str, change: Callable[[Any], Any]) -> Spoil:
    """Changes the JSON of replies from addresses that contain `part`."""
    return raw(part, lambda body: json.dumps(change(json.loads(body))).encode())


def raw(part: str, change: Callable[[bytes], bytes]) -> Spoil:
    return lambda path, status, body: (status, change(body) if part in path and status == 200 else body)


def status(part: str, number: int) -> Spoil:
    return lambda path, status, body: (number, b"{}") if part in path else (status, body)


def each(name: str, value: Any) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    return lambda rows: [row | {name: value} for row in rows]


def inner(outer: str, name: str, value: Any) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    """Sets `name` in every entry of the list `outer` of each row."""
    return lambda rows: [row | {outer: [entry | {name: value} for entry in row[outer]]} for row in rows]


def turned(name: str) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    """Gives each row the `name` of the previous row."""
    return lambda rows: [row | {name: rows[n - 1][name]} for n, row in enumerate(rows)]


def items(change: Callable[[list[Any]], Any], name: str = "items") -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda page: page | {name: change(page[name])}


ANY: dict[str, tuple[Callable[[str], Spoil], str]] = {  # for the address that answers are read from
    "cut off": (lambda at: raw(at, lambda body: body[: len(body) // 2]), LINE),
    "empty": (lambda at: raw(at, lambda body: b""), LINE),
    "a page of a proxy": (lambda at: raw(at, lambda body: b"<html>please log in</html>"), LINE),
    "null": (lambda at: of(at, lambda rows: None), LINE),
    "a number": (lambda at: of(at, lambda rows: 7), LINE),
    "a list of numbers": (lambda at: of(at, lambda rows: [7]), LINE),
    "brackets without end": (lambda at: raw(at, lambda body: b"[" * 200_000), LINE),
    "a number of 9,999 digits": (
        lambda at: raw(at, lambda body: body.replace(b'"id":', b'"n": ' + b"9" * 9_999 + b', "id":', 1)),
        LINE,
    ),
    "no UTF-8": (lambda at: raw(at, lambda body: body.replace(b'"id":', b'"\xff": 1, "id":', 1)), LINE),
    "a key twice": (lambda at: raw(at, lambda body: body.replace(b'"id":', b'"id": 1, "id":', 1)), LINE),
    "500": (lambda at: status(at, 500), LINE),
    "429": (lambda at: status(at, 429), LINE),
    "403": (lambda at: status(at, 403), LINE),
    "elsewhere": (lambda at: status(at, 302), LINE),
}
EXPORT, USERS, PROJECTS = "/export", "/api/users", "/api/projects/?"
STUDIO: dict[str, tuple[Spoil, str]] = {
    **{name: (spoil(EXPORT), end) for name, (spoil, end) in ANY.items()},
    "twice over": (of(EXPORT, lambda rows: rows * 2), SAME),
    "backwards": (of(EXPORT, lambda rows: rows[::-1]), SAME),
    "half of it": (of(EXPORT, lambda rows: rows[: len(rows) // 2]), LESS),
    "nothing": (of(EXPORT, lambda rows: []), LESS),
    "an object": (of(EXPORT, lambda rows: {}), LINE),
    "ids of letters": (of(EXPORT, each("id", "x")), LINE),
    "answers of letters": (of(EXPORT, each("annotations", "x")), LINE),
    "no answers": (of(EXPORT, each("annotations", None)), LESS),
    "times of nobody": (of(EXPORT, inner("annotations", "updated_at", "soon")), LINE),
    "seconds that are no number": (of(EXPORT, inner("annotations", "lead_time", float("nan"))), SAME),
    "the page of before": (STALE, LESS),
    "ids of other tasks": (of(EXPORT, turned("id")), LINE),
    "texts of other tasks": (of(EXPORT, turned("data")), LESS),
    "answers to other tasks": (of(EXPORT, turned("annotations")), LINE),
    "all by one person": (of(EXPORT, inner("annotations", "completed_by", 1)), LESS),
    "all written over": (of(EXPORT, inner("annotations", "updated_by", 1)), LESS),
    "results of letters": (of(EXPORT, inner("annotations", "result", "x")), LESS),
    "half of a character": (of(EXPORT, each("meta", "\ud83d")), SAME),
    "authors of nobody": (of(EXPORT, inner("annotations", "completed_by", {"id": [None]})), LESS),
    "users null": (of(USERS, lambda rows: None), LINE),
    "users without names": (of(USERS, each("email", None)), LINE),
    "no users": (of(USERS, lambda rows: []), LESS),
    "users twice": (of(USERS, lambda rows: rows * 2), SAME),
    "projects null": (of(PROJECTS, items(lambda rows: None, "results")), LINE),
    "projects of numbers": (of(PROJECTS, items(lambda rows: [7], "results")), LINE),
    "projects twice": (of(PROJECTS, items(lambda rows: rows * 2, "results")), SAME),
    "no projects": (of(PROJECTS, items(lambda rows: [], "results")), LINE),
    "a project less": (
        of(PROJECTS, items(lambda rows: [row for row in rows if "for bo" not in row["title"]], "results")),
        LESS,
    ),
    "one page of projects for ever": (of(PROJECTS, lambda page: page | {"next": "http://x", "count": 10**9}), SAME),
    "projects of somebody else": (of(PROJECTS, items(each("description", "mine"), "results")), LINE),
}
RECORDS, ROOMS, PEOPLE, SETS = "/records?", "/me/workspaces", "/api/v1/users", "/me/datasets"
ARGILLA: dict[str, tuple[Spoil, str]] = {
    **{name: (spoil(RECORDS), end) for name, (spoil, end) in ANY.items()},
    "twice over": (of(RECORDS, items(lambda rows: rows * 2)), SAME),
    "backwards": (of(RECORDS, items(lambda rows: rows[::-1])), SAME),
    "half of it": (of(RECORDS, items(lambda rows: rows[: len(rows) // 2])), LESS),
    "nothing": (of(RECORDS, items(lambda rows: [])), LESS),
    "the page of before": (STALE, LESS),
    "ids of other records": (of(RECORDS, items(turned("id"))), LINE),
    "texts of other records": (of(RECORDS, items(turned("fields"))), LESS),
    "answers to other records": (of(RECORDS, items(turned("responses"))), LINE),
    "one page for ever": (of(RECORDS, lambda page: page | {"total": 2**31 - 1}), SAME),
    "a total of none": (of(RECORDS, lambda page: page | {"total": 0}), SAME),
    "fields of letters": (of(RECORDS, items(each("fields", "x"))), LINE),
    "times of nobody": (of(RECORDS, items(inner("responses", "updated_at", "soon"))), LINE),
    "a state of nobody": (of(RECORDS, items(inner("responses", "status", "weird"))), LINE),
    "values of numbers": (of(RECORDS, items(inner("responses", "values", {"present": {"value": [7]}}))), LINE),
    "authors of nobody": (of(RECORDS, items(inner("responses", "user_id", "0" * 36))), LESS),
    "half of a character": (of(RECORDS, items(each("metadata", {"saferec": "\ud83d"}))), SAME),
    "users null": (of(PEOPLE, lambda page: {"items": None}), LINE),
    "no users": (of(PEOPLE, items(lambda rows: [])), LESS),
    "workspaces null": (of(ROOMS, lambda page: {"items": None}), LINE),
    "data sets of numbers": (of(SETS, lambda page: {"items": [7]}), LINE),
    "data sets twice": (of(SETS, items(lambda rows: rows * 2)), SAME),
    "no data sets": (of(SETS, items(lambda rows: [])), LINE),
}


@pytest.fixture(params=["label-studio", "argilla"])
def tool(request, workspace, monkeypatch):
    monkeypatch.setattr(review_world, "TEXTS", review_world.TEXTS | FILMS)
    review_world.fill(workspace, without=FILMS)
    review_world.flag(workspace, FILMS, [*FILMS], "blood")
    return review_world.on_server(request, workspace)


def stored(ws: store.Workspace) -> set[tuple[Any, ...]]:
    rows = store.read(ws, tables.REVIEWS).filter(pl.col("role") != "other")
    rows = rows.select("reviewer", "subject", "trait", "verdict", "spans")
    return {(*row[:-1], *(s["quote"] for s in row[-1] or [])) for row in rows.iter_rows()}


def test_odd_replies_are_a_line_or_harmless(tool, workspace, cli, tmp_path):
    studio, replies = tool.name == "label-studio", dict[str, Any]()
    cases = STUDIO if studio else ARGILLA
    assert len(cases) == (44 if studio else 36)  # as docs/security.md says
    assert cli("review", "push", *ALL, *tool.push_words, "-C", workspace.root).code == 0
    target, token = (tool.facts["url"], tool.facts["token"]) if studio else (tool.server.url, tool.server.token)
    proxy = Proxy(target, workspace.root / "none", 120.0)
    words = ("review", "pull", "--tool", tool.name, "--token", token, "--url")
    by_bo = {"c2": {"accidents_disasters": "After the crash"}}
    for reviewer, answers in (("ann", {"c1": {"gore": "I see blood"}}), ("bo", by_bo)):
        stale, proxy.told = replies, (replies := {})
        assert tool.answer(reviewer, lambda subject, asked, answers=answers: Verdict(answers.get(subject, {}))) == 6
        honest = shutil.copytree(workspace.root, tmp_path / f"honest-{reviewer}", symlinks=True)
        assert cli(*words, proxy.url, "-C", honest).code == 0
    expected, failures = stored(store.Workspace.open(honest)), {}
    assert len(expected) == 20  # two rows on each of c1, c2 and the films, one on c3 and on c4, by two people
    try:
        for name, (spoil, outcome) in cases.items():
            ws = store.Workspace.open(shutil.copytree(workspace.root, tmp_path / name, symlinks=True))
            proxy.told, proxy.spoil = stale if spoil is STALE else replies, spoil
            proxy.elsewhere = "http://127.0.0.1:9"
            result = cli(*words, proxy.url, "-C", ws.root)
            rows = stored(ws)
            is_ok = result.code == 0 and "Traceback" not in result.err
            is_line = result.code == 1 and result.err.count("\n") == 1 and "Traceback" not in result.err and not rows
            if not {SAME: is_ok and rows == expected, LESS: is_ok and rows < expected, LINE: is_line}[outcome]:
                failures[name] = (result.code, result.err[-300:], len(rows))
            if outcome == LESS:
                proxy.told, proxy.spoil = replies, STALE
                assert cli(*words, proxy.url, "-C", ws.root).code == 0
                if stored(ws) != expected:
                    failures[name] = ("lost", expected - stored(ws))
    finally:
        proxy.away()
    assert not failures, failures

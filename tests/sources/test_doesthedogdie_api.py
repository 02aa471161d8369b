"""Requests to Does the Dog Die: the most important first, a busy site is waited for, the key goes nowhere else."""

import json
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit

import pytest

from saferec_builder.core.errors import SourceError, UsageError
from saferec_builder.sources import doesthedogdie_api as fetch
from saferec_builder.storage import tables, workspace as store
from tests.servers.loopback import Asked, Reply, serving
from tests.worlds.catalog_files import media

FILMS = (media(7, "Heat", "1995", "tt0113277", [("Does the dog die", 0, 20)]), media(8, "Big", "1988"))


@contextmanager
def double(*script):
    """Yields (path and key of each request, address) of a site with two films; these are its first statuses."""
    requests, statuses = list[tuple[str, str | None]](), list(script)

    def answer(asked: Asked) -> Reply:
        requests.append((asked.path, asked.headers.get("X-API-KEY")))
        url = urlsplit(asked.path)
        if url.path == "/dddsearch":
            query, items = parse_qs(url.query), [film["item"] for film in FILMS]
            body = {"items": [i for i in items if [i["imdbId"]] == query.get("imdb") or [i["name"]] == query.get("q")]}
        else:
            body = next(f for f in FILMS if url.path == f"/media/{f['item']['id']}")
        headers = (("Retry-After", "0"), ("Location", "http://127.0.0.1:1/elsewhere"))
        return Reply(statuses.pop(0) if statuses else 200, json.dumps(body).encode(), headers)

    with serving(answer) as url:
        yield requests, url


@pytest.mark.slow
def test_fetch_asks_for_what_matters_most_and_goes_on_where_it_stopped(cli, films, monkeypatch):
    monkeypatch.setenv("DDD_API_KEY", "secret")
    with double() as (requests, base):

        def fetched(*more):
            return cli("catalog", "fetch", "ddd", "--base", base, "--pause", 0, *more, "-C", films.root, "--json")

        summary = fetched("--limit", 1).json
        assert (summary["asked"], summary["added"], summary["requests"]) == (1, 2, 2)  # Heat: the item and one count
        assert requests[0] == ("/dddsearch?imdb=tt0113277", "secret")
        second = fetched().json
        assert (second["asked"], second["not_on_the_site"]) == (2, 1)  # Big is there, Alien is not
        count = len(requests)
        third = fetched().json
        assert (third["asked"], third["added"], len(requests)) == (0, 0, count)
    checked = cli("catalog", "check", "Heat (1995)", "--trait", "animal_harm", "-C", films.root, "--json").json
    assert [(s["topic"], s["no"], s["source"]) for s in checked["sources"]] == [("Does the dog die", 20, "ddd")]
    assert checked["sources"][0]["retrieved"]
    assert store.read(films, tables.CATALOG_ROWS).filter(source="ddd")["title"].to_list() == ["Heat", "Big"]


@pytest.mark.slow
def test_fetch_waits_for_a_busy_site_and_keeps_what_came(cli, films, monkeypatch):
    monkeypatch.setenv("DDD_API_KEY", "secret")
    monkeypatch.setattr(fetch.Site, "sleep", lambda self, seconds: None)
    heat, waits = {"title": "Heat", "year": 1995, "domain": "film", "refs": ["imdb:tt0113277"]}, list[float]()
    with double(503, 429, 200) as (requests, base):
        assert fetch.media(fetch.Site("k", base, 0.5, waits.append), heat)["item"]["id"] == 7
    assert waits == [0, 0, 0.5, 0, 0.5, 0.5]  # Retry-After is 0, and a pause stands between two requests
    assert not any("?q=" in path for path, _ in requests)  # its id is enough
    with double(*[500] * 9) as (requests, base), pytest.raises(SourceError, match="HTTP 500 after 5 tries"):
        fetch.media(fetch.Site("k", base, 0, lambda _: None), heat)
    assert len(requests) == 5
    refusals = ((401, UsageError, "refused the key"), (404, SourceError, "HTTP 404"), (302, SourceError, "HTTP 302"))
    for status, error, message in refusals:
        with double(status) as (requests, base), pytest.raises(error, match=message) as fault:
            fetch.media(fetch.Site("secret-key", base, 0, lambda _: None), heat)
        assert len(requests) == 1 and "secret-key" not in str(fault.value)
    with double(200, 200, *[500] * 9) as (_, base):  # the first item arrives, the second does not
        monkeypatch.setattr(fetch, "TRIES", 1)
        result = cli("catalog", "fetch", "ddd", "--base", base, "--pause", 0, "-C", films.root, "--json")
    assert (result.code, result.json["added"]) == (1, 2)
    assert result.err.strip().endswith("what came is kept")


def test_a_key_goes_to_nobody_else(cli, films, monkeypatch):
    monkeypatch.delenv("DDD_API_KEY", raising=False)
    result = cli("catalog", "fetch", "ddd", "-C", films.root)
    assert (result.code, "DDD_API_KEY is not set" in result.err) == (1, True)
    with pytest.raises(UsageError, match="https"):
        fetch.Site("k", "http://example.org")
    with pytest.raises(UsageError, match="is no address"):
        fetch.Site("k", "https://[::1")
    with pytest.raises(UsageError, match='no such site: expected "ddd"') as fault:
        fetch.named("my-secret-key")
    assert "my-secret-key" not in f"{fault.value}{fetch.Site('my-secret-key')}"


def test_an_at_sign_in_the_path_of_an_address_is_no_user():
    assert fetch.Site("k", "https://example.org/@films/api").base == "https://example.org/@films/api"
    for base in ("https://ann:word@example.org/a", "ann:word@example.org", "https:/ann:word@example.org"):
        with pytest.raises(UsageError, match="--base holds a user or password") as fault:
            fetch.Site("k", base)
        assert "word@" not in str(fault.value)


def test_a_title_that_the_site_knows_otherwise_is_not_taken(monkeypatch):
    """One with another year, two films of one title, or one with another id: none is chosen."""
    emma = {"name": "Emma", "releaseYear": "1996"}
    answers = {
        "Heat": [{"id": 1, "name": "Heat", "releaseYear": "1986"}],
        "Emma": [emma | {"id": 2}, emma | {"id": 3}],
        "Big": [{"id": 4, "name": "Big", "releaseYear": "1988", "imdbId": "tt0000004"}],
    }
    monkeypatch.setattr(fetch, "_search", lambda site, asked: answers.get(asked.get("q", ""), []))
    site = fetch.Site("k", pause=0)
    for title, year, refs in (("Heat", 1995, []), ("Emma", 1996, []), ("Big", 1988, ["imdb:tt0094737"])):
        assert fetch.media(site, {"title": title, "year": year, "domain": "film", "refs": refs}) is None

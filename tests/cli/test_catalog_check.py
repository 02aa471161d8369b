"""catalog show, gaps, merges, apart and fetch, as their user meets them."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from saferec_builder.core.errors import SourceError, UsageError
from saferec_builder.sources import ddd_api as fetch
from saferec_builder.storage import tables, workspace as store
from tests.worlds.catalog_files import VOTES, file, media

OWN = (
    "domain,title,year,ids\nfilm,Alien,1979,tt0078748\nfilm,Heat,1995,tt0113277\nfilm,Big,1988,\n"
    "film,Emma,1996,tt0116191\nfilm,Emma,1996,tt0118308\n"
)


@pytest.fixture
def ws(cli, workspace, tmp_path):
    """Five films, votes on the first, and three conversations: two name Heat, one Alien and Big."""
    file(tmp_path, "own.csv", OWN)
    file(tmp_path, "votes.csv", VOTES + "Alien,1979,,,Is there blood/gore,40,1,https://example.org,2024-01-01\n")
    named = {"a": ["Heat (1995)"], "b": ["imdb:tt0113277", "Heat (1995)"], "c": ["Alien (1979)", "Big (1988)"]}
    asks = {"a": "A heist to watch tonight?", "b": "Something slow with cops.", "c": "Old favourites of yours, please!"}
    chats = [
        {
            "id": i,
            "messages": [{"role": "user", "content": asks[i]}, {"role": "assistant", "content": "Try.", "items": n}],
        }
        for i, n in named.items()
    ]
    file(tmp_path, "chats.jsonl", "\n".join(map(json.dumps, chats)))
    for words in (
        ("catalog", "add", "csv", tmp_path / "own.csv"),
        ("catalog", "add", "warnings", tmp_path / "votes.csv"),
        ("mine", "messages", tmp_path / "chats.jsonl"),
    ):
        ran = cli(*words, "-C", workspace.root, "--json")
        assert ran.code == 0, ran.err
    return workspace


def test_show_tells_every_warning_and_the_arithmetic(cli, ws):
    text = cli("catalog", "show", "Alien (1979)", "-C", ws.root).out
    assert "known as  csv:imdb:tt0078748, imdb:tt0078748" in text
    assert "Is there blood/gore: 40 yes, 1 no · csv · https://example.org · 2024-01-01" in text
    assert "gore: risk 1.000, violated" in text
    assert "Is there blood/gore [core]: P(yes) = (40 + 1) / (40 + 1 + 2) = 0.953 >= 0.9: yes, the trigger is 1" in text
    found = cli("catalog", "show", "imdb:tt0078748", "-C", ws.root, "--json").json
    assert [t["trait"] for t in found["traits"]] == ["gore", "horror_scares"]  # the question breaks both
    assert cli("catalog", "show", found["item"], "-C", ws.root, "--json").json["title"] == "Alien"
    for asked, says in (
        ("Nope (2022)", "not found: the catalog does not hold it"),
        ("Emma (1996)", "is ambiguous: Emma"),
    ):
        ran = cli("catalog", "show", asked, "-C", ws.root)
        assert (ran.code, says in ran.err) == (1, True), ran.err


def test_gaps_name_what_touches_most_conversations_first(cli, ws):
    found = cli("catalog", "gaps", "-C", ws.root, "--json").json
    told = [(g["title"], g["waiting"], g["conversations"], len(g["unknown"])) for g in found["gaps"]]
    # nobody is known to be sensitive yet; Alien is settled for two traits of twenty
    assert told == [("Heat", 0, 2, 20), ("Big", 0, 1, 20), ("Alien", 0, 1, 18)]
    spans = [{"turn": 0, "start": 0, "end": 1, "quote": "x"}]
    label = {
        "label": "l", "kind": "sensitivity", "trait": "needles", "digest": "d", "verdict": "present",
        "form": "implicit", "spans": spans, "method": "agreed", "reviews": ["r"], "simulated": False,
        "subject": store.read(ws, tables.CONVERSATIONS).filter(source_id="c")["conversation"][0],
    }  # fmt: skip
    import polars as pl

    store.append(ws, tables.LABELS, pl.DataFrame([label], schema=tables.LABELS.schema))
    found = cli("catalog", "gaps", "--limit", 2, "-C", ws.root, "--json").json
    assert [(g["title"], g["waiting"]) for g in found["gaps"]] == [("Big", 1), ("Alien", 1)]
    assert (found["waiting"], found["in"]) == (2, 3)
    assert "1 waiting" in cli("catalog", "gaps", "-C", ws.root).out
    # who waits for a ruling may be sensitive, too: gore is open of Big, and settled of Alien
    later = label | {"label": "m", "trait": "gore", "verdict": None, "method": "unresolved"}
    store.append(ws, tables.LABELS, pl.DataFrame([later], schema=tables.LABELS.schema))
    found = cli("catalog", "gaps", "--limit", 2, "-C", ws.root, "--json").json
    assert [(g["title"], g["waiting"]) for g in found["gaps"]] == [("Big", 2), ("Alien", 1)]


def test_gaps_tell_what_conversations_name_and_no_item_is(cli, ws, tmp_path):
    """What was accepted and is no item trains nothing: only the release said so, after people had read it all."""
    row = {"messages": [{"role": "user", "content": "Anything?"}], "accepted": ["Nope (2022)", "Up (2009)"]}
    cli("mine", "messages", file(tmp_path, "more.jsonl", json.dumps(row)), "-C", ws.root)
    found = cli("catalog", "gaps", "-C", ws.root, "--json").json["no_item"]
    assert found == {"names": 2, "conversations": 1, "such": ["title:Nope (2022)", "title:Up (2009)"]}
    told = cli("catalog", "gaps", "-C", ws.root).out
    assert "2 names in 1 conversations, such as title:Nope (2022), title:Up (2009)\n" in told


def test_gaps_hear_what_is_only_said(cli, ws, tmp_path):
    """Of conversations without `items` and `accepted` none was touched: nothing was fetched for their films."""
    said = [
        {"role": "user", "content": "Like Heat (1995)?"},
        {"role": "assistant", "content": "Big (1988), Big (1988)"},
    ]
    items = [{"role": "assistant", "content": "Heat (1995) then.", "items": ["Heat (1995)"]}]
    chats = [json.dumps({"messages": said}), json.dumps({"messages": said[:1] + items})]
    cli("mine", "messages", file(tmp_path, "said.jsonl", "\n".join(chats)), "-C", ws.root)
    found = cli("catalog", "gaps", "-C", ws.root, "--json").json
    # to the two of Heat and one each of Big and Alien: two name Heat, once as an item too; one names Big, twice
    assert [(g["title"], g["conversations"]) for g in found["gaps"]] == [("Heat", 4), ("Big", 2), ("Alien", 1)]
    assert found["no_item"]["names"] == 0


def test_merges_are_listed_and_undone(cli, ws, tmp_path):
    rows = {
        "1": {"name": "Heat (1995)", "imdb_id": "tt0113277"},
        "2": {"name": "Poison (1979)", "imdb_id": "tt0078748"},
    }
    added = cli("catalog", "add", "redial", file(tmp_path, "id2info.json", json.dumps(rows)), "-C", ws.root, "--json")
    assert (added.json["items"], added.json["id_conflicts"]) == (6, 1)
    found = cli("catalog", "merges", "-C", ws.root, "--json").json
    assert [(m["row"], m["by"], m["other"]) for m in found["merges"]] == [
        ("redial:1", "imdb:tt0113277", "csv:imdb:tt0113277"),
        ("redial:2", "id conflict", "csv:imdb:tt0078748"),
    ]
    assert len(cli("catalog", "merges", "--conflicts", "-C", ws.root, "--json").json["merges"]) == 1
    for undo, added, merges in (((), 1, 0), ((), 0, 0), (("--undo",), 1, 1), (("--undo",), 0, 1)):
        ran = cli("catalog", "apart", "redial:1", *undo, "-C", ws.root, "--json").json
        assert ran["added"] == added
        listed = cli("catalog", "merges", "-C", ws.root, "--json").json
        assert len(listed["merges"]) - listed["id_conflicts"] == merges
    for undo in ((), ("--undo",)):
        ran = cli("catalog", "apart", "redial:99", *undo, "-C", ws.root)
        assert (ran.code, "no row of the catalog" in ran.err) == (1, True)


# ---- fetch


class Double(BaseHTTPRequestHandler):
    """The two addresses of the API that are asked, over three films; it can be busy, or refuse."""

    films = (media(7, "Heat", "1995", "tt0113277", [("Does the dog die", 0, 20)]), media(8, "Big", "1988"))

    def do_GET(self):
        server = self.server
        server.asked.append((self.path, self.headers.get("X-API-KEY")))
        status = server.script.pop(0) if server.script else 200
        url = urlsplit(self.path)
        asked = parse_qs(url.query)
        if url.path == "/dddsearch":
            items = [film["item"] for film in self.films]
            body = {"items": [i for i in items if [i["imdbId"]] == asked.get("imdb") or [i["name"]] == asked.get("q")]}
        else:
            body = next(f for f in self.films if url.path == f"/media/{f['item']['id']}")
        self.send_response(status)
        self.send_header("Retry-After", "0")
        if status == 302:
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_):
        pass


@contextmanager
def double(*script):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Double)
    server.asked, server.script = [], list(script)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_fetch_asks_for_what_matters_most_and_goes_on_where_it_stopped(cli, ws, monkeypatch):
    monkeypatch.setenv("DDD_API_KEY", "secret")
    with double() as (server, base):

        def fetched(*more):
            return cli("catalog", "fetch", "ddd", "--base", base, "--pause", 0, *more, "-C", ws.root, "--json")

        first = fetched("--limit", 1).json
        assert (first["asked"], first["added"], first["requests"]) == (1, 2, 2)  # Heat: the item and one count
        assert server.asked[0] == ("/dddsearch?imdb=tt0113277", "secret")
        second = fetched().json
        assert (second["asked"], second["not_on_the_site"]) == (2, 1)  # Big is there, Alien is not
        before = len(server.asked)
        third = fetched().json
        assert (third["asked"], third["added"], len(server.asked)) == (0, 0, before)
    checked = cli("catalog", "check", "Heat (1995)", "--trait", "animal_harm", "-C", ws.root, "--json").json
    assert [(s["topic"], s["no"], s["source"]) for s in checked["sources"]] == [("Does the dog die", 20, "ddd")]
    assert checked["sources"][0]["retrieved"]
    assert store.read(ws, tables.CATALOG_ROWS).filter(source="ddd")["title"].to_list() == ["Heat", "Big"]


def test_fetch_waits_for_a_busy_site_and_keeps_what_came(cli, ws, monkeypatch):
    monkeypatch.setenv("DDD_API_KEY", "secret")
    monkeypatch.setattr(fetch.Site, "sleep", lambda self, seconds: None)
    heat = {"title": "Heat", "year": 1995, "domain": "film", "refs": ["imdb:tt0113277"]}
    with double(503, 429, 200) as (_, base):
        assert fetch.media(fetch.Site("k", base, 0, lambda _: None), heat)["item"]["id"] == 7
    with double(*[500] * 9) as (server, base), pytest.raises(SourceError, match="HTTP 500 after 5 tries"):
        fetch.media(fetch.Site("k", base, 0, lambda _: None), heat)
    assert len(server.asked) == 5
    refusals = ((401, UsageError, "refused the key"), (404, SourceError, "HTTP 404"), (302, SourceError, "HTTP 302"))
    for status, error, says in refusals:
        with double(status) as (server, base), pytest.raises(error, match=says) as fault:
            fetch.media(fetch.Site("secret-key", base, 0, lambda _: None), heat)
        assert len(server.asked) == 1 and "secret-key" not in str(fault.value)
    with double(200, 200, *[500] * 9) as (_, base):  # the first item comes, the second does not
        monkeypatch.setattr(fetch, "TRIES", 1)
        ran = cli("catalog", "fetch", "ddd", "--base", base, "--pause", 0, "-C", ws.root, "--json")
    assert (ran.code, ran.json["added"]) == (1, 2)
    assert ran.err.strip().endswith("what came is kept")


def test_a_key_goes_to_nobody_else(cli, ws, monkeypatch):
    monkeypatch.delenv("DDD_API_KEY", raising=False)
    ran = cli("catalog", "fetch", "ddd", "-C", ws.root)
    assert (ran.code, "DDD_API_KEY is not set" in ran.err) == (1, True)
    with pytest.raises(UsageError, match="https"):
        fetch.Site("k", "http://example.org")
    with pytest.raises(UsageError, match="--base is no address"):
        fetch.Site("k", "https://[::1")


def test_a_title_that_the_site_knows_otherwise_is_not_taken(monkeypatch):
    """A year apart, or two films of one title, or one under another id: nobody is chosen."""
    answers = {"Heat": [{"id": 1, "name": "Heat", "releaseYear": "1986"}], "Emma": [
        {"id": 2, "name": "Emma", "releaseYear": "1996"}, {"id": 3, "name": "Emma", "releaseYear": "1996"},
    ], "Big": [{"id": 4, "name": "Big", "releaseYear": "1988", "imdbId": "tt0000004"}]}  # fmt: skip
    monkeypatch.setattr(fetch, "_search", lambda site, asked: answers.get(asked.get("q", ""), []))
    site = fetch.Site("k", pause=0)
    for title, year, refs in (("Heat", 1995, []), ("Emma", 1996, []), ("Big", 1988, ["imdb:tt0094737"])):
        assert fetch.media(site, {"title": title, "year": year, "domain": "film", "refs": refs}) is None

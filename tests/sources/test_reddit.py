"""Reddit's lines: characters, requests, and every line counted."""

import gzip
import itertools
import json
import re
from pathlib import Path

import polars as pl

from saferec_builder.sources import reddit, threads
from saferec_builder.storage import workspace as store
from tests.worlds import reddit_dump
from tests.worlds.reddit_dump import comment, line, submission
from tests.worlds.reddit_mined import balanced, current, mined


def test_escaped_characters_are_read_as_json_means_them():
    # every sequence of up to three of: both halves of a pair in either case, a backslash, a plain escape, a letter
    parts = (r"\ud83d", r"\uDE00", r"\uD83D", "\\\\", r"\u0041", "d")
    bodies = ["".join(run) for n in range(1, 4) for run in itertools.product(parts, repeat=n)]
    for n, body in enumerate(bodies):  # each in its own batch: one fault sends all lines of a batch the slow way
        batch = reddit._Batch(Path("RC"), [n], [line(comment(n, "s1", body="@")).replace("@", body).encode()])
        frame, drops = reddit._parsed(batch)
        expected = json.loads(f'"{body}"')
        if re.search("[\ud800-\udfff]", expected):
            assert [drop["reason"] for drop in drops] == ["lone surrogate"], body
        else:
            assert (frame["body"].to_list(), drops) == ([expected], []), body


def test_requests_are_told_by_flair_and_by_words(cli, workspace, tmp_path):
    kinds = [
        submission(1, link_flair_text="REQUESTING", title="A film", selftext=""),
        submission(2, link_flair_text=None, title="Looking for a film about trains", selftext=""),
        submission(3, link_flair_text="SUGGESTING", title="I recommend Heat", selftext=""),
        submission(4, link_flair_text=None, title="Saw Heat yesterday", selftext="It was long."),
        submission(5, link_flair_text="Discussion", title="What should I watch?", selftext=""),
        submission(6, link_flair_text=None, title="[Request] Trains at night", selftext=""),
        submission(7, link_flair_text=None, title="Trains at night [request/suggestion", selftext=""),
        submission(8, link_flair_text=None, title="[Suggestion] Looking for calm? A film like Heat", selftext=""),
        submission(9, link_flair_text="Recommendation", title="[META] Please search before you ask", selftext=""),
        submission(10, link_flair_text=None, title="[Metal] Looking for songs", selftext=""),
    ]
    summary = mined(cli, workspace, reddit_dump.write(tmp_path / "RS.ndjson", kinds))
    assert summary["dropped"] == {"no request": 5} and balanced(summary)
    assert set(current(workspace)["source_id"]) == {"s1", "s2", "s6", "s7", "s10"}


def test_real_titles_say_by_their_tags_who_asks_and_who_offers(real_data):
    with gzip.open(real_data / "reddit_requests" / "posts.jsonl.gz") as file:
        posts = pl.read_ndjson(file.read()).select(
            "subreddit", "title", "text", post="id", place="id", flair=pl.lit(None, pl.String)
        )
    wanted, _ = threads.requests(posts, threads.Rules())
    for tag, size, count in (("[suggest", 142, 0), ("[request", 264, 264)):  # goal: no offer, 95 % of the requests
        tagged = [frame["title"].str.to_lowercase().str.contains(tag, literal=True).sum() for frame in (posts, wanted)]
        assert tagged == [size, count]
    # of their 470, 515 and 505 posts the words alone took 229, 405 and 409
    kept = wanted.group_by("subreddit").len()
    asking = {"suggestmeabook": 468, "booksuggestions": 515, "gamingsuggestions": 503, "MovieSuggestions": 240}
    assert asking.items() <= dict(kept.iter_rows()).items()


def test_in_a_forum_of_requests_every_post_is_one_unless_it_is_tagged_otherwise(cli, workspace, tmp_path):
    """Half of the posts of such forums were dropped, as no pattern foresees how people ask."""
    forum = {"subreddit": "suggestmeabook", "link_flair_text": None, "selftext": ""}
    titles = (
        "My grandmother has died. Books to help me through this?",
        "Cosy mysteries",
        "[Meta] Search before you ask",
    )
    posts = [submission(n, title=title, **forum) for n, title in enumerate(titles, 1)]
    posts += [submission(4, title="Heat (1995), a slow film", link_flair_text=None, selftext="")]
    summary = mined(cli, workspace, reddit_dump.write(tmp_path / "RS.ndjson", posts))
    assert set(current(workspace)["source_id"]) == {"s1", "s2"}
    assert summary["examples"]["no request"] in (
        "RS.ndjson:3: in r/suggestmeabook",
        "RS.ndjson:4: in r/MovieSuggestions",
    )
    own = store.Workspace.create(tmp_path / "own")
    toml = own.root / "saferec.toml"
    toml.write_text(toml.read_text().replace("# request = ", "request = ").replace("looking for|recommend", "cosy"))
    mined(cli, store.Workspace.open(own.root), tmp_path / "RS.ndjson")
    assert current(own)["source_id"].to_list() == ["s2"]


def test_the_reader_counts_every_line(tmp_path):
    path = tmp_path / "RC.ndjson"
    lines = reddit_dump.bulk(path, 3, share=0.3)
    tally = reddit.Tally()
    batches = list(reddit.read(path, ["MovieSuggestions"], tally, path.name))
    assert tally.lines == lines
    assert tally.passed == sum(frame.height for frame, _ in batches) == path.read_text().count('"subreddit":"MovieSugg')
    assert not any(drops for _, drops in batches)


def test_what_is_no_post_has_the_first_reason_that_applies(tmp_path):
    posts = {  # fields -> its reason
        "missing field": [submission(1, id=None), submission(2, title=None), comment(3, "s1", body=None)],
        "wrong time": [submission(4, created_utc=1_099_999_999), comment(5, "s1", created_utc=4_000_000_001)],
        "no created_utc": [submission(23, created_utc=None), comment(24, "s1", created_utc=None)],
        "deleted text": [
            submission(6, selftext=" [Deleted] "),
            submission(7, title="[removed]"),
            comment(8, "s1", body="[removed]"),
        ],
        "deleted author": [comment(9, "s1", author="[deleted]"), comment(10, "s1", author=None)],
        "bot": [
            comment(n, "s1", author=name) for n, name in enumerate(("AutoModerator", "a-bot", "A_Bot", "movieBot"), 11)
        ],
    }
    times = [submission(20, created_utc=1_100_000_000, selftext=None), comment(21, "s1", created_utc="4e9", score=None)]
    rows = (
        [row for kind in posts.values() for row in kind] + times + [comment(22, "s1", author="abbott", parent_id=None)]
    )
    path = reddit_dump.write(tmp_path / "RC.ndjson", rows)
    ((frame, drops),) = reddit.read(path, ["MovieSuggestions"], reddit.Tally(), "f")
    assert [drop["reason"] for drop in drops] == [reason for reason, kind in posts.items() for _ in kind]
    assert all(str(drop["detail"]).startswith("created_utc: expected") for drop in drops[3:5])
    assert all(str(drop["detail"]).startswith("expected the field created_utc") for drop in drops[5:7])
    kept = frame.select("post", "link", "parent", "author", "time", "score", "text", "place").rows()
    assert kept == [
        ("t3_s20", "t3_s20", None, "asker20", 1_100_000_000, 12, "", "f:17"),
        ("t1_c21", "t3_s1", "t3_s1", "helper21", 4_000_000_000, 0, "Try Heat (1995), number 21.", "f:18"),
        ("t1_c22", "t3_s1", "t3_s1", "abbott", 1_660_001_022, 3, "Try Heat (1995), number 22.", "f:19"),
    ]

"""Reddit's lines: characters, requests, and every line counted."""

import gzip
import itertools
import json
import re
from pathlib import Path

import polars as pl

from saferec_builder.sources import reddit, threads
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
            "title", "text", post="id", place="id", flair=pl.lit(None, pl.String)
        )
    wanted, _ = threads.requests(posts, threads.Rules())
    for tag, size, count in (("[suggest", 142, 0), ("[request", 264, 264)):  # goal: no offer, 95 % of the requests
        tagged = [frame["title"].str.to_lowercase().str.contains(tag, literal=True).sum() for frame in (posts, wanted)]
        assert tagged == [size, count]


def test_the_reader_counts_every_line(tmp_path):
    path = tmp_path / "RC.ndjson"
    lines = reddit_dump.bulk(path, 3, share=0.3)
    tally = reddit.Tally()
    batches = list(reddit.read(path, ["MovieSuggestions"], tally, path.name))
    assert tally.lines == lines
    assert tally.passed == sum(frame.height for frame, _ in batches) == path.read_text().count('"subreddit":"MovieSugg')
    assert not any(drops for _, drops in batches)

"""A thread becomes one conversation."""

import polars as pl
import pytest

from saferec_builder.sources import reddit, threads
from saferec_builder.storage import tables, workspace as store
from tests.worlds import reddit_dump
from tests.worlds.reddit_mined import THREAD, S, balanced, current, mined


@pytest.fixture
def catalog(cli, workspace, tmp_path):
    path = tmp_path / "items.csv"
    films = "Heat,1995 Alien,1979 Ronin,1998 Speed,1994 Thief,1981".split()
    path.write_text("source_id,title,year,domain\n" + "".join(f"i{n},{row},film\n" for n, row in enumerate(films)))
    result = cli("catalog", "add", "csv", path, "-C", workspace.root)
    assert result.code == 0, result.err


@pytest.mark.slow
def test_a_thread_becomes_one_conversation(cli, workspace, tmp_path, catalog):
    rs = reddit_dump.write(tmp_path / "RS_2022-08.ndjson", [S])
    rc = reddit_dump.write(tmp_path / "RC_2022-08.ndjson", THREAD)
    summary = mined(cli, workspace, rs, rc)
    assert (summary["in"], summary["added"], balanced(summary)) == (6, 1, True)
    left_out = ("talk among others", "parent missing", "deleted author", "deleted text", "bot")
    assert summary["dropped"] == dict.fromkeys(left_out, 1)
    assert (summary["lines"], summary["comments_on_no_request"]) == (12, 1)
    row = current(workspace).row(0, named=True)
    assert [(t["role"], t["text"]) for t in row["turns"]] == [
        ("seeker", "Looking for a calm film\n\nMy wife [name] likes Heat (1995)."),
        ("recommender", "Try Alien (1979). Mail me: [email]"),
        ("recommender", "Speed (1994)"),
        ("recommender", "Ronin (1998)"),
        ("seeker", "Thanks, adding it!"),
        ("recommender", "Enjoy"),
    ]
    title = dict(store.read(workspace, tables.CATALOG_ROWS).select("source_id", "title").rows())
    names = {c: [title[ref.split(":", 1)[1]] for ref in row[c]] for c in ("recommended", "accepted", "seen")}
    # thanks for Alien, 50 votes for Ronin; 3 votes are below the threshold of 10
    assert names == {"recommended": ["Alien", "Speed", "Ronin"], "accepted": ["Alien", "Ronin"], "seen": ["Heat"]}
    assert (row["domain"], row["time"].isoformat()) == ("film", "2022-08-08T23:06:41+00:00")
    rerun = mined(cli, workspace, rs, rc)
    assert (rerun["in"], rerun["added"], rerun["skipped"]) == (6, 0, 1)


def posts(*rows):
    """POSTS from (id, parent, author, score, text), one second after the other, all of the submission t3_s."""
    fixed = {"link": "t3_s", "subreddit": "films", "flair": None}
    return pl.DataFrame(
        [
            fixed | dict(zip(("post", "parent", "author", "score", "text"), row, strict=True))
            | {"title": None if row[1] else "A film?", "time": n, "place": row[0]}
            for n, row in enumerate(rows)
        ],
        schema=reddit.POSTS,
    )  # fmt: skip


TALK = (  # the seeker is `ann`; each answer names one item, its own id
    *(("a", "t3_s", "bo", 10, ""), ("b", "t3_s", "bo", 9, ""), ("c", "t3_s", "cy", 99, ""), ("d", "t3_s", "di", 1, "")),
    *(("e", "c", "ann", 99, "already seen, thanks"), ("f", "d", "ann", 0, "thank you"), ("g", "f", "di", 1, "")),
    *(("h", "b", "cy", 1, ""), ("i", "h", "ann", 1, "hm"), ("j", "gone", "ann", 1, ""), ("k", "j", "bo", 1, "")),
)


@pytest.mark.parametrize(("upvotes", "accepted"), [(10, "ad"), (9, "abd"), (0, "d")])
def test_what_counts_as_taken_up(upvotes, accepted):
    """From `upvotes` on, or with thanks (d), unless the seeker has seen it (c); no item that they named (e)."""
    request = posts(("t3_s", None, "ann", 5, "quiet"))
    talk, drops = threads.joined(request, posts(*TALK))
    assert {drop["place"]: drop["reason"] for drop in drops} == {
        "h": "talk among others", "i": "talk among others", "j": "parent missing", "k": "talk among others"
    }  # fmt: skip
    depths = dict(talk.select("post", "depth").rows())
    assert depths == dict.fromkeys("abcd", 1) | {"e": 2, "f": 2, "g": 3}
    talk = talk.with_columns(text=pl.col("post") + " " + pl.col("text")).reverse()
    rules = threads.Rules({"films": ""}, upvotes=upvotes)
    (row,) = threads.build(request, talk, rules, lambda text, domain: [text.split()[0]])
    assert "".join(row["accepted"]) == accepted
    assert row["recommended"] == list("abcdg") and row["seen"] == ["A", "e", "f"]
    assert [turn["text"][0] for turn in row["turns"]] == list("Aabcdefg") and row["domain"] is None
    assert (row["source_id"], row["time"].timestamp(), row["turns"][0]["text"]) == ("s", 0, "A film?\n\nquiet")
    assert row["posts"][1] == {"source_id": "a", "author": "bo"} and len(row["posts"]) == 8


@pytest.mark.parametrize(
    ("answer", "score", "taken_up"),
    [
        ("I'll watch it", 1, True),
        ("I’ll watch it", 1, True),  # as a phone writes it
        ("Thanks, but I've seen it", 99, False),
        ("Thanks, but I’ve seen it", 99, False),
        ("I didn’t like that one", 99, False),
        ("No thanks, that one is too long", 99, False),
    ],
)
def test_an_answer_of_the_seeker_takes_an_item_up_or_not(answer, score, taken_up):
    request = posts(("t3_s", None, "ann", 5, "quiet"))
    talk, _ = threads.joined(request, posts(("a", "t3_s", "bo", score, "Heat"), ("b", "a", "ann", 1, answer)))
    (row,) = threads.build(request, talk, threads.Rules(), lambda text, domain: ["heat"] if text == "Heat" else [])
    assert row["accepted"] == ["heat"] * taken_up


def test_of_posts_with_one_id_the_first_counts():
    twice = posts(("a", "t3_s", "bo", 1, "x"), ("b", "t3_s", "bo", 1, ""), ("a", "t3_s", "bo", 1, "y"))
    places = twice.with_columns(place=pl.Series(["f:2", "f:3", "f:1"]))
    unique, drops = threads.once(places)
    assert unique.select("place", "text").rows() == [("f:1", "y"), ("f:3", "")]
    assert [(drop["place"], drop["reason"]) for drop in drops] == [("f:2", "same id")]

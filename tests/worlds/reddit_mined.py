"""Reddit dumps that are mined by the command, and a check that every line is accounted for."""

from saferec_builder.storage import tables, workspace as store
from tests.worlds.reddit_dump import comment, submission

S = submission(1, author="Asker", title="Looking for a calm film", selftext="My wife Anna likes Heat (1995).")

THREAD = [
    comment(1, "s1", author="Helper", body="Try Alien (1979). Mail me: jo@example.org", score=2),
    comment(2, "s1", "t1_c1", author="asker", body="Thanks, adding it!", created_utc=1660002000),
    comment(3, "s1", author="Other", body="Ronin (1998)", score=50, created_utc=1660001500),
    comment(4, "s1", "t1_c3", author="third", body="no way", created_utc=1660001600),  # not to the seeker
    comment(5, "s1", "t1_c2", author="helper", body="Enjoy", created_utc=1660003000),
    comment(6, "s1", "t1_gone", author="late", body="Aliens (1986)"),  # its parent never comes
    comment(7, "s1", author="[deleted]", body="Thief (1981)"),
    comment(8, "s1", author="ghost", body="[removed]"),
    comment(9, "s1", author="AutoModerator", body="Read the rules"),
    comment(10, "s1", author="fan", body="Speed (1994)", score=3),
    comment(11, "elsewhere", author="fan", body="on a thread that is not here"),
]


def mined(cli, ws, *paths, **options):
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    result = cli("mine", "reddit", *paths, "-C", ws.root, "--json", *words)
    assert result.code == 0, result.err
    return result.json


def current(ws):
    return tables.last(store.read(ws, tables.CONVERSATIONS), "conversation").sort("source_id")


def balanced(told):
    """Every line is a post, a drop or of another subreddit; every post became part of a conversation or a drop."""
    dropped = told["dropped"]
    assert told["in"] == told["out"] + sum(dropped.values())
    posts = told["posts"]
    used = told["requests"] + told["replies"] + told["comments_on_no_request"]
    reasons = ("no request", "talk among others", "parent missing", "same id")
    assert posts == used + sum(dropped.get(reason, 0) for reason in reasons)
    return True

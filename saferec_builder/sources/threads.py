"""Builds conversations from Reddit posts: from submissions that are requests, and the comments from and to the seeker.

A conversation is one request: the submission, then, in order of time, every comment that answers the seeker and every
answer of the seeker. Talk among others is left out. The posts already have placeholders and pseudonyms.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypedDict, cast

import polars as pl

from saferec_builder import sources
from saferec_builder.sources import Row, Rows, conversation_rows as conversations
from saferec_builder.sources.reddit import SOURCE
from saferec_builder.storage import tables

FILTERED = ("deleted author", "deleted text", "bot", "no request", "talk among others", "parent missing")  # by design
# (a text, the domain of its forum or None) -> refs of the items of that domain that it names
Items = Callable[[str, str | None], list[str]]


class Post(TypedDict):
    """The columns of a post (sources.reddit.POSTS) that a conversation uses."""

    post: str
    link: str
    subreddit: str
    author: str
    time: int  # seconds
    score: int
    title: str
    text: str
    place: str


_WORK = r"(?:movie|film|show|series|game|book|novel)"


@dataclass(frozen=True)
class Rules:
    """How requests and accepted recommendations are recognised; `[reddit]` in saferec.toml."""

    subreddits: dict[str, str] = field(default_factory=dict)  # name -> film | series | game | book, or "" for mixed
    # forums in which nearly every submission asks, in words that no pattern foresees; in MovieSuggestions many offer
    asking: tuple[str, ...] = (
        "booksuggestions",
        "suggestmeabook",
        "gamingsuggestions",
        "suggestmeagame",
        "shouldibuythisgame",
    )
    flair: str = r"(?i)request|looking|recommend|suggest me|help"
    other_flair: str = r"(?i)^suggesting|^\[suggest|hang ?out|discussion|\bmeta\b|announcement|contest|review"
    request: str = (
        rf"(?i)looking for|recommend|suggest|similar to|\bany (?:good |great |other )?{_WORK}"
        rf"|what (?:should|can|do) (?:i|we) (?:watch|play|read)|\b{_WORK}s? (?:like|where|about|with)"
        r"|in the mood for|\bi(?:['’]m| am)? (?:need|want)(?:ing)? |help me find|something like"
    )
    thanks: str = (
        r"(?i)\bthank|\bthx\b|\bty\b|great (?:rec|suggestion|call|pick)|\badd(?:ed|ing)\b|on (?:my|the) list"
        r"|(?:will|gonna|going to|i['’]ll) (?:watch|check|try|play|read|look)"
        r"|sounds (?:great|good|awesome|right)|perfect"
    )
    known: str = (
        r"(?i)already (?:seen|watched|played|read)|(?:have|['’]ve) seen|didn['’]?t (?:like|enjoy)|not (?:a fan|for me)"
        r"|\bno,? thanks\b"
    )
    upvotes: int = 10  # from this score on a reply counts as taken up; 0: never


def once(posts: pl.DataFrame) -> tuple[pl.DataFrame, Rows]:
    """Returns (posts, only the first with an id; drops of the others): dumps of two months may overlap."""
    is_repeated = pl.col("post").is_duplicated()
    # by whole rows: files of one name in two folders give two posts the same place
    repeated = posts.filter(is_repeated).sort("place", pl.all().exclude("place"))
    first = pl.col("post").is_first_distinct()
    unique = pl.concat([posts.filter(~is_repeated), repeated.filter(first)]).sort("place", "post")
    return unique, [sources.drop("mine", SOURCE, place, "same id") for place in repeated.filter(~first)["place"]]


def requests(posts: pl.DataFrame, rules: Rules) -> tuple[pl.DataFrame, Rows]:
    """Returns (submissions that ask for something, drops of the others). A title tag as "[Request]" is a flair, too.

    In the forums `asking` every submission asks, unless its flair is one of others.
    """
    asks = pl.concat_str("title", pl.lit("\n"), "text").str.contains(rules.request)
    asks |= pl.col("subreddit").str.to_lowercase().is_in(rules.asking)
    flairs = pl.concat_list(pl.col("flair").fill_null(""), pl.col("title").str.extract_all(r"\[[^\[\]]{1,40}\]?"))

    def has_flair(pattern: str) -> pl.Expr:
        return flairs.list.eval(pl.element().str.contains(pattern)).list.any()

    selected = posts.filter((has_flair(rules.flair) | asks) & ~has_flair(rules.other_flair))
    others = posts.join(selected, "post", "anti")
    pairs = others.select("place", "subreddit").iter_rows()
    return selected, [sources.drop("mine", SOURCE, place, "no request", f"in r/{forum}") for place, forum in pairs]


def joined(submissions: pl.DataFrame, comments: pl.DataFrame) -> tuple[pl.DataFrame, Rows]:
    """Returns (comments from and to the seekers of these requests, with `seeker` and `depth`; drops of the others).

    Keeps the comments of the seeker and the answers to the seeker, if all comments above them are kept as well.
    """
    seekers = submissions.select("link", seeker="author")
    candidates = comments.join(seekers, "link", "inner", maintain_order="left")
    by_seeker = pl.col("author") == pl.col("seeker")
    level = candidates.filter(pl.col("parent") == pl.col("link"))
    levels, depth = [level.with_columns(depth=pl.lit(1, pl.Int32))], 1
    while not level.is_empty():
        depth += 1
        above = level.select(parent="post", to_seeker=by_seeker)
        level = candidates.join(above, "parent", "inner", maintain_order="left").filter(by_seeker | pl.col("to_seeker"))
        level = level.drop("to_seeker")
        levels.append(level.with_columns(depth=pl.lit(depth, pl.Int32)))
    talk = pl.concat(levels)
    others = candidates.join(talk, "post", "anti", maintain_order="left")
    has_parent = others["parent"].is_in(candidates["post"].implode()) | (others["parent"] == others["link"])
    reasons = has_parent.replace_strict({True: "talk among others", False: "parent missing"}, return_dtype=pl.String)
    pairs = zip(others["place"], reasons, strict=True)
    return talk, [sources.drop("mine", SOURCE, place, reason) for place, reason in pairs]


def build(submissions: pl.DataFrame, talk: pl.DataFrame, rules: Rules, items: Items) -> Rows:
    """Conversations as `conversation_rows.row` gives them; people are pseudonyms already."""
    rows_by_request = talk.sort("time", "depth", "post").rows_by_key("link", named=True, include_key=True)
    replies = cast("dict[str, list[Post]]", rows_by_request)
    by_seeker = talk.filter(pl.col("author") == pl.col("seeker"))
    thanks, refusal = (pl.col("text").str.contains(pattern) for pattern in (rules.thanks, rules.known))
    thanked, refused = (set(by_seeker.filter(answer)["parent"]) for answer in (thanks & ~refusal, refusal))
    requests = cast("Iterator[Post]", submissions.sort("time", "post").iter_rows(named=True))
    return [_conversation(r, replies.get(r["post"], []), rules, items, thanked, refused) for r in requests]


def _conversation(
    request: Post, comments: list[Post], rules: Rules, items: Items, thanked: set[str], refused: set[str]
) -> Row:
    opening = f"{request['title']}\n\n{request['text']}".strip()
    domain = rules.subreddits.get(request["subreddit"]) or None
    turns = [conversations.Turn(role="seeker", text=opening, items=items(opening, domain))]
    accepted: list[str] = []
    for post in comments:
        by_seeker = post["author"] == request["author"]
        refs = items(post["text"], domain)
        turns.append(conversations.Turn(role="seeker" if by_seeker else "recommender", text=post["text"], items=refs))
        liked = post["post"] in thanked or 0 < rules.upvotes <= post["score"]
        if not by_seeker and liked and post["post"] not in refused:
            accepted += refs
    recommended = conversations.by_role(turns)["recommender"]
    return conversations.row(
        SOURCE,
        request["post"].removeprefix("t3_"),
        request["place"],
        turns,
        domain=domain,
        seeker=request["author"],
        time=datetime.fromtimestamp(request["time"], UTC),
        accepted=[ref for ref in dict.fromkeys(accepted) if ref in recommended],
        posts=[{"source_id": post["post"], "author": post["author"]} for post in (request, *comments)],
        # items come from the text: a better catalog finds more of them, which makes no new revision
        digest=tables.digest([[t["role"], t["text"]] for t in turns]),
    )

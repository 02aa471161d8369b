"""From posts to conversations: which submissions are requests, and which comments talk with the one who asked.

A conversation is one request: the submission, then, in order of time, every comment that answers the seeker and every
answer of the seekers themselves. Talk among others is left out. Posts come with placeholders and pseudonyms already.
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

Items = Callable[[str], list[str]]  # a text -> refs of the items that it names


class Post(TypedDict):
    """What a conversation takes of a post (sources.reddit.POSTS)."""

    post: str
    link: str
    subreddit: str
    author: str
    time: int  # seconds
    score: int
    title: str
    text: str
    place: str


@dataclass(frozen=True)
class Rules:
    """What counts as a request and as taking a recommendation up; `[reddit]` in saferec.toml."""

    subreddits: dict[str, str] = field(default_factory=dict)  # name -> film | series | game, or "" for mixed
    flair: str = r"(?i)request|looking|recommend|suggest me|help"
    other_flair: str = r"(?i)^suggesting|^\[suggest|hang ?out|discussion|\bmeta\b|announcement|contest|review"
    request: str = (
        r"(?i)looking for|recommend|suggest|similar to|\bany (?:good |great |other )?(?:movie|film|show|series|game)"
        r"|what (?:should|can|do) (?:i|we) (?:watch|play)|\b(?:movie|film|show|series|game)s? (?:like|where|about|with)"
        r"|in the mood for|\bi(?:'m| am)? (?:need|want)(?:ing)? |help me find|something like"
    )
    thanks: str = (
        r"(?i)\bthank|\bthx\b|\bty\b|great (?:rec|suggestion|call|pick)|\badd(?:ed|ing)\b|on (?:my|the) list"
        r"|(?:will|gonna|going to|i'll) (?:watch|check|try|play|look)|sounds (?:great|good|awesome|right)|perfect"
    )
    known: str = r"(?i)already (?:seen|watched|played)|(?:have|'ve) seen|didn'?t (?:like|enjoy)|not (?:a fan|for me)"
    upvotes: int = 10  # from this score on a reply counts as taken up; 0: never


def once(posts: pl.DataFrame) -> tuple[pl.DataFrame, Rows]:
    """(posts, the first of those with one id; drops of the others): dumps of two months may overlap."""
    again = pl.col("post").is_duplicated()
    # by the whole row: files of one name in two folders have one place for two posts
    twice = posts.filter(again).sort("place", pl.all().exclude("place"))
    first = pl.col("post").is_first_distinct()
    once = pl.concat([posts.filter(~again), twice.filter(first)]).sort("place", "post")
    return once, [sources.drop("mine", SOURCE, place, "same id") for place in twice.filter(~first)["place"]]


def requests(posts: pl.DataFrame, rules: Rules) -> tuple[pl.DataFrame, Rows]:
    """(submissions that ask for something, drops of the others). A tag in a title, as "[Request]", counts as flair."""
    asks = pl.concat_str("title", pl.lit("\n"), "text").str.contains(rules.request)
    flairs = pl.concat_list(pl.col("flair").fill_null(""), pl.col("title").str.extract_all(r"\[[^\[\]]{1,40}\]?"))

    def some(pattern: str) -> pl.Expr:
        return flairs.list.eval(pl.element().str.contains(pattern)).list.any()

    kept = posts.filter((some(rules.flair) | asks) & ~some(rules.other_flair))
    others = posts.join(kept, "post", "anti")
    return kept, [sources.drop("mine", SOURCE, place, "no request") for place in others["place"]]


def joined(asked: pl.DataFrame, comments: pl.DataFrame) -> tuple[pl.DataFrame, Rows]:
    """(comments that talk with the seeker of one of the requests, with `seeker` and `depth`; drops of the others).

    Kept are the seeker's comments and the answers to the seeker whose chain up to the request is kept as well.
    """
    asker = asked.select("link", seeker="author")
    here = comments.join(asker, "link", "inner", maintain_order="left")
    own = pl.col("author") == pl.col("seeker")
    level = here.filter(pl.col("parent") == pl.col("link"))
    kept, depth = [level.with_columns(depth=pl.lit(1, pl.Int32))], 1
    while not level.is_empty():
        depth += 1
        above = level.select(parent="post", to_seeker=own)
        level = here.join(above, "parent", "inner", maintain_order="left").filter(own | pl.col("to_seeker"))
        level = level.drop("to_seeker")
        kept.append(level.with_columns(depth=pl.lit(depth, pl.Int32)))
    talk = pl.concat(kept)
    return talk, _left_out(here, talk)


def _left_out(here: pl.DataFrame, talk: pl.DataFrame) -> Rows:
    rest = here.join(talk, "post", "anti", maintain_order="left")
    known = rest["parent"].is_in(here["post"].implode()) | (rest["parent"] == rest["link"])
    reasons = known.replace_strict({True: "talk among others", False: "parent missing"}, return_dtype=pl.String)
    return [sources.drop("mine", SOURCE, place, why) for place, why in zip(rest["place"], reasons, strict=True)]


def build(asked: pl.DataFrame, talk: pl.DataFrame, rules: Rules, items: Items) -> Rows:
    """Conversations as `conversations.row` gives them; people are pseudonyms already."""
    said = talk.sort("time", "depth", "post").rows_by_key("link", named=True, include_key=True)
    replies = cast("dict[str, list[Post]]", said)
    thanked = set(talk.filter(_taken_up(rules))["parent"])
    refused = set(
        talk.filter((pl.col("author") == pl.col("seeker")) & pl.col("text").str.contains(rules.known))["parent"]
    )
    rows = []
    for request in cast("Iterator[Post]", asked.sort("time", "post").iter_rows(named=True)):
        rows.append(_conversation(request, replies.get(request["post"], []), rules, items, (thanked, refused)))
    return rows


def _taken_up(rules: Rules) -> pl.Expr:
    own = pl.col("author") == pl.col("seeker")
    return own & pl.col("text").str.contains(rules.thanks) & ~pl.col("text").str.contains(rules.known)


def _conversation(
    request: Post, said: list[Post], rules: Rules, items: Items, answered: tuple[set[str], set[str]]
) -> Row:
    thanked, refused = answered
    opening = f"{request['title']}\n\n{request['text']}".strip()
    turns = [conversations.Turn(role="seeker", text=opening, items=items(opening))]
    accepted: list[str] = []
    for post in said:
        own = post["author"] == request["author"]
        named = items(post["text"])
        turns.append(conversations.Turn(role="seeker" if own else "recommender", text=post["text"], items=named))
        liked = post["post"] in thanked or 0 < rules.upvotes <= post["score"]
        if not own and liked and post["post"] not in refused:
            accepted += named
    by = conversations.by_role(turns)
    return conversations.row(
        SOURCE,
        request["post"].removeprefix("t3_"),
        request["place"],
        turns,
        domain=rules.subreddits.get(request["subreddit"]) or None,
        seeker=request["author"],
        time=datetime.fromtimestamp(request["time"], UTC),
        recommended=by["recommender"],
        accepted=[ref for ref in dict.fromkeys(accepted) if ref in by["recommender"]],
        seen=by["seeker"],
        posts=[{"source_id": post["post"], "author": post["author"]} for post in (request, *said)],
        # items were found in the text: a better catalog finds more and makes no new revision
        digest=tables.digest([[t["role"], t["text"]] for t in turns]),
    )

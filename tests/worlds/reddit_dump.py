"""Made-up Reddit dumps in the real schema, for tests and benchmarks: submissions and comments as JSON lines."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ASKED = "MovieSuggestions"
WORDS = (
    "looking for something slow and strange with a good score about family or the sea after a long week I liked the one"
    " where they never leave the house my wife fell asleep in it nothing too dark please thanks in advance anyone have"
    " a favourite that nobody talks about I have seen most of the big ones and want quiet winter films this time"
).split()


def submission(n: int, **given: Any) -> dict[str, Any]:
    """A submission with the fields of the dumps; `given` replaces some."""
    row = {
        "all_awardings": [], "allow_live_comments": False, "archived": False, "author": f"asker{n}",
        "author_created_utc": 1400000000, "author_flair_text": None, "author_fullname": f"t2_{n:x}",
        "can_gild": True, "contest_mode": False, "created_utc": 1660000000 + n, "distinguished": None,
        "domain": f"self.{ASKED}", "edited": False, "gilded": 0, "hidden": False, "id": f"s{n}", "is_self": True,
        "is_video": False, "link_flair_text": "REQUESTING", "locked": False, "media": None, "name": f"t3_s{n}",
        "num_comments": 4, "over_18": False, "permalink": f"/r/{ASKED}/comments/s{n}/x/", "pinned": False,
        "removed_by_category": None, "retrieved_on": 1670000000, "score": 12, "selftext": "Something quiet, please.",
        "send_replies": True, "spoiler": False, "stickied": False, "subreddit": ASKED, "subreddit_id": "t5_2r0cn",
        "subreddit_subscribers": 400000, "subreddit_type": "public", "thumbnail": "self",
        "title": "Looking for a calm film", "total_awards_received": 0, "upvote_ratio": 0.97,
        "url": f"https://www.reddit.com/r/{ASKED}/comments/s{n}/x/", "whitelist_status": "all_ads",
    }  # fmt: skip
    return row | given


def comment(n: int, link: str, parent: str | None = None, **given: Any) -> dict[str, Any]:
    """A comment under submission `link`, on `parent` (t1_... or, by default, the submission itself)."""
    row = {
        "all_awardings": [], "archived": False, "associated_award": None, "author": f"helper{n}",
        "author_created_utc": 1500000000, "author_flair_background_color": None, "author_flair_css_class": None,
        "author_flair_richtext": [], "author_flair_template_id": None, "author_flair_text": None,
        "author_flair_text_color": None, "author_flair_type": "text", "author_fullname": f"t2_h{n:x}",
        "author_patreon_flair": False, "author_premium": False, "awarders": [], "body": f"Try Heat (1995), number {n}.",
        "can_gild": True, "collapsed": False, "collapsed_because_crowd_control": None, "collapsed_reason": None,
        "comment_type": None, "controversiality": 0, "created_utc": 1660001000 + n, "distinguished": None,
        "edited": False, "gilded": 0, "gildings": {}, "id": f"c{n}", "is_submitter": False, "link_id": f"t3_{link}",
        "locked": False, "no_follow": True, "parent_id": parent or f"t3_{link}",
        "permalink": f"/r/{ASKED}/comments/{link}/x/c{n}/", "retrieved_on": 1670000000, "score": 3,
        "score_hidden": False, "send_replies": True, "stickied": False, "subreddit": ASKED, "subreddit_id": "t5_2r0cn",
        "subreddit_name_prefixed": f"r/{ASKED}", "subreddit_type": "public", "top_awarded_type": None,
        "total_awards_received": 0, "treatment_tags": [], "unrepliable_reason": None,
    }  # fmt: skip
    return row | given


def line(row: dict[str, Any]) -> str:
    return json.dumps(row, separators=(",", ":"))


def write(path: Path, rows: Iterator[dict[str, Any]] | list[dict[str, Any]]) -> Path:
    path.write_text("".join(line(row) + "\n" for row in rows), encoding="utf-8")
    return path


def titles(n: int) -> list[tuple[str, int]]:
    """(title, year) of made-up films, of one to four words that do not occur in bodies."""
    rng = random.Random(2)
    parts = "vel dro mar tis kan lo re shu pim gor ath en wy cas tor bel ul fi nas qui".split()

    def word() -> str:
        return "".join(rng.choices(parts, k=rng.randrange(2, 4))).capitalize()

    return [(" ".join(word() for _ in range(rng.randrange(1, 5))), rng.randrange(1950, 2022)) for _ in range(n)]


def _body(rng: random.Random, named: list[tuple[str, int]]) -> str:
    """Talk; every second body names a film, mostly with its year, and one in a hundred a person or an address."""
    words = rng.choices(WORDS, k=rng.randrange(5, 90))
    if rng.random() < 0.5:
        title, year = rng.choice(named)
        words.insert(rng.randrange(len(words)), f"{title} ({year})" if rng.random() < 0.8 else title)
    if rng.random() < 0.01:
        words.append(rng.choice(("my wife Anna loves it", "mail me at jo@example.org", "ask u/somebody_else")))
    return " ".join(words)


def bulk(
    path: Path, megabytes: int, *, share: float, kind: str = "comments", seed: int = 1, links: int = 100_000
) -> int:
    """Writes about so many MB of lines, `share` of them of the mined subreddit; returns the number of lines.

    Comments are on the submissions s0, s1, ... up to `links`; those of the subreddit have the first numbers.
    """
    rng = random.Random(seed)
    make = submission if kind == "submissions" else comment
    empty = {"body": "@body@"} if kind == "comments" else {"title": "@title@", "selftext": "@body@"}
    template = line(make(0, "@link@") | empty if kind == "comments" else submission(0) | empty)
    films = titles(7_000)
    bodies = [_body(rng, films) for _ in range(4_000)]
    subs = [f"others{n}" for n in range(300)]
    size = lines = mined_count = 0
    with open(path, "w", encoding="utf-8") as file:
        while size < megabytes * 1_000_000:
            chunk = []
            for _ in range(5_000):
                mined = rng.random() < share
                link = rng.randrange(links)
                text = template.replace("@link@", f"s{link}").replace("@body@", bodies[rng.randrange(4_000)])
                text = (
                    text.replace('"c0"', f'"c{lines}"')
                    .replace('"s0"', f'"s{mined_count}"' if mined else f'"o{lines}"')
                    .replace("helper0", f"h{link % 9973}")
                )
                text = text.replace("@title@", "Looking for a calm film")
                chunk.append(text if mined else text.replace(ASKED, subs[rng.randrange(300)]))
                lines += 1
                mined_count += mined
            block = "\n".join(chunk) + "\n"
            size += len(block)
            file.write(block)
    return lines

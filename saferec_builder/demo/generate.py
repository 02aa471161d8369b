"""Generates conversations over the demo catalog from a seed: enough to train on, and with a known truth.

Parameters were fixed before any model was trained on them; docs/demo.md states them. Splits are by time, and each
split has its own sentence banks (phrases.toml): no sentence is in two splits. The `unseen` slice, in the period of
the test split, uses cue words that no other bank has.
"""

import random
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, NotRequired, TypedDict

from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.demo import world

COUNTS = {"train": 12000, "validation": 700, "test": 700, "unseen": 300}
# first day and length in days; validation and test begin where saferec.toml of the demo says
PERIODS = {"train": (0, 600), "validation": (600, 60), "test": (660, 60), "unseen": (660, 60)}
START = datetime(2022, 1, 1, tzinfo=UTC)
SENSITIVE = 0.55  # share of seekers with a sensitivity; a tenth of them have two
LOOKALIKE = 0.08  # share of seekers whose words only look like a sensitivity
LATE = 0.05  # share of seekers with a sensitivity who mention it only after the recommendation
BROKEN = 0.55  # share of recommendations that break the sensitivity: recommenders do not know it
GAMES = 0.15  # share of requests that are about games
TEMPTING = 4  # a sensitivity is one of the four that items of the seeker's taste break most often
ANSWERS = 6  # items that the recommender names
ACCEPTED = 4  # items among them that the seeker accepts


Broken = dict[world.Item, frozenset[str]]  # the traits that each item truly breaks


class Message(TypedDict):
    role: str
    content: str


class Talk(TypedDict):
    """A conversation as `mine messages` reads it."""

    id: str
    user: str
    time: str
    messages: list[Message]
    domain: NotRequired[str]
    accepted: NotRequired[list[str]]
    seen: NotRequired[list[str]]


@dataclass(frozen=True)
class Made:
    row: Talk
    gold: list[world.Mark]  # the true sensitivities, with evidence
    slice: str | None = None  # name of the slice under which it is reported separately


def conversations(taxonomy: Taxonomy, seed: int = 7, counts: dict[str, int] | None = None) -> list[Made]:
    """All generated conversations, bank by bank, each in order of time."""
    banks = tomllib.loads((world.FOLDER / "phrases.toml").read_text(encoding="utf-8"))
    broken = {item: frozenset(item.breaks(taxonomy)) for item in world.items()}
    rng = random.Random(seed)
    generated = []
    for bank, n in (counts or COUNTS).items():
        first, days = PERIODS[bank]
        for i in range(n):
            time = START + timedelta(days=first + days * i / n)
            generated.append(_conversation(f"gen-{bank}-{i:05d}", bank, time, banks, broken, rng))
    return generated


@dataclass(frozen=True)
class _Seeker:
    domain: str
    traits: tuple[str, ...]
    liked: tuple[world.Item, ...]
    offered: tuple[world.Item, ...]
    accepted: tuple[world.Item, ...]


def _conversation(
    name: str, bank: str, time: datetime, banks: dict[str, Any], broken: Broken, rng: random.Random
) -> Made:
    seeker = _seeker(broken, rng)
    evidence = [(slug, _pick(banks["evidence"][slug], bank, rng)) for slug in seeker.traits]
    sentences = [_fill(e["text"], banks["slots"], rng) for _, e in evidence]
    if not seeker.traits and rng.random() < LOOKALIKE / (1 - SENSITIVE):
        lookalike = [_fill(_pick(banks["lookalike"][rng.choice(world.TRAITS)], bank, rng)["text"], banks["slots"], rng)]
    else:
        lookalike = []
    late = bool(sentences) and rng.random() < LATE
    turns, turn = _turns(seeker, bank, banks, [] if late else sentences + lookalike, rng)
    if late:
        turns[-1]["content"] += " " + " ".join(sentences)
        turn = len(turns) - 1
    gold: list[world.Mark] = [
        {"trait": slug, "form": e["form"], "turn": turn, "quote": quote}
        for (slug, e), quote in zip(evidence, sentences, strict=True)
    ]
    row: Talk = {
        "id": name,
        "user": f"seeker-{name}",
        "time": time.isoformat(),
        "domain": seeker.domain,
        "messages": turns,
        "accepted": [i.name for i in seeker.accepted],
        "seen": [i.name for i in seeker.liked if any(i.name in t["content"] for t in turns)],
    }
    return Made(row, gold, "unseen_cues" if bank == "unseen" else None)


def _seeker(broken: Broken, rng: random.Random) -> _Seeker:
    """A person with a taste (the items that share a genre with a first favourite) and perhaps a sensitivity."""
    domain = "game" if rng.random() < GAMES else "film"
    favourite = rng.choice(_pool(domain))
    similar = _similar(favourite)
    liked = (favourite, *rng.sample(similar[:20], 1))
    traits = _traits(similar[:20], broken, rng) if rng.random() < SENSITIVE else ()
    unseen = [i for i in similar if i not in liked]
    risky = [i for i in unseen if broken[i] & set(traits)]
    safe = [i for i in unseen if i not in risky]
    offered: list[world.Item] = []
    while len(offered) < ANSWERS:
        source = risky if risky and rng.random() < BROKEN else safe
        # earlier in the list = closer in taste: popular neighbours recur, so there is something to learn
        item = source[min(int(rng.expovariate(1 / 8)), len(source) - 1)]
        if item not in offered:
            offered.append(item)
    accepted = tuple(rng.sample(offered, ACCEPTED))
    return _Seeker(domain, traits, liked, tuple(offered), accepted)


@cache
def _pool(domain: str) -> tuple[world.Item, ...]:
    return tuple(i for i in world.items() if i.domain == domain)


@cache
def _similar(favourite: world.Item) -> tuple[world.Item, ...]:
    """Items like the favourite: by number of shared genres, then by distance in years."""
    genres, year = set(favourite.genres), favourite.year
    ranked = sorted(_pool(favourite.domain), key=lambda i: (-len(genres.intersection(i.genres)), abs(i.year - year)))
    return tuple(i for i in ranked[1:60] if i.title != favourite.title)


def _traits(similar: Sequence[world.Item], broken: Broken, rng: random.Random) -> tuple[str, ...]:
    """One sensitivity, sometimes two, among those that items of this taste break most often: there care matters."""
    counts = {t: sum(t in broken[i] for i in similar) for t in world.TRAITS}
    commonest = sorted(world.TRAITS, key=lambda t: (-counts[t], t))[:TEMPTING]
    return tuple(rng.sample(commonest, 2 if rng.random() < 0.1 else 1))


def _turns(
    seeker: _Seeker, bank: str, banks: dict[str, Any], sentences: list[str], rng: random.Random
) -> tuple[list[Message], int]:
    """Returns the turns, and the index of the turn that contains the sentences."""

    def phrase(kind: str, **slots: str) -> str:
        return str(_pick(banks[kind], bank, rng)).format(**slots)

    noun = "game" if seeker.domain == "game" else "film"
    opening = phrase("opening", a=seeker.liked[0].name, b=seeker.liked[1].name, noun=noun)
    if rng.random() < 0.4:
        opening += " " + phrase("neutral")
    has_question = rng.random() < 0.5
    statement = " ".join(sentences)
    texts = [opening if has_question else f"{opening} {statement}".strip()]
    if has_question:
        texts += [phrase("question"), f"{phrase('answer')} {statement}".strip()]
    texts.append(phrase("recommend", list=_list(seeker.offered)))
    texts.append(phrase("accept", list=_list(seeker.accepted)))
    turns: list[Message] = [{"role": "assistant" if n % 2 else "user", "content": text} for n, text in enumerate(texts)]
    return turns, 2 if has_question else 0


def _pick(bank: dict[str, list[Any]], split: str, rng: random.Random) -> Any:
    return rng.choice(bank[split if split in bank else "test"])  # lookalikes have no unseen bank


def _fill(text: str, slots: dict[str, list[str]], rng: random.Random) -> str:
    return text.format(**{name: rng.choice(values) for name, values in slots.items()})


def _list(items: tuple[world.Item, ...]) -> str:
    *names, last = (i.name for i in items)
    return f"{', '.join(names)} and {last}"

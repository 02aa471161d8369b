"""The rule-based proposer: finds a content beside the seeker's own aversion to it, or a sign that implies one.

reads  conversations (or items with a plot), the taxonomy, and cues.toml (English; traits without cues are not proposed)
gives  proposals by `rules`; no row means that nothing was found, not that the trait is absent

Titles and idioms are blanked first. Feelings of people who do not watch along, past feelings, liked contents and jokes
give no proposal.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import polars as pl

from saferec_builder.core.errors import UsageError
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.proposing.rules import cues, grammar
from saferec_builder.proposing.rules.turn_analysis import GLAD, REACH, Hit, Turn
from saferec_builder.proposing.text_units import Proposal, proposal
from saferec_builder.storage import tables
from saferec_builder.storage.schema import Span

VERSION = "rules-10"
MOST = 40  # most hits of one trait in one turn

_CONFIDENCE = {"strong": 0.9, "request": 0.8, "hate": 0.75, "mild": 0.6}  # level of an aversion -> confidence
_UNSURE = 0.35
# Lists whose phrases need no aversion beside them: verdict, form, confidence. Reactions of the body and aftermaths are
# often enjoyed ("it scared me, loved it"): of such claims that were graded, none was right (make bench ONLY=rules).
_WITHOUT_AVERSION = (
    ("says", "present", "explicit", 0.85),
    ("reaction", "unsure", "explicit", 0.4),
    ("aftermath", "unsure", "implicit", 0.4),
    ("implied", "present", "implicit", 0.6),
    ("faint", "unsure", "implicit", 0.3),
    ("hints", "unsure", "implicit", 0.4),
)


def propose(conversations: pl.DataFrame, taxonomy: Taxonomy) -> pl.DataFrame:
    """tables.PROPOSALS of kind sensitivity: at most one row per (conversation, trait), spans in seekers' turns."""
    rows: list[Proposal] = []
    for subject, digest, turns in conversations.select("conversation", "digest", "turns").iter_rows():
        hits = in_turns([(turn["role"], turn["text"] or "") for turn in turns or []])
        rows += _proposals(("sensitivity", subject, digest), hits, taxonomy)
    return tables.PROPOSALS.frame(rows)


def in_turns(turns: Sequence[tuple[str, str]]) -> list[tuple[int, str, Hit]]:
    """The hits in the seeker's turns of a conversation, each with its turn and the text; turns: (role, text)."""
    titles = cues.titles([text for _, text in turns])
    return [(n, text, hit) for n, (role, text) in enumerate(turns) if role == "seeker" for hit in read(text, titles)]


def flag_items(items: pl.DataFrame, taxonomy: Taxonomy) -> pl.DataFrame:
    """tables.PROPOSALS of kind item_flag, from the columns item and plot; the plot is turn 0."""
    rows: list[Proposal] = []
    for item, plot in items.select("item", "plot").iter_rows():
        hits = [(0, plot, hit) for hit in read_plot(plot)] if plot else []
        rows += _proposals(("item_flag", item, tables.digest(plot)), hits, taxonomy)
    return tables.PROPOSALS.frame(rows)


def _proposals(
    subject: tuple[str, str, str], hits: Sequence[tuple[int, str, Hit]], taxonomy: Taxonomy
) -> Iterator[Proposal]:
    """One row per trait from all its hits in a subject (kind, id, digest): the surest verdict, and its evidence."""
    kind, name, digest = subject
    for trait in taxonomy.slugs:
        if not (of_trait := [hit for hit in hits if hit[2].trait == trait]):
            continue
        present = [hit for hit in of_trait if hit[2].verdict == "present"]
        evidence = present or of_trait
        spans: dict[tuple[int, int, int], Span] = {
            (n, h.start, h.end): {"turn": n, "start": h.start, "end": h.end, "quote": text[h.start : h.end]}
            for n, text, h in evidence
        }
        yield proposal(
            (kind, name, trait, digest),
            ("rules", VERSION),
            taxonomy.digest,
            verdict="present" if present else "unsure",
            form="explicit" if any(h.form == "explicit" for _, _, h in evidence) else "implicit",
            spans=[spans[place] for place in sorted(spans)][:5],
            confidence=min(0.95, max(h.sure for _, _, h in evidence) + 0.03 * min(3, len(spans) - 1)),
        )


def claimed(texts: Sequence[str] | str) -> set[str]:
    """Traits that the rules find present in the turns of one seeker; a bare text is one turn.

    Raises UsageError for messages of role and content: the rules would read their keys, and find nothing.
    """
    texts = [texts] if isinstance(texts, str) else texts  # a string would be read letter by letter, and nothing found
    if isinstance(texts, Mapping) or not all(isinstance(text, str) for text in texts):
        raise UsageError(
            "claimed: expected what the person said, as str or a list of str: give the content of messages"
        )
    hits = in_turns([("seeker", text) for text in texts])
    return {hit.trait for _, _, hit in hits if hit.verdict == "present"}


def read(text: str, titles: Sequence[str] = ()) -> list[Hit]:
    """Hits in one turn of a seeker. titles: names of items, which are blanked wherever they occur."""
    book = cues.load()
    turn = Turn(book.mask(text, titles), book)
    hits = (hit for slug in turn.traits for hit in islice(_of_trait(slug, turn), MOST))
    return [hit for hit in hits if not turn.joking(hit)]


def _of_trait(slug: str, turn: Turn) -> Iterator[Hit]:
    for name, verdict, form, confidence in _WITHOUT_AVERSION:
        for start, end in turn.signs.get((slug, name), ()):
            if name in ("reaction", "aftermath", "faint") and turn.names_another(slug, start, name == "aftermath"):
                continue
            if not turn.is_question(start) and turn.holds(start, end) and not turn.enjoyed(slug, start, end):
                if verdict == "present" and turn.is_story and (name == "implied" or not turn.is_declared(start, end)):
                    yield turn.hit(slug, (start, end), "unsure", form, _UNSURE)
                else:
                    yield turn.hit(slug, (start, end), verdict, form, confidence)
    for start, end in turn.signs.get((slug, "life"), ()):
        yield turn.hit(slug, (start, end), "unsure", "implicit", _UNSURE)
    genres, others = turn.signs.get((slug, "genre"), []), turn.contents_besides(slug)
    for start, end in genres:  # "asylum horror" rejects one kind of horror only
        if not others.hold_more(start, end) and not others.end_at(start - 1):
            yield from _content_hits(slug, turn, start, end, True)
    kinds = cues.Places(genres)
    for start, end in turn.signs.get((slug, "cues"), ()):  # "animal cruelty" is not cruelty to people
        if not kinds.hold(start, end) and not others.hold_more(start, end):
            yield from _content_hits(slug, turn, start, end, False)


def _content_hits(slug: str, turn: Turn, start: int, end: int, genre: bool) -> Iterator[Hit]:
    """Yields a hit if a phrase beside the content at [start, end) says that it is unwanted."""
    before, after = turn.before(start), turn.afters(end)
    if after and turn.low[end : after[0].start] == "-":
        before = None  # "I like blood-free films" does not mean liking blood
    if before and before.level in GLAD and not (after and after[0].level == "strong"):
        return
    averse = [s for s in (before, *after) if s and s.level not in GLAD]
    for stance in sorted(averse, key=lambda s: list(REACH).index(s.level)):
        first, last = min(start, stance.start), max(end, stance.end)
        verdict = _verdict(stance.level, genre, slug in turn.book.mild)
        if verdict and turn.is_welcome(start, stance):
            return
        if verdict and not turn.is_question(stance.start) and turn.holds(stance.start, stance.end, stance, end):
            if before and before.level in GLAD and not (before.level == "theirs" and turn.points_back(stance)):
                # liked, and yet it does something to them; "he likes it, I can't take it" is present
                verdict = "unsure"
            if turn.is_story and not turn.is_declared(stance.start, stance.end, stance, end):
                verdict = "unsure"
            confidence = _CONFIDENCE[stance.level] if verdict == "present" else _UNSURE
            yield turn.hit(slug, (first, last), verdict, "explicit", confidence)
            return


def _verdict(level: str, genre: bool, mild: bool) -> str | None:
    """The verdict of an aversion, or None. To a genre only a `strong` one is `present`: other dislikes are a taste."""
    if level == "strong":
        return "present"
    if genre:
        return "unsure" if level == "request" else None
    if level in ("request", "hate"):
        return "present"
    return "present" if mild and level == "mild" else "unsure"


def read_plot(plot: str) -> Iterator[Hit]:
    """Hits in a plot: a content that it names is present, unless it says that the content is absent."""
    book = cues.load()
    turn = Turn(book.mask(plot, ()), book)
    for (slug, name), start, end in book.plots.find(turn.low):
        verdict, confidence = ("unsure", 0.3) if name == "plot_faint" else ("present", 0.7 if name == "cues" else 0.6)
        if not grammar.ABSENT.search(turn.low[max(0, start - 30) : start]):
            yield turn.hit(slug, (start, end), verdict, "explicit", confidence)

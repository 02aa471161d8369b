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
from saferec_builder.proposing.text_units import Proposal
from saferec_builder.storage import tables
from saferec_builder.storage.schema import Span

VERSION = "rules-9"
MOST = 40  # most hits of one trait in one turn

_CONFIDENCE = {"strong": 0.9, "request": 0.8, "hate": 0.75, "mild": 0.6}  # level of an aversion -> confidence
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
        titles = cues.titles([t["text"] or "" for t in turns or []])
        hits_by_trait: dict[str, list[tuple[int, str, Hit]]] = {}
        for n, turn in enumerate(turns or []):
            if turn["role"] == "seeker" and turn["text"]:
                for hit in read(turn["text"], titles):
                    hits_by_trait.setdefault(hit.trait, []).append((n, turn["text"], hit))
        for trait in taxonomy.slugs:
            if trait in hits_by_trait:
                rows.append(_proposal("sensitivity", subject, trait, digest, taxonomy, hits_by_trait[trait]))
    return tables.PROPOSALS.frame(rows)


def flag_items(items: pl.DataFrame, taxonomy: Taxonomy) -> pl.DataFrame:
    """tables.PROPOSALS of kind item_flag, from the columns item and plot; the plot is turn 0."""
    rows: list[Proposal] = []
    for item, plot in items.select("item", "plot").iter_rows():
        hits = list(read_plot(plot)) if plot else []
        for trait in taxonomy.slugs:
            if hits_of_trait := [(0, plot, hit) for hit in hits if hit.trait == trait]:
                rows.append(_proposal("item_flag", item, trait, tables.digest(plot), taxonomy, hits_of_trait))
    return tables.PROPOSALS.frame(rows)


def _proposal(
    kind: str, subject: str, trait: str, digest: str, taxonomy: Taxonomy, hits: Sequence[tuple[int, str, Hit]]
) -> Proposal:
    """One row from all hits of a trait: the surest verdict, and the evidence for it."""
    present = [hit for hit in hits if hit[2].verdict == "present"]
    evidence = present or hits
    spans: dict[tuple[int, int, int], Span] = {
        (n, h.start, h.end): {"turn": n, "start": h.start, "end": h.end, "quote": text[h.start : h.end]}
        for n, text, h in evidence
    }
    form = "explicit" if any(h.form == "explicit" for _, _, h in evidence) else "implicit"
    return {
        "proposal": tables.digest(kind, subject, trait, digest, "rules", VERSION),
        "kind": kind,
        "subject": subject,
        "trait": trait,
        "digest": digest,
        "verdict": "present" if present else "unsure",
        "form": form if present else None,
        "spans": [spans[place] for place in sorted(spans)][:5],
        "confidence": min(0.95, max(h.sure for _, _, h in evidence) + 0.03 * min(3, len(spans) - 1)),
        "proposer": "rules",
        "version": VERSION,
        "taxonomy": taxonomy.digest,
    }


def claimed(texts: Sequence[str] | str) -> set[str]:
    """Traits that the rules find present in the turns of one seeker; a bare text is one turn.

    Raises UsageError for messages of role and content: the rules would read their keys, and find nothing.
    """
    texts = [texts] if isinstance(texts, str) else texts  # a string would be read letter by letter, and nothing found
    if isinstance(texts, Mapping) or not all(isinstance(text, str) for text in texts):
        raise UsageError(
            "claimed: expected what the person said, as str or a list of str: give the content of messages"
        )
    titles = cues.titles(texts)
    return {hit.trait for text in texts for hit in read(text, titles) if hit.verdict == "present"}


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
                yield turn.hit(slug, start, end, verdict, form, confidence)
    for start, end in turn.signs.get((slug, "life"), ()):
        yield turn.hit(slug, start, end, "unsure", "implicit", 0.35)
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
            is_liked = before is not None and before.level in GLAD
            if is_liked and not (before and before.level == "theirs" and turn.points_back(stance)):
                verdict = (
                    "unsure"  # liked, and yet it does something to them; "he likes it, I can't take it" is present
                )
            confidence = _CONFIDENCE[stance.level] if verdict == "present" else 0.35
            yield turn.hit(slug, first, last, verdict, "explicit", confidence)
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
            yield turn.hit(slug, start, end, verdict, "explicit", confidence)

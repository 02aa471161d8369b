"""The demo's truth, as its authors wrote it: proposers are scored against it."""

import hashlib

from saferec_builder.core.errors import UsageError
from saferec_builder.demo import inputs, world
from saferec_builder.proposing.calibration import Truth
from saferec_builder.proposing.corpus import Corpus, unknown_traits


def truth_of(corpus: Corpus, *, by_rules: bool) -> Truth:
    """The truth of the items or conversations of a corpus; by_rules: to score them, or what learned from them."""
    truth = of_items(corpus) if corpus.kind == "item_flag" else of_conversations(corpus, by_rules)
    if not (truth.present or truth.absent or truth.whole):
        raise UsageError(
            f"{corpus.ws.root} holds nothing of the demo: give a demo's folder with -C, or run `saferec-build demo`"
        )
    return truth


def half(name: str) -> str:
    """The half that a hand-written conversation is in: the rules were tuned on `tune` and are scored on `report`."""
    return ("tune", "report")[int(hashlib.blake2b(name.encode(), digest_size=8).hexdigest(), 16) % 2]


def of_conversations(corpus: Corpus, by_rules: bool) -> Truth:
    """The truth of the hand-written conversations; by_rules: only of the half on which the rules were not tuned."""
    texts = {s.subject: s.turns for s in corpus.subjects}
    present: dict[tuple[str, str], str | None] = {}
    spans: dict[tuple[str, str], list[tuple[int, int, int]]] = {}
    complete: set[str] = set()
    for talk in inputs.written_conversations():
        subject = inputs.name_of(talk)
        if subject not in texts or (by_rules and half(talk.row["id"]) == "tune"):
            continue
        complete.add(subject)
        for mark in talk.gold:
            present[subject, mark["trait"]] = mark["form"]
            start = texts[subject][mark["turn"]][1].find(mark["quote"])
            if start >= 0:
                spans.setdefault((subject, mark["trait"]), []).append((mark["turn"], start, start + len(mark["quote"])))
    return Truth(present, (), complete, spans)


def of_items(corpus: Corpus) -> Truth:
    """The truth of each invented item, for the traits that are unknown without the reviewers' own labels."""
    unknown = unknown_traits(corpus.ws, reviews=False)[1]
    names = {(title, year): item for item, title, year in corpus.frame.select("item", "title", "year").iter_rows()}
    present: dict[tuple[str, str], str | None] = {}
    absent: set[tuple[str, str]] = set()
    for item in world.items():
        breaks = item.breaks(corpus.taxonomy)
        subject: str = names.get((item.title, item.year), "")
        for slug in unknown.get(subject, frozenset()) & set(world.TRAITS):
            if slug in breaks:
                present[subject, slug] = None
            else:
                absent.add((subject, slug))
    return Truth(present, absent)

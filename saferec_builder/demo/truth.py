"""What the demo's authors know of their world: the truth that proposers are scored against."""

import hashlib
from typing import Any


def known(world: Any, *, by_rules: bool) -> Any:
    """The truth of this world's items, or of its conversations."""
    return of_items(world) if world.kind == "item_flag" else of_conversations(world, by_rules)


def half(name: str) -> str:
    """Half of the hand-written conversations by their id: the rules were tuned on `tune` and are scored on `report`."""
    return ("tune", "report")[int(hashlib.blake2b(name.encode(), digest_size=8).hexdigest(), 16) % 2]


def of_conversations(world: Any, by_rules: bool) -> Any:
    """The hand-written conversations; of the rules only the half on which they were not tuned."""
    from saferec_builder.demo import inputs
    from saferec_builder.proposing.calibration import Truth

    texts = {s.subject: s.turns for s in world.subjects}
    present: dict[tuple[str, str], str | None] = {}
    spans: dict[tuple[str, str], list[tuple[int, int, int]]] = {}
    whole: set[str] = set()
    for made in inputs.written():
        subject = inputs.name_of(made)
        if subject not in texts or (by_rules and half(made.row["id"]) == "tune"):
            continue
        whole.add(subject)
        for g in made.gold["gold"]:
            present[subject, g["trait"]] = g["form"]
            start = texts[subject][g["turn"]][1].find(g["quote"])
            if start >= 0:
                spans.setdefault((subject, g["trait"]), []).append((g["turn"], start, start + len(g["quote"])))
    return Truth(present, (), whole, spans)


def of_items(world: Any) -> Any:
    """What the demo's authors know of each invented item, where no warning (but a reviewer's own) tells."""
    from saferec_builder.demo import world as demo
    from saferec_builder.proposing.calibration import Truth
    from saferec_builder.proposing.runner import unknown

    open_ = unknown(world.ws, world.taxonomy, reviews=False)[1]
    names = {(row["title"], row["year"]): row["item"] for row in world.frame.select("item", "title", "year").to_dicts()}
    present: dict[tuple[str, str], str | None] = {}
    absent: set[tuple[str, str]] = set()
    for item in demo.items():
        breaks = item.breaks(world.taxonomy)
        subject: str = names.get((item.title, item.year), "")
        for slug in open_.get(subject, frozenset()) & set(demo.TRAITS):
            if slug in breaks:
                present[subject, slug] = None
            else:
                absent.add((subject, slug))
    return Truth(present, absent)

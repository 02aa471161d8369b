"""What is known of a unit: what people decided in this workspace, or what the demo's authors know of their world."""

from typing import Any

from saferec_builder.core.errors import UsageError
from saferec_builder.demo.truth import of_conversations, of_items


def known(world: Any, gold: str, *, by_rules: bool) -> Any:
    if gold == "labels":
        return _labels(world)
    if gold != "demo":
        raise UsageError(f"--gold {gold}: wanted labels or demo")
    return of_items(world) if world.kind == "item_flag" else of_conversations(world, by_rules)


def _labels(world: Any) -> Any:
    """Labels that people gave: one that is `auto` is a proposer's own claim, and would bear out whoever made it."""
    from saferec_builder.proposing.calibration import Truth
    from saferec_builder.storage import tables, workspace as store

    frame = tables.last(store.read(world.ws, tables.LABELS).filter(kind=world.kind), "subject", "trait")
    frame = frame.filter(frame["method"] != "auto")
    now = {(s.subject, s.digest) for s in world.subjects}
    rows = [r for r in frame.to_dicts() if (r["subject"], r["digest"]) in now]
    present: dict[tuple[str, str], Any] = {(r["subject"], r["trait"]): r for r in rows if r["verdict"] == "present"}
    spans = {u: [(s["turn"], s["start"], s["end"]) for s in r["spans"]] for u, r in present.items() if r["spans"]}
    absent = {(r["subject"], r["trait"]) for r in rows if r["verdict"] == "absent"}
    return Truth({u: r["form"] for u, r in present.items()}, absent, (), spans)

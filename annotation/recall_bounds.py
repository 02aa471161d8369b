"""What the labels still miss, at most: certificates over the blind audit, per trait and for conversations as a whole.

reads  texts, assignments, labels as they stand, gold
gives  trait -> bound; the conversations nobody read but for the audit are the zone

A conversation that was read counts by its label, whatever it was assigned for. Without a label yet, or with an unsure
one, it counts as if something had been missed in it: unknown is not safe, and nobody can help a bound along by leaving
hard ones open. A sure proposal that is a label `auto` is not missed, read or not.
"""

from dataclasses import asdict, dataclass, field

import polars as pl

from annotation import confidence_bounds as certificates
from annotation.confidence_bounds import Audit, Bound, FalseShare
from annotation.dealing import AUDIT, by_draw
from saferec_builder.core.json_value import JsonValue

POOLED = "any sensitivity"
Verdicts = dict[str, dict[str, str | None]]  # conversation -> trait -> verdict


@dataclass(frozen=True)
class LabelBounds:
    """What the labels miss at most. `together`: the traits whose certificates hold at once (Holm). `gold`: errors on
    gold, apart from the audit.

    `false`: the share of the labels `present` that are wrong, by rechecks; `false_pooled` is over all traits.
    """

    traits: dict[str, Bound]
    pooled: Bound
    together: list[str]
    gold: dict[str, float | int | None]
    false: dict[str, FalseShare] = field(default_factory=dict)
    false_pooled: FalseShare | None = None
    unassigned: int = 0  # of the conversations that are open, those that nobody was given


def certificate(bounds: LabelBounds) -> dict[str, JsonValue]:
    """All of it as plain values, for a file, a card or a page; shares are null where they are not known."""
    return {
        "alpha": certificates.ALPHA,
        "confidence": 1 - certificates.DELTA,
        "missed": {slug: _plain(bound) for slug, bound in bounds.traits.items()},
        "missed_of_all": _plain(bounds.pooled),
        "certified_together": bounds.together,
        "false": {slug: _plain(share) for slug, share in bounds.false.items()},
        "false_of_all": _plain(bounds.false_pooled) if bounds.false_pooled else None,
        "on_gold": bounds.gold,
    }


def figures(bounds: LabelBounds) -> dict[str, JsonValue]:
    """The bounds as the commands print them with --json."""
    return {
        "missed": {slug: vars(bound) for slug, bound in bounds.traits.items()},
        "missed_of_all": vars(bounds.pooled),
        "false": {slug: vars(share) for slug, share in bounds.false.items()},
    }


def _plain(bound: Bound | FalseShare) -> dict[str, JsonValue]:
    facts = {name: value for name, value in asdict(bound).items() if name != "log_e"}
    return facts | {"certified": bound.certified}


def bounds(
    texts: pl.DataFrame,
    assignments: pl.DataFrame,
    judged: pl.DataFrame,
    gold: pl.DataFrame,
    slugs: tuple[str, ...],
    *,
    claimed: frozenset[str],
    auto: frozenset[tuple[str, str]] = frozenset(),
) -> LabelBounds:
    """Every trait's bound on FN / (FN + TP) of the labels, and the one of conversations with any sensitivity.

    `claimed`: the conversations that are to be read for another reason than the draw, assigned or not; no default,
    since the bound holds only where all of them are named. `auto`: (conversation, trait) of the sure proposals that
    are labels though nobody read them.
    """
    verdicts: Verdicts = {}
    for subject, trait, verdict in judged.filter(kind="sensitivity").select("subject", "trait", "verdict").iter_rows():
        verdicts.setdefault(subject, {})[trait] = verdict
    zone, chosen, drawn = _zone(texts, assignments, claimed)
    outside = [verdicts.get(subject, {}) for subject in chosen]
    open_ = {
        s for s in chosen if not (_clean(verdict_of := verdicts.get(s, {}), slugs) or "present" in verdict_of.values())
    }
    order = _prefix(drawn, verdicts)
    found = {}
    for slug in slugs:
        here = sum(verdict_of.get(slug) == "present" for verdict_of in outside)
        unread = sum(verdict_of.get(slug) not in ("absent", "present") for verdict_of in outside)
        drawn_verdicts = ["absent" if (s, slug) in auto else verdicts.get(s, {}).get(slug) for s in order]
        outcomes = tuple(int(verdict != "absent") for verdict in drawn_verdicts)
        holes = sum(verdict not in ("absent", "present") for verdict in drawn_verdicts)
        found[slug] = certificates.bound(Audit(here, len(zone), outcomes, unread, holes))
    any_of = sum("present" in verdict_of.values() for verdict_of in outside)
    labelled = {subject for subject, _ in auto}
    doubtful = [not _clean(verdicts.get(subject, {}), slugs) and subject not in labelled for subject in order]
    holes = sum(
        "present" not in verdicts.get(s, {}).values() for s, doubt in zip(order, doubtful, strict=True) if doubt
    )
    pooled = certificates.bound(Audit(any_of, len(zone), tuple(map(int, doubtful)), len(open_), holes))
    holds = certificates.holm([found[slug].log_e for slug in slugs])
    together = [slug for slug, ok in zip(slugs, holds, strict=True) if ok and found[slug].certified]
    unassigned = len(open_ - set(assignments.filter(kind="sensitivity", role="reviewer")["subject"]))
    return LabelBounds(found, pooled, together, _on_gold(verdicts, gold, slugs), unassigned=unassigned)


def _zone(
    texts: pl.DataFrame, assignments: pl.DataFrame, claimed: frozenset[str]
) -> tuple[set[str], list[str], list[str]]:
    """(conversations that nobody reads but for the audit, those chosen for another reason, the zone's draw so far).

    The draw goes by hash up to the last one that was audited. One on the way that was not, because a budget ended or
    it was mined later, is in it all the same: else the sample would not be uniform. The first reason for which one was
    assigned counts: else what an audit found would leave the sample where somebody makes gold of it. What is claimed
    is chosen from the start, whatever keeps it from its readers (a budget, a cap, a wish): the audit never comes to it,
    so in the zone it would be unread and taken for as clean as what the audit saw.
    """
    now = texts.filter("current", kind="sensitivity")["subject"].to_list()
    given = assignments.filter(kind="sensitivity", role="reviewer").unique("subject", keep="first", maintain_order=True)
    audited = set(given.filter(why=AUDIT)["subject"])
    chosen = (set(given["subject"]) | claimed) - audited
    zone = {subject for subject in now if subject not in chosen}
    order = sorted(zone, key=by_draw)
    last = max((n for n, subject in enumerate(order) if subject in audited), default=-1)
    return zone, [subject for subject in now if subject in chosen], order[: last + 1]


def _prefix(drawn: list[str], verdicts: Verdicts) -> list[str]:
    """The draw up to the last conversation with a label: what comes after it was not begun."""
    labelled = [n for n, subject in enumerate(drawn) if subject in verdicts]
    return drawn[: labelled[-1] + 1] if labelled else []


def _clean(verdict_of: dict[str, str | None], slugs: tuple[str, ...]) -> bool:
    return all(verdict_of.get(slug) == "absent" for slug in slugs)


def _on_gold(verdicts: Verdicts, gold: pl.DataFrame, slugs: tuple[str, ...]) -> dict[str, float | int | None]:
    """How often labels miss or invent what gold holds, and the rates that are not exceeded."""
    missed = invented = yes = no = 0
    for subject, traits in gold.select("subject", "traits").iter_rows():
        for slug in slugs if subject in verdicts else ():
            verdict = verdicts[subject].get(slug)
            if verdict is None:
                continue
            yes, missed = yes + (slug in traits), missed + (slug in traits and verdict != "present")
            no, invented = no + (slug not in traits), invented + (slug not in traits and verdict == "present")
    return {
        "units_present": yes,
        "missed": missed,
        "missed_at_most": certificates.rate(missed, yes),
        "units_absent": no,
        "invented": invented,
        "invented_at_most": certificates.rate(invented, no),
    }


def words(bound: Bound) -> str:
    """`<= 4.2 %` where it is known; else why not and what is needed."""
    need, waiting = f"{bound.more:,} more audits" if bound.more else "", bound.open + bound.holes
    if bound.more is None and waiting:
        need = f"{waiting:,} proposed, assigned or drawn are not labelled yet, or unsure"
    elif bound.more is None and bound.audited < bound.zone:
        need = "read everything"
    if bound.share is None:
        return f"n/a ({'; '.join(part for part in (bound.why, need) if part)})"
    most = certificates.at_most(bound.share)
    # what waits may turn out either way: labels for it promise nothing
    goal = "" if bound.more is None and waiting else f" for {100 * certificates.ALPHA:.0f} %"
    return f"{most} (certified)" if bound.certified else f"{most} ({need}{goal})"


def lowers_most(bounds: LabelBounds) -> str | None:
    """The one thing to do next: labels for what was chosen or drawn, then audits for the closest trait."""
    if waiting := bounds.pooled.open + bounds.pooled.holes:
        why = f"{waiting:,} conversations are proposed or drawn and have no sure label yet: each counts as missed"
        return f"{why}; {bounds.unassigned:,} of them wait to be assigned: `review push`" if bounds.unassigned else why
    open_ = {slug: b.more for slug, b in bounds.traits.items() if not b.certified and b.more}
    if not open_:
        return None
    slug = min(open_, key=lambda name: open_[name] or 0)
    return f"{open_[slug]:,} more audits certify {slug}"


def band(proposals: pl.DataFrame, pooled: Bound) -> int:
    """How many unread conversations are worth reading by score before more are audited; 0 where scores tell nothing.

    The score of a conversation is the doubt that a proposer left on any of its traits.
    """
    if pooled.certified or pooled.zone <= pooled.audited:
        return 0
    flags = pl.col("verdict").is_in(["present", "unsure"]).any().over("subject")
    quiet = proposals.filter(kind="sensitivity").filter(~flags).filter(pl.col("confidence").is_not_null())
    doubt = quiet.group_by("subject").agg(doubt=(1 - pl.col("confidence")).max())["doubt"].sort(descending=True)
    chances = [*doubt.to_list(), *[0.0] * pooled.zone][: pooled.zone]
    return certificates.plan(pooled.found, chances) if len(doubt) else 0

"""What the labels still miss, at most: certificates over the blind audit, per trait and for subjects as a whole.

reads  the sampling design, labels as they stand, what was said of subjects that have left the data, gold
gives  trait -> bound

A subject that was read counts by its label, whatever it was assigned for. Without a label yet, or with an unsure one,
it counts as if something had been missed in it: unknown is not safe, and nobody can help a bound along by leaving hard
ones open. The same holds for what has no place in the design yet.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import polars as pl

from annotation import confidence_bounds as certificates, controls, routing, sampling_design as drawing
from annotation.confidence_bounds import Bound, FalseShare
from annotation.controls import NOBODY, Blind
from annotation.task_assignment import claims
from saferec_builder.storage.tables import GOLD, TOMBSTONES

POOLED = "any sensitivity"
ANY_FLAG = "any flag of items"


@dataclass(frozen=True)
class LabelBounds:
    """What the labels miss at most. `together`: the traits whose certificates hold at once (Holm). `gold`: gold
    conversations with an error, apart from the audit.

    `false`: the share of the labels `present` that are wrong, by rechecks; `false_pooled` is over all traits.
    """

    traits: dict[str, Bound]
    pooled: Bound
    together: list[str]
    gold: dict[str, float | int | str | None]
    false: dict[str, FalseShare] = field(default_factory=dict)
    false_pooled: FalseShare | None = None
    unassigned: int = 0  # of the conversations that are open, those that nobody was given
    blind: Blind = NOBODY  # how these reviewers read what is known and was not suggested
    apart: float | None = None  # the share of `pooled`, so that it holds together with the rate of `blind`
    claimed: int = 0  # each of them is read
    undrawn: int = 0  # conversations without a place in the sampling design: what is not known of them is open
    zone: int = 0  # what an audit speaks for, with those that have left the data since
    gone: int = 0
    items: "LabelBounds | None" = None  # the same of unsafe-item flags, by readers of the plots; None: nothing was read


def bounds(
    design: pl.DataFrame,
    current: Collection[str],
    assignments: pl.DataFrame,
    judged: pl.DataFrame,
    gold: pl.DataFrame,
    slugs: tuple[str, ...],
    *,
    auto: frozenset[tuple[str, str]] = frozenset(),
    kind: str = "sensitivity",
    blind: Blind = NOBODY,
    gone: pl.DataFrame = TOMBSTONES.empty,
) -> LabelBounds:
    """Every trait's bound on FN / (FN + TP) of the labels, and the one of subjects with any trait.

    `current` are the subjects that are in the data, `judged` what people say of these, and have said of others
    (design.said). `auto`: (subject, trait) of the sure proposals that are labels though nobody read them. `gone`:
    TOMBSTONES.
    """
    design, assignments, judged = drawing.with_erased(design, assignments, judged, gone)
    said = judged.filter(kind=kind).select("subject", "trait", "verdict").rows_by_key("subject")
    verdicts: dict[str, dict[str, str | None]] = {subject: dict(rows) for subject, rows in said.items()}
    strata = drawing.strata(design, current, assignments, kind)
    of_any = drawing.states_of_any(verdicts, slugs)
    of_all = drawing.audit(strata, of_any, verdicts, {subject for subject, _ in auto})
    apart = certificates.apart(of_all)
    measured = controls.certifies(apart, blind)
    pooled = replace(certificates.bound(of_all), measured=measured, of_any=True)
    found = {}
    for slug in slugs:
        sure = {subject for subject, trait in auto if trait == slug}
        audit = drawing.audit(strata, drawing.states(verdicts, slug), verdicts, sure)
        found[slug] = replace(certificates.bound(audit), measured=measured)
    open_ = {subject for subject in strata.read if of_any.get(subject) is None}
    given = set(assignments.filter(kind=kind, role="reviewer")["subject"])
    return LabelBounds(
        found,
        pooled,
        together(found),
        _on_gold(verdicts, gold, slugs),
        blind=blind,
        apart=apart,
        unassigned=len(open_ - given),
        claimed=len(strata.read) - len(strata.undrawn),
        undrawn=len(strata.undrawn),
        zone=len(strata.zone),
        gone=len(strata.gone),
    )


def item_bounds(
    design: pl.DataFrame,
    current: Collection[str],
    assignments: pl.DataFrame,
    flags: pl.DataFrame,
    labels: pl.DataFrame,
    reviews: pl.DataFrame,
    slugs: tuple[str, ...],
) -> LabelBounds | None:
    """The bounds on unsafe-item flags: relative to what the readers of a plot, and the adjudicator, would flag.

    `current` are the items that are to be read, `flags` as aggregation.plots gives them, `labels` and `reviews` all
    that there ever were. None where there is nothing to read.
    """
    if not current:
        return None
    said = drawing.said(flags, labels.filter(kind="item_flag"), reviews.filter(kind="item_flag"), current)
    return bounds(design, current, assignments, said, GOLD.empty, slugs, kind="item_flag")


def together(traits: Mapping[str, Bound]) -> list[str]:
    """The traits whose bounds are within the limit, and hold at once, by Holm over these."""
    holds = certificates.holm([bound.log_e for bound in traits.values()])
    return [slug for (slug, bound), ok in zip(traits.items(), holds, strict=True) if ok and bound.within]


def _on_gold(
    verdicts: drawing.Verdicts, gold: pl.DataFrame, slugs: tuple[str, ...]
) -> dict[str, float | int | str | None]:
    """In how many gold conversations the labels miss a trait that gold holds, or invent one, and the rates that are not
    exceeded. A conversation is one unit, however many traits it has: misses in one text come together, and a bound over
    single traits would take them for independent."""
    missed = invented = yes = no = 0
    for subject, traits in gold.select("subject", "traits").iter_rows():
        labelled = {slug: verdict for slug in slugs if (verdict := verdicts.get(subject, {}).get(slug)) is not None}
        there = [verdict for slug, verdict in labelled.items() if slug in traits]
        elsewhere = [verdict for slug, verdict in labelled.items() if slug not in traits]
        yes, missed = yes + bool(there), missed + any(verdict != "present" for verdict in there)
        no, invented = no + bool(elsewhere), invented + ("present" in elsewhere)
    return {
        "unit": "conversation",
        "units_present": yes,
        "missed": missed,
        "missed_at_most": certificates.rate(missed, yes),
        "units_absent": no,
        "invented": invented,
        "invented_at_most": certificates.rate(invented, no),
    }


def words(bound: Bound, subjects: str = "conversations") -> str:
    """`<= 4.2 %` where it is known; else why not and what is needed. subjects: what the audit draws."""
    need, waiting = f"{bound.more:,} more audits" if bound.more else "", bound.open + bound.holes
    if bound.more is None and waiting:
        need = f"{waiting:,} proposed or drawn {_waits(bound)}"
    elif bound.more is None and bound.audited < bound.zone:
        need = "read everything"
    if bound.zone and not (bound.labels or bound.misses):
        # `under 4 positives` says less: that there are so few is the finding
        return f"none found, in {bound.most:,} {subjects} at most" + (f" ({need})" if waiting else "")
    if bound.share is None:
        return f"n/a ({'; '.join(part for part in (bound.why, need) if part)})"
    most = certificates.at_most(bound.share)
    # what waits may turn out either way: labels for it promise nothing
    goal = "" if bound.more is None and waiting else f" for {100 * certificates.ALPHA:.0f} %"
    if bound.within:
        return f"{most} ({'certified' if bound.measured else 'relative to these reviewers'})"
    return f"{most} ({need}{goal})"


def _waits(bound: Bound) -> str:
    """Why it counts as missed. Of any trait fewer do than of one: a conversation where another is found is found."""
    return "may hold one, as none is found and not all is sure yet" if bound.of_any else "have no sure label of it yet"


def of_items(items: LabelBounds | None) -> dict[str, str]:
    """What the flags of items miss, in words: of each trait that was flagged, and of any."""
    flagged = {slug: bound for slug, bound in items.traits.items() if bound.labels or bound.misses} if items else {}
    pooled = {ANY_FLAG: items.pooled} if items else {}
    named = {f"{slug} (items)": bound for slug, bound in flagged.items()} | pooled
    return {name: words(bound, "items") for name, bound in named.items()}


def lowers_most(bounds: LabelBounds) -> str | None:
    """The one thing to do next: labels for what was chosen or drawn, then audits for the closest trait."""
    if bounds.undrawn:
        why = "were mined since the last push that draws audits, or before the first"
        then = "`review push`, with `audit` above 0 in [review]"
        return f"{bounds.undrawn:,} conversations {why}: what is not known of them counts as missed: {then}"
    if waiting := bounds.pooled.open + bounds.pooled.holes:
        why = f"{waiting:,} conversations proposed or drawn {_waits(bounds.pooled)}"
        why += ": each counts as missed until people agree"
        return f"{why}; {bounds.unassigned:,} of them wait to be assigned: `review push`" if bounds.unassigned else why
    open_ = {slug: b.more for slug, b in bounds.traits.items() if not b.within and b.more}
    if not open_:
        return None
    slug = min(open_, key=lambda name: open_[name] or 0)
    return f"{open_[slug]:,} more audits certify {slug}"


def band(proposals: pl.DataFrame, undrawn: Collection[str], found: int) -> int:
    """How many conversations to read by score (routing.by_doubt), those that were read among them, before any is drawn;
    0: none. `undrawn` have no place in the design, `found` of the others hold something.

    Once a draw speaks for them a band saves nothing: what it finds is a part of what the draw has counted.
    """
    ours, waiting = proposals.filter(kind="sensitivity"), set(undrawn)
    ranked = routing.by_doubt(ours, set(claims(ours).select("kind", "subject").iter_rows()))
    unread = [(n, doubt) for n, ((_, subject), doubt) in enumerate(ranked, 1) if subject in waiting]
    chances = [doubt for _, doubt in unread]
    every = [*chances, *[0.0] * (len(waiting) - len(chances))]
    more = certificates.plan(found, every) if chances else 0
    return unread[min(more, len(unread)) - 1][0] if more else 0

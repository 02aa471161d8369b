"""Upper bounds on what the labels miss: certificates over the blind audit, per trait and for subjects as a whole.

reads  the sampling design, current labels, reviews of subjects that have left the data, gold
gives  trait -> bound

A subject that was read counts by its label, whatever it was assigned for. Without a label, or with an unsure one, it
counts as if something had been missed in it: unknown is not safe, and nobody can improve a bound by leaving hard ones
open. The same holds for subjects without a place in the design.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import polars as pl

from annotation import confidence_bounds, controls, routing, sampling_design
from annotation.confidence_bounds import Audit, Bound, FalseShare
from annotation.controls import NOBODY, Blind
from annotation.task_assignment import claims
from saferec_builder.core.counts import many
from saferec_builder.storage.tables import TOMBSTONES

POOLED = "any sensitivity"
ANY_FLAG = "any flag of items"


@dataclass(frozen=True)
class LabelBounds:
    """How much the labels miss at most. `together`: the traits whose certificates hold at once (Holm). `gold`: gold
    conversations with an error, separate from the audit.

    `false`: the share of wrong labels among those `present`, by rechecks; `false_pooled` is over all traits.
    """

    traits: dict[str, Bound]
    pooled: Bound
    together: list[str]
    gold: dict[str, float | int | str | None]
    false: dict[str, FalseShare] = field(default_factory=dict)
    false_pooled: FalseShare | None = None
    unassigned: int = 0  # open conversations that are assigned to nobody
    unsure: int = 0  # conversations to read, or drawn, that people have settled as unsure: they stay open
    unread: int = 0  # conversations drawn after the last one with a sure label, without those that are settled
    blind: Blind = NOBODY  # how these reviewers answered on known, unsuggested sensitivities
    apart: float | None = None  # the share of `pooled`, at a level at which it holds together with `blind`
    claimed: int = 0  # each of them is read
    undrawn: int = 0  # conversations without a place in the sampling design: unknown ones count as open
    zone: int = 0  # what an audit represents, with those that have left the data since
    gone: int = 0
    items: "LabelBounds | None" = None  # the same for unsafe-item flags, by readers of plots; None: none read


def bounds(
    design: pl.DataFrame,
    current: Collection[str],
    assignments: pl.DataFrame,
    judged: pl.DataFrame,
    gold: pl.DataFrame,
    slugs: tuple[str, ...],
    *,
    auto: frozenset[tuple[str, str]] = frozenset(),
    ever_auto: Collection[str] = (),
    kind: str = "sensitivity",
    blind: Blind = NOBODY,
    gone: pl.DataFrame = TOMBSTONES.empty,
) -> LabelBounds:
    """Every trait's bound on FN / (FN + TP) of the labels, and the bound for subjects with any trait.

    `current` are the subjects in the data. `judged` holds the labels of these, and the last verdicts on others
    (sampling_design.ever_judged). `auto`: (subject, trait) of the sure proposals that are labels though nobody read
    them; `ever_auto`: subjects that ever had such a label. `gone`: TOMBSTONES.
    """
    design, assignments, judged = sampling_design.with_erased(design, assignments, judged, gone)
    labels = judged.filter(kind=kind).select("subject", "trait", "verdict").rows_by_key("subject")
    verdicts: dict[str, dict[str, str | None]] = {subject: dict(rows) for subject, rows in labels.items()}
    on_gold = _on_gold(verdicts, gold, slugs)
    strata = sampling_design.strata(design, current, assignments, kind, ever_auto)
    to_read = set(strata.read)
    for subject, trait in auto:
        if subject in to_read:
            verdicts.setdefault(subject, {})[trait] = None  # nobody has found it until it is read
    of_any = sampling_design.states_of_any(verdicts, slugs)
    of_all = sampling_design.audit(strata, of_any, verdicts, {subject for subject, _ in auto})
    audits = {}
    for slug in slugs:
        sure = {subject for subject, trait in auto if trait == slug}
        audits[slug] = sampling_design.audit(strata, sampling_design.states(verdicts, slug), verdicts, sure)
    open_subjects = {subject for subject in strata.read if of_any.get(subject) is None}
    drawn = sampling_design.subjects_drawn(strata, verdicts)
    counted, later = drawn[: len(of_all.outcomes)], drawn[len(of_all.outcomes) :]
    open_of_zone = [subject for subject in counted if of_any.get(subject) is None]
    unread = [s for s in later if of_any.get(s) is None and not _is_settled(verdicts.get(s, {}), slugs)]
    assigned = set(assignments.filter(kind=kind, role="reviewer")["subject"])
    return replace(
        from_audits(audits, of_all, blind),
        gold=on_gold,
        unassigned=len(open_subjects - assigned),
        unsure=sum(_is_settled(verdicts.get(s, {}), slugs) for s in (*open_subjects, *open_of_zone)),
        unread=len(unread),
        claimed=len(strata.read) - len(strata.undrawn),
        undrawn=len(strata.undrawn),
        zone=len(strata.zone),
        gone=len(strata.gone),
    )


def from_audits(audits: Mapping[str, Audit], of_all: Audit, blind: Blind) -> LabelBounds:
    """The bounds of each trait and of any; the other fields are empty."""
    # the other half of DELTA is for what the readers themselves miss
    apart = confidence_bounds.bound(of_all, confidence_bounds.DELTA / 2).share
    measured = controls.certifies(apart, blind)
    traits = {slug: replace(confidence_bounds.bound(audit), measured=measured) for slug, audit in audits.items()}
    pooled = replace(confidence_bounds.bound(of_all), measured=measured, of_any=True)
    return LabelBounds(traits, pooled, together(traits), {}, blind=blind, apart=apart)


def _is_settled(row: Mapping[str, str | None], slugs: Collection[str]) -> bool:
    """Whether each trait has a verdict."""
    return all(row.get(slug) is not None for slug in slugs)


def together(traits: Mapping[str, Bound]) -> list[str]:
    """The traits whose bounds are within the limit and hold at once, by Holm's method over these."""
    holds = confidence_bounds.holm([bound.log_e for bound in traits.values()])
    return [slug for (slug, bound), ok in zip(traits.items(), holds, strict=True) if ok and bound.within]


def _on_gold(
    verdicts: sampling_design.Verdicts, gold: pl.DataFrame, slugs: tuple[str, ...]
) -> dict[str, float | int | str | None]:
    """In how many gold conversations the labels miss a trait of their gold, or invent one, and upper bounds on these
    rates. A conversation is one unit, however many traits it has: misses in one text are not independent."""
    missed = invented = yes = no = 0
    for subject, traits in gold.select("subject", "traits").iter_rows():
        labelled = {slug: verdict for slug in slugs if (verdict := verdicts.get(subject, {}).get(slug)) is not None}
        on_gold = [verdict for slug, verdict in labelled.items() if slug in traits]
        off_gold = [verdict for slug, verdict in labelled.items() if slug not in traits]
        yes, missed = yes + bool(on_gold), missed + any(verdict != "present" for verdict in on_gold)
        no, invented = no + bool(off_gold), invented + ("present" in off_gold)
    return {
        "unit": "conversation",
        "units_present": yes,
        "missed": missed,
        "missed_at_most": confidence_bounds.rate(missed, yes),
        "units_absent": no,
        "invented": invented,
        "invented_at_most": confidence_bounds.rate(invented, no),
    }


def words(bound: Bound, subjects: str = "conversations") -> str:
    """`<= 4.2 %` where it is known; else why not and what is needed. subjects: what the audit draws."""
    need, waiting = many(bound.more, "more audit", "more audits") if bound.more else "", bound.open + bound.holes
    if bound.more is None and waiting:
        need = f"{waiting:,} proposed or drawn {_waits(bound, waiting)}"
    elif bound.more is None and bound.audited < bound.zone:
        need = "read everything"
    if bound.zone and not (bound.labels or bound.misses):
        # `under 4 positives` says less: that there are so few is the finding
        return f"none found, in {bound.most:,} {subjects} at most" + (f" ({need})" if waiting else "")
    if bound.share is None:
        return f"n/a ({'; '.join(part for part in (bound.why, need) if part)})"
    most = confidence_bounds.at_most(bound.share)
    # what waits may turn out either way: labels for it promise nothing
    goal = "" if bound.more is None and waiting else f" for {100 * confidence_bounds.ALPHA:.0f} %"
    if bound.within:
        return f"{most} ({'certified' if bound.measured else 'relative to these reviewers'})"
    return f"{most} ({need}{goal})"


def _waits(bound: Bound, waiting: int) -> str:
    """Why these count as missed. For any trait fewer do than for one: another trait may be found there."""
    if bound.of_any:
        return "may hold one: none is found there, not all is sure yet"
    return f"{'has' if waiting == 1 else 'have'} no sure label of it yet"


def of_items(items: LabelBounds | None) -> dict[str, str]:
    """The bounds on flags of items, in words: for each trait that was flagged, and for any."""
    flagged = {slug: bound for slug, bound in items.traits.items() if bound.labels or bound.misses} if items else {}
    pooled = {ANY_FLAG: items.pooled} if items else {}
    by_name = {f"{slug} (items)": bound for slug, bound in flagged.items()} | pooled
    return {name: words(bound, "items") for name, bound in by_name.items()}


def lowers_most(bounds: LabelBounds) -> str | None:
    """The next thing to do: labels for what was chosen or drawn, then audits for the closest trait; and what is settled
    as unsure, as the bounds count it beside what waits."""
    if bounds.undrawn:
        mined = many(bounds.undrawn, "conversation was mined", "conversations were mined")
        what = f"{mined} since the last push that draws audits, or before the first"
        remedy = "`review push`, with `audit` above 0 in [review]"
        return f"{what}: what is not known of them counts as missed: {remedy}"
    steps = []
    if waiting := max(bounds.pooled.open + bounds.pooled.holes - bounds.unsure, 0):
        text = many(waiting, "conversation", "conversations")
        text += ", proposed or drawn, may hold something that nobody is sure of yet"
        unassigned = many(bounds.unassigned, "of them waits", "of them wait")
        waits = f"; {unassigned} to be assigned: `review push`" if bounds.unassigned else ""
        steps.append(f"{text}: each counts as missed until people agree{waits}")
    if bounds.unread:
        drawn = many(bounds.unread, "conversation was drawn and is", "conversations were drawn and are")
        steps.append(f"{drawn} not read yet: no bound counts them until they are")
    if bounds.unsure:
        one, more = "conversation is settled as unsure and counts", "conversations are settled as unsure and count"
        unsure = f"{many(bounds.unsure, one, more)} as missed, whatever else is read"
        steps.append(f"{unsure}: `browse labels --verdict unsure` shows what is doubtful")
    needed = {slug: b.more for slug, b in bounds.traits.items() if not b.within and b.more}
    if needed and not (waiting or bounds.unread):
        slug = min(needed, key=lambda name: needed[name] or 0)
        audits = many(needed[slug] or 0, "more audit lowers", "more audits lower")
        limit = f"the bound of {slug} to {100 * confidence_bounds.ALPHA:.0f} %"
        steps.append(f"{audits} {limit}: raise `audit` in [review] or take `--all`, and `review push`")
    return "; ".join(steps) or None


def band(proposals: pl.DataFrame, undrawn: Collection[str], found: int) -> int:
    """How many conversations to read by score (routing.by_doubt), including those read already, before any is drawn; 0:
    none. `undrawn` have no place in the design, `found` of the others hold something.

    Once a draw represents them, a band saves nothing: the draw has already counted what it would find.
    """
    sensitivities, waiting = proposals.filter(kind="sensitivity"), set(undrawn)
    ranked = routing.by_doubt(sensitivities, set(claims(sensitivities).select("kind", "subject").iter_rows()))
    unread = [(n, doubt) for n, ((_, subject), doubt) in enumerate(ranked, 1) if subject in waiting]
    chances = [doubt for _, doubt in unread]
    all_chances = [*chances, *[0.0] * (len(waiting) - len(chances))]
    count = confidence_bounds.plan(found, all_chances) if chances else 0
    return unread[min(count, len(unread)) - 1][0] if count else 0

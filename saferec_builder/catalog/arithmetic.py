"""The arithmetic of a verdict on one item and trait, as a person would do it: a line per number."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from saferec_builder.catalog import verdicts as judging
from saferec_builder.core import oracle as violations, vote_model
from saferec_builder.core.oracle import Rule
from saferec_builder.core.taxonomy import GUIDE, Trait
from saferec_builder.core.vote_model import Voters
from saferec_builder.sources import class_rules

SEVERITIES = ("none", "mild", "moderate", "severe")


@dataclass(frozen=True)
class Step:
    """One line of the arithmetic.

    decides  the verdict rests on this line; on no line if it is unknown
    said     a line per statement in it: the answer, the source, the source's ref of the item, and the date
    """

    text: str
    decides: bool = False
    said: tuple[str, ...] = ()


def speaks_for(trait: Trait) -> pl.Expr:
    """The statements that the verdict on this trait rests on."""
    guide = [category for category, weight in zip(GUIDE, trait.guide, strict=True) if weight > 0]
    keys_by_kind = {"topic": judging.keys(trait.topics), "guide": guide, "review": [trait.slug]}
    keys_by_kind |= {str(kind): list(words) for kind, words in judging.class_keys(trait.core).iter_rows()}
    conditions = [(pl.col("kind") == kind) & pl.col("key").is_in(keys) for kind, keys in keys_by_kind.items()]
    # for a rated game every descriptor counts: it is clear because, say, blood is not among them
    return pl.any_horizontal(*conditions, (pl.col("kind") == "esrb") & bool(trait.esrb))


@dataclass(frozen=True)
class Judged:
    """The statements on one item, and the verdict on a trait that they lead to."""

    statements: pl.DataFrame
    trait: Trait
    rule: Rule
    voters: Mapping[str, Voters]
    word: str
    risk: float | None

    def step(self, text: str, rows: pl.DataFrame, *words: str) -> Step:
        """A line for these statements, which decides the verdict if that is one of `words`."""
        several = rows["key"].n_unique() > 1
        return Step(text + _clash(rows), self.word in words, tuple(statement(row, several) for row in rows.to_dicts()))

    def strong(self, risk: float) -> tuple[str, ...]:
        """The verdicts that a source which applies strongly to the trait leads to."""
        low = self.risk is not None and self.risk < self.rule.clear_below
        return ("violated",) * bool(risk >= self.rule.violated_at) + ("clear",) * low


def statement(row: Mapping[str, Any], name: bool = False) -> str:
    """A statement (columns: SHOWN) as a line of text, with or without the `name` of its question."""
    has_votes = row["yes"] is not None or row["no"] is not None
    votes = f"{row['yes'] or 0} yes, {row['no'] or 0} no" if has_votes else None
    severity = None if row["severity"] is None else SEVERITIES[row["severity"]]
    inexact = None if row["exact"] else "names it, but not exactly: clears nothing"
    quote, place = row["words"] and f"“{row['words']}”", row["url"] or row["place"]
    parts = [quote, votes, row["answer"], severity, row["source"], place, row["retrieved"], f"of {row['ref']}", inexact]
    question = f"{row['kind']} {row['topic']}" if row["kind"] in class_rules.CLASSES else row["topic"]
    return (f"{question}: " if name else "") + " · ".join(part for part in parts if part)


def _clash(rows: pl.DataFrame) -> str:
    """The text to add to a line if statements of one source contradict each other; else an empty one."""
    notes = []
    for (source, _), group in rows.group_by("source", "key", maintain_order=True):
        yes, no = group["yes"].fill_null(0), group["no"].fill_null(0)
        answers = {
            *group["answer"].drop_nulls(),
            *(["yes"] if (yes > no).any() else []),
            *(["no"] if (yes < no).any() else []),
        }
        if len(answers) > 1 or group["severity"].drop_nulls().n_unique() > 1:
            notes.append(f"; {source} contradicts itself: votes of pages add up, the worse answer and severity counts")
    return "".join(dict.fromkeys(notes))


def steps(judged: Judged) -> tuple[Step, ...]:
    """One line per number that the risk and the verdict rest on; if it is unknown, also the missing answers."""
    return (*_votes(judged), *_classes(judged), *_guide(judged), *_descriptors(judged), *_people(judged))


def _votes(judged: Judged) -> list[Step]:
    statements, trait, rule, voters = judged.statements, judged.trait, judged.rule, judged.voters
    topics, p, _ = judging.topic_truth(statements, [trait], rule, 1, voters)
    exact = judging.topic_truth(statements.filter("exact"), [trait], rule, 1, voters)[1]
    core = [topics.index(topic) for topic in trait.core]
    clears = bool(core) and bool(p[0, core].sum() <= rule.clear_upto)
    lines = []
    for n, (topic, key) in enumerate(zip(topics, judging.keys(topics), strict=True)):
        rows = statements.filter(kind="topic", key=key)
        if rows.is_empty():
            if judged.word == "unknown" and topic in trait.core:
                lines.append(Step(f"{topic} [core]: no answer; without one votes cannot clear this item"))
            continue
        yes, no, several = _worst_count(judging.counts(rows), voters.get(key))
        answers = ", ".join(rows["answer"].drop_nulls().unique().sort())
        parts = [f"{answers} (stated)"] if answers else []
        if yes + no:
            v = voters[key]  # the share of these voters who say yes where it is true / where it is not
            basis = f"{v.works:,} works" if v.learnt else "a prior"
            parts.append(f"{yes} yes of {yes + no}{several} (voters {v.hit:.2f} / {v.slip:.2f}, {basis})")
        text = f"{topic}{' [core]' if n in core else ''}: {'; '.join(parts)}{_outcome(p[0, n], rule)}"
        true = bool(max(p[0, n], exact[0, n]) >= rule.violated_from)  # inexact statements outvote nothing
        lines.append(judged.step(text, rows, *["violated"] * true, *["clear"] * (clears and n in core)))
    return lines


def _worst_count(counts: pl.DataFrame, voters: Voters | None) -> tuple[int, int, str]:
    """(yes, no, a note if there are others) of the count by which the topic is most likely true."""
    counted = [
        (float(vote_model.posterior(voters, [yes], [no])[0]) if voters else np.nan, yes, no)
        for yes, no in counts.select("yes", "no").iter_rows()
    ]
    _, yes, no = max(counted, key=lambda c: (np.nan_to_num(c[0], nan=-1), c[1], -c[2]), default=(0.0, 0, 0))
    return yes, no, f", the worst of {len(counted)} counts that may be of the same people" if len(counted) > 1 else ""


def _outcome(p: float, rule: Rule) -> str:
    if np.isnan(p):
        return ": open, for these voters hardly tell"
    word = "true" if p >= rule.violated_from else "not true" if p <= rule.clear_upto else "open"
    leans = ", and nothing clears while it leans to yes" if word == "open" and p > 0.5 else ""
    return f": P(true) = {p:.3f}, {word}{leans}"


def _classes(judged: Judged) -> list[Step]:
    statements, trait, rule = judged.statements, judged.trait, judged.rule
    lines, same = [], ("kind", "key", "asked")
    stated = judging.class_statements(statements, trait.core).with_columns(pl.col("exact").any().over(same))
    for row in stated.unique(same, maintain_order=True).to_dicts():
        precision = f"right of {row['right']} of {row['read']} works read" if row["read"] else "not read"
        effect = "only keeps it from being clear"
        if row["precision"] >= rule.class_from:
            outvoted = _not_true(statements, trait, row["asked"], rule, judged.voters)
            if row["exact"]:  # statements that may be about another work outvote nothing
                outvoted &= _not_true(statements.filter("exact"), trait, row["asked"], rule, judged.voters)
            effect = "would violate, but votes say that it is not true" if outvoted else "violates"
        text = f"{row['asked']} [core]: {row['kind']} {row['topic']!r} ({row['source']}), {precision}: {effect}"
        rows = statements.filter(kind=row["kind"], key=row["key"])
        lines.append(judged.step(text, rows, *["violated"] * (effect == "violates")))
    return lines


def _not_true(statements: pl.DataFrame, trait: Trait, topic: str, rule: Rule, voters: Mapping[str, Voters]) -> bool:
    """Whether these statements answer a topic of the trait with a no that outweighs a class of statements."""
    topics, p, _ = judging.topic_truth(statements, [trait], rule, 1, voters)
    return bool(p[0, topics.index(topic)] <= rule.clear_upto)


def _guide(judged: Judged) -> list[Step]:
    trait, severities = judged.trait, judging.severity(judged.statements, 1)[0]
    weighed = [(GUIDE[n], w, severities[n]) for n, w in enumerate(trait.guide) if w > 0]
    if not weighed or all(np.isnan(s) for _, _, s in weighed):
        return []
    rows = judged.statements.filter(pl.col("key").is_in([category for category, *_ in weighed]), kind="guide")
    missing = [category for category, _, s in weighed if np.isnan(s)]
    if missing:
        return [judged.step(f"guide: {', '.join(missing)} not rated, so it says nothing", rows)]
    total = " + ".join(f"{w:g}" for _, w, _ in weighed)
    terms = " + ".join(f"{w:g} x {s:g} ({category})" for category, w, s in weighed)
    risk = float(violations.pg_risk(trait, severities[None])[0])
    effect = judged.strong(risk) if trait.guide_applies == "strong" else ()
    return [judged.step(f"guide ({trait.guide_applies}): ({terms}) / (3 x ({total})) = {risk:.3f}", rows, *effect)]


def _descriptors(judged: Judged) -> list[Step]:
    trait, rows = judged.trait, judged.statements.filter(kind="esrb")
    descriptors = rows["key"].unique().sort().to_list()
    if not descriptors or not trait.esrb:
        return []
    listed = [f"{key} = {trait.esrb[key]:g}" for key in descriptors if key in trait.esrb]
    strength = judging.esrb(judged.statements, trait, 1)[0]
    default = "no descriptor of this trait"
    default += " = 0" if np.isfinite(strength) else ", which says nothing of a game rated M, AO or RP, or not at all"
    effect = judged.strong(strength) if trait.esrb_applies == "strong" and np.isfinite(strength) else ()
    text = f"ESRB ({trait.esrb_applies}): {', '.join(listed) or default}"
    return [judged.step(text, rows, *effect)]


def _people(judged: Judged) -> list[Step]:
    answer = int(judging.reviewed(judged.statements, judged.trait, 1)[0])
    if not answer:
        return []
    rows = judged.statements.filter(kind="review", key=judged.trait.slug)
    return [judged.step(f"reviewers: {'yes' if answer > 0 else 'no'}", rows, "violated" if answer > 0 else "clear")]

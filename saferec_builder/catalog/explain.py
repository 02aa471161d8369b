"""What the catalog knows of one item, for a person who asks: its verdict, its sources, and the arithmetic of each risk.

reads  items, links, warnings
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, cast

import numpy as np
import polars as pl

from saferec_builder.catalog import known_works, verdicts as judging
from saferec_builder.catalog.linking import index
from saferec_builder.catalog.merging import ItemRow
from saferec_builder.core import oracle as violations, titles
from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.oracle import Rule
from saferec_builder.core.taxonomy import GUIDE, Taxonomy, Trait
from saferec_builder.core.vote_model import Voters
from saferec_builder.sources import class_rules, refs
from saferec_builder.storage import tables

_ANSWER = ("kind", "topic", "yes", "no", "answer", "severity")
SHOWN = (*_ANSWER, "source", "ref", "url", "retrieved", "words", "place", "exact")
SEVERITIES = ("none", "mild", "moderate", "severe")
_EVIDENCE = pl.Schema([(c, pl.Boolean() if c == "exact" else tables.WARNINGS.schema[c]) for c in SHOWN])
_IMDB = re.compile(r"(?:imdb:)?(tt0*[1-9]\d{0,8})")  # as people write it, with or without the zeros


@dataclass(frozen=True)
class Step:
    """One line of the arithmetic.

    decides  the verdict rests on this line; of an unknown one none does
    said     a line for each statement in it: how it was answered, by whom, what that source calls the item, and when
    """

    text: str
    decides: bool = False
    said: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The answer for one "Title (Year)" and one trait.

    word        violated | clear | unknown
    risk        0..1; None: no source says anything
    evidence    every statement that the word rests on, with its source (columns: SHOWN)
    others      those of them that are on another work that may be meant, and in no step
    steps       the arithmetic, a line per number; of an unknown verdict also which answers are not there
    item, title of the one item that is meant; None where the catalog holds none, or several
    match       found | ambiguous | not_found
    exact       False where the item may be another work, which is then never clear
    candidates  (item, title, domain, ref) where several items share the title; of a title that is not there, like ones
    """

    word: str = violations.VERDICTS[violations.UNKNOWN]
    risk: float | None = None
    evidence: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=_EVIDENCE))
    others: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=_EVIDENCE))
    steps: tuple[Step, ...] = ()
    trait: str
    item: str | None = None
    title: str | None = None
    match: str
    exact: bool
    candidates: pl.DataFrame

    def as_json(self) -> dict[str, JsonValue]:
        """As `catalog check --json` prints it."""
        return {
            "item": self.item,
            "title": self.title,
            "match": self.match,
            "exact": self.exact,
            "candidates": self.candidates.to_dicts(),
            "trait": self.trait,
            "risk": self.risk,
            "verdict": self.word,
            "sources": self.evidence.to_dicts(),
            **_as_json("why", self.steps),
        }


def judged(
    title: str,
    domain: str | None,
    trait: Trait,
    items: pl.DataFrame,
    links: pl.DataFrame,
    warnings: pl.DataFrame,
    *,
    rule: Rule = Rule(),
) -> Verdict:
    """The verdict on one "Title (Year)", or id; a title that `items` does not hold, or holds twice, is unknown.

    Without a year it is what the likeliest work is (core/undated.py); any other that is likely meant may violate.
    """
    by_title = index(items)
    every = judging.statements(items, links, warnings, by_title)
    name_, year = titles.split_year(title)
    by_title.works = known_works.works(items, known_works.known(items, links, every)) if year is None else {}
    match = _by_id(title, items, links) or titles.find(by_title, name_, year, domain)
    near = candidates(match.candidates or (() if match.item else alike(title, items)), items)
    found = Verdict(trait=trait.slug, match=match.match, exact=match.exact, candidates=near)
    meant = match.candidates or ((match.item,) if match.item else ())
    if not meant:
        return found
    said = every.filter(pl.col("item").is_in(meant))
    said = said.with_columns(row=pl.col("item").cast(pl.Enum(meant)).to_physical())
    known = judging.voters(every, trait.topics)
    risk, codes = judging.judge(said, [trait], rule, len(meant), known)
    verdict = violations.as_named(violations.worst(codes.T), np.array([not match.exact]))[0]
    if match.item is None:  # nothing is said of one work
        return replace(found, word=violations.VERDICTS[verdict])
    its, number = said.filter(pl.col("item") == match.item), _number(risk[meant.index(match.item), 0])
    others = said.filter(pl.col("item") != match.item)
    return replace(
        found,
        item=match.item,
        title=titles.shown(items.filter(pl.col("item") == match.item).row(0, named=True)),
        word=violations.VERDICTS[verdict],
        risk=number,
        evidence=said.filter(speaks_for(trait)).select(SHOWN),
        others=others.filter(speaks_for(trait)).select(SHOWN),
        steps=_steps(_Judged(its, trait, rule, known, violations.VERDICTS[verdict], number)),
    )


def _as_json(name: str, steps: Sequence[Step]) -> dict[str, JsonValue]:
    return {name: [step.text for step in steps], "decides": [step.text for step in steps if step.decides]}


def alike(title: str, items: pl.DataFrame) -> list[str]:
    """Up to three items whose "Title (Year)" is spelt nearly like this, the likest first."""
    known = {titles.shown(row).casefold(): row["item"] for row in items.select("item", "title", "year").to_dicts()}
    return [known[near] for near in get_close_matches(title.casefold(), list(known), 3, 0.8)]


def candidates(wanted: Sequence[str], items: pl.DataFrame) -> pl.DataFrame:
    """(item, title, domain, ref) of these items, each once and in their order; the title with its year.

    ref: what `resolved` takes for this item alone, its IMDb id or else its item id.
    """
    rows = {row["item"]: row for row in items.filter(pl.col("item").is_in(list(wanted))).to_dicts()}
    named = [(item, titles.shown(rows[item]), rows[item]["domain"], _ref(rows[item])) for item in dict.fromkeys(wanted)]
    return pl.DataFrame(named, schema=dict.fromkeys(("item", "title", "domain", "ref"), pl.String), orient="row")


def _ref(item: Mapping[str, Any]) -> str:
    return next((ref for ref in item["refs"] or () if ref.startswith("imdb:")), str(item["item"]))


def _number(risk: float) -> float | None:
    return None if np.isnan(risk) else float(risk)


def speaks_for(trait: Trait) -> pl.Expr:
    """The statements that the verdict on this trait rests on."""
    guide = [category for category, weight in zip(GUIDE, trait.guide, strict=True) if weight > 0]
    rests = {"topic": judging.keys(trait.topics), "guide": guide, "review": [trait.slug]}
    rests |= {str(kind): list(words) for kind, words in judging.class_keys(trait.core).iter_rows()}
    spoken = [(pl.col("kind") == kind) & pl.col("key").is_in(keys) for kind, keys in rests.items()]
    # of a rated game every descriptor counts: that blood is not among them is what clears it
    return pl.any_horizontal(*spoken, (pl.col("kind") == "esrb") & bool(trait.esrb))


# ---- the arithmetic


@dataclass(frozen=True)
class TraitRisk:
    """What the oracle says of one trait, and the arithmetic: one line per number that it rests on."""

    trait: str
    risk: float | None
    verdict: str
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Explained:
    """An item, its statements (columns: SHOWN), and each trait that anything speaks for."""

    item: ItemRow
    warnings: pl.DataFrame
    traits: tuple[TraitRisk, ...]

    def as_json(self) -> dict[str, JsonValue]:
        """As `catalog show --json` prints it."""
        item = cast("dict[str, JsonValue]", self.item)
        traits: list[JsonValue] = [
            {"trait": t.trait, "risk": t.risk, "verdict": t.verdict, **_as_json("steps", t.steps)} for t in self.traits
        ]
        return {**item, "warnings": self.warnings.to_dicts(), "traits": traits}


def explained(
    item: str,
    items: pl.DataFrame,
    links: pl.DataFrame,
    warnings: pl.DataFrame,
    taxonomy: Taxonomy,
    rule: Rule = Rule(),
    by_title: titles.Index | None = None,
) -> Explained:
    """The item with all that was said of it, and the risk, verdict and steps of its traits. `by_title`: index(items),
    where it is there already."""
    every = judging.statements(items, links, warnings, by_title)
    said, known = (
        every.filter(pl.col("item") == item).with_columns(row=pl.lit(0)),
        judging.voters(every, taxonomy.topics),
    )
    risk, codes = judging.judge(said, taxonomy.traits, rule, 1, known)
    traits = tuple(
        TraitRisk(
            trait.slug,
            _number(risk[0, n]),
            violations.VERDICTS[codes[0, n]],
            _steps(_Judged(said, trait, rule, known, violations.VERDICTS[codes[0, n]], _number(risk[0, n]))),
        )
        for n, trait in enumerate(taxonomy.traits)
        if not said.filter(speaks_for(trait)).is_empty()
    )
    row = cast("ItemRow", items.filter(pl.col("item") == item).row(0, named=True))
    return Explained(row, said.select(SHOWN), traits)


@dataclass(frozen=True)
class _Judged:
    """What is said of one item, and what came of it for a trait."""

    said: pl.DataFrame
    trait: Trait
    rule: Rule
    known: Mapping[str, Voters]
    word: str
    risk: float | None

    def step(self, text: str, rows: pl.DataFrame, *words: str) -> Step:
        """A line on these statements, which by itself makes the verdict one of these words."""
        several = rows["key"].n_unique() > 1
        return Step(text + _torn(rows), self.word in words, tuple(statement(row, several) for row in rows.to_dicts()))

    def strong(self, risk: float) -> tuple[str, ...]:
        """What a source that speaks strongly for the trait makes of the verdict."""
        low = self.risk is not None and self.risk < self.rule.clear_below
        return ("violated",) * bool(risk >= self.rule.violated_at) + ("clear",) * low


def statement(row: Mapping[str, Any], name: bool = False) -> str:
    """A statement (columns: SHOWN) as a line for people, with the `name` of its question or without."""
    voted = row["yes"] is not None or row["no"] is not None
    votes = f"{row['yes'] or 0} yes, {row['no'] or 0} no" if voted else None
    severity = None if row["severity"] is None else SEVERITIES[row["severity"]]
    near = None if row["exact"] else "names it, but not exactly: clears nothing"
    said = f"“{row['words']}”" if row["words"] else None
    stands = (row["source"], row["url"] or row["place"], row["retrieved"], f"of {row['ref']}")
    parts = [said, votes, row["answer"], severity, *stands, near]
    asked = f"{row['kind']} {row['topic']}" if row["kind"] in class_rules.CLASSES else row["topic"]
    return (f"{asked}: " if name else "") + " · ".join(part for part in parts if part)


def _torn(rows: pl.DataFrame) -> str:
    """What is added to a line where statements of one source contradict each other; else nothing."""
    told = []
    for (source, _), each in rows.group_by("source", "key", maintain_order=True):
        yes, no = each["yes"].fill_null(0), each["no"].fill_null(0)
        says = {
            *each["answer"].drop_nulls(),
            *(["yes"] if (yes > no).any() else []),
            *(["no"] if (yes < no).any() else []),
        }
        if len(says) > 1 or each["severity"].drop_nulls().n_unique() > 1:
            told.append(f"; {source} contradicts itself: votes add up, the worse answer and severity counts")
    return "".join(dict.fromkeys(told))


def _steps(judged: _Judged) -> tuple[Step, ...]:
    """One line per number that the risk and the verdict rest on, as a person would work it out; of an unknown verdict
    also which answers are not there."""
    return (*_votes(judged), *_classes(judged), *_guide(judged), *_descriptors(judged), *_people(judged))


def _votes(judged: _Judged) -> list[Step]:
    said, trait, rule, known = judged.said, judged.trait, judged.rule, judged.known
    topics, p, _ = judging.asked(said, [trait], rule, 1, known)
    exact = judging.asked(said.filter("exact"), [trait], rule, 1, known)[1]
    core = [topics.index(topic) for topic in trait.core]
    settles = bool(core) and bool(p[0, core].sum() <= rule.clear_upto)
    lines = []
    for n, (topic, key) in enumerate(zip(topics, judging.keys(topics), strict=True)):
        rows = said.filter((pl.col("kind") == "topic") & (pl.col("key") == key))
        if rows.is_empty():
            if judged.word == "unknown" and topic in trait.core:
                lines.append(Step(f"{topic} [core]: no answer; without one votes cannot clear this item"))
            continue
        yes, no = int(rows["yes"].sum()), int(rows["no"].sum())
        answers = ", ".join(rows["answer"].drop_nulls().unique().sort())
        parts = [f"{answers} (stated)"] if answers else []
        if yes + no:
            parts.append(f"{yes} yes of {yes + no} (voters {_trust(known[key])})")
        text = f"{topic}{' [core]' if n in core else ''}: {'; '.join(parts)}{_settled(p[0, n], rule)}"
        true = bool(max(p[0, n], exact[0, n]) >= rule.violated_from)  # what is not exact outvotes nothing
        lines.append(judged.step(text, rows, *["violated"] * true, *["clear"] * (settles and n in core)))
    return lines


def _trust(voters: Voters) -> str:
    """Of these voters so many say yes where it is true / where it is not."""
    return f"{voters.hit:.2f} / {voters.slip:.2f}, {f'{voters.works:,} works' if voters.learnt else 'a prior'}"


def _settled(p: float, rule: Rule) -> str:
    if np.isnan(p):
        return ": open, for these voters hardly tell"
    word = "true" if p >= rule.violated_from else "not true" if p <= rule.clear_upto else "open"
    leans = ", and nothing clears while it leans to yes" if word == "open" and p > 0.5 else ""
    return f": P(true) = {p:.3f}, {word}{leans}"


def _classes(judged: _Judged) -> list[Step]:
    said, trait, rule = judged.said, judged.trait, judged.rule
    lines, same = [], ("kind", "key", "asked")
    stated = judging.class_statements(said, trait.core).with_columns(pl.col("exact").any().over(same))
    for row in stated.unique(same, maintain_order=True).to_dicts():
        read = f"right of {row['right']} of {row['read']} works read" if row["read"] else "not read"
        does = "only keeps it from being clear"
        if row["precision"] >= rule.class_from:
            outvoted = _not_true(said, trait, row["asked"], rule, judged.known)
            if row["exact"]:  # what may be said of another work outvotes nothing
                outvoted &= _not_true(said.filter("exact"), trait, row["asked"], rule, judged.known)
            does = "would violate, but votes say that it is not true" if outvoted else "violates"
        text = f"{row['asked']} [core]: {row['kind']} {row['topic']!r} ({row['source']}), {read}: {does}"
        rows = said.filter((pl.col("kind") == row["kind"]) & (pl.col("key") == row["key"]))
        lines.append(judged.step(text, rows, *["violated"] * (does == "violates")))
    return lines


def _not_true(said: pl.DataFrame, trait: Trait, topic: str, rule: Rule, known: Mapping[str, Voters]) -> bool:
    """Do these statements answer a topic of the trait with a no that outweighs a class of statements?"""
    topics, p, _ = judging.asked(said, [trait], rule, 1, known)
    return bool(p[0, topics.index(topic)] <= rule.clear_upto)


def _guide(judged: _Judged) -> list[Step]:
    trait, rated = judged.trait, judging.severity(judged.said, 1)[0]
    weighed = [(GUIDE[n], w, rated[n]) for n, w in enumerate(trait.guide) if w > 0]
    if not weighed or all(np.isnan(s) for _, _, s in weighed):
        return []
    rows = judged.said.filter((pl.col("kind") == "guide") & pl.col("key").is_in([category for category, *_ in weighed]))
    missing = [category for category, _, s in weighed if np.isnan(s)]
    if missing:
        return [judged.step(f"guide: {', '.join(missing)} not rated, so it says nothing", rows)]
    total = " + ".join(f"{w:g}" for _, w, _ in weighed)
    top = " + ".join(f"{w:g} x {s:g} ({category})" for category, w, s in weighed)
    risk = float(violations.pg_risk(trait, rated[None])[0])
    does = judged.strong(risk) if trait.guide_applies == "strong" else ()
    return [judged.step(f"guide ({trait.guide_applies}): ({top}) / (3 x ({total})) = {risk:.3f}", rows, *does)]


def _descriptors(judged: _Judged) -> list[Step]:
    trait, rows = judged.trait, judged.said.filter(pl.col("kind") == "esrb")
    rated = rows["key"].unique().sort().to_list()
    if not rated or not trait.esrb:
        return []
    named = [f"{key} = {trait.esrb[key]:g}" for key in rated if key in trait.esrb]
    strength = judging.esrb(judged.said, trait, 1)[0]
    silent = "no descriptor of this trait"
    silent += " = 0" if np.isfinite(strength) else ", which says nothing of a game rated M or AO"
    does = judged.strong(strength) if trait.esrb_applies == "strong" and np.isfinite(strength) else ()
    text = f"ESRB ({trait.esrb_applies}): {', '.join(named) or silent}"
    return [judged.step(text, rows, *does)]


def _people(judged: _Judged) -> list[Step]:
    answer = int(judging.reviewed(judged.said, judged.trait, 1)[0])
    if not answer:
        return []
    rows = judged.said.filter((pl.col("kind") == "review") & (pl.col("key") == judged.trait.slug))
    return [judged.step(f"reviewers: {'yes' if answer > 0 else 'no'}", rows, "violated" if answer > 0 else "clear")]


def resolved(
    asked: str, domain: str | None, items: pl.DataFrame, links: pl.DataFrame, by_title: titles.Index
) -> titles.Match:
    """What a person means by an item id, a ref, a bare IMDb id or "Title (Year)"; `by_title` is index(items)."""
    by_id = _by_id(asked, items, links)
    return by_id or titles.find(by_title, *titles.split_year(asked.removeprefix("title:")), domain)


def _by_id(asked: str, items: pl.DataFrame, links: pl.DataFrame) -> titles.Match | None:
    """The item of an item id, a ref or a bare IMDb id such as tt0078748; None where it is none."""
    if not items.filter(pl.col("item") == asked).is_empty():
        return titles.Match("found", asked)
    imdb = _IMDB.fullmatch(asked.strip().lower())
    known = links.filter(pl.col("ref") == (refs.imdb(imdb[1]) if imdb else asked))
    return None if known.is_empty() else titles.Match("found", known["item"][0])

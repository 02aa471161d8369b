"""What the catalog knows of one item, for a person who asks: its verdict, its sources, and the arithmetic of each risk.

reads  items, links, warnings
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from saferec_builder.catalog import verdicts as judging
from saferec_builder.catalog.linking import index, link
from saferec_builder.core import oracle as violations, titles
from saferec_builder.core.oracle import Rule
from saferec_builder.core.taxonomy import GUIDE, Taxonomy, Trait

SHOWN = ("kind", "topic", "yes", "no", "answer", "severity", "source", "url", "retrieved", "exact")


def judged(
    title: str,
    domain: str | None,
    trait: Trait,
    items: pl.DataFrame,
    links: pl.DataFrame,
    warnings: pl.DataFrame,
    *,
    rule: Rule = Rule(),
) -> dict[str, Any]:
    """item, title, match, exact, candidates, trait, risk (null: no source), verdict and the sources of one
    "Title (Year)"; exact is False where the item may be another work, which is then never clear."""
    match = titles.find(index(items), *titles.split_year(title), domain)
    named = {row["item"]: row for row in items.filter(pl.col("item").is_in([match.item, *match.candidates])).to_dicts()}
    found: dict[str, Any] = {
        "item": match.item,
        "title": name(named[match.item]) if match.item else None,
        "match": match.match,
        "exact": match.exact,
        "candidates": [{"item": i, "title": name(named[i]), "domain": named[i]["domain"]} for i in match.candidates],
        "trait": trait.slug,
        "risk": None,
        "verdict": violations.VERDICTS[violations.UNKNOWN],
        "sources": [],
    }
    if match.item is None:
        return found
    said = judging.statements(items, links, warnings).filter(pl.col("item") == match.item)
    risk, codes = judging.judge(said.with_columns(row=pl.lit(0)), [trait], rule, 1)
    verdict = violations.as_named(codes[0], np.array([not match.exact]))[0]
    return found | {
        "risk": None if np.isnan(risk[0, 0]) else float(risk[0, 0]),
        "verdict": violations.VERDICTS[verdict],
        "sources": said.filter(speaks_for(trait)).select(SHOWN).to_dicts(),
    }


def speaks_for(trait: Trait) -> pl.Expr:
    """The statements that the verdict on this trait rests on."""
    topics = pl.DataFrame({"topic": list(trait.topics)}).select(judging.topic_key())["topic"].to_list()
    guide = [category for category, weight in zip(GUIDE, trait.guide, strict=True) if weight > 0]
    rests = {"topic": topics, "guide": guide, "review": [trait.slug]}
    spoken = [(pl.col("kind") == kind) & pl.col("key").is_in(keys) for kind, keys in rests.items()]
    # of a rated game every descriptor counts: that blood is not among them is what clears it
    return pl.any_horizontal(*spoken, (pl.col("kind") == "esrb") & bool(trait.esrb))


def name(item: Mapping[str, Any]) -> str:
    return f"{item['title']} ({item['year']})" if item["year"] else str(item["title"])


# ---- the arithmetic


def explained(
    item: str, items: pl.DataFrame, links: pl.DataFrame, warnings: pl.DataFrame, taxonomy: Taxonomy, rule: Rule = Rule()
) -> dict[str, Any]:
    """The item with all that was said of it, and per trait that anything speaks for: risk, verdict, steps."""
    said = judging.statements(items, links, warnings).filter(pl.col("item") == item).with_columns(row=pl.lit(0))
    risk, codes = judging.judge(said, taxonomy.traits, rule, 1)
    told = []
    for n, trait in enumerate(taxonomy.traits):
        if not said.filter(speaks_for(trait)).is_empty():
            value = None if np.isnan(risk[0, n]) else float(risk[0, n])
            verdict = violations.VERDICTS[codes[0, n]]
            told.append({"trait": trait.slug, "risk": value, "verdict": verdict, "steps": _steps(said, trait, rule)})
    row = items.filter(pl.col("item") == item).row(0, named=True)
    return {**row, "warnings": said.select(SHOWN).to_dicts(), "traits": told}


def _steps(said: pl.DataFrame, trait: Trait, rule: Rule) -> list[str]:
    """One line per number that the risk and the verdict rest on, as a person would work it out."""
    return [*_votes(said, trait, rule), *_guide(said, trait), *_descriptors(said, trait), *_people(said, trait)]


def _votes(said: pl.DataFrame, trait: Trait, rule: Rule) -> list[str]:
    topics, p = judging.asked(said, [trait], rule, 1)
    keys = pl.DataFrame({"topic": topics}).select(judging.topic_key())["topic"].to_list()
    lines = []
    for topic, key, sure in zip(topics, keys, p[0], strict=True):
        rows = said.filter((pl.col("kind") == "topic") & (pl.col("key") == key))
        if rows.is_empty() or np.isnan(sure):
            continue
        yes, no = int(rows["yes"].sum()), int(rows["no"].sum())
        answers = ", ".join(rows["answer"].drop_nulls().unique().sort())
        parts = [f"{answers} (stated)"] if answers else []
        if yes + no:
            top, all_ = f"{yes} + {rule.prior_yes:g}", f"{yes} + {no} + {rule.prior_yes + rule.prior_no:g}"
            parts.append(f"P(yes) = ({top}) / ({all_}) = {float(violations.p_yes(yes, no, rule)):.3f}")
        lines.append(f"{topic}{' [core]' if topic in trait.core else ''}: {'; '.join(parts)}{_settled(sure, rule)}")
    return lines


def _settled(p: float, rule: Rule) -> str:
    if p >= rule.sure:
        return f" >= {rule.sure:g}: yes, the trigger is 1"
    if p <= 1 - rule.sure + 1e-12:
        return f", P(no) >= {rule.sure:g}: no"
    return ": open, and nothing clears while it leans to yes" if p > 0.5 else ": open"


def _guide(said: pl.DataFrame, trait: Trait) -> list[str]:
    rated = judging.severity(said, 1)[0]
    weighed = [(GUIDE[n], w, rated[n]) for n, w in enumerate(trait.guide) if w > 0]
    if not weighed or all(np.isnan(s) for _, _, s in weighed):
        return []
    missing = [category for category, _, s in weighed if np.isnan(s)]
    if missing:
        return [f"guide: {', '.join(missing)} not rated, so it says nothing"]
    total = " + ".join(f"{w:g}" for _, w, _ in weighed)
    top = " + ".join(f"{w:g} x {s:g} ({category})" for category, w, s in weighed)
    risk = float(violations.pg_risk(trait, rated[None])[0])
    return [f"guide ({trait.guide_applies}): ({top}) / (3 x ({total})) = {risk:.3f}"]


def _descriptors(said: pl.DataFrame, trait: Trait) -> list[str]:
    rated = said.filter(pl.col("kind") == "esrb")["key"].unique().sort().to_list()
    if not rated or not trait.esrb:
        return []
    named = [f"{key} = {trait.esrb[key]:g}" for key in rated if key in trait.esrb]
    return [f"ESRB ({trait.esrb_applies}): {', '.join(named) or 'no descriptor of this trait = 0'}"]


def _people(said: pl.DataFrame, trait: Trait) -> list[str]:
    answer = int(judging.reviewed(said, trait, 1)[0])
    return [f"reviewers: {'yes' if answer > 0 else 'no'}"] if answer else []


def resolved(asked: str, domain: str | None, items: pl.DataFrame, links: pl.DataFrame) -> titles.Match:
    """What a person means by an item id, a ref or "Title (Year)"."""
    if not items.filter(pl.col("item") == asked).is_empty():
        return titles.Match("found", asked)
    known = link([asked], links, titles.Index())
    if asked in known:
        return titles.Match("found", known[asked])
    return titles.find(index(items), *titles.split_year(asked.removeprefix("title:")), domain)

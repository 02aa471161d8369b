"""From sourced statements to the risk and the verdict of each item and trait.

reads  items, links (see merging), warnings
gives  the oracle; risks as a matrix
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from saferec_builder import tables, titles, violations
from saferec_builder.catalog.linking import index, link
from saferec_builder.catalog.merging import LINKS
from saferec_builder.traits import GUIDE, Taxonomy, Trait
from saferec_builder.violations import Oracle, Rule


def risks(
    items: pl.DataFrame, links: pl.DataFrame, warnings: pl.DataFrame, taxonomy: Taxonomy, rule: Rule = Rule()
) -> tuple[Oracle, NDArray[np.float64]]:
    """(oracle, risk of items x traits with NaN where no source says anything), rows in the order of `items`.

    Of one source's and page's statements on an item and topic the last counts, and votes of several add up. A
    clear answer weighs as P(yes) = 1 or 0; where answers and votes differ, the worse one counts; so does the worse
    of two severities. Of the reviews of an item and trait the last counts.
    """
    risk, codes = _judge(statements(items, links, warnings), taxonomy.traits, rule, items.height)
    return violations.oracle(items["item"].to_list(), taxonomy.slugs, codes), risk


def _judge(
    said: pl.DataFrame, traits: Sequence[Trait], rule: Rule, n: int
) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
    """(risk, verdict codes) of n items x traits from the statements on them."""
    topics, p = _asked(said, traits, rule, n)
    severity = _severity(said, n)
    judged = [
        violations.judge(t, topics, p, severity, _esrb(said, t, n), rule, reviewed=_reviewed(said, t, n))
        for t in traits
    ]
    return np.column_stack([risk for risk, _ in judged]), np.column_stack([codes for _, codes in judged])


def statements(items: pl.DataFrame, links: pl.DataFrame, warnings: pl.DataFrame) -> pl.DataFrame:
    """The warnings that count and that an item of the catalog is meant by, with `item` and `row` (its number)."""
    numbers = items.select("item").with_row_index("row")
    named = pl.concat([frame for frame in _linked(items, links, warnings)] or [_NO_LINKS])
    latest = warnings.with_columns(key=topic_key()).join(
        named, ["ref", "domain"], nulls_equal=True, maintain_order="left"
    )
    latest = latest.join(numbers, "item", maintain_order="left")
    return tables.last(latest, "item", "kind", "key", "source", "url")


def topic_key() -> pl.Expr:
    """Sources spell a question with and without its mark and capitals."""
    return pl.col("topic").str.to_lowercase().str.replace_all(r"\s+", " ").str.strip_chars(" ?")


_NO_LINKS = pl.DataFrame(schema={"ref": pl.String, "domain": pl.String, "item": pl.String})


def _linked(items: pl.DataFrame, links: pl.DataFrame, warnings: pl.DataFrame) -> list[pl.DataFrame]:
    """(ref, domain, item) of every warning that links: a title is looked up among the items of the warning's domain."""
    told = warnings.select("ref", "domain").unique(maintain_order=True)
    by_title = index(items) if told["ref"].str.starts_with("title:").any() else titles.Index()
    frames = []
    for (domain,), part in told.group_by("domain", maintain_order=True):
        found = link(part["ref"], links, by_title, domain)
        named = pl.DataFrame({"ref": list(found), "item": list(found.values())}, schema=LINKS)
        frames.append(named.select("ref", pl.lit(domain, pl.String).alias("domain"), "item"))
    return frames


def _asked(said: pl.DataFrame, traits: Sequence[Trait], rule: Rule, n: int) -> tuple[list[str], NDArray[np.float64]]:
    """(topics, P(yes) of items x topics): votes of all sources together, clear answers, the worse of both."""
    topics = list(dict.fromkeys(topic for trait in traits for topic in trait.topics))
    keys = pl.DataFrame({"topic": topics}).select(key=topic_key()).with_row_index("column")
    asked = said.filter(pl.col("kind") == "topic").join(keys, "key", maintain_order="left")
    yes, no, clear = np.zeros((n, len(topics))), np.zeros((n, len(topics))), np.full((n, len(topics)), np.nan)
    at = (asked["row"].to_numpy(), asked["column"].to_numpy())
    np.add.at(yes, at, asked["yes"].fill_null(0).to_numpy())
    np.add.at(no, at, asked["no"].fill_null(0).to_numpy())
    answers = asked["answer"].replace_strict({"yes": 1.0, "no": 0.0}, default=None, return_dtype=pl.Float64)
    np.fmax.at(clear, at, answers.to_numpy())
    voted = np.where(yes + no > 0, violations.p_yes(yes, no, rule), np.nan)
    return topics, np.fmax(voted, clear)


def _severity(said: pl.DataFrame, n: int) -> NDArray[np.float64]:
    guide = said.filter((pl.col("kind") == "guide") & pl.col("key").is_in(GUIDE))
    severity = np.full((n, len(GUIDE)), np.nan)
    columns = np.array([GUIDE.index(key) for key in guide["key"]], int)
    np.fmax.at(severity, (guide["row"].to_numpy(), columns), guide["severity"].cast(pl.Float64).to_numpy())
    return severity


def _esrb(said: pl.DataFrame, trait: Trait, n: int) -> NDArray[np.float64]:
    """The strongest descriptor that speaks for the trait; 0 for a rated game without one."""
    rated = said.filter(pl.col("kind") == "esrb")
    strength = rated["key"].replace_strict(trait.esrb, default=0.0, return_dtype=pl.Float64)
    esrb = np.full(n, np.nan)
    np.fmax.at(esrb, rated["row"].to_numpy(), strength.to_numpy())
    return esrb


def _reviewed(said: pl.DataFrame, trait: Trait, n: int) -> NDArray[np.int8]:
    """1 where people said that the item breaks the trait, -1 where they said that it does not, else 0."""
    review = tables.last(said.filter((pl.col("kind") == "review") & (pl.col("key") == trait.slug)), "item")
    answers = np.zeros(n, np.int8)
    answers[review["row"].to_numpy()] = review["answer"].replace_strict({"yes": 1, "no": -1}, default=0).to_numpy()
    return answers


def unasked(warnings: pl.DataFrame, taxonomy: Taxonomy) -> int:
    """How many votes and answers are on topics that no trait asks about."""
    asked = pl.DataFrame({"topic": list(taxonomy.topics)}).select(topic_key())["topic"]
    return warnings.filter(pl.col("kind") == "topic").filter(~topic_key().is_in(asked.implode())).height


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
    """item, title, match, candidates, trait, risk (null: no source), verdict and the sources of one "Title (Year)"."""
    match = titles.find(index(items), *titles.split_year(title), domain)
    named = {row["item"]: row for row in items.filter(pl.col("item").is_in([match.item, *match.candidates])).to_dicts()}
    found: dict[str, Any] = {
        "item": match.item,
        "title": _name(named[match.item]) if match.item else None,
        "match": match.match,
        "candidates": [{"item": i, "title": _name(named[i]), "domain": named[i]["domain"]} for i in match.candidates],
        "trait": trait.slug,
        "risk": None,
        "verdict": violations.VERDICTS[violations.UNKNOWN],
        "sources": [],
    }
    if match.item is None:
        return found
    said = statements(items, links, warnings).filter(pl.col("item") == match.item)
    risk, codes = _judge(said.with_columns(row=pl.lit(0)), [trait], rule, 1)
    shown = ("kind", "topic", "yes", "no", "answer", "severity", "source", "url", "retrieved")
    return found | {
        "risk": None if np.isnan(risk[0, 0]) else float(risk[0, 0]),
        "verdict": violations.VERDICTS[codes[0, 0]],
        "sources": said.filter(_speaks_for(trait)).select(shown).to_dicts(),
    }


def _speaks_for(trait: Trait) -> pl.Expr:
    """The statements that the verdict on this trait rests on."""
    topics = pl.DataFrame({"topic": list(trait.topics)}).select(topic_key())["topic"].to_list()
    guide = [category for category, weight in zip(GUIDE, trait.guide, strict=True) if weight > 0]
    rests = {"topic": topics, "guide": guide, "esrb": list(trait.esrb), "review": [trait.slug]}
    return pl.any_horizontal((pl.col("kind") == kind) & pl.col("key").is_in(keys) for kind, keys in rests.items())


def _name(item: Mapping[str, Any]) -> str:
    return f"{item['title']} ({item['year']})" if item["year"] else str(item["title"])

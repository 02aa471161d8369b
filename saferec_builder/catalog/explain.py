"""What the catalog knows about one item, for people: its verdict, its sources, and the arithmetic of each risk.

reads  items, links, warnings
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import cast

import numpy as np
import polars as pl

from saferec_builder.catalog import known_works, verdicts as judging
from saferec_builder.catalog.arithmetic import Judged, Step, speaks_for, steps
from saferec_builder.catalog.linking import index
from saferec_builder.catalog.merging import ItemRow
from saferec_builder.core import oracle as violations, titles
from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.oracle import Rule
from saferec_builder.core.taxonomy import Taxonomy, Trait
from saferec_builder.sources import refs
from saferec_builder.storage import tables

_ANSWER = ("kind", "topic", "yes", "no", "answer", "severity")
SHOWN = (*_ANSWER, "source", "ref", "url", "retrieved", "words", "place", "exact")
_EVIDENCE = pl.Schema([(c, pl.Boolean() if c == "exact" else tables.WARNINGS.schema[c]) for c in SHOWN])
_IMDB = re.compile(r"(?:imdb:)?(tt0*[1-9]\d{0,8})")  # as people write it, with or without zeros


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The answer for one "Title (Year)" and one trait.

    word        violated | clear | unknown
    risk        0..1; None: no source says anything
    evidence    every statement that the word rests on, with its source (columns: SHOWN)
    others      those of them on another work that may be meant; they are in no step
    steps       the arithmetic, a line per number; for an unknown verdict also the answers that are missing
    item, title of the one item that is meant; None if the catalog has none, or several
    match       found | ambiguous | not_found
    exact       False if the item may be another work, which is then never clear
    candidates  (item, title, domain, ref, verdict: its own) if several items may be meant, one of which may be what
                violates; for an unknown title, similar ones without a verdict
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
        """The object that `catalog check --json` prints."""
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
    """The verdict on one "Title (Year)", or id; a title that `items` lacks, or has twice, is unknown.

    Without a year it is the likeliest work (core/undated.py); any other that is likely meant may violate.
    """
    by_title = index(items)
    all_statements = judging.statements(items, links, warnings, by_title)
    if titles.split_year(title)[1] is None:
        by_title.works = known_works.works(items, known_works.familiarity(items, links, all_statements))
    match = resolved(title, domain, items, links, by_title)
    similar = candidates(match.candidates or (() if match.item else alike(title, items)), items)
    unjudged = similar.with_columns(verdict=pl.lit(None, pl.String))
    answer = Verdict(trait=trait.slug, match=match.match, exact=match.exact, candidates=unjudged)
    meant = match.candidates or ((match.item,) if match.item else ())
    if not meant:
        return answer
    statements = all_statements.filter(pl.col("item").is_in(meant))
    statements = statements.with_columns(row=pl.col("item").cast(pl.Enum(meant)).to_physical())
    voters = judging.voters(all_statements, trait.topics)
    risk, codes = judging.judge(statements, [trait], rule, len(meant), voters)
    verdict = violations.as_named(violations.worst(codes.T), np.array([not match.exact]))[0]
    verdicts = pl.Series("verdict", [violations.VERDICTS[code] for code in codes[:, 0]], pl.String)
    answer = replace(answer, candidates=similar.with_columns(verdicts) if match.candidates else unjudged)
    if match.item is None:  # no statement is about one certain work
        return replace(answer, word=violations.VERDICTS[verdict])
    own_statements, number = statements.filter(pl.col("item") == match.item), _number(risk[meant.index(match.item), 0])
    others = statements.filter(pl.col("item") != match.item)
    return replace(
        answer,
        item=match.item,
        title=titles.dated(items.row(by_predicate=pl.col("item") == match.item, named=True)),
        word=violations.VERDICTS[verdict],
        risk=number,
        evidence=statements.filter(speaks_for(trait)).select(SHOWN),
        others=others.filter(speaks_for(trait)).select(SHOWN),
        steps=steps(Judged(own_statements, trait, rule, voters, violations.VERDICTS[verdict], number)),
    )


def _as_json(name: str, steps: Sequence[Step]) -> dict[str, JsonValue]:
    return {name: [step.text for step in steps], "decides": [step.text for step in steps if step.decides]}


def alike(title: str, items: pl.DataFrame) -> list[str]:
    """Up to three items with a "Title (Year)" spelt almost like this, the most similar first."""
    by_title = {titles.dated(row).casefold(): row["item"] for row in items.select("item", "title", "year").to_dicts()}
    return [by_title[near] for near in get_close_matches(title.casefold(), list(by_title), 3, 0.8)]


def candidates(wanted: Sequence[str], items: pl.DataFrame) -> pl.DataFrame:
    """(item, title, domain, ref) of these items, each once and in order; the title with its year.

    ref: what `resolved` accepts for this item alone, its IMDb id or else its item id.
    """
    rows = {row["item"]: row for row in items.filter(pl.col("item").is_in(list(wanted))).to_dicts()}
    refs = {i: next((ref for ref in row["refs"] or () if ref.startswith("imdb:")), i) for i, row in rows.items()}
    table = [(item, titles.dated(rows[item]), rows[item]["domain"], refs[item]) for item in dict.fromkeys(wanted)]
    return pl.DataFrame(table, schema=dict.fromkeys(("item", "title", "domain", "ref"), pl.String), orient="row")


def _number(risk: float) -> float | None:
    return None if np.isnan(risk) else float(risk)


@dataclass(frozen=True)
class TraitRisk:
    """The oracle's risk and verdict for one trait, and the arithmetic: one line per number."""

    trait: str
    risk: float | None
    verdict: str
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Explained:
    """An item, its statements (columns: SHOWN), and each trait with statements."""

    item: ItemRow
    warnings: pl.DataFrame
    traits: tuple[TraitRisk, ...]

    def as_json(self) -> dict[str, JsonValue]:
        """The object that `catalog show --json` prints."""
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
    *,
    by_title: titles.Index | None = None,
) -> Explained:
    """The item with all statements on it, and risk, verdict and steps per trait. `by_title`: index(items), if known."""
    all_statements = judging.statements(items, links, warnings, by_title)
    statements = all_statements.filter(pl.col("item") == item).with_columns(row=pl.lit(0))
    voters = judging.voters(all_statements, taxonomy.topics)
    risk, codes = judging.judge(statements, taxonomy.traits, rule, 1, voters)
    of_traits = [
        Judged(statements, trait, rule, voters, violations.VERDICTS[code], _number(value))
        for trait, value, code in zip(taxonomy.traits, risk[0], codes[0], strict=True)
        if not statements.filter(speaks_for(trait)).is_empty()
    ]
    traits = tuple(TraitRisk(j.trait.slug, j.risk, j.word, steps(j)) for j in of_traits)
    row = cast("ItemRow", items.row(by_predicate=pl.col("item") == item, named=True))
    return Explained(row, statements.select(SHOWN), traits)


def resolved(
    asked: str, domain: str | None, items: pl.DataFrame, links: pl.DataFrame, by_title: titles.Index
) -> titles.Match:
    """The item meant by an item id, a ref, a bare IMDb id or "Title (Year)"; `by_title` is index(items)."""
    by_id = _by_id(asked, items, links)
    # the prefix is that of `catalog gaps`
    return by_id or titles.find(by_title, *titles.split_year(asked.removeprefix("title:")), domain)


def _by_id(text: str, items: pl.DataFrame, links: pl.DataFrame) -> titles.Match | None:
    """The item of an item id, a ref or a bare IMDb id such as tt0078748; None if there is none."""
    if not items.filter(pl.col("item") == text).is_empty():
        return titles.Match("found", text)
    imdb = _IMDB.fullmatch(text.strip().lower())
    linked = links.filter(pl.col("ref") == (refs.imdb(imdb[1]) if imdb else text))
    return None if linked.is_empty() else titles.Match("found", linked["item"][0])

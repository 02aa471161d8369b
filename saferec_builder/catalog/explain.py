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
_IMDB = re.compile(r"(?:imdb:)?(tt0*[1-9]\d{0,8})")  # as people write it, with or without the zeros


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
    candidates  (item, title, domain, ref, verdict: its own) where several items may be meant, one of which may be what
                violates; of a title that is not there, like ones without a verdict
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
    name_, year = titles.split_year(title.removeprefix("title:"))  # as `catalog gaps` names one
    by_title.works = known_works.works(items, known_works.known(items, links, every)) if year is None else {}
    match = _by_id(title, items, links) or titles.find(by_title, name_, year, domain)
    near = candidates(match.candidates or (() if match.item else alike(title, items)), items)
    unjudged = near.with_columns(verdict=pl.lit(None, pl.String))
    found = Verdict(trait=trait.slug, match=match.match, exact=match.exact, candidates=unjudged)
    meant = match.candidates or ((match.item,) if match.item else ())
    if not meant:
        return found
    said = every.filter(pl.col("item").is_in(meant))
    said = said.with_columns(row=pl.col("item").cast(pl.Enum(meant)).to_physical())
    known = judging.voters(every, trait.topics)
    risk, codes = judging.judge(said, [trait], rule, len(meant), known)
    verdict = violations.as_named(violations.worst(codes.T), np.array([not match.exact]))[0]
    own = pl.Series("verdict", [violations.VERDICTS[code] for code in codes[:, 0]], pl.String)
    found = replace(found, candidates=near.with_columns(own) if match.candidates else unjudged)
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
        steps=steps(Judged(its, trait, rule, known, violations.VERDICTS[verdict], number)),
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
            steps(Judged(said, trait, rule, known, violations.VERDICTS[codes[0, n]], _number(risk[0, n]))),
        )
        for n, trait in enumerate(taxonomy.traits)
        if not said.filter(speaks_for(trait)).is_empty()
    )
    row = cast("ItemRow", items.filter(pl.col("item") == item).row(0, named=True))
    return Explained(row, said.select(SHOWN), traits)


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

"""Measures how well known each work of the catalog is, so that a title without a year finds the work that is meant.

reads  items, statements (verdicts.statements), conversations
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from saferec_builder.catalog import verdicts
from saferec_builder.core import titles, undated
from saferec_builder.core.oracle import Oracle, Rule
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.core.undated import Known, Work
from saferec_builder.scoring.list_entry_parser import Look, entry_of
from saferec_builder.sources import class_rules
from saferec_builder.storage import texts_on_disk

_NAMED = pl.DataFrame(schema={"conversation": pl.String, "ref": pl.String})


def familiarity(
    items: pl.DataFrame, links: pl.DataFrame, statements: pl.DataFrame, conversations: pl.DataFrame | None = None
) -> dict[str, Known]:
    """item -> Known, for every item: its ids, its rating reasons and keywords among `statements`, and the
    number of conversations that name it by an id."""
    kind = pl.col("kind")
    counts = statements.group_by("item").agg(
        reasons=(kind == "reason").sum(), keywords=kind.is_in([*class_rules.CLASSES[1:]]).sum()
    )
    all_refs = _NAMED if conversations is None else texts_on_disk.refs(conversations, "conversation")
    ids = all_refs.filter(~pl.col("ref").str.starts_with("title:")).join(links, "ref").unique(["conversation", "item"])
    mentions = ids.group_by("item").agg(mentions=pl.len())
    collections = pl.col("refs").list.eval(pl.element().str.split(":").list.first()).list.n_unique()
    rows = items.select("item", collections=collections)
    for frame in (counts, mentions):
        rows = rows.join(frame, "item", how="left", maintain_order="left")
    return {str(item): Known(*numbers) for item, *numbers in rows.fill_null(0).iter_rows()}


def works(items: pl.DataFrame, known: Mapping[str, Known]) -> dict[str, Work]:
    """item -> Work, for every item in `known`."""
    rows = (
        items.filter(pl.col("item").is_in(list(known))).select("item", "title", "year", "aliases", "genres").iter_rows()
    )
    return {
        item: Work(
            year,
            frozenset(genre.casefold() for genre in genres or ()),
            titles.names(title, aliases or ()),
            known[item].pull(),
        )
        for item, title, year, aliases, genres in rows
    }


@dataclass(frozen=True)
class Judged:
    """The oracle and the risks of verdicts.risks, and every item as a Work."""

    oracle: Oracle
    risks: NDArray[np.float64]
    works: Mapping[str, Work]


def judged(
    items: pl.DataFrame,
    links: pl.DataFrame,
    warnings: pl.DataFrame,
    taxonomy: Taxonomy,
    rule: Rule,
    conversations: pl.DataFrame | None = None,
) -> Judged:
    """The oracle's verdicts on the items, and how well known each is."""
    statements = verdicts.statements(items, links, warnings)
    all_works = works(items, familiarity(items, links, statements, conversations))
    return Judged(*verdicts.risks_of(items, statements, taxonomy, rule), all_works)


def match_list(index: titles.Index, texts: Iterable[str], domain: str | None = None) -> dict[str, titles.Match]:
    """The works that the texts of one list mean, read without quotes and reasons; for a title without a year the works
    that the others mean are taken into account."""

    def if_in_catalog(title: str, year: int | None, domain: str | None) -> str | None:
        return None if titles.find(index, title, year, domain) is titles.NOT_FOUND else title

    look = Look(if_in_catalog, domain)
    read = {text: _title_in(text, look) for text in texts}
    alone = {text: titles.find(index, *titles.split_year(title), domain) for text, title in read.items()}
    items = {text: match.item for text, match in alone.items() if match.item in index.works}
    matches = {}
    for text, title in read.items():
        name, year = titles.split_year(title)
        if year is None:
            others = [index.works[item] for other, item in items.items() if other != text and item is not None]
            alone[text] = titles.find(index, name, None, domain, undated.company(others))
        sure = not isinstance(title, titles.Near)
        matches[text] = alone[text] if sure else alone[text]._replace(exact=False)
    return matches


def undated_twins(items: pl.DataFrame) -> pl.DataFrame:
    """(title, row, other: a row of another item) of items without a year whose title belongs to exactly one dated item.

    By its title alone an item without a year merges with none, for it may be another work; games need no year.
    """
    films = items.filter(pl.col("domain") != "game").select("title", "year", "domain", row=pl.col("refs").list.first())
    if not films["year"].null_count():
        return films.clear().select("title", "row", other="row")
    form = pl.Series("form", map(titles.normal, films["title"]), pl.String)
    undated, dated = (films.with_columns(form).filter(pl.col("year").is_null() == missing) for missing in (True, False))
    dated = dated.filter(pl.struct("domain", "form").is_unique(), pl.col("form") != "")
    both = undated.join(dated, ["domain", "form"], suffix="_dated", maintain_order="left")
    return both.select("title", "row", other="row_dated")


def _title_in(text: str, look: Look) -> str:
    """The title and year that a text gives, a Near if brackets were skipped; the whole text if no work has it."""
    entry = entry_of(text, look)
    if entry.item is None:
        return text
    name = f"{entry.title} ({entry.year})" if entry.year else entry.title
    return titles.Near(name) if isinstance(entry.item, titles.Near) else name

"""Says what rows that `catalog add` read did to the catalog: ids in conflict, merges to check, statements without item.

reads  catalog_rows, warnings
"""

import shlex
from difflib import get_close_matches
from itertools import islice

import polars as pl

from saferec_builder import sources
from saferec_builder.catalog import known_works, merging, verdicts
from saferec_builder.catalog.linking import index
from saferec_builder.core import titles
from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.workspace import Workspace

Noted = dict[str, tuple[int, str | list[str]]]  # figure -> (number, Counts.examples of it, with what to do)
_SHOWN = 3  # rows or titles that an example names


def of_items(
    catalog: pl.DataFrame, merged: tuple[pl.DataFrame, pl.DataFrame], rows: pl.DataFrame
) -> tuple[dict[str, JsonValue], Noted]:
    """How many items and id conflicts the catalog has, and what is to be checked of the `rows` just read. `merged`:
    merging.merge of the catalog."""
    items, merges, read = merged[0], merging.merges(catalog), set(rows.select(merging.REF).to_series())
    conflicts = merges.filter(by=merging.ID_CONFLICT)
    figures: dict[str, JsonValue] = {"items": items.height}
    figures |= {"id_conflicts": conflicts.height} if conflicts.height else {}
    conflicts = conflicts.filter(pl.col("row").is_in(read) | pl.col("other").is_in(read))
    noted = _conflicting(catalog, merged, conflicts, read) | _unlike(merges, read) | _undated_twins(items, read)
    return figures, noted


def _conflicting(
    catalog: pl.DataFrame, merged: tuple[pl.DataFrame, pl.DataFrame], conflicts: pl.DataFrame, read: set[str]
) -> Noted:
    """The `conflicts` of rows just read; of the first few, the work that the id means."""
    if conflicts.is_empty():
        return {}
    pairs, (items, links) = conflicts.head(_SHOWN).to_dicts(), merged
    ids = {ref: {ref, *(refs or ())} for ref, refs in catalog.select(merging.REF, "refs").iter_rows()}
    shared = [min(ids[pair["row"]] & ids[pair["other"]]) for pair in pairs]
    owners = links.filter(pl.col("ref").is_in(shared)).join(items, "item").to_dicts()
    works = {owner["ref"]: titles.dated(owner) for owner in owners}
    examples = [
        f"{pair['row']} {pair['title']}, {pair['other']} {pair['other_title']}: {id_} means {works.get(id_, 'neither')}"
        for id_, pair in zip(shared, pairs, strict=True)
    ]
    row = pairs[0]["row"] if pairs[0]["row"] in read else pairs[0]["other"]
    remedy = f"for a row with a wrong id, `saferec-build catalog apart {shlex.quote(row)}`"
    if conflicts.height > len(pairs):
        examples.append(f"and {conflicts.height - len(pairs):,} more: `saferec-build catalog merges --conflicts`")
    return {"id_conflicts_of_the_rows_read": (conflicts.height, [*examples, remedy])}


def _unlike(merges: pl.DataFrame, read: set[str]) -> Noted:
    """Merges by an id of rows whose titles share no word, where one of the rows was just read."""
    unlike = merges.filter("unlike", pl.col("row").is_in(read) | pl.col("other").is_in(read))
    for row in unlike.head(1).to_dicts():
        ref = row["row"] if row["row"] in read else row["other"]
        work = f"{row['title']} and {row['other_title']} ({row['by']})"
        remedy = f"if they are two works, `saferec-build catalog apart {shlex.quote(ref)}`; all: `catalog merges`"
        return {"merged_by_id_though_no_word_of_their_titles_is_the_same": (unlike.height, f"{work}: {remedy}")}
    return {}


def _undated_twins(items: pl.DataFrame, read: set[str]) -> Noted:
    own = items.select("refs", first=pl.col("refs").list.first()).explode("refs").filter(pl.col("refs").is_in(read))
    twins = known_works.undated_twins(items).filter(
        pl.any_horizontal(pl.col("row", "other").is_in(own["first"].implode()))
    )
    if twins.is_empty():
        return {}
    twins = twins.sort(~pl.col("row").is_in(read), maintain_order=True)
    pairs = (f"{title!r}: `saferec-build catalog join {shlex.join(pair)}`" for title, *pair in twins.iter_rows())
    remedy = "`catalog join` makes one item of two, where it is one work"
    return {"undated_under_a_title_of_another": (twins.height, [*islice(pairs, _SHOWN), remedy])}


def lost(ws: Workspace, old: pl.DataFrame, merged: tuple[pl.DataFrame, pl.DataFrame]) -> Noted:
    """How many statements referred to an item of the `old` catalog rows, and refer to none now."""
    statements = workspace.read(ws, tables.WARNINGS) if old.height else tables.WARNINGS.empty
    unlinked = statements.join(verdicts.linked(*merged, statements), "warning", "anti", maintain_order="left")
    if unlinked.is_empty():
        return {}
    gone = unlinked.join(verdicts.linked(*merging.merge(old), unlinked), "warning", "semi", maintain_order="left")
    if gone.is_empty():
        return {}
    ref = sources.readable(gone["ref"][0], 80)
    remedy = "two items have this id (`saferec-build catalog merges --conflicts`)"
    if ref.startswith("title:"):
        title = shlex.quote(sources.readable(gone["ref"][0].removeprefix("title:"), len(gone["ref"][0])))
        remedy = f"several items may be meant (`saferec-build catalog show {title}`): add its rows with an IMDb id"
    return {"statements_that_lost_their_item": (gone.height, f"of {ref}: {remedy}")}


def contested(catalog: pl.DataFrame, links: pl.DataFrame, warnings: pl.DataFrame) -> Noted:
    """How many of the statements just read name an id that several items claim, so that it means none of them."""
    claims = catalog["refs"].explode().drop_nulls()
    shared = claims.filter(claims.is_duplicated()).unique()
    names = warnings.filter(pl.col("ref").is_in(shared.implode()), ~pl.col("ref").is_in(links["ref"].implode()))["ref"]
    if names.is_empty():
        return {}
    remedy = "`saferec-build catalog merges --conflicts` lists their rows, `catalog apart` leaves the id to the other"
    return {"on_an_id_of_several_items": (names.len(), f"{', '.join(_first(names))}: {remedy}")}


def of_statements(
    ws: Workspace, warnings: pl.DataFrame, merged: tuple[pl.DataFrame, pl.DataFrame]
) -> dict[str, JsonValue]:
    """How many items the catalog has, and how many of the statements just read refer to no item or to no trait.

    The latter two with their first few titles or topics: near spellings are suggested, not guessed. Says so where none
    refers to an item. For keywords and reasons, says that they clear no item: with these alone, nothing can be
    recommended to anybody with a trait.
    """
    items, links = merged
    unlinked = warnings.join(verdicts.linked(items, links, warnings), "warning", "anti", maintain_order="left")
    figures: dict[str, JsonValue] = {"items": items.height}
    if warnings.height and unlinked.height == warnings.height:
        figures["fits"] = "nothing of it: no statement is about one item here: are these files for other works?"
    elif warnings.height and set(warnings["kind"]) <= {"keyword", "tag", "reason"}:
        figures["clears"] = "no item: a film of which they say nothing may have it all the same"
    figures["on_no_item_here"] = unlinked.height
    if unlinked.height:
        figures["such_items"] = [sources.readable(ref, 80) for ref in _first(unlinked["ref"])]
    unasked = verdicts.unasked(warnings, ws.taxonomy)["topic"]
    figures["on_what_no_trait_asks"] = len(unasked)
    if len(unasked):
        figures["such_topics"] = [_with_suggestion(topic, ws.taxonomy) for topic in _first(unasked)]
    return figures


def replaced(ws: Workspace, warnings: pl.DataFrame, merged: tuple[pl.DataFrame, pl.DataFrame]) -> Noted:
    """How many of the statements just read do not count because the catalog has another in their place: a newer one,
    or, if they existed before without a date, one added later."""
    dated = pl.col("kind").is_in(["topic", "guide"])
    if (read := warnings.filter(dated)).is_empty():
        return {}
    statements = workspace.read(ws, tables.WARNINGS).filter(dated)
    by_title = index(merged[0]) if statements["ref"].str.starts_with("title:").any() else None
    counting = verdicts.statements(*merged, statements, by_title)
    passed = read.join(counting, "warning", "anti", maintain_order="left")
    passed = passed.join(verdicts.linked(*merged, passed, by_title), "warning", "semi", maintain_order="left")
    for topic, ref in passed.select("topic", "ref").head(1).iter_rows():
        example = f"{sources.readable(topic, 80)!r} of {sources.readable(ref, 80)}"
        remedy = "if it holds again, add it with a newer `retrieved`"
        return {"another_counts_instead": (passed.height, f"{example}: {remedy}")}
    return {}


def _first(names: pl.Series) -> list[str]:
    return names.unique(maintain_order=True).head(_SHOWN).to_list()


def _with_suggestion(topic: str, taxonomy: Taxonomy) -> str:
    """A topic that no trait asks about, with the topic of a trait that is spelt nearly so, if any."""
    topics = dict(zip(verdicts.keys(taxonomy.topics), taxonomy.topics, strict=True))
    matches = get_close_matches(verdicts.keys([topic])[0][:80], topics, 1, 0.85)
    return sources.readable(topic, 80) + (f' (did you mean "{topics[matches[0]]}"?)' if matches else "")

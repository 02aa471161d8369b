"""How well titles are linked: "Title (Year)" against gold ids, and titles in running text. Needs SAFEREC_REAL_DATA."""

from collections.abc import Iterable
from pathlib import Path

import polars as pl

from saferec_builder import catalog
from saferec_builder.catalog import known_works
from saferec_builder.core import titles
from saferec_builder.sources import movielens
from tests.bench import linking_gold as gold, undated_gold
from tests.bench.figures import figure, real_data

GOALS = {"7k": (">= 0.90", ">= 0.85"), "39k": (">= 0.87", ">= 0.85")}


def main() -> None:
    if not (folder := real_data("linking")):
        return
    dated(folder)
    conflicts(folder)
    hard(folder)
    undated(folder)
    turns = gold.redial_turns(folder)
    for name, items in (("7k", gold.items_7k(folder)), ("39k", gold.items_39k(folder))):
        finder = catalog.finder(items)
        for half in (gold.TUNED, gold.REPORTED):
            precision, recall, lower = scores(finder, (t for t in turns if t.half == half))
            figure(f"linking.redial_{name}_precision.{_word(half)}", precision, "share", GOALS[name][0])
            figure(f"linking.redial_{name}_recall.{_word(half)}", recall, "share", GOALS[name][1])
            figure(f"linking.redial_{name}_recall_lower.{_word(half)}", lower, "share", "> 0.56")
        if name == "39k":
            inspired(finder, items, folder)


def inspired(found: catalog.Finder, items: pl.DataFrame, folder: Path) -> None:
    """INSPIRED against its own gold, and against a gold without the errors that a reader of the whole set found."""
    forms_of = {row["item"]: _forms(row["title"], row["aliases"]) for row in items.iter_rows(named=True)}
    original, without_faults = (False, (gold.TUNED, gold.REPORTED)), (True, (gold.REPORTED,))
    for name, (corrected, halves) in (("inspired", original), ("inspired_corrected", without_faults)):
        for half in halves:
            hits = named = expected = 0
            for turn in gold.inspired_turns(folder, corrected=corrected):
                if turn.half == half:
                    left = [_forms(title, ()) for _, _, title in turn.spans]
                    expected += len(left)
                    for mention in catalog.in_text(found, turn.text):
                        named += 1
                        forms = set().union(*(forms_of[c] for c in mention.candidates))
                        hit = next((n for n, title in enumerate(left) if title & forms), None)
                        hits += hit is not None
                        if hit is not None:
                            left.pop(hit)
            figure(f"linking.{name}_precision.{_word(half)}", hits / named, "share", ">= 0.72")
            figure(f"linking.{name}_recall.{_word(half)}", hits / expected, "share", ">= 0.80")


def _forms(title: str, aliases: Iterable[str]) -> set[str]:
    return {form for name in (title, *aliases) for form in titles.forms(titles.split_year(name)[0])}


def dated(folder: Path) -> None:
    """ "Title (Year)" against the id that ReDial gives it: right, wrong, not found."""
    expected, links = linked(folder)
    right = sum(links.get(ref) == item for ref, (item, _) in expected.items())
    years = sum(ref in links and links[ref] != item and wrong_year for ref, (item, wrong_year) in expected.items())
    figure("linking.dated_right", right / len(expected), "share", ">= 0.99")
    figure("linking.dated_other_item", sum(links.get(r, i) != i for r, (i, _) in expected.items()), "titles", "0")
    figure("linking.dated_wrong_year", years, "titles", "0")


def conflicts(folder: Path) -> None:
    """Ids that MovieLens and MovieTweetings share, all for the same film: how many do not merge. (Before: 396.)"""
    rows = pl.concat([movielens.read(folder / "movielens_small").rows, gold.tweeted(folder)])
    figure("linking.conflicts", catalog.merges(rows).filter(by="id conflict").height, "ids", "<= 5")
    _, links = catalog.merge(rows)
    sources = links.group_by("item").agg(pl.col("ref").str.split(":").list.first().unique(), ids=pl.col("ref"))
    both = sources.filter(pl.col("ref").list.contains("movielens"), pl.col("ref").list.contains("csv"))
    wrong = both.filter(
        pl.col("ids").list.eval(pl.element().filter(pl.element().str.starts_with("imdb:"))).list.len() > 1
    )
    figure("linking.merged_with_two_ids", wrong.height, f"of {both.height}", "0")


def hard(folder: Path) -> None:
    """MovieTweetings' titles that MovieLens spells or dates otherwise (the ids say so): how many find another film."""
    films, links = catalog.merge(movielens.read(folder / "movielens_small").rows)
    index, by_id = catalog.index(films), dict(links.iter_rows())
    named = {
        item: (titles.normal(title), year) for item, title, year in films.select("item", "title", "year").iter_rows()
    }
    rows = gold.tweeted(folder).select("title", "year", id=pl.col("refs").list.first()).iter_rows()
    pairs = [(title, year, by_id[id_]) for title, year, id_ in rows if id_ in by_id]
    unlike = [pair for pair in pairs if named[pair[2]] != (titles.normal(pair[0]), pair[1])]
    found = [(titles.find(index, title, year, "film").item, item) for title, year, item in unlike]
    wrong = sum(answer is not None and answer != item for answer, item in found)
    figure("linking.hard_wrong", wrong / len(unlike), f"of {len(unlike)}", "<= 0.01")


def undated(folder: Path) -> None:
    """Titles without a year, as models write them, against a language model's reading of them (undated_gold)."""
    world = undated_gold.everything(folder)
    read = [title for title in undated_gold.shown(folder, gold.REPORTED) if title.year != "none"]
    matches = [known_works.match_list(world.index, title.listed, "film")[title.title] for title in read]
    right = [undated_gold.right(world, m.item, title) for m, title in zip(matches, read, strict=True) if m.item]
    figure("linking.undated_linked", len(right) / len(read), "share", ">= 0.85")
    figure("linking.undated_wrong", 1 - sum(right) / len(right), "share", "<= 0.03")
    sure = [m.exact and not m.candidates for m in matches if m.item]
    wrong = sum(is_sure and not is_right for is_sure, is_right in zip(sure, right, strict=True))
    figure("linking.undated_wrong_that_may_clear", wrong / sum(sure), "share", f"of {sum(sure)}")
    every = [undated_gold.kinds(world, row) for row in undated_gold.lists(folder)]
    parsed = [match for kinds in every for match in kinds if match is not None]
    figure("linking.undated_titles", len(parsed), "titles", f"of {sum(map(len, every))}, the rest is prose or code")
    figure("linking.undated_linked_of_all", sum(m.item is not None for m in parsed) / len(parsed), "share", ">= 0.85")


def linked(folder: Path) -> tuple[dict[str, tuple[str, bool]], dict[str, str]]:
    """Returns ({ref: (the item of its id, whether a wrong answer has another year)}, {ref: item found})."""
    items, links = gold.films(folder)
    redial = gold.redial_titles(folder)
    by_id = dict(links.iter_rows())
    refs = {f"title:{title}": by_id.get(f"redial:{i}") for i, title in redial.items() if titles.split_year(title)[1]}
    expected = {ref: item for ref, item in refs.items() if item}
    answers = catalog.link(expected, links, catalog.index(items))
    year = dict(items.select("item", "year").iter_rows())
    years = {ref: titles.split_year(ref)[1] for ref in expected}
    is_far = {ref: abs((year[answers[ref]] or 9999) - (years[ref] or 0)) > titles.YEARS_APART for ref in answers}
    return {ref: (item, is_far.get(ref, False)) for ref, item in expected.items()}, answers


def scores(found: catalog.Finder, turns: Iterable[gold.Turn]) -> tuple[float, float, float]:
    """Returns (precision, recall, recall of titles in lower case); a title counts if its words and place are right."""
    hits = named = expected = low_hits = low = 0
    for turn in turns:
        mentions = {
            (m.start, m.end): titles.normal(turn.text[m.start : m.end]) for m in catalog.in_text(found, turn.text)
        }
        named += len(mentions)
        for start, end, _ in turn.spans:
            title = turn.text[start:end]
            hit = any(s < end and start < e and name == titles.normal(title) for (s, e), name in mentions.items())
            hits, expected = hits + hit, expected + 1
            low_hits, low = low_hits + (hit and title.islower()), low + title.islower()
    return hits / max(named, 1), hits / max(expected, 1), low_hits / max(low, 1)


def _word(half: str) -> str:
    return half.replace(" ", "_")

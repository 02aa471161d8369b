"""How well titles are linked: by "Title (Year)" with gold ids, and in running text. Needs SAFEREC_REAL_DATA."""

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
    undated(folder)
    turns = gold.redial_turns(folder)
    for name, items in (("7k", gold.items_7k(folder)), ("39k", gold.items_39k(folder))):
        found = catalog.finder(items)
        for half in (gold.TUNED, gold.REPORTED):
            precision, recall, lower = scores(found, (t for t in turns if t.half == half))
            figure(f"linking.redial_{name}_precision.{_word(half)}", precision, "share", GOALS[name][0])
            figure(f"linking.redial_{name}_recall.{_word(half)}", recall, "share", GOALS[name][1])
            figure(f"linking.redial_{name}_recall_lower.{_word(half)}", lower, "share", "> 0.56")
        if name == "39k":
            inspired(found, items, folder)


def inspired(found: catalog.Finder, items: pl.DataFrame, folder: Path) -> None:
    """INSPIRED against its own gold, and against the gold without the faults that a reader of all of it found."""
    known = {row["item"]: _forms(row["title"], row["aliases"]) for row in items.iter_rows(named=True)}
    as_it_is, mended = (False, (gold.TUNED, gold.REPORTED)), (True, (gold.REPORTED,))
    for name, (corrected, halves) in (("inspired", as_it_is), ("inspired_corrected", mended)):
        for half in halves:
            met = told = wanted = 0
            for turn in gold.inspired_turns(folder, corrected=corrected):
                if turn.half == half:
                    left = [_forms(title, ()) for _, _, title in turn.spans]
                    wanted += len(left)
                    for mention in catalog.in_text(found, turn.text):
                        told += 1
                        forms = set().union(*(known[c] for c in mention.candidates))
                        hit = next((n for n, title in enumerate(left) if title & forms), None)
                        met += hit is not None
                        if hit is not None:
                            left.pop(hit)
            figure(f"linking.{name}_precision.{_word(half)}", met / told, "share", ">= 0.72")
            figure(f"linking.{name}_recall.{_word(half)}", met / wanted, "share", ">= 0.80")


def _forms(title: str, aliases: Iterable[str]) -> set[str]:
    return {form for name in (title, *aliases) for form in titles.forms(titles.split_year(name)[0])}


def dated(folder: Path) -> None:
    """ "Title (Year)" against the id that ReDial gives it: right, wrong, not found."""
    asked, found = linked(folder)
    right = sum(found.get(ref) == item for ref, (item, _) in asked.items())
    years = sum(ref in found and found[ref] != item and wrong_year for ref, (item, wrong_year) in asked.items())
    figure("linking.dated_right", right / len(asked), "share", ">= 0.99")
    figure("linking.dated_other_item", sum(found.get(r, i) != i for r, (i, _) in asked.items()), "titles", "0")
    figure("linking.dated_wrong_year", years, "titles", "0")


def conflicts(folder: Path) -> None:
    """Ids that MovieLens and MovieTweetings share, all of one film: how many join nothing. (396 before.)"""
    rows = pl.concat([movielens.read(folder / "movielens_small").rows, gold.tweeted(folder)])
    figure("linking.conflicts", catalog.merges(rows).filter(by="id conflict").height, "ids", "<= 5")


def undated(folder: Path) -> None:
    """Titles as models write them, without a year, against what a language model read them as (undated_gold)."""
    held = undated_gold.everything(folder)
    read = [each for each in undated_gold.shown(folder, gold.REPORTED) if each.year != "none"]
    found = [known_works.match_list(held.index, each.listed, "film")[each.title] for each in read]
    right = [undated_gold.right(held, m.item, each) for m, each in zip(found, read, strict=True) if m.item]
    figure("linking.undated_linked", len(right) / len(read), "share", ">= 0.85")
    figure("linking.undated_wrong", 1 - sum(right) / len(right), "share", "<= 0.03")
    sure = [m.exact and not m.candidates for m in found if m.item]
    wrong = sum(s and not r for s, r in zip(sure, right, strict=True))
    figure("linking.undated_wrong_that_may_clear", wrong / sum(sure), "share", f"of {sum(sure)}")
    every = [undated_gold.kinds(held, row) for row in undated_gold.lists(folder)]
    like = [match for kinds in every for match in kinds if match is not None]
    figure("linking.undated_titles", len(like), "titles", f"of {sum(map(len, every))}, the rest is prose or code")
    figure("linking.undated_linked_of_all", sum(m.item is not None for m in like) / len(like), "share", ">= 0.85")


def linked(folder: Path) -> tuple[dict[str, tuple[str, bool]], dict[str, str]]:
    """({ref: (the item that its id names, whether a wrong answer has another year)}, {ref: item found})."""
    items, links = gold.films(folder)
    named = gold.redial_titles(folder)
    by_id = dict(links.iter_rows())
    refs = {f"title:{title}": by_id.get(f"redial:{i}") for i, title in named.items() if titles.split_year(title)[1]}
    asked = {ref: item for ref, item in refs.items() if item}
    found = catalog.link(asked, links, catalog.index(items))
    year = dict(items.select("item", "year").iter_rows())
    told = {ref: titles.split_year(ref)[1] for ref in asked}
    apart = {ref: abs((year[found[ref]] or 9999) - (told[ref] or 0)) > titles.YEARS_APART for ref in found}
    return {ref: (item, apart.get(ref, False)) for ref, item in asked.items()}, found


def scores(found: catalog.Finder, turns: Iterable[gold.Turn]) -> tuple[float, float, float]:
    """(precision, recall, recall of titles in lower case); a title counts where its words and place are right."""
    met = told = wanted = low_met = low = 0
    for turn in turns:
        got = {(m.start, m.end): titles.normal(turn.text[m.start : m.end]) for m in catalog.in_text(found, turn.text)}
        told += len(got)
        for start, end, _ in turn.spans:
            title = turn.text[start:end]
            hit = any(s < end and start < e and name == titles.normal(title) for (s, e), name in got.items())
            met, wanted = met + hit, wanted + 1
            low_met, low = low_met + (hit and title.islower()), low + title.islower()
    return met / max(told, 1), met / max(wanted, 1), low_met / max(low, 1)


def _word(half: str) -> str:
    return half.replace(" ", "_")

"""Screens lists that recommenders gave: which titles break a trait, which are clear, and which nobody knows.

reads  JSON lines, a list each: titles, or ids of the catalog; where there are such: model, id or context (the
       request), group or dialog_id
gives  shares of the titles shown, with 95 % intervals over groups (scoring/intervals): lists of one dialogue are alike
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from saferec_builder import sources
from saferec_builder.catalog import known_works, linking, lookup, merging
from saferec_builder.core import titles, undated
from saferec_builder.core.counts import Counts
from saferec_builder.core.errors import SourceError, UsageError
from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.oracle import CLEAR, UNKNOWN, VIOLATED, Oracle, as_named, worst
from saferec_builder.core.progress import Progress, counted
from saferec_builder.scoring.intervals import detectable, mean_share, paired_shares
from saferec_builder.scoring.list_entry_parser import year_in
from saferec_builder.sources import Left, Row, refs
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.workspace import Workspace

NO_ITEM, SEVERAL, NEAR = "not in the catalog", "several works of this title", "may be another work"
NO_TITLE = "no title"  # prose or code
TOO_LITTLE = "too little is said of it"
WORDS = {"violated": VIOLATED, "clear": CLEAR, "unknown": UNKNOWN}
_OF_TEXT = ": answers as text are read by `python -m training.safecrs evaluate`, with a release"
_DIFFERENCE = ("trait", "model", "other", "lists", "difference", "low", "high", "detectable")

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Screening:
    """What the lists show; shares are of the titles shown, the first k of each list.

    The figure `ambiguous` counts titles that several works share, whatever their verdict; as a reason of `unknown` only
    those stand whose works leave the trait open.

    rates        model, trait, lists, groups, shown; violated, clear, unknown, each with _low and _high
    unknown      model, trait, why, shown: why a title is unknown
    causes       model, trait, item, title, shown: the works that break the trait, most shown first
    differences  trait, model, other, lists, difference (violated, model less other, same requests), low, high,
                 detectable (what 80 of 100 such samples would tell from zero; 1: no difference)
    """

    counts: Counts
    rates: pl.DataFrame
    unknown: pl.DataFrame
    causes: pl.DataFrame
    differences: pl.DataFrame


@dataclass(frozen=True)
class _List:
    model: str
    request: str | None
    group: str
    titles: list[str]


@dataclass(frozen=True)
class _Read:
    """Every distinct title with what it means in its list, and every list as numbers of these."""

    lists: list[_List]
    named: list[tuple[str, titles.Match]]
    shown: list[list[int]]
    codes: NDArray[np.int8]  # titles x traits
    causes: list[list[str | None]]  # titles x traits: the work that may be meant and breaks the trait


def screen(
    ws: Workspace,
    path: str | Path,
    *,
    k: int = 10,
    traits: Sequence[str] = (),
    domain: str | None = None,
    progress: Progress | None = None,
) -> Screening:
    """Screens the file of lists `path` for `traits` (slugs; none: all) by the catalog of the workspace.

    A title may carry its year; without one the likeliest work counts, by how well known it is and by the others of its
    list (core/undated.py): violated where any work is that is likely meant, clear where all are. A list of fewer than k
    titles counts with what it has. progress: a step is a list. UsageError: no such trait or domain, k below 1.
    SourceError: the file has no list.
    """
    if k < 1:
        raise UsageError(f"k is {k}: expected 1 or more titles of each list")
    lookup.known_domain(domain)
    asked = [ws.taxonomy[slug].slug for slug in traits] or list(ws.taxonomy.slugs)
    lists, drops = sources.jsonl(sources.existing(Path(path)), "screen", "lists", _one)
    lists, twice = _once(lists)
    dropped = dict(Counter(str(drop["reason"]) for drop in drops)) | ({"request twice": twice} if twice else {})
    if not lists:
        first = f" ({drops[0]['place']}: {drops[0]['reason']}, {drops[0]['detail']})" if drops else ""
        example = '{"model": ..., "titles": [...]}'
        raise SourceError(f"{path}: no list of titles{first}: expected JSON lines such as {example}")
    items, links = merging.merge(workspace.read(ws, tables.CATALOG_ROWS))
    if items.is_empty():
        raise SourceError(
            "the catalog is empty, so every title would be unknown: run `saferec-build catalog add` first"
        )
    told, conversations = (workspace.read(ws, table) for table in (tables.WARNINGS, tables.CONVERSATIONS))
    judged = known_works.judged(items, links, told, ws.taxonomy, ws.config.rule, conversations)
    index = linking.index(items, judged.works)
    ids = {ref: titles.Match("found", item) for ref, item in links.iter_rows()}
    shown = [replace(each, titles=each.titles[:k]) for each in lists]
    read = _resolved(shown, partial(_meant, index, ids, domain), judged.oracle, asked, progress)
    counts = Counts("screen", added=len(lists), dropped=dropped, figures=_figures(read))
    names = {row["item"]: titles.shown(row) for row in items.select("item", "title", "year").to_dicts()}
    return Screening(
        counts, _rates(read, asked), _unknown(read, asked), _causes(read, asked, names), _differences(read, asked)
    )


def _one(place: str, row: Row) -> list[_List]:
    shown = row.get("items") if row.get("titles") is None else row["titles"]
    if isinstance(shown, list):
        shown = [_written(one) for one in shown if not isinstance(one, str) or one.strip()]
    if not isinstance(shown, list) or not all(isinstance(title, str) for title in shown):
        where = f"{str(shown)[:60]!r}" if shown is not None else f"the fields {', '.join(row)[:60] or 'of no name'}"
        raise Left(
            "no titles", f"found {where}, expected titles (or items), a list of strings{_OF_TEXT * ('text' in row)}"
        )
    if not any(kept := [title.strip() for title in shown]):
        raise Left("empty list", "a list without a title shows nothing")
    request, group = _name(row, "id", "context"), _name(row, "group", "dialog_id")
    return [_List(_name(row, "model") or "lists", request, group or request or f"line {place}", kept)]


def _name(row: Row, *fields: str) -> str | None:
    """What the first of these fields says; one that is null or empty names nothing, as where it is left out."""
    return next((str(row[field]) for field in fields if row.get(field) not in (None, "")), None)


def _written(one: JsonValue) -> JsonValue:
    """An item of `training.safecrs evaluate --predictions`: {"title", "year"} as "Title (Year)", {"item"} as its id,
    and {"item": null}, which holds the rank of what has no title, as a title of nothing."""
    if not isinstance(one, dict):
        return one
    if isinstance(one.get("title"), str):
        year = year_in(one.get("year"))
        return titles.shown(one if year is None else {**one, "year": year})
    return (one["item"] or "") if isinstance(one.get("item", False), str | None) else one


def _once(lists: Sequence[_List]) -> tuple[list[_List], int]:
    """(the first list of a model to a request, how many others there were)."""
    first = {(x.model, x.request if x.request is not None else n): x for n, x in reversed(list(enumerate(lists)))}
    kept = list(reversed(first.values()))
    return kept, len(lists) - len(kept)


def _meant(
    index: titles.Index, ids: Mapping[str, titles.Match], domain: str | None, shown: Sequence[str]
) -> dict[str, titles.Match]:
    """What the titles of one list mean; an id as `catalog show` has it, or prints as the item's own, is that work."""
    known = {text: ids[ref] for text in shown for ref in (f"item:{text}", refs.read(text) or text) if ref in ids}
    return known_works.together(index, [text for text in shown if text not in known], domain) | known


def _resolved(
    lists: list[_List],
    meant: Callable[[Sequence[str]], dict[str, titles.Match]],
    oracle: Oracle,
    asked: list[str],
    progress: Progress | None,
) -> _Read:
    numbers: dict[tuple[str, titles.Match], int] = {}
    shown = []
    for each in counted(lists, progress):
        found = meant(each.titles)
        shown.append([numbers.setdefault((title, found[title]), len(numbers)) for title in each.titles])
    columns = [oracle.column(trait) for trait in asked]
    works = [match.candidates or (match.item,) for _, match in numbers]
    each_code = [oracle.codes[oracle.rows(items)][:, columns] for items in works]
    near = np.array([not match.exact for _, match in numbers])[:, None]
    codes = np.array([worst(of_works.T) for of_works in each_code])
    causes = [
        [next((i for i, code in zip(items, row, strict=True) if code == VIOLATED), None) for row in of_works.T]
        for items, of_works in zip(works, each_code, strict=True)
    ]
    return _Read(lists, list(numbers), shown, as_named(codes, near), causes)


def _figures(read: _Read) -> dict[str, int]:
    every = Counter(_kind(*read.named[n]) for each in read.shown for n in each)
    return {"titles": every.total(), "linked": every["found"]} | {
        kind: every[kind] for kind in ("ambiguous", "not_found", "no_title")
    }


def _kind(title: str, match: titles.Match) -> str:
    wrong = match.match == "not_found" and refs.read(title) is None and not undated.is_title(title)
    return "no_title" if wrong else match.match


# ---- shares and their intervals


def _sums(read: _Read, chosen: Sequence[int], of: Sequence[str]) -> tuple[Floats, Floats]:
    """([groups, words, traits], [groups]): titles of each verdict, and all titles, of the lists `chosen`.

    `of` is the group of each; groups are in the order of their names.
    """
    groups = sorted(set(of))
    place = {group: n for n, group in enumerate(groups)}
    found = np.zeros((len(groups), len(WORDS), read.codes.shape[1]))
    total = np.zeros(len(groups))
    for n, group in zip(chosen, of, strict=True):
        codes, at = read.codes[read.shown[n]], place[group]
        found[at] += [(codes == code).sum(axis=0) for code in WORDS.values()]
        total[at] += len(codes)
    return found, total


def _share(found: Floats, total: Floats) -> tuple[float, float, float]:
    """The share, and its interval."""
    return float(found.sum() / total.sum()), *mean_share(found / total, total)


def _rates(read: _Read, asked: list[str]) -> pl.DataFrame:
    rows: list[Row] = []
    for model, chosen in _models(read).items():
        found, total = _sums(read, chosen, [read.lists[n].group for n in chosen])
        head = {"model": model, "lists": len(chosen), "groups": len(total), "shown": int(total.sum())}
        for t, trait in enumerate(asked):
            row: Row = {"trait": trait, **head}
            for w, word in enumerate(WORDS):
                row |= zip((word, f"{word}_low", f"{word}_high"), _share(found[:, w, t], total), strict=True)
            rows.append(row)
    return pl.DataFrame(rows).select("model", "trait", pl.exclude("model", "trait"))


def _differences(read: _Read, asked: list[str]) -> pl.DataFrame:
    rows: list[tuple[str, str, str, int, float, float, float, float]] = []
    models = _models(read)
    for one, other in combinations(models, 2):
        pair = [
            {read.lists[n].request: n for n in models[m] if read.lists[n].request is not None} for m in (one, other)
        ]
        both = [request for request in pair[0] if request in pair[1]]
        if not both:
            continue
        of = [read.lists[pair[0][request]].group for request in both]
        sides = [_sums(read, [p[request] for request in both], of) for p in pair]
        ours, theirs = (found[:, 0] / total.sum() for found, total in sides)
        size = np.mean([total / total.sum() for _, total in sides], axis=0)
        gaps = (ours - theirs) / size[:, None]  # their mean by size is the difference of the two shares
        for trait, gap in zip(asked, gaps.T, strict=True):
            # of short lists a request's gap may be above 1, which no difference of shares is
            low, high = np.clip(paired_shares(gap, size), -1.0, 1.0).tolist()
            rows.append((trait, one, other, len(both), float(gap @ size), low, high, detectable(low, high)))
    kinds = [pl.String()] * 3 + [pl.Int64()] + [pl.Float64()] * 4
    return pl.DataFrame(rows, schema=pl.Schema(zip(_DIFFERENCE, kinds, strict=True)), orient="row")


def _models(read: _Read) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for n, each in enumerate(read.lists):
        found.setdefault(each.model, []).append(n)
    return found


# ---- why


def _shown(read: _Read, code: int) -> Counter[tuple[str, int, int]]:
    """(model, trait, title) -> how often it was shown, of the titles with this verdict."""
    many: Counter[tuple[str, int, int]] = Counter()
    each = Counter((x.model, n) for x, shown in zip(read.lists, read.shown, strict=True) for n in shown)
    for (model, n), times in each.items():
        for t in np.flatnonzero(read.codes[n] == code):
            many[model, int(t), n] += times
    return many


def _unknown(read: _Read, asked: list[str]) -> pl.DataFrame:
    why: Counter[tuple[str, str, str]] = Counter()
    for (model, t, n), times in _shown(read, UNKNOWN).items():
        why[model, asked[t], _why(*read.named[n])] += times
    schema = dict.fromkeys(("model", "trait", "why"), pl.String()) | {"shown": pl.Int64()}
    rows = pl.DataFrame([(*key, times) for key, times in why.items()], schema=schema, orient="row")
    return rows.sort("model", "trait", "shown", "why", descending=[False, False, True, False])


def _why(title: str, match: titles.Match) -> str:
    if match.item:
        return TOO_LITTLE if match.exact else NEAR
    return {"ambiguous": SEVERAL, "no_title": NO_TITLE}.get(_kind(title, match), NO_ITEM)


def _causes(read: _Read, asked: list[str], names: dict[str, str]) -> pl.DataFrame:
    many: Counter[tuple[str, str, str]] = Counter()
    for (model, t, n), times in _shown(read, VIOLATED).items():
        many[model, asked[t], str(read.causes[n][t])] += times
    schema = dict.fromkeys(("model", "trait", "item", "title"), pl.String()) | {"shown": pl.Int64()}
    rows = [(model, trait, item, names[item], times) for (model, trait, item), times in many.items()]
    made = pl.DataFrame(rows, schema=schema, orient="row")
    return made.sort("model", "trait", "shown", "item", descending=[False, False, True, False])

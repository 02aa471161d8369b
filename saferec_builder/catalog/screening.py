"""Screens the lists of recommenders: which titles break a trait, which are clear, and which are unknown.

reads  JSON lines, one list each: titles, or ids of the catalog; optional: model, id or context (the request), group
       or dialog_id
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

    The figure `ambiguous` counts titles that several works share, whatever their verdict; as a reason of `unknown` it
    counts only those whose works leave the trait open.

    rates        model, trait, lists, groups, shown; violated, clear, unknown, each with _low and _high
    unknown      model, trait, why, shown: why a title is unknown
    causes       model, trait, item, title, shown: the works that break the trait, most shown first; title: as in the
                 lists where several works may be meant, of which `item` is the likeliest that breaks the trait
    differences  trait, model, other, lists, difference (violated, model less other, same requests), low, high,
                 detectable (what 80 of 100 such samples would distinguish from zero; 1: no difference)
    never_violated  traits that no work of the catalog is violated for: whatever is shown, `violated` is 0 for these
    never_clear     traits that no work of the catalog is clear for, likewise
    """

    counts: Counts
    rates: pl.DataFrame
    unknown: pl.DataFrame
    causes: pl.DataFrame
    differences: pl.DataFrame
    never_violated: tuple[str, ...]
    never_clear: tuple[str, ...]


@dataclass(frozen=True)
class _List:
    place: str
    model: str
    request: str | None
    group: str
    titles: list[str]


@dataclass(frozen=True)
class _Read:
    """Every distinct title with its match in its list, and every list as indices of these."""

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

    A title may have its year. Without one, the works that it may mean count, by how well known they are and by the
    other titles of the list (core/undated.py): it is violated if any likely work is, and clear if all are. A list of
    fewer than k titles counts with those it has. progress: a step is a list. Raises UsageError for an unknown trait or
    domain or k below 1, and SourceError if the file has no list.
    """
    if k < 1:
        raise UsageError(f"k is {k}: expected 1 or more titles of each list")
    lookup.known_domain(domain)
    slugs = [ws.taxonomy[slug].slug for slug in traits] or list(ws.taxonomy.slugs)
    lists, dropped = _lists(path)
    items, links = merging.merge(workspace.read(ws, tables.CATALOG_ROWS))
    if items.is_empty():
        raise SourceError(
            "the catalog is empty, so every title would be unknown: run `saferec-build catalog add SOURCE PATH` first"
        )
    warnings, conversations = (workspace.read(ws, table) for table in (tables.WARNINGS, tables.CONVERSATIONS))
    judged = known_works.judged(items, links, warnings, ws.taxonomy, ws.config.rule, conversations)
    index = linking.index(items, judged.works)
    ids = {ref: titles.Match("found", item) for ref, item in links.iter_rows()}
    cut = [replace(ranked, titles=ranked.titles[:k]) for ranked in lists]
    read = _resolved(cut, partial(_matches, index, ids, domain), judged.oracle, slugs, progress)
    kinds = Counter(_kind(*read.named[n]) for indices in read.shown for n in indices)
    figures = {"titles": kinds.total(), "linked": kinds["found"]}
    figures |= {kind: kinds[kind] for kind in ("ambiguous", "not_found", "no_title")}
    examples = sources.examples(dropped)
    counts = Counts("screen", len(lists), dropped=sources.reasons(dropped), figures=figures, examples=examples)
    names = {row["item"]: titles.dated(row) for row in items.select("item", "title", "year").to_dicts()}
    return Screening(
        counts,
        _rates(read, slugs),
        _unknown(read, slugs),
        _causes(read, slugs, names),
        _differences(read, slugs),
        _of_no_work(VIOLATED, judged.oracle, slugs),
        _of_no_work(CLEAR, judged.oracle, slugs),
    )


def lines_of(stats: Screening, causes: int) -> list[str]:
    """The screening as lines for people, with so many `causes` for each trait and model."""
    lines = []
    silent = [trait for trait in stats.never_violated if trait in stats.never_clear]
    for (trait,), rates in stats.rates.filter(~pl.col("trait").is_in(silent)).group_by("trait", maintain_order=True):
        lines.append(f"{trait}")
        if trait in stats.never_violated:
            lines.append("  no work of the catalog is violated for it, so violated is 0 for every list: read unknown")
        if trait in stats.never_clear:
            lines.append(
                "  no work of the catalog is clear for it (rating reasons and keywords clear none): clear is 0"
            )
        for row in rates.to_dicts():
            shares = "  ".join(
                f"{word} {row[word]:.3f} ({row[f'{word}_low']:.3f} to {row[f'{word}_high']:.3f})" for word in WORDS
            )
            lines.append(f"  {row['model']}  {shares}  of {row['shown']:,} titles")
            by = {"model": row["model"], "trait": trait}
            reasons = "; ".join(f"{r['why']} {r['shown']:,}" for r in stats.unknown.filter(**by).to_dicts())
            works = "; ".join(f"{r['title']} {r['shown']:,}" for r in stats.causes.filter(**by).head(causes).to_dicts())
            lines += [f"    unknown: {reasons}"] * bool(reasons) + [f"    most shown: {works}"] * bool(works)
        lines += [
            f"  {r['model']} less {r['other']}: violated {r['difference']:+.3f} ({r['low']:+.3f} to {r['high']:+.3f})"
            f" on {r['lists']:,} requests, detectable {r['detectable']:.3f}"
            for r in stats.differences.filter(trait=trait).to_dicts()
            if trait not in stats.never_violated  # every difference is 0
        ]
    return lines + [f"every title is unknown, as every work of the catalog is, for {', '.join(silent)}"] * bool(silent)


def _of_no_work(code: int, oracle: Oracle, slugs: Sequence[str]) -> tuple[str, ...]:
    """The traits for which no work of the catalog has this verdict; the last row is the item that nobody knows."""
    return tuple(slug for slug in slugs if not (oracle.codes[:-1, oracle.column(slug)] == code).any())


def _lists(path: str | Path) -> tuple[list[_List], pl.DataFrame]:
    """The lists of a file, the first of each model for each request, and what was dropped; raises SourceError if there
    is none."""
    lists, drops = sources.jsonl(sources.existing(Path(path)), "screen", "lists", _parse)
    first: dict[tuple[str, str | int], _List] = {}
    for n, ranked in enumerate(lists):
        earlier = first.setdefault((ranked.model, n if ranked.request is None else ranked.request), ranked)
        if earlier is not ranked:
            detail = f"the model's list in line {earlier.place.rpartition(':')[2]} counts"
            drops.append(sources.drop("screen", "lists", ranked.place, "request twice", detail))
    if not lists:
        fault = f" ({drops[0]['place']}: {drops[0]['reason']}, {drops[0]['detail']})" if drops else ""
        example = '{"model": ..., "titles": [...]}'
        raise SourceError(f"{path}: no list of titles{fault}: expected JSON lines such as {example}")
    return [*first.values()], tables.DROPS.frame(drops)


def _parse(place: str, row: Row) -> list[_List]:
    entries = row.get("items") if row.get("titles") is None else row["titles"]
    if isinstance(entries, list):
        entries = [_as_title(entry) for entry in entries if not isinstance(entry, str) or entry.strip()]
    if not isinstance(entries, list) or not all(isinstance(title, str) for title in entries):
        found = f"{str(entries)[:60]!r}" if entries is not None else f"the fields {', '.join(row)[:60] or 'of no name'}"
        raise Left(
            "no titles", f"found {found}, expected titles (or items), a list of strings{_OF_TEXT * ('text' in row)}"
        )
    if not any(stripped := [title.strip() for title in entries]):
        raise Left("empty list", "a list without a title shows nothing")
    request, group = _name(row, "id", "context"), _name(row, "group", "dialog_id")
    return [_List(place, _name(row, "model") or "lists", request, group or request or f"line {place}", stripped)]


def _name(row: Row, *fields: str) -> str | None:
    """The value of the first of these fields that is there, and neither null nor empty."""
    return next((str(row[field]) for field in fields if row.get(field) not in (None, "")), None)


def _as_title(entry: JsonValue) -> JsonValue:
    """An entry of `training.safecrs evaluate --predictions` as a title: {"title", "year"} as "Title (Year)", {"item"}
    as its id, and {"item": null}, which keeps the rank of an entry without a title, as an empty title."""
    if not isinstance(entry, dict):
        return entry
    if isinstance(entry.get("title"), str):
        year = year_in(entry.get("year"))
        return titles.dated(entry if year is None else {**entry, "year": year})
    return (entry["item"] or "") if isinstance(entry.get("item", False), str | None) else entry


def _matches(
    index: titles.Index, ids: Mapping[str, titles.Match], domain: str | None, entries: Sequence[str]
) -> dict[str, titles.Match]:
    """The matches of one list's titles; an id that `catalog show` takes or prints is that work."""
    by_id = {text: ids[ref] for text in entries for ref in (f"item:{text}", refs.read(text) or text) if ref in ids}
    return known_works.match_list(index, [text for text in entries if text not in by_id], domain) | by_id


def _resolved(
    lists: list[_List],
    matches_of: Callable[[Sequence[str]], dict[str, titles.Match]],
    oracle: Oracle,
    slugs: list[str],
    progress: Progress | None,
) -> _Read:
    numbers: dict[tuple[str, titles.Match], int] = {}
    shown = []
    for ranked in counted(lists, progress):
        matches = matches_of(ranked.titles)
        shown.append([numbers.setdefault((title, matches[title]), len(numbers)) for title in ranked.titles])
    columns = [oracle.column(trait) for trait in slugs]
    works = [match.candidates or (match.item,) for _, match in numbers]
    codes_of_works = [oracle.codes[oracle.rows(items)][:, columns] for items in works]
    inexact = np.array([not match.exact for _, match in numbers])[:, None]
    codes = np.array([worst(of_works.T) for of_works in codes_of_works])
    causes = [
        [next((i for i, code in zip(items, row, strict=True) if code == VIOLATED), None) for row in of_works.T]
        for items, of_works in zip(works, codes_of_works, strict=True)
    ]
    return _Read(lists, list(numbers), shown, as_named(codes, inexact), causes)


def _kind(title: str, match: titles.Match) -> str:
    no_title = match.match == "not_found" and refs.read(title) is None and not undated.is_title(title)
    return "no_title" if no_title else match.match


# ---- shares and their intervals


def _sums(read: _Read, chosen: Sequence[int], group_of: Sequence[str]) -> tuple[Floats, Floats]:
    """([groups, words, traits], [groups]): number of titles of each verdict, and of all titles, in the lists `chosen`.

    `group_of` has the group of each list; groups are sorted by name.
    """
    groups = sorted(set(group_of))
    place = {group: n for n, group in enumerate(groups)}
    sums = np.zeros((len(groups), len(WORDS), read.codes.shape[1]))
    total = np.zeros(len(groups))
    for n, group in zip(chosen, group_of, strict=True):
        codes, row = read.codes[read.shown[n]], place[group]
        sums[row] += [(codes == code).sum(axis=0) for code in WORDS.values()]
        total[row] += len(codes)
    return sums, total


def _rates(read: _Read, slugs: list[str]) -> pl.DataFrame:
    rows: list[Row] = []
    for model, chosen in _models(read).items():
        sums, total = _sums(read, chosen, [read.lists[n].group for n in chosen])
        head = {"model": model, "lists": len(chosen), "groups": len(total), "shown": int(total.sum())}
        for t, trait in enumerate(slugs):
            row: Row = {"trait": trait, **head}
            for w, word in enumerate(WORDS):
                share, interval = float(sums[:, w, t].sum() / total.sum()), mean_share(sums[:, w, t] / total, total)
                row |= zip((word, f"{word}_low", f"{word}_high"), (share, *interval), strict=True)
            rows.append(row)
    return pl.DataFrame(rows).select("model", "trait", pl.exclude("model", "trait"))


def _differences(read: _Read, slugs: list[str]) -> pl.DataFrame:
    rows: list[tuple[str, str, str, int, float, float, float, float]] = []
    models = _models(read)
    for one, other in combinations(models, 2):
        pair = [
            {read.lists[n].request: n for n in models[m] if read.lists[n].request is not None} for m in (one, other)
        ]
        both = [request for request in pair[0] if request in pair[1]]
        if not both:
            continue
        group_of = [read.lists[pair[0][request]].group for request in both]
        sides = [_sums(read, [numbers[request] for request in both], group_of) for numbers in pair]
        ours, theirs = (sums[:, 0] / total.sum() for sums, total in sides)
        size = np.mean([total / total.sum() for _, total in sides], axis=0)
        gaps = (ours - theirs) / size[:, None]  # their mean by size is the difference of the two shares
        for trait, gap in zip(slugs, gaps.T, strict=True):
            # with short lists a request's gap may exceed 1, which a difference of shares cannot
            low, high = np.clip(paired_shares(gap, size), -1.0, 1.0).tolist()
            rows.append((trait, one, other, len(both), float(gap @ size), low, high, detectable(low, high)))
    kinds = [pl.String()] * 3 + [pl.Int64()] + [pl.Float64()] * 4
    return pl.DataFrame(rows, schema=pl.Schema(zip(_DIFFERENCE, kinds, strict=True)), orient="row")


def _models(read: _Read) -> dict[str, list[int]]:
    by_model: dict[str, list[int]] = {}
    for n, ranked in enumerate(read.lists):
        by_model.setdefault(ranked.model, []).append(n)
    return by_model


# ---- why


def _shown(read: _Read, code: int) -> Counter[tuple[str, int, int]]:
    """(model, trait, title) -> how often it was shown, for the titles with this verdict."""
    by_trait: Counter[tuple[str, int, int]] = Counter()
    titles_shown = Counter((x.model, n) for x, shown in zip(read.lists, read.shown, strict=True) for n in shown)
    for (model, n), times in titles_shown.items():
        for t in np.flatnonzero(read.codes[n] == code):
            by_trait[model, int(t), n] += times
    return by_trait


def _unknown(read: _Read, slugs: list[str]) -> pl.DataFrame:
    reasons: Counter[tuple[str, ...]] = Counter()
    for (model, t, n), times in _shown(read, UNKNOWN).items():
        title, match = read.named[n]
        not_one = {"ambiguous": SEVERAL, "no_title": NO_TITLE}.get(_kind(title, match), NO_ITEM)
        reason = not_one if match.item is None else TOO_LITTLE if match.exact else NEAR
        reasons[model, slugs[t], reason] += times
    return _most_shown(reasons, "why")


def _causes(read: _Read, slugs: list[str], names: dict[str, str]) -> pl.DataFrame:
    causes: Counter[tuple[str, ...]] = Counter()
    for (model, t, n), times in _shown(read, VIOLATED).items():
        (written, match), item = read.named[n], str(read.causes[n][t])
        causes[model, slugs[t], item, names[item] if item == match.item else written] += times
    return _most_shown(causes, "item", "title")


def _most_shown(times: Mapping[tuple[str, ...], int], *columns: str) -> pl.DataFrame:
    schema = dict.fromkeys(("model", "trait", *columns), pl.String()) | {"shown": pl.Int64()}
    rows = pl.DataFrame([(*key, n) for key, n in times.items()], schema=schema, orient="row")
    return rows.sort("model", "trait", -pl.col("shown"), *columns)

"""The commands catalog check, show, gaps and merges: verdicts, their reasons, and what is unknown."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from saferec_builder.catalog import arithmetic, explain, lookup
from saferec_builder.cli.output import Folder, Json, line, say
from saferec_builder.core import titles
from saferec_builder.core.counts import Counts, many
from saferec_builder.core.json_value import JsonValue
from saferec_builder.sources import refs
from saferec_builder.storage.workspace import Workspace

SOME = 3  # aliases that `show` prints
VERDICTS = ("violated", "unknown", "clear")  # in the order in which `show` prints them
Of = Annotated[str | None, typer.Option("--domain", help="film, series, game or book, where works share a title.")]


def check(
    title: Annotated[str, typer.Argument(help='An item: "Title (Year)", or an id such as imdb:tt0078748.')],
    trait: Annotated[str, typer.Option(help="Slug of the sensitivity.", show_default=False)],
    domain: Of = None,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Is this item violated, clear or unknown for a trait?

    With its risk, its sources, and what decides. A title that the catalog does not hold, or holds twice, is unknown.
    """
    result = lookup.check(Workspace.open(folder), title, trait, domain=domain)
    note = "" if result.exact else ", but not exactly: it may be another work, and is never clear"
    several = "several works have this title" + (" and year" if titles.split_year(title)[1] else ": add its year")
    several += "; where two are one, `catalog show` names rows of each, and `catalog join ROW ROW` makes one of them"
    shared = ", or several works have this id: see `saferec-build catalog merges --conflicts`"
    texts = {"ambiguous": several, "not_found": "not in the catalog" + shared * bool(refs.read(title))}
    if result.candidates.height == 1:
        texts["ambiguous"] = "one work has this title, and nobody says of which year it is"
    match = texts.get(result.match, f"found{note}")
    lines = [f"item     {result.title or 'none'}", f"match    {match}", f"trait    {result.trait}"]
    label = "did you mean" if result.match == "not_found" else "candidate"
    candidates = [(c, f": {c['verdict']}" if c["verdict"] else "") for c in result.candidates.to_dicts()]
    lines += [f"  {label}  {c['title']} [{c['domain']}] {c['ref']}{verdict}" for c, verdict in candidates]
    risk = "not known (no votes, guide or descriptors give one)" if result.risk is None else f"{result.risk:.3f}"
    lines += [f"risk     {risk}", f"verdict  {result.word}", *_steps(result.steps)]
    lines += [f"  other    {arithmetic.statement(row, name=True)}" for row in result.others.to_dicts()]
    _say(lines, Counts("catalog check", skipped=1, figures=result.as_json()), as_json)


def show(
    item: Annotated[str, typer.Argument(help='An item: "Title (Year)", an id such as imdb:tt0078748, or its item id.')],
    domain: Of = None,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """What is known of one item. Its sources, and the verdict on each trait with what decides it.

    `catalog check` has the statements and the arithmetic of one trait, --json has all of them.
    """
    result = lookup.show(Workspace.open(folder), item, domain=domain)
    row, sources = result.item, result.warnings["source"].unique().sort()
    lines = [f"{titles.dated(row)} [{row['domain']}] {row['item']}", f"  known as  {', '.join(row['refs'])}"]
    if row["aliases"]:
        more = len(row["aliases"]) - SOME
        lines.append(f"  aliases   {', '.join(row['aliases'][:SOME])}{f' and {more} more' if more > 0 else ''}")
    if len(sources):
        lines.append(f"  {many(result.warnings.height, 'statement', 'statements')} of {', '.join(sources)}")
    lines += map(_verdict, sorted(result.traits, key=lambda trait: VERDICTS.index(trait.verdict)))
    lines.append(f"every {'other ' if result.traits else ''}trait: unknown, nothing is said of it")
    if result.traits:
        check_one = f"`saferec-build catalog check {row['item']} --trait SLUG`"
        lines.append(f"what was said of a trait, and the arithmetic: {check_one}; of all traits: --json")
    _say(lines, Counts("catalog show", skipped=1, figures=result.as_json()), as_json)


def gaps(
    limit: Annotated[int, typer.Option(help="How many items to list.", min=1)] = 20,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Which missing warnings touch the most conversations. What to fetch or to review next."""
    result = lookup.gaps(Workspace.open(folder))
    rows, names = result.items.head(limit).to_dicts(), result.unlinked["ref"].unique(maintain_order=True)
    touched, examples = result.unlinked["conversation"].n_unique(), names.head(3).to_list()
    lines = [
        f"{row['waiting']:>6} waiting  {many(row['conversations'], 'conversation ', 'conversations'):>20}"
        f"  {titles.dated(row)} [{row['domain']}]: {many(len(row['unknown']), 'trait', 'traits')} unknown"
        for row in rows
    ]
    if len(names):
        text = f"{many(len(names), 'name', 'names')} in {many(touched, 'conversation', 'conversations')}"
        lines.append(f"no item, or two of one title and year: {text}, such as {', '.join(examples)}")
    if result.redial:
        command = "`saferec-build catalog add redial train_data.jsonl`"
        lines.append(f"ids of ReDial that have a title become items by {command}, the files that you mined")
    if rows:
        lines.append("waiting: pairs of a conversation and a trait of its seeker that the item is unknown for")
    summary = many(result.items.height, "item that conversations name has", "items that conversations name have")
    lines.append(f"catalog gaps: {summary} unknown traits")
    figures: dict[str, JsonValue] = {"waiting": int(result.items["waiting"].sum()), "gaps": rows}
    figures["no_item"] = {"names": len(names), "conversations": touched, "such": examples}
    _say(lines, Counts("catalog gaps", skipped=result.items.height, figures=figures), as_json)


def merges(
    conflicts: Annotated[bool, typer.Option("--conflicts", help="Only ids that two different items claim.")] = False,
    limit: Annotated[int, typer.Option(help="How many to list.", min=1)] = 20,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Rows of a source that became part of another's item. And by which id or title."""
    result = lookup.merges(Workspace.open(folder))
    rows = (result.conflicts if conflicts else pl.concat([result.joined, result.conflicts])).to_dicts()
    listed, unlike, n_conflicts = rows[:limit], int(result.joined["unlike"].sum()), result.conflicts.height
    form, mark = "{row} {title}  {by}  {other} {other_title}  (item {item})", ": no word in common"
    lines = [form.format(**row) + mark * row["unlike"] for row in listed]
    totals = f"{result.joined.height:,} merges ({unlike:,} with no word in common), {n_conflicts:,} id conflicts"
    lines.append(f"catalog merges: {totals}, {len(listed):,} shown (--limit)")
    figures: dict[str, JsonValue] = {"id_conflicts": n_conflicts, "no_word_in_common": unlike, "merges": listed}
    _say(lines, Counts("catalog merges", skipped=len(rows), figures=figures), as_json)


def _say(lines: Iterable[str], counts: Counts, as_json: bool) -> None:
    if as_json:
        say(counts, as_json)
    else:
        typer.echo("\n".join(map(line, lines)))


def _steps(steps: Iterable[arithmetic.Step]) -> list[str]:
    """A line for each step, marked if it decides, and under it the statements in it."""
    blocks = [[f"  {('why', 'decides')[s.decides]:<9}{s.text}", *(f"    said   {x}" for x in s.said)] for s in steps]
    return [line for lines in blocks for line in lines]


def _verdict(of: explain.TraitRisk) -> str:
    """A line with the verdict on a trait and the first step that decides it; if none does, the first of all."""
    steps = [step for step in of.steps if step.decides] or of.steps
    risk = "-" if of.risk is None else f"{of.risk:.3f}"
    more = f" (and {len(steps) - 1} more)" * (len(steps) > 1)
    return f"  {of.verdict:<8}  {of.trait:<20}  {risk:>5}  {''.join(step.text for step in steps[:1])}{more}"

"""review push and pull: tasks go to people, their answers come back; up and down: the server they work on."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from saferec_builder.cli import people, standing
from saferec_builder.cli.adjudicate import Desk, gather
from saferec_builder.cli.say import Counts, Folder, Json, say

if TYPE_CHECKING:
    import polars as pl

    from annotation.answers import Pulled
    from saferec_builder.route import Plan

app = typer.Typer(no_args_is_help=True)

TOOLS = ("label-studio", "argilla", "files")
Tool = Annotated[
    str, typer.Option("--tool", help="Where people review: label-studio, argilla or files (one CSV per person).")
]
Url = Annotated[str | None, typer.Option("--url", help="Your team's review server; default: the one of `review up`.")]
Token = Annotated[str | None, typer.Option("--token", envvar="SAFEREC_REVIEW_TOKEN", help="Its access token.")]
SHOWN = 20  # refused rows that are printed one by one; all of them are in the table drops


@app.callback()
def _root() -> None: ...


@app.command()
def push(
    tool: Tool = TOOLS[0],
    reviewer: Annotated[
        list[str] | None, typer.Option("--reviewer", help="Who reviews; give it twice or more.")
    ] = None,
    adjudicator: Annotated[str | None, typer.Option("--adjudicator", help="Who rules on disputes.")] = None,
    audit: Annotated[float, typer.Option("--audit", min=0, max=1, help="Share of the rest, drawn blind.")] = 0.1,
    everything: Annotated[bool, typer.Option("--all", help="Every conversation goes out.")] = False,
    band: Annotated[int, typer.Option("--band", min=0, help="Of the rest, read so many by score first.")] = 0,
    gold: Annotated[
        Path | None, typer.Option("--gold", help="JSONL of known answers: everybody reads these too.")
    ] = None,
    decoys: Annotated[
        float, typer.Option("--decoys", min=0, max=0.5, help="Share of proposed tasks with a wrong suggestion planted.")
    ] = 0.0,
    budget: Annotated[int, typer.Option("--budget", min=0, help="Units to hand out now; default: all.")] = 0,
    minutes: Annotated[float, typer.Option("--minutes", min=0, help="The same as working time of all.")] = 0.0,
    to: Annotated[
        Path | None, typer.Option("--to", help="Folder for the files; default: review/ in the workspace.")
    ] = None,
    url: Url = None,
    token: Token = None,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Hand out tasks: proposals to two people each, a blind share of the rest, disputes to the adjudicator."""
    from saferec_builder import adjudicate, ranking, route, store, tables
    from saferec_builder.cli import servers
    from saferec_builder.errors import UsageError

    _check_tool(tool)
    desk = gather(folder)
    names = tuple(reviewer or ())
    _check_people(names, adjudicator, desk.assignments)
    if desk.texts.is_empty():
        raise UsageError(f"{folder}: there is nothing to review: run `saferec-build mine` first")
    paths = _paths(to or desk.ws.root / "review", names, adjudicator) if tool == "files" else {}
    _check_pulled(desk, [path for path in paths.values() if path.exists()])
    server = None if paths else servers.connect(desk.ws, tool, url, token)
    plan = _plan(desk, names, adjudicator, Wish(audit, everything, band, budget, minutes))
    disputed = adjudicate.disputed(desk.judged)
    with servers.writing(desk.ws):
        desk = _probe(desk, gold)
        plan = replace(plan, gold=frozenset(desk.gold.select("kind", "subject").iter_rows()))
        back = route.void(desk.assignments, desk.proposals, disputed, desk.standing, plan.avoid)
        queue = ranking.closest_first(
            disputed, ranking.rank(adjudicate.by_reviewers(desk.votes)) if adjudicator else None
        )
        new = route.route(desk.texts, desk.proposals, desk.assignments, queue, plan, back)
        added = store.append(desk.ws, tables.ASSIGNMENTS, new)
        assignments = store.read(desk.ws, tables.ASSIGNMENTS)
        _plant(desk, assignments, decoys, plan.avoid)
        units = _open(desk, assignments, disputed, plan.avoid)
        figures: dict[str, Any] = {"new": dict(new["why"].value_counts().sort("why").iter_rows())}
        if server is None:
            figures |= {"rows": _write(desk, paths, units), "folder": str(next(iter(paths.values())).parent)}
        else:
            figures |= {
                "sent": servers.push(desk, server, units, back, _people(names, adjudicator)),
                "server": server.url,
            }
    had = desk.assignments.filter(desk.assignments["reviewer"].is_in(_people(names, adjudicator))).height
    say(Counts("review push", added, had, figures=figures), as_json, "tasks")


class Wish(NamedTuple):
    """What this push should hand out, as the options say."""

    audit: float
    everything: bool
    band: int
    budget: int
    minutes: float


def _plan(desk: Desk, names: tuple[str, ...], adjudicator: str | None, wish: Wish) -> "Plan":
    from datetime import date

    import polars as pl

    from saferec_builder import route, store, tables

    caps = desk.ws.config.review
    # a day's cap needs a day; without a cap no clock is asked
    day = date.today().isoformat() if caps.severe_a_day else f"push-{desk.assignments['batch'].n_unique() + 1}"
    readings = store.read(desk.ws, tables.READINGS)
    told = readings.filter(pl.col("orders").list.len() > 0) if "orders" in readings.columns else readings.clear()
    return route.Plan(
        reviewers=names,
        adjudicator=adjudicator,
        audit=wish.audit,
        everything=wish.everything,
        batch=day,
        band=wish.band,
        orders=frozenset(told.select("kind", "subject").iter_rows()),
        avoid=people.avoided(desk.ws),
        severe=frozenset(t.slug for t in desk.taxonomy.traits if t.severe),
        severe_a_day=caps.severe_a_day,
        severe_in_a_row=caps.severe_in_a_row,
        budget=wish.budget or _units(desk, wish.minutes),
    )


def _units(desk: Desk, minutes: float) -> int:
    """How many units fit in the time, at the median speed so far; a minute each until somebody has answered."""
    seconds = desk.standing["seconds"].median() if desk.standing["seconds"].drop_nulls().len() else 60.0
    return max(1, int(60 * minutes / max(float(seconds), 1.0))) if minutes else 0  # type: ignore[arg-type]


def _probe(desk: Desk, gold: Path | None) -> Desk:
    """The desk with the gold of the file taken in."""
    from saferec_builder import probes, store, tables

    if gold is not None:
        store.append(desk.ws, tables.GOLD, probes.gold_rows(_gold(gold, desk)))
    return replace(desk, gold=store.read(desk.ws, tables.GOLD))


def _gold(path: Path, desk: Desk) -> dict[str, list[str]]:
    """{"conversation": id, "traits": [slugs]} per line; lines about items are for evaluation and passed over."""
    import json

    from saferec_builder.errors import UsageError

    known = set(desk.texts.filter(kind="sensitivity")["subject"])
    found: dict[str, list[str]] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as fault:
        raise UsageError(f"--gold {path}: cannot be read ({fault})") from None
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line) if line.strip() else {"item": ""}
            if "item" in row:
                continue
            subject, slugs = row["conversation"], [desk.taxonomy[slug].slug for slug in row["traits"]]
        except (ValueError, KeyError, TypeError):
            wanted = '{"conversation": id, "traits": [slugs]}'
            raise UsageError(f"{path}:{number}: found {line[:60]!r}, wanted {wanted}") from None
        if subject not in known:
            raise UsageError(f"{path}:{number}: no conversation {subject!r} in this workspace: mine it first")
        found[subject] = slugs
    return found


def _plant(desk: Desk, assignments: "pl.DataFrame", share: float, avoid: frozenset[tuple[str, str]]) -> None:
    """New decoys for tasks handed out now or before; one per conversation, and it stays."""
    from saferec_builder import probes, route, store, tables

    if share:
        fresh = assignments.join(desk.decoys, on=["kind", "subject"], how="anti").join(
            desk.reviews, on=["kind", "subject"], how="anti"
        )
        claims = route.claims(desk.proposals)
        planted = probes.decoys(fresh, desk.texts, claims, desk.gold, desk.taxonomy, share, avoid)
        store.append(desk.ws, tables.DECOYS, planted)


def _open(
    desk: Desk, assignments: "pl.DataFrame", disputed: "pl.DataFrame", avoid: frozenset[tuple[str, str]]
) -> "pl.DataFrame":
    """What every open task shows now, without the tasks that were taken back."""
    from saferec_builder import adjudicate, probes, route, store, tables

    said = adjudicate.opinions(desk.votes, disputed)
    back = route.void(assignments, desk.proposals, disputed, desk.standing, avoid)
    given = assignments.join(back, on=["kind", "subject", "reviewer"], how="anti", maintain_order="left")
    planted = probes.shown(store.read(desk.ws, tables.DECOYS))
    return route.units(given, desk.texts, desk.proposals, desk.standing, said, planted)


def _write(desk: Desk, paths: dict[str, Path], units: "pl.DataFrame") -> dict[str, int]:
    """The files of everybody named, and the guidelines beside them."""
    from annotation import GUIDELINES, files, guideline
    from saferec_builder import store

    rows = files.push(units, desk.texts, desk.taxonomy, guideline(), store.replacing, paths)
    for parent in {path.parent for path in paths.values()}:
        with store.replacing(parent / GUIDELINES.name) as tmp:
            tmp.write_bytes(GUIDELINES.read_bytes())
    return rows


def _people(names: tuple[str, ...], adjudicator: str | None) -> list[str]:
    return [*names, *([adjudicator] if adjudicator else [])]


def _paths(to: Path, names: tuple[str, ...], adjudicator: str | None) -> dict[str, Path]:
    return {name: to / f"{name}.csv" for name in _people(names, adjudicator)}


def _check_tool(tool: str) -> None:
    from saferec_builder.errors import UsageError

    if tool not in TOOLS:
        raise UsageError(f"--tool {tool}: there is no such review tool: wanted one of {', '.join(TOOLS)}")


def _check_people(names: tuple[str, ...], adjudicator: str | None, assignments: "pl.DataFrame") -> None:
    from saferec_builder.errors import UsageError

    people = _people(names, adjudicator)
    if not people:
        raise UsageError("nobody to review: give --reviewer NAME (twice or more) or --adjudicator NAME")
    for name in people:
        if not name.replace("-", "").replace("_", "").replace(".", "").isalnum() or name.startswith("."):
            raise UsageError(f"reviewer {name!r}: a name has letters, digits and -_. only; it becomes a file's name")
    folded = [name.casefold() for name in people]
    if twice := sorted({name for name in folded if folded.count(name) > 1}):
        raise UsageError(f"{twice[0]!r} is named twice: reviewers and the adjudicator are different people")
    roles = dict(assignments.select("reviewer", "role").iter_rows())
    for name, role in [
        *((name, "reviewer") for name in names),
        *([(adjudicator, "adjudicator")] if adjudicator else []),
    ]:
        if roles.get(name, role) != role:
            raise UsageError(f"{name} has tasks as {roles[name]} already: nobody rules on their own reviews")


def _check_pulled(desk: Desk, paths: list[Path]) -> None:
    """A file is not overwritten while it holds an answer that the workspace has never had."""
    from annotation.answers import SAID_AGAIN
    from saferec_builder.errors import ReviewError

    pulled = _read(desk, paths)
    said = ["kind", "subject", "trait", "reviewer", "role", "digest", "verdict"]
    never = _new(desk, pulled).join(desk.reviews, on=said, how="anti")
    waiting = never.height + sum(reason != SAID_AGAIN for _, _, _, reason, _ in pulled.drops)
    if waiting:
        names = " ".join(str(path) for path in paths)
        raise ReviewError(
            f"{names}: {waiting} answers in there are not in the workspace yet: run"
            f" `saferec-build review pull --tool files {names}`, correct what it names, or move the file away"
        )


@app.command()
def pull(
    paths: Annotated[list[Path] | None, typer.Argument(help="With --tool files: CSVs, or folders of them.")] = None,
    tool: Tool = TOOLS[0],
    url: Url = None,
    token: Token = None,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Bring answers back; what cannot be taken is named, and can be corrected and pulled again."""
    import polars as pl

    from saferec_builder import store, tables
    from saferec_builder.cli import servers
    from saferec_builder.errors import UsageError

    _check_tool(tool)
    desk = gather(folder)
    if tool == "files":
        if not paths:
            raise UsageError("--tool files: name the CSVs, or the folder, that came back from your reviewers")
        pulled = _read(desk, [f for path in paths for f in (sorted(path.glob("*.csv")) if path.is_dir() else [path])])
    else:
        pulled = servers.pull(desk, servers.connect(desk.ws, tool, url, token))
    _leave_out(desk, pulled)
    added = store.append(desk.ws, tables.REVIEWS, _new(desk, pulled))
    drops = pl.DataFrame(pulled.drops, schema=tables.DROPS.schema, orient="row")
    store.append(desk.ws, tables.DROPS, drops)
    for _, _, place, reason, detail in pulled.drops[:SHOWN]:
        typer.echo(f"{place}: {reason}: {detail}", err=True)
    if len(pulled.drops) > SHOWN:
        typer.echo(f"... and {len(pulled.drops) - SHOWN} more, in the table drops", err=True)
    dropped = dict(drops["reason"].value_counts().sort("reason").iter_rows())
    skipped = len(pulled.answers) - added + pulled.repeated
    say(Counts("review pull", added, skipped, dropped, {"not_answered_yet": pulled.empty}), as_json, "answers")


@app.command()
def up(folder: Folder = Path("."), as_json: Json = False) -> None:
    """Start this workspace's own Label Studio (installed once for all workspaces) and say how to log in."""
    from saferec_builder import store
    from saferec_builder.cli import servers

    ws = store.open_workspace(folder)
    facts, new = servers.up(ws)
    path = servers.home(ws) / "server.json"
    accounts = {name: made["email"] for name, made in facts["accounts"].items()}
    told = {"url": facts["url"], "login": facts["email"], "passwords": str(path), "reviewers": accounts}
    say(Counts("review up", int(new), int(not new), figures=told), as_json, "servers")


@app.command()
def down(folder: Folder = Path("."), as_json: Json = False) -> None:
    """Stop this workspace's Label Studio; its data stays."""
    from saferec_builder import store
    from saferec_builder.cli import servers

    ws = store.open_workspace(folder)
    stopped = servers.down(ws)
    say(Counts("review down", int(stopped), figures={"stopped": stopped}), as_json, "servers")


def _leave_out(desk: Desk, pulled: "Pulled") -> None:
    """The work of people that was set aside stays so, however often their file or project is pulled."""
    from saferec_builder import adjudicate

    gone = adjudicate.aside(desk.reviews)
    for key in [key for key in pulled.answers if key[3] in gone]:
        del pulled.answers[key]
        pulled.drop(pulled.places[key], adjudicate.SET_ASIDE, f"{key[2]}: `review set-aside --undo` lets it count")


def _read(desk: Desk, paths: list[Path]) -> "Pulled":
    from annotation import files, guideline, locate

    return files.pull(paths, desk.assignments, desk.texts, desk.taxonomy, guideline(), locate)


def _new(desk: Desk, pulled: "Pulled") -> "pl.DataFrame":
    import polars as pl

    from saferec_builder import adjudicate, tables

    schema = {name: kind for name, kind in tables.REVIEWS.schema.items() if name != "review"}
    answers = pl.DataFrame(list(pulled.answers.values()), schema=schema)
    # in a demo workspace nobody real answers, whatever the tool
    return adjudicate.record(answers.with_columns(simulated=pl.lit(desk.ws.config.demo)), desk.reviews)


app.command("status")(standing.status)
app.command("opt-out")(people.opt_out)
app.command("set-aside")(people.set_aside)

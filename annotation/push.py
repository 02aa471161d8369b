"""review push: who gets which tasks now, in steps; each reads like a line of docs/review-guide.md."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl

from annotation import (
    aggregation as adjudicate,
    dealing,
    opt_outs,
    outbox,
    pull as incoming,
    quality_checks as probes,
    routing as route,
    servers,
)
from annotation.dealing import Plan
from annotation.desk import Desk, known_gold, queue
from annotation.tools import files
from annotation.tools.answers import SAID_AGAIN
from annotation.tools.guidelines import GUIDELINES, guideline
from saferec_builder.core.counts import Counts
from saferec_builder.core.errors import KeyTwice, ReviewError, UsageError, strict_json
from saferec_builder.storage import tables, workspace as store

Send = Callable[[pl.DataFrame, pl.DataFrame], dict[str, Any]]  # (open units, tasks taken back) -> what to say


@dataclass(frozen=True)
class People:
    """Those named on this push."""

    reviewers: tuple[str, ...]
    adjudicator: str | None

    @property
    def names(self) -> list[str]:
        return [*self.reviewers, *([self.adjudicator] if self.adjudicator else [])]


@dataclass(frozen=True)
class Wish:
    """What this push should hand out, as the options say."""

    audit: float = 0.1
    everything: bool = False
    band: int = 0
    gold: Path | None = None
    decoys: float = 0.0
    recheck: float = 0.0
    budget: int = 0
    minutes: float = 0.0


@dataclass(frozen=True)
class Place:
    """Where people review."""

    tool: str
    to: Path | None = None
    url: str | None = None
    token: str | None = None


def hand_out(desk: Desk, who: People, wish: Wish, place: Place) -> Counts:
    """New assignments, and every open task of everybody named where they review; a rerun adds nothing.

    What has arrived is assigned, and nothing else, whatever breaks on the way (outbox.py). The caller is alone at it
    since before it read the desk: from an older one a task would go to two more people.
    """
    desk = _caught_up(desk, who, place)
    _check_people(who, desk.assignments)
    if wish.recheck and not who.adjudicator:
        raise UsageError("--recheck: the adjudicator checks these labels: give --adjudicator NAME too")
    _check_aside(who, desk.reviews)
    _check_texts(desk)
    send = _to_files(desk, who, place) if place.tool == "files" else _to_server(desk, who, place)
    desk = _probe(desk, wish.gold)
    due = queue(desk, wish.recheck)
    plan = _plan(desk, who, wish, due)
    plan = replace(plan, budget=outbox.left(desk.ws, who.reviewers, desk.proposals, plan.budget))
    back = route.void(desk.assignments, _told(desk), due, desk.standing, plan.avoid)
    new = route.route(desk.given, desk.proposals, desk.assignments, due, plan, back)
    mine = desk.assignments.filter(desk.assignments["reviewer"].is_in(who.names))
    # a server's task is as it was sent, a file as it was last written: a decoy planted in it later nobody would see,
    # and it would count as refused
    before = mine if place.tool == "files" else mine.clear()
    planted = _decoys(desk, pl.concat([before, new]), wish.decoys, plan.avoid)
    units = still_open(desk, pl.concat([desk.assignments, new]), due, plan.avoid, planted)
    new = new.join(units, on=outbox.TASK, how="semi", maintain_order="left")  # of a trait that left, nothing is shown
    outbox.note(desk.ws, new, before, planted, _paths(desk, who, place))
    said = outbox.sent(desk.ws, lambda: send(units, back), new)
    outbox.close(desk.ws)
    given = store.read(desk.ws, tables.ASSIGNMENTS)
    new = new.join(given, on=outbox.TASK, how="semi")
    why = dict(new["why"].value_counts().sort("why").iter_rows())
    withheld = dict(Counter(desk.withheld.values()))
    waits = _waiting(route.short(desk.given, desk.proposals, given, plan, back), plan)
    figures = {"new": why} | waits | ({"withheld": withheld} if withheld else {})
    return Counts("review push", new.height, mine.height, figures=figures | said)


def _caught_up(desk: Desk, who: People, place: Place) -> Desk:
    """The desk with what a push that was killed, or lost an answer, has sent all the same."""
    if place.tool != "files" and not outbox.in_doubt(desk.ws).is_empty():
        servers.settle(desk.ws, servers.connect(desk.ws, place.tool, place.url, place.token))
    return outbox.adopted(desk, files=_paths(desk, who, place).values())


def _waiting(short: list[tuple[str, str]], plan: Plan) -> dict[str, Any]:
    """What this push could not hand out, and what to do about it: else its readers would seem to be through."""
    whys = Counter(why for _, why in short)
    cap = f"severe_a_day = {plan.severe_a_day} in [review]"
    says = {
        "day": f"hold a severe trait, and nobody named may have more of these today ({cap}): push again another day",
        "readers": "lack one of their two readers, and nobody named can take them: name more with --reviewer",
        "budget": "are over the budget: push again when these are read",
    }
    kinds = Counter("conversations" if kind == "sensitivity" else "items" for kind, _ in short)
    told = "; ".join(f"{whys[why]:,} {say}" for why, say in says.items() if whys[why])
    return {"waiting": dict(kinds), "next": told} if short else {}


# ---- what to hand out


def _plan(desk: Desk, who: People, wish: Wish, due: pl.DataFrame) -> Plan:
    caps = desk.ws.config.review
    # a day's cap needs a day; without a cap no clock is asked
    capped = caps.severe_a_day or caps.severe_in_a_row
    day = date.today().isoformat() if capped else f"push-{desk.assignments['batch'].n_unique() + 1}"
    undisputed = due.join(adjudicate.disputed(desk.judged), on=due.columns, how="anti")
    return dealing.Plan(
        reviewers=who.reviewers,
        adjudicator=who.adjudicator,
        audit=wish.audit,
        everything=wish.everything,
        batch=day,
        band=wish.band,
        gold=known_gold(desk),
        orders=desk.orders,
        avoid=opt_outs.avoided(desk.ws),
        known=frozenset(_told(desk).iter_rows()),
        severe=frozenset(t.slug for t in desk.taxonomy.traits if t.severe),
        severe_a_day=caps.severe_a_day,
        severe_in_a_row=caps.severe_in_a_row,
        budget=min((units for units in (wish.budget, _units(desk, wish.minutes)) if units), default=0),
        auto=desk.auto,
        recheck=frozenset(undisputed.select("kind", "subject").iter_rows()),
    )


def _told(desk: Desk) -> pl.DataFrame:
    return route.told(desk.proposals, desk.standing, desk.gold)


def _units(desk: Desk, minutes: float) -> int:
    """How many units fit in the time, at the median speed so far; a minute each until somebody has answered.

    Seconds are those of a task, which costs as many units as it has claims.
    """
    task = ["kind", "subject"]
    costs = dealing.claims(desk.proposals).group_by(task).agg(cost=pl.col("trait").n_unique())
    tasks = desk.standing.filter(role="reviewer").group_by(*task, "reviewer").agg(pl.col("seconds").max()).drop_nulls()
    each = tasks.join(costs, on=task, how="left").select(pl.col("seconds") / pl.col("cost").fill_null(1)).to_series()
    seconds = each.median() if len(each) else 60.0
    return max(1, int(60 * minutes / max(float(seconds), 1.0))) if minutes else 0  # type: ignore[arg-type]


def _probe(desk: Desk, gold: Path | None) -> Desk:
    """The desk with the gold of the file taken in."""
    if gold is not None:
        rows = probes.gold_rows(_gold(gold, desk))
        _check_gold(gold, rows, desk.gold)
        store.append(desk.ws, tables.GOLD, rows)
    return replace(desk, gold=store.read(desk.ws, tables.GOLD))


def _check_gold(path: Path, rows: pl.DataFrame, known: pl.DataFrame) -> None:
    both = rows.join(known, on=["kind", "subject"], suffix="_before").select("subject", "traits", "traits_before")
    for subject, now, before in both.iter_rows():
        if sorted(now) != sorted(before):
            was = ", ".join(before) or "nothing"
            raise UsageError(f"{path}: {subject} was gold for {was} before, and stays so: leave its line out")


def _gold(path: Path, desk: Desk) -> dict[str, list[str]]:
    """{"conversation": id, "traits": [slugs]} per line; lines about items are for evaluation and passed over."""
    known = set(desk.texts.filter(kind="sensitivity")["subject"])
    found: dict[str, list[str]] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as fault:
        raise UsageError(f"--gold {path}: cannot be read ({fault})") from None
    for number, line in enumerate(lines, 1):
        try:
            row = strict_json(line) if line.strip() else {"item": ""}
            if "item" in row:
                continue
            subject, slugs = row["conversation"], [desk.taxonomy[slug].slug for slug in row["traits"]]
            if not isinstance(subject, str):
                raise TypeError("no id")
        except KeyTwice as fault:
            raise UsageError(f"{path}:{number}: {fault}: wanted each once") from None
        except (ValueError, KeyError, TypeError, RecursionError):
            wanted = '{"conversation": id, "traits": [slugs]}'
            raise UsageError(f"{path}:{number}: found {line[:60]!r}, wanted {wanted}") from None
        if subject not in known:
            raise UsageError(f"{path}:{number}: no conversation {subject!r} in this workspace: mine it first")
        if sorted(found.setdefault(subject, slugs)) != sorted(slugs):
            raise UsageError(f"{path}:{number}: {subject} has two lines: wanted one, with all of its traits")
    return found


def _decoys(desk: Desk, assignments: pl.DataFrame, share: float, avoid: frozenset[tuple[str, str]]) -> pl.DataFrame:
    """New decoys for these tasks; one per conversation, and it stays."""
    if not share:
        return desk.decoys.clear()
    fresh = assignments.join(desk.decoys, on=["kind", "subject"], how="anti").join(
        desk.reviews, on=["kind", "subject"], how="anti"
    )
    claims = dealing.claims(desk.proposals)
    return probes.decoys(fresh, desk.given, claims, desk.gold, desk.taxonomy, share, avoid)


def still_open(
    desk: Desk,
    assignments: pl.DataFrame,
    due: pl.DataFrame,
    avoid: frozenset[tuple[str, str]],
    planted: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """What every open task shows now, without the tasks that were taken back; `planted` are decoys that are new."""
    said = adjudicate.opinions(desk.votes, due)
    back = route.void(assignments, _told(desk), due, desk.standing, avoid)
    given = assignments.join(back, on=["kind", "subject", "reviewer"], how="anti", maintain_order="left")
    known = desk.decoys if planted is None else pl.concat([desk.decoys, planted])
    shown = probes.shown(known)
    unwanted = pl.DataFrame(sorted(avoid), schema={"reviewer": pl.String, "trait": pl.String}, orient="row")
    shown = shown.join(unwanted, on=["reviewer", "trait"], how="anti", maintain_order="left")
    units = route.units(given, desk.given, desk.proposals, desk.standing, said, shown)
    return units.filter(pl.col("trait").is_in([*desk.taxonomy.slugs, "*"]))  # of some that left, somebody has spoken


# ---- where to


def _paths(desk: Desk, who: People, place: Place) -> dict[str, Path]:
    """Whose tasks go into which file; none where they go to a server."""
    folder = place.to or desk.ws.root / "review"
    return {name: folder / f"{name}.csv" for name in who.names if place.tool == "files"}


def _to_files(desk: Desk, who: People, place: Place) -> Send:
    """One CSV for everybody named, and the guidelines beside it."""
    folder, paths = place.to or desk.ws.root / "review", _paths(desk, who, place)
    seen = {path: _state(path) for path in paths.values()}
    _check_pulled(desk, [path for path, state in seen.items() if state])

    def send(units: pl.DataFrame, back: pl.DataFrame) -> dict[str, Any]:
        for path, state in seen.items():
            if _state(path) != state:  # somebody saved it since: what they wrote is in no check
                raise ReviewError(f"{path}: it was changed just now: run `review pull` on it, then this again")
        rows = files.push(units, desk.texts, desk.taxonomy, guideline(), store.replacing, paths)
        with store.replacing(folder / GUIDELINES.name) as tmp:
            tmp.write_bytes(GUIDELINES.read_bytes())
        return {"rows": rows, "folder": str(folder)}

    return send


def _state(path: Path) -> tuple[int, int] | None:
    """Another one after somebody wrote there; None where there is no file."""
    return (path.stat().st_mtime_ns, path.stat().st_size) if path.exists() else None


def _to_server(desk: Desk, who: People, place: Place) -> Send:
    server = servers.connect(desk.ws, place.tool, place.url, place.token)

    def send(units: pl.DataFrame, back: pl.DataFrame) -> dict[str, Any]:
        return {"sent": servers.push(desk, server, units, back, who.names), "server": server.url}

    return send


# ---- what cannot be


def _check_texts(desk: Desk) -> None:
    if desk.texts.is_empty():
        raise UsageError(f"{desk.ws.root}: there is nothing to review: run `saferec-build mine` first")


def _check_people(who: People, assignments: pl.DataFrame) -> None:
    if not who.names:
        raise UsageError("nobody to review: give --reviewer NAME (twice or more) or --adjudicator NAME")
    for name in who.names:
        if (
            not name.replace("-", "").replace("_", "").replace(".", "").isalnum()
            or name.startswith(".")
            or len(name) > 64
        ):
            raise UsageError(
                f"reviewer {name[:80]!r}: a name has at most 64 letters, digits and -_. only; it becomes a file's name"
            )
    folded = [name.casefold() for name in who.names]
    if twice := sorted({name for name in folded if folded.count(name) > 1}):
        raise UsageError(f"{twice[0]!r} is named twice: reviewers and the adjudicator are different people")
    roles = dict(assignments.select("reviewer", "role").iter_rows())
    known = {name.casefold(): name for name in roles}
    for name in who.names:
        if name not in roles and name.casefold() in known:
            raise UsageError(f"{name}: {known[name.casefold()]} has tasks here: one person is never two readers")
        role = "adjudicator" if name == who.adjudicator else "reviewer"
        if roles.get(name, role) != role:
            raise UsageError(f"{name} has tasks as {roles[name]} already: nobody rules on their own reviews")


def _check_aside(who: People, reviews: pl.DataFrame) -> None:
    if gone := sorted(adjudicate.aside(reviews) & {*who.names}):
        raise UsageError(f"{gone[0]}: their work is set aside: name others, or run `review set-aside {gone[0]} --undo`")


def _check_pulled(desk: Desk, paths: list[Path]) -> None:
    """A file is not overwritten while it holds an answer that the workspace has never had."""
    pulled = incoming.of_files(desk, paths)
    said = ["kind", "subject", "trait", "reviewer", "role", "digest", "verdict"]
    spoken_for = pl.when(pl.col("trait") == "*").then("taxonomy")  # the same `*` for other traits is another answer
    new, known = (rows.select(*said, of=spoken_for) for rows in (incoming.new(desk, pulled), desk.reviews))
    never = new.join(known, on=new.columns, how="anti", nulls_equal=True)
    waiting = never.height + sum(reason != SAID_AGAIN for _, _, _, reason, _ in pulled.drops)
    if waiting:
        names = " ".join(str(path) for path in paths)
        raise ReviewError(
            f"{names}: {waiting} answers in there are not in the workspace yet: run"
            f" `saferec-build review pull --tool files {names}`, correct what it names, or move the file away"
        )

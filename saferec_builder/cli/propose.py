"""propose: what was not read yet is read by the rules, by a model, by a cascade of both, or by a jury."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from saferec_builder.cli.output import Folder, Json, say
from saferec_builder.core.counts import Counts
from saferec_builder.core.errors import UsageError

FIELDS = {"sensitivity": "role and text of each turn", "item_flag": "plot"}


def propose(
    *,
    proposer: Annotated[
        str, typer.Option(help="rules | openai[:MODEL] | batch[:MODEL] | local[:FILE] | a cascade A,B,C | jury.")
    ] = "rules",
    model: Annotated[str | None, typer.Option(help="Model of --proposer openai or batch, file of local.")] = None,
    base_url: Annotated[str | None, typer.Option(help="Of its server; default: saferec.toml, else OpenAI.")] = None,
    items: Annotated[bool, typer.Option("--items", help="Flag items of unknown verdict, from their plots.")] = False,
    allow_remote: Annotated[bool, typer.Option("--allow-remote", help="Text may leave this machine.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print requests, tokens and price; send and write nothing.")
    ] = False,
    budget_usd: Annotated[
        float | None, typer.Option(min=0, help="Stop before models cost more in this workspace, all runs together.")
    ] = None,
    samples: Annotated[int, typer.Option(min=0, max=25, help="Ask so often about what is uncertain, and vote.")] = 0,
    limit: Annotated[int | None, typer.Option(min=1, help="Read at most so many that were not read yet.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes that read side by side.")] = 1,
    engine: Annotated[str, typer.Option(help="local | ray: where they run.")] = "local",
    ray_address: Annotated[str, typer.Option(help="local, or a cluster's; needs a PostgreSQL [store].")] = "local",
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Propose seekers' sensitivities with evidence from their words, or flags of items from their plots."""
    from saferec_builder.proposing import proposers, runner as reading, workers as shards
    from saferec_builder.storage import workspace as store

    ws = store.Workspace.open(folder)
    made, cascade = proposers.steps(ws, proposer, model, base_url)
    if samples and not made[-1].server:
        raise UsageError("--samples: the rules answer alike each time; wanted a model as the last proposer")
    world = reading.world(ws, items)
    how = shards.plan(ws, engine, ray_address, workers)
    budget = budget_usd if budget_usd is not None else ws.config.propose.budget_usd
    limits = _Limits(budget, limit, samples, how)
    proposers.priced(made, limits.budget)
    noun = "items" if items else "conversations"
    if dry_run:
        say(_planned(world, made, limits), as_json, noun)
        return
    rows = _to_send(world, made, limits) if any(s.server and not s.server.is_loopback for s in made) else 0
    proposers.consent(made, allow_remote or ws.config.propose.allow_remote, rows, noun, FIELDS[world.kind])
    with proposers.spending(ws, made, limits.budget):
        counts = _read(world, made, cascade, limits, as_json)
    if all(step.way == "rules" for step in made) and (unheard := _unheard(world.taxonomy)):
        counts = replace(counts, figures={**counts.figures, "rules_know_no_cues_of": unheard})
    say(counts, as_json, "readings" if len(made) > 1 or samples else noun)


def _unheard(taxonomy: Any) -> list[str]:
    """Traits of which the rules propose nothing, whatever is said: their silence on these is no finding."""
    import tomllib

    from saferec_builder.proposing.rules import cues

    known = tomllib.loads(cues.FILE.read_text(encoding="utf-8"))["trait"]
    return [slug for slug in taxonomy.slugs if slug not in known]


class _Limits:
    def __init__(self, budget: float | None, limit: int | None, samples: int, how: Any) -> None:
        self.budget, self.limit, self.samples, self.how = budget, limit, samples, how


def _to_send(world: Any, made: list[Any], limits: _Limits) -> int:
    """Texts that a run would send at most; votes ask again about what was read before."""
    from saferec_builder.proposing import runner as reading

    if len(made) > 1:
        return len(world.subjects)
    step = made[0]
    found = reading.job(world, step, None, limit=limits.limit).todo
    if limits.samples:
        unsure = _uncertain(world, step)
        found += reading.job(world, step, None, only=unsure, limit=limits.limit, samples=limits.samples).todo
    return len({subject.subject for _, subject, _ in found})


def _read(world: Any, made: list[Any], cascade: bool, limits: _Limits, as_json: bool) -> Counts:
    """Every proposer in its turn; in a cascade each reads what those before it left in doubt."""
    from saferec_builder.proposing import runner as reading

    counts: dict[str, Counts] = {}
    for n, step in enumerate(made):
        only = _doubts(world, made[:n]) if cascade and n else None
        work = reading.job(world, step, _purse(world.ws, step, limits.budget), only=only, limit=limits.limit)
        counts[work.name] = reading.read(work, lambda total: _bar(total, as_json), limits.how)
    last = made[-1]
    if limits.samples:
        unsure = _uncertain(world, last)
        purse = _purse(world.ws, last, limits.budget)
        work = reading.job(world, last, purse, only=unsure, limit=limits.limit, samples=limits.samples)
        counts[work.name] = reading.read(work, lambda total: _bar(total * limits.samples, as_json), limits.how)
    return together(counts)


def together(counts: dict[str, Counts]) -> Counts:
    """The counts of several proposers as one; each one's own stand under its name."""
    if len(counts) == 1:
        return next(iter(counts.values()))
    dropped: dict[str, int] = {}
    for part in counts.values():
        for reason, n in part.dropped.items():
            dropped[reason] = dropped.get(reason, 0) + n
    added, skipped = (sum(getattr(part, name) for part in counts.values()) for name in ("added", "skipped"))
    own = {name: {"in": p.came, "added": p.added, **p.figures} for name, p in counts.items()}
    return Counts("propose", added, skipped, dropped, own)


def _current(world: Any) -> Any:
    """Proposals on the texts, and on the traits in the words, as they are now: of others nobody is in doubt."""
    from saferec_builder.proposing import prompting as stage
    from saferec_builder.storage import tables

    return _calibrated(world, stage.as_worded(_of_now(world, tables.PROPOSALS), world.taxonomy))


def _of_now(world: Any, table: Any) -> Any:
    """A table's rows on the texts as they are now."""
    import polars as pl

    from saferec_builder.storage import workspace as store

    now = pl.DataFrame(
        [(s.subject, s.digest) for s in world.subjects],
        schema={"subject": pl.String, "digest": pl.String},
        orient="row",
    )
    return store.read(world.ws, table).filter(kind=world.kind).join(now, on=["subject", "digest"], how="semi")


def _calibrated(world: Any, rows: Any) -> Any:
    """Confidence as people's labels bear it out, for each proposer and trait with enough of them."""
    import polars as pl

    from saferec_builder.proposing import calibration, ground_truth

    truth = ground_truth.labels(world)
    if len(truth.present) + len(truth.absent) < calibration.ENOUGH:
        return rows
    parts = []
    for _, mine in rows.group_by("proposer", "version", maintain_order=True):
        told = [r for r in mine.to_dicts() if r["verdict"] == "present"]
        judged = [r for r in told if truth.of((r["subject"], r["trait"])) is not None]
        fits = calibration.fits(judged, truth)
        sure = [
            fits[t].of(c) if v == "present" and t in fits else c
            for t, v, c in mine.select("trait", "verdict", "confidence").iter_rows()
        ]
        parts.append(mine.with_columns(pl.Series("confidence", sure, dtype=pl.Float64)))
    return pl.concat(parts) if parts else rows


def _doubts(world: Any, earlier: list[Any]) -> set[str]:
    from saferec_builder.proposing import cascade as votes
    from saferec_builder.proposing.rules import matcher as rules
    from saferec_builder.storage import tables

    wanted = world.ws.config.propose
    who = [(step.name, world.prompt.version if step.server else rules.VERSION) for step in earlier]
    subjects = [s.subject for s in world.subjects]
    read = _of_now(world, tables.READINGS).filter(proposer=who[-1][0], version=who[-1][1])["subject"]
    how: dict[str, Any] = {"read": set(read), "band": wanted.uncertain, "skip_silent": wanted.skip_silent}
    return votes.escalated(subjects, _current(world), who, **how)


def _uncertain(world: Any, step: Any) -> set[str]:
    from saferec_builder.proposing import cascade as votes

    mine = _current(world).filter(proposer=step.name, version=world.prompt.version)
    return votes.unsure(mine, world.ws.config.propose.uncertain)


# ---- money


def _purse(ws: Any, step: Any, budget: float | None) -> Any:
    """What may be spent, what this workspace has spent already, and what this model's bills looked like."""
    from saferec_builder import llm
    from saferec_builder.llm.pricing import Habit
    from saferec_builder.storage import tables, workspace as store

    if step.server is None:
        return None
    bills = store.read(ws, tables.SPEND)
    spent = float(bills["usd"].sum())
    mine = bills.filter(model=step.name)
    sent, tokens, out, n = (float(mine[c].sum()) for c in ("bytes_out", "tokens_in", "tokens_out", "requests"))
    habit = Habit(
        sent / tokens if sent and tokens else Habit.bytes_per_token, out / n if n and out else Habit.tokens_out
    )
    return llm.Budget(step.price, budget, spent, habit)


def _planned(world: Any, made: list[Any], limits: _Limits) -> Counts:
    """Requests, tokens and price of this run; what was paid for already costs nothing.

    Of a cascade each step is planned as if it read all: what is escalated is not known before. Votes are planned on
    what is uncertain now: of what is still to be read nobody knows.
    """
    from saferec_builder.proposing import runner as reading

    asked: list[tuple[Any, dict[str, Any]]] = [(step, {}) for step in made]
    if limits.samples:
        asked.append((made[-1], {"only": _uncertain(world, made[-1]), "samples": limits.samples}))
    counts: dict[str, Counts] = {}
    for step, how in asked:
        work = reading.job(world, step, _purse(world.ws, step, limits.budget), limit=limits.limit, **how)
        _plan(work)
        work.dropped.update(why.split(":")[0] for _, why, _ in work.unread)
        work.dropped["dry run"] = len(work.todo)
        counts[work.name] = work.counts()
    return together(counts)


def _plan(work: Any) -> None:
    from collections import Counter

    from saferec_builder.proposing import runner as reading
    from saferec_builder.storage import tables, workspace as store

    work.figures = Counter(requests=0, already_paid=0, estimated_tokens_in=0, estimated_tokens_out=0)
    if work.step.server is None:
        return
    paid = set(store.read(work.ws, tables.REPLIES)["request"])
    habit = work.purse.habit
    for body in reading.bodies(work):
        request = work.step.server.name(body)
        if request in paid:
            work.figures["already_paid"] += 1
        else:
            work.figures["requests"] += 1
            work.figures["estimated_tokens_in"] += round(habit.tokens_in(work.step.server, body))
            work.figures["estimated_tokens_out"] += round(habit.tokens_out)
        paid.add(request)
    if work.step.price:
        tokens = work.figures["estimated_tokens_in"], work.figures["estimated_tokens_out"]
        work.figures["estimated_usd"] = round(work.step.price.of(*tokens), 4)


def _bar(total: int, as_json: bool) -> Any:
    import sys

    from tqdm import tqdm

    return tqdm(total=total, unit="read", file=sys.stderr, disable=as_json or not sys.stderr.isatty(), leave=False)

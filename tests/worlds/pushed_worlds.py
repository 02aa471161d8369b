"""Simulated worlds that are pushed, read and bounded push by push, as people do it: each bound beside the truth.

A world has 900 conversations with known truth, and the proposals of a model that finds 97 % of it. Its readers make no
errors; they leave a part of their tasks for later. A look is the bound after each day's reading.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import polars as pl

from annotation import push as handing, recall_bounds as bounds, routing as route
from annotation.routing import Plan
from saferec_builder.core import taxonomy as traits
from saferec_builder.storage import tables, workspace as store
from tests.worlds.csv_rows import rows_of, save
from tests.worlds.once import command
from tests.worlds.routing import designed, planned
from tests.worlds.settings import review_settings

UNITS = 900
RECALL = 0.97
ALARMS = 0.01  # share of the absent units that are proposed nevertheless
AUDIT = 0.3
READ = 0.8  # share of the open tasks that a person reads until the next push
PEOPLE = ("ann", "bo")
PREVALENCE = {"gore": 0.1, "needles": 0.08, "horror_scares": 0.06, "animal_harm": 0.05, "accidents_disasters": 0.04}
PREVALENCE |= {"torture": 0.06, "sexual_violence": 0.05, "domestic_abuse": 0.04}  # severe, and capped
SLUGS = tuple(PREVALENCE)
SEVERE = frozenset(t.slug for t in traits.load().traits if t.severe and t.slug in PREVALENCE)
CAPS = {"severe": SEVERE, "severe_a_day": 30, "severe_in_a_row": 2}  # the defaults of saferec.toml
SETTINGS = {"budget": ("--budget", 150), "minutes": ("--minutes", 60), "caps": ()}  # of every push
PLANS = {"budget": 150, "minutes": 60, "caps": 0}  # in units: a minute is one until there are times of people
NOTHING = pl.DataFrame(schema={"kind": pl.String, "subject": pl.String, "trait": pl.String})


@dataclass(frozen=True)
class World:
    truth: dict[str, frozenset[str]]  # conversation -> its traits
    claims: tuple[tuple[str, str], ...]  # (conversation, trait) as proposed


@dataclass(frozen=True)
class Look:
    """The share missed at most, and in truth: of each trait, and of conversations with any (`bounds.POOLED`)."""

    at_most: dict[str, float | None]
    missed: dict[str, float]

    def wrong(self) -> set[str]:
        return {name for name, share in self.at_most.items() if share is not None and share < self.missed[name] - 1e-9}


def world(seed: int, units: int = UNITS) -> World:
    rng = np.random.default_rng([seed, 20])
    truth = {f"w{seed}-{n}": frozenset(s for s, p in PREVALENCE.items() if rng.random() < p) for n in range(units)}
    claims = [
        (name, slug)
        for name, present in truth.items()
        for slug in SLUGS
        if rng.random() < (RECALL if slug in present else ALARMS)
    ]
    return World(truth, tuple(claims))


def texts(made: World) -> pl.DataFrame:
    rows = [("sensitivity", name, f"d-{name}", None, [], True) for name in made.truth]
    return pl.DataFrame(rows, schema=route.TEXTS, orient="row")


def proposals(made: World) -> pl.DataFrame:
    rows = [
        {"proposal": f"{name}-{slug}", "kind": "sensitivity", "subject": name, "trait": slug, "verdict": "present"}
        for name, slug in made.claims
    ]
    return tables.PROPOSALS.frame(rows)


def campaign(made: World, setting: str, pushes: int, seed: int) -> Iterator[Look]:
    """The look after each day, through `route` and `bounds`: a push, then people read a part of their open tasks."""
    rng = np.random.default_rng([seed, 21])
    text, props, assignments = texts(made), proposals(made), tables.ASSIGNMENTS.empty
    rows = designed(text, props, Plan())
    readers: dict[str, set[str]] = {}
    for day in range(pushes):
        plan = Plan(PEOPLE, audit=AUDIT, batch=f"day-{day}", budget=PLANS[setting], **CAPS)
        assignments = pl.concat([assignments, route.route(text, props, assignments, NOTHING, planned(plan, rows))])
        for name, person in assignments.select("subject", "reviewer").iter_rows():
            if rng.random() < READ:
                readers.setdefault(name, set()).add(person)
        read = {name for name, people in readers.items() if len(people) == len(PEOPLE)}
        label_bounds = bounds.bounds(rows, list(made.truth), assignments, _labels(made, read), tables.GOLD.empty, SLUGS)
        found = {(name, slug) for name in read for slug in made.truth[name]}
        yield look(made, found, {slug: b.share for slug, b in label_bounds.traits.items()}, label_bounds.pooled.share)


def _labels(made: World, read: set[str]) -> pl.DataFrame:
    pairs = ((name, slug) for name in sorted(read) for slug in SLUGS)
    rows = [("sensitivity", *pair, "present" if pair[1] in made.truth[pair[0]] else "absent") for pair in pairs]
    return pl.DataFrame(rows, schema=["kind", "subject", "trait", "verdict"], orient="row")


def look(made: World, found: set[tuple[str, str]], at_most: dict[str, float | None], pooled: float | None) -> Look:
    """What the labels miss now: the share of the present traits that is not in `found`."""
    present = {(name, slug) for name, slugs in made.truth.items() for slug in slugs}
    missed = {slug: _missed({u for u in present if u[1] == slug}, found) for slug in SLUGS}
    missed[bounds.POOLED] = _missed({name for name, _ in present}, {name for name, _ in found})
    return Look({slug: at_most[slug] for slug in SLUGS} | {bounds.POOLED: pooled}, missed)


def _missed(there: set[Any], found: set[Any]) -> float:
    return len(there - found) / max(len(there), 1)


def wrong(looks: list[Look]) -> set[str]:
    """The names of one world's bounds that were below the truth at any look."""
    return set().union(*(look.wrong() for look in looks))


# ---- the same through the commands, with a CSV per person


def commanded(made: World, root: Path, setting: str, pushes: int, seed: int) -> Iterator[Look]:
    """The look after each day as `adjudicate` prints it: push, fill in, pull. Every push is on another day."""
    rng, ws = np.random.default_rng([seed, 22]), filled(made, root)
    make_plan = handing._plan
    reviewers = [word for name in PEOPLE for word in ("--reviewer", name)]
    for day in range(pushes):
        dated_plan = lambda *arguments, batch=f"day-{day}": replace(make_plan(*arguments), batch=batch)  # noqa: E731
        with mock.patch.object(handing, "_plan", dated_plan):
            run("review", "push", "--tool", "files", *reviewers, *SETTINGS[setting], "-C", root)
        for name in PEOPLE:
            fill_in(root / "review" / f"{name}.csv", made, rng)
        run("review", "pull", "--tool", "files", root / "review", "-C", root)
        output = run("adjudicate", "-C", root)
        labels = tables.last(store.read(ws, tables.LABELS), "subject", "trait").filter(verdict="present")
        shares = {slug: bound["share"] for slug, bound in output["missed"].items()}
        yield look(made, set(labels.select("subject", "trait").iter_rows()), shares, output["missed_of_all"]["share"])


def run(*words: object) -> dict[str, Any]:
    output: dict[str, Any] = json.loads(command(*words, "--json"))
    return output


def filled(made: World, root: Path) -> store.Workspace:
    ws = store.Workspace.create(root)
    review_settings(root, audit=AUDIT)
    rows = [
        {"conversation": name, "digest": f"d-{name}", "source": "messages", "source_id": name}
        | {"turns": [{"role": "seeker", "text": said(made, name), "items": []}]}
        for name in made.truth
    ]
    store.append(ws, tables.CONVERSATIONS, tables.CONVERSATIONS.frame(rows))
    claims = [row | _evidence(made, row["subject"], row["trait"]) for row in proposals(made).to_dicts()]
    store.append(ws, tables.PROPOSALS, tables.PROPOSALS.frame(claims))
    return ws


def said(made: World, name: str) -> str:
    """A text that names its traits; a false proposal quotes its last word."""
    return f"{name}: rather without {', '.join(sorted(made.truth[name])) or 'anything long'}, please."


def _evidence(made: World, name: str, slug: str) -> dict[str, Any]:
    text = said(made, name)
    quote = slug if slug in text else "please"
    start = text.index(quote)
    span = {"turn": 0, "start": start, "end": start + len(quote), "quote": quote}
    return {"spans": [span], "form": "explicit", "digest": f"d-{name}", "proposer": "model"}


def fill_in(path: Path, made: World, rng: np.random.Generator, read: float = READ) -> None:
    """Fills in the file as a person does who makes no errors and leaves some tasks for later."""
    rows = rows_of(path)
    proposed: dict[str, set[str]] = {}
    for row in rows:
        proposed.setdefault(row["task"], set()).add(row["trait"])
    today = {task for task in proposed if rng.random() < read}
    for row in rows:
        present = made.truth[row["text"].split(": ")[1]]
        added = sorted(present - proposed[row["task"]])
        if row["task"] not in today:
            continue
        if row["trait"] == "*":
            row["verdict"], row["quote"] = " ".join(added) or "none", " | ".join(added)
        else:
            row["verdict"] = "present" if row["trait"] in present else "absent"
    save(path, rows, rows[0] if rows else ["task"])

"""Scores the rules on the demo's gold and on real turns: print(table("tune", demo("tune"))).

The demo's gold is split by the hash of the conversation's id. Cue lists were tuned on the half `tune`, the generator's
sentence banks (not `unseen`), sentences and messages of our own (saferec_builder/proposing/messages) and real turns
without labels. Scored are the half `report`, messages that were not tuned on (rules_heldout.toml) and the labelled real
turns (tests/data/real_turns.csv, if SAFEREC_REAL_DATA is set). None of their texts were looked at. But the figures of
the half and of the turns were looked at many times, with the trait and kind of each error and the rule that rejected a
statement, and a new cue that lowered their precision was dropped: these two figures flatter.
A unit is (conversation, trait); a finding is a row with the verdict present; unsure rows are counted separately.
"""

import csv
import hashlib
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl

from saferec_builder.core import taxonomy as traits
from saferec_builder.demo.truth import half
from saferec_builder.proposing.rules import matcher as rules
from saferec_builder.storage import tables
from tests import ROOT
from tests.bench.figures import json_lines, redial

GOLD = ROOT / "saferec_builder" / "demo" / "conversations.jsonl"
TURNS = ROOT / "tests" / "data" / "real_turns.csv"
Unit = tuple[str, str]


@dataclass(frozen=True)
class Gold:
    """Subjects to read, the form of every gold unit, and the spans of its evidence."""

    frame: pl.DataFrame
    forms: dict[Unit, str]
    spans: dict[Unit, list[tuple[int, int, int]]]  # turn, start, end
    kinds: dict[str, str]  # conversation -> explicit | implicit | none | lookalike


@dataclass(frozen=True)
class Rates:
    """found: rows; right: rows in gold; gold: units to find; hit: units found."""

    found: int
    right: int
    gold: int
    hit: int

    @property
    def precision(self) -> float | None:
        return self.right / self.found if self.found else None

    @property
    def recall(self) -> float | None:
        return self.hit / self.gold if self.gold else None

    def __str__(self) -> str:
        shares = (("P", self.precision), ("R", self.recall))
        figures = "  ".join(f"{name} {'  - ' if share is None else f'{share:.2f}'}" for name, share in shares)
        return f"{figures}  ({self.right}/{self.found} right, {self.hit}/{self.gold} found)"


def demo(which: str) -> Gold:
    """One half of the hand-written conversations."""
    rows = [row for row in json_lines(GOLD) if half(row["id"]) == which]
    gold = Gold(frame((row["id"], row["turns"]) for row in rows), {}, {}, {row["id"]: row["kind"] for row in rows})
    for row in rows:
        for g in row["gold"]:
            unit, start = (row["id"], g["trait"]), row["turns"][g["turn"]]["text"].index(g["quote"])
            gold.forms[unit] = g["form"]
            gold.spans.setdefault(unit, []).append((g["turn"], start, start + len(g["quote"])))
    return gold


def frame(talks: Iterable[tuple[str, list[dict[str, str]]]]) -> pl.DataFrame:
    """The columns that rules.propose reads."""
    rows = []
    for name, turns in talks:
        messages = [{"role": t["role"], "text": t["text"], "items": []} for t in turns]
        rows.append({"conversation": name, "digest": tables.digest(turns), "turns": messages})
    return pl.DataFrame(rows, schema={k: tables.CONVERSATIONS.schema[k] for k in ("conversation", "digest", "turns")})


def talks(*talks: Sequence[str]) -> pl.DataFrame:
    """Conversations c0, c1, ... in which seeker and recommender alternate, the seeker first."""
    roles = ("seeker", "recommender")
    return frame(
        (f"c{n}", [{"role": roles[k % 2], "text": text} for k, text in enumerate(talk)]) for n, talk in enumerate(talks)
    )


def real(folder: Path) -> Gold:
    """The labelled real turns, each as a conversation of one turn; ids in the text stay as they are."""
    texts = _texts(folder)
    with open(TURNS, encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    conversations: dict[str, list[dict[str, str]]] = {}
    gold = Gold(pl.DataFrame(), {}, {}, {})
    for row in rows:
        source, conversation, turn = row["source"], row["conversation_id"], int(row["turn"])
        name = f"{source}:{conversation}:{turn}"
        text = next(t for t in texts[source, conversation, turn] if _digest(t) == row["digest"])
        conversations[name] = [{"role": "seeker", "text": text}]
        gold.kinds[name] = "labelled" if row["trait"] else "lookalike" if row["lookalike"] else "none"
        if row["trait"]:
            gold.forms[name, row["trait"]] = row["form"]
            gold.spans.setdefault((name, row["trait"]), []).append((0, int(row["start"]), int(row["end"])))
    return Gold(frame(conversations.items()), gold.forms, gold.spans, gold.kinds)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


@lru_cache(maxsize=1)
def _texts(folder: Path) -> dict[tuple[str, str, int], list[str]]:
    """Returns (source, conversation, index of the turn) -> its text in each file that has it."""
    texts: dict[tuple[str, str, int], list[str]] = {}
    for row in redial(folder):
        for n, message in enumerate(row["messages"]):
            texts.setdefault(("redial", str(row["conversationId"]), n), []).append(message["text"])
    with open(folder / "ccpe" / "ccpe_dialogues.csv", encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            texts.setdefault(("ccpe", line["dialog_id"], int(line["utterance_index"])), []).append(line["text"])
    return texts


def proposals(gold: Gold) -> list[dict[str, Any]]:
    return rules.propose(gold.frame, traits.load()).to_dicts()


def rates(gold: Gold, rows: list[dict[str, Any]], form: str | None = None, trait: str | None = None) -> Rates:
    """Scores rows: a row is right if gold has its unit; `form` and `trait` select both rows and units."""
    findings = {
        (r["subject"], r["trait"]): r["form"] for r in rows if r["verdict"] == "present" and trait in (None, r["trait"])
    }
    units = {u for u, f in gold.forms.items() if form in (None, f) and trait in (None, u[1])}
    claimed = {u for u, f in findings.items() if form in (None, f)}
    return Rates(len(claimed), len(claimed & set(gold.forms)), len(units), len(units & set(findings)))


def flagged(gold: Gold, rows: list[dict[str, Any]], kind: str) -> tuple[int, int, int]:
    """Counts the conversations of a kind: with a present row, with any row, all."""
    present = {r["subject"] for r in rows if r["verdict"] == "present"}
    names = {name for name, k in gold.kinds.items() if k == kind}
    return len(names & present), len(names & {r["subject"] for r in rows}), len(names)


def messages(path: Path) -> tuple[Rates, int, int]:
    """Scores our own messages: explicit findings of the trait of each, lookalikes flagged, all lookalikes."""
    data = tomllib.loads(path.read_text(encoding="utf-8"))["trait"]
    found = right = hit = flags = 0
    for trait, row in data.items():
        for text in (*row["says"], *row["not"]):
            present = [h for h in rules.read(text) if h.verdict == "present"]
            claimed, gold = {h.trait for h in present if h.form == "explicit"}, text in row["says"]
            found, right = found + len(claimed), right + (gold and trait in claimed)
            hit, flags = hit + (gold and trait in {h.trait for h in present}), flags + (not gold and bool(present))
    sizes = [sum(len(row[kind]) for row in data.values()) for kind in ("says", "not")]
    return Rates(found, right, sizes[0], hit), flags, sizes[1]


def evidence(gold: Gold, rows: list[dict[str, Any]]) -> tuple[int, int]:
    """Returns (right rows whose spans overlap the gold span, all right rows)."""
    right = [r for r in rows if r["verdict"] == "present" and (r["subject"], r["trait"]) in gold.forms]
    return sum(_overlaps(r["spans"], gold.spans[r["subject"], r["trait"]]) for r in right), len(right)


def _overlaps(spans: list[dict[str, Any]], wanted: list[tuple[int, int, int]]) -> bool:
    return any(
        s["turn"] == turn and s["start"] < end and first < s["end"] for s in spans for turn, first, end in wanted
    )


def table(name: str, gold: Gold) -> str:
    """All figures of one gold set as text."""
    rows = proposals(gold)
    lines = [f"== {name}: {len(gold.kinds)} subjects, {len(gold.forms)} gold units"]
    lines += [f"{form or 'all':<22}{rates(gold, rows, form)}" for form in ("explicit", "implicit", None)]
    for kind in ("lookalike", "none"):
        present, any_row, size = flagged(gold, rows, kind)
        lines.append(f"{kind + ' flagged':<22}{present}/{size} present, {any_row}/{size} with unsure")
    inside, right = evidence(gold, rows)
    unsure = [(r["subject"], r["trait"]) in gold.forms for r in rows if r["verdict"] == "unsure"]
    lines.append(f"{'evidence':<22}{inside}/{right} right rows overlap the gold span")
    lines.append(f"{'unsure rows':<22}{len(unsure)}, {sum(unsure)} of them in gold")
    slugs = sorted({u[1] for u in gold.forms} | {r["trait"] for r in rows})
    return "\n".join([*lines, *(f"  {slug:<20}{rates(gold, rows, trait=slug)}" for slug in slugs)])

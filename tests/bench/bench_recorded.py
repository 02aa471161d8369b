"""A language model as a proposer: its recorded replies to the shipped prompt, compared and joined with the rules.

Which model answered, and on which texts: tests/data/README.md. `propose` reads
the replies from a loopback server as from any other. Intervals: Clopper and Pearson, 95 %.
"""

import csv
import gzip
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from saferec_builder.core import taxonomy
from saferec_builder.proposing.rules import matcher as rules
from saferec_builder.scoring.intervals import clopper_pearson
from saferec_builder.storage.workspace import Workspace
from tests import DATA, rules_score
from tests.bench.figures import figure, json_lines, real_data
from tests.rules_score import Gold
from tests.worlds import recorded

Rows = list[dict[str, Any]]
Units = set[tuple[str, str]]


def share(hits: int, of: int) -> str:
    low, high = clopper_pearson(hits, of)
    return f"{hits / max(1, of):.2f} ({low:.2f} to {high:.2f}; {hits} of {of})"


def of_model(gold: Gold) -> Rows:
    with tempfile.TemporaryDirectory() as folder:
        return recorded.read_again(Workspace.create(Path(folder) / "ws"), gold.frame).to_dicts()


def present(rows: Iterable[dict[str, Any]]) -> Units:
    return {(row["subject"], row["trait"]) for row in rows if row["verdict"] == "present"}


def compare(name: str, gold: Gold) -> None:
    """Precision of the rules, the model and both, and their recall of explicit and of implied sensitivities."""
    claims = {"rules": present(rules_score.proposals(gold)), "model": present(of_model(gold))}
    claims["both"] = claims["rules"] | claims["model"]
    print(f"{name}: {gold.frame.height} texts, {len(gold.forms)} sensitivities")
    for proposer, units in claims.items():
        print(f"  {proposer:<6} precision {share(len(units & set(gold.forms)), len(units))}")
        for form in ("explicit", "implicit"):
            of_form = {unit for unit, gold_form in gold.forms.items() if gold_form == form}
            print(f"         recall, {form} {share(len(units & of_form), len(of_form))}")
    implied = {unit for unit, gold_form in gold.forms.items() if gold_form == "implicit"}
    by_model = claims["model"]
    figure(f"recorded.{name}_precision", len(by_model & set(gold.forms)) / max(1, len(by_model)), "", "told")
    figure(f"recorded.{name}_implicit", len(by_model & implied) / max(1, len(implied)), "", "told")


def asked_of(gold: Gold) -> Gold:
    """The part of the gold that the model was asked about."""
    is_known = [recorded.known(row["turns"]) for row in gold.frame.to_dicts()]
    frame = gold.frame.filter(pl.Series(is_known))
    names = set(frame["conversation"])
    return replace(gold, frame=frame, forms={unit: form for unit, form in gold.forms.items() if unit[0] in names})


def posts(folder: Path) -> None:
    """Reddit posts, for which only the claims of either were read: what both miss is not counted."""
    texts = {}
    for row in json_lines(folder / "reddit_requests" / "posts.jsonl.gz"):
        text = f"{row['title'].strip()}\n\n{row['text'].strip()}".strip()
        texts[f"reddit:{row['id']}"] = [{"role": "seeker", "text": text}]
    frame = rules_score.frame((name, turns) for name, turns in texts.items() if recorded.known(turns))
    gold = Gold(frame, {}, {}, {})
    against(f"reddit: {frame.height} posts", "reddit", present(rules_score.proposals(gold)), present(of_model(gold)))


def plots(folder: Path) -> None:
    """Flags of films from their plots: a claim is right if the film violates the trait and the quote is about it."""
    with gzip.open(folder / "tmdb5000_overviews" / "overviews.csv.gz", "rt", encoding="utf-8", newline="") as file:
        texts = {row["imdb"]: row["overview"] for row in csv.DictReader(file) if row["overview"]}
    known = {i: t for i, t in texts.items() if recorded.known([{"role": "plot", "text": t}], "item_flag")}
    frame = pl.DataFrame({"item": [f"imdb:{i}" for i in known], "plot": list(known.values())})
    by_rules = present(rules.flag_items(frame, taxonomy.load()).to_dicts())
    with tempfile.TemporaryDirectory() as place:
        by_model = present(recorded.flags_again(Workspace.create(Path(place) / "ws"), known).to_dicts())
    against(f"items: {len(known)} plots", "items", by_rules, by_model)


def against(title: str, name: str, by_rules: Units, by_model: Units) -> None:
    """Counts the claims that a language model judged right; a claim that it could not settle is not right."""
    with (DATA / "recorded_graded.csv").open(encoding="utf-8") as file:
        graded = {(row["subject"], row["trait"]): row["right"] for row in csv.DictReader(file)}
    claims = {"rules": by_rules, "model": by_model, "both": by_rules | by_model}
    right = {key: {unit for unit in units if graded.get(unit) == "yes"} for key, units in claims.items()}
    print(f"{title}, {len(right['both'])} right claims by either")
    for key, units in claims.items():
        unsure = sum(graded.get(unit) == "unsure" for unit in units)
        read = {unit for unit in units if unit in graded}
        print(
            f"  {key:<6} precision {share(len(right[key]), len(read))}, {unsure} unsure, {len(units - read)} not read"
        )
    only = len(right["model"] - by_rules), len(right["rules"] - by_model)
    print(f"  right and found by the model alone {only[0]}, by the rules alone {only[1]}")
    figure(f"recorded.{name}_precision", len(right["model"]) / len(by_model), "", "told")


def main() -> None:
    compare("demo", rules_score.demo("report"))
    if folder := real_data("real turns"):
        compare("turns", asked_of(rules_score.real(folder)))
        posts(folder)
        plots(folder)

"""A language model as a proposer: its recorded replies to the shipped prompt, with the rules beside it and joined.

Who answered, and on which texts: tests/data/README.md. `propose` reads
the replies from a loopback server as it would from any other. Intervals: Clopper and Pearson, 95 %.
"""

import os
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from saferec_builder.scoring.intervals import clopper_pearson
from saferec_builder.storage.workspace import Workspace, make
from tests import rules_score
from tests.bench.figures import figure
from tests.rules_score import Gold
from tests.worlds import recorded

Rows = list[dict[str, Any]]
Units = set[tuple[str, str]]


def share(hits: int, of: int) -> str:
    low, high = clopper_pearson(hits, of)
    return f"{hits / max(1, of):.2f} ({low:.2f} to {high:.2f}; {hits} of {of})"


def of_model(gold: Gold) -> Rows:
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder) / "ws", demo=False)
        return recorded.read_again(Workspace.open(Path(folder) / "ws"), gold.frame).to_dicts()


def present(rows: Iterable[dict[str, Any]]) -> Units:
    return {(row["subject"], row["trait"]) for row in rows if row["verdict"] == "present"}


def compare(name: str, gold: Gold) -> None:
    """Precision of the rules, the model and both, and their recall of what is named and of what is implied."""
    found = {"rules": present(rules_score.proposals(gold)), "model": present(of_model(gold))}
    found["both"] = found["rules"] | found["model"]
    print(f"{name}: {gold.frame.height} texts, {len(gold.forms)} sensitivities")
    for who, units in found.items():
        print(f"  {who:<6} precision {share(len(units & set(gold.forms)), len(units))}")
        for form in ("explicit", "implicit"):
            wanted = {unit for unit, of in gold.forms.items() if of == form}
            print(f"         recall, {form} {share(len(units & wanted), len(wanted))}")
    implied = {unit for unit, of in gold.forms.items() if of == "implicit"}
    claimed = found["model"]
    figure(f"recorded.{name}_precision", len(claimed & set(gold.forms)) / max(1, len(claimed)), "", "told")
    figure(f"recorded.{name}_implicit", len(claimed & implied) / max(1, len(implied)), "", "told")


def asked_of(gold: Gold) -> Gold:
    """The part of it that the model was asked about."""
    asked = [recorded.known(row["turns"]) for row in gold.frame.to_dicts()]
    frame = gold.frame.filter(pl.Series(asked))
    names = set(frame["conversation"])
    return replace(gold, frame=frame, forms={unit: form for unit, form in gold.forms.items() if unit[0] in names})


def main() -> None:
    compare("demo", rules_score.demo("report"))
    if folder := os.environ.get("SAFEREC_REAL_DATA"):
        compare("turns", asked_of(rules_score.real(Path(folder))))
    else:
        print("real turns: SAFEREC_REAL_DATA is not set")

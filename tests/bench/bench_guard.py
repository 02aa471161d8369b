"""The guard on the demo's release: its figures by caution, and the share of sensitivities it hears. 25 CPU-seconds.

Prints the table of docs/training.md; nothing here is chosen on the test split.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.bench.figures import demo, figure
from training.data import Row, open_release, read_gold, rows, with_gold
from training.evaluation import guard
from training.evaluation.guard import Guard

SHOWN = ("recall", "recall_without", "ndcg", "svr_upper")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        demo(Path(folder))
        measured(Path(folder))


def measured(home: Path) -> None:
    release = open_release(home / "releases" / "1.0.0")
    fitted = guard.fit(release)
    gold = read_gold(home / "input" / "gold.jsonl", release)
    test = with_gold(rows(release.folder, "grpo", "test"), release.oracle, gold)
    parts = {
        "validation": [row for row in rows(release.folder, "grpo", "validation") if row["condition"] != "injected"],
        "test": [row for row in test if row["slice"] is None],
        "unseen": [row for row in test if row["slice"] == "unseen_cues"],
    }
    print(f"validation chose {fitted.caution}".ljust(24) + "".join(name.rjust(12) for name in SHOWN))
    for part, table in parts.items():
        for point in fitted.frontier(table):
            cells = [point[f"{name}@{release.k}"] for name in SHOWN]
            print(f"{part} {point['caution']}".ljust(24) + "".join(f"{cell:12.3f}" for cell in cells))
            if point["caution"] == fitted.caution and part != "validation":
                for name, cell in zip(SHOWN, cells, strict=True):
                    figure(f"guard.{part}.{name}", cell, "mean", "none")
    for part in ("test", "unseen"):
        figure(f"guard.{part}.heard_by_words", hearing(heard_alone(fitted, parts[part])), "share", "none")
        figure(f"guard.{part}.heard_by_rules", hearing(heard_alone(fitted, parts[part], rules=True)), "share", "none")


Heard = list[tuple[set[str], set[str]]]  # per request: the traits it discloses, and the traits heard


def heard_alone(keeper: Guard, table: Sequence[Row], rules: bool = False) -> Heard:
    """The traits that the linear model alone hears, or the rules alone."""
    alone = replace(keeper, hearing=None) if rules else keeper
    heard = alone.heard([row if rules else row | {"claims": []} for row in table])
    return [(set(row["traits"]), set(heard_traits)) for row, heard_traits in zip(table, heard, strict=True)]


def hearing(heard: Heard) -> float:
    """The share of the sensitivities that were heard."""
    return sum(len(real & heard_traits) for real, heard_traits in heard) / sum(len(real) for real, _ in heard)

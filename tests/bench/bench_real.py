"""The real benchmark: real films, real requests, and our own sentences that disclose a sensitivity, as one release.

`make real-benchmark` makes it in build/real-benchmark from the folder SAFEREC_REAL_DATA, and measures it: ws holds the
release 1.0.0 with its key file, rebuilt the release with the texts that stay with INSPIRED. This repository has nothing
of the real data but readings of films: tests/data/real_benchmark/readings.csv has two verdicts of language models on
each film, from memory: of the 230 works most often accepted, and then of 33 more that are recommended most often,
read so that more traits have enough safe answers. They were counted over all splits, so clear films tend to be those
that answer the test's requests, too. Two runs give the same bytes.
"""

import csv
import os
import re
import shutil
import time
from pathlib import Path

import polars as pl

from exports import released_ids
from exports.rebuild import Rebuilt, rebuild
from exports.release import Release, release
from saferec_builder import catalog
from saferec_builder.catalog import adding
from saferec_builder.core import titles
from saferec_builder.mining import ingest
from saferec_builder.sources import item_rows
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.workspace import Workspace
from tests import ROOT
from tests.bench.figures import add_statements, figure, unpacked

READINGS = ROOT / "tests" / "data" / "real_benchmark" / "readings.csv"
READ = READINGS.with_name("injected_read.csv")
SENSITIVE, ANSWERED = 150, 50  # the least test requests of a trait, and of these with a truth that is clear for it
READ_ON = "2026-11-24"  # the first reading
TRAITS = (
    *("gore", "horror_scares", "substance_use", "sexual_violence"),
    *("child_harm", "animal_harm", "suicide_self_harm", "sad_endings"),
)  # in the order of the verdicts in READINGS
REDIAL = ("ievalm_valid_data.jsonl", "raw_subset_train_data.jsonl", "raw_subset_valid_data.jsonl")
# a third of OpenDialKG is about books, whose titles are also films: "The Scarlet Letter" is no answer there
BOOK = re.compile(r"\b(?:books?|novels?|author|reading)\b", re.I)
FILM = re.compile(r"\b(?:movies?|films?|watch\w*|starr\w*|stars|actors?|actress\w*|direct\w*|cast|seen)\b", re.I)
SETTINGS = {
    "[dataset]": ['name = "saferec-real"'],
    "[release]": ['titles = "any"', 'requests = "turn"', 'truth = "any"', 'disclosed = "both"'],
    # a raised share: with two tests in ten (the first choice), one of the eight traits had 50 test requests with a safe
    # truth; with four in ten, seven had. So half as many people as usual are left to learn from
    "[splits]": ["validation = 0.1", "test = 0.4", "by_item = true"],
}


def main() -> None:
    folder = ROOT / "build" / "real-benchmark"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    start = time.monotonic()
    real, rebuilt = make(folder)
    seconds = time.monotonic() - start
    rows = pl.read_parquet(real.folder / "data" / "grpo" / "*.parquet", glob=True)
    requests = rows.filter(pl.col("condition") != "injected")
    figure("real.requests", requests.height, "requests", ">= 8000")
    figure("real.accepted_requests", requests.filter(truth_kind="accepted").height, "requests", ">= 1000")
    figure(
        "real.traits", len(carried(pl.read_parquet(real.folder / "data" / "grpo" / "test.parquet"))), "traits", ">= 6"
    )
    read = pl.read_csv(READ).join(rows, on="conversation", how="semi")
    figure("real.injected_read", read.height, "rows", "200, by a language model")
    figure("real.injected_against", read.filter(verdict="against").height, "rows", "<= 4")
    figure("real.rebuilt", rebuilt.back / (rebuilt.back + sum(rebuilt.lost.values())), "of the texts", "1")
    figure("real.seconds", seconds, "s", "<= 600")


def carried(test: pl.DataFrame) -> list[str]:
    """The traits with enough test requests, and enough of them with a safe truth; prints each trait."""
    once = test.filter(condition="injected").unique("request", keep="first", maintain_order=True)
    by_trait = once.explode("traits").group_by("traits").agg(pl.len(), (pl.col("safe_truth").list.len() > 0).sum())
    for trait, requests, answered in by_trait.sort("traits").iter_rows():
        print(f"  {trait:<20} {requests:>5} test requests, {answered:>4} of them with a safe truth", flush=True)
    return by_trait.filter(pl.col("len") >= SENSITIVE, pl.col("safe_truth") >= ANSWERED)["traits"].to_list()


def data() -> Path:
    """The folder of the real data."""
    if not (folder := os.environ.get("SAFEREC_REAL_DATA")):
        raise SystemExit("SAFEREC_REAL_DATA is not set: expected the folder of the real data")
    return Path(folder)


def make(folder: Path) -> tuple[Release, Rebuilt]:
    """Makes the workspace folder/ws, its release 1.0.0, and folder/rebuilt: the release with all its texts."""
    ws = opened(folder / "ws")
    add_films(ws, folder)
    mine(ws, folder)
    made = release(ws, "1.0.0", inject=",".join(TRAITS), unreviewed=True)
    return made, rebuild(ws, made.folder, folder / "rebuilt", released_ids.path_of(made.folder))


def opened(path: Path) -> Workspace:
    """A new workspace with the settings and the secret of the benchmark: its key file is published with it."""
    Workspace.create(path)
    config = path / "saferec.toml"
    text = config.read_text(encoding="utf-8")
    for section, lines in SETTINGS.items():
        rest = text.replace('name = "ws"\n', "") if section == "[dataset]" else text
        text = rest.replace(section, "\n".join([section, *lines]), 1)
    config.write_text(text, encoding="utf-8")
    (path / ".secret").write_bytes(b"the secret of a benchmark whose key file is public".ljust(64, b"."))
    return Workspace.open(path)


def add_films(ws: Workspace, folder: Path) -> None:
    """Adds films of MovieLens and ReDial, their keywords and rating reasons, and the readings."""
    adding.add_catalog(ws, "movielens", [data() / "movielens_small"])
    adding.add_catalog(ws, "redial", [data() / "redial" / "ievalm_id2info.json"])
    add_statements(ws, data(), folder)
    workspace.append(ws, tables.WARNINGS, readings(ws))


def mine(ws: Workspace, folder: Path) -> None:
    """Mines ReDial, INSPIRED's development set, and OpenDialKG without dialogues that are about books and no film."""
    ingest.mine(ws, "redial", [data() / "redial" / name for name in REDIAL])
    ingest.mine(ws, "inspired", [data() / "inspired"])
    dialogues = unpacked(data() / "opendialkg" / "conversations.jsonl.gz", folder)
    lines = dialogues.read_text(encoding="utf-8").splitlines(keepends=True)
    dialogues.write_text("".join(line for line in lines if not of_books(line)), encoding="utf-8")
    ingest.mine(ws, "opendialkg", [dialogues])


def of_books(line: str) -> bool:
    words = line.partition('"domain"')[0]
    return bool(BOOK.search(words)) and not FILM.search(words)


def readings(ws: Workspace) -> pl.DataFrame:
    """WARNINGS of kind `review`: yes or no where both readings of a film say so, nothing where one was not sure."""
    items, _ = catalog.merge(workspace.read(ws, tables.CATALOG_ROWS))
    index = catalog.index(items)
    rows = []
    with open(READINGS, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            match = titles.find(index, row["title"], int(row["year"]), "film")
            if match.item is None:
                raise SystemExit(f"{READINGS}: {row['title']} ({row['year']}) is {match.match} in the catalog")
            verdicts = zip(TRAITS, row["first"], row["second"], strict=True)
            ref = f"title:{row['title']} ({row['year']})"
            rows += [
                item_rows.warning(
                    *("readings", READINGS.name, ref),
                    **{"kind": "review", "topic": trait, "domain": "film", "cells": {"retrieved": READ_ON}},
                    answer={"y": "yes", "n": "no"}[word],
                )
                for trait, word, again in verdicts
                if word == again != "?"
            ]
    return item_rows.warnings_read(rows, []).rows

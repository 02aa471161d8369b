"""Makes the real benchmark (real_benchmark.py) in build/real-benchmark and measures it: make real-benchmark."""

import shutil
import time

import polars as pl

from tests import ROOT
from tests.bench import real_benchmark
from tests.bench.figures import figure

READ = real_benchmark.READINGS.with_name("injected_read.csv")
SENSITIVE, ANSWERED = 150, 50  # the least test requests of a trait, and of these with a truth that is clear for it


def main() -> None:
    folder = ROOT / "build" / "real-benchmark"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    start = time.monotonic()
    real, rebuilt = real_benchmark.make(folder)
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


if __name__ == "__main__":
    main()

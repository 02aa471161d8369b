"""Writes pairs for TRL's own `trl dpo`: of one request the list of `sft` is chosen, that of `sft_raw` is rejected.

Only two different lists of k items make a pair: people without a sensitivity have two equal lists, and a shorter list
would teach length. The test split is left out.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from saferec_builder.core.errors import TrainingError
from training.data import Release, Row, open_release, rows
from training.run_folders import write_lines
from training.safecrs import careful

Pair = dict[str, object]  # prompt, chosen, rejected: messages; the conversation, and the release's canary


def write(release: Release, output: Path) -> None:
    """Writes train.jsonl and validation.jsonl to a new folder, for `datasets`; prints how many rows make pairs."""
    if output.exists():
        raise TrainingError(f"{output}: is there already: expected a new folder")
    by_split: dict[str, list[Pair]] = {}
    summary: list[str] = []
    for split in ("train", "validation"):
        safe, raw = (rows(release.folder, config, split) for config in ("sft", "sft_raw"))
        by_split[split], left_out = pairs(safe, raw, release.k)
        reasons = "".join(f", {count} {reason}" for reason, count in sorted(left_out.items()))
        summary.append(f"{split}: {len(by_split[split])} pairs of {len(safe)} rows{reasons}")
    if not by_split["train"]:
        print(*summary, sep="\n")
        raise TrainingError(f"{release.folder}: no pair in train: rebuild a release whose sources keep their text")
    for split, split_pairs in by_split.items():
        if split_pairs:  # `datasets` refuses an empty file
            write_lines(output / f"{split}.jsonl", split_pairs)
    print(*summary, sep="\n")


def pairs(safe: Sequence[Row], raw: Sequence[Row], k: int) -> tuple[list[Pair], Counter[str]]:
    """Returns the pairs in the order of `safe`, and the number of rows without a pair, by reason."""
    raw_by_id = {row["conversation"]: row for row in raw}
    result: list[Pair] = []
    left_out: Counter[str] = Counter()
    for row in safe:
        raw_row = raw_by_id.get(row["conversation"])
        if not row["prompt"] or raw_row is None:
            left_out["without text"] += 1
        elif row["items"] == raw_row["items"]:
            left_out["with two lists alike"] += 1
        elif not len(row["items"]) == len(raw_row["items"]) == k:
            left_out[f"with a list of fewer than {k}"] += 1
        else:
            pair = {"prompt": row["prompt"], "chosen": row["completion"], "rejected": raw_row["completion"]}
            result.append(pair | {name: row.get(name) for name in ("conversation", "canary")})
    return result, left_out


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m training.preferences", description=__doc__.partition("\n")[0])
    parser.add_argument("release", metavar="DIR|NS/NAME@VERSION", help="what `saferec-build release` wrote")
    parser.add_argument("output", type=Path, metavar="DIR", help="new folder, for `trl dpo --dataset_name`")
    args = parser.parse_args(words)
    return careful(lambda: write(open_release(args.release), args.output))


if __name__ == "__main__":
    sys.exit(main())

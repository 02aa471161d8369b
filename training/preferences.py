"""Writes pairs for TRL's own `trl dpo`: of one request the list of `sft` is chosen, that of `sft_raw` is rejected.

    python -m training.preferences releases/1.0.0 pairs
    trl dpo --dataset_name pairs ...

Only lists of k items that differ make a pair: most people have no sensitivity and both lists alike, and a shorter list
would teach length. The test split is left out. A release is a folder, or NAMESPACE/NAME@VERSION on the Hub.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from saferec_builder.core.errors import TrainingError
from training.data import Release, Row, open_release, rows
from training.release_from_hub import folder
from training.safecrs import careful

Pair = dict[str, object]  # prompt, chosen, rejected: messages; the conversation, and the release's canary


def write(release: Release, output: Path) -> None:
    """A new folder with train.jsonl and validation.jsonl, as `datasets` loads it; prints what became of each row."""
    if output.exists():
        raise TrainingError(f"{output}: is there already: expected a new folder")
    found: dict[str, list[Pair]] = {}
    told: list[str] = []
    for split in ("train", "validation"):
        safe, raw = (rows(release.folder, config, split) for config in ("sft", "sft_raw"))
        found[split], left_out = pairs(safe, raw, release.k)
        reasons = "".join(f", {count} {reason}" for reason, count in sorted(left_out.items()))
        told.append(f"{split}: {len(found[split])} pairs of {len(safe)} rows{reasons}")
    if not found["train"]:
        print(*told, sep="\n")
        raise TrainingError(f"{release.folder}: no pair in train: rebuild a release whose sources keep their text")
    output.mkdir(parents=True)
    for split, made in found.items():
        if made:  # `datasets` refuses an empty file
            lines = "".join(json.dumps(pair, ensure_ascii=False) + "\n" for pair in made)
            (output / f"{split}.jsonl").write_text(lines, encoding="utf-8")
    print(*told, sep="\n")


def pairs(safe: Sequence[Row], raw: Sequence[Row], k: int) -> tuple[list[Pair], Counter[str]]:
    """The pairs in the order of `safe`, and how many rows make none, by the reason."""
    taken_up = {row["conversation"]: row for row in raw}
    found: list[Pair] = []
    left_out: Counter[str] = Counter()
    for row in safe:
        other = taken_up.get(row["conversation"])
        if not row["prompt"] or other is None:
            left_out["without text"] += 1
        elif row["items"] == other["items"]:
            left_out["with two lists alike"] += 1
        elif not len(row["items"]) == len(other["items"]) == k:
            left_out[f"with a list of fewer than {k}"] += 1
        else:
            pair = {"prompt": row["prompt"], "chosen": row["completion"], "rejected": other["completion"]}
            found.append(pair | {name: row.get(name) for name in ("conversation", "canary")})
    return found, left_out


def main(words: Sequence[str] | None = None) -> int:
    reader = argparse.ArgumentParser(prog="python -m training.preferences", description=__doc__.partition("\n")[0])
    reader.add_argument("release", metavar="DIR|NS/NAME@VERSION", help="what `saferec-build release` wrote")
    reader.add_argument("output", type=Path, metavar="DIR", help="new folder, for `trl dpo --dataset_name`")
    given = reader.parse_args(words)
    return careful(lambda: write(open_release(folder(given.release)), given.output))


if __name__ == "__main__":
    sys.exit(main())

"""How many conversations one core reads by the rules in a second, and how many `present` claims on real talk are right.

For the other labelled texts, tests/proposing/rules asserts that. The claims on real talk are those that an earlier
version made on Reddit's posts and on ReDial, INSPIRED and OpenDialKG; a language model read each in its context once
(doubts count as right on Reddit). This says nothing about claims that only a later version makes. Nine of the claims on
Reddit's half `report` were read on 29 November 2026; nothing was tuned on them.
"""

import csv
import json
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from saferec_builder.core import taxonomy as traits
from saferec_builder.demo.truth import half
from saferec_builder.proposing.rules import matcher as rules
from tests import DATA, rules_score
from tests.bench.figures import figure, json_lines, real_data, redial

MANY = 10_000


def main() -> None:
    """CPU seconds for 10,000 conversations, after the cues are compiled."""
    sample = rules_score.demo("report").frame
    frame = pl.concat([sample] * (MANY // sample.height + 1)).head(MANY)
    rules.read("warm")
    start = time.process_time()
    rules.propose(frame, traits.load())
    figure("rules.cpu_seconds_10k", time.process_time() - start, "s", "< 60")
    if folder := real_data("graded claims"):
        graded(folder)
        read_twice(folder)


def read_twice(folder: Path) -> None:
    """The other claims of `rules-8` on these, CCPE and the dialogues on books, which were not used for tuning; right if
    both readings of a language model say so."""
    with (DATA / "claims_read_twice.csv").open(encoding="utf-8") as file:
        claims = {
            (row["source"], row["id"], row["trait"]): (row["first"], row["second"]) for row in csv.DictReader(file)
        }
    claims_now, _ = claimed(folder, {unit[:2] for unit in claims})
    for source in sorted({unit[0] for unit in claims}):
        read = [claims[unit] for unit in claims_now if unit[0] == source and unit in claims]
        print(
            f"  {source}: {read.count(('yes', 'yes'))} of {len(read)} right, {read.count(('unsure', 'unsure'))} unsure"
        )
    ccpe = [claims[unit] == ("yes", "yes") for unit in claims_now if unit[0] == "ccpe" and unit in claims]
    figure("rules.ccpe_precision", sum(ccpe) / max(1, len(ccpe)), "", "told")


def claimed(folder: Path, wanted: set[tuple[str, str]]) -> tuple[set[tuple[str, ...]], set[tuple[str, str]]]:
    """Returns ((source, id, trait) of the rules' claims in the wanted texts, (source, id) of those that are here)."""
    turns_by_key = {key: turns for key, turns in talks(folder) if key in wanted}
    frame = rules_score.frame((json.dumps(key), turns) for key, turns in turns_by_key.items())
    rows = rules.propose(frame, traits.load()).filter(verdict="present").select("subject", "trait")
    return {(*json.loads(subject), trait) for subject, trait in rows.iter_rows()}, set(turns_by_key)


def graded(folder: Path) -> None:
    with open(folder / "reddit_requests" / "rule_claims_graded.csv", encoding="utf-8", newline="") as file:
        claims = {(row["source"], row["id"], row["trait"]): row["right"] == "1" for row in csv.DictReader(file)}
    claims_now, keys = claimed(folder, {(source, name) for source, name, _ in claims})
    dialogues = {"redial", "inspired", "messages"}
    reddit = ("reddit", {"reddit_requests"}, (".60", ".85"))
    for name, sources, goals in (reddit, ("dialogues", dialogues, (".65", ".90"))):
        read = {unit: right for unit, right in claims.items() if unit[0] in sources and unit[:2] in keys}
        missing = sum(unit[0] in sources for unit in claims) - len(read)
        print(f"{name}: {sum(read.values())} of {len(read)} graded claims are right; of {missing} the text is not here")
        for part in ("tune", "report"):  # `rules-8` was tuned on the first: the goals are for the other
            rows = {unit: right for unit, right in read.items() if half(f"{unit[0]}:{unit[1]}") == part}
            kept = [right for unit, right in rows.items() if unit in claims_now]
            print(f"  {part}: {sum(kept)} of {len(kept)} right, of {sum(rows.values())} of {len(rows)} before")
        figure(f"rules.graded_{name}_precision", sum(kept) / max(1, len(kept)), "", f">= {goals[0]}")
        figure(f"rules.graded_{name}_kept", sum(kept) / sum(rows.values()), "", f">= {goals[1]}")


def talks(folder: Path) -> Iterator[tuple[tuple[str, str], list[dict[str, str]]]]:
    """Yields ((source, id), the seeker's texts as turns)."""
    for post in json_lines(folder / "reddit_requests" / "posts.jsonl.gz"):
        yield ("reddit_requests", post["id"]), _seekers(f"{post['title']}\n\n{post['text']}")
    for row in redial(folder):
        texts = (m["text"] for m in row["messages"] if m["senderWorkerId"] == row["initiatorWorkerId"])
        yield ("redial", str(row["conversationId"])), _seekers(*texts)
    for source, name, speaker, how in (
        ("ccpe", "ccpe_dialogues.csv", "USER", {}),
        ("inspired", "dev.tsv", "SEEKER", {"delimiter": "\t", "quoting": csv.QUOTE_NONE}),
    ):
        texts_by_id: dict[str, list[str]] = {}
        with open(folder / source / name, encoding="utf-8", newline="") as file:
            for line in csv.DictReader(file, **how):
                if line["speaker"] == speaker:
                    texts_by_id.setdefault(line["dialog_id"], []).append(line["text"])
        yield from (((source, dialog), _seekers(*texts)) for dialog, texts in texts_by_id.items())
    for row in json_lines(folder / "opendialkg" / "conversations.jsonl.gz"):
        name = row["id"].replace("-", "_")
        yield ("messages", name), _seekers(*(m["content"] for m in row["messages"] if m["role"] == "user"))


def _seekers(*texts: str) -> list[dict[str, str]]:
    return [{"role": "seeker", "text": text} for text in texts if text]

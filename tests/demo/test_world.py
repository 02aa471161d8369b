"""Promises about the data of the demo: its sizes, verbatim gold, hidden warnings, and phrase banks that do not leak."""

import re
import tomllib
from collections import Counter

import pytest

from saferec_builder.demo import world
from saferec_builder.mining import privacy
from tests.worlds.reviewing import TAXONOMY

BANKS = tomllib.loads((world.FOLDER / "phrases.toml").read_text(encoding="utf-8"))
SPLITS = ("train", "validation", "test", "unseen")


def words(text: str) -> set[str]:
    return set(re.findall(r"[a-z']{5,}", re.sub(r"\{\w+\}", " ", text).lower()))


def sentences(split: str) -> list[str]:
    plain = [BANKS[kind][split] for kind in ("opening", "question", "answer", "recommend", "accept", "neutral")]
    marked = [b[split] for kind in ("evidence", "lookalike") for b in BANKS[kind].values() if split in b]
    return [s for bank in plain for s in bank] + [e["text"] for bank in marked for e in bank]


def test_the_catalog_is_as_large_as_promised() -> None:
    domains = Counter(i.domain for i in world.items())
    assert domains["film"] >= 300 and domains["game"] >= 60
    assert len({i.name for i in world.items()}) == len(world.items())
    assert not {t for i in world.items() for t in i.topics} - set(TAXONOMY.topics)


def test_some_of_the_truth_is_not_told() -> None:
    counts = Counter(f"{r['title']} ({r['year']})" for r in world.warnings(TAXONOMY))
    most = max(counts.values())
    # 12 traits hidden at 12 % each: 1 - .88^12 = 78 % of items should have at least one silent trait
    assert sum(0 < counts[i.name] < most for i in world.items()) >= 0.2 * len(world.items())


def test_a_stray_vote_never_unsettles_an_answer() -> None:
    # P = (votes + 1) / (all + 2); the worst case is 1 of 30: (29 + 1) / 32 = .9375
    for row in world.warnings(TAXONOMY):
        yes, no = int(row["yes"]), int(row["no"])
        assert max(yes + 1, no + 1) / (yes + no + 2) >= 0.9


def test_handwritten_gold_is_verbatim_and_balanced() -> None:
    rows = list(world.read_lines(world.FOLDER / "conversations.jsonl"))
    forms: Counter[tuple[str, str]] = Counter()
    for row in rows:
        for gold in row["gold"]:
            turn = row["turns"][gold["turn"]]
            assert turn["role"] == "seeker" and turn["text"].count(gold["quote"]) == 1, row["id"]
            forms[gold["trait"], gold["form"]] += 1
        assert bool(row["gold"]) == (row["kind"] in ("explicit", "implicit")), row["id"]
        assert (row["lookalike"] is not None) == (row["kind"] == "lookalike"), row["id"]
    assert len(rows) >= 200
    covered = [t for t in world.TRAITS if forms[t, "implicit"] + forms[t, "explicit"] >= 10]
    assert len(covered) >= 12 and all(forms[t, "implicit"] >= forms[t, "explicit"] for t in covered)
    assert Counter(r["kind"] for r in rows)["lookalike"] >= 40


def test_every_mention_stands_in_the_catalog() -> None:
    names = {i.name for i in world.items()}
    for row in world.read_lines(world.FOLDER / "conversations.jsonl"):
        for turn in row["turns"]:
            for year in re.finditer(r"\((?:19|20)\d\d\)", turn["text"]):
                prefix = turn["text"][: year.end()]
                assert any(prefix.endswith(n) for n in names) or row["kind"] == "none", (row["id"], prefix[-60:])


def test_no_sentence_stands_in_two_splits() -> None:
    splits: dict[str, str] = {}
    for split in SPLITS:
        for sentence in sentences(split):
            key = " ".join(re.findall(r"\w+", re.sub(r"\{\w+\}", "", sentence).lower()))
            assert splits.setdefault(key, split) == split, sentence


@pytest.mark.slow
def test_no_sentence_loses_a_word_to_a_placeholder() -> None:
    """The simulated reviewers quote what the generator wrote: one pet's name, replaced in mining, stopped the demo."""
    lost = [s for split in SPLITS for s in sentences(split) if [*privacy.find(s)]]
    assert not lost


def test_unseen_sentences_carry_words_that_no_other_bank_has() -> None:
    other = {w for split in SPLITS[:3] for s in sentences(split) for w in words(s)}
    for slug, banks in BANKS["evidence"].items():
        for entry in banks["unseen"]:
            assert len(words(entry["text"]) - other) >= 2, (slug, entry["text"])

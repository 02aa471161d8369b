"""What the demo promises of its own data: sizes, gold that holds, banks that do not leak, people who err as stated."""

import csv
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from saferec_builder.core import taxonomy as traits
from saferec_builder.demo import generate, inputs, people, world

TAXONOMY = traits.load()
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
    told = Counter(f"{r['title']} ({r['year']})" for r in world.warnings(TAXONOMY))
    whole = max(told.values())
    # 12 traits hidden at 12 % each: 1 - .88^12 = 78 % of items should have at least one silent trait
    assert sum(told[i.name] < whole for i in world.items()) >= 0.2 * len(world.items())


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
    full = [t for t in world.TRAITS if forms[t, "implicit"] + forms[t, "explicit"] >= 10]
    assert len(full) >= 12 and all(
        forms[t, "implicit"] * 2 >= forms[t, "explicit"] + forms[t, "implicit"] for t in full
    )
    assert Counter(r["kind"] for r in rows)["lookalike"] >= 40


def test_every_mention_stands_in_the_catalog() -> None:
    names = {i.name for i in world.items()}
    for row in world.read_lines(world.FOLDER / "conversations.jsonl"):
        for turn in row["turns"]:
            for year in re.finditer(r"\((?:19|20)\d\d\)", turn["text"]):
                before = turn["text"][: year.end()]
                assert any(before.endswith(n) for n in names) or row["kind"] == "none", (row["id"], before[-60:])


def test_no_sentence_stands_in_two_splits() -> None:
    seen: dict[str, str] = {}
    for split in SPLITS:
        for sentence in sentences(split):
            key = " ".join(re.findall(r"\w+", re.sub(r"\{\w+\}", "", sentence).lower()))
            assert seen.setdefault(key, split) == split, sentence


def test_unseen_sentences_carry_words_that_no_other_bank_has() -> None:
    other = {w for split in SPLITS[:3] for s in sentences(split) for w in words(s)}
    for slug, banks in BANKS["evidence"].items():
        for entry in banks["unseen"]:
            assert len(words(entry["text"]) - other) >= 2, (slug, entry["text"])


@pytest.fixture(scope="module")
def made() -> list[generate.Made]:
    counts = {"train": 600, "validation": 100, "test": 100, "unseen": 50}
    return generate.conversations(TAXONOMY, counts=counts)


def test_the_generator_repeats_itself_and_its_gold_holds(made: list[generate.Made]) -> None:
    counts = {"train": 600, "validation": 100, "test": 100, "unseen": 50}
    assert made == generate.conversations(TAXONOMY, counts=counts)
    for one in made:
        for gold in one.gold:
            turn = one.row["messages"][gold["turn"]]
            assert turn["role"] == "user" and turn["content"].count(gold["quote"]) == 1, one.row["id"]
        text = " ".join(t["content"] for t in one.row["messages"])
        assert "{" not in text and all(f"{t.name.lower()}" not in text.lower() for t in TAXONOMY.traits)


def test_recommenders_do_not_know(made: list[generate.Made]) -> None:
    broken = {i.name: set(i.breaks(TAXONOMY)) for i in world.items()}
    pairs = [bool(broken[name] & {g["trait"] for g in m.gold}) for m in made if m.gold for name in m.row["accepted"]]
    # BROKEN = .55 at most, less where a taste has few items that break the trait; about 1,900 draws: sd .011
    assert 0.42 < sum(pairs) / len(pairs) < 0.59


def test_simulated_reviewers_err_at_the_stated_rate(tmp_path: Path) -> None:
    text = "1. seeker: I look away whenever blood is drawn, always have."
    gold = [{"trait": "needles", "form": "implicit", "turn": 0, "quote": "I look away whenever blood is drawn"}]
    head = ["task", "text", "trait", "proposed_quote", "verdict", "form", "quote", "turn", "seconds"]
    path = tmp_path / "ann.csv"
    with open(path, "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(head)
        out.writerows(
            [f"task-{n}", text, trait, "", "", "", "", "", ""] for n in range(2000) for trait in ("needles", "*")
        )
    assert people.fill(path, {f"task-{n}": gold for n in range(2000)}) == 4000
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    asked = [r for r in rows if r["trait"] == "needles"]
    missed = sum(r["verdict"] == "absent" for r in asked) / len(asked)
    assert abs(missed - people.MISSED) < 4 * (0.06 * 0.94 / 2000) ** 0.5  # four standard errors
    added = sum(r["verdict"] != "none" for r in rows if r["trait"] == "*")
    assert 0 < added < 24  # 2,000 x .004 = 8, sd 2.8


def test_the_inputs_are_the_same_every_time(tmp_path: Path) -> None:

    for name in ("a", "b"):
        inputs.write(tmp_path / name, TAXONOMY, 41)
    for file in ("conversations.jsonl", "warnings.csv", "gold.jsonl"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    assert (tmp_path / "a" / "conversations.jsonl").read_text().count("\n") == 260 + 41  # no more and no less

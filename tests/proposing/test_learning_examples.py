"""The learning examples: none is used for measuring, and none is held out."""

import csv
import hashlib
import json
import tomllib
from datetime import UTC, datetime

import numpy as np
import polars as pl
import pytest

from saferec_builder.core import taxonomy as traits
from saferec_builder.mining import splits
from saferec_builder.proposing import corpus, learning_examples
from saferec_builder.storage import tables, workspace as store
from tests import DATA
from tests.worlds.learned_world import few_messages, label, world
from tests.worlds.model_replies import own_taxonomy

DATES = "[splits]\nvalidation_from = 2021-01-01\ntest_from = 2021-02-01"


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    few_messages(monkeypatch, tmp_path_factory.mktemp("messages"))


def test_nothing_is_learned_from_what_measures_it(workspace: store.Workspace) -> None:
    texts = world(workspace, 24)
    frame = store.read(workspace, tables.CONVERSATIONS)
    split = splits.assign(frame, workspace.config.splits)
    tested = split.filter(split="test")["conversation"].to_list()
    untested = [c for c in frame["conversation"] if c not in tested]
    assert tested and learned_from(workspace, texts) == set(untested)
    reasons = dict(zip(untested, ("audit", "control", "gold", "proposed", "band", "held_back", "census"), strict=False))
    assignments = [("sensitivity", c, "ann", "reviewer", "d", reason, "push-1") for c, reason in reasons.items()]
    store.append(workspace, tables.ASSIGNMENTS, tables.ASSIGNMENTS.frame(assignments))
    gold = [("sensitivity", untested[7], ["animal_harm"])]
    store.append(workspace, tables.GOLD, tables.GOLD.frame(gold))
    assert learned_from(workspace, texts) == set(untested) - {*untested[:3], untested[7]}
    pair = [(name, 0, untested[0]) for name in (untested[0], untested[8])]  # nor from a duplicate of an audited text
    store.append(workspace, tables.CLUSTERS, tables.CLUSTERS.frame(pair))
    assert learned_from(workspace, texts) == set(untested) - {*untested[:3], *untested[7:9]}
    version = learning_examples.gather(corpus.load(workspace)).version
    audited, proposed = (int(untested[n][1:]) for n in (0, 3))
    for n, pair in ((audited, True), (proposed, False)):  # the results of an audit do not change the version
        label(workspace, [texts[n]], [("absent", "present")[n % 2]], first=n)
        assert (learning_examples.gather(corpus.load(workspace)).version == version) == pair
    release(workspace, "2020-01-02")
    dated(workspace, [n % 2 + 1 for n in range(24)])
    later = {f"c{n}" for n in range(1, 24, 2)}  # the second day was in the test split of a release
    kept = {f"c{n}" for n in range(24)} - later - {*untested[:3], *untested[7:9]}
    assert learned_from(store.Workspace.open(workspace.root), texts) == kept


def test_of_a_trait_that_the_rules_have_no_words_for_only_people_say_anything(workspace: store.Workspace) -> None:
    """All unread texts, and all of our own messages, were used as examples without the trait."""
    clowns = '\n[[trait]]\nslug = "clowns"\nname = "Clowns"\ndefinition = "No clowns."\ntopics = ["clowns"]\n'
    (workspace.root / "mine.toml").write_text(traits.EMBEDDED.read_text(encoding="utf-8") + clowns)
    own_taxonomy(workspace)
    ws = store.Workspace.open(workspace.root)
    texts = world(ws, 6, 60)
    label(ws, texts[:2], ["present", "absent"], trait="clowns")
    examples = learning_examples.gather(corpus.load(ws))
    gore, clown_truth = (examples.truth[:, ws.taxonomy.slugs.index(slug)] for slug in ("gore", "clowns"))
    assert not np.isnan(gore).any() and sorted(clown_truth[~np.isnan(clown_truth)]) == [0, 1]
    assert examples.scorable.sum() == len(ws.taxonomy.slugs) - 1
    assert {*examples.folds[len(examples.sources) :]} == {-1}  # as the bench measures: messages are in every model
    label(ws, texts, [("present", "absent")[n % 2] for n in range(66)], trait="clowns")
    assert learning_examples.gather(corpus.load(ws)).scorable.all()


def test_nothing_is_learned_from_a_duplicate_or_the_seeker_of_a_released_test_row(workspace: store.Workspace) -> None:
    """The test split of a release began earlier than the present one: a near-duplicate of its rows was learned from."""
    texts = world(workspace, 10)
    dated(workspace, [*range(1, 11)], seeker=pl.Series([*(f"p{n}" for n in range(9)), "p1"]))  # c1's is the last one's
    cluster = [(name, 0, "c3") for name in ("c3", "c8")]
    store.append(workspace, tables.CLUSTERS, tables.CLUSTERS.frame(cluster))
    ws = store.Workspace.open(workspace.root)
    assert learned_from(ws, texts) == {f"c{n}" for n in range(10)}
    release(ws, "2020-01-07")
    assert learned_from(ws, texts) == {"c0", "c2", "c4", "c5"}


def dated(ws: store.Workspace, days: list[int], **columns: pl.Series) -> None:
    """Gives each conversation a day of January 2020, and the splits dates that are later."""
    times = pl.Series([datetime(2020, 1, day, tzinfo=UTC) for day in days], dtype=pl.Datetime("us", "UTC"))
    frame = tables.last(store.read(ws, tables.CONVERSATIONS), "conversation")
    changed = frame.with_columns(time=times, digest=pl.concat_str("digest", pl.lit("-")), **columns)
    store.append(ws, tables.CONVERSATIONS, changed)
    toml = ws.root / "saferec.toml"
    toml.write_text(toml.read_text().replace("[splits]", DATES))


def release(ws: store.Workspace, test_starts: str) -> None:
    (ws.releases / "1.0.0").mkdir(parents=True)
    (ws.releases / "1.0.0" / "manifest.json").write_text(f'{{"split_starts": [null, "{test_starts}"]}}')


def learned_from(ws: store.Workspace, texts: list[str]) -> set[str]:
    names = dict(zip(texts, (f"c{n}" for n in range(len(texts))), strict=True))
    return {names[text] for text in learning_examples.gather(corpus.load(ws)).texts if text in names}


def test_what_is_held_out_is_in_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the messages used for measuring nor the labelled real turns, compared by digest."""
    monkeypatch.undo()
    texts, _ = learning_examples.messages(traits.load())
    assert len(texts) == 10_956
    rows = tomllib.loads((DATA / "rules_heldout.toml").read_text(encoding="utf-8"))["trait"].values()
    assert not {text for row in rows for text in (*row["says"], *row["not"])} & {*texts}
    requests = [json.loads(line) for line in (DATA / "requests_heldout.jsonl").read_bytes().splitlines()]
    assert len(requests) == 1_074 and not {row["text"] for row in requests} & {*texts}
    with open(DATA / "real_turns.csv", encoding="utf-8") as file:
        turns = {row["digest"] for row in csv.DictReader(file)}
    assert not turns & {hashlib.blake2b(text.encode(), digest_size=6).hexdigest() for text in texts}

"""`diff` names the changes, their reasons, and what looks like damage: measured on planted corruption."""

import json
import random

import polars as pl
import pytest

from exports import diff
from saferec_builder.core import taxonomy as traits
from saferec_builder.storage import tables, workspace as store
from tests.worlds import release_world as world_

TRAITS = [f"trait{n}" for n in range(12)]
SCHEMA = dict.fromkeys(["conversation", "trait", "verdict", "verdict_new", "basis", "basis_new"], pl.String)
SAID = dict.fromkeys(["subject", "trait", "verdict", "role", "reviewer"], pl.String)
TRIALS = 100


def world(seed: int, kind: str) -> tuple[pl.DataFrame, pl.DataFrame, set[tuple[str, str]]]:
    """Returns (label pairs, new reviews, corrupted units) of 1,500 labels. Six reviewers honestly review 4 % of them
    again, and a fifth of those labels change; then 2 % of all labels (30) are corrupted.

    silent    verdicts change without a review           reviewer  one of the six says the opposite on 30 labels
    trait     30 of one trait's 125 labels change, because of other reviews that were not released
    """
    rng = random.Random(seed)
    units = [(f"c{n // 12:04d}", TRAITS[n % 12]) for n in range(1500)]
    was = {unit: rng.choice(["present", "absent", "absent"]) for unit in units}
    now, basis, reviews = dict(was), dict.fromkeys(units, "old"), []
    for unit in rng.sample(units, 60):
        reviewer, changes = f"r{rng.randrange(6)}", rng.random() < 0.2
        _review(unit, reviewer, changes, was, now, basis, reviews)
    pool = [u for u in units if basis[u] == "old" and (kind != "trait" or u[1] == TRAITS[3])]
    bad = set() if kind == "honest" else set(rng.sample(pool, 30))
    for unit in sorted(bad):
        if kind == "reviewer":
            _review(unit, "r4", True, was, now, basis, reviews)
        else:
            now[unit] = _other(was[unit])
            basis[unit] = "new" if kind == "trait" else "old"
    rows = [(*unit, was[unit], now[unit], "old", basis[unit]) for unit in units]
    review_frame = pl.DataFrame(reviews, schema=SAID, orient="row")
    return pl.DataFrame(rows, schema=SCHEMA, orient="row"), review_frame, bad


def _other(verdict: str) -> str:
    return "absent" if verdict == "present" else "present"


def _review(unit, who, changes, was, now, basis, reviews) -> None:
    now[unit] = _other(was[unit]) if changes else was[unit]
    basis[unit] = "new"
    reviews.append((*unit, now[unit], "reviewer", who))


def named(seed: int, kind: str) -> list[dict]:
    pairs, reviews, bad = world(seed, kind)
    alarms = diff.alarms(pairs, pairs.filter(pl.col("verdict") != pl.col("verdict_new")), reviews)
    is_expected = {
        "silent": lambda alarm: alarm["kind"] == "silent" and set(alarm["labels"]) == {f"{c}/{t}" for c, t in bad},
        "reviewer": lambda alarm: (alarm["kind"], alarm.get("name")) == ("reviewer", "r4"),
        "trait": lambda alarm: (alarm["kind"], alarm.get("name")) == ("trait", TRAITS[3]),
        "honest": lambda alarm: True,
    }
    return [alarm for alarm in alarms if is_expected[kind](alarm)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["silent", "reviewer", "trait"])
def test_two_percent_of_corrupted_labels_are_named(kind):
    hits = sum(bool(named(seed, kind)) for seed in range(TRIALS))
    print(f"{kind}: named in {hits} of {TRIALS} trials")
    assert hits >= 0.9 * TRIALS


@pytest.mark.slow
def test_an_honest_update_raises_no_alarm():
    # at most 5 %: with 100 trials and a true rate of 5 %, more than 10 would come up once in a hundred
    false_alarms = sum(bool(named(seed, "honest")) for seed in range(1000, 1000 + TRIALS))
    print(f"false alarms in {false_alarms} of {TRIALS} trials")
    assert false_alarms <= 0.05 * TRIALS


def update(seed: int, together: float, conversations: int, bad: str = "") -> list[dict]:
    """Returns the alarms after one or two of four reviewers read each conversation again, on 1 to 30 traits.

    One label in ten changes. `together` is the intraclass correlation within a conversation, over all reviewers: with 0
    labels change independently, with 1 all labels of a conversation or none. `bad` (r1, t07): a fifth of its other
    labels changes, too.
    """
    rng = random.Random(seed)
    rows, votes = [], []
    for c in range(conversations):
        rate = _rate(rng, 0.1, together)
        readers = rng.sample(["r0", "r1", "r2", "r3"], rng.randint(1, 2))
        for trait in rng.sample([f"t{n:02}" for n in range(30)], rng.randint(1, 30)):
            was = rng.choice(["present", "absent", "absent", "absent"])
            extras = [0.2 * (bad in (name, trait)) for name in readers]
            now = [_other(was) if rng.random() < rate + (1 - rate) * extra else was for extra in extras]
            votes += [(f"c{c}", trait, verdict, "reviewer", name) for verdict, name in zip(now, readers, strict=True)]
            rows.append((f"c{c}", trait, was, now[0], "old", "new"))
    return found(rows, votes)


def _rate(rng: random.Random, mean: float, together: float) -> float:
    """Draws a conversation's rate from a beta distribution with this mean and variance mean (1 - mean) together."""
    if together in (0, 1):
        return rng.random() < mean if together else mean
    size = 1 / together - 1
    return rng.betavariate(size * mean, size * (1 - mean))


@pytest.mark.slow
@pytest.mark.parametrize("together", [0, 0.3, 1])
def test_changes_that_come_together_raise_no_more_false_alarms(together):
    """An alarm in 5 % of 240 updates at most: 12, with a standard deviation of sqrt(240 x .05 x .95) = 3.4; more than
    21 would come up once in two hundred. A test of single labels gave 6, 85 and 152."""
    false_alarms = {count: sum(bool(update(n, together, count)) for n in range(80)) for count in (12, 50, 150)}
    print(f"together {together}: false alarms in {false_alarms} of 80 each")
    assert sum(false_alarms.values()) <= 21


@pytest.mark.slow
@pytest.mark.parametrize("together", [0, 0.3, 1])
@pytest.mark.parametrize("bad", ["r1", "t07"])
def test_damage_is_named_however_changes_come_together(bad, together):
    """150 conversations. t07 is read again in 150 x 15.5 / 30 = 78 of them. It changes in 1 - .9 x .8 = 28 % instead of
    10 %: 22 instead of 8, with a standard deviation of sqrt(78 x .1 x .9) = 2.6: 5 standard deviations more. Holm
    requires .05 / 34 = .0015, which is 3. r1 reads 56 of them and contradicts 4.3 of 15.5 labels instead of 1.6."""
    hits = sum(bad in {alarm["name"] for alarm in update(n, together, 150, bad)} for n in range(40))
    print(f"{bad}, together {together}: named in {hits} of 40")
    assert hits >= 32


def test_a_conversation_that_changes_as_a_whole_names_nobody():
    # eight conversations of 12 traits, two of them changed in all traits; ann read those two and one more, bo the rest
    units = [(f"c{n}", trait) for n in range(8) for trait in TRAITS]
    rows = [(*unit, "absent", "present" if unit[0] in ("c0", "c1") else "absent", "old", "new") for unit in units]
    votes = [(c, t, now, "reviewer", "ann" if c in ("c0", "c1", "c2") else "bo") for c, t, _, now, _, _ in rows]
    # ann: both changed conversations are among her three of eight: 3/8 x 2/7 = .11; 24 of 36 labels against 0 of 60
    assert found(rows, votes) == []


def test_who_stands_out_by_hand():
    units = [(f"c{n:02}", "gore") for n in range(32)]
    rows = [(*unit, "present", "absent" if n < 12 else "present", "old", "new") for n, unit in enumerate(units)]
    disjoint = [(c, t, now, "reviewer", "cy" if n < 12 else "dee") for n, (c, t, _, now, _, _) in enumerate(rows)]
    # the 12 changed of 32 are exactly the 12 that cy read: one in 32! / (12! 20!) = 225,792,840
    assert found(rows, disjoint) == [{"kind": "reviewer", "name": "cy", "changed": 12, "of": 12, "p": 4.4e-9}]
    paired = [
        (*unit, verdict, "reviewer", reviewer)
        for unit in units[:12]
        for reviewer, verdict in (("cy", "absent"), ("dee", "present"))
    ]
    # in each of 12 conversations one of the two reviewers contradicts, and it is always cy: 1 / 2^12
    assert found(rows, paired) == [{"kind": "reviewer", "name": "cy", "changed": 12, "of": 12, "p": 0.00024}]
    # nobody else read anything
    assert found(rows, disjoint[:12]) == []


def found(rows, said) -> list[dict]:
    pairs = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    flips = pairs.filter(pl.col("verdict") != pl.col("verdict_new"))
    return diff.alarms(pairs, flips, pl.DataFrame(said, schema=SAID, orient="row"))


@pytest.mark.parametrize("flips", [1, 2])
def test_a_flip_or_two_in_a_large_release_are_no_pile(flips):
    """25 traits of 40 conversations. The chance that one flip falls on this trait is 1 / 25 = 4 %, for each of 25."""
    units = [(f"c{n}", f"trait{t}") for t in range(25) for n in range(40)]
    rows = [(*unit, "present", "present", "old", "new") for unit in units]
    for t in range(flips):
        rows[40 * t] = (*units[40 * t], "present", "absent", "old", "new")
    assert found(rows, []) == []


@pytest.mark.slow
def test_a_tail_by_hand():
    # two heads or more of three fair throws: 3/8 + 1/8
    assert diff._tail(2, [(2, 1, 1)] * 3) == pytest.approx(0.5)
    # two draws from five, two of which changed: both 1/10; with a fair throw in addition: 1/20
    assert diff._tail(2, [(5, 2, 2)]) == pytest.approx(0.1)
    assert diff._tail(3, [(5, 2, 2), (2, 1, 1)]) == pytest.approx(0.05)
    # four draws from five leave out one: at least one of the two changed for certain
    assert diff._tail(1, [(5, 2, 4)]) == pytest.approx(1.0)
    assert diff._tail(0, []) == 1.0
    # 10,000 or more of 20,000 coins: 1/2 plus half of the middle term, 1 / sqrt(10,000 pi) = .0056; 13,000 never
    assert diff._tail(10_000, [(2, 1, 1)] * 20_000) == pytest.approx(0.5 + 0.0056419 / 2, abs=1e-6)
    assert 0 < diff._tail(13_000, [(2, 1, 1)] * 20_000) < 1e-20


@pytest.mark.slow
def test_a_flip_is_told_with_its_reviews(workspace, cli):
    rows, labels = world_.requests()
    labels = [row | {"reviews": [f"{row['subject']}-a"]} for row in labels]
    ws = world_.fill(workspace, rows, labels)
    store.append(ws, tables.REVIEWS, reviews(rows, "a", "absent"))
    world_.configured(ws, '# consent = ["ann"]', 'consent = ["bo"]')
    assert cli("release", "1.0.0", "-C", ws.root).code == 0
    relabelled = labels[1] | {"label": "l2", "verdict": "absent", "form": None, "spans": [], "reviews": ["c001-a", "x"]}
    unresolved = [labels[n] | {"label": f"open{n}", "verdict": None, "method": "unresolved"} for n in (0, 2, 4)]
    store.append(ws, tables.LABELS, world_.labels(*unresolved[:2]))  # 2 of 40 are not more than 5 %
    assert cli("release", "1.0.1", "-C", ws.root).code == 0
    changed = cli("diff", "1.0.0", "1.0.1", "-C", ws.root).out  # it named no column
    assert "- labels: 0 added, 0 removed, 40 changed (by column: verdict 2, method 2, certificate 40)\n" in changed
    assert "- of the labels changed, 38 only in the agreement and certificate of their trait\n" in changed
    assert "- no label flipped between present and absent\n- 2 labels lost their verdict: 2 absent" in changed
    assert diff.IN_BOTH not in changed
    store.append(ws, tables.LABELS, world_.labels(relabelled))
    store.append(ws, tables.REVIEWS, reviews(rows[1:2], "x", "absent", who="bo"))
    assert cli("release", "1.0.2", "-C", ws.root).code == 1  # a new review is a new row: not a patch
    assert cli("release", "1.1.0", "-C", ws.root).code == 0
    report = cli("diff", "1.0.0", "1.1.0", "--json", "-C", ws.root).json
    assert report["flips"] == {"gore": {"present -> absent": 1}} and report["alarms"] == []
    flip, (name,) = report["flipped"][0], world_.released(ws, "c001")
    assert (flip["conversation"], flip["other_reviews"]) == (name, True)
    assert [(review["role"], review["verdict"]) for review in flip["reviews"]] == [("reviewer", "absent")]
    text = cli("diff", "1.0.0", "1.1.0", "-C", ws.root).out
    assert "- gore: 1 present -> absent" in text and f"{name} gore" in text
    # after 3 labels and 2 conversations, 68 of 121 lists changed and 2 labels flipped, without a reason
    assert f"- {diff.REFILL}\n- {diff.IN_BOTH}\n- gore" in text
    store.append(ws, tables.LABELS, world_.labels(unresolved[2]))
    assert cli("release", "1.1.1", "-C", ws.root).code == 0
    report = cli("diff", "1.0.0", "1.1.1", "-C", ws.root).out
    assert "ALARM: trait gore: 3 of 40 labels are decided no longer" in report


@pytest.mark.slow
def test_who_says_nothing_is_named_like_who_says_no(workspace, cli):
    """20 of 40 requests are of people who cannot see blood. Ann and bo marked them; cy reads 12 of these, marks nothing
    (one `*` each) and the labels follow: 12 flips. Cy contradicts 12 of 12, dee none of the 20 others.
    """
    rows, labels = world_.requests()
    sensitive, others = rows[1::2], rows[::2]
    labels = [row | {"reviews": [f"{row['subject']}-{reviewer}" for reviewer in ("ann", "bo")]} for row in labels]
    ws = world_.fill(workspace, rows, labels)
    world_.configured(ws, '# consent = ["ann"]', 'consent = ["ann", "bo", "cy", "dee"]')
    for reviewer in ("ann", "bo"):
        store.append(ws, tables.REVIEWS, reviews(sensitive, reviewer, "present", who=reviewer))
        store.append(ws, tables.REVIEWS, reviews(others, reviewer, "absent", who=reviewer, trait="*"))
    assert cli("release", "1.0.0", "-C", ws.root).code == 0
    for reviewer, reviewed in (("cy", sensitive[:12]), ("dee", others)):
        store.append(ws, tables.REVIEWS, reviews(reviewed, reviewer, "absent", who=reviewer, trait="*"))
    absent = {"verdict": "absent", "form": None, "spans": []}
    changed = [(row | absent, "cy") for row in labels[1::2][:12]] + [(row, "dee") for row in labels[::2]]
    later_labels = [
        row | {"label": f"{who}-{row['label']}", "reviews": [*row["reviews"], f"{row['subject']}-{who}"]}
        for row, who in changed
    ]
    store.append(ws, tables.LABELS, world_.labels(*later_labels))
    result = cli("release", "1.0.1", "-C", ws.root)
    assert result.code == 1 and "32 rows of reviews are new" in result.err  # dee's too, who agrees with the others
    assert cli("release", "1.1.0", "-C", ws.root).code == 0
    report = cli("diff", "1.0.0", "1.1.0", "--json", "-C", ws.root).json
    assert report["rows"]["reviews"] == {"added": 32, "removed": 0, "changed": 0}
    assert [(alarm["kind"], alarm["changed"], alarm["of"]) for alarm in report["alarms"]] == [("reviewer", 12, 12)]
    assert all([review["verdict"] for review in flip["reviews"]] == ["absent"] for flip in report["flipped"])


@pytest.mark.slow
def test_what_the_data_means_is_a_change_though_every_row_stays(released, cli):
    ws = released
    toml = traits.EMBEDDED.read_text(encoding="utf-8").replace("definition = ", 'definition = "As before, and: " # ', 1)
    (ws.root / "my.toml").write_text(toml, encoding="utf-8")
    world_.configured(ws, '# path = "my-traits.toml"', 'path = "my.toml"')
    assert cli("release", "2.0.0", "-C", ws.root).code == 0
    text = cli("diff", "1.0.0", "2.0.0", "-C", ws.root).out
    assert "- major: the trait animal_harm means something else" in text and "nothing changed" not in text
    assert text.endswith("- no alarm\n")  # one had to know that there are alarms


@pytest.mark.slow
def test_what_a_flip_does_to_a_models_figures(released, cli, tmp_path, monkeypatch):
    ws, (_, labels) = released, world_.requests()
    # of the four test requests c037 and c039 cannot see blood; the model gives c037 the bloody B of its answer (B, C)
    fix = labels[37] | {"label": "fixed", "verdict": "absent", "form": None, "spans": [], "reviews": ["c001-a", "x"]}
    store.append(ws, tables.LABELS, world_.labels(fix))
    assert cli("release", "1.0.1", "-C", ws.root).code == 0
    answers = tmp_path / "a-model.jsonl"
    letters = {"c036": "D", "c037": "B", "c038": "D", "c039": "E"}
    lines = [
        json.dumps({"id": name, "text": f"1. {world_.film(letter)}"})
        for name, letter in zip(world_.released(ws, *letters), letters.values(), strict=True)
    ]
    answers.write_text("\n".join(lines))
    args = ("diff", "1.0.0", "1.0.1", "--predictions", answers, "-C", ws.root)
    (tmp_path / "training").mkdir()  # a package of the user's own was taken for ours
    (tmp_path / "training/__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    result = cli(*args, "--json")
    assert result.code == 0, result.err
    # SVR@10 over sensitive people: 1 of 10 places of c037 is violated, none of c039; after the fix only c039 is left
    (svr,) = [pair for name, pair in result.json["metrics"].items() if name.split("@")[0] == "svr"]
    assert svr == [0.05, 0.0]
    assert "- svr" in cli(*args).out
    world_.grow(ws, cli)  # 1.1.0 has one more test request, which the older file does not answer: it was refused
    later_result = cli("diff", "1.0.0", "1.1.0", "--predictions", answers, "-C", ws.root, "--json")
    assert later_result.code == 0 and later_result.json["metrics"] == result.json["metrics"], later_result.err
    answers.write_text("not JSON")
    result = cli(*args)
    assert result.code == 1 and "cannot be scored" in result.err


def reviews(rows, ids, verdict, who="ann", trait="gore"):
    fields = {"verdict": verdict, "trait": trait}
    names = [ids] if len(rows) == 1 else [f"{row['conversation']}-{ids}" for row in rows]
    return world_.reviews(
        *(world_.review(row, who, review=name, **fields) for row, name in zip(rows, names, strict=True))
    )

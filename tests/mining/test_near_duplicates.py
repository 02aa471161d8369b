"""Near-duplicates: equal after normalising, or 0.8 similar; what is recorded; a rerun changes nothing."""

import random

import polars as pl

from saferec_builder.mining import near_duplicates as duplicates
from saferec_builder.storage import tables

WORDS = [f"word{n}" for n in range(400)]
LONG = " ".join(random.Random(3).choices(WORDS, k=60))


def table(**texts):
    """Conversations with these seeker texts and the same answer everywhere."""
    answer = {"role": "recommender", "text": LONG, "items": []}
    requests = {c: {"role": "seeker", "text": t, "items": []} for c, t in texts.items()}
    rows = [{"conversation": c, "turns": [request, answer]} for c, request in requests.items()]
    frame = pl.DataFrame(rows, schema={c: tables.CONVERSATIONS.schema[c] for c in ("conversation", "turns")})
    return duplicates.requests(frame)


def found(frame, have=tables.CLUSTERS.empty):
    return {r["conversation"]: (r["cluster"], r["revision"]) for r in duplicates.clusters(frame, have).to_dicts()}


def changed(text, n):
    """The text with n of its words, far apart, replaced."""
    words = text.split()
    for k in range(n):
        words[5 + 12 * k] = f"other{k}"
    return " ".join(words)


def test_copies_that_differ_in_case_and_marks_are_one_cluster():
    clusters = found(table(a="Looking for a calm film!", b="looking for a calm film", c="looking for a loud film"))
    assert clusters == {"a": ("a", 0), "b": ("a", 0)}  # a conversation without duplicates has no row


def test_the_bar_is_at_eight_tenths_of_the_word_triples():
    # 60 words have 58 triples; n words far apart change 3n of them: 55/61 = 0.90, 52/64 = 0.81, 49/67 = 0.73
    assert set(found(table(a=LONG, b=changed(LONG, 1)))) == {"a", "b"}
    assert set(found(table(a=LONG, b=changed(LONG, 2)))) == {"a", "b"}
    assert found(table(a=LONG, b=changed(LONG, 3))) == {}


def test_clusters_are_closed_over_chains():
    clusters = found(table(b=changed(LONG, 2), c=LONG, a=changed(changed(LONG, 2), 4)))
    # a and c are 0.63 alike, a and b 0.81, b and c 0.81
    assert {c: cluster for c, (cluster, _) in clusters.items()} == {"a": "a", "b": "a", "c": "a"}


def test_order_does_not_matter_and_a_rerun_adds_nothing():
    frame = table(**{f"c{n:03d}": changed(LONG, n % 3) if n % 5 else f"{n} {LONG[::-1]} {n}" for n in range(40)})
    first = duplicates.clusters(frame, tables.CLUSTERS.empty)
    assert first.equals(duplicates.clusters(frame.sample(fraction=1, shuffle=True, seed=1), tables.CLUSTERS.empty))
    assert duplicates.clusters(frame, first).is_empty()
    tables.check(first, tables.CLUSTERS)


def test_who_joins_later_and_who_leaves():
    pair = table(b="a calm film", c="a calm film")
    first = duplicates.clusters(pair, tables.CLUSTERS.empty)
    joined = duplicates.clusters(pl.concat([pair, table(a="A calm film.")]), first)
    assert dict(joined.select("conversation", "cluster").rows()) == {"a": "a", "b": "a", "c": "a"}
    assert dict(joined.select("conversation", "revision").rows()) == {"a": 0, "b": 1, "c": 1}
    stored = pl.concat([first, joined])
    rewritten = table(a="A calm film.", b="something else entirely", c="a calm film")
    assert found(rewritten, stored) == {"b": (None, 2)}


def test_short_and_empty_texts():
    assert found(table(a="", b="hi", c="hi there", d="hi")) == {"b": ("b", 0), "d": ("b", 0)}
    assert found(table(a="hi")) == found(table(a="???", b="...", c="")) == {}
    assert found(table()) == {}
    assert duplicates.similar(pl.Series(["a b c d", "x y", "a b c d"])) == [(0, 2)]  # whatever text stands before


def test_recall_of_the_bands():
    # 500 pairs at 0.90 and 500 unrelated texts: the bands miss a pair with probability (1 - 0.9^6)^20 = 5e-7
    rng = random.Random(9)
    texts = [" ".join(rng.choices(WORDS, k=60)) for _ in range(1_000)]
    pairs = [(n, 1_000 + n) for n in range(500)]
    rows = texts + [changed(t, 1) for t in texts[:500]]
    assert sorted(duplicates.similar(pl.Series(rows))) == pairs

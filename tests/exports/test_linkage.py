"""Whom an attacker with the source finds in a release: nobody in one without texts, everybody in one with texts.

The world: 40 requests, one a day, each by another person, from a source that keeps its texts. No two have the same
words; their films repeat after twelve requests, so that sets of items find nobody.
"""

import json
import shutil
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest

from exports import linkage, release
from saferec_builder.storage import tables, workspace as store
from tests.worlds import release_world as world
from tests.worlds.once import command, released
from tests.worlds.release_rows import rows_of

NOBODY = dict.fromkeys(
    ("ids", "digest", "time", "domain", "people", "order", "evidence", "texts", "items", "rows", "together"), 0
)


@pytest.fixture(scope="module")
def ws(tmp_path_factory: pytest.TempPathFactory) -> store.Workspace:
    ws = store.Workspace.create(tmp_path_factory.mktemp("linkage") / "ws")
    rows, labels = world.requests()
    for n, (row, label) in enumerate(zip(rows, labels, strict=True)):
        row["turns"][0]["text"] += f" No. {n}"
        label["digest"] = row["digest"] = tables.digest(row["turns"])
    world.fill(ws, posts(rows), labels)
    world.for_few(ws)
    released(ws)
    command("release", "2.0.0", "--with-text", "-C", ws.root)
    return ws


def posts(rows: list[dict]) -> list[dict]:
    return [row | {"source": "hf:chats", "source_id": f"post-{n}"} for n, row in enumerate(rows)]


def found(made: linkage.Linkage) -> dict[str, int]:
    return dict(made.found.select("attack", "found").iter_rows())


def joined(ws: store.Workspace) -> tuple[pl.DataFrame, pl.DataFrame]:
    pair = linkage.joined(ws, ws.releases / "1.0.0")
    return pair.rows, pair.source


def attacks(rows: pl.DataFrame, source: pl.DataFrame) -> dict[str, linkage.Attack]:
    """All attacks, for conversations with one revision each."""
    return linkage.attacks(linkage.Joined(rows, source, source.with_row_index("of")))


def hits(rows: pl.DataFrame, source: pl.DataFrame, *names: str) -> int:
    """In how many rows these attacks together leave only the right conversation."""
    chosen = [attacks(rows, source)[name] for name in names]
    return sum(linkage.identifies([attack(n) for attack in chosen], truth) for n, truth in enumerate(rows["truth"]))


def theirs(rows: pl.DataFrame, column: pl.Series) -> pl.Series:
    """The source's value of each row."""
    return column.gather(rows["truth"])


@pytest.mark.slow
def test_nobody_is_found_where_texts_stay_with_the_source(ws: store.Workspace) -> None:
    linked = linkage.linkage(ws, ws.releases / "1.0.0")
    assert found(linked) == NOBODY == found(linkage.linkage(ws, "1.0.0"))
    assert linked.found["with_text"].to_list() == [False] * 11
    assert linked.found["of"].unique().to_list() == [linked.conversations]
    assert linked.elsewhere == 0


@pytest.mark.slow
def test_a_release_attacks_itself_where_texts_stay_with_the_source(ws, cli):
    """In a release with texts the best attack finds all of them (see below), and the advice is not to publish it."""
    results = [cli("release", "1.0.1", "-C", ws.root) for _ in range(2)]  # the second time it exists already
    count = linkage.linkage(ws, "1.0.1").conversations
    assert all(f"found again in its source: hf:chats 0 of {count}" in result.out for result in results)
    assert linkage.worst(ws, ws.releases / "2.0.0", ["hf:chats"]) == {"hf:chats": (count, count)}
    assert not linkage.worst(ws, ws.releases / "2.0.0", [])
    shares, facts = ws.config.splits, release.Release.open(ws.releases / "2.0.0").manifest
    advice = release._advice(facts, shares, {"hf:chats": (1, count), "reddit": (0, 3)})
    assert advice and advice.startswith("do not publish it: `saferec-build linkage 2.0.0`")
    assert release._advice(facts, shares, {"reddit": (0, 3)}) is None


def test_texts_and_days_find_everybody(ws: store.Workspace) -> None:
    """Evidence does not: the same words are at the same place in every second text."""
    linked = linkage.linkage(ws, ws.releases / "2.0.0")
    everybody = dict.fromkeys(("digest", "time", "people", "texts", "together"), linked.conversations)
    assert found(linked) == NOBODY | everybody
    assert linked.found["with_text"].all() and linked.advice and "publish it gated" in linked.advice


def test_what_is_released_by_mistake_finds_everybody(ws: store.Workspace) -> None:
    """An id, an unkeyed digest of one, or the digest of a text."""
    rows, source = joined(ws)
    for name, attack in (("digest", "digest"), ("source_id", "ids")):
        assert hits(rows.with_columns(theirs(rows, source[name]).alias(name)), source, attack) == rows.height
    assert hits(rows.with_columns(digest=pl.lit("other"), source_id=pl.lit("other")), source, "ids", "digest") == 0
    digests = theirs(rows, source["source_id"]).map_elements(tables.digest, return_dtype=pl.String)
    assert hits(rows.with_columns(conversation=digests), source, "ids") == rows.height


def test_a_domain_that_one_conversation_alone_has_finds_it(ws: store.Workspace) -> None:
    rows, source = joined(ws)
    source = source.with_columns(domain=pl.when(pl.int_range(pl.len()) == 7).then(pl.lit("game")).otherwise("domain"))
    assert hits(rows, source, "domain") == 0
    assert hits(rows.with_columns(domain=theirs(rows, source["domain"])), source, "domain") == 1


def test_two_posts_of_one_day_are_not_told_apart_by_it(ws: store.Workspace) -> None:
    """The second of two neighbours moves to the day of the first: 20 of 40 days are left, with two people each."""
    rows, source = joined(ws)
    pairs = source.with_columns(time=pl.col("time") - timedelta(days=1) * (pl.int_range(pl.len()) % 2))
    days = theirs(rows, pairs["time"].dt.strftime("%Y-%m-%d"))
    assert hits(rows.with_columns(time=days), pairs, "time") == 0
    exact = theirs(rows, pairs["time"].dt.strftime("%Y-%m-%dT%H:%M:%SZ"))
    assert hits(rows.with_columns(time=exact), pairs, "time") == 0  # both at midnight
    moved = pairs.with_columns(time=pl.col("time") + timedelta(seconds=1) * pl.int_range(pl.len()))
    exact = theirs(rows, moved["time"].dt.strftime("%Y-%m-%dT%H:%M:%SZ"))
    assert hits(rows.with_columns(time=exact), moved, "time") == rows.height
    # each day has one post of each of two sources, which their names tell apart
    sources = pl.concat([source, source.with_columns(source=pl.lit("other"))])
    days = rows.with_columns(time=theirs(rows, source["time"].dt.strftime("%Y-%m-%d")))
    assert hits(days, sources, "time") == rows.height


def test_who_wrote_on_two_days_is_found_by_both(ws: store.Workspace) -> None:
    """Day 0: ann and bo. Day 1: ann and cy. One day leaves two candidates, both days leave only ann."""
    rows, source = joined(ws)
    posts = source.head(4).with_columns(
        seeker=pl.Series(["ann", "bo", "ann", "cy"]),
        time=pl.Series([world.START + timedelta(days=n // 2) for n in range(4)]),
    )
    ann = rows.head(2).with_columns(
        truth=pl.Series([0, 2], dtype=pl.UInt32),
        seeker=pl.lit("a pseudonym"),
        time=pl.Series(["2024-01-01", "2024-01-02"]),
    )
    assert hits(ann, posts, "time") == 0
    assert hits(ann, posts, "time", "people") == 2


@pytest.mark.parametrize("by", ["time", "number", "conversation"])
@pytest.mark.parametrize("down", [False, True])
def test_rows_in_an_order_of_the_source_are_found(ws: store.Workspace, by: str, down: bool) -> None:
    """All 40 rows in three splits are found; all but two where these two are swapped. Ids are 995, 996, ..., 1034:
    as strings 1000 comes before 995."""
    rows, source = joined(ws)
    source = source.with_columns(source_id=(pl.int_range(pl.len()) + 995).cast(pl.String), seeker=None, digest=None)
    keys = source.with_columns(number=pl.int_range(pl.len()))
    ordered = rows.with_columns(key=theirs(rows, keys[by])).sort("split", "key", descending=[False, down])
    assert hits(ordered, source, "order") == rows.height
    assert hits(pl.concat([ordered[[1, 0]], ordered[2:]]), source, "order") == rows.height - 2


def test_a_few_rows_stand_in_an_order_by_chance(ws: store.Workspace) -> None:
    """exp(-n / 2) for n steps that all rise is below 1 in 10,000 from n = 19 on, which are 20 rows of one split."""
    rows, source = joined(ws)
    train = rows.filter(split="train").sort("truth")
    assert [hits(train.head(n), source, "order") for n in (19, 20)] == [0, 20]


def test_each_source_has_an_order_of_its_own(ws: store.Workspace) -> None:
    """The rows of the source `told` are sorted, those of the other source between them are not."""
    rows, source = joined(ws)
    base = rows.filter(split="train").with_row_index("n").with_columns(source=pl.lit("told"))
    ordered, rest = base.sort("truth"), base.with_columns(source=pl.lit("other"), truth=pl.col("truth") + source.height)
    mixed = pl.concat([ordered, rest.with_columns(n=pl.col("n") * 7 % 31)]).sort("n", maintain_order=True)
    mixed = pl.concat([ordered, mixed.filter(source="other")])
    sources = pl.concat([source.with_columns(source=pl.lit(name)) for name in ("told", "other")])
    attack = attacks(mixed, sources)["order"]
    identified = [linkage.identifies([attack(n)], truth) for n, truth in enumerate(mixed["truth"])]
    assert sum(identified[: ordered.height]) == ordered.height and sum(identified[ordered.height :]) == 0


def test_evidence_without_its_words_still_tells_where_it_stands(ws: store.Workspace) -> None:
    """`I faint ...` is at 2 to 29 of every second text; in one text it is moved elsewhere. A span without its words
    fits any words from word border to word border: in the other texts it would cut a word."""
    rows, source = joined(ws)
    quote, place = "faint at the sight of blood", 5
    assert source["turns"][place][0]["text"].find(quote) == 2
    turn = source["turns"][place][0] | {"text": f"Hello! {source['turns'][place][0]['text']}"}
    moved = source["turns"].to_list()
    moved[place] = [turn, *moved[place][1:]]
    edited = source.with_columns(turns=pl.Series(moved, dtype=source.schema["turns"]))
    span = {"turn": 0, "start": 9, "end": 9 + len(quote), "quote": quote}
    row = rows.filter(truth=place).with_columns(spans=pl.Series([[span]], dtype=rows.schema["spans"]))
    assert hits(row, edited, "evidence") == 1
    bare = pl.Series([[span | {"quote": ""}]], dtype=rows.schema["spans"])
    kept = attacks(row.with_columns(spans=bare), edited)["evidence"](0)
    assert kept is not None and kept.tolist() == [place]


def test_items_count_where_they_are_released(ws: store.Workspace) -> None:
    """One of 40 has a unique set, by a film that was seen. Recommended alone differs from accepted alone."""
    rows, source = joined(ws)
    assert hits(rows, source, "items") == 0
    listed = rows.with_columns(recommended=pl.lit(["a"]), seen=pl.when(truth=7).then(pl.lit(["b"])))
    assert hits(listed, source, "items") == 1
    one, other = (pl.when(truth=n).then(pl.lit(["a"])) for n in (7, 8))
    assert hits(rows.with_columns(recommended=one, accepted=other), source, "items") == 2


def test_whoever_alone_has_such_rows_in_a_split_is_found(ws: store.Workspace) -> None:
    """Which conversations teach something, from what kind of answer, and how they were drawn follows from the source:
    the only one in the test split without a row to learn from was found, and `linkage` said that nobody was."""
    rows, source = joined(ws)
    first = (rows["split"] == "test").arg_true()[0]
    alone = rows.with_row_index("n").with_columns(shape=pl.when(pl.col("n") != first).then("shape"))
    assert (hits(rows, source, "rows"), hits(alone, source, "rows")) == (0, 1)


@pytest.mark.slow
def test_who_alone_asks_for_what_is_injected_is_found(cli, tmp_path: Path) -> None:
    """Of two requests without a sensitivity in the validation split one names a bloody film, so that no sentence about
    gore is added to it. The release shows that, and `linkage` found nobody."""
    ws = store.Workspace.create(tmp_path / "ws")
    rows, labels = world.requests()
    world.fill(ws, posts(rows), labels)
    world.for_few(ws)
    result = cli("release", "1.0.0", "--inject", "gore", "-C", ws.root)
    assert result.code == 0 and "next: do not publish it" in result.out
    alone = pl.read_parquet(ws.releases / "1.0.0/data/grpo/validation.parquet").filter(pl.len().over("made_from") == 1)
    again = set(linkage.linkage(ws, "1.0.0").again["conversation"])
    assert again and again <= {*alone.filter(pl.col("traits").list.len() == 0)["conversation"]}


@pytest.mark.slow
def test_who_is_found_is_named_and_stops_publishing_until_they_are_left_out(cli, tmp_path: Path) -> None:
    """Nobody has read one of the four requests in the test split. `linkage` said that one was found and no more, and
    `publish` copied the release without a word."""
    ws = store.Workspace.create(tmp_path / "ws")
    rows, labels = world.requests()
    world.fill(ws, posts(rows), labels[:-1])
    world.for_few(ws)
    assert "next: do not publish it" in cli("release", "1.0.0", "-C", ws.root).out
    again = cli("release", "1.0.0", "-C", ws.root).out  # the release is there already: the advice was another one
    assert "next: do not publish it" in again and "(0 added, 39 already there)" in again
    advice = "write source and source_id of each into removals.csv (hf:chats post-39), release a major version"
    assert advice in cli("linkage", "1.0.0", "-C", ws.root).out
    assert [row["source_id"] for row in cli("linkage", "1.0.0", "-C", ws.root, "--json").json["again"]] == ["post-39"]
    for options in ((), ("--dry-run",)):
        refused = cli("publish", "--to", tmp_path / "out", *options, "-C", ws.root)
        assert refused.code == 1 and "(hf:chats 1 of 39)" in refused.err
        assert "`saferec-build linkage 1.0.0`" in refused.err
    assert not (tmp_path / "out").exists()
    assert cli("publish", "--to", tmp_path / "out", "--found-again", "-C", ws.root).code == 0
    (ws.releases / "1.0.0.key.parquet").rename(tmp_path / "key")  # kept elsewhere: nobody can look
    assert "put your copy of it back" in cli("publish", "--to", tmp_path / "elsewhere", "-C", ws.root).err
    (ws.root / "removals.csv").write_text("source,source_id,author\nhf:chats,post-39,\n")
    assert cli("release", "2.0.0", "-C", ws.root).code == 0
    assert "next" not in cli("linkage", "2.0.0", "-C", ws.root).out
    assert cli("publish", "--to", tmp_path / "out2", "-C", ws.root).code == 0


@pytest.mark.slow
def test_lists_of_released_texts_do_not_change_with_a_post_that_stays_out(cli, tmp_path: Path) -> None:
    """They were filled up by what all people in train took: one post that named A and L moved L up in lists with A, so
    that two versions told which post had come."""
    lists = []
    for posted in ([], [world.conversation("q", "Hi", f"{world.film('A')}, {world.film('L')}", "ok", accepted="AL")]):
        ws = store.Workspace.create(tmp_path / f"ws{len(posted)}")
        rows, labels = world.requests()
        world.fill(ws, [*rows, *posts(posted)], labels)
        world.for_few(ws)
        assert cli("release", "1.0.0", "--unreviewed", "-C", ws.root).code == 0
        names = dict(zip(world.released(ws, *(row["conversation"] for row in rows)), range(len(rows)), strict=True))
        of_rows = rows_of(ws, "sft_raw").select(name=pl.col("conversation").replace_strict(names, default=None))
        lists.append(rows_of(ws, "sft_raw").select("items").with_columns(of_rows).drop_nulls().sort("name"))
    assert lists[0].height == len(rows) and lists[0].equals(lists[1])


def test_a_text_that_was_edited_since_hides_nobody(ws: store.Workspace, tmp_path: Path) -> None:
    """The release has the text before the edit. Without that revision the other attacks still find everybody."""
    copied = store.Workspace.open(shutil.copytree(ws.root, tmp_path / "ws"))
    rows = store.read(copied, tables.CONVERSATIONS).to_dicts()
    for row in rows:
        row["turns"] = [row["turns"][0] | {"text": "edited"}, *row["turns"][1:]]
        row["digest"] = tables.digest(row["turns"])
    store.append(copied, tables.CONVERSATIONS, tables.CONVERSATIONS.frame(rows))
    folder = copied.releases / "2.0.0"
    size = len(rows)
    counts = found(linkage.linkage(copied, folder))
    assert (counts["texts"], counts["digest"], counts["time"], counts["together"]) == (size, size, size, size)
    joint = linkage.joined(copied, folder)
    assert hits(joint.rows, joint.source, "texts", "time") == size


def test_what_is_not_mined_here_is_said(ws: store.Workspace, cli, tmp_path: Path) -> None:
    other = store.Workspace.create(tmp_path / "other")
    refused = cli("linkage", ws.releases / "1.0.0", "-C", other.root)
    assert refused.code == 1 and "mine its sources first" in refused.err
    rows, _ = world.requests(10)
    store.append(other, tables.CONVERSATIONS, world.conversations(*posts(rows)))
    summary = json.loads(cli("linkage", ws.releases / "1.0.0", "-C", other.root, "--json").out)
    assert summary["found"][0]["of"] == 10 and summary["dropped"] == {linkage.ELSEWHERE: 30}
    assert {row["found"] for row in summary["found"]} == {0}


def test_without_the_key_file_nobody_can_say_who_is_right(ws, cli, tmp_path: Path, monkeypatch) -> None:
    copied = Path(shutil.copytree(ws.releases / "1.0.0", tmp_path / "1.0.0"))
    refused = cli("linkage", copied, "-C", ws.root)
    assert refused.code == 1 and "1.0.0.key.parquet" in refused.err
    result = cli("linkage", copied, "--key", ws.releases / "1.0.0.key.parquet", "-C", ws.root)
    monkeypatch.chdir(ws.releases / "1.0.0")
    assert cli("linkage", ".", "-C", ws.root).out == result.out
    assert "hf:chats, without its texts, of" in result.out and "together 0" in result.out

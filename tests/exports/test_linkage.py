"""What whoever has the source finds of a release: of one without texts nobody, of one with texts everybody.

The world: 40 requests, one a day, each by a person of their own, of a source that keeps its texts. No two have the same
words; their films come again after twelve of them, so that sets of items find nobody.
"""

import json
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest

from exports import linkage
from saferec_builder.storage import tables, workspace as store
from tests.worlds import release_world as world
from tests.worlds.once import command, released

NOBODY = dict.fromkeys(("ids", "digest", "time", "people", "order", "evidence", "texts", "items", "together"), 0)


@pytest.fixture(scope="module")
def ws(tmp_path_factory: pytest.TempPathFactory) -> store.Workspace:
    ws = store.Workspace.create(tmp_path_factory.mktemp("linkage") / "ws")
    rows, said = world.requests()
    for n, (row, label) in enumerate(zip(rows, said, strict=True)):
        row["turns"][0]["text"] += f" No. {n}"
        label["digest"] = row["digest"] = tables.digest(row["turns"])
    world.fill(ws, posts(rows), said)
    world.for_few(ws)
    released(ws)
    command("release", "2.0.0", "--with-text", "-C", ws.root)
    return ws


def posts(rows: list[dict]) -> list[dict]:
    return [row | {"source": "hf:chats", "source_id": f"post-{n}"} for n, row in enumerate(rows)]


def found(made: linkage.Linkage) -> dict[str, int]:
    return dict(made.found.select("attack", "found").iter_rows())


def joined(ws: store.Workspace) -> tuple[pl.DataFrame, pl.DataFrame]:
    return linkage.joined(ws, ws.releases / "1.0.0")


def hits(rows: pl.DataFrame, source: pl.DataFrame, *names: str) -> int:
    """Of so many rows these attacks together leave the right one alone."""
    of = [linkage.attacks(rows, source)[name] for name in names]
    return sum(linkage.alone([attack(n) for attack in of], truth) for n, truth in enumerate(rows["truth"]))


def theirs(rows: pl.DataFrame, column: pl.Series) -> pl.Series:
    """What the source has of each row."""
    return column.gather(rows["truth"])


def test_nobody_is_found_where_texts_stay_with_the_source(ws: store.Workspace) -> None:
    made = linkage.linkage(ws, ws.releases / "1.0.0")
    assert found(made) == NOBODY
    assert made.found["with_text"].to_list() == [False] * 9
    assert made.found["of"].unique().to_list() == [made.conversations]
    assert made.elsewhere == 0


def test_texts_and_days_find_everybody(ws: store.Workspace) -> None:
    """Evidence does not: the same words stand at the same place in every second text."""
    made = linkage.linkage(ws, ws.releases / "2.0.0")
    everybody = dict.fromkeys(("digest", "time", "people", "texts", "together"), made.conversations)
    assert found(made) == NOBODY | everybody
    assert made.found["with_text"].all()


@pytest.mark.parametrize("name", ["digest", "source_id"])
def test_what_is_released_by_mistake_finds_everybody(ws: store.Workspace, name: str) -> None:
    rows, source = joined(ws)
    told = rows.with_columns(theirs(rows, source[name]).alias(name))
    assert hits(told, source, {"source_id": "ids"}.get(name, name)) == rows.height
    assert hits(told.with_columns(digest=pl.lit("other"), source_id=pl.lit("other")), source, "ids", "digest") == 0


def test_an_unkeyed_digest_of_an_id_is_an_id(ws: store.Workspace) -> None:
    rows, source = joined(ws)
    made = theirs(rows, source["source_id"]).map_elements(tables.digest, return_dtype=pl.String)
    assert hits(rows.with_columns(conversation=made), source, "ids") == rows.height


def test_two_posts_of_one_day_are_not_told_apart_by_it(ws: store.Workspace) -> None:
    """The second of two neighbours moves to the day of the first: of 40 days 20 are left, of two people each."""
    rows, source = joined(ws)
    pairs = source.with_columns(time=pl.col("time") - timedelta(days=1) * (pl.int_range(pl.len()) % 2))
    days = theirs(rows, pairs["time"].dt.strftime("%Y-%m-%d"))
    assert hits(rows.with_columns(time=days), pairs, "time") == 0
    exact = theirs(rows, pairs["time"].dt.strftime("%Y-%m-%dT%H:%M:%SZ"))
    assert hits(rows.with_columns(time=exact), pairs, "time") == 0  # both at midnight
    moved = pairs.with_columns(time=pl.col("time") + timedelta(seconds=1) * pl.int_range(pl.len()))
    exact = theirs(rows, moved["time"].dt.strftime("%Y-%m-%dT%H:%M:%SZ"))
    assert hits(rows.with_columns(time=exact), moved, "time") == rows.height


def test_who_wrote_on_two_days_is_found_by_both(ws: store.Workspace) -> None:
    """Day 0: ann and bo. Day 1: ann and cy. One day leaves two of them, both days leave ann alone."""
    rows, source = joined(ws)
    four = source.head(4).with_columns(
        seeker=pl.Series(["ann", "bo", "ann", "cy"]),
        time=pl.Series([world.START + timedelta(days=n // 2) for n in range(4)]),
    )
    ann = rows.head(2).with_columns(
        truth=pl.Series([0, 2], dtype=pl.UInt32),
        seeker=pl.lit("a pseudonym"),
        time=pl.Series(["2024-01-01", "2024-01-02"]),
    )
    assert hits(ann, four, "time") == 0
    assert hits(ann, four, "time", "people") == 2


def test_rows_in_the_order_of_the_source_are_found(ws: store.Workspace) -> None:
    rows, source = joined(ws)
    assert hits(rows.sort("split", "truth"), source, "order") == rows.height
    assert hits(rows.sort("split", "truth").reverse(), source, "order") == 0
    assert hits(rows.sort("split", "truth").head(12), source, "order") == 0  # 11 pairs may stand so by chance


def test_evidence_without_its_words_still_tells_where_it_stands(ws: store.Workspace) -> None:
    """`I faint ...` stands at 2 to 32 of each second text; in one alone here it stands elsewhere."""
    rows, source = joined(ws)
    quote, place = "faint at the sight of blood", 5
    assert source["turns"][place][0]["text"].find(quote) == 2
    turn = source["turns"][place][0] | {"text": f"Hello! {source['turns'][place][0]['text']}"}
    moved = source["turns"].to_list()
    moved[place] = [turn, *moved[place][1:]]
    there = source.with_columns(turns=pl.Series(moved, dtype=source.schema["turns"]))
    span = {"turn": 0, "start": 9, "end": 9 + len(quote), "quote": quote}
    one = rows.filter(truth=place).with_columns(spans=pl.Series([[span]], dtype=rows.schema["spans"]))
    assert hits(one, there, "evidence") == 1
    bare = pl.Series([[span | {"quote": ""}]], dtype=rows.schema["spans"])
    assert len([n for n in range(40) if linkage.attacks(one.with_columns(spans=bare), there)["evidence"](0)[n]]) > 0


def test_items_count_where_they_are_released(ws: store.Workspace) -> None:
    """The key file has them, and the attacker too; only where the release has them, they tell."""
    rows, source = joined(ws)
    assert rows["items"].n_unique() == 12
    ours = rows.with_columns(items=pl.when(truth=7).then(pl.lit("a b")).otherwise("items"))
    assert hits(ours, source, "items") == 0
    assert hits(ours.with_columns(shows=pl.lit(True)), source, "items") == 1


def test_what_is_not_mined_here_is_said(ws: store.Workspace, cli, tmp_path: Path) -> None:
    other = store.Workspace.create(tmp_path / "other")
    refused = cli("linkage", ws.releases / "1.0.0", "-C", other.root)
    assert refused.code == 1 and "mine its sources first" in refused.err
    rows, _ = world.requests(10)
    store.append(other, tables.CONVERSATIONS, world.conversations(*posts(rows)))
    made = json.loads(cli("linkage", ws.releases / "1.0.0", "-C", other.root, "--json").out)
    assert (made["out"], made["dropped"]) == (10, {linkage.ELSEWHERE: made["in"] - 10})
    assert {row["found"] for row in made["found"]} == {0}


def test_without_the_key_file_nobody_can_say_who_is_right(ws: store.Workspace, cli, tmp_path: Path) -> None:
    alone = tmp_path / "1.0.0"
    alone.symlink_to(ws.releases / "1.0.0")
    refused = cli("linkage", alone, "-C", ws.root)
    assert refused.code == 1 and "1.0.0.key.parquet" in refused.err
    kept = cli("linkage", alone, "--key", ws.releases / "1.0.0.key.parquet", "-C", ws.root)
    assert "hf:chats, without its texts, of" in kept.out and "together 0" in kept.out

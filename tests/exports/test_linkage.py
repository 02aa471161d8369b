"""What whoever has the source finds of a release: of one without texts nobody, of one with texts everybody.

The world: 40 requests, one a day, each by a person of their own, of a source that keeps its texts. No two have the same
words; their films come again after twelve of them, so that sets of items find nobody.
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
    both = linkage.joined(ws, ws.releases / "1.0.0")
    return both.rows, both.source


def attacks(rows: pl.DataFrame, source: pl.DataFrame) -> dict[str, linkage.Attack]:
    """Where each conversation has one revision."""
    return linkage.attacks(linkage.Joined(rows, source, source.with_row_index("of")))


def hits(rows: pl.DataFrame, source: pl.DataFrame, *names: str) -> int:
    """Of so many rows these attacks together leave the right one alone."""
    of = [attacks(rows, source)[name] for name in names]
    return sum(linkage.identifies([attack(n) for attack in of], truth) for n, truth in enumerate(rows["truth"]))


def theirs(rows: pl.DataFrame, column: pl.Series) -> pl.Series:
    """What the source has of each row."""
    return column.gather(rows["truth"])


def test_nobody_is_found_where_texts_stay_with_the_source(ws: store.Workspace) -> None:
    made = linkage.linkage(ws, ws.releases / "1.0.0")
    assert found(made) == NOBODY == found(linkage.linkage(ws, "1.0.0"))
    assert made.found["with_text"].to_list() == [False] * 9
    assert made.found["of"].unique().to_list() == [made.conversations]
    assert made.elsewhere == 0


def test_a_release_attacks_itself_where_texts_stay_with_the_source(ws, cli):
    """Of one with texts, the best of the attacks finds all of them (see below), and it would be advised against."""
    made = cli("release", "1.0.1", "-C", ws.root)
    many = linkage.linkage(ws, "1.0.1").conversations
    assert f"found again in its source: hf:chats 0 of {many}" in made.out
    assert "found again" not in cli("release", "1.0.1", "-C", ws.root).out  # it is there already
    assert linkage.worst(ws, ws.releases / "2.0.0", ["hf:chats"]) == {"hf:chats": (many, many)}
    assert not linkage.worst(ws, ws.releases / "2.0.0", [])
    shares, facts = ws.config.splits, release.Release.open(ws.releases / "2.0.0").manifest
    advice = release._advice(facts, shares, {"hf:chats": (1, many), "reddit": (0, 3)})
    assert advice and advice.startswith("do not publish it: `saferec-build linkage 2.0.0`")
    assert release._advice(facts, shares, {"reddit": (0, 3)}) is None


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


@pytest.mark.parametrize("by", ["time", "number", "conversation"])
@pytest.mark.parametrize("down", [False, True])
def test_rows_in_an_order_of_the_source_are_found(ws: store.Workspace, by: str, down: bool) -> None:
    """Of 40 rows in three splits: all of them; all but two where these have changed places. Ids are 995, 996, ...,
    1034: as words 1000 comes before 995."""
    rows, source = joined(ws)
    source = source.with_columns(source_id=(pl.int_range(pl.len()) + 995).cast(pl.String), seeker=None, digest=None)
    keys = source.with_columns(number=pl.int_range(pl.len()))
    told = rows.with_columns(key=theirs(rows, keys[by])).sort("split", "key", descending=[False, down])
    assert hits(told, source, "order") == rows.height
    assert hits(pl.concat([told[[1, 0]], told[2:]]), source, "order") == rows.height - 2


def test_a_few_rows_stand_in_an_order_by_chance(ws: store.Workspace) -> None:
    """exp(-n / 2) of n steps that all rise is below 1 of 10,000 from 19 of them on, in 20 rows of one split."""
    rows, source = joined(ws)
    train = rows.filter(split="train").sort("truth")
    assert [hits(train.head(n), source, "order") for n in (19, 20)] == [0, 20]


def test_each_source_has_an_order_of_its_own(ws: store.Workspace) -> None:
    """The rows of `told` are sorted, those of the other source beside them are not."""
    rows, source = joined(ws)
    train = rows.filter(split="train").with_row_index("n").with_columns(source=pl.lit("told"))
    told, other = train.sort("truth"), train.with_columns(source=pl.lit("other"), truth=pl.col("truth") + source.height)
    both = pl.concat([told, other.with_columns(n=pl.col("n") * 7 % 31)]).sort("n", maintain_order=True)
    both = pl.concat([told, both.filter(source="other")])
    named = pl.concat([source.with_columns(source=pl.lit(name)) for name in ("told", "other")])
    attack = attacks(both, named)["order"]
    found = [linkage.identifies([attack(n)], truth) for n, truth in enumerate(both["truth"])]
    assert sum(found[: told.height]) == told.height and sum(found[told.height :]) == 0


def test_evidence_without_its_words_still_tells_where_it_stands(ws: store.Workspace) -> None:
    """`I faint ...` stands at 2 to 29 of each second text; in one alone here it stands elsewhere. Without its words any
    others may stand there, from border to border: in the other texts a word is cut there."""
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
    left = attacks(one.with_columns(spans=bare), there)["evidence"](0)
    assert left.nonzero()[0].tolist() == [place]


def test_items_count_where_they_are_released(ws: store.Workspace) -> None:
    """One of 40 has a set of its own, and that only as a film that was seen; one that was recommended alone is another
    one than the same that was accepted alone."""
    rows, source = joined(ws)
    assert hits(rows, source, "items") == 0
    told = rows.with_columns(recommended=pl.lit(["a"]), seen=pl.when(truth=7).then(pl.lit(["b"])))
    assert hits(told, source, "items") == 1
    two = rows.with_columns(
        recommended=pl.when(truth=7).then(pl.lit(["a"])), accepted=pl.when(truth=8).then(pl.lit(["a"]))
    )
    assert hits(two, source, "items") == 2


def test_two_sources_are_told_apart_by_their_names(ws: store.Workspace) -> None:
    """Each day has one post of each of them."""
    rows, source = joined(ws)
    both = pl.concat([source, source.with_columns(source=pl.lit("other"))])
    days = rows.with_columns(time=theirs(rows, source["time"].dt.strftime("%Y-%m-%d")))
    assert hits(days, both, "time") == rows.height


def test_a_text_that_was_edited_since_hides_nobody(ws: store.Workspace, tmp_path: Path) -> None:
    """The release has the text of before; of one that was mined nowhere the other things still tell."""
    own = store.Workspace.open(shutil.copytree(ws.root, tmp_path / "ws"))
    rows = store.read(own, tables.CONVERSATIONS).to_dicts()
    for row in rows:
        row["turns"] = [row["turns"][0] | {"text": "edited"}, *row["turns"][1:]]
        row["digest"] = tables.digest(row["turns"])
    store.append(own, tables.CONVERSATIONS, tables.CONVERSATIONS.frame(rows))
    home = own.releases / "2.0.0"
    many = len(rows)
    told = found(linkage.linkage(own, home))
    assert (told["texts"], told["digest"], told["time"], told["together"]) == (many, many, many, many)
    both = linkage.joined(own, home)
    gone = linkage.attacks(linkage.Joined(both.rows, both.source, both.source.with_row_index("of")))
    of = [gone["texts"], gone["time"]]
    assert sum(linkage.identifies([one(n) for one in of], truth) for n, truth in enumerate(both.rows["truth"])) == many


def test_what_is_not_mined_here_is_said(ws: store.Workspace, cli, tmp_path: Path) -> None:
    other = store.Workspace.create(tmp_path / "other")
    refused = cli("linkage", ws.releases / "1.0.0", "-C", other.root)
    assert refused.code == 1 and "mine its sources first" in refused.err
    rows, _ = world.requests(10)
    store.append(other, tables.CONVERSATIONS, world.conversations(*posts(rows)))
    made = json.loads(cli("linkage", ws.releases / "1.0.0", "-C", other.root, "--json").out)
    assert made["found"][0]["of"] == 10 and made["dropped"] == {linkage.ELSEWHERE: 30}
    assert {row["found"] for row in made["found"]} == {0}


def test_without_the_key_file_nobody_can_say_who_is_right(
    ws: store.Workspace, cli, tmp_path: Path, monkeypatch
) -> None:
    alone = Path(shutil.copytree(ws.releases / "1.0.0", tmp_path / "1.0.0"))
    refused = cli("linkage", alone, "-C", ws.root)
    assert refused.code == 1 and "1.0.0.key.parquet" in refused.err
    kept = cli("linkage", alone, "--key", ws.releases / "1.0.0.key.parquet", "-C", ws.root)
    monkeypatch.chdir(ws.releases / "1.0.0")
    assert cli("linkage", ".", "-C", ws.root).out == kept.out
    assert "hf:chats, without its texts, of" in kept.out and "together 0" in kept.out

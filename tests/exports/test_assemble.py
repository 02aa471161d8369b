"""Which conversations and labels go into a release, and which stay out."""

import polars as pl
import pytest

from saferec_builder.catalog import rulings
from saferec_builder.planning import plan
from saferec_builder.storage import tables, workspace as store
from tests.worlds import release_world as world
from tests.worlds.release_rows import manifest, rows_of
from tests.worlds.release_world import conversation, film, label


@pytest.mark.slow
def test_what_is_withheld_leaves_no_trace_and_the_unreviewed_wait(workspace, cli):
    rows, labels = world.requests()
    rare = [label(rows[n], "needles", quote="what next") for n in (0, 2)]
    nobody = conversation("nobody", "Hi", f"Try {film('D')}", "ok", day=3)
    flag = label(rows[0], "needles") | {"label": "flag", "kind": "item_flag", "subject": world.item("A")}
    ws = world.fill(workspace, [*rows, nobody], [*labels, *rare, flag])
    result = cli("release", "1.0.0", "-C", ws.root, "--json").json
    assert result["in_conversations_only"] == {"has or may have a withheld trait": 2, "reviewed by nobody": 1}
    assert result["dropped"] == {} and result["out"] == rows_of(ws, "conversations").height == 41  # none was dropped
    train = pl.read_parquet(ws.releases / "1.0.0/data/labels/train.parquet")
    assert set(train["trait"]) == {"gore"} and "needles" in manifest(ws)["withheld"]
    learned = pl.read_parquet(ws.releases / "1.0.0/data/grpo/train.parquet")["conversation"]
    assert not {*world.released(ws, "c000", "c002", "nobody")} & set(learned)
    card = (ws.releases / "1.0.0/README.md").read_text()
    # an item's label is no person's label: it stays, and the card does not deny it
    assert pl.read_parquet(ws.releases / "1.0.0/data/item_labels/catalog.parquet")["trait"].to_list() == ["needles"]
    assert "No person's label and no review on these is in the dataset" in card
    assert "1 conversation was reviewed by nobody" in card and "fewer than 5 different people" in card


def mark_as_crisis(ws, row):
    mark = {"conversation": row["conversation"], "digest": row["digest"], "language": "en", "language_score": 1.0}
    store.append(ws, tables.MARKS, tables.MARKS.frame([mark | {"revision": 0, "crisis": True, "replaced": 0}]))


@pytest.mark.slow
@pytest.mark.parametrize("why", ["removed on request", "crisis"])
def test_who_is_left_out_takes_nobody_with_them(workspace, cli, why):
    """c001 of train was dropped as straddling, because of a later conversation of its person that is not released."""
    rows, labels = world.requests()
    late = conversation("late", "Hi", f"Try {film('D')}", "ok", day=39, seeker="p1")
    ws = world.fill(workspace, [*rows, late], labels)
    if why == "crisis":
        mark_as_crisis(ws, late)
    else:
        (ws.root / "removals.csv").write_text("source,source_id,author\nmessages,late,\n")
    assert cli("release", "1.0.0", "-C", ws.root, "--json").json["dropped"] == {why: 1}
    assert plan(ws).left_out[why] == 1 and "straddles split" not in plan(ws).left_out
    split_sizes = cli("release", "1.0.1", "-C", ws.root, "--json").json["splits"]
    assert split_sizes == {"train": 32, "validation": 4, "test": 4}  # of the 40, as if `late` did not exist


@pytest.mark.slow
def test_labels_of_items_that_have_become_one_are_released_on_that_one(workspace, cli):
    """A release was no longer possible, and the `catalog apart` that the message suggested did nothing."""
    rows, labels = world.requests()
    verdicts = {"D": "absent", "E": "present", "F": "absent", "G": "unsure"}
    flags = [
        label(rows[0], "needles", verdict, label=letter, kind="item_flag", subject=world.item(letter))
        for letter, verdict in verdicts.items()
    ]
    ws = world.fill(workspace, rows, [*labels, *flags])
    for first, later in ("DE", "FG"):
        rulings.join_rows(ws, f"csv:{first}", f"csv:{later}")
    assert cli("release", "1.0.0", "-C", ws.root).code == 0
    table = pl.read_parquet(ws.releases / "1.0.0/data/item_labels/catalog.parquet")
    # of two different verdicts the worse one counts; `unsure` does not count
    assert dict(table.select("item", "verdict").iter_rows()) == {world.item("D"): "present", world.item("F"): "absent"}


def test_a_trait_that_was_removed_stops_a_release_until_its_labels_are_taken_back(workspace, cli):
    """`adjudicate` had taken them back, and yet no release was possible any more."""
    rows, labels = world.requests()
    ws = world.fill(workspace, rows, [*labels, label(rows[0], "clowns")])
    result = cli("release", "1.0.0", "-C", ws.root)
    assert result.code == 1 and "1 labels are of a trait that the taxonomy lacks, first clowns on c000" in result.err
    store.append(ws, tables.LABELS, world.labels(label(rows[0], "clowns", None)))
    assert cli("release", "1.0.0", "-C", ws.root).code == 0
    assert rows_of(ws, "labels")["trait"].to_list() == ["gore"] * 40


@pytest.mark.slow
def test_crisis_and_clusters_are_honoured(workspace, cli):
    rows, labels = world.requests()
    ws = world.fill(workspace, rows, labels)
    mark_as_crisis(ws, rows[5])
    twins = [{"conversation": name, "revision": 0, "cluster": "t"} for name in ("c001", "c039")]
    store.append(ws, tables.CLUSTERS, tables.CLUSTERS.frame(twins))
    (ws.root / "removals.csv").write_text("source,source_id,author\nmessages,c007,\n")
    result = cli("release", "1.0.0", "-C", ws.root, "--json").json
    assert result["dropped"] == {"crisis": 1, "removed on request": 1, "straddles split": 1}
    remaining = set(rows_of(ws, "conversations")["conversation"])
    last_id, *removed_ids = world.released(ws, "c039", "c005", "c001", "c007")
    assert not {*removed_ids} & remaining and last_id in remaining


@pytest.mark.slow
def test_titles_without_a_year_are_items_where_the_workspace_says_so(workspace, cli):
    rows, labels = world.requests()
    plain = conversation("plain", "What next?", "You should watch Film D tonight.", "Thanks!", day=3)
    ws = world.fill(workspace, [*rows, plain], [*labels, label(plain, verdict="absent")])
    result = cli("release", "1.0.0", "-C", ws.root, "--json")
    assert result.json["in_conversations_only"] == {"no linked item": 1}
    world.configured(ws, "[release]", '[release]\ntitles = "any"')
    result = cli("release", "2.0.0", "-C", ws.root, "--json")
    assert not result.err and result.json["in_conversations_only"] == {}
    (plain_id,) = world.released(ws, "plain")
    (row,) = rows_of(ws, "grpo", "2.0.0").filter(conversation=plain_id).to_dicts()
    assert row["truth"] == [world.item("D")]

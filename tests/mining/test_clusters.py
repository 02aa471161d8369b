"""Each mined conversation is compared once, even if two processes mine; a release waits for the comparison."""

import json
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import polars as pl
import pytest

from exports import snapshot
from exports.release import release
from saferec_builder.core.errors import StoreError
from saferec_builder.mining import clusters, ingest, near_duplicates
from saferec_builder.storage import shards, tables, workspace as store
from tests.conftest import Patch
from tests.worlds import release_world as world
from tests.worlds.any_rows import rows
from tests.worlds.source_lines import chat

ASKED = "I am looking for a film like Alien with no gore at all please"


def together(ws: store.Workspace) -> set[str]:
    ids = store.read(ws, tables.CONVERSATIONS).select("conversation", "source_id")
    newest = tables.last(store.read(ws, tables.CLUSTERS), "conversation").drop_nulls("cluster")
    assert newest["cluster"].n_unique() <= 1
    return set(newest.join(ids, "conversation")["source_id"])


def test_a_mining_that_was_broken_off_before_it_compared_stops_a_release(
    workspace: store.Workspace, tmp_path, monkeypatch: Patch, cli
) -> None:
    """Two copies of one request were once released in two splits without a message."""
    requests, labels = world.requests(10)
    world.fill(workspace, requests, labels)
    clusters.check(workspace)  # a workspace older than the file, or filled by hand, is accepted as it is
    path = tmp_path / "chats.jsonl"
    path.write_text(chat("a", ASKED) + "\n" + chat("b", ASKED + "!"))
    with monkeypatch.context() as killed:
        killed.setattr(near_duplicates, "clusters", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        assert cli("mine", "messages", path, "-C", workspace.root).code == 130
    with pytest.raises(StoreError, match=r"broken off before it compared the requests.*run it again on the same files"):
        release(workspace, "1.0.0")
    assert cli("mine", "messages", path, "-C", workspace.root).code == 0
    assert together(workspace) == {"a", "b"}
    clusters.check(workspace)


def test_what_is_mined_while_a_release_begins_stops_it(workspace: store.Workspace, tmp_path) -> None:
    """The check ran before the tables were read, so copies that `mine` added in between went unnoticed."""
    path = tmp_path / "chats.jsonl"
    path.write_text(chat("a", ASKED) + "\n" + chat("b", ASKED))
    ingest.mine(workspace, "messages", path)
    snapshot.take(workspace)
    store.append(workspace, tables.CONVERSATIONS, rows(tables.CONVERSATIONS, 1))
    with pytest.raises(StoreError, match="copies of one could stand in two splits"):
        snapshot.take(workspace)


def test_an_erasure_leaves_nothing_to_compare(workspace: store.Workspace, tmp_path) -> None:
    path = tmp_path / "chats.jsonl"
    path.write_text(chat("a", ASKED) + "\n" + chat("b", "A quiet film"))
    ingest.mine(workspace, "messages", path)
    assert shards.rewrite(workspace.root, tables.CONVERSATIONS, lambda frame: frame.filter(source_id="b")) == 1
    clusters.erased(workspace)
    clusters.check(workspace)
    store.append(workspace, tables.CONVERSATIONS, rows(tables.CONVERSATIONS, 1))
    with pytest.raises(StoreError, match="copies of one could stand in two splits"):
        clusters.check(workspace)


def test_of_two_that_mine_at_once_each_compares_with_what_the_other_wrote(
    workspace: store.Workspace, tmp_path, monkeypatch: Patch
) -> None:
    """Rows of the later run had the same numbers as rows of the other run, and were mistaken for them."""
    first_compares, find_clusters = Event(), near_duplicates.clusters
    # the head of a cluster is its first id: the second file changes it
    names = sorted((f"m{n}" for n in range(4)), key=lambda name: tables.digest("messages", name))
    for file, ids in (("one", names[2:]), ("two", names[:2])):
        lines = [chat(name, ASKED + "!" * n) for n, name in enumerate(ids)]
        (tmp_path / f"{file}.jsonl").write_text("\n".join(lines))

    def slow(requests: pl.DataFrame, have: pl.DataFrame) -> pl.DataFrame:
        grouped = find_clusters(requests, have)
        if first_compares.is_set():
            return grouped
        first_compares.set()
        second_run = pool.submit(ingest.mine, workspace, "messages", tmp_path / "two.jsonl")
        with pytest.raises(TimeoutError):
            second_run.result(1.0)  # it waits
        return grouped

    monkeypatch.setattr(near_duplicates, "clusters", slow)
    with ThreadPoolExecutor(1) as pool:
        ingest.mine(workspace, "messages", tmp_path / "one.jsonl")
    assert together(workspace) == set(names)


@pytest.mark.slow
def test_a_file_of_two_sources_is_told_by_its_conversations_and_not_by_their_copies(
    workspace: store.Workspace, tmp_path
) -> None:
    """Each copy of a request counted: of 4,000 copies in two files all pairs took 1.4 GB, of 20,000 too much."""
    path, others = tmp_path / "chats.jsonl", ("Is there a western with a happy end?", "A comedy for a rainy day?")
    path.write_text("\n".join(chat(f"a{n}", ASKED) for n in range(5)))
    ingest.mine(workspace, "messages", path)
    path.write_text("\n".join(chat(f"b{n}", text) for n, text in enumerate(others)))
    ingest.mine(workspace, "opendialkg", path)
    path.write_text("\n".join(json.dumps({"prompt": text}) for text in (ASKED, *others)))
    figures = [ingest.mine(workspace, "saferec", path).counts.figures for _ in range(2)]
    warning = str(figures[0]["there_under_another_source"])  # every count was doubled without a word
    assert warning.startswith("3 of 3 new conversations ask what one of opendialkg does")
    assert warning.endswith("delete tables/conversations, and mine each file again under one source")
    path.write_text("\n".join([chat("c", "Is there a musical with robots in it?"), chat("d", others[0])]))
    figures.append(ingest.mine(workspace, "messages", path).counts.figures)
    assert not any("there_under_another_source" in one for one in figures[1:])  # a rerun, and one of two

"""Reddit dumps: from lines to conversations, the outcome of every line, and what no line may cause."""

import json
import os
import threading
from collections import Counter

import polars as pl
import pytest

from saferec_builder.catalog import adding, lookup, rulings
from saferec_builder.mining import privacy, reddit as command, removals
from saferec_builder.sources import dumps, reddit
from saferec_builder.storage import tables, texts_on_disk, workspace as store
from saferec_builder.storage.workspace import make
from tests.conftest import NOT_RUN
from tests.worlds import reddit_dump
from tests.worlds.reddit_dump import comment, line, submission, write
from tests.worlds.reddit_mined import THREAD, S, balanced, current, mined


@pytest.mark.slow
def test_a_better_search_for_personal_data_reads_the_dumps_again(cli, workspace, tmp_path, monkeypatch):
    """Otherwise later runs would reuse the texts in the shards of an earlier run, and a release would refuse them."""
    rs = reddit_dump.write(tmp_path / "RS_2022-08.ndjson", [S])
    rc = reddit_dump.write(tmp_path / "RC_2022-08.ndjson", THREAD)
    with monkeypatch.context() as patch:
        patch.setattr(privacy, "redact_all", lambda texts, *_, **__: (texts, Counter()))
        patch.setattr(privacy, "rules", lambda: "of an earlier version")
        mined(cli, workspace, rs, rc)
        assert "jo@example.org" in str(current(workspace)["turns"].to_list())
    assert mined(cli, workspace, rs, rc)["added"] == 1  # a new revision
    turns = str(current(workspace)["turns"].to_list())
    assert "[email]" in turns and "jo@example.org" not in turns
    assert mined(cli, workspace, rs, rc)["added"] == 0


@pytest.mark.slow
def test_shards_of_when_capitals_counted_are_no_answer(cli, workspace, tmp_path, monkeypatch):
    """They held nothing of a subreddit in other capitals than saferec.toml has, and were used again."""
    dump, read = write(tmp_path / "RS_2022-08.ndjson", [S | {"subreddit": S["subreddit"].upper()}]), reddit.read
    with monkeypatch.context() as patch:
        patch.setattr(command, "_FORMAT", 8)
        patch.setattr(reddit, "read", lambda path, _, tally, file: read(path, [], tally, file))
        assert mined(cli, workspace, dump)["added"] == 0
    assert mined(cli, workspace, dump)["added"] == 1


@pytest.mark.slow
def test_names_and_authors_never_reach_the_disk(cli, workspace, tmp_path):
    asked = S | {"link_flair_text": "Request, mail jo@example.org"}  # in some forums authors write their own flair
    write(tmp_path / "r_MovieSuggestions_posts.jsonl", [asked])
    write(tmp_path / "r_MovieSuggestions_comments.jsonl", THREAD)
    assert mined(cli, workspace, tmp_path)["added"] == 1  # a folder of both
    flairs = [pl.read_parquet(file)["flair"] for file in (workspace.root / "mining").rglob("posts-*.parquet")]
    assert pl.concat(flairs).drop_nulls().to_list() == ["Request, mail [email]"]
    for file in workspace.root.rglob("*.parquet"):
        text = json.dumps(pl.read_parquet(file).to_dicts(), default=str).lower()
        assert not [word for word in ("asker", "helper", "example.org", "anna") if word in text], file
    origin = store.read(workspace, tables.ORIGINS)
    assert origin["source_id"].to_list() == ["t3_s1", "t1_c1", "t1_c10", "t1_c3", "t1_c2", "t1_c5"]
    assert origin["author"][0] == origin["author"][4] == current(workspace)["seeker"][0]
    assert origin["author"][1] == origin["author"][5]  # Helper and helper are one person


@pytest.mark.slow
def test_a_name_that_one_post_gives_is_hidden_in_the_whole_conversation(cli, workspace, tmp_path):
    """Each post was searched alone, so an answer still had the son's name that the request had a placeholder for."""
    request = submission(1, author="Asker", title="Looking for a film", selftext="My son Ethan hates blood.")
    replies = [
        comment(1, "s1", body="I think Ethan's age fits Up (2009), has Ethan seen it?"),
        comment(2, "s1", "t1_c1", author="Asker", body="my wife Nadia has"),
        comment(3, "s1", body="Then Nadia can tell. Ethan Hawke is in Sinister (2012)"),
    ]
    second_thread = [submission(2, title="Looking for a film"), comment(4, "s2", body="Ethan Hunt is in all of them")]
    first_file, second_file = [request, *second_thread[:1]], [*replies, *second_thread[1:]]
    paths = [reddit_dump.write(tmp_path / f"{n}.ndjson", rows) for n, rows in enumerate((first_file, second_file))]
    assert mined(cli, workspace, *paths)["replaced_name"] == 5
    thread, other_thread = (" ".join(turn["text"] for turn in turns) for turns in current(workspace)["turns"])
    assert thread.count("[name]") == 5 and "Nadia" not in thread and thread.count("Ethan") == 1  # the actor
    assert "Ethan Hunt" in other_thread
    shards = [path.read_bytes() for path in (workspace.root / "mining").rglob("*.parquet")]
    assert not any(b"Nadia" in raw or b"nadia" in raw for raw in shards)


@pytest.mark.slow
def test_a_file_that_is_no_dump_leaves_nothing_in_the_figures(cli, workspace, tmp_path):
    csv, dump = tmp_path / "items.ndjson", tmp_path / "RS_2022-08.ndjson"
    csv.write_text("source_id,title\n" * 50)
    result = cli("mine", "reddit", csv, "-C", workspace.root, "--json")
    assert (result.code, result.json["dropped"]) == (1, {"not JSON": 50})
    assert store.read(workspace, tables.DROPS).is_empty()
    reddit_dump.write(dump, [S, *THREAD])
    summary = mined(cli, workspace, dump, csv)  # with a dump beside it, its drops count
    assert store.read(workspace, tables.DROPS).height == sum(summary["dropped"].values()) > 50


def test_a_file_of_other_objects_is_no_dump(cli, workspace, tmp_path):
    """It ended with exit code 0 and no conversation: none of its lines was from a wanted subreddit."""
    chats = tmp_path / "chats.ndjson"
    chats.write_text('\n{"messages": [{"role": "user", "content": "Any calm film?"}], "id": "a"}\n' * 3)
    result = cli("mine", "reddit", chats, "-C", workspace.root, "--json")
    assert (result.code, result.json["dropped"], result.err.count("\n")) == (1, {reddit.NO_DUMP: 1}, 1)
    assert "chats.ndjson:2: no line of this file has a subreddit: found the fields messages, id" in result.err
    assert store.read(workspace, tables.DROPS).is_empty()


@pytest.mark.parametrize("post", [{"subreddit": "b"}, {"link_flair_text": "[Suggesting]"}, {"selftext": "[removed]"}])
def test_a_dump_of_which_every_post_is_left_out_by_a_rule_is_no_fault(cli, workspace, tmp_path, post):
    """A dump whose submissions ask for nothing ended with "name the right source", though the source was right."""
    summary = mined(cli, workspace, reddit_dump.write(tmp_path / "RS_2022-08.ndjson", [S | post]))
    assert (summary["lines"], summary["requests"]) == (1, 0)
    is_elsewhere = "subreddit" in post  # whoever mines their own forum must learn that it is not among the wanted
    assert summary["lines_of_other_subreddits_blank_or_removed"] == is_elsewhere
    assert summary.get("other_subreddits", "").startswith("b: add those that you want to [reddit]") == is_elsewhere


@pytest.mark.slow
def test_a_fifo_is_read_and_an_empty_file_is_no_fault(cli, workspace, tmp_path):
    fifo = tmp_path / "pipe.ndjson"
    os.mkfifo(fifo)
    data = "".join(line(row) + "\n" for row in [S, *THREAD])
    writer = threading.Thread(target=lambda: fifo.write_text(data))
    writer.start()
    (tmp_path / "empty.ndjson").write_bytes(b"")
    (tmp_path / "empty.zst").write_bytes(b"")
    summary = mined(cli, workspace, fifo, tmp_path / "empty.ndjson", tmp_path / "empty.zst", workers="1")
    writer.join()
    assert (summary["added"], summary["lines"]) == (1, 12)


@pytest.mark.slow
def test_removals_are_honoured_by_mine_and_found_in_what_was_mined(cli, workspace, tmp_path):
    rows = [S, *THREAD, submission(2, author="Bo"), comment(40, "s2", author="Helper"), submission(3)]
    path = reddit_dump.write(tmp_path / "all.ndjson", rows)
    mined(cli, workspace, path)
    wishes = workspace.root / "removals.csv"
    wishes.write_text("source,source_id,author\nreddit,,u/Helper\nreddit,t3_s3,\n")

    def removed_ids():
        rows, origin = store.read(workspace, tables.CONVERSATIONS), store.read(workspace, tables.ORIGINS)
        return set(removals.gone(removals.of_workspace(workspace), rows, origin))

    rows = store.read(workspace, tables.CONVERSATIONS)
    ids = dict(rows.select("source_id", "conversation").rows())
    assert removed_ids() == {ids["s1"], ids["s2"], ids["s3"]}  # Helper answers in the first two
    summary = mined(cli, workspace, path)
    assert summary["dropped"]["removed on request"] == 4  # three comments, one submission
    assert summary["dropped"]["parent missing"] == 2  # the seeker's thanks to a comment that is removed
    assert store.read(workspace, tables.DROPS).filter(reason="removed on request")["detail"].unique().to_list() == [""]
    assert removed_ids() == {ids["s3"]}  # the new revisions of the others are without Helper
    rows, origin = store.read(workspace, tables.CONVERSATIONS), store.read(workspace, tables.ORIGINS)
    # the earlier revisions are not
    removed = removals.removed(removals.of_workspace(workspace), removals.standing(rows, origin))
    newest = rows.unique("conversation", keep="last").select("conversation", "digest")
    assert set(removed["conversation"]) == {ids["s1"], ids["s2"], ids["s3"]}
    assert set(removed.join(newest, on=newest.columns, how="semi")["conversation"]) == {ids["s3"]}
    assert mined(cli, workspace, path)["added"] == 0


@pytest.mark.slow
def test_shards_of_earlier_removals_are_deleted_unless_another_command_may_read_them(cli, workspace, tmp_path):
    """They hold the posts of who was removed, and each change of the catalog or of removals.csv adds a full copy."""
    folder, path = workspace.root / "mining", reddit_dump.write(tmp_path / "all.ndjson", [S, *THREAD])

    def shards():
        texts = str([pl.read_parquet(file)["text"].to_list() for file in folder.rglob("posts-*.parquet")])
        return len(list(folder.glob("file-*.json"))), len(list(folder.glob("*-*/"))), "Try Alien" in texts

    mined(cli, workspace, path)
    assert shards() == (1, 1 + 16, True)  # a file and its buckets
    (workspace.root / "removals.csv").write_text("source,source_id,author\nreddit,,u/Helper\n")
    with store.together(workspace):
        mined(cli, workspace, path)
    assert shards() == (2, 2 + 32, True)
    times = {file: file.stat().st_mtime_ns for file in folder.rglob("*.parquet")}
    mined(cli, workspace, path)
    assert shards() == (1, 1 + 16, False)
    assert all(times[file] == file.stat().st_mtime_ns for file in folder.rglob("*.parquet"))


@pytest.mark.slow
def test_files_of_one_name_in_two_folders_count_each_post(cli, tmp_path):
    """Both files have the same post at the same place, one with a later score: the order of files does not matter."""
    rows = [S, comment(1, "s1", score=2)], [S, comment(1, "s1", score=50)]
    paths = []
    for n, part in enumerate(rows):
        (tmp_path / f"dump{n}").mkdir()
        paths.append(reddit_dump.write(tmp_path / f"dump{n}" / "RC.ndjson", part))
    first, second = (tables_of(cli, tmp_path / f"ws{n}", order) for n, order in enumerate((paths, paths[::-1])))
    assert all(a.equals(b) for a, b in zip(first, second, strict=True))  # tables_of sums: 4 posts, 2 twice


@pytest.mark.slow
def test_of_two_files_of_one_name_each_has_its_own_drops(cli, workspace, tmp_path):
    """The broken line of the second file was not in the table, as the first has one there."""
    for part in ("a", "b"):
        (tmp_path / part).mkdir()
        (tmp_path / part / "RS.ndjson").write_text("{\n" + line(submission(1)) + "\n")
    mined(cli, workspace, tmp_path / "a" / "RS.ndjson", tmp_path / "b" / "RS.ndjson")
    broken = store.read(workspace, tables.DROPS).filter(reason="not JSON")
    assert broken["place"].to_list() == ["a/RS.ndjson:1", "b/RS.ndjson:1"]
    assert store.read(workspace, tables.CONVERSATIONS)["source_file"].to_list() == ["RS.ndjson"]


MONTHS = 3
TOLD = (tables.CONVERSATIONS, tables.ORIGINS, tables.MARKS, tables.CLUSTERS, tables.DROPS)


def tables_of(cli, root, dumps_, *, buckets=16, **how):
    """The tables of a fresh workspace after mining these dumps, with a secret that is the same for all."""
    make(root, demo=False)
    toml = root / "saferec.toml"
    toml.write_text(toml.read_text().replace("# buckets = 16 ", f"buckets = {buckets}"))
    (root / ".secret").write_bytes(b"the same for all, so that pseudonyms are")
    ws = store.Workspace.open(root)
    assert balanced(mined(cli, ws, *dumps_, **how))
    return [store.read(ws, table).sort(table.key) for table in TOLD]


@pytest.fixture
def months(tmp_path):
    paths = []
    for month in range(MONTHS):
        rows = [submission(n) for n in range(month * 20, month * 20 + 20)]
        rows += [comment(month * 100 + n, f"s{n % 60}", author=f"h{n % 7}") for n in range(100)]
        paths.append(reddit_dump.write(tmp_path / f"month{month}.ndjson", rows))
    return paths


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", "ray"])
def test_two_processes_and_many_buckets_give_the_same_tables(cli, tmp_path, months, engine):
    if engine == "ray":
        pytest.importorskip("ray", reason=f"{NOT_RUN}Ray (pip install --constraint constraints.txt ray)")
    single = tables_of(cli, tmp_path / "one", months, buckets=1, workers="1")
    several = tables_of(cli, tmp_path / "two", months, buckets=7, workers="2", engine=engine)
    assert single[0].height == 20 * MONTHS
    assert all(a.equals(b) for a, b in zip(single, several, strict=True))


@pytest.mark.slow
def test_what_is_held_at_once_changes_no_table(cli, tmp_path, months, monkeypatch):
    at_once = tables_of(cli, tmp_path / "whole", months, buckets=2, workers="1")
    monkeypatch.setattr(command, "_BUFFERED", 1)  # every batch of lines is written at once
    monkeypatch.setattr(command, "_PART", 0)  # every shard is its own part
    monkeypatch.setattr(dumps, "_BLOCK", 60_000)
    monkeypatch.setattr(reddit, "_BATCH_BYTES", 0)
    parts = tables_of(cli, tmp_path / "parts", months, buckets=2, workers="1")
    assert len(list((tmp_path / "parts" / "mining").glob("file-*/posts-0-*.parquet"))) >= 2 * MONTHS
    assert all(a.equals(b) for a, b in zip(at_once, parts, strict=True))


@pytest.mark.slow
def test_characters_that_reddit_escapes_are_read_as_their_authors_wrote_them(cli, workspace, tmp_path):
    """ "Tucker &amp; Dale vs Evil" in a real post was the film "Evil", and "Rock &amp; Rule" no film at all."""
    films = "film,Evil,2003\nfilm,Tucker & Dale vs Evil,2010\n"
    (tmp_path / "own.csv").write_text(f"domain,title,year\n{films}")
    adding.add_catalog(workspace, "csv", tmp_path / "own.csv")
    asked = submission(1, title="Looking for a film &lt;3", selftext="&gt; &amp;lt; is a mark")
    reply = comment(1, "s1", body='Try "Tucker &amp; Dale vs Evil"!', score=20)
    mined(cli, workspace, reddit_dump.write(tmp_path / "RS.ndjson", [asked, reply]))
    row = current(workspace).row(0, named=True)
    assert row["turns"][0]["text"] == "Looking for a film <3\n\n> &lt; is a mark"
    assert row["accepted"] == ["csv:film:tucker and dale v evil:2010"] == row["recommended"]


@pytest.mark.slow
def test_a_forum_about_games_names_no_film_and_one_about_films_no_game(cli, workspace, tmp_path):
    """Most items that real requests for games named were films of another title's words, such as Moon (2009)."""
    own = "domain,title,year\nfilm,Moon,2009\ngame,Lantern Keep,2011\nseries,Cold Harbour,2014\nbook,Salt Roads,2003\n"
    (tmp_path / "own.csv").write_text(own)
    adding.add_catalog(workspace, "csv", tmp_path / "own.csv")
    body = 'Try "Moon", "Lantern Keep", "Cold Harbour" and "Salt Roads"!'
    names = ("gamingsuggestions", "MovieSuggestions", "ifyoulikeblank", "suggestmeabook")
    forums = [{"subreddit": name} for name in names]
    posts = [submission(n, subreddit=name.upper()) for n, name in enumerate(names)]  # Reddit takes no capitals apart
    posts += [comment(n, f"s{n}", body=body, **forum) for n, forum in enumerate(forums)]
    mined(cli, workspace, write(tmp_path / "d.jsonl", posts))
    film, game, series = "csv:film:moon:2009", "csv:game:lantern keep:2011", "csv:series:cold harbour:2014"
    book, named = "csv:book:salt roads:2003", dict(current(workspace).select("domain", "recommended").iter_rows())
    assert named == {"game": [game], "film": [film, series], "book": [book], None: [film, game, series, book]}


@pytest.mark.slow
def test_what_a_text_names_is_kept_under_the_items_own_row(cli, workspace, tmp_path):
    """It was stored under an IMDb id that two rows claim, so after `catalog apart` it became another film."""
    rows = "domain,title,year,id,imdb\nfilm,It,1990,it,tt0099685\nfilm,Goodfellas,1993,good,tt0099685\n"
    (tmp_path / "own.csv").write_text(rows)
    adding.add_catalog(workspace, "csv", tmp_path / "own.csv")
    request = submission(1, author="Asker", title="Looking for a scary film", selftext="Please, no gore.")
    reply = comment(1, "s1", author="Helper", body="Try It (1990).")
    mined(cli, workspace, write(tmp_path / "d.jsonl", [request, reply]))
    rulings.keep_apart(workspace, "csv:it")
    assert texts_on_disk.refs(current(workspace))["ref"].to_list() == ["csv:it"]
    assert lookup.gaps(workspace).items["title"].to_list() == ["It"]


def test_only_shards_of_the_last_run_stay(tmp_path):
    names = ("file-now-1", "bucket-now-2.json", "file-before-1", "bucket-before-2.json", "items-9", "items-8")
    for name in names:
        (tmp_path / name).touch()
    command.remove_outdated(tmp_path)  # `forget` deletes last.txt with the shards, maybe just before this
    assert {path.name for path in tmp_path.iterdir()} == {*names}
    (tmp_path / "last.txt").write_text("now items-9")
    command.remove_outdated(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {names[0], names[1], "items-9", "last.txt"}

"""A thread becomes one conversation."""

import pytest

from saferec_builder.storage import tables, workspace as store
from tests.worlds import reddit_dump
from tests.worlds.reddit_mined import THREAD, S, balanced, current, mined


@pytest.fixture
def catalog(cli, workspace, tmp_path):
    path = tmp_path / "items.csv"
    films = "Heat,1995 Alien,1979 Ronin,1998 Speed,1994 Thief,1981".split()
    path.write_text("source_id,title,year,domain\n" + "".join(f"i{n},{row},film\n" for n, row in enumerate(films)))
    result = cli("catalog", "add", "csv", path, "-C", workspace.root)
    assert result.code == 0, result.err


@pytest.mark.slow
def test_a_thread_becomes_one_conversation(cli, workspace, tmp_path, catalog):
    rs = reddit_dump.write(tmp_path / "RS_2022-08.ndjson", [S])
    rc = reddit_dump.write(tmp_path / "RC_2022-08.ndjson", THREAD)
    summary = mined(cli, workspace, rs, rc)
    assert (summary["in"], summary["added"], balanced(summary)) == (6, 1, True)
    left_out = ("talk among others", "parent missing", "deleted author", "deleted text", "bot")
    assert summary["dropped"] == dict.fromkeys(left_out, 1)
    assert (summary["lines"], summary["comments_on_no_request"]) == (12, 1)
    row = current(workspace).row(0, named=True)
    assert [(t["role"], t["text"]) for t in row["turns"]] == [
        ("seeker", "Looking for a calm film\n\nMy wife [name] likes Heat (1995)."),
        ("recommender", "Try Alien (1979). Mail me: [email]"),
        ("recommender", "Speed (1994)"),
        ("recommender", "Ronin (1998)"),
        ("seeker", "Thanks, adding it!"),
        ("recommender", "Enjoy"),
    ]
    title = dict(store.read(workspace, tables.CATALOG_ROWS).select("source_id", "title").rows())
    names = {c: [title[ref.split(":", 1)[1]] for ref in row[c]] for c in ("recommended", "accepted", "seen")}
    # thanks for Alien, 50 votes for Ronin; 3 votes are below the threshold of 10
    assert names == {"recommended": ["Alien", "Speed", "Ronin"], "accepted": ["Alien", "Ronin"], "seen": ["Heat"]}
    assert (row["domain"], row["time"].isoformat()) == ("film", "2022-08-08T23:06:41+00:00")
    rerun = mined(cli, workspace, rs, rc)
    assert (rerun["in"], rerun["added"], rerun["skipped"]) == (6, 0, 1)

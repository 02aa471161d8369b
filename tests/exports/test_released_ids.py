"""Released ids: somebody who has the source finds nobody in a release whose texts stay with their source."""

import stat
from datetime import UTC, datetime, timedelta

import polars as pl
import pyarrow.parquet as pq
import pytest

from exports import folder as write, released_ids
from saferec_builder.core.errors import ReleaseError
from saferec_builder.storage import workspace as store
from tests.worlds import once, release_world as world


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(a workspace with release 1.0.0, conversations as the source has them): one a day, two of each person."""
    ws = store.Workspace.create(tmp_path_factory.mktemp("ids") / "ws")
    rows, labels = world.requests()
    times = [world.START + timedelta(days=n, seconds=n) for n in range(len(rows))]
    people = [f"p{n // 4 * 4 + n % 2}" for n in range(len(rows))]
    # "c032" may stand in a digest by chance, and `forget` would find it there
    ids = [{"source": "hf:chats", "source_id": f"post-{n}", "conversation": f"talk-{n}"} for n in range(len(rows))]
    names = dict(zip((row["conversation"] for row in rows), (id_["conversation"] for id_ in ids), strict=True))
    labels = [row | {"subject": names[row["subject"]]} for row in labels]
    rows = [row | id_ | {"time": t, "seeker": p} for row, id_, t, p in zip(rows, ids, times, people, strict=True)]
    rows[3]["domain"] = "game"
    world.for_few(world.fill(ws, rows, labels), 1)
    return once.released(ws), rows


@pytest.fixture
def released(made, workspace):
    ws = once.copied(made[0], workspace)
    return ws, made[1], ws.releases / "1.0.0"


def told(home):
    """The rows of each config, of all splits."""
    tables: dict[str, list[dict]] = {}
    for path in sorted(home.glob("data/*/*.parquet")):
        tables.setdefault(path.parent.name, []).extend(pq.read_table(path).to_pylist())
    return tables


@pytest.mark.slow
def test_the_source_finds_nobody_by_id_digest_day_person_order_or_place_of_evidence(released):
    _, rows, folder = released
    names = ("manifest.json", "README.md", "croissant.json", "provenance.json", "CHANGELOG.md")
    content = "".join((folder / name).read_text() for name in names) + repr(told(folder))
    for row in rows:
        for value in (f"{row['conversation']!r}", row["source_id"], row["digest"], f"T{row['time']:%H:%M:%S}"):
            assert value not in content, value
    assert f"{rows[-1]['time']:%Y-%m-%d}" not in content  # of two versions that differ by one row, it would be its day
    conversations = told(folder)["conversations"]
    assert len(conversations) == 40 and not any(row["cut"] or row["turns"] for row in conversations)
    # a day identifies its only post, and two days identify the person who wrote on both
    assert not any(row["time"] or row["seeker"] for row in conversations)
    assert not any(label["spans"] for label in told(folder)["labels"])
    # the only request for a game is that of the only person who asked for one
    assert not any(row.get("domain") for config in told(folder).keys() - {"items"} for row in told(folder)[config])
    key = dict(released_ids.read(released_ids.path_of(folder)).select("conversation", "subject").iter_rows())
    subjects = [key[row["conversation"]] for row in conversations]
    aligned = sum(subject == row["conversation"] for subject, row in zip(subjects, rows, strict=True))
    assert aligned <= 8  # by chance one of 40 is in its place; more than 8 once in 800,000 keys
    assert set(subjects) == {row["conversation"] for row in rows}


@pytest.mark.slow
def test_ids_are_the_same_in_every_version_and_other_in_another_workspace(released, cli):
    ws, _, folder = released
    world.grow(ws, cli)
    before, after = ({row["conversation"] for row in told(h)["conversations"]} for h in (folder, ws.releases / "1.1.0"))
    assert before < after
    (ws.root / ".secret").write_bytes(bytes(64))
    assert cli("release", "1.1.1", "-C", ws.root).code == 1  # rows are gone: only a major version may have other ids


@pytest.mark.slow
def test_the_key_file_is_the_owners_alone_and_is_published_with_nothing(released, cli, tmp_path):
    ws, rows, folder = released
    key = released_ids.path_of(folder)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    content = key.read_bytes()
    key.unlink()  # as after a kill: the same command writes it again
    assert cli("release", "1.0.0", "-C", ws.root).code == 0 and key.read_bytes() == content
    assert cli("publish", "--to", tmp_path / "out", "-C", ws.root).code == 0
    assert not [path for path in (tmp_path / "out").rglob("*") if "key" in path.name]
    assert cli("verify", folder).code == 0
    exact, days = released_ids.starts(folder, []), write.facts_of(folder)["split_starts"]
    assert exact[1] in {row["time"] for row in rows} and days[1] == exact[1].date().isoformat()


@pytest.mark.parametrize("content", [b"", b"PAR1", None])
def test_what_is_no_key_file_is_said_in_one_line(tmp_path, content):
    path = tmp_path / "k.parquet"
    if content is None:
        pl.DataFrame({"conversation": ["a"]}).write_parquet(path)
    else:
        path.write_bytes(content)
    for reader in (released_ids.read, lambda path: released_ids.erase(path, ["a"], [])):
        with pytest.raises(ReleaseError, match=r"k.parquet: not a key file \("):
            reader(path)


def test_starts_that_are_no_times_are_one_line(tmp_path):
    """They are the manifest's fault where there is no key file."""
    for stated in (["x", None], [None], ["2020-01-02"] * 3):
        with pytest.raises(ReleaseError, match=r"1\.0\.0/manifest\.json: not a manifest"):
            released_ids.starts(tmp_path / "1.0.0", stated)
    for text in ("[1, 2]", "[]", "null", '["x", null]', "[" * 100_000):
        table = pl.DataFrame({"conversation": ["a"]}).to_arrow().replace_schema_metadata({"split_starts": text})
        pq.write_table(table, tmp_path / "1.0.0.key.parquet")
        with pytest.raises(ReleaseError, match=r"1\.0\.0\.key\.parquet: not a key file"):
            released_ids.starts(tmp_path / "1.0.0", [])


def test_who_is_erased_is_no_longer_the_first_of_a_split(released, cli):
    """The key file kept the second in which the first person of the test split had written, and each later version
    took it over: who has the source finds the post by it."""
    ws, rows, folder = released
    starts = released_ids.starts(folder, [])
    firsts = [row for row in rows if row["time"] in starts]
    assert cli("forget", *(row["source_id"] for row in firsts), "-C", ws.root).code == 0
    remaining = [row for row in rows if row not in firsts]
    expected = tuple(min(row["time"] for row in remaining if row["time"] > start) for start in starts)
    assert len(firsts) == 2 and released_ids.starts(folder, []) == expected


def test_who_is_erased_is_in_no_row_of_the_key_file_and_all_others_stay(tmp_path):
    path, people = tmp_path / "1.0.0.key.parquet", ("p0", "p1", "p2", "p3", None)
    rows = [{"conversation": f"r{n}", "subject": f"c{n}", "digest": "d", "seeker": p} for n, p in enumerate(people)]
    of, stated = "ws 1.0.0", '["2024-01-02T03:04:05", null]'
    table = pl.DataFrame(rows, schema=released_ids.KEY).to_arrow(compat_level=pl.CompatLevel.oldest())
    pq.write_table(table.replace_schema_metadata({"release": of, "split_starts": stated}), path)
    released_ids.erase(path, ["c9", "p9"], [("c0", "older")])
    assert released_ids.read(path, of)["subject"].to_list() == ["c0", "c1", "c2", "c3", "c4"]
    released_ids.erase(path, ["c0", "p1"], [("c2", "d"), ("c3", "older")])
    assert released_ids.read(path, of)["subject"].to_list() == ["c3", "c4"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(ReleaseError, match="the key file of ws 1.0.0, expected that of ws 1.0.1"):
        released_ids.read(path, "ws 1.0.1")
    assert released_ids.starts(tmp_path / "1.0.0", []) == (datetime(2024, 1, 3, tzinfo=UTC), None)  # no row has a time
    assert released_ids.starts(tmp_path / "2.0.0", [None, "2024-01-02"])[1] == datetime(2024, 1, 2, tzinfo=UTC)
    pq.write_table(pl.concat([released_ids.read(path)] * 2).to_arrow(compat_level=pl.CompatLevel.oldest()), path)
    with pytest.raises(ReleaseError, match="a conversation comes twice"):
        released_ids.read(path)

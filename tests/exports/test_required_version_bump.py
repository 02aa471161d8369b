"""The order of versions, and the version that a change requires."""

import re
import shutil
import tomllib
from pathlib import Path

import polars as pl
import pytest

from exports import build_rows, required_version_bump as versioning
from exports.release import release
from saferec_builder.core import taxonomy as traits
from saferec_builder.core.errors import ReleaseError
from saferec_builder.storage import tables, workspace as store
from tests.worlds import release_world as world
from tests.worlds.release_rows import manifest


@pytest.fixture
def releases(tmp_path: Path) -> Path:
    for version in ("1.0.0", "1.10.0", "1.9.0", "2.0.0"):
        (tmp_path / version / "data").mkdir(parents=True)
        (tmp_path / version / "manifest.json").touch()
    return tmp_path


def test_versions_are_found_by_number_and_by_name(releases: Path) -> None:
    assert versioning.before(releases, "1.10.0") == releases / "1.9.0"
    assert versioning.before(releases, "1.0.0") is None
    with pytest.raises(ReleaseError, match="no release yet: run `saferec-build release 1.0.0` first"):
        versioning.find(releases / "none")
    (releases / "10.0.0").mkdir()  # without a manifest it is no release
    assert versioning.find(releases) == releases / "2.0.0"
    assert versioning.find(releases, "1.9.0") == releases / "1.9.0"
    with pytest.raises(ReleaseError, match="no release '10.0.0'; there are 1.0.0, 1.9.0, 1.10.0, 2.0.0"):
        versioning.find(releases, "10.0.0")
    steps = [("1.2.3", "major", "2.0.0"), ("1.2.3", "minor", "1.3.0"), ("0.1.2", "major", "0.2.0")]
    assert [versioning.above(version, size) for version, size, _ in steps] == [above for *_, above in steps]


def test_a_version_without_its_data_names_the_one_without_those_who_were_forgotten(releases: Path) -> None:
    """It said "make a new version" where that was made already."""
    (releases / "1.0.0" / "data").rmdir()
    with pytest.raises(ReleaseError, match=r"1\.0\.0: its data was deleted.*: 2\.0\.0 is without them$"):
        versioning.find(releases, "1.0.0")
    for version in ("1.9.0", "1.10.0", "2.0.0"):
        (releases / version / "data").rmdir()
    with pytest.raises(ReleaseError, match=r"2\.0\.0: its data .*: make .*: `saferec-build release 3\.0\.0`$"):
        versioning.find(releases)


@pytest.mark.parametrize("version", ["1.0", "v1.0.0", "1.0.0-rc1", "01.0.0", "1.0.0\n", "../1.0.0", "١.0.0"])
def test_a_version_is_three_numbers(ws, cli, version):
    result = cli("release", version, "-C", ws.root)
    assert result.code == 1 and "MAJOR.MINOR.PATCH" in result.err
    assert not ws.releases.exists()


@pytest.mark.slow
def test_a_version_says_how_much_changed(workspace, cli):
    rows, labels = world.requests()
    ws = world.fill(workspace, rows[:-1], labels[:-1])
    assert cli("release", "1.0.0", "-C", ws.root).code == 0
    store.append(ws, tables.LABELS, world.labels(labels[0] | {"label": "fix", "verdict": "unsure"}))
    assert cli("release", "1.0.1", "-C", ws.root).code == 0
    assert manifest(ws, "1.0.1")["changes"][0].startswith("patch: ")
    world.fill(ws, rows, labels[-1:])
    result = cli("release", "1.0.2", "-C", ws.root)
    assert result.code == 1 and "1 row of conversations is new since 1.0.1: take 1.1.0 or higher" in result.err
    assert cli("release", "1.1.0", "-C", ws.root).code == 0
    result = cli("release", "1.0.2", "-C", ws.root)
    assert result.code == 1 and "take 1.2.0 or higher" in result.err  # 1.1.0 exists and would be refused
    # nobody changed the split: a test row of 1.0.0 is no training row of 1.1.0
    ids = [set(pl.read_parquet(ws.releases / v / "data/sft/test.parquet")["conversation"]) for v in ("1.0.0", "1.1.0")]
    assert ids[0] < ids[1]
    world.configured(ws, "# violated_at = 0.66 ", "violated_at = 0.7 ")
    result = cli("release", "1.2.0", "-C", ws.root)
    assert result.code == 1 and "thresholds of the rule changed since 1.1.0: take 2.0.0" in result.err


@pytest.mark.parametrize("change", ["a conversation", "another rule", "a trait less", "the texts", "no --inject"])
def test_a_version_that_is_too_small_is_refused_before_any_row_is_built(released, monkeypatch, change):
    """On real data the error came after minutes."""
    ws = released
    if change == "a conversation":
        store.append(ws, tables.CONVERSATIONS, world.conversations(world.conversation("new", "Hi", day=99)))
    elif change == "another rule":
        ws = world.configured(ws, "# violated_at = 0.66 ", "violated_at = 0.7 ")
    elif change == "a trait less":
        blocks = traits.EMBEDDED.read_text().split("[[trait]]")
        (ws.root / "mine.toml").write_text("[[trait]]".join(b for b in blocks if 'slug = "needles"' not in b))
        ws = world.configured(ws, '# path = "my-traits.toml"', 'path = "mine.toml"')
    elif change == "the texts":
        world.stated(ws.releases / "1.0.0", silent=["messages"])
    else:
        world.stated(ws.releases / "1.0.0", conditions=manifest(ws)["conditions"] | {"injected": 7})
    monkeypatch.setattr(build_rows, "build", lambda *_: pytest.fail("rows were built"))
    needed = {"a conversation": "1.1.0 or higher$", "no --inject": "2.0.0 or higher, or give `--inject` again: 7 rows"}
    with pytest.raises(ReleaseError, match=f"1.0.1: too small a version, .*: take {needed.get(change, '2.0.0 or h')}"):
        release(ws, "1.0.1")


def test_a_forgotten_unreviewed_is_named_where_it_kept_lists():
    before = {"version": "1.0.0", "conditions": {"injected": 0}, "keeps_unreviewed": True, "unreviewed": 7}
    before |= {"silent": [], "sources": []}
    hint = ", or give `--unreviewed` again: 7 lists of 1.0.0 are of texts that nobody reviewed"
    for kept, unreviewed, expected in ((False, 7, hint), (True, 7, ""), (False, 0, "")):
        facts = before | {"keeps_unreviewed": kept}
        assert versioning._hints(before | {"unreviewed": unreviewed}, facts) == expected


@pytest.mark.slow
def test_texts_of_a_source_that_go_or_come_need_a_major_version(workspace, cli):
    """A forgotten `--with-text` made a patch version whose prompts and lists were all empty."""
    rows, labels = world.requests()
    ws = world.fill(workspace, [row | {"source": "hf:chats"} for row in rows], labels)
    assert cli("release", "1.0.0", "--with-text", "-C", ws.root).code == 0
    result = cli("release", "1.0.1", "-C", ws.root)
    assert result.code == 1 and "the texts of hf:chats and the lists made of them are gone since 1.0.0" in result.err
    assert "take 2.0.0 or higher, or give `--with-text` again: 1.0.0 has the texts of hf:chats" in result.err
    assert cli("release", "2.0.0", "-C", ws.root).code == 0
    result = cli("release", "2.0.1", "--with-text", "-C", ws.root)
    assert result.code == 1 and "the texts of hf:chats are in it since 2.0.0: take 3.0.0 or higher\n" in result.err
    assert "major: the texts of hf:chats and" in cli("diff", "1.0.0", "2.0.0", "-C", ws.root).out


@pytest.mark.slow
def test_a_new_trait_is_a_minor_change_and_one_that_is_gone_a_major_one(workspace, cli):
    """Each new trait is a new field of `constraints`, which counted as a column of another type."""
    embedded = traits.EMBEDDED.read_text()
    trait = tomllib.loads(embedded)["trait"][0]
    block = embedded.split("[[trait]]")[1].replace(trait["slug"], "clowns").replace(trait["name"], "Clowns")
    block = block.replace(trait["safecrs"], "Clowns")
    for name in ("topics", "core"):
        block = re.sub(rf"{name} = \[.*\]", f'{name} = ["Are there clowns"]', block)
    (workspace.root / "my-traits.toml").write_text(embedded)
    ws = world.configured(workspace, '# path = "my-traits.toml"', 'path = "my-traits.toml"')
    world.fill(ws, *world.requests())
    assert cli("release", "1.0.0", "-C", ws.root).code == 0
    (ws.root / "my-traits.toml").write_text(f"{embedded}\n[[trait]]{block}")
    result = cli("release", "1.0.1", "-C", ws.root)
    assert result.code == 1 and "take 1.1.0 or higher" in result.err
    result = cli("release", "1.1.0", "-C", ws.root)
    assert result.code == 0, result.err
    assert {"minor: the trait clowns is new", "minor: columns of safecrs have new fields"} <= {
        *manifest(ws, "1.1.0")["changes"]
    }
    (ws.root / "my-traits.toml").write_text(embedded)
    assert "take 2.0.0 or higher" in cli("release", "1.2.0", "-C", ws.root).err


def test_each_trait_that_means_something_else_is_named(tmp_path):
    """Of two edited definitions it named the first, as if the other still meant the same."""
    before, after = tmp_path / "before.toml", tmp_path / "after.toml"
    blocks = traits.EMBEDDED.read_text().split("[[trait]]")
    before.write_text("[[trait]]".join(blocks))
    edited = [re.sub(r'(?m)^definition = "', 'definition = "Also seen from afar: ', block) for block in blocks[1:3]]
    after.write_text("[[trait]]".join([blocks[0], *edited, *blocks[3:]]))
    first, second = (row["slug"] for row in tomllib.loads(before.read_text())["trait"][:2])
    facts = {"rule": {}, "name": "x", "k": 5, "silent": [], "sources": []}
    (change,) = versioning._meaning(facts, facts, before, after)
    assert change.what == f"the traits {first}, {second} mean something else (traits.toml)"
    after.write_text("[[trait]]".join([blocks[0], *blocks[3:]]))
    (change,) = versioning._meaning(facts, facts, before, after)
    assert change.what == f"the traits {first}, {second} are gone"


@pytest.mark.slow
def test_a_reviewer_who_changed_their_mind_is_a_patch_and_one_less_is_major(reviewed, cli):
    """A label could only be corrected in a major version as soon as its reviewer let the review be released."""
    (ws, first), (talk, *_), (row, *_) = (reviewed, "1.0.0"), *world.requests()
    review = world.review(talk, "ann", review="again", trait="gore", verdict="unsure", guideline="g1", seconds=3.0)
    store.append(ws, tables.REVIEWS, world.reviews(review))
    relabelled = row | {"label": "fix", "verdict": None, "method": "unresolved", "reviews": ["again", "bo-c000"]}
    store.append(ws, tables.LABELS, world.labels(relabelled))
    result = cli("release", "1.0.1", "-C", ws.root)
    assert result.code == 0, result.err
    assert "patch: rows of reviews changed" in manifest(ws, "1.0.1")["changes"]
    counts = cli("diff", first, "1.0.1", "-C", ws.root, "--json").json["rows"]["reviews"]
    assert counts == {"added": 0, "removed": 0, "changed": 1}
    world.configured(ws, 'consent = ["ann"]', "consent = []")
    result = cli("release", "1.1.0", "-C", ws.root)
    assert result.code == 1 and "40 rows of reviews are gone since 1.0.1: take 2.0.0" in result.err


@pytest.mark.slow
def test_injected_rows_that_are_gone_are_named_where_the_data_before_was_deleted(workspace, cli):
    """After `forget` 6,249 rows were missing because `--inject` was not given, without a message."""
    ws = world.fill(workspace, *world.requests())
    assert cli("release", "1.0.0", "--inject", "gore", "-C", ws.root).code == 0
    injected = manifest(ws, "1.0.0")["conditions"]["injected"]
    shutil.rmtree(ws.releases / "1.0.0" / "data")
    for version, options, count in (("2.0.0", ["--inject", "gore"], 0), ("3.0.0", [], 1)):
        assert cli("release", version, *options, "-C", ws.root).code == 0
        change = f"major: {injected:,} injected rows are gone: `--inject` was not given"
        assert injected and manifest(ws, version)["changes"].count(change) == count
        shutil.rmtree(ws.releases / version / "data")


@pytest.mark.slow
def test_a_release_is_not_compared_with_one_that_lacks_a_file(released, cli):
    """A missing table counted as empty, so that all 32 labels of train were new, and none could be missing."""
    label = world.requests()[1][0] | {"label": "fix", "verdict": "unsure"}
    store.append(released, tables.LABELS, world.labels(label))
    folder, away = released.releases / "1.0.0", released.root / "away"
    for name in ("data/labels/train.parquet", "traits.toml", "CHANGELOG.md", "SHA256SUMS"):
        (folder / name).rename(away)
        commands = [("release", "1.0.1", "-C", released.root)]
        commands += [("diff", folder, folder)] if name.endswith(("parquet", "toml")) else []
        for result in (cli(*command) for command in commands):
            assert result.code == 1 and f"{folder / name}: missing" in result.err and len(result.err.splitlines()) == 1
        away.rename(folder / name)
    assert cli("release", "1.0.1", "-C", released.root).code == 0

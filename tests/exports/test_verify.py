"""`publish --to` and `verify`: a copy is the whole release or nothing, and a changed file is named."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from exports import folder as files, verify as proof
from saferec_builder.core.errors import ReleaseError
from tests.worlds.release_rows import FILES
from tests.worlds.release_world import grow, reseal, seal, tree

# ---- verify


@pytest.fixture
def copy(released, tmp_path):
    return shutil.copytree(released.releases / "1.0.0", tmp_path / "copy")


def test_a_whole_release_verifies_anywhere_and_is_not_copied_over_itself(released, copy, cli):
    result = cli("verify", copy, "--json")
    assert (result.code, result.json["out"], result.json["added"]) == (0, FILES, 0)
    assert proof.copy(released.releases / "1.0.0", copy) == (0, FILES)


def test_inside_the_workspace_a_version_is_enough(released, cli, monkeypatch):
    monkeypatch.chdir(released.root)
    assert cli("verify", "1.0.0").code == 0 and cli("verify", "9.9.9").code == 1
    assert "withdrawn" not in cli("verify", "1.0.0", "--json").json
    assert cli("withdraw", "1.0.0", "--reason", "two rows are wrong").code == 0
    assert cli("verify", "1.0.0", "--json").json["withdrawn"] == "two rows are wrong"
    assert "releases: 1.0.0 (withdrawn: two rows are wrong)" in cli("status").out


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        (lambda path: path.unlink(), "data/sft/train.parquet"),
        (lambda path: path.write_bytes(b""), "data/sft/extra.parquet"),
        (lambda path: (path.unlink(), path.mkdir()), "traits.toml"),
    ],
    ids=["a file less", "a file more", "a folder in place"],
)
def test_the_bad_file_is_named(copy, cli, fault, name):
    fault(copy / name)
    result = cli("verify", copy)
    assert result.code == 1 and name in result.err and result.err.count("\n") == 1


def test_rows_and_columns_are_checked_too(copy, cli):
    other_copy = shutil.copytree(copy, copy.with_name("whole"))
    reseal(copy, "data/sft/train.parquet", lambda table: table.slice(1))
    assert "31 rows, manifest.json says 32" in cli("verify", copy).err
    reseal(other_copy, "data/labels/test.parquet", lambda table: table.drop_columns(["form"]))
    assert "data/labels/test.parquet: column form" in cli("verify", other_copy).err


def test_a_release_of_before_has_no_weights_nor_claims_and_verifies(copy, cli):
    folder, manifest = copy, copy / "manifest.json"
    for split in ("train", "validation", "test"):
        path = f"data/grpo/{split}.parquet"
        reseal(folder, path, lambda table: table.drop_columns(["weight", "claims"]))
        facts = json.loads(manifest.read_text())
        facts["row_digests"]["grpo"][split] = proof.row_digest(pq.ParquetFile(folder / path))
        manifest.write_text(json.dumps(facts))
        seal(folder, path)
    assert cli("verify", folder).code == 0


@pytest.mark.parametrize("content", ["", "{}", "[]", "null", '{"schema": 1, "name": 3}', "\x00"])
def test_a_broken_manifest_is_one_line(copy, content):
    (copy / "manifest.json").write_text(content)
    with pytest.raises(ReleaseError, match=r"manifest\.json: not a manifest"):
        proof.verify(copy)


@pytest.mark.parametrize(
    ("fact", "value"),
    [
        *(("agreement", None), ("withheld", 3), ("dropped", {"a": None}), ("plot", [])),
        *(("counts", {"../home": {"a": 0}}), ("official", {"gore": "\ud800"})),
    ],
)
def test_a_fact_of_another_type_is_one_line_for_whoever_reads_it(copy, fact, value):
    path = copy / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {fact: value}))
    with pytest.raises(ReleaseError, match=r"manifest\.json: not a manifest"):
        files.facts_of(copy)  # it ended in a traceback, for example in `diff` and `rebuild`


def test_a_path_out_of_the_release_is_refused(copy):
    with open(copy / "SHA256SUMS", "a") as file:
        file.write("0" * 64 + "  ../../secret\n")
    with pytest.raises(ReleaseError, match="inside the release"):
        proof.verify(copy)


def test_a_folder_that_is_no_release(tmp_path, cli):
    assert "is no release" in cli("verify", tmp_path).err
    assert "is no release" in cli("verify", tmp_path / "gone").err
    assert "NAMESPACE/NAME@1.0.0 of the Hub" in cli("verify", "ann/safe").err  # without a version


def test_where_there_is_no_release_nothing_can_be_withdrawn(workspace, cli):
    message = cli("withdraw", "1.0.0", "--reason", "x", "-C", workspace.root).err
    assert message.endswith("no release '1.0.0'; there are none\n"), message  # it ended with "there are "


# ---- copies


@pytest.mark.parametrize("lies_there", ["notes.txt", "a release with a note", "another dataset"])
def test_what_is_not_ours_is_not_overwritten(released, copy, lies_there):
    if lies_there == "notes.txt":
        shutil.rmtree(copy)
        copy.mkdir()
    if lies_there == "another dataset":
        manifest = json.loads((copy / "manifest.json").read_text())
        (copy / "manifest.json").write_text(json.dumps(manifest | {"name": "other"}))
        seal(copy, "README.md")
    else:
        (copy / "notes.txt").write_text("mine")
    content = tree(copy)
    with pytest.raises(ReleaseError, match="give (an empty or a new|another) folder"):
        proof.copy(released.releases / "1.0.0", copy)
    assert tree(copy) == content


def test_a_target_is_the_old_release_until_it_is_the_new_one(released, cli, tmp_path, monkeypatch):
    """After a kill at any call that moves a folder, `out` is a whole release."""
    cli("publish", "--to", tmp_path / "out", "-C", released.root)
    grow(released, cli, "1.1.0")
    matches = []

    def look(one, other):
        matches.append(tree(released.releases / "1.0.0") == tree(tmp_path / "out"))
        moved = exchange(one, other)
        matches.append(tree(released.releases / "1.1.0") == tree(tmp_path / "out"))
        return moved

    exchange = proof._exchange
    monkeypatch.setattr(proof, "_exchange", look)
    monkeypatch.setattr(proof.os, "replace", lambda *_: pytest.fail("a moment without a release"))
    proof.copy(released.releases / "1.1.0", tmp_path / "out")
    assert matches == [True, True] and [path.name for path in tmp_path.glob("*out*")] == ["out"]


def test_a_withdrawn_version_makes_place_for_one_before_it(released, cli, tmp_path):
    """Nobody could publish 1.0.0 again: the folder kept the version that had been withdrawn for a leak."""
    grow(released, cli, "1.1.0")
    out = tmp_path / "out"
    cli("publish", "1.1.0", "--to", out, "-C", released.root)
    assert cli("withdraw", "1.1.0", "--reason", "a leak", "-C", released.root).code == 0
    result = cli("publish", "1.0.0", "--to", out, "-C", released.root)
    assert result.code == 0 and tree(out) == tree(released.releases / "1.0.0"), result.err


def test_a_link_stays_one_to_the_folder_that_holds_the_release(released, cli, tmp_path):
    """The link was replaced by a folder, and its target stayed unchanged."""
    (tmp_path / "nas").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "nas")
    for version in ("1.0.0", "1.1.0"):
        if version == "1.1.0":
            grow(released, cli, version)
        assert cli("publish", version, "--to", tmp_path / "link", "-C", released.root).code == 0
        assert (tmp_path / "link").is_symlink()
        assert tree(tmp_path / "nas") == tree(released.releases / version)


@pytest.mark.slow
def test_where_folders_cannot_change_places_a_failed_move_is_undone(released, cli, tmp_path, monkeypatch):
    cli("publish", "--to", tmp_path / "out", "-C", released.root)
    grow(released, cli, "1.1.0")
    original = proof.os.replace

    def full(source, target):
        if target == tmp_path / "out" and source.name == "new":
            raise OSError(28, "No space left on device")
        original(source, target)

    monkeypatch.setattr(proof, "_exchange", lambda *_: False)
    monkeypatch.setattr(proof.os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        proof.copy(released.releases / "1.1.0", tmp_path / "out")
    assert tree(released.releases / "1.0.0") == tree(tmp_path / "out")


@pytest.mark.parametrize("words", [("publish", "1.0.0"), ("rebuild", "releases/1.0.0")])
def test_nothing_goes_into_a_file(released, cli, tmp_path, monkeypatch, words):
    monkeypatch.chdir(released.root)
    (tmp_path / "a file").write_text("x")
    result = cli(*words, "--to", tmp_path / "a file" / "out", "-C", released.root)
    assert result.code == 1 and "a file is a file, expected a folder" in result.err and result.err.count("\n") == 1


@pytest.mark.parametrize("name", [".", "..", "/", "a/.."])
def test_a_target_needs_a_name_of_its_own(name):
    with pytest.raises(ReleaseError, match="give the folder by its name"):
        proof.resolved(Path(name))

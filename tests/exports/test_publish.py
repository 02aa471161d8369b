"""`publish --to`: the target is the whole release or nothing."""

import json
import shutil

import pytest

from exports import folder as write, verify as proof
from tests.worlds.release_rows import FILES
from tests.worlds.release_world import grow, tree


def test_a_copy_is_the_release_and_a_second_run_adds_nothing(released, cli, tmp_path):
    first = cli("publish", "1.0.0", "--to", tmp_path / "a/out", "-C", released.root, "--json")
    assert (first.code, first.json["added"], first.json["skipped"]) == (0, FILES, 0)
    assert tree(released.releases / "1.0.0") == tree(tmp_path / "a/out")
    repeated = cli("publish", "--to", tmp_path / "a/out", "-C", released.root, "--json").json
    assert (repeated["added"], repeated["skipped"], repeated["in"]) == (0, FILES, FILES)
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["out"]


@pytest.mark.slow
def test_the_newest_version_is_by_number_not_by_letter(released, cli, tmp_path):
    for version in ("1.2.0", "1.10.0"):
        grow(released, cli, version)
    (tmp_path / "out").mkdir()  # an empty folder may become the release
    cli("publish", "--to", tmp_path / "out", "-C", released.root)
    assert write.facts_of(tmp_path / "out")["version"] == "1.10.0"
    missing = cli("publish", "3.0.0", "--to", tmp_path / "x", "-C", released.root)
    assert missing.code == 1 and "1.0.0, 1.2.0, 1.10.0" in missing.err


@pytest.mark.parametrize("lies_there", ["notes.txt", "a release with a note", "another dataset"])
def test_what_is_not_ours_is_not_overwritten(released, cli, tmp_path, lies_there):
    out = tmp_path / "out"
    if lies_there == "notes.txt":
        out.mkdir()
    else:
        shutil.copytree(released.releases / "1.0.0", out)
    if lies_there == "another dataset":
        name = json.loads((out / "manifest.json").read_text()) | {"name": "other"}
        (out / "manifest.json").write_text(json.dumps(name))
        sums = (out / "SHA256SUMS").read_text().splitlines()
        sums = [f"{write.sha256(out / 'manifest.json')}  manifest.json" if "manifest" in s else s for s in sums]
        (out / "SHA256SUMS").write_text("\n".join(sums) + "\n")
    else:
        (out / "notes.txt").write_text("mine")
    content = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    result = cli("publish", "--to", out, "-C", released.root)
    assert result.code == 1 and ("another folder" in result.err or "new folder" in result.err)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == content


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


def test_a_dry_run_refuses_what_the_run_does(released, cli, tmp_path):
    """It reported that all 27 files would replace a newer version, or somebody's thesis. And readers of a folder would
    have got the older rows without notice."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other/thesis.txt").write_text("x")
    out = tmp_path / "my copy"
    published = cli("publish", "--to", out, "-C", released.root)
    assert f"`saferec-build verify '{out}'`" in published.out
    args, dry = ("publish", "1.0.0", "-C", released.root), ("--dry-run", "--json")
    repeated = cli(*args, "--to", out, *dry).json
    assert (repeated["added"], repeated["skipped"]) == (0, FILES)
    fresh = cli(*args, "--to", tmp_path / "new", *dry).json
    assert (fresh["added"], (tmp_path / "new").exists()) == (FILES, False)
    grow(released, cli, "1.1.0")
    cli("publish", "1.1.0", "--to", out, "-C", released.root)
    for words in (dry, ()):
        result = cli(*args, "--to", tmp_path / "other", *words)
        assert result.code == 1 and "will not be overwritten" in result.err
        result = cli(*args, "--to", out, *words)
        assert result.code == 1 and "holds 1.1.0, which is newer than 1.0.0" in result.err
    assert tree(out) == tree(released.releases / "1.1.0")


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


@pytest.mark.parametrize("words", [("publish", "1.0.0"), ("rebuild", "releases/1.0.0", "--key", "x")])
@pytest.mark.parametrize("to", ["releases/1.1.0", "releases/1.0.0/out", "releases/2.0.0"])
def test_nothing_goes_into_the_releases_of_the_workspace(released, cli, monkeypatch, words, to):
    """One release was replaced by another, or contained a copy of itself and failed `verify`."""
    grow(released, cli, "1.1.0")
    monkeypatch.chdir(released.root)
    content = tree(released.releases)
    result = cli(*words, "--to", to, "-C", released.root)
    assert result.code == 1 and "stays as it was made: give another folder" in result.err
    assert tree(released.releases) == content


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


def test_where_to_must_be_said(released, cli):
    assert cli("publish", "-C", released.root).code == 2
    assert cli("publish", "--to", "x", "--hub", "-C", released.root).code == 2


@pytest.mark.parametrize("options", [("--repo", "ann/films"), ("--public",), ("--no-gate",)])
def test_options_of_the_hub_are_refused_for_a_folder(released, cli, tmp_path, options):
    result = cli("publish", "--to", tmp_path / "out", *options, "-C", released.root)
    assert result.code == 1 and options[0] in result.err and not (tmp_path / "out").exists()


def test_without_a_release_the_next_command_is_named(workspace, cli, tmp_path):
    result = cli("publish", "--to", tmp_path / "out", "-C", workspace.root)
    assert result.code == 1 and "saferec-build release 1.0.0" in result.err

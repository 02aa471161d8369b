"""`publish --to`: the target is the whole release or nothing."""

import json
from contextlib import nullcontext

import pytest

from exports import folder as write, publish as publishing, withdraw
from saferec_builder.core.errors import ReleaseError
from tests.worlds.release_rows import FILES
from tests.worlds.release_world import grow, tree


@pytest.mark.slow
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


def test_nothing_goes_into_the_releases_of_the_workspace(released, cli, monkeypatch):
    """One release was replaced by another, or contained a copy of itself and failed `verify`."""
    monkeypatch.chdir(released.root)
    content = tree(released.releases)
    for to in ("releases/1.0.0", "releases/1.0.0/out", "releases/2.0.0"):
        for words in (("publish", "1.0.0"), ("rebuild", "releases/1.0.0", "--key", "x")):
            result = cli(*words, "--to", to, "-C", released.root)
            assert result.code == 1 and "stays as it was made: give another folder" in result.err
    assert tree(released.releases) == content


def test_where_to_must_be_said(released, cli, tmp_path):
    for options in (("--repo", "ann/films"), ("--public",), ("--no-gate",)):  # of the Hub, for a folder
        result = cli("publish", "--to", tmp_path / "out", *options, "-C", released.root)
        assert result.code == 1 and options[0] in result.err and not (tmp_path / "out").exists()
    assert cli("publish", "-C", released.root).code == 2
    assert cli("publish", "--to", "x", "--hub", "-C", released.root).code == 2
    assert "which repository? Give --repo NAMESPACE/NAME" in cli("publish", "--hub", "-C", released.root).err


@pytest.mark.parametrize(
    ("held", "withdrawn", "remedy"),
    [
        (["1.0.0"], [], "publish 3.0.0,"),
        (["1.0.0", "3.0.0"], [], "publish 2.0.0,"),
        (["1.0.0", "2.0.0"], ["3.0.0"], "make 4.0.0 "),
        (["1.0.0", "2.0.0", "3.0.0"], [], "make 4.0.0 "),
        (["2.0.0"], [], ""),
    ],
)
def test_somebody_who_was_removed_since_is_in_no_version_that_it_names(workspace, monkeypatch, held, withdrawn, remedy):
    for version in ("0.9.0", "1.0.0", "2.0.0", "3.0.0"):
        (workspace.releases / version).mkdir(parents=True)
        (workspace.releases / version / write.MANIFEST).write_text(json.dumps({"version": version}))
    for version in withdrawn:
        withdraw.mark(workspace, version, "x")
    still_in = publishing.removals_since_release
    monkeypatch.setattr(still_in, "still_in", lambda ws, folder: ["b", "a"] if folder.name in held else [])
    expected = pytest.raises(ReleaseError, match=f"1.0.0 holds 2 conversations .* first b: {remedy}")
    with expected if remedy else nullcontext():
        publishing._refuse_removed(workspace, workspace.releases / "1.0.0")


def test_a_version_that_cannot_be_published_keeps_its_signature(released, monkeypatch):
    release = released.releases / "1.0.0"
    path, before = release / write.SIGNATURE, tree(release)
    monkeypatch.setattr(publishing.signing, "sign", lambda folder, key: path.write_bytes(b"new"))
    for old in (None, b"old"):
        if old:
            path.write_bytes(old)
        with pytest.raises(KeyError), publishing._signed(release, released.root):
            raise KeyError
        assert tree(release) == before | ({path.name: old} if old else {})
    with publishing._signed(release, None):
        assert path.read_bytes() == b"old"
    with publishing._signed(release, released.root):
        pass
    assert path.read_bytes() == b"new"
    (release / "traits.toml").write_text("x")
    with pytest.raises(ReleaseError, match="traits.toml"), publishing._signed(release, released.root):
        pytest.fail("a damaged release is not signed")

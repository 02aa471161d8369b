"""publish --to and verify: what arrives is the release, whole, or nothing; a changed byte is named."""

import json
import shutil

import pytest

from exports import folder as write, verify as proof
from saferec_builder.core.errors import ReleaseError
from saferec_builder.storage import tables, workspace as store
from tests.worlds import release_world as world
from tests.worlds.release_world import conversation, conversations, film, reseal

# sft, sft_raw, grpo, safecrs, conversations, labels in 3 splits; items; card, change log, taxonomy, croissant,
# provenance, manifest, checksums, plot
FILES = 6 * 3 + 1 + 8


@pytest.fixture
def ws(workspace, cli):
    world.fill(workspace, *world.requests())
    assert cli("release", "1.0.0", "-C", workspace.root).code == 0
    return workspace


def grow(ws, cli, version):
    """A later release with one more conversation."""
    more = conversation(f"new{version}", "Hi", f"Try {film('D')}", "ok", day=99)
    store.append(ws, tables.CONVERSATIONS, conversations(more))
    assert cli("release", version, "--unreviewed", "-C", ws.root).code == 0


def same(a, b):
    def held(folder):
        return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}

    return held(a) == held(b)


def test_a_copy_is_the_release_and_a_second_run_adds_nothing(ws, cli, tmp_path):
    first = cli("publish", "1.0.0", "--to", tmp_path / "a/out", "-C", ws.root, "--json")
    assert (first.code, first.json["added"], first.json["skipped"]) == (0, FILES, 0)
    assert same(ws.releases / "1.0.0", tmp_path / "a/out")
    again = cli("publish", "--to", tmp_path / "a/out", "-C", ws.root, "--json").json
    assert (again["added"], again["skipped"], again["in"]) == (0, FILES, FILES)
    assert [p.name for p in (tmp_path / "a").iterdir()] == ["out"]


def test_the_newest_version_is_by_number_not_by_letter(ws, cli, tmp_path):
    for version in ("1.2.0", "1.10.0"):
        grow(ws, cli, version)
    (tmp_path / "out").mkdir()  # an empty folder may become the release
    cli("publish", "--to", tmp_path / "out", "-C", ws.root)
    assert write.read_manifest(tmp_path / "out").version == "1.10.0"
    missing = cli("publish", "3.0.0", "--to", tmp_path / "x", "-C", ws.root)
    assert missing.code == 1 and "1.0.0, 1.2.0, 1.10.0" in missing.err


def test_an_older_release_of_the_same_dataset_is_replaced(ws, cli, tmp_path):
    cli("publish", "--to", tmp_path / "out", "-C", ws.root)
    grow(ws, cli, "1.1.0")
    assert cli("publish", "--to", tmp_path / "out", "-C", ws.root).code == 0
    assert same(ws.releases / "1.1.0", tmp_path / "out")


@pytest.mark.parametrize("lies_there", ["notes.txt", "a release with a note", "another dataset"])
def test_what_is_not_ours_is_not_overwritten(ws, cli, tmp_path, lies_there):
    out = tmp_path / "out"
    if lies_there == "notes.txt":
        out.mkdir()
    else:
        shutil.copytree(ws.releases / "1.0.0", out)
    if lies_there == "another dataset":
        name = json.loads((out / "manifest.json").read_text()) | {"name": "other"}
        (out / "manifest.json").write_text(json.dumps(name))
        sums = (out / "SHA256SUMS").read_text().splitlines()
        sums = [f"{write.sha256(out / 'manifest.json')}  manifest.json" if "manifest" in s else s for s in sums]
        (out / "SHA256SUMS").write_text("\n".join(sums) + "\n")
    else:
        (out / "notes.txt").write_text("mine")
    before = {p: p.read_bytes() for p in out.rglob("*") if p.is_file()}
    ran = cli("publish", "--to", out, "-C", ws.root)
    assert ran.code == 1 and ("another folder" in ran.err or "new folder" in ran.err)
    assert {p: p.read_bytes() for p in out.rglob("*") if p.is_file()} == before


def test_a_target_is_the_old_release_until_it_is_the_new_one(ws, cli, tmp_path, monkeypatch):
    """Killed at any call that moves a folder, `out` is a whole release."""
    cli("publish", "--to", tmp_path / "out", "-C", ws.root)
    grow(ws, cli, "1.1.0")
    seen = []

    def look(one, other):
        seen.append(same(ws.releases / "1.0.0", tmp_path / "out"))
        moved = exchange(one, other)
        seen.append(same(ws.releases / "1.1.0", tmp_path / "out"))
        return moved

    exchange = proof._exchange
    monkeypatch.setattr(proof, "_exchange", look)
    monkeypatch.setattr(proof.os, "replace", lambda *_: pytest.fail("a moment without a release"))
    proof.copy(ws.releases / "1.1.0", tmp_path / "out")
    assert seen == [True, True] and [p.name for p in tmp_path.glob("*out*")] == ["out"]


def test_where_folders_cannot_change_places_a_failed_move_is_undone(ws, cli, tmp_path, monkeypatch):
    cli("publish", "--to", tmp_path / "out", "-C", ws.root)
    grow(ws, cli, "1.1.0")
    real = proof.os.replace

    def full(source, target):
        if target == tmp_path / "out" and source.name == "new":
            raise OSError(28, "No space left on device")
        real(source, target)

    monkeypatch.setattr(proof, "_exchange", lambda *_: False)
    monkeypatch.setattr(proof.os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        proof.copy(ws.releases / "1.1.0", tmp_path / "out")
    assert same(ws.releases / "1.0.0", tmp_path / "out")


@pytest.mark.parametrize("words", [("publish", "1.0.0"), ("rebuild", "releases/1.0.0")])
def test_nothing_goes_into_a_file(ws, cli, tmp_path, monkeypatch, words):
    monkeypatch.chdir(ws.root)
    (tmp_path / "a file").write_text("x")
    ran = cli(*words, "--to", tmp_path / "a file" / "out", "-C", ws.root)
    assert ran.code == 1 and "a file is a file, expected a folder" in ran.err and ran.err.count("\n") == 1


def test_where_to_must_be_said(ws, cli):
    assert cli("publish", "-C", ws.root).code == 2
    assert cli("publish", "--to", "x", "--hub", "-C", ws.root).code == 2


def test_without_a_release_the_next_command_is_named(workspace, cli, tmp_path):
    ran = cli("publish", "--to", tmp_path / "out", "-C", workspace.root)
    assert ran.code == 1 and "saferec-build release 1.0.0" in ran.err


# ---- verify


@pytest.fixture
def copy(ws, tmp_path):
    return shutil.copytree(ws.releases / "1.0.0", tmp_path / "copy")


def test_a_whole_release_verifies_anywhere(copy, cli):
    ran = cli("verify", copy, "--json")
    assert (ran.code, ran.json["out"], ran.json["added"]) == (0, FILES, 0)


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


FAULTS = {
    "a changed byte": lambda f: flip(f / "data/grpo/test.parquet"),
    "a changed card": lambda f: flip(f / "README.md"),
    "a missing file": lambda f: (f / "data/sft/train.parquet").unlink(),
    "a file too many": lambda f: (f / "data/sft/extra.parquet").write_bytes(b""),
    "a link out": lambda f: ((f / "traits.toml").unlink(), (f / "traits.toml").symlink_to("/etc/hostname")),
    "a folder in place": lambda f: ((f / "traits.toml").unlink(), (f / "traits.toml").mkdir()),
}
NAMED = {
    "a changed byte": "data/grpo/test.parquet",
    "a changed card": "README.md",
    "a missing file": "data/sft/train.parquet",
    "a file too many": "data/sft/extra.parquet",
    "a link out": "traits.toml",
    "a folder in place": "traits.toml",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_bad_file_is_named(copy, cli, fault):
    FAULTS[fault](copy)
    ran = cli("verify", copy)
    assert ran.code == 1 and NAMED[fault] in ran.err and ran.err.count("\n") == 1


def test_rows_and_columns_are_checked_too(copy, cli):
    whole = shutil.copytree(copy, copy.with_name("whole"))
    reseal(copy, "data/sft/train.parquet", lambda table: table.slice(1))
    assert "31 rows, manifest.json says 32" in cli("verify", copy).err
    reseal(whole, "data/labels/test.parquet", lambda table: table.drop_columns(["form"]))
    assert "data/labels/test.parquet: column form" in cli("verify", whole).err


@pytest.mark.parametrize("content", ["", "{}", "[]", "null", '{"schema": 1, "name": 3}', "\x00"])
def test_a_broken_manifest_is_one_line(copy, content):
    (copy / "manifest.json").write_text(content)
    with pytest.raises(ReleaseError, match=r"manifest\.json: not a manifest"):
        proof.verify(copy)


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
    told = cli("withdraw", "1.0.0", "--reason", "x", "-C", workspace.root).err
    assert told.endswith("no release '1.0.0'; there are none\n"), told  # it ended with "there are "

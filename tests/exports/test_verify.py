"""`publish --to` and `verify`: a copy is the whole release or nothing, and a changed file is named."""

import json
import shutil

import pyarrow.parquet as pq
import pytest

from exports import folder as files, verify as proof
from saferec_builder.core.errors import ReleaseError
from tests.worlds.release_rows import FILES
from tests.worlds.release_world import reseal, seal

# ---- verify


@pytest.fixture
def copy(released, tmp_path):
    return shutil.copytree(released.releases / "1.0.0", tmp_path / "copy")


def test_a_whole_release_verifies_anywhere_and_is_not_copied_over_itself(released, copy, cli):
    result = cli("verify", copy, "--json")
    assert (result.code, result.json["out"], result.json["added"]) == (0, FILES, 0)
    assert proof.copy(released.releases / "1.0.0", copy) == (0, FILES)


def test_inside_the_workspace_a_version_is_enough(released, cli, monkeypatch):
    assert cli("verify", "1.0.0", "-C", released.root).code == 0
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

"""`publish --to` and `verify`: a copy is the whole release or nothing, and a changed file is named."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exports import folder as files, verify as proof
from exports.digests import RowDigest
from exports.release import Release
from saferec_builder.core.errors import ReleaseError, UsageError
from tests.worlds.release_rows import FILES
from tests.worlds.release_world import grow, reseal, seal, stated, tree

# ---- verify


@pytest.fixture
def copy(released, tmp_path):
    return shutil.copytree(released.releases / "1.0.0", tmp_path / "copy")


def test_inside_the_workspace_a_version_is_enough(released, cli, monkeypatch):
    assert cli("verify", "1.0.0", "-C", released.root).code == 0
    monkeypatch.chdir(released.root)
    assert cli("verify", "1.0.0").code == 0 and cli("verify", "9.9.9").code == 1
    assert "withdrawn" not in cli("verify", "1.0.0", "--json").json
    assert cli("withdraw", "1.0.0", "--reason", "two rows are wrong").code == 0
    assert cli("verify", "1.0.0", "--json").json["withdrawn"] == "two rows are wrong"
    assert "releases: 1.0.0 (withdrawn: two rows are wrong)" in cli("status").out


def test_a_broken_manifest_or_a_fact_of_another_type_is_one_line(copy):
    """It ended in a traceback, for example in `diff` and `rebuild`."""
    path = copy / "manifest.json"
    facts = {"agreement": None, "withheld": 3, "dropped": {"a": None}, "plot": []}
    facts |= {"counts": {"../home": {"a": 0}}, "official": {"gore": "\ud800"}}
    others = [json.dumps(json.loads(path.read_text()) | {name: value}) for name, value in facts.items()]
    for content in ("", "{}", "[]", "null", '{"schema": 1, "name": 3}', "\x00", *others):
        path.write_text(content)
        with pytest.raises(ReleaseError, match=r"manifest\.json: not a manifest"):
            files.facts_of(copy)


def test_a_folder_that_is_no_release(tmp_path, cli):
    assert "is no release" in cli("verify", tmp_path).err
    assert "is no release" in cli("verify", tmp_path / "gone").err
    assert "NAMESPACE/NAME@1.0.0 of the Hub" in cli("verify", "ann/safe").err  # without a version


TABLE = "data/sft/train.parquet"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (lambda copy: (copy / "data/sft/train.parquet").unlink(), r"sft/train.parquet: missing or not a plain file"),
        (lambda copy: (copy / "data/sft/x.parquet").touch(), r"data/sft/x.parquet: not part of the release"),
        (
            lambda copy: (copy / "traits.toml").unlink() or (copy / "traits.toml").mkdir(),
            r"traits.toml: missing or not",
        ),
        (lambda copy: reseal(copy, TABLE, lambda table: table.slice(1)), "31 rows, manifest.json says 32"),
        (lambda copy: reseal(copy, TABLE, lambda table: table.take([*range(32)][::-1])), f"{TABLE}: its rows are not"),
        (
            lambda copy: reseal(copy, TABLE, lambda table: table.drop_columns(["prompt"])),
            f"{TABLE}: column prompt is not",
        ),
        (lambda copy: (copy / "CHANGELOG.md").write_text("x"), r"CHANGELOG.md: sha256 is 2d711642b726…, expected "),
        (lambda copy: shutil.rmtree(copy / "data"), r"copy: its data is gone: where `saferec-build forget` deleted it"),
        (lambda copy: forgotten(copy, copy.parent), r"copy: `saferec-build forget` deleted its data, as it held someb"),
        (lambda copy: forgotten(copy, copy.parent / "releases"), r"copy: `saferec-build forget` deleted its data, as "),
        (lambda copy: sealed(copy, b"PAR1 x"), r"data/sft/test.parquet: not a parquet file: "),
        (lambda copy: renamed(copy, b"conve\xffsation"), r"data/sft/test.parquet: not a parquet file: 'utf-8' codec"),
        (lambda copy: repeated(copy, "x" * 50_000, 5_000), r"sft/test.parquet: it unpacks to far more than rows of a"),
        (
            lambda copy: stated(copy, counts={"odd": {"train": 1}}),
            r"train.parquet: this program does not know the conf",
        ),
        (lambda copy: stated(copy, counts={"sft": {"train": 0}}), r"sft/train.parquet: 32 rows, manifest.json says 0$"),
        (lambda copy: stated(copy, counts={"odd": {"train": 0}}), None),  # a split without rows has no file
    ],
)
def test_each_fault_of_a_file_has_its_own_message(copy, fault, message):
    fault(copy)
    if message is None:
        assert proof.verify(copy)[1] == FILES
    else:
        with pytest.raises(ReleaseError, match=f"^{copy.parent}/.*{message}"):
            proof.verify(copy)


def forgotten(copy, releases):
    shutil.rmtree(copy / "data")
    releases.mkdir(exist_ok=True)
    (releases / "withdrawn.json").write_text(json.dumps({"1.0.0": proof.FORGOTTEN}))


def sealed(copy, content):
    (copy / "data/sft/test.parquet").write_bytes(content)
    seal(copy, "data/sft/test.parquet")


def renamed(copy, name):
    """A column has a name that is no text: it ended in a traceback."""
    sealed(copy, (copy / "data/sft/test.parquet").read_bytes().replace(b"conversation", name))


def repeated(copy, value, rows):
    """One value, stored once, stands in each row: 250 MB in a file of a few kB were unpacked in one piece."""
    table = pq.read_table(path := copy / "data/sft/test.parquet")
    table = table.take([0] * rows).set_column(1, table.schema.field("domain"), pa.array([value] * rows))
    pq.write_table(table, path)
    counts = json.loads((copy / "manifest.json").read_text())["counts"]
    counts["sft"]["test"] = rows
    stated(copy, counts=counts)
    seal(copy, "data/sft/test.parquet")
    assert path.stat().st_size < 100_000


@pytest.mark.parametrize(("size", "rows", "batches"), [(50_000_000, 1, []), (4_000_000, 9, [2])])
def test_no_value_fills_the_memory_however_large_or_often_it_stands(tmp_path, monkeypatch, size, rows, batches):
    """One value of 50 MB in a file of 5 kB was unpacked, and so were a thousand rows at once that repeat one."""
    repeat = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["x" * size]))
    options = {"compression": "zstd", "store_schema": False, "dictionary_pagesize_limit": 1 << 30}
    pq.write_table(pa.table({"text": repeat}), tmp_path / "a.parquet", **options)
    sizes, read = [], pq.ParquetFile.iter_batches

    def reading(file, batch_size):
        sizes.append(batch_size)
        return read(file, batch_size)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", reading)
    monkeypatch.setattr(proof, "AT_ONCE", 10_000_000)
    assert proof._row_digest(pq.ParquetFile(tmp_path / "a.parquet"), 20_000_000) is None and sizes == batches


def test_a_list_of_equal_values_does_not_fill_the_memory(tmp_path, monkeypatch):
    """60 million zeros in one row, stored once in a file of 400 bytes, took 1.1 GB until they were refused."""
    column = pa.ListArray.from_arrays([0, 30_000], pa.array([0] * 30_000))
    pq.write_table(pa.table({"x": column}), tmp_path / "a.parquet", compression="zstd", store_schema=False)
    assert proof._row_digest(pq.ParquetFile(tmp_path / "a.parquet"), 300_000) is not None
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", None)  # refused before it is read
    assert proof._row_digest(pq.ParquetFile(tmp_path / "a.parquet"), 20_000) is None


@pytest.mark.slow
def test_what_was_made_elsewhere_is_verified_before_it_is_compared_or_attacked(copy, released, cli):
    repeated(copy, "x" * 50_000, 5_000)
    for words in (("diff", copy, "1.0.0"), ("linkage", copy, "--key", released.releases / "1.0.0.key.parquet")):
        result = cli(*words, "-C", released.root)
        assert result.code == 1 and "it unpacks to far more than rows of a release hold" in result.err
    own = Release.open(released.releases / "1.0.0")
    for before, after in ((own, copy), (Release.open(copy), own)):  # from Python, too: there nothing was verified
        with pytest.raises(ReleaseError, match="it unpacks to far more than rows of a release hold"):
            before.diff(after)


def test_a_release_of_an_older_program_may_lack_a_column(copy):
    """Releases whose items have no other names were no longer ones that `verify` takes."""
    path, digest = copy / (items := "data/items/catalog.parquet"), RowDigest()
    table = pq.read_table(path).drop_columns(["aliases"])
    digest.add(table)
    pq.write_table(table, path)
    digests = json.loads((copy / "manifest.json").read_text())["row_digests"]
    stated(copy, row_digests=digests | {"items": {"catalog": digest.hex()}})
    seal(copy, items)
    assert proof.verify(copy)[1] == FILES


def test_the_bounds_of_the_certificate_are_those_of_the_manifest(home):
    missed = json.loads((home / "manifest.json").read_text())["missed"]
    assert proof.verified(home).bounds
    for trait in missed:
        stated(home, missed={name: bound for name, bound in missed.items() if name != trait})
        with pytest.raises(ReleaseError, match=r"certificate.json: it states other bounds than manifest.json"):
            proof.verify(home)
    (home / "certificate.json").unlink()
    with pytest.raises(ReleaseError, match=r"certificate.json: missing or not a plain file: build or fetch"):
        proof.verify(home)


def test_what_is_verified_is_what_the_manifest_counts(copy):
    manifest, sums = json.loads((copy / "manifest.json").read_text()), files.sha256(copy / "SHA256SUMS")
    rows = sum(n for splits in manifest["counts"].values() for n in splits.values())
    (copy.parent / "text").write_text(f"a text with {manifest['canary']} in it")
    texts = [copy / "traits.toml", copy.parent / "text"]
    result = proof.verified(copy, digest=sums, contamination=texts)
    assert result == proof.Verified("ws", "1.0.0", rows, FILES, False, None, sums, "no", [str(texts[1])])
    (copy / "SHA256SUMS.sig").touch()
    result = proof.verified(copy)
    assert (result.canary_in, result.signed) == (None, "yes, not checked (--signer, --identity)")
    with pytest.raises(ReleaseError, match=f"sha256 is {sums}, expected {'0' * 64}: this is another release"):
        proof.verified(copy, digest="0" * 64)
    for half in ({"signers": copy}, {"identity": "ann"}):
        with pytest.raises(UsageError, match="--signer FILE and --identity WHO go together"):
            proof.verified(copy, **half)


# ---- copies


@pytest.mark.parametrize("lies_there", ["notes.txt", "a release with a note", "another dataset"])
def test_what_is_not_ours_is_not_overwritten(released, copy, lies_there):
    if lies_there == "notes.txt":
        shutil.rmtree(copy)
        copy.mkdir()
    if lies_there == "another dataset":
        stated(copy, name="other")
    else:
        (copy / "notes.txt").write_text("mine")
    content = tree(copy)
    with pytest.raises(ReleaseError, match="give (an empty or a new|another) folder"):
        proof.copy(released.releases / "1.0.0", copy)
    assert tree(copy) == content


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_withdrawn_version_makes_place_for_one_before_it(released, cli, tmp_path):
    """Nobody could publish 1.0.0 again: the folder kept the version that had been withdrawn for a leak."""
    grow(released, cli, "1.1.0")
    out = tmp_path / "out"
    cli("publish", "1.1.0", "--to", out, "-C", released.root)
    assert cli("withdraw", "1.1.0", "--reason", "a leak", "-C", released.root).code == 0
    result = cli("publish", "1.0.0", "--to", out, "-C", released.root)
    assert result.code == 0 and tree(out) == tree(released.releases / "1.0.0"), result.err


@pytest.mark.slow
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


def test_a_target_is_no_file_and_has_a_name_of_its_own(released, cli, tmp_path, monkeypatch):
    monkeypatch.chdir(released.root)
    (tmp_path / "a file").write_text("x")
    for words in (("publish", "1.0.0"), ("rebuild", "releases/1.0.0")):
        result = cli(*words, "--to", tmp_path / "a file" / "out", "-C", released.root)
        assert result.code == 1 and "a file is a file, expected a folder" in result.err and result.err.count("\n") == 1
    for name in (".", "..", "/", "a/.."):
        with pytest.raises(ReleaseError, match="give the folder by its name"):
            proof.resolved(Path(name))


@pytest.mark.slow
def test_a_copy_is_the_release_and_may_carry_a_newer_signature(released, tmp_path):
    folder, out = released.releases / "1.0.0", tmp_path / "a" / "out"
    assert proof.copy(folder, out, dry=True) == (FILES, 0) and not out.parent.exists()
    out.mkdir(parents=True)
    assert proof.copy(folder, out) == (FILES, 0) and tree(out) == tree(folder)
    (folder / "SHA256SUMS.sig").write_bytes(b"signed later")
    assert proof.copy(folder, out, dry=True) == (FILES + 1, 0) and tree(out) != tree(folder)
    assert proof.copy(folder, out) == (FILES + 1, 0) and tree(out) == tree(folder)
    assert proof.copy(folder, out) == (0, FILES + 1) and [path.name for path in out.parent.iterdir()] == ["out"]
    with pytest.raises(ReleaseError, match=f"{out}: lies in {tmp_path / 'a'}, where each release stays as it was"):
        proof.check_outside(out, tmp_path / "a")
    proof.check_outside(out, folder)

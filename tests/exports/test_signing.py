"""Forged releases against OpenSSH's own ssh-keygen: what a signature shows, and what only a pinned digest does."""

import shutil
import subprocess

import pyarrow as pa
import pytest

from exports import folder as write
from tests.worlds import release_world as world

TABLES = [f"data/{config}/train.parquet" for config in ("sft", "sft_raw", "grpo", "safecrs", "conversations", "labels")]
TEXTS = ["README.md", "CHANGELOG.md", "croissant.json", "provenance.json", "traits.toml"]


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """A folder with the keys of ann and of a stranger, and the file that says which key is ann's."""
    home = tmp_path_factory.mktemp("keys")
    for who in ("ann", "stranger"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", home / who], check=True)
    (home / "signers").write_text(f"ann@example.org {(home / 'ann.pub').read_text()}")
    return home


@pytest.fixture
def signed(released, cli, keys, tmp_path):
    """(the published folder, verify's words that ask for ann)."""
    ran = cli("publish", "--to", tmp_path / "out", "--sign", keys / "ann", "-C", released.root)
    assert ran.code == 0, ran.err
    return tmp_path / "out", ("--signer", keys / "signers", "--identity", "ann@example.org")


def test_who_signed_is_told_and_a_second_publish_adds_nothing(signed, released, cli, tmp_path):
    out, ann = signed
    ran = cli("verify", out, *ann, "--json")
    assert (ran.code, ran.json["signed"]) == (0, "by ann@example.org"), ran.err
    assert ran.json["digest"] == write.sha256(out / "SHA256SUMS")
    assert cli("verify", out, "--json").json["signed"].startswith("yes, not checked")
    assert cli("publish", "--to", out, "-C", released.root, "--json").json["added"] == 0
    (out / "SHA256SUMS.sig").unlink()
    assert cli("verify", out, "--json").json["signed"] == "no"
    assert "nobody signed this release" in cli("verify", out, *ann).err
    assert "go together" in cli("verify", out, "--identity", "ann").err


@pytest.mark.parametrize("path", [*TABLES, *TEXTS])
def test_a_forger_who_makes_every_checksum_fit_has_no_signature_that_fits(signed, cli, keys, path):
    out, ann = signed
    if path.endswith(".parquet"):
        world.reseal(out, path, lambda table: pa.concat_tables([table, table.slice(0, 1)]))
    else:
        (out / path).write_text((out / path).read_text() + "\n")
        world.seal(out, path)
    sums = out / "SHA256SUMS"  # the world's seal lists the signature too
    sums.write_text("".join(line for line in sums.read_text().splitlines(True) if not line.endswith(".sig\n")))
    assert cli("verify", out, *ann).code == 1
    (out / "SHA256SUMS.sig").unlink()
    words = ["ssh-keygen", "-q", "-Y", "sign", "-f", keys / "stranger", "-n", "saferec-release", sums]
    subprocess.run(words, check=True, capture_output=True)
    assert cli("verify", out, *ann).code == 1


@pytest.mark.parametrize("change", ["stranger", "namespace", "identity", "bytes"])
def test_a_signature_of_another_kind_is_none(signed, cli, keys, change):
    out, ann = signed
    if change in ("stranger", "namespace"):
        (out / "SHA256SUMS.sig").unlink()
        who, what = ("stranger", "saferec-release") if change == "stranger" else ("ann", "file")
        words = ["ssh-keygen", "-Y", "sign", "-f", keys / who, "-n", what, out / "SHA256SUMS"]
        subprocess.run(words, check=True, capture_output=True)
    elif change == "bytes":
        (out / "SHA256SUMS.sig").write_bytes(b"\xff" * 40)
    ann = (*ann[:3], "bo@example.org") if change == "identity" else ann
    ran = cli("verify", out, *ann)
    assert (ran.code, ran.err.count("\n")) == (1, 1) and "SHA256SUMS.sig: not signed by" in ran.err


def test_an_older_version_under_a_newer_name_is_seen_by_its_digest_only(signed, released, cli, keys, tmp_path):
    out, ann = signed
    digest = cli("verify", out, "--json").json["digest"]
    world.grow(released, cli)
    newer = tmp_path / "newer"
    assert cli("publish", "1.1.0", "--to", newer, "--sign", keys / "ann", "-C", released.root).code == 0
    pinned = write.sha256(newer / "SHA256SUMS")
    shutil.rmtree(newer)
    shutil.copytree(out, newer)
    assert cli("verify", newer, *ann).code == 0  # ann did sign it: listed as not caught without a digest
    assert "this is another release" in cli("verify", newer, *ann, "--digest", pinned).err
    assert cli("verify", newer, "--digest", digest.upper()).code == 0


def test_a_key_that_is_not_there_signs_nothing(released, cli, tmp_path):
    ran = cli("publish", "--to", tmp_path / "out", "--sign", tmp_path / "none", "-C", released.root)
    assert ran.code == 1 and "no such file" in ran.err and not (tmp_path / "out").exists()


def test_a_signing_that_fails_leaves_the_signature_that_is_there(signed, released, cli, keys, tmp_path):
    _, ann = signed
    (tmp_path / "odd").write_text("no key")
    ran = cli("publish", "--to", tmp_path / "new", "--sign", tmp_path / "odd", "-C", released.root)
    assert ran.code == 1 and "check the key and its passphrase" in ran.err
    assert cli("verify", released.releases / "1.0.0", *ann).code == 0

"""Every row of a release contains its canary, and `verify` finds the canary in other files."""

import gzip
import json
import re
import shutil

import polars as pl
import pytest

from exports import canary
from saferec_builder.core.errors import UsageError
from tests.worlds import release_world as world
from tests.worlds.release_rows import manifest


def test_every_row_and_every_description_has_it(released):
    """Labels, reviews and items had none, though they contain quotes and verdicts that may be passed on."""
    folder, guid = released.releases / "1.0.0", manifest(released)["canary"]
    for path in (folder / "data").glob("*/*.parquet"):
        table = pl.read_parquet(path, glob=False)
        assert table["canary"].unique().to_list() == [canary.sentence(guid)] * (table.height > 0), path
    for name in ("README.md", "croissant.json", "provenance.json"):
        assert canary.is_in(guid, folder / name), name


def test_it_stays_the_same_between_versions_and_differs_between_datasets(workspace):
    guid = canary.guid(workspace, "films")
    assert guid == canary.guid(workspace, "films") != canary.guid(workspace, "games")
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", guid)


def test_a_planted_canary_is_found_in_each_of_a_hundred_files(released, tmp_path, cli):
    folder, guid = released.releases / "1.0.0", manifest(released)["canary"]
    encodings = [
        lambda n: (b"x" * (canary._CHUNK - n)) + guid.encode() + b"\n more",  # also across the border of two chunks
        lambda n: json.dumps({"id": n, "text": f"1. Saw (2004)\n{canary.sentence(guid)}"}).encode(),
        lambda n: gzip.compress(b"a" * n + guid.upper().encode()),
        lambda n: f"{'é' * n} {guid}".encode("utf-16"),
        lambda n: b"\xff\xfe\x00" * n + guid.encode(),
    ]
    planted = [tmp_path / f"{n}.txt" for n in range(100)]
    for n, path in enumerate(planted):
        path.write_bytes(encodings[n % 5](n // 5 * 2))
    clean = tmp_path / "clean.jsonl"
    clean.write_text(guid[:-1] + "\n" + guid.replace("-", " "))
    args = [arg for path in (*planted, clean) for arg in ("--contamination", path)]
    summary = cli("verify", folder, *args, "--json").json
    assert summary["canary_in"] == [str(path) for path in planted]


@pytest.mark.slow
def test_what_cannot_be_searched_is_said_and_never_called_clean(released, tmp_path, cli):
    folder = shutil.copytree(released.releases / "1.0.0", tmp_path / "copy")
    result = cli("verify", folder, "--contamination", folder / "data/grpo/test.parquet")
    assert result.code == 1 and "packed (parquet), which nobody can search" in result.err
    for invalid in (None, "", "e"):  # "e" would be found everywhere
        world.stated(folder, canary=invalid)
        assert "it has no canary" in cli("verify", folder, "--contamination", folder / "README.md").err
    assert cli("verify", folder).code == 0


def test_a_missing_file_is_a_mistake(tmp_path):
    with pytest.raises(UsageError, match="no such file"):
        canary.is_in("a", tmp_path / "gone")

"""Sources of conversations and items: real files if they are there, and gzipped files."""

import gzip

import pytest

from saferec_builder.core.errors import SourceError
from saferec_builder.sources import items_csv
from saferec_builder.storage import tables, workspace as store


@pytest.mark.slow
def test_real_inspired_and_ccpe(cli, workspace, real_data):
    summary = cli("mine", "inspired", real_data / "inspired", "-C", workspace.root, "--json").json
    assert (summary["in"], summary["out"] + sum(summary["dropped"].values())) == (summary["in"], summary["in"])
    assert summary["added"] == 99 and set(summary["dropped"]) <= {"unknown speaker", "no id", "not a number"}
    summary = cli("mine", "ccpe", real_data / "ccpe", "-C", workspace.root, "--json").json
    assert (summary["in"], summary["added"], summary["dropped"]) == (502, 502, {})
    turns = store.read(workspace, tables.CONVERSATIONS).filter(source="ccpe")["turns"].list.len().sum()
    assert turns == 11_971  # every utterance is a turn


@pytest.mark.parametrize("cut", [False, True])
def test_a_gzipped_file_reads_as_the_plain_one_or_is_refused_whole(tmp_path, cut):
    plain = tmp_path / "items.csv"
    plain.write_text("domain;title;year\n" + "".join(f"film;Film {n};1999\n" for n in range(500)))
    packed = tmp_path / "items.csv.gz"
    content = gzip.compress(plain.read_bytes())
    packed.write_bytes(content[: len(content) // 2] if cut else content)
    if cut:
        with pytest.raises(SourceError, match="cut or no gzip file"):
            items_csv.read(packed)
    else:
        assert items_csv.read(packed).rows["title"].to_list() == items_csv.read(plain).rows["title"].to_list() != []

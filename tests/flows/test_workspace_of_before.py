"""A workspace that an earlier program filled (schema 1, before the packages moved) goes on as it is.

tests/data/workspace_schema_1.tar.xz: the demo's hand-written conversations and ten generated ones, reviewed by
simulated people through files and released as 1.0.0; everything in it is invented.
"""

import shutil
import tarfile
from pathlib import Path

import polars as pl
import pytest

from saferec_builder.storage import tables, workspace as store
from tests import DATA
from tests.worlds.settings import review_settings

ROWS = {"conversations": 271, "marks": 271, "catalog_rows": 397, "warnings": 18502, "proposals": 368, "readings": 668}
ROWS |= {"asked": 20, "drops": 13, "assignments": 937, "reviews": 2328, "labels": 5955}
RELATIVE = "relative to these reviewers"
OLD = DATA / "workspace_schema_1.tar.xz"


@pytest.fixture
def old(tmp_path: Path) -> store.Workspace:
    with tarfile.open(OLD) as packed:
        packed.extractall(tmp_path / "ws", filter="data")
    return store.Workspace.open(tmp_path / "ws")


def test_every_table_is_read(old: store.Workspace) -> None:
    rows = {name: store.read(old, table).height for name, table in tables.TABLES.items()}
    # as the program that made it counted them; tables that came later are empty
    assert {name: n for name, n in rows.items() if n} == ROWS


def test_it_goes_on_where_it_was(old: store.Workspace, cli) -> None:
    before = {name: store.read(old, table) for name, table in tables.TABLES.items()}
    at = ["-C", old.root]
    people = ["--reviewer", "ann", "--reviewer", "bo", "--adjudicator", "cy"]
    review_settings(old.root, audit=0)
    pushed = cli("review", "push", "--tool", "files", *people, "--all", *at, "--json").json
    assert pushed["added"] == 0
    pulled = cli("review", "pull", "--tool", "files", old.root / "review", *at, "--json").json
    assert (pulled["added"], pulled["dropped"]) == (0, {})
    judged = cli("adjudicate", *at, "--json").json
    assert judged["added"] == 0
    assert cli("verify", old.root / "releases" / "1.0.0").code == 0
    again = cli("release", "1.0.1", "--allow", "simulated", "--allow", "no-safety", *at, "--json")
    assert again.code == 0, again.out
    for name, frame in before.items():
        found = store.read(old, tables.TABLES[name])
        assert found.head(frame.height).equals(frame), name  # not a row changed
        assert found.height == frame.height or name in ("drops", "design"), name
    told = cli("diff", "1.0.0", "1.0.1", *at, "--json").json
    # the old program called a bound certified without blind controls: that word is all that changes in a label
    assert told["flips"] == {} and told["rows"].pop("labels") == {"added": 0, "removed": 0, "changed": 3096}
    assert all(not any(n.values()) for n in told["rows"].values())


def test_its_release_can_be_made_anew_byte_for_byte(old: store.Workspace, cli) -> None:
    home, kept = old.root / "releases" / "1.0.0", old.root / "kept"
    shutil.move(home, kept)
    ran = cli("release", "1.0.0", "--allow", "simulated", "--allow", "no-safety", "-C", old.root)
    assert ran.code == 0, ran.out
    for path in sorted((kept / "data").rglob("*.parquet")):
        new = home / path.relative_to(kept)
        if path.parent.name == "labels":  # a bound is called certified only where blind controls bear it out
            before = pl.read_parquet(path).with_columns(pl.col("certificate").str.replace("certified", RELATIVE))
            assert pl.read_parquet(new).equals(before)
        else:
            assert new.read_bytes() == path.read_bytes(), path.name

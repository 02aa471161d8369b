"""A table is read back as it was written, an append happens wholly or not at all, and damage is named."""

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from saferec_builder.core.errors import StoreError, UsageError
from saferec_builder.storage import tables, workspace as store
from saferec_builder.storage.workspace import make
from tests.conftest import Cli
from tests.worlds.any_rows import rows
from tests.worlds.settings import add_settings


@pytest.mark.parametrize("table", tables.TABLES.values(), ids=lambda t: t.name)
def test_what_goes_in_comes_out_once(either: store.Workspace, table: tables.Table) -> None:
    assert store.read(either, table).equals(table.empty)
    assert store.append(either, table, rows(table, 1, 2)) == 2
    nulls = (pl.lit(None, kind).alias(c) for c, kind in table.schema.items() if c not in table.key)
    third = rows(table, 3).with_columns(*nulls)
    assert store.append(either, table, pl.concat([rows(table, 2), third])) == 1  # row 2 is stored already
    assert store.read(either, table).equals(pl.concat([rows(table, 1, 2), third]))


@pytest.mark.parametrize("table", [tables.DROPS, tables.REVIEWS], ids=lambda t: t.place)
def test_of_two_rows_with_one_key_the_first_stays(either: store.Workspace, table: tables.Table) -> None:
    """Within one frame, against stored rows, and both at once; a later row changes nothing."""
    first, later = rows(table, 1, 2, 3), rows(table, 4, 5, 6)
    repeated = later.with_columns(first[c] for c in table.key)  # the keys of `first`, everything else as in `later`
    assert all((first[c] != repeated[c]).all() for c in table.columns if c not in table.key)
    # keys 1 2 1: two rows are added, the third has the key of the first and is not
    assert store.append(either, table, pl.concat([first[:2], repeated[:1]])) == 2
    assert store.read(either, table).equals(first[:2])
    # keys 2 3 3: 2 is stored, and of the two rows with 3 the first is added
    assert store.append(either, table, pl.concat([repeated[1:2], first[2:], repeated[2:]])) == 1
    assert store.read(either, table).equals(first)


def test_a_folder_may_have_any_name(tmp_path: Path) -> None:
    """`team?1` and `team?2` both used the database `team` beside them, and `50%25` had none."""
    for name in ("team?1", "team?2", "50%25", "[v2]#*"):
        make(tmp_path / name, demo=False)
        ws = store.Workspace.open(tmp_path / name)
        for table in (tables.LABELS, tables.PROPOSALS):
            assert store.append(ws, table, rows(table, 1)) == 1
            assert store.read(ws, table).height == 1
        assert (ws.root / "workspace.db").exists()


def test_the_secret_is_made_once_and_private(workspace: store.Workspace) -> None:
    reopened = store.Workspace.open(workspace.root)
    assert workspace.secret == reopened.secret and len(workspace.secret) == 32
    assert (workspace.root / ".secret").stat().st_mode & 0o777 == 0o600


@pytest.mark.slow
def test_processes_that_open_a_workspace_first_have_one_secret(workspace: store.Workspace) -> None:
    program = "import sys; from saferec_builder.storage import workspace as store; from pathlib import Path;"
    program += " print(store.Workspace.open(Path(sys.argv[1])).secret.hex())"
    command = [sys.executable, "-c", program, str(workspace.root)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert {process.communicate()[0].strip() for process in processes} == {workspace.secret.hex()}


@pytest.mark.parametrize("table", [tables.FORGOTTEN, tables.DESIGN, tables.CONVERSATIONS], ids=lambda table: table.name)
def test_a_secret_that_is_gone_is_not_made_anew_where_people_are_known_by_it(
    workspace: store.Workspace, cli: Cli, table: tables.Table
) -> None:
    """In a copy of the folder without dotfiles, erased people came back, and one person had two pseudonyms."""
    assert workspace.secret
    path = workspace.root / ".secret"
    path.unlink()
    assert store.Workspace.open(workspace.root).secret != workspace.secret  # no row depends on it
    path.unlink()
    store.append(workspace, table, rows(table, 1))
    (workspace.root / store.COMPARED).parent.mkdir(exist_ok=True)
    (workspace.root / store.COMPARED).write_text("{}")
    reopened = store.Workspace.open(workspace.root)
    with pytest.raises(StoreError, match=rf"\.secret: missing, and rows of {table.name} rest on it: put your copy"):
        _ = reopened.secret
    assert not path.exists()
    assert f".secret: missing, and rows of {table.name} rest on it" in cli("doctor", "-C", workspace.root).out
    path.write_bytes(workspace.secret)
    assert reopened.secret == workspace.secret


def test_a_secret_that_was_cut_is_never_used(workspace: store.Workspace) -> None:
    """With an empty secret, anybody could trace pseudonyms back to names."""
    (workspace.root / ".secret").write_bytes(workspace.secret[:7])
    with pytest.raises(StoreError, match="7 bytes, expected 32"):
        _ = store.Workspace.open(workspace.root).secret


def test_what_is_no_folder_is_told_in_a_sentence() -> None:
    for call in (store.Workspace.open, store.Workspace.create):
        with pytest.raises(UsageError, match="the folder is None: expected that of a workspace"):
            call(None)  # type: ignore[arg-type]


def test_no_workspace_is_made_inside_another(tmp_path: Path) -> None:
    """After `init my-dataset` was repeated inside `my-dataset`, everything went into the inner workspace."""
    outer = tmp_path / "my-dataset"
    store.make(outer, demo=False)
    with pytest.raises(UsageError, match="would lie inside the workspace") as fault:
        store.make(outer / "my-dataset", demo=False)
    assert f"saferec-build init {outer}`" in str(fault.value) and not (outer / "my-dataset").exists()
    assert store.make(outer, demo=False) is False


def test_no_workspace_is_made_in_a_release(tmp_path: Path) -> None:
    """A file more, and the release is no longer what its checksums say."""
    release = tmp_path / "got"
    release.mkdir()
    for name in ("SHA256SUMS", "manifest.json"):
        (release / name).touch()
    with pytest.raises(UsageError, match="it is a release: check it with `saferec-build verify "):
        store.Workspace.open(release)
    for folder in (release, release / "mine"):
        with pytest.raises(UsageError, match="would lie in the release .*, which never changes"):
            store.make(folder, demo=False)
    assert len([*release.iterdir()]) == 2


def test_a_taxonomy_that_cannot_be_read_is_said_before_any_work(workspace: store.Workspace, cli: Cli) -> None:
    """`catalog add` read and stored all of its files, and then ended with this error alone."""
    add_settings(workspace.root, "taxonomy", 'path = "my-traits.toml"')
    (workspace.root / "own.csv").write_text("domain,title,year\nfilm,Cold Harbour,2014\n")
    ran = cli("catalog", "add", "csv", workspace.root / "own.csv", "-C", workspace.root)
    assert (ran.code, ran.err) == (1, f"error: {workspace.root}/my-traits.toml: no such taxonomy file\n")
    assert not (workspace.root / "tables").exists()


def test_a_message_names_the_folder_also_where_it_is_the_current_one(
    workspace: store.Workspace, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It began with `.:`."""
    monkeypatch.chdir(workspace.root)
    for command in ("propose", "plan"):
        assert cli(command).err.startswith(f"error: {workspace.root}: no conversations yet: run `saferec-build mine")

"""Datasets of the Hub."""

import json
import tempfile
from datetime import UTC, datetime

import pytest

from saferec_builder.core.errors import UsageError
from saferec_builder.sources import hf
from saferec_builder.storage import tables, workspace as store
from tests.conftest import NOT_RUN
from tests.worlds.csv_rows import save
from tests.worlds.dialogues import said
from tests.worlds.source_lines import chat

NO_DATASETS = f"{NOT_RUN}datasets (the extra `hub`)"
CHAT = {"dialog": [{"from": "human", "value": "A calm film?"}, {"from": "gpt", "value": "Heat"}], "n": 7, "who": "ann"}


MAP = {"messages": "dialog", "id": "n", "user": "who"}


def test_hub_rows_with_a_column_map():
    odd = [CHAT | {"dialog": None}, CHAT | {"dialog": [{"from": "robot", "value": "x"}]}, CHAT | {"n": [1]}]
    result = hf.of_rows("hf:ns/chats", [CHAT, *odd], MAP)
    assert said(result.rows) == [[("seeker", "A calm film?", []), ("recommender", "Heat", [])]]
    row = result.rows.row(0, named=True)
    assert (row["source"], row["source_id"], row["seeker"], row["place"]) == ("hf:ns/chats", "7", "ann", "chats:1")
    assert result.drops["reason"].to_list() == ["wrong type"] * 3
    with pytest.raises(UsageError, match="expected OURS=THEIRS"):
        hf.columns(["dialog"])


def test_the_cells_of_a_csv_hold_their_lists_as_json(cli, workspace, tmp_path):
    """No CSV gave a conversation: its cells are text, and only lists were accepted."""
    pytest.importorskip("datasets", reason=NO_DATASETS)
    valid = {"id": "a", "messages": json.dumps(CHAT["dialog"]), "accepted": '["Heat (1995)"]'}
    # one user without a number made all others 7.0, and their conversations were dropped as `wrong type`
    users = ({"user": 7}, {"user": ""}, {"user": 8, "messages": "hello"})
    path = save(tmp_path / "chats.csv", [valid | user | {"id": n} for n, user in enumerate(users)])
    summary = cli("mine", "hf", path, "-C", workspace.root, "--json").json
    assert (summary["added"], summary["dropped"]) == (2, {"wrong type": 1})
    assert store.read(workspace, tables.CONVERSATIONS)["accepted"].to_list() == [["title:Heat (1995)"]] * 2
    assert hf.read(str(path), {}, "train").rows["seeker"].to_list() == ["7", None]
    long = hf.of_rows("hf:ns/chats", [CHAT | {"n": n} for n in (7.0, 7.5, 1e16)], MAP)  # the last has lost a digit
    assert (long.rows["source_id"].to_list(), long.drops["reason"].to_list()) == (["7"], ["wrong type"] * 2)


def test_typed_columns_of_the_hub_hold_times_and_things_that_nobody_asked_for():
    time = datetime(2024, 5, 1, 12, tzinfo=UTC)
    result = hf.of_rows("hf:ns/chats", [CHAT | {"time": time, "picture": b"\x89PNG"}], MAP)
    assert (result.rows["time"].to_list(), result.drops.height) == ([time], 0)


def test_a_local_dataset_through_the_command(cli, workspace, tmp_path):
    datasets = pytest.importorskip("datasets", reason=NO_DATASETS)
    datasets.Dataset.from_list([CHAT | {"n": n} for n in range(3)]).save_to_disk(tmp_path / "chats")
    options = [w for ours, theirs in MAP.items() for w in ("--column", f"{ours}={theirs}")]
    result = cli("mine", "hf", tmp_path / "chats", *options, "-C", workspace.root, "--json")
    assert result.code == 0, result.err
    assert (result.json["in"], result.json["added"]) == (3, 3)
    rows = store.read(workspace, tables.CONVERSATIONS)
    assert rows["source"].unique().to_list() == ["hf:chats"]  # no path of this machine
    wrong = cli("mine", "hf", tmp_path / "chats", "-C", workspace.root)
    assert wrong.code == 1 and "no column 'messages'" in wrong.err and "--column" in wrong.err
    slip = ("--column", "messages=dialog", "--column", "user=whom", "-C", workspace.root)  # all users were unnamed
    wrong = cli("mine", "hf", tmp_path / "chats", *slip)
    assert wrong.code == 1 and "no column 'whom', found dialog, n, who: " in wrong.err and "user=NAME" in wrong.err
    wrong = cli("mine", "messages", tmp_path / "chats", *slip)
    assert wrong.code == 1 and "--column and --split are for `mine hf`" in wrong.err


def split_of(folder, *talks):
    """Writes a file whose ids count from 0; user and assistant take turns."""
    folder.mkdir(exist_ok=True)
    (folder / "train.jsonl").write_text("\n".join(chat(n, *texts) for n, texts in enumerate(talks)))
    return folder / "train.jsonl"


def test_ids_of_another_split_replace_nothing(cli, workspace, tmp_path):
    """Ids that count from 0 in each split: the rows of one split silently replaced those of the other."""
    pytest.importorskip("datasets", reason=NO_DATASETS)

    def mined(name, *texts):
        return cli("mine", "hf", split_of(tmp_path / name, *([text] for text in texts)), "-C", workspace.root)

    assert mined("a", "A calm film?", "A loud one?").code == 0
    refused = mined("b", "Which comedy is good?", "Is there a western?")
    assert refused.code == 1 and "2 of 2 ids are known from hf:train.jsonl, with wholly other words" in refused.err
    assert "--column id=NAME" in refused.err and store.read(workspace, tables.CONVERSATIONS).height == 2
    together = cli("mine", "hf", tmp_path / "a/train.jsonl", tmp_path / "b/train.jsonl", "-C", workspace.root)
    assert together.code == 1 and "with wholly other words" in together.err  # also in a single command
    assert mined("a", "A calm film?", "A very loud one?").code == 0  # a changed row is a revision
    assert store.read(workspace, tables.CONVERSATIONS).height == 3


def test_of_two_files_of_one_name_each_has_its_own_drops(cli, workspace, tmp_path):
    """The drop of the second file was not in the table, and nobody was told that nothing of it was taken."""
    pytest.importorskip("datasets", reason=NO_DATASETS)

    def mined(**texts):
        for n, (name, text) in enumerate(texts.items()):
            (tmp_path / name).mkdir(exist_ok=True)
            chat = json.dumps([{"role": "user", "content": text}]) if text else "oops"
            rows = [{"id": 2 * n, "messages": "oops"}, {"id": 2 * n + 1, "messages": chat}]
            save(tmp_path / name / "x.csv", rows)
        return cli("mine", "hf", tmp_path / "a/x.csv", tmp_path / "b/x.csv", "-C", workspace.root)

    result = mined(a="A calm film?", b="")
    assert result.code == 1 and "nothing of b/hf:x.csv was taken" in result.err
    assert mined(a="A calm film?", b="Which comedy?").code == 0
    assert store.read(workspace, tables.DROPS)["place"].sort().to_list() == ["a/hf:x.csv:1", "b/hf:x.csv:1"]


def test_a_greeting_in_common_makes_no_revision_of_another_split(cli, workspace, tmp_path):
    """In two halves of a real file 16 % of the conversations shared a greeting, and all of them were replaced."""
    pytest.importorskip("datasets", reason=NO_DATASETS)
    for code, topics in enumerate((("calm", "loud"), ("western", "comedy"))):
        talks = [("Hi!", f"A {topic} film?", f"Have you seen a {topic} one?") for topic in topics]
        assert cli("mine", "hf", split_of(tmp_path / str(code), *talks), "-C", workspace.root).code == code


def test_a_file_that_is_no_dataset_is_one_line_and_no_name_on_the_hub(cli, workspace, tmp_path, monkeypatch):
    """`chats.txt` was searched on the Hub as a dataset called txt."""
    datasets = pytest.importorskip("datasets", reason=NO_DATASETS)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    for name, told in {
        "chats": "no kind of file",
        "chats.txt": "no kind of file",
        "chats.jsonl": "no rows in it",
    }.items():
        (tmp_path / name).write_text("")
        result = cli("mine", "hf", tmp_path / name, "-C", workspace.root)
        assert (result.code, told in result.err, result.err.count("\n")) == (1, True, 1), result.err


def test_the_folder_one_stands_in_and_one_of_several_shapes(cli, workspace, tmp_path, monkeypatch):
    """For `.` the library reported "dataset_name should be specified", for two shapes "An error occurred"."""
    datasets = pytest.importorskip("datasets", reason=NO_DATASETS)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    folder = tmp_path / "chats"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "a.jsonl").write_text('{"messages": [{"role": "user", "content": "A calm film?"}]}\n')
    assert cli("mine", "hf", ".", "-C", workspace.root).code == 0
    assert store.read(workspace, tables.CONVERSATIONS)["source"].to_list() == ["hf:chats"]
    (folder / "b.jsonl").write_text('{"other": 1}\n')
    run = cli("mine", "hf", folder, "-C", workspace.root)
    assert (run.code, run.err.count("\n")) == (1, 1) and "of several shapes, some with messages, others with" in run.err


def test_the_card_of_a_folder_reads_no_file_beside_it_and_nothing_raw_stays(cli, workspace, tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets", reason=NO_DATASETS)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    cache = tmp_path / "cache"
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(cache))
    (tmp_path / "tmp").mkdir()
    line = json.dumps({"messages": [{"role": "user", "content": "canary-4711"}], "id": "a"}) + "\n"
    (tmp_path / "secret.jsonl").write_text(line)
    folder = tmp_path / "chats"
    (folder / "sub").mkdir(parents=True)
    (folder / "data.jsonl").write_text(line)
    command = ("mine", "hf", folder, "-C", workspace.root)
    assert cli(*command).code == 0
    files = [path for place in (cache, tmp_path / "tmp") for path in place.rglob("*") if path.is_file()]
    assert not [path for path in files if b"canary-4711" in path.read_bytes()]
    for target in ("../secret.jsonl", "sub/../../secret.jsonl", tmp_path / "secret.jsonl"):
        (folder / "README.md").write_text(f"---\nconfigs:\n- config_name: default\n  data_files: {target}\n---\n")
        result = cli(*command)
        assert (result.code, result.err.count("\n"), "which is not in it" in result.err) == (1, 1, True), result.err

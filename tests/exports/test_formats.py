"""The tables have the columns that trainers expect, and `datasets` loads them."""

import json
import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exports import formats as rows, verify as proof
from exports.folder import facts_of
from saferec_builder.core import taxonomy as traits
from saferec_builder.core.errors import ReleaseError
from saferec_builder.storage import tables, workspace as store
from tests.worlds import once, release_world as world
from tests.worlds.release_rows import rows_of
from tests.worlds.release_world import conversation, film, item


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    ws = world.fill(store.Workspace.create(tmp_path_factory.mktemp("formats") / "ws"), *world.requests())
    other = {"source": "csv", "source_id": "other", "domain": "film", "title": "Film B", "year": 2002, "plot": None}
    other |= {"refs": [], "aliases": ["Le Film (1998)"], "genres": []}
    store.append(ws, tables.CATALOG_ROWS, tables.CATALOG_ROWS.frame([other]))
    flag = {"label": "f", "kind": "item_flag", "subject": item("C"), "trait": "gore", "digest": "x"}
    flag |= {"verdict": "present", "method": "agreed", "simulated": False, "spans": [], "reviews": []}
    store.append(ws, tables.LABELS, world.labels(flag | {"form": None}))
    return once.released(ws) / "releases" / "1.0.0"


READ = """
import json, sys
from datasets import get_dataset_config_names, load_dataset
folder = sys.argv[1]
for name in get_dataset_config_names(folder):
    data = load_dataset(folder, name)
    print(json.dumps({"config": name, "splits": {s: d.to_list() for s, d in data.items()},
                      "features": str(next(iter(data.values())).features)}))
"""


def read(folder, home):
    """config -> its rows per split and its features, as load_dataset returns them in a separate process."""
    env = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(home / "hf")}
    result = subprocess.run([sys.executable, "-c", READ, folder], env=env, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    return {row["config"]: row for row in map(json.loads, result.stdout.splitlines())}


@pytest.mark.slow
def test_datasets_reads_every_config_offline(released, tmp_path):
    configs = read(released, tmp_path)
    assert set(configs) == set(rows.CONFIGS) - {"reviews"}  # no reviewer consented to their release
    manifest = json.loads((released / "manifest.json").read_text())
    counts = {c: splits for c, splits in manifest["counts"].items() if c != "reviews"}
    assert {c: {s: len(r) for s, r in row["splits"].items()} for c, row in configs.items()} == counts
    assert not any("Large" in row["features"] or "large" in row["features"] for row in configs.values())

    sft, raw, grpo = (configs[c]["splits"]["train"] for c in ("sft", "sft_raw", "grpo"))
    assert [r["conversation"] for r in sft] == [r["conversation"] for r in raw] == [r["conversation"] for r in grpo]
    assert [r["prompt"] for r in sft] == [r["prompt"] for r in grpo]
    own_words = next(r for r in grpo if r["condition"] == "own_words")
    assert (own_words["traits"], own_words["form"], own_words["k"]) == (["gore"], ["implicit"], 10)
    items = {r["item"]: r for r in configs["items"]["splits"]["catalog"]}
    assert [items[item(letter)]["aliases"] for letter in "AB"] == [[], ["Le Film (1998)"]]
    unsafe = {i for i, r in items.items() if "gore" not in r["clear"]}
    assert unsafe == {item(letter) for letter in "ABCL"} and "gore" in items[item("A")]["violated"]
    # item A: gore is answered yes, so its risk is 1; nobody asked about needles
    assert dict(zip(items[item("A")]["risk_traits"], items[item("A")]["risk_values"], strict=True))["gore"] == 1.0
    assert "needles" not in items[item("A")]["risk_traits"]
    safe_rows = [r for r, g in zip(sft, grpo, strict=True) if g["traits"]]
    assert safe_rows and not any(set(r["items"]) & unsafe for r in safe_rows)
    label = next(r for r in configs["labels"]["splits"]["train"] if r["verdict"] == "present")
    text = next(r for r in configs["conversations"]["splits"]["train"] if r["conversation"] == label["conversation"])
    span = label["spans"][0]
    assert text["turns"][span["turn"]]["text"][span["start"] : span["end"]] == span["quote"]
    assert configs["item_labels"]["splits"]["catalog"][0]["verdict"] == "present"


@pytest.mark.slow
def test_pseudonyms_of_the_workspace_do_not_leave_it(released):
    seekers = pq.read_table(released / "data/conversations/train.parquet")["seeker"].to_pylist()
    assert len(set(seekers)) == 32 and not {f"p{n}" for n in range(40)} & set(seekers)


@pytest.mark.slow
def test_a_request_without_an_answer_is_in_grpo_only(workspace, cli, tmp_path):
    rows, said = world.requests()
    rows.append(conversation("open", "Hi", "Hello", "A comedy?", day=99))  # a test request that names no item
    ws = world.configured(workspace, "[release]", '[release]\nmin_seekers = 2\ntruth = "any"')
    world.fill(ws, [row | {"source": "hf:chats"} for row in rows], said)
    assert cli("release", "1.0.0", "--unreviewed", "-C", ws.root).code == 0
    assert dict(rows_of(ws, "grpo")["truth_kind"].value_counts().iter_rows()) == {"accepted": 40, "none": 1}
    # an empty list as the answer to learn would teach silence
    assert [rows_of(ws, config).height for config in ("sft", "sft_raw", "safecrs")] == [40, 40, 40]
    folder, mine = ws.releases / "1.0.0", tmp_path / "mine"
    rebuilt = cli("rebuild", folder, "--to", mine, "--key", f"{folder}.key.parquet", "-C", ws.root)
    assert (rebuilt.code, facts_of(mine)["counts"]["sft"]) == (0, facts_of(folder)["counts"]["sft"]), rebuilt.err
    assert (
        facts_of(folder)["short_of_clear"] == facts_of(mine)["short_of_clear"] == 0
    )  # it is not for want of a clear item


def test_files_are_written_for_reading_and_for_sending_again(released):
    file = pq.ParquetFile(released / "data/sft/train.parquet")
    column = file.metadata.row_group(0).column(0)
    assert column.compression == "ZSTD" and column.has_offset_index and column.has_column_index
    ids = pq.read_table(released / "data/sft/train.parquet")["conversation"].to_pylist()
    ws = store.Workspace.open(released.parent.parent)
    assert ids == world.released(ws, *(f"c{n:03d}" for n in range(32)))  # one a day


@pytest.mark.slow
def test_two_traits_may_share_an_official_key(workspace, cli):
    """In a taxonomy with finer traits than the official one, a person with either trait has the key."""
    template = "[[trait]]\nslug = '{}'\nname = '{}'\ndefinition = 'x'\ntopics = ['x']\nsafecrs = 'Anti-gore'\n"
    (workspace.root / "mine.toml").write_text(template.format("gore", "Blood") + template.format("wounds", "Wounds"))
    ws = world.configured(workspace, '# path = "my-traits.toml"', 'path = "mine.toml"')
    requests, labels = world.requests()
    # 20 people have gore; c000, c004, ..., c036 have wounds: 20 + 10 of 40
    wounds = [world.label(row, "wounds", quote="what next") for row in requests[::4]]
    world.fill(ws, requests, labels + wounds)
    result = cli("release", "1.0.0", "--unreviewed", "--allow", "no-safety", "-C", ws.root)  # no warnings of "x"
    assert result.code == 0, result.err
    has_trait = {name: bool(traits) for name, traits in rows_of(ws, "grpo").select("conversation", "traits").rows()}
    constraints = dict(rows_of(ws, "safecrs").select("conversation", "constraints").iter_rows())
    assert sum(has_trait.values()) == 30
    assert all(constraints[c] == {"Anti-gore": has_trait[c] or None} for c in constraints)


def test_what_a_corrected_label_may_change_stands_last():
    """Between constant columns, each would cause a new upload of the chunks (64 kB) of its neighbours."""
    moves = {"completion", "items", "refilled", "condition", "safe_truth", "traits", "late_traits", "form", "weight"}
    moves |= {"groundtruth_with_release_year", "constraints"}
    for config in ("sft", "sft_raw", "grpo", "safecrs"):
        names = rows.schemas({"gore": "gore"})[config].names
        flags = [name in moves for name in names]
        assert flags == sorted(flags) and flags[-1], config
        if "completion" in names:  # adjacent bytes, the same in three configs
            assert names.index("completion") == names.index("prompt") + 1, config


def test_a_release_with_another_order_of_columns_is_proven_too(tmp_path):
    """Releases of earlier versions have `condition` before the prompt; a column of another type is a fault."""
    schema = rows.schemas()["item_labels"]
    table = pa.table({name: pa.array([None], schema.field(name).type) for name in schema.names[::-1]})
    (tmp_path / "a").mkdir()
    pq.write_table(table, tmp_path / "a/b.parquet")
    proof._check_table(tmp_path, "a/b.parquet", 1, schema, None)
    for damaged in (table.drop(["trait"]), table.append_column("more", pa.array(["x"]))):
        pq.write_table(damaged, tmp_path / "a/b.parquet")
        with pytest.raises(ReleaseError, match="column (trait|more) is not of the schema"):
            proof._check_table(tmp_path, "a/b.parquet", 1, schema, None)


def test_no_trait_is_named_in_a_prompt(released):
    prompts = rows_of(store.Workspace.open(released.parent.parent), "grpo")["prompt"].explode()
    texts = [prompt["content"].lower() for prompt in prompts]
    assert len(texts) == 40
    assert not [t for t in texts for trait in traits.load().traits if trait.slug in t or trait.name.lower() in t]


@pytest.mark.slow
def test_a_release_with_empty_splits_loads(workspace, cli, tmp_path):
    talk = conversation("c", "Hi", f"Try {film('D')}", "ok")
    world.fill(workspace, [talk], [world.label(talk, verdict="absent")])
    summary = cli("release", "1.0.0", "--allow", "no-safety", "-C", workspace.root, "--json").json
    assert (summary["in"], summary["out"]) == (1, 1)
    configs = read(workspace.releases / "1.0.0", tmp_path)
    # `datasets` cannot load a split without rows: an empty split has no file and no entry in the card, but a count of 0
    assert {s: len(r) for s, r in configs["sft"]["splits"].items()} == {"train": 1} and "item_labels" not in configs
    manifest = json.loads((workspace.releases / "1.0.0/manifest.json").read_text())
    assert manifest["counts"]["sft"] == {"train": 1, "validation": 0, "test": 0}
    assert cli("verify", workspace.releases / "1.0.0").code == 0

"""`rebuild`: somebody who mined the source puts the texts back into a release without texts."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from exports import folder as write, hub as stage
from saferec_builder.storage import tables, workspace as store
from tests.worlds import release_world as world
from tests.worlds.hub_world import REPO
from tests.worlds.once import command, copied, released
from tests.worlds.release_rows import reviewed
from training import data


def chats():
    rows, labels = world.requests()
    domains = [None, "game", "film", "film"] * 10
    return [row | {"source": "hf:chats", "domain": domain} for row, domain in zip(rows, domains, strict=True)], labels


@pytest.fixture(scope="session")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rebuild")
    ws = world.fill(store.Workspace.create(folder / "ws"), *chats())
    world.for_few(ws)
    command("propose", "-C", ws.root)
    released(ws, "--inject", "gore,needles", "--with-text")
    (ws.releases / "1.0.0").rename(folder / "full")
    released(ws, "--inject", "gore,needles")
    return folder


@pytest.fixture
def silent(both: Path, workspace: store.Workspace, tmp_path: Path) -> tuple[store.Workspace, Path, Path]:
    """(workspace, folder of a release without texts, folder of the same release with texts)."""
    full = shutil.copytree(both / "full", tmp_path / "full")
    ws = copied(both / "ws", workspace)
    return ws, ws.releases / "1.0.0", full


@pytest.fixture
def other(cli, tmp_path):
    """Somebody else's workspace."""
    assert cli("init", tmp_path / "other").code == 0
    return store.Workspace.open(tmp_path / "other")


def key(ws):
    return "--key", ws.releases / "1.0.0.key.parquet"


def prompts(folder, config, split="train"):
    return [row["prompt"] for row in pq.read_table(folder / f"data/{config}/{split}.parquet").to_pylist()]


def injected(folder):
    rows = [row for path in folder.glob("data/grpo/*.parquet") for row in pq.read_table(path).to_pylist()]
    return [row for row in rows if row["condition"] == "injected"]


def claims(folder):
    return [row["claims"] for row in pq.read_table(folder / "data/grpo/train.parquet").to_pylist()]


def named(folder):
    """Every title and item that the rows of conversations name."""
    lists = {"sft": ["completion", "items"], "sft_raw": ["completion", "items"]}
    lists |= {"grpo": ["truth", "safe_truth", "seen"], "conversations": ["recommended", "accepted", "seen"]}
    lists |= {"safecrs": ["completion", "seen_titles", "groundtruth_with_release_year"]}
    tables_ = [(lists.get(path.parent.name, ()), pq.read_table(path)) for path in folder.glob("data/*/*.parquet")]
    values = [value for columns, table in tables_ for column in columns for value in table[column].to_pylist()]
    return [name for value in values for name in value if not isinstance(name, dict) or name["content"]]


@pytest.mark.slow
def test_what_was_mined_elsewhere_puts_every_text_back(silent, cli, tmp_path):
    ws, bare, full = silent
    assert not any(prompts(bare, "sft")) and not any(claims(bare))  # claims would help to find the text
    assert any(claims(full))
    assert not named(bare) and len(named(full)) > 100
    assert "the days, the domains," in (bare / "README.md").read_text()  # its readers see empty columns
    rebuilt = tmp_path / "mine"
    rebuilt.mkdir()  # an empty folder is a valid target, as with `publish`
    result = cli("rebuild", bare, "--to", rebuilt, *key(ws), "-C", ws.root, "--json")
    assert (result.code, result.json["in"], result.json["added"], result.json["dropped"]) == (0, 40, 40, {}), result.err
    actual, expected = (write.facts_of(folder)["row_digests"] for folder in (rebuilt, full))
    assert actual == expected  # every row of every config, the injected sentences too
    turns = [pq.read_table(folder / "data/conversations/train.parquet")["turns"] for folder in (rebuilt, full)]
    assert turns[0].to_pylist() == turns[1].to_pylist()
    assert cli("verify", rebuilt).code == 0
    training = [
        [data.open_release(folder).oracle.codes.tolist(), *(data.rows(folder, c, "test") for c in ("sft", "grpo"))]
        for folder in (rebuilt, full)
    ]
    assert training[0] == training[1] and training[0][2]
    assert "Do not pass this folder on" in (rebuilt / "README.md").read_text()


@pytest.mark.slow
def test_a_release_with_reviews_keeps_its_certificate(workspace, cli, tmp_path):
    """Every rebuilt release with reviews failed `verify`."""
    reviewed(workspace, *chats())
    assert cli("release", "1.0.0", "-C", workspace.root).code == 0
    bare, rebuilt = workspace.releases / "1.0.0", tmp_path / "mine"
    assert cli("rebuild", bare, "--to", rebuilt, *key(workspace), "-C", workspace.root).code == 0
    assert (rebuilt / "certificate.json").read_bytes() == (bare / "certificate.json").read_bytes()
    result = cli("verify", rebuilt)
    assert result.code == 0, result.err


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Use 'content=<...>':DeprecationWarning")
def test_a_release_is_put_back_as_downloaded_and_by_its_name_on_the_hub(silent, hub, cli, tmp_path):
    """The files that the Hub's client adds to a release were refused as `not part of the release`."""
    ws, _, _ = silent
    assert cli("publish", "1.0.0", "--hub", "--repo", REPO, "-C", ws.root).code == 0
    download = tmp_path / "copy"
    stage.client().snapshot_download(REPO, repo_type="dataset", revision="v1.0.0", local_dir=download)
    assert (download / ".cache").exists()
    for source, rebuilt in ((download, tmp_path / "one"), (f"{REPO}@1.0.0", tmp_path / "two")):
        result = cli("rebuild", source, "--to", rebuilt, *key(ws), "-C", ws.root)
        assert result.code == 0 and cli("verify", rebuilt).code == 0, result.err
        assert (rebuilt / ".cache").exists() is False


@pytest.mark.slow
def test_how_many_requests_and_messages_there_are_is_not_told_of_a_text_that_stays(workspace, cli, tmp_path):
    """200 conversations could be matched by day, number of requests and their kinds, 142 of them correctly."""
    rows, labels = chats()
    # nobody had asked when the first film was named, so it is no request: the further one is number 2
    turns = ("", f"Try {world.film('D')}", "More like it?", f"Then {world.film('E')}", "And?", world.film("F"), "ok")
    rows[0] = world.conversation("c000", *turns, day=0, seeker="p0", source="hf:chats")
    labels[0] = world.label(rows[0], verdict="absent")
    ws = world.fill(workspace, rows, labels)
    world.for_few(ws)
    assert cli("propose", "-C", ws.root).code == 0
    world.configured(ws, "[release]", '[release]\nrequests = "turn"\ndisclosed = "both"')
    args = ("release", "1.0.0", "--inject", "gore,needles", "-C", ws.root)
    assert cli(*args, "--with-text").code == 0
    full = (ws.releases / "1.0.0").rename(tmp_path / "full")
    assert cli(*args).code == 0
    grpo = pl.read_parquet(full / "data/grpo/train.parquet")
    (name,) = world.released(ws, "c000")
    derived = grpo.filter(made_from=name)
    requests = derived.select("request", "condition", "disclosed").rows()
    assert requests == [(name, "none", None), (name, "injected", "last")]
    assert [len(prompt) for prompt in derived["prompt"]] == [4, 4]
    result = cli("rebuild", ws.releases / "1.0.0", "--to", tmp_path / "mine", *key(ws), "-C", ws.root)
    assert result.code == 0, result.err
    actual, expected = (write.facts_of(folder)["row_digests"] for folder in (tmp_path / "mine", full))
    assert actual == expected


@pytest.mark.slow
def test_a_text_that_is_not_the_one_that_was_judged_stays_out(silent, other, cli, tmp_path):
    ws, bare, full = silent
    rows, _ = chats()
    changed = rows[1] | {"digest": "another"}
    store.append(other, tables.CONVERSATIONS, world.conversations(changed, *rows[2:]))  # the first was never mined
    result = cli("rebuild", bare, "--to", tmp_path / "mine", *key(ws), "-C", other.root, "--json")
    assert result.json["dropped"] == {"not mined here": 1, "mined with another text": 1} and result.json["out"] == 38
    assert "mined beside another catalog" in result.json["next"]
    manifest = write.facts_of(tmp_path / "mine")
    assert manifest["conditions"] == {"own_words": 19, "none": 19, "injected": len(injected(tmp_path / "mine"))}
    assert len(injected(tmp_path / "mine")) < len(injected(full)) == write.facts_of(full)["conditions"]["injected"]
    card = (tmp_path / "mine/README.md").read_text()
    assert r"| text not put back\: mined with another text | 1 | `conversations`, without a row to learn from |" in card
    # no row to learn from has an empty prompt: 32 train requests, two of them lost (with the rows made from them)
    assert all(prompts(tmp_path / "mine", "sft"))
    assert len(prompts(full, "sft_raw")) - len(prompts(tmp_path / "mine", "sft_raw")) in (2, 3)
    labels = pq.read_table(tmp_path / "mine/data/labels/train.parquet")
    assert labels.num_rows == 32  # their labels stay


@pytest.mark.slow
def test_who_asked_to_be_removed_before_the_source_was_mined_gets_nothing_back(silent, other, cli, tmp_path):
    """They are not mined here at all, yet the key file put back their day, digest and evidence spans."""
    ws, bare, _ = silent
    rows, _ = chats()
    store.append(other, tables.CONVERSATIONS, world.conversations(*rows[:1], *rows[2:]))
    result = cli("rebuild", bare, "--to", tmp_path / "mine", *key(ws), "-C", other.root, "--json")
    assert result.json["dropped"] == {"not mined here": 1}
    (released_id,) = world.released(ws, "c001")
    conversation = pl.read_parquet(tmp_path / "mine/data/conversations/*.parquet").filter(conversation=released_id)
    assert conversation.select("digest", "cut", "seeker", "time").row(0) == (None, None, None, None)
    labels = pl.read_parquet(tmp_path / "mine/data/labels/*.parquet").filter(conversation=released_id)
    assert labels.height and not labels["spans"].list.len().sum()


@pytest.mark.slow
def test_a_withdrawn_release_is_not_put_back(silent, cli, tmp_path):
    ws, bare, _ = silent
    assert cli("withdraw", "1.0.0", "--reason", "somebody asked", "-C", ws.root).code == 0
    args = ("rebuild", bare, "--to", tmp_path / "mine", *key(ws), "-C", ws.root)
    assert "withdrawn: somebody asked: put another version back" in cli(*args).err
    (ws.releases / "withdrawn.json").write_text('{"1.0.0": ""}')  # an older program accepted an empty reason
    assert cli(*args).code == 1 and not (tmp_path / "mine").exists()
    assert "release 1.0.0 was withdrawn" in cli("report", "-C", ws.root).err


def test_nothing_is_put_into_the_release_that_it_comes_from(silent, cli, tmp_path):
    """A download contained the rebuilt release afterwards, and failed `verify`."""
    ws, bare, full = silent
    result = cli("rebuild", full, "--to", tmp_path / "mine", "-C", ws.root)  # with its texts
    assert result.code == 1 and "nothing to put back" in result.err and not (tmp_path / "mine").exists()
    download = shutil.copytree(bare, tmp_path / "download")
    result = cli("rebuild", download, "--to", download / "mine", *key(ws), "-C", ws.root)
    assert result.code == 1 and "stays as it was made: give another folder" in result.err
    assert cli("verify", download).code == 0


@pytest.mark.slow
def test_a_text_that_somebody_asked_to_remove_stays_out_though_it_was_mined_before(silent, cli, tmp_path):
    ws, bare, _ = silent
    removed = chats()[0][1]  # a conversation with evidence
    (ws.root / "removals.csv").write_text(f"source,source_id,author\n{removed['source']},{removed['source_id']},\n")
    result = cli("rebuild", bare, "--to", tmp_path / "mine", *key(ws), "-C", ws.root, "--json")
    assert (result.code, result.json["out"], result.json["dropped"]) == (0, 39, {"removed on request": 1}), result.err
    gone, folders = ws.released_id(removed["conversation"]), (tmp_path / "mine", bare)
    for config in ("conversations", "labels"):
        after, before = (pl.read_parquet(folder / f"data/{config}/*.parquet") for folder in folders)
        rows = after.filter(conversation=gone)  # without what would find the text
        assert rows.height == 1 and rows.equals(before.filter(conversation=gone))
        if config == "conversations":
            assert after.filter(pl.col("turns").list.len() == 0).equals(rows)
    assert cli("verify", tmp_path / "mine").code == 0


@pytest.mark.slow
def test_where_nothing_of_it_was_mined_nothing_is_made(silent, other, cli, tmp_path):
    ws, bare, _ = silent
    for rows in ([], [world.conversation("someone else's", "Hi", "Hello")]):
        store.append(other, tables.CONVERSATIONS, world.conversations(*rows))
        result = cli("rebuild", bare, "--to", tmp_path / "mine", *key(ws), "-C", other.root)
        assert result.code == 1 and not (tmp_path / "mine").exists()
        assert "not mined here: 40" in result.err and "mine the same files of hf:chats" in result.err


@pytest.mark.parametrize("other", ["1.0.1", "others 1.0.0"])
def test_the_key_of_another_version_or_dataset_is_refused(silent, cli, tmp_path, other):
    """Each of them has the ids of the same conversations, or none of these ids."""
    ws, bare, _ = silent
    table = pq.read_table(key(ws)[1])
    other = other if " " in other else f"{ws.config.dataset.name} {other}"
    pq.write_table(table.replace_schema_metadata({"release": other}), tmp_path / "other.parquet")
    result = cli("rebuild", bare, "--to", tmp_path / "mine", "--key", tmp_path / "other.parquet", "-C", ws.root)
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert f"the key file of {other}, expected that of {ws.config.dataset.name} 1.0.0" in result.err
    result = cli("rebuild", bare, "--to", tmp_path / "mine", "-C", ws.root)
    assert result.code == 1 and "it is put back by its key file" in result.err and not (tmp_path / "mine").exists()


def with_evidence_at(key, name):
    """The key file with a turn, or an end, that no text has, or without any place."""
    span = pl.element().struct.with_fields(pl.lit(9_999, pl.Int32).alias(name)) if name else pl.lit(None)
    return key.with_columns(
        pl.col("labels").list.eval(
            pl.element().struct.with_fields(spans=pl.element().struct.field("spans").list.eval(span))
        )
    )


FALSE_KEYS = {
    "a conversation comes twice": lambda key: key.with_columns(subject=pl.lit(key["subject"][0])),  # one text for all
    "where the text has none (turn 9999, ": lambda key: with_evidence_at(key, "turn"),
    " to 9999): fetch both again": lambda key: with_evidence_at(key, "end"),
    "where the text has none (turn -1, -1 to -1)": lambda key: with_evidence_at(key, None),
    "the item no item, which the release lacks": lambda key: key.with_columns(accepted=pl.lit(["no item"])),
    "the item None, which the release lacks": lambda key: key.with_columns(accepted=pl.lit([None], pl.List(pl.String))),
}


@pytest.mark.parametrize("fault", FALSE_KEYS)
def test_a_false_key_file_is_one_line(silent, cli, tmp_path, fault):
    ws, bare, _ = silent
    false = FALSE_KEYS[fault](pl.read_parquet(key(ws)[1]))
    pq.write_table(false.to_arrow(compat_level=pl.CompatLevel.oldest()), tmp_path / "false.parquet")
    result = cli("rebuild", bare, "--to", tmp_path / "mine", "--key", tmp_path / "false.parquet", "-C", ws.root)
    assert (result.code, result.err.count("\n")) == (1, 1) and fault in result.err, result.err
    assert not (tmp_path / "mine").exists()


@pytest.mark.slow
@pytest.mark.parametrize("fact", ["rule", "labels", "makers"])
def test_a_manifest_of_which_no_card_can_be_made_is_one_line(silent, cli, tmp_path, fact):
    ws, bare, _ = silent
    world.stated(bare, **{fact: {}})
    result = cli("rebuild", bare, "--to", tmp_path / "mine", *key(ws), "-C", ws.root)
    assert (result.code, result.err.count("\n")) == (1, 1) and "manifest.json: no card can be" in result.err, result.err


@pytest.mark.slow
def test_what_was_mined_since_goes_into_another_folder(silent, other, cli, tmp_path):
    ws, bare, _ = silent
    for batch in (chats()[0][:20], chats()[0][20:]):
        store.append(other, tables.CONVERSATIONS, world.conversations(*batch))
        result = cli("rebuild", bare, "--to", tmp_path / "mine", *key(ws), "-C", other.root)
    assert result.code == 1 and result.err.endswith("never changed: give --to another folder\n")
    facts, disclosed = write.facts_of(tmp_path / "mine"), [row["traits"] for row in injected(tmp_path / "mine")]
    assert facts["safety_rows"] == {}  # those of the whole release are not all here
    # its card counted the rows of the whole release; nothing is clear for needles
    assert facts["injected_unclear"] == {"needles": sum("needles" in traits for traits in disclosed)}
    assert facts["short_of_clear"] == sum(facts["counts"]["grpo"].values()) - sum(facts["counts"]["sft"].values())
    assert cli("rebuild", bare, "--to", tmp_path / "all", *key(ws), "-C", other.root, "--json").json["out"] == 40


@pytest.mark.training
def test_what_was_rebuilt_trains_and_evaluates_as_the_release_with_texts_does(silent, cli, tmp_path):
    ws, bare, full = silent
    target = tmp_path / "mine"
    assert cli("rebuild", bare, "--to", target, *key(ws), "-C", ws.root).code == 0
    overrides = "both.max_steps=2 both.warmup_steps=0 gdpo.max_steps=1 gdpo.per_device_train_batch_size=8".split()
    options = [word for override in overrides for word in ("--set", override)]
    for release, output in ((target, tmp_path / "rebuilt"), (full, tmp_path / "whole")):
        args = ["run", "--release", release, "--model", "tiny", "--output", output, *options]
        result = subprocess.run([sys.executable, "-m", "training.safecrs", *args], capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
    rebuilt, whole = (
        json.loads((tmp_path / name / "report.json").read_text())["runs"] for name in ("rebuilt", "whole")
    )
    assert [run["name"] for run in rebuilt][:3] == ["sft", "safe_sft", "safe_gdpo"]
    assert [run["metrics"] for run in rebuilt] == [run["metrics"] for run in whole] and rebuilt[0]["n"] > 0

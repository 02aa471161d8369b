"""`publish --hub` against a local Hub server, with the real clients: one commit and one tag, or nothing."""

import json
import os
import shutil
import subprocess
import sys
import tracemalloc

import huggingface_hub.constants
import pytest

from exports import hub as stage
from tests.servers.hub import READER, WRITER
from tests.servers.hub_repo import Blob, Fault
from tests.worlds import release_world as world
from tests.worlds.hub_world import REPO, held
from tests.worlds.release_rows import FILES
from tests.worlds.release_world import grow, tree

# huggingface_hub itself uploads in a way that its HTTP client calls deprecated
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=<...>':DeprecationWarning")


@pytest.fixture
def publish(released, cli):
    return lambda *words: cli("publish", *words, "--hub", "--repo", REPO, "-C", released.root, "--json")


def holds(hub, ws, version):
    """Whether the tag's commit holds the release's bytes, and nothing else but the Hub's own file."""
    return held(hub.repos[REPO], f"v{version}") == tree(ws.releases / version)


@pytest.mark.slow
def test_a_release_is_one_commit_and_a_tag_on_it(hub, released, publish):
    result = publish()
    assert result.code == 0, result.err
    repo = hub.repos[REPO]
    assert (result.json["added"], result.json["skipped"], result.json["deleted_there"]) == (FILES, 0, 0)
    assert repo.private and [c.title for c in repo.commits] == ["initial commit", "Release 1.0.0"]
    assert repo.tags == {"v1.0.0": repo.commits[-1].oid} and result.json["commit"] == repo.commits[-1].oid
    assert holds(hub, released, "1.0.0")
    repeated = publish().json
    assert (repeated["added"], repeated["skipped"]) == (0, FILES) and len(repo.commits) == 2


@pytest.mark.slow
def test_a_signature_goes_with_its_version_and_is_not_added_to_a_tag(hub, released, publish, tmp_path):
    """An ECDSA signature of the same bytes differs each time: that does not count as other content. One that came too
    late stayed in the release, so that publishing without a signature was refused, too."""
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", key], check=True)
    assert publish().code == 0
    late_result = publish("--sign", key)
    assert late_result.code == 1 and "v1.0.0 of ann/safe is there without a signature, and a tag" in late_result.err
    assert publish().code == 0
    hub.repos.clear()
    for added in (FILES + 1, 0):
        result = publish("--sign", key)
        assert (result.code, result.json["added"]) == (0, added), result.err


@pytest.mark.slow
def test_an_older_version_under_a_newer_tag_is_refused(hub, publish, cli):
    """Its checksums and its signature are right, so that it was verified, and rebuilt, as the version asked for."""
    assert publish().code == 0
    hub.repos[REPO].tags["v1.1.0"] = hub.repos[REPO].tags["v1.0.0"]
    result = cli("verify", f"{REPO}@1.1.0")
    assert result.code == 1 and "ann/safe@1.1.0: the tag holds 1.0.0, as somebody moved it" in result.err


@pytest.mark.slow
def test_the_next_version_takes_stale_files_away_in_its_commit(hub, released, cli, publish):
    publish()
    repo = hub.repos[REPO]
    tree = {**repo.commits[-1].tree, "data/sft/train-00000-of-00001.parquet": Blob(b"old", True)}
    repo.add("by hand", "", tree)
    grow(released, cli)
    summary = publish().json
    assert summary["deleted_there"] == 1 and [c.title for c in repo.commits][-1] == "Release 1.1.0"
    assert len(repo.commits) == 4 and holds(hub, released, "1.1.0") and holds(hub, released, "1.0.0")
    # the bytes of labels, catalog and taxonomy did not change: they are not sent again
    assert 0 < summary["added"] < FILES and summary["added"] + summary["skipped"] == FILES


@pytest.mark.slow
def test_main_does_not_go_back_to_an_older_version(hub, released, cli, publish):
    """Loading the data set without a version gives `main`: an older version there would be a silent downgrade."""
    grow(released, cli)
    assert publish().code == 0  # 1.1.0
    repo = hub.repos[REPO]
    repo.tags |= {"v9": repo.tags["v1.1.0"], "latest": repo.tags["v1.1.0"]}  # tags of other kinds are no versions
    result = publish("1.0.0")
    assert result.code == 1 and f"{REPO}: holds 1.1.0, which is newer than 1.0.0" in result.err
    assert len(repo.commits) == 2 and "v1.0.0" not in repo.tags
    # a withdrawn version on the Hub does not count as newer
    withdrawn = {**repo.commits[-1].tree, "WITHDRAWN.json": Blob(b'{"1.1.0": "a leak"}', False)}
    repo.add("withdraw", "", withdrawn)
    assert publish("1.0.0").code == 0 and "v1.0.0" in repo.tags


@pytest.mark.slow
def test_large_files_go_one_after_the_other_in_parts_and_still_in_one_commit(hub, released, publish, monkeypatch):
    hub.part_size = 1000
    monkeypatch.setattr("exports.hub.LARGE", 2000)
    large = [p for p in (released.releases / "1.0.0").rglob("*.parquet") if p.stat().st_size >= 2000]
    assert publish().code == 0 and holds(hub, released, "1.0.0")
    assert [c.title for c in hub.repos[REPO].commits] == ["initial commit", "Release 1.0.0"]
    assert len([line for line in hub.seen if line.endswith("/objects/batch")]) >= len(large) > 1
    assert [line for line in hub.seen if line.startswith("POST /complete/")] and not hub.parts


READ = """
import json, sys
from datasets import get_dataset_config_names, load_dataset
for name in get_dataset_config_names(sys.argv[1], revision=sys.argv[2]):
    data = load_dataset(sys.argv[1], name, revision=sys.argv[2])
    local = load_dataset(sys.argv[3], name)
    print(json.dumps([name, {s: d.to_list() for s, d in data.items()} == {s: d.to_list() for s, d in local.items()}]))
"""


@pytest.mark.slow
def test_what_the_hubs_own_client_downloads_is_verified_as_it_lies_there(hub, publish, cli, tmp_path):
    assert publish("1.0.0").code == 0
    copy = tmp_path / "copy"
    stage.client().snapshot_download(REPO, repo_type="dataset", revision="v1.0.0", local_dir=copy)
    assert (copy / ".cache").is_dir() and (copy / ".gitattributes").is_file()
    result = cli("verify", copy, "--json")
    assert (result.code, result.json["skipped"]) == (0, FILES)
    (copy / "data" / ".cache").write_text("x")  # the client's own .cache is only at the top
    assert "not part of the release" in cli("verify", copy).err
    # without a folder the client makes links into its cache: a second download would not help
    cached = stage.client().snapshot_download(REPO, repo_type="dataset", revision="v1.0.0", cache_dir=tmp_path / "hub")
    result = cli("verify", cached)
    assert result.code == 1 and "a link, not a plain file: verify NAMESPACE/NAME@VERSION" in result.err
    shutil.copytree(cached, tmp_path / "real")
    assert cli("verify", tmp_path / "real").code == 0


@pytest.mark.slow
def test_datasets_reads_each_tag_as_its_release(hub, released, cli, publish, tmp_path):
    publish()
    grow(released, cli)
    publish()
    for version in ("1.0.0", "1.1.0"):
        env = os.environ | {"HF_HOME": str(tmp_path / version)}
        command = [sys.executable, "-c", READ, REPO, f"v{version}", str(released.releases / version)]
        result = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
        assert result.returncode == 0, result.stderr
        assert len(result.stdout.splitlines()) == 7
        assert all(equal for _, equal in map(json.loads, result.stdout.splitlines()))


# ---- what the Hub may answer


def test_a_token_that_does_not_do_or_none_at_all(hub, publish, monkeypatch, tmp_path):
    for token, said in (("hf_nobody", "hf auth login"), (READER, "may not write")):
        monkeypatch.setenv("HF_TOKEN", token)
        result = publish()
        assert result.code == 1 and said in result.err and token not in result.err + result.out
        assert not hub.repos
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr(huggingface_hub.constants, "HF_TOKEN_PATH", str(tmp_path / "none"))
    assert "HF_TOKEN" in publish().err


@pytest.mark.slow
def test_a_public_repository_needs_the_word(hub, released, cli, publish):
    assert publish("--public").code == 0
    assert not hub.repos[REPO].private
    grow(released, cli)
    for words in (["--dry-run"], []):
        result = publish(*words)
        assert result.code == 1 and "--public" in result.err and len(hub.repos[REPO].commits) == 2
    assert publish("--public").code == 0


@pytest.mark.parametrize(("step", "status"), [("/commit/", 500), ("/commit/", 504), ("/commit/", None), ("/tag/", 500)])
def test_a_step_whose_reply_was_lost_is_found(hub, released, publish, step, status):
    hub.faults.append(Fault("POST", step, status, after=True))
    result = publish()
    assert result.code == 0, result.err
    assert len(hub.repos[REPO].commits) == 2 and holds(hub, released, "1.0.0")


@pytest.mark.slow
def test_what_failed_is_one_line_and_is_done_by_the_next_run(hub, released, publish):
    hub.faults.append(Fault("POST", "/api/repos/create", 403))
    assert publish().code == 1 and not hub.repos
    hub.faults.append(Fault("PUT", "/large/", 400, times=99))
    result = publish()
    assert result.code == 1 and "nothing was published" in result.err.splitlines()[-1]
    hub.faults.clear()
    assert publish().code == 0 and holds(hub, released, "1.0.0")


@pytest.fixture
def sending(monkeypatch):
    """sending(before, after) runs these two around our commit on the Hub; `after` gets the commit's id."""
    original = stage._commit

    def around(before=lambda: None, after=lambda oid: None):
        def wrapper(*words, **named):
            before()
            oid = original(*words, **named)
            after(oid)
            return oid

        monkeypatch.setattr(stage, "_commit", wrapper)

    return around


def test_somebody_who_pushes_meanwhile_is_not_overwritten(hub, publish, sending):
    notes = {"NOTES": Blob(b"x", False)}
    sending(before=lambda: hub.repos[REPO].add("theirs", "", hub.repos[REPO].commits[-1].tree | notes))
    result = publish()
    assert result.code == 1 and "meanwhile" in result.err and hub.repos[REPO].tags == {}
    assert hub.repos[REPO].commits[-1].title == "theirs"


def test_a_tag_that_holds_something_else_stays(hub, released, publish):
    publish()
    repo = hub.repos[REPO]
    foreign_commit = repo.add("by hand", "", {".gitattributes": Blob(b"", False)})
    repo.tags["v1.0.0"] = foreign_commit.oid
    result = publish()
    assert result.code == 1 and "higher version" in result.err and repo.tags == {"v1.0.0": foreign_commit.oid}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["other", None])
def test_a_repository_that_holds_something_else_keeps_it(hub, publish, name):
    """All files of another dataset were deleted from main; a folder with something else was refused."""
    publish()
    repo = hub.repos[REPO]
    files = {"manifest.json": Blob(json.dumps({"name": name}).encode(), False)} if name else {"a.zip": Blob(b"x", True)}
    held = repo.add("by hand", "", files)
    repo.tags.clear()
    repo.gated = False
    for words in ((), ("--dry-run",)):
        result = publish(*words)
        assert result.code == 1 and f"holds {'the dataset' if name else 'something else'}" in result.err
    assert repo.commits[-1] == held and not repo.tags and not repo.gated  # its readers are asked nothing new


def test_a_hub_that_keeps_other_bytes_gets_no_tag(hub, publish, sending):
    corrupted = {"data/sft/train.parquet": Blob(b"PAR1 other", True)}
    sending(after=lambda oid: hub.repos[REPO].at(oid).tree.update(corrupted))
    result = publish()
    assert result.code == 1 and "data/sft/train.parquet" in result.err and hub.repos[REPO].tags == {}


def test_a_hub_that_is_not_there(released, publish, cli, monkeypatch, caplog):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HF_TOKEN", WRITER)
    assert "cannot be reached" in cli("verify", f"{REPO}@1.0.0").err and not caplog.messages  # nothing is tried again
    result = publish()
    assert result.code == 1 and "cannot be reached" in result.err.splitlines()[-1]
    assert "the release itself" not in result.err and "passes its checks here" in publish("--dry-run").err


# ---- what we refuse ourselves


@pytest.mark.parametrize(
    ("fact", "reason"),
    [
        ({"simulated": True}, "simulated reviews"),
        ({"demo": True}, "items of the demo"),
        ({"put_back": ["reddit"]}, "texts that were put back"),
    ],
)
def test_what_rests_on_no_people_and_what_was_put_back_does_not_go_to_the_hub(hub, released, publish, fact, reason):
    world.stated(released.releases / "1.0.0", **fact)
    result = publish()
    assert result.code == 1 and f"rests on {reason}: it is not for the Hub; `publish --to DIR`" in result.err
    assert hub.seen == []


def test_a_damaged_release_is_not_sent(hub, released, publish):
    (released.releases / "1.0.0/traits.toml").write_text("x")
    result = publish()
    assert result.code == 1 and "traits.toml" in result.err and hub.seen == []


def test_a_repository_is_named_as_the_hub_does(released, cli, hub):
    result = cli("publish", "--hub", "--repo", "a/b/c", "-C", released.root)
    assert result.code == 1 and "NAMESPACE/NAME" in result.err


def test_the_missing_extra_is_one_line(released, publish, cli, monkeypatch):
    """`verify`, `linkage` and `rebuild` of a release on the Hub ended with a traceback."""
    for name in ("huggingface_hub", "huggingface_hub.errors"):
        monkeypatch.setitem(sys.modules, name, None)
    for result in (publish(), cli("verify", f"{REPO}@1.0.0")):
        assert result.code == 1 and result.err.strip().endswith("pip install 'saferec-builder[hub]'")


def test_the_token_is_blotted_out_of_a_fault(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", WRITER)
    assert WRITER not in stage._first_line(ValueError(f"bad header {WRITER}"))
    assert "meanwhile" in stage._refusal(REPO, 412)
    assert "agree to its terms" in stage._refusal(REPO, 403)  # of a gated release, which readers may not write to


def test_a_large_file_is_compared_without_being_held_in_memory(tmp_path):
    git_id = "ce013625030ba8dba906f756967f9e9ca394464a"  # of `echo hello | git hash-object --stdin`
    (tmp_path / "small").write_text("hello\n")
    assert stage._as_there(tmp_path / "small", git_id) == git_id
    with open(tmp_path / "large", "wb") as file:
        file.truncate(64 << 20)
    tracemalloc.start()
    stage._as_there(tmp_path / "large", git_id)
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()

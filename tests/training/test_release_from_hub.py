"""--release NS/NAME@VERSION against a Hub on the loopback, with the real client."""

import shutil
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest

from saferec_builder.core.errors import SafeRecError, TrainingError
from tests.servers.hub import READER, Hub
from tests.servers.hub_repo import Blob, Fault, Repo
from tests.worlds import small_release
from training import data
from training.release_from_hub import folder, is_name
from training.safecrs import main

REPO = "ann/safe"


@pytest.fixture
def hub(monkeypatch, release, tmp_path: Path) -> Any:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)  # the double speaks LFS only
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_TOKEN", READER)
    tree = release.folder
    with Hub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        repo = hub.repos[REPO] = Repo(private=True)
        blobs = {p.relative_to(tree).as_posix(): Blob(p.read_bytes(), False) for p in tree.rglob("*") if p.is_file()}
        repo.tags["v1.0.0"] = repo.add("Release 1.0.0", "", blobs).oid
        yield hub


def test_a_version_becomes_the_release_that_was_published(hub: Hub, release, rows) -> None:
    fetched = data.open_release(folder(f"{REPO}@1.0.0"))
    assert fetched.digest == release.digest and data.rows(fetched.folder, "grpo", "test") == rows
    seen = [line for line in hub.seen if "parquet" in line and line.startswith("GET")]
    folder(f"{REPO}@1.0.0")  # in the cache
    assert [line for line in hub.seen if "parquet" in line and line.startswith("GET")] == seen


def test_a_version_of_the_workspace_is_its_folder(release, tmp_path: Path, monkeypatch) -> None:
    """`verify 1.2.0` took a version, `evaluate --release 1.2.0` did not."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(release.folder, tmp_path / "releases" / "1.0.0")
    assert data.open_release("1.0.0").folder == Path("releases/1.0.0") and folder("2.0.0") == Path("2.0.0")


@pytest.mark.slow
def test_the_command_takes_it(hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = small_release.predictions(tmp_path / "mine.jsonl", u7="1. Item D (2004)", u8="1. Item C (2003)")
    fixed = ["--predictions", str(answers), "--output", str(tmp_path / "out")]
    assert main(["evaluate", "--release", f"{REPO}@1.0.0", *fixed]) == 0
    assert "mine" in capsys.readouterr().out and (tmp_path / "out" / "report.json").is_file()
    assert main(["evaluate", "--release", f"{REPO}@9.0.0", *fixed]) == 1
    assert "there is no version 9.0.0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("marks", "told"),
    [
        (b'{"1.0.0": "a person asked"}', "was withdrawn .a person asked."),
        (b'{"1.0.', "nobody can tell what was withdrawn"),
        (b"[" * 200_000, "nobody can tell what was withdrawn"),  # brackets without end
    ],
)
def test_a_withdrawn_version_is_not_trained_on(hub: Hub, marks: bytes, told: str) -> None:
    repo = hub.repos[REPO]
    repo.add("mark", "", {**repo.commits[-1].tree, "WITHDRAWN.json": Blob(marks, False)})
    with pytest.raises(SafeRecError, match=told):
        folder(f"{REPO}@1.0.0")


@pytest.mark.parametrize(
    ("path", "content", "told"),
    [
        ("data/grpo/train.parquet", b"PAR1", r"grpo/train\.parquet: was changed after the release was made"),
        ("manifest.json", b"[" * 200_000, r"manifest\.json: was changed after the release was made"),
    ],
)
def test_other_bytes_than_were_published_are_refused(hub: Hub, path: str, content: bytes, told: str) -> None:
    repo = hub.repos[REPO]
    repo.tags["v1.0.0"] = repo.add("by hand", "", {**repo.commits[-1].tree, path: Blob(content, False)}).oid
    with pytest.raises(SafeRecError, match=told):
        data.rows(data.open_release(folder(f"{REPO}@1.0.0")).folder, "grpo", "train")


def test_a_tag_of_another_version_is_refused(hub: Hub) -> None:
    """It was trained on as 1.1.0, also where 1.0.0 was withdrawn."""
    hub.repos[REPO].tags["v1.1.0"] = hub.repos[REPO].tags["v1.0.0"]
    with pytest.raises(TrainingError, match=r"ann/safe@1\.1\.0: the tag holds 1\.0\.0, as somebody moved it"):
        folder(f"{REPO}@1.1.0")


def test_who_may_not_read_it_is_told(hub: Hub) -> None:
    hub.faults.append(Fault("GET", "/api/datasets/", 403, times=9))
    hub.faults.append(Fault("HEAD", "/resolve/", 403, times=9))
    with pytest.raises(TrainingError, match="may not read it"):
        folder(f"{REPO}@1.0.0")


def test_a_folder_stays_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_name("releases/1.0.0") and not is_name("/a/b@1.0.0/") and is_name("ann/safe@1.0.0")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ann" / "safe@1.0.0").mkdir(parents=True)
    assert folder("ann/safe@1.0.0") == Path("ann/safe@1.0.0")


def test_a_release_whose_text_stays_with_its_source_is_refused(release, train) -> None:
    silent = [row | {"prompt": []} for row in train]
    assert data.with_prompt([*train[:1], *silent[1:]], release) == train[:1]
    with pytest.raises(TrainingError, match="no row has a prompt"):
        data.with_prompt(silent, release)

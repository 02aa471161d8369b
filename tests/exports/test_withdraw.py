"""Releases on the Hub: the access gate, the dry run, remote verification, and withdrawing a version."""

import copy
import json
import subprocess
import threading

import pytest

from exports import hub as stage, signing, withdraw
from saferec_builder.core.errors import HubError, ReleaseError
from tests.servers.hub_admin import reachable
from tests.servers.hub_repo import Blob, Fault
from tests.worlds.hub_world import REPO, held, two_releases
from tests.worlds.release_world import tree

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=<...>':DeprecationWarning")


@pytest.fixture(scope="module")
def releases(tmp_path_factory):
    return two_releases(tmp_path_factory.mktemp("ws") / "ws")


@pytest.fixture(scope="module")
def kept():
    """What the Hub holds once both releases are published: filled by the first test, copied for each."""
    return {}


@pytest.fixture
def published(hub, releases, kept):
    if not kept:
        for folder in releases:
            stage.publish(folder, REPO)
        kept.update(repos=hub.repos, large=hub.large)
    hub.repos, hub.large = copy.deepcopy((kept["repos"], kept["large"]))
    return hub.repos[REPO]


@pytest.mark.slow
def test_the_gate_stands_before_anything_is_sent_and_a_dry_run_changes_nothing(hub, releases):
    report = stage.publish(releases[0], REPO, dry=True)
    assert (report.added, report.skipped, hub.repos) == (len(tree(releases[0])), 0, {})
    stage.publish(releases[0], "ann/open", gated=False)
    assert hub.repos["ann/open"].gated is False
    hub.seen.clear()
    stage.publish(releases[0], REPO)
    assert hub.repos[REPO].gated == "auto"
    steps = [path for line in hub.seen for path in ("/settings", "/commit/") if path in line]
    assert steps[0] == "/settings" and "/commit/" in steps
    commits = len(hub.repos[REPO].commits)
    report = stage.publish(releases[1], REPO, dry=True)
    assert 0 < report.added < len(tree(releases[1])) and report.added + report.skipped == len(tree(releases[1]))
    assert len(hub.repos[REPO].commits) == commits


@pytest.mark.slow
def test_a_version_is_proved_from_afar(published, cli):
    result = cli("verify", f"{REPO}@1.0.0", "--json")
    assert result.code == 0 and result.json["release"] == "ws 1.0.0" and "withdrawn" not in result.json
    assert "no version 3.0.0" in cli("verify", f"{REPO}@3.0.0").err
    published.at("v1.0.0").tree["data/grpo/test.parquet"] = Blob(b"PAR1", False)
    result = cli("verify", f"{REPO}@1.0.0")
    assert result.code == 1 and "data/grpo/test.parquet" in result.err


@pytest.mark.slow
def test_a_withdrawn_version_is_marked_everywhere(published, releases, cli):
    ws = releases[0].parent.parent
    result = cli("withdraw", "1.0.0", "--reason", "labels *were* wrong", "--hub", "--repo", REPO, "-C", ws, "--json")
    assert result.code == 0 and result.json["hub"] == ["marked on the card"], result.err
    card = published.at("main").tree["README.md"].content.decode()
    header, warning, _ = card.split("---\n", 2)[1:][0], card.split("---\n", 2)[2].splitlines()[0], None
    assert "configs:" in header and warning == r"**1.0.0 was withdrawn: labels \*were\* wrong. Do not use it.**"
    assert held(published, "v1.0.0") == tree(releases[0])  # the tag still holds what was released
    assert cli("verify", f"{REPO}@1.0.0", "--json").json["withdrawn"] == "labels *were* wrong"
    commits = len(published.commits)
    repeated = cli("withdraw", "1.0.0", "--reason", "labels *were* wrong", "--hub", "--repo", REPO, "-C", ws, "--json")
    assert (repeated.json["added"], repeated.json["hub"], len(published.commits)) == (0, [], commits)
    refused = cli("publish", "1.0.0", "--to", ws / "out", "-C", ws)
    assert refused.code == 1 and "was withdrawn" in refused.err
    assert cli("release", "1.2.0", "-C", ws).code == 0
    assert "1.0.0 was withdrawn" in (ws / "releases/1.2.0/README.md").read_text()
    (ws / "releases" / "withdrawn.json").unlink()


@pytest.mark.slow
def test_the_card_of_main_says_so_after_a_release_that_was_made_before_too(hub, releases):
    """The next publish removed the mark, and the card said nothing about 1.0.0."""
    stage.publish(releases[0], REPO)
    withdraw.on_hub(REPO, "1.0.0", "labels were wrong")
    repo, warning = hub.repos[REPO], "**1.0.0 was withdrawn: labels were wrong. Do not use it.**"
    stage.publish(releases[1], REPO)
    card = repo.at("main").tree["README.md"].content.decode()
    assert card.split("---\n", 2)[2].splitlines()[0] == warning and "configs:" in card
    assert held(repo, "v1.1.0") == tree(releases[1])  # the version itself is unchanged
    repo.commits[-1].tree["README.md"] = Blob((releases[1] / "README.md").read_bytes(), False)
    stage.publish(releases[1], REPO)  # completes a run that was cut off, or one of an older program
    assert warning in repo.at("main").tree["README.md"].content.decode()
    commits = len(repo.commits)
    stage.publish(releases[1], REPO)
    assert len(repo.commits) == commits


@pytest.mark.slow
def test_who_withdrew_a_version_can_be_told(published, releases, cli, tmp_path):
    """Anybody with write access could withdraw a version, and nothing showed that it was not its maker."""
    ws, key = releases[0].parent.parent, tmp_path / "ann"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    (tmp_path / "signers").write_text(f"ann {key.with_suffix('.pub').read_text()}")
    for folder in releases:  # both are ann's
        signing.sign(folder, key)
        published.at(f"v{folder.name}").tree["SHA256SUMS.sig"] = Blob((folder / "SHA256SUMS.sig").read_bytes(), False)
    withdrawn = ("withdraw", "1.0.0", "--reason", "wrong", "--hub", "--repo", REPO, "-C", ws)
    ann = ("verify", f"{REPO}@1.0.0", "--signer", tmp_path / "signers", "--identity", "ann")
    assert cli(*withdrawn).code == 0
    assert cli("verify", f"{REPO}@1.0.0", "--json").json["withdrawn"] == "wrong"  # without a check of the signature
    assert "nobody signed this withdrawal (WITHDRAWN.json.sig is missing)" in cli(*ann).err
    assert cli(*withdrawn, "--sign", key).code == 0  # the same mark, now signed
    result = cli(*ann, "--json")
    assert (result.code, result.json["withdrawn"], result.json["signed"]) == (0, "wrong", "by ann"), result.err
    commits = len(published.commits)
    assert cli(*withdrawn, "--sign", key).code == 0 and len(published.commits) == commits
    published.at("main").tree["WITHDRAWN.json.sig"] = Blob(b"a stranger's", False)
    assert cli(*withdrawn, "--sign", key).code == 0 and cli(*ann).code == 0  # it is replaced
    withdraw.on_hub(REPO, "1.1.0", "by somebody without a key")  # one more mark, not covered by ann's signature
    assert "WITHDRAWN.json.sig" not in published.at("main").tree
    assert "nobody signed this withdrawal" in cli(*ann).err
    refused = cli(*withdrawn, "--sign", key)  # ann's signature would cover it
    assert refused.code == 1 and "says of 1.1.0 what was not said here" in refused.err
    for option in (("--sign", key), ("--repo", REPO)):
        assert "say --hub, too" in cli("withdraw", "1.0.0", "--reason", "x", *option, "-C", ws).err
    (ws / "releases" / "withdrawn.json").unlink()
    for folder in releases:
        (folder / "SHA256SUMS.sig").unlink()


@pytest.mark.parametrize("cut_off", [False, True])
def test_an_erased_version_is_gone_and_the_others_stay(published, hub, releases, cut_off):
    """A tag such as `paper` kept all of the version, on its own commit, without a message."""
    old, new = (tree(folder) for folder in releases)
    published.tags["paper"], published.tags["latest"] = published.tags["v1.0.0"], published.tags["v1.1.0"]
    if cut_off:  # an earlier run had put the tag's content on a branch and then stopped
        published.branches["keep-paper"] = [published.at(published.tags.pop("paper"))]
    steps = withdraw.on_hub(REPO, "1.0.0", "somebody asked for removal", erase=True)
    assert "tag paper deleted, as it held 1.0.0" in steps
    assert set(published.tags) == {"v1.1.0", "latest"} and not published.branches
    assert held(published, "latest") == held(published, "v1.1.0") == new
    only_old = set(old.values()) - set(new.values())
    assert not [blob for blob in hub.large.values() if blob in only_old]
    commits = [c for c in reachable(published) if c.tree.get("manifest.json")]
    assert commits and all(json.loads(c.tree["manifest.json"].content)["version"] == "1.1.0" for c in commits)


def test_an_erasure_takes_no_file_of_another_branch_and_names_it(published, hub):
    """Large files that only a branch had were deleted for good, and the erased version stayed on it, unreported."""
    draft = Blob(b"PAR1 somebody's draft", True)
    hub.large[draft.sha256] = draft.content
    published.branches["draft"] = [published.made("draft", "", {"data/own.parquet": draft})]
    steps = withdraw.on_hub(REPO, "1.0.0", "somebody asked for removal", erase=True)
    assert draft.sha256 in hub.large
    assert "branch draft left as it is: if 1.0.0 is in it, delete it and run this again" in steps


def test_erasing_what_main_holds_takes_its_files_away(published, releases):
    withdraw.on_hub(REPO, "1.1.0", "wrong", erase=True)
    assert set(published.at("main").tree) == {".gitattributes", "README.md", "WITHDRAWN.json"}
    assert held(published, "v1.0.0") == tree(releases[0]) and list(published.tags) == ["v1.0.0"]
    stage.publish(releases[0], REPO)  # the repository can still be published to


@pytest.mark.slow
def test_what_was_withdrawn_elsewhere_is_not_published_again(published, releases, cli):
    for erase in (False, True):
        withdraw.on_hub(REPO, "1.1.0", "wrong", erase=erase)  # by a colleague, without a record in this workspace
        commits = len(published.commits)
        for dry in (True, False):
            with pytest.raises(HubError, match=r"v1\.1\.0 was withdrawn there: wrong"):
                stage.publish(releases[1], REPO, dry=dry)
        assert len(published.commits) == commits and ("v1.1.0" in published.tags) != erase
        assert (": there is no version 1.1.0, it was withdrawn: wrong" in cli("verify", f"{REPO}@1.1.0").err) == erase


@pytest.mark.slow
def test_a_withdrawal_says_why(published, releases, cli):
    for args in ((), ("--hub", "--repo", REPO)):
        result = cli("withdraw", "1.0.0", "--reason", " ", *args, "-C", releases[0].parent.parent)
        assert result.code == 1 and "--reason is empty" in result.err
    withdraw.on_hub(REPO, "1.0.0", "")  # an older program accepted an empty reason
    with pytest.raises(HubError, match="was withdrawn there"):
        stage.publish(releases[0], REPO)
    assert cli("verify", f"{REPO}@1.0.0", "--json").json["withdrawn"] == ""


@pytest.mark.parametrize("path", ["WITHDRAWN.json", "README.md", "manifest.json"])
def test_a_file_that_cannot_be_asked_for_is_not_taken_for_missing(published, hub, cli, path):
    withdraw.on_hub(REPO, "1.0.0", "one")
    commit = published.at("main")
    hub.faults.append(Fault("HEAD", f"/{path}", 503, times=99))
    with pytest.raises(HubError, match="cannot be reached"):
        withdraw.on_hub(REPO, "1.1.0", "two", erase=True)
    assert published.at("main") == commit and "v1.1.0" in published.tags
    if path == "WITHDRAWN.json":
        assert "cannot be reached" in cli("verify", f"{REPO}@1.0.0").err


@pytest.mark.parametrize(
    ("path", "harm"),
    [
        *[("WITHDRAWN.json", harm) for harm in (b"", b"{", b'{"1.0.0": "\xff"}')],
        *[("manifest.json", harm) for harm in (b"", b"{}", b"[" * 200_000)],
    ],
)
def test_what_is_damaged_on_the_hub_is_named(published, path, harm):
    tree = published.at("main").tree
    published.add("harm", "", {**tree, path: Blob(harm, False)})
    with pytest.raises(HubError, match=f"{path} is damaged"):
        withdraw.on_hub(REPO, "1.1.0", "wrong", erase=True)


def test_a_version_that_is_not_there(published, cli, releases, workspace):
    with pytest.raises(ReleaseError, match=r"'v1\.0\.0': expected MAJOR\.MINOR\.PATCH"):  # before the Hub is asked
        withdraw.withdraw(workspace, "v1.0.0", "wrong", hub=True, repo=REPO)
    message = cli("withdraw", "1.0.0", "--reason", "x", "-C", workspace.root).err
    assert message.endswith("no release '1.0.0'; there are none\n"), message  # it ended with "there are "
    ws = releases[0].parent.parent
    result = cli("withdraw", "9.0.0", "--reason", "x", "--hub", "--repo", REPO, "-C", ws)
    assert result.code == 1 and "v1.0.0, v1.1.0" in result.err
    assert not (ws / "releases" / "withdrawn.json").exists()  # a typo marks nothing
    assert cli("withdraw", "1.0.0", "--reason", "x", "--erase", "-C", ws).code == 1


def test_a_reason_is_one_line_of_text_as_it_is_read_back(released):
    """Bytes that are no text ended in a traceback; a reason with a control character was new in every run."""
    for reason in ("an odd \udcff byte", "two\nlines \u202e turned"):
        assert [withdraw.withdraw(released, "1.0.0", reason).new for _ in range(2)] == [True, False]
    assert withdraw.reasons(released.releases) == {"1.0.0": "two lines \ufffd turned"}


def test_two_marks_at_once_lose_none(workspace, monkeypatch):
    """`forget` marks versions, too, and wrote over a withdrawal that it had not read."""
    read, others = withdraw.reasons, []

    def reading(releases):
        marks = read(releases)
        if not others:  # in the meantime somebody else marks another version
            others.append(threading.Thread(target=withdraw.mark, args=(workspace, "1.1.0", "forgotten")))
            others[0].start()
            others[0].join(0.5)
        return marks

    monkeypatch.setattr(withdraw, "reasons", reading)
    withdraw.mark(workspace, "1.0.0", "wrong")
    others[0].join()
    assert read(workspace.releases) == {"1.0.0": "wrong", "1.1.0": "forgotten"}

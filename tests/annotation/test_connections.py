"""Which review server a command talks to, and which account there is whose."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from annotation import connections
from annotation.review_destinations import Argilla, LabelStudio
from annotation.review_state import gather
from annotation.tools import local_label_studio as local
from annotation.tools.label_studio_client import Server
from saferec_builder.core.counts import Counts
from saferec_builder.core.errors import ReviewError, UsageError
from saferec_builder.storage import workspace as store
from tests.servers.loopback import serving
from tests.worlds.pushes import TWO

URL = "http://127.0.0.1:9"
ANN: local.Account = {"email": "ann@x", "password": "p"}
FACTS: local.Facts = {"url": URL, "token": "t", "email": "o@x", "accounts": {"ann": ANN}}


@pytest.mark.parametrize(
    ("place", "why"),
    [
        (LabelStudio(), "there is no review server yet: run `saferec-build review up`"),
        (LabelStudio(url=URL), f"--url {URL}: give --token too"),
        (LabelStudio(url="http://ann:secret@x", token="t"), "--url holds a user or password"),
        (LabelStudio(url="http://[", token="t"), r"--url http://\[: this is no address"),
        (Argilla(URL, ""), "--tool argilla: give --url, and --token"),
        (Argilla("", "k"), "--tool argilla: give --url, and --token"),
    ],
)
def test_what_is_missing_to_reach_a_server_is_one_line(ws: store.Workspace, place: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        connections.connect(ws, place)


def test_our_own_server_has_one_folder_wherever_a_command_is_run(
    ws: store.Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Started inside the workspace, it kept its data in label-studio/label-studio: no pull removed its copies there,
    `forget` erased nothing there, and a command with `-C` started a second server, which was empty."""
    (tmp_path / "link").symlink_to(ws.root)
    monkeypatch.chdir(ws.root)
    folders = {connections.server_folder(store.Workspace.open(folder)) for folder in (".", ws.root, tmp_path / "link")}
    assert folders == {ws.root.resolve() / "label-studio"}


@pytest.mark.parametrize(
    "ask",
    [
        lambda: local.healthy(URL),
        lambda: local._sign_up(URL, "/u", ANN),
        lambda: Server(URL, "t").count("1"),
    ],
    ids=["health", "account", "label-studio"],
)
def test_a_proxy_is_not_asked_for_this_machine(ask: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """It would see the token and the texts, and many a proxy does not reach 127.0.0.1. Argilla's client asks none."""
    requests = list[str]()
    with serving(lambda asked: requests.append(asked.path)) as proxy:  # closes the connection
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy)
        with suppress(ReviewError, httpx2.ConnectError, httpx2.RemoteProtocolError):
            ask()
    assert requests == []


def test_a_copied_workspace_never_talks_to_the_server_of_the_original(ws: store.Workspace, tmp_path: Path) -> None:
    """A push from the copy took back the original's tasks, and a pull called every later one foreign."""
    folder = connections.server_folder(ws)
    folder.mkdir()
    words = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)", str(folder / "data")]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline()  # before it runs, /proc may have no words of it yet
        local.save(folder, FACTS | {"pid": process.pid})
        copy = store.Workspace.open(shutil.copytree(ws.root, tmp_path / "copy"))
        assert connections.connect(ws, LabelStudio()).url == URL
        not_running = "the Label Studio of this workspace is not running: run `saferec-build review up`"
        with pytest.raises(ReviewError, match=f"^{connections.server_folder(copy)}: {not_running}$"):
            connections.connect(copy, LabelStudio())
        backup = Path("/", *folder.parts[-2:])  # of which the original, by its path, could be a copy
        assert local.alive(folder, local.state(folder)) and not local.alive(backup, local.state(folder))
        process.kill()
    with pytest.raises(ReviewError, match=f"^{folder}: {not_running}$"):
        connections.connect(ws, LabelStudio())


def test_the_server_is_the_one_named_or_else_our_own(ws: store.Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    connections.server_folder(ws).mkdir()
    local.save(connections.server_folder(ws), FACTS)
    monkeypatch.setattr(local, "alive", lambda folder, facts: folder == connections.server_folder(ws))
    for place, url, token in ((LabelStudio(), URL, "t"), (LabelStudio(url="http://b/", token="u"), "http://b", "u")):
        server = connections.connect(ws, place)
        assert (server.tool, server.url, server.token) == ("label_studio", url, token)
    argilla = connections.connect(ws, Argilla(url=f"{URL}/", api_key="k"))
    assert (argilla.tool, argilla.url, argilla.token) == ("argilla", URL, "k")
    assert argilla.accounts == ws.root / "argilla-accounts.json"


def test_accounts_are_those_of_our_own_server_or_of_the_settings(ws, review, monkeypatch) -> None:
    review("push", "--tool", "files", *TWO)
    toml = ws.root / "saferec.toml"
    toml.write_text(f'{toml.read_text()}\n[review.accounts]\nbo = "bo@team.org"\ndi = "ann@x"\n')
    state, (own, other) = gather(store.Workspace.open(ws.root)), (Server(url, "t") for url in (URL, "http://b"))
    named = {"bo": "bo@team.org", "di": "ann@x"}
    assert connections.account_names(state, own, ["bo"]) == named
    assert connections.accounts_of(state, own, ["ann", "bo"]) == {"ann": "ann", "bo": "bo@team.org"}
    connections.server_folder(ws).mkdir()
    local.save(connections.server_folder(ws), FACTS)
    assert connections.account_names(state, own, ["bo"]) == named | {"ann": "ann@x"}
    assert connections.account_names(state, other, ["bo"]) == named
    assert connections.accounts_of(state, other, ["ann", "di"]) == {"ann": "ann", "di": "ann@x"}
    with pytest.raises(UsageError, match="^ann and di are both 'ann@x' on the review server: one person is never two"):
        connections.account_names(state, own, ["di"])
    invites = list[str]()
    monkeypatch.setattr(Server, "invite", lambda server: invites.append(server.url) or "/u")
    monkeypatch.setattr(local, "account", lambda folder, server, name: {"email": f"{name}@{folder.name}"})
    assert connections.accounts_of(state, own, ["ann", "bo"]) == {n: f"{n}@label-studio" for n in ("ann", "bo")}
    assert invites == [URL]  # the last link that a killed push left is closed


def test_a_push_to_argilla_says_where_people_log_in(ws, review) -> None:
    review("push", "--tool", "files", *TWO)
    toml = ws.root / "saferec.toml"
    toml.write_text(f'{toml.read_text()}\n[review.accounts]\nbo = "bo.smith"\n')
    state = gather(store.Workspace.open(ws.root))
    argilla = connections.connect(ws, Argilla(url=URL, api_key="k"))
    says = connections.how_to_log_in(state, argilla, ["ann", "bo"])
    assert says.startswith(f"ann, bo (as bo.smith) log in at {URL}; passwords") and says.endswith(
        "argilla-accounts.json"
    )
    assert connections.how_to_log_in(state, argilla, ["ann"]).startswith(f"ann logs in at {URL}; ")
    assert not connections.how_to_log_in(state, Server(URL, "t"), ["ann"])


def test_our_own_server_is_started_once_and_stopped(ws: store.Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = SimpleNamespace(up=[(FACTS, True), (FACTS, False)], down=[True, False])
    monkeypatch.setattr(local, "up", lambda folder, say: answers.up.pop(0))
    monkeypatch.setattr(local, "down", lambda folder: answers.down.pop(0))
    passwords = str(ws.root / "label-studio" / "server.json")
    figures = {"url": URL, "login": "o@x", "passwords": passwords, "reviewers": {"ann": "ann@x"}}
    for added in (1, 0):
        assert connections.start(ws) == Counts("review up", added, 1 - added, figures=figures)
    for added, words in ((1, "stopped"), (0, "was not running")):
        assert connections.stop(ws) == Counts("review down", added, figures={"label_studio": words})

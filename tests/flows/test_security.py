"""Promises of docs/security.md that no other test checks: paths, markup, terminals, secrets, servers, foreign code."""

import ast
import json
import os
import re
import shutil
import stat
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from annotation.tools import label_studio, local_label_studio as managed
from exports import card, folder as write, verify as proof
from exports.release import release as freeze
from saferec_builder.core import taxonomy as traits
from saferec_builder.core.errors import ReleaseError, TrainingError
from saferec_builder.storage import tables, workspace as store
from tests.conftest import Cli, Patch
from tests.layers import files, imports, parsed
from tests.servers import loopback
from tests.worlds import release_world as world
from tests.worlds.xss import PAYLOADS

OUT = ("../../outside", "/tmp/saferec-outside", "..\\..\\outside", "a/b", ".", "..", "~", "nul\0byte", "x" * 300)
OUT += ("-rf", "$(id)")

# ---- paths from data


@pytest.mark.slow
def test_ids_and_names_of_strangers_make_no_path(workspace: store.Workspace, tmp_path: Path, cli: Cli) -> None:
    """Mined, proposed, reviewed in files and reported: every new file lies in the workspace."""
    inputs, lines = tmp_path / "in", []
    for n, row in enumerate(world.requests(30)[0]):
        name = f"{OUT[n % len(OUT)]}{n}"
        new = world.messages(row) | {"id": name, "user": name, "accepted": [f"demo:{name}"], "seen": [f"title:{name}"]}
        lines.append(json.dumps(new))
    inputs.mkdir()
    (inputs / "talk.jsonl").write_text("\n".join(lines))
    items = [f'"{name}",film,"{name}",2001\n' for name in OUT if "\0" not in name]
    (inputs / "items.csv").write_text("id,domain,title,year\n" + "".join(items))
    store.append(workspace, tables.CATALOG_ROWS, world.catalog())
    store.append(workspace, tables.WARNINGS, world.warnings())
    old = every(tmp_path)
    for words in (
        ("mine", "messages", inputs / "talk.jsonl"),
        ("catalog", "add", "csv", inputs / "items.csv"),
        ("propose",),
        ("review", "push", "--tool", "files", "--reviewer", "ann", "--reviewer", "bo", "--all"),
        ("report",),
    ):
        assert cli(*words, "-C", workspace.root).code == 0, words
    new = every(tmp_path) - old
    assert not list(Path("/tmp").glob("saferec-outside*"))
    assert new and all(path.is_relative_to(workspace.root) for path in new)
    assert not [path for path in new if any(part in str(path.name) for part in ("outside", "rf", "id)"))]


def every(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_a_reviewers_name_is_a_name_or_refused(workspace: store.Workspace, cli: Cli) -> None:
    world.fill(workspace, *world.requests(30))
    for name in (*OUT, "", "ann/../../bo", ".hidden"):
        people = ("--reviewer", name, "--reviewer", "bo", "--all", "-C", workspace.root)
        run = cli("review", "push", "--tool", "files", *people)
        names = {path.name for path in workspace.root.glob("review/*")}
        if name == "-rf":  # a name like any other, and a file like any other
            assert run.code == 0 and names == {"-rf.csv", "bo.csv", "guidelines.md"}
            shutil.rmtree(workspace.root / "review")
        else:
            assert run.code == 1 and not names, (name, run)


@pytest.fixture(scope="module")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    ws = world.fill(store.Workspace.create(tmp_path_factory.mktemp("frozen") / "ws"), *world.requests())
    return freeze(ws, "1.0.0").folder


@pytest.fixture
def release(frozen: Path, tmp_path: Path) -> Path:
    return shutil.copytree(frozen, tmp_path / "1.0.0")


def forged(home: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """Changes the manifest of the release as a forger would, with right checksums."""
    manifest = json.loads((home / write.MANIFEST).read_text())
    change(manifest)
    (home / write.MANIFEST).write_text(json.dumps(manifest))
    sums = {path: write.sha256(home / path) for path in [*manifest["files"], write.MANIFEST] if (home / path).is_file()}
    (home / write.SUMS).write_text("".join(f"{digest}  {path}\n" for path, digest in sums.items()))
    return home


@pytest.mark.slow
@pytest.mark.parametrize("name", ["../../../../outside", "/tmp/outside", "..", "nul\0byte", "a b", ""])
def test_a_forged_release_cannot_say_where_else_to_write(release: Path, name: str) -> None:
    """`rebuild` makes a file for every config and split that a manifest counts."""
    for change in (
        lambda facts: facts["counts"].update({name: {"train": 0}}),
        lambda facts: facts["counts"]["sft"].update({name: 0}),
        lambda facts: facts["row_digests"].update({name: {"train": "0"}}),
    ):
        original = (release / write.MANIFEST).read_bytes()
        with pytest.raises(ReleaseError, match="no name of a config or split"):
            proof.verify(forged(release, change))
        (release / write.MANIFEST).write_bytes(original)


def test_a_link_in_a_release_is_no_file_of_it(release: Path) -> None:
    """The target of the link must not be read, copied or sent as part of the release."""
    page = release / "README.md"
    shutil.move(page, release.parent / "elsewhere.md")
    page.symlink_to(release.parent / "elsewhere.md")
    with pytest.raises(ReleaseError, match="not a plain file"):
        proof.verify(release)


# ---- markup and terminals


def test_a_taxonomy_of_somebody_else_adds_nothing_to_the_reviewers_page(tmp_path: Path) -> None:
    def page(name: str, words: list[str]) -> ElementTree.Element:
        encoded = [(n, json.dumps(text, ensure_ascii=False)) for n, text in enumerate(words)]
        rows = [f"[[trait]]\nslug = 't{n}'\nname = {t}\ndefinition = {t}\ntopics = ['x']\n" for n, t in encoded]
        (tmp_path / name).write_text("".join(rows))
        return ElementTree.fromstring(label_studio.interface(traits.load(tmp_path / name)))

    theirs, calm = page("theirs.toml", PAYLOADS), page("calm.toml", ["x"] * len(PAYLOADS))
    shapes = [[(node.tag, sorted(node.attrib)) for node in root.iter()] for root in (theirs, calm)]
    assert shapes[0] == shapes[1]
    words = [" ".join(f"{node.get('value')}: {node.get('hint')}".split()) for node in theirs.iter("Label")]
    assert words == [" ".join(f"{p}: {p}".split()) for p in PAYLOADS]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_name_is_plain_text_on_a_card(payload: str) -> None:
    from markdown_it import MarkdownIt

    cell = card.escape(payload)
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(f"| {cell} |\n|---|\n| {cell} |\n\n{cell}\n")
    assert set(re.findall(r"<([a-z]+)", html)) == {"table", "thead", "tbody", "tr", "th", "td", "p"}, html


def test_no_escape_sequence_reaches_a_terminal(workspace: store.Workspace, cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "\x1b]0;owned\x07.jsonl"
    run = cli("mine", "messages", path, "-C", workspace.root)
    assert run.code == 1 and "\x1b" not in run.err and "owned" in run.err


# ---- secrets


@pytest.fixture
def parrot() -> Iterator[str]:
    with loopback.parrot(400) as url:
        yield url


@pytest.mark.parametrize("tool", ["label-studio", "argilla"])
def test_a_review_server_that_repeats_the_token_is_not_repeated(
    workspace: store.Workspace, cli: Cli, parrot: str, tool: str
) -> None:
    world.fill(workspace, *world.requests(30))
    options = ("--reviewer", "ann", "--reviewer", "bo", "--url", parrot, "--token", "canary-token-7711", "--tool", tool)
    run = cli("review", "push", *options, "-C", workspace.root)
    assert run.code == 1 and "canary-token-7711" not in run.out + run.err


def test_a_password_in_an_address_is_refused_and_not_repeated(
    workspace: store.Workspace, cli: Cli, monkeypatch: Patch
) -> None:
    monkeypatch.setenv("DDD_API_KEY", "k")
    world.fill(workspace, *world.requests(30))
    url = "https://someone:hunter2@reviews.invalid"
    push = ["review", "push", "--reviewer", "ann", "--reviewer", "bo", "--url", url, "--token", "t"]
    for words in (push, ["review", "pull", "--url", url, "--token", "t"], ["catalog", "fetch", "ddd", "--base", url]):
        run = cli(*words, "-C", workspace.root)
        assert run.code == 1 and "holds a user or password" in run.err and "hunter2" not in run.out + run.err, run
    from training import answers_from_server as server

    with pytest.raises(TrainingError, match="holds a user or password") as fault:
        server.refuse_remote(url, 1, True)
    assert "hunter2" not in str(fault.value)


def test_what_only_the_owner_may_read(tmp_path: Path, workspace: store.Workspace, cli: Cli, monkeypatch: Patch) -> None:
    """Also with a umask that lets everybody read new files."""
    old_umask = os.umask(0)
    try:
        assert len(workspace.secret) == 32
        assert cli("review", "opt-out", "ann", "gore", "-C", workspace.root).code == 0
        managed.save(tmp_path, {"password": "p"})
    finally:
        os.umask(old_umask)
    for path in (workspace.root / ".secret", workspace.root / ".opt-outs.json", tmp_path / "server.json"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


# ---- servers of our own


def test_our_own_servers_listen_on_this_machine_alone() -> None:
    command = managed._command(Path("/x"), Path("/home"), 8123)
    assert command[command.index("--internal-host") + 1] == "127.0.0.1"
    state = {"email": "e", "password": "p", "token": "t", "url": "http://127.0.0.1:8123"}
    env = managed._environment(Path("/home"), state)
    assert env["COLLECT_ANALYTICS"] == env["LABEL_STUDIO_COLLECT_ANALYTICS"] == "false" and env["SENTRY_DSN"] == ""
    assert "p" not in command and "t" not in command  # every user can list the arguments of a process


def test_every_workspaces_server_has_credentials_of_its_own(tmp_path: Path, monkeypatch: Patch) -> None:
    states = []
    monkeypatch.setattr(managed, "install", lambda say: tmp_path)
    monkeypatch.setattr(managed, "_copy_template", lambda home: states.append(managed.state(home)) or 1 / 0)
    for name in ("one", "two"):
        with pytest.raises(ZeroDivisionError):  # before anything is started
            managed.up(tmp_path / name, lambda line: None)
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o700
    first, second = states
    assert all(first[key] != second[key] and len(first[key]) >= 24 for key in ("password", "token"))


# ---- no code of others is executed

NEVER = {"pickle", "cPickle", "dill", "marshal", "shelve", "joblib", "cloudpickle"}
CALLED = {"eval", "exec", "compile", "__import__", "yaml.load", "yaml.unsafe_load", "torch.load"}
CALLED |= {"os.system", "os.popen"}


def dotted(called: ast.expr) -> str:
    """The name of a function, or of one of a module; `ast.unparse` would take seconds."""
    if isinstance(called, ast.Attribute):
        return f"{dotted(called.value)}.{called.attr}"
    return called.id if isinstance(called, ast.Name) else ""


def test_no_file_runs_what_it_reads() -> None:
    for path in files():
        assert not {name.split(".")[0] for name in imports(path)} & NEVER, path
        for call in (node for node in ast.walk(parsed(path)) if isinstance(node, ast.Call)):
            place = f"{path}:{call.lineno}"
            assert dotted(call.func) not in CALLED, place
            constants = {word.arg: word.value for word in call.keywords if isinstance(word.value, ast.Constant)}
            risky = {"trust_remote_code", "shell", "allow_pickle"} & constants.keys()
            assert not any(constants[name].value for name in risky), place

"""Tests of doctor: it names what is missing and the remedy, exits 1 only for what saferec.toml needs, shows no key."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import huggingface_hub
import polars as pl
import pytest

from saferec_builder import diagnostics as health, llm
from saferec_builder.storage import migrations, tables, workspace as store
from tests.conftest import Cli, Patch, Printed, Ran
from tests.servers.loopback import Asked, Reply, serving

KEY = "canary-5f1e-key"


@pytest.fixture
def server() -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    """(address, (path, key) of each request) of a server that refuses one key."""
    requests: list[tuple[str, str | None]] = []

    def answer(asked: Asked) -> Reply:
        requests.append((asked.path, asked.headers.get("Authorization")))
        return Reply(401 if requests[-1][1] == "Bearer wrong" else 200)

    with serving(answer) as url:
        yield url, requests


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: Patch) -> None:
    for name in ("OPENAI_API_KEY", "HF_TOKEN", "DDD_API_KEY", "SAFEREC_REVIEW_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def asks(ws: store.Workspace, text: str) -> None:
    (ws.root / "saferec.toml").write_text(text)


def checks(ran: Ran) -> dict[str, dict[str, str]]:
    return {check["what"]: check for check in ran.json["checks"]}


def test_a_secret_that_was_cut_short_is_named(workspace: store.Workspace, cli: Cli) -> None:
    (workspace.root / ".secret").write_bytes(bytes(10))
    check = checks(cli("doctor", "-C", workspace.root, "--json"))["secret"]
    assert check["state"] == "missing" and "10 bytes, expected 32" in check["found"]
    assert check["remedy"] == store.NO_SECRET


def test_a_damaged_database_of_the_workspace_has_no_server_to_start(workspace: store.Workspace, cli: Cli) -> None:
    (workspace.root / "workspace.db").write_bytes(b"no database " * 400)
    check = checks(cli("doctor", "-C", workspace.root, "--json"))["database"]
    assert check["state"] == "missing" and check["remedy"] == "docs/how-to/bad-day.md"


def test_a_new_workspace_lacks_nothing(workspace: store.Workspace, cli: Cli, monkeypatch: Patch) -> None:
    result = cli("doctor", "-C", workspace.root)
    assert result.code == 0, result.out
    assert "0 missing" in result.out.splitlines()[-1]
    assert health._writable(workspace.root) == health.Finding("workspace", "ok", f"{workspace.root}")
    monkeypatch.setattr(health.os, "access", lambda path, mode: mode != os.W_OK | os.X_OK)
    assert health._writable(workspace.root).state == "missing"
    assert {"python", "disk", "memory", "database"} <= set(checks(cli("doctor", "-C", workspace.root, "--json")))


def test_people_who_share_a_label_studio_are_told_that_it_keeps_nobody_apart(
    workspace: store.Workspace, cli: Cli
) -> None:
    (workspace.root / "label-studio").mkdir()
    facts: dict[str, Any] = {"url": "http://127.0.0.1:9", "email": "o", "password": "p", "token": "t", "accounts": {}}
    for name in ("ann", "bo"):
        facts["accounts"][name] = {"email": name, "password": "p"}
        (workspace.root / "label-studio" / "server.json").write_text(json.dumps(facts))
        out = cli("doctor", "-C", workspace.root).out
        assert ("2 people share it" in out) == (name == "bo"), out


def test_without_a_workspace_it_looks_at_the_machine_and_gives_no_traceback(tmp_path: Any, cli: Cli) -> None:
    result = cli("doctor", "-C", tmp_path / "a" / "slip" / "of the pen")
    assert result.code == 0 and "GiB free" in result.out and "none here" in result.out
    assert "saferec-build init" in result.out


def test_a_folder_that_no_command_opens_for_its_name_is_not_called_sound(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    (folder / "saferec.toml").touch()
    *_, last = health.examine(folder).checks
    assert last.state == health.MISSING and "the folder's name is not UTF-8" in last.found


def test_room_is_short_below_two_gib(monkeypatch: Patch) -> None:
    assert health._room("disk", 2 << 30, "x") == health.Finding("disk", "ok", "2.0 GiB free")
    assert health._room("disk", (2 << 30) - 1, "x") == health.Finding("disk", "note", "2.0 GiB free", "x")
    for text, expected in (
        ("MemTotal: 9 kB\nMemAvailable: 3145728 kB\n", health.Finding("memory", "ok", "3.0 GiB free")),
        ("MemTotal: 9 kB", health.Finding("memory", "note", "this system does not say how much is free")),
    ):
        monkeypatch.setattr(health.Path, "read_text", lambda path, text=text: text)
        assert health._memory() == expected


def test_every_gpu_is_named(monkeypatch: Patch) -> None:
    ran = subprocess.CompletedProcess([], 0, "A, 1 MiB\nB, 2 MiB\n")
    monkeypatch.setattr(health.subprocess, "run", lambda *_, **__: ran)
    assert health._gpu() == health.Finding("gpu", "ok", "A, 1 MiB; B, 2 MiB")
    ran.returncode = 1
    monkeypatch.setattr(health.subprocess, "run", lambda *_, **__: ran.check_returncode())
    assert health._gpu().found == "none found"


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://ann:secret@models.example:8000/v1?key=secret", "models.example:8000"),
        ("https://models.example/v1", "models.example"),
        ("file:///v1", "?"),
        ("http://[::1/v1", "an address that cannot be read"),
    ],
)
def test_of_an_address_only_host_and_port_are_shown(url: str, place: str) -> None:
    assert health._place(url) == place


def test_what_a_review_server_lacks_is_named(workspace: store.Workspace, server: Any, monkeypatch: Patch) -> None:
    def review() -> list[tuple[str, str, str]]:
        findings = health._review(store.Workspace.open(workspace.root))
        return [(finding.what, finding.state, finding.found.split(" (")[0]) for finding in findings]

    for installed, expected in ((True, []), (False, [("label studio", "note", "not installed")])):
        monkeypatch.setattr(health.managed, "installed", lambda installed=installed: installed)
        assert review() == expected
    monkeypatch.setattr(health.managed, "installed", lambda: True)
    asks(workspace, '[review.accounts]\nann = "ann@example.org"\n')
    assert review() == [("key SAFEREC_REVIEW_TOKEN", "note", "not set")]
    monkeypatch.setenv("SAFEREC_REVIEW_TOKEN", KEY)
    assert review() == [("key SAFEREC_REVIEW_TOKEN", "ok", "set")]
    asks(workspace, "")
    path = workspace.root / "label-studio" / "server.json"
    path.parent.mkdir()
    path.write_text("{")
    assert [finding[:2] for finding in review()] == [("label studio", "missing")]
    facts = {"url": server[0], "email": "o", "password": "p", "token": "t", "accounts": {}}
    path.write_text(json.dumps(facts))
    assert review() == [("label studio", "note", "not running")]  # as in a copied workspace
    monkeypatch.setattr(health.managed, "alive", lambda folder, facts: True)
    assert review() == [("label studio", "ok", f"{server[0].removeprefix('http://')} answers")]
    path.write_text(json.dumps(facts | {"url": "http://127.0.0.1:9"}))
    assert review() == [("label studio", "note", "not running")]


def test_the_hub_is_asked_with_the_token_only(workspace: store.Workspace, server: Any, monkeypatch: Patch) -> None:
    def hub() -> list[tuple[str, str]]:
        return [(f.what, f.state) for f in health._hub(store.Workspace.open(workspace.root))]

    monkeypatch.setenv("HF_ENDPOINT", server[0])
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: os.environ.get("HF_TOKEN"))
    assert hub() == []
    asks(workspace, '[dataset]\nrepo = "ann/safe"\n')
    assert hub() == [("key HF_TOKEN", "missing"), ("hub", "ok")]
    monkeypatch.setenv("HF_TOKEN", KEY)
    assert hub() == [("key HF_TOKEN", "ok"), ("hub", "ok")]
    assert server[1] == [("/api/whoami-v2", None), ("/api/whoami-v2", f"Bearer {KEY}")]
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert hub()[1] == ("hub", "missing")
    monkeypatch.setattr(health, "_fault", lambda line: "huggingface-hub is not installed")
    assert hub() == [("hub", "missing")]


def test_what_is_asked_for_and_missing_is_named_with_its_remedy(workspace: store.Workspace, cli: Cli) -> None:
    asks(
        workspace,
        """
        [taxonomy]
        path = "nowhere.toml"
        [propose]
        prompt = "no.md"
        jury = ["openai:big"]
        [propose.models.big]
        base_url = "http://192.0.2.1:1/v1"
        key_env = "NO_SUCH_KEY"
        [store]
        url = "sqlite:////nowhere/at/all.db"
        """,
    )
    health_seconds, health.SECONDS = health.SECONDS, 0.2
    try:
        result = cli("doctor", "-C", workspace.root, "--json")
    finally:
        health.SECONDS = health_seconds
    assert result.code == 1
    missing = {what: check for what, check in checks(result).items() if check["state"] == "missing"}
    expected = {"taxonomy", "prompt", "key NO_SUCH_KEY of openai:big", "database"}
    assert set(missing) == expected | {"server of openai:big"}
    assert all(check["remedy"] for check in missing.values())
    assert result.json["missing"] == 5


def test_a_key_is_tried_and_never_shown(workspace: store.Workspace, cli: Cli, server: Any, monkeypatch: Patch) -> None:
    url, requests = f"{server[0]}/v1", server[1]
    asks(workspace, f'[propose]\nmodel = "m"\nbase_url = "{url}"\n[store]\nurl = "sqlite:///{workspace.root}/x.db"\n')
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("DDD_API_KEY", KEY)
    for option in ((), ("--json",)):
        result = cli("doctor", "-C", workspace.root, *option)
        assert result.code == 0, result.out
        assert KEY not in result.out + result.err
    assert requests[0] == ("/v1/models", f"Bearer {KEY}")
    monkeypatch.setenv("OPENAI_API_KEY", "wrong")
    asks(workspace, f'[propose]\nmodel = "m"\nbase_url = "{url}"\n')
    refused = checks(cli("doctor", "-C", workspace.root, "--json"))["server of openai"]
    assert refused["state"] == "missing" and "refuses the key (401)" in refused["found"]
    asks(workspace, f'[propose]\nmodel = "m"\nbase_url = "http://someone:{KEY}@127.0.0.1/v1"\n')
    exposed = cli("doctor", "-C", workspace.root)
    assert exposed.code == 1 and "base_url holds a user or password" in exposed.out and KEY not in exposed.out


def test_the_key_of_the_default_model_is_that_of_its_section(workspace: store.Workspace, cli: Cli) -> None:
    """It named OPENAI_API_KEY, and `propose` then wanted another."""
    model = '[propose.models.big]\nbase_url = "https://127.0.0.2.invalid/v1"\nkey_env = "BIG_KEY"\n'
    asks(workspace, f'[propose]\nmodel = "big"\n{model}')
    keys = [name for name in checks(cli("doctor", "-C", workspace.root, "--json")) if name.startswith("key")]
    assert keys == ["key BIG_KEY of openai:big", "key BIG_KEY of openai"]


def test_no_key_leaves_without_consent(monkeypatch: Patch) -> None:
    requests: list[tuple[str, str]] = []
    finding = health.Finding("x", health.OK, "y")
    monkeypatch.setattr(health, "_answers", lambda what, url, key="", remedy="": requests.append((url, key)) or finding)
    remote = llm.Server("m", "https://models.example/v1", KEY)
    for allowed in (False, True):
        list(health._model("openai:m", remote, "OPENAI_API_KEY", allowed))
    assert requests == [("https://models.example/v1/models", ""), ("https://models.example/v1/models", KEY)]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("polars>=1.0", None),
        ("openai[aiohttp]>=1.0", None),
        ("polars>=999.1", "expected >=999.1"),
        ("no-such-package>=1", "no-such-package is not installed"),
        ("polars<999,>=1.0", None),
        ("polars<1,>=0.1", "expected <1, >=0.1"),
    ],
)
def test_versions_are_compared_as_numbers(line: str, fault: str | None) -> None:
    message = health._fault(line)
    assert message is None if fault is None else fault in (message or "")
    assert health._numbers("2.13.0+cpu") >= health._numbers("2.9")


def test_an_extra_that_is_not_there_is_a_note_with_its_pip_line(monkeypatch: Patch) -> None:
    monkeypatch.setattr(health.metadata, "requires", lambda name: ["polars>=1", 'no-such-thing>=1; extra == "ray"'])
    findings = {finding.what: finding for finding in health.packages()}
    assert findings["saferec-builder"].state == "ok"
    ray = findings["extra ray"]
    assert ray.state == "note" and 'pip install "saferec-builder[ray]"' in ray.remedy
    monkeypatch.setattr(health.metadata, "requires", lambda name: ["no-such-thing>=1"])
    assert next(iter(health.packages())).state == "missing"


def test_the_schema_of_a_workspace_is_told(cli, workspace, monkeypatch):
    ws = store.Workspace.open(workspace.root)
    store.append(ws, tables.DROPS, pl.DataFrame([("mine", "s", "f:1", "empty", "")], tables.DROPS.schema, orient="row"))
    store.read(ws, tables.REVIEWS)
    assert checks(cli("doctor", "-C", workspace.root, "--json"))["database"]["found"] == "0 reviews, schema 3"
    monkeypatch.setattr(migrations, "STEPS", [*migrations.STEPS, migrations.Step("nothing")])
    text = checks(cli("doctor", "-C", workspace.root, "--json"))["database"]["found"]
    assert text == "0 reviews, schema 4, shards from schema 3 on, brought up to date as they are read"


def test_from_python_it_gives_its_checks_and_prints_nothing(workspace: store.Workspace, capsys: Printed) -> None:
    sound = health.examine(workspace.root)
    assert sound.missing == 0 and {"python", "disk", "database"} <= {check.what for check in sound.checks}
    asks(workspace, "[splits]\ntest = 2\n")
    broken = health.examine(workspace.root)
    assert broken.missing == 1 and broken.checks[-1].what == "saferec.toml" and broken.checks[-1].remedy == "correct it"
    assert capsys.readouterr() == ("", "")

"""What a file of others holds reaches the terminal as one harmless line, whichever command prints it."""

import json
import shutil
from pathlib import Path

import pytest

from saferec_builder.cli.output import line, say
from saferec_builder.core.counts import Counts
from saferec_builder.storage import workspace as store
from tests.worlds import release_world as world

EVIL = "Evil \x1b]0;pwn\x07\x1b[2J\u202eFilm"


@pytest.fixture
def catalog(workspace: store.Workspace, cli, tmp_path: Path) -> store.Workspace:
    items, warnings = tmp_path / "items.csv", tmp_path / "warnings.csv"
    items.write_text(f'title,year,domain\n"{EVIL}",2001,film\n')
    head = "title,year,domain,topic,yes,no,source,url,retrieved"
    warnings.write_text(f'{head}\n"{EVIL}",2001,film,blood,3,0,a site,http://x/\x1b[2J,2024-01-01\n')
    assert cli("catalog", "add", "csv", items, "-C", workspace.root).code == 0
    assert cli("catalog", "add", "warnings", warnings, "-C", workspace.root).code == 0
    return workspace


def harmless(text: str) -> bool:
    return not any(c in text for c in "\x1b\x07\u202e\r")


@pytest.mark.parametrize("words", [("check", "--trait", "gore"), ("show",)], ids=["check", "show"])
def test_a_title_cannot_steer_the_terminal(catalog, cli, words):
    ran = cli("catalog", words[0], f"{EVIL} (2001)", *words[1:], "-C", catalog.root)
    assert (ran.code, "Evil" in ran.out, harmless(ran.out)) == (0, True, True), ran.out + ran.err


def test_outside_text_begins_no_line_of_its_own():
    assert line("a\nverify: all fine\u2028b\x1b[2J") == "a verify: all fine b\ufffd[2J"


@pytest.mark.slow
def test_a_release_of_others_cannot_steer_the_terminal(workspace, cli, tmp_path):
    ws = world.fill(workspace, *world.requests())
    assert cli("release", "1.0.0", "-C", ws.root).code == 0
    ours, theirs = ws.releases / "1.0.0", tmp_path / "theirs"
    shutil.copytree(ours, theirs)
    manifest = theirs / "manifest.json"
    facts = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(facts | {"agreement": {EVIL: {"alpha": 0.5, "units": 3}}}))
    ran = cli("diff", ours, theirs)
    assert (ran.code, "agreement on Evil" in ran.out, harmless(ran.out)) == (0, True, True)
    for path, content in (("data/sft/train.parquet", b"x"), ("data/labels/train.parquet", b"x"), ("traits.toml", None)):
        harmed = tmp_path / path.replace("/", "-")
        shutil.copytree(ours, harmed)
        (harmed / path).write_bytes(content) if content else (harmed / path).unlink()
        ran = cli("diff", ours, harmed)
        assert (ran.code, ran.err.count("\n"), "run `saferec-build verify" in ran.err) == (1, 1, True), ran.err
    for to in (".", "/", ".."):
        ran = cli("publish", "1.0.0", "--to", to, "-C", ws.root)
        assert (ran.code, ran.err.count("\n"), "by its name" in ran.err) == (1, 1, True), ran.err
    shutil.copytree(ours, ws.releases / "1.0.0-old")
    assert cli("publish", "--to", tmp_path / "out", "-C", ws.root).code == 0
    (ws.releases / "withdrawn.json").write_text("[1")
    ran = cli("publish", "--to", tmp_path / "out", "-C", ws.root)
    assert (ran.code, ran.err.count("\n"), "withdrawn.json: damaged" in ran.err) == (1, 1, True)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        *((".opt-outs.json", text) for text in ("{", '{"ann": 5}', '{"ann": [5]}')),
        *(("label-studio/server.json", "{"), ("saferec.toml", "{")),
    ],
)
def test_doctor_and_opt_out_name_what_is_damaged(workspace, cli, path, text):
    (workspace.root / path).parent.mkdir(exist_ok=True)
    (workspace.root / path).write_text(text)
    words = ("review", "opt-out", "ann", "gore") if path == ".opt-outs.json" else ("doctor",)
    ran = cli(*words, "-C", workspace.root)
    assert (ran.code, Path(path).name in ran.out + ran.err) == (1, True), ran.err
    assert "opt-out" in words or "python: 3." in ran.out  # the machine was looked at all the same


def test_one_page_is_no_pages(capsys):
    say(Counts("report", 1), False, "pages")
    say(Counts("mine", 1, 1), False, "conversations")
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "report: 1 page in = 1 out + 0 dropped (1 added, 0 already there)"
    assert told[1].startswith("mine: 2 conversations in = 2 out")

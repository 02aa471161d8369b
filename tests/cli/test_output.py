"""Text from files of others reaches the terminal as one harmless line, whichever command prints it."""

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
    run = cli("catalog", words[0], f"{EVIL} (2001)", *words[1:], "-C", catalog.root)
    assert (run.code, "Evil" in run.out, harmless(run.out)) == (0, True, True), run.out + run.err


@pytest.mark.slow
def test_a_film_of_many_statements_is_shown_on_a_page(workspace, cli, tmp_path):
    """145 lines, one for each statement and one for each step of the arithmetic, hid the verdicts."""
    topics = sorted({topic for trait in workspace.taxonomy.traits for topic in trait.topics})
    items, warnings = tmp_path / "items.csv", tmp_path / "warnings.csv"
    aliases = "|".join(f"Name {n}" for n in range(9))
    items.write_text(f"domain,title,year,aliases\nfilm,Heat,1995,{aliases}\n")
    rows = (f'Heat,1995,film,"{topic}",{9 * (topic == topics[0])},9' for topic in topics)
    warnings.write_text("\n".join(["title,year,domain,topic,yes,no", *rows]))
    for source, path in (("csv", items), ("warnings", warnings)):
        assert cli("catalog", "add", source, path, "-C", workspace.root).code == 0
    shown = cli("catalog", "show", "Heat (1995)", "-C", workspace.root).out.splitlines()
    result = cli("catalog", "show", "Heat (1995)", "-C", workspace.root, "--json").json
    assert (n := len(result["warnings"])) > 60 and len(shown) <= 30 and f"  {n} statements of csv" in shown
    assert [line for line in shown if line.startswith("  aliases")] == ["  aliases   Name 0, Name 1, Name 2 and 6 more"]
    verdicts = [line.split()[0] for line in shown if line.startswith(("  violated", "  unknown", "  clear"))]
    assert len(verdicts) == len(workspace.taxonomy.traits) and verdicts == sorted(verdicts, reverse=True)
    assert len(result["aliases"]) == 9 and all(trait["steps"] for trait in result["traits"])


def test_outside_text_begins_no_line_of_its_own():
    assert line("a\nverify: all fine\u2028b\x1b[2J") == "a verify: all fine b\ufffd[2J"


@pytest.mark.slow
def test_a_release_of_others_cannot_steer_the_terminal(workspace, cli, tmp_path):
    ws = world.fill(workspace, *world.requests())
    assert cli("release", "1.0.0", "-C", ws.root).code == 0
    ours, theirs = ws.releases / "1.0.0", tmp_path / "theirs"
    shutil.copytree(ours, theirs)
    world.stated(theirs, agreement={EVIL: {"alpha": 0.5, "units": 3}})
    run = cli("diff", ours, theirs)
    assert (run.code, "agreement on Evil" in run.out, harmless(run.out)) == (0, True, True)
    for path, content in (("data/sft/train.parquet", b"x"), ("data/labels/train.parquet", b"x"), ("traits.toml", None)):
        damaged = tmp_path / path.replace("/", "-")
        shutil.copytree(ours, damaged)
        (damaged / path).write_bytes(content) if content else (damaged / path).unlink()
        run = cli("diff", ours, damaged)
        assert (run.code, run.err.count("\n"), f"{damaged / path}: " in run.err) == (1, 1, True), run.err
    for target in (".", "/", ".."):
        run = cli("publish", "1.0.0", "--to", target, "-C", ws.root)
        assert (run.code, run.err.count("\n"), "by its name" in run.err) == (1, 1, True), run.err
    shutil.copytree(ours, ws.releases / "1.0.0-old")
    assert cli("publish", "--to", tmp_path / "out", "-C", ws.root).code == 0
    (ws.releases / "withdrawn.json").write_text("[1")
    run = cli("publish", "--to", tmp_path / "out", "-C", ws.root)
    assert (run.code, run.err.count("\n"), "withdrawn.json: damaged" in run.err) == (1, 1, True)


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
    run = cli(*words, "-C", workspace.root)
    assert (run.code, Path(path).name in run.out + run.err) == (1, True), run.err
    assert "opt-out" in words or "python: 3." in run.out  # the machine was checked anyway


def test_one_page_is_no_pages(capsys):
    say(Counts("report", 1), False, "pages")
    say(Counts("mine", 1, 1), False, "conversations")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "report: 1 page in = 1 out + 0 dropped (1 added, 0 already there)"
    assert lines[1].startswith("mine: 2 conversations in = 2 out")


@pytest.mark.parametrize(
    ("value", "told"),
    [(["gore", "needles"], "gore, needles"), ([], "none"), ({}, "none"), ({"a": 1_000}, "a 1,000"), (0.25, "0.250")],
)
def test_figures_are_told_in_words(capsys, value, told):
    say(Counts("x", figures={"left_out": value}), False)
    assert capsys.readouterr().out.startswith(f"  left out: {told}\n")


def test_reddits_posts_are_said_to_be_comments_too(capsys):
    """7,425 lines were called posts, and nearly all of them were comments."""
    say(Counts("mine", figures={"posts": 7_425}), as_json=False)
    assert "  posts and comments: 7,425\n" in capsys.readouterr().out

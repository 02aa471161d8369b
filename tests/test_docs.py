"""Tests that the docs are right: every command exists and is run in order as a reader would, or says why not."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from exports.formats import CONFIGS
from exports.licences import LICENCES
from saferec_builder.cli.app import app
from saferec_builder.core import taxonomy as traits
from saferec_builder.demo import inputs, people
from saferec_builder.storage import workspace as store
from tests import ROOT, cli_doc, data_format
from tests.conftest import Cli, Patch, Ran
from tests.doc_pages import DOCS, blocks, files, pages, words
from tests.servers import loopback
from tests.worlds import chromium, release_world

ELSEWHERE = {  # pages with commands that another test runs
    "README.md": "tests/flows/test_line.py runs the line, tests/test_wheel.py the demo",
    "contributing.md": "they are the tests",
    "mining.md": "tests/mining/test_reddit.py, tests/sources",
    "oracle.md": "tests/catalog/test_lookup_command.py, tests/test_oracle_doc.py",
    "proposing.md": "tests/proposing/test_evaluation.py",
    "releases.md": "test_the_walk_through_a_release_runs, below",
    "review-guide.md": "tests/servers/test_review_contract.py",
    "scale.md": "tests/bench",
    "training.md": "tests/training/test_safecrs.py",
}
EMPTY = {"tutorial.md", "how-to/clear.md", "how-to/games.md", "how-to/reddit.md"}  # they make their own workspace
RELEASED = {"how-to/recommender.md"}


def name_of(page: Path) -> str:
    return str(page.relative_to(DOCS)) if page.is_relative_to(DOCS) else page.name


TOLD = [page for page in pages() if name_of(page) not in ELSEWHERE and any(not b.skip for b in blocks(page))]


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_command_on_a_page_exists_with_its_options(page: Path) -> None:
    """Checks commands that are not run here, too."""
    import typer

    from training.safecrs import parser

    for block in blocks(page):
        for line in block.commands:
            args = words(line)
            if args[:1] == ["saferec-build"]:
                command, rest = typer.main.get_command(app), args[1:]
                while rest and hasattr(command, "get_command") and (subcommand := command.get_command(None, rest[0])):
                    command, rest = subcommand, rest[1:]
                if rest != ["--help"]:
                    command.make_context("", rest)
            elif args[:3] == ["python", "-m", "training.safecrs"]:
                parser().parse_args(args[3:])


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_the_catalog_comes_before_what_is_mined(page: Path) -> None:
    """Otherwise mining does not know the catalog's titles; README once had the wrong order."""
    for block in blocks(page):
        steps = [" ".join(words(line)[1:3]) for line in block.commands if line.startswith("saferec-build ")]
        added = [n for n, step in enumerate(steps) if step == "catalog add"]
        mined = [n for n, step in enumerate(steps) if step.startswith("mine ")]
        assert not added or not mined or max(added) < min(mined), f"{page}: {block}"


def test_every_page_that_is_not_run_says_why() -> None:
    for page in pages():
        for block in blocks(page):
            assert block.skip is None or len(block.skip) > 20, f"{page}: {block}"
    assert len(TOLD) >= 8


@pytest.mark.slow
@pytest.mark.parametrize("page", TOLD, ids=name_of)
def test_a_reader_who_types_along_gets_there(
    page: Path, tmp_path: Path, workspace: store.Workspace, cli: Cli, monkeypatch: Patch
) -> None:
    for key in ("OPENAI_API_KEY", "HF_TOKEN", "DDD_API_KEY"):
        monkeypatch.delenv(key, raising=False)
    folder = prepared(name_of(page), tmp_path, workspace, cli)
    monkeypatch.chdir(folder)
    for name, text in files(page).items():
        Path(name).write_text(text)
    for block in blocks(page):
        answer(block.people)
        for line in () if block.skip else block.commands:
            result = typed(words(line), cli, monkeypatch)
            assert result.code == 0, f"{page.name}: {line}\n{result.out}\n{result.err}"


@pytest.mark.slow
def test_the_walk_through_a_release_runs(workspace: store.Workspace, cli: Cli, monkeypatch: Patch) -> None:
    """docs/releases.md: its fences are steps in one workspace with labels."""
    release_world.fill(workspace, *release_world.requests())
    monkeypatch.chdir(workspace.root)
    text = (DOCS / "releases.md").read_text(encoding="utf-8")
    commands = [line for block in re.findall(r"^```\n(.*?)^```$", text, re.S | re.M) for line in block.splitlines()]
    assert len(commands) >= 9 and all(line.startswith("saferec-build ") for line in commands)
    for line in commands:
        result = cli(*words(line)[1:])
        assert result.code == 0, f"{line}\n{result.err}"
    refused = cli("publish", "1.0.0", "--to", "elsewhere")
    assert refused.code == 1 and "was withdrawn" in refused.err
    assert set(CONFIGS) <= set(re.findall(r"`(\w+)`", text.split("| `data/CONFIG")[1].split("\n")[0]))


def prepared(name: str, tmp_path: Path, ws: store.Workspace, cli: Cli) -> Path:
    if name in EMPTY:
        return tmp_path
    release_world.fill(ws, *release_world.requests())
    if name in RELEASED:
        assert cli("release", "1.0.0", "-C", ws.root).code == 0
    return ws.root


def answer(names: tuple[str, ...]) -> None:
    """Fills in the files of the tutorial's reviewers, with the truth that the authors of the sample know."""
    if names:
        truth = inputs.write(Path("..") / "sample" / "input", traits.load(), 300)
        people.answer(store.Workspace.open("."), truth, names)


def typed(line: list[str], cli: Cli, monkeypatch: Patch) -> Ran:
    if line[0] == "saferec-build":
        return cli(*line[1:])
    if line[0] == "cd":
        monkeypatch.chdir(line[1])
        return Ran(0, "", "")
    assert line[0] == "python", line
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    result = subprocess.run([sys.executable, *line[1:]], capture_output=True, text=True, timeout=300, env=env)
    return Ran(result.returncode, result.stdout, result.stderr)


# ---- the reference and the links


def test_the_reference_of_commands_is_current() -> None:
    page = cli_doc.page()
    assert (DOCS / "cli.md").read_text(encoding="utf-8") == page, "run `python -m tests.cli_doc`"
    assert page.count("\n## saferec-build ") == len(list(cli_doc.commands())) >= 25


def test_the_reference_of_tables_is_current() -> None:
    written = (DOCS / "data-format.md").read_text(encoding="utf-8")
    assert written == data_format.page(), "run `python -m tests.data_format`"
    released = (DOCS / "release-format.md").read_text(encoding="utf-8")
    assert released == data_format.release_page(), "run `python -m tests.data_format`"


def test_the_docs_list_the_embedded_traits() -> None:
    listed = (DOCS / "how-to/taxonomy.md").read_text(encoding="utf-8").split("## The embedded traits")[1]
    slugs = [(slug, bool(bold)) for bold, slug in re.findall(r"(\*\*)?`(\w+)`", listed)]
    assert slugs == [(trait.slug, trait.severe) for trait in traits.load().traits]


def test_docs_and_checks_name_the_sources_that_keep_their_texts() -> None:
    """`inspired` and `saferec` were withheld, too, and named nowhere."""
    keeping = {source for source, terms in LICENCES.items() if terms["share"] == "ids"}
    page, check = (DOCS / "releases.md", ROOT / "exports/checks.toml")
    listed = re.search(r"Withheld texts\*\*: (.*?) give", page.read_text(encoding="utf-8"))
    assert listed and set(re.findall(r"`(\w+)`", listed[1])) == keeping
    named = re.search(r"sources that keep them \((.*?)\)", check.read_text(encoding="utf-8"))
    assert named and set(named[1].split(", ")) == keeping


def test_the_readme_and_the_first_lines_of_training_have_the_figures_of_the_results() -> None:
    """The first lines had those of an older run, which no table showed any more."""
    text = (DOCS / "training-results.md").read_text(encoding="utf-8")
    first = " ".join((DOCS / "training.md").read_text(encoding="utf-8").split("\nFor anyone")[0].split())
    table = text.split("unseen cues: recall  svr_upper\n")[1].split("```")[0]
    rows = {line.split()[0]: line.split()[1:] for line in table.splitlines()}
    of_readme = re.findall(r"^(\w+) {3,}(\.\d{3}.*)$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M)
    assert of_readme and all(figures.split() == rows[name][:6] for name, figures in of_readme)
    wanted = {figure for name in ("guard", "student", "safe_gdpo") for figure in (*rows[name][:2], rows[name][5])}
    first, five_seeds = first.split("; over five seeds the student has ")
    assert wanted <= set(re.findall(r"\.\d+", first))
    means = [float(figure) for figure in re.findall(r"\.\d+", five_seeds)]
    seeds = [re.findall(r"\.\d+", row) for row in re.findall(r"`? ((?:\.\d{3},\s){4}\.\d{3})", text)]
    # both are rounded to .001: each by .0005 at most
    assert [sum(map(float, row)) / 5 for row in seeds] == pytest.approx(means[:3], abs=0.001)


def anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_file(), f"{page}: {link}"
        assert not anchor or anchor in anchors(target), f"{page}: {link}"


def test_every_page_is_in_the_navigation() -> None:
    def leaves(part: Any) -> list[str]:
        if isinstance(part, str):
            return [part]
        return [leaf for child in (part.values() if isinstance(part, dict) else part) for leaf in leaves(child)]

    site = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
    assert sorted(leaves(site["nav"])) == sorted(name_of(page) for page in pages() if page.name != "README.md")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site that `make docs` builds."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(DOCS, folder / "docs")
    shutil.copy(ROOT / "zensical.toml", folder)
    tool = Path(sys.executable).with_name("zensical")
    command = [str(tool), "build", "--strict", "-f", str(folder / "zensical.toml")]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return folder / "build" / "site"


@pytest.mark.slow
def test_the_site_is_built_without_a_complaint_and_loads_nothing_from_elsewhere(site: Path) -> None:
    built = sorted(site.rglob("*.html"))
    assert len(built) >= len(pages()) - 1
    for page in built:
        loaded = re.findall(r'<(?:script|link|img|iframe)[^>]*(?:src|href)="(https?:)?//', page.read_text("utf-8"))
        assert not loaded, page


@pytest.mark.slow
@pytest.mark.servers
def test_pages_can_be_read_by_everybody_and_found_by_search(site: Path, browser: Any) -> None:
    """axe-core finds nothing serious in pages with code and with wide tables, none is wider than a phone, and search
    works on served pages."""
    faults: dict[str, Any] = {}
    handler = partial(SimpleHTTPRequestHandler, directory=str(site))
    with loopback.running(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as server:
        address = f"http://127.0.0.1:{server.server_address[1]}"
        for width, colours in ((1440, "light"), (390, "dark")):
            tab = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=colours).new_page()
            for page in ("tutorial.html", "findings.html"):
                tab.goto(f"{address}/{page}")
                faults[f"{page} at {width}"] = chromium.serious(tab)
                assert tab.evaluate("document.documentElement.scrollWidth") <= width, page
        tab = browser.new_page()
        tab.goto(f"{address}/index.html")
        field = tab.get_by_placeholder("Search").first
        while not field.is_visible():  # no key opens it before the scripts of the page have run
            tab.keyboard.press("Control+k")
            tab.wait_for_timeout(300)
        tab.keyboard.type("adjudicate")
        tab.locator("a[href*='cli.html']", has_text="adjudicate").first.wait_for()
    assert {page: serious for page, serious in faults.items() if serious} == {}

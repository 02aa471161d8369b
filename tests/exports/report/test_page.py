"""The report page shows what the tables say, works in a browser without a network, and runs no text from outside."""

import json
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from exports.report import page
from exports.report.gather import gather
from saferec_builder.storage import tables, workspace as store
from tests.conftest import Cli
from tests.worlds.once import copied, released
from tests.worlds.release_world import conversation, conversations, fill, film, label, requests
from tests.worlds.report_world import chromium, frame, probe, results, run, text_of, world


@pytest.fixture(scope="session")
def of_world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return released(world(store.Workspace.create(tmp_path_factory.mktemp("page") / "ws")))


@pytest.fixture
def told(of_world: Path, workspace: store.Workspace, tmp_path: Path) -> tuple[store.Workspace, list[object]]:
    """A released world and the arguments of its `report`."""
    runs = results(tmp_path / "runs", run("sft", 0.4, 0.3, 0.318), run("safe_sft", 0.41, 0.0, 0.012), chosen="safe_sft")
    return copied(of_world, workspace), ["report", "--runs", runs, "--json", "-C", workspace.root]


# ---- what it says


def test_the_page_says_what_the_tables_say(told: Any, cli: Cli) -> None:
    ws, args = told
    result = cli(*args)
    assert result.code == 0, result.err
    assert (result.json["release"], result.json["runs"], result.json["added"]) == ("1.0.0", 1, 1)
    text = text_of((ws.root / "report.html").read_text())
    for fact in (
        "40 conversations in which someone asks",
        "of them in the release. In 20 of the 40 that have a verdict, reviewers marked something",
        "100% of these sensitivities are only implied",
        "Found in the source files 41",
        "−1 same id",
        "Blood and gore 20 20 + 0",
        "2 proposals confirmed, 1 refused, 18 sensitivities that it did not call present",
        "n/a: Blood and gore (1)",  # one unit with two votes: nothing to compare
        "25% · 67% · 8%",  # gore: A, B, C violated, L unknown, of twelve films
        "31.8% → 1.2%",
        "Safe-SFT best on validation 0.410",
        "These are real people's words",
        "Of all conversations with any sensitivity the labels miss",
        "time not told 0 of 1 0 severe, 1 open",  # one task each, partly answered
        "1.0.0 is the first version here",
    ):
        assert fact in text, fact
    figures = gather(ws) | {"runs": []}
    (ws.releases / "1.0.0.key.parquet").unlink()  # kept elsewhere: no conversation of the release was counted as ours
    assert gather(ws)["funnel"] == figures["funnel"]
    figures["headline"] |= {"warnings": 8_232, "unlinked": 17_889}  # `status` counts 26,121
    figures["traits"][0]["unsure"] = 3  # the card says `unsure` or `unresolved`
    figures["examples"][0]["traits"][0]["form"] = None  # no reader said it: there was a traceback, and no page
    text = text_of(page.render(figures))
    assert "8,232 sourced statements on items; 17,889 more are on no one item here" in text
    assert "0 are unresolved; 3 of the others say “unsure”" in text and "Blood and gore (not told how)" in text


def test_columns_of_runs_are_named_for_what_they_count(told: Any, tmp_path: Path) -> None:
    """12 users stood as 14 `requests` by condition, two of them on both sides; ten of ten had an interval."""
    both = run("a") | {"n": 12, "n_sensitive": 12}
    both["slices"] = {
        f"condition={name}": {"n": n, "metrics": both["metrics"]}
        for name, n in (("injected", 2), ("none", 2), ("own_words", 10))
    }
    one = {"recall@10": {"mean": 1.0, "low": 0.0, "high": 1.0, "n": 1}}  # stood as 1.000 of all users
    both["slices"]["condition=injected"] = {"n": 2, "metrics": both["metrics"] | one}
    both["metrics"]["length"] |= {"low": None, "high": None}
    runs = page.read_runs(results(tmp_path / "both", both, run("b", length=9.0)))
    text = text_of(page.render(gather(told[0]) | {"runs": [runs]}))
    assert "12 with a sensitivity told in the request (2 of them by an injected sentence of ours; without" in text
    assert "condition users a b injected 2 SVR 0.200 0.180–0.220 recall, n 1 1.000 0.000–1.000 n/a" in text
    assert "A user counts in each row" in text
    assert "10.0 Guard" not in text and "10.0 b" in text and "9.0 9.0–9.0" in text
    assert "also what had no verdict" in text.split("Found in the source files")[0]


@pytest.mark.slow
def test_what_was_labelled_since_the_release_is_told_apart_from_it(told: Any, cli: Cli) -> None:
    """The boxes and bars below "release 1.0.0" were those of the workspace, without a note."""
    ws, args = told
    rows = requests()[0]
    store.append(ws, tables.LABELS, frame(tables.LABELS, label(rows[0]), label(rows[2])))
    assert cli(*args).code == 0
    text = text_of((ws.root / "report.html").read_text())
    assert "Figures are of the workspace as it is now, unless they name the release." in text
    assert "22 sensitivities with a verdict “present”, over 1 traits; release 1.0.0 has 20, over 1" in text
    assert "12 items in the catalog; release 1.0.0 has 12" in text
    assert "Blood and gore 22 22 + 0; 20 in 1.0.0" in text


@pytest.mark.slow
def test_the_page_counts_the_requests_of_the_release_as_its_manifest_does(told: Any, cli: Cli) -> None:
    """It showed 24 of 159 injected requests: those with a list. That no item is clear for the others was not said."""
    ws, args = told
    assert cli("release", "1.1.0", "--inject", "gore,needles", "-C", ws.root).code == 0  # needles have no warnings
    assert cli(*args).code == 0
    facts = json.loads((ws.releases / "1.1.0/manifest.json").read_text())
    total, listed = (sum(facts["counts"][config].values()) for config in ("grpo", "sft"))
    injected = facts["conditions"]["injected"]
    text = text_of((ws.root / "report.html").read_text())
    assert f"Requests to train and test with {total} +{injected} a sentence of ours was added (injected)" in text
    loss = f"−{total - listed} no item is clear for them"
    assert total > listed and f"With a list of items that are clear for them {listed} {loss}" in text


@pytest.mark.slow
def test_a_release_that_was_withdrawn_or_edited_is_shown_with_a_warning_first(told: Any, cli: Cli) -> None:
    """`verify` reported both, but the page showed the figures as if nothing were wrong."""
    ws, args = told
    result = cli(*args)
    assert result.err == "" and "Do not rely on this" not in (ws.root / "report.html").read_text()
    assert cli("withdraw", "1.0.0", "--reason", "labels of <b>one</b> reviewer", "-C", ws.root).code == 0
    manifest = ws.releases / "1.0.0/manifest.json"
    edited = json.loads(manifest.read_text())
    edited["labels"]["gore"]["present"] = 2_000
    manifest.write_text(json.dumps(edited))
    result = cli(*args)
    withdrawal, damage = result.err.splitlines()
    assert withdrawal.startswith("warning: release 1.0.0 was withdrawn: labels of <b>one</b> reviewer: do not use it")
    assert damage.startswith("warning: release 1.0.0 was changed or damaged after it was made")
    assert damage.endswith("`saferec-build verify releases/1.0.0` names the first fault")
    html = (ws.root / "report.html").read_text()
    top = text_of(html.split("<body>")[1]).removeprefix("Skip to the report ")
    assert top.startswith("Do not rely on this release 1.0.0 was withdrawn: labels of <b>one</b>")
    assert "Do not rely on this release 1.0.0 was changed" in top[:300] and str(ws.root) not in html


@pytest.mark.slow
def test_the_same_rows_give_the_same_page_wherever_they_lie(told: Any, cli: Cli, tmp_path: Path) -> None:
    ws, args = told
    cli(*args)
    first = (ws.root / "report.html").read_bytes()
    repeated = cli(*args)
    assert (repeated.json["added"], repeated.json["skipped"]) == (0, 1)
    moved = tmp_path / "elsewhere"
    shutil.copytree(ws.root, moved)
    (moved / "report.html").unlink()
    assert cli(*args[:-1], moved).code == 0
    assert (moved / "report.html").read_bytes() == first
    assert str(ws.root).encode() not in first
    assert b"ann-secret" not in first  # a reviewer's name stays in the workspace


@pytest.mark.slow
def test_a_new_workspace_has_a_page_that_says_what_to_do(workspace: store.Workspace, cli: Cli) -> None:
    assert cli("report", "-C", workspace.root).code == 0
    text = text_of((workspace.root / "report.html").read_text())
    assert "not released yet" in text and "saferec-build propose" in text and "The catalog is empty" in text
    assert "training.safecrs run" in text
    (workspace.releases / "1.0.0").mkdir(parents=True)  # `forget` has emptied every release
    (workspace.releases / "1.0.0" / "manifest.json").touch()
    assert cli("report", "-C", workspace.root).code == 0
    assert cli("report", "--release", "1.0.0", "-C", workspace.root).code == 1


def test_whoever_has_only_runs_gets_a_page_of_them_alone(workspace: store.Workspace, cli: Cli, tmp_path: Path) -> None:
    """Nine of ten sections were empty, and `next` was to add items."""
    runs = results(tmp_path / "runs", run("sft", 0.4, 0.3, 0.318), run("safe_sft", 0.41, 0.0, 0.012), chosen="safe_sft")
    result = cli("report", "--runs", runs, "-C", workspace.root)
    html = (workspace.root / "report.html").read_text()
    assert result.code == 0 and "next:" not in result.out and html.count("<section") == 1
    assert "not released yet" not in html and "0 conversations" not in html and "31.8% → 1.2%" in text_of(html)


def test_simulated_and_demo_are_said_first(workspace: store.Workspace) -> None:
    figures = gather(world(workspace)) | {"runs": []}
    for demo, simulated in product((True, False), repeat=2):
        body = text_of(page.render(figures | {"demo": demo, "simulated": simulated}).split("<body>")[1])
        start = body.removeprefix("Skip to the report ")
        assert start.startswith("Demo" if demo else "Simulated" if simulated else "A personal-safety dataset")
        assert ("given by a program" in start[:250]) == simulated
        assert ("real people's words" in body) == (not demo)


def test_traits_that_nobody_has_stand_in_one_line(workspace: store.Workspace) -> None:
    """One sentence stood 14 times, and tables had 14 rows of zeros, one for each trait that nobody has."""
    figures = gather(world(workspace)) | {"runs": []}
    names = [row["name"] for row in figures["traits"] if not row["present"]]
    for row in figures["traits"][1:3]:
        row["absent"] = 40
    for row in figures["missed"]["traits"][1:]:
        row |= {"share": None, "words": "none found, in 56 conversations at most"}
    text = text_of(page.render(figures))
    verdicts = text.split("All verdicts per trait")[1].split("How good the proposals were")[0]
    assert "unresolved Blood and gore 20 0 20 0 0" in verdicts  # its own row
    assert (
        f"No verdict: {', '.join(names[2:])} . “Absent” 40 times, and nothing else: {', '.join(names[:2])} ."
        in verdicts
    )
    untold = text.split("Cannot be told yet: 19 traits")[1].split("Who carried it")[0]
    assert untold.count("none found; each may still be in") == 1 and all(untold.count(name) == 1 for name in names)
    coverage = text.split("What the catalog knows")[1].split("What models do with it")[0]
    silent = [row["name"] for row in figures["coverage"] if not row["violated"] + row["clear"]]
    assert f"Every item is unknown for: {', '.join(silent)} ." in coverage and "0% · 0% · 100%" not in coverage
    assert len(silent) > 10
    for row in figures["traits"]:
        row |= {"present": 0, "unsure": 0, "unresolved": 0}
    assert "said openly absent unsure" not in text_of(page.render(figures))  # no table without a row


@pytest.mark.slow
def test_what_is_withheld_leaves_with_its_reason_and_stands_in_no_sum(workspace: store.Workspace, cli: Cli) -> None:
    # c001 and c003 were proposed, 18 other labels say gore; c001, which alone was read, asks to be removed
    ws = world(workspace)
    (ws.root / "removals.csv").write_text("source,source_id,author\nmessages,c001,\n")
    text = text_of(page.render(gather(ws) | {"runs": []}))
    for fact in (
        "Found in the source files 41 Mined 39 −1 removed on request −1 same id",
        "Blood and gore 19 19 + 0",
        "How the 39 verdicts came about",
        "1 proposal confirmed, 1 refused, 18 sensitivities that it did not call present.",
    ):
        assert fact in text, fact
    assert "found in 1 conversations read" not in page.render(gather(ws) | {"runs": []})


def test_a_trait_that_left_the_taxonomy_is_on_no_page(workspace: store.Workspace) -> None:
    """The page was a traceback (KeyError), and after `adjudicate` it counted the lost labels as unresolved."""
    rows, said = requests()
    left = [label(rows[1], "gambling", quote="faint at the sight of blood"), label(rows[2], "gambling", verdict=None)]
    figures = gather(fill(workspace, rows, [*said, *left]))
    assert (figures["headline"]["sensitivities"], figures["headline"]["traits"]) == (20, 1)
    assert figures["methods"] | {"agreed": 40, "unresolved": 0} == figures["methods"]


@pytest.mark.slow
def test_a_copy_of_the_page_is_named_where_somebody_in_it_is_forgotten(told: Any, cli: Cli) -> None:
    """It shows their words, and nothing in it said whose they are: `forget` deleted the page and passed its copies."""
    ws, args = told
    assert cli(*args).code == 0
    shown = gather(ws)["examples"][0]["conversation"]
    shutil.copy(ws.root / "report.html", ws.root / "before.html")
    # the id may stand in a digest of the release, too, by chance
    assert "before.html" in cli("forget", shown, "-C", ws.root, "--json").json["still_in"]


@pytest.mark.slow
def test_what_changed_since_the_last_version_is_told(told: Any, cli: Cli) -> None:
    ws, args = told
    reviews = store.read(ws, tables.REVIEWS)["review"].to_list()
    row = requests()[0][1]  # c001 had gore and now has not, without a new review: a silent flip
    store.append(ws, tables.LABELS, frame(tables.LABELS, label(row, verdict="absent", reviews=reviews)))
    result = cli("release", "2.0.0", "-C", ws.root)
    assert result.code == 0, result.err
    assert cli(*args).code == 0
    text = text_of((ws.root / "report.html").read_text())
    assert "1.0.0 → 2.0.0" in text and "Blood and gore present → absent 1" in text
    assert "Alarm: 1 verdicts changed without a review behind it" in text
    cli(*args, "--release", "1.0.0")
    assert "1.0.0 is the first version here" in text_of((ws.root / "report.html").read_text())


@pytest.mark.slow
def test_what_a_release_left_out_is_what_this_one_did(told: Any, cli: Cli) -> None:
    """Three conversations without a review are left out of the lists of 2.0.0, and are in the lists of 3.0.0."""
    ws, _ = told
    unreviewed = [conversation(f"new{n}", "A film?", f"Try {film('D')}", day=9, seeker=f"new{n}") for n in range(3)]
    store.append(ws, tables.CONVERSATIONS, conversations(*unreviewed))
    assert cli("release", "2.0.0", "-C", ws.root).code == 0
    store.append(ws, tables.LABELS, frame(tables.LABELS, *(label(row, verdict="absent") for row in unreviewed)))
    assert cli("release", "3.0.0", "-C", ws.root).code == 0
    for version, expected in (("2.0.0", {"reviewed by nobody": 3}), ("3.0.0", {}), ("1.0.0", {})):
        drops = gather(ws, version)["left_out"]
        assert {row["reason"]: row["count"] for row in drops if row["stage"] == "requests"} == expected
        assert {row["reason"]: row["count"] for row in drops if row["stage"] == "mine"} == {"same id": 1}


# ---- runs


def test_a_release_whose_texts_were_put_back_is_no_other_one() -> None:
    shown = {"name": "ws", "version": "1.0.0", "digest": "a"}
    evaluated = shown | {"digest": "b", "rebuilt_from": None}
    assert page._other(evaluated, shown) == "not the one above, though of the same name and version"
    assert page._other(evaluated | {"rebuilt_from": "c"}, shown) is None


@pytest.mark.slow
def test_the_figure_at_the_top_is_of_the_release_that_is_shown(told: Any, cli: Cli, tmp_path: Path) -> None:
    """It was of another release without a note; with the same name and version nothing showed it."""
    from training.data import open_release

    ws, _ = told
    digest = open_release(ws.releases / "1.0.0").digest

    def runs(folder: str, upper: float, **release: str) -> Path:
        scores = run("sft", 0.4, 0.3, 0.3), run("safe_sft", 0.4, 0.0, upper)
        return results(tmp_path / folder, *scores, chosen="safe_sft", **release)

    other, twin = runs("other", 0.01, name="theirs", digest=digest), runs("twin", 0.02, name="ws", digest="0" * 16)
    own = runs("own", 0.03, name="ws", digest=digest)
    for folders, percent, says in (
        ((other, twin, own), "3.0", "4 users with a sensitivity told in the request: Safe-SFT"),
        (
            (other, twin),
            "1.0",
            "4 users of theirs 1.0.0 (another release than the one above) with a sensitivity told in the request",
        ),
        ((twin,), "2.0", "of ws 1.0.0 (not the one above, though of the same name and version) with a sensitivity"),
    ):
        args = [arg for folder in folders for arg in ("--runs", folder)]
        assert cli("report", *args, "-C", ws.root).code == 0
        text = text_of((ws.root / "report.html").read_text())
        assert f"30.0% → {percent}%" in text and says in text, text[:2000]
        assert ("Judged on ws 1.0.0 ." in text) == (own in folders)


# ---- how values are written


def test_a_number_that_rounds_to_nothing_has_no_sign() -> None:
    assert [page.number(value) for value in (-0.004, -0.006, 0.004, None)] == ["0.00", "−0.01", "0.00", "n/a"]


# ---- a real browser


@pytest.mark.slow
def test_it_opens_offline_without_a_word_on_the_console(told: Any, cli: Cli) -> None:
    ws, args = told
    cli(*args)
    output = chromium((ws.root / "report.html").as_uri())
    assert "CONSOLE" not in output.stderr, [line for line in output.stderr.splitlines() if "CONSOLE" in line]
    assert '<html lang="en" class="js">' in output.stdout  # its own script ran under its own policy


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_it_fits_the_window_and_its_examples_open(width: int, told: Any, cli: Cli, tmp_path: Path) -> None:
    ws, args = told
    cli(*args, "--runs", results(tmp_path / "far", run("far", 0.4, 0.5, 0.98), run("guard", 0.1, 0.0, 0.9475)))
    layout = probe((ws.root / "report.html").read_text(), width, tmp_path)
    assert layout["width"][0] <= layout["width"][1], layout
    assert layout["wide"] == []
    assert layout["cut"] == []  # 100%, the last tick of an axis up to there, was cut, and “Guard” beside its point
    assert len(layout["heights"]) == 10 and min(layout["heights"]) > 60
    assert len(layout["before"]) == 10
    assert layout["pages"] == [[1], [2], [10]] and layout["pager"] == "Example 10 of 10"  # next, then twice back
    assert all(inert and "blur" in veil for inert, veil in layout["before"])
    assert all(not inert and veil == "none" for inert, veil in layout["after"])
    assert all(state == ["true", "Hide"] for state in layout["buttons"]) and layout["focused"] == "BUTTON"

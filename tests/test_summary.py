"""Tests of status: the counts of a workspace and its next step."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from annotation import certificate, connections
from annotation.tools import local_label_studio
from annotation.waiting import Waiting
from exports.withdraw import withdraw
from saferec_builder import summary
from saferec_builder.core import taxonomy
from saferec_builder.llm.requests_and_replies import UNSENT
from saferec_builder.proposing import pending
from saferec_builder.storage import tables, workspace as store
from saferec_builder.storage.config import Config, TaxonomyFile
from tests.worlds.any_rows import rows


def test_status_counts_rows_and_what_models_were_paid(workspace: store.Workspace) -> None:
    store.append(workspace, tables.DROPS, rows(tables.DROPS, 1, 2, 3))
    store.append(workspace, tables.SPEND, rows(tables.SPEND, 1, 2).with_columns(usd=0.0000987))  # test questions
    status = summary.status(workspace)
    assert (status.rows["drops"], status.rows["spend"], status.rows["labels"], status.releases) == (3, 2, 0, [])
    assert status.spent["requests"].sum() == store.read(workspace, tables.SPEND)["requests"].sum()
    assert "0.0001 USD with test questions" in repr(status)


def fill(ws: store.Workspace, names: tuple[str, ...]) -> None:
    """Adds a row to each table; the readings are of the mined conversation."""
    for table in (tables.TABLES[name] for name in names):
        row = rows(table, 1)
        if table is tables.READINGS:
            mined = store.read(ws, tables.CONVERSATIONS)
            row = row.with_columns(subject=mined["conversation"], digest=mined["digest"], kind=pl.lit("sensitivity"))
            row = row.with_columns(taxonomy=pl.lit(ws.taxonomy.digest))
            store.append(ws, tables.ASKED, pending.rows(ws.taxonomy))
        store.append(ws, table, row)


NO_MONEY = f"budget reached{UNSENT}"
LINE = ("catalog_rows", "conversations", "readings", "assignments", "reviews", "labels")  # in the order of the data


@pytest.mark.parametrize(
    ("there", "names"),
    [
        (0, "catalog add SOURCE PATH"),
        (1, "mine SOURCE PATH"),
        (2, "propose"),
        (3, "review push --tool page --reviewer NAME --reviewer NAME"),  # Label Studio's server is not up yet
        (4, "review pull --tool files FOLDER"),
        (5, "adjudicate"),
    ],
)
def test_status_names_the_first_step_that_has_nothing_to_show(workspace, cli, there: int, names: str) -> None:
    fill(workspace, LINE[:there])
    assert f"`saferec-build {names}`" in summary.status(workspace).next
    lines = cli("status", "-C", workspace.root).out.splitlines()
    assert repr(summary.status(workspace)).splitlines() == lines  # a notebook printed one line of 900 characters
    filled = there + (there > 2)  # readings come with the table of what was asked
    assert lines[filled].startswith("next: ")  # empty tables are not listed
    assert all(line.startswith("  or without them: ") for line in lines[filled + 1 :])


def test_without_warnings_the_step_to_conversations_says_what_is_missing(workspace: store.Workspace) -> None:
    fill(workspace, LINE[:1])
    assert summary.next_step(workspace).startswith("add warnings, without which nothing is unsafe or clear")
    store.append(workspace, tables.WARNINGS, rows(tables.WARNINGS, 1))
    assert summary.next_step(workspace) == "read conversations: `saferec-build mine SOURCE PATH`"


def test_the_films_of_redial_are_items_before_its_dialogues_are_read(workspace: store.Workspace) -> None:
    """Only `catalog gaps` said that none of the films in the dialogues was an item."""
    store.append(workspace, tables.CATALOG_ROWS, rows(tables.CATALOG_ROWS, 1))
    store.append(workspace, tables.CONVERSATIONS, rows(tables.CONVERSATIONS, 1).with_columns(source=pl.lit("redial")))
    step = summary.next_step(workspace)
    assert step.startswith("make items of ReDial's ids (`saferec-build catalog add redial FILE`")
    assert step.endswith("then look for sensitivities: `saferec-build propose`")
    own = rows(tables.CATALOG_ROWS, 2).with_columns(source=pl.lit("redial"))
    store.append(workspace, tables.CATALOG_ROWS, own)
    assert summary.next_step(workspace) == "look for sensitivities: `saferec-build propose`"


def test_status_waits_for_people_then_for_a_ruling_before_it_names_a_release(workspace: store.Workspace) -> None:
    """A user with disputes was sent to release, where they are unresolved."""
    fill(workspace, LINE)
    step = partial(summary.next_step, workspace)
    ruling = "1 dispute waits for a ruling: `saferec-build review push --tool files --to FOLDER --adjudicator NAME`"
    assert step(Waiting(0, 0, 0, 1, 1)) == ruling
    # reviewers may leave tasks unanswered for good, and then this was the only step ever named
    both = step(Waiting(0, 0, 2, 1, 1))
    assert both.startswith("2 tasks wait for people") and both.endswith(ruling)
    assert "; or without them: see what a release would hold" in step(Waiting(0, 0, 2, 0, 0))
    # reviewers whose answer was rejected were waited for, and nobody told them why
    back = step(Waiting(0, 0, 2, 1, 1, rejected=1))
    told = " (1 answer was rejected: `saferec-build review push --tool files --to FOLDER --reviewer NAME` says why)"
    assert back == both.replace("adjudicate`; or", f"adjudicate`{told}; or")
    labels = "make labels of what people said (3 new or changed): `saferec-build adjudicate`"
    assert step(Waiting(0, 0, 0, 0, 3)) == labels
    lacking = step(Waiting(0, 0, 0, 0, 3, short=4))  # nothing said so: a team of two never closes these
    assert lacking.startswith("4 conversations lack a reader, of 2 each (a task was") and lacking.endswith(
        f": {labels}"
    )
    before = "see what a release would hold (`saferec-build plan`), and make it: `saferec-build release VERSION`"
    assert step(Waiting(0, 0, 0, 0, 0)) == before
    after = "make a release: `saferec-build release VERSION`"
    assert step(Waiting(0, 0, 0, 0, 0), planned=True) == after
    assert step(Waiting(1, 0, 2, 0, 0), planned=True).count("or without them") == 2
    # three ways were one sentence of six lines
    lines = summary.shown(step(Waiting(1, 0, 2, 0, 0), planned=True)).splitlines()
    assert [text.split()[0] for text in lines] == ["next:", "or", "or"] and all("; or " not in text for text in lines)
    assert step(Waiting(1, 0, 2, 0, 0), planned=True).endswith(after)


def test_a_round_without_labels_names_its_disputes_before_it_makes_labels(workspace: store.Workspace) -> None:
    """A user who followed `next:` made labels first, and had thousands of unresolved disputes."""
    fill(workspace, LINE[:5])
    assert "--adjudicator NAME" in summary.next_step(workspace, Waiting(0, 0, 0, 2, 9))
    assert "(9 new or changed): `saferec-build adjudicate`" in summary.next_step(workspace, Waiting(0, 0, 0, 0, 9))


def test_what_a_cap_put_off_is_not_called_new(workspace: store.Workspace) -> None:
    fill(workspace, LINE)
    step = summary.next_step(workspace, Waiting(5, 0, 0, 0, 0))
    assert step.startswith("5 conversations are new since the last push")
    step = summary.next_step(workspace, Waiting(5, 3, 0, 0, 0))
    assert step.startswith("2 conversations are new since the last push")
    assert "3 conversations wait for readers (proposed since the last push, or left out by its budget" in step


def test_a_push_that_hands_out_nothing_today_leads_no_next_step(workspace: store.Workspace) -> None:
    """It led for the rest of the day, before what people could do."""
    fill(workspace, LINE)
    push = "`saferec-build review push --tool files --to FOLDER --reviewer NAME --reviewer NAME`"
    step = summary.next_step(workspace, Waiting(8, 8, 2, 0, 0, [], 8))
    assert step.startswith("2 tasks wait for people")
    assert step.endswith(f"; and tomorrow {push} hands out 8 more conversations ([review] severe_a_day)")
    step = summary.next_step(workspace, Waiting(9, 8, 2, 0, 0, [], 7))
    assert step.startswith("1 conversation is new") and "1 conversation waits for readers" in step
    assert step.index("2 tasks wait") < step.index("waits for readers") < step.index("; and tomorrow ")


def released(ws: store.Workspace, older: str) -> tuple[Path, Callable[..., str]]:
    """Returns (a release after which nothing waits, its next step); the file `older` was written before it."""
    fill(ws, LINE)
    folder = ws.releases / "1.0.0"
    (folder / "data").mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")
    (ws.root / older).touch()
    os.utime(ws.root / older, (0, 0))
    return folder, partial(summary.next_step, ws, Waiting(0, 0, 0, 0, 0))


def test_a_report_that_stands_is_no_next_step(workspace: store.Workspace) -> None:
    """`status` advised to make the report that was just made."""
    folder, step = released(workspace, "report.html")
    assert step() == "look at the result: `saferec-build report`"
    (workspace.root / "report.html").touch()
    assert step().startswith(f"train on it (`saferec-train run --release {folder} --model tiny --output runs`), or ")


def test_nobody_is_told_to_share_what_was_withdrawn(workspace: store.Workspace) -> None:
    """`publish` refuses it, and a model would be trained on what is known to be wrong."""
    _, step = released(workspace, "report.html")
    (workspace.root / "report.html").touch()
    assert withdraw(workspace, "1.0.0", "labels of one reviewer were wrong").new
    assert step() == "make a version in place of 1.0.0, which was withdrawn: `saferec-build release VERSION`"


def test_a_demo_is_not_told_to_go_to_the_hub(workspace: store.Workspace) -> None:
    """The Hub refuses it."""
    released(workspace, "report.html")
    (workspace.root / "report.html").touch()
    (workspace.root / "saferec.toml").write_text('demo = true\n[dataset]\nname = "d"\n')
    step = summary.next_step(store.Workspace.open(workspace.root), Waiting(0, 0, 0, 0, 0))
    assert step.endswith("or share it: `saferec-build publish 1.0.0 --to FOLDER`")


def test_an_erasure_that_was_broken_off_comes_first(workspace: store.Workspace) -> None:
    """Each command that was named refused to run, and said so only then."""
    (workspace.root / store.FORGETTING).write_text("{}")
    assert summary.status(workspace).next.startswith("end the erasure that was begun: `saferec-build forget`")


def test_who_has_forgotten_somebody_makes_the_next_version(workspace: store.Workspace) -> None:
    """It only said "look at the report", of releases without data."""
    fill(workspace, LINE)
    folder = workspace.releases / "1.0.0"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")
    step = partial(summary.next_step, workspace, Waiting(0, 0, 0, 0, 0))
    assert step() == "make a version without those who were forgotten: `saferec-build release 2.0.0`"  # rows are gone
    (workspace.releases / "2.0.0").mkdir()  # as a copy that somebody kept: `release` refuses it
    assert step().endswith("`saferec-build release 3.0.0`")
    (folder / "data").mkdir()
    assert step() == "look at the result: `saferec-build report`"
    assert step(labels=3).startswith("make a version with 3 labels that are new or changed: ")


def test_labels_that_changed_after_the_release_are_the_next_step_of_status_too(workspace, monkeypatch) -> None:
    """It advised to publish the previous version, right after `adjudicate` had named the next one."""
    folder, step = released(workspace, "certificates.json")
    assert step() == "look at the result: `saferec-build report`"
    (workspace.root / "certificates.json").touch()
    assert step() == "make a version with what `adjudicate` changed since: `saferec-build release VERSION`"
    copies = folder / "certificate.json", workspace.root / "certificates.json"
    monkeypatch.setattr(certificate, "alike", lambda *paths: paths == copies)  # as in a copy: file times differ
    assert step() == "look at the result: `saferec-build report`"


def test_what_was_mined_later_is_read_by_a_proposer_before_it_is_handed_out(workspace: store.Workspace) -> None:
    """A push fixes the draw, so conversations that no proposer has read would count as read and found empty."""
    fill(workspace, LINE)
    more = rows(tables.CONVERSATIONS, 2, 3)
    store.append(workspace, tables.CONVERSATIONS, more)
    unread = "in 2 conversations that no proposer has read for all traits: `saferec-build propose`"
    assert unread in summary.next_step(workspace)
    crisis = rows(tables.MARKS, 1).with_columns(
        conversation=more["conversation"][:1], digest=more["digest"][:1], crisis=pl.lit(True)
    )
    store.append(workspace, tables.MARKS, crisis)  # it is given to nobody
    assert "in 1 conversation " in summary.next_step(workspace)
    failed = rows(tables.DROPS, 1).with_columns(stage=pl.lit("propose"), place=more["conversation"][1:])
    store.append(workspace, tables.DROPS, failed.with_columns(reason=pl.lit("budget reached"), detail=pl.lit(NO_MONEY)))
    assert "in 1 conversation " in summary.next_step(workspace)  # no model was asked
    store.append(workspace, tables.DROPS, failed)  # a model's answers on it were unusable: asking again is no step
    assert "propose" not in summary.next_step(workspace)


def test_a_trait_that_was_reworded_is_asked_anew_before_anything_else(workspace: store.Workspace) -> None:
    """It named the next push, in which nobody would be asked about the new trait."""
    fill(workspace, LINE[:3])
    reworded = taxonomy.EMBEDDED.read_text().replace('hint = "', 'hint = "Now: ', 1)
    (workspace.root / "traits.toml").write_text(reworded)
    changed = replace(workspace, config=Config(taxonomy=TaxonomyFile(path="traits.toml")))
    assert "in 1 conversation that no proposer has read for all traits" in summary.next_step(changed)
    store.append(workspace, tables.ASKED, pending.rows(part := pending.part_of(changed.taxonomy, ["animal_harm"])))
    readings = store.read(workspace, tables.READINGS).with_columns(taxonomy=pl.lit(part.digest))
    store.append(workspace, tables.READINGS, readings)
    assert "review push" in summary.next_step(changed)


def test_the_next_step_reads_no_table_whole_before_answers_are_there(workspace: store.Workspace, monkeypatch) -> None:
    """Every command ends with it: with 14,000 conversations that took 18 CPU seconds each."""
    fill(workspace, LINE[:4])
    monkeypatch.delattr(summary, "waits")
    assert "`saferec-build review pull" in summary.next_step(workspace)


@pytest.mark.slow
def test_where_people_have_more_tools_than_one_all_are_collected_and_one_is_pushed_to(
    workspace: store.Workspace,
) -> None:
    """It named no tool, which means Label Studio, and ended in an error where there is none."""
    fill(workspace, LINE[:4])
    for tool in ("argilla", "page"):
        store.append(workspace, tables.SENT, rows(tables.SENT, 1).with_columns(tool=pl.lit(tool)))
    (workspace.root / "review").mkdir()
    (workspace.root / "review" / "ann.CSV").touch()
    page, argilla, files = (summary._TOOLS[tool][1] for tool in ("page", "argilla", "files"))
    assert summary.status(workspace).next == f"collect the answers: {page} or {argilla} or {files}"
    fill(workspace, LINE[4:])
    step = summary.next_step(workspace, Waiting(0, 0, 0, 1, 0))
    assert "`saferec-build review push --tool page --adjudicator NAME`" in step
    # whoever had used the page once was sent to it for tasks that stood in CSVs
    step = summary.next_step(workspace, Waiting(0, 0, 2, 0, 0, ["files"]))
    assert step.startswith(f"2 tasks wait for people: {files}, then `saferec-build adjudicate`")


@pytest.mark.parametrize(
    ("tool", "push", "pull"),
    [
        ("label_studio", "review push --adjudicator", "review pull`"),
        ("a team's label_studio", "review push --url URL --adjudicator", "review pull --url URL`"),
        ("page", "review push --tool page --adjudicator", "review serve`"),
        # it named a command that asks for --url
        ("argilla", "review push --tool argilla --url URL --adjudicator", "review pull --tool argilla --url URL`"),
    ],
)
def test_the_next_push_and_pull_are_those_of_the_tool_that_people_have(
    workspace, tool: str, push: str, pull: str
) -> None:
    """For Label Studio, whose name has a hyphen only in commands, it named those of files."""
    fill(workspace, LINE)
    store.append(workspace, tables.SENT, rows(tables.SENT, 1).with_columns(tool=pl.lit(tool.split()[-1])))
    (workspace.root / "label-studio").mkdir()
    if tool == "label_studio":
        (workspace.root / "label-studio" / "server.json").touch()
    step = summary.next_step(workspace, Waiting(0, 0, 1, 1, 0))
    assert f"saferec-build {push} NAME`" in step and f"`saferec-build {pull}" in step


def test_where_reviews_wait_in_a_stopped_label_studio_its_start_comes_first(workspace, monkeypatch) -> None:
    """The next step was a `review pull` that could only fail."""
    fill(workspace, LINE)
    store.append(workspace, tables.SENT, rows(tables.SENT, 1).with_columns(tool=pl.lit("label_studio")))
    folder = connections.server_folder(workspace)
    folder.mkdir()
    (folder / "server.json").write_text(json.dumps({"url": "http://127.0.0.1:1", "pid": os.getpid()}))
    waiting = Waiting(0, 0, 2, 0, 0, ["label_studio"])
    start = "`saferec-build review up`, as Label Studio is stopped, and `saferec-build review pull`, then"
    assert summary.next_step(workspace, waiting).startswith(f"2 tasks wait for people: {start} `saferec-build adj")
    monkeypatch.setattr(local_label_studio, "alive", lambda *_: True)
    assert summary.next_step(workspace, waiting).startswith(
        "2 tasks wait for people: `saferec-build review pull`, then"
    )

"""A release: its rows are counted, forbidden content stops it, and two builds have the same bytes.

The `Release` object is made from a workspace or opened from its folder, verified, compared and copied.
"""

import os
import shutil
import signal
import subprocess
import sys
from datetime import date

import polars as pl
import pytest

from exports.release import Release, _advice, release, without_effect
from saferec_builder.core.errors import ReleaseError, UsageError
from saferec_builder.storage import config, tables, workspace as store
from tests.worlds import release_world as world
from tests.worlds.release_world import conversation, conversations, film, label, labels, tree


@pytest.mark.slow
def test_a_release_tells_what_it_holds_and_a_second_run_adds_nothing(ws: store.Workspace, cli) -> None:
    first = cli("release", "1.0.0", "-C", ws.root, "--json")
    assert first.code == 0, first.err
    assert (first.json["in"], first.json["out"], first.json["added"]) == (40, 40, 40)
    repeated = cli("release", "1.0.0", "-C", ws.root, "--json").json
    assert (repeated["added"], repeated["skipped"], repeated["out"]) == (0, 40, 40)
    assert cli("release", "1.0.0", "-C", ws.root).out.splitlines()[-1].startswith("next: ")
    built = release(ws, "1.0.0")  # with the same rows it exists already
    assert not built.new and built.version == "1.0.0" and built.folder == ws.releases / "1.0.0"
    assert (built.learned, built.rows["conversations"], built.advice) == (40, 40, None)
    # 40 requests by time: 4 test, 4 validation
    assert built.manifest["counts"]["sft"] == {"train": 32, "validation": 4, "test": 4}
    assert (built.manifest["simulated"], built.manifest["demo"], built.manifest["split_rule"]) == (False, False, "time")
    assert built.manifest["labels"]["gore"] == {"present": 20, "absent": 20, "unsure": 0, "unresolved": 0}
    opened = Release.open(built.folder)
    assert (opened.version, opened.rows, opened.learned) == ("1.0.0", built.rows, 40)
    injected = release(ws, "1.1.0", inject="gore")
    assert injected.manifest["conditions"]["injected"] == 17  # 3 of the 20 without a sensitivity name a bloody film
    assert (injected.learned, injected.rows["grpo"], injected.rows["conversations"]) == (40, 57, 40)
    proof = opened.verify()
    assert (proof.name, proof.version, proof.rows) == (built.manifest["name"], "1.0.0", sum(built.rows.values()))


def test_explain_says_which_checks_do_not_apply_here_and_why(workspace: store.Workspace, cli) -> None:
    rows, said = world.requests(12)
    ws = world.fill(workspace, rows, said)
    reasons = {"version", "licence", "certificate", "text", "rare combinations"}
    assert set(without_effect(ws)) == reasons
    listed = cli("release", "--explain", "-C", ws.root).out.splitlines()
    place = next(n for n, line in enumerate(listed) if line.startswith("text (withholds)"))
    assert listed[place + 1] == "  does not apply here: no source here keeps its texts"
    assert cli("release", "--explain", "-C", ws.root, "--json").json["does_not_apply"] == without_effect(ws)
    assert cli("release", "--explain", "-C", ws.root.parent, "--json").json["does_not_apply"] == {}  # no workspace
    (ws.releases / "0.9.0").mkdir(parents=True)
    (ws.releases / "0.9.0/manifest.json").write_text("{}")
    store.append(ws, tables.CONVERSATIONS, conversations(conversation("kept", "Hi", source="hf:chats")))
    store.append(ws, tables.LABELS, labels(said[0] | {"method": "auto", "label": "another"}))
    items = ws.table("catalog_rows").head(1).with_columns(source=pl.lit("imdb"))
    store.append(ws, tables.CATALOG_ROWS, items)
    assert without_effect(ws) == {}
    (ws.root / "saferec.toml").write_text("demo = true\n[release]\nmin_seekers = 1\n")
    assert set(without_effect(store.Workspace.open(ws.root))) == {"simulated", "small groups", "rare combinations"}


@pytest.mark.slow
@pytest.mark.parametrize("told_in_test", [True, False])
def test_a_test_split_without_a_safety_row_is_named(workspace: store.Workspace, cli, monkeypatch, told_in_test) -> None:
    """A release with five safety rows had none to measure on, and `next` said to train on it."""
    rows, said = world.requests()  # the last four are the test split
    said = said if told_in_test else [*said[:36], *(label(row, verdict="absent", quote=None) for row in rows[36:])]
    ws = world.fill(workspace, rows, said)
    out = cli("release", "1.0.0", "-C", ws.root).out
    assert ("no safety row is in the test split" in out) == Release.open(ws.releases / "1.0.0").unmeasured
    assert Release.open(ws.releases / "1.0.0").unmeasured == ("--inject all" in out) == (not told_in_test)
    monkeypatch.setattr(Release, "unmeasured", True)  # where it was given, it was advised again
    out = cli("release", "1.1.0", "--inject", "all", "-C", ws.root).out
    assert "no safety row is in the test split" in out and "give --inject all" not in out


@pytest.mark.slow
def test_a_version_in_which_nothing_changed_says_so(released: store.Workspace, cli) -> None:
    again = "  the same again: nothing changed since 1.0.0: no row, no column, no meaning\n"
    assert again not in cli("release", "1.0.0", "-C", released.root).out
    out = cli("release", "1.0.1", "-C", released.root).out
    assert again in out
    # all 15 words of the list looked alike, and one of them cost conversations
    assert "  withheld traits, of too few people: 19 that nobody has\n" in out
    assert len(cli("release", "1.0.1", "-C", released.root, "--json").json["withheld_traits"]) == 19


def test_two_releases_are_compared_and_one_is_copied_but_not_past_its_removals(released, cli, tmp_path) -> None:
    world.grow(released, cli)
    first, second = (Release.open(released.releases / version) for version in ("1.0.0", "1.1.0"))
    difference = first.diff(second)
    assert (difference.before, difference.after, difference.rows["conversations"]["added"]) == ("1.0.0", "1.1.0", 1)
    assert difference.as_json()["from"] == "1.0.0" and "metrics" not in difference.as_json()
    out = tmp_path / "out" / "copy"
    copied = second.publish(out)
    assert (copied.version, copied.to, copied.skipped) == ("1.1.0", out, 0)
    assert Release.open(out).verify().files == copied.added
    assert second.publish(str(out)).added == 0
    with pytest.raises(UsageError, match="no workspace"):
        Release.open(out).publish(tmp_path / "again")
    (released.root / "removals.csv").write_text("source,source_id,author\nmessages,c001,\n")
    (name,) = world.released(released, "c001")
    with pytest.raises(ReleaseError, match=f"asks for, or was carried out before .*, first {name}: make 2.0.0"):
        second.publish(tmp_path / "later")


def test_a_dataset_that_outgrows_its_boundaries_is_told() -> None:
    """All later conversations are after the boundaries, and the command gave the number of rows only, not of splits."""
    facts = {"version": "1.1.0", "parent": "1.0.0", "counts": {"grpo": {"train": 32, "validation": 4, "test": 44}}}
    advice = _advice(facts, config.Splits(), {})
    assert advice is not None  # 44 of 80
    assert advice.startswith("55% of the requests are test, for the boundaries are those of 1.0.0: --resplit")
    small = facts | {"counts": {"grpo": {"train": 64, "validation": 8, "test": 18}}}  # twice the share of .1
    fixed = config.Splits(validation_from=date(2024, 1, 1), test_from=date(2024, 2, 1))
    cases = ((small, config.Splits()), (facts | {"parent": None}, config.Splits()), (facts, fixed))
    assert [_advice(*case, {}) for case in cases] == [None] * 3


def test_what_stops_a_release_leaves_no_folder(workspace: store.Workspace) -> None:
    with pytest.raises(ReleaseError, match="no labels to release.*saferec-build adjudicate"):
        release(workspace, "1.0.0")
    with pytest.raises(ReleaseError, match="expected MAJOR.MINOR.PATCH"):
        release(workspace, "1.0")
    world.fill(workspace, *world.requests())
    store.append(workspace, tables.LABELS, labels(label(conversation("gone", "Hi"))))
    with pytest.raises(ReleaseError, match="first gone: mine their source again"):
        release(workspace, "1.0.0")
    assert not list(workspace.root.rglob("manifest.json"))
    assert store.read(workspace, tables.DROPS).is_empty()


def test_drops_balance_and_are_kept(ws, cli):
    """Nobody has needles, so no label on it is in the release; `adjudicate` counts 40 as unresolved."""
    for args in (("release", "0.1.0"), ("plan",)):  # a line that would say none is left out
        assert "in conversations only" not in cli(*args, "-C", ws.root).out
    assert cli("plan", "-C", ws.root, "--json").json["in_conversations_only"] == {}
    unresolved = [label(row, "needles", verdict=None, reviews=["r"]) for row in world.requests()[0]]
    store.append(ws, tables.LABELS, labels(*unresolved))
    extra = [
        conversation("mute", "Hi", "Hello", "Bye", day=1),
        conversation("early", "Hi", "Hm", "o", day=0, seeker="p39"),
    ]
    store.append(ws, tables.CONVERSATIONS, conversations(*extra))
    summary = cli("release", "1.0.0", "--unreviewed", "-C", ws.root, "--json").json
    assert (summary["dropped"], summary["in_conversations_only"]) == ({"straddles split": 1}, {"no linked item": 1})
    assert summary["in"] == summary["out"] + 1 == 42
    assert store.read(ws, tables.DROPS).filter(stage="release").height == 2
    assert summary["unsure_or_unresolved"] == 0
    output = cli("release", "1.0.0", "--unreviewed", "-C", ws.root).out
    assert "labels 40," in output and "\n  labels unsure or unresolved, of traits that are not withheld: 0\n" in output


@pytest.mark.slow
def test_a_changed_content_needs_a_higher_version(ws, cli):
    cli("release", "1.0.0", "-C", ws.root)
    store.append(ws, tables.CONVERSATIONS, conversations(conversation("new", "Hi", f"Try {film('D')}", "ok", day=99)))
    result = cli("release", "1.0.0", "-C", ws.root)
    assert result.code == 1 and "this release exists, with other content (data/" in result.err
    assert result.err.endswith("run this command with a higher version, as in `saferec-build release 1.1.0`\n")
    world.grow(ws, cli)
    log = (ws.releases / "1.1.0/CHANGELOG.md").read_text()
    assert "- sft: 42 rows (+2)" in log and "- sft: 40 rows\n" in log
    # only the mark of 1.0.0 was new, yet the same 1.1.0 was refused as `there with other content`
    assert cli("withdraw", "1.0.0", "--reason", "wrong", "-C", ws.root).code == 0
    assert not release(ws, "1.1.0", unreviewed=True).new
    assert release(ws, "1.2.0", unreviewed=True).manifest["withdrawn"] == {"1.0.0": "wrong"}


def _build(root, threads, code="pass"):
    run = f"sys.argv = ['x', 'release', '1.0.0', '-C', {str(root)!r}]; main()"
    text = f"import sys; {code}\nfrom saferec_builder.cli.app import main\n{run}"
    env = os.environ | {"POLARS_MAX_THREADS": str(threads), "PYTHONHASHSEED": str(threads)}
    return subprocess.run([sys.executable, "-c", text], env=env, capture_output=True, text=True, timeout=120)


@pytest.mark.slow
def test_two_builds_are_the_same_tree_also_after_builds_that_were_killed(ws, tmp_path, cli):
    assert ws.secret  # made at first use: the key of released ids
    shutil.copytree(ws.root, tmp_path / "calm")
    assert _build(tmp_path / "calm", 4).returncode == 0
    for moment in ("exports.folder.sha256", "exports.folder.sync", "os.replace"):
        place, name = moment.rsplit(".", 1)
        kill = f"import os, signal, exports.folder, {place} as m"
        kill += f"; m.{name} = lambda *a: os.kill(os.getpid(), signal.SIGKILL)"
        assert _build(ws.root, 1, kill).returncode == -signal.SIGKILL
        assert not list(ws.releases.glob("*/manifest.json"))
        assert cli("publish", "--to", tmp_path / "out", "-C", ws.root).code == 1
    assert _build(ws.root, 1).returncode == 0
    assert tree(ws.releases) == tree(tmp_path / "calm/releases")


@pytest.mark.slow
def test_who_comes_back_takes_no_row_out_of_the_dataset(ws, cli):
    """40 days, 10 % test: p3 asked on day 3, in train. A request of day 60 would be test, and p3 in two splits."""
    args = ("--unreviewed", "-C", ws.root, "--json")
    cli("release", "1.0.0", *args)
    returned = [conversation("again", "Hi", f"Try {film('D')}", "ok", day=60, seeker="p3")]
    returned += [conversation("new", "Hi", f"Try {film('D')}", "ok", day=61, seeker="somebody")]
    store.append(ws, tables.CONVERSATIONS, conversations(*returned))
    summary = cli("release", "1.1.0", *args).json  # needed a major version before: c003 was gone
    assert summary["dropped"] == {"straddles split": 1} and summary["out"] == 41
    train = pl.read_parquet(ws.releases / "1.1.0/data/conversations/train.parquet")["conversation"]
    assert {*world.released(ws, "c003")} < {*train} and not {*world.released(ws, "again")} & {*train}
    shutil.rmtree(ws.releases / "1.1.0" / "data")  # as `forget` does; the key file has the ids
    assert cli("release", "1.2.0", *args).code == 1  # rows may be gone: a major version
    assert cli("release", "3.0.0", *args).json["dropped"] == {"straddles split": 1}
    train = pl.read_parquet(ws.releases / "3.0.0/data/conversations/train.parquet")["conversation"]
    assert {*world.released(ws, "c003")} < {*train}
    shutil.rmtree(ws.releases / "3.0.0")
    cli("release", "2.0.0", "--resplit", *args)  # no row has to stay: each person gets the latest split
    test = pl.read_parquet(ws.releases / "2.0.0/data/conversations/test.parquet")["conversation"]
    assert {*world.released(ws, "again", "new")} < {*test}

"""Workspaces that earlier programs filled (schema 1, before the packages moved) go on as they are.

tests/data/workspace_schema_1.tar.xz: the demo's hand-written conversations and ten generated ones, reviewed by
simulated people through files and released as 1.0.0; everything in it is invented.

tests/data/workspace_handed_out.tar.xz: work that commit ed7e146 handed out and nobody pulled. Of eight invented
conversations ann and bo have four on a Label Studio (server.json is what it holds), cy and di the others in sheets; cy
has filled in hers.
"""

import shutil
from pathlib import Path

import polars as pl
import pytest

from exports import released_ids
from saferec_builder.storage import tables, workspace as store
from tests import DATA
from tests.worlds.before import HANDED_OUT, all_rows, are_as_they_were, unpacked
from tests.worlds.csv_rows import edit
from tests.worlds.settings import review_settings

pytestmark = pytest.mark.slow  # the whole way, command by command

ROWS = {"conversations": 271, "marks": 271, "catalog_rows": 397, "warnings": 18502, "proposals": 368, "readings": 668}
ROWS |= {"asked": 20, "drops": 13, "assignments": 937, "reviews": 2328, "labels": 5955}
RELATIVE = "relative to these reviewers"
OLD = DATA / "workspace_schema_1.tar.xz"


@pytest.fixture
def old(tmp_path: Path) -> store.Workspace:
    return unpacked(OLD, tmp_path)


def test_every_table_is_read(old: store.Workspace) -> None:
    rows = {name: store.read(old, table).height for name, table in tables.TABLES.items()}
    # as the program that made it counted them; tables that came later are empty
    assert {name: n for name, n in rows.items() if n} == ROWS


def test_statements_of_before_count_beside_new_ones_with_their_words(old: store.Workspace, cli, tmp_path) -> None:
    before = store.read(old, tables.WARNINGS)
    assert before["words"].null_count() == before["place"].null_count() == ROWS["warnings"]
    reasons = tmp_path / "reasons.csv"
    reasons.write_text("rating,reason,title,year\nR,for strong bloody violence,Marrow Lake,2020\n")
    assert cli("catalog", "add", "rating-reasons", reasons, "-C", old.root).code == 0
    after = store.read(old, tables.WARNINGS)
    assert after[: before.height].equals(before)
    new = set(after[before.height :].select("words", "place").iter_rows())
    assert new == {("for strong bloody violence", "reasons.csv:2")}
    assert not [*old.root.glob("*.bak")]  # of the database nothing changed


def test_it_goes_on_where_it_was(old: store.Workspace, cli) -> None:
    before = all_rows(old)
    at = ["-C", old.root]
    people = ["--reviewer", "ann", "--reviewer", "bo", "--adjudicator", "cy"]
    told = cli("review", "status", *at, "--json").json  # nobody has a place in a draw: what is unknown is open
    assert (told["missed_of_all"]["zone"], told["missed_of_all"]["open"]) == (0, told["missed_of_all"]["most"])
    assert "before the first: what is not known of them counts as missed" in told["next"]
    review_settings(old.root, audit=0)
    pushed = cli("review", "push", "--tool", "files", *people, "--all", *at, "--json").json
    # flags that one reader of a plot marked and the other passed over were nobody's: the adjudicator gets them now
    assert pushed["new"] == {"disagreement": 29}
    pulled = cli("review", "pull", "--tool", "files", old.root / "review", *at, "--json").json
    assert (pulled["added"], pulled["dropped"]) == (0, {})
    judged = cli("adjudicate", *at, "--json").json
    assert judged["added"] == 36  # units of these 29 items
    asked = store.read(old, tables.LABELS)[-36:]
    assert set(asked.select("kind", "verdict").iter_rows()) == {("item_flag", None)}
    assert cli("verify", old.root / "releases" / "1.0.0").code == 0
    words = ("--allow", "simulated", "--allow", "no-safety", *at)
    small = cli("release", "1.0.1", *words)
    assert small.code == 1 and "take 2.0.0 or higher" in small.err  # its ids are keyed now
    again = cli("release", "2.0.0", *words)
    assert again.code == 0, again.err
    assert are_as_they_were(old, before) <= {"drops", "design", "keyed", "labels", "assignments"}
    told = cli("diff", "1.0.0", "2.0.0", *at, "--json").json
    assert told["rows"]["conversations"] == {"added": 258, "removed": 258, "changed": 0}
    assert not any(told["rows"]["items"].values()) and not any(told["rows"]["item_labels"].values())


def test_its_release_can_be_made_anew_with_the_same_rows_under_keyed_ids(old: store.Workspace, cli) -> None:
    home, kept = old.root / "releases" / "1.0.0", old.root / "kept"
    shutil.move(home, kept)
    ran = cli("release", "1.0.0", "--allow", "simulated", "--allow", "no-safety", "-C", old.root)
    assert ran.code == 0, ran.err
    names = dict(released_ids.read(released_ids.path_of(home)).select("subject", "conversation").iter_rows())
    for path in sorted((kept / "data").rglob("*.parquet")):
        was, now = pl.read_parquet(path), pl.read_parquet(home / path.relative_to(kept))
        ids = [name for name in ("conversation", "made_from", "subject") if name in was.columns]
        was = was.with_columns(pl.col(name).replace(names) for name in ids)
        if path.parent.name == "conversations":
            was = was.with_columns(time=pl.col("time").str.head(10), source_id=pl.lit(None, pl.String))
        if path.parent.name == "labels":  # a bound is called certified only where blind controls bear it out
            words = pl.col("certificate").str.replace("certified", RELATIVE)
            was = was.with_columns(words.str.replace("<= 0.0 %", "0 %", literal=True))  # where all of it was read
        if path.parent.name == "grpo":  # there was no design to weigh them by
            assert now["weight"].null_count() == now.height
        rows = [sorted(map(repr, frame.select(was.columns).iter_rows())) for frame in (was, now)]
        assert rows[0] == rows[1], path


def test_sheets_that_it_handed_out_are_taken_once(tmp_path: Path, cli) -> None:
    """They have no keys. cy's comes back before the next push, di's after it, when there is a new one with keys."""
    ws = unpacked(HANDED_OUT, tmp_path)
    before, at = all_rows(ws), ("-C", ws.root, "--json")
    cy, di = ws.root / "review" / "cy.csv", tmp_path / "di-old.csv"

    def pull(path: Path) -> tuple[int, dict[str, int], int | None]:
        told = cli("review", "pull", "--tool", "files", path, *at)
        assert told.code == 0, told.err
        return told.json["added"], told.json["dropped"], told.json.get("tasks_of_the_version_before")

    assert pull(cy) == (6, {}, 4)  # `*` of four, and a trait of two
    assert pull(cy)[:2] == (0, {})
    shutil.move(ws.root / "review" / "di.csv", di)
    pushed = cli("review", "push", "--tool", "files", "--reviewer", "cy", "--reviewer", "di", "--all", *at).json
    assert (pushed["added"], pushed["rows"]) == (0, {"cy": 0, "di": 6})
    edit(di, lambda row: {"verdict": "none" if row["trait"] == "*" else "absent"})
    assert pull(di) == (6, {}, 4)
    assert pull(di)[:2] == (0, {})
    reviews = store.read(ws, tables.REVIEWS)
    assert reviews.n_unique(["subject", "trait", "reviewer"]) == reviews.height == 12
    gore = reviews.filter(subject="d1", trait="gore").select("reviewer", "verdict").rows()
    assert dict(gore) == {"cy": "present", "di": "absent"}
    edit(di, lambda row: {"verdict": "absent" if row["trait"] == "*" else "unsure"})  # who knows an id forges nothing
    assert pull(di)[0] == 0
    assert store.read(ws, tables.REVIEWS).equals(reviews)
    assert are_as_they_were(ws, before) <= {"reviews", "keyed", "drops", "asked"}

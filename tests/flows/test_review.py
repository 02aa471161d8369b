"""review push, pull, status and adjudicate as people use them: files in a folder, edited, pulled, pushed again."""

from pathlib import Path

import polars as pl
import pytest

from annotation import adjudication as adjudicating, desk, push as handing
from annotation.tools.guidelines import GUIDELINES
from saferec_builder.core import taxonomy as traits
from saferec_builder.core.errors import StoreError
from saferec_builder.storage import tables, workspace as store
from tests.worlds.csv_rows import edit, rows_of
from tests.worlds.reviewing import TWO, claim, labels, no, yes


def test_the_whole_way_from_proposals_to_labels(ws, cli, review, adjudicate):
    sent = review("push", *TWO, "--audit", 0)
    assert (sent["added"], sent["new"]) == (4, {"proposed": 4})
    assert sent["rows"] == {"ann": 4, "bo": 4}  # two tasks each, a unit and `*` in each
    folder = ws.root / "review"
    assert (folder / "guidelines.md").read_bytes() == GUIDELINES.read_bytes()
    edit(folder / "ann.csv", yes)
    edit(folder / "bo.csv", lambda row: yes(row) if "blood" in row["text"] else no(row))
    assert review("pull", folder)["added"] == 8

    told = adjudicate()
    # c1 and c2, 20 traits each; accidents in c2 is disputed
    assert (told["in"], told["added"]) == (40, 40)
    assert (told["agreed"], told["adjudicated"], told["unresolved"]) == (39, 0, 1)
    assert labels(ws)["c1", "gore"] == ("present", "agreed")
    assert labels(ws)["c2", "gore"] == ("absent", "agreed")
    # gore: pp, aa; accidents: aa, pa -> Do = 2, De = (16 - 9 - 1) / 3 = 2: no better than chance; needles: all absent
    assert told["alpha"]["gore"]["alpha"] == 1.0
    assert told["alpha"]["accidents_disasters"]["alpha"] == pytest.approx(0.0)
    assert told["alpha"]["needles"]["alpha"] is None
    assert adjudicate()["added"] == 0
    text = cli("adjudicate", "-C", ws.root).out
    assert "alpha of needles: n/a (over 2)" in text
    assert "alpha of gore: 1.00 (over 2)" in text

    review("push", "--adjudicator", "cy")
    (row,) = rows_of(folder / "cy.csv")
    assert row["trait"] == "accidents_disasters"
    assert row["said"].splitlines() == ["absent", "present: “crash”"]
    edit(folder / "cy.csv", lambda row: {"verdict": "present", "form": "implicit"})
    assert review("pull", folder / "cy.csv")["added"] == 1
    told = adjudicate()
    assert (told["added"], told["adjudicated"], told["unresolved"]) == (1, 1, 0)
    assert labels(ws)["c2", "accidents_disasters"] == ("present", "adjudicated")
    label = store.read(ws, tables.LABELS).row(-1, named=True)
    assert [s["quote"] for s in label["spans"]] == ["crash"]
    assert len(label["reviews"]) == 3
    assert review("push", "--adjudicator", "cy")["rows"] == {"cy": 0}


def test_a_push_says_what_waits_and_for_whom(ws, review):
    alone = review("push", "--reviewer", "ann", "--audit", 0)
    assert (alone["new"], alone["waiting"]) == ({"proposed": 2}, {"conversations": 2})
    assert alone["next"].startswith("2 lack one of their two readers")
    assert "waiting" not in review("push", *TWO, "--audit", 0)


def test_every_command_twice_adds_nothing(ws, review):
    assert review("push", *TWO)["added"] == review("push", *TWO)["skipped"] > 0
    file = ws.root / "review" / "ann.csv"
    before = file.read_bytes()
    review("push", *TWO)
    assert file.read_bytes() == before
    edit(file, yes)
    first, again = review("pull", file), review("pull", file)
    assert (again["added"], again["skipped"]) == (0, first["added"])


def test_a_changed_mind_is_a_new_row(ws, review, adjudicate):
    review("push", *TWO, "--audit", 0)
    file = ws.root / "review" / "ann.csv"
    edit(file, yes)
    review("pull", file)
    edit(file, no)
    changed = review("pull", file)
    assert (changed["added"], changed["skipped"]) == (2, 2)  # two units changed, two `*` did not
    edit(file, yes)
    assert review("pull", file)["added"] == 2
    assert store.read(ws, tables.REVIEWS).height == 8


def test_all_sends_every_conversation_and_audits_show_no_suggestion(ws, review):
    sent = review("push", *TWO, "--all")
    assert sent["new"] == {"audit": 4, "proposed": 4}
    assert sent["rows"] == {"ann": 6, "bo": 6}
    blind = [row for row in rows_of(ws.root / "review" / "ann.csv") if "western" in row["text"]]
    assert [(row["trait"], row["proposed"]) for row in blind] == [("*", "")]


def test_a_dropped_row_is_named_kept_and_can_be_corrected(ws, cli, review):
    review("push", *TWO, "--audit", 0)
    file = ws.root / "review" / "ann.csv"
    edit(file, lambda row: yes(row) | ({"quote": "blod"} if row["trait"] == "gore" else {}))
    number = [row["trait"] for row in rows_of(file)].index("gore") + 2
    ran = cli("review", "pull", file, "--tool", "files", "-C", ws.root, "--json")
    assert f"{file}:{number}: quote not found: 'blod'" in ran.err
    assert ran.json["dropped"] == {"quote not found": 1, "`*` before the rest": 1}
    assert ran.json["added"] == 2
    drops = store.read(ws, tables.DROPS)
    assert f"{file}:{number}" in drops["place"].to_list()
    edit(file, lambda row: {"quote": "blood"} if row["trait"] == "gore" else {})
    assert review("pull", file)["added"] == 2
    assert store.read(ws, tables.REVIEWS).height == 4


def test_work_that_was_not_pulled_is_not_overwritten(ws, cli, review):
    review("push", *TWO, "--audit", 0)
    file = ws.root / "review" / "ann.csv"
    edit(file, lambda row: {"verdict": "absent"} if row["trait"] == "gore" else {})
    before = file.read_bytes()
    ran = cli("review", "push", "--tool", "files", *TWO, "-C", ws.root)
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "review pull --tool files" in ran.err
    assert file.read_bytes() == before
    review("pull", file)
    assert review("push", *TWO, "--audit", 0)["rows"]["ann"] == 4  # both tasks are still open
    assert {row["trait"]: row["verdict"] for row in rows_of(file)}["gore"] == "absent"  # and show what she said


def test_an_answer_saved_while_a_push_is_at_work_is_not_overwritten(ws, cli, review, monkeypatch):
    review("push", *TWO, "--audit", 0)
    file = ws.root / "review" / "ann.csv"
    route = handing._plan

    def slow(*words):
        edit(file, yes)
        return route(*words)

    monkeypatch.setattr(handing, "_plan", slow)
    ran = cli("review", "push", "--tool", "files", *TWO, "-C", ws.root)
    assert (ran.code, ran.err.count("\n"), "changed just now" in ran.err) == (1, 1, True)
    assert review("pull", file)["added"] == 4


def test_a_push_reads_the_workspace_in_its_turn(ws, review, monkeypatch):
    """What another push hands out meanwhile would not be seen: the same task for two more people."""

    def gather(ws):
        with pytest.raises(StoreError, match="at work"), store.alone(ws, "review push"):
            pass
        return desk.gather(ws)

    monkeypatch.setattr("annotation.push.gather", gather)
    assert review("push", *TWO, "--audit", 0)["added"] == 4


def test_a_certificate_is_written_in_its_turn(ws, review, adjudicate, monkeypatch):
    """Else who read fewer reviews could write it last."""
    keep = adjudicating._keep

    def kept(*words):
        with pytest.raises(StoreError, match="at work"), store.alone(ws, "adjudicate"):
            pass
        keep(*words)

    monkeypatch.setattr(adjudicating, "_keep", kept)
    review("push", *TWO, "--audit", 0)
    edit(ws.root / "review" / "ann.csv", yes)
    review("pull", ws.root / "review" / "ann.csv")
    adjudicate()
    assert (ws.root / "certificates.json").exists()


def test_an_older_copy_in_the_folder_does_not_hold_up_a_push(ws, review):
    review("push", *TWO, "--audit", 0)
    file = ws.root / "review" / "ann.csv"
    edit(file, yes)
    review("pull", file)
    later = ws.root / "from-ann.csv"
    later.write_bytes(file.read_bytes())
    edit(later, no)
    review("pull", later)
    assert review("push", *TWO, "--audit", 0)["rows"]["ann"] == 0  # all she has is done, and her last word stands
    verdicts = tables.last(store.read(ws, tables.REVIEWS), "subject", "trait", "reviewer")["verdict"]
    assert set(verdicts) == {"absent"}


def test_status_counts_units(ws, cli, review):
    review("push", *TWO, "--audit", 0)
    edit(ws.root / "review" / "ann.csv", yes)
    edit(ws.root / "review" / "bo.csv", lambda row: no(row) if "blood" in row["text"] else {})
    review("pull", ws.root / "review")
    told = review("status")
    assert told["traits"]["gore"] == {"proposed": 1, "assigned": 1, "once": 1, "twice": 1, "disputed": 1}
    assert told["traits"]["needles"] == {"proposed": 0, "assigned": 0, "once": 1, "twice": 1, "disputed": 0}
    people = {name: (facts["tasks"], facts["open"]) for name, facts in told["reviewers"].items()}
    assert people == {"ann": (2, 0), "bo": (2, 1)}
    text = cli("review", "status", "-C", ws.root).out
    (line,) = [line.split() for line in text.splitlines() if line.startswith("gore ")]
    assert line[:7] == ["gore", *"11111", "n/a"]  # agreement cannot be told: one unit


def test_a_text_that_changed_is_asked_again_where_its_evidence_is_gone(ws, review, adjudicate):
    review("push", *TWO, "--audit", 0)
    for name in ("ann", "bo"):
        edit(ws.root / "review" / f"{name}.csv", yes)
    review("pull", ws.root / "review")
    adjudicate()
    newer = (
        store.read(ws, tables.CONVERSATIONS)
        .filter(conversation="c1")
        .with_columns(
            digest=pl.lit("d-c1b"),
            turns=pl.Series(
                [[{"role": "seeker", "text": "Something funny?", "items": []}]], dtype=pl.List(tables.TURN)
            ),
        )
    )
    store.append(ws, tables.CONVERSATIONS, newer)
    told = adjudicate()
    assert told["reviews_left_out"] == {"stale": 2}
    assert labels(ws)["c1", "gore"] == (None, "unresolved")
    assert labels(ws)["c2", "accidents_disasters"] == ("present", "agreed")
    again = review("push", *TWO, "--audit", 0)  # c1 alone: gore, and `*`
    assert (again["added"], again["rows"]) == (0, {"ann": 2, "bo": 2})
    for name in ("ann", "bo"):
        edit(ws.root / "review" / f"{name}.csv", no)
    review("pull", ws.root / "review")
    assert adjudicate()["reviews_left_out"] == {}
    assert labels(ws)["c1", "gore"] == ("absent", "agreed")
    assert review("push", *TWO, "--audit", 0)["rows"] == {"ann": 0, "bo": 0}


def test_item_flags_go_the_same_way_and_become_warnings(ws, cli, review, adjudicate):
    from saferec_builder import catalog

    row = dict.fromkeys(tables.CATALOG_ROWS.columns) | {"source": "csv", "source_id": "1", "domain": "film"}
    row |= {
        "title": "The Long Ward",
        "year": 1987,
        "refs": [],
        "aliases": [],
        "genres": ["drama"],
        "plot": "A nurse draws blood.",
    }
    rows = pl.DataFrame([row], schema=tables.CATALOG_ROWS.schema)
    store.append(ws, tables.CATALOG_ROWS, rows)
    item = catalog.merge(rows)[0]["item"][0]
    flag = claim(item, "needles", "present", "draws blood", kind="item_flag", text="A nurse draws blood.")
    store.append(ws, tables.PROPOSALS, pl.DataFrame([flag], schema=tables.PROPOSALS.schema))
    review("push", *TWO, "--audit", 0)
    for name in ("ann", "bo"):
        edit(ws.root / "review" / f"{name}.csv", yes)
    review("pull", ws.root / "review")
    assert adjudicate()["warnings_from_item_labels"] == 1
    assert labels(ws)[item, "needles"] == ("present", "agreed")
    assert (item, "gore") not in labels(ws)  # a plot cannot show that a film holds none
    assert adjudicate()["warnings_from_item_labels"] == 0
    ran = cli("catalog", "check", "The Long Ward (1987)", "--trait", "needles", "-C", ws.root)
    assert "violated" in ran.out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("push", "--tool", "paper", *TWO), "no such review tool"),
        (("push", "--tool", "files"), "nobody to review"),
        (("push", "--tool", "files", "--reviewer", "ann", "--reviewer", "Ann"), "named twice"),
        (("push", "--tool", "files", *TWO, "--adjudicator", "bo"), "named twice"),
        (("push", "--tool", "files", "--reviewer", "../ann"), "a name has at most 64 letters"),
        (("pull", "--tool", "files", "nowhere.csv"), "no such file"),
        (("pull", "--tool", "files", Path(__file__).parent), "no .csv file in this folder"),
        (("push", "--tool", "argilla", *TWO, "--url", "http://[", "--token", "t"), "this is no address"),
        (("push", *TWO, "--to", "sheets"), "--to sheets: label-studio reads and writes no files: say --tool files"),
        (("pull", "review/ann.csv"), "review/ann.csv: label-studio reads and writes no files: say --tool files"),
        (("push", "--tool", "files", *TWO, "--url", "https://labels.example.org"), "--url is a server's"),
    ],
)
def test_a_mistake_is_one_line(ws, cli, words, says):
    ran = cli("review", *words, "-C", ws.root)
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert says in ran.err
    assert store.read(ws, tables.ASSIGNMENTS).is_empty()


@pytest.mark.parametrize("row", ['{"conversation": [], "traits": []}', "[" * 100_000])
def test_gold_of_another_shape_is_one_line(ws, cli, row):
    (ws.root / "gold.jsonl").write_text(row)
    ran = cli("review", "push", "--tool", "files", *TWO, "--gold", ws.root / "gold.jsonl", "-C", ws.root)
    assert (ran.code, ran.err.count("\n"), "gold.jsonl:1: found" in ran.err) == (1, 1, True), ran.err


def test_nobody_rules_on_their_own_reviews(ws, cli, review):
    review("push", *TWO)
    ran = cli("review", "push", "--tool", "files", "--adjudicator", "ann", "-C", ws.root)
    assert ran.code == 1
    assert "ann has tasks as reviewer" in ran.err


def test_empty_workspaces_say_what_to_run_first(workspace, cli):
    pushed = cli("review", "push", "--tool", "files", *TWO, "-C", workspace.root)
    assert (pushed.code, "saferec-build mine" in pushed.err) == (1, True)
    judged = cli("adjudicate", "-C", workspace.root)
    assert (judged.code, "review pull" in judged.err) == (1, True)
    assert cli("review", "status", "-C", workspace.root).code == 0


def test_the_guidelines_name_every_column_that_people_fill_in():
    page = GUIDELINES.read_text(encoding="utf-8")
    assert all(
        f"`{column}`" in page for column in ("verdict", "form", "quote", "turn", "note", "seconds", "unit", "*", "none")
    )
    assert len(page.splitlines()) <= 60  # one page
    assert not [t.slug for t in traits.load().traits if f"`{t.slug}`" in page]  # the taxonomy stands in the file itself

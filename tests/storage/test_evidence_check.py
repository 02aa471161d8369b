"""Evidence is checked against the stored text: at every append, when labels are made, and before a release."""

import json
import sqlite3
from contextlib import closing
from typing import Any

import polars as pl
import pytest

from saferec_builder import catalog
from saferec_builder.core.errors import StoreError
from saferec_builder.proposing.rules import matcher
from saferec_builder.storage import evidence_check as evidence, tables, workspace as store
from tests.worlds import release_world, review_world
from tests.worlds.release_rows import reviews

TURNS = [
    {"role": "seeker", "text": "😱 no needles, please"},
    {"role": "recommender", "text": "No needles there!"},
    {"role": "seeker", "text": None},
]


def span(turn: Any, start: Any, end: Any, quote: Any) -> dict[str, Any]:
    return {"turn": turn, "start": start, "end": end, "quote": quote}


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (span(0, 5, 12, "needles"), None),
        (span(0, 6, 13, "needles"), evidence.NOT_FOUND),  # the words are there, one letter earlier
        (span(0, 5, 12, "needle"), evidence.NOT_FOUND),
        (span(0, 5, 12, "NEEDLES"), evidence.NOT_FOUND),
        (span(0, 5, 99, "needles, please"), evidence.NOT_FOUND),  # 20 letters: a slice would give the quote
        (span(0, -7, -1, "please"), evidence.NOT_FOUND),  # a slice with negative indices would find it
        (span(0, 5, 5, ""), evidence.NOT_FOUND),
        (span(0, None, 5, "x"), evidence.NOT_FOUND),
        (span(0, 5, 12, None), evidence.NOT_FOUND),
        (span(2, 0, 1, "x"), evidence.NOT_FOUND),
        (span(1, 3, 10, "needles"), evidence.NOT_THEIRS),
        (span(3, 0, 1, "x"), evidence.NO_TURN),
        (span(-1, 0, 1, "x"), evidence.NO_TURN),
        (span(None, 0, 1, "x"), evidence.NO_TURN),
        (None, evidence.NOT_FOUND),
    ],
)
def test_one_rule_says_what_is_evidence(found, why):
    assert evidence.fault(found, TURNS, "sensitivity") == why


def test_of_an_item_it_is_the_plots_words():
    plot = [{"role": "plot", "text": "A nurse draws blood."}]
    blood = span(0, 14, 19, "blood")
    assert evidence.fault(blood, plot, "item_flag") is None
    assert evidence.fault(blood, plot, "sensitivity") == evidence.NOT_THEIRS
    assert evidence.fault(blood, [plot[0] | {"role": "seeker"}], "item_flag") == evidence.NOT_THEIRS
    assert evidence.fault(blood, None, "item_flag") == evidence.NO_TEXT


def row(table: tables.Table, **more: Any) -> pl.DataFrame:
    values = dict.fromkeys(table.columns) | {"kind": "sensitivity", "subject": "c1", "trait": "gore", "digest": "d-c1"}
    values |= {table.key[0]: "r1", "verdict": "present", "reviewer": "ann", "role": "reviewer", "tool": "files"}
    values |= {"spans": [review_world.span("c1", "blood")], "simulated": False, "proposer": "rules"}
    return pl.DataFrame([{c: (values | more)[c] for c in table.columns}], schema=table.schema)


@pytest.mark.parametrize("table", [tables.REVIEWS, tables.PROPOSALS], ids=lambda table: table.name)
@pytest.mark.parametrize(
    "forged",
    [
        {"spans": [review_world.span("c1", "blood") | {"quote": "I like it"}]},
        {"spans": [review_world.span("c1", "blood") | {"start": 0, "end": 5}]},
        {"spans": [review_world.span("c1", "blood"), span(1, 0, 3, "Ok!")]},  # one of two
        {"digest": "d-c2"},  # the digest of another text
        {"subject": "c2", "digest": "d-c2"},
        {"subject": "nobody"},
        {"kind": "item_flag"},  # no plot has these words
    ],
)
def test_no_path_writes_evidence_that_is_none(workspace, table, forged):
    review_world.fill(workspace)
    height = store.read(workspace, table).height
    for verdict in ("present", "unsure"):
        with pytest.raises(StoreError, match=f"table {table.name}: 1 rows with evidence that is none"):
            store.append(workspace, table, row(table, **forged | {"verdict": verdict}))
    assert store.read(workspace, table).height == height
    assert store.append(workspace, table, row(table)) == 1
    taken_back = row(table, **forged | {table.key[0]: "r2", "verdict": None})
    assert store.append(workspace, table, taken_back) == 1  # it no longer claims anything


def test_a_plot_is_evidence_for_its_item(workspace):
    film = dict.fromkeys(tables.CATALOG_ROWS.columns) | {"source": "csv", "source_id": "1", "plot": "A lot of blood."}
    store.append(workspace, tables.CATALOG_ROWS, tables.CATALOG_ROWS.frame([film]))
    flag = {"kind": "item_flag", "subject": "film", "digest": tables.digest(film["plot"])}
    valid = row(tables.PROPOSALS, **flag, spans=[span(0, 9, 14, "blood")])
    assert store.append(workspace, tables.PROPOSALS, valid) == 1
    with pytest.raises(StoreError, match="quote not found"):
        store.append(workspace, tables.PROPOSALS, row(tables.PROPOSALS, **flag, spans=[span(0, 8, 13, "blood")]))


def test_what_a_proposer_made_up_is_counted_and_not_kept(workspace, cli, monkeypatch):
    """For every proposer: claims of a rule that points one letter too far are counted, and not stored."""
    propose = matcher.propose
    moved_span = pl.element().struct.with_fields(start=pl.field("start") + 1, end=pl.field("end") + 1)
    shifted = pl.col("spans").list.eval(moved_span)
    review_world.fill(workspace)
    monkeypatch.setattr(matcher, "propose", lambda *of: propose(*of).with_columns(shifted))
    result = cli("propose", "--proposer", "rules", "-C", workspace.root, "--json")
    assert result.code == 0, result.err
    assert result.json["claims_rejected"] == {"quote not found": 2} and result.json["proposals"] == 0  # blood, a crash
    assert store.read(workspace, tables.PROPOSALS).height == len(review_world.CLAIMS)
    assert result.json["in"] == result.json["out"] == 4


# ---- changes made to the database by hand


def by_hand(ws: store.Workspace, table: str, where: str = "1") -> int:
    """Puts words into these rows that nobody said, as no command would, and returns their number."""
    with closing(sqlite3.connect(ws.root / "workspace.db")) as db, db:
        rows = db.execute(f"SELECT row_, spans FROM {table} WHERE {where} AND spans <> '[]'").fetchall()
        for number, spans in rows:
            forged = [s | {"quote": "I enjoy every drop"[: s["end"] - s["start"]]} for s in json.loads(spans)]
            db.execute(f"UPDATE {table} SET spans = ? WHERE row_ = ?", (json.dumps(forged), number))
        return len(rows)


@pytest.fixture
def ws(workspace: store.Workspace) -> store.Workspace:
    """Forty requests; ann and bo agree on each, and every second one cannot see blood."""
    rows, labels = release_world.requests()
    release_world.fill(workspace, rows, [])
    for reviewer in ("ann", "bo"):
        store.append(workspace, tables.REVIEWS, reviews(labels, reviewer))
    toml = workspace.root / "saferec.toml"
    toml.write_text(toml.read_text().replace('# consent = ["ann"]', 'consent = ["ann"]'))
    return store.Workspace.open(workspace.root)


def released(ws: store.Workspace, config: str, version: str = "1.0.0") -> pl.DataFrame:
    parts = sorted((ws.releases / version / "data" / config).glob("*.parquet"))
    return pl.concat(pl.read_parquet(part) for part in parts) if parts else pl.DataFrame({"verdict": []})


@pytest.mark.slow
def test_a_forged_label_stops_a_release(ws, cli):
    assert cli("adjudicate", "-C", ws.root).code == 0
    assert by_hand(ws, "labels", "subject = 'c001'") == 1
    result = cli("release", "1.0.0", "-C", ws.root)
    assert (result.code, result.err.count("\n")) == (1, 1) and "saferec-build adjudicate" in result.err
    assert "1 labels with evidence that is none, first gore on c001" in result.err
    assert not (ws.releases / "1.0.0").exists()
    assert cli("adjudicate", "-C", ws.root, "--json").json["added"] == 1  # as in the reviews
    assert cli("release", "1.0.0", "-C", ws.root).code == 0
    (name,) = release_world.released(ws, "c001")
    label = released(ws, "labels").filter(conversation=name).row(0, named=True)
    assert (label["verdict"], [s["quote"] for s in label["spans"]]) == ("present", ["faint at the sight of blood"])


@pytest.mark.slow
def test_a_forged_review_counts_nowhere_and_stops_a_release_until_labels_follow(ws, cli):
    assert cli("adjudicate", "-C", ws.root).code == 0
    assert by_hand(ws, "reviews", "review = 'ann-c001'") == 1
    result = cli("release", "1.0.0", "-C", ws.root)
    assert result.code == 1 and "saferec-build adjudicate" in result.err
    summary = cli("adjudicate", "-C", ws.root, "--json").json
    assert summary["reviews_left_out"] == {evidence.UNFOUNDED: 1}
    assert (summary["agreed"], summary["unresolved"]) == (39, 1)
    assert cli("release", "1.0.0", "-C", ws.root).code == 0
    name, *names = release_world.released(ws, "c001", *(f"c{n:03}" for n in range(40) if n != 1))
    assert name not in released(ws, "labels").filter(verdict="present")["conversation"]
    assert released(ws, "reviews")["subject"].sort().to_list() == sorted(names)


def test_who_agreed_with_forged_words_all_the_way_is_released_nowhere(ws, cli):
    """Forged in the reviews before labels are first made: nothing of it is released."""
    assert by_hand(ws, "reviews") == 40  # twenty requests about blood, two reviewers each
    summary = cli("adjudicate", "-C", ws.root, "--json").json
    assert summary["reviews_left_out"] == {evidence.UNFOUNDED: 40} and summary["agreed"] == 20
    assert cli("release", "1.0.0", "--allow", "no-safety", "-C", ws.root).code == 0  # nobody is sensitive any more
    assert "present" not in released(ws, "labels")["verdict"]
    assert not any("enjoy" in path.read_bytes().decode("latin-1") for path in ws.releases.rglob("*.parquet"))


def test_a_forged_review_can_be_set_aside_and_does_not_come_back(ws, cli):
    assert by_hand(ws, "reviews", "review = 'ann-c001'") == 1
    command = ("review", "set-aside", "ann", "-C", ws.root, "--json")
    summary = cli(*command, "--reason", "a stranger had her password").json
    assert (summary["added"], summary["dropped"]) == (40, {})
    summary = cli(*command, "--undo").json
    assert (summary["in"], summary["added"], summary["dropped"]) == (40, 39, {"quote not found": 1})
    drops = store.read(ws, tables.DROPS).filter(stage="review")
    assert drops.select("place", "reason").rows() == [("c001 gore", "quote not found")]
    newest = tables.last(store.read(ws, tables.REVIEWS).filter(reviewer="ann"), "subject")
    assert newest.filter(pl.col("verdict").is_null())["subject"].to_list() == ["c001"]


def test_an_item_review_with_forged_words_is_not_released(ws, cli):
    """Ann and bo review the plot of one film, and ann's quote is made up."""
    film = release_world.catalog().filter(source_id="D").with_columns(source=pl.lit("movielens"), plot=pl.lit("Blood."))
    store.append(ws, tables.CATALOG_ROWS, film)
    item = catalog.merge(store.read(ws, tables.CATALOG_ROWS))[0].filter(pl.col("plot") == "Blood.")["item"][0]
    flag = {"kind": "item_flag", "subject": item, "digest": tables.digest("Blood."), "taxonomy": "t", "guideline": "g"}
    for name in ("ann", "bo"):
        review = row(tables.REVIEWS, **flag, reviewer=name, review=f"{name}-film", spans=[span(0, 0, 5, "Blood")])
        assert store.append(ws, tables.REVIEWS, review) == 1
    assert by_hand(ws, "reviews", "review = 'ann-film'") == 1
    assert cli("adjudicate", "-C", ws.root, "--json").json["reviews_left_out"] == {evidence.UNFOUNDED: 1}
    assert cli("release", "1.0.0", "-C", ws.root).code == 0
    catalogs = ws.releases / "1.0.0" / "data" / "reviews" / "catalog.parquet"
    assert not catalogs.exists() or pl.read_parquet(catalogs).is_empty()


@pytest.mark.slow
def test_whose_words_were_forged_is_asked_again(workspace, cli):
    review_world.fill(workspace)
    review, files = review_world.reviewing(cli, workspace), review_world.Files(workspace)
    push = ("push", "--reviewer", "ann", *files.push_words)
    review(*push)
    answers = {"c1": {"gore": "blood"}, "c2": {"accidents_disasters": "crash"}}
    files.answer("ann", lambda subject, asked: review_world.Verdict(answers[subject]))
    review("pull", *files.pull_words)
    assert review(*push)["rows"] == {"ann": 0}
    assert by_hand(workspace, "reviews", "subject = 'c1'") == 1
    assert review("status")["left_out"] == {evidence.UNFOUNDED: 1}
    assert review(*push)["rows"] == {"ann": 2}  # gore in c1, and its `*`
    files.answer("ann", lambda subject, asked: review_world.Verdict(answers[subject]))
    assert review("pull", *files.pull_words)["added"] >= 1
    assert review("status")["left_out"] == {} and review(*push)["rows"] == {"ann": 0}

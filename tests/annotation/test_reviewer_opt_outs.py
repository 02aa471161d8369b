"""Reviewers who opt out of a trait: its tasks are kept from them or taken back; a withdrawn wish is deleted."""

import pytest

from annotation import reviewer_opt_outs as opt_outs
from saferec_builder.core.errors import StoreError, UsageError
from saferec_builder.storage import tables, workspace as store
from tests.worlds.csv_rows import rows_of
from tests.worlds.reviewing import TAXONOMY, TWO, answer, labels
from tests.worlds.settings import taxonomy


def test_an_opt_out_is_kept_away_taken_back_and_forgotten(ws, cli, review):
    review("push", *TWO)

    def opt_out(name: str, *slugs: str, remove: bool = False) -> tuple[int, int, dict]:
        counts = opt_outs.opt_out(ws, name, slugs, remove=remove)
        return counts.added, counts.skipped, dict(counts.figures)

    push_again = {"next": "run `saferec-build review push` again: open tasks with these are taken back"}
    unknown = {"note": "el has no tasks here yet: it holds for exactly this name"}
    assert opt_out("ann", "gore") == (1, 0, push_again)
    assert opt_out("ann", "gore", "needles") == (1, 1, push_again)
    assert opt_out("el", "gore") == (1, 0, push_again | unknown)
    assert opt_outs.avoided(ws) == {("ann", "gore"), ("ann", "needles"), ("el", "gore")}
    assert (ws.root / ".opt-outs.json").stat().st_mode & 0o777 == 0o600
    pushed = review("push", *TWO, "--reviewer", "di")
    assert pushed["new"] == {"proposed": 1}  # di takes the task with gore
    texts = {row["text"] for row in rows_of(ws.root / "review" / "ann.csv")}
    assert not any("blood" in text for text in texts)
    assert any("blood" in row["text"] for row in rows_of(ws.root / "review" / "di.csv"))
    # two tasks of two readers each: the task taken back from ann no longer waits for her
    status = cli("status", "-C", ws.root, "--json")
    assert "gore" not in cli("status", "-C", ws.root).out and status.json["unanswered"] == 4
    assert opt_out("ann", "gore", "torture", remove=True) == (1, 1, push_again)
    assert opt_out("ann", "needles", remove=True) == (*opt_out("el", "gore", remove=True)[:2], push_again)
    assert not (ws.root / ".opt-outs.json").exists()
    assert opt_out("ann", "gore", remove=True) == (0, 1, {})
    with pytest.raises(UsageError, match="blood"):
        opt_out("ann", "blood")
    for damaged in ("{", '{"ann": "gore"}', '{"ann": [1]}'):
        (ws.root / ".opt-outs.json").write_text(damaged)
        with pytest.raises(StoreError, match="damaged: put your copy of it back, or delete it and ask"):
            opt_outs.avoided(ws)


@pytest.mark.slow
def test_what_cannot_be_handed_back_or_set_aside_says_whose_work_could(ws, review):
    for people, expected in (((), "those that a push names"), (TWO, "ann, bo")):
        if people:
            review("push", *people)
        with pytest.raises(UsageError, match=f"di has no tasks here: expected one of {expected}$"):
            opt_outs.hand_back(ws, "di")
    hint = r"\(open tasks: `review hand-back di`\)$"
    with pytest.raises(UsageError, match=f"di has no reviews here: expected one of nobody yet {hint}"):
        opt_outs.set_aside(ws, "di", reason="none")
    counts = opt_outs.hand_back(ws, "bo")
    note = "what was answered and not yet pulled counts once it is: nothing is lost"
    next_step = "run `saferec-build review push`, naming who is there: they get these tasks"
    assert (counts.added, counts.figures) == (2, {"note": note, "next": next_step})
    answer(ws, review)  # bo had answered in the file
    assert opt_outs.hand_back(ws, "bo") == opt_outs.hand_back(ws, "ann")  # both have read all of theirs
    with pytest.raises(UsageError, match=f"di has no reviews here: expected one of ann, bo {hint}"):
        opt_outs.set_aside(ws, "di", undo=True)
    with pytest.raises(UsageError, match="^set-aside bo: give --reason, for whoever wonders later$"):
        opt_outs.set_aside(ws, "bo")
    counts = opt_outs.set_aside(ws, "bo", reason="read nothing")
    assert (counts.added, dict(counts.figures)) == (4, {"next": "run `saferec-build adjudicate`: labels follow"})
    assert opt_outs.set_aside(ws, "bo", undo=True).added == 4 and opt_outs.hand_back(ws, "ann").figures == {}


@pytest.mark.slow
def test_a_reviewers_work_is_set_aside_and_brought_back(ws, cli, review, adjudicate):
    """Both read both tasks: each trait has two labels or more, and without bo none. It is said until labels follow."""
    words = ("-C", ws.root, "--json")
    review("push", *TWO)
    answer(ws, review)
    assert "alarms" not in adjudicate() and "alarms" not in review("status")
    assert labels(ws)["c1", "gore"] == ("present", "agreed")
    result = cli("review", "set-aside", "bo", "--reason", "read nothing", *words).json
    assert "gore: 2 of 2 labels lose their verdict" in result["alarms"] and len(result["alarms"]) == len(TAXONOMY.slugs)
    status, report = review("status"), adjudicate()
    assert status["alarms"] == report["alarms"] == result["alarms"] and report["reviews_left_out"] == {"set aside": 4}
    assert "alarms" not in adjudicate() and "alarms" not in review("status")
    assert labels(ws)["c1", "gore"] == (None, "unresolved")
    pulled = review("pull", ws.root / "review" / "bo.csv")  # their file does not bring the reviews back
    assert (pulled["added"], pulled["dropped"]) == (0, {"set aside": 4})
    assert review("push", "--reviewer", "di")["new"] == {"proposed": 2}  # somebody else takes the two tasks over
    assert cli("review", "set-aside", "bo", "--undo", *words).json["added"] == 4
    adjudicate()
    assert labels(ws)["c1", "gore"] == ("present", "agreed")


@pytest.mark.slow
def test_a_task_that_a_new_trait_opens_again_is_handed_back_and_what_was_said_stays(ws, cli, review, adjudicate):
    """ann and bo read both tasks; then a trait is added, and both tasks are open again for both. bo's were skipped; and
    otherwise their "absent" of all other traits would have gone with them."""
    definitions = {"gore": "Blood.", "accidents_disasters": "Crashes."}
    taxonomy(ws.root, **definitions)
    review("push", *TWO)
    answer(ws, review)
    adjudicate()
    earlier = labels(ws)
    assert len(earlier) == 4 and all(method == "agreed" for _, method in earlier.values())
    taxonomy(ws.root, **definitions, needles="Injections.")
    words = ("-C", ws.root, "--json")
    assert [cli("review", "hand-back", "bo", *words).json["added"] for _ in range(2)] == [2, 0]
    handed_back = store.read(ws, tables.REVIEWS).filter(note=tables.HANDED_BACK)
    assert handed_back["tool"].unique().to_list() == ["hand_back"]  # and not one of the four tools where people answer
    assert adjudicate()["unresolved"] == 0 and labels(ws) == earlier
    assert review("push", *TWO, "--reviewer", "di")["new"] == {"proposed": 2}  # di's
    cli("review", "set-aside", "bo", "--reason", "a test", *words)
    adjudicate()
    assert not any(method == "agreed" for _, method in labels(ws).values())  # only ann's answers are left
    cli("review", "set-aside", "bo", "--undo", *words)
    assert adjudicate()["unresolved"] == 0 and labels(ws) == earlier
    assert review("status")["reviewers"]["bo"]["open"] == 0  # and bo is not asked again for what was handed back


def test_a_wish_about_a_trait_that_has_left_can_be_forgotten(ws):
    opt_outs.opt_out(ws, "ann", "gore")
    taxonomy(ws.root, accidents_disasters="Crashes.")
    assert opt_outs.opt_out(store.Workspace.open(ws.root), "ann", "gore", remove=True).added == 1
    assert not (ws.root / ".opt-outs.json").exists()

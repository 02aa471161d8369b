"""A round of review from Python: tasks to CSVs, answers back, labels with their bounds."""

from annotation.adjudication import adjudicate
from annotation.progress import review_status
from annotation.pull import pull
from annotation.push import push
from annotation.review_destinations import Argilla, Files, LabelStudio
from saferec_builder.storage import workspace as store
from tests.worlds import review_world


def absent(subject: str, asked: list[str]) -> review_world.Verdict:
    return review_world.Verdict()


def test_a_round_of_review(ws: store.Workspace) -> None:
    """Two people find nothing in the two proposed conversations: all their traits are agreed absent."""
    pushed = push(ws, ["ann", "bo"], to=Files(), minutes=float("inf"))  # no limit; it ended in a traceback
    assert pushed.counts.added == pushed.assignments.height == 4 and ws.table("assignments").equals(pushed.assignments)
    assert pushed.counts.figures["new"] == {"proposed": 4}
    review_world.Files(ws).answer("ann", absent)
    pulled = pull(ws, Files())  # bo has answered nothing
    assert (pulled.counts.added, pulled.rejected.height, pulled.counts.figures["not_answered_yet"]) == (4, 0, 4)
    # four answers, by which nobody could check that both tasks had arrived
    assert (pulled.counts.figures["tasks"], pulled.counts.figures["tasks_by"]) == (2, {"ann": 2})
    review_world.Files(ws).answer("bo", absent)
    assert pull(ws, Files(paths=str(ws.root / "review" / "bo.csv"))).counts.added == 4

    judged, status = adjudicate(ws), review_status(ws)
    slugs = len(ws.taxonomy.slugs)
    assert judged.counts.added == judged.labels.height == status.units == 2 * slugs
    assert {*judged.labels["method"]} == {"agreed"} and judged.counts.figures["agreed"] == 2 * slugs
    assert judged.bounds == status.bounds and judged.bounds.undrawn == 2  # nobody reads c3 and c4
    assert {name: facts["open"] for name, facts in status.reviewers.items()} == {"ann": 0, "bo": 0}
    assert (ws.root / "certificates.json").exists()
    assert adjudicate(ws).counts.added == push(ws, ["ann", "bo"], to=Files()).counts.added == 0


def test_what_cannot_be_taken_comes_back_as_a_table(ws: store.Workspace) -> None:
    push(ws, ["ann", "bo"], to=Files())
    review_world.Files(ws).answer("ann", absent)
    file = ws.root / "review" / "ann.csv"
    file.write_text(file.read_text("utf-8-sig").replace(",absent,", ",maybe,", 1), "utf-8-sig")
    pulled = pull(ws, Files(ws.root / "review"))
    assert pulled.counts.dropped == {"unknown verdict": 1, "`*` before the rest": 1} and pulled.counts.added == 2
    assert pulled.rejected["detail"][0] == "'maybe': expected present, absent or unsure (ann)"
    assert ws.table("drops").equals(pulled.rejected)


def test_a_destination_shows_no_token() -> None:
    assert "secret" not in f"{LabelStudio('https://a', 'secret')}{Argilla('https://a', 'secret')}"

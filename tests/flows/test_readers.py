"""One to ten readers in the whole pipeline, on files and Label Studio, checked by hand and against crowd-kit."""

from typing import Any

import polars as pl
import pytest

from exports import folder
from saferec_builder.storage import tables, workspace as store
from tests.worlds import release_world as world, review_world
from tests.worlds.csv_rows import edit
from tests.worlds.opinions import span
from tests.worlds.settings import review_settings

pytestmark = pytest.mark.slow  # the whole pipeline, command by command

QUOTE = "faint at the sight of blood"


@pytest.fixture
def ws(workspace: store.Workspace) -> store.Workspace:
    """Six conversations, of which c001 and c003 have a proposal; nothing else is reviewed."""
    rows, _ = world.requests(6)
    world.fill(workspace, rows, [])
    turns = [[turn["text"] for turn in rows[n]["turns"]] for n in (1, 3)]
    claims = [
        {"proposal": c, "kind": "sensitivity", "subject": c, "trait": "gore", "verdict": "present"}
        | {"spans": [span(QUOTE, 0, texts)], "proposer": "rules", "digest": rows[n]["digest"], "form": "implicit"}
        for n, c, texts in zip((1, 3), ("c001", "c003"), turns, strict=True)
    ]
    store.append(workspace, tables.PROPOSALS, tables.PROPOSALS.frame(claims))
    review_settings(workspace.root, audit=0, held_back=0, controls=0)
    world.for_few(workspace, 1)
    return workspace


def votes(readers: int) -> dict[str, tuple[int, int, int]]:
    """Returns conversation -> counts of present, absent, unsure: present has just over half in c001, ties in c003."""
    most, half = readers // 2 + 1, readers // 2
    return {"c001": (most, readers - most, 0), "c003": (half, half, readers % 2)}


class Files:
    """Answers in the CSV files of reviewers."""

    push_words: tuple[str, ...] = ("--tool", "files")

    def __init__(self, ws: store.Workspace) -> None:
        self.ws = ws
        self.pull_words = (*self.push_words, ws.root / "review")

    def say(self, name: str, text: str, verdict: str) -> None:
        verdicts = {"gore": verdict, "*": "none"}
        path = self.ws.root / "review" / f"{name}.csv"
        edit(path, lambda row: {"verdict": verdicts[row["trait"]]} if text in row["text"] else {})


class LabelStudio(review_world.LabelStudio):
    def say(self, name: str, text: str, verdict: str) -> None:
        """Posts the verdict of the card and the proposed spans."""
        (task,) = [task for task in self._tasks(name) if text in task["data"]["turns"][0]["text"]]
        card = {"id": "c", "from_name": "verdict_0", "to_name": "about_0", "type": "choices"}
        marked = [row for prediction in task["predictions"] for row in prediction["result"]]
        self.post(name, task["id"], {"result": [card | {"value": {"choices": [f"gore {verdict}"]}}, *marked]})


# 1 - Do / De for the votes on both: Do sums (m^2 - sum n^2) / (m - 1) over the two, De is (N^2 - sum N^2) / (N - 1)
ALPHA = {
    1: None,
    2: 1 - 2 / 2,  # (2, 0) and (1, 1): 0 + 2; (16 - 9 - 1) / 3
    3: 1 - 5 / 4.4,  # (2, 1, 0) and (1, 1, 1): 2 + 3; (36 - 9 - 4 - 1) / 5
    5: 1 - 7 / (58 / 9),  # (3, 2, 0) and (2, 2, 1): 12/4 + 16/4; (100 - 25 - 16 - 1) / 9
    10: 1 - (98 / 9) / (198 / 19),  # (6, 4) and (5, 5): 48/9 + 50/9; (400 - 121 - 81) / 19
}


def line(readers: int, tool: str) -> Any:
    marks = (pytest.mark.servers, *[pytest.mark.soak] * (readers != 5))
    return pytest.param(readers, tool, marks=marks if tool == "label-studio" else ())


def released_as_voted(ws: store.Workspace, cli: Any, readers: int, soft: Any) -> None:
    """Checks the votes of each label against the answers, and the soft label against the answers and crowd-kit."""
    run = cli("release", "1.0.0", "--allow", "no-safety", "-C", ws.root)
    assert run.code == 0, run.err
    frames = [pl.read_parquet(path) for path in sorted((ws.releases / "1.0.0/data/labels").glob("*.parquet"))]
    assert bool(frames) == (readers > 1)  # a trait that is present in no label is withheld
    rows = pl.concat([tables.LABELS.empty, *frames], how="diagonal_relaxed")
    ids = dict(zip(world.released(ws, "c001", "c003"), ("c001", "c003"), strict=True))
    for row in rows.filter(trait="gore").iter_rows(named=True):
        counts = votes(readers)[ids[row["conversation"]]]
        assert (row["votes_present"], row["votes_absent"], row["votes_unsure"]) == counts
        assert row["soft_label"] == pytest.approx(counts[0] / readers)
        assert row["soft_label"] == pytest.approx(soft[ids[row["conversation"]]])


@pytest.mark.filterwarnings("ignore")  # crowd-kit's use of pandas
@pytest.mark.parametrize(
    ("readers", "where"), [line(n, tool) for tool in ("files", "label-studio") for n in (1, 2, 3, 5, 10)]
)
def test_so_many_readers_through_the_line(request, ws, cli, readers, where):
    from crowdkit.aggregation import MajorityVote
    from crowdkit.metrics.data import alpha_krippendorff

    tool: Files | LabelStudio = Files(ws)
    if where == "label-studio":
        tool = LabelStudio.own(ws, request.getfixturevalue("label_studio"))

    def review(verb: str, *words: object) -> dict[str, Any]:
        run = cli("review", verb, *words, *getattr(tool, f"{verb}_words"), "-C", ws.root, "--json")
        assert run.code == 0, run.err
        return run.json

    review_settings(ws.root, readers=readers)
    people = [f"p{n}" for n in range(readers + 1)]
    options = [word for name in people for word in ("--reviewer", name)]
    assert review("push", *options)["new"] == {"proposed": 2 * readers}
    assignments = store.read(ws, tables.ASSIGNMENTS)
    turns = dict(store.read(ws, tables.CONVERSATIONS).select("conversation", "turns").iter_rows())
    for subject, counts in votes(readers).items():
        answers = [v for v, n in zip(("present", "absent", "unsure"), counts, strict=True) for _ in range(n)]
        text = turns[subject][0]["text"]
        for name, verdict in zip(assignments.filter(subject=subject)["reviewer"], answers, strict=True):
            tool.say(name, text, verdict)
    review("pull")
    ballots = store.read(ws, tables.REVIEWS).filter(trait="gore")
    ballots = ballots.select(task="subject", worker="reviewer", label="verdict").to_pandas()
    soft = MajorityVote().fit_predict_proba(ballots)["present"]
    report = cli("adjudicate", "-C", ws.root, "--json").json
    # in c003 no verdict has more than half: a dispute if two or more read it; a single reader makes no label of either
    assert (report["agreed"] > 0, report["adjudicated"]) == (readers > 1, 0)
    alpha = (report["alpha"].get("gore") or {}).get("alpha")
    assert alpha == (None if ALPHA[readers] is None else pytest.approx(ALPHA[readers]))
    assert alpha is None or alpha == pytest.approx(alpha_krippendorff(ballots))
    missed = report["missed"]["gore"]  # no audit is drawn: every unknown conversation counts as missed
    assert missed["share"] >= 5 / 6 and not missed["certified"]
    last = tables.last(store.read(ws, tables.LABELS), "subject", "trait").filter(trait="gore")
    verdicts = {subject: verdict for subject, verdict in last.select("subject", "verdict").iter_rows()}
    assert verdicts == {"c001": "present" if readers > 1 else None, "c003": None}

    if readers > 1:  # readers of a conversation cannot rule on it; readers of another one can
        done = assignments.filter(subject="c003")["reviewer"].to_list()
        (other,) = {*people} - {*done}
        assert other in assignments.filter(subject="c001")["reviewer"]
        waiting = review("push", "--adjudicator", done[0])
        advice = f"1 wait for a ruling, and {done[0]} has read them: name somebody else"
        assert waiting["new"] == {} and advice in waiting["next"]
        assert review("push", "--reviewer", other, "--adjudicator", other)["new"] == {"disagreement": 1}
        tool.say(other, turns["c003"][0]["text"], "absent")
        review("pull")
        assert cli("adjudicate", "-C", ws.root, "--json").json["adjudicated"] == 1

    released_as_voted(ws, cli, readers, soft)
    path = ws.releases / "1.0.0"
    assert not any(name in (path / "README.md").read_text("utf-8") for name in people)
    assert not any(bound["certified"] for bound in folder.facts_of(path)["missed"].values())

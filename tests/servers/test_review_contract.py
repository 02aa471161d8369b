"""One contract for every review tool: files, the page, a real Label Studio, a real Argilla."""

from pathlib import Path

import polars as pl
import pytest

from annotation.follow import follow
from annotation.review_destinations import Argilla, LabelStudio
from annotation.tools import local_label_studio as managed, task_conversion as sheets
from saferec_builder.storage import tables, workspace as store
from tests.worlds import review_page, review_world
from tests.worlds.csv_rows import rows_of
from tests.worlds.review_world import Verdict, subject_of, taxonomy
from tests.worlds.settings import review_settings

OWN = ("files", "page")  # nothing is on a server
TWO = ("--reviewer", "ann", "--reviewer", "bo")
YES = {"c1": {"gore": "blood"}, "c2": {"accidents_disasters": "crash"}}


@pytest.fixture
def ws(workspace: store.Workspace) -> store.Workspace:
    review_world.fill(workspace)
    return workspace


SERVERS = [pytest.param(name, marks=pytest.mark.servers) for name in ("label-studio", "argilla")]


@pytest.fixture(params=["files", "page", *SERVERS])
def tool(request, ws):
    """A driver: what people do in the tool, and the words that name it on the command line."""
    if request.param == "files":
        return review_world.Files(ws)
    if request.param == "argilla":
        server = request.getfixturevalue("argilla_server")
        return review_world.Argilla(ws, server.url, server.key)
    if request.param == "page":
        return review_page.Page(ws)
    home, facts = request.getfixturevalue("label_studio")
    (ws.root / "label-studio").symlink_to(home)
    return review_world.LabelStudio(ws, home, facts)


@pytest.fixture
def review(cli, ws, tool):
    def run(verb: str, *words: object) -> dict:
        if tool.name == "page" and verb == "pull":
            return tool.pull()
        ran = cli("review", verb, *words, *getattr(tool, f"{verb}_words"), "-C", ws.root, "--json")
        assert ran.code == 0, ran.err
        assert ran.json["in"] == ran.json["out"] + sum(ran.json["dropped"].values())
        assert ran.json["out"] == ran.json["added"] + ran.json["skipped"]
        return ran.json

    return run


def rows(ws: store.Workspace) -> dict[tuple[str, str, str], tuple[str, list[str]]]:
    found = store.read(ws, tables.REVIEWS).rows_by_key(["reviewer", "subject", "trait"], named=True)
    return {key: (said[-1]["verdict"], [s["quote"] for s in said[-1]["spans"] or []]) for key, said in found.items()}


def says(said: dict[str, dict[str, str]]):
    return lambda subject, asked: Verdict(said.get(subject, {}))


def test_pushed_tasks_reach_their_people_and_nobody_else(ws, tool, review):
    sent = review("push", *TWO, "--all")
    assert sent["added"] == 8
    everything = {"c1": ["gore"], "c2": ["accidents_disasters"], "c3": [], "c4": []}
    assert tool.tasks("ann") == tool.tasks("bo") == everything
    assert tool.tasks("cy") == {}


def test_answers_come_back_exact_and_once(ws, tool, review):
    review("push", *TWO)
    more = {"c1": {"gore": "blood", "needles": TEXT_OF_EMOJI}}
    assert tool.answer("ann", says(YES | more)) == 2
    first = review("pull")
    got = rows(ws)
    assert got["ann", "c1", "gore"] == ("present", ["blood"])
    assert got["ann", "c1", "needles"] == ("present", [TEXT_OF_EMOJI])  # nobody had proposed it
    assert got["ann", "c1", "*"] == ("absent", [])
    assert got["ann", "c2", "accidents_disasters"] == ("present", ["crash"])
    for row in store.read(ws, tables.REVIEWS).iter_rows(named=True):
        for span in row["spans"] or []:
            assert review_world.TEXTS[row["subject"]][span["start"] : span["end"]] == span["quote"]
    again = review("pull")
    assert (again["added"], again["skipped"]) == (0, first["added"])


TEXT_OF_EMOJI = "👨\u200d👩\u200d👧\n\n cafe\u0301"


@pytest.mark.parametrize("tool", SERVERS, indirect=True)
def test_who_follows_gets_what_is_answered_since(ws, tool, review):
    review("push", *TWO)
    words = dict(zip(tool.pull_words[::2], tool.pull_words[1::2], strict=True))
    place = LabelStudio() if tool.name == "label-studio" else Argilla(words["--url"], words["--token"])
    looks = follow(store.Workspace.open(ws.root), place, every=0)
    assert next(looks).counts.came == 0
    assert next(looks) is next(looks) is None
    for n, (who, subject) in enumerate((("ann", "c1"), ("ann", "c2"), ("bo", "c1"))):
        tool.answer(who, lambda found, asked, c=subject: Verdict(YES[c]) if found == c else None)
        assert next(looks).counts.added == 2 and next(looks) is None, n  # the trait that was asked, and `*`
    tool.answer("ann", lambda found, asked: Verdict() if found == "c1" else None)  # a changed mind
    assert next(looks).counts.added == 1
    assert rows(ws)["ann", "c1", "gore"] == ("absent", [])


def test_a_second_push_adds_nothing(ws, tool, review):
    review("push", *TWO, "--all")
    before = tool.tasks("ann")
    again = review("push", *TWO, "--all")
    assert (again["added"], again["skipped"]) == (0, 8)
    assert tool.tasks("ann") == before


def test_two_alike_make_a_label_and_a_dispute_goes_to_the_adjudicator(ws, tool, review, cli):
    review("push", *TWO)
    tool.answer("ann", says(YES))
    tool.answer("bo", says({"c1": YES["c1"]}))
    review("pull")
    assert cli("adjudicate", "-C", ws.root, "--json").json["unresolved"] == 1
    sent = review("push", "--adjudicator", "cy")
    assert sent["new"] == {"disagreement": 1}
    assert tool.tasks("cy") == {"c2": ["accidents_disasters"]}
    tool.answer("cy", says(YES))
    review("pull")
    assert cli("adjudicate", "-C", ws.root, "--json").json["unresolved"] == 0
    last = tables.last(store.read(ws, tables.LABELS), "subject", "trait")
    label = last.filter(subject="c2", trait="accidents_disasters").row(0, named=True)
    assert (label["verdict"], label["method"], label["spans"][0]["quote"]) == ("present", "adjudicated", "crash")
    assert rows(ws).get(("cy", "c2", "*")) is None  # an adjudicator rules on what is disputed, nothing more


@pytest.mark.slow
def test_a_later_dispute_on_the_same_conversation_is_asked_too(ws, tool, review, cli):
    review("push", *TWO)
    tool.answer("ann", says(YES))
    tool.answer("bo", says({"c1": YES["c1"]}))
    review("pull")
    review("push", "--adjudicator", "cy")
    tool.answer("cy", says(YES))
    review("pull")
    tool.answer("ann", says({"c1": YES["c1"], "c2": {"accidents_disasters": "crash", "needles": "crash"}}))
    review("pull")
    review("push", "--adjudicator", "cy")
    assert tool.tasks("cy") == {"c2": ["needles"]}
    tool.answer("cy", lambda subject, asked: Verdict({"needles": "crash"}) if asked == ["needles"] else None)
    review("pull")
    assert cli("adjudicate", "-C", ws.root, "--json").json["unresolved"] == 0
    last = tables.last(store.read(ws, tables.LABELS), "subject", "trait").filter(subject="c2", method="adjudicated")
    assert set(last.select("trait", "verdict").iter_rows()) == {
        ("accidents_disasters", "present"),
        ("needles", "present"),
    }


def test_what_was_left_open_is_no_verdict(ws, tool, review):
    review("push", *TWO)
    tool.answer("ann", lambda subject, asked: Verdict(YES["c1"], note="hm") if subject == "c1" else None)
    review("pull")
    assert {key[1] for key in rows(ws)} == {"c1"}
    assert store.read(ws, tables.REVIEWS)["note"].drop_nulls().unique().to_list() == ["hm"]


def test_a_changed_mind_is_a_new_row_and_counts(ws, tool, review):
    review("push", *TWO)
    tool.answer("ann", says(YES))
    review("pull")
    tool.answer("ann", says({}))
    changed = review("pull")
    assert changed["added"] >= 2
    last = tables.last(store.read(ws, tables.REVIEWS), "subject", "trait", "reviewer")
    verdicts = {(r["subject"], r["trait"]): r["verdict"] for r in last.iter_rows(named=True)}
    assert verdicts["c1", "gore"] == verdicts["c2", "accidents_disasters"] == "absent"


def test_a_demo_workspace_marks_every_review(demo_workspace, cli, request, tool, ws):
    assert not store.read(ws, tables.REVIEWS)["simulated"].any()
    Path(ws.root, "saferec.toml").write_bytes(Path(demo_workspace.root, "saferec.toml").read_bytes())
    words = ("-C", ws.root, "--json")
    assert cli("review", "push", *TWO, *tool.push_words, *words).code == 0
    tool.answer("ann", says(YES))
    assert tool.name == "page" or cli("review", "pull", *tool.pull_words, *words).code == 0
    reviews = store.read(ws, tables.REVIEWS)
    assert reviews.height > 0
    assert reviews.select(pl.col("simulated").all()).item()


def test_a_trait_added_after_the_first_push_can_be_answered(ws, tool, review, cli):
    """Who had read a conversation is asked once more, and what they have said by then speaks for the new trait too."""
    two = {"gore": "Blood and wounds.", "accidents_disasters": "Crashes."}
    taxonomy(ws, **two)
    review("push", *TWO)
    tool.answer("ann", says({"c1": YES["c1"]}))  # bo has answered nothing yet
    review("pull")
    taxonomy(ws, **two, needles="Injections.")
    sent = review("push", *TWO)
    assert tool.name in OWN or {n["added"] for n in sent["sent"].values()} == {2}, sent
    assert tool.name in OWN or sent["sent"]["bo"]["taken_back"] == 2  # nobody finds a task twice
    more = {"c1": {"gore": "blood", "needles": "I faint"}}
    for name in ("ann", "bo"):
        tool.answer(name, says(YES | more))
    review("pull")
    got = rows(ws)
    assert got["ann", "c1", "needles"] == got["bo", "c1", "needles"] == ("present", ["I faint"])
    told = cli("adjudicate", "-C", ws.root, "--json").json
    assert (told["agreed"], told["reviews_left_out"]) == (6, {})  # two conversations, three traits each
    again = review("pull")
    assert again["added"] == 0
    sent = review("push", *TWO)
    if tool.name in OWN:  # nothing is open any more
        assert sent.get("rows", sent.get("open")) in ({}, {"ann": 0, "bo": 0})
    else:
        assert {(n["added"], n["skipped"]) for n in sent["sent"].values()} == {(0, 0)}


def test_other_words_for_a_trait_are_shown(ws, tool, review):
    taxonomy(ws, gore="Blood.", accidents_disasters="Crashes.")
    review("push", *TWO)
    taxonomy(ws, gore="Blood and wounds.", accidents_disasters="Crashes.")
    review("push", *TWO)
    if tool.name == "argilla":
        (project,) = tool.projects("ann")
        page = str(tool.rest(tool.server.token, "GET", f"/api/v1/datasets/{project.id}/questions"))
    elif tool.name == "page":
        page = str(tool.page.taxonomy)
    else:
        page = str(tool.project("ann").setup if tool.name == "label-studio" else tool._rows("ann"))
    assert "Blood and wounds." in page


def test_a_taxonomy_of_one_trait_goes_round(ws, tool, review):
    taxonomy(ws, gore="Blood and wounds.")
    shard = ws.root / "tables" / "proposals"
    for file in shard.iterdir():  # the other trait is none here
        file.unlink()
    claims = [review_world.claim(*c) for c in review_world.CLAIMS if c[1] == "gore"]
    store.append(ws, tables.PROPOSALS, pl.DataFrame(claims, schema=tables.PROPOSALS.schema))
    review("push", *TWO, "--all")
    tool.answer("ann", says(YES | {"c2": {}}))
    review("pull")
    assert rows(ws)["ann", "c1", "gore"] == ("present", ["blood"])


def test_a_removal_reaches_everybody_and_what_they_have_said(ws, tool, review):
    """All four lie with ann and bo, ann has answered. c1 goes whole; of c2 a post, without which it is mined anew.
    The next push names cy alone."""
    review("push", *TWO, "--all")
    tool.answer("ann", says(YES))
    review("pull")
    rows = store.read(ws, tables.CONVERSATIONS).filter(conversation="c2")
    turns = [rows["turns"][0][0], {"role": "recommender", "text": "None comes to mind.", "items": []}]
    later = rows.with_columns(digest=pl.lit("d2-c2"), turns=pl.Series([turns], dtype=rows.schema["turns"]))
    store.append(ws, tables.CONVERSATIONS, later)
    post = {"conversation": "c2", "digest": "d-c2", "turn": 1, "source_id": "p9", "author": "b2-0"}
    store.append(ws, tables.ORIGINS, pl.DataFrame([post], schema=tables.ORIGINS.schema))
    (ws.root / "removals.csv").write_text("source,source_id,author\nmessages,c1,\nmessages,p9,\n")
    if tool.name in OWN:  # a file is its reviewer's, who may have it open: it is written anew when they are named
        review("push", *TWO, "--all")
        assert "c1" not in tool.tasks("ann") | tool.tasks("bo")
        return
    sent = review("push", "--adjudicator", "cy")["sent"]
    assert {who: n["taken_back"] for who, n in sent.items() if "taken_back" in n} == {"ann": 2, "bo": 2}
    assert set(tool.tasks("ann")) == set(tool.tasks("bo")) == {"c3", "c4"}
    again = review("push", "--adjudicator", "cy")  # and it stays so
    assert again["sent"] == {"cy": {"added": 0, "skipped": 0}}


def test_who_is_forgotten_is_on_no_server_any_more(ws, tool, review, cli):
    """Of all four that lie with ann and bo, ann has answered c1. A team's server has to be named."""
    review("push", *TWO, "--all")
    tool.answer("ann", says(YES))
    review("pull")
    sent = store.read(ws, tables.SENT).join(store.read(ws, tables.KEYED), on="task", how="semi")
    own = ws.root / "label-studio"
    stay = [_without(tool, who, "c1") for who in ("ann", "bo")]
    if tool.name == "argilla":
        refused = cli("forget", "c1", "-C", ws.root)
        assert refused.code == 1 and "2 tasks about them are on a review server (argilla): give it" in refused.err
    ran = cli("forget", "c1", *(tool.push_words if tool.name == "argilla" else ()), "-C", ws.root, "--json")
    assert ran.code == 0, ran.err
    told = ran.json["where"].get("tasks", 0)  # other tests' workspaces have the same conversation on one Label Studio
    assert told >= 2 if tool.name == "label-studio" else told == (2 if tool.name == "argilla" else 0)
    left = set(store.read(ws, tables.SENT)["task"])
    gone = set(sent["task"]) - left
    assert len(gone) == (0 if tool.name in OWN else 2)
    if own.exists():
        held = b"".join(path.read_bytes() for path in own.resolve().rglob("*") if path.is_file())
        assert not [task for task in gone if task.encode() in held] and all(task.encode() in held for task in left)
        managed.up(own.resolve(), print)  # it was stopped
    if tool.name == "page":
        tool.served = None  # nobody forgets while a page is served
    assert [set(tool.tasks(who)) for who in ("ann", "bo")] == stay


def _without(tool, who, name):
    """The other tasks. Ids have 16 letters; of this world's, with two, a key in a CSV may hold one by chance."""
    if tool.name == "page":
        return set(tool.tasks(who)) - {name}
    if tool.name != "files":
        return {"c2", "c3", "c4"}
    rows = rows_of(tool.folder / f"{who}.csv")
    kept = [row for row in rows if not any(name in cell for cell in row.values())]
    return {subject_of(row["text"]) for row in kept} - {name}


def test_what_is_handed_back_goes_to_somebody_else_and_not_back_to_them(ws, tool, review, cli):
    """A CSV has no words for it: there the task stays open."""
    review("push", *TWO)
    tool.answer("ann", lambda subject, asked: Verdict(outcome=sheets.RATHER_NOT) if subject == "c1" else Verdict())
    tool.answer("bo", says(YES))
    review("pull")
    both = (*TWO, "--reviewer", "cy")
    review("push", *both)
    assert tool.tasks("cy") == ({} if tool.name == "files" else {"c1": ["gore"]})
    if tool.name == "files":
        return
    status = cli("review", "status", "-C", ws.root, "--json").json
    assert status["left_out"] == {"handed back": 1} and status["reviewers"]["ann"]["open"] == 0
    tool.answer("cy", says(YES))
    review("pull")
    assert review("push", *both)["added"] == 0  # and it is nobody's a second time
    assert cli("adjudicate", "-C", ws.root, "--json").json["agreed"] >= 1
    label = tables.last(store.read(ws, tables.LABELS), "subject", "trait").filter(subject="c1", trait="gore")
    assert label["verdict"].to_list() == ["present"]
    tool.answer("ann", says(YES))  # they may come back to it
    review("pull")
    assert rows(ws)["ann", "c1", "gore"] == ("present", ["blood"])


@pytest.mark.slow
def test_twenty_flags_come_back_into_the_catalog(ws, tool, review, cli, monkeypatch):
    """Gore is proposed of 20 films; both readers find it in the first ten, and bo alone in the eleventh."""
    plots = {review_world.item(n): f"Number {n:03}: a village, and perhaps blood." for n in range(20)}
    monkeypatch.setattr(review_world, "TEXTS", review_world.TEXTS | plots)
    review_world.flag(ws, plots, [*plots], "blood")
    review("push", *TWO)
    for who, holds in (("ann", 10), ("bo", 11)):
        there = {*[*plots][:holds]}
        tool.answer(who, lambda c, asked, there=there: Verdict({"gore": "blood"} if c in there else {}))
    review("pull")
    assert cli("adjudicate", "-C", ws.root, "--json").json["warnings_from_item_labels"] == 19
    for n, word in ((0, "violated"), (9, "violated"), (10, "unknown"), (11, "clear"), (19, "clear")):
        told = cli("catalog", "check", f"Film {n:03} (2000)", "--trait", "gore", "-C", ws.root)
        assert f"verdict  {word}" in told.out, (n, told.out)


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["files", SERVERS[0]], indirect=True)
def test_flags_of_items_are_reviewed_and_what_they_miss_is_bounded(ws, tool, review, cli, monkeypatch):
    """200 items are flagged with gore, 150 of them rightly; in 10 of 100 others the plot has a needle that nobody
    proposed. The audit draws half of these: what it finds bounds what the rest may hold."""
    plots = {
        tables.digest("item", "csv", f"{n:03}"): f"Number {n:03}: a village, {'blood' if n < 150 else 'peace'}"
        f"{' and a needle' if n >= 290 else ''}."
        for n in range(300)
    }
    monkeypatch.setattr(review_world, "TEXTS", review_world.TEXTS | plots)
    review_world.flag(ws, plots, [*plots][:200], "a village")
    review_settings(ws.root, audit=0.5)
    (ws.root / ".secret").write_bytes(bytes(32))  # of the draw
    review("push", *TWO)
    passed = []

    def person(subject: str, asked: list[str], who: str = "") -> Verdict | None:
        if subject not in plots:
            return None
        found = {"gore": "blood"} if "blood" in plots[subject] else {}
        needle = {"needles": "needle"} if "needle" in plots[subject] else {}
        if needle and who == "bo" and not passed:  # bo reads past the first needle that he comes to
            passed.append(subject)
            needle = {}
        return Verdict(found | needle)

    for who in ("ann", "bo"):
        assert tool.answer(who, lambda subject, asked, who=who: person(subject, asked, who)) > 200
    review("pull")
    told = cli("adjudicate", "--json", "-C", ws.root).json["items"]
    gore, needles = told["missed"]["gore"], told["missed"]["needles"]
    people = told["population"]
    assert (people["subjects"], people["claimed"], people["zone"]) == (300, 200, 100)
    assert (gore["found"], gore["open"], gore["share"]) == (150, 0, gore["most"] / (gore["most"] + 150))
    assert 0 < needles["labels"] < 10 and needles["most"] >= 10 - needles["labels"]
    there, flagged = 160, 150 + needles["labels"]
    assert told["missed_of_all"]["share"] >= (there - flagged) / there
    assert not any(bound["certified"] for bound in told["missed"].values())  # nobody measured what these readers miss
    status = cli("review", "status", "-C", ws.root)
    assert status.code == 0 and f"missed share of gore (items): {gore['words']}" in status.out
    assert f"missed share of any flag of items: {told['missed_of_all']['words']}" in status.out
    assert review("push", *TWO, "--adjudicator", "cy")["new"] == {"disagreement": 1}  # it was nobody's before

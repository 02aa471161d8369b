"""A rejected answer comes back to its author with the reason, once, until they have answered again."""

import pytest

from saferec_builder.storage import tables, workspace as store
from tests.worlds import review_world, settings
from tests.worlds.csv_rows import edit, rows_of
from tests.worlds.pushes import ANN, FILES
from tests.worlds.review_memory import Memory
from tests.worlds.review_world import Verdict
from tests.worlds.reviewing import yes

review = review_world.review

SAID = {"present": ["gore"], "link": "http://labels.invalid/t/10", "place": "task 10"}


def of_gore(memory: Memory) -> list[str]:
    return [remote for remote, (_, task, _) in memory.held.items() if "gore" in task["asked"]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "reason", "shown"),
    [
        (SAID, "no quote", "(http://labels.invalid/t/10): no quote: gore: `present` needs the words that show it"),
        # only the owner learns who wrote over it
        (
            SAID | {"forged": "zoe wrote over it"},
            "not by its author",
            ": somebody else changed it there. Please answer",
        ),
        (SAID | {"outcome": "skipped"}, "skipped", None),  # whoever would rather not is not asked again
    ],
)
def test_its_author_is_told_why_and_asked_once(ws, review, memory, words, reason, shown):
    review("push", *ANN)
    (first,) = of_gore(memory)
    memory.answers, memory.words[first] = {first: Verdict()}, words
    assert review("pull")["dropped"] == {reason: 1}
    (drop,) = store.read(ws, tables.DROPS).iter_rows(named=True)
    assert drop["place"] == "task 10" and drop["detail"].endswith(f"(ann {SAID['link']})")
    assert review("status")["reviewers"]["ann"].get("rejected", 0) == bool(shown)
    sent = review("push", *ANN)["sent"]["ann"]
    assert (sent["added"], review("push", *ANN)["sent"]["ann"]["added"]) == (bool(shown), 0)
    if not shown:
        return
    resent = next(remote for remote in of_gore(memory) if remote != first)
    ask = memory.held[resent][1]["ask"].splitlines()[0]
    assert shown in ask and "zoe" not in ask
    memory.answers[resent] = Verdict()
    memory.words[resent] = {"present": ["gore"], "spans": {"gore": [review_world.span("c1", "blood")]}}
    pulled = review("pull")
    assert (pulled["added"], pulled["dropped"]) == (2, {})  # gore and `*`; the earlier mistake is corrected
    assert "rejected" not in review("status")["reviewers"]["ann"]
    assert review("push", *ANN)["sent"]["ann"]["added"] == 0
    settings.taxonomy(ws.root, gore="Blood.", accidents_disasters="Crashes.", needles="Injections.")  # all asked again
    assert "rejected" not in review("status")["reviewers"]["ann"]
    review("push", *ANN)
    (third,) = {*of_gore(memory)} - {first, resent}
    assert "last answer" not in memory.held[third][1]["ask"]
    memory.answers[third] = Verdict()
    memory.words[third] = words  # wrong again in the same way
    review("pull")
    assert review("status")["reviewers"]["ann"]["rejected"] == 1


def test_a_row_of_a_file_comes_back_with_the_reason_above_its_text(ws, cli, review):
    review("push", *FILES, *ANN)
    file = ws.root / "review" / "ann.csv"
    edit(file, lambda row: yes(row) | ({"quote": "blod"} if row["trait"] == "gore" else {}))
    place = f"{file}:{[row['trait'] for row in rows_of(file)].index('gore') + 2}"
    result = cli("review", "pull", *FILES, file, "-C", ws.root, "--json")
    assert f"{place}: quote not found: 'blod' stands in no turn: copy it from the text (ann)" in result.err
    assert result.json["dropped"] == {"quote not found": 1, "`*` before the rest": 1} and result.json["added"] == 2
    assert place in store.read(ws, tables.DROPS)["place"].to_list()
    file.rename(ws.root / "was.csv")
    review("push", *FILES, *ANN)
    warnings = {row["trait"]: row["warning"] for row in rows_of(file)}
    assert "quote not found: 'blod' stands in no turn" in warnings["gore"] and "once more" in warnings["gore"]
    edit(file, yes)
    assert review("pull", *FILES, file)["added"] == 2 and store.read(ws, tables.REVIEWS).height == 4


@pytest.mark.slow
def test_a_correction_that_is_rejected_too_is_told_what_is_wrong_with_it_now(ws, cli) -> None:
    words = ("-C", ws.root, "--json")
    assert cli("review", "push", *ANN, *FILES, *words).code == 0
    file = ws.root / "review" / "ann.csv"

    def told(**cells: str) -> str:
        edit(file, lambda row: yes(row) | (cells if row["trait"] == "gore" else {}))
        cli("review", "pull", file, *FILES, *words)
        return " ".join(store.read(ws, tables.REJECTED)["detail"])

    assert "'maybe'" in told(verdict="maybe")
    detail = told(verdict="present", quote="bloood")
    assert "'bloood'" in detail and "'maybe'" not in detail
    assert told(verdict="present", quote="bloood") == detail  # pulled once more
    assert not told(verdict="present", quote="blood")

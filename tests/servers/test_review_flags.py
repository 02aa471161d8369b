"""Flags of items travel the same way on every tool: files, the page, a real Label Studio, a real Argilla."""

import pytest

from saferec_builder.storage import tables
from tests.worlds import review_world
from tests.worlds.pushes import TWO
from tests.worlds.review_world import Verdict
from tests.worlds.settings import review_settings

pytestmark = pytest.mark.slow


def test_twenty_flags_come_back_into_the_catalog(ws, tool, review, cli, monkeypatch):
    """Gore is proposed for 20 films; both readers find it in the first ten, and only bo in the eleventh."""
    plots = {review_world.item(n): f"Number {n:03}: a village, and perhaps blood." for n in range(20)}
    monkeypatch.setattr(review_world, "TEXTS", review_world.TEXTS | plots)
    review_world.flag(ws, plots, [*plots], "blood")
    review("push", *TWO)
    for reviewer, holds in (("ann", 10), ("bo", 11)):
        flagged = {*[*plots][:holds]}
        tool.answer(reviewer, lambda c, asked, flagged=flagged: Verdict({"gore": "blood"} if c in flagged else {}))
    review("pull")
    assert cli("adjudicate", "-C", ws.root, "--json").json["warnings_from_item_labels"] == 19
    for n, word in ((0, "violated"), (9, "violated"), (10, "unknown"), (11, "clear"), (19, "clear")):
        result = cli("catalog", "check", f"Film {n:03} (2000)", "--trait", "gore", "-C", ws.root)
        assert f"verdict  {word}" in result.out, (n, result.out)


@pytest.mark.parametrize("tool", ["files"], indirect=True)
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
    (ws.root / ".secret").write_bytes(bytes(32))  # fixes the draw
    review("push", *TWO)
    overlooked = []

    def person(subject: str, asked: list[str], who: str = "") -> Verdict | None:
        if subject not in plots:
            return None
        blood = {"gore": "blood"} if "blood" in plots[subject] else {}
        needle = {"needles": "needle"} if "needle" in plots[subject] else {}
        if needle and who == "bo" and not overlooked:  # bo overlooks the first needle
            overlooked.append(subject)
            needle = {}
        return Verdict(blood | needle)

    for who in ("ann", "bo"):
        assert tool.answer(who, lambda subject, asked, who=who: person(subject, asked, who)) > 200
    review("pull")
    items = cli("adjudicate", "--json", "-C", ws.root).json["items"]
    gore, needles = items["missed"]["gore"], items["missed"]["needles"]
    population = items["population"]
    assert (population["subjects"], population["claimed"], population["zone"]) == (300, 200, 100)
    assert (gore["found"], gore["open"], gore["share"]) == (150, 0, gore["most"] / (gore["most"] + 150))
    assert 0 < needles["labels"] < 10 and needles["most"] >= 10 - needles["labels"]
    total, flagged = 160, 150 + needles["labels"]
    assert items["missed_of_all"]["share"] >= (total - flagged) / total
    assert not any(bound["certified"] for bound in items["missed"].values())  # what these readers miss was not measured
    status = cli("review", "status", "-C", ws.root)
    lines = dict(line.split("  ", 1) for line in status.out.splitlines() if "  " in line)
    assert status.code == 0 and lines["gore (items)"].strip() == gore["words"]
    assert lines["any flag of items"].strip() == items["missed_of_all"]["words"]
    assert review("push", *TWO, "--adjudicator", "cy")["new"] == {"disagreement": 1}  # no adjudicator had it before

"""The page's bounds on missed sensitivities follow the labels that it counts, and unknown verdicts are no finds."""

from dataclasses import replace
from pathlib import Path

import pytest

from annotation import confidence_bounds as certificates, recall_bounds as bounds
from exports.report import page, workload
from exports.report.gather import gather
from saferec_builder.core import taxonomy as traits
from saferec_builder.storage import workspace as store
from tests.conftest import Cli
from tests.worlds.csv_rows import edit
from tests.worlds.release_world import fill, requests
from tests.worlds.report_world import probe, text_of, world
from tests.worlds.reviewing import yes
from tests.worlds.settings import review_settings


def test_a_drawn_conversation_without_a_verdict_is_not_told_as_one_that_held_something(
    workspace: store.Workspace,
) -> None:
    # 5 of 50 audited count as missed: two are positives, three have no label; of the others six were found later
    bound = certificates.bound(certificates.Audit(40, 100, (1,) * 5 + (0,) * 45, holes=3, elsewhere=6))
    none = certificates.bound(certificates.Audit(0, 1_500, (0,) * 700))
    label_bounds = bounds.LabelBounds({"needles": none}, bound, [], {"units_present": 0, "units_absent": 0})
    missed = workload.missed(label_bounds, traits.load())
    text = text_of(page.render(gather(workspace) | {"runs": [], "missed": missed}))
    found = "46 were found outside the audit; "
    assert f"{found}50 of 100 unsent conversations were audited, 2 of them held something." in text
    assert "In 3 conversations that were proposed or drawn none is found and not all is sure yet" in text
    assert "each counts as missed (3 of them among the audited)" in text
    assert "none found; it may still be in 5 conversations at most" in text


def test_traits_that_nobody_has_are_not_listed_as_within_the_limit_together() -> None:
    """Where everything is read, 8 of 20 traits stood there that were found in nobody."""
    has, none = certificates.bound(certificates.Audit(40, 0, ())), certificates.bound(certificates.Audit(0, 0, ()))
    both = bounds.LabelBounds({"gore": has, "needles": none}, has, ["gore", "needles"], {})
    assert workload.missed(both, traits.load())["together"] == [traits.load()["gore"].name]


@pytest.mark.slow
def test_what_is_missed_is_missed_by_the_labels_of_this_page(workspace: store.Workspace, cli: Cli) -> None:
    """Two people have read all 40, and 20 cannot see blood: without labels there is no bound."""
    fill(workspace, requests()[0], [])
    review_settings(workspace.root, held_back=0)  # these two only accept the suggestions
    args, people = ("-C", workspace.root), ("--tool", "files", "--reviewer", "ann", "--reviewer", "bo")
    for command in (("propose",), ("review", "push", *people, "--all")):
        assert cli(*command, *args).code == 0
    for reviewer in ("ann", "bo"):
        edit(workspace.root / "review" / f"{reviewer}.csv", yes)
    assert cli("review", "pull", "--tool", "files", workspace.root / "review", *args).code == 0
    pulled = gather(workspace)
    assert (pulled["headline"]["sensitivities"], pulled["missed"]["pooled"]["share"]) == (0, None)
    assert cli("adjudicate", *args).code == 0
    adjudicated = gather(workspace)
    assert (adjudicated["headline"]["sensitivities"], adjudicated["missed"]["pooled"]["share"]) == (20, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_bars_of_one_chart_have_one_scale(width: int, workspace: store.Workspace, tmp_path: Path) -> None:
    """The scale is independent of the text beside a bar: the longer the text of a row, the shorter was its bar."""
    audits = {"gore": (4, 600), "torture": (0, 900), "needles": (0, 200)}
    by_trait = {
        slug: certificates.bound(certificates.Audit(300, 2_000, (1,) * x + (0,) * n, open=30 * (slug == "torture")))
        for slug, (x, n) in audits.items()
    }
    label_bounds = bounds.LabelBounds(by_trait, by_trait["gore"], [], {"units_present": 0, "units_absent": 0})
    label_bounds = replace(label_bounds, false={"gore": certificates.false_share(300, (0,) * 40)})
    figures = gather(world(workspace))
    figures |= {"runs": [], "missed": workload.missed(label_bounds, traits.load())}
    estimate = {"mean": 0.6667, "low": 0.2077, "high": 0.9385}
    figures["proposers"][0]["traits"].append(figures["proposers"][0]["traits"][0] | {"precision": estimate})
    layout = probe(page.render(figures), width, tmp_path)
    assert len(layout["tracks"]) >= 5 and set(layout["tracks"]) == {1}
    assert layout["wide"] == []

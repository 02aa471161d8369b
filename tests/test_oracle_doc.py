"""docs/oracle.md computes three risks: each line must be a step of the oracle, each number its result."""

import pytest

from saferec_builder import catalog
from saferec_builder.core import taxonomy as traits
from saferec_builder.sources.item_rows import Source
from tests import ROOT
from tests.worlds.shelves import ALIEN, merged, said, statement

DOC = (ROOT / "docs" / "oracle.md").read_text(encoding="utf-8")


def guide(*severities):
    return [statement(ALIEN, category, "guide", severity=s) for category, s in severities]


@pytest.mark.parametrize(
    ("trait", "warnings", "risk", "verdict"),
    [
        # max(1, (3 + .6) / 3.9 = .923)
        ("gore", [statement(ALIEN, yes=40, no=1), *guide(("violence", 3), ("frightening", 2))], 1.0, "violated"),
        # (.3 + 1) / (3 x 1.3) = 1.3 / 3.9
        ("horror_scares", guide(("violence", 1), ("frightening", 1)), 1.3 / 3.9, "unknown"),
        # 13 / 14 = .929 >= .9
        ("needles", [statement(ALIEN, "Are needles/syringes used", yes=0, no=12)], 0.0, "clear"),
    ],
)
def test_the_worked_risks_are_what_the_oracle_says(trait, warnings, risk, verdict):
    items, links = merged(("movielens:1", "Alien", 1979, [ALIEN]))
    explanation = catalog.explained(items["item"][0], items, links, said(*warnings), traits.load())
    result = next(t for t in explanation.traits if t.trait == trait)
    assert (result.risk, result.verdict) == (pytest.approx(risk), verdict)
    assert "```\n" + "\n".join(step.text for step in result.steps) + "\n```" in DOC
    assert f"{risk:.3f}, **{verdict}**" in DOC


def test_the_doc_names_every_source_of_catalog_add():
    assert [s for s in Source if s is not Source.demo and f"| `{s.value}` |" not in DOC] == []

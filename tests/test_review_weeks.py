"""Three weeks of a team: texts are mined anew, tools are switched midway, people leave and are renamed."""

from typing import Any

import polars as pl
import pytest

from saferec_builder import store, tables
from tests import review_world
from tests.test_review_contract import taxonomy
from tests.test_review_day import DI, FILES, TWO, given, rest

OLD = {"gore": "Blood and wounds.", "accidents_disasters": "Crashes."}


@pytest.fixture
def ws(workspace: store.Workspace) -> store.Workspace:
    review_world.fill(workspace)
    taxonomy(workspace, **OLD)
    return workspace


@pytest.fixture
def review(cli: Any, ws: store.Workspace) -> Any:
    return review_world.reviewing(cli, ws)


def changed(ws: store.Workspace) -> None:
    """c1 is mined anew, and the words that were marked are gone."""
    row = store.read(ws, tables.CONVERSATIONS).filter(conversation="c1")
    turns = [{"role": "seeker", "text": f"{review_world.TRICKY} I feel faint.", "items": []}]
    new = row.with_columns(digest=pl.lit("d2"), turns=pl.Series([turns], dtype=row.schema["turns"]))
    store.append(ws, tables.CONVERSATIONS, new)


def test_what_is_asked_again_is_kept_from_who_would_rather_not_see_it(ws: store.Workspace, review: Any) -> None:
    """Both marked blood in c1 and read it to its end; the word is gone since. Bo does not want to be asked again."""
    review("push", *TWO, "--audit", 0, *FILES)
    for name in ("ann", "bo"):
        rest(ws.root / "review" / f"{name}.csv", "none")
    review("pull", *FILES, ws.root / "review")
    changed(ws)
    review("opt-out", "bo", "gore")
    told = review("push", *TWO, *DI, "--audit", 0, *FILES)
    assert (told["rows"], given(ws, "c1")) == ({"ann": 2, "bo": 0, "di": 2}, ["ann", "bo", "di"])

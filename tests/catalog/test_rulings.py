"""People's rulings on merges."""

import pytest

from saferec_builder.catalog import adding, rulings
from saferec_builder.core.errors import UsageError


def test_a_ruling_counts_once_and_can_be_taken_back(workspace, tmp_path):
    rows = "film,Alien,1979,tt0078748\nfilm,Heat,1995,tt0113277\n"
    (tmp_path / "items.csv").write_text(f"domain,title,year,imdb\n{rows}")
    adding.add_catalog(workspace, "csv", tmp_path / "items.csv")
    row = "csv:imdb:tt0078748"
    counts = [rulings.keep_apart(workspace, row, undo=undo).added for undo in (True, False, False, True)]
    assert counts == [0, 1, 0, 1]
    pair = (row, "csv:imdb:tt0113277")
    counts = [rulings.join_rows(workspace, *pair, undo=undo).added for undo in (True, False, False, True)]
    assert counts == [0, 1, 0, 1]
    for ref, message in ((row, "twice"), ("csv:none", "no row of the catalog")):
        with pytest.raises(UsageError, match=message):
            rulings.join_rows(workspace, row, ref)


def test_a_row_set_apart_that_somebody_joined_says_how_to_undo_that(workspace, tmp_path):
    """A join counts before `apart`; the advice was to join it with a third film of the title."""
    rows = "".join(f"film,Heat,1995,tt000000{n}\n" for n in (1, 2, 3))
    (tmp_path / "items.csv").write_text(f"domain,title,year,imdb\n{rows}")
    adding.add_catalog(workspace, "csv", tmp_path / "items.csv")
    pair = [f"csv:imdb:tt000000{n}" for n in (1, 2)]
    joined = rulings.join_rows(workspace, *pair).figures
    assert set(pair) <= set(str(joined["it_is_part_of"]).replace(",", "").split())
    assert str(rulings.keep_apart(workspace, pair[1]).figures["next"]).endswith(f"join {' '.join(pair)} --undo`")

"""People's rulings on merges."""

import pytest

from saferec_builder.catalog import rulings
from saferec_builder.core.errors import UsageError
from saferec_builder.storage import tables, workspace as store
from tests.worlds.shelves import HEAT, shelf

ROWS = shelf(
    *(("csv:a", "Heat", 1995, [HEAT]), ("demo:b", "Heat", 1997, [HEAT]), ("demo:c", "Heat", 1998)),
    *(("csv:g", "Heat", 1997, [], {"domain": "game"}), ("csv:u", "Up", 1997)),
)


@pytest.fixture
def ws(workspace):
    store.append(workspace, tables.CATALOG_ROWS, ROWS)
    return workspace


def test_a_ruling_counts_once_and_can_be_taken_back(ws):
    together, alone = f"Heat (1995), with csv:a, {HEAT}, demo:b", "Heat (1997), with demo:b"
    calls = [rulings.keep_apart(ws, "demo:b", undo=undo) for undo in (True, False, False, True)]
    assert [(counts.added, counts.skipped) for counts in calls] == [(0, 1), (1, 0), (0, 1), (1, 0)]
    assert calls[0].figures == {"row": "demo:b", "change": "none, it was so already"}
    # two other works have its title and nearly its year; the game and the other title are none of them
    assert calls[1].figures == {
        **{
            "row": "demo:b",
            "it_was_part_of": together,
            "it_is_part_of": alone,
            "its_ids_mean": [f"{HEAT} Heat (1995)"],
        },
        "next": "`saferec-build catalog show demo:b`",
    }
    assert list(calls[3].figures.items())[1:3] == [("it_was_part_of", alone), ("it_is_part_of", together)]
    pair = ("demo:c", "csv:a")
    calls = [rulings.join_rows(ws, *pair, undo=undo) for undo in (True, False, False, True)]
    assert [(counts.added, counts.skipped) for counts in calls] == [(0, 1), (1, 0), (0, 1), (1, 0)]
    assert calls[1].figures == {
        **{"row": "demo:c", "other": "csv:a", "it_was_part_of": "Heat (1998), with demo:c"},
        **{"it_is_part_of": f"{together}, demo:c", "next": "`saferec-build catalog merges`"},
    }
    rows = store.read(ws, tables.CATALOG_ROWS).filter(source="apart").select("source_id", "refs", "aliases").rows()
    assert rows == [
        *(("demo:b 1", ["demo:b"], ["apart"]), ("demo:b 2", ["demo:b"], ["together"])),
        *((f"csv:a demo:c {n}", ["csv:a", "demo:c"], [word]) for n, word in ((1, "joined"), (2, "not joined"))),
    ]
    for ref, message in (("csv:a", "twice"), ("csv:none", "no row of the catalog")):
        with pytest.raises(UsageError, match=message):
            rulings.join_rows(ws, "csv:a", ref)


def test_a_row_set_apart_is_told_what_it_may_be_or_that_it_is_still_joined(ws):
    """A join counts before `apart`; the advice was to join it with a third film of the title."""
    rulings.join_rows(ws, "demo:b", "demo:c")  # of 1997 and 1998 one item
    advice = {row: rulings.keep_apart(ws, row).figures["next"] for row in ("csv:a", "csv:g", "demo:c")}
    assert advice == {
        "csv:a": "if it is Heat (1997), `saferec-build catalog join csv:a demo:b`",
        "csv:g": "`saferec-build catalog show csv:g`",
        "demo:c": "it is still joined: `saferec-build catalog join demo:b demo:c --undo`",
    }

"""A release without a row that teaches or tests safety is no accident: it is stopped, or its card says so."""

import json

import pytest

from saferec_builder.storage import tables, workspace as store
from tests.worlds import release_world as world
from tests.worlds.release_world import film

SAID = "No request with a sensitivity in this version has an answer that is known to be clear for it"


def filled(ws, warnings=None):
    """40 requests, every second one of somebody who cannot see blood; catalog, and these warnings."""
    rows, labels = world.requests()
    store.append(ws, tables.CATALOG_ROWS, world.catalog())
    store.append(ws, tables.CONVERSATIONS, world.conversations(*rows))
    store.append(ws, tables.LABELS, world.labels(*labels))
    if warnings is not None:
        store.append(ws, tables.WARNINGS, warnings)
    return ws


def card(ws):
    return " ".join((ws.releases / "1.0.0/README.md").read_text().split())


def test_where_no_answer_is_known_to_be_clear_it_stops_and_says_why(workspace, cli):
    ws = filled(workspace)
    ran = cli("release", "1.0.0", "-C", ws.root)
    # 20 people, each of whom took up two films: 40, of which nothing is known
    assert ran.code == 1 and ran.err.count("\n") == 1 and not (ws.releases / "1.0.0").exists()
    assert (
        "20 requests have a sensitivity, 20 of them a ground truth, of whose 40 items 0 are violated and 40 unknown"
        " for them, none clear: add warnings for the items that `saferec-build catalog gaps` names, or say"
        " --allow no-safety"
    ) in ran.err


def test_violated_is_told_from_unknown(workspace, cli):
    """Warnings of A, B and C alone. Request i is answered with films i and i + 1 (of 12), i odd: A in i = 11, 23, 35;
    B in 1, 13, 25, 37; C in the same four. 3 + 4 + 4 = 11 of 40."""
    bloody = world.warnings().filter(answer="yes")
    assert "11 are violated and 29 unknown" in cli("release", "1.0.0", "-C", filled(workspace, bloody).root).err


def test_with_the_word_it_passes_and_the_card_says_so(workspace, cli):
    ws = filled(workspace)
    assert cli("release", "1.0.0", "--allow", "no-safety", "-C", ws.root).code == 0
    assert card(ws).count(SAID) == 1 and json.loads((ws.releases / "1.0.0/manifest.json").read_text())["no_safety"]
    limits = json.loads((ws.releases / "1.0.0/croissant.json").read_text())["rai:dataLimitations"]
    assert [text for text in limits if text.startswith("No request with a sensitivity has an answer")]


@pytest.mark.parametrize("allow", [(), ("--allow", "no-safety")])
def test_one_clear_answer_is_enough_and_then_the_card_says_nothing(workspace, cli, allow):
    """D alone is known to be clear; c003 took it up."""
    one = world.warnings().filter(ref=f"title:{film('D')}")
    ws = filled(workspace, one)
    assert cli("release", "1.0.0", *allow, "-C", ws.root).code == 0
    assert SAID not in card(ws) and not json.loads((ws.releases / "1.0.0/manifest.json").read_text())["no_safety"]


def test_where_nobody_is_sensitive_the_remedy_is_another(workspace, cli):
    rows, _ = world.requests()
    ws = world.fill(workspace, rows, [world.label(row, verdict="absent") for row in rows])
    told = cli("release", "1.0.0", "-C", ws.root).err
    assert "0 requests have a sensitivity, none clear: review more conversations" in told
    assert cli("release", "1.0.0", "--inject", "gore", "-C", ws.root).code == 0  # these rows teach it
    assert SAID not in card(ws)


def test_where_the_catalog_knows_no_answer(workspace, cli):
    rows, labels = world.requests()
    ask = {"text": "I faint at the sight of blood. A film?"}
    world.fill(workspace, [row | {"accepted": [], "turns": [row["turns"][0] | ask]} for row in rows], labels)
    told = cli("release", "1.0.0", "-C", workspace.root).err
    assert "20 requests have a sensitivity, 0 of them a ground truth, none clear: add the items that they name" in told


def test_it_is_a_check_like_the_others(cli):
    ran = cli("release", "--explain")
    assert "safety (stops): no request with a sensitivity has an answer" in ran.out and "--allow no-safety" in ran.out

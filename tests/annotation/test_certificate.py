"""The certificate of a release: what it contains, and that no change to one of its counts goes unnoticed."""

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from annotation import certificate, confidence_bounds as c, recall_bounds
from annotation.controls import Blind
from annotation.recall_bounds import LabelBounds
from saferec_builder.core.errors import ReleaseError
from tests.worlds.damages import numbers

CLEAN = (0,) * 400
OF_ANY = c.Audit(240, 1_000, (*CLEAN, 1, 1, 1), open=5, holes=2, left=590)
TRAITS = {
    "gore": c.bound(c.Audit(200, 1_000, (*CLEAN, 1, 0, 1), open=2, holes=1, elsewhere=3, gone=1, left=590)),
    "needles": c.bound(c.Audit(60, 1_000, CLEAN, left=600, auto=9)),
    "torture": c.bound(c.Audit(0, 1_000, CLEAN, left=600)),
}
FLAGS = c.Audit(40, 300, (*(0,) * 100, 1), open=1, left=190)
NO_FLAG = c.bound(c.Audit(0, 300, (), open=1, left=300))
ITEMS = LabelBounds({"gore": c.bound(FLAGS), "needles": NO_FLAG}, c.bound(FLAGS), [], {}, claimed=60, zone=300)
GOLD = {"unit": "conversation", "units_present": 30, "missed": 2, "missed_at_most": c.rate(2, 30)}
GOLD |= {"units_absent": 50, "invented": 1, "invented_at_most": c.rate(1, 50)}
FALSE = {"gore": c.false_share(190, (0, 1, *(0,) * 78, 1), right=4, waiting=1)}
BOUNDS = LabelBounds(TRAITS, c.bound(OF_ANY), [], GOLD, FALSE, false_pooled=c.false_share(240, (0,) * 90), items=ITEMS)
BOUNDS = replace(BOUNDS, blind=Blind.of(40, 2), apart=c.bound(OF_ANY, c.DELTA / 2).share)
BOUNDS = replace(BOUNDS, claimed=500, undrawn=7, zone=1_000, gone=4)


def checked(document: dict[str, Any], folder: Path) -> certificate.Certificate:
    path = folder / "certificate.json"
    path.write_text(json.dumps(document))
    return certificate.check(path)


@pytest.fixture
def stated() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(certificate.from_bounds(BOUNDS).model_dump_json())
    return document


def test_it_holds_what_a_reader_needs_and_reads_back(stated, tmp_path):
    assert stated["population"] == {"subjects": 1_503, "claimed": 500, "unplaced": 7, "zone": 1_000, "gone": 4}
    assert (stated["confidence"], stated["alpha"]) == (0.95, 0.05)
    gore = stated["missed"]["gore"]
    # numbers of the draw in the lists of two traits would show that one person has both: only their count is told
    assert (gore["audited"], gore["positive"], gore["holes"], gore["done"]) == (403, 2, 1, 410)
    assert gore["labels"] == 200 + (2 - 1) + 3 - 1  # found, in the audit without its hole, elsewhere, gone
    assert stated["missed"]["torture"]["words"].startswith("none found, ")
    assert stated["false"]["gore"]["wrong"] == [2, 81] and stated["false"]["gore"]["overturned"] == 1
    assert checked(stated, tmp_path) == certificate.from_bounds(BOUNDS)
    assert stated["items"]["unit"] == "item" and stated["items"]["population"]["subjects"] == 360
    assert (stated["unit"], stated["items"]["missed"]["gore"]["certified"]) == ("conversation", False)
    assert " items at most" in stated["items"]["missed"]["needles"]["words"]


def test_a_zone_read_to_its_end_beside_much_that_waits_reads_back(tmp_path):
    # 100 positives of 200: the prior has no weight at exactly 100, and only that is possible
    waiting = c.Audit(0, 200, (1, 0) * 100, open=150, left=0)
    bounds = recall_bounds.from_audits({"gore": waiting}, waiting, BOUNDS.blind)
    bounds = replace(bounds, gold=GOLD, claimed=150, zone=200)
    document = json.loads(certificate.from_bounds(bounds).model_dump_json())
    missed = checked(document, tmp_path).missed["gore"]
    assert (missed.share, missed.log_e) == (0.6, -c.MOST)  # 150 of 250


def test_how_many_have_it_is_told_of_those_read_and_of_all(stated):
    """500 are claimed, 2 of them open; 996 of the zone remain; 403 were audited, 1 is a hole, and 1 of 402 has it."""
    gore, prevalence = TRAITS["gore"], certificate.from_bounds(replace(BOUNDS, undrawn=0)).missed["gore"].prevalence
    assert prevalence.read == pytest.approx((200 + 1) / (498 + 402))
    assert prevalence.all == pytest.approx((200 * 500 / 498 + 1 * 996 / 402) / 1_496)
    assert (prevalence.low, prevalence.high) == (203 / 1_496, pytest.approx((203 + gore.most) / 1_496))
    with_auto = c.bound(c.Audit(200, 1_000, CLEAN, left=300, auto=300))  # 300 have a label that nobody has read
    high = certificate.from_bounds(replace(BOUNDS, traits={"gore": with_auto})).missed["gore"].prevalence.high
    assert high == pytest.approx((200 + 300 + with_auto.most) / 1_503)
    assert stated["missed"]["gore"]["prevalence"]["all"] is None  # 7 have no place in the draw: none represents them
    unread = certificate.from_bounds(replace(BOUNDS, traits={"gore": c.bound(c.Audit(200, 1_000, ()))}))
    assert unread.missed["gore"].prevalence.all is None  # nothing is known about the zone


def test_a_withheld_trait_is_not_in_it_and_the_rest_can_be_computed(tmp_path):
    statement = certificate.from_bounds(replace(BOUNDS, items=None), without=["gore"])
    text = statement.model_dump_json()
    assert "gore" not in text and "needles" in text
    assert checked(json.loads(text), tmp_path) == statement


@pytest.mark.slow
def test_no_number_can_be_changed_unseen(stated, tmp_path):
    places = list(numbers(stated))
    assert len(places) > 60
    for path in places:
        for step in (1, -1):
            changed = copy.deepcopy(stated)
            node = changed
            for key in path[:-1]:
                node = node[key]
            node[path[-1]] += step
            with pytest.raises(ReleaseError):
                pytest.fail(f"{path} {step:+}: {checked(changed, tmp_path).format}")


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["missed"]["gore"].update(audited=10**12),  # was a MemoryError
        lambda d: d["missed"]["gore"].update(gone=10**400),  # was an OverflowError
        lambda d: d["missed"]["needles"].update(certified=not d["missed"]["needles"]["certified"]),
        lambda d: d["missed"]["torture"].update(words="<= 0.1 % (certified)"),
        lambda d: d["together"].append("gore"),
        lambda d: d["of_the_truth"].update(words="<= 1.0 % relative to the truth"),
        lambda d: d["missed"].pop("gore") and d["together"].append("gore"),
        lambda d: d["false"]["gore"]["wrong"].clear(),
        lambda d: d["items"]["missed"]["gore"].update(positive=0),
        lambda d: d.update(claim_of_ours="all of it is safe"),
        lambda d: d.pop("missed_of_all"),
    ],
)
def test_what_was_edited_otherwise_is_refused(stated, tmp_path, change):
    change(stated)
    with pytest.raises(ReleaseError, match=r"certificate\.json"):
        checked(stated, tmp_path)


def test_a_version_that_words_it_otherwise_may_do_so(stated, tmp_path):
    """`verify` refused releases of the previous version: their words differed, with the same numbers."""
    truth, torture = stated["of_the_truth"], stated["missed"]["torture"]
    truth.update(words=truth["words"].replace("blind controls", "controls"))
    torture.update(words=torture["words"].replace("none found", "nobody was found"))
    assert checked(stated, tmp_path)
    torture.update(words=torture["words"] + " (certified)")
    with pytest.raises(ReleaseError, match=r"missed\.torture\.words does not follow"):
        checked(stated, tmp_path)


def test_what_another_processor_rounds_otherwise_is_the_same(stated, tmp_path):
    """Before the first audit log E is a sum that is 0 but for its last digits: there `verify` refused a release."""
    missed = stated["items"]["missed"]["needles"]
    assert missed["audited"] == 0 and abs(missed["log_e"]) < 1e-12
    missed["log_e"] += 3e-16
    assert checked(stated, tmp_path)


def test_the_place_of_an_edit_is_named(stated, tmp_path):
    stated["items"]["missed"]["gore"].update(certified=True)
    with pytest.raises(ReleaseError, match=r"json: items\.missed\.gore\.certified does not follow from the counts"):
        checked(stated, tmp_path)
    stated["missed"]["gore"].update(positive=404)
    with pytest.raises(ReleaseError, match=r"json: 404 of 403 is no count: build"):
        checked(stated, tmp_path)


def test_a_different_zone_for_each_trait_does_not_fill_the_memory():
    """Eight tables of log factorials were kept, each of 8 bytes per unit of the zone: 6.4 GB."""
    assert c._log_factorials.cache_parameters()["maxsize"] * certificate.LARGEST * 8 <= 2_000_000_000


def test_what_is_no_certificate_is_one_line(tmp_path):
    for text in ("", "[]", "{}", "\x00", '{"format": 2}'):
        (tmp_path / "certificate.json").write_text(text)
        with pytest.raises(ReleaseError, match="no certificate that this program can read"):
            certificate.check(tmp_path / "certificate.json")


def test_a_release_states_what_the_workspace_does_where_only_withheld_traits_are_absent(tmp_path: Path) -> None:
    released, current = tmp_path / "certificate.json", tmp_path / "certificates.json"
    released.write_text(certificate.from_bounds(BOUNDS, ["needles"]).model_dump_json())
    current.write_text(certificate.from_bounds(BOUNDS).model_dump_json())
    assert certificate.alike(released, current)
    current.write_text(certificate.from_bounds(replace(BOUNDS, undrawn=8)).model_dump_json())
    assert not certificate.alike(released, current)
    released.unlink()
    assert not certificate.alike(released, current)

"""Proposals and labels are shown beside their quotes; what no reviewer may get is not shown."""

import polars as pl
import pytest

from annotation.browsing import browse, first, lines
from saferec_builder.core.errors import SafeRecError
from saferec_builder.storage import tables, workspace as store
from tests.worlds.review_world import TEXTS, claim
from tests.worlds.reviewing import TWO, answer, yes


def test_a_quote_stands_at_its_place_and_doubt_is_not_shown(ws):
    place = TEXTS["c1"].index("blood")
    rows = [("c1", "gore", "explicit", "rules", None, 0, TEXTS["c1"], place, place + 5)]
    assert browse(ws).rows() == browse(ws, trait="gore").rows() == rows  # c2's claim is unsure
    assert browse(ws, trait="needles").is_empty() and browse(ws, "labels").is_empty()
    assert browse(ws, verdict="unsure")["conversation"].to_list() == ["c2"]


def test_the_newest_claim_of_each_proposer_counts(ws):
    newer = claim("c1", "gore", "absent", "blood") | {"proposal": "later", "spans": []}
    of_model = claim("c1", "gore", "present", "faint") | {"proposal": "other", "proposer": "a-model"}
    store.append(ws, tables.PROPOSALS, tables.PROPOSALS.frame([newer, of_model]))
    assert [row["by"] for row in browse(ws).to_dicts()] == ["a-model"]


def test_a_label_without_a_quote_has_that_of_the_proposal_or_its_first_turn(ws):
    """Labels that say unsure have no quote, and none of them was shown."""
    label = dict(
        kind="sensitivity", verdict="unsure", form=None, spans=[], method="agreed", reviews=[], simulated=False
    )
    units = [("c1", "gore"), ("c1", "needles")]  # nobody proposes needles
    rows = [
        label | {"label": f"l{n}", "subject": subject, "trait": trait, "digest": f"d-{subject}"}
        for n, (subject, trait) in enumerate(units)
    ]
    store.append(ws, tables.LABELS, tables.LABELS.frame(rows))
    later = claim("c1", "gore", "present", "faint") | {"proposal": "later"}
    store.append(ws, tables.PROPOSALS, tables.PROPOSALS.frame([later]))
    place = TEXTS["c1"].index("faint")
    shown = browse(ws, "labels", verdict="unsure").select("trait", "turn", "start", "end").rows()
    assert shown == [("gore", 0, place, place + 5), ("needles", 0, 0, 0)]  # the newest proposal's


def test_who_is_in_a_crisis_or_asked_to_be_removed_is_not_shown(ws):
    (ws.root / "removals.csv").write_text("source,source_id,author\nmessages,c1,\n")
    assert browse(ws).is_empty()


def test_a_report_of_personal_data_is_shown_with_each_turn_of_its_text(ws, review):
    review("push", *TWO)
    answer(ws, review, ann=lambda row: yes(row) | {"note": "PII"} if "blood" in row["text"] else {})
    turns = [(n, text, 0, len(text)) for n, text in enumerate((TEXTS["c1"], "Ok!"))]
    rows = browse(ws, "reported")
    assert rows.rows() == [("c1", "personal data", None, "PII", None, *turn) for turn in turns]
    two = pl.concat([rows, rows.with_columns(conversation=pl.lit("c2"))])
    assert first(two, "reported", 1).equals(rows)  # ten of the 39 turns of one conversation were shown
    assert first(rows, "labels", 1).height == 1
    count = "reported: 2 conversations, 1 shown; --limit 2 shows all"
    assert lines(two, rows, "reported", "present") == ["c1: PII", f"   1. {TEXTS['c1']}", "   2. Ok!", count]


def test_a_quote_is_shown_with_120_letters_on_each_side():
    whole = {"conversation": "c1", "turn": 1, "trait": "gore", "form": None, "by": "agreed", "confidence": None}
    whole |= {"text": f"{'a' * 120}blood{'b' * 120}", "start": 120, "end": 125}
    cut = whole | {"turn": 0, "form": "explicit", "by": "rules", "confidence": 0.5, "start": 121, "end": 126}
    cut |= {"text": f"-{whole['text']}-"}
    rows = pl.DataFrame([whole, cut], schema_overrides={"form": pl.String, "confidence": pl.Float64})
    quote = f"{'a' * 120}»blood«{'b' * 120}"
    rest = "proposals that say unsure: 2 quotes, 1 shown; --limit 2 shows all; --verdict present shows those that say"
    assert lines(rows, rows.head(1), "proposals", "unsure")[-1] == f"{rest} present"
    assert lines(rows, rows, "labels", "present") == [
        *("c1 turn 2: gore, agreed", f"    {quote}", "c1 turn 1: gore, explicit, rules 0.50", f"    ...{quote}..."),
        "labels that say present: 2 quotes, 2 shown; --verdict unsure shows those that say unsure",
    ]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ({"stage": "reviews"}, "^reviews: nothing to browse: expected proposals or labels or reported$"),
        ({"trait": "gor"}, "^unknown trait 'gor': did you mean gore"),
        ({"verdict": "absent"}, "^absent: no verdict with evidence: expected present or unsure$"),
    ],
)
def test_what_is_not_there_is_one_line(ws, words, why):
    with pytest.raises(SafeRecError, match=why):
        browse(ws, **words)

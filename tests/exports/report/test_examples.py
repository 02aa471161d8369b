"""Examples on the page: which words are marked, which examples are left out, and which come first."""

import pytest

from exports.report import examples
from exports.report.gather import gather
from saferec_builder.storage import tables, workspace as store
from tests.worlds.release_world import conversation, conversations, fill, label, labels, requests, review, reviews
from tests.worlds.report_world import TAXONOMY, claim, frame


def test_parts_mark_what_the_spans_say_in_code_points() -> None:
    # 👩‍🚀 is three code points; the two quotes overlap in "blood"
    text = "👩‍🚀 no blood, ever"
    spans = [(4, 12, "no blood", "Gore"), (7, 18, "blood, ever", "Needles"), (0, 4, "somewhere else", "Spiders")]
    assert examples.parts(text, spans) == [
        {"text": "👩‍🚀 ", "traits": []},
        {"text": "no ", "traits": ["Gore"]},
        {"text": "blood", "traits": ["Gore", "Needles"]},
        {"text": ", ever", "traits": ["Needles"]},
    ]
    assert examples.parts("", [(0, 3, "abc", "Gore")]) == []


def test_quotes_of_one_trait_that_overlap_or_touch_are_marked_as_one() -> None:
    """Three quotes of one proposal were marked in slices, the comma between two as evidence of its own."""
    text = "I faint at blood, so no surgery. Please no needles."
    quotes = ("so no surgery", "I faint at blood", "I faint at blood, so no surgery", ". Please")
    spans = [(text.index(quote), text.index(quote) + len(quote), quote, "Gore") for quote in quotes]
    marked = [
        {"text": "I faint at blood, so no surgery. Please", "traits": ["Gore"]},
        {"text": " no needles.", "traits": []},
    ]
    assert examples.parts(text, spans) == marked
    assert examples.parts(text, [*spans, (0, 7, "I faint", "Fainting")])[1:] == [
        {"text": " at blood, so no surgery. Please", "traits": ["Gore"]},
        marked[1],
    ]


def test_examples_leave_out_severe_traits_in_every_guise() -> None:
    rows = [conversation(f"c{n}", "I faint at the sight of blood.") for n in range(6)]
    tags = [label(row, quote="faint at the sight of blood") for row in rows]
    tags += [label(rows[0], "torture"), label(rows[1], "child_harm", verdict=None), label(rows[2], "torture", "absent")]
    seen = frame(tables.PROPOSALS, claim(rows[3], "hate_speech"))
    shown = examples.examples(conversations(*rows), labels(*tags), seen, TAXONOMY)
    assert {e["conversation"] for e in shown} == {"c2", "c4", "c5"}
    assert shown[0]["turns"][0]["parts"][1] == {"text": "faint at the sight of blood", "traits": ["Blood and gore"]}


def test_examples_show_many_traits_before_one_twice_in_any_order_of_rows() -> None:
    rows = [conversation(f"c{n}", "I would rather not see it.") for n in range(12)]
    tags = [label(row, ("gore", "needles", "sad_endings")[n % 3], quote="rather not") for n, row in enumerate(rows)]
    first = examples.examples(conversations(*rows), labels(*tags), tables.PROPOSALS.empty, TAXONOMY)
    second = examples.examples(conversations(*rows[::-1]), labels(*tags[::-1]), tables.PROPOSALS.empty, TAXONOMY)
    assert first == second
    assert len(first) == examples.EXAMPLES == 10 and len({e["traits"][0]["name"] for e in first[:3]}) == 3


@pytest.mark.slow
def test_what_a_reader_or_gold_knows_of_a_text_keeps_it_out(workspace: store.Workspace) -> None:
    """Personal data, or a severe trait: only labels and proposals were asked, an answer once `adjudicate` had run."""
    ws = fill(workspace, *requests())
    rows = requests()[0]

    def shown() -> set[str]:
        return {example["conversation"] for example in gather(ws)["examples"]}

    store.append(ws, tables.REVIEWS, reviews(*(review(row, note="personal data") for row in rows[:20])))
    assert shown() and not shown() & {row["conversation"] for row in rows[:20]}
    known = [("sensitivity", row["conversation"], ["torture"]) for row in rows[20:30]]
    store.append(ws, tables.GOLD, tables.GOLD.frame(known))
    assert shown() and not shown() & {row["conversation"] for row in rows[:30]}
    answers = (review(row, trait="torture", verdict="unsure") for row in rows[30:])
    store.append(ws, tables.REVIEWS, reviews(*answers))
    assert not shown()

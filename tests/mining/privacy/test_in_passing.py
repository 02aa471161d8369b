"""Names in passing: names of people in the seeker's life are replaced everywhere, names in films stay."""

import re

import polars as pl
import pytest

from saferec_builder.mining import privacy
from saferec_builder.mining.privacy import in_passing
from tests import DATA
from tests.worlds.privacy_lines import EVERY, labelled, measured


def test_of_lines_by_other_topics_most_names_are_found() -> None:
    """Not fitted on these lines; the rules alone find 7 of 100. Measured: 80, and 81 of 85 findings are right."""
    marked, covered, findings, correct = measured(labelled(DATA / "names_in_passing_apart.txt"), privacy.find)
    assert marked["name"] == 100 and covered["name"] >= 72 and correct["name"] >= 0.88 * findings["name"]


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("dune at 7:40, Farid is driving", "dune at 7:40, [name] is driving"),
        ("told marcus we'd watch it together", "told [name] we'd watch it together"),
        ("Zoë and her sister are staying with us", "[name] and her sister are staying with us"),
        ("we're doing a marathon at Anouk’s place", "we're doing a marathon at [name]’s place"),
        ("Tom Hanks is driving, Emma Stone is driving", None),  # names of casts
        ('we watched "Amelie" and Amelie (2001) and Amelie-Marie too', None),
        ("Priya is driving", "[name] is driving"),
        ("Priya stars opposite Denzel, a film in which Priya plays the villain", None),
        ("I will be driving, hope so", None),
        ("Heartburn kept me up. Stubble is driving me mad", None),  # plain words that begin a sentence
        ("Biscuit hates the rain. Barnacles told me to cancel", None),
        ("Please tell Juniper I said hi", "Please tell [name] I said hi"),  # in a sentence they may be names
    ],
)
def test_what_stands_around_a_name_decides(text: str, clean: str | None) -> None:
    assert privacy.redact(text)[0] == (clean or text)


def test_a_title_of_the_catalog_stays_where_only_the_context_speaks_for_a_name() -> None:
    text = "Farid is driving, my daughter Emma is in the back"

    def titles(said: str) -> list[tuple[int, int]]:
        return [match.span() for match in re.finditer("Farid|Emma", said)]

    assert privacy.redact(text, titles)[0] == "Farid is driving, my daughter [name] is in the back"


@pytest.mark.parametrize(
    ("texts", "clean"),
    [
        (["My son Mark is six. Mark my words, Mark"], ["My son [name] is six. Mark my words, [name]"]),
        (["a film for Priya", "my friend Priya"], ["a film for [name]", "my friend [name]"]),
        (["like priya, Priya Bose or Priya (2011)", "my friend Priya"], ["like [name], Priya Bose or Priya (2011)"]),
        (
            ["Quillon agrees", "my name is Quillon", "it was Quillon"],
            ["[name] agrees", "my name is [name]", "it was [name]"],
        ),
        (["my boss, Mr. Pennington", "and Pennington?"], ["my boss, [name]", "and [name]?"]),
    ],
)
def test_a_name_found_once_is_found_in_the_whole_conversation(texts: list[str], clean: list[str]) -> None:
    series, last = pl.Series([*texts, "a film for Priya, Mark, Quillon"]), len(texts)
    talks = pl.Series([7] * last + [8])
    assert privacy.redact_all(series, talks)[0].to_list()[: len(clean)] == clean
    assert privacy.redact_all(series, talks)[0][last] == privacy.redact(series[last])[0]  # another conversation


def test_the_search_of_many_texts_looks_where_there_is_a_name() -> None:
    texts = [*EVERY, "Zoë is driving", "told marcus we'd watch it", "", None]
    assert in_passing.somewhere(pl.Series(texts)).to_list() == [any(in_passing.find(text or "")) for text in texts]

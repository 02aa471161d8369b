"""Personal data: what the labelled lines hold, measured; what must stay; what no text may do."""

import re
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from saferec_builder import privacy

LINES = Path(__file__).parent / "data" / "privacy.txt"
MARK = re.compile(r"\{\{(\w+):(.*?)\}\}")
STRUCTURED = set(privacy.KINDS) - {"name"}


def labelled():
    """(text, [(start, end, kind)]) of each line; odd ones were not looked at while the rules were written."""
    for line in LINES.read_text(encoding="utf-8").splitlines():
        text, spans, at = "", [], 0
        line = line.replace("\\n", "\n")
        for mark in MARK.finditer(line):
            text += line[at : mark.start()]
            spans.append((len(text), len(text) + len(mark[2]), mark[1]))
            text, at = text + mark[2], mark.end()
        yield text + line[at:], spans


def measured(lines):
    """kind -> (marked, of these covered to the last letter, found, of these on marked text)."""
    marked, covered, found, right = Counter(), Counter(), Counter(), Counter()
    for text, spans in lines:
        ours = privacy.find(text)
        for start, end, kind in spans:
            marked[kind] += 1
            hidden = {i for a, b, _ in ours for i in range(a, b)}
            covered[kind] += all(i in hidden for i in range(start, end) if text[i].isalnum())
        for start, end, kind in ours:
            found[kind] += 1
            right[kind] += any(start < b and a < end for a, b, _ in spans)
    return marked, covered, found, right


def share(part, whole, kinds):
    return sum(part[k] for k in kinds) / sum(whole[k] for k in kinds)


@pytest.mark.parametrize("half", [slice(None), slice(1, None, 2)], ids=["all lines", "lines kept apart"])
def test_recall_and_precision_on_the_labelled_lines(half):
    lines = list(labelled())
    assert len(lines) >= 400
    marked, covered, found, right = measured(lines[half])
    figures = {k: f"recall {covered[k]}/{marked[k]}, precision {right[k]}/{found[k]}" for k in privacy.KINDS}
    assert share(covered, marked, STRUCTURED) >= 0.98, figures
    assert share(right, found, STRUCTURED) >= 0.95, figures
    assert share(covered, marked, ["name"]) >= 0.85 and share(right, found, ["name"]) >= 0.95, figures  # as measured


def test_many_texts_at_once_give_what_each_gives_alone():
    lines = [text for text, _ in labelled()]
    texts = lines + [f"{one}\n{other}" for one, other in zip(lines, lines[7:], strict=False)]  # two kinds in one
    series = pl.Series(texts)
    together, counts = privacy.redact_all(series)
    assert together.to_list() == [privacy.redact(text)[0] for text in texts]
    assert sum(counts.values()) == sum(len(privacy.find(text)) for text in texts)
    assert series.to_list() == texts  # the series that came in is left alone


def test_placeholders_say_what_was_there_and_stay_what_they_are():
    text = "I'm at jo@example.org or (212) 555-0187, u/jo_h. My wife Anna picks."
    once, counts = privacy.redact(text)
    assert once == "I'm at [email] or [phone], [handle]. My wife [name] picks."
    assert counts == {"email": 1, "phone": 1, "handle": 1, "name": 1}
    assert privacy.redact(once) == (once, Counter())


def test_a_second_pass_over_the_labelled_lines_changes_nothing():
    for text, _ in labelled():
        once = privacy.redact(text)[0]
        assert privacy.redact(once)[0] == once


def test_titles_of_the_catalog_and_casts_stay():
    text = "my brother Tom Thumb (1958) and I watched @zola with Riley Keough, directed by Janicza Bravo"
    assert privacy.redact(text)[0] != text
    at = [(text.index(t), text.index(t) + len(t)) for t in ("Tom Thumb", "@zola")]
    assert privacy.redact(text, titles=lambda _: at)[0] == text


def test_a_source_can_keep_a_kind_that_means_something_else_there():
    assert privacy.redact("have you seen @Prisoners ?", leave={"handle"})[0] == "have you seen @Prisoners ?"


REPEATED = "a,a.,a@,://,:,A ,1 , \n,thanks!,my son ,Hi I'm ,12 Main ,call me ".split(",")


@pytest.mark.parametrize("part", REPEATED)
def test_no_text_takes_more_than_its_length(part):
    privacy.redact(
        part * (60_000 // len(part))
    )  # a pattern that goes back over the whole text would run into the suite's time limit


def test_what_cannot_be_text_of_people_is_no_trouble():
    series = pl.Series(["", " ", "\x00", "🧑‍🚒", "é" * 50])
    assert privacy.redact_all(series)[0].to_list() == series.to_list()


@pytest.mark.parametrize(
    "text",
    [
        "My name is Ann. call me 555\xa0123\xa04567",
        "My name is Ann, mail x@\u00e9.com",
        "see https://x.org and live at 5, rue de la Paix, 75002 Paris",
        "call \uff11\uff12\uff13 \uff14\uff15\uff16 \uff17\uff18\uff19\uff10 please",
        "hi @\u00e9lan",
        "bob@\u65e5\u672c.com",
        "Twitter.COM/bob",
        "Call me \u00c9lodie",
        "aunt \u00c9lodie",
        "my son I'an",
        "hi X here!",
        "bye ~ Anna.",
        "Hey this is anna again",
    ],
)
def test_the_search_before_passes_by_nothing_that_would_be_found(text: str) -> None:
    alone, beside = privacy.redact_all(pl.Series([text]))[0][0], privacy.redact_all(pl.Series(["hello", text]))[0][1]
    assert alone == beside == privacy.redact(text)[0] != text

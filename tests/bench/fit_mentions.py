"""python -m tests.bench.fit_mentions: fits the weights of the mention finder on the tuning halves.

Writes scoring/mention_finder.toml. Places that overlap a gold title without being it are left out. The
other halves are not read.
"""

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from saferec_builder import catalog
from saferec_builder.core import titles
from saferec_builder.scoring import mention_finder as mentions
from saferec_builder.scoring.title_evidence import evidence
from tests.bench import linking_gold as gold

TARGET = Path(mentions.__file__).with_name("mention_finder.toml")
RARE = 40  # a sign seen less often than this gets no weight
BARE = 0.15  # people leave out articles
RIDGE = 3.0
HEAD = """\
# Weights of what speaks for a title in free text (scoring/mention_finder.py): log odds, the sum decides.
# Made by `python -m tests.bench.fit_mentions`; do not edit by hand.

[weights]
"""


def main() -> None:
    folder = Path(os.environ["SAFEREC_REAL_DATA"])
    examples: list[tuple[list[str], bool]] = []
    for items in (gold.items_7k(folder), gold.items_39k(folder)):
        finder = catalog.finder(items, {"bias": 0.0})
        turns = [t for t in gold.redial_turns(folder, bare=BARE) if t.half == gold.TUNED]
        examples += [row for turn in turns for shape in shapes(turn) for row in taught(finder, shape)]
    names, fitted = fit(examples)
    lines = [f"{json.dumps(name)} = {w:.2f}" for name, w in zip(names, fitted, strict=True) if abs(w) >= 0.05]
    TARGET.write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")
    print(len(examples), "places,", sum(is_title for _, is_title in examples), "titles,", len(lines), "weights")


def shapes(turn: gold.Turn) -> Iterator[gold.Turn]:
    """Yields the turn, and some in the style of other forums: a line of a list, its titles as a list or in quotes."""
    yield turn
    share = gold.share("shape", turn.text)
    if share < 0.1:
        yield gold.Turn(turn.half, f"- {turn.text}", tuple((s + 2, e + 2, t) for s, e, t in turn.spans))
    if turn.spans and share < 0.1:
        yield listed(turn, "- ", "\n")
    if turn.spans and share > 0.9:
        yield quoted(turn)


def listed(turn: gold.Turn, mark: str, end: str) -> gold.Turn:
    text, spans = "", []
    for start, stop, title in turn.spans:
        spans.append((len(text) + len(mark), len(text) + len(mark) + stop - start, title))
        text += mark + turn.text[start:stop] + end
    return gold.Turn(turn.half, text, tuple(spans))


def quoted(turn: gold.Turn) -> gold.Turn:
    text, spans, place = "", [], 0
    for start, stop, title in turn.spans:
        text += turn.text[place:start] + '"'
        spans.append((len(text), len(text) + stop - start, title))
        text, place = text + turn.text[start:stop] + '"', stop
    return gold.Turn(turn.half, text + turn.text[place:], tuple(spans))


def taught(finder: mentions.Finder, turn: gold.Turn) -> Iterator[tuple[list[str], bool]]:
    """Yields (signs, whether it is a title) for each place in a turn."""
    words = mentions.as_words(turn.text)
    for place in mentions.places(finder, words):
        start = words.spans[place.first][0]
        overlaps = [span for span in turn.spans if span[0] < place.end and start < span[1]]
        if not overlaps:
            yield evidence(words, place, place.form in finder.articled), False
        elif titles.normal(turn.text[start : place.end]) == titles.normal(turn.text[overlaps[0][0] : overlaps[0][1]]):
            yield evidence(words, place, place.form in finder.articled), True


def fit(seen: list[tuple[list[str], bool]]) -> tuple[list[str], np.ndarray]:
    """Ridge logistic regression by Newton's method."""
    counts = Counter(name for signs, _ in seen for name in set(signs))
    names = [name for name, n in sorted(counts.items()) if n >= RARE]
    column = {name: n for n, name in enumerate(names)}
    rows = np.zeros((len(seen), len(names)), np.float32)
    for n, (signs, _) in enumerate(seen):
        rows[n, [column[name] for name in signs if name in column]] = 1
    y = np.array([is_title for _, is_title in seen], float)
    w = np.zeros(len(names))
    for _ in range(12):
        p = 1 / (1 + np.exp(-(rows @ w)))
        slope = rows.T @ (y - p) - RIDGE * w
        bend = (rows * (p * (1 - p))[:, None].astype(np.float32)).T @ rows + RIDGE * np.eye(len(names))
        w += np.linalg.solve(bend, slope)
    return names, w


if __name__ == "__main__":
    main()

"""python -m tests.bench.fit_in_passing: fits the weights of mining/privacy/in_passing.py and writes in_passing.txt.

A logistic regression on the lines of tests/data/names_in_passing.txt, each also with other names in the place of its
own, so that contexts are learned and not names; and on one half of the real conversations and posts, whose names are
those of actors and characters. How often a name is met in talk about films is counted in that half of ReDial, CCPE-M
and Reddit, and in the casts and plots of ReDial's films. The other half is not read.
"""

import json
import os
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from saferec_builder.mining.privacy import in_passing, names
from tests import DATA
from tests.bench import real_talk
from tests.worlds.privacy_lines import labelled

LINES = DATA / "names_in_passing.txt"
COPIES, LEAST, OF_REAL, RIDGE, SURE = 4, 8, 0.6, 0.2, 1.2  # SURE: log odds from which on a name is replaced
OFTEN = (1, 2, 5, 16)  # conversations that name somebody so: from which count on each of the four ranks
Span = tuple[int, int, str]
Line = tuple[str, list[Span]]


def main() -> None:
    folder = Path(os.environ["SAFEREC_REAL_DATA"])
    talks = [t for t in (*real_talk.conversations(folder), *real_talk.posts(folder)) if real_talk.fitted_on(t[1])]
    met = counted(folder, talks)
    rng = random.Random(3)
    own = list(labelled(LINES))
    more = [swapped(line, rng) for _ in range(COPIES) for line in own if line[1]]
    more += [hidden(swapped(line, rng), rng) for line in own for _ in (1, 2) if len(line[1]) > 1]
    x, y = rows([*own, *more], ranked(met))
    # a name's own conversation says nothing of how often others name it
    others, none = rows([(text, []) for *_, texts in talks for text in texts], ranked(met, less=1))
    weights = np.concatenate([np.ones(len(x)), np.full(len(others), OF_REAL)])
    written(fit(x + others, [*y, *none], weights), ranked(met))
    print(f"{len(x)} candidates of our own, {sum(y)} of them names; {len(others)} of real texts")


def counted(folder: Path, talks: Iterable[tuple[str, str, list[str]]]) -> Counter[str]:
    """Given name -> conversations, posts, casts and plots that have it with a capital."""
    texts = ["\n".join(said) for source, _, said in talks if source in ("redial", "ccpe", "reddit")]
    for film in json.loads((folder / "redial" / "ievalm_id2info.json").read_text(encoding="utf-8")).values():
        texts += [" . ".join([*(film.get("star") or []), *(film.get("director") or [])]), film.get("plot") or ""]
    met = Counter[str]()
    for text in texts:
        met.update({word.plain for word in in_passing._words(text)[0] if word.sort and word.capital})
    return met


def ranked(met: Counter[str], less: int = 0) -> dict[str, str]:
    return {word: str(sum(n - less >= least for least in OFTEN)) for word, n in met.items() if n - less >= OFTEN[0]}


def rows(lines: Iterable[Line], met: dict[str, str]) -> tuple[list[list[str]], list[bool]]:
    """(features of each candidate, whether it is marked)."""
    x, y = list[list[str]](), list[bool]()
    for text, spans in lines:
        for start, end, features in in_passing.candidates(text, met):
            x.append(features)
            y.append(any(a < end and start < b for a, b, _ in spans))
    return x, y


def swapped(line: Line, rng: random.Random) -> Line:
    """With other names of the lists, as the line spells them."""
    every, only = map(sorted, names.known())

    def other(name: str) -> str:
        if " " in name:
            return name
        if name[0].islower():
            return rng.choice(only)
        return rng.choice(only if rng.random() < 0.5 else every).capitalize()

    return put(line, other)


def hidden(line: Line, rng: random.Random) -> Line:
    """With a placeholder for some of its names: what was found before is seen so."""
    return put(line, lambda name: name if rng.random() < 0.4 else "[name]")


def put(line: Line, other: Callable[[str], str]) -> Line:
    """The line with other words for its names; those that became a placeholder are no longer marked."""
    text, at, out, spans = line[0], 0, "", list[Span]()
    for start, end, kind in line[1]:
        out += text[at:start]
        name = other(text[start:end])
        if name != "[name]":
            spans.append((len(out), len(out) + len(name), kind))
        out, at = out + name, end
    return out + text[at:], spans


def fit(x: Sequence[list[str]], y: Sequence[bool], weights: NDArray[np.float64]) -> dict[str, float]:
    """feature -> weight; the bias is lowered by what a name must be surer than even."""
    often = Counter(feature for features in x for feature in features)
    known = {f: n for n, f in enumerate(sorted(f for f, count in often.items() if count >= LEAST))}
    at = [(n, known[f]) for n, features in enumerate(x) for f in features if f in known]
    matrix = csr_matrix((np.ones(len(at)), tuple(zip(*at, strict=True))), shape=(len(x), len(known)))
    model = LogisticRegression(C=RIDGE, solver="liblinear", max_iter=1000).fit(matrix, y, sample_weight=weights)
    return {**dict(zip(known, model.coef_[0], strict=True)), "bias": float(model.intercept_[0]) - SURE}


def written(weights: dict[str, float], met: dict[str, str]) -> None:
    """One line for each weight with the features that have it, and for each rank with its names."""
    lines = defaultdict[str, list[str]](list)
    for feature, weight in sorted(weights.items(), key=lambda one: (one[1], one[0])):
        if abs(weight) >= 0.05:
            lines[f"{weight:.2f}"].append(feature)
    for name, rank in sorted(met.items()):
        lines[f"met{rank}"].append(name)
    head = "# By python -m tests.bench.fit_in_passing: a weight and the features that have it; a rank and the names.\n"
    body = "".join(f"{first} {' '.join(rest)}\n" for first, rest in lines.items())
    Path(in_passing.__file__).with_name("in_passing.txt").write_text(head + body, encoding="utf-8")


if __name__ == "__main__":
    main()

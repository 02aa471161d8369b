"""python -m tests.bench.fit_in_passing: fits the weights of mining/privacy/in_passing.py and writes in_passing.txt.

A logistic regression on the lines of tests/data/names_in_passing.txt, each also with its names replaced by others,
so that contexts are learned and not names; and on one half of the real conversations and posts, whose names are
those of actors and characters. The frequency of names in talk about films is counted in that half of ReDial, CCPE-M
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
COPIES, LEAST, OF_REAL, RIDGE, SURE = 4, 8, 0.6, 0.2, 1.2  # SURE: the log odds above which a name is replaced
OFTEN = (1, 2, 5, 16)  # the least number of conversations with a name for each of the four ranks
Span = tuple[int, int, str]
Line = tuple[str, list[Span]]


def main() -> None:
    folder = Path(os.environ["SAFEREC_REAL_DATA"])
    talks = [t for t in (*real_talk.conversations(folder), *real_talk.posts(folder)) if real_talk.fitted_on(t[1])]
    counts = counted(folder, talks)
    rng = random.Random(3)
    lines = list(labelled(LINES))
    variants = [swapped(line, rng) for _ in range(COPIES) for line in lines if line[1]]
    variants += [hidden(swapped(line, rng), rng) for line in lines for _ in (1, 2) if len(line[1]) > 1]
    x, y = rows([*lines, *variants], ranked(counts))
    # a name's own conversation says nothing about how often others name it
    real_x, real_y = rows([(text, []) for *_, texts in talks for text in texts], ranked(counts, less=1))
    weights = np.concatenate([np.ones(len(x)), np.full(len(real_x), OF_REAL)])
    written(fit(x + real_x, [*y, *real_y], weights), ranked(counts))
    print(f"{len(x)} candidates of our own, {sum(y)} of them names; {len(real_x)} of real texts")


def counted(folder: Path, talks: Iterable[tuple[str, str, list[str]]]) -> Counter[str]:
    """Returns given name -> number of conversations, posts, casts and plots that have it with a capital."""
    texts = ["\n".join(turns) for source, _, turns in talks if source in ("redial", "ccpe", "reddit")]
    for film in json.loads((folder / "redial" / "ievalm_id2info.json").read_text(encoding="utf-8")).values():
        texts += [" . ".join([*(film.get("star") or []), *(film.get("director") or [])]), film.get("plot") or ""]
    counts = Counter[str]()
    for text in texts:
        counts.update({word.plain for word in in_passing._words(text)[0] if word.sort and word.capital})
    return counts


def ranked(met: Counter[str], less: int = 0) -> dict[str, str]:
    return {word: str(sum(n - less >= least for least in OFTEN)) for word, n in met.items() if n - less >= OFTEN[0]}


def rows(lines: Iterable[Line], met: dict[str, str]) -> tuple[list[list[str]], list[bool]]:
    """Returns (features of each candidate, whether it is marked)."""
    x, y = list[list[str]](), list[bool]()
    for text, spans in lines:
        for start, end, features in in_passing.candidates(text, met):
            x.append(features)
            y.append(any(a < end and start < b for a, b, _ in spans))
    return x, y


def swapped(line: Line, rng: random.Random) -> Line:
    """Replaces names by others of the lists, in the spelling of the line."""
    all_names, names_only = map(sorted, names.known())

    def other(name: str) -> str:
        if " " in name:
            return name
        if name[0].islower():
            return rng.choice(names_only)
        return rng.choice(names_only if rng.random() < 0.5 else all_names).capitalize()

    return put(line, other)


def hidden(line: Line, rng: random.Random) -> Line:
    """Replaces some names by a placeholder: names that were found earlier look like this."""
    return put(line, lambda name: name if rng.random() < 0.4 else "[name]")


def put(line: Line, other: Callable[[str], str]) -> Line:
    """Replaces the names of a line; those that became a placeholder are no longer marked."""
    text, place, out, spans = line[0], 0, "", list[Span]()
    for start, end, kind in line[1]:
        out += text[place:start]
        name = other(text[start:end])
        if name != "[name]":
            spans.append((len(out), len(out) + len(name), kind))
        out, place = out + name, end
    return out + text[place:], spans


def fit(x: Sequence[list[str]], y: Sequence[bool], weights: NDArray[np.float64]) -> dict[str, float]:
    """Returns feature -> weight; the bias is lowered by the log odds that a name needs beyond even."""
    counts = Counter(feature for features in x for feature in features)
    columns = {f: n for n, f in enumerate(sorted(f for f, count in counts.items() if count >= LEAST))}
    cells = [(n, columns[f]) for n, features in enumerate(x) for f in features if f in columns]
    matrix = csr_matrix((np.ones(len(cells)), tuple(zip(*cells, strict=True))), shape=(len(x), len(columns)))
    model = LogisticRegression(C=RIDGE, solver="liblinear", max_iter=1000).fit(matrix, y, sample_weight=weights)
    return {**dict(zip(columns, model.coef_[0], strict=True)), "bias": float(model.intercept_[0]) - SURE}


def written(weights: dict[str, float], met: dict[str, str]) -> None:
    """Writes one line for each weight with its features, and one for each rank with its names."""
    lines = defaultdict[str, list[str]](list)
    for feature, weight in sorted(weights.items(), key=lambda item: (item[1], item[0])):
        if abs(weight) >= 0.05:
            lines[f"{weight:.2f}"].append(feature)
    for name, rank in sorted(met.items()):
        lines[f"met{rank}"].append(name)
    head = "# By python -m tests.bench.fit_in_passing: a weight and the features that have it; a rank and the names.\n"
    body = "".join(f"{first} {' '.join(rest)}\n" for first, rest in lines.items())
    Path(in_passing.__file__).with_name("in_passing.txt").write_text(head + body, encoding="utf-8")


if __name__ == "__main__":
    main()

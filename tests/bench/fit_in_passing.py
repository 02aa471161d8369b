"""python -m tests.bench.fit_in_passing: fits the weights of mining/privacy/in_passing.py and writes in_passing.txt.

A logistic regression on the lines of tests/data/names_in_passing.txt and of the sets that are no longer kept apart,
each also with its names replaced by others, so that contexts are learned and not names; and on one half of the real
conversations and posts, whose names are those of actors and characters. The frequency of words in talk about films is
counted in that half of ReDial, CCPE-M and Reddit, and in the casts and plots of ReDial's films. The other half is not
read. Everyday words are those of Faker (MIT licence), of common.txt, of our own cues and messages, and of SCOWL's lists
of English words, so that "Stillborn" is no name. The lists are those of Debian's packages wamerican and wbritish (see
NOTICE). famous.txt has famous names.
"""

import json
import os
import pkgutil
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from importlib import import_module
from itertools import islice
from pathlib import Path

import numpy as np
from faker.providers import lorem
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

import saferec_builder
from saferec_builder.mining.privacy import in_passing, names
from saferec_builder.scoring import title_evidence
from tests import DATA
from tests.bench import real_talk
from tests.worlds.privacy_lines import APART, THIRD, labelled, strangers

LINES = DATA / "names_in_passing.txt"
INVENTED = 0.4  # share of names in copies that are on no list
COPIES, LEAST, OF_REAL, RIDGE, SURE = 4, 8, 0.9, 0.1, 1.8
SELDOM = 2  # conversations at most in which a word was seen that may still be a name: one never seen in lower case
SOURCES = ("redial", "ccpe", "reddit")
OFTEN = (1, 2, 5, 16)  # the least number of conversations with a name for each of the four ranks
DICTIONARIES = [Path("/usr/share/dict") / f"{name}-english" for name in ("american", "british")]
Span = tuple[int, int, str]
Line = tuple[str, list[Span]]


def main() -> None:
    folder = Path(os.environ["SAFEREC_REAL_DATA"])
    talks = [t for t in (*real_talk.conversations(folder), *real_talk.posts(folder)) if real_talk.fitted_on(t[1])]
    counts = counted(folder, talks)
    rng = random.Random(3)
    lines = [*labelled(LINES), *read_lines()]
    variants = [swapped(line, rng) for _ in range(COPIES) for line in lines if line[1]]
    variants += [hidden(swapped(line, rng), rng) for line in lines for _ in (1, 2) if len(line[1]) > 1]
    x, y = rows([*lines, *variants], ranked(counts))
    # a name's own conversation says nothing about how often others name it
    real_x, real_y = rows([(text, []) for *_, texts in talks for text in texts], ranked(counts, less=1))
    weights = np.concatenate([np.ones(len(x)), np.full(len(real_x), OF_REAL)])
    written(fit(x + real_x, [*y, *real_y], weights), ranked(counts))
    print(f"{len(x)} candidates of our own, {sum(y)} of them names; {len(real_x)} of real texts")


def read_lines() -> Iterator[Line]:
    """Yields the lines of the sets that were kept apart before, and are not any more."""
    yield from islice(strangers(APART), 60)
    yield from strangers()
    yield from strangers(THIRD)


def counted(folder: Path, talks: Iterable[tuple[str, str, list[str]]]) -> Counter[str]:
    """Returns word -> number of conversations, posts, casts and plots that have it, a given name with a capital.

    With a blank behind it: those that have it in lower case.
    """
    texts = ["\n".join(turns) for source, _, turns in talks if source in SOURCES]
    for film in json.loads((folder / "redial" / "ievalm_id2info.json").read_text(encoding="utf-8")).values():
        texts += [
            " . ".join([*(film.get("star") or []), *(film.get("director") or []), film.get("name") or ""]),
            film.get("plot") or "",
        ]
    counts = Counter[str]()
    for text in texts:
        listed = ("sure", "more")
        words = [
            w
            for w in map(in_passing._word, in_passing._TOKEN.findall(text))
            if w.size > 1 and (w.capital or w.sort not in listed)
        ]
        counts.update({w.plain for w in words} | {f"{w.plain} " for w in words if not w.capital})
    return counts


def ranked(met: Counter[str], less: int = 0) -> dict[str, str]:
    """Returns word -> rank, with "f" if it is famous and "n" if it may be a name though it is on no list."""
    given, famous = names.known()[0], _famous()
    rank = {w: n - less for w, n in met.items() if n > less and w[-1] != " "}
    ranks = {word: str(sum(n >= least for least in OFTEN)) for word, n in rank.items()}
    may_be = [w for w, n in rank.items() if n <= SELDOM and w not in given and met[f"{w} "] <= less]
    ranks |= dict.fromkeys(may_be, "1n")
    ranks |= dict.fromkeys(_everyday() - given - (set(ranks) - set(may_be)), "1")
    listed, is_met = given | famous, partial(in_passing._is_met, ranks, True)
    for word in _english():
        if word not in listed and not in_passing._is_ordinary(word, is_met):
            ranks[word] = "w"
    return ranks | {word: ranks.get(word, "0")[0] + "f" for word in famous}


@cache
def _famous() -> frozenset[str]:
    lines = Path(__file__).with_name("famous.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())


@cache
def _everyday() -> frozenset[str]:
    """Everyday words of many languages, also those that the search goes by."""
    english = title_evidence._english()
    words = names.words()
    phrases = [*words["spoken"].values(), *words["kinds"].values(), *english.small, *english.common, *english.talk]
    proposing = Path(saferec_builder.__file__).parent / "proposing"
    for path in (proposing / "rules" / "cues.toml", *sorted((proposing / "messages").glob("*.toml"))):
        phrases += re.findall(r"(?<![\w'’])[a-z]{3,}", path.read_text(encoding="utf-8"))
    for found in pkgutil.iter_modules(lorem.__path__):
        phrases += import_module(f"{lorem.__name__}.{found.name}").Provider.word_list
    return frozenset(
        names.bare(w.casefold()) for w in re.findall(r"[^\W\d_]{2,}", " ".join(phrases)) if max(w) < "\u0370"
    )


@cache
def _english() -> list[str]:
    """Words of the dictionaries, short ones first: those that are formed from them need no line."""
    lines = {line for path in DICTIONARIES for line in path.read_text(encoding="utf-8").splitlines()}
    words = {names.bare(word) for word in lines if len(word) > 2 and word.isalpha() and word.islower()}
    return sorted(words, key=lambda word: (len(word), word))


def rows(lines: Iterable[Line], met: dict[str, str]) -> tuple[list[list[str]], list[bool]]:
    """Returns (features of each candidate, whether it is marked)."""
    x, y = list[list[str]](), list[bool]()
    for text, spans in lines:
        for start, end, features in in_passing.candidates(text, met):
            kinds = {kind for a, b, kind in spans if a < end and start < b}
            if kinds <= {"name"}:
                x.append(features)
                y.append(bool(kinds))
    return x, y


@cache
def _listed() -> list[list[str]]:
    return [*map(sorted, names.known())]


def swapped(line: Line, rng: random.Random) -> Line:
    """Replaces names by others of the lists, or by invented ones, in the spelling of the line."""
    all_names, names_only = _listed()

    def other(name: str) -> str:
        if " " in name:
            return " ".join(other(word) if word[0].isupper() else word for word in name.split(" "))
        if name[0].islower():
            return rng.choice(names_only)
        kind = rng.random()
        if kind < INVENTED:
            first, second = rng.choice(names_only), rng.choice(all_names)
            return (first[: (len(first) + 1) // 2] + second[len(second) // 2 :]).capitalize()
        return rng.choice(names_only if kind < (1 + INVENTED) / 2 else all_names).capitalize()

    return put(line, other)


def hidden(line: Line, rng: random.Random) -> Line:
    """Replaces some names by a placeholder: names that were found earlier look like this."""
    return put(line, lambda name: name if rng.random() < 0.4 else "[name]")


def put(line: Line, other: Callable[[str], str]) -> Line:
    """Replaces the names of a line; those that became a placeholder are no longer marked."""
    text, place, out, spans = line[0], 0, "", list[Span]()
    for start, end, kind in line[1]:
        out += text[place:start]
        name = other(text[start:end]) if kind == "name" else text[start:end]
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

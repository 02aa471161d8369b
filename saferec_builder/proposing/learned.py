"""The learned proposer: a linear model per trait, trained where it is used; a score for every conversation and trait.

reads  examples (learning_examples), conversations
gives  proposals by `learned`: `present` with the seeker's clause that carries the score, all others `absent` with a
       confidence of 1 - score, which `review push --band` reads from the top

Every conversation is scored by a model that was not trained on it. A score is a claim from the threshold of its source
on, which has the best F0.5 on people's labels (precision counts twice as much as recall: a false claim costs people a
review). Under ENOUGH sensitivities that people found nothing is claimed.
"""

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from saferec_builder.core.progress import Progress
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.proposing import learning_examples
from saferec_builder.proposing.corpus import Corpus
from saferec_builder.proposing.learning_examples import FOLDS, Bools, Examples, Floats
from saferec_builder.proposing.rules import cues
from saferec_builder.proposing.standing import Standing, remember, remembered
from saferec_builder.proposing.text_units import Proposal
from saferec_builder.scoring import linear_text
from saferec_builder.scoring.linear_text import LinearText
from saferec_builder.storage import tables
from saferec_builder.storage.schema import Span

LOG = logging.getLogger(__name__)
OF_A_SOURCE = 20  # the same in one source, before it has a threshold of its own
STEPS = np.arange(0.05, 0.96, 0.05)
NEVER = 2.0  # a threshold that no score reaches
LONG = 160  # letters of a clause that commas part as well
_SENTENCE, _PART = re.compile(r"[^.!?;\n]+[.!?;]*"), re.compile(r"[^,]+,?")


@dataclass(frozen=True)
class Learned:
    """The proposer of one corpus; it is trained when something is first asked of it.

    keeps: how good it is may be remembered in the workspace.
    """

    corpus: Corpus
    progress: Progress | None = None
    keeps: bool = True

    @cached_property
    def examples(self) -> Examples:
        return learning_examples.gather(self.corpus)

    @cached_property
    def groups(self) -> dict[str, str]:
        return learning_examples.groups(self.corpus)

    @cached_property
    def basis(self) -> str:
        return learning_examples.basis(self.corpus)

    @property
    def version(self) -> str:
        return self.examples.version

    @property
    def trained(self) -> bool:
        return "models" in self.__dict__

    @cached_property
    def models(self) -> tuple[LinearText, ...]:
        """Model n has not seen fold n."""
        e = self.examples
        people = int(e.judged.any(axis=1).sum())
        LOG.warning("%s", f"propose: learning from {len(e.texts):,} texts, of which people have judged {people:,} ...")
        slugs = self.corpus.taxonomy.slugs
        if untold := [slug for slug, told in zip(slugs, e.told, strict=True) if not told]:
            few = f"fewer than {learning_examples.OF_A_TRAIT} texts that people read have them, or lack them"
            LOG.warning(
                "%s", f"propose: learned scores no {', '.join(untold)}: the rules know no words for them, and {few}"
            )
        labels = [str(n) for n in range(e.truth.shape[1])]
        return linear_text.cross_fit(e.texts, e.truth, labels, e.folds, own=e.own, progress=self.progress)

    @cached_property
    def scores(self) -> Floats:
        """[conversation, trait] of the examples, each by the model that has not seen it."""
        e = self.examples
        found = np.zeros(e.judged.shape)
        folds = np.array(e.folds[: len(found)])
        for n, model in enumerate(self.models):
            mine = np.flatnonzero(folds == n)
            found[mine] = model.score([e.texts[k] for k in mine]) * e.told
        return found

    @cached_property
    def thresholds(self) -> dict[str, float]:
        """Source -> score from which a trait is claimed; "" where a source has too few labels."""
        return thresholds(self.examples, self.scores, np.ones(len(self.scores), dtype=bool))

    @property
    def known(self) -> Standing | None:
        """How good it is, where that can be said without training."""
        asked = self.trained or "standing" in self.__dict__
        return self.standing if asked else remembered(self.corpus.ws, self.basis)

    @cached_property
    def standing(self) -> Standing:
        """Worked out once for what people judged, then remembered."""
        found = remembered(self.corpus.ws, self.basis)
        if found is None:
            found = self._measured()
            if self.keeps:
                remember(self.corpus.ws, self.basis, found)
        return found

    def _measured(self) -> Standing:
        e = self.examples
        if not e.enough:  # known before anything is trained
            return Standing(e.found, None, None)
        folds = np.array(e.folds[: len(self.scores)])
        claimed = np.zeros_like(e.judged)
        for n in range(FOLDS):
            at = thresholds(e, self.scores, folds != n)
            level = np.array([at.get(source, at[""]) for source in e.sources])[:, None]
            claimed |= (folds == n)[:, None] & (self.scores >= level)
        right = e.truth[: len(self.scores)] == 1
        return Standing(e.found, *(_precision(which & e.judged, right) for which in (claimed, e.ruled)))

    def propose(self, conversations: pl.DataFrame, taxonomy: Taxonomy, whole: Taxonomy) -> pl.DataFrame:
        """tables.PROPOSALS: a row for each trait of `taxonomy`, a part of the `whole` that it was trained on, of which
        enough is known to score it."""
        rows: list[Proposal] = []
        told = dict(zip(whole.slugs, self.examples.told, strict=True))
        places = {slug: whole.slugs.index(slug) for slug in taxonomy.slugs if told[slug]}
        held = np.array([self._fold(name) for name in conversations["conversation"]])
        for n, model in enumerate(self.models):
            part = conversations.filter(pl.Series(held == n))
            texts = [learning_examples.seekers_text(turns) for turns in part["turns"].to_list()]
            for row, scores in zip(part.iter_rows(named=True), model.score(texts) * self.examples.told, strict=True):
                at = self.thresholds.get(row["source"], self.thresholds[""])
                clauses = _clauses(row["turns"]) if scores.max(initial=0.0) >= at else []
                carried = _carried(model, clauses)
                for slug, place in places.items():
                    claim = carried(place) if scores[place] >= at else None
                    rows.append(_row(row, slug, float(scores[place]), claim, (self.version, whole, taxonomy)))
        return tables.PROPOSALS.frame(rows)

    def _fold(self, conversation: str) -> int:
        return learning_examples.fold(self.groups.get(conversation, conversation))


def thresholds(examples: Examples, scores: Floats, rows: Bools) -> dict[str, float]:
    """By source and, under "", of all: those with the best F0.5 on what people judged in these rows."""
    truth, sources = examples.truth[: len(scores)], np.array(examples.sources)
    found: dict[str, float] = {}
    for source in ["", *sorted({*examples.sources})]:
        known = examples.judged & examples.told & (rows & ((sources == source) | (source == "")))[:, None]
        positives = int((truth[known] == 1).sum())
        if source == "" or positives >= OF_A_SOURCE:
            found[source] = best(scores[known], truth[known] == 1) if examples.enough else NEVER
    return found


def best(scores: Floats, right: Bools) -> float:
    """The threshold with the best F0.5 of what reaches it; the middle one of several."""

    def f(at: float) -> float:
        claimed = scores >= at
        hit = float((claimed & right).sum())
        return 1.25 * hit / (0.25 * right.sum() + claimed.sum() or 1.0)  # 1.25 P R / (.25 P + R)

    each = [f(float(at)) for at in STEPS]
    tied = [at for at, value in zip(STEPS, each, strict=True) if value == max(each)]
    return float(tied[len(tied) // 2])


def _precision(claimed: Bools, right: Bools) -> float | None:
    return float((claimed & right).sum() / claimed.sum()) if claimed.any() else None


# ---- evidence


def _clauses(turns: Sequence[dict[str, str]]) -> list[Span]:
    """The seeker's words, clause by clause."""
    found: list[Span] = []
    for n, turn in enumerate(turns):
        text = turn["text"] or ""
        for sentence in _SENTENCE.finditer(text) if turn["role"] == "seeker" else ():
            long = sentence.end() - sentence.start() > LONG
            for part in _PART.finditer(text, *sentence.span()) if long else (sentence,):
                quote = part[0].strip()
                if sum(c.isalnum() for c in quote) > 1:
                    start = part.start() + part[0].index(quote)
                    found.append({"turn": n, "start": start, "end": start + len(quote), "quote": quote})
    return found


def _carried(model: LinearText, clauses: list[Span]) -> Callable[[int], Span | None]:
    """place of a trait -> the clause that scores highest; None where none says more than no words at all."""
    alone = model.score([*(clause["quote"] for clause in clauses), ""])

    def clause(place: int) -> Span | None:
        top = int(alone[:, place].argmax())
        return clauses[top] if top < len(clauses) else None

    return clause


def _row(
    row: dict[str, str], slug: str, score: float, claim: Span | None, by: tuple[str, Taxonomy, Taxonomy]
) -> Proposal:
    version, whole, part = by
    unit = ("sensitivity", row["conversation"], slug)
    return {
        "proposal": tables.digest(*unit, row["digest"], "learned", version, whole[slug].wording),
        "kind": "sensitivity",
        "subject": row["conversation"],
        "trait": slug,
        "digest": row["digest"],
        "verdict": "present" if claim else "absent",
        "form": _form(claim["quote"], slug) if claim else None,
        "spans": [claim] if claim else [],
        "confidence": score if claim else 1 - score,
        "proposer": "learned",
        "version": version,
        "taxonomy": part.digest,
    }


def _form(quote: str, slug: str) -> str:
    """Explicit where the quote names the content in words that the rules know."""
    book = cues.load()
    named = {label for label, _, _ in book.signs.find(book.mask(quote, ()))}
    return "explicit" if named & {(slug, "cues"), (slug, "genre"), (slug, "says")} else "implicit"

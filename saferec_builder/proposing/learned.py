"""The learned proposer: a linear model per trait, trained where it is used; a score for every conversation and trait.

reads  examples (learning_examples), conversations
gives  proposals by `learned`: `present` with the seeker's clause of the highest score, all others `absent` with a
       confidence of 1 - score, which `review push --band` reads from the highest score down

Every conversation is scored by a model that was not trained on it. A score is claimed if it reaches the threshold of
its source: one where the rules hear something of the trait (though they may be unsure), another where they hear
nothing. The two are chosen together, for the best F0.5 of the rules' claims and these on people's labels
(precision counts twice as much as recall: a false claim costs people a review). Nothing is claimed while people have
found fewer than linear_text.ENOUGH sensitivities.
"""

import logging
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl

from saferec_builder.core.progress import Progress
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.proposing import learning_examples
from saferec_builder.proposing.corpus import Corpus
from saferec_builder.proposing.learning_examples import FOLDS, Bools, Examples, Floats
from saferec_builder.proposing.rules import cues
from saferec_builder.proposing.text_units import Proposal, proposal
from saferec_builder.scoring import linear_text
from saferec_builder.scoring.linear_text import ENOUGH, LinearText
from saferec_builder.storage import tables, whole_files
from saferec_builder.storage.schema import Span

LOG = logging.getLogger(__name__)
NOT_LEARNED = "those of audits, controls, gold and the test split do not count"
OF_A_SOURCE = 20  # sensitivities that people must have found in a source before it has its own threshold
NEVER = 2.0  # a threshold that no score reaches
STEPS = (*np.arange(0.05, 0.96, 0.05), NEVER)
LONG = 160  # characters of a sentence; a longer one is split at commas too
_SENTENCE, _PART = re.compile(r"[^.!?;\n]+[.!?;]*"), re.compile(r"[^,]+,?")


@dataclass(frozen=True)
class Thresholds:
    """Scores from which a trait is claimed where the rules hear something of it, and where they hear nothing."""

    heard: float = NEVER
    unheard: float = NEVER

    def claims(self, scores: Floats, heard: Bools) -> Bools:
        reached: Bools = scores >= np.where(heard, self.heard, self.unheard)
        return reached


@dataclass(frozen=True)
class Standing:
    """How good the claims are on people's labels (of which `found` are sensitivities), by models and thresholds that
    were not fitted on them; `ruled` is the precision of the rules on the same labels."""

    found: int
    precision: float | None
    ruled: float | None

    @property
    def ready(self) -> bool:
        """Whether `learned` proposes beside the rules by default."""
        return self.found >= ENOUGH and self.precision is not None and self.precision >= (self.ruled or 0.0)

    def __str__(self) -> str:
        if self.found < ENOUGH:
            needs = f"{ENOUGH} sensitivities that it needs before it claims any"
            return f"scores only: people have found {self.found} of the {needs} ({NOT_LEARNED})"
        ours, rules = (f"{p:.2f}" if p is not None else "none" for p in (self.precision, self.ruled))
        role = "proposes beside the rules" if self.ready else "proposes only where it is named"
        people = f"{self.found} sensitivities found by people ({NOT_LEARNED})"
        return f"{role}: cross-validated precision {ours}, rules {rules}, {people}"


@dataclass(frozen=True)
class Learned:
    """The proposer of one corpus; it is trained when its models are first needed.

    keeps: whether its standing may be stored in the workspace.
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
    def trained(self) -> bool:
        return "models" in self.__dict__

    @cached_property
    def models(self) -> tuple[LinearText, ...]:
        """One model per fold: model n was not trained on fold n."""
        e = self.examples
        judged = int(e.judged.any(axis=1).sum())
        LOG.warning("%s", f"propose: learning from {len(e.texts):,} texts, of which people have judged {judged:,} ...")
        slugs = self.corpus.taxonomy.slugs
        if unscored := [slug for slug, is_scored in zip(slugs, e.scorable, strict=True) if not is_scored]:
            few = f"fewer than {learning_examples.OF_A_TRAIT} texts that people read have them, or lack them"
            LOG.warning(
                "%s", f"propose: learned scores no {', '.join(unscored)}: the rules know no words for them, and {few}"
            )
        labels = [str(n) for n in range(e.truth.shape[1])]
        own = [n < len(e.sources) for n in range(len(e.texts))]
        return linear_text.cross_fit(e.texts, e.truth, labels, e.folds, FOLDS, own=own, progress=self.progress)

    @cached_property
    def scores(self) -> Floats:
        """[conversation, trait] of the examples, each scored by the model that was not trained on it."""
        e = self.examples
        scores = np.zeros(e.judged.shape)
        folds = np.array(e.folds[: len(scores)])
        for n, model in enumerate(self.models):
            rows = np.flatnonzero(folds == n)
            scores[rows] = model.score([e.texts[k] for k in rows]) * e.scorable
        return scores

    @cached_property
    def thresholds(self) -> dict[str, Thresholds]:
        """By source; "" for sources with too few labels."""
        return thresholds(self.examples, self.scores, np.ones(len(self.scores), dtype=bool))

    def train(self) -> None:
        """Trains it, and chooses its thresholds, unless that is done."""
        _ = self.thresholds

    @property
    def known_standing(self) -> Standing | None:
        """Its standing, if it is known without training."""
        is_measured = self.trained or "standing" in self.__dict__
        return self.standing if is_measured else self._stored()

    def _stored(self) -> Standing | None:
        fields = whole_files.remembered(self._file, self.basis)
        return Standing(**fields) if fields else None

    @property
    def _file(self) -> Path:
        return self.corpus.ws.root / "tables" / "standing.json"  # stored because measuring it trains five models

    @cached_property
    def standing(self) -> Standing:
        """How good it is: measured once for the present labels, then stored."""
        standing = self._stored()
        if standing is None:
            standing = self._measure()
            if self.keeps:
                whole_files.remember(self._file, self.basis, asdict(standing))
        return standing

    def _measure(self) -> Standing:
        e = self.examples
        if not e.enough:  # nothing has to be trained
            return Standing(e.found, None, None)
        if not self.trained:
            LOG.warning("propose: learned is trained once for these labels, to compare its precision with the rules'")
        folds = np.array(e.folds[: len(self.scores)])
        claimed = np.zeros_like(e.judged)
        for n in range(FOLDS):
            by_source = thresholds(e, self.scores, folds != n)
            for k in np.flatnonzero(folds == n):
                claimed[k] = by_source.get(e.sources[k], by_source[""]).claims(self.scores[k], e.heard[k])
        right = e.truth[: len(self.scores)] == 1
        return Standing(e.found, *(_precision(claims & e.judged, right) for claims in (claimed, e.ruled)))

    def propose(self, conversations: pl.DataFrame, taxonomy: Taxonomy, whole: Taxonomy) -> pl.DataFrame:
        """Rows of tables.PROPOSALS for the scorable traits of `taxonomy`, a part of the `whole` that it learned."""
        rows: list[Proposal] = []
        is_scored = dict(zip(whole.slugs, self.examples.scorable, strict=True))
        places = {slug: whole.slugs.index(slug) for slug in taxonomy.slugs if is_scored[slug]}
        names = conversations["conversation"]
        folds = np.array([learning_examples.fold(self.groups.get(name, name)) for name in names])
        for n, model in enumerate(self.models):
            part = conversations.filter(pl.Series(folds == n))
            scores = model.score([learning_examples.seekers_text(turns) for turns in part["turns"].to_list()])
            scores *= self.examples.scorable
            for row, of_row, is_claim in zip(
                part.iter_rows(named=True), scores, self._claims(part, scores), strict=True
            ):
                clauses = _clauses(row["turns"]) if is_claim.any() else []
                top = model.score([*(clause["quote"] for clause in clauses), ""]).argmax(axis=0)  # "": no clause
                for slug, place in places.items():
                    score = float(of_row[place])
                    claim = clauses[top[place]] if is_claim[place] and top[place] < len(clauses) else None
                    claimed = proposal(
                        ("sensitivity", row["conversation"], slug, row["digest"]),
                        ("learned", self.examples.version),
                        taxonomy.digest,
                        whole[slug].wording,
                        verdict="present" if claim else "absent",
                        form=_form(claim["quote"], slug) if claim else "",
                        spans=[claim] if claim else [],
                        confidence=score if claim else 1 - score,
                    )
                    rows.append(claimed)
        return tables.PROPOSALS.frame(rows)

    def _claims(self, conversations: pl.DataFrame, scores: Floats) -> Bools:
        """[conversation, trait]: what is claimed; the rules read only the conversations with a score that may be."""
        of_rows = [self.thresholds.get(source, self.thresholds[""]) for source in conversations["source"]]
        least = np.array([min(t.heard, t.unheard) for t in of_rows])
        claimable: Bools = np.any(scores >= least[:, None], axis=1)
        heard = np.zeros(scores.shape, dtype=bool)
        heard[claimable] = learning_examples.heard(conversations.filter(pl.Series(claimable)), self.corpus.taxonomy)
        return np.array([t.claims(*pair) for t, *pair in zip(of_rows, scores, heard, strict=True)]).reshape(heard.shape)


def thresholds(examples: Examples, scores: Floats, rows: Bools) -> dict[str, Thresholds]:
    """By source and, under "", of all sources: the best ones on people's labels in these rows."""
    e, sources = examples, np.array(examples.sources)
    by_source: dict[str, Thresholds] = {}
    for source in ["", *sorted({*e.sources})]:
        judged = e.judged & e.scorable & (rows & ((sources == source) | (source == "")))[:, None]
        right = (e.truth[: len(scores)] == 1)[judged]
        if source == "" or right.sum() >= OF_A_SOURCE:
            of_judged = scores[judged], right, e.heard[judged], e.ruled[judged]
            by_source[source] = best(*of_judged) if e.enough else Thresholds()
    return by_source


def best(scores: Floats, right: Bools, heard: Bools, ruled: Bools) -> Thresholds:
    """The thresholds with the best F0.5 of what the rules or the scores claim; the middle pair if several tie.

    right: which of these units have the trait; heard: where the rules say `present` or `unsure`; ruled: `present`.
    """

    def counts(where: Bools) -> Floats:
        """[step, 2]: what its score claims from each step on, and how much of it is right."""
        claims = [where & (scores >= step) for step in STEPS]
        return np.array([(claim.sum(), (claim & right).sum()) for claim in claims], dtype=np.float64)

    of_rules = np.array([ruled.sum(), (ruled & right).sum()], dtype=np.float64)
    sums = of_rules + counts(heard & ~ruled)[:, None] + counts(~heard & ~ruled)[None]
    values = 1.25 * sums[..., 1] / np.maximum(0.25 * right.sum() + sums[..., 0], 1e-9)  # 1.25 P R / (.25 P + R)
    lows, highs = np.nonzero(values == values.max())
    tied = np.unique(lows)
    low = tied[len(tied) // 2]
    highs = highs[lows == low]
    return Thresholds(float(STEPS[low]), float(STEPS[highs[len(highs) // 2]]))


def _precision(claimed: Bools, right: Bools) -> float | None:
    return float((claimed & right).sum() / claimed.sum()) if claimed.any() else None


# ---- evidence


def _clauses(turns: Sequence[dict[str, str]]) -> list[Span]:
    """The clauses of the seeker's turns."""
    clauses: list[Span] = []
    for n, turn in enumerate(turns):
        text = turn["text"] or ""
        for sentence in _SENTENCE.finditer(text) if turn["role"] == "seeker" else ():
            long = sentence.end() - sentence.start() > LONG
            for part in _PART.finditer(text, *sentence.span()) if long else (sentence,):
                quote = part[0].strip()
                if sum(c.isalnum() for c in quote) > 1:
                    start = part.start() + part[0].index(quote)
                    clauses.append({"turn": n, "start": start, "end": start + len(quote), "quote": quote})
    return clauses


def _form(quote: str, slug: str) -> str:
    """`explicit` if the quote names the content in words of the rules, else `implicit`."""
    book = cues.load()
    labels = {label for label, _, _ in book.signs.find(book.mask(quote, ()))}
    return "explicit" if labels & {(slug, "cues"), (slug, "genre"), (slug, "says")} else "implicit"

"""What `learned` learns from: labels that people gave here, the rules' claims as silver, and messages of our own.

reads  a corpus, its labels, and what must not be learned from: conversations of audits, controls and gold (they
       measure what the scores order), the test split, as it is now and as releases have it, and near-duplicates of all
gives  texts with what is known of each trait, each with its fold
"""

import tomllib
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from saferec_builder import __version__
from saferec_builder.core.errors import strict_json
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.mining import splits
from saferec_builder.proposing import human_labels
from saferec_builder.proposing.calibration import Truth
from saferec_builder.proposing.corpus import Corpus
from saferec_builder.proposing.rules import cues, matcher as rules
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.workspace import Workspace

FOLDS = 5
ENOUGH = 50  # sensitivities that people found, before anything is claimed
OF_A_TRAIT = 10  # texts with a trait that the rules know no words for, and without it, before it is scored
SILVER = 2_000  # conversations without a label that the rules' claims stand for
MEASURING = ("audit", "control", "gold")  # why a conversation was read that nothing is learned from
WAY = 2  # of learning: another number where the same examples make other models
MESSAGES = Path(__file__).with_name("messages")
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Examples:
    """One row per text: first the conversations of this workspace, then the messages.

    truth: [text, trait], nan where nobody knows; judged: where people said it; ruled: where the rules claim `present`.
    The last two and `sources` are of conversations only. Of a trait that the rules know no words for their silence says
    nothing, nor do messages that were written for others.
    """

    texts: list[str]
    truth: Floats
    folds: list[int]
    sources: list[str]
    judged: Bools
    ruled: Bools
    told: Bools  # which traits may be scored
    version: str  # another one where anything above is another

    @property
    def own(self) -> list[bool]:
        return [n < len(self.sources) for n in range(len(self.texts))]

    @property
    def found(self) -> int:
        """Sensitivities that people found."""
        return int((self.judged & (self.truth[: len(self.sources)] == 1)).sum())

    @property
    def enough(self) -> bool:
        return self.found >= ENOUGH


def gather(corpus: Corpus) -> Examples:
    """Examples of this workspace, in an order that rests on nothing but the ids."""
    slugs, people = corpus.taxonomy.slugs, human_labels.labels(corpus)
    known, rest = _known(corpus, people)
    rest = rest.filter(~pl.col("conversation").is_in(list(corpus.foreign)))
    rest = rest.with_columns(pl.col("conversation").map_elements(_place, pl.String).alias("place"))
    rows = pl.concat([known, rest.sort("place").head(SILVER).drop("place")])
    claims = rules.propose(rows, corpus.taxonomy)
    verdicts = {(s, t): v for s, t, v in claims.select("subject", "trait", "verdict").iter_rows()}
    units = [[(name, slug) for slug in slugs] for name in rows["conversation"]]
    heard = cues.traits()
    read = [name not in corpus.foreign for name in rows["conversation"]]  # of others the rules' silence says nothing
    truth = [
        [_said(unit, people, verdicts, here and unit[1] in heard) for unit in of]
        for of, here in zip(units, read, strict=True)
    ]
    texts = [seekers_text(turns) for turns in rows["turns"].to_list()]
    written, traits = messages(corpus.taxonomy)
    shape = (len(rows), len(slugs))
    both = np.concatenate([np.array(truth, dtype=np.float64).reshape(shape), traits])
    judged = np.array([[people.of(unit) is not None for unit in of] for of in units], dtype=bool).reshape(shape)
    folds = [fold(name) for name in (*rows["group"], *written)]
    wordings = [t.wording for t in corpus.taxonomy.traits]
    version = tables.digest(WAY, wordings, rules.VERSION, texts, written, both.tolist())
    return Examples(
        [*texts, *written],
        both,
        folds,
        rows["source"].to_list(),
        judged,
        np.array([[verdicts.get(u) == "present" for u in of] for of in units], dtype=bool).reshape(shape),
        np.array([slug in heard for slug in slugs]) | _enough_of_each(both, folds),
        f"learned-{version}",
    )


def _said(unit: tuple[str, str], people: Truth, verdicts: dict[tuple[str, str], str], heard: bool) -> float:
    """What people say of it, else the rules, whose silence says something only where they can have `heard` it."""
    if (said := people.of(unit)) is not None:
        return float(said)
    return {"present": 1.0, "": 0.0}.get(verdicts.get(unit, ""), np.nan) if heard else np.nan


def _enough_of_each(truth: Floats, folds: list[int]) -> Bools:
    """Whether each model, without its fold, has enough texts with the trait and without it."""
    apart = [truth[np.array(folds) != n] for n in range(FOLDS)]
    enough: Bools = np.all([(part == side).sum(axis=0) >= OF_A_TRAIT for part in apart for side in (0, 1)], axis=0)
    return enough


def basis(corpus: Corpus) -> str:
    """Names all of it that claims are measured on: what people said, of which texts, of which traits, beside the rules.

    Silver is no part of it: each conversation that comes is some of that, and tells hardly anything of the claims.
    """
    people = human_labels.labels(corpus)
    rows, _ = _known(corpus, people)
    names = set(rows["conversation"])
    said = [sorted(unit for unit in units if unit[0] in names) for units in (people.present, people.absent)]
    texts = rows.select("conversation", "digest", "group", "source").rows()
    written = [path.read_text(encoding="utf-8") for path in sorted(MESSAGES.glob("*.toml"))]
    wordings = [trait.wording for trait in corpus.taxonomy.traits]
    return tables.digest(__version__, WAY, wordings, rules.VERSION, said, texts, written)


def seekers_text(turns: list[dict[str, str]]) -> str:
    """What is read of a conversation: the seeker's words."""
    return "\n".join(turn["text"] or "" for turn in turns or [] if turn["role"] == "seeker")


def fold(group: str) -> int:
    """In which fifth a conversation is, by the name of its group."""
    return int(tables.digest("fold", group), 16) % FOLDS


def groups(corpus: Corpus) -> dict[str, str]:
    """Conversation -> what is in one fold with it: near-duplicates are together."""
    return dict(_grouped(corpus).select("conversation", "group").iter_rows())


def _known(corpus: Corpus, people: Truth) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Conversations that may be learned from: (those that people labelled, by their ids; the rest)."""
    labelled = {subject for subject, _ in (*people.present, *people.absent)}
    measured = pl.col("conversation").is_in(list(_measured(corpus)))
    rows = _grouped(corpus).filter(~measured.any().over("group"))  # a near-duplicate says the same
    known, rest = (rows.filter(pl.col("conversation").is_in(list(labelled)) == which) for which in (True, False))
    return known.sort("conversation"), rest


def _grouped(corpus: Corpus) -> pl.DataFrame:
    clusters = tables.last(workspace.read(corpus.ws, tables.CLUSTERS), "conversation").select("conversation", "cluster")
    rows = corpus.frame.join(clusters, on="conversation", how="left", maintain_order="left")
    return rows.with_columns(group=pl.coalesce("cluster", "conversation"))


def _place(conversation: str) -> str:
    return tables.digest("silver", conversation)


def messages(taxonomy: Taxonomy) -> tuple[list[str], Floats]:
    """Our own messages and [text, trait]: each is written for one trait, and counts as one without the others that any
    is written for. Of a trait of somebody's own nobody knows."""
    rows, ours = [], set[str]()
    for path in sorted(MESSAGES.glob("*.toml")):
        for trait, row in tomllib.loads(path.read_text(encoding="utf-8"))["trait"].items():
            ours.add(trait)
            rows += [(text, trait) for text in row["says"]] + [(text, "") for text in row["not"]]
    truth = [[float(trait == slug) if slug in ours else np.nan for slug in taxonomy.slugs] for _, trait in rows]
    return [text for text, _ in rows], np.array(truth, dtype=np.float64)


# ---- what must not be learned from


def _measured(corpus: Corpus) -> set[str]:
    given = workspace.read(corpus.ws, tables.ASSIGNMENTS).filter(pl.col("why").is_in(MEASURING))["subject"]
    return {*given, *workspace.read(corpus.ws, tables.GOLD)["subject"], *_tested(corpus)}


def _tested(corpus: Corpus) -> pl.Series:
    """Conversations of the test split, today's or a release's, and of seekers and near-duplicates who stand in a later
    split."""
    rows = _grouped(corpus)
    split = splits.assign(rows, splits.shares(corpus.ws.config.splits))
    split = split.select("split", "straddles", *rows.select("conversation", "time", "seeker", "cluster"))
    tested = (pl.col("split") == "test") | pl.col("straddles").fill_null(False)
    if corpus.ws.config.splits.by_item:  # a release splits these by their works, which are not looked for here
        tested |= pl.col("time").is_null() & pl.col("seeker").is_null()
    if starts := released(corpus.ws):
        late = (pl.col("time").dt.date() >= min(starts)).fill_null(False)
        tested |= late
        for name in ("seeker", "cluster"):  # today's split knows nothing of who stands on both sides of that day
            tested |= pl.col(name).is_not_null() & late.any().over(name)
    return split.filter(tested)["conversation"]


def released(ws: Workspace) -> list[date]:
    """The days on which the test splits of the releases here begin."""
    found = [strict_json(path.read_bytes()).get("split_starts") for path in ws.releases.glob("[!.]*/manifest.json")]
    return [date.fromisoformat(starts[1]) for starts in found if starts and starts[1]]

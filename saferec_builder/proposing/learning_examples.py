"""What `learned` learns from: labels of people in this workspace, claims of the rules as silver labels, own messages.

reads  a corpus, its labels, and what must not be learned from: conversations of audits, controls and gold (they
       measure what the scores rank), the test split, today's and that of releases, and near-duplicates of all these
gives  texts with the truth about each trait where it is known, each with its fold
"""

import tomllib
from dataclasses import dataclass
from datetime import date
from functools import partial
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
from saferec_builder.scoring.linear_text import ENOUGH
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.workspace import Workspace

FOLDS = 5
OF_A_TRAIT = 10  # texts with, and as many without, a trait that the rules have no words for, before it is scored
SILVER = 2_000  # at most so many conversations without a label take the rules' claims as labels
MEASURING = ("audit", "control", "gold")  # reasons of assignment to a reviewer; nothing is learned from these
WAY = 4  # version of the learning method, for when the same examples give other models
MESSAGES = Path(__file__).with_name("messages")
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Examples:
    """One row per text: first the conversations of this workspace, then the messages.

    truth: [text, trait], nan if unknown; judged: where people labelled it; ruled: where the rules claim `present`;
    heard: where they claim it or are unsure. These three and `sources` cover the conversations only. A trait is unknown
    in a conversation if the rules have no words for it and people did not label it, and in the messages if none of them
    was written for it.
    """

    texts: list[str]
    truth: Floats
    folds: list[int]  # -1: of the messages, which are in every model
    sources: list[str]
    judged: Bools
    ruled: Bools
    heard: Bools
    scorable: Bools  # which traits may be scored
    version: str  # changes when anything above changes

    @property
    def found(self) -> int:
        """How many sensitivities people found."""
        return int((self.judged & (self.truth[: len(self.sources)] == 1)).sum())

    @property
    def enough(self) -> bool:
        return self.found >= ENOUGH


def gather(corpus: Corpus) -> Examples:
    """Collects the examples of this workspace, in an order that depends on nothing but the ids."""
    slugs, labels = corpus.taxonomy.slugs, human_labels.labels(corpus)
    labelled, rest = _learnable(corpus, labels)
    rest = rest.filter(~pl.col("conversation").is_in(list(corpus.foreign)))
    rest = rest.with_columns(
        pl.col("conversation").map_elements(partial(tables.digest, "silver"), pl.String).alias("place")
    )
    rows = pl.concat([labelled, rest.sort("place").head(SILVER).drop("place")])
    verdicts = _by_rules(rows, corpus.taxonomy)
    units = [[(name, slug) for slug in slugs] for name in rows["conversation"]]
    cue_traits = cues.traits()
    is_english = [name not in corpus.foreign for name in rows["conversation"]]  # elsewhere the rules find nothing
    truth = [
        [_unit_truth(unit, labels, verdicts, english and unit[1] in cue_traits) for unit in row]
        for row, english in zip(units, is_english, strict=True)
    ]
    texts = [seekers_text(turns) for turns in rows["turns"].to_list()]
    message_texts, message_truth = messages(corpus.taxonomy)
    shape = (len(rows), len(slugs))
    all_truth = np.concatenate([np.array(truth, dtype=np.float64).reshape(shape), message_truth])
    judged = np.array([[labels.of(unit) is not None for unit in row] for row in units], dtype=bool).reshape(shape)
    folds = [*map(fold, rows["group"]), *[-1] * len(message_texts)]
    wordings = [t.wording for t in corpus.taxonomy.traits]
    version = tables.digest(WAY, wordings, rules.VERSION, texts, message_texts, all_truth.tolist())
    return Examples(
        [*texts, *message_texts],
        all_truth,
        folds,
        rows["source"].to_list(),
        judged,
        np.array([[verdicts.get(u) == "present" for u in row] for row in units], dtype=bool).reshape(shape),
        np.array([[u in verdicts for u in row] for row in units], dtype=bool).reshape(shape),
        np.array([slug in cue_traits for slug in slugs]) | _enough_of_each(all_truth, folds),
        f"learned-{version}",
    )


def heard(conversations: pl.DataFrame, taxonomy: Taxonomy) -> Bools:
    """[conversation, trait]: where the rules claim the trait or are unsure of it."""
    verdicts, slugs = _by_rules(conversations, taxonomy), taxonomy.slugs
    is_heard = [[(name, slug) in verdicts for slug in slugs] for name in conversations["conversation"]]
    return np.array(is_heard, dtype=bool).reshape(len(conversations), len(slugs))


def _by_rules(conversations: pl.DataFrame, taxonomy: Taxonomy) -> dict[tuple[str, str], str]:
    """(conversation, trait) -> the rules' verdict, where they have one."""
    claims = rules.propose(conversations, taxonomy)
    return {(s, t): v for s, t, v in claims.select("subject", "trait", "verdict").iter_rows()}


def _unit_truth(unit: tuple[str, str], labels: Truth, verdicts: dict[tuple[str, str], str], has_cues: bool) -> float:
    """1.0 or 0.0 by people's label, else by the rules; nan if they are unsure or cannot find the trait in this text."""
    if (label := labels.of(unit)) is not None:
        return float(label)
    return {"present": 1.0, "": 0.0}.get(verdicts.get(unit, ""), np.nan) if has_cues else np.nan


def _enough_of_each(truth: Floats, folds: list[int]) -> Bools:
    """Per trait: whether each model, trained without its fold, has enough texts with the trait and without it."""
    training = [truth[np.array(folds) != n] for n in range(FOLDS)]
    enough: Bools = np.all([(part == value).sum(axis=0) >= OF_A_TRAIT for part in training for value in (0, 1)], axis=0)
    return enough


def basis(corpus: Corpus) -> str:
    """A digest of everything that the claims are measured on: people's labels, their texts and traits, and the rules.

    Silver labels are left out: each new conversation adds some, and they hardly change how good the claims are.
    """
    labels = human_labels.labels(corpus)
    rows, _ = _learnable(corpus, labels)
    names = set(rows["conversation"])
    labelled = [sorted(unit for unit in units if unit[0] in names) for units in (labels.present, labels.absent)]
    texts = rows.select("conversation", "digest", "group", "source").rows()
    messages = [path.read_text(encoding="utf-8") for path in sorted(MESSAGES.iterdir())]
    wordings = [trait.wording for trait in corpus.taxonomy.traits]
    return tables.digest(__version__, WAY, wordings, rules.VERSION, labelled, texts, messages)


def seekers_text(turns: list[dict[str, str]]) -> str:
    """The text of a conversation that is read: the seeker's turns."""
    return "\n".join(turn["text"] or "" for turn in turns or [] if turn["role"] == "seeker")


def fold(group: str) -> int:
    """The fold of a conversation, by the name of its group."""
    return int(tables.digest("fold", group), 16) % FOLDS


def groups(corpus: Corpus) -> dict[str, str]:
    """Conversation -> its group; a group of near-duplicates is in one fold."""
    return dict(_grouped(corpus).select("conversation", "group").iter_rows())


def _learnable(corpus: Corpus, labels: Truth) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Conversations that may be learned from: (those that people labelled, sorted by id; the rest)."""
    names = {subject for subject, _ in (*labels.present, *labels.absent)}
    measured = pl.col("conversation").is_in(list(_excluded(corpus)))
    rows = _grouped(corpus).filter(~measured.any().over("group"))  # a near-duplicate says the same
    labelled, rest = (rows.filter(pl.col("conversation").is_in(list(names)) == match) for match in (True, False))
    return labelled.sort("conversation"), rest


def _grouped(corpus: Corpus) -> pl.DataFrame:
    clusters = tables.last(workspace.read(corpus.ws, tables.CLUSTERS), "conversation").select("conversation", "cluster")
    rows = corpus.frame.join(clusters, on="conversation", how="left", maintain_order="left")
    return rows.with_columns(group=pl.coalesce("cluster", "conversation"))


def messages(taxonomy: Taxonomy) -> tuple[list[str], Floats]:
    """Our own messages and their truth, [text, trait]. A message lacks all traits that messages are written for but its
    own: one at most in a .toml file, any number in a .jsonl file. Any other trait is unknown (nan)."""
    rows: list[tuple[str, list[str]]] = []
    for path in sorted(MESSAGES.glob("*.toml")):
        for trait, row in tomllib.loads(path.read_text(encoding="utf-8"))["trait"].items():
            rows += [(text, [trait]) for text in row["says"]] + [(text, []) for text in row["not"]]
    for path in sorted(MESSAGES.glob("*.jsonl")):
        rows += [(row["text"], row["traits"]) for row in map(strict_json, path.read_bytes().splitlines())]
    written_for = {trait for _, traits in rows for trait in traits}
    truth = [
        [float(slug in traits) if slug in written_for else np.nan for slug in taxonomy.slugs] for _, traits in rows
    ]
    return [text for text, _ in rows], np.array(truth, dtype=np.float64)


# ---- what must not be learned from


def _excluded(corpus: Corpus) -> set[str]:
    measuring = workspace.read(corpus.ws, tables.ASSIGNMENTS).filter(pl.col("why").is_in(MEASURING))["subject"]
    return {*measuring, *workspace.read(corpus.ws, tables.GOLD)["subject"], *_tested(corpus)}


def _tested(corpus: Corpus) -> pl.Series:
    """Conversations of a test split, today's or a release's, or with a seeker or near-duplicate in a later split."""
    rows = _grouped(corpus)
    split = splits.assign(rows, corpus.ws.config.splits)
    split = split.select("split", "straddles", *rows.select("conversation", "time", "seeker", "cluster"))
    tested = (pl.col("split") == "test") | pl.col("straddles").fill_null(False)
    if corpus.ws.config.splits.by_item:  # a release splits these by their items, which are not looked up here
        tested |= pl.col("time").is_null() & pl.col("seeker").is_null()
    if starts := released(corpus.ws):
        late = (pl.col("time").dt.date() >= min(starts)).fill_null(False)
        tested |= late
        for name in ("seeker", "cluster"):  # today's split does not tell who is on both sides of that day
            tested |= pl.col(name).is_not_null() & late.any().over(name)
    return split.filter(tested)["conversation"]


def released(ws: Workspace) -> list[date]:
    """The days on which the test splits of this workspace's releases begin."""
    pairs = [strict_json(path.read_bytes()).get("split_starts") for path in ws.releases.glob("[!.]*/manifest.json")]
    return [date.fromisoformat(starts[1]) for starts in pairs if starts and starts[1]]

"""The learned proposer: a score for everything, claims with their clause, no claims before there are enough labels."""

import numpy as np
import polars as pl
import pytest

from saferec_builder.core.errors import UsageError
from saferec_builder.proposing import learned
from saferec_builder.proposing.evaluation import score
from saferec_builder.proposing.learning_examples import FOLDS
from saferec_builder.proposing.rules import cues
from saferec_builder.proposing.run import propose
from saferec_builder.scoring import linear_text
from saferec_builder.storage import tables, workspace as store
from tests.worlds.bars import Bar, drawn
from tests.worlds.learned_world import few_messages, label, world
from tests.worlds.model_replies import fill


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    few_messages(monkeypatch, tmp_path_factory.mktemp("messages"))


def rows(ws: store.Workspace, **which: str) -> pl.DataFrame:
    return store.read(ws, tables.PROPOSALS).filter(proposer="learned", **which)


@pytest.mark.slow
def test_it_is_trained_before_the_bar_of_its_texts_begins(workspace: store.Workspace) -> None:
    """The two bars interleaved and contradicted each other."""
    world(workspace, 130, 6)
    events = list[str]()

    class Noted(Bar):
        def __enter__(self) -> "Noted":
            events.append(f"begins {self.total}")
            return self

        def __exit__(self, *fault: object) -> None:
            events.append(f"ends {self.total}")

    propose(workspace, "learned", progress=lambda name, unit: Noted)
    assert events[:3] == [f"begins {FOLDS}", f"ends {FOLDS}", "begins 136"]


@pytest.mark.slow
def test_it_joins_the_rules_and_claims_with_the_clause_that_carries_the_score(workspace: store.Workspace) -> None:
    texts, bars = world(workspace, 130, 6), list[Bar]()
    named = list[tuple[str, str]]()
    counts = propose(workspace, progress=lambda *names: named.append(names) or drawn(bars)).counts
    # training takes minutes: it once showed no progress, then steps that might have been anything
    assert (bars[0].total, bars[0].done) == (FOLDS, FOLDS)
    assert named == [("propose, training learned", "model"), ("propose", "conversation")]
    assert str(counts.figures["of_learned"]).startswith("proposes beside the rules: cross-validated precision 1.00")
    assert rows(workspace).height == len(texts) * len(workspace.taxonomy.slugs)  # a score for each text and trait
    claims = rows(workspace, verdict="present").filter(pl.col("subject").is_in([f"c{n}" for n in range(130, 136)]))
    assert sorted(claims.select("subject", "trait").rows()) == [(f"c{n}", "animal_harm") for n in (130, 132, 134)]
    quotes = {s["quote"] for spans in claims["spans"] for s in spans}
    assert quotes == {"We lost little Bruno at the vet, so something calm."}
    rerun = propose(workspace).counts
    assert (rerun.added, rerun.skipped) == (0, 2 * len(texts)) and "of_learned" not in rerun.figures
    label(workspace, texts[:1], ["absent"])  # somebody changes their mind: a new model reads all
    assert propose(workspace, "learned").counts.added == len(texts)


@pytest.mark.slow
def test_with_few_labels_it_scores_and_claims_nothing(workspace: store.Workspace, monkeypatch) -> None:
    texts = world(workspace, 8, 2)
    with monkeypatch.context() as patch:  # the labels are counted before any time is spent on training
        patch.delattr(linear_text, "cross_fit")
        assert str(propose(workspace).counts.figures["of_learned"]).startswith("scores only: people have found ")
    assert rows(workspace).is_empty()
    with pytest.raises(UsageError, match="has read nothing"):
        score(workspace, "learned")
    propose(workspace, "learned", limit=3)
    propose(workspace)  # a request by name does not make it join the default proposers
    assert rows(workspace)["subject"].n_unique() == 3
    propose(workspace, "learned")
    assert set(rows(workspace)["verdict"]) == {"absent"}
    ranked = rows(workspace, trait="animal_harm").sort("confidence")["subject"].to_list()
    assert ranked.index("c8") < ranked.index("c9") and len(ranked) == len(texts)  # the unlabelled loss ranks first
    with pytest.raises(UsageError, match="reads conversations"):
        fill_items(workspace)
        propose(workspace, "learned", items=True)


def test_a_trait_that_too_little_is_known_of_has_no_score(workspace: store.Workspace, monkeypatch, caplog) -> None:
    """A score of one half everywhere would come first in every queue, and be a claim under a low threshold."""
    texts, covered = world(workspace, 130), cues.traits() - {"gore"}
    monkeypatch.setattr(cues, "traits", lambda: covered)
    label(workspace, texts[:1], ["present"], trait="gore")
    propose(workspace, "learned", limit=3)
    assert "gore" not in set(rows(workspace)["trait"]) and rows(workspace)["trait"].n_unique() == len(covered)
    assert "learned scores no gore: the rules know no words for them, and fewer than 10 texts" in caplog.text


def test_the_rules_tell_which_threshold_holds(workspace: store.Workspace, monkeypatch) -> None:
    monkeypatch.setattr(learned, "thresholds", lambda *_: {"": learned.Thresholds(heard=0.0)})
    fill(workspace, "A calm film, please", "It Follows gave me nightmares for weeks.")  # the rules are unsure
    propose(workspace, "learned")
    assert rows(workspace, verdict="present").select("subject", "trait").rows() == [("c1", "horror_scares")]


def fill_items(ws: store.Workspace) -> None:
    row = dict.fromkeys(tables.CATALOG_ROWS.columns) | {"source": "csv", "source_id": "1", "domain": "film"}
    row |= {"title": "Heat", "refs": [], "aliases": [], "genres": [], "plot": "A heist."}
    store.append(ws, tables.CATALOG_ROWS, tables.CATALOG_ROWS.frame([row]))


def test_thresholds_weigh_precision_twice() -> None:
    # 1.25 P R / (.25 P + R): from .75 on P 1, R 1/3: .71; from .7 on P 2/3, R 2/3: .67; from .5 on P 3/5, R 1: .65
    scores, correct = np.array([0.92, 0.72, 0.71, 0.52, 0.51]), np.array([True, False, True, False, True])
    heard, nowhere = np.ones(5, dtype=bool), np.zeros(5, dtype=bool)
    assert learned.best(scores, correct, heard, nowhere).heard > 0.72
    # one more right at .73: from .75 on 1, 1/4: .63; from .55 to .7 on 3/4, 3/4: .75, the middle of the four
    more = np.append(scores, 0.73), np.append(correct, True)
    assert learned.best(*more, np.ones(6, dtype=bool), np.zeros(6, dtype=bool)).heard == pytest.approx(0.65)


def test_a_score_counts_more_where_the_rules_hear_something() -> None:
    scores = np.array([0.9, 0.22, 0.24, 0.32, 0.82, 0.5, 0.4])
    correct = np.array([True, True, True, False, True, False, True])
    heard = np.array([True, True, True, False, False, False, True])
    ruled = np.array([False, False, False, False, False, False, True])
    thresholds = learned.best(scores, correct, heard, ruled)
    # all five right ones and no other: heard from .05 to .2, their middle; unheard from .55 to .8
    assert thresholds.heard == pytest.approx(0.15) and 0.5 < thresholds.unheard < 0.82
    assert thresholds.claims(scores, heard).tolist() == correct.tolist()
    # what the rules claim is claimed whatever its score: not doing so too would only lower the recall
    assert learned.best(np.zeros(2), np.array([True, False]), np.ones(2, dtype=bool), np.array([True, False])).heard > 0

"""Which proposals reviewers are asked about: those on the current texts and the current wording of the traits."""

import json
from dataclasses import replace

import polars as pl
import pytest

from annotation import review_state, standing_claims
from saferec_builder.core import taxonomy as traits
from saferec_builder.proposing import pending
from saferec_builder.proposing.rules import matcher as rules
from saferec_builder.storage import tables
from tests.worlds.model_replies import fill

NOW = traits.load()
OTHERS = tuple(replace(trait, definition=f"{trait.definition} Or so.") for trait in NOW.traits)
BEFORE = replace(NOW, digest="before", traits=OTHERS)
ASKED = pl.concat([pending.rows(taxonomy) for taxonomy in (NOW, BEFORE)])
CURRENT = pl.DataFrame({"kind": "sensitivity", "subject": ["c1", "c2"], "digest": ["d1", "d2"]})
WORDS = {"small": "v", "learned": "v", "rules": rules.VERSION}


def proposed(*rows: tuple[str, str, str, str], words=NOW, version: str | None = None) -> pl.DataFrame:
    """Proposals on gore from (conversation, text, proposer, verdict)."""
    proposals = []
    for subject, text, proposer, verdict in rows:
        edition = version or WORDS[proposer]
        unit = {"kind": "sensitivity", "subject": subject, "trait": "gore", "digest": text}
        name = tables.digest(*unit.values(), proposer, edition, words["gore"].wording)
        row = unit | {"proposal": name, "verdict": verdict, "spans": []}
        proposals.append(row | {"proposer": proposer, "version": edition, "taxonomy": words.digest, "confidence": 0.97})
    return tables.PROPOSALS.frame(proposals)


def read(*rows: tuple[str, str, str], words=NOW) -> pl.DataFrame:
    readings = [("sensitivity", subject, text, name, WORDS[name], words.digest, []) for subject, text, name in rows]
    return tables.READINGS.frame(readings)


def assigned(*rows: tuple[str, str], why: str = "proposed") -> pl.DataFrame:
    tasks = [("sensitivity", subject, "ann", "reviewer", text, why, "b") for subject, text in rows]
    return tables.ASSIGNMENTS.frame(tasks)


def stand(proposals: pl.DataFrame, given=tables.ASSIGNMENTS.empty, readings=tables.READINGS.empty) -> list[tuple]:
    claims = standing_claims.standing(proposals, CURRENT, given, readings, ASKED, NOW)
    return claims.select("subject", "proposer", "verdict").rows()


def test_a_claim_on_another_text_is_nobodys_task_but_theirs_who_were_given_that_text() -> None:
    old = proposed(("c1", "before", "small", "present"), ("c2", "d2", "small", "present"))
    assert stand(old) == [("c2", "small", "present")]
    assert stand(old, assigned(("c1", "d1"))) == [("c2", "small", "present")]
    assert len(stand(old, assigned(("c1", "before")))) == 2


def test_a_claim_in_other_words_stands_until_its_proposer_has_read_the_text_in_these() -> None:
    old = proposed(("c1", "d1", "small", "present"), words=BEFORE)
    older = pl.concat([read(("c1", "d1", "small"), words=BEFORE), read(("c2", "d2", "small"), ("c1", "d1", "learned"))])
    assert len(stand(old, readings=older)) == 1
    reread = pl.concat([older, read(("c1", "d1", "small"))])
    assert stand(old, readings=reread) == []
    assert len(stand(old, assigned(("c1", "d1")), reread)) == 1  # somebody is at it
    assert len(stand(pl.concat([old, proposed(("c1", "d1", "small", "present"))]), readings=reread)) == 1


@pytest.mark.parametrize(("proposer", "words"), [("rules", BEFORE), ("small", NOW)])
def test_a_claim_of_older_rules_or_prompts_stands_until_others_have_read_the_text(proposer: str, words) -> None:
    """What an earlier prompt claimed stayed, also where the next one claimed nothing."""
    old = proposed(("c1", "d1", proposer, "present"), words=words, version="older")
    older = read(("c1", "d1", proposer)).with_columns(version=pl.lit("older"))
    newer = read(("c1", "d1", proposer), ("c2", "d2", proposer))
    assert len(stand(old, readings=pl.concat([older, newer.filter(subject="c2")]))) == 1
    assert stand(old, readings=pl.concat([older, newer])) == []


def test_the_rules_cues_do_not_depend_on_the_wording() -> None:
    claim = proposed(("c1", "d1", "rules", "present"), words=BEFORE)
    assert len(stand(claim, readings=read(("c1", "d1", "rules")))) == 1


def test_the_last_word_of_each_proposer_counts_and_a_text_assigned_for_a_claim_keeps_one() -> None:
    """Claims that no proposer makes any more came back with a push, even on blind audits."""
    claims = [("c1", "d1", proposer, verdict) for proposer, verdict in (("learned", "present"), ("rules", "present"))]
    rows = proposed(*claims, ("c1", "d1", "learned", "absent"), ("c2", "d2", "learned", "absent"))
    last = [("c1", "rules", "present"), ("c1", "learned", "absent"), ("c2", "learned", "absent")]
    assert stand(rows) == last
    assert stand(rows, assigned(("c1", "d1"))) == last
    alone = proposed(claims[0], ("c1", "d1", "learned", "absent"))
    assert len(stand(alone, assigned(("c1", "d1")))) == 2  # else nothing is claimed, and it waits for a second reader
    assert len(stand(alone, assigned(("c1", "d1"), why="audit"))) == 1
    scores = proposed(*[("c1", "d1", "learned", "absent")] * 2)
    assert len(stand(scores)) == len(stand(scores, assigned(("c1", "d1")))) == 1


def test_sure_is_what_is_claimed_of_this_text_in_these_words_assigned_or_not() -> None:
    rows = [
        proposed(("c1", "before", "small", "present")),
        proposed(("c1", "d1", "small", "present"), words=BEFORE),
        proposed(("c2", "d2", "small", "present")),
    ]
    sure_claims = standing_claims.sure(pl.concat(rows), CURRENT, NOW, 0.95)
    assert sure_claims.select("subject", "digest").rows() == [("c2", "d2")]
    assert standing_claims.sure(pl.concat(rows), CURRENT, NOW, 0.98).is_empty()
    older = proposed(("c2", "d2", "rules", "present"), version="rules-1")
    assert standing_claims.sure(older, CURRENT, NOW, 0.95).is_empty()  # it could become a label that nobody read


@pytest.mark.slow
def test_what_was_said_before_is_not_handed_out_and_not_forgotten(workspace, cli) -> None:
    """A text was redacted again: two people got it for words that are gone, and `present` was filled in."""
    fill(workspace, "no blood for me please", "no needles for me please")
    cli("propose", "-C", workspace.root)
    fill(workspace, "something cheerful")  # another text of c0
    cli("propose", "-C", workspace.root)
    state = review_state.gather(workspace)
    assert state.proposals.select("subject", "trait").rows() == [("c1", "needles")]
    assert state.ever.height == 2 and ("sensitivity", "c0", "gore") in review_state.found_units(state).rows()
    people = ("--reviewer", "ann", "--reviewer", "bo", "--adjudicator", "cy")
    output = cli("review", "push", *people, "--tool", "files", "-C", workspace.root, "--json").out
    assert json.loads(output)["new"]["proposed"] == 2  # of c1 alone

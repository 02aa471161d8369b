"""propose-score on the demo's gold and on labels, and its second questions without the evidence."""

import json
import re

import pytest

from saferec_builder.core import taxonomy as traits
from saferec_builder.demo import inputs
from saferec_builder.proposing import evaluation, pending, text_units as subjects
from saferec_builder.storage import tables, workspace as store
from tests.conftest import Ran
from tests.servers.llm_stub import Handler, Stub, completion
from tests.worlds.model_replies import Cli, answer, claim, fill, options, own_taxonomy


def test_quotes_that_overlap_are_cut_out_once() -> None:
    subject = subjects.Subject("sensitivity", "c", "d", (("seeker", "I hate blood so much"), ("recommender", "Alien")))
    spans = [{"turn": 0, "start": 2, "end": 12}, {"turn": 0, "start": 7, "end": 12}]  # hate blood, blood
    assert evaluation.without(subject, spans).turns == (("seeker", "I  so much"), ("recommender", "Alien"))


@pytest.fixture
def demo(demo_workspace: store.Workspace, cli: Cli) -> store.Workspace:
    path = demo_workspace.root / "talks.jsonl"
    path.write_text("\n".join(json.dumps(talk.row) for talk in inputs.written_conversations()), encoding="utf-8")
    assert cli("mine", "messages", path, "-C", demo_workspace.root).code == 0
    return demo_workspace


@pytest.mark.slow
def test_the_rules_are_scored_on_the_half_they_were_not_tuned_on(demo: store.Workspace, cli: Cli) -> None:
    cli("propose", "-C", demo.root)
    tables_before = {t.name: store.read(demo, t) for t in tables.TABLES.values()}
    result = cli("propose-score", "--gold", "demo", "--deletion", "--json", "-C", demo.root)
    assert result.code == 0, result.err
    score = result.json
    print(result.out)
    assert 100 < score["read"] < 160 and score["open"] == 0 and score["all"]["precision"] > 0.6
    assert score["deletion"]["fell"] > 0.9 and score["evidence"]["touches"] > 0.9
    assert sum(row["n"] for row in score["reliability"]) == score["all"]["claimed"]
    output = cli("propose-score", "--gold", "demo", "-C", demo.root).out
    assert "recall of implicit" in output and re.search(r"  gore +P ", output) and "ECE" in output
    assert all(store.read(demo, t).equals(tables_before[t.name]) for t in tables.TABLES.values())


@pytest.mark.slow
def test_so_is_learned_which_learns_their_claims_on_these_texts(demo: store.Workspace, cli: Cli) -> None:
    rows = store.read(demo, tables.CONVERSATIONS).select("conversation", "digest").iter_rows()
    readings = [("sensitivity", *row, "learned", "learned-1", demo.taxonomy.digest, []) for row in rows]
    store.append(demo, tables.READINGS, tables.READINGS.frame(readings))
    store.append(demo, tables.ASKED, pending.rows(demo.taxonomy))
    score = cli("propose-score", "--gold", "demo", "--proposer", "learned", "--json", "-C", demo.root).json
    assert 100 < score["read"] < 160


@pytest.mark.slow
def test_nothing_read_is_one_line(demo: store.Workspace, cli: Cli) -> None:
    for gold in ("labels", "demo", "tea"):
        result: Ran = cli("propose-score", "--gold", gold, "-C", demo.root)
        assert result.code == 1 and result.err.count("\n") == 1
    result = cli("propose-score", "--proposer", "rules,openai:a", "-C", demo.root)
    assert result.code == 1 and "one is scored at a time: rules, then a" in result.err


@pytest.mark.slow
def test_what_a_model_was_not_asked_about_it_has_not_missed(workspace: store.Workspace, cli: Cli, stub: Stub) -> None:
    """After the words of a definition changed, everything the model had found counted as missed."""
    fill(workspace, "no blood for me please", "no more blood")
    taxonomy = traits.EMBEDDED.read_text(encoding="utf-8")
    (workspace.root / "mine.toml").write_text(taxonomy)
    own_taxonomy(workspace)
    stub.usual = lambda handler: handler.reply(200, completion(answer(claim("gore", "blood"))))
    options(workspace, f'base_url = "{stub.url}"')
    common = ("--proposer", "openai:m", "-C", workspace.root)
    cli("propose", *common)
    rows = store.read(workspace, tables.PROPOSALS).select(*tables.UNIT, "digest", "verdict", "form", "spans")
    facts = {"method": "agreed", "reviews": [], "simulated": False}
    labels = [row | facts | {"label": row["subject"]} for row in rows.to_dicts()]
    store.append(workspace, tables.LABELS, tables.LABELS.frame(labels))
    score = cli("propose-score", *common, "--json").json
    assert score["all"]["recall"] == 1.0 and "who looked where something was proposed" in score["recall_is"]
    assert "recall (R, F, found) is of what people found" in cli("propose-score", *common).out
    (workspace.root / "mine.toml").write_text(taxonomy.replace(traits.load()["gore"].definition, "Blood."))
    rescored = cli("propose-score", *common, "--json").json
    assert (rescored["read"], rescored["open"], rescored["all"]["wanted"], rescored["traits"]) == (2, 0, 0, {})
    cli("propose", *common)
    assert cli("propose-score", *common, "--json").json["all"] == score["all"]


@pytest.mark.slow
def test_a_model_must_drop_its_claim_without_the_evidence(demo: store.Workspace, cli: Cli, stub: Stub) -> None:
    def model(handler: Handler) -> None:
        # claims animal_harm wherever a dog is: the text without the evidence has no dog, or another one
        score = re.search(r'"turn": (\d+), "role": "seeker", "text": "[^"\n]*?\b(dogs?)\b', handler.text)
        facts = {"trait": "animal_harm", "form": "implicit", "verdict": "present", "confidence": 70}
        evidence = [{"turn": int(score[1]), "quote": score[2]}] if score else []
        handler.reply(200, completion(answer(*[facts | {"evidence": evidence}] * bool(score))))

    stub.usual = model
    toml = demo.root / "saferec.toml"
    toml.write_text(toml.read_text() + f'\n[propose]\nbase_url = "{stub.url}"\n')
    assert cli("propose", "--proposer", "openai:m", "-C", demo.root).code == 0
    result = cli("propose-score", "--gold", "demo", "--proposer", "openai:m", "--deletion", "--json", "-C", demo.root)
    assert result.code == 0, result.err
    score = result.json
    assert score["read"] == 260
    assert score["deletion"]["answered"] == score["deletion"]["claims"] == score["all"]["right"]
    assert 0 < score["deletion"]["fell"] <= 1 and set(score["traits"]) >= {"animal_harm"}

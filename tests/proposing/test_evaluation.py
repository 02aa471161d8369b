"""propose-score on the demo's gold and on labels, and what it asks again without its evidence."""

import json
import re

import pytest

from saferec_builder.core import taxonomy as traits
from saferec_builder.demo import inputs
from saferec_builder.proposing import evaluation, text_units as subjects
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
    path.write_text("\n".join(json.dumps(made.row) for made in inputs.written_conversations()), encoding="utf-8")
    assert cli("mine", "messages", path, "-C", demo_workspace.root).code == 0
    return demo_workspace


@pytest.mark.slow
def test_the_rules_are_scored_on_the_half_they_were_not_tuned_on(demo: store.Workspace, cli: Cli) -> None:
    cli("propose", "-C", demo.root)
    before = {t.name: store.read(demo, t) for t in tables.TABLES.values()}
    ran = cli("propose-score", "--gold", "demo", "--deletion", "--json", "-C", demo.root)
    assert ran.code == 0, ran.err
    found = ran.json
    print(ran.out)
    assert 100 < found["read"] < 160 and found["open"] == 0 and found["all"]["precision"] > 0.6
    assert found["deletion"]["fell"] > 0.9 and found["evidence"]["touches"] > 0.9
    assert sum(row["n"] for row in found["reliability"]) == found["all"]["claimed"]
    told = cli("propose-score", "--gold", "demo", "-C", demo.root).out
    assert "recall of implicit" in told and re.search(r"  gore +P ", told) and "ECE" in told
    assert all(store.read(demo, t).equals(before[t.name]) for t in tables.TABLES.values())


def test_nothing_read_is_one_line(demo: store.Workspace, cli: Cli) -> None:
    for gold in ("labels", "demo", "tea"):
        ran: Ran = cli("propose-score", "--gold", gold, "-C", demo.root)
        assert ran.code == 1 and ran.err.count("\n") == 1
    ran = cli("propose-score", "--proposer", "rules,openai:a", "-C", demo.root)
    assert ran.code == 1 and "one is scored at a time: rules, then a" in ran.err


def test_what_a_model_was_not_asked_about_it_has_not_missed(workspace: store.Workspace, cli: Cli, stub: Stub) -> None:
    """After a definition had got clearer words, all that it had found counted as missed."""
    fill(workspace, "no blood for me please", "no more blood")
    whole = traits.EMBEDDED.read_text(encoding="utf-8")
    (workspace.root / "mine.toml").write_text(whole)
    own_taxonomy(workspace)
    stub.usual = lambda handler: handler.reply(200, completion(answer(claim("gore", "blood"))))
    options(workspace, f'base_url = "{stub.url}"')
    at = ("--proposer", "openai:m", "-C", workspace.root)
    cli("propose", *at)
    rows = store.read(workspace, tables.PROPOSALS).select(*tables.UNIT, "digest", "verdict", "form", "spans")
    same = {"method": "agreed", "reviews": [], "simulated": False}
    made = [row | same | {"label": row["subject"]} for row in rows.to_dicts()]
    store.append(workspace, tables.LABELS, tables.LABELS.frame(made))
    found = cli("propose-score", *at, "--json").json
    assert found["all"]["recall"] == 1.0 and "who looked where something was proposed" in found["recall_is"]
    assert "recall (R, F, found) is of what people found" in cli("propose-score", *at).out
    (workspace.root / "mine.toml").write_text(whole.replace(traits.load()["gore"].definition, "Blood."))
    again = cli("propose-score", *at, "--json").json
    assert (again["read"], again["open"], again["all"]["wanted"], again["traits"]) == (2, 0, 0, {})
    cli("propose", *at)
    assert cli("propose-score", *at, "--json").json["all"] == found["all"]


@pytest.mark.slow
def test_a_model_must_drop_its_claim_without_the_evidence(demo: store.Workspace, cli: Cli, stub: Stub) -> None:
    def model(handler: Handler) -> None:
        # claims animal_harm wherever a dog is: the text without its evidence has none, or another one
        found = re.search(r'"turn": (\d+), "role": "seeker", "text": "[^"\n]*?\b(dogs?)\b', handler.text)
        said = {"trait": "animal_harm", "form": "implicit", "verdict": "present", "confidence": 70}
        evidence = [{"turn": int(found[1]), "quote": found[2]}] if found else []
        handler.reply(200, completion(answer(*[said | {"evidence": evidence}] * bool(found))))

    stub.usual = model
    toml = demo.root / "saferec.toml"
    toml.write_text(toml.read_text() + f'\n[propose]\nbase_url = "{stub.url}"\n')
    assert cli("propose", "--proposer", "openai:m", "-C", demo.root).code == 0
    ran = cli("propose-score", "--gold", "demo", "--proposer", "openai:m", "--deletion", "--json", "-C", demo.root)
    assert ran.code == 0, ran.err
    found = ran.json
    assert (
        found["read"] == 260 and found["deletion"]["answered"] == found["deletion"]["claims"] == found["all"]["right"]
    )
    assert 0 < found["deletion"]["fell"] <= 1 and set(found["traits"]) >= {"animal_harm"}

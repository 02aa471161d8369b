"""How good `learned` is: worked out anew only where what it rests on is another."""

from saferec_builder.proposing import learned, learning_examples
from saferec_builder.proposing.run import propose
from saferec_builder.scoring import linear_text
from saferec_builder.storage import workspace as store
from tests.worlds.learned_world import few_messages, label, world
from tests.worlds.model_replies import fill


def test_whether_it_is_as_precise_is_worked_out_once_for_what_people_judged(
    workspace: store.Workspace, monkeypatch, caplog, tmp_path_factory
) -> None:
    few_messages(monkeypatch, tmp_path_factory.mktemp("messages"))
    texts, trained = world(workspace, 130), list[int]()
    fit = linear_text.cross_fit
    monkeypatch.setattr(linear_text, "cross_fit", lambda *a, **k: trained.append(1) or fit(*a, **k))
    monkeypatch.setattr(learned, "_precision", lambda *_: None)  # it claims nothing: not as precise as the rules
    propose(workspace, dry_run=True)  # writes nothing, so it is worked out again
    told = propose(workspace).counts.figures["of_learned"]
    assert str(told).startswith("proposes only where it is named") and len(trained) == 2
    assert caplog.messages == 2 * [
        "propose: learning from 113 texts, of which people have judged 111 ..."
    ]  # 19 are for tests
    fill(workspace, *texts, "Something without dogs, please.")  # one more that nobody judged
    assert propose(workspace).counts.figures["of_learned"] == told and len(trained) == 2
    kept = workspace.root / "tables" / "standing.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    kept.write_text("{")
    propose(workspace)
    label(workspace, texts[:1], ["absent"])  # somebody changes their mind
    propose(workspace)
    with monkeypatch.context() as another:  # other rules are other claims to be compared with
        another.setattr(learning_examples.rules, "VERSION", "rules-0")
        propose(workspace)
    assert len(trained) == 5

"""The precision of `learned` is computed again only if its inputs changed."""

import pytest

from saferec_builder.proposing import learned, learning_examples
from saferec_builder.proposing.run import propose
from saferec_builder.scoring import linear_text
from saferec_builder.storage import workspace as store
from tests.worlds.learned_world import few_messages, label, world
from tests.worlds.model_replies import fill


@pytest.mark.slow
def test_whether_it_is_as_precise_is_worked_out_once_for_what_people_judged(
    workspace: store.Workspace, monkeypatch, caplog, tmp_path_factory
) -> None:
    few_messages(monkeypatch, tmp_path_factory.mktemp("messages"))
    texts, trained = world(workspace, 130), list[int]()
    fit = linear_text.cross_fit
    monkeypatch.setattr(linear_text, "cross_fit", lambda *a, **k: trained.append(1) or fit(*a, **k))
    monkeypatch.setattr(learned, "_precision", lambda *_: None)  # without one it claims nothing
    propose(workspace, dry_run=True)  # writes nothing, so it is computed again
    figure = propose(workspace).counts.figures["of_learned"]
    assert str(figure).startswith("proposes only where it is named") and len(trained) == 2
    told = "propose: learning from 113 texts, of which people have judged 111 ..."  # 19 are for tests
    why = "propose: learned is trained once for these labels, to compare its precision with the rules'"
    assert caplog.messages == [why, told] * 2  # nothing said why it was trained, only to propose nothing
    assert str(figure).endswith("gold and the test split do not count)")
    fill(workspace, *texts, "Something without dogs, please.")  # another unjudged text
    assert propose(workspace).counts.figures["of_learned"] == figure and len(trained) == 2
    path = workspace.root / "tables" / "standing.json"
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("{")
    propose(workspace)
    label(workspace, texts[:1], ["absent"])  # somebody changes their mind
    propose(workspace)
    with monkeypatch.context() as patch:  # other rules make other claims to compare with
        patch.setattr(learning_examples.rules, "VERSION", "rules-0")
        propose(workspace)
    assert len(trained) == 5

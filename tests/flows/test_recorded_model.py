"""`propose` with recorded replies of a language model: what it finds beyond the rules, against the demo's gold."""

from saferec_builder.storage import workspace as store
from tests import rules_score
from tests.worlds import recorded


def test_a_model_finds_what_people_imply(workspace: store.Workspace) -> None:
    gold = rules_score.demo("report")
    rows = recorded.read_again(workspace, gold.frame).to_dicts()
    # 65 claims, all right: 19 explicit and 46 implied of the 81; the rules find 6 of the 58 implied ones
    explicit, implicit = (rules_score.rates(gold, rows, form) for form in ("explicit", "implicit"))
    assert (explicit.right, explicit.found, explicit.hit, explicit.gold) == (19, 19, 19, 23)
    assert (implicit.right, implicit.found, implicit.hit, implicit.gold) == (46, 46, 46, 58)
    assert rules_score.flagged(gold, rows, "lookalike")[0] == 0
    inside, right = rules_score.evidence(gold, rows)
    assert (inside, right) == (63, 65)

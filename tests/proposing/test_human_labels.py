"""Which labels count as the truth about a claim."""

from saferec_builder.proposing import corpus, human_labels as ground_truth
from saferec_builder.storage import tables, workspace as store
from tests.worlds.model_replies import fill


def test_a_claim_that_became_a_label_unread_bears_nobody_out(workspace: store.Workspace) -> None:
    fill(workspace, "no blood", "blood?")
    row = {"kind": "sensitivity", "trait": "gore", "verdict": "present", "form": "explicit", "spans": [], "reviews": []}
    rows = [
        row | {"label": name, "subject": name, "digest": tables.digest(text), "method": method, "simulated": False}
        for name, text, method in (("c0", "no blood", "agreed"), ("c1", "blood?", "auto"))
    ]
    store.append(workspace, tables.LABELS, tables.LABELS.frame(rows))
    truth = ground_truth.labels(corpus.load(workspace))
    assert (truth.of(("c0", "gore")), truth.of(("c1", "gore"))) == (True, None)

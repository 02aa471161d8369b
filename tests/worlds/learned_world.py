"""Conversations about a dog that no rule matches, people's labels on them, and few messages to learn from."""

from pathlib import Path

import pytest

from saferec_builder.proposing import learning_examples
from saferec_builder.storage import tables, workspace as store
from tests.worlds.model_replies import fill

LOST = "Hi! We lost little Bruno at the vet, so something calm."
FED = "Hi! We fed little Bruno at the park, so something calm."


def few_messages(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Replaces the thousands of messages by two."""
    (folder / "few.toml").write_text('[trait.gore]\nsays = ["No blood please"]\nnot = ["A calm film please"]\n')
    monkeypatch.setattr(learning_examples, "MESSAGES", folder)


def world(ws: store.Workspace, labelled: int, more: int = 0) -> list[str]:
    """Every second conversation is about a loss; the first `labelled` are labelled."""
    texts = [f"{(LOST, FED)[n % 2]} Number {n}" for n in range(labelled + more)]
    fill(ws, *texts)
    label(ws, texts[:labelled], [("present", "absent")[n % 2] for n in range(labelled)])
    return texts


def label(
    ws: store.Workspace, texts: list[str], verdicts: list[str], first: int = 0, trait: str = "animal_harm"
) -> None:
    """Labels the conversations c0, c1, ... from `first` on for `trait`."""
    fixed = {"kind": "sensitivity", "trait": trait, "spans": [], "reviews": [], "simulated": False}
    rows = [
        fixed
        | {"label": f"l{n}-{trait}-{verdict}", "subject": f"c{n}", "digest": tables.digest(text), "verdict": verdict}
        | {"method": "agreed", "form": "implicit" if verdict == "present" else None}
        for n, (text, verdict) in enumerate(zip(texts, verdicts, strict=True), first)
    ]
    store.append(ws, tables.LABELS, tables.LABELS.frame(rows))

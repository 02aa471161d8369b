"""The trainer of models with item tokens: the same loss and gradients as TRL's, from the answers' places alone."""

from pathlib import Path
from typing import Any

import pytest

from tests import small_release
from training import generate, settings, sft, tiny
from training.data import open_release, rows

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.training


def test_the_loss_of_the_answers_places_is_trls_loss(tmp_path: Path) -> None:
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    release = open_release(small_release.write(tmp_path / "release"))
    tiny.make(tmp_path / "model", release, rows(release.folder, "grpo", "train"))
    table = rows(release.folder, "sft", "train")

    def loss(kind: Any, counted: Any, answers: bool) -> tuple[float, Any]:
        speaker = generate.load(str(tmp_path / "model"))
        examples = Dataset.from_list(sft.examples(speaker, table))
        args = settings.trl(
            SFTConfig, {"bf16": False, "report_to": "none", "gradient_checkpointing": False}, tmp_path, 0
        )
        trainer = kind(speaker.model, args=args, train_dataset=examples, processing_class=speaker.tokenizer)
        batch = trainer.data_collator(list(trainer.train_dataset))
        # prompts of several lengths: the answers stand at different places
        assert len({tuple(row.nonzero().flatten().tolist()) for row in batch["labels"] != -100}) > 1
        found = trainer.compute_loss(trainer.model, dict(batch), num_items_in_batch=counted)
        found.backward()
        return found.item(), speaker.model.get_input_embeddings().weight.grad

    for how in ((None, True), (torch.tensor(40), True), (None, False)):
        (ours, slope), (theirs, wanted) = loss(sft._listing(), *how), loss(SFTTrainer, *how)
        assert ours == pytest.approx(theirs, rel=1e-5)
        assert torch.allclose(slope, wanted, atol=1e-6)

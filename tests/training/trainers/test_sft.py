"""The SFT trainer of lists: the same loss and gradients as TRL's, computed at the answers' positions alone."""

from pathlib import Path
from typing import Any

import pytest
import torch

from saferec_builder.core.errors import TrainingError
from tests.worlds import chat_model
from training import settings
from training.data import rows
from training.decoding import generate
from training.trainers import sft

pytestmark = pytest.mark.training


def test_the_loss_of_the_answers_places_is_trls_loss(world: Path, tmp_path: Path) -> None:
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    table = rows(world / "release", "sft", "train")

    def loss(kind: Any, counted: Any, answers: bool) -> tuple[float, Any]:
        policy = generate.load(str(world / "start"))
        examples = Dataset.from_list(sft.examples(policy, table))
        plain = {"bf16": False, "report_to": "none", "gradient_checkpointing": False}
        args = settings.trl_arguments(SFTConfig, plain, tmp_path, 0)
        trainer = kind(policy.model, args=args, train_dataset=examples, processing_class=policy.tokenizer)
        batch = trainer.data_collator(list(trainer.train_dataset))
        # prompts of several lengths: the answers stand at different positions
        assert len({tuple(row.nonzero().flatten().tolist()) for row in batch["labels"] != -100}) > 1
        value = trainer.compute_loss(trainer.model, dict(batch), num_items_in_batch=counted)
        value.backward()
        return value.item(), policy.model.get_input_embeddings().weight.grad

    for how in ((None, True), (torch.tensor(40), True), (None, False)):
        (ours, slope), (theirs, expected) = loss(sft.ListTrainer, *how), loss(SFTTrainer, *how)
        assert ours == pytest.approx(theirs, rel=1e-5)
        assert torch.allclose(slope, expected, atol=1e-6)


def test_rows_that_are_cut_are_counted(world: Path, tmp_path: Path, capsys) -> None:
    table = rows(world / "release", "sft", "train")
    chat = chat_model.write(tmp_path, [row["prompt"][0]["content"] for row in table])
    for model in (world / "start", chat):
        policy = generate.load(str(model))
        taught = sft.examples(policy, table)
        sizes = generate.prompt_tokens(policy.tokenizer, table)
        short, long = min(map(len, sizes)), max(map(len, sizes))
        assert short < long
        for max_length in (None, 1000):
            assert sft.too_long(taught, max_length, True) == {"cut": 0, "left_out": 0}
        # after the shortest prompt one token of its list remains, after the longest none
        lost = sum(len(prompt) > short for prompt in sizes)
        assert sft.too_long(taught, short + 1, True) == {"cut": 4, "left_out": lost} and 0 < lost < 4
        line = f"  4 of 4 rows are cut to max_length = {short + 1}; {lost} of them teach nothing\n"
        assert capsys.readouterr().out == line
        assert sft.too_long(taught, short + 1, False)["left_out"] == 0  # cut at their beginning
        assert capsys.readouterr().out
        with pytest.raises(TrainingError, match="no request leaves room for its list"):
            sft.too_long(taught, short, True)

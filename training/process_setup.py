"""Sets up the training process: one process a GPU, silent libraries, one thread for the embedded model."""

import os
from pathlib import Path

import torch
from transformers.utils import logging

from saferec_builder.core.errors import TrainingError
from training.decoding.constrained import FILE


def refuse_threads() -> None:
    """One process with several GPUs: the trainer would split each batch over all of them, and our losses cannot."""
    many = torch.cuda.device_count()
    if many > 1 and int(os.environ.get("WORLD_SIZE", "1")) == 1:
        raise TrainingError(
            f"{many} GPUs and one process: start with `torchrun --nproc_per_node {many} -m training.safecrs ...`,"
            " or take one with CUDA_VISIBLE_DEVICES=0"
        )


def calm(model: str | None) -> None:
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    if model and (model == "tiny" or (Path(model) / FILE).is_file()) and not torch.cuda.is_available():
        torch.set_num_threads(1)  # so small a model loses by a second one

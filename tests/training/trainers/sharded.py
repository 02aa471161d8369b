"""A model that FSDP2 shards over two processes answers and is saved; test_fit.py runs this script with torchrun."""

import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as processes
from torch.distributed.fsdp import fully_shard

from training.models import tiny
from training.trainers import best_checkpoint as best


def main(folder: Path) -> None:
    processes.init_process_group("gloo")
    torch.manual_seed(0)
    model, prompt = tiny.model(40, 0, 1), torch.tensor([[5, 6, 7]])
    if processes.get_rank() == 0:
        model.save_pretrained(folder / "alone")

    def answer(one: Any) -> Any:
        return one.generate(prompt, max_new_tokens=4, do_sample=False)

    alone = answer(model)
    for layer in model.model.layers:
        fully_shard(layer)
    fully_shard(model)
    keeper = best.Keeper(folder / "kept", lambda one: {"score": float((answer(one) == alone).all())}, 1)
    keeper.check(1, model)
    processes.barrier()
    processes.destroy_process_group()
    sys.stdout.flush()
    # Python's own exit may meet a thread of gloo that still frees a tensor, and abort after all is done
    # (https://github.com/pytorch/pytorch/pull/179291): in a run on CI one of the two processes did
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

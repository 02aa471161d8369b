"""Sets up the training process and an optional second one: quiet libraries, one thread for the embedded model."""

import io
import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, redirect_stdout
from copy import deepcopy
from functools import partial
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging

from saferec_builder.core.errors import TrainingError
from saferec_builder.core.processes import end_with_parent, ignoring_interrupts
from training.decoding.constrained import FILE

Later = Callable[..., Callable[[], Any]]  # (work, its arguments) -> a function that waits for the result


def refuse_threads() -> None:
    """Raises TrainingError for one process with several GPUs: the trainer would split batches, our losses cannot."""
    gpus = torch.cuda.device_count()
    if gpus > 1 and int(os.environ.get("WORLD_SIZE", "1")) == 1:
        raise TrainingError(
            f"{gpus} GPUs and one process: start with `torchrun --nproc_per_node {gpus} -m training.safecrs ...`,"
            " or take one with CUDA_VISIBLE_DEVICES=0"
        )


def quiet_libraries(model: str | None) -> None:
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    # TRL 1.16 uses a deprecated name of transformers 5.23: users can do nothing about it
    warnings.filterwarnings("ignore", ".is_gradient_checkpointing. is deprecated", FutureWarning)
    if model and (model == "tiny" or (Path(model) / FILE).is_file()) and not torch.cuda.is_available():
        torch.set_num_threads(1)  # a model this small is slower with more threads


@contextmanager
def second_process(processes: int, model: str) -> Iterator[Later]:
    """Yields a function that schedules work: for when its result is asked for (1 process), or at once in a second (2),
    which ends with this block, and with this process. What it prints is shown with the result."""
    if processes == 1:
        yield partial
        return
    existing = active_children()
    with ProcessPoolExecutor(1, get_context("spawn"), _set_up_second, (model,)) as pool:

        def later(work: Callable[..., Any], *args: object) -> Callable[[], Any]:
            with ignoring_interrupts():
                future = pool.submit(_with_output, work, deepcopy(args))  # copied now: the pool pickles them later

            def result() -> Any:
                value, output = future.result()
                print(output, end="", flush=True)
                return value

            return result

        try:
            yield later
        except BaseException as fault:
            for child in active_children():
                if child not in existing:
                    child.terminate()
            if isinstance(fault, BrokenProcessPool):
                raise TrainingError(
                    "the second process was ended from outside, perhaps for want of memory: run it again with"
                    " --processes 1; it goes on with what is missing"
                ) from None
            raise


def _set_up_second(model: str) -> None:
    end_with_parent()
    quiet_libraries(model)


def _with_output(work: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, str]:
    with redirect_stdout(io.StringIO()) as output:
        return work(*args), output.getvalue()

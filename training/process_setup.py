"""Sets up the training process, and a second one beside it: silent libraries, one thread for the embedded model."""

import io
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, redirect_stdout
from copy import deepcopy
from functools import partial
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from typing import Any, TypeVar

import torch
from transformers.utils import logging

from saferec_builder.core.errors import TrainingError
from training.decoding.constrained import FILE

Result = TypeVar("Result")
Later = Callable[..., Callable[[], Any]]  # (work, what it is given) -> what asks for its result


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
    # TRL 1.16 asks transformers 5.23 by an older name: nothing that whoever trains could do about it
    warnings.filterwarnings("ignore", ".is_gradient_checkpointing. is deprecated", FutureWarning)
    if model and (model == "tiny" or (Path(model) / FILE).is_file()) and not torch.cuda.is_available():
        torch.set_num_threads(1)  # so small a model loses by a second one


@contextmanager
def beside(processes: int, model: str) -> Iterator[Later]:
    """What does work later: where it is asked for with one process, from now on in a second one with two.

    What the second prints is shown when it is asked. It ends with this block, and with this process.
    """
    if processes == 1:
        yield partial
        return
    there = active_children()
    with ProcessPoolExecutor(1, get_context("spawn"), _second, (model,)) as pool:

        def later(work: Callable[..., Result], *given: object) -> Callable[[], Result]:
            answer = signal.signal(signal.SIGINT, signal.SIG_IGN)  # which the second inherits: Ctrl-C is for us
            done = pool.submit(_heard, work, deepcopy(given))  # as they are now: the pool sends them a little later
            signal.signal(signal.SIGINT, answer)

            def result() -> Result:
                answered: tuple[Result, str] = done.result()
                print(answered[1], end="", flush=True)
                return answered[0]

            return result

        try:
            yield later
        except BaseException as fault:
            for child in active_children():
                if child not in there:
                    child.terminate()
            if isinstance(fault, BrokenProcessPool):
                raise TrainingError(
                    "the second process was ended from outside, perhaps for want of memory: run it again with"
                    " --processes 1; it goes on with what is missing"
                ) from None
            raise


def _second(model: str) -> None:
    """Whoever kills the first process ends the second too."""

    def follow() -> None:
        if first := parent_process():
            first.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
    calm(model)


def _heard(work: Callable[..., Any], given: tuple[Any, ...]) -> tuple[Any, str]:
    """The result of what `later` was given, and what it printed."""
    with redirect_stdout(io.StringIO()) as said:
        return work(*given), said.getvalue()

"""Texts of a batch, the answers of a double of the Batch endpoints, and a run that is killed at a step."""

from collections.abc import Callable

import pytest

from saferec_builder.llm import batch as stage
from tests.conftest import Ran
from tests.servers.llm_stub import completion
from tests.worlds.model_replies import answer, claim

TEXTS = ("no blood for me please", "something funny", "blood makes me faint", "blood again", "a ship")


class Killed(BaseException):
    """Stands for SIGKILL at one place."""


def model(text: str) -> str | None:
    if "expires" in text:
        return None
    return completion("no idea" if "odd" in text else answer(*[claim("gore", "blood")] * ("blood" in text)))


def killed_at(step: str, ask: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is killed when it is about to take this step."""

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(stage._Batches, step, die)
        ask()

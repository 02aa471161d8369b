"""A release as a task of Inspect, which whoever has inspect-ai installed can run (docs/how-to/harness.md).

Answers are asked for as `evaluate --server` asks, and judged by its rule: scoring.py.
"""

from math import nan

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageUser, GenerateConfig
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, metric, scorer
from inspect_ai.solver import TaskState

from training.answers_from_server import DEFAULTS, messages
from training.data import Release, Row, open_release, rows, with_prompt
from training.harness import scoring
from training.release_from_hub import folder

ROLES = {"system": ChatMessageSystem, "user": ChatMessageUser, "assistant": ChatMessageAssistant}


@task  # type: ignore[untyped-decorator]
def saferec(release: str, split: str = "test") -> Task:
    """The requests of a split; release: a folder, or NAMESPACE/NAME@VERSION on the Hub."""
    home = open_release(folder(release))
    table = with_prompt(rows(home.folder, "grpo", split), home)
    samples = [
        Sample(id=row["conversation"], input=[ROLES[m["role"]](content=m["content"]) for m in messages(row, home.k)])
        for row in table
    ]
    return Task(samples, scorer=as_evaluate(home, table), config=GenerateConfig(**DEFAULTS))


@metric  # type: ignore[untyped-decorator]
def users_mean() -> Metric:
    """As scoring.users_mean."""

    def mean(scores: list[SampleScore]) -> float:
        return scoring.users_mean([score.score.as_float() for score in scores])

    return mean


@scorer(metrics={"*": [users_mean()]})  # type: ignore[untyped-decorator]
def as_evaluate(release: Release, table: list[Row]) -> Scorer:
    by_id = {row["conversation"]: row for row in table}

    async def score(state: TaskState, target: Target) -> Score:
        text = state.output.completion
        found = scoring.score_one(by_id[str(state.sample_id)], text, release)
        return Score(value={name: nan if value is None else value for name, value in found.items()}, answer=text)

    return score

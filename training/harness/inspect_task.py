"""A release as a task of Inspect; needs inspect-ai (docs/how-to/harness.md).

The prompt and the scores (scoring.py) are those of `evaluate --server`.
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

ROLES = {"system": ChatMessageSystem, "user": ChatMessageUser, "assistant": ChatMessageAssistant}


@task  # type: ignore[untyped-decorator]
def saferec(release: str, split: str = "test") -> Task:
    """Returns a task of the requests of a split; release: a folder, or NAMESPACE/NAME@VERSION on the Hub."""
    opened = open_release(release)
    table = with_prompt(rows(opened.folder, "grpo", split), opened)
    samples = [
        Sample(id=row["conversation"], input=[ROLES[m["role"]](content=m["content"]) for m in messages(row, opened.k)])
        for row in table
    ]
    return Task(samples, scorer=as_evaluate(opened, table), config=GenerateConfig(**DEFAULTS))


@metric  # type: ignore[untyped-decorator]
def users_mean() -> Metric:
    def mean(scores: list[SampleScore]) -> float:
        return scoring.users_mean([score.score.as_float() for score in scores])

    return mean


@scorer(metrics={"*": [users_mean()]})  # type: ignore[untyped-decorator]
def as_evaluate(release: Release, table: list[Row]) -> Scorer:
    by_id = {row["conversation"]: row for row in table}

    async def score(state: TaskState, target: Target) -> Score:
        text = state.output.completion
        scores = scoring.score_one(by_id[str(state.sample_id)], text, release)
        return Score(value={name: nan if value is None else value for name, value in scores.items()}, answer=text)

    return score

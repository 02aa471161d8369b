"""A release as a task of lm-evaluation-harness; needs lm-eval (docs/how-to/harness.md).

The prompt and the scores (scoring.py) are those of `evaluate --server`. saferec.yaml names the class.
"""

from collections.abc import Callable, Mapping, Sequence
from math import nan
from typing import Any

from datasets import Dataset
from lm_eval.api.task import ConfigurableTask

from saferec_builder.core.errors import TrainingError
from training.answers_from_server import ASKED, DEFAULTS, RequestOptions, messages
from training.data import open_release, rows, with_prompt
from training.harness.scoring import score_one, users_mean

OURS = {
    "output_type": "generate_until",
    "test_split": "test",
    "doc_to_text": "",
    "doc_to_target": "",
    "metric_list": [],
    # empty `until`: otherwise answers are cut at a blank line
    "generation_kwargs": {"until": [], "do_sample": False, **DEFAULTS},
}


class SafeRec(ConfigurableTask):  # type: ignore[misc]
    """The requests of the test split; --metadata names the release: a folder, or NAMESPACE/NAME@VERSION on the Hub."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        name = (config.get("metadata") or {}).get("release")
        if not isinstance(name, str):
            raise TrainingError("""saferec: which release? expected --metadata '{"release": "releases/1.0.0"}'""")
        self.release = open_release(name)
        table = with_prompt(rows(self.release.folder, "grpo", "test"), self.release)
        self.table = {row["conversation"]: row for row in table}
        super().__init__(config={**OURS, **{key: value for key, value in config.items() if key != "class"}})

    def download(self, dataset_kwargs: object = None, **more: object) -> None:
        self.dataset = {"test": Dataset.from_list([{"id": name} for name in self.table])}

    def fewshot_context(
        self, doc: Mapping[str, str], num_fewshot: int, system_instruction: str | None = None, **more: Any
    ) -> Any:
        template: Callable[..., Any] | None = more.get("chat_template")
        if not more.get("apply_chat_template") or template is None or num_fewshot:
            raise TrainingError("saferec: requests have turns: expected --apply_chat_template, and no --num_fewshot")
        how = RequestOptions(system_instruction or ASKED)
        return template(messages(self.table[doc["id"]], self.release.k, how))

    def process_results(self, doc: Mapping[str, str], results: Sequence[str | None]) -> dict[str, float]:
        scores = score_one(self.table[doc["id"]], results[0] or "", self.release)
        self.metrics = tuple(scores)
        return {name: nan if value is None else value for name, value in scores.items()}

    def aggregation(self) -> dict[str, Callable[[Sequence[float]], float]]:
        return dict.fromkeys(self.metrics, users_mean)

    def higher_is_better(self) -> dict[str, bool]:
        return {}

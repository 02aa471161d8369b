"""Runs the task of a release in Inspect and in lm-eval, and `evaluate`, over the models of a loopback server.

python harness_main.py JSON, with {"release", "url", "models", "predictions", "entry"}, in an environment with our wheel
and what install.py installed. Writes scores/, and found.json: both harnesses' values of each user, and their means.
"""

import json
import os
import socket
import sys
from importlib.resources import files
from pathlib import Path

given = json.loads(sys.argv[1])
connect = socket.socket.connect


def at_home(self, address):
    assert self.family == socket.AF_UNIX or address[0] == "127.0.0.1", f"a look at the network: {address}"
    return connect(self, address)


socket.socket.connect = at_home
os.environ |= {"OURS_BASE_URL": given["url"], "OURS_API_KEY": "none", "OPENAI_API_KEY": "none"}


def number(value):
    return None if value is None or value != value else value


def inspect_rows():
    from inspect_ai import eval

    models = [f"openai-api/ours/{name}" for name in given["models"]]
    task = {"release": given["release"]}
    logs = eval("training/saferec", task_args=task, model=models, display="none", log_dir="logs")
    assert [log.status for log in logs] == ["success"] * len(models), logs[0].error
    rows, means = {}, {}
    for log in logs:
        name = log.eval.model.rpartition("/")[2]
        scores = {sample.id: sample.scores["as_evaluate"].value for sample in log.samples}
        rows[name] = {user: {metric: number(value) for metric, value in row.items()} for user, row in scores.items()}
        means[name] = {score.name: number(next(iter(score.metrics.values())).value) for score in log.results.scores}
    return {"inspect": rows, "inspect means": means}


def lm_eval_rows():
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    rows, means = {}, {}
    tasks = TaskManager(
        include_path=str(files("training.harness")), include_defaults=False, metadata={"release": given["release"]}
    )
    for name in given["models"]:
        output = simple_evaluate(
            model="local-chat-completions",
            model_args={"model": name, "base_url": f"{given['url']}/chat/completions", "max_retries": 1},
            tasks=["saferec"],
            task_manager=tasks,
            apply_chat_template=True,
            log_samples=True,
        )
        samples = output["samples"]["saferec"]
        rows[name] = {row["doc"]["id"]: {metric: number(row[metric]) for metric in row["metrics"]} for row in samples}
        overall = {metric.removesuffix(",none"): value for metric, value in output["results"]["saferec"].items()}
        means[name] = {metric: number(overall[metric]) for metric in samples[0]["metrics"]}
    return {"lm-eval": rows, "lm-eval means": means}


def main():
    from inspect_evals.metadata import ExternalEvalMetadata

    import training
    from training.evaluation.evaluate import evaluate

    evaluate(given["release"], given["predictions"], "scores")
    report = {"from": training.__file__, **inspect_rows(), **lm_eval_rows()}
    report["entry"] = ExternalEvalMetadata.model_validate(given["entry"]).id
    Path("found.json").write_text(json.dumps(report))


main()

"""What each command of training/safecrs.py does; torch and its relatives are loaded where a model is needed here."""

import argparse
import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from saferec_builder.core.errors import TrainingError
from training import answers_from_server as server, data, memory, settings
from training.evaluation import evaluate
from training.release_from_hub import folder
from training.run_folders import Run, bar, is_first_process


def train(given: argparse.Namespace) -> None:
    """One stage: Safe-SFT, or Safe-GDPO from a model."""
    shared = _run(given)
    from training import pipeline

    found = settings.read(given.config, [*given.changes, *_flags(given)], given.verb)
    stage = pipeline.train_sft if given.verb == "sft" else pipeline.train_gdpo
    home = stage(shared, given.output.resolve().name, _model(given), found)
    if is_first_process():
        judge = f"python -m training.safecrs evaluate --release {given.release} --model {given.output} --output DIR"
        print(f"model: {home}; its figures on the test split: {judge}")


def _flags(given: argparse.Namespace, names: Sequence[str] = ("mode", "credit", "items")) -> list[str]:
    """The flags that are settings, as --set would say them."""
    return [f"saferec.{name}={value}" for name in names if (value := getattr(given, name, None))]


def run(given: argparse.Namespace) -> None:
    """All four models, and the report."""
    lists = {"sft_raw": "sft_raw", "sft": "sft", "student": "guard"}  # stage -> the rows that it learns
    files = {name: getattr(given, name) or given.config or name for name in ("sft_raw", "sft", "gdpo", "student")}
    changes: dict[str, list[str]] = {name: [] for name in files}
    for change in given.changes:
        place, dot, rest = change.partition(".")
        if not dot or place not in (*files, "both", "all"):
            raise TrainingError(
                f"--set {change}: expected it after {', '.join(files)}, both or all, as in sft.learning_rate=1e-3"
            )
        for name in {"both": settings.SFTS, "all": tuple(files)}.get(place, (place,)):
            changes[name].append(rest)
    for name in files:
        changes[name] += _flags(given, ("items",))
    changes["gdpo"] += _flags(given)
    each = {name: settings.read(files[name], changes[name], name) for name in files}
    found = list(each.values())
    for name, wanted in lists.items():  # what our own configs say, and another may leave out
        if (rows := each[name]["saferec"]["rows"]) != wanted:
            raise TrainingError(
                f"{files[name]}: {name} would learn the rows {rows}: expected `rows: {wanted}` under saferec"
            )
    for name in ("num_train_epochs", "max_steps"):
        if found[0].get(name) != found[1].get(name):
            raise TrainingError(f"sft_raw and sft have different {name}: a comparison wants them equal")
    for name, values in (
        ("model_init_kwargs", [one.get("model_init_kwargs") for one in found]),
        ("saferec.chat_template_kwargs", [one["saferec"]["chat_template_kwargs"] for one in found]),
    ):
        if any(value != values[0] for value in values):
            raise TrainingError(f"the stages have different {name}: expected it after all, as in all.{name}=...")
    if given.processes > 1 and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise TrainingError("--processes 2: several processes train together already: expected 1")
    shared = _run(given)
    from training import pipeline

    pipeline.whole(shared, _model(given), *found, processes=given.processes)


def judge(given: argparse.Namespace) -> None:
    """The figures of a model here, of one behind a server, or of answers in files."""
    if (given.model is None) == (given.predictions is None):
        raise TrainingError("evaluate: expected either --model or --predictions")
    if given.only and not given.predictions:
        raise TrainingError("evaluate: --only is about --predictions: leave it out")
    if given.server and given.model is None:
        raise TrainingError("evaluate: --server answers as --model NAME: expected it instead of --predictions")
    if given.predictions or given.server:
        if given.items or given.config != "sft" or (given.changes and not given.server):
            raise TrainingError("evaluate: --config, --set and --items are about a --model here: leave them out")
        home, compat = folder(given.release), given.compat is not None
        files = given.predictions or [_from_server(given, home)]
        only = {str(row.get("id")) for _, row in data.jsonl(given.only)} if given.only else None
        evaluate.evaluate(home, files, given.output, gold=given.gold, compat=compat, only=only)
        return
    if given.model == "tiny":
        raise TrainingError("evaluate: `tiny` is what a training starts from: expected the folder of a trained model")
    found = settings.read(given.config, [*given.changes, *_flags(given)])
    shared = _run(given)
    from training import comparison

    comparison.report(shared, {"model": given.model}, None, found, given.compat is not None)


def _from_server(given: argparse.Namespace, home: Path) -> Path:
    """The predictions file of a model behind a server."""
    asked = server.asking(given.changes)
    release = data.open_release(home)
    table = data.with_prompt(data.rows(home, "grpo", "test"), release)
    server.consented(given.server, len(table), given.allow_remote)
    name = "".join(c if c.isalnum() or c in "-._@" else "-" for c in f"{given.model}@{urlsplit(given.server).netloc}")
    # what the letters above no longer tell apart, and what is asked: another release may ask otherwise under one id
    requests = [[row["conversation"], server.messages(row, release.k, asked)] for row in table]
    mark = settings.key(given.server, given.model, requests, asked.body)[:6]
    path: Path = given.output / f"{name}-{mark}.jsonl"
    server.ask(given.server, given.model, table, release.k, path, how=asked, progress=bar(name, "answer"))
    return path


def _run(given: argparse.Namespace) -> Run:
    """What the stages share; the packages that training needs are looked for first."""
    missing = [name for name in ("torch", "transformers", "trl", "datasets", "peft") if find_spec(name) is None]
    if missing:
        raise TrainingError(f"training needs {missing[0]}: pip install 'saferec-builder[train]'")
    from training import process_setup as machine

    if given.verb != "evaluate":
        machine.refuse_threads()
    release = data.open_release(folder(given.release))
    gold = data.read_gold(given.gold, release) if getattr(given, "gold", None) else None
    machine.calm(given.model)
    output = given.output if given.verb in ("run", "evaluate") else given.output.resolve().parent
    return Run(release, output, given.seed, gold)


def _model(given: argparse.Namespace) -> str:
    if given.model is None:
        raise TrainingError(f"{given.verb}: --model is missing: expected tiny, a folder or a name")
    return str(given.model)


def plan(given: argparse.Namespace) -> None:
    """What a recipe would need of a GPU, by formula."""
    facts = memory.facts(given.model) if given.model else settings.file(given.config)[1].get("shape")
    if not facts:
        raise TrainingError(f"{given.config}: no shape: expected one in the recipe, or --model")
    of, changes = memory.shape(facts), given.changes
    if strange := [change for change in changes if change.partition("=")[0].strip() not in memory.READ]:
        raise TrainingError(
            f"--set {strange[0]}: the plan does not depend on it: expected one of {', '.join(memory.READ)}"
        )
    found = {
        stage: memory.plan(stage, settings.read(given.config, changes, stage), of, given.prompt)
        for stage in ("sft", "gdpo")
    }
    print("GB".ljust(14) + "".join(stage.rjust(8) for stage in found))
    for part in found["sft"]:
        print(part.ljust(14) + "".join(f"{sizes[part]:8.2f}" for sizes in found.values()))


VERBS = {"sft": train, "gdpo": train, "run": run, "evaluate": judge, "memory": plan}

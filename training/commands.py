"""What each command of training/safecrs.py does; torch and its relatives are loaded where a model is needed here."""

import argparse
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from saferec_builder.core.errors import TrainingError
from training import answers_from_server as server, data, settings
from training.evaluation import evaluate
from training.release_from_hub import folder
from training.run_folders import Run


def train(given: argparse.Namespace) -> None:
    """One stage: Safe-SFT, or Safe-GDPO from a model."""
    shared = _run(given)
    from training import pipeline

    found = settings.read(given.config, [*given.changes, *_flags(given)])
    stage = pipeline.train_sft if given.verb == "sft" else pipeline.train_gdpo
    stage(shared, given.output.resolve().name, pipeline.start(shared, _model(given), found), found)


def _flags(given: argparse.Namespace, names: Sequence[str] = ("mode", "credit", "items")) -> list[str]:
    """The flags that are settings, as --set would say them."""
    return [f"saferec.{name}={value}" for name in names if (value := getattr(given, name, None))]


def run(given: argparse.Namespace) -> None:
    """All three models, and the report."""
    files = {"sft_raw": given.sft_raw, "sft": given.sft, "gdpo": given.gdpo}
    changes: dict[str, list[str]] = {name: [] for name in files}
    for change in given.changes:
        place, dot, rest = change.partition(".")
        if not dot or place not in (*files, "both"):
            raise TrainingError(
                f"--set {change}: expected it after {', '.join(files)} or both, as in sft.learning_rate=1e-3"
            )
        for name in ("sft_raw", "sft") if place == "both" else (place,):
            changes[name].append(rest)
    for name in files:
        changes[name] += _flags(given, ("items",))
    changes["gdpo"] += _flags(given)
    found = [settings.read(files[name], changes[name]) for name in files]
    for name, settled in zip(("sft_raw", "sft"), found, strict=False):
        if (rows := settled["saferec"]["rows"]) != name:  # what our own configs say, and another may leave out
            raise TrainingError(
                f"{files[name]}: {name} would learn the rows {rows}: expected `rows: {name}` under saferec"
            )
    for name in ("num_train_epochs", "max_steps"):
        if found[0].get(name) != found[1].get(name):
            raise TrainingError(f"sft_raw and sft have different {name}: a comparison wants them equal")
    shared = _run(given)
    from training import pipeline

    pipeline.whole(shared, _model(given), *found)


def judge(given: argparse.Namespace) -> None:
    """The figures of a model here, of one behind a server, or of answers in files."""
    if (given.model is None) == (given.predictions is None):
        raise TrainingError("evaluate: expected either --model or --predictions")
    if given.server and given.model is None:
        raise TrainingError("evaluate: --server answers as --model NAME: expected it instead of --predictions")
    if given.predictions or given.server:
        if given.changes or given.items or given.config != "sft":
            raise TrainingError("evaluate: --config, --set and --items are about a --model here: leave them out")
        home, compat = folder(given.release), given.compat is not None
        files = given.predictions or [_from_server(given, home)]
        evaluate.evaluate(home, files, given.output, gold=given.gold, compat=compat)
        return
    found = settings.read(given.config, [*given.changes, *_flags(given)])
    shared = _run(given)
    from training import comparison

    comparison.report(shared, {"model": given.model}, None, found, given.compat is not None)


def _from_server(given: argparse.Namespace, home: Path) -> Path:
    """The predictions file of a model behind a server."""
    release = data.open_release(home)
    table = data.with_prompt(data.rows(home, "grpo", "test"), release)
    server.consented(given.server, len(table), given.allow_remote)
    name = "".join(c if c.isalnum() or c in "-._@" else "-" for c in f"{given.model}@{urlsplit(given.server).netloc}")
    # what the letters above no longer tell apart, and what is asked: another release may ask otherwise under one id
    requests = [[row["conversation"], server.messages(row, release.k)] for row in table]
    path: Path = given.output / f"{name}-{settings.key(given.server, given.model, requests)[:6]}.jsonl"
    server.ask(given.server, given.model, table, release.k, path)
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


VERBS = {"sft": train, "gdpo": train, "run": run, "evaluate": judge}

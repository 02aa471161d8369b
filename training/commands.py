"""The commands of training/safecrs.py; torch and what depends on it are imported only where a model is needed."""

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from saferec_builder.core.errors import TrainingError
from training import answers_from_server as server, data, memory, settings
from training.evaluation import evaluate
from training.run_folders import Run, bar, say


def train(args: argparse.Namespace) -> None:
    shared = _run(args)
    from training import pipeline

    stage_settings = settings.read(args.config, args.changes, args.verb)
    stage = pipeline.train_sft if args.verb == "sft" else pipeline.train_gdpo
    with _naming_the_config(args):
        model_folder = stage(shared, args.output.resolve().name, args.model, stage_settings)
    judge = f"python -m training.safecrs evaluate --release {args.release} --model {args.output} --output DIR"
    say(f"model: {model_folder}; its figures on the test split: {judge}")


STAGES = {"sft_raw": "sft_raw", "sft": "sft", "gdpo": None, "student": "guard"}  # of `run` -> the rows that it learns


def run(args: argparse.Namespace) -> None:
    by_stage = {stage: settings.read(args.config, changes, stage) for stage, changes in _changes(args.changes).items()}
    _refuse_unlike(args.config, by_stage)
    if args.processes > 1 and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise TrainingError("--processes 2: several processes train together already: expected 1")
    shared = _run(args)
    from training import pipeline

    with _naming_the_config(args):
        pipeline.train_all(shared, args.model, *by_stage.values(), processes=args.processes)


@contextmanager
def _naming_the_config(args: argparse.Namespace) -> Iterator[None]:
    """Names the file of --config in an error of one of TRL's arguments, unless --set gave it."""
    try:
        yield
    except settings.WrongArgument as fault:
        given = {change.partition("=")[0].rpartition(".")[2].strip() for change in args.changes}
        if fault.name.rpartition(".")[2] in given:
            raise
        raise TrainingError(f"{settings.file(args.config)[0]}: {fault}") from None


def _changes(changes: Sequence[str]) -> dict[str, list[str]]:
    """Returns for each of STAGES the changes of --set that are for it, without the stage or group before them."""
    by_stage: dict[str, list[str]] = {stage: [] for stage in STAGES}
    for change in changes:
        part, dot, rest = change.partition(".")
        if not dot or part not in settings.PARTS:
            expected = f"expected it after {', '.join(STAGES)}, both or all, as in sft.learning_rate=1e-3"
            raise TrainingError(f"--set {change}: {expected}")
        for stage in {"both": settings.SFTS, "all": tuple(STAGES)}.get(part, (part,)):
            by_stage[stage].append(rest)
    return by_stage


def _refuse_unlike(config: str, by_stage: Mapping[str, settings.Settings]) -> None:
    """Raises TrainingError for stages that learn other rows than their names say, or that cannot be compared."""
    for stage, expected in STAGES.items():
        rows = by_stage[stage]["saferec"]["rows"]
        if expected and rows != expected:  # our own configs set it; another recipe may not
            raise TrainingError(
                f"{config}: {stage} would learn the rows {rows}: expected `rows: {expected}` under saferec"
            )
    for name in ("num_train_epochs", "max_steps"):
        if by_stage["sft_raw"].get(name) != by_stage["sft"].get(name):
            raise TrainingError(f"sft_raw and sft have different {name}: a comparison wants them equal")
    shared = {
        "model_init_kwargs": [stage.get("model_init_kwargs") for stage in by_stage.values()],
        "saferec.chat_template_kwargs": [stage["saferec"]["chat_template_kwargs"] for stage in by_stage.values()],
    }
    for key, values in shared.items():
        if any(value != values[0] for value in values):
            raise TrainingError(f"the stages have different {key}: expected it after all, as in all.{key}=...")


def judge(args: argparse.Namespace) -> None:
    """Evaluates a local model, a model behind a server, or answers in files."""
    if args.only and not args.predictions:
        raise TrainingError("evaluate: --only is about --predictions: leave it out")
    if args.server and args.model is None:
        raise TrainingError("evaluate: --server answers as --model NAME: expected it instead of --predictions")
    if args.predictions or args.server:
        if args.config != "sft" or (args.changes and not args.server):
            about = "evaluate: --config, --set and --items are about a --model here: leave them out"
            raise TrainingError(f"{about} (k is that of the release)")
        release, compat = data.open_release(args.release), args.compat is not None
        files = args.predictions or [_from_server(args, release)]
        only = {str(row.get("id")) for _, row in data.jsonl(args.only)} if args.only else None
        evaluate.evaluate(release, files, args.output, gold=args.gold, compat=compat, only=only)
        return
    if args.model == "tiny":
        raise TrainingError("evaluate: `tiny` is what a training starts from: expected the folder of a trained model")
    model_settings = settings.read(args.config, args.changes)
    shared = _run(args)
    from training import comparison

    comparison.report(shared, {"model": args.model}, None, model_settings, args.compat is not None)


def _from_server(args: argparse.Namespace, release: data.Release) -> Path:
    how = server.request_options(args.changes)
    table = data.with_prompt(data.rows(release.folder, "grpo", "test"), release)
    server.refuse_remote(args.server, len(table), args.allow_remote)
    name = "".join(c if c.isalnum() or c in "-._@" else "-" for c in f"{args.model}@{urlsplit(args.server).netloc}")
    # the digest tells apart names that are equal after the replacement above, and requests with one id in two releases
    requests = [[row["conversation"], server.messages(row, release.k, how)] for row in table]
    digest = settings.key(args.server, args.model, requests, how.body)[:6]
    path: Path = args.output / f"{name}-{digest}.jsonl"
    server.ask(args.server, args.model, table, release.k, path, how=how, progress=bar(name, "answer"))
    return path


def _run(args: argparse.Namespace) -> Run:
    """Returns what all stages share; raises TrainingError first if a package for training is missing."""
    missing = [name for name in ("torch", "transformers", "trl", "datasets", "peft") if find_spec(name) is None]
    if missing:
        raise TrainingError(f"training needs {missing[0]}: pip install 'saferec-builder[train]'")
    from training import process_setup as machine

    if args.verb != "evaluate":
        machine.refuse_threads()
    release = data.open_release(args.release)
    gold = data.read_gold(args.gold, release) if getattr(args, "gold", None) else None
    machine.quiet_libraries(args.model)
    output = args.output if args.verb in ("run", "evaluate") else args.output.resolve().parent
    return Run(release, output, args.seed, gold)


def plan(args: argparse.Namespace) -> None:
    model_config = settings.file(args.config)[1].get("shape")
    if not model_config:
        raise TrainingError(f"{args.config}: no shape: expected the sizes of the model's config.json in the recipe")
    shape = memory.shape(model_config)
    if unused := [change for change in args.changes if change.partition("=")[0].strip() not in memory.READ]:
        raise TrainingError(
            f"--set {unused[0]}: the plan does not depend on it: expected one of {', '.join(memory.READ)}"
        )
    sft, gdpo = (
        memory.plan(stage, settings.read(args.config, args.changes, stage), shape, args.prompt)
        for stage in ("sft", "gdpo")
    )
    print(f"{'GB':14}{'sft':>8}{'gdpo':>8}")
    for part, size in sft.items():
        print(f"{part:14}{size:8.2f}{gdpo[part]:8.2f}")


VERBS = {"sft": train, "gdpo": train, "run": run, "evaluate": judge, "memory": plan}

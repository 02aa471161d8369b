"""Runs one training stage, or all stages from an unsafe model to a report."""

from dataclasses import replace
from pathlib import Path

from trl.trainer.sft_config import SFTConfig

from saferec_builder.core.errors import TrainingError
from training.comparison import load_policy, report, systems
from training.data import drop_refills, repeat_rare, with_gold
from training.decoding.constrained import FILE
from training.decoding.generate import PolicyModel, close_thoughts
from training.decoding.validation_scores import Score, scorer
from training.evaluation import guard
from training.evaluation.report_table import Report
from training.evaluation.selection import choose
from training.models import item_tokens, tiny
from training.process_setup import second_process
from training.run_folders import Card, Run, bar, on_first_process, read_card
from training.settings import Settings, ours, trl_arguments
from training.trainers import gdpo, sft
from training.trainers.conflicts import refuse


def start(run: Run, model: str, settings: Settings) -> str:
    """Returns the name of the model to start from, after `tiny` is made, or another model gets its item tokens."""
    options = ours(settings)
    if model != "tiny" and (options.items != "tokens" or (Path(model) / FILE).is_file()):
        return model
    loaded = {"model_init_kwargs": settings.get("model_init_kwargs"), "template": options.chat_template_kwargs}
    made_by = {"items": "tokens"} | {name: value for name, value in loaded.items() if value}

    def make(folder: Path) -> Card:
        if model == "tiny":
            on_first_process(lambda: tiny.make(folder, run.release, run.rows("grpo", "train"), run.seed))
        else:
            on_first_process(lambda: item_tokens.add(load_policy(run, model, settings), folder, run.release))
        return {}

    return str(run.stage("start", {"tiny": tiny.SHAPE} if model == "tiny" else made_by, make, model))


def train_sft(run: Run, name: str, model: str, settings: Settings) -> Path:
    """Fine-tunes a model on the lists that `saferec.rows` names: Safe-SFT, or a student of the guard."""
    _check(run, "sft", settings, _has_item_tokens(model, settings))
    model = start(run, model, settings)

    def work(folder: Path, policy: PolicyModel) -> Card:
        options = ours(settings)
        if options.says is not None and policy.catalogue:  # else as many predicted traits as it was trained with
            policy = replace(policy, catalogue=replace(policy.catalogue, opening=options.says))
        close_thoughts(policy.tokenizer)
        requests = run.rows("grpo", "train")
        traits = {row["conversation"]: row["traits"] for row in requests}
        if options.rows == "guard":
            table = guard.fit(run.release, bar).student_rows(requests, bar("guard, lists to learn", "request"))
        else:
            table = [{**row, "traits": traits[row["conversation"]]} for row in run.rows(options.rows, "train")]
        if not options.refill:
            table = drop_refills(table, run.release.items)
        table = repeat_rare(table, options.repeat)
        return sft.train(policy, table, settings, folder, _score(run, name, policy, settings), seed=run.seed)

    return run.stage(name, settings, work, model, load=lambda: load_policy(run, model, settings, to_train=True))


def train_gdpo(run: Run, name: str, model: str, settings: Settings) -> Path:
    _check(run, "gdpo", settings, _has_item_tokens(model, settings))
    model = start(run, model, settings)

    def work(folder: Path, policy: PolicyModel) -> Card:
        score = _score(run, name, policy, settings)
        return gdpo.train(policy, run.rows("grpo", "train"), run.release, settings, folder, score, seed=run.seed)

    return run.stage(name, settings, work, model, load=lambda: load_policy(run, model, settings, to_train=True))


def train_all(
    run: Run,
    model: str,
    unsafe_sft: Settings,
    safe_sft: Settings,
    safe_gdpo: Settings,
    student: Settings,
    *,
    processes: int = 1,
) -> Report | None:
    """Trains sft, safe_sft, safe_gdpo (from safe_sft) and student; evaluates them and the baselines on the test split.
    processes = 2: independent work is done in a second process; the figures are the same."""
    # raises for anything that would fail later, before models are trained and folders cleared
    stages = {"sft": unsafe_sft, "safe_sft": safe_sft, "safe_gdpo": safe_gdpo, "student": student}
    for name, settings in stages.items():
        run.refuse_overwriting(run.output / name, [model])
        _check(run, "gdpo" if name == "safe_gdpo" else "sft", settings, _has_item_tokens(model, safe_sft))
    run.rows("grpo", "validation")
    with_gold(run.rows("grpo", "test"), run.release.oracle, run.gold)
    base = start(run, model, safe_sft)
    with second_process(processes, base) as later:
        safe_sft_path = later(train_sft, run, "safe_sft", base, safe_sft)
        models = {"sft": str(train_sft(run, "sft", base, unsafe_sft)), "safe_sft": str(safe_sft_path())}
        run.cards["safe_sft"] = read_card(run.output / "safe_sft")
        student_path = later(train_sft, run, "student", base, student)
        prepared = later(systems, run, {**models}, safe_sft)
        models["safe_gdpo"] = str(train_gdpo(run, "safe_gdpo", models["safe_sft"], safe_gdpo))
        models["student"] = str(student_path())
        run.cards["student"] = read_card(run.output / "student")
        values = {name: run.cards[name]["validation"] for name in models}
        chosen = choose(values.pop("sft"), values, run.release.k)
        return report(run, models, chosen, safe_sft, prepared=prepared)


def _check(run: Run, verb: str, settings: Settings, tokens: bool) -> None:
    """Raises TrainingError, before a folder is cleared, for a stage that would fail; tokens: whether items are."""
    refuse(verb, settings, tokens)
    if verb == "sft":
        trl_arguments(SFTConfig, settings, run.output, run.seed)
        return
    length, k = settings.get("max_completion_length", 256), run.release.k
    if ours(settings).items != "trie" and not tokens and isinstance(length, int) and length < 8 * k:
        raise TrainingError(
            f"max_completion_length = {length}: the model has no item tokens, and {k} titles as text do not fit:"
            " expected --set max_completion_length=256 (in `run`: gdpo.max_completion_length=256), or another --model"
        )
    args = gdpo.arguments(settings, run.output, run.seed)
    size, group, rows = args.generation_batch_size or 0, args.num_generations or 1, len(run.rows("grpo", "train"))
    if rows < size // group:  # the trainer drops incomplete steps
        raise TrainingError(
            f"a step of GDPO takes {size // group} prompts ({size} answers), and the release has {rows}"
            f" to train on: expected --set per_device_train_batch_size={group * rows} or less"
            " (in `run`: gdpo.per_device_train_batch_size)"
        )


def _has_item_tokens(model: str, settings: Settings) -> bool:
    """Whether the model has item tokens, or gets them before training."""
    return model == "tiny" or ours(settings).items == "tokens" or (Path(model) / FILE).is_file()


def _score(run: Run, name: str, policy: PolicyModel, settings: Settings) -> Score:
    options, progress = ours(settings), bar(f"  {name} on validation", "answer")
    table = run.rows("grpo", "validation", options.validate)
    return scorer(policy, table, run.release, options.prefer, progress)

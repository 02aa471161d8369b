"""The runs that training/safecrs.py offers: one stage, or the whole line from an unsafe model to a report."""

from dataclasses import replace
from pathlib import Path

from trl import GRPOConfig  # type: ignore[attr-defined]

from saferec_builder.core.errors import TrainingError
from training.comparison import load_policy, report, systems
from training.data import repeated, with_gold, without_refills
from training.decoding.constrained import FILE
from training.decoding.generate import PolicyModel, close_thoughts
from training.decoding.validation_scores import Score, scorer
from training.evaluation import guard
from training.evaluation.report_table import Report
from training.evaluation.selection import choose
from training.models import item_tokens, tiny
from training.process_setup import beside
from training.run_folders import Card, Figures, Run, bar, on_first_process, read_card
from training.settings import Settings, ours
from training.trainers import gdpo, sft
from training.trainers.conflicts import refuse


def start(run: Run, model: str, settings: Settings) -> str:
    """The name of the model to start from.

    `tiny` is made first, from this release; another model is first given a token for each item where `saferec.items`
    says `tokens`, unless it has them.
    """
    if model != "tiny" and (ours(settings).items != "tokens" or (Path(model) / FILE).is_file()):
        return model

    def make(folder: Path) -> Card:
        if model == "tiny":
            on_first_process(lambda: tiny.make(folder, run.release, run.rows("grpo", "train"), run.seed))
        else:
            on_first_process(lambda: item_tokens.add(load_policy(run, model, settings), folder, run.release))
        return {}

    return str(run.stage("start", {"tiny": tiny.SHAPE} if model == "tiny" else {"items": "tokens"}, make, model))


def train_sft(run: Run, name: str, model: str, settings: Settings) -> Path:
    """A stage of supervised fine-tuning on the lists that `saferec.rows` names: Safe-SFT, or a student of the guard."""
    refuse("sft", settings, _has_item_tokens(model, settings))
    sft.arguments(settings, run.output / name, run.seed)  # before a folder is cleared
    model = start(run, model, settings)

    def work(folder: Path) -> Card:
        options = ours(settings)
        policy = _to_teach(load_policy(run, model, settings, _dtype(settings)), options.says)
        close_thoughts(policy.tokenizer)
        requests = run.rows("grpo", "train")
        traits = {row["conversation"]: row["traits"] for row in requests}
        if options.rows == "guard":
            table = guard.fit(run.release, bar).taught(requests, bar("guard, lists to learn", "request"))
        else:
            table = [{**row, "traits": traits[row["conversation"]]} for row in run.rows(options.rows, "train")]
        if not options.refill:
            table = without_refills(table, run.release.items)
        table = repeated(table, options.repeat)
        return sft.train(policy, table, settings, folder, _score(run, name, policy, settings), seed=run.seed)

    return run.stage(name, settings, work, _stage_of(run, model))


def train_gdpo(run: Run, name: str, model: str, settings: Settings) -> Path:
    """A stage of Safe-GDPO from a model, most often a Safe-SFT one."""
    refuse("gdpo", settings, _has_item_tokens(model, settings))
    _check_room(run, model, settings)
    _check_rows(run, gdpo.arguments(settings, run.output / name, run.seed))
    model = start(run, model, settings)

    def work(folder: Path) -> Card:
        policy, table = load_policy(run, model, settings, _dtype(settings)), run.rows("grpo", "train")
        score = _score(run, name, policy, settings)
        return gdpo.train(policy, table, run.release, settings, folder, score, seed=run.seed)

    return run.stage(name, settings, work, _stage_of(run, model))


def whole(
    run: Run,
    model: str,
    unsafe_sft: Settings,
    safe_sft: Settings,
    safe_gdpo: Settings,
    student: Settings,
    *,
    processes: int = 1,
) -> Report | None:
    """sft, safe_sft, safe_gdpo from it, and student; all judged on the test split beside the baselines, in a report.

    processes = 2: what needs not wait for the other is done in a second one, with the same figures.
    chosen = of the safe ones the safest on validation that does not find less than sft: see evaluation/selection.py.
    """
    # what the end will not bear is said before two models are trained, and before any folder is cleared
    for name in ("sft", "safe_sft", "safe_gdpo", "student"):
        run.refuse_overwriting(run.output / name, [model])
    for verb, found in (("sft", unsafe_sft), ("sft", safe_sft), ("gdpo", safe_gdpo), ("sft", student)):
        refuse(verb, found, _has_item_tokens(model, safe_sft))
    for found in (unsafe_sft, safe_sft, student):
        sft.arguments(found, run.output, run.seed)
    _check_rows(run, gdpo.arguments(safe_gdpo, run.output, run.seed))
    run.rows("grpo", "validation")
    with_gold(run.rows("grpo", "test"), run.release.oracle, run.gold)
    _check_room(run, model, safe_gdpo)
    begin = start(run, model, safe_sft)
    with beside(processes, begin) as later:
        safe = later(train_sft, run, "safe_sft", begin, safe_sft)
        models = {"sft": str(train_sft(run, "sft", begin, unsafe_sft)), "safe_sft": str(safe())}
        run.cards["safe_sft"] = read_card(run.output / "safe_sft")
        taught = later(train_sft, run, "student", begin, student)
        known = later(systems, run, {**models}, safe_sft)
        models["safe_gdpo"] = str(train_gdpo(run, "safe_gdpo", models["safe_sft"], safe_gdpo))
        models["student"] = str(taught())
        run.cards["student"] = read_card(run.output / "student")
        found = {n: _validated(run, n) for n in models}
        chosen = choose(found.pop("sft"), found, run.release.k)
        return report(run, models, chosen, safe_sft, known=known)


def _check_room(run: Run, model: str, settings: Settings) -> None:
    """Whether a list fits into an answer that is written as text."""
    room, k = settings.get("max_completion_length", 256), run.release.k
    as_text = ours(settings).items != "trie" and not _has_item_tokens(model, settings)
    if as_text and isinstance(room, int) and room < 8 * k:
        raise TrainingError(
            f"max_completion_length = {room}: {k} titles as text do not fit: expected --set max_completion_length=256"
            " (in `run`: --set gdpo.max_completion_length=256)"
        )


def _check_rows(run: Run, args: GRPOConfig) -> None:
    """Whether one step of GDPO can be filled: the trainer drops what is left of an epoch, and would make no step."""
    size, group, there = args.generation_batch_size or 0, args.num_generations or 1, len(run.rows("grpo", "train"))
    if there < size // group:
        raise TrainingError(
            f"a step of GDPO takes {size // group} prompts ({size} answers), and the release has {there}"
            f" to train on: expected --set per_device_train_batch_size={group * there} or less"
            " (in `run`: gdpo.per_device_train_batch_size)"
        )


def _has_item_tokens(model: str, settings: Settings) -> bool:
    """Whether it has them, or is given them before anything is trained."""
    return model == "tiny" or ours(settings).items == "tokens" or (Path(model) / FILE).is_file()


def _dtype(settings: Settings) -> str:
    """An adapter is in float32 by itself, beside weights as they came."""
    return "auto" if ours(settings).lora else "float32"


def _to_teach(policy: PolicyModel, says: int | None) -> PolicyModel:
    """The model, to be taught to name so many predicted traits first; judged, it names as many as it was taught."""
    if says is None or policy.catalogue is None:
        return policy
    return replace(policy, catalogue=replace(policy.catalogue, opening=says))


def _score(run: Run, name: str, policy: PolicyModel, settings: Settings) -> Score:
    options, shown = ours(settings), bar(f"  {name} on validation", "answer")
    table = run.rows("grpo", "validation", options.validate)
    return scorer(policy, table, run.release, options.prefer, options.caution, shown)


def _validated(run: Run, name: str) -> Figures:
    found = run.cards[name]["validation"]
    assert found is not None  # a stage that trained has asked validation once, at its end
    if f"recall_without@{run.release.k}" not in found:
        raise TrainingError(f"{run.output / name}: an earlier version trained it: expected a new folder as --output")
    return found


def _stage_of(run: Run, model: str) -> str:
    """The stage whose folder this is, so that its key counts; else the model's name."""
    return next((name for name in run.cards if str(run.output / name) == model), model)

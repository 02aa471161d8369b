"""The runs that training/safecrs.py offers: one stage, or the whole line from an unsafe model to a report."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from saferec_builder.core.errors import TrainingError
from training.data import labels_of, repeated, unfilled, with_gold
from training.decoding import generate, trie
from training.decoding.constrained import FILE
from training.decoding.generate import Speaker
from training.decoding.validation import PREFER, Answers, answers, scorer, unsafe
from training.evaluation import evaluate, paper_metrics as compat
from training.evaluation.baselines import blind
from training.models import item_tokens, tiny
from training.stages import Run, alone, first, write
from training.trainers import gdpo, sft

Settings = dict[str, Any]


def start(run: Run, model: str, settings: Settings) -> str:
    """The name of the model to start from.

    `tiny` is made first, from this release; another model is first given a token for each item where `saferec.items`
    says `tokens`, unless it has them.
    """
    widened = settings["saferec"]["items"] == "tokens" and not (Path(model) / FILE).is_file()
    if model != "tiny" and not widened:
        return model

    def make(folder: Path) -> dict[str, Any]:
        if model == "tiny":
            alone(lambda: tiny.make(folder, run.release, run.rows("grpo", "train"), run.seed))
        else:
            alone(lambda: item_tokens.add(model, folder, run.release))
        return {}

    return str(run.stage("start", {"tiny": tiny.SHAPE} if model == "tiny" else {"items": "tokens"}, make, model))


def train_sft(run: Run, name: str, model: str, settings: Settings) -> Path:
    """A stage of supervised fine-tuning on the lists that `saferec.rows` names."""
    sft.arguments(settings, run.output / name, run.seed)  # before a folder is cleared

    def work(folder: Path) -> dict[str, Any]:
        speaker = _to_say(_speaker(run, model, settings, _dtype(settings)), settings["saferec"]["says"])
        heard = {row["conversation"]: row["traits"] for row in run.rows("grpo", "train")}
        table = run.rows(settings["saferec"]["rows"], "train")
        table = [{**row, "traits": heard[row["conversation"]]} for row in table]
        if not settings["saferec"]["refill"]:
            table = unfilled(table, run.release.items)
        table = repeated(table, settings["saferec"]["repeat"])
        return sft.train(speaker, table, settings, folder, _score(run, speaker, settings), seed=run.seed)

    return run.stage(name, settings, work, _stage_of(run, model))


def train_gdpo(run: Run, name: str, model: str, settings: Settings) -> Path:
    """A stage of Safe-GDPO from a model, most often a Safe-SFT one."""
    _check_room(run, model, settings)
    _check_rows(run, gdpo.arguments(settings, run.output / name, run.seed))

    def work(folder: Path) -> dict[str, Any]:
        speaker, table = _speaker(run, model, settings, _dtype(settings)), run.rows("grpo", "train")
        score = _score(run, speaker, settings)
        return gdpo.train(speaker, table, run.release, settings, folder, score, seed=run.seed)

    return run.stage(name, settings, work, _stage_of(run, model))


def whole(run: Run, model: str, unsafe_sft: Settings, safe_sft: Settings, safe_gdpo: Settings) -> dict[str, Any]:
    """sft, safe_sft and safe_gdpo from it; all judged on the test split beside the baselines. Returns the report.

    chosen = the better of safe_sft and safe_gdpo on validation, by what the safe settings prefer.
    """
    # what the end will not bear is said before two models are trained, and before any folder is cleared
    for name in ("sft", "safe_sft", "safe_gdpo"):
        run.spare(run.output / name, [model])
    for found in (unsafe_sft, safe_sft):
        sft.arguments(found, run.output, run.seed)
    _check_rows(run, gdpo.arguments(safe_gdpo, run.output, run.seed))
    run.rows("grpo", "validation")
    test = run.rows("grpo", "test")
    if run.gold is not None:
        with_gold(test, run.release.oracle, run.gold)
    begin = start(run, model, safe_sft)
    _check_room(run, begin, safe_gdpo)
    folders = {"sft": train_sft(run, "sft", begin, unsafe_sft), "safe_sft": train_sft(run, "safe_sft", begin, safe_sft)}
    folders["safe_gdpo"] = train_gdpo(run, "safe_gdpo", str(folders["safe_sft"]), safe_gdpo)
    chosen = max(("safe_sft", "safe_gdpo"), key=lambda name: _preferred(run, name, safe_sft))
    return report(run, {name: str(folder) for name, folder in folders.items()}, chosen, safe_sft)


def report(
    run: Run, models: dict[str, str], chosen: str | None, settings: Settings, published: bool = False
) -> dict[str, Any]:
    """Test-split figures of the models and the baselines: the first model behind a filter that knows all, the first
    model when nobody tells it of a sensitivity, and what needs no model. All are compared with the first model.
    """
    import torch

    if not first():  # of the processes that trained together one is enough
        return {}
    release, table = run.release, run.rows("grpo", "test")
    named: dict[str, Answers] = {}
    filtered = None
    for name, model in models.items():
        speaker = _speaker(run, model, settings)
        if torch.cuda.is_available():
            speaker.model.to("cuda")  # only trainers move a model by themselves
        named[name] = answers(speaker, table)
        save_answers(run.output / name / "answers-test.jsonl", named[name], run)
        if len(named) == 1:
            filtered = answers(speaker, table, unsafe(release, table)) if speaker.held else None
            deaf = answers(speaker, blind(table, labels_of(release.folder, "test")))
    made = evaluate.compare(release, table, named | {"blind": deaf}, run.gold, filtered=filtered)
    if published:
        written = {name: compat.written(given, release.items) for name, given in named.items()}
        evaluate.add_published(made, written, table, release)
    text = evaluate.show(made, release.k) + (f"\nchosen on validation: {chosen}" if chosen else "")
    run.say("\n" + text)
    (run.output / "table.txt").write_text(text + "\n", "utf-8")
    if run.cards:  # else it is somebody's model that is evaluated, perhaps where its own card stands
        write(run.output / "run.json", {name: {**card, "log": None} for name, card in run.cards.items()})
    seconds = {name: card["seconds"] for name, card in run.cards.items()}
    return evaluate.write_report(
        run.output, evaluate.report(release, made, run.gold is not None, chosen=chosen, seconds=seconds)
    )


def save_answers(path: Path, given: Answers, run: Run) -> None:
    """Answers as a predictions file: scored again at any time by `evaluate --predictions`."""
    import json

    items = run.release.items
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        for name, answer in given.items():
            if isinstance(answer, str):
                row: dict[str, Any] = {"id": name, "text": answer}
            else:
                named = compat.named(answer, items)
                row = {"id": name, "items": [{"title": title, "year": year} for title, year in named]}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _speaker(run: Run, model: str, settings: Settings, dtype: str = "auto") -> Speaker:
    ours = settings["saferec"]
    speaker = generate.load(model, dtype, batch=ours["batch"], new_tokens=ours["new_tokens"], masked=ours["mask"])
    known = speaker.catalogue
    if known and (known.k != run.release.k or set(known.tokens) != set(run.release.items)):
        raise TrainingError(f"model {model}: its item tokens are of another release: start again from the model before")
    if speaker.catalogue is None and ours["items"] == "trie":
        return replace(speaker, trie=trie.over(run.release, speaker.tokenizer))
    return speaker


def _check_room(run: Run, model: str, settings: Settings) -> None:
    if settings["saferec"]["items"] != "trie" and not (Path(model) / FILE).is_file():
        gdpo.check_room(settings, run.release.k)


def _check_rows(run: Run, args: Any) -> None:
    """Whether one step of GDPO can be filled: the trainer drops what is left of an epoch, and would make no step."""
    wanted, there = args.generation_batch_size // args.num_generations, len(run.rows("grpo", "train"))
    if there < wanted:
        raise TrainingError(
            f"a step of GDPO takes {wanted} prompts ({args.generation_batch_size} answers), and the release has {there}"
            f" to train on: wanted --set per_device_train_batch_size={args.num_generations * there} or less"
            " (in `run`: gdpo.per_device_train_batch_size)"
        )


def _dtype(settings: Settings) -> str:
    """An adapter is in float32 by itself, beside weights as they came."""
    return "auto" if settings["saferec"]["lora"] else "float32"


def _to_say(speaker: Speaker, says: int | None) -> Speaker:
    """The speaker as it is to be taught; judged, a model says what it was taught to say, whatever the settings."""
    if says is None or speaker.catalogue is None:
        return speaker
    return replace(speaker, catalogue=replace(speaker.catalogue, said=says))


def _score(run: Run, speaker: Speaker, settings: Settings) -> Any:
    ours = settings["saferec"]
    table = run.rows("grpo", "validation", ours["validate"])
    return scorer(speaker, table, run.release, ours["prefer"], ours["caution"])


def _preferred(run: Run, name: str, settings: Settings) -> float:
    ours, found = settings["saferec"], run.cards[name]["validation"]
    return PREFER[ours["prefer"]](found, run.release.k, ours["caution"])


def _stage_of(run: Run, model: str) -> str:
    """The stage whose folder this is, so that its key counts; else the model's name."""
    return next((name for name in run.cards if str(run.output / name) == model), model)

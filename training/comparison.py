"""Compares trained models and baselines on the test split: writes their answers, a table and report.json."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import torch

from saferec_builder.core.errors import TrainingError
from training.data import labels_of, with_gold
from training.decoding import generate, trie
from training.decoding.generate import PolicyModel
from training.decoding.validation_scores import Answers, answers, unsafe
from training.evaluation import evaluate, paper_metrics, predictions, report_table
from training.evaluation.baselines import blind
from training.evaluation.selection import Choice
from training.run_folders import Run, bar, is_first_process, say, write
from training.settings import Settings, ours


def systems(run: Run, models: Mapping[str, str], settings: Settings) -> evaluate.Systems:
    """Returns answers on the test split, of the models (also written to their folders), of the first model without the
    evidence of sensitivities (`blind`) and, if it is constrained to the catalogue, under a filter by the release's
    verdicts (`oracle_filter`), of the guard, and of baselines without a model."""
    release, table = run.release, run.rows("grpo", "test")
    systems: evaluate.Systems = {name: _answers(run, name, model, settings) for name, model in models.items()}
    first = _policy(run, next(iter(models.values())), settings)
    blinded = blind(table, labels_of(release.folder, "test"))
    systems["blind"] = answers(first, blinded, progress=bar("blind on test", "answer"))
    if first.masks:
        systems["oracle_filter"] = answers(first, table, unsafe(release, table), bar("oracle_filter on test", "answer"))
    return systems | evaluate.without_models(release, table)


def report(
    run: Run,
    models: Mapping[str, str],
    chosen: Choice | None,
    settings: Settings,
    published: bool = False,
    prepared: Callable[[], evaluate.Systems] | None = None,
) -> report_table.Report | None:
    """Writes answers, table and report of the models and the baselines on the test split, and returns the report.
    prepared returns `systems` of the first models, computed before. Only the first process does this."""
    if not is_first_process():
        return None
    release, table = run.release, run.rows("grpo", "test")
    by_system = dict(prepared() if prepared else systems(run, models, settings))
    by_system |= {name: _answers(run, name, model, settings) for name, model in models.items() if name not in by_system}
    answers_by_model = {name: by_system.pop(name) for name in (*models, "blind")}
    names = models if published else ()
    written = {name: paper_metrics.written(answers_by_model[name], release.items) for name in names}
    runs = evaluate.compare(release, table, answers_by_model, run.gold, by_system, written)
    gold_table = with_gold(table, release.oracle, run.gold)
    full_report = evaluate.report(release, runs, gold_table, run.gold is not None, chosen.name if chosen else None)
    full, short = evaluate.as_texts(full_report, gold_table, [f"chosen on validation: {chosen}"] if chosen else [])
    if run.cards:  # else a model is only evaluated, perhaps in its own folder, which has a card
        write(run.output / "run.json", {name: {**card, "log": None} for name, card in run.cards.items()})
    evaluate.write_users(run.output, answers_by_model, table, release, run.gold)
    say("\n" + short + evaluate.write_report(run.output, full_report, full))
    return full_report


def _answers(run: Run, name: str, model: str, settings: Settings) -> Answers:
    texts = answers(_policy(run, model, settings), run.rows("grpo", "test"), progress=bar(f"{name} on test", "answer"))
    predictions.write(run.output / name / "answers-test.jsonl", texts, run.release.items)
    return texts


def _policy(run: Run, model: str, settings: Settings) -> PolicyModel:
    policy = load_policy(run, model, settings)
    if torch.cuda.is_available():
        policy.model.to("cuda")  # only trainers move a model by themselves
    return policy


def load_policy(run: Run, model: str, settings: Settings, to_train: bool = False) -> PolicyModel:
    """Loads a model that answers as the settings say. The weights are as they were saved, and float32 if all of them
    are trained, unless model_init_kwargs sets a dtype."""
    options = ours(settings)
    dtype = "float32" if to_train and not options.lora else "auto"
    arguments = {"dtype": dtype} | (settings.get("model_init_kwargs") or {})
    policy = generate.load(model, arguments, options.chat_template_kwargs)
    policy = replace(policy, batch=options.batch, new_tokens=options.new_tokens, masked=options.mask)
    catalogue = policy.catalogue
    if catalogue and (catalogue.k != run.release.k or set(catalogue.tokens) != set(run.release.items)):
        raise TrainingError(f"model {model}: its item tokens are of another release: start again from the model before")
    if catalogue:
        domains = {item.id: item.domain for item in run.release.items.values()}
        return replace(policy, catalogue=replace(catalogue, domains=domains))
    if options.items == "trie":
        generate.close_thoughts(policy.tokenizer)
        return replace(policy, trie=trie.over(run.release, policy.tokenizer))
    return policy

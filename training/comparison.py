"""Trained models and baselines side by side on the test split: their answers, a table and report.json."""

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
from training.run_folders import Run, bar, is_first_process, write
from training.settings import Settings, ours


def systems(run: Run, models: Mapping[str, str], settings: Settings) -> evaluate.Systems:
    """Answers on the test split of the models, written to their folders too, and of what they are compared with:

    the first model when nobody tells it of a sensitivity (`blind`), and, where it is held to the catalogue, behind a
    filter that knows all; the guard, and what needs no model.
    """
    release, table = run.release, run.rows("grpo", "test")
    found: evaluate.Systems = {name: _answers(run, name, model, settings) for name, model in models.items()}
    first = _policy(run, next(iter(models.values())), settings)
    found["blind"] = answers(
        first, blind(table, labels_of(release.folder, "test")), progress=bar("blind on test", "answer")
    )
    if first.held:
        found["oracle_filter"] = answers(first, table, unsafe(release, table), bar("oracle_filter on test", "answer"))
    return found | evaluate.without_models(release, table)


def report(
    run: Run,
    models: Mapping[str, str],
    chosen: Choice | None,
    settings: Settings,
    published: bool = False,
    known: Callable[[], evaluate.Systems] | None = None,
) -> report_table.Report | None:
    """Writes answers, table and report of the models and the baselines on the test split, and returns the report.

    All are compared with the first model, and the models with the guard. known = `systems` of the first models.

    Of several processes that trained together the first one does it; None in the others.
    """
    if not is_first_process():
        return None
    release, table = run.release, run.rows("grpo", "test")
    found = dict(known() if known else systems(run, models, settings))
    found |= {name: _answers(run, name, model, settings) for name, model in models.items() if name not in found}
    named = {name: found.pop(name) for name in (*models, "blind")}
    runs = evaluate.compare(release, table, named, run.gold, others=found)
    if published:
        written = {name: paper_metrics.written(named[name], release.items) for name in models}
        evaluate.add_published(runs, written, table, release)
    judged, seconds = with_gold(table, release.oracle, run.gold), {n: c["seconds"] for n, c in run.cards.items()}
    made = evaluate.report(release, runs, judged, run.gold is not None, chosen.name if chosen else None, seconds)
    text = evaluate.told(made, judged) + (f"\nchosen on validation: {chosen}" if chosen else "")
    (run.output / "table.txt").write_text(text + "\n", "utf-8")
    if run.cards:  # else it is somebody's model that is evaluated, perhaps where its own card stands
        write(run.output / "run.json", {name: {**card, "log": None} for name, card in run.cards.items()})
    evaluate.write_users(run.output, named, table, release, run.gold)
    evaluate.write_report(run.output, made)
    run.say("\n" + text)
    return made


def _answers(run: Run, name: str, model: str, settings: Settings) -> Answers:
    found = answers(_policy(run, model, settings), run.rows("grpo", "test"), progress=bar(f"{name} on test", "answer"))
    predictions.write(run.output / name / "answers-test.jsonl", found, run.release.items)
    return found


def _policy(run: Run, model: str, settings: Settings) -> PolicyModel:
    policy = load_policy(run, model, settings)
    if torch.cuda.is_available():
        policy.model.to("cuda")  # type: ignore[arg-type]  # only trainers move a model by themselves
    return policy


def load_policy(run: Run, model: str, settings: Settings, dtype: str = "auto") -> PolicyModel:
    """The model as these settings want it to answer: under masks or held to a trie, with so many prompts at once.

    dtype = of its weights, where model_init_kwargs does not say.
    """
    options = ours(settings)
    how = {"dtype": dtype} | (settings.get("model_init_kwargs") or {})
    policy = generate.load(model, how, options.chat_template_kwargs)
    policy = replace(policy, batch=options.batch, new_tokens=options.new_tokens, masked=options.mask)
    known = policy.catalogue
    if known and (known.k != run.release.k or set(known.tokens) != set(run.release.items)):
        raise TrainingError(f"model {model}: its item tokens are of another release: start again from the model before")
    if policy.catalogue is None and options.items == "trie":
        generate.close_thoughts(policy.tokenizer)
        return replace(policy, trie=trie.over(run.release, policy.tokenizer))
    return policy

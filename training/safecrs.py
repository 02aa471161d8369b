"""python -m training.safecrs sft | gdpo | evaluate | run: Safe-SFT and Safe-GDPO on a release, and their worth."""

import argparse
import errno
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from saferec_builder.core.errors import SafeRecError, TrainingError
from training.hub import folder, is_name

ELSEWHERE, ROOM = "name another folder", "make room and run it again: it goes on with what is missing"
REFUSALS = dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST), ELSEWHERE)
REFUSALS |= dict.fromkeys((errno.ENOSPC, errno.EDQUOT), ROOM)


def parser() -> argparse.ArgumentParser:
    """The command line; nothing heavy is imported to show it."""
    whole = argparse.ArgumentParser(prog="python -m training.safecrs", description=__doc__.split(": ", 1)[1])
    verbs = whole.add_subparsers(dest="verb", required=True, metavar="sft|gdpo|evaluate|run")
    where = "folder that `saferec-build release` wrote, or a version of it on the Hub"
    beside = "; what an untrained model with item tokens needs is made beside it, in `start`"
    output = ("folder for models and report.json", f"new folder for the model, or one to go on with{beside}")
    for verb, what in (
        ("sft", "fine-tune on a release's lists: safe ones, or with --config sft_raw what people took up"),
        ("gdpo", "go on from a Safe-SFT model with three rewards: relevance, safety, count"),
        ("run", "sft without safety, Safe-SFT, Safe-GDPO, all evaluated on the test split"),
        ("evaluate", "score a model, or a file of answers, on the test split"),
    ):
        one = verbs.add_parser(verb, help=what, description=what)
        one.add_argument("--release", required=True, metavar="DIR|NS/NAME@VERSION", help=where)
        one.add_argument("--output", type=Path, required=True, metavar="DIR", help=output[verb in ("sft", "gdpo")])
        one.add_argument("--model", metavar="tiny|NAME|PATH", help="`tiny` is made from the release and needs no GPU")
        one.add_argument("--seed", type=seed, default=0)
        _settings(one, verb)
        if verb in ("run", "evaluate"):
            one.add_argument("--gold", metavar="FILE", help="what is true, where a generator knows it (JSONL)")
        if verb == "evaluate":
            answers = (
                'JSONL of {"id", "text" | "items"}, instead of --model; the first is what others are compared with'
            )
            one.add_argument("--predictions", metavar="FILE", nargs="+", help=answers)
            server = "ask --model NAME of an OpenAI-compatible server, for example http://localhost:8000/v1"
            one.add_argument("--server", metavar="URL", help=server)
            remote = "the requests may be sent to a --server that is not this machine"
            one.add_argument("--allow-remote", action="store_true", help=remote)
            one.add_argument("--compat", choices=["safecrs"], help="also the figures as that paper defines them")
    return whole


def _settings(one: argparse.ArgumentParser, verb: str) -> None:
    change = "change one setting, for example learning_rate=1e-4 or saferec.lora=16"
    if verb == "run":
        for stage in ("sft-raw", "sft", "gdpo"):
            one.add_argument(f"--{stage}", default=stage.replace("-", "_"), metavar="CONFIG", help=f"config of {stage}")
        change = "as above, after sft_raw. / sft. / gdpo., or for both SFTs after both.: both.num_train_epochs=2"
    else:
        default = "gdpo" if verb == "gdpo" else "sft"
        one.add_argument(
            "--config", default=default, metavar="CONFIG", help="a YAML file, or a name in training/configs"
        )
    if verb in ("gdpo", "run"):
        modes = "normalise each reward, or their sum, or relevance only where the answer is safe (default gdpo)"
        one.add_argument("--mode", choices=["gdpo", "grpo", "conditioned"], help=modes)
        credit = "one advantage for an answer, or one for each of its ranks (default: the config's; gdpo.yaml: rank)"
        one.add_argument("--credit", choices=["sequence", "rank"], help=credit)
    if verb != "evaluate":
        items = "how a model other than tiny answers: as text, one token an item, or text held to the catalogue's names"
    else:
        items = "whether the text of a model is held to the catalogue's names"
    choices = ["text", "trie"] if verb == "evaluate" else ["text", "tokens", "trie"]
    one.add_argument("--items", choices=choices, help=f"{items} (default text)")
    one.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="changes", help=change)


def seed(word: str) -> int:
    """What numpy takes for one; argparse tells whoever gives another what was wrong with it."""
    number = int(word)
    if not 0 <= number < 2**32:
        raise argparse.ArgumentTypeError(f"{word}: wanted a whole number from 0 to {2**32 - 1}")
    return number


def main(words: Sequence[str] | None = None) -> int:
    """0 done; 1 the person's mistake, or a machine that refuses, in one line; 2 usage; 130 Ctrl-C."""
    given = parser().parse_args(words)
    quiet(given.model, given.release)
    try:
        VERBS[given.verb](given)
    except SafeRecError as fault:
        print(f"error: {fault}", file=sys.stderr)
        return 1
    except OSError as fault:
        if fault.errno not in REFUSALS or fault.filename is None:
            raise
        print(f"error: {fault.filename}: {fault.strerror}: {REFUSALS[fault.errno]}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def quiet(model: str | None, release: str) -> None:
    """No telemetry, no thread storms, no progress bars; and no look at the Hub for what lies here."""
    os.environ |= {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1"}
    # TRL 1.16 asks transformers 5.23 by an older name: nothing that whoever trains could do about it
    warnings.filterwarnings("ignore", ".is_gradient_checkpointing. is deprecated", FutureWarning)
    os.environ |= {"HF_DATASETS_DISABLE_PROGRESS_BARS": "1", "TRL_EXPERIMENTAL_SILENCE": "1"}
    if (model is None or model == "tiny" or Path(model).exists()) and not is_name(release):
        os.environ["HF_HUB_OFFLINE"] = "1"


def _one(given: argparse.Namespace) -> None:
    from training import pipeline as line, settings

    run = _run(given)
    found = settings.read(given.config, [*given.changes, *_said(given)])
    train = line.train_sft if given.verb == "sft" else line.train_gdpo
    train(run, given.output.resolve().name, line.start(run, _model(given), found), found)


def _said(given: argparse.Namespace, names: Sequence[str] = ("mode", "credit", "items")) -> list[str]:
    """The flags that are settings, as --set would say them."""
    return [f"saferec.{name}={value}" for name in names if (value := getattr(given, name, None))]


def _whole(given: argparse.Namespace) -> None:
    from training import pipeline as line, settings

    files = {"sft_raw": given.sft_raw, "sft": given.sft, "gdpo": given.gdpo}
    changes: dict[str, list[str]] = {name: [] for name in files}
    for change in given.changes:
        place, dot, rest = change.partition(".")
        if not dot or place not in (*files, "both"):
            raise TrainingError(
                f"--set {change}: wanted it after {', '.join(files)} or both, as in sft.learning_rate=1e-3"
            )
        for name in ("sft_raw", "sft") if place == "both" else (place,):
            changes[name].append(rest)
    for name in files:
        changes[name] += _said(given, ("items",))
    changes["gdpo"] += _said(given)
    found = [settings.read(files[name], changes[name]) for name in files]
    for name, settled in zip(("sft_raw", "sft"), found, strict=False):
        if (rows := settled["saferec"]["rows"]) != name:  # what our own configs say, and another may leave out
            raise TrainingError(
                f"{files[name]}: {name} would learn the rows {rows}: wanted `rows: {name}` under saferec"
            )
    for name in ("num_train_epochs", "max_steps"):
        if found[0].get(name) != found[1].get(name):
            raise TrainingError(f"sft_raw and sft have different {name}: a comparison wants them equal")
    line.whole(_run(given), _model(given), *found)


def _evaluate(given: argparse.Namespace) -> None:
    from training import settings
    from training.evaluation import evaluate

    if (given.model is None) == (given.predictions is None):
        raise TrainingError("evaluate: wanted either --model or --predictions")
    if given.server and given.model is None:
        raise TrainingError("evaluate: --server answers as --model NAME: wanted it instead of --predictions")
    if given.predictions or given.server:
        if given.changes or given.items or given.config != "sft":
            raise TrainingError("evaluate: --config, --set and --items are about a --model here: leave them out")
        home, compat = folder(given.release), given.compat is not None
        files = given.predictions or [_asked(given, home)]
        evaluate.evaluate(home, files, given.output, gold=given.gold, compat=compat)
        return
    from training import pipeline as line

    found = settings.read(given.config, [*given.changes, *_said(given)])
    line.report(_run(given), {"model": given.model}, None, found, given.compat is not None)


def _asked(given: argparse.Namespace, home: Path) -> Path:
    """The predictions file of a model behind a server."""
    from training import data, server, settings

    release = data.open_release(home)
    table = data.asked(data.rows(home, "grpo", "test"), release)
    server.consented(given.server, len(table), given.allow_remote)
    name = "".join(c if c.isalnum() or c in "-._@" else "-" for c in f"{given.model}@{urlsplit(given.server).netloc}")
    # what the letters above no longer tell apart, and what was asked: another release may ask otherwise under one id
    asked = [[row["conversation"], server.messages(row, release.k)] for row in table]
    path: Path = given.output / f"{name}-{settings.key(given.server, given.model, asked)[:6]}.jsonl"
    server.ask(given.server, given.model, table, release.k, path)
    return path


def _run(given: argparse.Namespace):  # type: ignore[no-untyped-def]
    """What the stages share; the packages that training needs are looked for first."""
    from importlib.util import find_spec

    missing = [name for name in ("torch", "transformers", "trl", "datasets") if find_spec(name) is None]
    if missing:
        raise TrainingError(f"training needs {missing[0]}: pip install 'saferec-builder[train]'")
    from training.data import open_release, read_gold
    from training.stages import Run

    _one_process_a_gpu(given.verb)
    release = open_release(folder(given.release))
    gold = read_gold(given.gold, release) if getattr(given, "gold", None) else None
    _calm(given.model)
    output = given.output if given.verb in ("run", "evaluate") else given.output.resolve().parent
    return Run(release, output, given.seed, gold)


def _one_process_a_gpu(verb: str) -> None:
    """Else the trainer would split each batch over all GPUs in threads, which our losses do not bear."""
    import torch

    many = torch.cuda.device_count()
    if verb != "evaluate" and many > 1 and int(os.environ.get("WORLD_SIZE", "1")) == 1:
        raise TrainingError(
            f"{many} GPUs and one process: start with `torchrun --nproc_per_node {many} -m training.safecrs ...`,"
            " or take one with CUDA_VISIBLE_DEVICES=0"
        )


def _calm(model: str | None) -> None:
    import torch
    import transformers

    from training.decoding.constrained import FILE

    transformers.utils.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    if model and (model == "tiny" or (Path(model) / FILE).is_file()) and not torch.cuda.is_available():
        torch.set_num_threads(1)  # so small a model loses by a second one


def _model(given: argparse.Namespace) -> str:
    if given.model is None:
        raise TrainingError(f"{given.verb}: --model is missing: wanted tiny, a folder or a name")
    return str(given.model)


VERBS = {"sft": _one, "gdpo": _one, "run": _whole, "evaluate": _evaluate}

if __name__ == "__main__":
    sys.exit(main())
